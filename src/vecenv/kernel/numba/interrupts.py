"""Ctrl-C in native loops that do not end.

Python's own handler of SIGINT only sets a flag, and the main thread looks at it when it runs Python again. So a loop of
native code asks Python every million turns whether to stop (`checks.py`). In the main thread it stops if there was a
SIGINT; the flag is set again, and so the handler runs as soon as native code has returned. Other threads stop
while they are named in `stopping`. No Python code runs in the loop: what a handler raised could not be caught there.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator, Sequence

import numpy as np

PYTHON = ("PyGILState_Ensure", "PyGILState_Release", "PyOS_InterruptOccurred", "PyErr_SetInterrupt")
"""Functions of Python that loops call."""
THREAD = "PyThread_get_thread_ident"
STOPS = "vecenv_stops"
"""What native code calls the idents of threads that are to stop."""
PLACES = 32
"""How many there can be; more threads than that have to be asked twice."""
_stops = np.zeros(PLACES, np.uint64)
_changing = threading.Lock()


@contextlib.contextmanager
def stopping(threads: Sequence[threading.Thread]) -> Iterator[None]:
    """Meanwhile loops of native code in these threads stop."""
    idents = [thread.ident for thread in threads if thread.ident is not None]
    with _changing:
        places = np.flatnonzero(_stops == 0)[: len(idents)]
        _stops[places] = idents[: len(places)]
    try:
        yield
    finally:
        _stops[places] = 0


def symbols() -> dict[str, int]:
    """Addresses of what loops call and read."""
    functions = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in (*PYTHON, THREAD)
    }
    return {**{name: address or 0 for name, address in functions.items()}, STOPS: _stops.ctypes.data}
