"""Python engines by name."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from vecenv._batch.faults import OnError
from vecenv.engines import Engine
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.sync import SyncEngine


def build_engine(
    name: str,
    env_fns: Sequence[Factory] | bytes,
    *,
    workers: int,
    observation_mode: Any,
    on_error: OnError,
    ordered: bool = False,
    context: Any = None,
    caller_works: bool = False,
    start_timeout: float,
    origin: int = 0,
) -> Engine:
    """The sync, thread or process engine over these envs, or over their pickled factories."""
    if isinstance(env_fns, bytes):
        env_fns = pickle.loads(env_fns)
        assert not isinstance(env_fns, bytes)
    if name == "sync":
        return SyncEngine(env_fns, observation_mode=observation_mode, on_error=on_error, origin=origin)
    if name == "thread":
        from vecenv.engines.python.thread import ThreadEngine

        return ThreadEngine(
            env_fns,
            workers=workers,
            observation_mode=observation_mode,
            on_error=on_error,
            ordered=ordered,
            origin=origin,
        )
    from vecenv.engines.process.engine import ProcessEngine

    return ProcessEngine(
        env_fns,
        workers=workers,
        context=context,
        observation_mode=observation_mode,
        on_error=on_error,
        ordered=ordered,
        caller_works=caller_works,
        start_timeout=start_timeout,
        origin=origin,
    )
