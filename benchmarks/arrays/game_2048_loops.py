"""2048 in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import integers, random

SIZE = 4


@vecenv.kernel("Loops-2048-v0", max_episode_steps=5000)
class Game2048:
    observation_space = spaces.Box(0, 17, (SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(4)
    state = {
        "board": (np.int8, (4, 4)),
    }
    info = {"score": int, "highest": int}

    def reset(s, rng, p):
        s.board[:] = 0
        s.score = 0
        add_tile(s.board, rng)
        add_tile(s.board, rng)
        s.highest = highest(s.board)

    def step(s, action, rng, p):
        points = slide(s.board, action, True)
        if points < 0:
            return -1.0, False
        s.score += points
        add_tile(s.board, rng)
        s.highest = highest(s.board)
        return float(points), is_stuck(s.board)

    def observe(s, obs, p):
        for y in range(SIZE):
            for x in range(SIZE):
                obs[y, x] = s.board[y, x]

    def action_mask(s, allowed, p):
        for action in range(4):
            allowed[action] = slide(s.board, action, False) >= 0


def cell_of(action, line, place):
    """The cell that is `place` steps from the wall towards which tiles slide."""
    if action == 0:
        return line, place
    if action == 1:
        return place, line
    if action == 2:
        return line, SIZE - 1 - place
    return SIZE - 1 - place, line


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


def highest(board):
    best = 0
    for y in range(SIZE):
        for x in range(SIZE):
            best = max(best, board[y, x])
    return 1 << best
