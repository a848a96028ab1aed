"""Flood fill with a queue in natural NumPy: paint the region at the corner until the board has one colour."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel import Queue

SIZE = 12
COLORS = 6
LIMIT = 40


@vecenv.kernel("Arrays-FloodFill-v0", max_episode_steps=LIMIT)
class FloodFill:
    """The colours, from 0 to 5. Reward: the share of the board that joins the region."""

    observation_space = spaces.Box(0, COLORS - 1, (SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(COLORS)
    state = {"board": (np.int8, (SIZE, SIZE))}
    info = {"region": int}

    def reset(s, rng, p):
        s.board = rng.integers(0, COLORS, size=(SIZE, SIZE))
        s.region = np.count_nonzero(corner_region(s.board))

    def step(s, action, rng, p):
        s.board[corner_region(s.board)] = action
        size = np.count_nonzero(corner_region(s.board))
        grown = size - s.region
        s.region = size
        return grown / SIZE**2, (s.board == s.board[0, 0]).all()

    def observe(s, obs, p):
        obs[:] = s.board

    def action_mask(s, mask, p):
        mask[:] = 1
        mask[s.board[0, 0]] = 0


def corner_region(board):
    """Which cells are connected with the upper left corner by cells of its colour."""
    region = np.zeros(board.shape, bool)
    region[0, 0] = True
    queue = Queue(int, SIZE * SIZE)
    queue.append(0)
    while len(queue) > 0:
        y, x = divmod(queue.popleft(), SIZE)
        for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            to_y, to_x = y + dy, x + dx
            inside = 0 <= to_y < SIZE and 0 <= to_x < SIZE
            if inside and not region[to_y, to_x] and board[to_y, to_x] == board[0, 0]:
                region[to_y, to_x] = True
                queue.append(to_y * SIZE + to_x)
    return region
