"""NumPy as kernels see it when Python runs them: arrays whose numbers are Python's, and one stated order of additions.

The user's own functions run, with their own lines; only the names in them that stand for NumPy, for arrays and for
functions that use these are replaced. What native code computes for each function is in `lower/`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language.array_functions import FUNCTIONS, function_of
from vecenv.kernel.language.fields import Cells, cells, seen
from vecenv.kernel.language.queues import Queue
from vecenv.kernel.language.twins import twin_module

_OWN = (random_numbers.__name__, "math", "numpy", "builtins")


class _Numpy(ModuleType):
    """NumPy, with our own form of the functions that kernels have on arrays."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return _Numpy(value) if isinstance(value, ModuleType) else replaced(value)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy whose results are as kernels see them."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return seen(function(*args, **kwargs))

    return call


def _minimum(x1: Any, x2: Any) -> Any:
    return seen(np.where((np.asarray(x1) < x2) | (np.asarray(x1) != x1), x1, x2))


def _maximum(x1: Any, x2: Any) -> Any:
    return seen(np.where((np.asarray(x1) > x2) | (np.asarray(x1) != x1), x1, x2))


def _method(name: str) -> Callable[..., Any]:
    """A function that is a method of arrays of our own."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(cells(np.asarray(a)), name)(*args, **kwargs)

    return call


def _zeros_for_empty(shape: Any, dtype: Any = float) -> Any:
    return cells(np.zeros(shape, dtype))


def _norm(x: Any) -> float:
    row = cells(np.asarray(x))
    row = row if row.dtype.kind == "f" else row.astype(float)
    return seen(np.sqrt(row.dtype.type(row.dot(row))))


_OWN_FORMS: dict[str, Callable[..., Any]] = {
    "empty": _zeros_for_empty,
    "empty_like": _plain(np.zeros_like),
    "minimum": _minimum,
    "maximum": _maximum,
    "norm": _norm,
    "rot90": _plain(lambda m, k=1: np.rot90(m, k).copy()),
    **{name: _method(name) for name in ("sum", "prod", "mean", "max", "min", "dot", "clip")},
}
_FORMS = {
    name: _OWN_FORMS.get(name) or _plain(getattr(np, function.names[0]))
    for name, function in FUNCTIONS.items()
    if function.names and name != "norm"
}
_FORMS["norm"] = _norm


def replaced(value: Any) -> Any:
    """A value from outside a function as kernels see it: the same object if nothing about it changes."""
    if value is np:
        return _NUMPY
    if isinstance(value, np.ndarray):
        return _read_only(value)
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is tuple:
        parts = tuple(map(replaced, value))
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    known = function_of(value) if callable(value) else None
    if known is not None:
        return _FORMS[known.name]
    return value


def _read_only(array: np.ndarray) -> Cells:
    view = cells(array)
    view.flags.writeable = False
    return view


_NUMPY = _Numpy(np)


class _Namespace:
    """A module or a class with some of its names replaced."""

    def __init__(self, of: Any, names: dict[str, Any]) -> None:
        self.__dict__.update(names)
        self._of = of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def runnable(function: FunctionType, known: dict[FunctionType, FunctionType] | None = None) -> FunctionType:
    """The function as Python runs it for a kernel: itself, or with the same code and other values of its names."""
    known = {} if known is None else known
    if function in known:
        return known[function]
    known[function] = function  # while the functions that it calls are looked at
    code = function.__code__
    changed: dict[str, Any] = {}
    for name in code.co_names:
        if name in function.__globals__:
            value = function.__globals__[name]
            new = _as_seen(value, code.co_names, known)
            if new is not value:
                changed[name] = new
    contents = [_content(cell) for cell in function.__closure__ or ()]
    outer = [value if value is _EMPTY else _as_seen(value, code.co_names, known) for value in contents]
    if not changed and all(new is old for new, old in zip(outer, contents, strict=True)):
        return function
    closure = tuple(
        cell if new is old else CellType(new)
        for cell, new, old in zip(function.__closure__ or (), outer, contents, strict=True)
    )
    scope = {**function.__globals__, **changed}
    made = FunctionType(code, scope, function.__name__, function.__defaults__, closure or None)
    made.__dict__.update(function.__dict__)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__kwdefaults__ = function.__kwdefaults__
    known[function] = made
    return made


_EMPTY = object()


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _as_seen(value: Any, used: tuple[str, ...], known: dict[FunctionType, FunctionType]) -> Any:
    """A value that a function uses by name; `used` are the names of attributes that it may ask it for."""
    value_of = getattr(value, "py_func", value)
    if isinstance(value_of, FunctionType):
        is_theirs = (value_of.__module__ or "").partition(".")[0] in _OWN or value_of.__module__ in _OWN
        if not is_theirs and function_of(value_of) is None and not twin_module(value_of):
            made = runnable(value_of, known)
            return value if made is value_of else made
    if isinstance(value, (ModuleType, type)) and value is not np and value is not Queue:
        if getattr(value, "__name__", "") in _OWN or (isinstance(value, type) and issubclass(value, np.generic)):
            return value
        found = {name: getattr(value, name) for name in used if name in vars(value)}
        changed = {name: _as_seen(its, used, known) for name, its in found.items() if not isinstance(its, ModuleType)}
        changed = {name: new for name, new in changed.items() if new is not found[name]}
        return _Namespace(value, changed) if changed else value
    return replaced(value)
