"""Stop on Ctrl-C: the first one stops at the next suitable moment, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopRequest:
    """Whether the user has asked to stop: `code` is the exit code for the signal, None without a request."""

    code: int | None = None

    def __bool__(self) -> bool:
        return self.code is not None


@contextmanager
def stop_request(on_request: Callable[[], None]) -> Iterator[StopRequest]:
    """Handle SIGINT and SIGTERM within the block: `on_request` is called at the first, the second interrupts."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def note(number: int, frame: Any) -> None:
        if request:
            raise KeyboardInterrupt
        request.code = CODES[signal.Signals(number)]
        on_request()

    before = {number: signal.signal(number, note) for number in CODES}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
