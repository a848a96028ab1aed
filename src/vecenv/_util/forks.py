"""Locks and forks. A forked child has only one thread: what the others held or had half done stays so for ever."""

from __future__ import annotations

import functools
import os
from typing import Any, TypeVar

T = TypeVar("T")
_LONGEST_WAIT = 60.0
"""Seconds that a fork waits for a lock."""


def held_at_fork(lock: Any) -> Any:
    """Let a fork wait until no other thread holds this RLock, at most a minute. Returns the lock.

    So the child has nothing half done of what the lock guards. The callbacks are C functions: in one of Python, a
    signal handler could raise, and the error would be lost or the lock be held for ever.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=functools.partial(lock.acquire, True, _LONGEST_WAIT), after_in_parent=lock.release)
    return renewed_at_fork(lock)


def renewed_at_fork(lock: Any) -> Any:
    """Let nobody hold this lock in a forked child. Returns the lock."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock


class cached_property(functools.cached_property[T]):
    """As Python's. Before Python 3.12 that has a lock, one for all objects, which is free in a forked child."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        if hasattr(self, "lock"):
            renewed_at_fork(self.lock)  # type: ignore[attr-defined]  # only before Python 3.12
