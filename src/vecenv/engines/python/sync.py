"""The sync engine: every env in the calling thread. The reference for all other engines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv._batch.batch import Rows
from vecenv.engines.pending import PendingRows
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.local import LocalEngine, warn_of


class SyncEngine(LocalEngine):
    """Runs rows when they are received, in the order they were sent.

    Because nothing runs before `recv`, an interrupted `recv` can be resumed: rows that did not run are still pending.

    Args:
        origin: index of the first row among all envs, if these are a part of a larger batch.
    """

    name = "sync"
    checks_actions = False

    def __init__(
        self, factories: Sequence[Factory], *, observation_mode: Any = "same", on_error: Any = "raise", origin: int = 0
    ) -> None:
        super().__init__(factories, parts=1, observation_mode=observation_mode, on_error=on_error, origin=origin)
        self._listed = list(range(len(self.envs)))
        self._pending = PendingRows(len(self.envs), finished=self._runners[0].finished)

    def send(self, rows: Rows) -> None:
        self._pending.open(rows)

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        pending = self._pending
        rows = pending.everyone if count == len(self._listed) else pending.oldest(count)
        if 1 in pending.finished.tobytes():  # a `recv` that was interrupted, or raised, has run some of them
            self._run(np.sort(rows[~pending.finished[rows]]).tolist())
        else:
            self._run(self._listed if rows is pending.everyone else np.sort(rows).tolist())
        if self.batch.mail:
            pending.raise_fault(self.batch, rows)
        pending.give_back(rows)
        return rows

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Run every row at once. Observations have no ring of buffers: `rotate` changes nothing."""
        self.batch.set_ops(alive, over)
        try:
            self._runners[0].run_all()
            if self.batch.mail:
                self._raise_fault()
        except BaseException as error:
            self._recover(error)
            raise
        return self.batch.count_ended()

    def _raise_fault(self) -> None:
        """Raise the first fault of an exchange of all rows, if there is one. The other rows are then pending."""
        if any(mail.fault for mail in self.batch.mail.values()):
            self._pending.open_finished()
            self._pending.raise_fault(self.batch, self._pending.everyone)

    def _recover(self, error: BaseException) -> None:
        """An exchange of all rows was left by an error: rows that have results or can still run are pending now."""
        pending, runner, mail = self._pending, self._runners[0], self.batch.mail
        if runner.is_running:  # Ctrl-C: the row that was running has failed, the others can go on
            pending.open(pending.everyone)
            runner.interrupted(error)
        elif not pending.count and any(each.fault for each in mail.values()):  # Ctrl-C while an episode began
            pending.open_finished()
        elif not pending.count:  # the results of all rows are lost, so they need a reset
            mail.clear()

    @property
    def rewards_are_finite(self) -> bool:
        return self.batch.rewards_are_finite()

    def pending(self) -> Rows:
        return self._pending.rows()

    def gather(self, count: int, seconds: float, timeout: float | None = None) -> int:
        pending, deadline = self._pending, time.monotonic() + seconds
        while pending.missing(count) and time.monotonic() < deadline:
            self._run([next(row for row in pending.oldest(count).tolist() if not pending.finished[row])])
        return pending.count_ready()

    def close(self, timeout: float = 5.0) -> None:
        warn_of(self._runners[0].close())

    def _run(self, rows: list[int]) -> None:
        if not rows:
            return
        try:
            self._runners[0].run(rows)
        except BaseException as interrupt:
            # Ctrl-C: the row that was running has failed, the others can go on.
            self._runners[0].interrupted(interrupt)
            raise
