"""N-body as a hand-written row loop. Sums are in the order of NumPy's."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, normal, uniform

BODIES = 6
DT, SOFTENING, BOUND, CRASH = 0.02, 0.01, 3.0, 0.1
THRUST = 2.0
PUSH = np.float32(DT * THRUST)


@njit
def kick(row):
    """Half a step of acceleration."""
    position, velocity, mass = row.position, row.velocity, row.mass
    for body in range(BODIES):
        down = 0.0
        right = 0.0
        for other in range(BODIES):
            dy = position[other, 0] - position[body, 0]
            dx = position[other, 1] - position[body, 1]
            square = dy * dy + dx * dx + SOFTENING
            pull = mass[other] / (square * math.sqrt(square))
            down += pull * dy
            right += pull * dx
        velocity[body, 0] += 0.5 * DT * down
        velocity[body, 1] += 0.5 * DT * right


@njit
def reset(row, rng):
    for body in range(BODIES):
        for axis in range(2):
            row.position[body, axis] = uniform(rng, -1.5, 1.5)
    for body in range(BODIES):
        for axis in range(2):
            row.velocity[body, axis] = 0.3 * normal(rng, 0.0, 1.0)
    for body in range(BODIES):
        row.mass[body] = uniform(rng, 0.2, 1.0)
    row.mass[0] = 0.01


@njit
def step(row, action, rng):
    position, velocity = row.position, row.velocity
    kick(row)
    velocity[0, 0] += PUSH * action[0]
    velocity[0, 1] += PUSH * action[1]
    for body in range(BODIES):
        position[body, 0] += DT * velocity[body, 0]
        position[body, 1] += DT * velocity[body, 1]
    kick(row)
    middle_y = 0.0
    middle_x = 0.0
    nearest = math.inf
    for body in range(1, BODIES):
        middle_y += position[body, 0]
        middle_x += position[body, 1]
        dy = position[body, 0] - position[0, 0]
        dx = position[body, 1] - position[0, 1]
        nearest = min(nearest, dy * dy + dx * dx)
    dy = position[0, 0] - middle_y / (BODIES - 1)
    dx = position[0, 1] - middle_x / (BODIES - 1)
    lost = max(abs(position[0, 0]), abs(position[0, 1])) > BOUND
    return -math.sqrt(dy * dy + dx * dx), lost or nearest < CRASH**2


@njit
def observe(row, obs):
    for body in range(BODIES):
        for axis in range(2):
            obs[0, body, axis] = row.position[body, axis]
            obs[1, body, axis] = row.velocity[body, axis]


LOOP = RowLoop(
    [("position", float, (BODIES, 2)), ("velocity", float, (BODIES, 2)), ("mass", float, (BODIES,))],
    reset,
    step,
    observe,
    spaces.Box(-np.inf, np.inf, (2, BODIES, 2), np.float32),
    spaces.Box(-1.0, 1.0, (2,), np.float32),
    500,
)
