"""The engine in a restarted actor reports lost episodes, whichever engine it has inside. Needs no Ray."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

import vecenv
from vecenv._batch.faults import Fault
from vecenv.engines import Op
from vecenv.engines.ray.actor import LastSeen, RestartedEngine, Seen

COUNT = 3


def built(engine: str) -> vecenv.VectorEnv:
    """CartPoles; whoever holds them holds their engine open."""
    env: Any = "CartPole-v1" if engine == "compiled" else [partial(gymnasium.make, "CartPole-v1")] * COUNT
    return vecenv.make(env, COUNT, engine=engine, check_finite="off")


def run(engine: Any, op: Op) -> Any:
    """Run an op of all rows; their batch."""
    engine.batch.op[:] = op
    engine.send(np.arange(COUNT))
    engine.recv(COUNT)
    return engine.batch


@pytest.mark.parametrize("engine", ["sync", "thread", "compiled"])
def test_totals_of_a_lost_episode_are_shown_once_and_then_begin_at_zero(engine: str) -> None:
    before, after = built(engine), built(engine)
    before.engine.batch.seed[:] = range(COUNT)
    run(before.engine, Op.RESET)
    for _ in range(4):
        run(before.engine, Op.ROLL)
    seen = Seen.of(before.engine.batch)
    seen.kept["truncated"][1] = True  # the last step ended an episode, and the next one is lost before its first step
    restarted = RestartedEngine(after.engine, LastSeen(Fault.of(RuntimeError("lost"), "step"), seen), 0)
    batch = run(restarted, Op.ROLL)
    assert batch.truncated.all()
    assert batch.episode_length.tolist() == batch.episode_return.tolist() == [4, 0, 4]
    batch = run(restarted, Op.ROLL)
    assert not batch.truncated.any()
    assert batch.episode_length.tolist() == batch.episode_return.tolist() == [1, 1, 1]
    before.close()
    after.close()
