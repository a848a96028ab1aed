"""A wrapper that reports where a NaN or an infinity came from."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv._batch.finite import all_finite
from vecenv.sb3.base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper, registered


@registered
class VecCheckNan(VecEnvWrapper):
    """Looks for NaN and infinity in actions, observations and rewards, and says whether model or env made it.

    Args:
        venv: to be wrapped; its action space is not a Dict.
        raise_exception: raise ValueError instead of a warning.
        warn_once: stop looking after the first warning.
        check_inf: look for infinities too.
    """

    def __init__(
        self, venv: VecEnv, raise_exception: bool = False, warn_once: bool = True, check_inf: bool = True
    ) -> None:
        if isinstance(venv.action_space, spaces.Dict):
            raise NotImplementedError("VecCheckNan doesn't support dict action spaces")
        super().__init__(venv)
        self.raise_exception = raise_exception
        self.warn_once = warn_once
        self.check_inf = check_inf
        self._user_warned = False
        self._actions: Any = None
        self._observations: VecEnvObs | None = None

    def step_async(self, actions: Any) -> None:
        """Check the actions, start a step."""
        self._check("RL model", ("observations", self._observations), actions=actions)
        self._actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step and check its results."""
        observations, rewards, dones, infos = self.venv.step_wait()
        self._check("environment", ("action", self._actions), observations=observations, rewards=rewards, dones=dones)
        self._observations = observations
        return observations, rewards, dones, infos

    def reset(self) -> VecEnvObs:
        """Begin an episode in every env, check the observations."""
        observations = self.venv.reset()
        self._check("environment observation (at reset)", None, observations=observations)
        self._observations = observations
        return observations

    def check_array_value(self, name: str, value: np.ndarray) -> list[tuple[str, str]]:
        """What is wrong with an array: pairs of `name` and "inf" or "nan"."""
        value = np.asarray(value)
        if value.dtype.kind in "biu" or all_finite(value):
            return []
        found = []
        if self.check_inf and np.isinf(value).any():
            found.append((name, "inf"))
        if np.isnan(value).any():
            found.append((name, "nan"))
        return found

    def _check(self, origin: str, last: tuple[str, Any] | None, **values: Any) -> None:
        if self._user_warned and self.warn_once and not self.raise_exception:
            return
        found = [
            problem
            for name, value in values.items()
            for part, array in _parts(name, value)
            for problem in self.check_array_value(part, array)
        ]
        if not found:
            return
        self._user_warned = True
        message = ", ".join(f"found {kind} in {name}" for name, kind in found) + f".\r\nOriginated from the {origin}"
        if last is not None:
            message += f", Last given value was: \r\n\t{last[0]}={last[1]}"
        if self.raise_exception:
            raise ValueError(message)
        warnings.warn(message, UserWarning, stacklevel=3)


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """The arrays of a value, with names."""
    if isinstance(value, (np.ndarray, list)):
        return [(name, value)]
    if isinstance(value, dict):
        return [(f"{name}.{key}", part) for key, part in value.items()]
    if isinstance(value, tuple):
        return [(f"{name}.{index}", part) for index, part in enumerate(value)]
    raise TypeError(f"Unsupported observation type {type(value)}.")
