"""`vecenv.torchrl` with the real TorchRL; the oracle is a GymWrapper around Gymnasium's SyncVectorEnv."""

from __future__ import annotations

import inspect
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from mpe2 import simple_spread_v3
from torchrl.collectors import Collector
from torchrl.envs import AsyncEnvPool, GymWrapper, PettingZooWrapper
from torchrl.envs.utils import check_env_specs

import vecenv
from tests.agents.test_group_ppo import Pairs
from tests.clients.pages import run_page
from vecenv.errors import ConfigError
from vecenv.torchrl import AsyncEnv

DISABLED = gymnasium.vector.AutoresetMode.DISABLED


def theirs(id="CartPole-v1", count=3, **kwargs):
    return GymWrapper(
        gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(id, **kwargs)] * count, autoreset_mode=DISABLED)
    )


def assert_same(one, other):
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    for key in one.keys(True, True):
        assert torch.equal(one[key], other[key]), key


@pytest.mark.parametrize("engine", ["sync", "process", "compiled"])
def test_specs_are_right_and_rollouts_are_equal(engine):
    ours = vecenv.torchrl.env("CartPole-v1", 3, engine=engine)
    expected = theirs()
    check_env_specs(ours)
    results = []
    for env in (ours, expected):
        env.set_seed(5)
        torch.manual_seed(2)
        results.append(env.rollout(60, break_when_any_done=False))
    assert_same(*results)
    assert results[0]["next", "done"].any()
    ours.close()


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1"])
def test_collectors_are_equal(id):
    gathered = []
    for make in (
        lambda: vecenv.torchrl.env(id, 3, engine="sync", max_episode_steps=15),
        lambda: theirs(id, max_episode_steps=15),
    ):
        env = make()
        env.set_seed(3)  # before: a collector resets its env when it is made
        torch.manual_seed(1)
        collector = Collector(env, None, frames_per_batch=60, total_frames=120)
        gathered.append([batch.exclude("collector").clone() for batch in collector])
        collector.shutdown()
    for one, other in zip(*gathered, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_the_async_env_gives_every_env_its_own_sequence(engine):
    envs = vecenv.make("CartPole-v1", 4, engine=engine, autoreset="same-step", batch_size=2)
    env = vecenv.torchrl.AsyncEnv(envs, categorical_action_encoding=True)
    env.async_reset_send(seed=11)
    roots = env.async_reset_recv(4)
    assert sorted(roots["env_index"].tolist()) == [0, 1, 2, 3]
    first = roots["observation"][roots["env_index"].argsort()]
    sequences = {row: [] for row in range(4)}
    env.async_step_and_maybe_reset_send(roots.set("action", torch.zeros(4, dtype=torch.int64)))
    for _ in range(80):
        transitions, roots = env.async_step_and_maybe_reset_recv()
        assert len(roots) == 2
        for position, row in enumerate(transitions["env_index"].tolist()):
            sequences[row].append((transitions[position], roots[position]))
        env.async_step_and_maybe_reset_send(roots.set("action", torch.zeros(2, dtype=torch.int64)))
    single = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * 4, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    obs, _ = single.reset(seed=11)
    assert np.array_equal(first, obs)
    for step in range(max(map(len, sequences.values()))):
        before, (obs, reward, terminated, truncated, info) = obs, single.step(np.zeros(4, int))
        for row, sequence in sequences.items():
            if step < len(sequence):
                transition, root = sequence[step]
                done = terminated[row] or truncated[row]
                assert np.array_equal(transition["observation"], before[row])
                assert np.array_equal(transition["next", "observation"], info["final_obs"][row] if done else obs[row])
                assert np.array_equal(root["observation"], obs[row])
                assert transition["next", "done"].item() == done
                assert transition["next", "reward"].item() == reward[row]
    env.close()


def test_the_async_env_has_the_methods_and_arguments_of_theirs():
    for name in (name for name in vars(AsyncEnvPool) if name.startswith("async_")):
        ours, theirs = (list(inspect.signature(getattr(cls, name)).parameters) for cls in (AsyncEnv, AsyncEnvPool))
        if name.endswith("_recv"):
            theirs.remove("env_index")
        assert ours[: len(theirs)] == theirs, name


def test_steps_alone_are_the_transitions_and_finished_envs_are_reset_as_asked():
    env = AsyncEnv(vecenv.make("CartPole-v1", 2, engine="sync", autoreset="same-step", max_episode_steps=3))
    env.async_reset_send(seed=5)
    roots = env.async_reset_recv()
    for _ in range(3):
        env.async_step_send(roots.set("action", env.action_spec.rand((2,))))
        transitions = env.async_step_recv(timeout=60)
        roots = transitions["next"].exclude("reward").set("env_index", transitions["env_index"])
    assert transitions["next", "truncated"].all()
    env.async_reset_send(roots)
    first = env.async_reset_recv(2)["observation"]
    assert (first.abs() < 0.05).all()
    env.close()


def test_another_mode_is_refused():
    with pytest.raises(ConfigError, match="leave autoreset out"):
        vecenv.torchrl.env("CartPole-v1", 2, autoreset="next-step")
    with pytest.raises(ConfigError, match="autoreset='disabled', these have 'next-step'"):
        vecenv.torchrl.env(vecenv.make("CartPole-v1", 2, engine="sync"))
    with pytest.raises(ConfigError, match="autoreset='same-step'"):
        vecenv.torchrl.AsyncEnv(vecenv.make("CartPole-v1", 2, engine="sync"))


def test_the_page_runs_as_written(tmp_path):
    run_page("torchrl", tmp_path)


def agents_theirs(env, seed):
    wrapper = PettingZooWrapper(env, use_mask=True, done_on_any=False, categorical_actions=True)
    return wrapper, wrapper.reset(seed=seed)


@pytest.mark.parametrize("make", [Pairs, simple_spread_v3.parallel_env], ids=["groups that die", "simple_spread"])
def test_agents_have_the_entries_of_their_wrapper(make):
    """Every entry of every step, of three envs; a wrapper of theirs for each, since it has no batch."""
    rows = 3
    ours = vecenv.torchrl.env(make, rows, engine="sync", categorical_action_encoding=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are tested with another PettingZoo
        pairs = [agents_theirs(make(), 5 + row) for row in range(rows)]
    wrappers, expected = (list(each) for each in zip(*pairs, strict=True))
    names = {group: list(agents) for group, agents in ours.group_map.items()}
    found, deaths, ends = ours.reset(seed=5), 0, 0
    generator = torch.Generator().manual_seed(0)
    for _ in range(70):
        assert_entries(found, expected, names, wrappers)
        for group, agents in names.items():
            count = ours.action_spec[group, "action"].space.n
            found[group, "action"] = torch.randint(count, (rows, len(agents)), generator=generator)
        for row in range(rows):
            for group, their in group_of(wrappers[row], names).items():
                expected[row][their, "action"] = found[group, "action"][row]
        found = ours.step(found)["next"]
        expected = [wrapper.step(td)["next"] for wrapper, td in zip(wrappers, expected, strict=True)]
        assert_entries(found, expected, names, wrappers)
        for group in names:
            deaths += int((~found[group, "mask"]).sum())
        over = found["done"].reshape(-1)
        ends += int(over.sum())
        if over.any():
            found = ours.reset(found.set("_reset", found["done"]))
            expected = [
                wrapper.reset() if done else td for wrapper, td, done in zip(wrappers, expected, over, strict=True)
            ]
    assert ends > 3
    assert deaths
    ours.close()


def group_of(wrapper, names):
    """Our groups' names by theirs: a single group is named otherwise."""
    theirs = list(wrapper.group_map)
    return dict(zip(names, theirs, strict=True))


def assert_entries(found, expected, names, wrappers):
    for row, wanted in enumerate(expected):
        for group, their in group_of(wrappers[row], names).items():
            for key in wanted[their].keys(True, True):
                if key != "action" and key in found[group].keys(True, True):
                    assert torch.equal(found[group, key][row], wanted[their, key]), (group, key)
            assert {"observation", "mask", "done", "terminated", "truncated"} <= set(found[group].keys())
        assert torch.equal(found["done"][row], wanted["done"])
        if bool(wanted["done"]) and not bool(wanted["terminated"] | wanted["truncated"]):
            # Some agents were terminated and others truncated: theirs is done for no reason, ours for both.
            assert found["terminated"][row]
            assert found["truncated"][row]
            continue
        for key in ("terminated", "truncated"):
            assert torch.equal(found[key][row], wanted[key]), key


def test_agents_have_right_specs_and_masks_of_actions():
    for env in ("SimpleSpread-v0", "ConnectFourDuel-v0"):
        for categorical in (False, True):
            made = vecenv.torchrl.env(env, 3, categorical_action_encoding=categorical)
            check_env_specs(made)
            made.close()
    env = vecenv.torchrl.env("ConnectFourDuel-v0", 4, categorical_action_encoding=True)
    env.set_seed(0)
    rollout = env.rollout(60, break_when_any_done=False)
    masks, actions = rollout["agents", "action_mask"], rollout["agents", "action"]
    assert masks.gather(-1, actions.unsqueeze(-1)).all(), "random actions are allowed ones"
    assert (rollout["agents", "mask"].sum(-1) == 1).all(), "one player acts at a time"
    assert rollout["next", "done"].any()
    env.close()
