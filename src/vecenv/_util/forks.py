"""Locks and forks. A forked child has only one thread: a lock that another thread held would stay held for ever.

And how a process learns that it is a forked child.
"""

from __future__ import annotations

import functools
import logging  # noqa: F401  # before FORK_LOCK is registered, see there
import mmap
import os
import sys
import threading
import weakref
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_LONGEST_WAIT = 60.0
"""Seconds that a fork waits for a lock."""
_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
"""Objects whose `_at_fork_reinit` is called in the child after a fork."""


def renewed_at_fork(lock: Any) -> Any:
    """Let this lock be free in a forked child. Returns the lock, which is never freed.

    The callback is a C function: in one of Python, a signal handler could raise, and the error would be lost.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock


def reinit_after_fork(thing: T) -> T:
    """Call `thing._at_fork_reinit()` in every forked child as long as the thing exists. Returns it."""
    _renewed.add(thing)
    return thing


def _reinit_all() -> None:
    for thing in list(_renewed):
        thing._at_fork_reinit()


FORK_LOCK = renewed_at_fork(threading.RLock())
"""Held by a fork, and by a thread while it compiles or starts a process, because a forked child must not find that half
done. A fork waits for it, at most a minute. It is one lock for all, so that no two are taken in different orders.

logging has a lock that forks take, too. A thread that compiles imports modules, and these make loggers; so a fork must
take this lock first. Python calls what is registered last first, which is why logging is imported above.
"""
if hasattr(os, "register_at_fork"):
    # C functions again: else the lock could be held for ever. If a minute was not enough, Python reports the release.
    os.register_at_fork(
        before=functools.partial(FORK_LOCK.acquire, True, _LONGEST_WAIT), after_in_parent=FORK_LOCK.release
    )
    os.register_at_fork(after_in_child=_reinit_all)


class cached_property(functools.cached_property[T]):
    """As Python's. Before Python 3.12 that has a lock, one for all objects, which is free in a forked child."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        if hasattr(self, "lock"):
            renewed_at_fork(self.lock)  # type: ignore[attr-defined]  # only before Python 3.12


class Word(Protocol):
    """One number, read as item 0."""

    def __getitem__(self, index: int, /) -> int: ...


HERE: Word = (1,)
"""A word that is 1 in forked processes, too: for callers that treat them as this one."""
_WIPE_ON_FORK = 18
"""Linux's MADV_WIPEONFORK, which Python has no name for."""


def only_here() -> Word:
    """A word that is 1 in this process and 0 in every process that is forked from it, also by native code.

    The kernel wipes it there. To ask for the process id is a system call, and takes ten times as long.
    """
    if not hasattr(os, "fork"):
        return HERE
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
    """For systems that cannot wipe memory."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __getitem__(self, index: int, /) -> int:
        return os.getpid() == self._pid
