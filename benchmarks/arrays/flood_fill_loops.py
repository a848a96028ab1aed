"""Flood fill in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import integers

SIZE = 12
COLORS = 6
LIMIT = 40
DOWN_OF = (0, 1, 0, -1)
RIGHT_OF = (1, 0, -1, 0)


@vecenv.kernel("Loops-FloodFill-v0", max_episode_steps=LIMIT)
class FloodFill:
    observation_space = spaces.Box(0, COLORS - 1, (SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(COLORS)
    state = {
        "board": (np.int8, (12, 12)),
        "marked": (np.uint8, (12, 12)),
        "queue": (int, (144,)),
    }
    info = {"region": int}

    def reset(s, rng, p):
        for y in range(SIZE):
            for x in range(SIZE):
                s.board[y, x] = integers(rng, 0, COLORS)
        s.region = corner_region(s)

    def step(s, action, rng, p):
        size = corner_region(s)
        for place in range(size):
            cell = s.queue[place]
            s.board[cell // SIZE, cell % SIZE] = action
        size = corner_region(s)
        grown = size - s.region
        s.region = size
        return grown / SIZE**2, size == SIZE * SIZE

    def observe(s, obs, p):
        for y in range(SIZE):
            for x in range(SIZE):
                obs[y, x] = s.board[y, x]

    def action_mask(s, allowed, p):
        allowed[:] = 1
        allowed[s.board[0, 0]] = 0


def corner_region(s):
    """Mark and queue the cells connected with the corner; return how many there are."""
    board, marked, queue = s.board, s.marked, s.queue
    marked[:] = False
    marked[0, 0] = True
    color = board[0, 0]
    queue[0] = 0
    first, last = 0, 1
    while first < last:
        y = queue[first] // SIZE
        x = queue[first] % SIZE
        first += 1
        for way in range(4):
            to_y = y + DOWN_OF[way]
            to_x = x + RIGHT_OF[way]
            if to_y < 0 or to_y >= SIZE or to_x < 0 or to_x >= SIZE:
                continue
            if not marked[to_y, to_x] and board[to_y, to_x] == color:
                marked[to_y, to_x] = True
                queue[last] = to_y * SIZE + to_x
                last += 1
    return last
