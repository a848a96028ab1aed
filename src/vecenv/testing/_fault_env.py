"""An env that tells exactly which transition it returns, and that fails when told to."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from functools import partial
from typing import Any, Literal, get_args

import gymnasium
import numpy as np

from vecenv.errors import ConfigError

Where = Literal["make", "reset", "step", "call", "close"]
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
    "fork-and-die",
    "hang",
    "hang-with-gil",
    "four-values",
    "no-values",
    "reward-none",
    "reward-string",
    "flag-string",
    "obs-shape",
    "obs-scalar",
    "obs-none",
    "info-list",
    "info-unpicklable",
]


class TwoArgumentsError(Exception):
    """An exception that pickle cannot build again: its arguments are not what its constructor takes."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class UnpicklableError(Exception):
    """An exception that holds a lock."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class FaultEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Observations say where they come from, so a stale, torn or misrouted row is found by arithmetic.

    The observation is `(index, episode, step, last action, noise)`: `episode` counts the resets of this object, `step`
    those since the last of them, `noise` is drawn from `np_random` with every observation. The reward is
    `1000 * index + step`. Episodes end after `length + index` steps.

    Args:
        index: number of the env.
        kind: what goes wrong.
        where: in which call.
        at: in the how manyth such call of this object.
        env: index of the env in which it goes wrong.
        length: steps of an episode of env 0.
        seconds: how long a hang takes.
        talks: infos are `{"at": step}`; else they are empty.
        fuse: a path; it goes wrong only while no such file exists, and then the file is made. So a fault happens once,
            however often the env is built again.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium reads it from the class

    def __init__(
        self,
        index: int = 0,
        kind: Kind = "none",
        where: Where = "step",
        at: int = 1,
        env: int = 1,
        length: int = 5,
        seconds: float = 60.0,
        talks: bool = False,
        fuse: str | None = None,
    ) -> None:
        if kind not in get_args(Kind):
            raise ConfigError(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r}")
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(1000)
        self.index, self.length, self.seconds, self.talks, self.fuse = index, length, seconds, talks, fuse
        self.kind, self.where, self.at = kind if index == env else "none", where, at
        self.episode = self.steps = 0
        self.last_action = -1
        self._calls = dict.fromkeys(get_args(Where), 0)
        self._fail_if_due("make")

    @classmethod
    def many(cls, count: int, **options: Any) -> list[partial[FaultEnv]]:
        """Factories of `count` envs, of which one fails."""
        return [partial(cls, index, **options) for index in range(count)]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.episode += 1
        self.steps, self.last_action = 0, -1
        self._fail_if_due("reset")
        return self._observation(), self._info()

    def step(self, action: np.int64) -> Any:
        """Count a step."""
        self.steps += 1
        self.last_action = int(action)
        self._fail_if_due("step")
        ended = self.steps >= self.length + self.index
        return self._spoilt(self._observation(), 1000.0 * self.index + self.steps, ended, False, self._info())

    def poke(self, value: int = 0) -> int:
        """Something to `call`: answers with the env's index plus `value`."""
        self._fail_if_due("call")
        return self.index + value

    def worker_pid(self) -> int:
        """The process this env lives in."""
        return os.getpid()

    def close(self) -> None:
        """Close, or fail to."""
        self._fail_if_due("close")

    def _observation(self) -> np.ndarray:
        noise = self.np_random.random()
        return np.array([self.index, self.episode, self.steps, self.last_action, noise])

    def _info(self) -> dict[str, Any]:
        return {"at": self.steps} if self.talks else {}

    def _due(self, where: str) -> bool:
        return self.where == where and self._calls[where] == self.at and self._lit()

    def _lit(self) -> bool:
        if self.fuse is None:
            return True
        try:
            os.close(os.open(self.fuse, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _fail_if_due(self, where: str) -> None:
        self._calls[where] += 1
        failure = _FAILURES.get(self.kind)
        if failure is not None and self._due(where):
            failure(self)

    def _spoilt(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Any:
        """What `step` returns, wrong if it is time for that."""
        right = obs, reward, terminated, truncated, info
        if self.kind in _FAILURES or self.kind == "none" or not self._due("step"):
            return right
        return {
            "four-values": (obs, reward, terminated, info),
            "no-values": None,
            "reward-none": (obs, None, terminated, truncated, info),
            "reward-string": (obs, "1.0", terminated, truncated, info),
            "flag-string": (obs, reward, "False", truncated, info),
            "obs-shape": (obs[:3], reward, terminated, truncated, info),
            "obs-scalar": (np.float64(1.0), reward, terminated, truncated, info),
            "obs-none": (None, reward, terminated, truncated, info),
            "info-list": (obs, reward, terminated, truncated, [1]),
            "info-unpicklable": (obs, reward, terminated, truncated, {"lock": threading.Lock(), "fine": self.steps}),
        }[self.kind]


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


def _fork_and_die(env: FaultEnv) -> None:
    if os.fork() == 0:
        time.sleep(env.seconds)
        os._exit(0)
    os._exit(9)


def _hang(env: FaultEnv) -> None:
    time.sleep(env.seconds)


def _hang_with_gil(env: FaultEnv) -> None:
    deadline = time.monotonic() + env.seconds
    while (left := deadline - time.monotonic()) > 0:  # a signal ends one sleep
        ctypes.PyDLL(None).usleep(int(left * 1e6) + 1)


_FAILURES = {
    "raise": _raise,
    "percent": _percent,
    "two-args": _two_arguments,
    "unpicklable": _unpicklable,
    "system-exit": _system_exit,
    "keyboard-interrupt": _keyboard_interrupt,
    "os-exit": _os_exit,
    "kill": _kill,
    "segfault": _segfault,
    "fork-and-die": _fork_and_die,
    "hang": _hang,
    "hang-with-gil": _hang_with_gil,
}
"""What goes wrong inside a call; the other kinds are wrong results of `step`."""
