"""2048, Connect Four and Tetris in natural NumPy: their rules; and that all envs in natural NumPy can be drawn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.kernels import plain

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
