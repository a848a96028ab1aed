"""Tetris in natural NumPy: a board with walls around it, and pieces of 4 x 4 cells."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv

HEIGHT, WIDTH, WALL = 20, 10, 4
STAY, LEFT, RIGHT, TURN, DROP = 0, 1, 2, 3, 4
POINTS = (0.0, 1.0, 3.0, 5.0, 8.0)
"""Reward by the number of rows that a piece completes."""
PIECES = np.array(
    [
        [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]],
    ],
    np.int8,
)


@vecenv.kernel("Arrays-Tetris-v0", max_episode_steps=10_000)
class Tetris:
    """Cells of the field: 0 free, 1 taken, 2 the falling piece."""

    observation_space = spaces.Box(0, 2, (HEIGHT, WIDTH), np.uint8)
    action_space = spaces.Discrete(5)
    state = {
        "board": (np.int8, (HEIGHT + WALL, WIDTH + 2 * WALL)),
        "piece": (np.int8, (4, 4)),
        "y": int,
        "x": int,
        "bag": (np.int8, (len(PIECES),)),
        "drawn": int,
    }
    info = {"lines": int}

    def reset(s, rng, p):
        s.board[:] = 1
        s.board[:HEIGHT, WALL:-WALL] = 0
        s.drawn = len(PIECES)
        s.lines = 0
        next_piece(s, rng)

    def step(s, action, rng, p):
        if action == LEFT and fits(s.board, s.piece, s.y, s.x - 1):
            s.x -= 1
        elif action == RIGHT and fits(s.board, s.piece, s.y, s.x + 1):
            s.x += 1
        elif action == TURN:
            turned = np.rot90(s.piece)
            if fits(s.board, turned, s.y, s.x):
                s.piece = turned
        elif action == DROP:
            while fits(s.board, s.piece, s.y + 1, s.x):
                s.y += 1
        if fits(s.board, s.piece, s.y + 1, s.x):
            s.y += 1
            return 0.0, False
        s.board[s.y : s.y + 4, s.x : s.x + 4] |= s.piece
        cleared = clear_rows(s.board[:HEIGHT, WALL:-WALL])
        s.lines += cleared
        next_piece(s, rng)
        return POINTS[cleared], not fits(s.board, s.piece, s.y, s.x)

    def observe(s, obs, p):
        shown = s.board.copy()
        shown[s.y : s.y + 4, s.x : s.x + 4] |= 2 * s.piece
        obs[:] = np.minimum(shown[:HEIGHT, WALL:-WALL], 2)


def fits(board, piece, y, x):
    return not (board[y : y + 4, x : x + 4] & piece).any()


def clear_rows(field):
    """Remove complete rows, let the others fall, and return how many were removed."""
    full = field.all(axis=1)
    cleared = full.sum()
    if cleared > 0:
        kept = field[~full]
        field[:cleared] = 0
        field[cleared:] = kept
    return cleared


def next_piece(s, rng):
    """Take a piece from the bag, which is filled with one of each when it is empty."""
    if s.drawn == len(PIECES):
        s.bag = rng.permutation(len(PIECES))
        s.drawn = 0
    s.piece = PIECES[s.bag[s.drawn]]
    s.drawn += 1
    s.y = 0
    s.x = WALL + WIDTH // 2 - 2
