"""Kernels with several agents: Python and native code, PettingZoo's own tests, and mpe2's numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo.utils.conversions import parallel_to_aec

import vecenv
from tests.agents.compare import check_obs, check_step, place_of
from tests.agents.model import ModelRow
from vecenv.agents import MultiAgentVectorEnv
from vecenv.errors import ConfigError, InvalidAction, KernelError
from vecenv.kernel.language.registry import WITH_AGENTS

IDS = list(WITH_AGENTS)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's tests import its own envs in the old way
    from pettingzoo.test import api_test, parallel_api_test, seed_test


@vecenv.kernel("Relay-v0", max_episode_steps=12)
class Relay:
    """Three agents act by turns; who is hit by chance dies, and everybody earns what others do."""

    agents = 3
    observation_space = Box(-np.inf, np.inf, (3,), np.float64)
    action_space = Discrete(4)
    state = {"turn": int, "time": int, "last": (float, 3)}
    info = {"clock": int}

    def reset(s, rng, p):
        s.turn = rng.integers(3)
        s.time = 0
        s.clock = 0
        s.last[:] = 0.0

    def step(s, actions, reward, done, rng, p):
        s.time += 1
        s.clock = s.time
        s.last[s.turn] = actions[s.turn]
        for agent in range(3):
            reward[agent] = 1.0 + agent + actions[s.turn]
            if not done[agent] and rng.random() < 0.1:
                done[agent] = True
        for _ in range(3):
            s.turn = (s.turn + 1) % 3
            if not done[s.turn]:
                break

    def acts(s, agent, p):
        return agent == s.turn

    def observe(s, agent, obs, p):
        obs[0] = s.time
        obs[1] = agent
        obs[2] = s.last[agent]

    def action_mask(s, agent, mask, p):
        mask[: 2 + agent] = 1


@pytest.mark.parametrize("id", [*IDS, "Relay-v0"])
def test_native_code_has_the_bits_of_python(id: str) -> None:
    report = vecenv.testing.check_kernel(id, steps=205 if id == "Battle-v0" else 100, num_envs=2)
    assert report.episodes


@pytest.mark.parametrize("id", IDS)
@pytest.mark.filterwarnings("ignore:.* ignores the reset option 'options'")  # which the test passes
def test_pettingzoos_own_tests_pass(id: str) -> None:
    parallel_api_test(vecenv.make_env(id), num_cycles=60)
    seed_test(lambda: parallel_to_aec(vecenv.make_env(id)), num_cycles=10)


@pytest.mark.parametrize("id", IDS)
@pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # of what PettingZoo finds unusual: names of agents, unbounded spaces
def test_pettingzoos_own_tests_pass_by_turns(id: str) -> None:
    api_test(parallel_to_aec(vecenv.make_env(id)), num_cycles=30)


@pytest.mark.parametrize("id", ["SimpleSpread-v0", "Pursuit-v0", "Battle-v0"])
def test_make_env_is_what_the_vector_env_runs(id: str) -> None:
    """The PettingZoo env, by PettingZoo's loop, against native code."""
    rows, rng, mode = 2, np.random.default_rng(2), "same-step"
    with vecenv.make(id, rows, autoreset=mode) as envs:
        assert isinstance(envs, MultiAgentVectorEnv)
        assert envs.engine.name == "compiled"
        model = [ModelRow(lambda: vecenv.make_env(id), row, "all", mode, False) for row in range(rows)]
        obs, _ = envs.reset(seed=9)
        for row in range(rows):
            check_obs(envs, obs, row, row, model[row].reset(9 + row).shown)
        for _ in range(60):
            actions = [{name: rng.integers(5) for name in row.latest.acts} for row in model]
            wanted = [row.step(action) for row, action in zip(model, actions, strict=True)]
            step = envs.step(actions)
            for row in range(rows):
                wanted[row].fault = True  # infos of kernels have no axis of slots
                check_step(envs, step, row, wanted[row], {name: place_of(envs, row, name) for name in envs.agents})


def test_by_turns_rewards_are_summed_until_the_turn() -> None:
    with vecenv.make("Relay-v0", 16, autoreset="disabled") as envs:
        envs.reset(seed=3)
        owed, moved, done = np.zeros((16, 3)), np.zeros((16, 3), bool), np.zeros((16, 3), bool)
        for _ in range(11):
            turn = envs.acts
            assert (turn.sum(axis=1) <= 1).all()
            actions = np.where(turn, 1, 3)
            step = envs.step(actions)
            moved |= turn
            owed[~done] += (np.arange(3.0) + 2.0 + np.zeros((16, 3)))[~done]
            told = step.acts | step.terminated
            assert np.array_equal(step.reward, np.where(told, owed, 0.0))
            assert np.array_equal(step.valid, told & moved)
            assert not (step.terminated & done).any(), "an end is told once"
            done |= step.terminated
            owed[told], moved[told] = 0.0, False
            if step.done.any():
                envs.reset(options={"reset_mask": step.done})
                owed[step.done], moved[step.done], done[step.done] = 0.0, False, False


def test_a_time_limit_truncates_the_living() -> None:
    with vecenv.make("SimpleSpread-v0", 2, autoreset="same-step") as envs:
        envs.reset(seed=0)
        for _ in range(25):
            step = envs.step(envs.sample_actions())
        assert step.done.all()
        assert step.truncated.all()
        assert not step.terminated.any()
        assert step.valid.all()
        assert (step.reward < 0).all()
        assert envs.acts.all()


def test_masks_of_agents_are_infos() -> None:
    with vecenv.make("ConnectFourDuel-v0", 3) as envs:
        _, infos = envs.reset(seed=0)
        assert infos["action_mask"].tolist() == [[[1] * 7, [0] * 7]] * 3
        for _ in range(6):
            step = envs.step(np.zeros((3, 2), int))
        assert step.infos["action_mask"][:, 0].tolist() == [[0, 1, 1, 1, 1, 1, 1]] * 3
        flat = envs.flat()
        _, infos = flat.reset(seed=0)
        assert infos["action_mask"].shape == (6, 7)
        step = envs.step(np.zeros((3, 2), int))


def test_a_duel_is_won_and_lost() -> None:
    with vecenv.make("ConnectFourDuel-v0", 1) as envs:
        envs.reset(seed=0)
        for number in range(7):
            step = envs.step(np.full((1, 2), number % 2))
        assert step.reward.tolist() == [[1.0, -1.0]]
        assert step.terminated.all()
        assert step.valid.all()
        assert step.done.all()
        assert envs.agents == ("first", "second")


def test_agents_of_a_battle_die() -> None:
    with vecenv.make("Battle-v0", 8) as envs:
        envs.reset(seed=0)
        deaths = 0
        for _ in range(150):
            before = envs.acts
            step = envs.step(envs.sample_actions())
            deaths += int(step.terminated.sum())
            assert not (step.valid & ~before).any(), "who did not act has no transition"
            assert not step.obs[~(step.acts | step.valid)].any(), "slots of the dead are zero"
        assert deaths > 8


@pytest.mark.parametrize("seed", range(5))
def test_simple_spread_has_the_bits_of_mpe2(seed: int) -> None:
    """From the same seed, so from the same state; all rewards and observations of whole episodes."""
    from mpe2 import simple_spread_v3

    theirs, rng = simple_spread_v3.parallel_env(), np.random.default_rng(seed)
    with vecenv.make("SimpleSpread-v0", 1, autoreset="same-step") as envs:
        obs, _ = envs.reset(seed=seed)
        expected, _ = theirs.reset(seed=seed)
        for _ in range(2):
            assert np.array_equal(obs[0], np.stack(list(expected.values())))
            while theirs.agents:
                # Towards each other, so that they touch.
                world = theirs.aec_env.unwrapped.world
                centre = np.mean([agent.state.p_pos for agent in world.agents], axis=0)
                pull = [centre - agent.state.p_pos for agent in world.agents]
                towards = [1 + 2 * int(np.argmax(np.abs(each))) for each in pull]
                towards = [move + (each[move // 2] > 0) for move, each in zip(towards, pull, strict=True)]
                actions = np.where(rng.random(3) < 0.7, towards, rng.integers(5, size=3)).astype(np.int64)
                expected, rewards, _, truncated, _ = theirs.step(dict(zip(envs.agents, actions, strict=True)))
                step = envs.step(actions[None])
                assert np.array_equal(step.next_obs[0], np.stack(list(expected.values())))
                assert step.reward[0].tolist() == list(rewards.values())
                assert step.truncated[0].tolist() == list(truncated.values())
            obs = step.obs
            expected, _ = theirs.reset()
    theirs.close()


def test_states_are_cloned_and_set() -> None:
    with vecenv.make("Pursuit-v0", 3) as envs:
        envs.reset(seed=0)
        envs.step(envs.sample_actions())
        envs.clone(0, [1, 2])
        step = envs.step(np.ones((3, 8), int))
        assert np.array_equal(step.obs[0], step.obs[2])
        assert envs.state.left.shape == (3,)
        state = envs.get_state()
        first = envs.step(np.full((3, 8), 2))
        envs.set_state(state)
        again = envs.step(np.full((3, 8), 2))
        assert np.array_equal(first.obs, again.obs)


def test_clones_have_the_turn_of_their_source() -> None:
    with vecenv.make("ConnectFourDuel-v0", 2) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros((1, 2), int), env_ids=[0])
        assert envs.acts.tolist() == [[False, True], [True, False]]
        envs.clone(0, 1)
        assert envs.acts.tolist() == [[False, True], [False, True]]


def test_rollout_is_many_steps() -> None:
    with vecenv.make("Battle-v0", 2) as envs, vecenv.make("Battle-v0", 2) as others:
        actions = np.random.default_rng(0).integers(9, size=(20, 2, 32))
        envs.reset(seed=1)
        others.reset(seed=1)
        rollout = envs.rollout(actions)
        for number in range(20):
            step = others.step(actions[number])
            assert np.array_equal(rollout.obs["obs"][number], step.obs)
            assert np.array_equal(rollout.obs["reward"][number], step.reward)
        assert np.array_equal(envs.acts, others.acts)


@pytest.mark.parametrize("id", IDS)
def test_kernels_are_drawn(id: str) -> None:
    with vecenv.make(id, 2, render_mode="rgb_array") as envs:
        envs.reset(seed=0)
        frames = envs.render()
        assert frames is not None
        assert frames[0].dtype == np.uint8
        assert len(np.unique(frames[0].reshape(-1, 3), axis=0)) > 2
        env = vecenv.make_env(id, render_mode="rgb_array")
        env.reset(seed=0)
        assert np.array_equal(env.render(), frames[0])
        env.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agents": 0}, "agents must be how many"),
        ({"agents": ["a", "a"]}, "a name twice"),
        ({"observation_space": Dict({"x": Box(0, 1, (2,))})}, "a Box with at least one axis"),
        ({"action_space": Box(0, 1, (2,), np.float32)}, "action_mask needs a Discrete"),
        ({"step": None}, r"define step\(s, actions, reward, done, rng, p\)"),
    ],
)
def test_wrong_definitions_are_refused(changes: dict[str, Any], words: str) -> None:
    members = {name: value for name, value in vars(Relay).items() if not name.startswith("__")}
    with pytest.raises(KernelError, match=words):
        vecenv.kernel("Wrong-v0")(type("Wrong", (), {**members, **changes}))


def test_options_of_pettingzoo_are_not_for_kernels() -> None:
    with pytest.raises(ConfigError, match="a kernel has its agents by its definition"):
        vecenv.make("Battle-v0", 2, end="any")
    env = vecenv.make_env("SimpleSpread-v0")
    env.reset(seed=0)
    with pytest.raises(InvalidAction, match="no action for agent 'agent_1'"):
        env.step({"agent_0": 1})
