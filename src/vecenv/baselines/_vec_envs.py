"""Baselines' three vector envs, on vecenv's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
from gymnasium import Space

from vecenv._front.faces import check_given_spaces, transition_dicts
from vecenv._make.make import make
from vecenv.baselines._vec_env import AlreadySteppingError, NotSteppingError, VecEnv
from vecenv.errors import ConfigError

if TYPE_CHECKING:
    from vecenv.engines.python.sync import SyncEngine

_EnvFns = Sequence[Callable[[], gymnasium.Env[Any, Any]]]
_Spaces = tuple[Space[Any] | None, Space[Any] | None]


class _FrontVecEnv(VecEnv):
    """A VecEnv on one of vecenv's vector envs."""

    def __init__(self, env_fns: _EnvFns, spaces: _Spaces | None = None, **options: Any) -> None:
        front = make(list(env_fns), autoreset="same-step", **options)
        check_given_spaces(front, *(spaces or (None, None)))
        super().__init__(front.num_envs, front.single_observation_space, front.single_action_space)
        self._front = front
        self.waiting = False

    def reset(self) -> Any:
        if self.waiting:
            self.step_wait()
        return self._front.reset()[0]

    def step_async(self, actions: Any) -> None:
        if self.waiting:
            raise AlreadySteppingError
        self._front.send(actions)
        self.waiting = True

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        if not self.waiting:
            raise NotSteppingError
        self.waiting = False
        step, infos, final_infos = self._front._recv_dicts()
        return step.obs, step.reward.astype(np.float32), step.done, transition_dicts(step, infos, final_infos)

    def get_images(self) -> list[np.ndarray]:
        return list(self._front.render() or ())

    def close_extras(self) -> None:
        self._front.close()


class DummyVecEnv(_FrontVecEnv):
    """All envs in this process. With one env, its action need not be in a list.

    Args:
        env_fns: functions that create the environments.
        check_finite: as in `vecenv.make`; Baselines has no such check.
    """

    def __init__(self, env_fns: _EnvFns, *, check_finite: Any = "off") -> None:
        super().__init__(env_fns, engine="sync", check_finite=check_finite)
        self.envs = cast("SyncEngine", self._front.engine).envs

    def step_async(self, actions: Any) -> None:
        alone = self.num_envs == 1 and np.shape(actions) == self.action_space.shape
        super().step_async([actions] if alone else actions)


class SubprocVecEnv(_FrontVecEnv):
    """Envs in worker processes, `in_series` of them in each.

    Args:
        env_fns: functions that create the environments.
        spaces: (observation_space, action_space) of a single env; None: as the envs have them. Others are an error.
        context: start method of the processes.
        in_series: number of envs per process; the number of envs must be a multiple of it.
        check_finite: as in `vecenv.make`; Baselines has no such check.
    """

    def __init__(
        self,
        env_fns: _EnvFns,
        spaces: _Spaces | None = None,
        context: Any = "spawn",
        in_series: int = 1,
        *,
        check_finite: Any = "off",
    ) -> None:
        count = len(env_fns)
        if in_series < 1 or count % in_series:
            raise ConfigError(f"in_series={in_series} must divide the number of envs, which is {count}")
        asked: Any = {"engine": "process", "context": context, "check_finite": check_finite}
        super().__init__(env_fns, spaces, workers=count // in_series, **asked)


class ShmemVecEnv(_FrontVecEnv):
    """Envs in as many worker processes as there are processors. All spaces and dtypes are supported.

    Args:
        env_fns: functions that create the environments.
        spaces: (observation_space, action_space) of a single env; None: as the envs have them. Others are an error.
        context: start method of the processes.
        check_finite: as in `vecenv.make`; Baselines has no such check.
    """

    def __init__(
        self,
        env_fns: _EnvFns,
        spaces: _Spaces | None = None,
        context: Any = "spawn",
        *,
        check_finite: Any = "off",
    ) -> None:
        super().__init__(env_fns, spaces, engine="process", context=context, check_finite=check_finite)
