"""Kernels with mistakes that only some actions and parameters bring out, and the loops that do not end."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

import vecenv
from vecenv.kernel import Queue

TABLE = np.array([1, 2, 3, 4], np.int8)
TOLLS = (0.5, 1.5, 2.5)
COSTS = {1: 10, 2: 20, 5: 50}
ROWS = (np.array([1.0, 2.0]), np.array([3.0, 4.0]))
MISTAKES = 23
GOOD = MISTAKES
"""The action of a step without a mistake."""


def looked_up(row, k):
    return row[k]


def first_row(board):
    return board[0]


@vecenv.kernel("vecenv-Mistakes-v0", max_episode_steps=50)
class Mistakes:
    """A step makes the mistake with the number of its action, if the env's parameter allows it."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Discrete(MISTAKES + 1)
    state = {"x": int, "small": np.int8, "board": (np.int8, (4, 5)), "t": int}

    class Params:
        wrong = False
        prices = np.arange(6.0)

    bounds = {"wrong": (0, 1), "prices": (0.0, 100.0)}

    def reset(s, rng, p):
        s.x = 0
        s.small = 0
        s.t = 0
        s.board[:] = 0

    def step(s, action, rng, p):
        s.t += 1
        k = action
        if not p.wrong:
            k = GOOD
        if k == 0:
            s.board[s.t + 3, 1] = 1
        if k == 1:
            s.x += TABLE[4 + s.t]
        if k == 2:
            s.x += int(TOLLS[s.t + 10])
        if k == 3:
            s.x = 5 // (s.t - s.t)
        if k == 4:
            s.small = 120 + 10 * s.t
        if k == 5:
            s.board[1, 1] = 200 + s.t
        if k == 6:
            while s.t >= 0:
                s.x = s.x % 7 + 1
        if k == 7:
            for i in range(1_000_000_000 * s.t):
                s.x = i
        if k == 8:
            s.x += int(p.prices[s.t + 5])
        if k == 9:
            s.x = int(1e30 * s.t)
        if k == 10:
            s.x = looked_up(s.board[1], 7 * s.t)
        if k == 11:
            s.board[0, 0 : s.t] = s.board[1, 0 : s.t + 1]
        if k == 12:
            s.x = s.t % (s.t - 1)
        if k == 13:
            s.board[0] = s.board[0, s.t : 4] + 1
        if k == 14:
            places = np.flatnonzero(s.board[0] > s.t)
            s.x = places[0]
        if k == 15:
            places = np.array([0, 5 * s.t])
            s.board[0][places] = 1
        if k == 16:
            s.x = int(2 ** (s.t - 3))
        if k == 17:
            s.x = COSTS[s.t + 2]
        if k == 18:
            waiting = Queue(int, 2)
            for i in range(2 + s.t):
                waiting.append(i)
            s.x = len(waiting)
        if k == 19:
            pairs = Queue((int, 2), 3)
            a, b = pairs.popleft()
            s.x = a + b
        if k == 20:
            items = [s.t, 2]
            s.x = items[s.t + 1]
        if k == 21:
            rest = [s.t]
            s.x = rest.pop()
            s.x = rest.pop()
        if k == 22:
            s.x = first_row(s.board)[0] + int(ROWS[1][s.t + 1])
        return 1.0, False

    def observe(s, obs, p):
        obs[0] = s.x
        obs[1] = s.small
        obs[2] = s.board[0, 0]


EXPECTED = {
    0: ("index", "s.board", 4, 4, "s.board[s.t + 3, 1]"),
    1: ("index", "TABLE", 5, 4, "TABLE[4 + s.t]"),
    2: ("index", "TOLLS", 11, 3, "TOLLS[s.t + 10]"),
    3: ("division", "s.t - s.t", 0, 0, "5 // (s.t - s.t)"),
    4: ("overflow", "s.small", 130, 0, "s.small = 120"),
    5: ("overflow", "s.board", 201, 0, "s.board[1, 1] = 200"),
    6: ("loop", "while", 1_000_001, 1_000_000, "while s.t >= 0"),
    7: ("loop", "for", 1_000_000_000, 1_000_000, "for i in range(1_000"),
    8: ("index", "p.prices", 6, 6, "p.prices[s.t + 5]"),
    9: ("conversion", "int()", 0, 0, "int(1e30"),
    10: ("index", "row", 7, 5, "return row[k]"),
    11: ("size", "s.board", 2, 1, "s.board[0, 0 : s.t] ="),
    12: ("division", "s.t - 1", 0, 0, "s.t % (s.t - 1)"),
    13: ("size", "an array of this expression", 3, 5, "s.board[0] = s.board[0, s.t : 4]"),
    14: ("index", "places", 0, 0, "s.x = places[0]"),
    15: ("index", "s.board", 5, 5, "s.board[0][places] = 1"),
    16: ("power", "s.t - 3", -2, 0, "2 ** (s.t - 3)"),
    17: ("key", "COSTS", 3, 0, "COSTS[s.t + 2]"),
    18: ("full", "waiting", 2, 2, "waiting.append(i)"),
    19: ("empty", "pairs", 0, 0, "pairs.popleft()"),
    20: ("index", "items", 2, 2, "items[s.t + 1]"),
    21: ("empty", "rest", 0, 0, "s.x = rest.pop()"),
    22: ("index", "ROWS", 2, 2, "ROWS[1][s.t + 1]"),
}
"""Problem, field, value, limit and a part of the line of each mistake."""


@vecenv.kernel("vecenv-Endless-v0", max_episode_steps=50)
class Endless:
    """Its step does not end if the action is 1 and the env's parameter says so."""

    observation_space = Box(-np.inf, np.inf, (1,), np.float32)
    action_space = Discrete(2)
    state = {"x": int}

    class Params:
        hang = False

    bounds = {"hang": (0, 1)}

    def reset(s, rng, p):
        s.x = 0

    def step(s, action, rng, p):
        s.x += 1
        while p.hang and action == 1 and s.x > 0:
            s.x = s.x % 7 + 1
        return 1.0, False

    def observe(s, obs, p):
        obs[0] = s.x
