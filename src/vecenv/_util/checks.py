"""Checks of plain arguments: counts and seconds."""

from __future__ import annotations

import math
import operator
import threading
from numbers import Real
from typing import Any

from vecenv._util.text import text_of, type_name
from vecenv.errors import ConfigError, ConfigTypeError


def brief(value: Any) -> str:
    """Type and value in at most 60 characters or so, for error messages."""
    text = text_of(value, repr)
    return f"{type_name(value)} {text if len(text) <= 60 else text[:57] + '...'}"


def positive_int(name: str, value: Any) -> int:
    """The value as an int; Python's and NumPy's integers are accepted, bool is not.

    Raises:
        ConfigTypeError: it is not an integer.
        ConfigError: it is less than 1.
    """
    try:
        number = operator.index(value) if not isinstance(value, bool) else None
    except TypeError:
        number = None
    if number is None:
        raise ConfigTypeError(f"{name} must be an int >= 1, got {brief(value)}")
    if number < 1:
        raise ConfigError(f"{name} must be an int >= 1, got {value}")
    return number


def seconds(name: str, value: Any) -> float:
    """The value as a float. Raises ConfigTypeError if it is no real number, ConfigError if it is negative or NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigTypeError(f"{name} must be a number of seconds, got {brief(value)}")
    number = float(value)
    if math.isnan(number) or number < 0:
        raise ConfigError(f"{name} must be a positive number of seconds, got {value}")
    return number


def positive_seconds(name: str, value: Any) -> float:
    """Like `seconds`, but zero is a ConfigError too."""
    number = seconds(name, value)
    if not number:
        raise ConfigError(f"{name} must be a positive number of seconds, got {value}")
    return number


def patience(number: float) -> float | None:
    """Seconds as a timeout; None, which means no timeout, if it is more than a thread can wait."""
    return number if number <= threading.TIMEOUT_MAX else None
