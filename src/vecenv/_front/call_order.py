"""Call order: which rows may be sent, received or reset, and which thread and process may do so."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np

from vecenv._batch.batch import Rows
from vecenv._util.checks import brief
from vecenv._util.forks import only_here
from vecenv.errors import (
    CallOrderError,
    ClosedError,
    NothingPendingError,
    NotResetError,
    PendingError,
    SpaceError,
    UnknownRow,
)

_READY, _SEEN, _FAILED = 1, 2, 4
"""Bits of the state of a row: it may be stepped; it has an observation; it failed and was not reset since."""
_DELIVERED, _NOT_READY = _READY | _SEEN, 0xFF - _READY
_LOOK_SECONDS = 0.001
"""How often `close` looks whether another thread is still inside. A notification would make every call slower."""


class CallOrder:
    """A small state machine over rows.

    A row is *ready* from the delivery of its reset or step until it is sent again. Between `sent` and `received` it is
    *pending*; which rows are, the engine knows. A failed row is neither until it is reset. One thread at a time may be
    inside the vector env, and only the process that made it.

    Args:
        count: number of rows.
        pending: returns the pending rows, see `Engine.pending`.
        lenient: whether rows may be stepped that were never reset.
    """

    def __init__(self, count: int, pending: Callable[[], Rows], *, lenient: bool = False) -> None:
        self.all_rows: Rows = np.arange(count)
        self._states = np.zeros(count, np.uint8)
        """Of each row: READY, SEEN and FAILED bits."""
        self._pending = pending
        self._lenient = lenient
        """The envs themselves raise if they are stepped before their first reset."""
        self.pending_count = 0
        """How many rows are pending: every step asks for that, and asking the engine takes longer."""
        self.pending_call = ""
        self.broken = False
        """An error left results undelivered: the next full reset may discard them."""
        self.closed = False
        """`close` was called: no call begins any more. Whether everything is closed the vector env itself says."""
        self.all_ready = False
        """Whether all rows are ready: every step asks for that too."""
        self._unmarked = False
        """All rows were sent and still have the bit READY. Most often they are received at once, and keep it."""
        self._pid, self._here = os.getpid(), only_here()
        self.survives_fork = False
        """A child may go on with its copy: nothing is shared with the parent."""
        self.inside: int | None = None
        """The thread inside."""
        self.vacant = True
        """An attribute that a call deletes when it enters. Of several threads that do so at once one succeeds, also
        without the GIL, and the others are refused. Where a public call ends, `inside` and `vacant` are assigned: if a
        method did it, a signal handler could raise before the method has begun."""

    @property
    def ready(self) -> np.ndarray:
        """Which rows may be stepped, as a mask."""
        self._mark()
        return self._states & _READY > 0

    def enter(self, call: str) -> None:
        """Begin a public call. It ends with `inside, vacant = None, True`, see there."""
        if self._here[0] or self.survives_fork:
            thread = threading.get_ident()
            # No call between these lines: a signal handler could raise after it.
            try:
                del self.vacant
            except AttributeError:
                pass
            else:
                self.inside = thread
                if not self.closed:  # only now: `close` sets it, and then looks whether anybody is inside
                    return
                self.inside, self.vacant = None, True
        self.check_open(call)
        if not self.is_mine():
            raise CallOrderError(
                f"{call}() in process {os.getpid()}, but process {self._pid} made this vector env; "
                "make one in the child"
            )
        who = "the same thread (a signal handler?)" if self.inside == threading.get_ident() else "another thread"
        raise CallOrderError(f"{call}() while {who} is inside this vector env; use one vector env per thread")

    def check_open(self, call: str) -> None:
        """Raise ClosedError after `close`."""
        if self.closed:
            raise ClosedError(f"Trying to operate on a vector env, after a call to `close()`: {call}().")

    def wait_for_others(self, seconds: float) -> float | None:
        """Wait until no other thread is inside. Returns how long that took, None if `seconds` were not enough."""
        started, me = time.monotonic(), threading.get_ident()
        if self.inside in (None, me):
            return 0.0
        while self.inside not in (None, me):
            if time.monotonic() - started >= seconds:
                return None
            time.sleep(_LOOK_SECONDS)
        return time.monotonic() - started

    def _at_fork_reinit(self) -> None:
        """In a forked child: a thread that was inside does not exist there. The rows that it left need a reset."""
        if self.inside == threading.get_ident():
            return
        was_inside = self.inside is not None
        self.inside, self.vacant = None, True
        if was_inside:
            self.resync(self.all_rows)

    def is_mine(self) -> bool:
        """Whether this process made the vector env."""
        return self.survives_fork or self._here[0] == 1

    def check_idle(self, call: str) -> None:
        """Raise PendingError if any row is pending."""
        if self.pending_count:
            raise PendingError(
                f"Calling `{call}` while waiting for a pending call to `{self.pending_call}` to complete "
                f"({self.pending_count} envs); call recv() for their results"
                + (", or reset() to discard them." if self.broken else "."),
                self.pending_call,
            )

    def check_not_pending(self, rows: Rows) -> None:
        """Raise PendingError if one of these rows is pending."""
        busy = rows[np.isin(rows, self._pending())] if self.pending_count else rows[:0]
        if len(busy):
            raise PendingError(f"envs {_some(busy)} are still running; recv() them first", self.pending_call)

    def check_can_step(self, rows: Rows | None, call: str) -> None:
        """Raise unless every row is ready. None means all rows."""
        if self.all_ready:
            return
        if rows is None:
            self.check_idle(call)
            rows = self.all_rows
        self._mark()
        unready = rows[self._states[rows] & _READY == 0]
        busy = unready[np.isin(unready, self._pending())] if len(unready) and self.pending_count else unready[:0]
        if len(busy):
            raise PendingError(f"envs {_some(busy)} are still running; recv() them first", self.pending_call)
        stale = unready[self._states[unready] & _FAILED > 0] if self._lenient else unready
        if len(stale):
            raise NotResetError(
                f"envs {_some(stale)} need a reset before {call}(); call reset(), or "
                "reset(options={'reset_mask': mask}) for these alone"
            )

    def check_can_receive(self, count: int | None) -> int:
        """The number of rows to receive; None means all pending ones."""
        if not self.pending_count:
            raise NothingPendingError(
                "recv() without any prior send(): nothing is pending. What reset() and step() brought they have "
                "returned; call send(actions) first"
            )
        if count is None:
            return self.pending_count
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
            raise SpaceError(f"min_envs must be an int or None, got {brief(count)}")
        if not 1 <= count <= self.pending_count:
            raise SpaceError(f"min_envs must be in 1 ... {self.pending_count} (the number pending), got {count}")
        return int(count)

    def check_range(self, least: int | None, most: int | None) -> tuple[int, int]:
        """How many rows to receive at least (None: 1) and at most (None, or more than are pending: all pending)."""
        least = self.check_can_receive(1 if least is None else least)
        if most is None:
            return least, self.pending_count
        if isinstance(most, bool) or not isinstance(most, (int, np.integer)):
            raise SpaceError(f"max_envs must be an int or None, got {brief(most)}")
        if most < least:
            raise SpaceError(f"max_envs must be at least min_envs = {least}, got {most}")
        return least, min(int(most), self.pending_count)

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
        if len(rows) == len(self.all_rows):
            return
        unseen = np.setdiff1d(self.all_rows[self._states & _SEEN == 0], rows)
        if len(unseen):
            raise NotResetError(f"envs {_some(unseen)} were never reset; the first reset must include them")

    def sent(self, rows: Rows, call: str) -> None:
        """These rows were sent: the engine owns them."""
        if self.broken and not self.pending_count:
            self.broken = False  # what was left behind has been delivered
        if self.all_ready and len(rows) == len(self._states):
            self._unmarked = True
        else:
            self._states[rows] &= _NOT_READY
        self.all_ready = False
        self.pending_count += len(rows)
        self.pending_call = call

    def resync(self, undelivered: Rows | None) -> None:
        """After an interrupt, which may have come anywhere: take over from the engine what is pending.

        Args:
            undelivered: rows that were received, but whose results the user did not get. They need a reset, like rows
                that are neither pending nor received.
        """
        self._mark()
        pending = self._pending()
        self._states[pending] &= _NOT_READY
        if undelivered is not None:
            self._states[undelivered] &= _NOT_READY
        self.all_ready = bool(self.ready.all())
        self.pending_count = len(pending)
        self.broken = self.pending_count > 0

    def failed(self, rows: Rows) -> None:
        """These rows failed: they are no longer pending and need a reset."""
        self._mark()
        self.pending_count = len(self._pending())
        self._states[rows] = self._states[rows] & _SEEN | _FAILED
        self.all_ready = False

    def received(self, rows: Rows) -> None:
        """These rows were received: the front owns them, and they may be stepped."""
        self.pending_count -= len(rows)
        self.broken = self.broken and self.pending_count > 0
        if self._unmarked and len(rows) == len(self._states):
            self._unmarked, self.all_ready = False, True
            return
        self._mark()
        self._states[rows] = _DELIVERED
        self.all_ready = bool(self.ready.all())

    def discarded(self, rows: Rows) -> None:
        """These rows, the last ones that were pending, were received and thrown away. They need a reset."""
        self._mark()
        self._states[rows] |= _SEEN
        self.pending_count, self.broken = 0, False

    def replaced(self, rows: Rows, ready: np.ndarray) -> None:
        """The states of these rows were replaced; `ready` says which of the new states may be stepped."""
        self._states[rows] = np.where(ready, _DELIVERED, 0)
        self.all_ready = bool(self.ready.all())

    def _mark(self) -> None:
        """Remove the bit READY where that was put off."""
        if self._unmarked:
            self._states.fill(_SEEN)
            self._unmarked = False


def _some(rows: Rows) -> str:
    listed = ", ".join(map(str, rows[:8]))
    return f"[{listed}{', ...' if len(rows) > 8 else ''}]"
