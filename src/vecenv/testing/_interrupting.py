"""Raise KeyboardInterrupt at a chosen moment."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from typing import Any


class Interrupted(Exception):
    """A call was interrupted and has no result."""


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

    def report(lost: Any) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            reported(lost)

    gc.disable()  # an interrupt inside a finalizer would be lost
    # So is one inside a hook that runs at a fork. pytest would keep it, and with it all frames and what they hold.
    reported, sys.unraisablehook = sys.unraisablehook, report
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
        sys.unraisablehook = reported
        gc.enable()
