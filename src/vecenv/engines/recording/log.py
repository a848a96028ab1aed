"""What went back and forth, in order, for as long as an episode that is going on needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from vecenv._batch.batch import Op, Rows
from vecenv._batch.starts import WATCHED, WORDS

Kept: TypeAlias = tuple[Any, ...]
"""One entry per leaf: an array, or a list of values where the leaf has no fixed size."""

OVERHEAD = 1000
"""Bytes of an entry besides its arrays, about."""
_RESET = int(Op.RESET)
_SOME, _MANY = 512, 1024
"""Entries since the last look after which unneeded ones are looked for when there is time; and after which at once."""


class Sent(NamedTuple):
    """Actions of some rows; None: of all."""

    size: int
    rows: Rows | None
    ops: np.ndarray | None
    """One for each row, or None if none of them is a reset."""
    actions: Kept
    given: dict[int, Any] | None

    def resets(self, position: int) -> bool:
        """Whether the row there is to begin an episode, and its action is of no interest."""
        return self.ops is not None and bool(self.ops[position] == _RESET)


class Received(NamedTuple):
    """Results of some rows (None: of all), and the starts of those of them that began an episode."""

    size: int
    rows: Rows | None
    obs: Kept
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    began: Rows | bytes | None
    """Rows; or what all rows noted, as kinds of `_batch/starts.py`: rows above WATCHED began an episode."""
    starts: Any
    """Of those that began, or of all."""

    def place(self, row: int) -> int:
        """Where the start of a row is among `starts`; -1 if it did not begin an episode here."""
        if isinstance(self.began, bytes):
            return row if self.began[row] > WATCHED else -1
        return -1 if self.began is None else position_of(self.began, row)


class Log:
    """Entries by number, counted from the first that ever was; the oldest are dropped beyond `limit` bytes.

    They are kept as plain tuples of arrays, which the garbage collector soon leaves alone: there may be many.

    Args:
        count: number of rows.
        limit: bytes to keep.
        opened: returns an entry of two or three fields, which the recorder packed, as Sent or Received.
    """

    def __init__(
        self, count: int, limit: int, opened: Callable[[tuple[Any, ...]], Sent | Received] | None = None
    ) -> None:
        self._opened = opened
        self._begin = np.zeros(count, np.int64)
        """By row, number of the entry that its episode began with; entries before the oldest are not kept."""
        self._unsettled: list[tuple[int, bytes]] = []
        """Number and `Received.began` of entries that are not in `_begin` yet: it is cheaper to add many at once."""
        self._loose: list[tuple[int, bytes]] = []
        """The same of entries that have the starts of all rows, which can be reduced to those that began an episode."""
        self._latest: tuple[int, Rows, np.ndarray] = -1, self._begin[:0], self._begin[:0]
        """Number of the latest entry in `_begin`, the rows that began an episode with it, and their `_begin` before."""
        self._entries: list[tuple[Any, ...]] = []
        self._first = 0
        self._limit = limit
        self._bytes = 0
        self._looked = 0

    def add(self, entry: tuple[Any, ...]) -> int:
        """Append an entry, a tuple of the fields of Sent or Received; drop what is too much. Returns its number."""
        entries = self._entries
        number = self._first + len(entries)
        entries.append(entry)
        self._bytes += entry[0]
        if self._bytes > self._limit or len(entries) - self._looked > _MANY:
            self._prune()
        return number

    def tidy(self) -> None:
        """Drop entries that no episode needs, if there are many. To be called when there is nothing else to do."""
        if len(self._entries) - self._looked > _SOME:
            self._prune()

    def began(self, number: int, rows: Rows | bytes) -> None:
        """Rows began an episode with the entry `number`, which is the last one; see `Received.began`."""
        if isinstance(rows, bytes):
            if number >= self._first:  # one that is larger than the limit was dropped when it was added
                self._loose.append((number, rows))
        else:
            kinds = np.zeros(len(self._begin), np.uint8)
            kinds[rows] = WATCHED + 1
            rows = kinds.tobytes()
        self._unsettled.append((number, rows))

    def begin_before(self, row: int) -> int | None:
        """With which entry the episode of a row began that came before one which began with the last entry."""
        self._settle()
        number, rows, begins = self._latest
        place = position_of(rows, row) if number == self._first + len(self._entries) - 1 else -1
        return None if place < 0 else int(begins[place])

    def take_back(self, rows: Rows) -> None:
        """Forget that these rows were sent, if that is the last entry."""
        last = self._entry(self._entries[-1]) if self._entries else None
        if isinstance(last, Sent) and (
            len(rows) == len(self._begin) if last.rows is None else np.array_equal(last.rows, rows)
        ):
            self._bytes -= self._entries.pop()[0]

    def of_row(
        self, row: int, begin: int | None = None
    ) -> tuple[bool, list[tuple[Sent, int]], list[tuple[Received, int]]]:
        """The entries of a row's episode, each with the row's position in it.

        Args:
            row: which.
            begin: number of the entry it began with; default: that of the current episode.

        Returns:
            Whether all are still there; what was sent; and what was received. The first received entry has the
            observation by which the first action was chosen.
        """
        self._settle()
        start = int(self._begin[row]) if begin is None else begin
        sent: list[tuple[Sent, int]] = []
        received: list[tuple[Received, int]] = []
        for entry in map(self._entry, self._entries[max(0, start - self._first) :]):
            position = position_of(entry.rows, row)
            if position < 0:
                continue
            if isinstance(entry, Received):
                received.append((entry, position))
            elif entry.resets(position):  # which did not come back, or it would be before the beginning
                return True, [], []
            elif received:  # what came before the first observation belongs to a step that was dropped
                sent.append((entry, position))
        return start >= self._first, sent, received

    def is_owed(self, row: int) -> bool:
        """Whether the row was sent and not received."""
        for entry in map(self._entry, reversed(self._entries)):
            if position_of(entry.rows, row) >= 0:
                return isinstance(entry, Sent)
        return False

    def _settle(self) -> None:
        """Find the rows that began an episode with the latest entries."""
        if not self._unsettled:
            return
        numbers = np.array([number for number, _ in self._unsettled])
        noted = np.frombuffer(b"".join([kinds for _, kinds in self._unsettled]), np.uint8)
        entries, rows = (noted.reshape(len(numbers), -1) > WATCHED).nonzero()
        begin, earlier = self._begin.copy(), int(np.searchsorted(entries, len(numbers) - 1))
        begin[rows[:earlier]] = numbers[entries[:earlier]]  # the last one of a row is what stays
        latest = int(numbers[-1]), rows[earlier:], begin.take(rows[earlier:])
        begin[rows[earlier:]] = numbers[-1]
        self._begin, self._latest, self._unsettled = begin, latest, []  # at once: an interrupt may come any time

    def _compact(self) -> None:
        """Of entries with the starts of all rows, keep those of rows that began an episode."""
        for number, kinds in self._loose:
            index, rows = number - self._first, np.flatnonzero(np.frombuffer(kinds, np.uint8) > WATCHED)
            size, *kept, starts = self._entries[index]
            if isinstance(starts, bytes):  # packed
                few = np.frombuffer(starts, np.uint64).reshape(-1, WORDS).take(rows, 0)
                saved, entry = len(starts) - few.nbytes - rows.nbytes, (*kept, (rows, few))
            elif isinstance(starts, np.ndarray) and isinstance(kept[-1], bytes):
                few = starts.take(rows, 0)
                saved, entry = starts.nbytes + len(kinds) - few.nbytes - rows.nbytes, (*kept[:-1], rows, few)
            else:  # it was reduced before an interrupt
                continue
            self._entries[index], self._bytes = (size - saved, *entry), self._bytes - saved
        self._loose = []

    def _prune(self) -> None:
        self._settle()
        self._drop(int(self._begin.min()) - self._first)
        if self._bytes > self._limit:
            self._compact()
        while self._bytes > self._limit and self._entries:
            self._drop(1 + len(self._entries) // 8)
        self._looked = len(self._entries)

    def _drop(self, count: int) -> None:
        if count > 0:
            size = self._bytes - sum(entry[0] for entry in self._entries[:count])
            entries, first = self._entries[count:], self._first + count
            loose = [pair for pair in self._loose if pair[0] >= first]
            # At once: an interrupt may come any time.
            self._entries, self._first, self._bytes, self._loose = entries, first, size, loose

    def _entry(self, fields: tuple[Any, ...]) -> Sent | Received:
        if self._opened is not None and len(fields) < len(Sent._fields):
            return self._opened(fields)
        return Sent(*fields) if len(fields) == len(Sent._fields) else Received(*fields)


def position_of(rows: Rows | None, row: int) -> int:
    """Where a row is among rows (None: all); -1 if it is not."""
    if rows is None:
        return row
    found = np.flatnonzero(rows == row)
    return int(found[0]) if len(found) else -1


def size_of(kept: Sequence[Any]) -> int:
    """Bytes of what is kept of an entry, about."""
    return OVERHEAD + sum(part.nbytes if isinstance(part, np.ndarray) else 200 * len(part) for part in kept)


def parts(entries: Sequence[tuple[Any, int]], name: str, leaf: int) -> Iterator[Any]:
    """A leaf of a row over time."""
    return (getattr(entry, name)[leaf][position] for entry, position in entries)
