"""What Gymnasium's MuJoCo tasks share."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box

from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.kernel.rng import normal, uniform
from vecenv.mujoco.numerics import clip, sum_of_squares, times_32


def unbounded(size: int) -> Box:
    """The observation space of `size` numbers."""
    return Box(low=-np.inf, high=np.inf, shape=(int(size),), dtype=np.float64)


def positions_and_velocities(model: Any, left_out: int) -> Box:
    """The observation space of all positions except the first `left_out`, and all velocities."""
    return unbounded(model.nq + model.nv - left_out)


def body_id(model: Any, body: Any) -> Any:
    """The number of a body, given its number or its name; of several, one per env. Raises ConfigError."""
    if np.ndim(body):
        return [body_id(model, one) for one in body]
    if isinstance(body, bool) or not isinstance(body, (int, np.integer, str)):
        raise ConfigTypeError(f"a body must be a name or a number, got {body!r:.60}")
    try:
        return int(model.body(body if isinstance(body, str) else int(body)).id)
    except (KeyError, IndexError) as error:
        raise ConfigError(f"the model has no body {body!r}: {error}") from None


def add_uniform(values: Any, rng: Any, scale: float) -> None:
    """Add noise in [-scale, scale) to every number."""
    for k in range(len(values)):
        values[k] = values[k] + uniform(rng, -scale, scale)


def add_normal(values: Any, rng: Any, scale: float) -> None:
    """Add normal noise to every number."""
    for k in range(len(values)):
        values[k] = values[k] + scale * normal(rng)


def put(obs: Any, at: int, values: Any, begin: int) -> int:
    """Write the numbers from `begin` on into the observation; return the position after them."""
    for k in range(begin, len(values)):
        obs[at + k - begin] = values[k]
    return at + len(values) - begin


def put_clipped(obs: Any, at: int, values: Any, limit: float) -> int:
    """As `put`, clipped to [-limit, limit]."""
    for k in range(len(values)):
        obs[at + k] = clip(values[k], -limit, limit)
    return at + len(values)


def put_bodies(obs: Any, at: int, values: Any, low: float, high: float) -> int:
    """Write the rows of all bodies except the world, clipped."""
    for body in range(1, len(values)):
        for k in range(len(values[body])):
            obs[at] = clip(values[body, k], low, high)
            at += 1
    return at


def control_cost_32(action: Any, weight: float) -> float:
    """`weight * np.sum(np.square(action))` in float32, the type of actions."""
    return times_32(sum_of_squares(action), weight)
