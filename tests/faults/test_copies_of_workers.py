"""An env forks, and the child returns from the env's call. It is ended there, and is no second worker."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import subprocess
import sys
import textwrap
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.faults.faulty import until, within
from vecenv.engines.process.shared import MAILS
from vecenv.errors import WorkerDied

FORKED: Any = {"engine": "process", "workers": 1, "context": "fork"}
ON: dict[str, Any] = {"process": FORKED, "thread": {"engine": "thread", "workers": 1}}
COUNT = 3
ZEROS = np.zeros(COUNT, int)


class ForkingEnv(gymnasium.Env[Any, Any]):
    """Env 1 forks in a call of `where`, and its child returns, raises or exits from there; see `how`."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, index: int, where: str, how: str = "return") -> None:
        self.index, self.where, self.how = index, where, how
        self.steps = self.child = 0
        self.ended = -1
        self.copied = 0.0
        self._perhaps("make")

    def _perhaps(self, where: str) -> None:
        if self.index != 1 or where != self.where:
            return
        self.ended = -1
        self.ended = -1
        self.child = ctypes.PyDLL(None).fork() if self.how == "native" else os.fork()
        if self.child == 0:
            self.copied = 1.0
            if self.how == "raise":
                raise ValueError("in the child")
            if self.how == "exit":
                sys.exit(5)
            if self.how == "interrupt":
                raise KeyboardInterrupt

    def _obs(self) -> np.ndarray:
        return np.array([self.index, self.steps, self.copied])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        self._perhaps("reset")
        return self._obs(), {"from": os.getpid()}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self._perhaps("step")
        return self._obs(), 1.0, False, False, {"from": os.getpid()}

    def poke(self) -> int:
        self._perhaps("call")
        return self.index

    def shout(self) -> None:
        """Write into the sockets of this process, as into a descriptor that somebody else had closed."""
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if self.index == 2 and stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.write(int(name), b"this is no message, but long enough for a header")

    def close(self) -> None:
        self._perhaps("close")

    def status(self) -> int | None:
        """How the last child ended; None if there was none, -1 if it is still there."""
        if self.child and self.ended < 0:  # it can be asked for once
            found, status = os.waitpid(self.child, os.WNOHANG)
            self.ended = os.waitstatus_to_exitcode(status) if found else -1
        return self.ended if self.child else None


def many(where: str, how: str = "return") -> list[Any]:
    return [partial(ForkingEnv, index, where, how) for index in range(COUNT)]


def ended(envs: Any) -> int:
    """The exit code of the child, once it has ended."""
    found: list[int] = []
    assert until(lambda: found.append(envs.call("status")[1]) or found[-1] >= 0, 30.0)
    return found[-1]


WHERE = [(engine, where) for engine in ON for where in ("make", "reset", "step", "call")]
BY_THE_PROGRAM = [("thread", "make"), ("thread", "call")]
"""Calls that the program itself makes: the copy is one of the whole program."""


@pytest.mark.parametrize(("engine", "where"), [pair for pair in WHERE if pair not in BY_THE_PROGRAM])
def test_a_copy_that_returns_is_ended(engine: str, where: str) -> None:
    with within(5.0), vecenv.make(many(where), **ON[engine]) as envs:
        obs, infos = envs.reset(seed=0)
        pid = infos["from"][0]
        for step in range(1, 4):
            obs, _, _, _, infos = envs.step(ZEROS)
            assert obs.tolist() == [[row, step, 0.0] for row in range(COUNT)]
            assert infos["from"].tolist() == [pid] * COUNT
        assert envs.call("poke") == (0, 1, 2)
        assert ended(envs) == 1


CODES = {"raise": 1, "exit": 5, "interrupt": 1, "native": 1}
HOW = [(engine, how) for engine in ON for how in CODES]
NOT_TRIED = ("thread", "native")
"""CPython itself may wait for ever in a child that it does not know of, if there were other threads."""


@pytest.mark.parametrize(("engine", "how"), [pair for pair in HOW if pair != NOT_TRIED])
def test_however_the_copy_leaves_the_call_it_is_ended(engine: str, how: str) -> None:
    with within(5.0), vecenv.make(many("step", how), **ON[engine], on_error="restart") as envs:
        envs.reset(seed=0)
        for step in range(1, 4):
            obs, *_, truncated, infos = envs.step(ZEROS)
            assert obs.tolist() == [[row, step, 0.0] for row in range(COUNT)]
            assert not truncated.any()
            assert "fault" not in infos
            assert ended(envs) == CODES[how]


class ShortForkingEnv(ForkingEnv):
    """Every step ends the episode."""

    def step(self, action: Any) -> Any:
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, True, truncated, info


@pytest.mark.parametrize("how", ["return", "native"])
def test_a_copy_that_returns_from_the_reset_at_the_end_of_an_episode_is_ended(how: str) -> None:
    factories = [partial(ShortForkingEnv, index, "reset", how) for index in range(COUNT)]
    with within(5.0), vecenv.make(factories, **FORKED, autoreset="same-step") as envs:
        envs.reset(seed=0)
        for _ in range(3):
            obs, *_, infos = envs.step(ZEROS)
            assert obs.tolist() == [[row, 0.0, 0.0] for row in range(COUNT)]
            assert np.stack(infos["final_obs"]).tolist() == [[row, 1.0, 0.0] for row in range(COUNT)]
            assert ended(envs) == 1


def test_a_copy_that_returns_from_close_is_ended() -> None:
    with within(5.0):
        envs = vecenv.make(many("close", "raise"), **FORKED)
        envs.reset(seed=0)
        envs.close()  # a warning would be an error


def test_many_envs_that_fork_make_as_many_copies_and_not_their_square() -> None:
    factories = [partial(ForkingEnv, 1, "step") for _ in range(12)]
    with within(5.0), vecenv.make(factories, **FORKED) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(12, int))
        found: list[Any] = []
        assert until(lambda: found.append(envs.call("status")) or -1 not in found[-1], 30.0)


@pytest.mark.timeout(170)  # a program is started, which takes long on a busy machine
def test_on_sync_a_copy_is_a_copy_of_the_whole_program() -> None:
    """As with Gymnasium: both go on, and each has its own envs."""
    program = """
        import os
        import vecenv
        from tests.faults.test_copies_of_workers import many
        parent = os.getpid()
        envs = vecenv.make(many("step"), engine="sync")
        envs.reset(seed=0)
        obs = envs.step([0, 0, 0])[0]
        if os.getpid() == parent:
            os.wait()
        os.write(1, f"{int(obs[1, 2])}\\n".encode())
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=150, check=True
    )
    assert run.stdout.split() == ["1", "0"]


@pytest.mark.parametrize("on_error", ["raise", "restart"])
def test_a_message_that_never_comes_is_not_waited_for(on_error: Any) -> None:
    """The parent looked for it again and again, for ever, without a look at its timeout."""
    with within(5.0), vecenv.make(many("nowhere"), **FORKED, on_error=on_error) as envs:
        envs.reset(seed=0)
        worker = envs.engine._workers[0]  # type: ignore[attr-defined]  # of this engine
        worker.control.worker[MAILS] += 1
        if on_error == "raise":
            with pytest.raises(WorkerDied, match=r"could not be reached \(a message is missing"):
                envs.step(ZEROS)
            envs.reset()
        else:
            assert envs.step(ZEROS)[3].tolist() == [True] * COUNT
        envs.step(ZEROS)


def test_what_something_else_writes_into_the_socket_of_a_worker_is_not_waited_for_either() -> None:
    with within(5.0), vecenv.make(many("nowhere"), **FORKED) as envs:
        envs.reset(seed=0)
        with pytest.raises(WorkerDied, match="its messages are damaged"):
            envs.call("shout")
        envs.reset()
        envs.step(ZEROS)


def test_a_thread_that_is_gone_is_not_waited_for() -> None:
    with within(5.0), vecenv.make(many("nowhere"), **ON["thread"]) as envs:
        envs.reset(seed=0)
        engine: Any = envs.engine
        engine._queues[0].put(None)
        engine._threads[0].join(10.0)
        with pytest.raises(WorkerDied, match="thread 0 with envs 0 to 2 has ended") as caught:
            envs.step(ZEROS)
        assert caught.value.rows == (0, 1, 2)
