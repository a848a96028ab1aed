"""Acrobot: swing the lower of two links up by the joint between them. Bit-equal to Gymnasium's."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.envs._numpy import cosine_single, sine_single, single
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import uniform

SECONDS = 0.2
HALF, SIXTH = SECONDS / 2.0, SECONDS / 6.0
LENGTH = MASS = INERTIA = 1.0
CENTER = 0.5
CENTER_2 = CENTER * CENTER
GRAVITY = 9.8
MAX_SPIN_1, MAX_SPIN_2 = 4 * math.pi, 9 * math.pi
MANY_TURNS = 1e9
BOUNDS = np.array([1.0, 1.0, 1.0, 1.0, MAX_SPIN_1, MAX_SPIN_2], np.float32)


def slopes(angle_1, angle_2, spin_1, spin_2, torque):
    """Derivatives of angles and spins, after the book of Sutton and Barto."""
    cosine, sine = math.cos(angle_2), math.sin(angle_2)
    upper = MASS * CENTER_2 + MASS * (LENGTH + CENTER_2 + 2 * LENGTH * CENTER * cosine) + INERTIA + INERTIA
    lower = MASS * (CENTER_2 + LENGTH * CENTER * cosine) + INERTIA
    weight_2 = MASS * CENTER * GRAVITY * math.cos(angle_1 + angle_2 - math.pi / 2.0)
    weight_1 = (
        -MASS * LENGTH * CENTER * spin_2**2 * sine
        - 2 * MASS * LENGTH * CENTER * spin_2 * spin_1 * sine
        + (MASS * CENTER + MASS * LENGTH) * GRAVITY * math.cos(angle_1 - math.pi / 2)
        + weight_2
    )
    change_2 = (torque + lower / upper * weight_1 - MASS * LENGTH * CENTER * spin_1**2 * sine - weight_2) / (
        MASS * CENTER_2 + INERTIA - lower**2 / upper
    )
    change_1 = -(lower * change_2 + weight_1) / upper
    return spin_1, spin_2, change_1, change_2


def slopes_after(seconds, s, slope, torque):
    """The derivatives at the state that is reached by following a derivative for some seconds."""
    return slopes(
        s.angle_1 + seconds * slope[0],
        s.angle_2 + seconds * slope[1],
        s.spin_1 + seconds * slope[2],
        s.spin_2 + seconds * slope[3],
        torque,
    )


def wrapped(angle):
    """The angle in -pi ... pi, by whole turns one at a time, as in Gymnasium; not by millions of them."""
    if abs(angle) > MANY_TURNS:
        angle = angle % (2 * math.pi)
    while angle > math.pi:
        angle = angle - 2 * math.pi
    while angle < -math.pi:
        angle = angle + 2 * math.pi
    return angle


@kernel("Acrobot-v1", max_episode_steps=500)
class Acrobot:
    """Angle of the upper link from hanging, of the lower one from the upper, and both spins.

    After a reset they are float32 (`narrow`), and so are Gymnasium's sines and cosines of them.
    """

    observation_space = Box(-BOUNDS, BOUNDS, dtype=np.float32)
    action_space = Discrete(3)
    state: ClassVar = {"angle_1": float, "angle_2": float, "spin_1": float, "spin_2": float, "narrow": bool}

    class Params:
        """`low` and `high` are reset options."""

        low = -0.1
        high = 0.1

    bounds: ClassVar = {"low": (-1e6, 1e6), "high": (-1e6, 1e6)}

    def configure():
        """Gymnasium's env has no arguments."""
        return {}

    def reset(s, rng, p):
        """Hanging, nearly at rest."""
        s.angle_1 = single(uniform(rng, p.low, p.high))
        s.angle_2 = single(uniform(rng, p.low, p.high))
        s.spin_1 = single(uniform(rng, p.low, p.high))
        s.spin_2 = single(uniform(rng, p.low, p.high))
        s.narrow = True

    def step(s, action, rng, p):
        """Turn the joint by -1, 0 or 1: one step of Runge and Kutta's fourth order."""
        torque = action - 1.0
        first = slopes(s.angle_1, s.angle_2, s.spin_1, s.spin_2, torque)
        second = slopes_after(HALF, s, first, torque)
        third = slopes_after(HALF, s, second, torque)
        fourth = slopes_after(SECONDS, s, third, torque)
        s.angle_1 = wrapped(s.angle_1 + SIXTH * (first[0] + 2 * second[0] + 2 * third[0] + fourth[0]))
        s.angle_2 = wrapped(s.angle_2 + SIXTH * (first[1] + 2 * second[1] + 2 * third[1] + fourth[1]))
        spin_1 = s.spin_1 + SIXTH * (first[2] + 2 * second[2] + 2 * third[2] + fourth[2])
        spin_2 = s.spin_2 + SIXTH * (first[3] + 2 * second[3] + 2 * third[3] + fourth[3])
        s.spin_1 = min(max(spin_1, -MAX_SPIN_1), MAX_SPIN_1)
        s.spin_2 = min(max(spin_2, -MAX_SPIN_2), MAX_SPIN_2)
        s.narrow = False
        terminated = -math.cos(s.angle_1) - math.cos(s.angle_2 + s.angle_1) > 1.0
        return 0.0 if terminated else -1.0, terminated

    def observe(s, obs, p):
        """Where both links point, and their spins."""
        if s.narrow:
            obs[0] = cosine_single(s.angle_1)
            obs[1] = sine_single(s.angle_1)
            obs[2] = cosine_single(s.angle_2)
            obs[3] = sine_single(s.angle_2)
        else:
            obs[0] = math.cos(s.angle_1)
            obs[1] = math.sin(s.angle_1)
            obs[2] = math.cos(s.angle_2)
            obs[3] = math.sin(s.angle_2)
        obs[4] = s.spin_1
        obs[5] = s.spin_2
