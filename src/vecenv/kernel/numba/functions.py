"""Small functions over memory: written in Python, run as native code, compiled once and kept on disk like kernels.

A function takes one number, the address of a table of 64-bit words: addresses, sizes, whatever it agrees on with its
caller. It reads and writes memory through `float64_at(address, count)` and its sisters, which also work in plain
Python, so the very same function can be run without the compiler.

It runs without the GIL, and other threads run meanwhile. So callers keep four rules. The table is made for one call, by
`table_of`, and scratch memory is too. Every array whose address is in the table is held by a variable until the call
returns. Arrays that are written are the caller's own, or were checked to be writable, contiguous and large enough.
Numbers that become indices are copied before they are checked, because another thread may change the original.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from vecenv._util.forks import FORK_LOCK
from vecenv.errors import UnsupportedError
from vecenv.kernel.numba.trial import native_code_fails

_HEAD = object.__basicsize__


@functools.cache
def table_of(words: str) -> Callable[..., bytes]:
    """A function that makes the table of one call from its words.

    Args:
        words: their types, by the letters of `struct`: "q" for addresses and sizes, "d" for a float64.
    """
    return struct.Struct(f"={words}").pack


def native_function(function: Callable[[int], int], **names: Any) -> Callable[[bytes], None]:
    """The native code of a function of one address, to be called with a table. The GIL is released while it runs.

    Args:
        function: of a module that holds nothing but such functions; it may call the others.
        names: replace names of that module: a type or a view (`float32_at`) that the code is to be made for.

    Raises:
        UnsupportedError: native code does not run on this platform.
    """
    assert isinstance(function, FunctionType)
    if (failure := native_code_fails()) is not None:  # before the import: Numba may be missing
        raise UnsupportedError(failure)
    with FORK_LOCK:
        from vecenv.kernel.numba.load import load_or_compile

    def build() -> tuple[bytes, str]:
        from vecenv.kernel.numba.function_compiler import compile_function

        return compile_function(function, names, VIEWS)

    replaced = sorted((name, str(getattr(value, "__name__", value))) for name, value in names.items())
    parts = (Path(inspect.getfile(function)).read_text(encoding="utf-8"), function.__name__, repr(replaced))
    here = Path(__file__)
    sources = (here, *map(here.with_name, ("function_compiler.py", "compile.py", "one_module.py")))
    run, answers = load_or_compile(parts, sources, function.__name__, build), np.zeros(2, np.int64)
    result_at, error_at = answers.ctypes.data, answers.ctypes.data + 8  # written by all threads, read by none

    def call(table: bytes, _keep: Any = answers) -> None:
        if run(result_at, error_at, table):
            raise RuntimeError(f"native code of {function.__name__} failed; this is a bug in vecenv")

    return call


@functools.cache
def native(function: Callable[[int], int]) -> Callable[[bytes], None]:
    """`native_function`, made at the first call for a function."""
    return native_function(function)


def _address_in_memory(array: np.ndarray, _at: Any = ctypes.c_int64.from_address, _head: int = _HEAD) -> int:
    # NumPy's C interface fixes that the data's address follows the object's head. `array.ctypes.data` takes 3 us.
    return _at(id(array) + _head).value


def _choose() -> Callable[[np.ndarray], int]:
    probe = np.zeros(1)
    usual = sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8
    if usual and _address_in_memory(probe) == probe.ctypes.data:
        return _address_in_memory
    return lambda array: array.ctypes.data


address_of: Callable[[np.ndarray], int] = _choose()
"""The address of an array's data."""


# --- views of memory -------------------------------------------------------------------------------------------------


def _view(dtype: str) -> Callable[[int, int], np.ndarray]:
    """A function `(address, count)` that returns `count` numbers in memory as an array."""
    itemsize = np.dtype(dtype).itemsize

    def view(address: int, count: int) -> np.ndarray:
        return np.frombuffer(memoryview((ctypes.c_char * (int(count) * itemsize)).from_address(int(address))), dtype)

    view.__name__ = f"{dtype}_at"  # what the compiler knows it by
    return view


VIEWS = int64_at, float64_at, float32_at, uint8_at = tuple(map(_view, ("int64", "float64", "float32", "uint8")))
