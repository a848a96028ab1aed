"""Checks of values that envs return."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np


def bits(value: Any) -> bytes:
    """All bits of a value, for comparison."""
    if isinstance(value, dict):
        return b"".join(bits(key) + bits(value[key]) for key in sorted(value))
    if isinstance(value, (list, tuple)):
        return b"".join(map(bits, value))
    if isinstance(value, str):
        return value.encode()
    array = np.asarray(value)
    return array.tobytes() if array.dtype != object else pickle.dumps(value)


def not_finite(value: Any) -> str | None:
    """Which value is not finite, None if all are finite."""
    if isinstance(value, dict):
        return next((f"{bad} in {key!r}" for key, item in value.items() if (bad := not_finite(item))), None)
    if isinstance(value, (list, tuple)):
        return next((bad for item in value if (bad := not_finite(item))), None)
    array = np.asarray(value)
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return None
    return "NaN" if np.isnan(array).any() else "an infinite number"


def misfit(obs: Any, space: gymnasium.Space[Any]) -> str:
    """Why an observation is not in its space."""
    array = np.asarray(obs)
    if isinstance(space, gymnasium.spaces.Box) and array.shape != space.shape:
        return f"the observation has shape {array.shape}, its space {space.shape}"
    if isinstance(space, gymnasium.spaces.Box) and not np.can_cast(array.dtype, space.dtype):
        return f"the observation is {array.dtype}, its space {space.dtype}"
    return f"the observation {obs!r:.100} is not in {space!s:.120}"


def bare(text: str) -> str:
    """The text without Gymnasium's colours."""
    return text.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ").strip()
