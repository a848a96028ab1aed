"""2048 in natural NumPy: slide tiles; equal ones merge."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv

SIZE = 4


@vecenv.kernel("Arrays-2048-v0", max_episode_steps=5000)
class Game2048:
    """The board as exponents: 0 is an empty cell, 1 a tile of 2, 2 a tile of 4. Actions: left, up, right, down."""

    observation_space = spaces.Box(0, 17, (SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(4)
    state = {"board": (np.int8, (SIZE, SIZE))}
    info = {"score": int, "highest": int}

    def reset(s, rng, p):
        s.board[:] = 0
        s.score = 0
        add_tile(s, rng)
        add_tile(s, rng)
        s.highest = 2 ** s.board.max()

    def step(s, action, rng, p):
        turned = np.rot90(s.board, action)
        moved, points = slide(turned)
        if np.array_equal(moved, turned):
            return -1.0, False
        s.board = np.rot90(moved, -action)
        s.score += points
        add_tile(s, rng)
        s.highest = 2 ** s.board.max()
        return float(points), is_stuck(s.board)

    def observe(s, obs, p):
        obs[:] = s.board

    def action_mask(s, mask, p):
        for action in range(4):
            turned = np.rot90(s.board, action)
            moved, _ = slide(turned)
            mask[action] = not np.array_equal(moved, turned)


def add_tile(s, rng):
    cell = rng.choice(np.flatnonzero(s.board == 0))
    s.board[cell // SIZE, cell % SIZE] = 1 if rng.random() < 0.9 else 2


def slide(board):
    """The board after all tiles went left, and the points of its merges."""
    result = np.zeros_like(board)
    points = 0
    for y, row in enumerate(board):
        x = 0
        last = 0
        for tile in row[row != 0]:
            if tile == last:
                result[y, x - 1] = tile + 1
                points += 2 ** (tile + 1)
                last = 0
            else:
                result[y, x] = tile
                x += 1
                last = tile
    return result, points


def is_stuck(board):
    return not ((board == 0).any() or (board[1:] == board[:-1]).any() or (board[:, 1:] == board[:, :-1]).any())
