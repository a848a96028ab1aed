"""2048 as a hand-written row loop."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, integers, random

SIZE = 4


@njit
def cell_of(action, line, place):
    """The cell that is `place` steps from the wall towards which tiles slide."""
    if action == 0:
        return line, place
    if action == 1:
        return place, line
    if action == 2:
        return line, SIZE - 1 - place
    return SIZE - 1 - place, line


@njit
def slide(board, action, write):
    """Slide all tiles; return the points, or -1 if nothing moves."""
    points = 0
    moves = False
    for line in range(SIZE):
        to = 0
        last = 0
        for place in range(SIZE):
            y, x = cell_of(action, line, place)
            tile = board[y, x]
            if tile == 0:
                continue
            if tile == last:
                points += 2 << tile
                last = 0
                moves = True
                if write:
                    to_y, to_x = cell_of(action, line, to - 1)
                    board[y, x] = 0
                    board[to_y, to_x] = tile + 1
            else:
                last = tile
                if to != place:
                    moves = True
                    if write:
                        to_y, to_x = cell_of(action, line, to)
                        board[y, x] = 0
                        board[to_y, to_x] = tile
                to += 1
    return points if moves else -1


@njit
def add_tile(board, rng):
    free = 0
    for y in range(SIZE):
        for x in range(SIZE):
            free += board[y, x] == 0
    chosen = integers(rng, 0, free)
    for y in range(SIZE):
        for x in range(SIZE):
            if board[y, x] == 0:
                if chosen == 0:
                    board[y, x] = 1 if random(rng) < 0.9 else 2
                    return
                chosen -= 1


@njit
def is_stuck(board):
    for y in range(SIZE):
        for x in range(SIZE):
            if board[y, x] == 0:
                return False
            if y > 0 and board[y, x] == board[y - 1, x]:
                return False
            if x > 0 and board[y, x] == board[y, x - 1]:
                return False
    return True


@njit
def highest(board):
    best = 0
    for y in range(SIZE):
        for x in range(SIZE):
            best = max(best, board[y, x])
    return 1 << best


@njit
def reset(row, rng):
    row.board[:] = 0
    row.score = 0
    add_tile(row.board, rng)
    add_tile(row.board, rng)
    row.highest = highest(row.board)


@njit
def step(row, action, rng):
    points = slide(row.board, action, True)
    if points < 0:
        return -1.0, False
    row.score += points
    add_tile(row.board, rng)
    row.highest = highest(row.board)
    return float(points), is_stuck(row.board)


@njit
def observe(row, obs):
    for y in range(SIZE):
        for x in range(SIZE):
            obs[y, x] = row.board[y, x]


@njit
def mask(row, allowed):
    for action in range(4):
        allowed[action] = slide(row.board, action, False) >= 0


LOOP = RowLoop(
    [("board", np.int8, (SIZE, SIZE)), ("score", np.int64), ("highest", np.int64)],
    reset,
    step,
    observe,
    spaces.Box(0, 17, (SIZE, SIZE), np.uint8),
    spaces.Discrete(4),
    5000,
    mask,
)
