"""Connect Four as a hand-written row loop."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, integers

HEIGHT, WIDTH = 6, 7
EMPTY, MINE, THEIRS = 0, 1, 2


@njit
def drop(board, column, player):
    """Put a disc on top of a column; return its row."""
    for y in range(HEIGHT - 1, -1, -1):
        if board[y, column] == EMPTY:
            board[y, column] = player
            return y
    return -1


@njit
def run_length(board, y, x, dy, dx, player):
    """How many discs of a player follow one another from a cell on, the cell itself not counted."""
    length = 0
    y += dy
    x += dx
    while 0 <= y < HEIGHT and 0 <= x < WIDTH and board[y, x] == player:
        length += 1
        y += dy
        x += dx
    return length


@njit
def wins_at(board, y, x, player):
    """Whether the disc at a cell is part of a line of four."""
    for dy, dx in ((1, 0), (0, 1), (1, 1), (1, -1)):
        if run_length(board, y, x, dy, dx, player) + run_length(board, y, x, -dy, -dx, player) >= 3:
            return True
    return False


@njit
def is_full(board):
    for x in range(WIDTH):
        if board[0, x] == EMPTY:
            return False
    return True


@njit
def reply(board, rng):
    legal = 0
    for x in range(WIDTH):
        legal += board[0, x] == EMPTY
    for player in (THEIRS, MINE):
        for x in range(WIDTH):
            if board[0, x] == EMPTY:
                y = drop(board, x, player)
                won = wins_at(board, y, x, player)
                board[y, x] = EMPTY
                if won:
                    return x
    chosen = integers(rng, 0, legal)
    for x in range(WIDTH):
        if board[0, x] == EMPTY:
            if chosen == 0:
                return x
            chosen -= 1
    return -1


@njit
def reset(row, rng):
    row.board[:] = EMPTY
    if integers(rng, 0, 2) == 1:
        drop(row.board, reply(row.board, rng), THEIRS)


@njit
def step(row, action, rng):
    board = row.board
    if board[0, action] != EMPTY:
        return -1.0, True
    y = drop(board, action, MINE)
    if wins_at(board, y, action, MINE):
        return 1.0, True
    if is_full(board):
        return 0.0, True
    x = reply(board, rng)
    y = drop(board, x, THEIRS)
    if wins_at(board, y, x, THEIRS):
        return -1.0, True
    return 0.0, is_full(board)


@njit
def observe(row, obs):
    for y in range(HEIGHT):
        for x in range(WIDTH):
            obs[0, y, x] = row.board[y, x] == MINE
            obs[1, y, x] = row.board[y, x] == THEIRS


@njit
def mask(row, allowed):
    for x in range(WIDTH):
        allowed[x] = row.board[0, x] == EMPTY


LOOP = RowLoop(
    [("board", np.int8, (HEIGHT, WIDTH))],
    reset,
    step,
    observe,
    spaces.Box(0, 1, (2, HEIGHT, WIDTH), np.uint8),
    spaces.Discrete(WIDTH),
    None,
    mask,
)
