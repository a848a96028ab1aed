"""The entry of a row loop: a function of one int that Python calls as it calls its own functions written in C.

A call through ctypes takes 170 ns longer, which is a tenth of a step of 64 small envs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

SYMBOL = "vecenv_kernel"
_PYTHON = ("PyLong_AsLongLong", "PyLong_FromLongLong", "PyEval_SaveThread", "PyEval_RestoreThread")
_ONE_ARGUMENT = 8
"""METH_O of Python's C interface."""


def symbols() -> dict[str, int]:
    """Addresses of what an entry calls."""
    return {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in _PYTHON}


def write_entry(module: Any, run: Any) -> None:
    """Add the entry of `run`, a function from a 64-bit int to another, to LLVM's module. The GIL is released in it."""
    from llvmlite import ir  # late: code from the cache needs nothing of it

    word, thing = ir.IntType(64), ir.IntType(8).as_pointer()
    types = (word, [thing]), (thing, [word]), (thing, []), (ir.VoidType(), [thing])
    as_int, as_object, release, take = (
        ir.Function(module, ir.FunctionType(*signature), name) for name, signature in zip(_PYTHON, types, strict=True)
    )
    entry = ir.Function(module, ir.FunctionType(thing, [thing, thing]), SYMBOL)
    builder = ir.IRBuilder(entry.append_basic_block())
    orders = builder.call(as_int, [entry.args[1]])
    thread = builder.call(release, [])
    result = builder.call(run, [orders])
    builder.call(take, [thread])
    builder.ret(builder.call(as_object, [result]))


class _Definition(ctypes.Structure):
    """PyMethodDef of Python's C interface."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def python_function(address: int) -> Callable[[int], int]:
    """The entry at this address as a function of Python. It must be given an int."""
    new = ctypes.pythonapi["PyCFunction_NewEx"]
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    definition = _Definition(SYMBOL.encode(), address, _ONE_ARGUMENT, None)
    return new(ctypes.addressof(definition), definition, None)  # the function keeps its definition: it is its `self`
