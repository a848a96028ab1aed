"""An evaluation in a thread of its own."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vecenv.evaluation._result import Evaluation

_LEAVE_SECONDS = 10.0


class Running:
    """An evaluation that runs while you go on.

    Args:
        work: is given the event that asks it to stop, and a function to be told of progress (ended, all).
    """

    def __init__(self, work: Callable[[threading.Event, Callable[[int, int], None]], Evaluation]) -> None:
        self._future: Future[Evaluation] = Future()
        self._stop = threading.Event()
        self._counts = (0, 0)
        self._thread = threading.Thread(target=self._run, args=(work,), name="vecenv-evaluation", daemon=True)
        _running.add(self)
        self._thread.start()

    def result(self, timeout: float | None = None) -> Evaluation:
        """Wait for the result.

        Raises:
            CancelledError: it was cancelled.
            TimeoutError: it took longer than `timeout` seconds; it runs on.
            Exception: what stopped the evaluation.
        """
        return self._future.result(timeout)

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._future.done()

    def cancel(self) -> bool:
        """Ask it to stop after the step that is running, and close its envs; False if it had ended already."""
        self._stop.set()
        return not self.done()

    def cancelled(self) -> bool:
        """Whether it ended because it was cancelled."""
        return self._future.cancelled()

    @property
    def progress(self) -> tuple[int, int]:
        """How many episodes have ended, and how many there are; (0, 0) before the first."""
        return self._counts

    def join(self, timeout: float | None = None) -> None:
        """Wait until its envs are closed and its thread has ended."""
        self._thread.join(timeout)

    def _run(self, work: Callable[[threading.Event, Callable[[int, int], None]], Evaluation]) -> None:
        try:
            result = work(self._stop, self._note)
        except BaseException as error:
            if self._stop.is_set():
                self._future.cancel()
                self._future.set_running_or_notify_cancel()
            else:
                self._future.set_exception(error)
        else:
            self._future.set_result(result)
        finally:
            _running.discard(self)

    def _note(self, ended: int, total: int) -> None:
        self._counts = (ended, total)


_running: weakref.WeakSet[Running] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """A thread that is inside native code when Python ends may bring it down: ask all to stop, and wait a little."""
    left = list(_running)
    for running in left:
        running.cancel()
    for running in left:
        running.join(_LEAVE_SECONDS)
