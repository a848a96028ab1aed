"""Raise KeyboardInterrupt at a chosen moment."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(Exception):
    """A call was interrupted and has no result."""


@contextmanager
def errors_in_hooks_printed() -> Iterator[None]:
    """Print what is raised where Python can only report it, as in hooks that run at a fork: an interrupt, or what other
    libraries' hooks raise after one. pytest would keep it, and with it all frames and what they hold."""
    before, sys.unraisablehook = sys.unraisablehook, sys.__unraisablehook__
    try:
        yield
    finally:
        sys.unraisablehook = before


def call_and_interrupt(call: Callable[[], Any], seconds: float, box: list[Any]) -> None:
    """Store the result of a call in `box`, but raise KeyboardInterrupt inside the call after this time.

    Raises:
        Interrupted: the interrupt came before the result.
    """
    inside = [True]

    def handler(number: int, frame: Any) -> None:
        if inside[0]:
            inside[0] = False
            raise KeyboardInterrupt

    gc.disable()  # an interrupt inside a finalizer would be lost
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        box[0] = call()  # both are Python code: no handler runs between the return and the assignment
        inside[0] = False
    except KeyboardInterrupt:
        if box[0] is None:
            raise Interrupted from None
    finally:
        inside[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
