"""Failures as data, for recordings."""

from __future__ import annotations

from typing import Any

from vecenv._batch.faults import Fault
from vecenv.errors import EnvTimeout, NotFiniteError, RestartLimit, SpaceError, VecenvError, WorkerDied, WorkerTimeout

_LONGEST = 10_000
"""Characters of a message."""


def failure_of(error: VecenvError) -> dict[str, Any]:
    """An error as data."""
    cause = error.causes[-1] if isinstance(error, RestartLimit) and error.causes else error
    original = cause.__cause__
    kind = "raised"
    if isinstance(error, NotFiniteError):
        kind = "not-finite"
    elif isinstance(cause, (WorkerTimeout, EnvTimeout)):
        kind = "hung"
    elif isinstance(cause, WorkerDied):
        kind = "died"
    elif isinstance(cause, SpaceError):
        kind = "invalid"
    return {
        "kind": kind,
        "phase": getattr(cause, "phase", None) or "step",
        "type": type(original if kind in ("raised", "invalid") and original is not None else cause).__name__,
        "message": str(cause)[:_LONGEST],
        "traceback": getattr(cause, "remote_traceback", "") or None,
        "signal": getattr(cause, "signal", None),
        "exitcode": getattr(cause, "exitcode", None),
        "stack": getattr(cause, "stack", "") or None,
    }


def failure_of_fault(fault: Fault) -> dict[str, Any]:
    """A failure after which the env was built again, as data."""
    if fault.error is not None:
        return {**failure_of(fault.error), "phase": fault.phase}
    return {
        "kind": "invalid" if fault.kind == "SpaceError" else "raised",
        "phase": fault.phase,
        "type": fault.kind,
        "message": fault.message[:_LONGEST],
        "traceback": fault.traceback,
        "signal": None,
        "exitcode": None,
        "stack": None,
    }
