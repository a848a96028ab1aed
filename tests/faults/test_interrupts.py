"""Ctrl-C at any moment of a step: afterwards recv() resumes or reset() discards, and no row is stale or torn."""

from __future__ import annotations

import contextlib
import dis
import gc
import inspect
import itertools
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.faults.faulty import COUNT, actions, assert_rows, faulty, on_every_engine, walk
from vecenv.errors import EnvError, NothingPendingError, NotResetError, PendingError


@contextlib.contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt in the block after this time, unless it has ended by then.

    No garbage is collected meanwhile: an interrupt in a `__del__` or in somebody's gc callback is swallowed by Python.
    """
    inside = [True]

    def handler(number: int, frame: Any) -> None:
        if inside[0]:
            inside[0] = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    gc.disable()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        inside[0] = False
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_recv_resumes_an_interrupted_step(engine: str) -> None:
    with faulty(engine, "hang", at=3, seconds=0.3) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            envs.step(actions(3))
        with pytest.raises(PendingError):
            envs.step(actions(4))
        step = envs.recv()
        assert_rows(step.obs, 3, episode=1)
        walk(envs, 4, 6)


def test_an_interrupted_step_of_the_callers_own_envs_fails_only_the_env_at_work() -> None:
    with faulty("sync", "hang", at=3, seconds=30.0) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            envs.step(actions(3))
        with pytest.raises(EnvError, match="env 1 raised KeyboardInterrupt") as caught:
            envs.recv()
        assert caught.value.rows == (1,)
        step = envs.recv()
        assert step.env_ids.tolist() == [0, 2, 3]
        assert_rows(step.obs, 3, [0, 2, 3], episode=1)
        with pytest.raises(NotResetError):
            envs.step(actions(4))
        assert_rows(envs.reset()[0], 0, episode=2)
        walk(envs, 1, 3)


_LOOPS = dis.opmap["JUMP_BACKWARD"]


def _is_deleting(frame: Any) -> bool:
    """Whether a `__del__` is being run, where Python swallows what is raised."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def interrupted_at(moment: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Raise KeyboardInterrupt in a call at one of the moments at which Python runs signal handlers, counted from 0.

    These are entries of functions and turns of loops; the others, returns of functions in C, are left out.
    """
    left = moment

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_flags & inspect.CO_GENERATOR:  # Python swallows what is raised while it closes one
            return None
        frame.f_trace_opcodes = True
        if event == "call" or (event == "opcode" and frame.f_code.co_code[frame.f_lasti] == _LOOPS):
            left -= 1
            if left < 0 and not _is_deleting(frame):
                left = 10**9
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    gc.disable()  # see `interrupt_after`
    sys.settrace(trace)
    try:
        return call(*arguments)
    finally:
        sys.settrace(before)
        gc.enable()


def test_a_step_after_an_interrupted_recv_says_what_is_pending_or_lost() -> None:
    with vecenv.make("CartPole-v1", 2, engine="sync") as envs:
        for moment in range(1000):
            envs.reset(seed=0)
            envs.send([0, 1])
            try:
                interrupted_at(moment, envs.recv)
                break
            except KeyboardInterrupt:
                pass
            with pytest.raises((PendingError, NotResetError)):
                envs.step([0, 1])
            with contextlib.suppress(NothingPendingError, EnvError):  # the interrupt may have come inside an env
                envs.recv()
        assert 10 < moment < 1000


class Failing(gymnasium.Env[Any, Any]):
    """Raises in every step and counts them."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)
    failures = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.failures = 0
        return 0, {}

    def step(self, action: Any) -> Any:
        self.failures += 1
        raise ValueError


def test_an_env_that_failed_needs_a_reset_wherever_an_interrupt_comes() -> None:
    """The interrupt comes while the failure of a step of all envs is noted."""
    missed = 0
    with vecenv.make(Failing, 2, engine="sync") as envs:
        for moment in itertools.count():
            envs.reset(seed=40)
            try:
                interrupted_at(moment, envs.step, [0, 0])
            except (KeyboardInterrupt, EnvError) as error:
                missed = missed + 1 if isinstance(error, EnvError) else 0
            failed = np.array([env.unwrapped.failures for env in envs.engine.envs]) > 0
            assert not envs._call_order.ready[failed].any()
            if missed == 100:  # not at the first: some exchanges measure more, and have more moments
                break
            with contextlib.suppress(NothingPendingError, EnvError):
                envs.recv()
        assert moment > 110


@pytest.mark.parametrize(
    "options",
    [{"engine": "compiled"}, {"device": "cpu", "precision": "fast", "results": "numpy"}],
    ids=["compiled", "device"],
)
def test_buffers_of_observations_belong_together_wherever_an_interrupt_comes(options: dict[str, Any]) -> None:
    """Observations of three parts rotate through buffers as a whole: `reset` shows none that was never written."""
    with (
        vecenv.make("Blackjack-v1", 4, copy=False, **options) as envs,
        vecenv.make("Blackjack-v1", 4) as others,
    ):
        envs.reset(seed=0)
        envs.step(np.zeros(4, np.int64))  # the first one makes the buffers
        for moment in (*range(60), *range(60, 2000, 10)):  # buffers are taken early; later moments are Warp's
            envs.reset(seed=0)
            try:
                interrupted_at(moment, envs.step, np.zeros(4, np.int64))
                break
            except KeyboardInterrupt:
                pass
            for one, other in zip(envs.reset(seed=moment)[0], others.reset(seed=moment)[0], strict=True):
                np.testing.assert_array_equal(one, other)
        assert 3 < moment < 1900


@on_every_engine
@pytest.mark.parametrize("where", ["step", "reset"])
def test_reset_discards_an_interrupted_exchange(engine: str, where: str) -> None:
    with faulty(engine, "hang", where=where, at=2, seconds=0.3) as envs:
        first, _ = envs.reset(seed=40)
        walk(envs, 1, 1)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            envs.reset() if where == "reset" else envs.step(actions(2))
        obs, infos = envs.reset(seed=40)
        assert_rows(obs, 0)
        assert infos == {}
        np.testing.assert_array_equal(obs[:, 4], first[:, 4])
        walk(envs, 1, 3)


def test_an_interrupted_autoreset_fails_only_its_own_env() -> None:
    with faulty("sync", "hang", where="reset", at=2, length=1, seconds=30.0, autoreset="same-step") as envs:
        envs.reset(seed=40)
        envs.step(actions(1))
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            envs.step(actions(2))
        with pytest.raises(EnvError) as caught:
            envs.recv()
        assert (caught.value.rows, caught.value.phase) == ((1,), "reset")
        assert envs.recv().env_ids.tolist() == [0, 2, 3]
        assert_rows(envs.reset()[0], 0)


@pytest.mark.parametrize("context", ["fork"])
def test_a_call_works_again_after_an_interrupted_one(context: str) -> None:
    with faulty("process", "hang", where="call", seconds=0.3, context=context) as envs:
        envs.reset(seed=40)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            envs.call("poke", 5)
        assert envs.call("poke", 7) == (7, 8, 9, 10)
        walk(envs, 1, 2)


class Model:
    """What each row must show next, if nothing is lost and nothing happens twice."""

    def __init__(self, length: int, rolls: bool) -> None:
        self.length, self.rolls = length, rolls
        self.begun()

    def begun(self) -> None:
        self.episode: list[int | None] = [None] * COUNT
        self.steps = [0] * COUNT

    def check(self, rows: Any, obs: np.ndarray, infos: dict[str, Any], stepped: bool) -> None:
        """Compare rows that were delivered, and take them for the state from now on."""
        np.testing.assert_array_equal(infos["at"], obs[:, 2])
        for row, (index, episode, step, action, _) in zip(rows, obs, strict=True):
            ended = self.rolls and stepped and self.steps[row] + 1 >= self.length + row
            expected = 0 if ended or not stepped else self.steps[row] + 1
            assert (index, step) == (row, expected)
            assert action == (7 * row + expected if expected else -1)
            if self.episode[row] is not None:
                assert episode == self.episode[row] + ended  # type: ignore[operator]
            self.episode[row], self.steps[row] = int(episode), expected

    def actions(self) -> np.ndarray:
        return np.array([7 * row + steps + 1 for row, steps in enumerate(self.steps)])


def drain(envs: vecenv.VectorEnv, model: Model) -> None:
    """Receive everything that an interrupted step still owes."""
    with contextlib.suppress(NothingPendingError):
        while True:
            with contextlib.suppress(EnvError):
                step = envs.recv()
                model.check(step.env_ids, step.obs, step.infos, stepped=True)


def begin(envs: vecenv.VectorEnv, model: Model) -> None:
    model.begun()
    model.check(range(COUNT), *envs.reset(), stepped=False)


@on_every_engine
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_no_row_is_stale_or_torn_whenever_the_interrupt_comes(engine: str, autoreset: str) -> None:
    length = 2 if autoreset == "same-step" else 10**6
    chance, longest = random.Random(1), {"sync": 3e-4, "thread": 8e-4, "asyncio": 1.5e-3, "process": 8e-4}[engine]
    interrupted = resumed = 0
    gc.collect()  # or the interrupt might come while an older vector env is thrown away
    with faulty(engine, length=length, autoreset=autoreset, talks=True) as envs:
        model = Model(length, rolls=autoreset == "same-step")
        begin(envs, model)
        for _ in range(600):
            result: list[Any] = [None]
            try:
                with interrupt_after(chance.uniform(1e-6, longest)):
                    result[0] = envs.step(model.actions())
            except KeyboardInterrupt:
                interrupted += 1
            except NotResetError:
                begin(envs, model)
                continue
            if result[0] is not None:
                model.check(range(COUNT), result[0][0], result[0][-1], stepped=True)
            elif chance.random() < 0.7:
                resumed += 1
                drain(envs, model)
            else:
                begin(envs, model)
    assert interrupted > 50
    assert resumed > 30


class _Interrupted(np.ndarray):
    """An array that is interrupted when something is written into it."""

    def __setitem__(self, index: Any, value: Any) -> None:
        raise KeyboardInterrupt


def test_native_code_follows_no_old_orders_after_an_interrupt() -> None:
    """The orders of a reset are being written when the interrupt comes; `recv` resumes the reset, not a step."""
    with vecenv.make("CartPole-v1", 3, engine="compiled") as envs, vecenv.make("CartPole-v1", 3) as others:
        for both in (envs, others):
            both.reset(seed=5)
            both.step(np.ones(3, np.int64))
        whole = envs.engine._whole
        words, whole.words = whole.words, whole.words.view(_Interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.reset(seed=7)
        whole.words = words
        assert np.array_equal(envs.recv().obs, others.reset(seed=7)[0])
