"""Images with channels first, as PyTorch expects them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv.sb3.base_vec_env import ObservationWrapper, VecEnv, registered
from vecenv.sb3.util import is_channels_first
from vecenv.wrappers._observations import is_image


@registered
class VecTransposeImage(ObservationWrapper):
    """Images as [channels, height, width] instead of [height, width, channels].

    Results are views of the inner env's observations. Around `VecFrameStack`, whose stacks lie in memory with the
    channels first, it is contiguous.

    Args:
        venv: to be wrapped; observations are an image, or a Dict whose images are transposed.
        skip: do nothing.
    """

    def __init__(self, venv: VecEnv, skip: bool = False) -> None:
        space = venv.observation_space
        assert is_image(space) or isinstance(space, spaces.Dict), (
            "The observation space must be an image or dictionary observation space"
        )
        self.skip = skip
        self.image_space_keys: list[str] = []
        if not skip and isinstance(space, spaces.Dict):
            self.image_space_keys = [key for key, part in space.spaces.items() if is_image(part)]
        super().__init__(venv, observation_space=space if skip else self._transpose(space))

    def _transpose(self, space: Space[Any]) -> Space[Any]:
        if not isinstance(space, spaces.Dict):
            assert isinstance(space, spaces.Box)
            return self.transpose_space(space)
        parts: dict[str, Any] = dict(space.spaces)
        parts |= {key: self.transpose_space(parts[key], key) for key in self.image_space_keys}
        return spaces.Dict(parts)

    @staticmethod
    def transpose_space(observation_space: spaces.Box, key: str = "") -> spaces.Box:
        """The space of the transposed image. `key` is for the message if the channels are first already."""
        assert is_image(observation_space), "The observation space must be an image"
        assert not is_channels_first(observation_space), (
            f"The observation space {key} must follow the channel last convention"
        )
        height, width, channels = observation_space.shape
        return spaces.Box(0, 255, (channels, height, width), np.uint8)

    @staticmethod
    def transpose_image(image: np.ndarray) -> np.ndarray:
        """A view of an image, or of a batch of images, with the channels before height and width."""
        return np.moveaxis(image, -1, -3)

    def transformed(self, obs: Any) -> Any:
        return self.transpose_observations(obs)

    def transpose_observations(self, observations: Any) -> Any:
        """Observations with their images transposed; the given ones stay as they are."""
        if self.skip:
            return observations
        if not isinstance(observations, dict):
            return self.transpose_image(observations)
        return observations | {key: self.transpose_image(observations[key]) for key in self.image_space_keys}
