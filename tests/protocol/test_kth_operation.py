"""The k-th operation fails, for k = 1, 2, 3, ... until a run passes without it: never a hang, a lie or a leak."""

from __future__ import annotations

import contextlib
import errno
import gc
import mmap
import multiprocessing
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from vecenv._batch.batch import Op
from vecenv.engines.process import child
from vecenv.engines.process.backend import OSProcesses
from vecenv.engines.process.channel import _HEADER, Channel
from vecenv.engines.process.engine import ProcessEngine
from vecenv.errors import VecenvError

# Python 3.12 warns of any fork beside threads; pytest-timeout has one.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecenv._batch.faults._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("vecenv.engines.process.handle._DYING_SECONDS", 0.1)


COUNT, WORKERS = 3, 2
LONGEST = 30.0
"""Seconds that any run may take on a busy machine; nothing in it waits longer than 3."""


class Env(gymnasium.Env[np.ndarray, int]):
    """Shows its number of steps and its action, and says so in its info."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-100, 100, (2,), np.int64)
        self.action_space = spaces.Discrete(100)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.steps = 0
        return np.array([0, -1]), {"options": options}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.array([self.steps, action]), float(action), False, False, {"action": int(action)}


class Plan:
    """Which operation fails, and how. Shared with forked workers."""

    def __init__(self, number: int, kind: str) -> None:
        self.number, self.kind = number, kind
        self._count = 0
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def came_to_pass(self) -> bool:
        return self._page[0] == 1

    def now(self) -> bool:
        """Count an operation; whether it is to fail."""
        self._count += 1
        if self._count != self.number:
            return False
        self._page[0] = 1
        return True


class FailingSocket:
    """A socket whose operations a plan counts."""

    def __init__(self, sock: socket.socket, plan: Plan) -> None:
        self._sock, self._plan = sock, plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def send(self, data: bytes) -> int:
        if not self._plan.now():
            return self._sock.send(data)
        kind = self._fail(BrokenPipeError)
        count = self._sock.send(data[:1] if kind == "short" else data)
        if kind == "duplicate" and _HEADER.size + _HEADER.unpack_from(data)[0] == len(data) == count < 10_000:
            self._sock.send(data)  # one whole frame
        return count

    def recv(self, size: int) -> bytes:
        if not self._plan.now():
            return self._sock.recv(size)
        kind = self._fail(ConnectionResetError)
        if kind == "eof":
            return b""
        return self._sock.recv(1 if kind == "short" else size)

    def sendmsg(self, *args: Any) -> int:
        if self._plan.now():
            self._fail(BrokenPipeError)
        return self._sock.sendmsg(*args)

    def _fail(self, gone: type[OSError]) -> str:
        kind = self._plan.kind
        if kind == "epipe" or (kind == "eof" and gone is BrokenPipeError):
            raise gone
        if kind == "eintr":
            raise InterruptedError(errno.EINTR, "interrupted")
        if kind == "enomem":
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        if kind == "delay":
            time.sleep(0.05)
        return kind


class FailingProcesses(OSProcesses):
    """Real workers; what the front does with them is counted."""

    def __init__(self, plan: Plan) -> None:
        super().__init__("fork")
        self._plan = plan

    def start(self, assignment: Any, siblings: Any) -> Any:
        worker = super().start(assignment, siblings)
        worker.channel.sock = FailingSocket(worker.channel.sock, self._plan)  # type: ignore[assignment]
        return worker


def run(plan: Plan, side: str, on_error: Any) -> None:
    """A life of an engine, every result of which is checked; ends as it should or with a VecenvError."""
    backend = FailingProcesses(plan) if side == "front" else OSProcesses("fork")
    with failing_workers(plan) if side == "worker" else contextlib.nullcontext():
        engine = ProcessEngine([Env] * COUNT, workers=WORKERS, on_error=on_error, start_timeout=3.0, backend=backend)
        try:
            use(engine)
        finally:
            engine.close(1.0)


@contextlib.contextmanager
def failing_workers(plan: Plan) -> Iterator[None]:
    """Workers that are forked meanwhile count what they do."""

    def channel(sock: socket.socket, *, blocking: bool) -> Channel:
        return Channel(FailingSocket(sock, plan), blocking=blocking)  # type: ignore[arg-type]

    child.Channel = channel  # type: ignore[misc,assignment]
    try:
        yield
    finally:
        child.Channel = Channel  # type: ignore[misc]


def use(engine: ProcessEngine) -> None:
    everyone = np.arange(COUNT)
    lost = np.zeros(COUNT, bool)
    engine.batch.options.update({row: {"big": "x" * 300_000} for row in range(COUNT)})  # more than a socket holds
    exchange(engine, everyone, Op.RESET, 0, lost)
    exchange(engine, everyone, Op.STEP, 1, lost)
    names = engine.call("steps", (), {}, 3.0)
    assert all(steps == 1 for steps, restarts in zip(names, engine.batch.restarts, strict=True) if not restarts)
    engine.set_attr("steps", [7] * COUNT, 3.0)
    exchange(engine, everyone[1:], Op.STEP, 8, lost)


def exchange(engine: ProcessEngine, rows: np.ndarray, op: Op, steps: int, lost: np.ndarray) -> None:
    """Send and receive rows, in two portions. A row that was restarted is only looked at for a fault from then on."""
    batch = engine.batch
    batch.actions[0][rows] = 10 * steps + rows
    batch.op[rows] = op
    engine.send(rows)
    first = engine.recv(1, 3.0)
    for row in [*first, *(engine.recv(len(rows) - 1, 3.0) if len(rows) > 1 else ())]:
        info = batch.mail.pop(int(row)).info
        lost[row] |= "fault" in info or batch.restarts[row] > 0
        if not lost[row]:
            action = -1 if op == Op.RESET else 10 * steps + row
            assert batch.obs[0][row].tolist() == [steps, action]
            assert info.get("action", -1) == action
            assert op != Op.RESET or len(info["options"]["big"]) == 300_000


def descriptors() -> list[str]:
    """What is open. A mapping is, until nobody has its arrays any more."""
    gc.collect()
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}").split(":")[0])
    return sorted(found)


HARMLESS, HARMFUL = ["eintr", "short", "duplicate", "delay"], ["epipe", "eof", "enomem"]
ALL = [*HARMFUL, *HARMLESS]


def until_clean(side: str, kinds: list[str], on_error: Any) -> int:
    """Let the first operation fail, then the second, and so on, until there are no more; how many there were.

    Args:
        kinds: how they fail, in turn.
    """
    run(Plan(0, "none"), side, on_error)
    open_before = descriptors()
    for number in range(1, 1000):
        kind = kinds[number % len(kinds)]
        plan, started = Plan(number, kind), time.monotonic()
        failed = ""
        try:
            run(plan, side, on_error)
        except VecenvError as error:
            failed = str(error)
        assert time.monotonic() - started < LONGEST, (number, failed)
        assert not multiprocessing.active_children(), (number, failed)
        assert descriptors() == open_before, (number, failed)
        if not plan.came_to_pass:
            assert not failed
            run(Plan(0, "none"), side, on_error)
            return number - 1
        assert not failed or kind in HARMFUL, (number, failed)
    raise AssertionError("it never ends")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("side", "at_least"), [("front", 30), ("worker", 15)])
def test_one_operation_after_the_other_fails(side: str, at_least: int) -> None:
    tried = until_clean(side, ALL, "raise")
    print(f"{tried} operations of the {side}")
    assert tried >= at_least


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("side", ["front", "worker"])
def test_every_operation_fails_in_every_way(side: str, kind: str) -> None:
    print(f"{until_clean(side, [kind], 'raise')} operations of the {side}: {kind}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("side", ["front", "worker"])
@pytest.mark.parametrize("kind", HARMFUL)
def test_an_operation_fails_and_workers_are_restarted(side: str, kind: str) -> None:
    print(f"{until_clean(side, [kind], 'restart')} operations of the {side}: {kind}")
