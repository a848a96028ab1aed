"""Try what may end this process or never return: in a copy of it, which is watched."""

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

from vecenv.errors import UnsupportedError
from vecenv.recording._stage import STAGE

_RETURNED = b"returned"
_LOOK_EVERY = 0.005
_GRACE = 0.5
"""Seconds that a copy has to write where it hangs."""
_LONGEST_STACK = 64_000
_WRITE_STACK = getattr(signal, "SIGRTMAX", signal.SIGUSR2)
"""Asks a copy where it is. faulthandler answers in its signal handler, also while the env holds the GIL.

Its timer would not do: if the process that is copied has set one, as pytest's `faulthandler_timeout` does, then setting
it in the copy waits for a thread that the copy does not have.
"""


@dataclass(frozen=True)
class Ending:
    """How a trial ended.

    Attributes:
        kind: "returned" (or raised: that can be done again here), "died" or "hung".
        exitcode: of one that died; minus the signal's number if it was a signal.
        stack: where it was, as far as known.
    """

    kind: Literal["returned", "died", "hung"]
    exitcode: int | None = None
    stack: str = ""

    @property
    def signal(self) -> str | None:
        """Name of the signal that it died of."""
        return signal_name(self.exitcode)


def signal_name(exitcode: int | None) -> str | None:
    """The signal of a negative exit code, by its name."""
    if exitcode is None or exitcode >= 0:
        return None
    try:
        return signal.Signals(-exitcode).name
    except ValueError:
        return f"signal {-exitcode}"


def try_out(action: Callable[[], Any], seconds: float) -> Ending:
    """Do something in a copy of this process and throw away what it changes.

    Args:
        action: what to do.
        seconds: after these it hangs, and the copy is killed.

    Raises:
        UnsupportedError: this platform cannot copy a process.
    """
    if not hasattr(os, "fork"):
        raise UnsupportedError(
            "what ended a worker is tried in a copy of this process, which needs Linux or macOS; use --pdb to stop "
            "before it"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as stack:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of threads; the copy has none of them and needs none
            child = os.fork()
        if child == 0:
            _in_the_copy(action, answer.fileno(), stack.fileno())
        status = _wait(child, seconds)
        if status is None:
            return Ending("hung", None, _text(stack))
        answer.seek(0)
        if answer.read() == _RETURNED:
            return Ending("returned")
        return Ending("died", os.waitstatus_to_exitcode(status), _text(stack))


def _in_the_copy(action: Callable[[], Any], answer: int, stack: int) -> NoReturn:
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits, which then ends this one
        faulthandler.enable(stack, all_threads=False)
        faulthandler.register(_WRITE_STACK, stack, all_threads=False)
        with contextlib.suppress(BaseException):
            action()
        os.write(answer, _RETURNED)
    finally:
        os._exit(0)


def _wait(child: int, seconds: float) -> int | None:
    """The status of a child that ended; None if it did not within `seconds`: then it wrote its stack and was killed."""
    deadline, late = time.monotonic() + seconds, False
    try:
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                child = 0
                return None if late else status
            if time.monotonic() >= deadline:
                if late:
                    return None
                deadline, late = time.monotonic() + _GRACE, True
                os.kill(child, _WRITE_STACK)
            time.sleep(_LOOK_EVERY)
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _text(file: Any) -> str:
    """What faulthandler wrote, up to where the env was called."""
    file.seek(0)
    lines = file.read(_LONGEST_STACK).decode(errors="replace").splitlines()
    places = (place for place, line in enumerate(lines) if STAGE in line)
    return "\n".join(lines[: next(places, len(lines))]).strip()
