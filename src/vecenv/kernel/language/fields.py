"""Typed fields: what `state`, `info` and `Params` of a kernel declare, and one env's values of them in plain Python."""

from __future__ import annotations

import functools
import keyword
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv._util.suggest import did_you_mean

_ABSTRACT = (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating)

_NEVER = (None, 0, 0)
_LIMITS: dict[str, dict[type, tuple[Any, Any]]] = {
    "?": {bool: (False, True)},
    **{char: {float: (-math.inf, math.inf), int: (-(2**53), 2**53), bool: (False, True)} for char in "fd"},
    **{
        char: {int: (int(np.iinfo(char).min), int(np.iinfo(char).max)), bool: (False, True)}
        for char in np.typecodes["AllInteger"]
    },
}
"""By the letter of a dtype: the Python types and limits of values that it holds as they are; others are checked."""


@dataclass(frozen=True)
class Field:
    """A number, or an array of fixed shape, of every env.

    `low` and `high` are the bounds of a parameter, if any. `free` are the axes of a parameter that may have any size;
    its `shape` is that of its default value then. A `shared` parameter has one value for all envs.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    low: float | None = None
    high: float | None = None
    free: frozenset[int] = frozenset()
    shared: bool = False

    def __str__(self) -> str:
        return f"{self.dtype} array of shape {self.shape}" if self.shape else str(self.dtype)

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The size of each axis, None where any will do."""
        return tuple(None if axis in self.free else size for axis, size in enumerate(self.shape))

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape can be a value."""
        pairs = zip(shape, self.sizes, strict=False)
        return len(shape) == len(self.shape) and all(wanted in (None, size) for size, wanted in pairs)


class FieldError(TypeError):
    """A field was declared or used against the rules; kernels turn it into a KernelError with class and line."""


def declare(name: str, declared: Any) -> Field:
    """Read `float`, `int`, `bool`, a NumPy dtype, or one of these and a shape. A FieldError says what to write."""
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
    dtype = None if kind in _ABSTRACT or kind == np.uint64 else np.dtype(kind)
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


@functools.lru_cache(maxsize=256)
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
    dtype = field.dtype
    wrong = mismatch(dtype, type(value))
    if wrong:
        raise FieldError(f"field {field.name!r} is {field}, but was assigned {_brief(value)}; {wrong}")
    if dtype.kind in "iu":
        return _fitting(f"field {field.name!r}", dtype, int(value))
    with np.errstate(over="ignore"):  # a float too large for float32 is infinite, as in native code
        return dtype.type(value).item()


def _fitting(what: str, dtype: np.dtype[Any], value: int) -> int:
    low, high = _LIMITS[dtype.char][int]
    if not low <= value <= high:
        raise FieldError(f"{value} does not fit {what}, which is {dtype}: {low} ... {high}")
    return value


class Cells(np.ndarray):
    """An array whose single numbers are read as Python numbers, so that arithmetic is that of native code.

    What is written must fit its type: NumPy would cut 0.5 down to 0, or make 2 True.
    """

    def __getitem__(self, index: Any) -> Any:
        found = _get(self, index)
        return found if type(found) is Cells else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        limits = _LIMITS[self.dtype.char].get(type(value))
        if limits is None or not limits[0] <= value <= limits[1]:
            self._check(value)
        try:
            _set(self, index, value)
        except ValueError:
            if self.flags.writeable:
                raise
            raise FieldError("Params and actions are read-only; keep what changes in `state`") from None

    def _check(self, value: Any) -> None:
        """Check a value of another type or outside the usual limits."""
        value = np.asarray(value) if isinstance(value, (tuple, list)) else value
        kind = value.dtype.type if isinstance(value, (np.ndarray, np.generic)) else type(value)
        wrong = mismatch(self.dtype, kind)
        if wrong:
            raise FieldError(f"an element of a {self.dtype} array was assigned {_brief(value)}; {wrong}")
        if self.dtype.kind in "iu" and type(value) is int:
            _fitting("an array", self.dtype, value)

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    # --- functions of arrays, as in native code ----------------------------------------------------------------------
    # With arguments that kernels do not have they are NumPy's own: whoever draws an env may use them.

    def sum(self, axis: Any = None, *more: Any, **other: Any) -> Any:  # type: ignore[override]  # see above
        """As NumPy adds the elements of a contiguous array, one row after the other."""
        return _reduced(np.add, self, axis) if not more and not other else np.asarray(self).sum(axis, *more, **other)

    def prod(self, axis: Any = None, *more: Any, **other: Any) -> Any:  # type: ignore[override]  # as above
        """The product, element by element."""
        plain = not more and not other
        return _reduced(np.multiply, self, axis) if plain else np.asarray(self).prod(axis, *more, **other)

    def mean(self, axis: Any = None, *more: Any, **other: Any) -> Any:  # type: ignore[override]  # as above
        """The sum over the number of elements."""
        array = np.asarray(self)
        if more or other:
            return array.mean(axis, *more, **other)
        array = array if array.dtype.kind == "f" else array.astype(float)
        count = array.size if axis is None else array.shape[axis]
        return seen(np.asarray(_reduced(np.add, array, axis), array.dtype) / array.dtype.type(count))

    def max(self, axis: Any = None, *more: Any, **other: Any) -> Any:  # type: ignore[override]  # as above
        """The largest element, the first of those that are equal."""
        array = np.asarray(self)
        return array.max(axis, *more, **other) if more or other else _at_places(array, array.argmax(axis), axis)

    def min(self, axis: Any = None, *more: Any, **other: Any) -> Any:  # type: ignore[override]  # as above
        """The smallest element, the first of those that are equal."""
        array = np.asarray(self)
        return array.min(axis, *more, **other) if more or other else _at_places(array, array.argmin(axis), axis)

    def argmax(self, *args: Any, **kwargs: Any) -> Any:
        return seen(np.asarray(self).argmax(*args, **kwargs))

    def argmin(self, *args: Any, **kwargs: Any) -> Any:
        return seen(np.asarray(self).argmin(*args, **kwargs))

    def any(self, *args: Any, **kwargs: Any) -> Any:
        return seen(np.asarray(self).any(*args, **kwargs))

    def all(self, *args: Any, **kwargs: Any) -> Any:
        return seen(np.asarray(self).all(*args, **kwargs))

    def nonzero(self) -> Any:
        return seen(np.asarray(self).nonzero())

    def clip(self, *args: Any, **kwargs: Any) -> Any:
        """Elements below the first bound are that bound, then those above the second are that one."""
        array = np.asarray(self)
        if kwargs or len(args) != 2 or args[0] is None or args[1] is None:
            return array.clip(*args, **kwargs)
        array = np.where(array < args[0], args[0], array)
        return seen(np.where(array > args[1], args[1], array))

    def dot(self, b: Any) -> Any:  # type: ignore[override]  # as above
        """The product of vectors or matrices, added one by one."""
        return _product(np.asarray(self), np.asarray(b))

    def __matmul__(self, other: Any) -> Any:
        return _product(np.asarray(self), np.asarray(other))

    def __rmatmul__(self, other: Any) -> Any:
        return _product(np.asarray(other), np.asarray(self))


Cells.__name__ = "array"  # in messages and in repr; pickle knows the class by its qualified name

# Found once: Cells are read and written in the innermost loops.
_get, _set = np.ndarray.__getitem__, np.ndarray.__setitem__


def cells(array: np.ndarray) -> Cells:
    """A view that reads as Python numbers."""
    return array.view(Cells)


def seen(value: Any) -> Any:
    """A result of NumPy as kernels see it: an array of our own, or a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return cells(value) if value.ndim else value.item()
    return tuple(map(seen, value)) if isinstance(value, tuple) else value


def _reduced(function: np.ufunc, array: np.ndarray, axis: Any) -> Any:
    array = np.ascontiguousarray(array)
    return seen(function.reduce(array.ravel() if axis is None else array, axis=0 if axis is None else axis))


def _at_places(array: np.ndarray, places: Any, axis: Any) -> Any:
    """The elements at some places along an axis. Which of two zeros NumPy's own max gives depends on the processor."""
    if axis is None:
        return seen(array.reshape(-1)[places])
    return seen(np.take_along_axis(array, np.expand_dims(places, axis), axis).squeeze(axis))


def _product(one: np.ndarray, other: np.ndarray) -> Any:
    if not one.ndim or not other.ndim:
        return seen(one * other)
    total = np.zeros((*one.shape[:-1], *other.shape[1:]), np.result_type(one, other))
    for place in range(one.shape[-1]):
        left = one[..., place]
        total = total + (np.multiply.outer(left, other[place]) if left.ndim else left * other[place])
    return seen(total)


class Record:
    """The fields of one env, by attribute: `s.x`, `p.speed`. Every field keeps the type it was declared with.

    Args:
        fields: their types; the Record's `__dict__` holds one value of each.
        values: what they hold at first, zeros if None.
        frozen: what to say to somebody who assigns a field; empty if that is allowed.
    """

    __slots__ = ("__dict__", "_exact", "_fields", "_frozen")

    def __init__(self, fields: Mapping[str, Field], values: Mapping[str, Any] | None = None, frozen: str = "") -> None:
        given = values or {}
        exact = {} if frozen else {name: _exact(field) for name, field in fields.items()}
        object.__setattr__(self, "_fields", fields)
        object.__setattr__(self, "_frozen", frozen)
        object.__setattr__(self, "_exact", exact)
        self.__dict__.update((name, _hold(field, given.get(name), not frozen)) for name, field in fields.items())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked by copy, pickle and debuggers; fields do not begin so
            raise AttributeError(name)
        raise FieldError(unknown(name, self._fields))

    def __setattr__(self, name: str, value: Any) -> None:
        kind, low, high = self._exact.get(name, _NEVER)
        if type(value) is kind and low <= value <= high:
            self.__dict__[name] = value
            return
        field = self._fields.get(name)
        if self._frozen:
            raise FieldError(f"{self._frozen}, not in {name!r}")
        if field is None:
            raise FieldError(unknown(name, self._fields))
        if field.shape:
            held = self.__dict__[name]
            if value is not held:  # as after s.x += 1, which has written into it
                held[...] = value
            return
        self.__dict__[name] = conform(field, value)

    def __dir__(self) -> Iterable[str]:
        return self._fields

    def __repr__(self) -> str:
        kind = "Params" if self._frozen else "state"
        return f"{kind}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self._fields, {name: np.asarray(value) for name, value in self.__dict__.items()}, self._frozen)


def _exact(field: Field) -> tuple[type | None, Any, Any]:
    """The Python type, and its limits, whose values the field holds as they are."""
    kind = {"f": float, "b": bool}.get(field.dtype.kind, int)
    return _NEVER if field.shape or field.dtype == np.float32 else (kind, *_LIMITS[field.dtype.char][kind])


def unknown(name: str, fields: Iterable[str], what: str = "field") -> str:
    """What to say of a field that does not exist."""
    names = list(fields)
    return f"there is no {what} {name!r}{did_you_mean(name, names)} ({what}s: {', '.join(names) or 'none'})"


def _hold(field: Field, value: Any, writeable: bool) -> Any:
    if not field.shape:
        return field.dtype.type(0 if value is None else value).item()
    if field.shared and value is not None:
        return cells(value)  # it is read-only, and other envs have it too
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
