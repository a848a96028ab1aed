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
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from vecenv.testing._fault_env import FaultEnv

Result = dict[str, Any]
"""The values that `step` or `reset` is about to return, by name."""

BIG = 8_000_000
"""Bytes of a large info."""


class TwoArgumentsError(Exception):
    """An exception that cannot be unpickled: its arguments are not those of its constructor."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class UnpicklableError(Exception):
    """An exception that holds a lock."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


def _raises(error: Callable[[FaultEnv], BaseException]) -> Callable[[FaultEnv], None]:
    def fail(env: FaultEnv) -> None:
        raise error(env)

    return fail


def _segfault(env: FaultEnv) -> None:
    ctypes.string_at(0)


def _abort(env: FaultEnv) -> None:  # a name that is found in the stack of a dead worker
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


def _fork_child(env: FaultEnv) -> None:
    if os.fork() == 0:
        time.sleep(env.seconds)
        os._exit(0)


def _session_child(env: FaultEnv) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    env.children.append(subprocess.Popen(sleep, start_new_session=True))


def _print(env: FaultEnv) -> None:
    os.write(1, b"\x80\x04 not a message\n")
    print(f"env {env.index} says hello", flush=True)


FAILURES: dict[str, Callable[[FaultEnv], object]] = {
    "raise": _raises(lambda env: ValueError(f"boom in env {env.index}")),
    "percent": _raises(lambda env: ValueError("100 % wrong: %s %d %(name)s")),
    "two-args": _raises(lambda env: TwoArgumentsError("one", "two")),
    "unpicklable": _raises(lambda env: UnpicklableError("it holds a lock")),
    "system-exit": lambda env: sys.exit(7),
    "keyboard-interrupt": _raises(lambda env: KeyboardInterrupt()),
    "os-exit": lambda env: os._exit(9),
    "kill": lambda env: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": _segfault,
    "abort": _abort,
    "fork-and-die": _fork_and_die,
    "hang": _hang,
    "hang-with-gil": _hang_with_gil,
    "hang-ignoring-sigterm": _hang_ignoring_sigterm,
    "stop": lambda env: os.kill(os.getpid(), signal.SIGSTOP),
    "slow": lambda env: time.sleep(env.chance.exponential(env.pause)),
    "fork-child": _fork_child,
    "session-child": _session_child,
    "fd-leak": lambda env: os.open(os.devnull, os.O_RDONLY),
    "print": _print,
}
"""Faults inside a call."""


def _one_wrong(name: str, wrong: Callable[[Any], Any]) -> Callable[[Result], tuple[Any, ...]]:
    return lambda result: tuple({**result, name: wrong(result[name])}.values())


def _with(value: float) -> Callable[[np.ndarray], np.ndarray]:
    """Replaces the noise of an observation; the other entries, which identify its origin, are kept."""
    return lambda obs: np.array([*obs[:-1], value])


SPOILERS: dict[str, Callable[[Result], Any]] = {
    "four-values": lambda result: tuple(value for name, value in result.items() if name != "truncated"),
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

KINDS = ("none", *FAILURES, *SPOILERS)
