"""MountainCarContinuous: MountainCar with a force to choose. Bit-equal to Gymnasium's.

In Gymnasium the state is float64 after a reset and float32 after a step, and NumPy 2 computes in either precision.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box

from vecenv.envs._numpy import KEEPS_SINGLE, single
from vecenv.envs.mountain_car import GRAVITY, MAX_POSITION, MAX_SPEED, MIN_POSITION, MountainCar
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import uniform

GOAL_POSITION = 0.45
POWER = 0.0015


def fit(value, wide):
    """The value in the precision of the state: float64 if it is wide, else float32."""
    return value if wide else single(value)


@kernel("MountainCarContinuous-v0", max_episode_steps=999)
class MountainCarContinuous(MountainCar):
    """Position and velocity; `wide` until the first step of an episode."""

    action_space = Box(-1.0, 1.0, (1,), np.float32)
    state: ClassVar = {"position": float, "velocity": float, "wide": bool}

    def reset(s, rng, p):
        """At rest, near the bottom."""
        s.position = uniform(rng, p.low, p.high)
        s.velocity = 0.0
        s.wide = True

    def step(s, action, rng, p):
        """Push with a force of -1 ... 1."""
        wide = s.wide or not KEEPS_SINGLE
        force = action[0]
        pull = GRAVITY * math.cos(fit(3 * s.position, wide))
        if KEEPS_SINGLE and -1.0 <= force <= 1.0:
            change = single(single(force * single(POWER)) - single(pull))
        else:  # the limits of the force are Python floats, which are float64
            change = min(max(force, -1.0), 1.0) * POWER - pull
        speed = fit(MAX_SPEED, wide)
        velocity = fit(s.velocity + fit(change, wide), wide)
        velocity = min(max(velocity, -speed), speed)
        wall = fit(MIN_POSITION, wide)
        position = fit(s.position + velocity, wide)
        position = min(max(position, wall), fit(MAX_POSITION, wide))
        if position == wall and velocity < 0:
            velocity = 0.0
        terminated = position >= fit(GOAL_POSITION, wide) and velocity >= fit(p.goal_velocity, wide)
        s.position = single(position)
        s.velocity = single(velocity)
        s.wide = False
        return (100.0 if terminated else 0.0) - force * force * 0.1, terminated
