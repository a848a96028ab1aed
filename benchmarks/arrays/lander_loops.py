"""The lander in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import normal, uniform

POINTS = 11
DT, GRAVITY, MAIN, SIDE, TORQUE = 0.02, 1.6, 4.0, 0.6, 3.0
LEG_X, LEG_Y = 0.1, -0.1
STAY, LEFT, UP, RIGHT = 0, 1, 2, 3
WIND = 0.1


@vecenv.kernel("Loops-Lander-v0", max_episode_steps=1000)
class Lander:
    observation_space = spaces.Box(-np.inf, np.inf, (8 + POINTS,), np.float32)
    action_space = spaces.Discrete(4)
    state = {
        "x": float,
        "y": float,
        "speed_x": float,
        "speed_y": float,
        "angle": float,
        "spin": float,
        "shaping": float,
        "left_leg": bool,
        "right_leg": bool,
        "ground": (float, (11,)),
    }

    def reset(s, rng, p):
        before = uniform(rng, 0.0, 0.3)
        here = uniform(rng, 0.0, 0.3)
        for point in range(POINTS):
            after = uniform(rng, 0.0, 0.3)
            s.ground[point] = (before + here + after) / 3.0
            before = here
            here = after
        pad = min(s.ground[4], s.ground[5], s.ground[6])
        for point in range(4, 7):
            s.ground[point] = pad
        s.x = uniform(rng, -0.3, 0.3)
        s.y = 1.4
        s.speed_x = uniform(rng, -0.3, 0.3)
        s.speed_y = uniform(rng, -0.3, 0.3)
        s.angle = uniform(rng, -0.1, 0.1)
        s.spin = 0.0
        s.left_leg = False
        s.right_leg = False
        s.shaping = shaping(s)

    def step(s, action, rng, p):
        sine = math.sin(s.angle)
        cosine = math.cos(s.angle)
        aside = 0.0
        up = 0.0
        if action == UP:
            up = MAIN
        elif action == LEFT or action == RIGHT:
            side = -1.0 if action == LEFT else 1.0
            aside = side * SIDE
            s.spin -= side * TORQUE * DT
        wind = WIND * normal(rng, 0.0, 1.0)
        s.speed_x += DT * (cosine * aside + -sine * up + wind)
        s.speed_y += DT * (sine * aside + cosine * up - GRAVITY)
        s.x += DT * s.speed_x
        s.y += DT * s.speed_y
        s.angle += DT * s.spin

        sine = math.sin(s.angle)
        cosine = math.cos(s.angle)
        left_x = s.x + (-LEG_X * cosine + LEG_Y * -sine)
        left_y = s.y + (-LEG_X * sine + LEG_Y * cosine)
        right_x = s.x + (LEG_X * cosine + LEG_Y * -sine)
        right_y = s.y + (LEG_X * sine + LEG_Y * cosine)
        left_depth = height(s.ground, left_x) - left_y
        right_depth = height(s.ground, right_x) - right_y
        s.left_leg = left_depth >= 0.0
        s.right_leg = right_depth >= 0.0
        hard = abs(s.speed_y) > 0.6 or abs(s.angle) > 0.5
        down = s.left_leg or s.right_leg
        outside = abs(s.x) > 1.0 or s.y > 2.0
        crashed = down and hard
        landed = s.left_leg and s.right_leg and not hard
        if down and not hard:
            s.y += max(max(left_depth, 0.0), max(right_depth, 0.0))
            s.speed_x *= 0.5
            s.speed_y *= 0.5
            s.spin *= 0.5
        before = s.shaping
        s.shaping = shaping(s)
        reward = s.shaping - before - (0.03 if action == UP else 0.003 if action != STAY else 0.0)
        resting = landed and max(abs(s.speed_x), abs(s.speed_y)) < 0.02
        if crashed or outside:
            reward -= 100.0
        elif resting:
            reward += 100.0
        return reward, crashed or outside or resting

    def observe(s, obs, p):
        obs[0] = s.x
        obs[1] = s.y
        obs[2] = s.speed_x
        obs[3] = s.speed_y
        obs[4] = s.angle
        obs[5] = s.spin
        obs[6] = s.left_leg
        obs[7] = s.right_leg
        for point in range(POINTS):
            obs[8 + point] = s.ground[point]


def height(ground, x):
    place = min(max((x + 1.0) * 0.5 * (POINTS - 1), 0.0), POINTS - 1.0)
    left = min(int(place), POINTS - 2)
    share = place - left
    return (1.0 - share) * ground[left] + share * ground[left + 1]


def shaping(s):
    dx = s.x
    dy = s.y - (s.ground[5] + 0.1)
    distance = math.sqrt(dx * dx + dy * dy)
    speed = math.sqrt(s.speed_x * s.speed_x + s.speed_y * s.speed_y)
    legs = s.left_leg + s.right_leg
    return -100.0 * (distance + speed + abs(s.angle)) + 10.0 * legs
