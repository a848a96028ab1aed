"""Reset options: one dict for all envs or one per env, and the mask of envs to reset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from vecenv._util.checks import brief
from vecenv.engines.python.factories import Renewal
from vecenv.errors import SpaceError

# The texts are those of the Gymnasium that is installed; 1.4 reworded them.
_NEW_TEXTS = tuple(map(int, gymnasium.__version__.split(".")[:2])) >= (1, 4)
_MASK = "`options['reset_mask']`" if _NEW_TEXTS else "`options['reset_mask': mask]`"
_ONE_TRUE = " with at least one True value" if _NEW_TEXTS else ""


@dataclass(frozen=True)
class ResetOptions:
    """Parsed options: `mask` says which envs to reset, None for all; `per_env` is what each env's reset gets."""

    mask: np.ndarray | None
    per_env: Sequence[dict[str, Any] | Renewal | None]

    @classmethod
    def parse(cls, options: Any, count: int) -> ResetOptions:
        """Check what was passed as `options`, without changing it."""
        if isinstance(options, ResetOptions):
            return options
        if options is None:
            return cls(None, [None] * count)
        if isinstance(options, dict):
            if "reset_mask" not in options:
                return cls(None, [options] * count)
            rest = {key: value for key, value in options.items() if key != "reset_mask"}
            return cls(_check_mask(options["reset_mask"], count), [rest] * count)
        if isinstance(options, (list, tuple)):
            return cls(None, _check_list(options, count))
        raise SpaceError(f"options must be a dict, a list of one dict (or None) per env, or None; got {brief(options)}")


def _check_list(options: Sequence[Any], count: int) -> Sequence[dict[str, Any] | None]:
    if len(options) != count:
        raise SpaceError(f"got {len(options)} options for {count} envs; pass one dict (or None) per env")
    for row, entry in enumerate(options):
        if entry is not None and not isinstance(entry, dict):
            raise SpaceError(f"options[{row}] must be a dict or None, got {brief(entry)}")
    return options


def _check_mask(mask: Any, count: int) -> np.ndarray:
    if not isinstance(mask, np.ndarray):
        raise SpaceError(f"{_MASK} must be a numpy array, got {type(mask)}")
    if mask.shape != (count,):
        raise SpaceError(f"{_MASK} must have shape `({count},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise SpaceError(f"{_MASK} must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise SpaceError(f"{_MASK} must contain a boolean array{_ONE_TRUE}, got reset_mask={mask}")
    return mask
