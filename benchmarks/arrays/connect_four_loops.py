"""Connect Four in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import integers

HEIGHT, WIDTH = 6, 7
EMPTY, MINE, THEIRS = 0, 1, 2


@vecenv.kernel("Loops-ConnectFour-v0")
class ConnectFour:
    observation_space = spaces.Box(0, 1, (2, HEIGHT, WIDTH), np.uint8)
    action_space = spaces.Discrete(WIDTH)
    state = {
        "board": (np.int8, (6, 7)),
    }

    def reset(s, rng, p):
        s.board[:] = EMPTY
        if integers(rng, 0, 2) == 1:
            drop(s.board, reply(s.board, rng), THEIRS)

    def step(s, action, rng, p):
        board = s.board
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

    def observe(s, obs, p):
        for y in range(HEIGHT):
            for x in range(WIDTH):
                obs[0, y, x] = s.board[y, x] == MINE
                obs[1, y, x] = s.board[y, x] == THEIRS

    def action_mask(s, allowed, p):
        for x in range(WIDTH):
            allowed[x] = s.board[0, x] == EMPTY


def drop(board, column, player):
    """Put a disc on top of a column; return its s."""
    for y in range(HEIGHT - 1, -1, -1):
        if board[y, column] == EMPTY:
            board[y, column] = player
            return y
    return -1


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


def wins_at(board, y, x, player):
    """Whether the disc at a cell is part of a line of four."""
    for dy, dx in ((1, 0), (0, 1), (1, 1), (1, -1)):
        if run_length(board, y, x, dy, dx, player) + run_length(board, y, x, -dy, -dx, player) >= 3:
            return True
    return False


def is_full(board):
    for x in range(WIDTH):
        if board[0, x] == EMPTY:
            return False
    return True


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
