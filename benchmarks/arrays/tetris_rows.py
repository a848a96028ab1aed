"""Tetris as a hand-written row loop."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, shuffle

HEIGHT, WIDTH, WALL = 20, 10, 4
LEFT, RIGHT, TURN, DROP = 1, 2, 3, 4
POINTS = (0.0, 1.0, 3.0, 5.0, 8.0)
KINDS = 7
PIECES = np.zeros((KINDS, 4, 4), np.int8)
for _kind, _cells in enumerate(("4567", "569a", "4569", "5689", "459a", "4568", "456a")):
    for _cell in _cells:
        PIECES[_kind, int(_cell, 16) // 4, int(_cell, 16) % 4] = 1


@njit
def fits(board, piece, y, x):
    for row in range(4):
        for column in range(4):
            if piece[row, column] != 0 and board[y + row, x + column] != 0:
                return False
    return True


@njit
def turn(row):
    """Turn the piece counterclockwise if there is room."""
    for y in range(4):
        for x in range(4):
            if row.piece[x, 3 - y] != 0 and row.board[row.y + y, row.x + x] != 0:
                return
    for y in range(2):
        for x in range(2):
            kept = row.piece[y, x]
            row.piece[y, x] = row.piece[x, 3 - y]
            row.piece[x, 3 - y] = row.piece[3 - y, 3 - x]
            row.piece[3 - y, 3 - x] = row.piece[3 - x, y]
            row.piece[3 - x, y] = kept


@njit
def next_piece(row, rng):
    if row.drawn == KINDS:
        order = row.order
        for kind in range(KINDS):
            order[kind] = kind
        shuffle(rng, order)
        row.drawn = 0
    kind = row.order[row.drawn]
    for y in range(4):
        for x in range(4):
            row.piece[y, x] = PIECES[kind, y, x]
    row.drawn += 1
    row.y = 0
    row.x = WALL + WIDTH // 2 - 2


@njit
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


@njit
def reset(row, rng):
    for y in range(HEIGHT + WALL):
        for x in range(WIDTH + 2 * WALL):
            row.board[y, x] = y >= HEIGHT or x < WALL or x >= WALL + WIDTH
    row.drawn = KINDS
    row.lines = 0
    next_piece(row, rng)


@njit
def step(row, action, rng):
    if action == LEFT:
        if fits(row.board, row.piece, row.y, row.x - 1):
            row.x -= 1
    elif action == RIGHT:
        if fits(row.board, row.piece, row.y, row.x + 1):
            row.x += 1
    elif action == TURN:
        turn(row)
    elif action == DROP:
        while fits(row.board, row.piece, row.y + 1, row.x):
            row.y += 1
    if fits(row.board, row.piece, row.y + 1, row.x):
        row.y += 1
        return 0.0, False
    for y in range(4):
        for x in range(4):
            if row.piece[y, x] != 0:
                row.board[row.y + y, row.x + x] = 1
    cleared = clear_rows(row.board)
    row.lines += cleared
    next_piece(row, rng)
    return POINTS[cleared], not fits(row.board, row.piece, row.y, row.x)


@njit
def observe(row, obs):
    for y in range(HEIGHT):
        for x in range(WIDTH):
            obs[y, x] = row.board[y, WALL + x]
    for y in range(4):
        for x in range(4):
            if row.piece[y, x] != 0:
                obs[row.y + y, row.x + x - WALL] = 2


LOOP = RowLoop(
    [
        ("board", np.int8, (HEIGHT + WALL, WIDTH + 2 * WALL)),
        ("piece", np.int8, (4, 4)),
        ("y", np.int64),
        ("x", np.int64),
        ("order", np.int8, (KINDS,)),
        ("drawn", np.int64),
        ("lines", np.int64),
    ],
    reset,
    step,
    observe,
    spaces.Box(0, 2, (HEIGHT, WIDTH), np.uint8),
    spaces.Discrete(5),
    10_000,
)
