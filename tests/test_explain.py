"""`envs.explain()` finds who is slow and says what to do about it."""

import time
from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests import twins
from vecenv._front.explain import Explanation
from vecenv._front.stats import Stats, WorkerStats
from vecenv.engines import registry
from vecenv.engines.python.thread import ThreadEngine
from vecenv.errors import UnsupportedError
from vecenv.wrappers import RecordEpisodeStatistics

COUNT, STEPS = 6, 140
ZEROS = np.zeros(COUNT, int)


class Sleepy(gymnasium.Env):
    """A step takes `seconds`, a reset takes `begin`."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, seconds=0.0, begin=0.0):
        self.seconds, self.begin = seconds, begin

    def reset(self, *, seed=None, options=None):
        time.sleep(self.begin)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if self.seconds:
            time.sleep(self.seconds)
        return np.zeros(2, np.float32), 0.0, False, False, {}


def run(engine, slow, exchanges=STEPS, **kwargs):
    """Some steps of envs of which one is slow, and what is said of them."""
    factories = [partial(Sleepy, 0.003 if index == slow else 0.0) for index in range(COUNT)]
    envs = twins.make(engine, factories, **kwargs)
    envs.reset()
    for _ in range(exchanges):
        envs.step(ZEROS)
    explained = envs.explain(show=lambda text: None)
    envs.close()
    return explained


@twins.on_every_engine
@pytest.mark.parametrize("slow", [1, 4])
def test_the_slow_env_and_its_worker_are_found(engine, slow):
    explained = run(engine, slow)
    assert explained.slowest == slow
    assert explained.worker == (0 if engine == "sync" else slow // 3)
    stats = explained.stats
    assert stats.env_p50[slow] >= 0.003
    assert (np.delete(stats.env_p50, slow) < 0.003).all()
    assert (stats.env_p99 >= stats.env_p50).all()
    busiest = max(range(len(stats.workers)), key=lambda number: stats.workers[number].seconds)
    assert busiest == explained.worker
    assert stats.workers[busiest].seconds > 0.8 * STEPS * 0.003
    assert sum(worker.steps for worker in stats.workers) == stats.steps == (STEPS + 1) * COUNT
    assert [(worker.start, worker.stop) for worker in stats.workers] == (
        [(0, 6)] if engine == "sync" else [(0, 3), (3, 6)]
    )
    assert f"env {slow} takes about" in explained.advice
    assert "per step (p50 <= " in explained.advice
    assert ("engine='process'" in explained.advice) == (engine == "sync")
    assert "batch_size" in explained.advice
    assert "send/recv" in explained.advice


def stepped(factories, **options):
    """What is said after two hundred steps."""
    with vecenv.make(factories, **options) as envs:
        envs.reset(seed=0)
        for _ in range(200):
            envs.step(np.zeros(len(factories), int))
        return envs.explain(show=str)


@pytest.mark.parametrize(
    ("factory", "engine"),
    [
        (Sleepy, "sync"),
        (Sleepy, "thread"),
        (Sleepy, "process"),
        # In workers a busy machine may take the processor from one of them for most of its short steps.
        (partial(gymnasium.make, "CartPole-v1"), "sync"),
    ],
)
def test_of_envs_that_are_alike_none_is_blamed(factory, engine):
    explained = stepped([factory] * 4, engine=engine)
    assert " takes about " not in explained.advice


@pytest.mark.parametrize("engine", ["sync", "thread", "process"])
def test_an_env_whose_resets_are_slow_is_not_said_to_step_slowly(engine):
    explained = stepped([partial(Sleepy, begin=0.3 if index == 2 else 0.0) for index in range(4)], engine=engine)
    assert explained.stats.env_mean[2] > 0.02
    assert explained.stats.env_typical[2] < 0.003
    assert " takes about " not in explained.advice


def test_an_env_that_sleeps_for_ten_milliseconds_is_said_to_take_about_that():
    explained = stepped([partial(Sleepy, 0.01 if index == 1 else 0.0) for index in range(4)], engine="process")
    assert explained.slowest == 1
    assert 0.009 < explained.stats.env_typical[1] < 0.02
    assert "env 1 takes about" in explained.advice


def test_a_caller_that_waits_for_one_worker_does_not_run_the_envs():
    for options, said in (({"engine": "process", "workers": 1}, "waiting for envs"), ({"engine": "sync"}, "running")):
        explained = stepped([Sleepy] * 2, **options)
        assert f"\n  {said}" in str(explained)
        assert len(explained.stats.workers) == 1


@twins.on_every_engine
def test_times_add_up(engine):
    explained = run(engine, 1)
    stats = explained.stats
    assert STEPS * 0.003 < explained.waiting < stats.seconds
    assert stats.seconds == pytest.approx(explained.waiting + stats.seconds_copying + explained.elsewhere)


def test_a_slow_env_that_shares_a_worker_with_others_should_not():
    explained = run("process", 4, batch_size=3)
    assert explained.advice.endswith("worker 1 has others that wait for it: workers=6")


def test_before_there_is_anything_to_say_it_says_so():
    explained = run("sync", 1, exchanges=3)
    assert explained.advice.startswith("only 4 exchanges so far")
    envs = vecenv.make("CartPole-v1", 3, engine="sync")
    assert envs.explain(show=str).slowest == -1
    assert "only 0 exchanges" in str(envs.explain(show=str))


def test_calling_it_prints_the_report_and_returns_it(capsys):
    envs = twins.make("sync", [Sleepy] * COUNT)
    envs.reset()
    for _ in range(40):
        envs.step(ZEROS)
    explained = envs.explain()
    printed = capsys.readouterr().out
    assert printed == f"{explained}\n"
    assert printed.splitlines()[-1] == f"advice: {explained.advice}"
    assert "\n" not in repr(explained)
    for word in (
        "6 envs, engine 'sync'",
        "246 steps and resets",
        "copying results",
        "your code",
        "p50",
        "p99",
        "slowest",
    ):
        assert word in printed
    told = []
    envs.explain(show=told.append)
    assert len(told) == 1
    assert capsys.readouterr().out == ""


def test_wrappers_pass_it_through():
    envs = vecenv.make("CartPole-v1", 3, engine="sync")
    outer = RecordEpisodeStatistics(envs)
    outer.reset(seed=0)
    assert outer.explain(show=str).stats.exchanges == 1
    theirs = RecordEpisodeStatistics(gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")]))
    with pytest.raises(UnsupportedError, match="explain needs a vector env of vecenv"):
        theirs.explain()


def test_native_code_says_what_it_knows():
    envs = vecenv.make("CartPole-v1", 64, engine="compiled")
    envs.reset(seed=0)
    for _ in range(50):
        envs.step(np.zeros(64, int))
    explained = envs.explain(show=str)
    assert explained.slowest == explained.worker == -1
    assert explained.stats.steps == 51 * 64
    assert 0 < explained.waiting < explained.stats.seconds
    assert "envs are not timed one by one: native code" in str(explained)


def test_games_have_no_clocks_and_are_not_asked():
    envs = vecenv.make("ALE/Pong-v5", 2, engine="ale", preprocessing=True)
    envs.reset(seed=0)
    envs.step(np.zeros(2, int))
    assert "the ale engine does not say how long its envs take" in str(envs.explain(show=str))
    envs.close()


# --- one line of advice -----------------------------------------------------------------------------------------------


def told(engine="process", mean=1e-3, seconds=10.0, waiting=9.0, copying=0.1, busy=(8.0, 8.0), **changes):
    """An explanation of made up numbers: four envs, two hundred exchanges."""
    means = np.broadcast_to(mean, 4).astype(float)
    size = 4 // len(busy)
    workers = tuple(WorkerStats(k * size, (k + 1) * size, 100, each, 1e-3, 1e-3) for k, each in enumerate(busy))
    stats = Stats(200, 800, sum(busy), waiting, copying, means, means, means, seconds, workers)
    declared = (registry.declares(engine, fact) for fact in ("parallel", "native"))
    explained = Explanation(stats, engine, "asked for", 4, 4, True, True, *declared)
    return replace(explained, **changes).advice


def test_advice_is_about_what_stands_out():
    assert told() == "nothing stands out: time goes into the envs, and evenly"
    assert "copy=False" in told(waiting=6.0, copying=3.0)
    assert "copy=False" not in told(waiting=6.0, copying=3.0, copy=False)
    assert "engine='sync'" in told(mean=5e-6)
    assert "engine='sync'" not in told(mean=5e-6, engine="sync", busy=(0.01,))
    assert "worker 1 is idle" in told(busy=(8.0, 0.5))
    assert "wait for your code, 69%" in told(waiting=3.0, busy=(2.0, 2.0))
    assert "side by side" in told(engine="sync", busy=(8.0,), mean=20e-3)
    assert "nothing stands out" in told(engine="compiled", busy=(8.0,), mean=np.nan)
    assert "worker 0 is idle" in told(engine="ray", mean=np.nan, busy=(1.0, 8.0))


def test_advice_about_a_slow_env_depends_on_the_engine_and_the_batch_size():
    one = [1e-3, 1e-3, 1e-3, 20e-3]
    assert "env 3 takes about 20 ms per step (p50 <= 20 ms, p99 <= 20 ms), the others 1 ms, and all wait" in told(
        mean=one
    )
    assert "worker 1 has others that wait" in told(mean=one, batch_size=2)
    assert "engine='process' with workers=4" in told(mean=one, engine="sync", busy=(8.0,))
    assert "all wait for it: give it a worker (workers=4)" in told(mean=one, engine="ray")
    assert "env 3" not in told(mean=[1e-3, 1e-3, 1e-3, 3e-3])
    assert "env 3" not in told(mean=[1e-6, 1e-6, 1e-6, 9e-6])


def test_an_engine_of_others_says_itself_whether_it_is_parallel():
    class Pool(ThreadEngine):
        name = "pool"

    factories = [partial(Sleepy, 0.003 if index == 1 else 0.0) for index in range(4)]
    for parallel, advice in ((True, "all wait for it: give it a worker"), (False, "use engine='process'")):
        Pool.parallel = parallel
        with vecenv.VectorEnv(Pool(factories, workers=2)) as envs:
            envs.reset()
            for _ in range(STEPS):
                envs.step(np.zeros(4, int))
            assert advice in envs.explain(show=str).advice
