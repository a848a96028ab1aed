"""A hash of all that native code of a kernel is made from, the same in every process: text may be kept by it.

It is much cheaper than lowering. It covers what the compiler can see: the text of methods and helpers, the values of
all names in them that come from outside, fields, spaces, and the files of the compiler itself. A kernel with a value
that cannot be hashed has no hash, and is lowered anew in each process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv._batch.layout import Layout
from vecenv._util.version import __version__
from vecenv.kernel.language.source import IMPORTED, MISSING, FunctionSource, read_source
from vecenv.kernel.language.twins import twin_module

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel

_PACKAGE = Path(__file__).parents[2]
_COMPILER = ("errors.py", "_util", "_batch", "kernel")
"""Files and folders of vecenv that the compiler is made of: `vecenv.kernel`, and all that it may import."""
_PLAIN = (bool, int, float, str, bytes, type(None), type(...))
_NOT_READ = ("numpy", "math", "builtins")
"""Packages whose functions the compiler knows by their names."""


def digest_of(
    kernel: Kernel, layouts: Iterable[Layout], shapes: Mapping[str, tuple[int, ...]], *more: str
) -> str | None:
    """The hash of a kernel with these spaces and shapes of parameters, and of more texts; None if it has none."""
    fields = [repr(field) for field in (*kernel.state.values(), *kernel.params.values())]
    parts = [
        kernel.id,
        kernel.name,
        *fields,
        "",
        *kernel.info,
        "",
        *sorted(kernel.shared),
        "",
        repr(sorted(shapes.items())),
    ]
    try:
        parts += [_compiler(), __version__, np.__version__, sys.version, *more]
        for layout in layouts:
            parts += _space_parts(layout)
        parts += _Functions(kernel.methods).parts()
    except Exception:  # whatever attributes of modules raise; if it is a mistake, the compiler reports it
        return None
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(encoded)}:".encode() + encoded)
    return digest.hexdigest()


@functools.cache
def _compiler() -> str:
    """Hash of the files of the compiler, so that text of another compiler is never used.

    Raises _Unknown if there are no such files, or one was written since they were imported: then it is not what runs
    here.
    """
    digest, paths = hashlib.sha256(), compiler_files()
    if not paths:
        raise _Unknown
    for path in paths:
        if path.stat().st_mtime > IMPORTED:
            raise _Unknown
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE)}:{len(content)}:".encode() + content)
    return digest.hexdigest()


def compiler_files() -> list[Path]:
    """Files of vecenv that decide which text a kernel becomes."""
    found = [_PACKAGE / name for name in _COMPILER if name.endswith(".py")]
    for name in _COMPILER:
        for folder, _, files in os.walk(_PACKAGE / name):
            found += [Path(folder, file) for file in files if file.endswith((".py", ".h"))]
    return sorted(path for path in found if path.exists())


def _space_parts(layout: Layout) -> list[str]:
    parts = [type(layout.space).__qualname__]
    for leaf in layout.leaves:
        parts += [leaf.path, type(leaf.space).__qualname__, repr(leaf.shape), leaf.dtype.str]
        parts += [_text_of_array(np.asarray(bound)) for bound in leaf.bounds if bound is not None]
    return parts


def _text_of_array(array: np.ndarray) -> str:
    if array.dtype.kind not in "biuf":
        raise _Unknown
    return f"{array.dtype.str}{array.shape}{array.tobytes().hex()}"


class _Unknown(Exception):
    """A value that cannot be hashed."""


class _Functions:
    """Describes functions, and those that they can call, which get numbers in the order in which they are found."""

    def __init__(self, methods: Mapping[str, FunctionSource]) -> None:
        self._methods = methods
        self._numbers: dict[Any, int] = {}
        self._waiting: list[FunctionSource] = []

    def parts(self) -> list[str]:
        found: list[str] = []
        for name, source in self._methods.items():
            found.append(name)
            found += self._parts_of(source)
        while self._waiting:
            found += self._parts_of(self._waiting.pop())
        return found

    def _parts_of(self, source: FunctionSource) -> list[str]:
        function: Any = source.function
        defaults = [self._value(default) for default in (function.__defaults__ or ())]
        values = [f"{'.'.join(name)}={self._value(source.follow(name))}" for name in source.outside]
        return [source.text, *defaults, *values, ""]

    def _value(self, value: Any) -> str:
        """A text that differs where values do."""
        if type(value) in _PLAIN:
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{type(value).__name__}:{_text_of_array(np.asarray(value))}"
        if type(value) in (tuple, list):
            return f"{type(value).__name__}({','.join(map(self._value, value))})"
        if type(value) in (set, frozenset):
            return f"{type(value).__name__}({','.join(sorted(map(self._value, value)))})"
        if type(value) is dict:
            return f"dict({','.join(f'{self._value(key)}:{self._value(item)}' for key, item in value.items())})"
        if isinstance(value, (int, float)):  # a member of an enum
            kind = int if isinstance(value, int) else float
            return f"{type(value).__module__}.{type(value).__qualname__}:{kind(value)!r}"
        return "missing" if value is MISSING else self._named(value)

    def _named(self, value: Any) -> str:
        """Something that its name stands for: its attributes, if the kernel reads them, are values by themselves."""
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        value = getattr(value, "py_func", value)  # what @njit of Numba was put on: the compiler reads that
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        module = getattr(value, "__module__", None) or ("numpy" if isinstance(value, np.ufunc) else None)
        if not isinstance(name, str) or not isinstance(module, str):
            raise _Unknown
        if isinstance(value, type) or module.partition(".")[0] in _NOT_READ:
            return f"{module}.{name}"
        if not isinstance(value, FunctionType):
            raise _Unknown
        if value not in self._numbers:
            self._numbers[value] = len(self._numbers)
            self._waiting.append(read_source(value))
        return f"function {self._numbers[value]} {module}.{name} {twin_module(value)}"
