"""Reads pickles without running anything that they name: every class and function in them becomes a record.

A pickle is a program. Pickles of data use few names of well-known libraries; calls of these are recorded instead of
made. Any other name is refused before it is looked up.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vecenv.errors import UnsafeFile


class Record:
    """What a pickle would have made with a class or function: its arguments, then its state.

    Attributes:
        args: what it was called with.
        state: that the object would have been given; None if there is none.
    """

    def __init__(self, *args: Any) -> None:
        self.args = args
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        raise TypeError("records are not pickled")

    def __getitem__(self, name: str) -> Any:
        """An attribute of the object that the pickle describes; KeyError if it does not have it."""
        if not isinstance(self.state, dict):
            raise KeyError(name)
        return self.state[name]


class Array(Record):
    """A NumPy array."""


class Dtype(Record):
    """A NumPy dtype."""


class Scalar(Record):
    """A NumPy number."""


class _Encode:
    """How protocols before 3 spell bytes. Not a function: a pickle could set its attributes."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any) -> bytes:
        if not isinstance(text, str) or encoding != "latin1":
            raise UnsafeFile("the pickle encodes something else than bytes")
        return text.encode("latin1")


class _NewDict:
    """An OrderedDict, which is filled afterwards."""

    __slots__ = ()

    def __call__(self) -> dict[Any, Any]:
        return {}


_NUMPY: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): Dtype,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): Array for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): Scalar for core in ("core", "_core")},
    ("numpy.random._pickle", "__generator_ctor"): Record,
    ("numpy.random._pickle", "__bit_generator_ctor"): Record,
    ("numpy.random._pickle", "__randomstate_ctor"): Record,
    ("numpy.random._pcg64", "PCG64"): Record,
    ("numpy.random._mt19937", "MT19937"): Record,
    ("numpy.random.bit_generator", "SeedSequence"): Record,
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"): Record,
    ("_codecs", "encode"): _Encode(),
    ("collections", "OrderedDict"): _NewDict(),
}


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]  # only in this one can keys be looked at


class _InertUnpickler(_PythonUnpickler):
    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(self, data: bytes, names: Mapping[tuple[str, str], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._names = names

    def find_class(self, module: str, name: str) -> Any:
        known = self._names.get((module, name))
        if known is None:
            raise UnsafeFile(f"the pickle wants {module}.{name}, which is not among the data of such a file")
        return known

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafeFile("the pickle refers to objects outside of it")

    def _set_item(self) -> None:
        _check_keys(self.stack[-2:-1])
        super().load_setitem()

    def _set_items(self) -> None:
        _check_keys(self.stack[::2])
        super().load_setitems()

    def _dict(self) -> None:
        _check_keys(self.stack[::2])
        super().load_dict()

    def _set(self) -> None:
        raise UnsafeFile("the pickle has sets, such files have none")

    dispatch[pickle.SETITEM[0]] = _set_item
    dispatch[pickle.SETITEMS[0]] = _set_items
    dispatch[pickle.DICT[0]] = _dict
    dispatch[pickle.FROZENSET[0]] = dispatch[pickle.ADDITEMS[0]] = _set


def _check_keys(keys: list[Any]) -> None:
    """Raise UnsafeFile unless they are plain: hashing deeply nested tuples may take forever."""
    if not all(isinstance(key, (str, int, float, bytes, type(None))) for key in keys):
        raise UnsafeFile("the pickle has keys that are neither text nor numbers")


def read(data: bytes, names: Mapping[tuple[str, str], type[Record]]) -> Any:
    """What a pickle holds, with records in the place of objects.

    Args:
        data: the pickle.
        names: modules and names that are admitted, besides NumPy's, and the kind of record that they become.

    Raises:
        UnsafeFile: it names anything else, or is damaged.
    """
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in ("PUT", "LONG_BINPUT") and int(argument or 0) > len(data):
                raise UnsafeFile("the pickle counts more objects than it has bytes")
        return _InertUnpickler(data, {**_NUMPY, **names}).load()
    except UnsafeFile:
        raise
    except Exception as error:  # whatever a damaged pickle makes the unpickler do
        raise UnsafeFile(f"the pickle is damaged: {error!s:.200}") from error


def number(value: Any) -> float:
    """A number that a pickle holds, be it Python's or NumPy's."""
    if isinstance(value, Scalar):
        kind, data = value.args
        return float(np.frombuffer(data, _dtype(kind))[0])
    if not isinstance(value, (bool, int, float)):
        raise UnsafeFile(f"a number was expected, the pickle has a {type(value).__name__}")
    return float(value)


def array(value: Any) -> np.ndarray:
    """An array of numbers that a pickle holds, as float64; of NumPy's and Python's single numbers too."""
    if not isinstance(value, Array):
        return np.asarray(number(value))
    if value.state is not None:
        _, shape, kind, by_column, data = value.state
        order = "F" if by_column else "C"
    else:
        data, kind, shape, order = value.args
    dtype = _dtype(kind)
    if not isinstance(data, (bytes, bytearray)) or order not in ("C", "F"):
        raise UnsafeFile("an array in the pickle has no plain numbers")
    return np.frombuffer(data, dtype).reshape(shape, order=order).astype(np.float64)


def _dtype(kind: Any) -> np.dtype:
    name = kind.args[0] if isinstance(kind, Dtype) and kind.args else None
    if not isinstance(name, str) or name not in _NUMBERS:
        raise UnsafeFile("an array in the pickle is not of numbers")
    dtype = np.dtype(name)
    return dtype.newbyteorder(">") if kind.state and kind.state[1] == ">" else dtype


_NUMBERS = frozenset(("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))
