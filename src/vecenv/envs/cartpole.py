"""CartPole: keep a pole upright on a cart. Bit-equal to Gymnasium's."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import uniform

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 0.1 + 1.0
HALF_LENGTH = 0.5
POLE_MASS_LENGTH = POLE_MASS * HALF_LENGTH
FORCE = 10.0
SECONDS = 0.02
MAX_POSITION = 2.4
MAX_ANGLE = 12 * 2 * math.pi / 360
BOUNDS = np.array([MAX_POSITION * 2, np.inf, MAX_ANGLE * 2, np.inf], np.float32)


@kernel("CartPole-v0", max_episode_steps=200)
@kernel("CartPole-v1", max_episode_steps=500)
class CartPole:
    """Position and angle with their velocities; `fallen` once the episode is over."""

    observation_space = Box(-BOUNDS, BOUNDS, dtype=np.float32)
    action_space = Discrete(2)
    state: ClassVar = {"x": float, "x_dot": float, "theta": float, "theta_dot": float, "fallen": bool}

    class Params:
        """`low` and `high` are reset options."""

        sutton_barto_reward = False
        low = -0.05
        high = 0.05

    bounds: ClassVar = {"low": (-1e6, 1e6), "high": (-1e6, 1e6)}

    def configure(sutton_barto_reward=False):
        return {"sutton_barto_reward": sutton_barto_reward}

    def reset(s, rng, p):
        """Somewhere near the middle, nearly upright."""
        s.x = uniform(rng, p.low, p.high)
        s.x_dot = uniform(rng, p.low, p.high)
        s.theta = uniform(rng, p.low, p.high)
        s.theta_dot = uniform(rng, p.low, p.high)
        s.fallen = False

    def step(s, action, rng, p):
        """Push to the left (0) or right (1)."""
        force = FORCE if action == 1 else -FORCE
        cosine = math.cos(s.theta)
        sine = math.sin(s.theta)
        pushed = (force + POLE_MASS_LENGTH * (s.theta_dot * s.theta_dot) * sine) / TOTAL_MASS
        turned = (GRAVITY * sine - cosine * pushed) / (
            HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / TOTAL_MASS)
        )
        moved = pushed - POLE_MASS_LENGTH * turned * cosine / TOTAL_MASS
        s.x += SECONDS * s.x_dot
        s.x_dot += SECONDS * moved
        s.theta += SECONDS * s.theta_dot
        s.theta_dot += SECONDS * turned
        terminated = abs(s.x) > MAX_POSITION or abs(s.theta) > MAX_ANGLE
        if p.sutton_barto_reward:
            reward = -1.0 if terminated else 0.0
        else:
            reward = 0.0 if terminated and s.fallen else 1.0
        s.fallen = s.fallen or terminated
        return reward, terminated

    def observe(s, obs, p):
        obs[0] = s.x
        obs[1] = s.x_dot
        obs[2] = s.theta
        obs[3] = s.theta_dot
