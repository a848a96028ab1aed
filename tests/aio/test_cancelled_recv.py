"""A `recv_async` that is cancelled, on engines that wait in another thread."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from vecenv.errors import CallOrderError, WorkerDied, WorkerTimeout


class Gated(gymnasium.Env):
    """A step waits for a file and rewards its number. Action 1 never ends, and a new env waits for another file."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, folder: Path) -> None:
        self.folder, self.steps = folder, 0
        if (folder / "hung").exists():
            (folder / "building").touch()
            self._wait_for("may build")

    def _wait_for(self, name):
        while not (self.folder / name).exists():
            time.sleep(0.005)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        (self.folder / ("hung" if action else "stepped")).touch()
        self._wait_for("never" if action else "may step")
        return np.zeros(1), float(self.steps), False, False, {}


async def there(*paths):
    while not all(path.exists() for path in paths):
        await asyncio.sleep(0.005)


async def cancelled(envs, *arguments):
    """Begin a `recv_async`, and cancel it when its thread is inside the vector env."""
    waits = asyncio.ensure_future(envs.recv_async(*arguments))
    while envs._call_order.inside is None:
        await asyncio.sleep(0.001)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits


@pytest.mark.parametrize("again", ["at once", "later", "recv", "another loop"])
def test_it_loses_nothing(again, tmp_path):
    async def main(envs):
        await cancelled(envs)
        (tmp_path / "may step").touch()
        while again in ("later", "recv") and envs._call_order.inside is not None:
            await asyncio.sleep(0.001)
        return envs.recv() if again == "recv" else await envs.recv_async() if again != "another loop" else None

    async def received(envs):
        return await envs.recv_async()

    with vecenv.make(partial(Gated, tmp_path), 2, engine="process", workers=2, context="fork") as envs:
        envs.reset(seed=0)
        envs.send([0, 0])
        step = asyncio.run(main(envs)) or asyncio.run(received(envs))
        assert (step.env_ids.tolist(), step.reward.tolist()) == ([0, 1], [1.0, 1.0])
        assert envs.step([0, 0])[1].tolist() == [2.0, 2.0]
        envs.send([0, 0])
        assert asyncio.run(received(envs)).reward.tolist() == [3.0, 3.0]


def test_it_loses_nothing_while_an_env_that_is_late_is_built_again(tmp_path):
    """What was received in the other thread was thrown away with the call."""

    async def main(envs):
        envs.send([1, 0])
        await there(tmp_path / "hung", tmp_path / "stepped")
        waits = asyncio.ensure_future(envs.recv_async(timeout=0.5))
        await there(tmp_path / "building")
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        (tmp_path / "may build").touch()
        while envs._call_order.inside is not None:
            await asyncio.sleep(0.001)
        return await envs.recv_async()

    options = {"engine": "process", "workers": 2, "context": "fork", "on_error": "restart"}
    with vecenv.make(partial(Gated, tmp_path), 2, **options) as envs:
        envs.reset(seed=0)
        (tmp_path / "may step").touch()
        step = asyncio.run(main(envs))
        assert (step.env_ids.tolist(), step.reward.tolist()) == ([0, 1], [0.0, 1.0])
        assert step.truncated.tolist() == [True, False]


@pytest.mark.parametrize("engine", ["thread", "process", "asyncio"])
def test_a_wait_that_receives_nothing_may_have_a_timeout(engine, tmp_path):
    options = {"context": "fork"} if engine == "process" else {}
    with vecenv.make(partial(Gated, tmp_path), 2, engine=engine, **options) as envs:
        envs.reset(seed=0)
        envs.send([0, 0])
        with pytest.raises(WorkerTimeout, match=r"within 0.01 s"):
            envs.engine.gather(1, 60.0, 0.01)
        (tmp_path / "may step").touch()
        assert envs.engine.gather(2, 60.0, 50.0) == 2
        assert len(envs.recv().env_ids) == 2


def patched(monkeypatch, gather):
    """Two envs that were sent, and an engine with this `gather`."""
    envs = vecenv.make("CartPole-v1", 2, engine="sync")
    envs.reset(seed=0)
    envs.send([0, 0])
    monkeypatch.setattr(envs.engine, "gather", gather)
    return envs


def test_the_next_one_times_out_while_the_wait_goes_on(monkeypatch):
    """It raised CallOrderError, as did every later one."""
    release = threading.Event()

    def gather(count, seconds, timeout=None):
        release.wait(60.0)
        return count

    async def main(envs):
        await cancelled(envs)
        for _ in range(2):
            with pytest.raises(WorkerTimeout, match=r"2 of 2 envs did not answer within 0.01 s; await recv_async\(\)"):
                await envs.recv_async(timeout=0.01)
        with pytest.raises(CallOrderError, match="another thread is inside"):
            envs.recv()
        release.set()
        return (await envs.recv_async()).env_ids.tolist()

    assert asyncio.run(main(patched(monkeypatch, gather))) == [0, 1]


@pytest.mark.parametrize("until", [None, 50.0])
def test_the_wait_of_the_one_before_counts(until, monkeypatch):
    """The timeout began anew when that wait was over."""
    release, given = threading.Event(), []

    def gather(count, seconds, timeout=None):
        given.append(min(seconds, seconds if timeout is None else timeout))
        release.wait(60.0)
        return count

    async def main(envs):
        await cancelled(envs, 1)
        asyncio.get_running_loop().call_later(0.3, release.set)
        await envs.recv_async(2, until=until, timeout=100.0)

    asyncio.run(main(patched(monkeypatch, gather)))
    assert given[1] < (until or 100.0) - 0.2


@pytest.mark.parametrize("call", ["recv", "recv_async"])
def test_a_death_that_it_has_seen_is_raised_by_the_next_call(call, monkeypatch):
    release = threading.Event()

    def gather(count, seconds, timeout=None):
        release.wait(60.0)
        raise WorkerDied("the worker is gone", row=1, rows=(1,), phase="step")

    async def main(envs):
        await cancelled(envs)
        release.set()
        await asyncio.wait([envs._gathering])
        with pytest.raises(WorkerDied, match="the worker is gone"):
            await envs.recv_async() if call == "recv_async" else envs.recv()

    asyncio.run(main(patched(monkeypatch, gather)))
