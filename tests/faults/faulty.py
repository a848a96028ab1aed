"""What the tests of failures share: vector envs of FaultEnvs, and arithmetic that finds wrong rows."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.sampling import slow
from vecenv.errors import ClosedError, EnvError
from vecenv.testing import FaultEnv

ENGINES = ("sync", "thread", "asyncio", "process")
START_METHODS = ("fork", "forkserver", "spawn")
COUNT = 4
LONG = 60.0
"""Seconds that nothing takes, unless it hangs."""
FAULT = ("where", "at", "env", "length", "seconds", "talks", "fuse")
on_every_engine = pytest.mark.parametrize("engine", ENGINES)
with_every_start_method = pytest.mark.parametrize("context", ["fork", "forkserver", *slow("spawn")])
in_every_mode = pytest.mark.parametrize("autoreset", ["next-step", "same-step", "disabled"])


@contextlib.contextmanager
def faulty(
    engine: str, kind: str = "none", *, close_timeout: float = 1.0, **options: Any
) -> Iterator[vecenv.VectorEnv]:
    """Four envs on two workers, episodes so long that they never end; env 1 fails as told."""
    fault = {name: options.pop(name) for name in FAULT if name in options}
    if engine in ("thread", "process"):
        options = {"workers": 2, **options}
    if engine == "process":
        options = {"context": "fork", **options}
    envs = vecenv.make(FaultEnv.many(COUNT, kind=kind, **{"length": 10**6, **fault}), engine=engine, **options)
    try:
        yield envs
    finally:
        envs.close(timeout=close_timeout)


def actions(number: int, count: int = COUNT) -> np.ndarray:
    """The actions of one exchange, different for each env and exchange."""
    return 10 * number + np.arange(count)


def assert_rows(obs: np.ndarray, step: Any, rows: Any = None, *, episode: Any = None) -> None:
    """The observations are those after the `step`-th call of `step` with `actions`, of these rows and no others."""
    rows = np.arange(COUNT) if rows is None else np.asarray(rows)
    steps = np.broadcast_to(step, rows.shape)
    np.testing.assert_array_equal(obs[:, 0], rows)
    np.testing.assert_array_equal(obs[:, 2], steps)
    np.testing.assert_array_equal(obs[:, 3], np.where(steps == 0, -1, 10 * steps + rows))
    if episode is not None:
        np.testing.assert_array_equal(obs[:, 1], np.broadcast_to(episode, rows.shape))


def walk(envs: vecenv.VectorEnv, first: int, last: int) -> None:
    """Take the steps `first` to `last` and look at every row."""
    for number in range(first, last + 1):
        obs, reward, terminated, truncated, _ = envs.step(actions(number))
        assert_rows(obs, number)
        np.testing.assert_array_equal(reward, 1000 * np.arange(COUNT) + number)
        assert not terminated.any()
        assert not truncated.any()


def fails(envs: vecenv.VectorEnv, number: int, kind: type[EnvError] = EnvError) -> Any:
    """Take a step that must fail; the error."""
    with pytest.raises(kind) as caught:
        envs.step(actions(number))
    return caught.value


def first_failure(envs: vecenv.VectorEnv) -> Any:
    """Take steps until one fails; the error."""
    for number in range(1, 10):
        try:
            envs.step(actions(number))
        except EnvError as error:
            return error
    raise AssertionError("nothing failed")


def mask(*rows: int) -> dict[str, np.ndarray]:
    """Reset options for these rows alone."""
    chosen = np.zeros(COUNT, np.bool_)
    chosen[list(rows)] = True
    return {"reset_mask": chosen}


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block must end in about this time, and not only when something that hangs for minutes ends.

    Five times as long is allowed, and never less than ten seconds: other processes may use the machine.
    """
    started = time.monotonic()
    yield
    elapsed, allowed = time.monotonic() - started, max(10.0, 5 * seconds)
    assert elapsed < allowed, f"took {elapsed:.2f} s; about {seconds} s are expected, {allowed} s allowed"


def until(condition: Any, seconds: float = 2.0) -> bool:
    """Whether the condition becomes true in time. For what happens in other processes and sends no event."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class InAnotherThread:
    """A call in a thread of its own, and what came of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._call = call
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.thread.join(LONG)
        assert not self.thread.is_alive(), "it hangs"

    def is_in(self, function: str) -> bool:
        """Whether the thread is in a function of this name."""
        frame = sys._current_frames().get(self.thread.ident or 0)
        while frame is not None and frame.f_code.co_name != function:
            frame = frame.f_back
        return frame is not None


def close_at_any_moment(make: Callable[[], Any], lives: int = 3) -> None:
    """Close envs that another thread steps without pause; that thread gets a ClosedError."""
    for moment in range(lives):
        envs = make()
        envs.reset(seed=0)
        steps: list[int] = []
        stepping = InAnotherThread(partial(_step_for_ever, envs, steps))
        assert until(lambda steps=steps, moment=moment: len(steps) >= 3 + moment, LONG)
        with within(1.0):
            envs.close()
        stepping.end()
        assert isinstance(stepping.error, ClosedError), stepping.error
        assert envs.closed


def _step_for_ever(envs: Any, steps: list[int]) -> None:
    given = envs.action_space.sample()
    while True:
        envs.step(given)
        steps.append(len(steps))
