"""What can go to another process, and what to do with the rest."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from vecenv._batch.batch import Mail
from vecenv._batch.faults import Fault
from vecenv.errors import SpaceError


class Unsendable(SpaceError, pickle.PicklingError):
    """Reset options, an action or an attribute's value that cannot be pickled. Nothing was sent."""


def pickled(message: Any) -> bytes:
    """A message to a worker. Raises Unsendable."""
    try:
        return dumps(message)
    except Exception as error:
        raise Unsendable(f"this cannot be sent to a worker: {error}; pass plain data, or use engine='sync'") from error


def sendable(value: Any) -> Any:
    """The value if it can be sent, else the Fault that stands for it."""
    if isinstance(value, Fault):
        return value
    try:
        dumps(value)
    except Exception as error:
        return Fault.of(TypeError(f"the result cannot be sent from a worker: {error}"), "call")
    return value


def drop_unsendable(mail: Mail | None, row: int, known: set[Any]) -> list[str]:
    """Take info entries out that cannot be pickled; a warning for each key that is not in `known`, which is added."""
    warnings = []
    for info in filter(None, (mail.info, mail.final_info) if mail else ()):
        for key in [key for key, value in info.items() if not picklable(value)]:
            del info[key]
            if key not in known:
                what = f"info[{key!r:.80}] of env {row} cannot be pickled and was dropped"
                warnings.append(f"{what}; return plain data, or use engine='sync'")
            known.add(key)
    return warnings


def dumps(value: Any) -> bytes:
    """Pickle; by cloudpickle if needed, which also takes classes defined in a script or notebook."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        return cloudpickle.dumps(value)


def picklable(value: Any) -> bool:
    """Whether it can be sent to another process."""
    try:
        dumps(value)
    except Exception:
        return False
    return True
