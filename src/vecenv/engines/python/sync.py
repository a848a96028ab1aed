"""The sync engine: every env in the calling thread. The reference for all other engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv._batch.batch import Rows
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.local import LocalEngine, discard_mail, first_fault, warn_of


class SyncEngine(LocalEngine):
    """Runs rows when they are received, in the order they were sent.

    Because nothing runs before `recv`, an interrupted `recv` can be resumed: rows that did not run are still pending.

    Args:
        origin: index of the first row among all envs, if these are a part of a larger batch.
    """

    name = "sync"

    def __init__(
        self, factories: Sequence[Factory], *, observation_mode: Any = "same", on_error: Any = "raise", origin: int = 0
    ) -> None:
        super().__init__(factories, parts=1, observation_mode=observation_mode, on_error=on_error, origin=origin)
        self._everyone: Rows = np.arange(len(self.envs))
        self._listed = self._everyone.tolist()
        self._queue: list[int] = []
        self._some_ran = False
        """Whether rows in the queue may have run already, because `recv` did not come to its end."""

    def send(self, rows: Rows) -> None:
        self._queue = self._listed if len(rows) == len(self._listed) else [*self._queue, *sorted(rows.tolist())]

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        chosen = self._queue if count == len(self._queue) else self._queue[:count]
        left, some_ran, self._some_ran = self._queue[count:], self._some_ran, True
        if chosen is self._listed and not some_ran:
            self._run(chosen)
            rows = self._everyone
        else:
            self._run(sorted(row for row in chosen if self.batch.op[row]))
            rows = np.array(sorted(chosen) if count == len(self._queue) else chosen)
        if self.batch.mail:
            self._raise_fault(rows)
        # No calls between these lines and the front's own: no signal handler can run there.
        self._queue, self._some_ran = left, some_ran and left != []
        return rows

    def pending(self) -> Rows:
        return np.array(sorted(self._queue), np.int64)

    def _raise_fault(self, rows: Rows) -> None:
        found = first_fault(self.batch, rows)
        if found is None:
            return
        row, fault = found
        error = fault.to_error(row)
        self._queue = [row for row in self._queue if row not in error.rows]
        discard_mail(self.batch, error.rows)
        raise error

    def close(self, timeout: float = 5.0) -> None:
        if not self._closed:
            self._closed = True
            warn_of(self._runners[0].close())

    def _run(self, rows: list[int]) -> None:
        if not rows:
            return
        try:
            self._runners[0].run(rows)
        except BaseException as interrupt:
            # Ctrl-C: the row at work is in an unknown state, the others can go on.
            self._runners[0].interrupted(interrupt)
            raise
