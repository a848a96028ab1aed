"""The real front of the process engine against simulated workers, under thousands of seeded schedules.

A failing schedule prints its seed; `VECENV_SIM_SEED=N pytest tests/protocol/test_schedules.py` runs just that one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.protocol.program import Program, run_program
from tests.protocol.simulated import ProcessBackend
from tests.protocol.test_model import AnswersKept, NotAskedAgain, StillOwed, WithoutGenerations
from vecenv.engines.process import waiter
from vecenv.engines.process.engine import ProcessEngine

GIVEN = os.environ.get("VECENV_SIM_SEED")
Mutation = Callable[[ProcessEngine], None]


def explore(seeds: Iterable[int]) -> int:
    tried = 0
    for seed in [int(GIVEN)] if GIVEN else seeds:
        try:
            run_program(seed)
        except BaseException as error:
            raise AssertionError(f"VECENV_SIM_SEED={seed} runs this again: {type(error).__name__}: {error}") from error
        tried += 1
    return tried


def test_whatever_the_order_and_whoever_dies_rows_are_right_and_none_is_lost() -> None:
    assert explore(range(1000)) >= 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nor_in_a_minute_of_other_schedules() -> None:
    end, first = time.monotonic() + 60, random.SystemRandom().randrange(10**6, 10**9)
    tried = explore(iter(_until(end, first)))
    print(f"{tried} schedules in a minute, from seed {first}")
    assert tried >= 1


def _until(end: float, seed: int) -> Iterable[int]:
    while time.monotonic() < end:
        yield seed
        seed += 1


def test_a_seed_runs_the_same_way_twice() -> None:
    assert trail(7) == trail(7)
    assert trail(7) != trail(8)


def trail(seed: int) -> list[Any]:
    """What happens when, to the tick."""
    seen: list[Any] = []

    def listen(engine: ProcessEngine) -> None:
        backend: Any = engine._backend
        run_one = backend.run_one

        def noted() -> bool:
            seen.append((backend.now, [(worker.number, worker.generation) for worker in backend.alive]))
            return run_one()

        backend.run_one = noted

    run_program(seed, listen)
    assert seen
    return seen


# --- the schedules can fail: each rule is needed ---------------------------------------------------------------------


def ledger_is(mutant: type[Any]) -> Mutation:
    def mutate(engine: ProcessEngine) -> None:
        engine._ledger.__class__ = mutant

    return mutate


def mail_is_read_before_rows_are_chosen(engine: ProcessEngine) -> None:
    read, choose = engine._messages.read, engine._ledger.choose
    before: list[Any] = []

    def chosen_late(count: int) -> Any:
        before.append(read(engine._workers))
        return choose(count)

    engine._ledger.choose = chosen_late  # type: ignore[method-assign]
    engine._messages.read = lambda workers: before.pop() if before else read(workers)  # type: ignore[method-assign]


def any_reply_counts(engine: ProcessEngine) -> None:
    take = engine._messages._take_message

    def accept(kind: str, *content: Any) -> None:
        take(kind, engine._ledger.sequence, *content[1:]) if kind == "reply" else take(kind, *content)

    engine._messages._take_message = accept  # type: ignore[method-assign]


def interrupted_burials_stay(engine: ProcessEngine) -> None:
    engine._pool.finish_recovery = lambda: None  # type: ignore[method-assign]


def interrupted_sends_stay(engine: ProcessEngine) -> None:
    engine._share_out_rest = lambda: None  # type: ignore[method-assign]


def mail_of_the_dead_stays(engine: ProcessEngine) -> None:
    engine.batch.discard_mail = lambda rows: None  # type: ignore[method-assign]


def wake_ups_are_trusted(engine: ProcessEngine) -> None:
    waiter._LOOK_UP_SECONDS = 1e9


def the_deaf_are_not_missed(engine: ProcessEngine) -> None:
    backend: Any = engine._backend
    backend.is_gone = lambda worker, ready: worker.liveness in ready


@pytest.mark.parametrize(
    "mutate",
    [
        ledger_is(AnswersKept),
        ledger_is(WithoutGenerations),
        ledger_is(NotAskedAgain),
        ledger_is(StillOwed),
        pytest.param(mail_is_read_before_rows_are_chosen, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
        any_reply_counts,
        interrupted_burials_stay,
        interrupted_sends_stay,
        mail_of_the_dead_stays,
        wake_ups_are_trusted,
        the_deaf_are_not_missed,
    ],
)
def test_without_this_rule_a_schedule_finds_what_breaks(mutate: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiter, "_LOOK_UP_SECONDS", waiter._LOOK_UP_SECONDS)  # put back afterwards
    with pytest.raises(AssertionError) as caught:
        run_many(mutate)
    print(caught.value)


def run_many(mutate: Mutation) -> None:
    for seed in range(5000):
        run_program(seed, mutate)


# --- what the schedules have found -----------------------------------------------------------------------------------


def test_a_row_that_gets_done_while_others_are_received_is_not_delivered_without_its_mail() -> None:
    backend = ProcessBackend(0)
    backend.calm = True
    program = Program(backend, rows=2, workers=2, ordered=False, restarts=False)
    slow: Any = program.engine._workers[0]
    choose = program.engine._ledger.choose
    slow._needs = lambda: False
    program.tokens = 2
    program.send([0])  # whose third token has an info
    program.send([1])

    def chosen_late(count: int) -> Any:
        slow._needs = None
        while not program.engine._ledger.all_finished():
            backend.run_one()
        return choose(count)

    program.engine._ledger.choose = chosen_late  # type: ignore[method-assign]
    program.recv(1, None)
    assert list(program.sent) == [1]
