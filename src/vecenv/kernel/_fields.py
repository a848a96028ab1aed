"""Typed fields: what `state`, `info` and `Params` of a kernel declare, and one env's values of them in plain Python."""

from __future__ import annotations

import difflib
import keyword
import numbers
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_ABSTRACT = (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating)


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
    """Read `float`, `int`, `bool`, a NumPy dtype, or a pair of one of these and a shape.

    Raises:
        FieldError: it is anything else; the message says what to write.
    """
    if keyword.iskeyword(name):
        raise FieldError(f"{name!r} is a word of Python and cannot name a field")
    if isinstance(declared, tuple) and len(declared) > 2 and all(map(_is_size, declared[1:])):
        raise FieldError(
            f"field {name!r} is declared as {declared!r}; write ({_type_name(declared[0])}, {declared[1:]})"
        )
    kind, shape = declared if isinstance(declared, tuple) and len(declared) == 2 else (declared, ())
    shape = (shape,) if isinstance(shape, (int, np.integer)) else shape
    if not isinstance(kind, (type, np.dtype)) or not isinstance(shape, (tuple, list)) or not all(map(_is_size, shape)):
        raise FieldError(f"field {name!r} is declared as {declared!r:.60}; {_instead_of(declared)}")
    return Field(name, _number_type(name, kind), tuple(map(int, shape)))


def _number_type(name: str, kind: Any) -> np.dtype[Any]:
    dtype = None if kind in _ABSTRACT else np.dtype(kind)
    if dtype is None or not _is_native(dtype):
        raise FieldError(
            f"field {name!r} is declared as {_type_name(kind)}; native code holds numbers only: use float, int, bool, "
            "a NumPy type of up to 64 bits such as np.int8 or np.float32, or (type, shape) for an array of them"
        )
    return dtype.newbyteorder("=")


def _instead_of(declared: Any) -> str:
    """What to write for a value that was given where a type was needed."""
    try:
        array = np.asarray(declared)
    except (ValueError, TypeError):
        array = np.asarray(None)
    if not isinstance(declared, tuple) and _is_native(array.dtype):
        kind = _type_name(type(array.flat[0].item())) if array.size else "float"
        shaped = kind if not array.ndim else f"({kind}, {array.shape if array.ndim > 1 else array.shape[0]})"
        return f"that is a value: declare its type, {shaped}, and give it the value in reset"
    return "declare a number type such as float, int, bool or np.int8, or (type, shape)"


def field_of(name: str, value: Any) -> Field:
    """The field that holds a value, used for the defaults of `Params`."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if not _is_native(array.dtype):
        raise FieldError(f"parameter {name!r} is {value!r:.60}; it must be a number or an array of numbers")
    return Field(name, array.dtype, array.shape)


def mismatch(dtype: np.dtype[Any], kind: type) -> str | None:
    """Why a value of a type cannot be assigned to a number of `dtype`, as advice; None if it can."""
    if issubclass(kind, np.ndarray):
        return "take one element of the array, [0]"
    if kind is type(None):
        return "a field always holds a number: use one that cannot occur otherwise, or a bool field beside it"
    if issubclass(kind, (bool, np.bool_)) or (issubclass(kind, numbers.Integral) and dtype.kind != "b"):
        return None
    if dtype.kind == "b" and issubclass(kind, numbers.Real):
        return "use a comparison, or True and False"
    if issubclass(kind, numbers.Real):
        return None if dtype.kind == "f" else "use int(...) or //, or declare it as float"
    return "it must be a number"


def conform(field: Field, value: Any) -> Any:
    """A value for a scalar field as the Python number that reading the field gives back.

    Raises:
        FieldError: a float for an int, anything but a bool for a bool, anything that is no number, an int too large.
    """
    kind, dtype = type(value), field.dtype
    if kind is float and dtype == np.float64:
        return value
    wrong = mismatch(dtype, kind)
    if wrong:
        raise FieldError(f"field {field.name!r} is {field}, but was assigned {_brief(value)}; {wrong}")
    if dtype.kind in "iu":
        return _fitting(field.name, dtype, int(value))
    with np.errstate(over="ignore"):  # a float too large for float32 is infinite, as in native code
        return dtype.type(value).item()


def _fitting(name: str, dtype: np.dtype[Any], value: int) -> int:
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise FieldError(f"{value} does not fit field {name!r}, which is {dtype}: {limits.min} ... {limits.max}")
    return value


class Cells(np.ndarray):
    """An array whose single numbers are read as Python numbers, so that arithmetic is that of native code.

    What is written must fit its type: NumPy would cut 0.5 down to 0, or make 2 True.
    """

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return found.item() if isinstance(found, np.generic) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self.flags.writeable:
            raise FieldError("Params and actions are read-only; keep what changes in `state`")
        kind = value.dtype.type if isinstance(value, (np.ndarray, np.generic)) else type(value)
        wrong = mismatch(self.dtype, kind)
        if wrong:
            raise FieldError(f"an element of a {self.dtype} array was assigned {_brief(value)}; {wrong}")
        if self.dtype.kind in "iu" and type(value) is int:
            _fitting("of an array", self.dtype, value)
        super().__setitem__(index, value)

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))


def cells(array: np.ndarray) -> Cells:
    """A view that reads as Python numbers."""
    return array.view(Cells)


class Record:
    """The fields of one env, by attribute: `s.x`, `p.speed`. Every field keeps the type it was declared with."""

    __slots__ = ("_fields", "_frozen", "_values")

    def __init__(self, fields: Mapping[str, Field], values: Mapping[str, Any] | None = None, frozen: str = "") -> None:
        given = values or {}
        held = {name: _hold(field, given.get(name), not frozen) for name, field in fields.items()}
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_values", held)
        object.__setattr__(self, "_frozen", frozen)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked by copy, pickle and debuggers; fields do not begin so
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise FieldError(unknown(name, self._fields)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._fields.get(name)
        if self._frozen:
            raise FieldError(f"{self._frozen}, not in {name!r}")
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


def unknown(name: str, fields: Iterable[str], what: str = "field") -> str:
    """What to say of a field that does not exist."""
    names = list(fields)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no {what} {name!r}{hint} ({what}s: {', '.join(names) or 'none'})"


def _hold(field: Field, value: Any, writeable: bool) -> Any:
    if not field.shape:
        return field.dtype.type(0 if value is None else value).item()
    array = np.zeros(field.shape, field.dtype) if value is None else np.array(value, field.dtype)
    array.flags.writeable = writeable
    return cells(array)


def _is_native(dtype: np.dtype[Any]) -> bool:
    """Whether native code has the type: no objects, no strings, no complex, 16-bit or 128-bit floats."""
    return dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))


def _is_size(size: Any) -> bool:
    return isinstance(size, (int, np.integer)) and not isinstance(size, bool) and bool(size > 0)


def _type_name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _brief(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"
