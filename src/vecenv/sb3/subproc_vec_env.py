"""Envs in worker processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from vecenv._make.make import make
from vecenv.sb3._front import FrontVecEnv
from vecenv.sb3._served import ServedFactory
from vecenv.sb3.base_vec_env import registered


@registered
class SubprocVecEnv(FrontVecEnv):
    """Envs in as many worker processes as there are processors, with observations and action masks in shared memory.

    Unlike in Stable-Baselines3 actions and observations are checked, infos are a list, an error names the env that
    raised it and has its type, and scripts need no `if __name__ == "__main__"`.

    Args:
        env_fns: functions that create the environments.
        start_method: of the processes; None is "forkserver" where there is one, else "spawn".
        workers: number of processes; default: the processors there are, at most one per env.
        check_finite: as for `vecenv.make`; Stable-Baselines3 does not check.

    Raises:
        ValueError: there is no such start method.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]],
        start_method: str | None = None,
        *,
        workers: int | None = None,
        check_finite: Any = "off",
    ) -> None:
        if start_method is not None:
            multiprocessing.get_context(start_method)  # raises the ValueError that is expected
        factories = [ServedFactory(function) for function in env_fns]
        asked: Any = {"autoreset": "same-step", "context": start_method, "check_finite": check_finite}
        envs = make(factories, engine="process", workers=workers, **asked)
        try:
            super().__init__(envs)
        except BaseException:
            envs.close()
            raise

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        engine: Any = self._inner.engine
        return engine.processes
