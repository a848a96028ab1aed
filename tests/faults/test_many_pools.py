"""Pools that are made, used and closed again and again leave nothing: memory, descriptors, threads, processes."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import fails, faulty
from vecenv.errors import WorkerDied
from vecenv.testing import FaultEnv
from vecenv.testing._soak_gauges import Gauges
from vecenv.testing._soak_report import Report, Sample

ENGINES = ("process", "process", "thread", "sync", "compiled")


def one_life(number: int) -> None:
    """Make a pool, step it, and close it: by hand, by `with`, by forgetting it, or after a death."""
    engine = ENGINES[number % len(ENGINES)]
    if number % 20 == 0:
        with faulty("process", "kill", at=1) as envs:
            envs.reset(seed=number)
            fails(envs, 1, WorkerDied)
        return
    options: dict[str, Any] = {} if engine in ("sync", "compiled") else {"workers": 2}
    if engine == "process":
        options["context"] = "fork"
    made: Any = "CartPole-v1" if engine == "compiled" else FaultEnv.many(4)
    envs = vecenv.make(made, 4, engine=engine, **options)
    obs, _ = envs.reset(seed=number)
    envs.step(np.ones(4, np.int64))
    assert len(obs) == 4
    if number % 3:
        envs.close()
    del envs


def live(count: int, every: int = 20) -> Report:
    """Many lives, and now and then a sample, when all that was forgotten is collected."""
    report = Report({"pools": count}, warm_up=count / 4)
    for number in range(count):
        one_life(number)
        if number % every == every - 1:
            gc.collect()
            report.samples.append(Sample(float(number), Gauges.read(), number, 0.0, {}))
    report.judge()
    return report


def test_sixty_pools_leave_nothing() -> None:
    report = live(60, every=5)
    assert not report.failures, report.lines()
    assert not report.notes


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_thousand_pools_leave_nothing() -> None:
    report = live(2000)
    print(*report.lines(), sep="\n")
    assert not report.failures, report.lines()


def test_pools_that_are_kept_are_noticed() -> None:
    kept = []
    report = Report({}, warm_up=0.0)
    for number in range(12):
        envs = vecenv.make(FaultEnv.many(2), engine="thread", workers=1)
        kept.append(envs)
        report.samples.append(Sample(float(number), Gauges.read(), number, 0.0, {}))
    report.judge()
    for envs in kept:
        envs.close()
    assert any(failure.startswith("threads grew") for failure in report.failures)
