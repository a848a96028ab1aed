"""Copies of workers: an env forks, and the child returns from the env's call instead of ending.

The child would go on as a second worker, with the same messages and the same shared memory. So it is ended as soon as
the call returns or raises. In the user's own threads nothing is ended: there the child is a copy of the whole program,
as it is with Gymnasium.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
import types
from typing import NoReturn, Protocol

forks = [0]
"""How often a thread that runs envs was forked on the way to this process."""
_thread = threading.local()


def end_copies_of_this_thread() -> None:
    """From now on, forks of this thread count. For threads that do nothing but run envs."""
    _thread.runs_envs = True


def _count() -> None:
    forks[0] += getattr(_thread, "runs_envs", False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)


class Word(Protocol):
    """One number, read as item 0."""

    def __getitem__(self, index: int, /) -> int: ...


HERE: Word = (1,)
"""For envs in threads of the user's own, whose copies are not ended."""
_WIPE_ON_FORK = 18
"""Linux's MADV_WIPEONFORK, which Python has no name for."""


def only_here() -> Word:
    """A word that is 1 in this process and 0 in every process that is forked from it, also by native code.

    It is read before anything is written that an env returned, so it must be fast to read.
    """
    if sys.platform != "linux":
        return _HereByPid()
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        page.madvise(_WIPE_ON_FORK)
    except OSError:  # a kernel older than 4.14
        return _HereByPid()
    page[0] = 1
    return memoryview(page)


class _HereByPid:
    """Asks for the process id, which takes ten times as long."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __getitem__(self, index: int, /) -> int:
        return os.getpid() == self._pid


class NoCopies:
    """A block that calls an env. A copy that leaves the block, and in which it did not begin, is ended."""

    def __enter__(self) -> None:
        self._forks = forks[0]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if forks[0] != self._forks:
            end_copy(error)


def end_copy(error: BaseException | None = None) -> NoReturn:
    """End this process, a copy in which a call of an env has returned or raised `error`; quietly after `sys.exit`."""
    status = 1
    try:
        if type(error) is SystemExit:
            status = 0 if error.code is None else error.code & 0xFF if isinstance(error.code, int) else 1
        else:
            with contextlib.suppress(OSError):
                os.write(
                    2,
                    b"vecenv: an env forked, and the child returned from the env's call; the child (pid %d) was ended. "
                    b"Let it end by itself, with os._exit()\n" % os.getpid(),
                )
    finally:
        os._exit(status)
