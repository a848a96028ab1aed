"""What can go to another process, and what to do with the rest."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import numpy as np

from vecenv._batch.batch import Mail
from vecenv._batch.faults import Fault
from vecenv._batch.own import ATOMS
from vecenv._util.text import text_of
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
    if type(value) is Fault:  # not by `isinstance`, which asks the object itself
        return value
    try:
        dumps(value)
    except BaseException as error:  # `__reduce__` can raise anything
        return Fault.of(TypeError(f"the result cannot be sent from a worker: {text_of(error)}"), "call")
    return value


def sendable_mail(
    mail: Mail | None, row: int, known: set[Any], objects: list[Any]
) -> tuple[Mail | None, list[Any], list[str]]:
    """What can be sent of a row's mail and of observations that have no column, and warnings of what cannot.

    Entries of infos that cannot be pickled are taken out; `known` are the keys that were warned of. If what is left
    cannot be sent either, there is a fault in its place.
    """
    try:
        texts = drop_unsendable(mail, row, known)
        dumps(mail)
        if picklable(objects):
            return mail, objects, texts
        error: BaseException = TypeError("the observation cannot be pickled; use engine='sync' for this env")
    except BaseException as failure:  # an info of a class of its own can raise anything
        error = failure
    return Mail(fault=Fault.of(error, "step")), [], []


def drop_unsendable(mail: Mail | None, row: int, known: set[Any]) -> list[str]:
    """Leave info entries out that cannot be pickled; a warning for each key that is not in `known`, which is added.

    The mail gets new, plain dicts: the old ones may be the envs' own, or of a class that cannot be pickled.
    """
    if mail is None:
        return []
    dropped: list[Any] = []
    mail.info = _sendable_items(mail.info, dropped)
    if mail.final_info is not None:
        mail.final_info = _sendable_items(mail.final_info, dropped)
    new = [key for key in dict.fromkeys(dropped) if key not in known]
    known.update(new)
    return [
        f"info[{text_of(key, repr):.80}] of env {row} cannot be pickled and was dropped; return plain data, or use "
        "engine='sync'"
        for key in new
    ]


def _sendable_items(info: dict[Any, Any], dropped: list[Any]) -> dict[Any, Any]:
    """The entries that can be pickled; the keys of the others are added to `dropped`."""
    sendable_keys = {key for key, value in info.items() if picklable((key, value))}
    dropped += [key for key in info if key not in sendable_keys]
    return {key: value for key, value in info.items() if key in sendable_keys}


def is_plain(mail: Mail | None, objects: list[Any]) -> bool:
    """Whether nothing in it can raise when it is unpickled."""
    if mail is None or objects:
        return not objects
    infos = (mail.info, mail.final_info or {})
    return mail.fault is None and mail.cause is None and all(map(_has_plain_values, infos))


def _has_plain_values(info: dict[Any, Any]) -> bool:
    for key, value in info.items():
        kind = type(value)
        if type(key) is not str or (kind not in ATOMS and (kind is not np.ndarray or value.dtype.hasobject)):
            return False
    return True


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
    except BaseException:
        return False
    return True
