"""Which worker was asked for which rows, and which answers count: the protocol, without processes or sockets.

Every exchange of a row has a ticket: the generation of its worker in the high bits, a sequence number in the low ones.
The parent process writes a row's columns, then its ticket into `requests`. The worker runs the row, writes its columns,
then copies the ticket into `answers`, then counts it. A row is asked for while the two differ, and finished when they
are equal. A worker that is started again gets tickets of a new generation for the rows that are still pending, so
nothing that the old worker wrote is taken for an answer.

Signal handlers run at calls. Every transition here ends in plain stores with no call between them, so an interrupt
comes before it or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Rows
from vecenv.engines.pending import PendingRows
from vecenv.engines.process.shared import FINISHED

Part: TypeAlias = tuple[int, Any, int]
"""Rows of one worker: its number, an index of the rows, and how many they are."""

_GENERATION_SHIFT = 40


@dataclass
class WorkerRequests:
    """What one worker was asked for.

    Attributes:
        words: its control words; FINISHED counts the rows it has answered since it was started.
        generation: how often it was started.
        target: value of FINISHED once every row that it was asked for is finished.
    """

    start: int
    stop: int
    words: Any
    generation: int = 1
    target: int = 0

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)


class Ledger(PendingRows):
    """The parent's side: pending rows, and the tickets by which workers finish them.

    `sequence` counts calls of envs too. `finished` is only used for rows that the parent runs itself.

    Args:
        bounds: first row and end of each part; parts without control words are run by the parent itself.
        words: control words of each worker.
        requests, answers: the tickets of all rows, shared with the workers.
        ordered: rows are received in the order they were sent.
    """

    def __init__(
        self,
        bounds: Sequence[tuple[int, int]],
        words: Sequence[Any],
        requests: np.ndarray,
        answers: np.ndarray,
        *,
        ordered: bool = False,
    ) -> None:
        super().__init__(bounds[-1][1], ordered=ordered)
        self.requests, self.answers = requests, answers
        self.accounts = [WorkerRequests(*edges, mine) for edges, mine in zip(bounds, words, strict=False)]
        self.part_of = np.repeat(np.arange(len(bounds)), [stop - start for start, stop in bounds])
        self._all_parts = [(part, account.rows, account.stop - account.start) for part, account in self._numbered()]

    def _numbered(self) -> list[tuple[int, WorkerRequests]]:
        return list(enumerate(self.accounts))

    # --- sending -----------------------------------------------------------------------------------------------------

    def parts(self, rows: Rows) -> list[Part]:
        """The rows of each worker that has any of them."""
        if len(rows) == self._size:
            return self._all_parts
        parts, workers = self.part_of[rows], len(self.accounts)
        chosen = [(int(part), rows[parts == part]) for part in np.unique(parts) if part < workers]
        return [(part, mine, len(mine)) for part, mine in chosen]

    def ask(self, part: int, mine: Any, count: int) -> None:
        """Ask a worker for rows that were opened."""
        account = self.accounts[part]
        self.requests[mine] = account.generation << _GENERATION_SHIFT | self.sequence
        account.target += count

    def was_asked(self, part: int, mine: Any) -> bool:
        """Whether the worker was asked for these rows of the last exchange."""
        ticket = self.accounts[part].generation << _GENERATION_SHIFT | self.sequence
        return bool((self.requests[mine] == ticket).all())

    # --- receiving ---------------------------------------------------------------------------------------------------

    def all_finished(self) -> bool:
        """Whether every row that a worker was asked for is finished."""
        for account in self.accounts:  # noqa: SIM110  # a generator would cost more than all the rest
            if account.words[FINISHED] != account.target:
                return False
        return True

    def enough_finished(self, count: int) -> Callable[[], bool]:
        """A test whether `count` of the pending rows are finished; if `ordered`, those that were sent first."""
        if count == self.count:
            return self.all_finished
        if self.ordered:
            rows = self.oldest(count)
            return lambda: bool((self.answers[rows] == self.requests[rows]).all())
        accounts, missing = self.accounts, count - self.count
        return lambda: sum(account.words[FINISHED] - account.target for account in accounts) >= missing

    def are_finished(self) -> np.ndarray:
        """Which rows are pending and finished, as a mask."""
        return (self.sent_at > 0) & (self.answers == self.requests)

    def first_unanswered(self) -> int | None:
        """The first worker that has not answered everything."""
        return next((part for part, account in self._numbered() if account.words[FINISHED] != account.target), None)

    def open_row(self, part: int) -> int:
        """The first row that a worker was asked for and has not answered; its first row if there is none."""
        mine = self.everyone[self.accounts[part].rows]
        unanswered = mine[self.answers[mine] != self.requests[mine]]
        return int(unanswered[0]) if len(unanswered) else self.accounts[part].start

    # --- workers that died -------------------------------------------------------------------------------------------

    def pending_of(self, part: int) -> Rows:
        """The pending rows of a worker."""
        mine = self.accounts[part].rows
        return self.everyone[mine][self.sent_at[mine] > 0]

    def give_up(self, part: int) -> None:
        """The rows of a dead worker are given back; nothing is expected from it."""
        account = self.accounts[part]
        mine, count = account.rows, len(self.pending_of(part))
        self.sent_at[mine] = 0
        self.count -= count
        account.target = account.words[FINISHED]

    def renew(self, part: int) -> Rows:
        """Ask the successor of a dead worker, before it is started, for the pending rows of its predecessor.

        The new worker reads that when it is rung for the first time. If it cannot be started, no live worker will
        answer these rows, and another `renew` or `give_up` must follow.

        Returns:
            The rows it is asked for.
        """
        account = self.accounts[part]
        mine, generation, rows = account.rows, account.generation + 1, self.pending_of(part)
        count = len(rows)
        account.generation = generation
        account.words[FINISHED] = 0
        account.target = count
        self.answers[mine] = self.requests[mine]  # it is asked for nothing else
        self.requests[rows] = generation << _GENERATION_SHIFT | self.sequence
        return rows


class WorkerLedger:
    """A worker's side: its own rows, counted from its first."""

    def __init__(self, requests: np.ndarray, answers: np.ndarray, words: Any) -> None:
        self.requests = requests
        self._answers = answers
        self._words = words
        self.everyone = list(range(len(requests)))

    def asked(self) -> list[int]:
        """The rows that are asked for, ascending; `everyone` itself if they all are."""
        asked = self.requests != self._answers
        count = np.count_nonzero(asked)
        if count == len(self.everyone):
            return self.everyone
        return np.flatnonzero(asked).tolist() if count else []

    def answer(self, index: Any, count: int) -> None:
        """These rows are finished: their columns are written, their mail is sent."""
        self._answers[index] = self.requests[index]
        self._words[FINISHED] += count
