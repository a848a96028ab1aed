"""`gymnasium.vector.SyncVectorEnv` on the sync engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from vecenv._front.autoreset import parse_mode
from vecenv._make.decorate import decorate
from vecenv.engines.python.sync import SyncEngine
from vecenv.gymnasium._face import GymnasiumFace, named


class SyncVectorEnv(GymnasiumFace, gymnasium.vector.VectorEnv):  # pyright: ignore[reportIncompatibleMethodOverride]  # np_random
    """All envs in this process.

    Args:
        env_fns: functions that create the environments.
        copy: whether observations are copied, or views that the next step overwrites.
        observation_mode: "same", "different" or a pair of (batched space, single space).
        autoreset_mode: what happens when an episode ends.
        check_finite: as in `vecenv.make`; Gymnasium has no such check.
    """

    def __init__(
        self,
        env_fns: Iterable[Callable[[], gymnasium.Env[Any, Any]]],
        copy: bool = True,
        observation_mode: Any = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        *,
        check_finite: Any = "off",
    ) -> None:
        self.env_fns = list(env_fns)
        self.observation_mode = observation_mode
        with named(type(self).__name__):
            engine = SyncEngine(self.env_fns, observation_mode=observation_mode)
        self.envs = engine.envs
        mode = parse_mode(autoreset_mode)
        decorated = decorate(engine, mode, check_finite)
        super().__init__(decorated, autoreset=mode, copy=copy, engine_reason="SyncVectorEnv")
