"""Views of envs with several agents: rows for a shared policy, self-play, and leagues."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Tuple as TupleSpace

import vecenv
from tests.agents.test_agents import Swarm, Unequal
from vecenv.agents import League
from vecenv.errors import (
    ConfigError,
    ConfigTypeError,
    InvalidAction,
    NotResetError,
    SpaceError,
    UnsafeFile,
    UnsupportedError,
)

SPREAD = "pettingzoo:mpe2.simple_spread_v3"
FOUR = "pettingzoo:classic.connect_four_v3"


def legal(obs: Any) -> np.ndarray:
    """The first column that is not full."""
    return np.argmax(obs["action_mask"], axis=1)


class Random:
    """A player that moves at random."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, obs: Any) -> np.ndarray:
        return np.array([self.rng.choice(np.flatnonzero(mask)) for mask in obs["action_mask"]], np.int64)


# --- flat ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_flat_rows_are_the_slots(mode: str) -> None:
    def make() -> Any:
        return vecenv.make(Swarm, 2, engine="sync", agents=True, autoreset=mode)

    with make() as envs, make() as others:
        flat = others.flat()
        assert isinstance(flat, gymnasium.vector.VectorEnv)
        assert flat.num_envs == 6
        obs, infos = flat.reset(seed=1)
        expected, _ = envs.reset(seed=1)
        assert np.array_equal(obs, expected.reshape(6, 2))
        assert infos["acts"].all()
        assert not infos["valid"].any()
        assert obs in flat.observation_space
        for number in range(9):
            actions = np.arange(6) % 3 if number % 2 else flat.action_space.sample()
            obs, reward, terminated, truncated, infos = flat.step(actions)
            step = envs.step(actions.reshape(2, 3))
            assert np.array_equal(obs, step.obs.reshape(6, 2))
            assert np.array_equal(reward, step.reward.reshape(6))
            assert np.array_equal(terminated, step.terminated.reshape(6))
            assert np.array_equal(truncated, step.truncated.reshape(6))
            assert np.array_equal(infos["valid"], step.valid.reshape(6))
            assert np.array_equal(infos["acts"], step.acts.reshape(6))
            if mode == "same-step" and terminated.any():
                assert np.array_equal(infos["_final_obs"], terminated)
                for row in np.flatnonzero(terminated):
                    assert np.array_equal(infos["final_obs"][row], step.next_obs.reshape(6, 2)[row])
            shown = infos.get("final_info", infos) if step.rolled.any() else infos
            if "t" in shown:
                assert shown["t"].shape == (6,)


def test_flat_is_for_equal_spaces() -> None:
    with vecenv.make(Unequal, 2, engine="sync") as envs, pytest.raises(UnsupportedError, match="pad=True"):
        envs.flat()
    with vecenv.make(Unequal, 2, engine="sync", pad=True) as envs:
        assert envs.flat().num_envs == 4


def test_flat_resets_whole_envs() -> None:
    with vecenv.make(Swarm, 2, engine="sync", agents=True) as envs:
        flat = envs.flat()
        flat.reset()
        flat.step(np.zeros(6, int))
        obs, _ = flat.reset(options={"reset_mask": np.array([0, 0, 0, 1, 1, 1], bool)})
        assert obs[:, 0].tolist() == [1, 1, 1, 0, 0, 0]
        with pytest.raises(ValueError, match="some slots of env 1"):
            flat.reset(options={"reset_mask": np.array([0, 0, 0, 1, 0, 1], bool)})


@pytest.mark.parametrize("actions", [np.zeros(5, int), 0, {"move": np.zeros(5, int)}, (np.zeros(6, int), 3)])
def test_flat_refuses_actions_of_other_lengths(actions: Any) -> None:
    parts = {dict: {"move": Discrete(3)}, tuple: (Discrete(3), Discrete(4))}
    space = {dict: DictSpace, tuple: TupleSpace}.get(type(actions), lambda _: Discrete(3))(parts.get(type(actions)))

    class Nested(Swarm):
        action_space = space

        def step(self, actions: Any) -> Any:
            return super().step([0] * len(actions))

    with vecenv.make(Nested, 2, engine="sync", agents=True) as envs:
        flat = envs.flat()
        flat.reset(seed=0)
        with pytest.raises(InvalidAction, match=r"this env has 6 rows \(2 envs x 3 slots\)"):
            flat.step(actions)
        flat.step(flat.action_space.sample())


def test_flat_infos_of_an_env_are_repeated() -> None:
    class Failing(Unequal):
        def __init__(self) -> None:
            super().__init__(fail_at=1)

    with vecenv.make(Failing, 1, engine="sync", pad=True, on_error="restart") as envs:
        flat = envs.flat()
        flat.reset(seed=0)
        _, _, _, truncated, infos = flat.step(np.zeros(2, int))
        assert infos["fault"]["kind"].tolist() == ["ValueError"] * 2
        assert infos["_fault"].tolist() == [True, True]
        assert truncated.all()


# --- versus ----------------------------------------------------------------------------------------------------------


def referee(seed: int, learner: int, learns: Any, plays: Any, games: int) -> list[tuple[list[Any], float]]:
    """What the learner must see in a number of games, by PettingZoo's own loop."""
    from vecenv.agents._sources import make_pettingzoo

    env = make_pettingzoo(f"{FOUR}.env")
    results = []
    for game in range(games):
        env.reset(seed=seed if game == 0 else None)
        seen, total = [], 0.0
        for name in env.agent_iter():
            obs, reward, terminated, truncated, _ = env.last()
            mine = name == f"player_{learner}"
            if mine:
                seen.append(obs["observation"].copy())
                total += reward
            if terminated or truncated:
                env.step(None)
                continue
            batch = {key: value[None] for key, value in obs.items()}
            env.step((learns if mine else plays)(batch)[0])
        results.append((seen, total))
    return results


@pytest.mark.parametrize("mode", ["next-step", "same-step", "disabled"])
@pytest.mark.parametrize("slots", ["player_1", 0, "rotate"])
def test_versus_is_what_one_player_sees(slots: Any, mode: str) -> None:
    games = 3
    with vecenv.make(FOUR, 2, engine="sync", autoreset=mode) as envs:
        game = envs.versus(legal, slots)
        assert isinstance(game, gymnasium.vector.VectorEnv)
        assert game.num_envs == 2
        obs, _ = game.reset(seed=5)
        assert obs in game.observation_space
        learners = [Random(7), Random(8)]
        expected = [referee(5 + row, int(game.learner[row]), Random(7 + row), legal, games) for row in range(2)]
        seen: list[list[Any]] = [[obs["observation"][row]] for row in range(2)]
        done: list[list[Any]] = [[], []]
        totals, over = np.zeros(2), np.zeros(2, bool)
        while min(map(len, done)) < games:
            if mode == "disabled" and over.any():
                obs, _ = game.reset(options={"reset_mask": over})
                for row in np.flatnonzero(over):
                    seen[row] = [obs["observation"][row]]
                over[:] = False
                continue
            actions = np.zeros(2, np.int64)
            for row in np.flatnonzero(~over):
                actions[row] = learners[row]({"action_mask": obs["action_mask"][row : row + 1]})[0]
            obs, reward, terminated, truncated, infos = game.step(actions)
            totals += reward
            for row in range(2):
                if over[row] and mode == "next-step":
                    seen[row], over[row] = [obs["observation"][row]], False
                    continue
                ended = bool(terminated[row] or truncated[row])
                last = (
                    infos["final_obs"][row]["observation"] if ended and mode == "same-step" else obs["observation"][row]
                )
                seen[row].append(last)
                if ended:
                    done[row].append((seen[row], totals[row]))
                    seen[row], totals[row] = [obs["observation"][row]], 0.0
                    over[row] = mode != "same-step"
        for row in range(2):
            for (got, total), (wanted, result) in zip(done[row], expected[row], strict=False):
                assert total == result
                assert len(got) == len(wanted)
                assert all(np.array_equal(one, other) for one, other in zip(got, wanted, strict=True))


def test_versus_of_agents_that_act_at_once() -> None:
    with vecenv.make(SPREAD, 2, engine="sync", max_cycles=3, autoreset="same-step") as envs:
        with vecenv.make(SPREAD, 2, engine="sync", max_cycles=3, autoreset="same-step") as plain:
            game = envs.versus(lambda obs: np.full(len(obs), 2), ["agent_0", "agent_2"])
            obs, _ = game.reset(seed=3)
            expected, _ = plain.reset(seed=3)
            assert np.array_equal(obs, expected[:, 1])
            for _ in range(7):
                actions = game.action_space.sample()
                obs, reward, _, truncated, infos = game.step(actions)
                step = plain.step(np.stack([np.full(2, 2), actions, np.full(2, 2)], axis=1))
                assert np.array_equal(obs, step.obs[:, 1])
                assert np.array_equal(reward, step.reward[:, 1])
                assert np.array_equal(truncated, step.truncated[:, 1])
                if truncated.any():
                    assert np.array_equal(np.stack(list(infos["final_obs"])), step.next_obs[:, 1])


def test_a_team_learns_against_a_policy() -> None:
    """Its rows are those of the envs with the same actions; when all of it is dead, the next episode begins."""
    league = League({"still": lambda obs: np.zeros(len(obs), int), "right": lambda obs: np.ones(len(obs), int)}, seed=0)
    kwargs: dict[str, Any] = {"engine": "sync", "agents": True, "autoreset": "same-step"}
    with vecenv.make(Swarm, 2, **kwargs) as envs, vecenv.make(Swarm, 2, **kwargs) as plain:
        team = envs.versus(league, 2)
        assert isinstance(team, gymnasium.vector.VectorEnv)
        assert team.num_envs == 4
        obs, infos = team.reset(seed=0)
        plain.reset(seed=0)
        assert np.array_equal(obs, np.zeros((4, 2)))
        assert infos["acts"].all()
        for number in range(1, 9):
            others = np.array([["still", "right"].index(name) for name in team.agents.opponents])
            actions = np.array([2, 1, 0, 2])
            obs, reward, terminated, truncated, infos = team.step(actions)
            step = plain.step(np.concatenate([actions.reshape(2, 2), others[:, None]], axis=1))
            assert np.array_equal(reward, step.reward[:, :2].reshape(-1))
            assert np.array_equal(terminated, step.terminated[:, :2].reshape(-1))
            assert np.array_equal(infos["valid"], step.valid[:, :2].reshape(-1))
            assert not truncated.any()
            if number % 3:
                assert np.array_equal(obs, step.obs[:, :2].reshape(4, 2))
            else:  # agent 1 dies in the third step, the last of the team; agent 2 would live for one more
                assert infos["_final_obs"].tolist() == [False, True] * 2
                assert np.array_equal(infos["final_obs"][1], step.next_obs[0, 1])
                assert np.array_equal(obs, np.zeros((4, 2)))
                plain.reset()
    records = league.records.values()
    assert sum(record.games for record in records) == 4
    assert sum(record.losses for record in records) == 4, "agent 2 earns most"


def test_a_team_is_trained() -> None:
    from vecenv.trainers import PPO, PPOConfig

    config = PPOConfig(rollout_steps=8, minibatch=32, epochs=1, hidden=(8,), torch_threads=1)
    with vecenv.make(Swarm, 2, engine="sync", agents=True, autoreset="same-step") as envs:
        trainer = PPO(envs.versus(lambda obs: np.zeros(len(obs), int), ["agent_1"]), config, seed=0).learn(64)
        assert trainer.steps >= 64
        assert trainer.collector.num_agents == 2


def test_a_team_acts_at_once_and_in_same_step_mode() -> None:
    with vecenv.make("ThreeTurns-v0", 1, engine="sync", autoreset="same-step") as envs:
        game = envs.versus(lambda obs: np.zeros(len(obs), int), [0])
        with pytest.raises(UnsupportedError, match="act at once"):
            game.reset(seed=0)
    with vecenv.make(Swarm, 1, engine="sync", agents=True) as envs, pytest.raises(UnsupportedError, match="same-step"):
        envs.versus(lambda obs: np.zeros(len(obs), int), [0])


def test_a_learner_that_dies_first_begins_anew() -> None:
    with vecenv.make(Swarm, 1, engine="sync", agents=True, autoreset="same-step") as envs:
        game = envs.versus(lambda obs: np.zeros(len(obs), int), [1, 2])
        game.reset(seed=0)
        ends = [bool(game.step([0])[2][0]) for _ in range(6)]
        assert ends == [False, True] * 3


@pytest.mark.parametrize(
    ("policy", "slots", "error", "words"),
    [
        (3, "rotate", ConfigTypeError, "policy must be a function"),
        (legal, "player_7", ConfigError, "'player_7' is no agent"),
        (legal, [], ConfigError, "leaves 2 agents to learn"),
        (legal, [0, 1], ConfigError, "leaves 0 agents"),
    ],
)
def test_wrong_opponents_are_refused(policy: Any, slots: Any, error: type[Exception], words: str) -> None:
    with vecenv.make(FOUR, 1, engine="sync") as envs, pytest.raises(error, match=words):
        envs.versus(policy, slots)


def test_wrong_moves_and_calls_are_refused() -> None:
    with vecenv.make(FOUR, 2, engine="sync", autoreset="disabled") as envs:
        game = envs.versus(lambda obs: np.full(len(obs["action_mask"]), 99), [0])
        with pytest.raises(NotResetError):
            game.step([0, 0])
        with pytest.raises(InvalidAction, match=r"the policy of the opponents: .*99"):
            game.reset(seed=0)
        game = envs.versus(legal, [1])
        game.reset(seed=0)
        with pytest.raises(InvalidAction, match="env 1"):
            game.step([0, 12])


# --- leagues ---------------------------------------------------------------------------------------------------------


class Module:
    """A policy with numbers, as PyTorch's modules have them."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

    def __call__(self, obs: Any) -> Any:
        return legal(obs)

    def state_dict(self) -> dict[str, np.ndarray]:
        return self.arrays


def test_a_league_gives_every_episode_an_opponent_and_counts_results() -> None:
    league = League({"first": legal, "random": Random()}, seed=0)
    with vecenv.make(FOUR, 4, engine="sync", autoreset="same-step") as envs:
        game = envs.versus(league)
        obs, _ = game.reset(seed=0)
        learner, ended = Random(3), 0
        results = {1.0: 0, 0.0: 0, -1.0: 0}
        while ended < 40:
            assert set(game.opponents) <= {"first", "random"}
            obs, reward, terminated, _, _ = game.step(learner(obs))
            for row in np.flatnonzero(terminated):
                results[float(np.sign(reward[row]))] += 1
            ended += int(terminated.sum())
    records = league.records.values()
    assert sum(record.games for record in records) == ended
    assert sum(record.wins for record in records) == results[1.0]
    assert sum(record.losses for record in records) == results[-1.0]


def test_an_opponent_that_the_league_drops_plays_its_episode_to_the_end() -> None:
    league = League({"first": legal}, limit=1, seed=0)
    with vecenv.make(FOUR, 4, engine="sync", autoreset="same-step") as envs:
        game = envs.versus(league)
        obs, _ = game.reset(seed=0)
        for _ in range(3):
            obs, *_ = game.step(legal(obs))
        league.add("second", legal)
        assert list(league) == ["second"]
        while "first" in game.opponents:
            obs, *_ = game.step(legal(obs))
        assert set(game.opponents) == {"second"}


@vecenv.kernel("Opening-v0", max_episode_steps=10)
class Opening:
    """By turns. Action 1 of the first player ends the game at once, which wins; else the second player wins."""

    agents = ["first", "second"]
    observation_space = Box(0, 9, (1,), np.float32)
    action_space = Discrete(2)
    state = {"time": int}

    def reset(s, rng, p):
        s.time = 0

    def step(s, actions, reward, done, rng, p):
        if s.time == 1 or actions[0] == 1:
            reward[s.time] = 1.0
            done[:] = True
        s.time += 1

    def acts(s, agent, p):
        return agent == s.time % 2

    def observe(s, agent, obs, p):
        obs[0] = s.time


@vecenv.kernel("ThreeTurns-v0")
class ThreeTurns(Opening):
    """The same with three."""

    agents = 3


@pytest.mark.parametrize("mode", ["same-step", "next-step"])
def test_a_game_that_ends_in_its_opening_is_followed_by_one_with_another_opponent(mode: Any) -> None:
    league = League({"quits": lambda obs: np.ones(len(obs), int), "plays": lambda obs: np.zeros(len(obs), int)}, seed=0)
    with vecenv.make("Opening-v0", 4, engine="sync", autoreset=mode) as envs:
        game = envs.versus(league, "first")
        game.reset(seed=0)
        for _ in range(10):
            assert game.opponents == ["plays"] * 4
            game.step(np.zeros(4, int))
    record = league.records["plays"]
    assert (record.wins, record.draws, record.losses) == ((40, 0, 0) if mode == "same-step" else (20, 0, 0))


def test_a_league_prefers_policies_that_win() -> None:
    league = League({"easy": legal, "hard": legal}, power=2.0, seed=1)
    for _ in range(20):
        league.report("easy", 1)
        league.report("hard", -1)
    names = league.sample(1000)
    assert 0 < names.count("easy") < 100


def test_a_league_keeps_as_many_as_it_may() -> None:
    league = League({"a": legal, "b": legal}, limit=2)
    league.report("a", 1)
    league.add("c", legal)
    assert set(league) == {"b", "c"}
    league.report("a", 1)
    with pytest.raises(ConfigError, match="already"):
        league.add("c", legal)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_league_of_trained_policies_is_saved_and_read(tmp_path: Path, normalize: bool) -> None:
    from vecenv.trainers import PPO, PPOConfig

    config = PPOConfig(rollout_steps=8, minibatch=32, epochs=1, hidden=(8,), normalize_obs=normalize, torch_threads=1)
    obs = np.random.default_rng(0).integers(9, size=(50, 1)).astype(np.float32)
    with vecenv.make("Opening-v0", 4, engine="sync", autoreset="same-step") as envs:
        trainer = PPO(envs.versus(lambda obs: np.zeros(len(obs), int), "first"), config, seed=3).learn(64)
        league = League({"first": trainer.policy})
        trainer.learn(128)
        league.add("second", functools.partial(trainer.policy, deterministic=False))
        league.save(tmp_path / "league")

        def build(name: str, arrays: dict[str, np.ndarray]) -> Any:
            policy = trainer.policy
            policy.load_state_dict(arrays)
            return policy

        read = League.load(tmp_path / "league", build)
        inner: Any = league["second"]
        for one, other in ((league["first"], read["first"]), (inner.func, read["second"])):
            assert np.array_equal(one(obs), other(obs))
            mine, theirs = one.state_dict(), other.state_dict()
            assert mine.keys() == theirs.keys()
            assert all(np.array_equal(np.asarray(mine[name]), np.asarray(theirs[name])) for name in mine)
        with pytest.raises(SpaceError, match="of this policy has shape"):
            trainer.policy.load_state_dict({"network.x": np.zeros(3)})


def test_a_league_is_saved_and_read(tmp_path: Path) -> None:
    league = League(limit=5, power=3.0)
    league.add("one", Module({"weight": np.arange(6.0).reshape(2, 3), "bias": np.float32(2)}))
    league.add("two", Module({"weight": np.zeros(3)}))
    league.report("two", -1)
    league.save(tmp_path / "league")
    read = League.load(tmp_path / "league", lambda name, arrays: Module(arrays))
    assert list(read) == ["one", "two"]
    assert (read.power, read.limit) == (3.0, 5)
    assert read.records == league.records
    policy: Any = read["one"]
    assert np.array_equal(policy.arrays["weight"], np.arange(6.0).reshape(2, 3))
    with pytest.raises(ConfigTypeError, match="state_dict"):
        League({"plain": legal}).save(tmp_path / "other")
    (tmp_path / "broken").write_bytes(b"nothing")
    with pytest.raises(UnsafeFile):
        League.load(tmp_path / "broken", lambda name, arrays: Module(arrays))
    with pytest.raises(ConfigError, match="empty"):
        League().sample(1)
