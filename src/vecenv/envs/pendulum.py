"""Pendulum: swing it up and keep it there. Bit-equal to Gymnasium's."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box

from vecenv.envs._numpy import KEEPS_SINGLE, single, squared_single
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import uniform

MAX_SPEED = 8.0
MAX_TORQUE = 2.0
SECONDS = 0.05
BOUNDS = np.array([1.0, 1.0, MAX_SPEED], np.float32)


@kernel("Pendulum-v1", max_episode_steps=200)
class Pendulum:
    """Angle from upright, and its velocity."""

    observation_space = Box(-BOUNDS, BOUNDS, dtype=np.float32)
    action_space = Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)
    state: ClassVar = {"theta": float, "theta_dot": float}

    class Params:
        """`x_init` and `y_init` are reset options: the largest angle and speed to begin with."""

        g = 10.0
        x_init = math.pi
        y_init = 1.0

    bounds: ClassVar = {"x_init": (0.0, 1e6), "y_init": (0.0, 1e6)}

    def configure(g=10.0):
        return {"g": g}

    def reset(s, rng, p):
        """At a random angle, with a small velocity."""
        s.theta = uniform(rng, -p.x_init, p.x_init)
        s.theta_dot = uniform(rng, -p.y_init, p.y_init)

    def step(s, action, rng, p):
        """Turn with a torque of -2 ... 2. It is a float32, and NumPy 2 computes in float32 from it alone."""
        torque = min(max(action[0], -MAX_TORQUE), MAX_TORQUE)
        upright = (s.theta + math.pi) % (2 * math.pi) - math.pi
        if KEEPS_SINGLE:
            effort = single(single(0.001) * squared_single(torque))
            push = single(3.0 * torque)
        else:
            effort = 0.001 * torque**2
            push = 3.0 * torque
        cost = upright**2 + 0.1 * s.theta_dot**2 + effort
        spin = s.theta_dot + (3 * p.g / 2.0 * math.sin(s.theta) + push) * SECONDS
        s.theta_dot = min(max(spin, -MAX_SPEED), MAX_SPEED)
        s.theta += s.theta_dot * SECONDS
        return -cost, False

    def observe(s, obs, p):
        """Where the tip is, and how fast it turns."""
        obs[0] = math.cos(s.theta)
        obs[1] = math.sin(s.theta)
        obs[2] = s.theta_dot
