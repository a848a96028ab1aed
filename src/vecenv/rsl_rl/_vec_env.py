"""A vector env of vecenv as rsl_rl's `VecEnv`."""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode

from vecenv._front.device import DeviceVectorEnv
from vecenv._front.faces import check_mode
from vecenv._util.extras import load_client
from vecenv.errors import ConfigError, UnsupportedError

_Base: Any = load_client("rsl_rl.env", "rsl-rl-lib", "5.").VecEnv
_TensorDict: Any = load_client("tensordict", "tensordict", "0.").TensorDict


class VecEnv(_Base):
    """Envs for rsl_rl's runners.

    Observations are float32 tensors: the group "policy", or one group for each key of a Dict. `extras["time_outs"]`
    marks episodes that were truncated and not terminated, after which rsl_rl continues with the value of the state.
    Envs on a device (`vecenv.make(..., device="cuda:0")`) take and return tensors there: nothing is copied to the host.

    Args:
        envs: of `vecenv.make` or a wrapper around it, with autoreset="same-step" and one-dimensional Box actions.
        device: of the tensors; default: that of envs on a device, else "cpu".
        seed: of the first reset, which happens when observations are first asked for.
        max_episode_length: default: the time limit of the envs.

    Raises:
        ConfigError: the envs have another autoreset mode, there is no time limit, or the envs are on another device.
        UnsupportedError: the actions are no vectors of floats, or observations are neither a Box nor a Dict.
    """

    def __init__(
        self,
        envs: Any,
        device: str | torch.device | None = None,
        *,
        seed: int | None = None,
        max_episode_length: int | None = None,
    ) -> None:
        check_mode(envs, AutoresetMode.SAME_STEP, "rsl_rl")
        actions, observations = envs.single_action_space, envs.single_observation_space
        if not isinstance(actions, gymnasium.spaces.Box) or len(actions.shape) != 1:
            raise UnsupportedError(f"rsl_rl's policies act with a vector of floats, and these envs have {actions}")
        if not isinstance(observations, (gymnasium.spaces.Box, gymnasium.spaces.Dict)):
            raise UnsupportedError(f"rsl_rl needs a Box or a Dict of them as observations, not {observations}")
        limit = max_episode_length or getattr(envs.spec, "max_episode_steps", None)
        if limit is None:
            raise ConfigError("rsl_rl wants to know how long an episode may be: pass max_episode_length=")
        self.envs, self.device = envs, _device(envs, device)
        self._gives_tensors = isinstance(envs, DeviceVectorEnv)
        self._action_dtype = torch.from_numpy(envs.action_space.sample()).dtype
        self.num_envs, self.num_actions, self.max_episode_length = envs.num_envs, actions.shape[0], limit
        self.cfg = {
            "env": str(envs.spec and envs.spec.id),
            "num_envs": envs.num_envs,
            "engine": envs.unwrapped.engine.name,
        }
        self._seed, self._obs = seed, None

    @property
    def unwrapped(self) -> Any:
        """The vector env inside."""
        return self.envs.unwrapped

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps so far of each episode."""
        return torch.as_tensor(self.envs.episode_length, device=self.device)

    @episode_length_buf.setter
    def episode_length_buf(self, lengths: torch.Tensor) -> None:
        raise UnsupportedError(
            "the envs count their own steps, which cannot be set: call learn(..., init_at_random_ep_len=False)"
        )

    def get_observations(self) -> Any:
        """The latest observations, as a TensorDict of groups."""
        if self._obs is None:
            self._obs = self._groups(self.envs.reset(seed=self._seed)[0])
        return self._obs

    def reset(self) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes in all envs."""
        self._obs = self._groups(self.envs.reset()[0])
        return self._obs, {}

    def step(self, actions: torch.Tensor) -> tuple[Any, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Observations, rewards, dones and extras."""
        given = actions.detach()
        given = given.to(self._action_dtype) if self._gives_tensors else given.cpu().numpy()
        obs, reward, terminated, truncated, _ = self.envs.step(given)
        self._obs = self._groups(obs)
        extras = {"time_outs": self._tensor(truncated & ~terminated), "log": {}}
        return self._obs, self._tensor(reward, torch.float32), self._tensor(terminated | truncated), extras

    def close(self) -> None:
        """Close the envs."""
        self.envs.close()

    def _groups(self, obs: Any) -> Any:
        groups = obs if isinstance(obs, dict) else {"policy": obs}
        tensors = {name: self._tensor(values, torch.float32) for name, values in groups.items()}
        return _TensorDict(tensors, batch_size=[self.num_envs], device=self.device)

    def _tensor(self, values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.as_tensor(values, dtype=dtype, device=self.device)


def _device(envs: Any, asked: str | torch.device | None) -> str:
    """The device of the tensors. Raises ConfigError if that of the envs is another one."""
    if not isinstance(envs, DeviceVectorEnv):
        return "cpu" if asked is None else str(asked)
    wanted = envs.device if asked is None else torch.device(asked)
    if wanted.type != envs.device.type or wanted.index not in (None, envs.device.index):
        raise ConfigError(f"these envs are on {envs.device}; pass device={str(envs.device)!r}, or leave device out")
    return str(envs.device)
