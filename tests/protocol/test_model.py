"""Every order in which an exchange can go, crashes and interrupts at every point included: nothing is torn or lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.protocol.model import Model, search
from vecenv._batch.batch import Rows
from vecenv.engines.process.ledger import Ledger, WorkerLedger
from vecenv.engines.process.shared import FINISHED

TWO_WORKERS = ((0, 2), (2, 3))
THREE_WORKERS = ((0, 1), (1, 2), (2, 3))


def all_is_well(states: int, **options: Any) -> None:
    found = search(Model(**options))
    print(f"{found.states:,} states, {found.transitions:,} transitions")
    assert not found.broken, "\n".join([found.broken, *found.trace])
    assert found.states >= states  # or the model lost its freedom


@pytest.mark.parametrize(
    ("states", "options"),
    [
        (30_000, {"troubles": 1}),
        (15_000, {"troubles": 0, "restarts": True}),
        (20_000, {"troubles": 0, "restarts": True, "eager": True}),
    ],
)
def test_no_row_is_stale_torn_misrouted_or_lost_and_nobody_waits_for_ever(states: int, options: Any) -> None:
    all_is_well(states, bounds=TWO_WORKERS, sends=2, crashes=1, **options)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"bounds": TWO_WORKERS, "sends": 2, "crashes": 2, "troubles": 1},
        {"bounds": THREE_WORKERS, "sends": 2, "crashes": 1, "troubles": 0},
        {"bounds": ((0, 1), (1, 2)), "sends": 3, "crashes": 1, "troubles": 1},
    ],
)
def test_nor_with_more_of_everything(eager: bool, restarts: bool, options: Any) -> None:
    all_is_well(40_000, eager=eager, restarts=restarts, **options)


# --- the model can fail: each rule of the ledger is needed -----------------------------------------------------------


class WithoutGenerations(Ledger):
    """A new worker's tickets are like its predecessor's."""

    def renew(self, part: int) -> Rows:
        rows = super().renew(part)
        self.accounts[part].generation = 1
        self.requests[rows] = 1 << 40 | self.sequence
        return rows


class AnyAnswer(Ledger):
    """A row that was answered once is done."""

    def are_finished(self) -> np.ndarray:
        return (self.sent_at > 0) & (self.answers > 0)


class AnyCount(Ledger):
    """Someone answered something: that will be it."""

    def all_finished(self) -> bool:
        return any(account.words[FINISHED] for account in self.accounts)


class AnswersKept(Ledger):
    """What a dead worker left unanswered is not cleared."""

    def renew(self, part: int) -> Rows:
        mine = self.accounts[part].rows
        kept = self.answers[mine].copy()
        rows = super().renew(part)
        self.answers[mine] = kept
        return rows


class NotAskedAgain(Ledger):
    """A new worker is not asked for what its predecessor owed."""

    def renew(self, part: int) -> Rows:
        rows = super().renew(part)
        self.requests[rows] = self.answers[rows]
        return rows


class TargetKept(Ledger):
    """A new worker has to make up for what its predecessor did."""

    def renew(self, part: int) -> Rows:
        target = self.accounts[part].target
        rows = super().renew(part)
        self.accounts[part].target = target
        return rows


class NothingGivenUp(Ledger):
    """The rows of a dead worker stay pending."""

    def give_up(self, part: int) -> None:
        self.accounts[part].target = self.accounts[part].words[FINISHED]


class StillOwed(Ledger):
    """A dead worker whose rows were given up owes them all the same."""

    def give_up(self, part: int) -> None:
        target = self.accounts[part].target
        super().give_up(part)
        self.accounts[part].target = target


RAISE, RESTART = False, True


@pytest.mark.parametrize(
    ("ledger", "restarts", "broken"),
    [
        (WithoutGenerations, RESTART, "nothing can happen"),
        (AnyAnswer, RAISE, "stale"),
        (AnyAnswer, RESTART, "stale"),
        (AnyCount, RAISE, "torn"),
        (AnyCount, RESTART, "torn"),
        (AnswersKept, RAISE, "which nobody waits for"),
        (NotAskedAgain, RESTART, "nothing can happen"),
        (TargetKept, RAISE, "nothing can happen"),
        (NothingGivenUp, RAISE, "the user waits for"),
        (NothingGivenUp, RESTART, "the user waits for"),
        (StillOwed, RAISE, "nothing can happen"),
    ],
)
def test_without_this_rule_the_search_finds_what_breaks(ledger: type[Ledger], restarts: bool, broken: str) -> None:
    found = search(
        Model(TWO_WORKERS, sends=2, crashes=1, troubles=0, eager=True, restarts=restarts, ledger_class=ledger)
    )
    print(found.broken, *found.trace, sep="\n")
    assert broken in found.broken


def test_a_row_counts_as_done_only_after_its_answer_can_be_seen() -> None:
    requests, answers = np.arange(1, 4), np.zeros(3, int)

    class Words(dict[int, int]):
        def __setitem__(self, word: int, value: int) -> None:
            assert np.count_nonzero(requests == answers) >= value
            super().__setitem__(word, value)

    ledger = WorkerLedger(requests, answers, words := Words({FINISHED: 0}))
    ledger.answer([1], 1)
    ledger.answer([0, 2], 2)
    assert words[FINISHED] == 3
