"""Run a call that may kill or hang the process, in a forked copy of it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from vecenv._util.signals import WRITE_STACK, signal_name
from vecenv.errors import UnsupportedError
from vecenv.recording._stage import STAGE

_RETURNED = b"returned"
_LOOK_EVERY = 0.005
_GRACE = 0.5
"""Seconds that a hanging copy has to write its stack."""
_LONGEST_STACK = 64_000


@dataclass(frozen=True)
class Ending:
    """How a call in a forked copy ended.

    Attributes:
        kind: "returned" (or raised, which the caller can repeat here), "died" or "hung".
        exitcode: exit code of a copy that died; minus the signal's number if a signal killed it; None if not known.
        stack: its stack, as far as known.
    """

    kind: Literal["returned", "died", "hung"]
    exitcode: int | None = None
    stack: str = ""

    @property
    def signal(self) -> str | None:
        """Name of the signal that killed the copy, None if none did."""
        return None if self.exitcode is None or self.exitcode >= 0 else signal_name(-self.exitcode)


def run_forked(action: Callable[[], Any], seconds: float) -> Ending:
    """Call `action` in a forked copy of this process, whose changes are lost.

    After `seconds` the copy counts as hung and is killed. Raises UnsupportedError if this platform has no fork.
    """
    if not hasattr(os, "fork"):
        raise UnsupportedError(
            "the step that ended a worker runs in a forked copy of this process, which needs Linux or macOS; use "
            "--pdb to stop before it"
        )
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None in a program without a console
        stream.flush()
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as stack:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns about threads; the copy has none and needs none
            child = os.fork()
        if child == 0:
            _run_in_copy(action, answer.fileno(), stack.fileno())
        ended, code = _wait(child, seconds)
        if not ended:
            return Ending("hung", None, _text(stack))
        answer.seek(0)
        if answer.read() == _RETURNED:
            return Ending("returned")
        return Ending("died", code, _text(stack))


def _run_in_copy(action: Callable[[], Any], answer: int, stack: int) -> NoReturn:
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent kills this process
        faulthandler.enable(stack, all_threads=False)
        # Not faulthandler's timer: if this process has set one, as pytest's `faulthandler_timeout` does, then setting
        # it in the copy waits for a thread that the copy does not have.
        faulthandler.register(WRITE_STACK, stack, all_threads=False)
        with contextlib.suppress(BaseException):
            action()
        os.write(answer, _RETURNED)
    finally:
        os._exit(0)


def _wait(child: int, seconds: float) -> tuple[bool, int | None]:
    """Whether a child ended within `seconds`, and its exit code. One that did not writes its stack and is killed.

    The code is None if the system does not say it, because this program ignores SIGCHLD.
    """
    deadline, late = time.monotonic() + seconds, False
    try:
        while True:
            try:
                found, status = os.waitpid(child, os.WNOHANG)
            except ChildProcessError:
                child = 0
                return not late, None
            if found:
                child = 0
                return not late, os.waitstatus_to_exitcode(status)
            if time.monotonic() >= deadline:
                if late:
                    return False, None
                deadline, late = time.monotonic() + _GRACE, True
                os.kill(child, WRITE_STACK)
            time.sleep(_LOOK_EVERY)
    finally:
        if child:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _text(file: Any) -> str:
    """The stack that faulthandler wrote, up to the call of the env."""
    file.seek(0)
    lines = file.read(_LONGEST_STACK).decode(errors="replace").splitlines()
    places = (place for place, line in enumerate(lines) if STAGE in line)
    return "\n".join(lines[: next(places, len(lines))]).strip()
