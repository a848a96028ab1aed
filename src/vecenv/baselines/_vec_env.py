"""The abstract `VecEnv`, its errors and wrappers, and the wrapper of what is pickled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import cloudpickle
import numpy as np
from gymnasium import Space

from vecenv.errors import NothingPendingError, PendingError, UnsupportedError
from vecenv.wrappers._video import tile


class AlreadySteppingError(PendingError):
    """`step_async` while a step is running."""

    def __init__(
        self, message: str = "already running an async step; call step_wait() first", name: str = "step"
    ) -> None:
        super().__init__(message, name)


class NotSteppingError(NothingPendingError):
    """`step_wait` while no step is running."""

    def __init__(self, message: str = "not running an async step; call step_async() first", name: str = "step") -> None:
        super().__init__(message, name)


class VecEnv(ABC):
    """Several envs with the same spaces, stepped together.

    Args:
        num_envs: number of envs.
        observation_space: space of a single env.
        action_space: space of a single env.
    """

    closed = False
    viewer: Any = None
    metadata: dict[str, Any] = {"render.modes": ["human", "rgb_array"]}  # noqa: RUF012  # replaced, never changed

    def __init__(self, num_envs: int, observation_space: Space[Any], action_space: Space[Any]) -> None:
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space

    @abstractmethod
    def reset(self) -> Any:
        """Begin an episode in every env and return the batched observations. A running step is discarded."""

    @abstractmethod
    def step_async(self, actions: Any) -> None:
        """Start a step with one action per env.

        Raises:
            AlreadySteppingError: a step is running.
        """

    @abstractmethod
    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Wait for the step.

        Returns:
            Batched observations, float32 rewards, bool dones and one info dict per env.

        Raises:
            NotSteppingError: no step is running.
        """

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """`step_async` and `step_wait`."""
        self.step_async(actions)
        return self.step_wait()

    def close(self) -> None:
        """Close the viewer and the envs. May be called twice."""
        if self.closed:
            return
        if self.viewer is not None:
            self.viewer.close()
        self.close_extras()
        self.closed = True

    def close_extras(self) -> None:  # noqa: B027  # a subclass with nothing to close need not override it
        """Close the envs; called once, by `close`."""

    def render(self, mode: str = "human") -> Any:
        """All envs as one picture: returned if `mode` is "rgb_array", shown by the viewer if it is "human"."""
        if mode not in ("human", "rgb_array"):
            raise UnsupportedError(f"render(mode={mode!r}); use 'human' or 'rgb_array'")
        picture = tile(self.get_images())
        if mode == "rgb_array":
            return picture
        viewer = self.get_viewer()
        viewer.imshow(picture)
        return viewer.isopen

    def get_images(self) -> list[np.ndarray]:
        """One RGB image per env."""
        raise UnsupportedError(f"{type(self).__name__} has no images")

    def get_viewer(self) -> Any:
        """`self.viewer`, anything with `imshow(image)`, `isopen` and `close()`."""
        if self.viewer is None:
            raise UnsupportedError("there is no window to render to; set `viewer`, or use render('rgb_array')")
        return self.viewer

    @property
    def unwrapped(self) -> VecEnv:
        """The innermost vector env."""
        return self


class VecEnvWrapper(VecEnv):
    """A VecEnv around another one, to override parts of it. Missing public attributes are read from the inner one."""

    def __init__(
        self, venv: VecEnv, observation_space: Space[Any] | None = None, action_space: Space[Any] | None = None
    ) -> None:
        self.venv = venv
        super().__init__(
            venv.num_envs,
            venv.observation_space if observation_space is None else observation_space,
            venv.action_space if action_space is None else action_space,
        )

    def step_async(self, actions: Any) -> None:
        self.venv.step_async(actions)

    def close(self) -> None:
        self.venv.close()
        self.closed = True

    def render(self, mode: str = "human") -> Any:
        return self.venv.render(mode)

    def get_images(self) -> list[np.ndarray]:
        return self.venv.get_images()

    @property
    def unwrapped(self) -> VecEnv:
        return self.venv.unwrapped

    def __getattr__(self, name: str) -> Any:
        # Users of Baselines' wrappers rely on this forwarding. "venv" is missing only before __init__ ran.
        if name.startswith("_") or name == "venv":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.venv, name)


class VecEnvObservationWrapper(VecEnvWrapper):
    """A wrapper that changes batched observations: override `process`."""

    @abstractmethod
    def process(self, obs: Any) -> Any:
        """The observations to return instead of `obs`."""

    def reset(self) -> Any:
        return self.process(self.venv.reset())

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        obs, rewards, dones, infos = self.venv.step_wait()
        return self.process(obs), rewards, dones, infos


class CloudpickleWrapper:
    """Holds `x` and is pickled with cloudpickle, so that lambdas and local classes reach other processes."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getstate__(self) -> bytes:
        return cloudpickle.dumps(self.x)

    def __setstate__(self, state: bytes) -> None:
        self.x = cloudpickle.loads(state)
