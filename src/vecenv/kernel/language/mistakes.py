"""Exceptions of the user's functions in Python, turned into KernelErrors that name the line of the user's code."""

from __future__ import annotations

import traceback
from pathlib import Path

import gymnasium
import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel.language.fields import FieldError

MISTAKES = (FieldError, LookupError, NameError, AttributeError, TypeError, ValueError, ArithmeticError)
"""Exceptions for code that would be undefined behaviour in native code, or that cannot be compiled."""
_MACHINERY = (str(Path(__file__).parents[1]), *(str(Path(file).parent) for file in (np.__file__, gymnasium.__file__)))
"""Where files are in which the mistake is not: ours, NumPy's and Gymnasium's."""


def located(error: Exception, kernel: str, function: str) -> KernelError:
    """The error with the line of the user's code that it came from.

    Args:
        error: what was raised.
        kernel: name of the class.
        function: what was called, in case that no line of it is in the traceback.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_MACHINERY)]
    text = str(error.args[0]) if error.args else ""
    rule = text if isinstance(error, FieldError) else f"{type(error).__name__}: {text}{_advice(error)}"
    if not frames:
        return KernelError(rule, kernel, function)
    return KernelError(rule, kernel, frames[-1].name, frames[-1].filename, frames[-1].lineno)


def _advice(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "; native code would go on with inf or nan, so test for zero first"
    if isinstance(error, ValueError) and "math domain" in str(error):
        return "; native code would go on with nan, so test the argument first"
    if isinstance(error, ValueError) and "ambiguous" in str(error):
        return "; compare one element, not the array"
    return ""
