"""Kernels with arrays, as a person would write them; `test_arrays.py` compares their native code with Python."""

import numpy as np
from gymnasium.spaces import Box, Discrete

import vecenv

TABLE = np.array([3, -1, 4, 1], np.int8)


def shifted(x, by=1.0):
    return x * 2 + by


def first(board):
    return board[0]


@vecenv.kernel("Points-v0", max_episode_steps=50)
class Points:
    """Fields, parameters and tables in expressions."""

    observation_space = Box(-np.inf, np.inf, (4,), np.float64)
    action_space = Discrete(4)
    state = {
        "pos": (np.float64, 3),
        "v": (np.float32, 3),
        "board": (np.int8, (3, 4)),
        "n": int,
        "x": float,
        "flags": (bool, 4),
    }

    class Params:
        limits = np.array([1.0, 2.0, 3.0])

    def reset(s, rng, p):
        s.pos = np.zeros(3)
        s.v[:] = 0.1
        s.board[:] = 0
        s.n = 0
        s.board[1] = TABLE
        s.flags[:] = False

    def step(s, action, rng, p):
        a = np.array([rng.random(), 0.5, action])
        s.v += a * 0.1
        s.pos += s.v * 0.5 - p.limits / 3
        s.pos = np.clip(s.pos, -p.limits, p.limits)
        s.pos[1:] = s.pos[:-1] + 0.25
        s.board = s.board + 1
        s.board[:, action] *= 3
        mask = s.board > 20
        s.board[mask] = -5
        s.board[s.board < -3] += 1
        s.flags = s.board[0] != s.board[1]
        s.flags[~s.flags] = action == 2
        row = first(s.board)
        row[0] = 7
        d = shifted(s.pos, by=2.0)
        e = np.where(d > 2.0, d, -d)
        s.x = e[0] + abs(e)[1] + np.sign(d - 2)[2] + np.floor(d)[0] + np.minimum(d, 1.5)[1]
        t = TABLE.astype(np.float32) / 3
        s.x += t[1] * TABLE[2]
        s.n += 1
        return s.x, s.n > 20

    def observe(s, obs, p):
        obs[:3] = s.pos
        obs[3] = s.x


def merged(row):
    """One row of 2048."""
    tiles = row[row != 0]
    out = np.zeros(4, np.int16)
    count = 0
    i = 0
    while i < len(tiles):
        if i + 1 < len(tiles) and tiles[i] == tiles[i + 1]:
            out[count] = tiles[i] * 2
            i += 2
        else:
            out[count] = tiles[i]
            i += 1
        count += 1
    return out, count


@vecenv.kernel("Tiles-v0", max_episode_steps=50)
class Tiles:
    """Selections, reductions and moved elements."""

    observation_space = Box(-np.inf, np.inf, (8,), np.float64)
    action_space = Discrete(4)
    state = {
        "board": (np.int16, (4, 4)),
        "n": int,
        "x": float,
        "w": (np.float64, (3, 5)),
        "f": (np.float32, 20),
        "m": (np.float64, (3, 3)),
    }

    def reset(s, rng, p):
        s.board[:] = 0
        s.n = 0
        for i in range(15):
            s.w[i // 5, i % 5] = rng.random() - 0.5
        for i in range(20):
            s.f[i] = rng.random() * 1e3 - 500
        s.m = np.eye(3)

    def step(s, action, rng, p):
        empty = np.argwhere(s.board == 0)
        if len(empty) > 0:
            k = rng.integers(len(empty))
            s.board[empty[k][0], empty[k, 1]] = 2 if rng.random() < 0.9 else 4
        s.board = np.rot90(s.board, action)
        for r in range(4):
            row, n = merged(s.board[r])
            s.board[r] = row
            s.n += n
        s.board = np.rot90(s.board, -action)
        ys, xs = np.nonzero(s.board > 2)
        s.x = s.w.sum() + s.f.sum() * 1e-3 + s.w.sum(axis=0)[2] + s.w.sum(axis=1)[1] + s.w.mean() + s.f.mean()
        s.x += s.board.max() + s.board.argmax() + len(ys) + np.sum(xs) + np.count_nonzero(s.board)
        s.w = np.roll(s.w, action - 1, axis=1) * 1.01
        s.w[0] = np.roll(s.w[0], 1)
        s.w = s.w[::-1]
        s.m = s.m @ (np.eye(3) + 0.01 * s.m.T)
        s.x += s.m[0] @ s.w[:, 0] + np.dot(s.w[0], s.w[1]) + np.linalg.norm(s.w[2])
        s.f[1:] = s.f[:-1]
        s.f[:] = s.f[::-1]
        both = np.concatenate((s.f[:3], s.w[0]))
        s.x += both.sum() + both[-1]
        if np.any(s.board > 64) or (s.n > 3 and np.all(s.board != 0)):
            s.x += 1
        if 8 in s.board:
            s.x += 0.5
        s.x += np.array_equal(s.board, s.board.T) + max(s.board[0]) + sum(s.board[1])
        ended = not (s.board == 0).any() and s.n > 30
        return s.x, ended

    def observe(s, obs, p):
        obs[:] = (s.x, s.n, s.board[0, 0], s.w[0, 0], s.f[3], s.f.min(), s.w.max(), s.m[1, 1])


REWARDS = {0: 1.0, 1: -0.5, 2: 0.25, 3: 2.0}
NAMED = {"goal": 10.0, "step": -0.1}
PLACES = [3, 1, 2]


def finished(s, reward, scale=1.0, bonus=0.5):
    return reward * scale + bonus, s.n > 20


def outer(s, r):
    if s.n % 2:
        return finished(s, r, bonus=0.25)
    return finished(s, reward=r)


@vecenv.kernel("Small-v0", max_episode_steps=50)
class Small:
    """Arguments by name, lists and dicts of the module, an action that is replaced."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)
    action_space = Discrete(4)
    state = {"n": int, "x": float, "row": (np.int8, 4)}

    def reset(s, rng, p):
        s.n, s.x = 0, 0.0

    def step(s, action, rng, p):
        action = int(action) * 2
        if action > 3:
            action -= 3
        s.n += 1
        for i in reversed(range(4)):
            s.x = s.x * 0.5 + i
        for i in reversed(range(1, action)):
            s.x += i * 0.1
        for value in reversed(s.row):
            s.x += value
        for place in PLACES:
            s.row[place] = (s.row[place] + action) % 100
        s.x += 2 ** (s.n % 10) + REWARDS[action] + NAMED["goal"] + 3**action
        assert s.n < 1000, f"too many {s.n}"
        values = [1, 2, 3]
        s.x += values[action % 3]
        return outer(s, s.x)

    def observe(s, obs, p):
        obs[:] = (s.x, s.n, s.row.sum())


ALL = (Points, Tiles, Small)
