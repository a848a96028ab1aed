"""DoorKey as a hand-written row loop."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, integers

SIZE = 8
LIMIT = 300
FLOOR, WALL, DOOR, OPEN_DOOR, KEY, GOAL = 0, 1, 2, 3, 4, 5
KINDS = 6
TURN_LEFT, TURN_RIGHT, FORWARD, PICK_UP, OPEN = 0, 1, 2, 3, 4
DOWN_OF = (0, 1, 0, -1)
RIGHT_OF = (1, 0, -1, 0)


@njit
def free_cell(grid, wall, rng):
    free = 0
    for y in range(SIZE):
        for x in range(wall):
            free += grid[y, x] == FLOOR
    chosen = integers(rng, 0, free)
    for y in range(SIZE):
        for x in range(wall):
            if grid[y, x] == FLOOR:
                if chosen == 0:
                    return y, x
                chosen -= 1
    return 0, 0


@njit
def reset(row, rng):
    wall = integers(rng, 2, SIZE - 2)
    for y in range(SIZE):
        for x in range(SIZE):
            edge = y == 0 or y == SIZE - 1 or x == 0 or x == SIZE - 1 or x == wall
            row.grid[y, x] = WALL if edge else FLOOR
    row.grid[integers(rng, 1, SIZE - 1), wall] = DOOR
    row.grid[SIZE - 2, SIZE - 2] = GOAL
    y, x = free_cell(row.grid, wall, rng)
    row.grid[y, x] = KEY
    row.y, row.x = free_cell(row.grid, wall, rng)
    row.direction = integers(rng, 0, 4)
    row.has_key = False
    row.steps = 0


@njit
def step(row, action, rng):
    row.steps += 1
    y = row.y + DOWN_OF[row.direction]
    x = row.x + RIGHT_OF[row.direction]
    cell = row.grid[y, x]
    if action == TURN_LEFT:
        row.direction = (row.direction + 3) % 4
    elif action == TURN_RIGHT:
        row.direction = (row.direction + 1) % 4
    elif action == FORWARD:
        if cell == FLOOR or cell == OPEN_DOOR or cell == GOAL:
            row.y = y
            row.x = x
            if cell == GOAL:
                return 1.0 - 0.9 * row.steps / LIMIT, True
    elif action == PICK_UP:
        if cell == KEY:
            row.grid[y, x] = FLOOR
            row.has_key = True
    elif cell == DOOR and row.has_key:
        row.grid[y, x] = OPEN_DOOR
    return 0.0, False


@njit
def observe(row, obs):
    for y in range(SIZE):
        for x in range(SIZE):
            obs[row.grid[y, x], y, x] = 1
    obs[KINDS + row.direction, row.y, row.x] = 1


LOOP = RowLoop(
    [
        ("grid", np.int8, (SIZE, SIZE)),
        *((name, np.int64) for name in ("y", "x", "direction", "steps")),
        ("has_key", np.bool_),
    ],
    reset,
    step,
    observe,
    spaces.Box(0, 1, (KINDS + 4, SIZE, SIZE), np.uint8),
    spaces.Discrete(5),
    LIMIT,
)
