"""Checks of values that envs return."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


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


def misfits(obs: Any, space: gymnasium.Space[Any], what: str = "the observation") -> list[tuple[str, str]]:
    """Why an observation is not in its space: a kind ("shape", "dtype", "range", "space") and words for each reason.

    NaN and infinity are left to `not_finite`.
    """
    if isinstance(space, spaces.Dict) and isinstance(obs, dict) and obs.keys() == space.keys():
        return [wrong for name, part in space.items() for wrong in misfits(obs[name], part, f"{what}[{name!r}]")]
    if isinstance(space, spaces.Tuple) and isinstance(obs, tuple) and len(obs) == len(space):
        return [wrong for place, part in enumerate(space) for wrong in misfits(obs[place], part, f"{what}[{place}]")]
    if obs in space:
        return []
    found = _misfits_of_box(np.asarray(obs), space, what) if isinstance(space, spaces.Box) else []
    if not found and not_finite(obs) is None:
        found = [("space", f"{what} {obs!r:.100} is not in {space!s:.120}")]
    return found


def _misfits_of_box(array: np.ndarray, space: spaces.Box, what: str) -> list[tuple[str, str]]:
    found = []
    if array.shape != space.shape:
        found.append(("shape", f"{what} has shape {array.shape}, its space {space.shape}"))
    if not np.can_cast(array.dtype, space.dtype):
        found.append(("dtype", f"{what} is {array.dtype}, its space {space.dtype}"))
    if array.dtype.kind in "biuf" and space.low.size:
        same = array.shape == space.shape
        low, high = (space.low, space.high) if same else (space.low.min(), space.high.max())
        outside = np.isfinite(array) & ((array < low) | (array > high))
        if outside.any():
            place = tuple(np.argwhere(outside)[0].tolist())
            lowest, highest = (edge[place] if same else edge for edge in (low, high))
            at = f" at {list(place)}" if place else ""
            found.append(("range", f"{what} has {array[place]:g}{at}, its space {lowest:g} ... {highest:g}"))
    return found


def bare(text: str) -> str:
    """The text without Gymnasium's colours."""
    return text.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ").strip()
