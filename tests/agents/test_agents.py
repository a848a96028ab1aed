"""What `make` does with envs of several agents: sources, options, faults, recordings, and messages for bad input."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Text, Tuple
from pettingzoo.utils import ParallelEnv

import vecenv
from tests.agents.made_up import MadeUpParallel
from vecenv.agents import MultiAgentVectorEnv
from vecenv.errors import (
    ConfigError,
    ConfigTypeError,
    EnvError,
    InvalidAction,
    SpaceError,
    UnknownEnv,
    UnsupportedError,
)

SPREAD = "pettingzoo:mpe2.simple_spread_v3"
TAG = "pettingzoo:mpe2.simple_tag_v3"


class Unequal(ParallelEnv):
    """Two agents with other spaces; the second leaves after two steps."""

    metadata = {"name": "unequal"}
    render_mode = None
    possible_agents = ["big", "small"]

    def __init__(self, fail_at: int = -1, nan_at: int = -1) -> None:
        self.fail_at, self.nan_at = fail_at, nan_at
        self.time = self.steps = 0
        self.heard: list[Any] = []

    def observation_space(self, agent: str) -> Any:
        return Box(-9, 9, (3,), np.float32) if agent == "big" else Box(-9, 9, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(4) if agent == "big" else Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.time = list(self.possible_agents), 0
        return self._obs(), {name: {} for name in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.heard.append(actions)
        self.time += 1
        self.steps += 1
        if self.steps == self.fail_at:
            raise ValueError("made up")
        acted = self.agents
        over = {name: self.time == 4 or (name == "small" and self.time == 2) for name in acted}
        obs = self._obs()
        if self.steps == self.nan_at:
            obs["big"][0] = np.nan
        rewards = {name: 1.0 if name == "big" else 10.0 for name in acted}
        self.agents = [name for name in acted if not over[name]]
        return obs, rewards, over, dict.fromkeys(acted, False), {name: {} for name in acted}

    def _obs(self) -> dict[str, Any]:
        return {name: np.full(self.observation_space(name).shape, self.time + 1, np.float32) for name in self.agents}

    def render(self) -> Any:
        return np.zeros((2, 2, 3), np.uint8)

    def close(self) -> None:
        pass


class Swarm(gymnasium.Env[Any, Any]):
    """A Gymnasium env with `num_agents`: agent k is done after 2 + k steps."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(3)
    num_agents = 3

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = 0
        return np.zeros((3, 2)), {}

    def step(self, actions: Any) -> Any:
        self.time += 1
        obs = np.stack([np.array([self.time, action], float) for action in actions])
        return obs, np.arange(3.0), [self.time >= 2 + k for k in range(3)], False, [{"t": self.time}] * 3


class Pair(Swarm):
    """The same with one space per agent and single flags."""

    observation_space = Tuple([Box(-1, 1, (1,), np.float64), Box(-1, 1, (2,), np.float64)])  # type: ignore[assignment]
    action_space = Tuple([Discrete(2), Discrete(3)])  # type: ignore[assignment]
    num_agents = 2

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return (np.zeros(1), np.zeros(2)), {"map": 7}

    def step(self, actions: Any) -> Any:
        return (np.ones(1), np.ones(2)), (1.0, 2.0), True, False, {}


class Unknown(MadeUpParallel):
    """An env that does not know its agents beforehand."""

    def __init__(self) -> None:
        super().__init__(3, 4, several=False, known=False, wild=0.0)


# --- sources ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [SPREAD, f"{SPREAD}.parallel_env", f"{SPREAD}.env", f"{SPREAD}:env", "function", "module's class", "list"],
)
def test_make_takes_names_functions_and_classes(source: str) -> None:
    from mpe2 import simple_spread_v3

    given: Any = {
        "function": lambda: simple_spread_v3.parallel_env(),
        "module's class": simple_spread_v3.raw_env,
        "list": [simple_spread_v3.parallel_env, simple_spread_v3.parallel_env],
    }.get(source, source)
    with vecenv.make(given, 2, engine="sync") as envs:
        assert isinstance(envs, MultiAgentVectorEnv)
        assert envs.groups == {"agents": ("agent_0", "agent_1", "agent_2")}
        obs, _ = envs.reset(seed=1)
        assert obs.shape == (2, 3, 18)
        assert envs.single_observation_space.shape == (18,)
        assert envs.single_action_space == Discrete(5)
        assert envs.observation_space.shape == (2, 3, 18)
        by_turns = "env" in source.split(".")[-1].split(":") or source == "module's class"
        assert envs.acts.sum() == (2 if by_turns else 6)


def test_constructor_arguments_reach_the_env() -> None:
    with vecenv.make(SPREAD, 2, engine="sync", N=5, env_kwargs={"max_cycles": 2}) as envs:
        assert envs.num_slots == 5
        envs.reset(seed=0)
        envs.step(envs.sample_actions())
        assert envs.step(envs.sample_actions()).done.all()


def test_auto_chooses_an_engine() -> None:
    with vecenv.make(SPREAD, 2) as envs:
        envs.reset(seed=0)
        assert envs.engine_reason


def test_a_gymnasium_env_with_num_agents() -> None:
    with vecenv.make(Swarm, 2, engine="sync", agents=True, autoreset="same-step") as envs:
        envs.reset()
        ends = []
        for _ in range(4):
            step = envs.step(np.full((2, 3), 2))
            ends.append(step.terminated[0].tolist())
            infos = step.infos["final_info"] if step.rolled.all() else step.infos
            assert infos["t"].tolist() == [[infos["t"].max() * alive for alive in row] for row in infos["_t"]]
            assert np.array_equal(infos["_t"], step.valid)
        assert ends == [[False] * 3, [True, False, False], [False, True, False], [False, False, True]]
        assert step.done.all()
        assert step.next_obs[0].tolist() == [[0, 0], [0, 0], [4, 2]]
        assert envs.acts.all()


def test_a_gymnasium_env_with_one_space_per_agent() -> None:
    with vecenv.make(Pair, 2, engine="sync", agents=True) as envs:
        assert list(envs.groups) == ["agent_0", "agent_1"]
        _, infos = envs.reset()
        assert infos["map"].tolist() == [7, 7]
        step = envs.step({"agent_0": [[1], [1]], "agent_1": [[2], [0]]})
        assert step.reward["agent_1"].tolist() == [[2.0], [2.0]]
        assert step.done.all()


def test_single_agents_stay_as_they_are() -> None:
    with vecenv.make(lambda: gymnasium.make("CartPole-v1"), 2, engine="sync") as envs:
        assert isinstance(envs, vecenv.VectorEnv)
    with pytest.raises(ConfigTypeError, match="has no num_agents"):
        vecenv.make(lambda: gymnasium.make("CartPole-v1"), 2, engine="sync", agents=True)


# --- groups, padding, slots ------------------------------------------------------------------------------------------


def test_unequal_spaces_are_groups_and_dead_agents_are_told_once() -> None:
    with vecenv.make(Unequal, 1, engine="sync") as envs:
        obs, _ = envs.reset()
        assert {name: part.shape for name, part in obs.items()} == {"big": (1, 1, 3), "small": (1, 1, 2)}
        with pytest.raises(UnsupportedError, match="single_action_spaces"):
            _ = envs.single_action_space
        steps = [envs.step(envs.sample_actions()) for _ in range(4)]
        assert [step.terminated["small"][0, 0] for step in steps] == [False, True, False, False]
        assert [step.valid["small"][0, 0] for step in steps] == [True, True, False, False]
        assert [step.reward["small"][0, 0] for step in steps] == [10, 10, 0, 0]
        assert [step.obs["small"][0, 0, 0] for step in steps] == [2, 3, 0, 0]
        assert [step.acts["small"][0, 0] for step in steps] == [True, False, False, False]
        assert [step.done[0] for step in steps] == [False, False, False, True]
        assert [step.acts["big"][0, 0] for step in steps] == [True, True, True, False]
        assert envs.step(envs.sample_actions()).acts["small"].all(), "the next episode began"


def test_pad_makes_one_group() -> None:
    with vecenv.make(Unequal, 1, engine="sync", pad=True) as envs:
        assert envs.single_observation_space == Box(-9, 9, (3,), np.float32)
        assert envs.single_action_space == Discrete(4)
        obs, _ = envs.reset()
        assert obs[0].tolist() == [[1, 1, 1], [1, 1, 0]]
        envs.step([[3, 1]])
        envs.step([[3, 3]])
        heard = envs.get_attr("heard")[0]
        assert [{name: int(action) for name, action in each.items()} for each in heard] == [
            {"big": 3, "small": 1},
            {"big": 3, "small": 0},
        ]


def test_groups_of_ones_own() -> None:
    groups = {"left": ["agent_1"], "right": ["agent_0", "agent_2"]}
    with vecenv.make(SPREAD, 2, engine="sync", groups=groups) as envs:
        obs, _ = envs.reset(seed=0)
        with vecenv.make(SPREAD, 2, engine="sync") as plain:
            other, _ = plain.reset(seed=0)
        assert np.array_equal(obs["left"][:, 0], other[:, 1])
        assert np.array_equal(obs["right"], other[:, [0, 2]])


def test_agents_that_are_not_known_take_free_slots() -> None:
    with vecenv.make(Unknown, 2, engine="sync", slots=5) as envs:
        envs.reset(seed=4)
        for row in range(2):
            inside = envs.get_attr("agents")[row]
            assert [name for name in envs.agent_names(row) if not name.startswith("agents[")] == inside
            assert envs.acts[row].sum() == len(inside)


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        ({"env": Unknown}, ConfigError, "pass slots="),
        ({"env": Unknown, "slots": 1}, SpaceError, "slots of group 'agents' are taken"),
        ({"env": Unequal, "slots": 3}, ConfigError, "slots={group: count}"),
        ({"env": Unequal, "slots": {"big": 1}}, ConfigError, "the env has"),
        ({"env": Unequal, "slots": 0}, ConfigError, "slots must be an int >= 1"),
        ({"env": Unequal, "groups": {"one": ["big", "small"]}}, SpaceError, "unequal spaces.*'big'.*'small'"),
        ({"env": Unequal, "groups": {"one": ["big"]}}, ConfigError, "leaves out the agent 'small'"),
        ({"env": Unequal, "groups": {"one": ["big", "other"]}}, ConfigError, "names the agent 'other'"),
        ({"env": Unequal, "groups": {"one": ["big"], "two": ["big"]}}, ConfigError, "in the groups 'one' and 'two'"),
        ({"env": Unequal, "end": "some"}, ConfigError, "end must be 'all' or 'any'"),
        ({"env": Unequal, "pad": 1}, ConfigTypeError, "pad must be True or False"),
        ({"env": "CartPole-v1", "end": "any"}, ConfigError, "end='any' is for PettingZoo envs"),
        ({"env": SPREAD, "agents": False}, ConfigError, "agents=False"),
        ({"env": "pettingzoo:mpe2.simple_spred_v3"}, UnknownEnv, "did you mean 'simple_spread_v3'"),
        ({"env": "pettingzoo:nothing.at_all"}, UnknownEnv, "no module"),
        ({"env": "pettingzoo:nothing"}, UnknownEnv, "there is no module 'nothing'; pass a module"),
    ],
)
def test_wrong_options_are_refused(kwargs: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        vecenv.make(**kwargs, num_envs=2, engine="sync").reset(seed=0)


def test_repr_names_the_envs_and_counts_agents() -> None:
    with vecenv.make("SimpleSpread-v0", 4) as envs, vecenv.make(Unequal, 2, engine="sync") as unequal:
        assert repr(envs) == "MultiAgentVectorEnv(VectorEnv(vecenv/SimpleSpread-v0, num_envs=4), agents=3)"
        assert repr(unequal) == "MultiAgentVectorEnv(VectorEnv(num_envs=2), agents={'big': 1, 'small': 1})"


def test_pad_refuses_what_it_cannot_pad() -> None:
    class Odd(Unequal):
        def action_space(self, agent: str) -> Any:
            return Discrete(4) if agent == "big" else MultiDiscrete([2, 2])

    with pytest.raises(SpaceError, match=r"pad=True cannot make one action space of .*'big'.*'small'"):
        vecenv.make(Odd, 1, engine="sync", pad=True)


def test_spaces_without_a_fixed_size_are_refused() -> None:
    class Talking(Unequal):
        def observation_space(self, agent: str) -> Any:
            return Text(5)

    with pytest.raises(SpaceError, match="agent 'big' has no fixed size"):
        vecenv.make(Talking, 1, engine="sync")


# --- actions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([{"big": 0, "small": 0}, {"big": 0}], "env 1: no action for agent 'small'"),
        ([{"big": 0, "small": 0}, {"big": 0, "small": 0, "none": 1}], "env 1 has no agent 'none'"),
        ([{"big": 7, "small": 0}, {"big": 0, "small": 0}], "env 0, agent 'big' of group 'big': action 7 is not in"),
        ([{"big": 1, "small": 0}, {"big": True, "small": 0}], "env 1, agent 'big' of group 'big': .*dtype bool"),
        ([{"big": 0, "small": 0}], "got 1 dicts of actions for 2 envs"),
        ([{"big": 0, "small": 0}, 3], "env 1: actions must be a dict by agent"),
        ({"big": [[0], [0]]}, "keys \\['big', 'small'\\]"),
        (np.zeros((2, 2)), "must be a dict of arrays by group"),
        ({"big": [[0], [0]], "small": [[0], [2]]}, "env 1, agent 'small' of group 'small': action 2 is not in"),
        ({"big": [[0], [0]], "small": [0, 0]}, "group 'small' have shape \\(2,\\).*needs \\(2, 1\\)"),
        ({"big": [[0.5], [0.5]], "small": [[0], [0]]}, "group 'big'.*needs integers"),
    ],
)
def test_wrong_actions_are_refused_before_anything_is_sent(actions: Any, words: str) -> None:
    with vecenv.make(Unequal, 2, engine="sync") as envs:
        envs.reset()
        with pytest.raises(InvalidAction, match=words):
            envs.step(actions)
        assert envs.get_attr("time") == (0, 0)
        envs.step([{"big": 0, "small": 0}] * 2)


def test_an_action_for_a_dead_agent_is_refused_in_a_dict_and_ignored_in_an_array() -> None:
    with vecenv.make(Unequal, 1, engine="sync") as envs:
        envs.reset()
        for _ in range(2):
            envs.step([{"big": 0, "small": 0}])
        with pytest.raises(InvalidAction, match="agent 'small' does not act now"):
            envs.step([{"big": 0, "small": 0}])
        step = envs.step({"big": [[1]], "small": [[99]]})
        assert step.reward["big"][0, 0] == 1


# --- as for single agents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_a_failed_env_is_built_again_and_its_agents_are_truncated(engine: str) -> None:
    makes = [functools.partial(Unequal), functools.partial(Unequal, fail_at=3)]
    with vecenv.make(makes, engine=engine, on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(envs.sample_actions())
        step = envs.step(envs.sample_actions())
        assert step.done.tolist() == [False, True]
        assert step.truncated["big"][:, 0].tolist() == [False, True]
        assert step.truncated["small"][:, 0].tolist() == [False, False], "it had died before"
        assert step.reward["big"][:, 0].tolist() == [1.0, 0.0]
        assert step.next_obs["big"][1, 0, 0] == 3, "the last good observation"
        assert step.obs["big"][1, 0, 0] == 1
        assert step.infos["fault"]["kind"][1] == "ValueError"
        assert envs.step(envs.sample_actions()).done.tolist() == [True, False]


def test_an_env_that_raises_names_its_row() -> None:
    makes = [functools.partial(Unequal), functools.partial(Unequal, fail_at=1)]
    with vecenv.make(makes, engine="sync") as envs:
        envs.reset(seed=0)
        with pytest.raises(EnvError, match="env 1 raised ValueError"):
            envs.step(envs.sample_actions())
        assert envs.recv().env_ids.tolist() == [0]


def test_nan_ends_the_episode_where_that_is_asked_for() -> None:
    with vecenv.make(lambda: Unequal(nan_at=2), 1, engine="sync", check_finite="truncate") as envs:
        envs.reset(seed=0)
        envs.step(envs.sample_actions())
        step = envs.step(envs.sample_actions())
        assert step.done.all()
        assert step.truncated["big"].all()
        assert step.truncated["small"].all()
        assert step.reward["big"][0, 0] == 0.0
        assert np.isfinite(step.obs["big"]).all()


def test_send_and_recv_some_envs() -> None:
    with vecenv.make(Unequal, 3, engine="thread", workers=2) as envs:
        envs.reset(seed=0)
        envs.send([{"big": 1, "small": 1}] * 2, env_ids=[2, 0])
        step = envs.recv(2)
        assert sorted(step.env_ids.tolist()) == [0, 2]
        assert envs.episode_length.tolist() == [1, 0, 1]
        assert envs.episode_return.tolist() == [11.0, 0.0, 11.0]


@pytest.mark.parametrize(
    ("source", "engine"),
    [(SPREAD, "sync"), (f"{SPREAD}.env", "sync"), (SPREAD, "process"), ("ConnectFourDuel-v0", "compiled")],
)
def test_a_recording_replays(tmp_path: Any, source: str, engine: str) -> None:
    """Also by turns, of native code, and of a worker process."""
    kwargs = {"max_cycles": 6} if source.startswith(SPREAD) else {"max_episode_steps": 6}
    with vecenv.make(source, 2, engine=engine, record="last-episode", **kwargs) as envs:
        envs.reset(seed=4)
        for _ in range(4):
            envs.step(envs.sample_actions())
        file = envs.recording(1).save(tmp_path / "episode")
    replayed = vecenv.replay(file, trust=True)
    assert (replayed.outcome, replayed.steps) == ("clean", 4), replayed.text


def test_calls_frames_and_statistics() -> None:
    with vecenv.make(SPREAD, 2, engine="sync", render_mode="rgb_array") as envs:
        envs.reset(seed=0)
        envs.step(envs.sample_actions())
        assert envs.call("state")[0].shape == (54,)
        frames = envs.render()
        assert frames is not None
        assert frames[0].shape == (700, 700, 3)
        assert envs.stats().steps == 4
        told: list[str] = []
        envs.explain(told.append)
        assert "sync" in told[0]


# --- other engines, and parts of envs --------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Unequal, f"{SPREAD}.env"])
def test_envs_in_an_event_loop_give_the_same(source: Any) -> None:
    with vecenv.make(source, 3, engine="sync") as envs, vecenv.make(source, 3, engine="asyncio") as others:
        assert others.engine.name == "asyncio"
        assert_same(envs.reset(seed=1)[0], others.reset(seed=1)[0])
        for _ in range(12):
            actions = envs.sample_actions()
            one, other = envs.step(actions), others.step(actions)
            for name in ("obs", "next_obs", "reward", "terminated", "truncated", "acts", "valid", "done"):
                assert_same(getattr(one, name), getattr(other, name))


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert np.array_equal(one, other)


@pytest.mark.parametrize("engine", ["sync", "thread"])
def test_episodes_are_begun_and_received_in_parts(engine: str) -> None:
    with vecenv.make(Swarm, 3, engine=engine, agents=True) as envs:
        envs.reset(seed=0)
        envs.step(np.ones((3, 3), int))
        envs.send_reset([2])
        envs.send(np.ones((2, 3), int), [0, 1])
        received = {}
        while len(received) < 3:
            step = envs.recv(1, 2, until=1.0)
            assert 1 <= len(step.env_ids) <= 2
            assert step.age.shape == step.env_ids.shape
            received.update((int(row), (step.obs[at, :, 0], step.valid[at])) for at, row in enumerate(step.env_ids))
        assert [received[row][0].tolist() for row in range(3)] == [[2.0] * 3, [2.0] * 3, [0.0] * 3]
        assert [received[row][1].all() for row in range(3)] == [True, True, False]
        assert envs.acts.tolist() == [[False, True, True]] * 2 + [[True] * 3]


def test_an_env_of_an_older_pettingzoo_is_refused_with_the_newer_name() -> None:
    for name in ("pettingzoo:sisl.pursuit_v4", "pettingzoo:sisl.pursuit_v4.parallel_env"):
        with pytest.raises(UnknownEnv, match=r"use pursuit_v5 instead"):
            vecenv.make(name, 1)
