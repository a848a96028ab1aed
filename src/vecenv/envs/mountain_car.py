"""MountainCar: swing an underpowered car out of a valley. Bit-equal to Gymnasium's."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import uniform

MIN_POSITION, MAX_POSITION, GOAL_POSITION = -1.2, 0.6, 0.5
MAX_SPEED = 0.07
FORCE = 0.001
GRAVITY = 0.0025


@kernel("MountainCar-v0", max_episode_steps=200)
class MountainCar:
    """Position and velocity."""

    observation_space = Box(
        np.array([MIN_POSITION, -MAX_SPEED], np.float32), np.array([MAX_POSITION, MAX_SPEED], np.float32)
    )
    action_space = Discrete(3)
    state: ClassVar = {"position": float, "velocity": float}

    class Params:
        """`low` and `high` are reset options."""

        goal_velocity = 0.0
        low = -0.6
        high = -0.4

    bounds: ClassVar = {"low": (-1e6, 1e6), "high": (-1e6, 1e6)}

    def configure(goal_velocity=0):
        return {"goal_velocity": goal_velocity}

    def reset(s, rng, p):
        """At rest, near the bottom."""
        s.position = uniform(rng, p.low, p.high)
        s.velocity = 0.0

    def step(s, action, rng, p):
        """Push to the left (0), not at all (1) or to the right (2)."""
        velocity = s.velocity + ((action - 1) * FORCE + math.cos(3 * s.position) * (-GRAVITY))
        velocity = min(max(velocity, -MAX_SPEED), MAX_SPEED)
        position = min(max(s.position + velocity, MIN_POSITION), MAX_POSITION)
        s.position = position
        s.velocity = 0.0 if position == MIN_POSITION and velocity < 0 else velocity
        return -1.0, position >= GOAL_POSITION and s.velocity >= p.goal_velocity

    def observe(s, obs, p):
        obs[0] = s.position
        obs[1] = s.velocity
