"""Functions with a native twin: Python runs the function itself, native code calls the twin in another module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_modules: dict[Any, str] = {}


def twin(module: str) -> Callable[[Function], Function]:
    """Say that the twin of a function, by the same name, is in this module. Only the compiler imports it."""

    def note(function: Function) -> Function:
        _modules[function] = module
        return function

    return note


def twin_module(function: Any) -> str | None:
    """The module of a function's twin, None if it has none."""
    try:
        return _modules.get(function)
    except TypeError:  # it cannot be hashed
        return None
