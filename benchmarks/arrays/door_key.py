"""DoorKey in natural NumPy: fetch a key, open the door, reach the goal behind it."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv

SIZE = 8
LIMIT = 300
FLOOR, WALL, DOOR, OPEN_DOOR, KEY, GOAL = 0, 1, 2, 3, 4, 5
KINDS = 6
TURN_LEFT, TURN_RIGHT, FORWARD, PICK_UP, OPEN = 0, 1, 2, 3, 4
WAYS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])


@vecenv.kernel("Arrays-DoorKey-v0", max_episode_steps=LIMIT)
class DoorKey:
    """A plane for each kind of cell, then one for each direction of the agent, with a 1 at its place."""

    observation_space = spaces.Box(0, 1, (KINDS + 4, SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(5)
    state = {
        "grid": (np.int8, (SIZE, SIZE)),
        "place": (int, (2,)),
        "direction": int,
        "has_key": bool,
        "steps": int,
    }

    def reset(s, rng, p):
        s.grid[:] = WALL
        s.grid[1:-1, 1:-1] = FLOOR
        wall = rng.integers(2, SIZE - 3, endpoint=True)
        s.grid[:, wall] = WALL
        s.grid[rng.integers(1, SIZE - 1), wall] = DOOR
        s.grid[-2, -2] = GOAL
        s.grid[free_cell(s.grid[:, :wall], rng)] = KEY
        s.place = free_cell(s.grid[:, :wall], rng)
        s.direction = rng.choice(4)
        s.has_key = False
        s.steps = 0

    def step(s, action, rng, p):
        s.steps += 1
        ahead = s.place + WAYS[s.direction]
        y, x = ahead
        cell = s.grid[y, x]
        if action in (TURN_LEFT, TURN_RIGHT):
            s.direction = (s.direction + (1 if action == TURN_RIGHT else -1)) % 4
        elif action == FORWARD and cell in (FLOOR, OPEN_DOOR, GOAL):
            s.place = ahead
            if cell == GOAL:
                return 1.0 - 0.9 * s.steps / LIMIT, True
        elif action == PICK_UP and cell == KEY:
            s.grid[y, x] = FLOOR
            s.has_key = True
        elif action == OPEN and cell == DOOR and s.has_key:
            s.grid[y, x] = OPEN_DOOR
        return 0.0, False

    def observe(s, obs, p):
        for kind in range(KINDS):
            obs[kind] = s.grid == kind
        y, x = s.place
        obs[KINDS + s.direction, y, x] = 1


def free_cell(grid, rng):
    """Row and column of a random floor cell."""
    y, x = rng.choice(np.argwhere(grid == FLOOR))
    return y, x
