"""Typed fields: what `state`, `info` and `Params` of a kernel declare, and one env's values of them in plain Python."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Field:
    """A number, or an array of fixed shape, of every env."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.dtype} array of shape {self.shape}" if self.shape else str(self.dtype)


class FieldError(TypeError):
    """A field was declared or used against the rules; kernels turn it into a KernelError with class and line."""


def declare(name: str, declared: Any) -> Field:
    """Read `float`, `int`, `bool`, a NumPy dtype, or a pair of one of these and a shape."""
    kind, shape = declared if isinstance(declared, tuple) and len(declared) == 2 else (declared, ())
    shape = (shape,) if isinstance(shape, int) else tuple(shape) if isinstance(shape, (tuple, list)) else None
    if not isinstance(kind, (type, np.dtype)) or shape is None or not all(_is_size(size) for size in shape):
        raise FieldError(
            f"field {name!r} is declared as {declared!r}; declare a number type such as float, int, bool or np.int8, "
            "or (type, shape)"
        )
    dtype = np.dtype(kind)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise FieldError(
            f"field {name!r} is declared as {getattr(kind, '__name__', kind)}; native code holds numbers only: use "
            "float, int, bool, a NumPy number type, or (type, shape) for an array of them"
        )
    return Field(name, dtype, shape)


def field_of(name: str, value: Any) -> Field:
    """The field that holds a value, used for the defaults of `Params`."""
    array = _as_array(name, value)
    return Field(name, array.dtype, array.shape)


def _as_array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise FieldError(f"parameter {name!r} is {value!r:.60}; it must be a number or an array of numbers")
    return array


def conform(field: Field, value: Any) -> Any:
    """A value for a scalar field as the Python number that reading the field gives back.

    Raises:
        FieldError: a float for an int, anything but a bool for a bool, anything that is no number.
    """
    kind = field.dtype.kind
    if kind == "f":
        fits = isinstance(value, numbers.Real)
    elif kind == "b":
        fits = isinstance(value, (bool, np.bool_))
    else:
        fits = isinstance(value, numbers.Integral)
    if not fits:
        hint = "; use int(...)" if kind in "iu" and isinstance(value, numbers.Real) else ""
        raise FieldError(f"field {field.name!r} is {field}, but was assigned {type(value).__name__} {value!r:.40}{hint}")
    return np.asarray(value).astype(field.dtype).item()


class Cells(np.ndarray):
    """An array whose single numbers are read as Python numbers, so that arithmetic is that of native code."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return found.item() if isinstance(found, np.generic) else found


def cells(array: np.ndarray) -> Cells:
    """A view that reads as Python numbers."""
    return array.view(Cells)


class Record:
    """The fields of one env, by attribute: `s.x`, `p.speed`. Every field keeps the type it was declared with."""

    __slots__ = ("_fields", "_frozen", "_values")

    def __init__(self, fields: Mapping[str, Field], values: Mapping[str, Any] | None = None, frozen: str = "") -> None:
        given = values or {}
        held = {name: _hold(field, given.get(name)) for name, field in fields.items()}
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_values", held)
        object.__setattr__(self, "_frozen", frozen)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise FieldError(unknown(name, self._fields)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._fields.get(name)
        if self._frozen:
            raise FieldError(self._frozen)
        if field is None:
            raise FieldError(unknown(name, self._fields))
        if field.shape:
            raise FieldError(f"field {name!r} is an array; write into it: s.{name}[:] = ...")
        self._values[name] = conform(field, value)

    def __dir__(self) -> Iterable[str]:
        return self._fields

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self._fields, {name: np.asarray(value) for name, value in self._values.items()}, self._frozen)


def read_record(record: Record) -> dict[str, Any]:
    """The values of all fields; arrays are copies."""
    return {name: np.array(value) for name, value in record._values.items()}


def unknown(name: str, fields: Iterable[str]) -> str:
    """What to say of a field that does not exist."""
    names = list(fields)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no field {name!r}{hint} (fields: {', '.join(names) or 'none'})"


def _hold(field: Field, value: Any) -> Any:
    if field.shape:
        array = np.zeros(field.shape, field.dtype) if value is None else np.array(value, field.dtype)
        return cells(array)
    return field.dtype.type(0 if value is None else value).item()


def _is_size(size: Any) -> bool:
    return isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size > 0
