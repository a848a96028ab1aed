"""N-body in natural NumPy: keep a ship near the centre of mass of planets that attract it, without a collision."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

import vecenv

BODIES = 6
DT, SOFTENING, BOUND, CRASH = 0.02, 0.01, 3.0, 0.1


@vecenv.kernel("Arrays-NBody-v0", max_episode_steps=500)
class NBody:
    """Positions and velocities of all bodies; the ship is body 0. Action: its thrust in both directions."""

    observation_space = spaces.Box(-np.inf, np.inf, (2, BODIES, 2), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    state = {"position": (float, (BODIES, 2)), "velocity": (float, (BODIES, 2)), "mass": (float, (BODIES,))}

    class Params:
        thrust = 2.0

    def reset(s, rng, p):
        s.position = rng.uniform(-1.5, 1.5, size=(BODIES, 2))
        s.velocity = 0.3 * rng.standard_normal((BODIES, 2))
        s.mass = rng.uniform(0.2, 1.0, size=BODIES)
        s.mass[0] = 0.01

    def step(s, action, rng, p):
        s.velocity += 0.5 * DT * acceleration(s.position, s.mass)
        s.velocity[0] += DT * p.thrust * action
        s.position += DT * s.velocity
        s.velocity += 0.5 * DT * acceleration(s.position, s.mass)
        planets = s.position[1:]
        offset = s.position[0] - planets.mean(axis=0)
        nearest = ((planets - s.position[0]) ** 2).sum(axis=1).min()
        lost = np.abs(s.position[0]).max() > BOUND
        reward = -math.sqrt((offset**2).sum())
        return reward, lost or nearest < CRASH**2

    def observe(s, obs, p):
        obs[0] = s.position
        obs[1] = s.velocity


def acceleration(position, mass):
    away = position[None, :, :] - position[:, None, :]
    square = (away**2).sum(axis=2) + SOFTENING
    pull = mass / (square * np.sqrt(square))
    return (pull[:, :, None] * away).sum(axis=1)
