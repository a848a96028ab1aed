"""Flood fill as a hand-written row loop; the record holds the queue and the marks."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, integers

SIZE = 12
COLORS = 6
LIMIT = 40
DOWN_OF = (0, 1, 0, -1)
RIGHT_OF = (1, 0, -1, 0)


@njit
def corner_region(row):
    """Mark and queue the cells connected with the corner; return how many there are."""
    board, marked, queue = row.board, row.marked, row.queue
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


@njit
def reset(row, rng):
    for y in range(SIZE):
        for x in range(SIZE):
            row.board[y, x] = integers(rng, 0, COLORS)
    row.region = corner_region(row)


@njit
def step(row, action, rng):
    size = corner_region(row)
    for place in range(size):
        cell = row.queue[place]
        row.board[cell // SIZE, cell % SIZE] = action
    size = corner_region(row)
    grown = size - row.region
    row.region = size
    return grown / SIZE**2, size == SIZE * SIZE


@njit
def observe(row, obs):
    for y in range(SIZE):
        for x in range(SIZE):
            obs[y, x] = row.board[y, x]


@njit
def mask(row, allowed):
    allowed[:] = 1
    allowed[row.board[0, 0]] = 0


LOOP = RowLoop(
    [
        ("board", np.int8, (SIZE, SIZE)),
        ("marked", np.uint8, (SIZE, SIZE)),
        ("queue", np.int64, (SIZE * SIZE,)),
        ("region", np.int64),
    ],
    reset,
    step,
    observe,
    spaces.Box(0, COLORS - 1, (SIZE, SIZE), np.uint8),
    spaces.Discrete(COLORS),
    LIMIT,
    mask,
)
