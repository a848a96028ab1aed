"""SpaceInvaders as a hand-written row loop."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, integers

SIZE = 10
LEFT, RIGHT, FIRE = 1, 2, 3
COOLDOWN, BOMB_EVERY, SLOWEST, FASTEST = 5, 8, 12, 6


@njit
def new_wave(row, rng):
    left = integers(rng, 0, 5)
    for y in range(SIZE):
        for x in range(SIZE):
            row.aliens[y, x] = y < 4 and left <= x < left + 6
    row.direction = 1 if integers(rng, 0, 2) == 1 else -1
    row.move_timer = row.interval


@njit
def reset(row, rng):
    row.shots[:] = False
    row.bombs[:] = False
    row.x = integers(rng, 3, 7)
    row.interval = SLOWEST
    row.bomb_timer = BOMB_EVERY
    row.cooldown = 0
    new_wave(row, rng)


@njit
def shoot(row):
    hits = 0
    for y in range(SIZE):
        for x in range(SIZE):
            if row.aliens[y, x] and row.shots[y, x]:
                row.aliens[y, x] = False
                row.shots[y, x] = False
                hits += 1
    return hits


@njit
def march(row):
    edge = 0 if row.direction < 0 else SIZE - 1
    at_edge = False
    for y in range(SIZE):
        at_edge = at_edge or row.aliens[y, edge] != 0
    if at_edge:
        row.direction = -row.direction
        for x in range(SIZE):
            if row.aliens[SIZE - 1, x]:
                return True
        for y in range(SIZE - 1, 0, -1):
            for x in range(SIZE):
                row.aliens[y, x] = row.aliens[y - 1, x]
        for x in range(SIZE):
            row.aliens[0, x] = False
    elif row.direction < 0:
        for y in range(SIZE):
            for x in range(SIZE - 1):
                row.aliens[y, x] = row.aliens[y, x + 1]
            row.aliens[y, SIZE - 1] = False
    else:
        for y in range(SIZE):
            for x in range(SIZE - 1, 0, -1):
                row.aliens[y, x] = row.aliens[y, x - 1]
            row.aliens[y, 0] = False
    return row.aliens[SIZE - 1, row.x] != 0


@njit
def lowest(row, column):
    for y in range(SIZE - 1, -1, -1):
        if row.aliens[y, column]:
            return y
    return -1


@njit
def drop_bomb(row, rng):
    columns = 0
    for x in range(SIZE):
        columns += lowest(row, x) >= 0
    if columns == 0:
        return
    chosen = integers(rng, 0, columns)
    for x in range(SIZE):
        y = lowest(row, x)
        if y >= 0:
            if chosen == 0:
                row.bombs[y, x] = True
                return
            chosen -= 1


@njit
def count(row):
    aliens = 0
    for y in range(SIZE):
        for x in range(SIZE):
            aliens += row.aliens[y, x]
    return aliens


@njit
def step(row, action, rng):
    if action == LEFT:
        row.x = max(row.x - 1, 0)
    elif action == RIGHT:
        row.x = min(row.x + 1, SIZE - 1)
    elif action == FIRE and row.cooldown == 0:
        row.shots[SIZE - 1, row.x] = True
        row.cooldown = COOLDOWN
    for y in range(SIZE - 1):
        for x in range(SIZE):
            row.shots[y, x] = row.shots[y + 1, x]
    for y in range(SIZE - 1, 0, -1):
        for x in range(SIZE):
            row.bombs[y, x] = row.bombs[y - 1, x]
    for x in range(SIZE):
        row.shots[SIZE - 1, x] = False
        row.bombs[0, x] = False
    dead = row.bombs[SIZE - 1, row.x] != 0
    hits = shoot(row)
    if row.move_timer == 0:
        row.move_timer = min(count(row), row.interval)
        dead = march(row) or dead
        hits += shoot(row)
    if row.bomb_timer == 0:
        row.bomb_timer = BOMB_EVERY
        drop_bomb(row, rng)
    if row.cooldown > 0:
        row.cooldown -= 1
    row.move_timer -= 1
    row.bomb_timer -= 1
    if count(row) == 0:
        row.interval = max(row.interval - 1, FASTEST)
        new_wave(row, rng)
    return float(hits), dead


@njit
def observe(row, obs):
    obs[0, SIZE - 1, row.x] = 1
    side = 2 if row.direction < 0 else 3
    for y in range(SIZE):
        for x in range(SIZE):
            obs[1, y, x] = row.aliens[y, x]
            obs[side, y, x] = row.aliens[y, x]
            obs[4, y, x] = row.shots[y, x]
            obs[5, y, x] = row.bombs[y, x]


LOOP = RowLoop(
    [
        *((name, np.uint8, (SIZE, SIZE)) for name in ("aliens", "shots", "bombs")),
        *((name, np.int64) for name in ("x", "direction", "interval", "move_timer", "bomb_timer", "cooldown")),
    ],
    reset,
    step,
    observe,
    spaces.Box(0, 1, (6, SIZE, SIZE), np.uint8),
    spaces.Discrete(4),
    1000,
)
