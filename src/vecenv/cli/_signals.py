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
    """Whether the user has asked to stop: `code` is the exit code for the signal, None without a request."""

    code: int | None = None

    def __bool__(self) -> bool:
        return self.code is not None


@contextmanager
def stop_request(on_request: Callable[[], None]) -> Iterator[StopRequest]:
    """Handle SIGINT and SIGTERM within the block: `on_request` is called at the first, the second interrupts.

    After SIGTERM, the block is interrupted by itself if it has not ended within `GRACE`.
    """
    request = StopRequest()
    timer = threading.Timer(GRACE, _send_to_main_thread, (signal.SIGTERM,))
    timer.daemon = True

    def note(number: int, frame: Any) -> None:
        if request:
            raise Stopped(request.code or CODES[signal.Signals(number)])
        request.code = CODES[signal.Signals(number)]
        if number == signal.SIGTERM:
            timer.start()
        on_request()

    try:
        with _handler(note):
            yield request
    finally:
        timer.cancel()


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
