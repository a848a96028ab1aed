"""Stop on Ctrl-C and SIGTERM: the first signal stops at the next suitable moment, the second one at once."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
GRACE = 5.0
"""Seconds after SIGTERM until the work is interrupted. Schedulers send it once, and kill after 10 to 30 seconds."""


class Stopped(KeyboardInterrupt):
    """A signal that interrupts; `code` is the exit code for it."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


class StopRequest:
    """Whether the user has asked to stop.

    Attributes:
        code: the exit code for the signal, None without a request.
        ended: whether the work that signals may interrupt has ended. From then on signals only set `code`.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self.ended = False
        self._timer = threading.Timer(GRACE, _send_to_main_thread, (signal.SIGTERM,))
        self._timer.daemon = True

    def __bool__(self) -> bool:
        return self.code is not None

    def note(self, number: int) -> None:
        """Store the first signal, interrupt at the second one."""
        first = self.code is None
        self.code = self.code or CODES[signal.Signals(number)]
        if self.ended:
            return
        if not first:
            self._timer.cancel()  # what is done about the interrupt is not interrupted
            raise Stopped(self.code)
        if number == signal.SIGTERM:
            self._timer.start()

    def end(self) -> None:
        """Let the following work, such as saving, run to its end whatever signals come."""
        self.ended = True
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()


@contextmanager
def stop_request(on_request: Callable[[], None]) -> Iterator[StopRequest]:
    """Handle SIGINT and SIGTERM within the block: `on_request` is called at the first, the second interrupts.

    After SIGTERM, the block is interrupted by itself if neither it nor the request has ended within `GRACE`.
    """
    request = StopRequest()

    def note(number: int, frame: Any) -> None:
        request.note(number)
        if not request.ended:
            on_request()

    with _handler(note):
        try:
            yield request
        finally:
            request.end()  # here, because without the handler the timer's signal would end the process


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Within the block, SIGTERM interrupts as Ctrl-C does."""

    def stop(number: int, frame: Any) -> None:
        raise Stopped(CODES[signal.Signals(number)])

    with _handler(stop):
        yield


@contextmanager
def _handler(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle both signals within the block. Only the main thread can; in others nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handle) for number in CODES}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _send_to_main_thread(number: signal.Signals) -> None:
    if hasattr(signal, "pthread_kill"):  # it also ends a system call that blocks
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(number)
