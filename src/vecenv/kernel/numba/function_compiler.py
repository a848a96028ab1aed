"""The compiler of native functions. Needs Numba."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import njit, types

from vecenv.kernel.numba.compile import column
from vecenv.kernel.numba.math import NATIVE
from vecenv.kernel.numba.one_module import object_code, parts_of_one_module


def compile_function(function: FunctionType, names: dict[str, Any], views: Sequence[Any]) -> tuple[bytes, str]:
    """Return an object file and the symbol of the function in it. Its C signature is Numba's own (see `compile.py`).

    The function's module is run once more in a namespace of its own, in which `names` replace names of the module,
    native views of memory replace `views`, and compiled functions replace plain ones.
    """
    file = function.__code__.co_filename
    scope: dict[str, Any] = {"__name__": function.__module__}
    exec(compile(Path(file).read_text(encoding="utf-8"), file, "exec"), scope)
    scope |= names
    for name, value in list(scope.items()):
        if value in views:
            scope[name] = column(value.__name__.removesuffix("_at"), 1)
        elif isinstance(value, FunctionType) and value.__globals__ is scope and value.__name__ != function.__name__:
            scope[name] = njit(**NATIVE)(value)
    run = njit(**NATIVE)(scope[function.__name__])
    with parts_of_one_module():
        run.compile((types.int64,))
    result = run.overloads[(types.int64,)]
    symbol = result.fndesc.llvm_func_name
    return object_code(result.library, symbol), symbol
