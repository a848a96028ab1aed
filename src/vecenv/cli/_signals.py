"""Ctrl-C as a wish: the first one asks to stop at the next good moment, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Wish:
    """Whether the user wants it to stop.

    Attributes:
        code: the exit code that says so, None as long as nobody does.
    """

    code: int | None = None

    def __bool__(self) -> bool:
        return self.code is not None


@contextmanager
def stop_wish(told: Callable[[], None]) -> Iterator[Wish]:
    """Note SIGINT and SIGTERM within the block; `told` is called at the first, the second interrupts."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return

    def note(number: int, frame: Any) -> None:
        if wish:
            raise KeyboardInterrupt
        wish.code = CODES[signal.Signals(number)]
        told()

    before = {number: signal.signal(number, note) for number in CODES}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
