"""close() while something else goes on: another thread is in a call, another thread closes too, Ctrl-C comes."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

import vecenv
import vecenv.gymnasium
from tests.faults.faulty import COUNT, LONG, InAnotherThread, actions, close_at_any_moment, faulty, until, within
from tests.faults.test_interrupts import interrupt_after
from tests.sampling import slow
from vecenv.errors import ClosedError
from vecenv.testing import FaultEnv


def is_closed_by_another(call: Callable[[], Any], close: Callable[[], Any]) -> None:
    """Start a call that waits for long; close; the call ends with a ClosedError that says why."""
    waiting = InAnotherThread(call)
    assert until(lambda: waiting.is_in("_receive") or waiting.is_in("exchange_all"), LONG)
    with within(1.0), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a thread that hangs is left running; Gymnasium warns of calls that wait
        close()
    waiting.end()
    assert isinstance(waiting.error, ClosedError), waiting.error
    assert "called close() meanwhile" in str(waiting.error)


@pytest.mark.parametrize("engine", ["thread", "process"])
@pytest.mark.parametrize("where", ["step", "reset"])
def test_a_thread_that_waits_for_envs_is_woken(engine: str, where: Any) -> None:
    with faulty(engine, "hang", where=where, at=2 if where == "reset" else 1, seconds=2.0) as envs:
        envs.reset(seed=40)
        call = envs.reset if where == "reset" else partial(envs.step, actions(1))
        is_closed_by_another(call, partial(envs.close, timeout=0.3))
        assert envs.closed


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_a_thread_that_waits_in_recv_is_woken(engine: str) -> None:
    with faulty(engine, "hang", seconds=2.0) as envs:
        envs.reset(seed=40)
        envs.send(actions(1))
        is_closed_by_another(envs.recv, partial(envs.close, timeout=0.3))


def test_a_thread_that_waits_for_a_call_is_woken() -> None:
    with faulty("process", "hang", where="call") as envs:
        envs.reset(seed=40)
        calling = InAnotherThread(partial(envs.call, "poke"))
        assert until(lambda: calling.is_in("park"), LONG)
        with within(1.0):
            envs.close(timeout=0.3)
        calling.end()
        assert isinstance(calling.error, ClosedError)


def test_a_thread_that_waits_for_a_worker_to_be_built_again_is_woken(tmp_path: Any) -> None:
    """The env hangs when it is built for the second time."""
    fuse = tmp_path / "built"
    factories = [partial(BuiltOnce, index, str(fuse)) for index in range(2)]
    with vecenv.make(factories, engine="process", workers=2, context="fork", on_error="restart") as envs:
        envs.reset(seed=40)
        fuse.touch()
        os.kill(envs.call("worker_pid")[1], signal.SIGKILL)
        waiting = InAnotherThread(partial(envs.step, [1, 1]))
        assert until(lambda: waiting.is_in("first_message"), LONG)
        with within(2.0), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            envs.close(timeout=0.2)
        waiting.end()
        assert isinstance(waiting.error, ClosedError), waiting.error
        envs.close()
        assert envs.closed


class BuiltOnce(FaultEnv):
    def __init__(self, index: int, fuse: str) -> None:
        super().__init__(index, "hang" if os.path.exists(fuse) else "none", "make", env=None, length=10**6)


def test_step_wait_of_the_face_of_gymnasium_is_woken() -> None:
    envs = vecenv.gymnasium.AsyncVectorEnv(FaultEnv.many(2, kind="hang"), context="fork", workers=2)
    envs.reset(seed=40)
    envs.step_async([1, 1])
    is_closed_by_another(envs.step_wait, partial(envs.close, terminate=True))
    assert envs.closed


NATIVE = [
    ("compiled", partial(vecenv.make, "CartPole-v1", 20_000, engine="compiled", workers=2)),
    ("compiled one by one", partial(vecenv.make, "CartPole-v1", 4, engine="compiled")),
    ("sync", partial(vecenv.make, "CartPole-v1", 4, engine="sync")),
    ("thread", partial(vecenv.make, "CartPole-v1", 4, engine="thread", workers=2)),
    ("process", partial(vecenv.make, "CartPole-v1", 4, engine="process", workers=2, context="fork")),
]


@pytest.mark.parametrize(("name", "make"), NATIVE)
def test_envs_that_are_stepped_without_pause_can_be_closed_at_any_moment(name: str, make: Callable[[], Any]) -> None:
    def made() -> Any:
        envs = make()
        if name == "compiled":
            envs.engine._tuner.trying, envs.engine._tuner.together = False, True
        return envs

    close_at_any_moment(made, lives=8)


def test_a_native_rollout_is_waited_for_and_gives_its_results() -> None:
    envs = vecenv.make("CartPole-v1", 5000, engine="compiled", workers=2)
    envs.reset(seed=0)
    given = np.zeros((200, 5000), np.int64)
    rolling = InAnotherThread(partial(envs.rollout, given))
    assert until(lambda: rolling.is_in("rollout") or not rolling.thread.is_alive(), LONG)
    envs.close(timeout=LONG)
    rolling.end()
    assert envs.closed
    assert rolling.error is None or isinstance(rolling.error, ClosedError)


def test_an_env_that_hangs_in_the_callers_own_thread_does_not_keep_close_from_returning() -> None:
    """Nothing can end it. Everything is closed by the next close()."""
    with faulty("sync", "hang", seconds=1.5) as envs:
        envs.reset(seed=40)
        stepping = InAnotherThread(partial(envs.step, actions(1)))
        assert until(lambda: stepping.is_in("_step_all"), LONG)
        with (
            within(0.2),
            pytest.warns(RuntimeWarning, match=r"another thread was still in a call .* 0.2 s after close"),
        ):
            envs.close(timeout=0.2)
        assert not envs.closed
        with pytest.raises(ClosedError):
            envs.reset()
        stepping.end()
        envs.close()
        assert envs.closed


class Busy(FaultEnv):
    """Says whether it was closed while it worked."""

    def __init__(self, index: int, closed: list[str], gate: threading.Event) -> None:
        super().__init__(index)
        self._closed, self._gate, self._works = closed, gate, False

    def step(self, action: Any) -> Any:
        self.work()
        return super().step(action)

    def work(self) -> None:
        self._works = True
        assert self._gate.wait(LONG)
        self._works = False

    def close(self) -> None:
        self._closed.append("at work" if self._works else "at rest")


@pytest.mark.parametrize(("engine", "call"), [("sync", "step"), ("sync", "call"), ("thread", "call")])
def test_an_env_that_another_thread_uses_is_not_closed(engine: str, call: str) -> None:
    closed: list[str] = []
    gate = threading.Event()
    envs = vecenv.make([partial(Busy, index, closed, gate) for index in range(COUNT)], engine=engine)
    envs.reset(seed=40)
    working = InAnotherThread(partial(envs.step, actions(1)) if call == "step" else partial(envs.call, "work"))
    assert until(lambda: working.is_in("work"), LONG)
    with pytest.warns(RuntimeWarning, match=r"nothing is closed before$"):
        envs.close(timeout=0.2)
    assert (closed, envs.closed) == ([], False)
    gate.set()
    working.end()
    envs.close()
    assert (closed, envs.closed) == (["at rest"] * COUNT, True)


class RaisesInClose(FaultEnv):
    """The first one raises in close() what no env should raise."""

    def __init__(self, index: int, path: str) -> None:
        super().__init__(index)
        self._path = path

    def close(self) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{self.index} ")
        if self.index == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_envs_of_a_worker_are_closed_whatever_one_of_them_raises(engine: str, tmp_path: Any) -> None:
    path = str(tmp_path / "closed")
    envs = vecenv.make([partial(RaisesInClose, index, path) for index in range(3)], engine=engine, workers=1)
    envs.reset(seed=40)
    with pytest.warns(RuntimeWarning, match=r"env 0 raised in close\(\): KeyboardInterrupt"):
        envs.close()
    with open(path, encoding="utf-8") as file:
        assert file.read() == "0 1 2 "


class SlowToClose(FaultEnv):
    """Says that it is being closed, and waits until it may."""

    def __init__(self, index: int, closed: list[int], entered: threading.Event, gate: threading.Event) -> None:
        super().__init__(index)
        self._closed, self._entered, self._gate = closed, entered, gate

    def close(self) -> None:
        self._entered.set()
        assert self._gate.wait(LONG)
        self._closed.append(self.index)


@pytest.mark.parametrize("engine", ["sync", "thread"])
def test_two_threads_that_close_both_return_when_everything_is_closed(engine: str) -> None:
    closed: list[int] = []
    entered, gate = threading.Event(), threading.Event()
    envs = vecenv.make([partial(SlowToClose, index, closed, entered, gate) for index in range(3)], engine=engine)
    first = InAnotherThread(partial(envs.close, timeout=LONG))
    assert entered.wait(LONG)
    second = InAnotherThread(lambda: (envs.close(timeout=LONG), list(closed)))
    assert until(lambda: second.is_in("close"), LONG)
    assert not envs.closed
    gate.set()
    first.end()
    second.end()
    assert sorted(second.result[1]) == sorted(closed) == [0, 1, 2]


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


class Counted(FaultEnv):
    """Counts how often it is closed, in a list that the test has."""

    def __init__(self, index: int, closed: list[int]) -> None:
        super().__init__(index)
        self._closed = closed

    def close(self) -> None:
        self._closed.append(self.index)


def resources() -> tuple[int, int]:
    gc.collect()
    process = psutil.Process()
    return process.num_fds(), sum(child.status() != psutil.STATUS_ZOMBIE for child in process.children(recursive=True))


def send_sigint_at(number: int, call: Callable[[], Any]) -> int:
    """Make a call and send this process SIGINT at the `number`-th call or return in it; how many there were so far."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if event == "c_call" or frame.f_code.co_name in ("_remove", "__del__", "<genexpr>"):
            return  # no handler runs before a function of C; what it raises in a finalizer is lost
        count += 1
        if count == number:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    gc.disable()  # an interrupt inside a finalizer would be lost
    sys.setprofile(profile)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def moments(call: Callable[[], Any], wanted: int | None) -> range:
    """At which calls and returns to interrupt this call: all, or so many of them."""
    count = send_sigint_at(0, call)
    return range(1, count, max(1, count // wanted) if wanted else 1)


def cut_short(make: Callable[[list[int]], Any], wanted: int | None) -> None:
    """Close envs with Ctrl-C at many moments, and then again: everything is closed, and nothing is left."""
    with make([]) as envs:
        envs.reset(seed=40)
        chosen = moments(envs.close, wanted)
    before = resources()
    for number in chosen:
        closed: list[int] = []
        envs = make(closed)
        envs.reset(seed=40)
        send_sigint_at(number, envs.close)
        with within(1.0):
            envs.close()
        assert envs.closed
        assert set(closed) in ({*range(COUNT)}, set()), number  # in other processes it cannot be seen
        del envs
        assert wanted or until(lambda: resources() <= before, 10.0), (number, before, resources())
    assert until(lambda: resources() <= before, 10.0), (before, resources())


def of_counted(engine: Any, **options: Any) -> Callable[[list[int]], Any]:
    def make(closed: list[int]) -> Any:
        return vecenv.make([partial(Counted, index, closed) for index in range(COUNT)], engine=engine, **options)

    return make


@pytest.mark.parametrize("wanted", [5, *slow(None)])
@pytest.mark.parametrize("engine", ["sync", "thread", "process"])
@pytest.mark.timeout(900)
def test_a_close_that_ctrl_c_cut_short_is_finished_by_the_next(engine: str, wanted: int | None) -> None:
    options: Any = {"sync": {}, "thread": {"workers": 2}, "process": {"workers": 2, "context": "fork"}}[engine]
    cut_short(of_counted(engine, **options), wanted)


def test_ctrl_c_while_envs_hang_in_close_leaves_nothing_after_the_next_close() -> None:
    before = resources()
    with faulty("process", "hang", where="close", env=None) as envs:
        envs.reset(seed=40)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.2):
            envs.close(timeout=LONG)
        assert not envs.closed
        with pytest.raises(ClosedError):
            envs.reset()
        with within(1.0), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            envs.close(timeout=0.2)
        assert envs.closed
    del envs
    assert until(lambda: resources() <= before, 10.0), (before, resources())


# --- a signal handler that closes ------------------------------------------------------------------------------------


class ClosingSocket:
    """A socket that is in the middle of sending when a signal handler closes the vector env."""

    def __init__(self, sock: Any, close: Callable[[], None]) -> None:
        self._sock, self._close = sock, close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def send(self, data: bytearray) -> int:
        close, self._close = self._close, lambda: None
        with memoryview(data):  # as the real one has it meanwhile
            close()
        return self._sock.send(data)


def test_a_signal_handler_may_close_in_the_middle_of_a_message() -> None:
    before = resources()
    with faulty("process") as envs:
        envs.reset(seed=40)
        channel = envs.engine._workers[0].channel
        channel.sock = ClosingSocket(channel.sock, envs.close)
        with pytest.raises(ClosedError, match="called close"):
            envs.call("poke")
        assert envs.closed
    del envs, channel
    assert until(lambda: resources() <= before, 10.0), (before, resources())


@pytest.mark.parametrize("engine", ["sync", "thread", "process"])
@pytest.mark.parametrize("wanted", [5, *slow(None)])
@pytest.mark.timeout(900)
def test_a_signal_handler_may_close_at_any_moment_of_a_step(engine: str, wanted: int | None) -> None:
    with faulty(engine) as envs:
        envs.reset(seed=40)
        chosen = moments(partial(envs.step, actions(1)), wanted)
    for number in chosen:
        with faulty(engine) as envs:
            envs.reset(seed=40)
            usual = signal.signal(signal.SIGINT, lambda number, frame, envs=envs: envs.close())
            try:
                with within(1.0):
                    reached = send_sigint_at(number, partial(step_or_closed, envs))
            finally:
                signal.signal(signal.SIGINT, usual)
            assert envs.closed == (reached >= number)


def step_or_closed(envs: Any) -> None:
    with contextlib.suppress(ClosedError):
        envs.step(actions(1))


# --- wrappers --------------------------------------------------------------------------------------------------------


class Refuses(gymnasium.vector.VectorWrapper):
    """A vector env whose close() is cut short once."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.refusals = 1

    def close(self, **kwargs: Any) -> None:
        if self.refusals:
            self.refusals = 0
            raise KeyboardInterrupt
        super().close(**kwargs)


def test_the_close_of_a_wrapper_is_finished_by_the_next(tmp_path: Any) -> None:
    inner = vecenv.make("CartPole-v1", 2)
    envs = vecenv.wrappers.RecordResults(Refuses(inner), str(tmp_path / "results"))
    with pytest.raises(KeyboardInterrupt):
        envs.close()
    envs.close()
    assert inner.closed
