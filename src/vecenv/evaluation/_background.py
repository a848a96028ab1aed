"""An evaluation in a background thread."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vecenv.evaluation._result import Evaluation

_LEAVE_SECONDS = 10.0
Progress = Callable[[int, int], object]


class Running(Future["Evaluation"]):
    """A running evaluation: the future of its result.

    `result(timeout)` waits for the result. It raises the error that ended the evaluation, CancelledError if it was
    cancelled, and TimeoutError if it takes longer than `timeout` seconds; then it keeps running.

    Args:
        work: runs the evaluation, given an event that stops it and a function to report progress to.
        report: called in the evaluation's thread with the number of ended episodes and of all episodes.
    """

    def __init__(self, work: Callable[[threading.Event, Progress], Evaluation], report: Progress | None) -> None:
        super().__init__()
        self._stop, self._report = threading.Event(), report
        self._counts = (0, 0)
        self._thread = threading.Thread(target=self._run, args=(work,), name="vecenv-evaluation", daemon=True)
        _running.add(self)
        self._thread.start()

    def running(self) -> bool:
        """Whether the evaluation has not ended."""
        return not self.done()

    def cancel(self) -> bool:
        """Stop the evaluation after its current step and close its envs; False if it had already ended."""
        self._stop.set()
        return not self.done()

    @property
    def progress(self) -> tuple[int, int]:
        """Number of episodes that have ended, and of all episodes; (0, 0) before the first."""
        return self._counts

    def join(self, timeout: float | None = None) -> None:
        """Wait until the envs are closed and the thread has ended."""
        self._thread.join(timeout)

    def _run(self, work: Callable[[threading.Event, Progress], Evaluation]) -> None:
        try:
            result = work(self._stop, self._note)
        except BaseException as error:
            if self._stop.is_set():
                super().cancel()
                self.set_running_or_notify_cancel()
            else:
                self.set_exception(error)
        else:
            self.set_result(result)
        finally:
            _running.discard(self)

    def _note(self, ended: int, total: int) -> None:
        self._counts = (ended, total)
        if self._report is not None:
            self._report(ended, total)


_running: weakref.WeakSet[Running] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # their threads are the parent's


@atexit.register
def _stop_all() -> None:
    """Stop all evaluations and wait a moment: a thread in native code can crash Python while it exits."""
    left = list(_running)
    for running in left:
        running.cancel()
    for running in left:
        running.join(_LEAVE_SECONDS)
