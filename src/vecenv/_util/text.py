"""Names and texts of objects that come from the user, for messages. Nothing here raises, whatever the object does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_name_of: Any = type.__dict__["__name__"].__get__
"""Not `kind.__name__`: a metaclass can make that anything."""


def type_name(value: object) -> str:
    """The name of the value's type."""
    return str.__str__(_name_of(type(value)))


def text_of(value: object, convert: Callable[[Any], str] = str) -> str:
    """`str(value)`, or `repr(value)` if `convert` is that; if it raises, a text that says so."""
    try:
        return str.__str__(convert(value))  # a plain string, also if the value returned one of a class of its own
    except BaseException as failure:  # whatever it is: this text is part of a message about something else
        return f"<{convert.__name__}() of the {type_name(value)} raised {type_name(failure)}>"
