"""The sync engine: every env in the calling thread. The reference for all other engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv._batch import Rows
from vecenv._rows import Factory
from vecenv.engines._local import LocalEngine, raise_fault
from vecenv.errors import EnvError


class SyncEngine(LocalEngine):
    """Runs rows when they are received, in the order they were sent.

    Because nothing runs before `recv`, an interrupted `recv` can be resumed: rows that did not run are still pending.
    """

    name = "sync"

    def __init__(
        self, factories: Sequence[Factory], *, observation_mode: Any = "same", on_error: Any = "raise"
    ) -> None:
        super().__init__(factories, parts=1, observation_mode=observation_mode, on_error=on_error)
        self._everyone: Rows = np.arange(len(self.envs))
        self._listed = self._everyone.tolist()
        self._queue: list[int] = []
        self._some_ran = False

    def send(self, rows: Rows) -> None:
        self._queue = self._listed if len(rows) == len(self._listed) else [*self._queue, *rows.tolist()]

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        chosen = self._queue if count == len(self._queue) else self._queue[:count]
        if chosen is self._listed and not self._some_ran:
            self._run(chosen)
            rows = self._everyone
        else:
            self._run(sorted(row for row in chosen if self.batch.op[row]))
            rows = np.array(sorted(chosen) if count == len(self._queue) else chosen)
        if self.batch.mail:
            self._raise_fault(rows)
        self._queue = self._queue[count:]
        self._some_ran = self._some_ran and bool(self._queue)
        return rows

    def _raise_fault(self, rows: Rows) -> None:
        try:
            raise_fault(self.batch, rows)
        except EnvError as error:
            self._some_ran = True
            self._queue = [row for row in self._queue if row != error.row]
            raise

    def close(self, timeout: float = 5.0) -> None:
        if not self._closed:
            self._closed = True
            self._runners[0].close()

    def _run(self, rows: list[int]) -> None:
        if not rows:
            return
        try:
            self._runners[0].run(rows)
        except BaseException as interrupt:
            # Ctrl-C: the row at work is in an unknown state, the others can go on.
            self._some_ran = True
            self._runners[0].interrupted(interrupt)
            raise
