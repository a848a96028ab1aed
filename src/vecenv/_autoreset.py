"""The three autoreset modes. No other module asks which mode it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch import Op
from vecenv.errors import ConfigError, NotResetError

_NAMES = {
    "next-step": AutoresetMode.NEXT_STEP,
    "same-step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


def parse_mode(mode: Any) -> AutoresetMode:
    """Read "next-step", "same-step", "disabled", Gymnasium's enum or its values ("NextStep", ...)."""
    if isinstance(mode, AutoresetMode):
        return mode
    if mode in _NAMES:
        return _NAMES[mode]
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ConfigError(f"autoreset must be one of {', '.join(map(repr, _NAMES))}, got {mode!r}") from None


def plan(mode: AutoresetMode, done: np.ndarray) -> np.ndarray | Op:
    """The op of each row that is about to be stepped.

    Args:
        done: whether the last op of each row ended an episode.

    Raises:
        NotResetError: in DISABLED mode, if an episode of these rows has ended.
    """
    if mode is AutoresetMode.SAME_STEP:
        return Op.ROLL
    if not done.any():
        return Op.STEP
    if mode is AutoresetMode.NEXT_STEP:
        return np.where(done, np.uint8(Op.RESET), np.uint8(Op.STEP))
    raise NotResetError(
        f"{int(done.sum())} episodes have ended (positions {np.flatnonzero(done)[:8].tolist()}) and autoreset is disabled; "
        "reset them first: reset(options={'reset_mask': mask})"
    )
