"""Connect Four in natural NumPy, against an opponent that wins or blocks if it can and is random otherwise."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv

HEIGHT, WIDTH = 6, 7
EMPTY, MINE, THEIRS = 0, 1, 2


@vecenv.kernel("Arrays-ConnectFour-v0")
class ConnectFour:
    """Planes of my discs and of theirs. Reward: 1 for a win, -1 for a loss or a full column."""

    observation_space = spaces.Box(0, 1, (2, HEIGHT, WIDTH), np.uint8)
    action_space = spaces.Discrete(WIDTH)
    state = {"board": (np.int8, (HEIGHT, WIDTH))}

    def reset(s, rng, p):
        s.board[:] = EMPTY
        if rng.integers(2) == 1:
            drop(s.board, reply(s.board, rng), THEIRS)

    def step(s, action, rng, p):
        if s.board[0, action] != EMPTY:
            return -1.0, True
        drop(s.board, action, MINE)
        if wins(s.board, MINE):
            return 1.0, True
        if np.all(s.board != EMPTY):
            return 0.0, True
        drop(s.board, reply(s.board, rng), THEIRS)
        if wins(s.board, THEIRS):
            return -1.0, True
        return 0.0, np.all(s.board != EMPTY)

    def observe(s, obs, p):
        obs[0] = s.board == MINE
        obs[1] = s.board == THEIRS

    def action_mask(s, mask, p):
        mask[:] = s.board[0] == EMPTY


def drop(board, column, player):
    row = np.count_nonzero(board[:, column] == EMPTY) - 1
    board[row, column] = player


def reply(board, rng):
    """A column that wins, else one that keeps the other from winning, else any that is not full."""
    legal = np.flatnonzero(board[0] == EMPTY)
    for player in (THEIRS, MINE):
        for column in legal:
            trial = board.copy()
            drop(trial, column, player)
            if wins(trial, player):
                return column
    return rng.choice(legal)


def wins(board, player):
    """Whether four discs of a player are in a line."""
    own = board == player
    down = own[:-3] & own[1:-2] & own[2:-1] & own[3:]
    across = own[:, :-3] & own[:, 1:-2] & own[:, 2:-1] & own[:, 3:]
    falling = own[:-3, :-3] & own[1:-2, 1:-2] & own[2:-1, 2:-1] & own[3:, 3:]
    rising = own[3:, :-3] & own[2:-1, 1:-2] & own[1:-2, 2:-1] & own[:-3, 3:]
    return down.any() or across.any() or falling.any() or rising.any()
