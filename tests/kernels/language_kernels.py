"""Kernels that use the less common parts of the language; `test_language.py` compares their native code with Python."""

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import choice, integers

SCALE = 1.25
PAIRS = (np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]))
WEIGHTS = np.array([0.2, 0.3, 0.5])


def scaled(x, factor=SCALE, parts=3):
    return x * factor / parts


def lowered(s, factor=SCALE):
    s.total -= 0.25 + s.share * s.share
    return s.total * factor


def split(count, share):
    return count // 2 + 3, share * 1.1


@vecenv.kernel("Language-v0", max_episode_steps=40)
class Language:
    """Loops over arrays, indices that are drawn, nested targets, left-out arguments."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (9,), np.float64), spaces.Discrete(3)
    state = {
        "total": float,
        "chosen": float,
        "count": np.int8,
        "share": np.float32,
        "last": np.int16,
        "singles": (np.float32, 3),
        "bytes": (np.uint8, 3),
        "grid": (np.int16, (2, 3)),
    }

    def reset(s, rng, p):
        s.total, (s.count, s.share) = 1.5, (3, 0.1)
        for place, old in enumerate(s.singles):
            s.singles[place] = rng.random() + old / 7
        for place in range(3):
            s.bytes[place] = rng.integers(200)

    def step(s, action, rng, p):
        s.grid[rng.integers(2), rng.integers(3)] += 1
        s.grid[rng.integers(2)][integers(rng, 3)] += 2
        s.total = 0.0
        for single in s.singles:
            s.total += single * single * 1.1
        for byte in s.bytes:
            s.total += byte * byte - 5
        for single, byte in zip(s.singles, s.bytes):
            s.total += single * byte
        for row in s.grid:
            s.total += row[0] * 0.1
        for s.last in s.bytes:
            s.total -= s.last * s.last
        s.chosen = choice(rng, s.singles) * 1.1 + choice(rng, s.singles, p=WEIGHTS) * 1.3
        s.chosen += choice(rng, s.bytes) * 3 - 1000
        (s.count, s.share), ended = split(s.count, s.share), rng.random() < 0.05
        first = second = rng.random()
        s.chosen += first * second + PAIRS[1][action] + PAIRS[0][0]
        s.chosen += scaled(s.chosen) + scaled(s.chosen, 2.0) + lowered(s)
        turn = 0
        while True:
            turn += 1
            if turn == 3:
                continue
            if turn > 7 or rng.random() < 0.1:
                break
            s.total += turn
        for turn in range(5):
            if turn == action + 2:
                break
        else:
            s.total += 100.0
        if s.share > 100.0:
            s.share = 0.1
        if action == 1:
            return -1, ended, s.total > 1e5
        return s.total, ended

    def observe(s, obs, p):
        obs[0], obs[1], obs[2], obs[3], obs[4] = s.total, s.chosen, s.count, s.share, s.last
        if s.chosen < 0.0:
            return
        obs[5] = s.singles[0]
        obs[6] = s.singles[1] * s.singles[2]
        obs[7] += s.grid[0, 0]
        obs[7] += 1.0


@vecenv.kernel("Narrow-v0")
class Narrow:
    """Fields of every size in a step without branches, which also runs, for nothing, on rows that begin an episode."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (6,), np.float64), spaces.Discrete(3)
    state = {"large": np.uint32, "small": np.int8, "middle": np.int32, "single": np.float32, "flag": bool}

    def reset(s, rng, p):
        s.large = 2**31 + 1
        s.small, s.middle, s.single = 1, -(2**31), 0.3

    def step(s, action, rng, p):
        s.large += 1
        s.small = (s.small * 3 + action) % 100
        s.middle += 7
        s.single *= 1.01
        s.flag = not s.flag
        return s.single * s.single, action == 2

    def observe(s, obs, p):
        obs[0] = s.large % 1000
        obs[1] = s.small
        obs[2] = s.middle
        obs[3] = s.single
        obs[4] = s.single * 1.1
        obs[5] = s.flag


@vecenv.kernel("ReadsObs-v0")
class ReadsObs:
    """Writes every element, but reads one before: it must be zero also where the buffer was used before.

    Its step draws a number but has no branch: rows that begin an episode must not draw it.
    """

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (3,), np.float64), spaces.Discrete(2)
    state = {"x": float}

    def reset(s, rng, p):
        s.x = 0.5

    def step(s, action, rng, p):
        s.x += 1.0
        return rng.random(), s.x > 9.0

    def observe(s, obs, p):
        obs[0] = obs[1] + s.x
        obs[1] = s.x
        obs[2] = obs[2] + 1.0
