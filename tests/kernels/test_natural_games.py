"""Envs in natural NumPy: native code and Python have the bits of plain NumPy; rules of 2048, Connect Four, Tetris."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import vecenv
from tests.kernels import plain
from tests.kernels.emitted import EmittedEnv
from vecenv._make.source import find_build
from vecenv.kernel import kernel_of
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.registry import GAMES as GAME_IDS
from vecenv.kernel.language.registry import find_kernel

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

GAMES = {
    **{name: {} for name in ("game_2048", "connect_four", "tetris", "minigrid_four_rooms")},
    **{f"minatar_{name}": {} for name in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")},
    **{f"minigrid_{name}": {"size": 7} for name in ("empty", "door_key", "lava_gap")},
}


def make(name, seed=0, **params):
    module = plain.load(f"vecenv.envs.{name}")
    env = plain.PlainEnv(plain.definition_of(module), **params)
    env.reset(seed=seed)
    return module, env


ARRAYS = ("space_invaders", "game_2048", "tetris", "door_key", "flood_fill", "n_body", "lander", "connect_four")
KERNELS = [*(f"vecenv.envs.{name}" for name in GAMES), *(f"arrays.{name}" for name in ARRAYS)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", KERNELS)
def test_python_and_loops_have_the_bits_of_plain_numpy(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    params, kernel = params_of(name), kernel_of(kernel_class(name))
    compare([plain_env(name), KernelEnv(kernel, **params), _Loops(kernel, **params)], 60)


@pytest.mark.timeout(480)  # the compiler
@pytest.mark.parametrize("name", [f"vecenv.envs.{name}" for name in GAMES])
def test_native_code_has_the_bits_of_plain_numpy(name):
    params, definition = params_of(name), kernel_class(name)
    native = plain.NativeEnv(definition, **params)
    compare([plain_env(name), KernelEnv(kernel_of(definition), **params), native], 1500)
    native.close()


def params_of(name):
    return GAMES.get(name.removeprefix("vecenv.envs."), {})


def plain_env(name):
    definition, params = plain.definition_of(plain.load(name)), params_of(name)
    return plain.PlainEnv(definition, **(definition.configure(**params) if params else {}))


@pytest.mark.filterwarnings("ignore:.*out of date")  # Gymnasium would have everyone use version 1 of MinAtar's games
@pytest.mark.parametrize("id", sorted(GAME_IDS))
def test_env_is_found_by_its_id_and_by_gymnasium(id):
    env = vecenv.make_env(id)
    assert isinstance(env.unwrapped, KernelEnv)
    assert env.spec.max_episode_steps == GAME_IDS[id]
    again = gymnasium.make(f"vecenv/{id.replace('/', '-')}")
    np.testing.assert_equal(env.reset(seed=1), again.reset(seed=1))


def test_id_of_another_package_is_its_own_once_that_is_imported(monkeypatch):
    id = "MiniGrid-DoorKey-8x8-v0"
    assert find_build(id)[0] is find_kernel(id)
    monkeypatch.setitem(gymnasium.registry, id, EnvSpec(id, entry_point="minigrid:Env"))
    assert find_build(id) == (None, id)
    assert find_build(f"vecenv/{id}")[0] is find_kernel(id)


def kernel_class(name):
    values = list(vars(importlib.import_module(name)).values())
    return next(value for value in values if isinstance(value, type) and kernel_of(value) is not None)


class _Loops(EmittedEnv):
    """The emitted functions, with the methods of an env of Gymnasium's."""

    def reset(self, seed=None):
        return super().reset(seed), {}

    def step(self, action):
        reward, terminated, truncated = super().step(action)
        return self.observe(), reward, terminated, truncated, {}


def compare(envs, steps):
    """Play the same actions in all envs."""
    first, *others = envs
    first.action_space.seed(1)
    wanted, found = first.reset(seed=5), [env.reset(seed=5) for env in others]
    for step in range(steps):
        over = len(wanted) > 2 and (wanted[2] or wanted[3])
        for env, own in zip(others, found, strict=True):
            who = step, type(env).__name__
            assert leaves(own[0]) == leaves(wanted[0]), who
            assert tuple(own[1:-1]) == tuple(wanted[1:-1]), who
            for key, value in own[-1].items():
                assert key.startswith("_") or np.array_equal(value, wanted[-1][key]), (who, key)
        if over:
            wanted, found = first.reset(), [env.reset() for env in others]
        else:
            action = first.action_space.sample()
            wanted, found = first.step(action), [env.step(action) for env in others]


def leaves(obs):
    """The parts of an observation as bytes. A part that is one number has the type of the parts of native code."""
    parts = list(obs.values()) if isinstance(obs, dict) else obs if isinstance(obs, list) else [obs]
    return [np.asarray(part, None if np.ndim(part) and np.size(part) > 1 else np.int64).tobytes() for part in parts]


@pytest.mark.parametrize("name", GAMES)
def test_observations_are_in_their_space_and_frames_differ(name):
    _, env = make(name, **GAMES[name])
    env.action_space.seed(0)
    frames, ends = set(), 0
    for step in range(300):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(_as_arrays(obs))
        assert np.isfinite(reward)
        if step % 60 == 0:
            frame = env.render()
            assert (frame.dtype, frame.ndim, frame.shape[2]) == (np.uint8, 3, 3)
            frames.add(frame.tobytes())
        if terminated or truncated:
            ends += 1
            env.reset()
    assert len(frames) > 2


def _as_arrays(obs):
    return {key: np.array(value) for key, value in obs.items()} if isinstance(obs, dict) else np.array(obs)


# 2048


@pytest.mark.parametrize(
    ("row", "slid", "points"),
    [
        ((0, 0, 0, 1), (1, 0, 0, 0), 0),
        ((1, 1, 1, 1), (2, 2, 0, 0), 8),
        ((1, 1, 2, 0), (2, 2, 0, 0), 4),
        ((2, 1, 0, 1), (2, 2, 0, 0), 4),
        ((1, 2, 1, 2), (1, 2, 1, 2), 0),
        ((10, 0, 10, 10), (11, 10, 0, 0), 2048),
    ],
)
@pytest.mark.parametrize("action", range(4))
def test_2048_merges_pairs_once_from_the_wall_on(row, slid, points, action):
    _, env = make("game_2048")
    board = np.zeros((4, 4), np.int8)
    board[0] = row
    env.state.board[:] = np.rot90(board, -action)
    before = env.state.score
    if row == slid:
        assert env._info()["action_mask"][action] == 0
        return
    _, reward, _, _, info = env.step(action)
    turned = np.rot90(np.asarray(env.state.board), action)
    assert reward == points == info["score"] - before
    assert np.count_nonzero(turned) == np.count_nonzero(slid) + 1
    hit = turned[0] != slid
    assert hit.sum() <= 1
    assert not np.any(np.array(slid)[hit])  # the new tile


def test_2048_ends_exactly_when_no_action_is_allowed():
    _, env = make("game_2048", seed=3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        terminated = False
        while not terminated:
            mask = env._info()["action_mask"]
            assert mask.any()
            _, _, terminated, _, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        assert not info["action_mask"].any()
        assert info["highest"] == 2 ** int(np.max(np.asarray(env.state.board)))
        env.reset()


# Connect Four


def four_in_a_line(board, player):
    """By looking at every line of four cells."""
    for y, x, (down, right) in itertools.product(range(6), range(7), ((1, 0), (0, 1), (1, 1), (1, -1))):
        cells = [(y + step * down, x + step * right) for step in range(4)]
        if all(0 <= row < 6 and 0 <= column < 7 and board[row, column] == player for row, column in cells):
            return True
    return False


def test_connect_four_knows_a_line_of_four():
    module, _ = make("connect_four")
    rng = np.random.default_rng(0)
    results = []
    for _ in range(500):
        board = rng.choice(3, size=(6, 7), p=(0.4, 0.3, 0.3)).astype(np.int8)
        results.append(four_in_a_line(board, 1))
        assert module._wins(plain.plain(board), 1) == results[-1]
    assert 50 < sum(results) < 450


def test_connect_four_opponent_wins_else_blocks():
    module, env = make("connect_four")
    board = env.state.board
    board[:] = 0
    board[5, :3] = 1
    assert module._reply(board, plain.PlainStream(env.np_random), env.params) == 3
    board[3:, 6] = 2
    assert module._reply(board, plain.PlainStream(env.np_random), env.params) == 6


def test_connect_four_disc_in_a_full_column_loses():
    _, env = make("connect_four")
    env.state.board[:, 2] = (1, 2, 1, 2, 1, 2)
    assert env._info()["action_mask"].tolist() == [1, 1, 0, 1, 1, 1, 1]
    assert env.step(2)[1:3] == (-1.0, True)


# Tetris


def test_tetris_every_piece_comes_once_in_a_round():
    _, env = make("tetris", seed=4)
    kinds = []
    while len(kinds) < 21:
        kinds.append(env.state.kind)
        following = int(env.state.bag[env.state.drawn])
        env.state.board[:20, 4:-4] = 0
        env.step(4)
        assert env.state.kind == following
    assert [sorted(kinds[start : start + 7]) for start in (0, 7, 14)] == [list(range(7))] * 3


@pytest.mark.parametrize("rows", range(5))
def test_tetris_complete_rows_vanish_and_others_fall(rows):
    _, env = make("tetris")
    s = env.state
    field = s.board[:20, 4:-4]
    field[:] = 0
    field[20 - rows :, 1:] = 3
    field[15, 5] = 7  # falls with the rows above the complete ones
    s.piece[:] = 0
    s.piece[:, 0] = 1  # upright, in the column that is free
    s.kind, s.x = 0, 4
    _, reward, terminated, _, info = env.step(4)
    assert (reward, terminated, info["lines"]) == ((0.0, 1.0, 3.0, 5.0, 8.0)[rows], False, rows)
    assert field[15 + rows, 5] == 7
    assert np.count_nonzero(np.asarray(field)) == 1 + (4 - rows)


def test_tetris_pieces_stay_inside_the_walls():
    _, env = make("tetris", seed=1)
    rng = np.random.default_rng(0)
    for action in rng.choice(5, size=2000, p=(0.1, 0.3, 0.3, 0.25, 0.05)):
        obs, _, terminated, _, _ = env.step(action)
        assert terminated or obs[1].sum() == 4
        if terminated:
            env.reset()
