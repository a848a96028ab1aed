"""Infos in the layout of gym 0.26."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vecenv._front.infos import as_arrays, objects
from vecenv._front.step import Step

_ALWAYS_OBJECTS = frozenset({"final_observation", "final_info"})


def flat_arrays(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For each key an array over envs and a bool array `_key` that marks the envs that have it.

    Numbers are in an array of numbers. All other values, arrays and dicts included, are in an object array, unchanged.
    """
    if not any(infos):
        return {}
    boxed = {key for info in infos for key, value in info.items() if _is_boxed(key, value)}
    plain = ({key: value for key, value in info.items() if key not in boxed} for info in infos)
    rendered = as_arrays(enumerate(plain), len(infos))
    for key in boxed:
        rendered[key] = objects(range(len(infos)), (info.get(key) for info in infos), len(infos))
        rendered[f"_{key}"] = np.array([key in info for info in infos])
    return rendered


def with_final(step: Step, infos: list[dict[str, Any]], final_infos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add "final_observation" and "final_info" to the infos of the envs whose episode ended; changes and returns them.

    The other entries of these infos are those of the next episode's reset.
    """
    for row in np.flatnonzero(step.rolled).tolist():
        infos[row]["final_observation"] = step.infos["final_obs"][row]
        infos[row]["final_info"] = final_infos[row]
    return infos


def _is_boxed(key: str, value: Any) -> bool:
    return key in _ALWAYS_OBJECTS or isinstance(value, (Mapping, np.ndarray))
