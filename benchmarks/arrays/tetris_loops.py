"""Tetris in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import shuffle

HEIGHT, WIDTH, WALL = 20, 10, 4
LEFT, RIGHT, TURN, DROP = 1, 2, 3, 4
POINTS = (0.0, 1.0, 3.0, 5.0, 8.0)
KINDS = 7
PIECES = np.zeros((KINDS, 4, 4), np.int64)
for _kind, _cells in enumerate(("4567", "569a", "4569", "5689", "459a", "4568", "456a")):
    for _cell in _cells:
        PIECES[_kind, int(_cell, 16) // 4, int(_cell, 16) % 4] = 1


@vecenv.kernel("Loops-Tetris-v0", max_episode_steps=10_000)
class Tetris:
    observation_space = spaces.Box(0, 2, (HEIGHT, WIDTH), np.uint8)
    action_space = spaces.Discrete(5)
    state = {
        "board": (np.int8, (24, 18)),
        "piece": (np.int8, (4, 4)),
        "y": int,
        "x": int,
        "order": (np.int8, (7,)),
        "drawn": int,
    }
    info = {"lines": int}

    def reset(s, rng, p):
        for y in range(HEIGHT + WALL):
            for x in range(WIDTH + 2 * WALL):
                s.board[y, x] = y >= HEIGHT or x < WALL or x >= WALL + WIDTH
        s.drawn = KINDS
        s.lines = 0
        next_piece(s, rng)

    def step(s, action, rng, p):
        if action == LEFT:
            if fits(s.board, s.piece, s.y, s.x - 1):
                s.x -= 1
        elif action == RIGHT:
            if fits(s.board, s.piece, s.y, s.x + 1):
                s.x += 1
        elif action == TURN:
            turn(s)
        elif action == DROP:
            while fits(s.board, s.piece, s.y + 1, s.x):
                s.y += 1
        if fits(s.board, s.piece, s.y + 1, s.x):
            s.y += 1
            return 0.0, False
        for y in range(4):
            for x in range(4):
                if s.piece[y, x] != 0:
                    s.board[s.y + y, s.x + x] = 1
        cleared = clear_rows(s.board)
        s.lines += cleared
        next_piece(s, rng)
        return POINTS[cleared], not fits(s.board, s.piece, s.y, s.x)

    def observe(s, obs, p):
        for y in range(HEIGHT):
            for x in range(WIDTH):
                obs[y, x] = s.board[y, WALL + x]
        for y in range(4):
            for x in range(4):
                if s.piece[y, x] != 0:
                    obs[s.y + y, s.x + x - WALL] = 2


def fits(board, piece, y, x):
    for row in range(4):
        for column in range(4):
            if piece[row, column] != 0 and board[y + row, x + column] != 0:
                return False
    return True


def turn(s):
    """Turn the piece counterclockwise if there is room."""
    for y in range(4):
        for x in range(4):
            if s.piece[x, 3 - y] != 0 and s.board[s.y + y, s.x + x] != 0:
                return
    for y in range(2):
        for x in range(2):
            kept = s.piece[y, x]
            s.piece[y, x] = s.piece[x, 3 - y]
            s.piece[x, 3 - y] = s.piece[3 - y, 3 - x]
            s.piece[3 - y, 3 - x] = s.piece[3 - x, y]
            s.piece[3 - x, y] = kept


def next_piece(s, rng):
    if s.drawn == KINDS:
        order = s.order
        for kind in range(KINDS):
            order[kind] = kind
        shuffle(rng, order)
        s.drawn = 0
    kind = s.order[s.drawn]
    for y in range(4):
        for x in range(4):
            s.piece[y, x] = PIECES[kind, y, x]
    s.drawn += 1
    s.y = 0
    s.x = WALL + WIDTH // 2 - 2


def clear_rows(board):
    to = HEIGHT - 1
    for y in range(HEIGHT - 1, -1, -1):
        full = True
        for x in range(WALL, WALL + WIDTH):
            if board[y, x] == 0:
                full = False
                break
        if not full:
            if to != y:
                for x in range(WALL, WALL + WIDTH):
                    board[to, x] = board[y, x]
            to -= 1
    for y in range(to + 1):
        for x in range(WALL, WALL + WIDTH):
            board[y, x] = 0
    return to + 1
