"""A lander in natural NumPy: a body with two legs, three engines and a random ground below it."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

import vecenv

POINTS = 11
"""Corners of the ground, which is as wide as from -1 to 1."""
DT, GRAVITY, MAIN, SIDE, TORQUE = 0.02, 1.6, 4.0, 0.6, 3.0
LEGS = np.array([(-0.1, -0.1), (0.1, -0.1)])
STAY, LEFT, UP, RIGHT = 0, 1, 2, 3


@vecenv.kernel("Arrays-Lander-v0", max_episode_steps=1000)
class Lander:
    """Position, velocity, angle, spin, contact of both legs, and the ground."""

    observation_space = spaces.Box(-np.inf, np.inf, (8 + POINTS,), np.float32)
    action_space = spaces.Discrete(4)
    state = {
        "position": (float, (2,)),
        "velocity": (float, (2,)),
        "angle": float,
        "spin": float,
        "contact": (bool, (2,)),
        "ground": (float, (POINTS,)),
        "shaping": float,
    }

    class Params:
        wind = 0.1

    def reset(s, rng, p):
        rough = rng.uniform(0.0, 0.3, size=POINTS + 2)
        s.ground = (rough[:-2] + rough[1:-1] + rough[2:]) / 3.0
        s.ground[4:7] = s.ground[4:7].min()
        s.position[:] = (rng.uniform(-0.3, 0.3), 1.4)
        s.velocity = rng.uniform(-0.3, 0.3, size=2)
        s.angle = rng.uniform(-0.1, 0.1)
        s.spin = 0.0
        s.contact[:] = False
        s.shaping = shaping(s)

    def step(s, action, rng, p):
        turn = rotation(s.angle)
        push = np.zeros(2)
        if action == UP:
            push[1] = MAIN
        elif action in (LEFT, RIGHT):
            side = -1.0 if action == LEFT else 1.0
            push[0] = side * SIDE
            s.spin -= side * TORQUE * DT
        wind = np.array([p.wind * rng.normal(), 0.0])
        s.velocity += DT * (turn @ push + wind - np.array([0.0, GRAVITY]))
        s.position += DT * s.velocity
        s.angle += DT * s.spin

        feet = s.position + LEGS @ rotation(s.angle).T
        depth = np.zeros(2)
        for leg, foot in enumerate(feet):
            depth[leg] = height(s.ground, foot[0]) - foot[1]
        s.contact = depth >= 0.0
        hard = abs(s.velocity[1]) > 0.6 or abs(s.angle) > 0.5
        down = s.contact.any()
        outside = abs(s.position[0]) > 1.0 or s.position[1] > 2.0
        crashed = down and hard
        landed = s.contact.all() and not hard
        if down and not hard:
            s.position[1] += np.maximum(depth, 0.0).max()
            s.velocity *= 0.5
            s.spin *= 0.5
        before = s.shaping
        s.shaping = shaping(s)
        reward = s.shaping - before - (0.03 if action == UP else 0.003 if action != STAY else 0.0)
        resting = landed and np.abs(s.velocity).max() < 0.02
        if crashed or outside:
            reward -= 100.0
        elif resting:
            reward += 100.0
        return reward, crashed or outside or resting

    def observe(s, obs, p):
        obs[0:2] = s.position
        obs[2:4] = s.velocity
        obs[4:6] = (s.angle, s.spin)
        obs[6:8] = s.contact
        obs[8:] = s.ground


def rotation(angle):
    sine, cosine = math.sin(angle), math.cos(angle)
    return np.array([[cosine, -sine], [sine, cosine]])


def height(ground, x):
    """Of the ground below a point; it goes on flat beyond its ends."""
    place = np.clip((x + 1.0) * 0.5 * (POINTS - 1), 0.0, POINTS - 1.0)
    left = min(int(place), POINTS - 2)
    share = place - left
    return (1.0 - share) * ground[left] + share * ground[left + 1]


def shaping(s):
    """Better the nearer, slower and more upright the lander is, and the more legs stand."""
    pad = np.array([0.0, s.ground[5] + 0.1])
    distance = math.sqrt(((s.position - pad) ** 2).sum())
    speed = math.sqrt((s.velocity**2).sum())
    return -100.0 * (distance + speed + abs(s.angle)) + 10.0 * s.contact.sum()
