"""N-body in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import normal, uniform

BODIES = 6
DT, SOFTENING, BOUND, CRASH = 0.02, 0.01, 3.0, 0.1
THRUST = 2.0
PUSH = float(np.float32(DT * THRUST))


@vecenv.kernel("Loops-NBody-v0", max_episode_steps=500)
class NBody:
    observation_space = spaces.Box(-np.inf, np.inf, (2, BODIES, 2), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    state = {
        "position": (float, (6, 2)),
        "velocity": (float, (6, 2)),
        "mass": (float, (6,)),
    }

    def reset(s, rng, p):
        for body in range(BODIES):
            for axis in range(2):
                s.position[body, axis] = uniform(rng, -1.5, 1.5)
        for body in range(BODIES):
            for axis in range(2):
                s.velocity[body, axis] = 0.3 * normal(rng, 0.0, 1.0)
        for body in range(BODIES):
            s.mass[body] = uniform(rng, 0.2, 1.0)
        s.mass[0] = 0.01

    def step(s, action, rng, p):
        position, velocity = s.position, s.velocity
        kick(s)
        velocity[0, 0] += float(np.float32(PUSH * action[0]))
        velocity[0, 1] += float(np.float32(PUSH * action[1]))
        for body in range(BODIES):
            position[body, 0] += DT * velocity[body, 0]
            position[body, 1] += DT * velocity[body, 1]
        kick(s)
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

    def observe(s, obs, p):
        for body in range(BODIES):
            for axis in range(2):
                obs[0, body, axis] = s.position[body, axis]
                obs[1, body, axis] = s.velocity[body, axis]


def kick(s):
    """Half a step of acceleration."""
    position, velocity, mass = s.position, s.velocity, s.mass
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
