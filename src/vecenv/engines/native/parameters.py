"""Columns of a kernel's parameters, from what the user gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vecenv.errors import ConfigError
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.params import not_per_env, one_copy


def parameter_columns(kernel: Kernel, kwargs: Any, count: int) -> dict[str, np.ndarray]:
    """Columns of all parameters, from one mapping or one per row."""
    if isinstance(kwargs, Mapping):
        return own_columns(kernel, kernel.parameters(kwargs, count))
    rows = [kernel.parameters(entry or {}, 1) for entry in kwargs]
    columns: dict[str, np.ndarray] = {}
    for name in kernel.params:
        shapes = {row[name].shape for row in rows}
        if len(shapes) > 1:
            raise ConfigError(f"parameter {name!r} has different shapes in different envs: {sorted(shapes)}")
        if name in kernel.shared_params:
            columns[name] = rows[0][name]
            if any(row[name] is not columns[name] for row in rows):
                raise not_per_env(name)
        else:
            columns[name] = np.concatenate([row[name] for row in rows])
    return columns


def own_columns(kernel: Kernel, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns of our own; shared ones are read-only, and need no other copy."""
    shared = kernel.shared_params
    return {name: one_copy(column) if name in shared else column.copy() for name, column in columns.items()}
