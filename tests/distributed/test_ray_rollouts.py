"""Fragments are, bit for bit, what the envs do at home; what is lost is told and never counted twice."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.faults.faulty import LONG, InAnotherThread, until, within
from vecenv._batch.faults import restart_seed
from vecenv.distributed import Fragment, Rollouts, rollout
from vecenv.errors import ClosedError, ConfigError, ConfigTypeError, EnvError, WorkerDied, WorkerTimeout
from vecenv.testing import FaultEnv

pytestmark = pytest.mark.usefixtures("cluster", "no_pauses")
COUNT, SEED = 6, 7
WEIGHTS = np.array([0.1, 0.2, 1.0, 1.0])
OTHER = np.array([0.0, 0.0, -1.0, -1.0])


def policy(obs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (obs @ weights > 0).astype(np.int64)


def at_home(mode: str, plan: list[tuple[int, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """What the same policy does with all envs in this process, fragment by fragment."""
    fragments = []
    with vecenv.make("CartPole-v1", COUNT, engine="sync", autoreset=mode) as envs:
        obs, _ = envs.reset(seed=SEED)
        for steps, weights in plan:
            seen: dict[str, list[np.ndarray]] = {}
            for _ in range(steps):
                actions = policy(obs, weights)
                envs.send(actions)
                step = envs.recv()
                for name in ("obs", "reward", "terminated", "truncated", "valid", "next_obs", "ops"):
                    seen.setdefault(name, []).append(getattr(step, name))
                seen.setdefault("actions", []).append(actions)
                seen.setdefault("acted_on", []).append(obs)
                obs = step.obs
            fragments.append({name: np.array(values) for name, values in seen.items()})
    return fragments


def assert_same(fragment: Fragment, expected: dict[str, np.ndarray]) -> None:
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(fragment, name), values[:, fragment.env_ids], err_msg=name)


@pytest.mark.parametrize(("mode", "local"), [("next-step", "sync"), ("same-step", "compiled")])
def test_fragments_are_what_the_envs_do_at_home(mode: str, local: Any) -> None:
    plan = [(30, WEIGHTS), (25, OTHER), (25, OTHER)]
    expected = at_home(mode, plan)
    with Rollouts("CartPole-v1", COUNT, policy, workers=2, seed=SEED, autoreset=mode, local_engine=local) as rollouts:
        collected = [
            list(rollouts.collect(30, WEIGHTS, order="fixed")),
            list(rollouts.collect(25, OTHER)),
            list(rollouts.collect(25)),
        ]
        load = rollouts.load()
    assert sum(values["terminated"].sum() for values in expected) > 10
    for fragments, values in zip(collected, expected, strict=True):
        assert sorted(np.concatenate([fragment.env_ids for fragment in fragments])) == list(range(COUNT))
        for fragment in fragments:
            assert_same(fragment, values)
            assert not fragment.faults
    assert [fragment.worker for fragment in collected[0]] == [0, 1]
    assert [fragments[0].update for fragments in collected] == [1, 2, 2]
    assert not collected[0][0].obs.flags.writeable
    assert not collected[0][0].obs.flags.owndata
    assert all(each.seconds > 0 and each.pid != os.getpid() for each in load)


def test_a_native_policy_runs_whole_fragments_in_native_code() -> None:
    def lean(obs: Any) -> int:
        return 1 if obs[2] + obs[3] > 0.0 else 0

    fragments = rollout("CartPole-v1", lean, num_envs=COUNT, steps=40, workers=2, seed=SEED, native=True)
    with vecenv.make("CartPole-v1", COUNT) as envs:
        envs.reset(seed=SEED)
        expected = envs.rollout(policy=lean, steps=40)
    for fragment in fragments:
        for name in ("obs", "actions", "reward", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(getattr(fragment, name), getattr(expected, name)[:, fragment.env_ids])


def slow(obs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    time.sleep(float(weights[4]))
    return policy(obs, weights[:4])


@pytest.mark.parametrize(
    ("mode", "local"),
    [
        ("next-step", "compiled"),
        pytest.param("same-step", "compiled", marks=pytest.mark.slow),
        pytest.param("same-step", "sync", marks=pytest.mark.slow),
    ],
)
def test_an_actor_killed_within_a_fragment_is_restarted_and_nothing_counts_twice(mode: str, local: Any) -> None:
    hurry, dawdle = np.append(WEIGHTS, 0.0), np.append(WEIGHTS, 0.05)
    first, second = at_home(mode, [(10, WEIGHTS), (20, WEIGHTS)])
    options: dict[str, Any] = {"workers": 2, "seed": SEED, "autoreset": mode, "local_engine": local}
    with Rollouts("CartPole-v1", COUNT, slow, **options) as rollouts:
        for fragment in rollouts.collect(10, hurry):
            assert_same(fragment, first)
        arriving = rollouts.collect(20, dawdle)
        time.sleep(0.3)  # within the fragment, which takes a second
        os.kill(rollouts.load()[0].pid, signal.SIGKILL)
        found = {fragment.worker: fragment for fragment in arriving}
        later = {fragment.worker: fragment for fragment in rollouts.collect(5, hurry)}
    assert_same(found[1], second)
    assert not found[1].faults
    lost = found[0]
    before = first["obs"][-1, lost.env_ids]
    ended = first["terminated"][-1, lost.env_ids] | first["truncated"][-1, lost.env_ids]
    told = [(fault["step"], fault["env"], fault["kind"], fault["restarts"]) for fault in lost.faults]
    assert told == [(0, env, "WorkerDied", 1) for env in lost.env_ids]
    assert len(lost.reward) == 20
    np.testing.assert_array_equal(lost.first_obs, before)
    np.testing.assert_array_equal(lost.truncated[0], ~ended if mode == "next-step" else np.ones(3, np.bool_))
    assert not lost.reward[0].any()
    np.testing.assert_array_equal(lost.next_obs[0][lost.truncated[0]], before[lost.truncated[0]])
    seeds = [restart_seed(SEED + int(env), int(env), 1) for env in lost.env_ids]
    with vecenv.make("CartPole-v1", 3, engine="sync") as envs:
        begun, _ = envs.reset(seed=seeds)
    where = np.where(ended, 0, 1) if mode == "next-step" else np.zeros(3, np.int64)
    np.testing.assert_array_equal(lost.obs[where, np.arange(3)], begun)
    np.testing.assert_array_equal(later[0].first_obs, lost.obs[-1])
    np.testing.assert_array_equal(lost.truncated[1:], False)  # CartPole is not truncated within 20 steps
    assert not later[0].faults


def test_an_actor_that_dies_or_hangs_is_raised_if_so_wished() -> None:
    dawdle = np.append(WEIGHTS, 3.0)
    with Rollouts("CartPole-v1", 2, slow, workers=1, seed=SEED, on_error="raise", timeout=0.5) as rollouts:
        with pytest.raises(WorkerTimeout, match="actor 0"):
            next(rollouts.collect(1, dawdle))
        os.kill(rollouts.load()[0].pid, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="envs 0 to 1"):
            rollouts.collect(1, np.append(WEIGHTS, 0.0))
        (fragment,) = rollouts.collect(3)
        assert [fault["env"] for fault in fragment.faults] == [0, 1]


def test_an_env_that_fails_is_built_again_within_the_fragment(tmp_path: Path) -> None:
    envs = FaultEnv.many(4, kind="raise", env=3, at=4, length=10**6, fuse=str(tmp_path / "fuse"))

    def act(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(0, 100, len(obs))

    first, second = rollout(envs, act, num_envs=4, steps=6, workers=2, seed=SEED, autoreset="same-step")
    assert not first.faults
    ((fault),) = second.faults
    assert (fault["step"], fault["env"], fault["kind"]) == (3, 3, "ValueError")
    assert np.argwhere(second.truncated).tolist() == [[3, 1]]
    np.testing.assert_array_equal(second.obs[:3, :, 3], second.actions[:3])
    assert not np.array_equal(first.actions, second.actions)  # each actor has a stream of its own


def test_a_policy_that_fails_says_where_and_the_envs_begin_anew() -> None:
    def fails_on_demand(obs: np.ndarray, weights: str) -> np.ndarray:
        if weights == "bad":
            raise ZeroDivisionError("no such policy")
        return np.full(len(obs), 9 if weights == "wrong" else 1)

    with Rollouts("CartPole-v1", 2, fails_on_demand, workers=1, seed=SEED) as rollouts:
        with pytest.raises(ZeroDivisionError, match=r"the policy.*actor 0.*no such policy") as caught:
            next(rollouts.collect(3, "bad"))
        assert isinstance(caught.value, EnvError)
        assert "fails_on_demand" in caught.value.remote_traceback
        with pytest.raises(EnvError, match="InvalidAction"):
            next(rollouts.collect(3, "wrong"))
        assert len(next(rollouts.collect(3, "good")).reward) == 3
        with pytest.raises(ConfigError, match="steps"):
            rollouts.collect(0)


@pytest.mark.parametrize(("name", "option"), [("copy", "copy"), ("batchsize", "batch_size")])
def test_an_option_that_only_make_has_is_refused_without_suggesting_it(name: str, option: str) -> None:
    with pytest.raises(ConfigTypeError, match=f"unknown argument '{name}': Rollouts does not have '{option}' of make"):
        Rollouts("CartPole-v1", 2, policy, **{name: 1})


def test_a_parameter_of_the_kernel_may_be_called_like_an_option_of_make() -> None:
    @vecenv.kernel("Copies-v0")
    class Copies:
        observation_space, action_space = spaces.Box(-9, 9, (1,)), spaces.Discrete(2)
        state = {"x": float}

        class Params:
            copy = 1.0

        def reset(s, rng, p):
            s.x = p.copy

        def step(s, action, rng, p):
            return 0.0, False

        def observe(s, obs, p):
            obs[0] = s.x

    with pytest.raises(ConfigError, match="fragments need autoreset"):  # the next check
        Rollouts(Copies, 2, policy, copy=2.0, autoreset="disabled")


def test_fast_actors_deliver_more_fragments() -> None:
    def drowsy(obs: np.ndarray) -> np.ndarray:
        time.sleep(0.3 * float(obs[0, 0] == 0))  # the index of the actor's first env
        return np.zeros(len(obs), np.int64)

    with Rollouts(FaultEnv.many(4, length=10**6), 4, drowsy, workers=2) as rollouts:
        workers = [fragment.worker for fragment in rollouts.collect(3, fragments=8)]
    assert len(workers) == 8
    assert workers.count(1) > workers.count(0) > 0


def test_a_thread_that_waits_for_a_fragment_is_woken_by_close() -> None:
    rollouts = Rollouts(FaultEnv.many(2, kind="hang"), 2, lambda obs: np.zeros(len(obs), np.int64), workers=2)
    collecting = InAnotherThread(lambda: list(rollouts.collect(3)))
    assert until(lambda: collecting.is_in("wait"), LONG)
    with within(1.0), pytest.warns(RuntimeWarning, match="did not close within"):
        rollouts.close(timeout=0.3)
    collecting.end()
    assert isinstance(collecting.error, ClosedError), collecting.error
    rollouts.close()
    with pytest.raises(ClosedError):
        rollouts.collect(3)
