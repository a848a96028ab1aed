"""Kernels with several agents: Python and native code, PettingZoo's own tests, and mpe2's numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo.utils.conversions import parallel_to_aec

import vecenv
from benchmarks import sisl_pursuit
from tests.agents.compare import check_obs, check_step, place_of
from tests.agents.model import ModelRow
from vecenv.agents import MultiAgentVectorEnv
from vecenv.engines import Device
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


@vecenv.kernel("Chase-v0", max_episode_steps=15)
class Chase:
    """Two groups with unequal spaces, by turns at random; runners that are caught die."""

    agents = {"runner": 2, "chaser": ["tom"]}
    observation_space = {
        "runner": Box(-np.inf, np.inf, (2,), np.float32),
        "chaser": Box(-np.inf, np.inf, (2, 3), np.float64),
    }
    action_space = {"runner": Discrete(3), "chaser": Discrete(5)}
    state = {"x": (float, 3), "rests": (bool, 3)}

    def reset(s, rng, p):
        s.rests[:] = False
        for agent in range(3):
            s.x[agent] = rng.uniform(-3.0, 3.0)

    def step(s, runner, chaser, reward, done, rng, p):
        if not s.rests[2]:
            s.x[2] += chaser[0] - 2
        for agent in range(2):
            if not done[agent]:
                if not s.rests[agent]:
                    s.x[agent] += runner[agent] - 1
                reward[agent] = 1.0 + agent
                if abs(s.x[agent] - s.x[2]) < 0.5:
                    done[agent] = True
                    reward[2] += 10.0
        done[2] = done[0] and done[1]
        for agent in range(3):
            s.rests[agent] = rng.random() < 0.3

    def acts(s, agent, p):
        return not s.rests[agent]

    def observe_runner(s, agent, obs, p):
        obs[0] = s.x[agent]
        obs[1] = s.x[2]

    def observe_chaser(s, agent, obs, p):
        obs[0] = s.x
        obs[1, 0] = agent
        obs[1, 1] = -1.0
        obs[1, 2] = 1.0

    def action_mask(s, agent, mask, p):
        mask[:2] = 1
        if agent == 2:
            mask[4] = 1


@pytest.mark.parametrize("id", [*IDS, "Relay-v0", "Chase-v0"])
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


@pytest.mark.parametrize(
    ("engine", "end"), [("compiled", "all"), ("sync", "any"), ("compiled", "any"), ("sync", "all")]
)
def test_by_turns_nothing_is_lost_until_the_end(engine: str, end: str) -> None:
    """Rewards are summed until an agent's turn or its end. A time limit, or the end of another, is an end as well."""
    count, limit, stops = 16, 12, 0
    with vecenv.make("Relay-v0", count, engine=engine, autoreset="disabled", end=end) as envs:
        envs.reset(seed=3)
        owed, total = np.zeros((count, 3)), np.zeros(count)
        moved, ever, done = (np.zeros((count, 3), bool) for _ in range(3))
        time = np.zeros(count, int)
        for _ in range(60):
            turn = envs.acts
            assert (turn.sum(axis=1) <= 1).all()
            step = envs.step(np.where(turn, 1, 3))
            time += 1
            moved |= turn
            ever |= turn
            owed[~done] += (np.arange(3.0) + 2.0 + np.zeros((count, 3)))[~done]
            assert not (step.terminated & done).any(), "an end is reported once"
            cut = step.terminated.any(axis=1) if end == "any" else np.zeros(count, bool)
            stopped = ((time == limit) | cut)[:, None] & ~done & ~step.terminated
            told = step.acts | step.terminated | stopped
            seen = np.stack([time[:, None] + np.zeros((count, 3)), np.arange(3) + np.zeros((count, 3)), ever], axis=2)
            total += np.where(told, owed, 0.0).sum(axis=1)
            assert np.array_equal(step.truncated, stopped)
            assert np.array_equal(step.reward, np.where(told, owed, 0.0))
            assert np.array_equal(step.valid, told & moved)
            assert np.array_equal(step.next_obs, np.where(told[:, :, None], seen, 0.0))
            assert np.array_equal(step.episode_return, total)
            done |= step.terminated | stopped
            owed[told], moved[told] = 0.0, False
            assert np.array_equal(step.done, done.all(axis=1))
            assert np.array_equal(envs.alive, ~done)
            stops += int((stopped & step.valid & ~step.acts).sum())
            if step.done.any():
                envs.reset(options={"reset_mask": step.done})
                for each in (owed, total, moved, ever, done, time):
                    each[step.done] = 0
    assert stops > 10, "agents that had moved and were not on turn"


@pytest.mark.parametrize(
    ("engine", "mode"),
    [("compiled", "same-step"), ("compiled", "next-step"), (Device(device="cpu", results="numpy"), "same-step")],
)
def test_native_code_ends_episodes_of_turns_as_python_does(engine: Any, mode: Any) -> None:
    """With limits of their own, in every form of results."""
    options: dict[str, Any] = {"autoreset": mode, "max_episode_steps": 5}
    with (
        vecenv.make("Relay-v0", 6, engine=engine, **options) as envs,
        vecenv.make("Relay-v0", 6, engine="sync", **options) as python,
    ):
        envs.reset(seed=1)
        python.reset(seed=1)
        ends = 0
        for _ in range(40):
            actions = np.random.default_rng(ends).integers(2, size=(6, 3))
            one, other = envs.step(actions), python.step(actions)
            for name in (
                "obs",
                "next_obs",
                "reward",
                "terminated",
                "truncated",
                "acts",
                "valid",
                "done",
                "episode_return",
            ):
                assert np.array_equal(getattr(one, name), getattr(other, name)), name
            ends += int((one.truncated & one.valid).sum())
    assert ends > 20


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


@pytest.mark.parametrize("shared", [True, False])
def test_the_pursuit_of_the_benchmark_has_the_bits_of_pettingzoo(shared: bool) -> None:
    steps, caught = sisl_pursuit.compare(9, shared, most=60)
    assert steps == 60
    assert caught > 0


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
        ({"agents": {}}, "names of groups that are words"),
        ({"agents": {"a": 2, "b": 1}}, r"define step\(s, a, b, reward, done, rng, p\)"),
        ({"step": None}, r"define step\(s, actions, reward, done, rng, p\)"),
    ],
)
def test_wrong_definitions_are_refused(changes: dict[str, Any], words: str) -> None:
    members = {name: value for name, value in vars(Relay).items() if not name.startswith("__")}
    with pytest.raises(KernelError, match=words):
        vecenv.kernel("Wrong-v0")(type("Wrong", (), {**members, **changes}))


def test_options_of_pettingzoo_are_not_for_kernels() -> None:
    with pytest.raises(ConfigError, match="a kernel has its agents by its definition"):
        vecenv.make("Battle-v0", 2, pad=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agent_1": None}, "no action for agent 'agent_1'"),
        ({"agent_9": 1}, "no agent 'agent_9'"),
        ({"agent_0": 1.7}, "agent 'agent_0'"),
        ({"agent_0": 5}, "agent 'agent_0'"),
    ],
)
def test_the_python_env_of_a_kernel_refuses_wrong_actions(changes: dict[str, Any], words: str) -> None:
    env = vecenv.make_env("SimpleSpread-v0")
    env.reset(seed=0)
    actions = {**dict.fromkeys(env.agents, 1), **changes}
    with pytest.raises(InvalidAction, match=words):
        env.step({name: action for name, action in actions.items() if action is not None})
    assert not any(env.step(dict.fromkeys(env.agents, 1))[3].values())


def test_the_python_env_of_a_kernel_refuses_actions_of_the_dead() -> None:
    env = vecenv.make_env("Relay-v0")
    env.reset(seed=0)
    while len(env.agents) == 3:
        env.step(dict.fromkeys(env.agents, 0))
    with pytest.raises(InvalidAction, match="it is dead"):
        env.step(dict.fromkeys(env.possible_agents, 0))


@pytest.mark.filterwarnings("ignore:.* ignores the reset option 'options'")  # which PettingZoo's test passes
def test_groups_of_a_kernel_are_what_its_python_env_has() -> None:
    """Rewards, flags, observations and masks of every agent, against the PettingZoo env and a loop of its own."""
    rows, rng, ends = 3, np.random.default_rng(3), 0
    with vecenv.make("Chase-v0", rows, autoreset="disabled") as envs:
        assert envs.engine.name == "compiled"
        assert envs.groups == {"runner": ("runner_0", "runner_1"), "chaser": ("tom",)}
        theirs = [vecenv.make_env("Chase-v0") for _ in range(rows)]
        _, infos = envs.reset(seed=4)
        expected = [env.reset(seed=4 + row) for row, env in enumerate(theirs)]
        for _ in range(60):
            actions = {"runner": rng.integers(3, size=(rows, 2)), "chaser": rng.integers(5, size=(rows, 1))}
            for group, names in envs.groups.items():
                for row, env in enumerate(theirs):
                    for slot, name in enumerate(names):
                        told = expected[row][-1].get(name, {"acts": False}) if name in env.agents else {"acts": False}
                        assert envs.acts[group][row, slot] == told["acts"]
                        if told["acts"]:
                            assert np.array_equal(infos[group]["action_mask"][row, slot], told["action_mask"])
            step = envs.step(actions)
            for row, env in enumerate(theirs):
                chosen = {
                    name: actions[group][row, slot]
                    for group, names in envs.groups.items()
                    for slot, name in enumerate(names)
                    if name in env.agents
                }
                seen, rewards, terminated, truncated, told = expected[row] = env.step(chosen)
                for group, names in envs.groups.items():
                    for slot, name in enumerate(names):
                        if name not in chosen:
                            continue
                        assert step.reward[group][row, slot] == rewards[name]
                        assert step.terminated[group][row, slot] == terminated[name]
                        assert step.truncated[group][row, slot] == truncated[name]
                        assert np.array_equal(step.obs[group][row, slot], seen[name])
                assert step.done[row] == (not env.agents)
            infos = step.infos
            if step.done.any():
                ends += int(step.done.sum())
                _, begun = envs.reset(options={"reset_mask": step.done})
                for group in envs.groups:  # of the others, a reset says nothing
                    has = begun[group]["_action_mask"][..., None]
                    infos[group]["action_mask"] = np.where(
                        has, begun[group]["action_mask"], infos[group]["action_mask"]
                    )
                for row in np.flatnonzero(step.done).tolist():
                    expected[row] = theirs[row].reset()
        assert ends > 5
    parallel_api_test(vecenv.make_env("Chase-v0"), num_cycles=60)


def test_a_policy_for_each_group_of_a_kernel_goes_on_where_it_stopped(tmp_path: Any) -> None:
    from vecenv.trainers import GroupPPO, PPOConfig

    config = PPOConfig(num_envs=4, rollout_steps=16, minibatch=64, epochs=1, hidden=(8,), torch_threads=1)

    def weights(trainer: Any) -> np.ndarray:
        networks = trainer.network.values()
        return np.concatenate([part.detach().numpy().ravel() for one in networks for part in one.parameters()])

    whole = GroupPPO("Tag-v0", config, seed=0).learn(2 * 16 * 12)
    first = GroupPPO("Tag-v0", config, seed=0).learn(16 * 12)
    first.save(tmp_path / "run")
    again = GroupPPO.load(tmp_path / "run").learn(2 * 16 * 12)
    assert np.array_equal(weights(again), weights(whole))
    for trainer in (whole, first, again):
        trainer.close()


@vecenv.kernel("Tag-v0", max_episode_steps=10)
class Tag:
    """The smallest kernel with two groups, all of whose agents act."""

    agents = {"a": 2, "b": 1}
    observation_space = {"a": Box(-np.inf, np.inf, (1,), np.float32), "b": Box(-np.inf, np.inf, (2,), np.float32)}
    action_space = Discrete(3)
    state = {"x": (float, 3)}

    def reset(s, rng, p):
        for agent in range(3):
            s.x[agent] = rng.uniform(-1.0, 1.0)

    def step(s, a, b, reward, done, rng, p):
        s.x[0] += a[0] - 1
        s.x[1] += a[1] - 1
        s.x[2] += b[0] - 1
        for agent in range(3):
            reward[agent] = -abs(s.x[agent])

    def observe_a(s, agent, obs, p):
        obs[0] = s.x[agent]

    def observe_b(s, agent, obs, p):
        obs[0] = s.x[0]
        obs[1] = s.x[2]
