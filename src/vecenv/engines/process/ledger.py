"""Who was asked for what, and which answers count: the protocol of the exchange, without processes or sockets.

Every exchange of a row has a ticket: generation of its worker in the high bits, a sequence number in the low ones. The
front writes a row's columns, then its ticket into `requests`; the worker runs the row, writes its columns, then copies
the ticket into `answers`, then counts it. A row is asked for while the two differ, and done when they are equal. A
worker that is started again gets new tickets of a new generation for what its predecessor still owed, so nothing an old
one did can be taken for an answer.

Signal handlers run at calls. Every transition here ends in plain stores with no call between them, so an interrupt
comes before it or after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Rows
from vecenv.engines.process.shared import DONE

Part: TypeAlias = tuple[int, Any, int]
"""Rows of one worker: its number, an index of the rows, and how many they are."""

_GENERATION_SHIFT = 40
_ALL = slice(None)
"""All rows: much faster than an array of indices."""


@dataclass
class WorkerRequests:
    """What one worker owes.

    Attributes:
        words: its control words; DONE counts the rows it has answered since it was started.
        generation: how often it was started.
        target: value of DONE once every row asked of it is done.
    """

    start: int
    stop: int
    words: Any
    generation: int = 1
    target: int = 0

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)


class Ledger:
    """The front's book.

    Args:
        bounds: first row and end of each part; those without control words are the caller's own.
        words: control words of each worker.
        requests, answers: the tickets of all rows, shared with the workers.

    Attributes:
        sequence: number of the last exchange or question.
        pending: rows that were sent and not yet given back; there are `pending_count`.
        sent_ops: what each row was last sent to do.
    """

    def __init__(
        self, bounds: Sequence[tuple[int, int]], words: Sequence[Any], requests: np.ndarray, answers: np.ndarray
    ) -> None:
        count = bounds[-1][1]
        self.requests, self.answers = requests, answers
        self.accounts = [WorkerRequests(*edges, mine) for edges, mine in zip(bounds, words, strict=False)]
        self.part_of = np.repeat(np.arange(len(bounds)), [stop - start for start, stop in bounds])
        self.everyone: Rows = np.arange(count)
        self._size = count
        self.sequence = 0
        self.pending = np.zeros(count, np.bool_)
        self.pending_count = 0
        self.sent_ops = np.zeros(count, np.uint8)
        self._sent_at = np.zeros(count, np.int64)
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

    def open(self, rows: Rows, ops: np.ndarray) -> None:
        """Rows are sent: they are pending from now on, and each worker is to be asked for its part."""
        sent, sequence = len(rows), self.sequence + 1
        index = rows if sent < self._size else _ALL
        self.sequence = sequence
        self._sent_at[index] = sequence
        self.sent_ops[index] = ops[index]
        self.pending[index] = True
        self.pending_count += sent

    def ask(self, part: int, mine: Any, count: int) -> None:
        """Ask a worker for rows that were opened."""
        account = self.accounts[part]
        self.requests[mine] = account.generation << _GENERATION_SHIFT | self.sequence
        account.target += count

    def was_asked(self, part: int, mine: Any) -> bool:
        """Whether `ask` came to pass for rows of the last exchange."""
        ticket = self.accounts[part].generation << _GENERATION_SHIFT | self.sequence
        return bool((self.requests[mine] == ticket).all())

    # --- receiving ---------------------------------------------------------------------------------------------------

    def all_done(self) -> bool:
        """Whether every row that was asked for is done."""
        for account in self.accounts:  # noqa: SIM110  # a generator would cost more than all the rest
            if account.words[DONE] != account.target:
                return False
        return True

    def enough_done(self, count: int, *, ordered: bool) -> Callable[[], bool]:
        """A test whether `count` of the pending rows are done; if `ordered`, those that were sent first."""
        if ordered:
            rows = self._in_order(np.flatnonzero(self.pending))[:count]
            return lambda: bool((self.answers[rows] == self.requests[rows]).all())
        accounts, missing = self.accounts, count - self.pending_count
        return lambda: sum(account.words[DONE] - account.target for account in accounts) >= missing

    def oldest_done(self, count: int) -> Rows:
        """Of the pending rows that are done, those sent first."""
        done = self.pending & (self.answers == self.requests)
        return self._in_order(np.flatnonzero(done))[:count]

    def all_pending(self) -> Rows:
        """All pending rows, ascending."""
        return self.everyone if self.pending_count == self._size else np.flatnonzero(self.pending)

    def owing(self) -> int | None:
        """The first worker that has not answered everything."""
        return next((part for part, account in self._numbered() if account.words[DONE] != account.target), None)

    def open_row(self, part: int) -> int:
        """The first row a worker was asked for and has not answered, else its first."""
        mine = self.everyone[self.accounts[part].rows]
        unanswered = mine[self.answers[mine] != self.requests[mine]]
        return int(unanswered[0]) if len(unanswered) else self.accounts[part].start

    def give_back(self, rows: Rows) -> None:
        """These pending rows are the front's again."""
        given = len(rows)
        self.pending[rows if given < self._size else _ALL] = False
        self.pending_count -= given

    # --- workers that died -------------------------------------------------------------------------------------------

    def owed(self, part: int) -> Rows:
        """The pending rows of a worker."""
        mine = self.accounts[part].rows
        return self.everyone[mine][self.pending[mine]]

    def give_up(self, part: int) -> None:
        """The rows of a dead worker are the front's again; it owes nothing."""
        account = self.accounts[part]
        mine, count = account.rows, len(self.owed(part))
        self.pending[mine] = False
        self.pending_count -= count
        account.target = account.words[DONE]

    def renew(self, part: int) -> Rows:
        """A worker that is certainly dead is about to be started again: the new one is asked for what is pending.

        It finds that out when it is rung for the first time. Until then, and if it cannot be started, the rows are
        owed by nobody who lives, and another `renew` or `give_up` must follow.

        Returns:
            The rows it is asked for.
        """
        account = self.accounts[part]
        mine, generation, rows = account.rows, account.generation + 1, self.owed(part)
        count = len(rows)
        account.generation = generation
        account.words[DONE] = 0
        account.target = count
        self.answers[mine] = self.requests[mine]  # it is asked for nothing else
        self.requests[rows] = generation << _GENERATION_SHIFT | self.sequence
        return rows

    # --- how ---------------------------------------------------------------------------------------------------------

    def _in_order(self, rows: Rows) -> Rows:
        return rows[np.argsort(self._sent_at[rows], kind="stable")]


class WorkerLedger:
    """A worker's side of the book: its own rows, counted from its first."""

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
        """These rows are done: their columns are written, their mail is sent."""
        self._answers[index] = self.requests[index]
        self._words[DONE] += count
