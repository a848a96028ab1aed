"""The lander as a hand-written row loop."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces
from numba import njit

from arrays.rows import RowLoop, normal, uniform

POINTS = 11
DT, GRAVITY, MAIN, SIDE, TORQUE = 0.02, 1.6, 4.0, 0.6, 3.0
LEG_X, LEG_Y = 0.1, -0.1
STAY, LEFT, UP, RIGHT = 0, 1, 2, 3
WIND = 0.1


@njit
def height(ground, x):
    place = min(max((x + 1.0) * 0.5 * (POINTS - 1), 0.0), POINTS - 1.0)
    left = min(int(place), POINTS - 2)
    share = place - left
    return (1.0 - share) * ground[left] + share * ground[left + 1]


@njit
def shaping(row):
    dx = row.x
    dy = row.y - (row.ground[5] + 0.1)
    distance = math.sqrt(dx * dx + dy * dy)
    speed = math.sqrt(row.speed_x * row.speed_x + row.speed_y * row.speed_y)
    legs = row.left_leg + row.right_leg
    return -100.0 * (distance + speed + abs(row.angle)) + 10.0 * legs


@njit
def reset(row, rng):
    before = uniform(rng, 0.0, 0.3)
    here = uniform(rng, 0.0, 0.3)
    for point in range(POINTS):
        after = uniform(rng, 0.0, 0.3)
        row.ground[point] = (before + here + after) / 3.0
        before = here
        here = after
    pad = min(row.ground[4], row.ground[5], row.ground[6])
    for point in range(4, 7):
        row.ground[point] = pad
    row.x = uniform(rng, -0.3, 0.3)
    row.y = 1.4
    row.speed_x = uniform(rng, -0.3, 0.3)
    row.speed_y = uniform(rng, -0.3, 0.3)
    row.angle = uniform(rng, -0.1, 0.1)
    row.spin = 0.0
    row.left_leg = False
    row.right_leg = False
    row.shaping = shaping(row)


@njit
def step(row, action, rng):
    sine = math.sin(row.angle)
    cosine = math.cos(row.angle)
    aside = 0.0
    up = 0.0
    if action == UP:
        up = MAIN
    elif action == LEFT or action == RIGHT:
        side = -1.0 if action == LEFT else 1.0
        aside = side * SIDE
        row.spin -= side * TORQUE * DT
    wind = WIND * normal(rng, 0.0, 1.0)
    row.speed_x += DT * (cosine * aside + -sine * up + wind)
    row.speed_y += DT * (sine * aside + cosine * up - GRAVITY)
    row.x += DT * row.speed_x
    row.y += DT * row.speed_y
    row.angle += DT * row.spin

    sine = math.sin(row.angle)
    cosine = math.cos(row.angle)
    left_x = row.x + (-LEG_X * cosine + LEG_Y * -sine)
    left_y = row.y + (-LEG_X * sine + LEG_Y * cosine)
    right_x = row.x + (LEG_X * cosine + LEG_Y * -sine)
    right_y = row.y + (LEG_X * sine + LEG_Y * cosine)
    left_depth = height(row.ground, left_x) - left_y
    right_depth = height(row.ground, right_x) - right_y
    row.left_leg = left_depth >= 0.0
    row.right_leg = right_depth >= 0.0
    hard = abs(row.speed_y) > 0.6 or abs(row.angle) > 0.5
    down = row.left_leg or row.right_leg
    outside = abs(row.x) > 1.0 or row.y > 2.0
    crashed = down and hard
    landed = row.left_leg and row.right_leg and not hard
    if down and not hard:
        row.y += max(max(left_depth, 0.0), max(right_depth, 0.0))
        row.speed_x *= 0.5
        row.speed_y *= 0.5
        row.spin *= 0.5
    before = row.shaping
    row.shaping = shaping(row)
    reward = row.shaping - before - (0.03 if action == UP else 0.003 if action != STAY else 0.0)
    resting = landed and max(abs(row.speed_x), abs(row.speed_y)) < 0.02
    if crashed or outside:
        reward -= 100.0
    elif resting:
        reward += 100.0
    return reward, crashed or outside or resting


@njit
def observe(row, obs):
    obs[0] = row.x
    obs[1] = row.y
    obs[2] = row.speed_x
    obs[3] = row.speed_y
    obs[4] = row.angle
    obs[5] = row.spin
    obs[6] = row.left_leg
    obs[7] = row.right_leg
    for point in range(POINTS):
        obs[8 + point] = row.ground[point]


LOOP = RowLoop(
    [
        *((name, float) for name in ("x", "y", "speed_x", "speed_y", "angle", "spin", "shaping")),
        ("left_leg", np.bool_),
        ("right_leg", np.bool_),
        ("ground", float, (POINTS,)),
    ],
    reset,
    step,
    observe,
    spaces.Box(-np.inf, np.inf, (8 + POINTS,), np.float32),
    spaces.Discrete(4),
    1000,
)
