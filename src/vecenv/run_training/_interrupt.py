"""Ctrl-C: the first one stops after the iteration, the second one at once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXIT_CODE = 130
"""The exit code that shells expect after Ctrl-C."""


class Interrupt:
    """Within its context, Ctrl-C sets `asked`; a second one ends the process and all processes that it started.

    The signal handler calls `first` at the first Ctrl-C, and `second` before the process ends.
    """

    def __init__(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        self.asked = False
        self._first, self._second = first, second
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *exception: Any) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: Any) -> None:
        if self.asked:
            self._second()
            _kill_descendants()
            os._exit(EXIT_CODE)
        self.asked = True
        self._first()


def _kill_descendants() -> None:
    """Kill the processes that this one started: Ray's agents notice only after a while. Does nothing without /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended in the meantime
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    family = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= found
    for pid in family - {os.getpid()}:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
