"""Signals of other processes."""

from __future__ import annotations

import signal

WRITE_STACK: int = getattr(signal, "SIGRTMAX", getattr(signal, "SIGUSR2", 0))
"""Makes a process write its stack: faulthandler does so in its signal handler, even while an env holds the GIL.

A real-time signal where there are any: envs and libraries use SIGUSR1 and SIGUSR2 themselves. 0 if there is none.
"""


def signal_name(number: int) -> str:
    """The name of a signal: "SIGKILL", or "SIGRTMIN+3" for one of the real-time signals, which Python does not name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        first = getattr(signal, "SIGRTMIN", None)
        return f"signal {number}" if first is None or number < first else f"SIGRTMIN+{number - first}"


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for this signal, so that it does not kill. False where that is unknown."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            words = next(line.split() for line in file if line.startswith(b"SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(words[1], 16) >> (number - 1) & 1)
