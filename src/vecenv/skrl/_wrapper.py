"""A vector env on a device as an env of skrl."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode

from vecenv._front.device import DeviceVectorEnv
from vecenv._front.faces import check_mode
from vecenv._util.extras import load_client
from vecenv.errors import ConfigTypeError, UnsupportedError

_Base: Any = load_client("skrl.envs.wrappers.torch.base", "skrl", "2.").Wrapper
_spaces: Any = load_client("skrl.utils.spaces.torch", "skrl", "2.")

_ACTIONS = (gymnasium.spaces.Box, gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)


class Wrapper(_Base):
    """Envs on a device for skrl's trainers. Nothing is copied to the host: skrl's own wrapper copies actions there.

    Args:
        envs: of `vecenv.make(..., device=..., autoreset="same-step")`.
        seed: of the first reset.

    Raises:
        ConfigError: the envs have another autoreset mode.
        ConfigTypeError: they are not on a device.
        UnsupportedError: actions are a Dict or a Tuple.
    """

    def __init__(self, envs: Any, *, seed: int | None = None) -> None:
        check_mode(envs, AutoresetMode.SAME_STEP, "skrl")
        if not isinstance(envs, DeviceVectorEnv):
            raise ConfigTypeError(
                "these envs return NumPy's arrays: use skrl's own wrap_env(envs), or make them with device="
            )
        if not isinstance(envs.single_action_space, _ACTIONS):
            raise UnsupportedError(
                f"skrl's policies act with Box, Discrete or MultiDiscrete, not {envs.single_action_space}"
            )
        super().__init__(envs)
        self._device, self._seed, self._latest = envs.device, seed, None
        self._action_dtype = torch.from_numpy(envs.action_space.sample()).dtype

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Of one env."""
        return self._env.single_observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Of one env."""
        return self._env.single_action_space

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Begin the first episodes. Later calls return the latest observations: envs begin episodes by themselves."""
        if self._latest is None:
            obs, infos = self._env.reset(seed=self._seed)
            self._latest = self._flat(obs), infos
        return self._latest

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Observations, rewards, terminated, truncated and infos; all but infos have an axis of envs and one more."""
        given = actions.detach().reshape(self._env.action_space.shape).to(self._action_dtype)
        obs, reward, terminated, truncated, infos = self._env.step(given)
        self._latest = self._flat(obs), infos
        return self._latest[0], reward.float().view(-1, 1), terminated.view(-1, 1), truncated.view(-1, 1), infos

    def _flat(self, obs: Any) -> torch.Tensor:
        tensors = _spaces.tensorize_space(self.observation_space, obs, device=self.device)
        return _spaces.flatten_tensorized_space(tensors)

    def state(self) -> None:
        """None: envs have no state besides their observations."""

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Not on a device."""
        return self._env.render(*args, **kwargs)

    def close(self) -> None:
        """Close the envs."""
        self._env.close()
