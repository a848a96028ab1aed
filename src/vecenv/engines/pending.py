"""Rows that were sent and not received: the account of them that engines keep, and how a fault becomes an error."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Batch, Rows

Home: TypeAlias = Callable[[int], tuple[int | None, int | None]]
"""Worker and process id of a row, for error messages."""

_ALL = ...
"""All rows: much faster than an array of indices."""


def nowhere(row: int) -> tuple[None, None]:
    """Worker and process id of a row that is run by the caller."""
    return None, None


class PendingRows:
    """Which rows were sent and not received, in which order, and which of them are finished.

    Signal handlers run at calls. Every change here ends in plain stores with no call between them, so an interrupt
    comes before the change or after it.

    Args:
        count: number of rows of the batch.
        ordered: rows are received in the order they were sent, instead of those that are ready first.
        finished: the array that is to become the attribute of that name, if another part of the engine writes it.

    Attributes:
        everyone: all rows, ascending.
        sequence: number of the last `open`.
        sent_at: by which `open` each row became pending; 0 if it is not pending.
        count: number of pending rows.
        finished: pending rows whose op has run. The engine sets it, `give_back` clears it.
    """

    def __init__(self, count: int, *, ordered: bool = False, finished: np.ndarray | None = None) -> None:
        self.everyone: Rows = np.arange(count)
        self.ordered = ordered
        self.sequence = 0
        self.sent_at = np.zeros(count, np.int64)
        self.count = 0
        self.finished = np.zeros(count, np.bool_) if finished is None else finished
        self._size = count

    def open(self, rows: Rows) -> None:
        """These rows are sent: they are pending from now on."""
        sent, sequence = len(rows), self.sequence + 1
        index = rows if sent < self._size else _ALL
        self.sequence = sequence
        self.sent_at[index] = sequence
        self.count += sent

    def open_finished(self) -> None:
        """All rows, none of which is pending, were sent and have run."""
        count, sequence = self._size, self.sequence + 1
        self.sequence = sequence
        self.sent_at[_ALL] = sequence
        self.finished[_ALL] = True
        self.count = count

    def give_back(self, rows: Rows) -> None:
        """These rows, which are pending, belong to the front again."""
        given = len(rows)
        index = rows if given < self._size else _ALL
        self.sent_at[index] = 0
        self.finished[index] = False
        self.count -= given

    @property
    def is_all_pending(self) -> bool:
        """Whether every row is pending."""
        return self.count == self._size

    def rows(self) -> Rows:
        """All pending rows, ascending."""
        return self.everyone if self.is_all_pending else np.flatnonzero(self.sent_at)

    def oldest(self, count: int) -> Rows:
        """The `count` pending rows that were sent first; ascending if these are all."""
        return self.rows() if count == self.count else self._in_order(self.sent_at > 0)[:count]

    def choose(self, count: int) -> Rows:
        """Of the finished rows the `count` that were sent first; all pending rows are ascending."""
        return self.rows() if count == self.count else self._in_order(self.are_finished())[:count]

    def missing(self, count: int) -> int:
        """How many rows must still finish, at least, before `choose` finds `count` of them."""
        finished = self.are_finished()
        if self.ordered and count < self.count:
            return count - int(np.count_nonzero(finished[self.oldest(count)]))
        return max(0, count - int(np.count_nonzero(finished)))

    def count_ready(self) -> int:
        """How many rows `choose` finds: all that are finished; if `ordered`, those before the first that is not."""
        finished = self.are_finished()
        if not self.ordered:
            return int(np.count_nonzero(finished))
        late = np.flatnonzero(~finished[self._in_order(self.sent_at > 0)])
        return int(late[0]) if len(late) else self.count

    def one_by_one(self, count: int) -> bool | None:
        """Whether a `recv` of `count` rows wants rows one by one, as they finish; None: as before.

        A `recv` of some pending rows does, and so does the one of the rest. All rows of the batch are wanted together.
        """
        if not self.ordered and count < self.count:
            return True
        return False if count == self._size else None

    def are_finished(self) -> np.ndarray:
        """Which rows are pending and finished, as a mask."""
        return self.finished

    def raise_fault(self, batch: Batch, rows: Rows, home: Home = nowhere) -> None:
        """Raise the error of the first of `rows` whose mail has a fault, if there is one.

        The rows that failed with it are given back and their mail is discarded; all other rows stay pending.

        Raises:
            EnvError: made from the fault.
        """
        for row in rows.tolist():
            mail = batch.mail.get(row)
            if mail is not None and mail.fault is not None:
                error = mail.fault.to_error(row, *home(row))
                failed = np.array(error.rows)
                failed = failed[self.sent_at[failed] > 0]
                count = self.count - len(failed)
                discarding: Any = map(batch.mail.pop, error.rows, repeat(None))
                # No signal handler can run before the mail is discarded: it would be raised for the next op.
                self.sent_at[failed] = 0
                self.finished[failed] = False
                self.count = count
                deque(discarding, 0)
                raise error

    def take(self, count: int, batch: Batch, home: Home = nowhere) -> Rows:
        """The rows that `recv` returns, once none is missing: chosen and given back.

        Raises:
            EnvError: one of them failed, see `raise_fault`.
        """
        rows = self.choose(count)
        if batch.mail:
            self.raise_fault(batch, rows, home)
        self.give_back(rows)
        return rows

    def _in_order(self, mask: np.ndarray) -> Rows:
        rows = np.flatnonzero(mask)
        return rows[np.argsort(self.sent_at[rows], kind="stable")]
