"""MinAtar's and MiniGrid's games as kernels, side by side with the originals, if these are installed.

MinAtar's games draw from a stream of their own kind; here they get one that draws as the kernels do.
"""

from __future__ import annotations

import copy
import os
import sys
from types import ModuleType

import gymnasium
import numpy as np
import pytest

from tests.kernels import plain
from tests.kernels.test_natural_games import kernel_class

STEPS = int(os.environ.get("ORIGINAL_STEPS", "500"))


class Draws:
    """The methods of RandomState that MinAtar calls, over a Generator that both games share in turn."""

    def __init__(self, generator):
        self.generator = generator

    def randint(self, low, high=None, size=None):
        return self.generator.integers(low, high, size=size)

    def rand(self, *size):
        return self.generator.random(size or None)


@pytest.fixture
def minatar(monkeypatch):
    """The package, which draws with libraries that the games themselves do not need."""
    for name in ("seaborn", "matplotlib", "matplotlib.pyplot", "matplotlib.colors"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return pytest.importorskip("minatar")


@pytest.fixture
def minigrid():
    """The package. Its ids are taken away afterwards: they go before those of the kernels."""
    package = pytest.importorskip("minigrid")
    if "MiniGrid-Empty-5x5-v0" not in gymnasium.registry:
        package.register_minigrid_envs()
    yield package
    for id in [id for id in gymnasium.registry if id.startswith(("MiniGrid-", "BabyAI-"))]:
        del gymnasium.registry[id]


MINATAR = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


def play(name, rng, env):
    """An action that is good for a long game; sometimes, in bad games often, any."""
    if rng.random() < 0.03:
        return int(rng.integers(0, 6))
    wanted = wish(name, rng, env.state)
    for action in (wanted, *rng.permutation(6).tolist()):
        if survives(env, action):
            return action
    return wanted


def survives(env, action):
    """Whether the next step ends the episode, tried out on a copy; twice, since an action may stick."""
    before, random = copy.deepcopy(vars(env.state)), env.np_random.bit_generator.state
    over = any(env.definition.step(env.state, action, plain.PlainStream(env.np_random), env.params)[1] for _ in "12")
    vars(env.state).update(before)
    env.np_random.bit_generator.state = random
    return not over


def wish(name, rng, s):
    if name == "breakout":
        aim = s.ball[1] + s.way[1] * (rng.random() < 0.9)
        return 1 if aim < s.paddle else 3 if aim > s.paddle else 0
    if name == "freeway":
        return 2
    if name == "seaquest":
        if s.y == 0:
            return 4
        if (s.oxygen < 60 or s.rescued == 6) and s.rescued > 0:
            return 2
        divers = [diver for diver in s.divers[: s.diver_count].tolist() if diver[1] > 0]
        if divers and rng.random() < 0.7:
            x, y = divers[0][:2]
            return 4 if y > s.y else 2 if y < s.y and s.y > 1 else 3 if x > s.x else 1
        return 5
    if name == "space_invaders":
        return 5
    return int(rng.integers(0, 5))


def replay(definition, played, **params):
    """Play it again as native code: `played` are pairs of an action, or a seed for a reset, and what came of it."""
    env = plain.NativeEnv(definition, **params)
    for step, (action, seed, (obs, *results)) in enumerate(played):
        own, *found = env.reset(seed=seed)[:1] if action is None else env.step(action)[:4]
        assert found == results, step
        if isinstance(obs, dict):
            _same(step, own, obs)
        else:
            np.testing.assert_array_equal(own, obs)
    env.close()


@pytest.mark.timeout(480)  # the compiler
@pytest.mark.parametrize("ramping", [True, False])
@pytest.mark.parametrize("name", MINATAR)
def test_minatar_game_equals_the_original(name, ramping, minatar):
    module = plain.load(f"vecenv.envs.minatar_{name}")
    definition = plain.definition_of(module)
    params = {"difficulty_ramping": ramping} if name in ("asterix", "seaquest", "space_invaders") else {}
    env = plain.PlainEnv(definition, **params)
    original = minatar.Environment(name, difficulty_ramping=ramping)
    assert env.action_space.n == original.num_actions()
    assert env.observation_space.shape == tuple(original.state_shape())
    assert plain.PlainEnv(definition, use_minimal_action_set=True).action_space.n == len(original.minimal_action_set())
    assert list(module.USEFUL) == list(original.minimal_action_set())
    original.random = original.env.random = Draws(np.random.default_rng(3))
    policy = np.random.default_rng(1)
    ends, total, longest, since = 0, 0.0, 0, 0
    obs, _ = env.reset(seed=3)
    original.reset()
    np.testing.assert_array_equal(obs, original.state())
    played = [(None, 3, (obs,))]
    for step in range(STEPS):
        action = play(name, policy, env)
        obs, reward, terminated, truncated, _ = env.step(action)
        own_reward, own_terminated = original.act(action)
        played.append((action, None, (original.state(), own_reward, own_terminated, False)))
        assert (reward, terminated, truncated) == (own_reward, own_terminated, False), (step, reward, own_reward)
        wrong = np.argwhere(obs != original.state())
        assert not len(wrong), (step, terminated, wrong.tolist(), vars(original.env), vars(env.state))
        total, since = total + reward, since + 1
        longest = max(longest, since)
        if terminated:
            ends, since = ends + 1, 0
            obs, _ = env.reset()
            original.reset()
            original.last_action = 0  # the original takes it along into the next episode
            np.testing.assert_array_equal(obs, original.state())
            played.append((None, None, (obs,)))
    replay(kernel_class(f"vecenv.envs.minatar_{name}"), played, **params)
    print(f"minatar {name}, ramping {ramping}: {STEPS} steps, {ends} episodes, longest {longest}, reward {total}")


def test_seaquest_at_its_hardest_equals_the_original_and_has_room_for_all_enemies(minatar):
    env = plain.PlainEnv(plain.definition_of(plain.load("vecenv.envs.minatar_seaquest")))
    original = minatar.Environment("seaquest")
    original.random = original.env.random = Draws(np.random.default_rng(5))
    env.reset(seed=5)
    original.reset()
    env.state.spawn_speed = env.state.spawn_timer = original.env.e_spawn_speed = original.env.e_spawn_timer = 1
    env.state.move_speed = original.env.move_speed = 2
    most = 0
    for step in range(STEPS):  # at the surface nothing meets the player
        action = (0, 1, 3, 5)[step % 4]
        obs, *result, _, _ = env.step(action)
        assert tuple(result) == original.act(action)
        np.testing.assert_array_equal(obs, original.state())
        most = max(most, env.state.fish_count + env.state.sub_count)
    assert 15 < most < len(env.state.subs)


MINIGRID = {
    "empty": ("Empty-5x5", "Empty-Random-5x5", "Empty-6x6", "Empty-Random-6x6", "Empty-8x8", "Empty-16x16"),
    "door_key": ("DoorKey-5x5", "DoorKey-6x6", "DoorKey-8x8", "DoorKey-16x16"),
    "four_rooms": ("FourRooms",),
    "lava_gap": ("LavaGapS5", "LavaGapS6", "LavaGapS7"),
}


def walk(rng, s):
    """An action that makes progress now and then."""
    y, x = s.place + WAYS[s.direction]
    cell = s.grid[y, x]
    if cell == 7 and rng.random() < 0.95:  # lava
        return int(rng.integers(0, 2))
    if cell == 5 and rng.random() < 0.8:
        return 3
    if cell == 4 and s.has_key and rng.random() < 0.8:
        return 5
    if cell == 6 and rng.random() < 0.9:
        return 2
    return int(rng.choice(7, p=(0.15, 0.15, 0.5, 0.05, 0.05, 0.05, 0.05)))


WAYS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])


@pytest.mark.usefixtures("minigrid")
@pytest.mark.timeout(480)  # the compiler
@pytest.mark.parametrize(("module", "name"), [(module, name) for module in MINIGRID for name in MINIGRID[module]])
def test_minigrid_env_equals_the_original_from_the_same_seed(module, name):
    definition = plain.definition_of(plain.load(f"vecenv.envs.minigrid_{module}"))
    _, kwargs = definition.kernel_ids[f"MiniGrid-{name}-v0"]
    env = plain.PlainEnv(definition, **(definition.configure(**kwargs) if kwargs else {}))
    original = gymnasium.make(f"MiniGrid-{name}-v0", disable_env_checker=True)
    assert original.spec.max_episode_steps is None
    assert original.unwrapped.max_steps == env.params.max_steps
    assert original.action_space == env.action_space
    for key, space in env.observation_space.items():
        assert original.observation_space[key] == space
    policy = np.random.default_rng(2)
    ends, total = 0, 0.0
    result, own = env.reset(seed=11), original.reset(seed=11)
    played = [(None, 11, own[:1])]
    for step in range(STEPS):
        _same(step, result[0], own[0])
        if step and (result[2] or result[3]):
            ends += 1
            result, own = env.reset(seed=step if step % 3 else None), original.reset(seed=step if step % 3 else None)
            played.append((None, step if step % 3 else None, own[:1]))
            result, own = (result[0], 0.0, False, False), (own[0], 0.0, False, False)
            continue
        action = walk(policy, env.state)
        result, own = env.step(action), original.step(action)
        assert result[1:4] == own[1:4], (step, result[1:4], own[1:4])
        played.append((action, None, own[:4]))
        total += result[1]
    replay(kernel_class(f"vecenv.envs.minigrid_{module}"), played, **kwargs)
    print(f"minigrid {name}: {STEPS} steps, {ends} episodes, reward {total:.2f}")
    assert ends > 0 or env.params.max_steps > STEPS


def _same(step, obs, own):
    assert obs["direction"] == own["direction"], step
    wrong = np.argwhere(obs["image"] != own["image"])
    assert not len(wrong), (step, wrong.tolist(), own["image"].tolist(), np.asarray(obs["image"]).tolist())
