"""Kinds of faults of an env: failing calls, and wrong results."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from vecenv.testing._fault_env import FaultEnv

Kind = Literal[
    "none",
    "raise",
    "percent",
    "two-args",
    "unpicklable",
    "system-exit",
    "keyboard-interrupt",
    "os-exit",
    "kill",
    "segfault",
    "abort",
    "fork-and-die",
    "hang",
    "hang-with-gil",
    "hang-ignoring-sigterm",
    "stop",
    "slow",
    "fork-child",
    "session-child",
    "fd-leak",
    "print",
    "four-values",
    "no-values",
    "reward-none",
    "reward-string",
    "reward-array",
    "reward-nan",
    "reward-inf",
    "flag-string",
    "obs-shape",
    "obs-scalar",
    "obs-overflow",
    "obs-none",
    "obs-nan",
    "obs-inf",
    "info-none",
    "info-list",
    "info-unpicklable",
    "info-big",
]

Result = dict[str, Any]
"""The values that `step` or `reset` is about to return, by name."""

BIG = 8_000_000
"""Bytes of a large info."""
SLEEPER = ("import time; time.sleep(60)",)


class TwoArgumentsError(Exception):
    """An exception that cannot be unpickled: its arguments are not those of its constructor."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class UnpicklableError(Exception):
    """An exception that holds a lock."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def _raise(env: FaultEnv) -> None:
    raise ValueError(f"boom in env {env.index}")


def _percent(env: FaultEnv) -> None:
    raise ValueError("100 % wrong: %s %d %(name)s")


def _two_arguments(env: FaultEnv) -> None:
    raise TwoArgumentsError("one", "two")


def _unpicklable(env: FaultEnv) -> None:
    raise UnpicklableError("it holds a lock")


def _system_exit(env: FaultEnv) -> None:
    sys.exit(7)


def _keyboard_interrupt(env: FaultEnv) -> None:
    raise KeyboardInterrupt


def _os_exit(env: FaultEnv) -> None:
    os._exit(9)


def _kill(env: FaultEnv) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault(env: FaultEnv) -> None:
    ctypes.string_at(0)


def _abort(env: FaultEnv) -> None:
    os.abort()


def _fork_and_die(env: FaultEnv) -> None:
    _fork_child(env)
    os._exit(9)


def _hang(env: FaultEnv) -> None:
    time.sleep(env.seconds)


def _hang_with_gil(env: FaultEnv) -> None:
    deadline = time.monotonic() + env.seconds
    while (left := deadline - time.monotonic()) > 0:  # a signal may end a sleep early
        ctypes.PyDLL(None).usleep(int(left * 1e6) + 1)


def _hang_ignoring_sigterm(env: FaultEnv) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _hang(env)


def _stop(env: FaultEnv) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _slow(env: FaultEnv) -> None:
    time.sleep(env.chance.exponential(env.pause))


def _fork_child(env: FaultEnv) -> None:
    if os.fork() == 0:
        time.sleep(env.seconds)
        os._exit(0)


def _session_child(env: FaultEnv) -> None:
    env.children.append(subprocess.Popen([sys.executable, "-c", *SLEEPER], start_new_session=True))


def _fd_leak(env: FaultEnv) -> None:
    os.open(os.devnull, os.O_RDONLY)


def _print(env: FaultEnv) -> None:
    os.write(1, b"\x80\x04 not a message\n")
    print(f"env {env.index} says hello", flush=True)


FAILURES: dict[str, Callable[[FaultEnv], None]] = {
    "raise": _raise,
    "percent": _percent,
    "two-args": _two_arguments,
    "unpicklable": _unpicklable,
    "system-exit": _system_exit,
    "keyboard-interrupt": _keyboard_interrupt,
    "os-exit": _os_exit,
    "kill": _kill,
    "segfault": _segfault,
    "abort": _abort,
    "fork-and-die": _fork_and_die,
    "hang": _hang,
    "hang-with-gil": _hang_with_gil,
    "hang-ignoring-sigterm": _hang_ignoring_sigterm,
    "stop": _stop,
    "slow": _slow,
    "fork-child": _fork_child,
    "session-child": _session_child,
    "fd-leak": _fd_leak,
    "print": _print,
}
"""Faults inside a call."""


def _drop_truncated(result: Result) -> tuple[Any, ...]:
    return tuple(value for name, value in result.items() if name != "truncated")


def _one_wrong(name: str, wrong: Callable[[Any], Any]) -> Callable[[Result], tuple[Any, ...]]:
    return lambda result: tuple({**result, name: wrong(result[name])}.values())


def _with(value: float) -> Callable[[np.ndarray], np.ndarray]:
    """Replaces the noise of an observation; the other entries, which identify its origin, are kept."""
    return lambda obs: np.array([*obs[:-1], value])


SPOILERS: dict[str, Callable[[Result], Any]] = {
    "four-values": _drop_truncated,
    "no-values": lambda result: None,
    "reward-none": _one_wrong("reward", lambda reward: None),
    "reward-string": _one_wrong("reward", lambda reward: "1.0"),
    "reward-array": _one_wrong("reward", lambda reward: np.array([reward, reward])),
    "reward-nan": _one_wrong("reward", lambda reward: np.nan),
    "reward-inf": _one_wrong("reward", lambda reward: np.inf),
    "flag-string": _one_wrong("terminated", lambda flag: "False"),
    "obs-shape": _one_wrong("obs", lambda obs: obs[:3]),
    "obs-scalar": _one_wrong("obs", lambda obs: np.float64(1.0)),
    "obs-overflow": _one_wrong("obs", lambda obs: [*obs[:-1], np.longdouble("1e4000")]),
    "obs-none": _one_wrong("obs", lambda obs: None),
    "obs-nan": _one_wrong("obs", _with(np.nan)),
    "obs-inf": _one_wrong("obs", _with(np.inf)),
    "info-none": _one_wrong("info", lambda info: None),
    "info-list": _one_wrong("info", lambda info: [1]),
    "info-unpicklable": _one_wrong("info", lambda info: {**info, "lock": threading.Lock(), "fine": 1}),
    "info-big": _one_wrong("info", lambda info: {**info, "big": np.arange(BIG // 8)}),
}
"""Wrong results. Those of an observation or info can be results of `reset` too."""
