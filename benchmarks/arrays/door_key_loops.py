"""DoorKey in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import integers

SIZE = 8
LIMIT = 300
FLOOR, WALL, DOOR, OPEN_DOOR, KEY, GOAL = 0, 1, 2, 3, 4, 5
KINDS = 6
TURN_LEFT, TURN_RIGHT, FORWARD, PICK_UP, OPEN = 0, 1, 2, 3, 4
DOWN_OF = (0, 1, 0, -1)
RIGHT_OF = (1, 0, -1, 0)


@vecenv.kernel("Loops-DoorKey-v0", max_episode_steps=LIMIT)
class DoorKey:
    observation_space = spaces.Box(0, 1, (KINDS + 4, SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(5)
    state = {
        "grid": (np.int8, (8, 8)),
        "y": int,
        "x": int,
        "direction": int,
        "steps": int,
        "has_key": bool,
    }

    def reset(s, rng, p):
        wall = integers(rng, 2, SIZE - 2)
        for y in range(SIZE):
            for x in range(SIZE):
                edge = y == 0 or y == SIZE - 1 or x == 0 or x == SIZE - 1 or x == wall
                s.grid[y, x] = WALL if edge else FLOOR
        s.grid[integers(rng, 1, SIZE - 1), wall] = DOOR
        s.grid[SIZE - 2, SIZE - 2] = GOAL
        y, x = free_cell(s.grid, wall, rng)
        s.grid[y, x] = KEY
        s.y, s.x = free_cell(s.grid, wall, rng)
        s.direction = integers(rng, 0, 4)
        s.has_key = False
        s.steps = 0

    def step(s, action, rng, p):
        s.steps += 1
        y = s.y + DOWN_OF[s.direction]
        x = s.x + RIGHT_OF[s.direction]
        cell = s.grid[y, x]
        if action == TURN_LEFT:
            s.direction = (s.direction + 3) % 4
        elif action == TURN_RIGHT:
            s.direction = (s.direction + 1) % 4
        elif action == FORWARD:
            if cell == FLOOR or cell == OPEN_DOOR or cell == GOAL:
                s.y = y
                s.x = x
                if cell == GOAL:
                    return 1.0 - 0.9 * s.steps / LIMIT, True
        elif action == PICK_UP:
            if cell == KEY:
                s.grid[y, x] = FLOOR
                s.has_key = True
        elif cell == DOOR and s.has_key:
            s.grid[y, x] = OPEN_DOOR
        return 0.0, False

    def observe(s, obs, p):
        for y in range(SIZE):
            for x in range(SIZE):
                obs[s.grid[y, x], y, x] = 1
        obs[KINDS + s.direction, s.y, s.x] = 1


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
