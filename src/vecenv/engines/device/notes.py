"""What threads of a device have noted (`kernel/cpp/rows.py`), as errors and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vecenv._util.warn import warn_user
from vecenv.errors import InvalidAction, KernelFault, NotResetError
from vecenv.kernel.cpp.rows import NO_ROW


def raise_noted(noted: Mapping[str, int], action_space: Any) -> None:
    """Raise the first of these, with the others in its message, and warn of a divergence.

    Args:
        noted: of `DeviceMemory.take_notes`.
        action_space: of one env.

    Raises:
        InvalidAction: an action was not in the space; it names the first such env. Those envs were not stepped.
        NotResetError: with autoreset "disabled", an env was to be stepped whose episode is over.
        KernelFault: a loop of an env took more than two billion turns and was stopped.

    Warns:
        RuntimeWarning: the simulation of a MuJoCo task has diverged; that env's episode was truncated.
    """
    if noted["diverged_row"] != NO_ROW:
        warn_user(
            f"the simulation of env {noted['diverged_row']} has gone wrong, and maybe those of others, and their "
            "episodes were truncated; infos['diverged'] of a step says which"
        )
    error = error_noted(noted, action_space)
    if error is not None:
        raise error


def error_noted(noted: Mapping[str, int], action_space: Any) -> InvalidAction | NotResetError | KernelFault | None:
    """The error that notes stand for, None if there is none. Its message has all of them."""
    wrong, over, stopped = (noted.get(name, NO_ROW) for name in ("wrong_row", "over_row", "stopped_row"))
    texts = {
        InvalidAction: f"an action of env {wrong} was not in {action_space}; envs with such actions were not stepped",
        NotResetError: f"env {over} was to be stepped, but its episode is over and autoreset is disabled; "
        "reset it: reset(options={'reset_mask': mask})",
        KernelFault: f"a loop of env {stopped} did not end and was stopped; reset the envs",
    }
    found = [kind for kind, row in zip(texts, (wrong, over, stopped), strict=True) if row != NO_ROW]
    if not found:
        return None
    text = ". Besides, ".join(texts[kind] for kind in found)
    return KernelFault(text, row=stopped) if found[0] is KernelFault else found[0](text)
