"""The three autoreset modes. No other module asks which mode it is."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.batch import Op
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
    if isinstance(mode, str) and mode in _NAMES:
        return _NAMES[mode]
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ConfigError(f"autoreset must be one of {', '.join(map(repr, _NAMES))}, got {mode!r}") from None


def name_of_mode(mode: AutoresetMode) -> str:
    """What `parse_mode` reads as this mode."""
    return next(name for name, known in _NAMES.items() if known is mode)


def mode_of(env: gymnasium.vector.VectorEnv) -> AutoresetMode:
    """The autoreset mode of any vector env; Gymnasium's default if it does not say."""
    return parse_mode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))


# Plain numbers and members, because looking them up in an Enum costs as much as the rest of `plan`.
_STEP, _ROLL = np.uint8(Op.STEP), np.uint8(Op.ROLL)
_SAME_STEP, _NEXT_STEP = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP


def plan(mode: AutoresetMode, done: np.ndarray) -> np.ndarray | np.uint8:
    """The op of each row that is about to be stepped. Raises NotResetError in DISABLED mode if an episode has ended."""
    if mode is _SAME_STEP:
        return _ROLL
    if 1 not in done.tobytes():  # several times faster than any()
        return _STEP
    if mode is _NEXT_STEP:
        return _STEP - done.view(np.uint8)  # RESET is the number before STEP
    raise NotResetError(
        f"{int(done.sum())} episodes have ended (positions {np.flatnonzero(done)[:8].tolist()}) and autoreset is "
        "disabled; reset them first: reset(options={'reset_mask': mask})"
    )


def ops_of(mode: AutoresetMode) -> tuple[int, int]:
    """The ops of rows whose episode goes on and of rows whose episode ended, for engines that plan for themselves.

    In DISABLED mode no row may have ended; `plan` raises if one has.
    """
    if mode is _SAME_STEP:
        return int(Op.ROLL), int(Op.ROLL)
    return int(Op.STEP), int(Op.RESET if mode is _NEXT_STEP else Op.STEP)


def rolls(mode: AutoresetMode) -> bool:
    """Whether a step that ends an episode also begins the next."""
    return mode is _SAME_STEP
