"""Vector envs of vecenv as envs of TorchRL."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from vecenv._front.faces import check_mode
from vecenv._make.make import make
from vecenv._util.extras import load_client
from vecenv.agents import MultiAgentVectorEnv
from vecenv.errors import ConfigError, UnsupportedError
from vecenv.torchrl._agents import AgentsEnv

_GymWrapper: Any = load_client("torchrl.envs", "torchrl", "0.14.").GymWrapper
_TensorDict: Any = load_client("tensordict", "tensordict", "0.14.").TensorDict


def env(env: Any, *args: Any, device: Any = None, categorical_action_encoding: bool = False, **kwargs: Any) -> Any:
    """A TorchRL env with the batch size [num_envs]: `vecenv.make(env, ...)` with autoreset="disabled" in a GymWrapper.

    TorchRL resets the envs whose episode ended itself. Its rollouts and collectors give what they give with Gymnasium's
    SyncVectorEnv in that mode. With several agents it is an `AgentsEnv`, which has TorchRL's groups and masks.

    Args:
        env: what `vecenv.make` takes, or a vector env of `vecenv.make` with autoreset="disabled".
        *args: of `vecenv.make`: the number of envs.
        device: of the tensors.
        categorical_action_encoding: numbers instead of one-hot vectors for Discrete actions.
        **kwargs: of `vecenv.make`.

    Raises:
        ConfigError: another autoreset mode is asked for.
    """
    if kwargs.pop("autoreset", "disabled") not in ("disabled", AutoresetMode.DISABLED):
        raise ConfigError("TorchRL resets envs itself, which needs autoreset='disabled'; leave autoreset out")
    if isinstance(env, (gymnasium.vector.VectorEnv, MultiAgentVectorEnv)):
        check_mode(env.rows if isinstance(env, MultiAgentVectorEnv) else env, AutoresetMode.DISABLED, "TorchRL")
        envs: Any = env
    else:
        envs = make(env, *args, autoreset="disabled", **kwargs)
    if isinstance(envs, MultiAgentVectorEnv):
        return AgentsEnv(envs, device, categorical_action_encoding)
    return _GymWrapper(envs, device=device, categorical_action_encoding=categorical_action_encoding)


class AsyncEnv:
    """Envs that are stepped as they become ready, with the `async_` methods of TorchRL's `AsyncEnvPool`.

    `timeout` and `max_get` of those that receive are TorchRL's. There is no `env_index` to wait for one env: results
    are those of the envs that are ready first.

    Args:
        envs: of `vecenv.make`, with autoreset="same-step" and Box or Dict observations. `batch_size` is how many envs a
            call to `recv` waits for by default.
        device: of the tensors.
        categorical_action_encoding: numbers instead of one-hot vectors for Discrete actions.
    """

    def __init__(self, envs: Any, device: Any = None, *, categorical_action_encoding: bool = False) -> None:
        check_mode(envs, AutoresetMode.SAME_STEP, "vecenv.torchrl.AsyncEnv")
        if not isinstance(envs.single_observation_space, (gymnasium.spaces.Box, gymnasium.spaces.Dict)):
            raise UnsupportedError(f"observations must be a Box or a Dict of them, not {envs.single_observation_space}")
        self.envs, self.num_envs, self.device = envs, envs.num_envs, device
        self._specs = _GymWrapper(envs, device=device, categorical_action_encoding=categorical_action_encoding)
        self.action_spec, self.observation_spec = (
            self._specs.action_spec_unbatched,
            self._specs.observation_spec_unbatched,
        )
        self._sent: list[Any] = [None] * self.num_envs
        """Of each env: its observation and action, to be returned with what follows from them."""

    def async_reset_send(self, tensordict: Any = None, env_index: Any = None, *, seed: Any = None) -> None:
        """Start new episodes of all envs, or of those of `env_index` or `tensordict["env_index"]`."""
        some = tensordict is not None or env_index is not None
        self.envs.send_reset(_indices(tensordict, env_index) if some else None, seed=seed)

    def async_reset_recv(
        self, min_get: int | None = None, *, max_get: int | None = None, timeout: float | None = None
    ) -> Any:
        """First observations of the envs that are ready, named by "env_index"."""
        return self._root(self.envs.recv(min_get, max_get, timeout=timeout))

    def async_step_send(self, tensordict: Any, env_index: Any = None) -> None:
        """The same as `async_step_and_maybe_reset_send`: envs begin their next episode themselves."""
        self.async_step_and_maybe_reset_send(tensordict, env_index)

    def async_step_recv(
        self, min_get: int | None = None, *, max_get: int | None = None, timeout: float | None = None
    ) -> Any:
        """The transitions of `async_step_and_maybe_reset_recv` alone.

        To act where an episode ended, start a new one with `async_reset_send`, as with TorchRL's pool.
        """
        return self.async_step_and_maybe_reset_recv(min_get, max_get=max_get, timeout=timeout)[0]

    def async_step_and_maybe_reset_send(self, tensordict: Any, env_index: Any = None) -> None:
        """Start a step of the envs of `env_index`, or of `tensordict["env_index"]`, with `tensordict["action"]`."""
        index = _indices(tensordict, env_index)
        actions = self.action_spec.to_numpy(tensordict["action"], safe=False)
        for position, row in enumerate(index.tolist()):
            self._sent[row] = tensordict, position
        self.envs.send(actions, index)

    def async_step_and_maybe_reset_recv(
        self, min_get: int | None = None, *, max_get: int | None = None, timeout: float | None = None
    ) -> tuple[Any, Any]:
        """Of the envs that are ready: the transitions, and what to act on next.

        Returns:
            What was sent with "next", and first observations of new episodes where one ended, else those of "next".
        """
        step = self.envs.recv(min_get, max_get, timeout=timeout)
        flags = {"terminated": step.terminated, "truncated": step.truncated, "done": step.done}
        following = {**self._observations(step.next_obs), "reward": step.reward.astype(np.float32)[:, None]}
        following.update((name, values[:, None]) for name, values in flags.items())
        transitions = self._of_sent(step.env_ids)
        transitions.set("next", self._tensors(following, len(step.env_ids)))
        return transitions, self._root(step)

    def close(self) -> None:
        """Close the envs."""
        self.envs.close()

    def _root(self, step: Any) -> Any:
        none = np.zeros((len(step.env_ids), 1), np.bool_)
        flags = {"done": none, "terminated": none.copy(), "truncated": none.copy()}
        return self._tensors({**self._observations(step.obs), **flags, "env_index": step.env_ids}, len(step.env_ids))

    def _of_sent(self, env_ids: np.ndarray) -> Any:
        """What was sent for these envs, in their order."""
        sent = [self._sent[row] for row in env_ids.tolist()]
        first = sent[0][0]
        if all(tensordict is first for tensordict, _ in sent):
            positions = [position for _, position in sent]
            return first.clone(False) if positions == list(range(len(first))) else first[positions]
        return torch.stack([tensordict[position] for tensordict, position in sent])

    def _observations(self, obs: Any) -> dict[str, Any]:
        return {"observation": obs} if isinstance(obs, np.ndarray) else dict(obs)

    def _tensors(self, values: dict[str, Any], count: int) -> Any:
        tensors = {name: torch.from_numpy(np.ascontiguousarray(each)) for name, each in values.items()}
        made = _TensorDict(tensors, batch_size=[count])
        return made if self.device is None else made.to(self.device)


def _indices(tensordict: Any, env_index: Any) -> np.ndarray:
    return tensordict["env_index"].cpu().numpy() if env_index is None else np.atleast_1d(env_index)
