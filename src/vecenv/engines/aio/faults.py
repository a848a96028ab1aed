"""Classes of faults, and how often an env is built again after each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from vecenv._batch.faults import Fault, RestartPolicy, pause_after, restart_limit
from vecenv._util.text import text_of
from vecenv.errors import EnvTimeout

FaultClass: TypeAlias = Literal["retry", "terminal", "infrastructure"]
"""What a fault says about going on with `on_error="restart"`:

"retry": the env failed. It is built again, at most three times in a thousand of its steps.
"terminal": building it again will not help. The error is raised.
"infrastructure": what the env depends on failed, not the env. It is built again and not counted, until that has
    happened `IN_A_ROW` times without a good step in between.
"""
Classify: TypeAlias = Callable[[BaseException, str], FaultClass | None]
"""A user's function of what was raised and the phase ("make", "reset" or "step"); None leaves it to `class_of`."""

CLASSES: tuple[str, ...] = get_args(FaultClass)
IN_A_ROW = 10
_INFRASTRUCTURE = (EnvTimeout, ConnectionError, EOFError, TimeoutError, asyncio.TimeoutError)


def class_of(raised: BaseException | None, phase: str = "step") -> FaultClass:
    """The class of a fault unless the user's function says another: "infrastructure" if time was up or a connection
    was lost, else "retry"."""
    return "infrastructure" if issubclass(type(raised), _INFRASTRUCTURE) else "retry"  # `isinstance` asks the object


class Restarts:
    """When the envs of all rows may be built again.

    Args:
        classify: the user's function, None for `class_of` alone.
    """

    def __init__(self, classify: Classify | None) -> None:
        self._classify = classify
        self._policies: dict[int, RestartPolicy] = {}
        self._in_a_row: dict[int, list[Fault]] = {}
        """Infrastructure faults since the last good step of a row."""
        self._pause = 0.0

    def classified(self, fault: Fault) -> Fault:
        """The fault with its class. If the user's function fails, the fault is terminal and says why."""
        raised: Any = fault.original
        try:
            found = None if self._classify is None else self._classify(raised, fault.phase)
            if found is not None and (type(found) is not str or found not in CLASSES):
                raise ValueError(f"it returned {found!r:.60}, not one of {', '.join(CLASSES)} or None")
        except Exception as error:
            said = f"{fault.message} (and classify raised {type(error).__name__}: {text_of(error):.200})"
            return replace(fault, message=said, fault_class="terminal")
        return replace(fault, fault_class=found or class_of(raised, fault.phase))

    def good(self, row: int) -> None:
        """A row made a step."""
        if self._in_a_row:
            self._in_a_row.pop(row, None)

    def pause(self, row: int, fault: Fault, now: int) -> float:
        """Seconds to wait before the env is built again.

        Args:
            row: of the env.
            fault: why.
            now: counts the row's ops.

        Raises:
            RestartLimit: it failed too often.
        """
        if fault.fault_class != "infrastructure":
            self._policies.setdefault(row, RestartPolicy(row, pause=self._note_pause)).allow(fault, now)
            return self._pause
        recent = self._in_a_row.setdefault(row, [])
        recent.append(fault)
        if len(recent) > IN_A_ROW:
            said = f"env {row} was lost {len(recent)} times in a row without a good step in between"
            raise restart_limit(row, said, recent)
        return pause_after(len(recent) - 1)

    def _note_pause(self, seconds: float) -> None:
        self._pause = seconds
