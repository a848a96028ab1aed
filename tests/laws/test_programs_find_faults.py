"""Engines and fronts that break one promise each: random programs find every one of them out."""

from __future__ import annotations

import os
import threading
import time
import traceback
from functools import partial
from typing import Any

import numpy as np
import pytest

import vecenv
from vecenv._front.autoreset import parse_mode
from vecenv._front.vector_env import VectorEnv
from vecenv.engines.process.engine import ProcessEngine
from vecenv.engines.python.sync import SyncEngine
from vecenv.errors import EnvError
from vecenv.testing import FaultEnv, LawEnv, check_machine, check_same

QUICK: dict[str, Any] = {"examples": 60, "seed": 3, "shrink": False}


class Broken(SyncEngine):
    """The sync engine with one fault."""

    fault = ""

    def send(self, rows: Any) -> None:
        if self.fault == "seed":
            self.batch.seed[self.batch.seed >= 0] += 1
        if self.fault == "action":
            self.batch.actions[0][rows] = 0
        super().send(rows)

    def recv(self, count: int, timeout: float | None = None) -> Any:
        before = self.batch.obs[0].copy()
        try:
            rows = super().recv(count, timeout)
        except EnvError as error:
            return self._other_error(error)
        getattr(self, f"_{self.fault.replace('-', '_')}", lambda rows, before: None)(rows, before)
        return rows[::-1].copy() if self.fault == "descending" else rows

    def close(self, timeout: float = 5.0) -> None:
        super().close(timeout)
        if self.fault == "thread":
            threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
        if self.fault == "descriptor":
            os.dup(1)

    def _run(self, rows: list[int]) -> None:
        if self.fault == "again" and rows:
            try:
                self._runners[0].run(rows)
            except KeyboardInterrupt:
                self._runners[0].interrupted(KeyboardInterrupt())
                self.batch.mail.clear()
                self._pending.finished[:] = False  # all of them will run again
                raise
        else:
            super()._run(rows)

    def _stale(self, rows: Any, before: np.ndarray) -> None:
        self.batch.obs[0][2] = before[2]

    def _swapped(self, rows: Any, before: np.ndarray) -> None:
        if len(rows) > 1:
            self.batch.obs[0][rows[:2]] = self.batch.obs[0][rows[:2][::-1]]

    def _torn(self, rows: Any, before: np.ndarray) -> None:
        self.batch.obs[0][rows, 4] = before[rows, 4]

    def _reward(self, rows: Any, before: np.ndarray) -> None:
        self.batch.reward[rows] = np.nextafter(self.batch.reward[rows], 2)

    def _flags(self, rows: Any, before: np.ndarray) -> None:
        self.batch.truncated[rows] = False

    def _final(self, rows: Any, before: np.ndarray) -> None:
        self.batch.final_obs[0][rows] = self.batch.obs[0][rows]

    def _info(self, rows: Any, before: np.ndarray) -> None:
        self.batch.mail.clear()

    def _totals(self, rows: Any, before: np.ndarray) -> None:
        self.batch.episode_length[rows] += self.batch.episode_length[rows] > 2

    def _late(self, rows: Any, before: np.ndarray) -> None:
        time.sleep(0.3)

    def _other_error(self, error: EnvError) -> Any:
        if self.fault == "swallows":
            left = self.pending()
            self._pending.give_back(left)
            return np.array(sorted({*left.tolist(), *error.rows}))
        if self.fault == "plain-error":
            raise RuntimeError(str(error))
        if self.fault == "wrong-row":
            error.rows = tuple((row + 1) % 4 for row in error.rows)
        raise error


class ForgetfulFront(VectorEnv):
    """Never says that something is pending."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._call_order.check_idle = lambda call: None  # type: ignore[method-assign]


def broken(fault: str) -> Any:
    return type("Broken", (Broken,), {"fault": fault})


def build(engine: Any, factories: Any, mode: str, front: Any = VectorEnv, **options: Any) -> VectorEnv:
    return front(engine(factories), autoreset=parse_mode(mode), **options)


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("stale", "rows"),
        ("swapped", "rows"),
        ("torn", "rows"),
        ("seed", "rows"),
        ("action", "rows|errors"),
        ("reward", "rows"),
        ("flags", "rows"),
        ("final", "rows"),
        ("totals", "rows"),
        ("descending", "rows"),
        ("info", "infos"),
        ("plain-error", "errors"),
        ("swallows", "errors|rows"),
        ("wrong-row", "errors"),
        ("thread", "remains"),
        ("descriptor", "remains"),
    ],
)
def test_the_machine_finds_a_broken_engine(fault: str, law: str) -> None:
    with pytest.raises(AssertionError, match=f"the law of ({law}) does not hold"):
        check_machine(partial(build, broken(fault)), interrupts=False, **QUICK)


def test_the_machine_finds_an_engine_that_is_late() -> None:
    with pytest.raises(AssertionError, match="the law of bound"):
        check_machine(partial(build, broken("late")), bound=0.2, **QUICK)


@pytest.mark.slow  # whether an interrupt falls where it must is chance
@pytest.mark.timeout(600)
def test_the_machine_finds_an_engine_that_runs_rows_again_after_an_interrupt() -> None:
    with pytest.raises(BaseException) as caught:  # a group, if the interrupt falls elsewhere next time
        check_machine(partial(build, broken("again")), modes=["next-step"], examples=300, seed=3, shrink=False)
    assert "the law of rows" in "".join(traceback.format_exception(caught.value))


def test_the_machine_finds_a_front_that_forgets_what_is_pending() -> None:
    with pytest.raises(AssertionError, match=r"the law of (order|errors)"):
        check_machine(partial(build, SyncEngine, front=ForgetfulFront), interrupts=False, **QUICK)


def test_the_machine_finds_arrays_that_are_written_to_again() -> None:
    with pytest.raises(AssertionError, match="the law of ownership"):
        check_machine(partial(build, SyncEngine, copy=False), interrupts=False, **QUICK)


class Confused(ProcessEngine):
    """Says that all envs have moved into one process."""

    def call(self, name: str, *rest: Any) -> list[Any]:
        found = super().call(name, *rest)
        told, self.told = getattr(self, "told", False), True
        return [found[0]] * len(found) if told and name == "worker_pid" else found


def test_the_machine_counts_processes() -> None:
    with pytest.raises(AssertionError, match="the law of processes"):
        check_machine(partial(build, partial(Confused, workers=2, context="fork")), interrupts=False, **QUICK)


@pytest.mark.parametrize(
    "fault", ["stale", "swapped", "torn", "seed", "action", "reward", "flags", "final", "info", "totals", "wrong-row"]
)
def test_programs_on_both_find_a_broken_engine(fault: str) -> None:
    factories = [partial(LawEnv, row, fail_at=3 if row == 1 else None) for row in range(4)]
    with pytest.raises(AssertionError, match="the law of sameness"):
        check_same(
            partial(build, SyncEngine, factories),
            partial(build, broken(fault), factories),
            variants=["next-step", "same-step"],
            **QUICK,
        )


def test_programs_on_both_look_at_texts_and_types_of_errors() -> None:
    def envs(kind: str, _: None) -> Any:
        return vecenv.make(FaultEnv.many(4, kind=kind, length=9), engine="sync")

    for other in ("percent", "system-exit", "none"):
        with pytest.raises(AssertionError, match="the law of sameness"):
            check_same(partial(envs, "raise"), partial(envs, other), **QUICK)
