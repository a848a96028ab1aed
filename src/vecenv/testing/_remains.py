"""Check what a closed vector env leaves behind: processes, threads, open files."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from vecenv.errors import UnsupportedError
from vecenv.testing._laws import law

_PROC = Path("/proc")
_PATIENCE = 2.0


class Remains:
    """Stores what exists now, to compare later. Without /proc, only processes and threads are compared."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors()
        self._replaced: set[int] = set()

    def replaced(self, pids: Iterable[int]) -> None:
        """These processes have been replaced by others."""
        self._replaced |= set(pids)

    def check(self, pids: Iterable[int]) -> None:
        """Check that nothing new is left: these processes and those that they replaced are gone."""
        ended = self._replaced | set(pids) - {os.getpid()}
        law("remains", _soon(lambda: not any(map(is_alive, ended))), f"some processes of {sorted(ended)} still run")
        law("remains", _soon(lambda: not self._new_threads()), f"threads are left: {self._new_threads()}")
        if self._new_descriptors():
            gc.collect()  # shared memory is released with the last array in it
        left = self._new_descriptors()
        law("remains", not left, f"open files are left: {left}")

    def _new_threads(self) -> set[threading.Thread]:
        return set(threading.enumerate()) - self._threads

    def _new_descriptors(self) -> dict[str, str]:
        return {number: where for number, where in _descriptors().items() if number not in self._descriptors}


def is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not. Raises UnsupportedError on Windows, where signal 0 is Ctrl-C."""
    if sys.platform == "win32":
        raise UnsupportedError("envs in other processes cannot be checked on Windows; use Linux or macOS")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # the latter: it ended after its file was opened
        return not _PROC.is_dir()


def _descriptors() -> dict[str, str]:
    """Open files of this process, and their targets."""
    found = {}
    for number in os.listdir("/proc/self/fd") if _PROC.is_dir() else ():
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return found


def _soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
