"""`recv(min_envs, max_envs, until=)`, on every engine."""

from __future__ import annotations

import threading
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.aio.async_envs import Waiting
from vecenv.engines.process.shared import EAGER
from vecenv.errors import ConfigError, NothingPendingError, SpaceError, WorkerTimeout
from vecenv.wrappers import RecordEpisodeStatistics

OPTIONS = {
    "sync": {},
    "thread": {"workers": 4},
    "process": {"workers": 4, "context": "fork"},
    "asyncio": {},
}
SIDE_BY_SIDE = [engine for engine in OPTIONS if engine != "sync"]


class Sleepy(gymnasium.Env):
    """Sleeps as long as the action says, in tenths of a second."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        time.sleep(0.1 * int(action))
        return np.full(1, float(action)), float(action), False, False, {}


def sleepy(engine, **options):
    envs = vecenv.make(Sleepy, 4, engine=engine, **OPTIONS[engine], **options)
    envs.reset(seed=0)
    return envs


@pytest.mark.parametrize("engine", SIDE_BY_SIDE)
def test_until_returns_what_is_ready_by_then(engine):
    with sleepy(engine) as envs:
        envs.send([0, 30, 0, 30])
        step = envs.recv(1, until=1.0)
        assert step.env_ids.tolist() == [0, 2]
        assert (step.age >= 0.9).all()
        rest = envs.recv(2, until=0.0)  # fewer than two are ready: these are waited for
        assert rest.env_ids.tolist() == [1, 3]
        assert (rest.age >= 2.9).all()


@pytest.mark.parametrize("engine", SIDE_BY_SIDE)
def test_until_does_not_wait_when_as_many_are_ready_as_may_be_returned(engine):
    with sleepy(engine) as envs:
        envs.send([0, 20, 0, 20])
        started = time.perf_counter()
        assert len(envs.recv(1, 2, until=60.0).env_ids) == 2
        assert time.perf_counter() - started < 10.0


@pytest.mark.parametrize("engine", OPTIONS)
def test_at_least_and_at_most(engine):
    with sleepy(engine) as envs:
        envs.send([0, 0, 0, 0])
        if engine != "sync":
            assert envs.engine.gather(4, 60.0) == 4
        got = [envs.recv(1, 3), envs.recv(1, 100)]
        assert [len(step.env_ids) for step in got] == ([1, 1] if engine == "sync" else [3, 1])


def test_sync_runs_envs_until_the_time_is_up():
    with sleepy("sync") as envs:
        envs.send([3, 3, 3, 3])
        assert len(envs.recv(1, until=0.4).env_ids) == 2
        assert len(envs.recv(1, until=0.0).env_ids) == 1


@pytest.mark.parametrize("engine", SIDE_BY_SIDE)
def test_a_slow_env_that_is_ready_comes_before_faster_ones(engine):
    with sleepy(engine) as envs:
        envs.send([5, 0, 0, 0])
        for _ in range(3):
            ready = envs.recv(3, until=30.0, max_envs=3).env_ids
            envs.send([0] * len(ready), ready)
        assert envs.engine.gather(4, 60.0) == 4
        assert 0 in envs.recv(1, 1).env_ids  # it was sent first, and the others have been ready for long


@pytest.mark.parametrize("engine", [*OPTIONS, "compiled"])
def test_wrong_numbers_are_refused_and_nothing_is_lost(engine):
    with vecenv.make("CartPole-v1", 3, engine=engine) as envs:
        envs.reset(seed=0)
        with pytest.raises(NothingPendingError):
            envs.recv(1, 2)
        envs.send([0, 0, 0])
        for wrong, kind in (
            ({"max_envs": 0}, SpaceError),
            ({"max_envs": "2"}, SpaceError),
            ({"max_envs": True}, SpaceError),
        ):
            with pytest.raises(kind):
                envs.recv(**wrong)
        for wrong in ({"until": -1.0}, {"until": "soon"}, {"until": float("nan")}):
            with pytest.raises(ConfigError):
                envs.recv(**wrong)
        with pytest.raises(SpaceError, match="max_envs must be at least min_envs = 2, got 1"):
            envs.recv(2, 1)
        assert len(envs.recv(3, until=1.0).env_ids) == 3


@pytest.mark.parametrize("engine", SIDE_BY_SIDE)
def test_a_timeout_still_holds(engine):
    with sleepy(engine) as envs:
        envs.send([20, 20, 20, 20])
        with pytest.raises(WorkerTimeout, match=r"within 0.3 s"):
            envs.recv(1, until=0.1, timeout=0.3)
        assert len(envs.recv().env_ids) == 4


@pytest.mark.parametrize("engine", SIDE_BY_SIDE)
def test_failures_come_through(engine):
    class Fails(Sleepy):
        def step(self, action):
            raise ValueError("on purpose")

    with vecenv.make([Sleepy, Fails, Sleepy, Sleepy], engine=engine, **OPTIONS[engine]) as envs:
        envs.reset(seed=0)
        envs.send([0, 0, 0, 0])
        seen, failed = [], []
        while envs._call_order.pending_count:
            try:
                seen += envs.recv(1, 2, until=5.0).env_ids.tolist()
            except ValueError as error:
                failed.append(error.row)
        assert (sorted(seen), failed) == ([0, 2, 3], [1])


def test_wrappers_and_checks_pass_it_on():
    fns = [partial(Waiting, number) for number in range(4)]
    with RecordEpisodeStatistics(vecenv.make(fns, engine="asyncio", check_finite="error")) as envs:
        envs.reset(seed=0)
        envs.send([1, 2, 3, 4])
        step = envs.recv(4, until=10.0)
        assert step.env_ids.tolist() == [0, 1, 2, 3]
        assert step.age.shape == (4,)


def test_held_rows_are_ready():
    """With check_finite="error" the rows beside the one that failed are held by the check."""

    class Nan(Sleepy):
        def step(self, action):
            return np.full(1, np.nan), 0.0, False, False, {}

    with vecenv.make([Sleepy, Nan, Sleepy], engine="asyncio", check_finite="error") as envs:
        envs.reset(seed=0)
        envs.send([0, 0, 0])
        with pytest.raises(ValueError, match="not finite"):
            envs.recv(3, until=10.0)
        assert sorted(envs.recv(1, until=10.0).env_ids.tolist()) == [0, 2]


def test_workers_run_whole_blocks_again_after_a_partial_recv():
    """One `recv` of some rows, or with `until`, made every later step of all rows run row by row."""
    with vecenv.make(Sleepy, 4, engine="process", workers=1, context="fork") as envs:
        envs.reset(seed=0)
        eager = envs.engine._block.parent[:, EAGER]
        for receive in (lambda: envs.recv(1), lambda: envs.recv(1, until=0.0)):
            envs.send([0, 0, 0, 0])
            receive()
            assert eager.all()
            while envs._call_order.pending_count:
                envs.recv(1, until=0.0)
            assert eager.all()  # also while whatever is ready happens to be all that is pending
            envs.step([0, 0, 0, 0])
            assert not eager.any()


def test_rows_come_one_by_one_as_long_as_some_are_asked_for():
    """A `recv` of all that is left is not one of all: the next `send` still hands over rows one by one."""
    with vecenv.make(Sleepy, 4, engine="process", workers=1, context="fork") as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.send([0, 0, 0, 0])
            assert len(envs.recv(2).env_ids) == len(envs.recv(2).env_ids) == 2
            assert envs.engine._block.parent[:, EAGER].all()


def test_until_on_native_games():
    pytest.importorskip("ale_py")
    with vecenv.make("ALE/Pong-v5", 2, engine="ale", preprocessing=True) as envs:
        envs.reset(seed=0)
        seen = []
        envs.send([0, 0])
        while envs._call_order.pending_count:
            seen += envs.recv(1, until=0.2).env_ids.tolist()
        assert sorted(seen) == [0, 1]
        for _ in range(20):
            envs.send([0, 0])
            first = envs.recv(1, 1, until=0.2).env_ids
            second = envs.recv(1, until=0.2).env_ids
            assert sorted([*first, *second]) == [0, 1]


def test_until_does_not_wait_for_all_native_games(monkeypatch):
    pytest.importorskip("ale_py")
    with vecenv.make("ALE/Pong-v5", 2, engine="ale", preprocessing=True) as envs:
        envs.reset(seed=0)
        games, release = envs.engine._games, threading.Event()
        slow, receive = games._natives[1], games._recv

        def wait(native):
            if native is slow:
                release.wait(30.0)
            return receive(native)

        monkeypatch.setattr(games, "_recv", wait)
        envs.send([0, 0])
        assert envs.recv(1, until=0.2).env_ids.tolist() == [0]
        release.set()
        assert envs.recv(1, until=30.0).env_ids.tolist() == [1]
