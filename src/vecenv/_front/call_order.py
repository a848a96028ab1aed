"""Call order: which rows may be sent, received or reset, and which thread and process may do so."""

from __future__ import annotations

import os
import threading

import numpy as np

from vecenv._batch.batch import Rows
from vecenv._util.checks import brief
from vecenv.errors import (
    CallOrderError,
    ClosedError,
    NothingPendingError,
    NotResetError,
    PendingError,
    SpaceError,
    UnknownRow,
)


class CallOrder:
    """A small state machine over rows.

    A row is *ready* once it was reset and its last op was delivered, and *pending* between `sent` and `received`. A
    failed row is neither until it is reset. One thread at a time may be inside the vector env, and only the process
    that made it.
    """

    def __init__(self, count: int, *, lenient: bool = False) -> None:
        self.all_rows: Rows = np.arange(count)
        self.ready = np.zeros(count, np.bool_)
        self._lenient = lenient
        """The envs themselves raise if they are stepped before their first reset."""
        self.lost = np.zeros(count, np.bool_)
        """Rows that failed and were not reset since."""
        self.seen = np.zeros(count, np.bool_)
        """Rows that have an observation."""
        self.pending = np.zeros(count, np.bool_)
        self.pending_count = 0
        self.pending_call = ""
        self.broken = False
        """An error left results undelivered: the next full reset may discard them."""
        self.closed = False
        self._all_ready = False
        self._whole = False
        """All rows are pending. Then `pending` is not kept up to date, which saves the usual step time."""
        self._pid = os.getpid()
        self.survives_fork = False
        """A child may go on with its copy: nothing is shared with the parent."""
        self.inside: int | None = None
        """The thread inside. Where a public call ends this is set to None by a plain assignment: if a method did it, a
        signal handler could raise before the method has begun."""

    def enter(self, call: str) -> None:
        """Begin a public call. It ends with `inside = None`, see there."""
        if not self.closed and self.inside is None and (self.survives_fork or self._pid == os.getpid()):
            self.inside = threading.get_ident()
            return
        self.check_open(call)
        if self._pid != os.getpid() and not self.survives_fork:
            raise CallOrderError(
                f"{call}() in process {os.getpid()}, but process {self._pid} made this vector env; "
                "make one in the child"
            )
        if self.inside is not None:
            who = "the same thread (a signal handler?)" if self.inside == threading.get_ident() else "another thread"
            raise CallOrderError(f"{call}() while {who} is inside this vector env; use one vector env per thread")

    def check_open(self, call: str) -> None:
        """Raise ClosedError after `close`."""
        if self.closed:
            raise ClosedError(f"Trying to operate on a vector env, after a call to `close()`: {call}().")

    def is_mine(self) -> bool:
        """Whether this process made the vector env."""
        return self.survives_fork or self._pid == os.getpid()

    def check_idle(self, call: str) -> None:
        """Raise PendingError if any row is pending."""
        if self.pending_count:
            raise PendingError(
                f"Calling `{call}` while waiting for a pending call to `{self.pending_call}` to complete "
                f"({self.pending_count} envs); call recv() for their results"
                + (", or reset() to discard them." if self.broken else "."),
                self.pending_call,
            )

    def check_can_step(self, rows: Rows | None, call: str) -> None:
        """Raise unless every row is ready. None means all rows."""
        if self._all_ready and not self.pending_count:
            return
        if self.pending_count:
            if rows is None:
                self.check_idle(call)
            self._list_pending()
            busy = rows[self.pending[rows]]  # type: ignore[index]  # None was handled above
            if len(busy):
                raise PendingError(f"envs {_some(busy)} are still running; recv() them first", self.pending_call)
        wanted = self.all_rows if rows is None else rows
        stale = wanted[self.lost[wanted] if self._lenient else ~self.ready[wanted]]
        if len(stale):
            raise NotResetError(
                f"envs {_some(stale)} need a reset before {call}(); call reset(), or "
                "reset(options={'reset_mask': mask}) for these alone"
            )

    def check_can_receive(self, count: int | None) -> int:
        """The number of rows to receive; None means all pending ones."""
        if not self.pending_count:
            raise NothingPendingError("recv() without any prior send(): nothing is pending")
        if count is None:
            return self.pending_count
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
            raise SpaceError(f"min_envs must be an int or None, got {brief(count)}")
        if not 1 <= count <= self.pending_count:
            raise SpaceError(f"min_envs must be in 1 ... {self.pending_count} (the number pending), got {count}")
        return int(count)

    def parse_rows(self, env_ids: object) -> Rows:
        """Check env ids (a sequence of distinct ints or a bool mask) and return them ascending as given."""
        try:
            ids = np.asarray(env_ids)
        except ValueError:
            raise SpaceError(f"env_ids must be a non-empty 1-d array of ints, got {brief(env_ids)}") from None
        count = len(self.all_rows)
        if ids.dtype == np.bool_:
            if ids.shape != (count,):
                raise SpaceError(f"a bool mask of env_ids must have shape ({count},), got {ids.shape}")
            ids = np.flatnonzero(ids)
        if ids.ndim != 1 or ids.size == 0 or ids.dtype.kind not in "iu":
            raise SpaceError(f"env_ids must be a non-empty 1-d array of ints, got {ids.dtype} of shape {ids.shape}")
        outside = ids[(ids < 0) | (ids >= count)]
        if len(outside):
            raise UnknownRow(f"env id {outside[0]}, this vector env has {count} (0 ... {count - 1})")
        if len(np.unique(ids)) != len(ids):
            raise SpaceError(f"env_ids {_some(ids)} name an env twice")
        return ids.astype(np.int64)

    def check_first_reset(self, rows: Rows) -> None:
        """Raise unless the envs that are not in `rows` have an observation to show."""
        if len(rows) == len(self.seen):
            return
        unseen = np.setdiff1d(self.all_rows[~self.seen], rows)
        if len(unseen):
            raise NotResetError(f"envs {_some(unseen)} were never reset; the first reset must include them")

    def sent(self, rows: Rows, call: str) -> None:
        """These rows were sent: the engine owns them."""
        if self.broken and not self.pending_count:
            self.broken = False  # what was left behind has been delivered
        self._whole = len(rows) == len(self.pending)
        if not self._whole:
            self.pending[rows] = True
        self.pending_count += len(rows)
        self.pending_call = call

    def resync(self, pending: Rows, undelivered: Rows | None) -> None:
        """After an interrupt, which may have come anywhere: take over from the engine what is pending.

        Args:
            pending: rows that the engine reports as pending.
            undelivered: rows that were received, but whose results the user did not get. They need a reset, like rows
                that are neither pending nor received.
        """
        self._list_pending()
        owed = np.zeros(len(self.pending), np.bool_)
        owed[pending] = True
        lost = self.pending.copy()
        if undelivered is not None:
            lost[undelivered] = True
        self.ready[lost & ~owed] = False
        self._all_ready = bool(self.ready.all())
        self.pending, self.pending_count = owed, len(pending)
        self.broken = self.pending_count > 0

    def failed(self, rows: Rows) -> None:
        """These rows failed: they are no longer pending and need a reset."""
        self._list_pending()
        self.pending_count -= int(self.pending[rows].sum())
        self.pending[rows] = self.ready[rows] = False
        self.lost[rows] = True
        self._all_ready = False

    def received(self, rows: Rows, *, ready: bool = True) -> None:
        """These rows were received: the front owns them. They may be stepped if `ready`."""
        if self._whole and len(rows) == len(self.pending) and ready and self._all_ready:
            self._whole = False
            self.pending_count = 0
            return
        self._list_pending()
        self.pending[rows] = False
        self.pending_count -= len(rows)
        self.broken = self.broken and self.pending_count > 0
        self.ready[rows] = ready
        self.lost[rows] = self.lost[rows] & (not ready)
        self.seen[rows] = True
        self._all_ready = bool(self.ready.all())

    def replaced(self, rows: Rows, ready: np.ndarray) -> None:
        """The states of these rows were replaced; `ready` says which of the new states may be stepped."""
        self.ready[rows] = self.seen[rows] = ready
        self.lost[rows] = False
        self._all_ready = bool(self.ready.all())

    def _list_pending(self) -> None:
        """Bring `pending` up to date if all rows are pending."""
        if self._whole:
            self.pending[:] = True
            self._whole = False


def _some(rows: Rows) -> str:
    listed = ", ".join(map(str, rows[:8]))
    return f"[{listed}{', ...' if len(rows) > 8 else ''}]"
