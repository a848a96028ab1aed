"""Copies of workers: an env forks, and the child returns from the env's call instead of ending.

The child would go on as a second worker, with the same messages and the same shared memory. So it is ended as soon as
the call returns or raises. In the user's own threads nothing is ended: there the child is a copy of the whole program,
as it is with Gymnasium.
"""

from __future__ import annotations

import contextlib
import os
import threading
import types
from typing import NoReturn

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
