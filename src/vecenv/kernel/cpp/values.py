"""C++ types and literals of the kernel language's types.

A number is a C++ number, an array a struct of a pointer, sizes and strides, a tuple a struct of its parts. `real` is
`double` in exact code and `float` in fast code: the one place where precisions differ in the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv.kernel.lower.types import BOOL, FLOAT, INT, NOTHING, STREAM, Array, Number, Tuple, Type

NUMBERS = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "i64",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "u64",
    "float32": "float",
    "float64": "real",
}
"""C++ types by dtype."""


@dataclass(frozen=True)
class Value:
    """An expression of C++ and its type."""

    text: str
    kind: Type

    @property
    def dtype(self) -> str:
        """The dtype of a number or of an array's elements."""
        assert isinstance(self.kind, (Number, Array))
        return self.kind.dtype

    @property
    def is_simple(self) -> bool:
        """Whether it is a name or a literal, which may be written several times."""
        return self.text.replace("_", "").replace(".", "").isalnum()


@dataclass(eq=False)
class Structs:
    """The structs that a program needs, in the order of their definitions."""

    arrays: set[tuple[str, int]] = field(default_factory=set)
    tuples: dict[str, Tuple] = field(default_factory=dict)

    def name(self, kind: Type) -> str:
        """The C++ type of a type."""
        if isinstance(kind, Number):
            return NUMBERS[kind.dtype]
        if isinstance(kind, Array):
            axes = max(len(kind.shape), 1)
            self.arrays |= {(kind.dtype, axis) for axis in range(1, axes + 1)}
            return f"A_{kind.dtype}_{axes}"
        if isinstance(kind, Tuple):
            parts = [self.name(item).replace(" ", "") for item in kind.items]
            name = f"T{len(parts)}_{'_'.join(parts)}"
            self.tuples.setdefault(name, kind)
            return name
        if kind == STREAM:
            return "u64*"
        assert kind == NOTHING, kind
        return "void"

    def parameter(self, name: str, kind: Type) -> tuple[str, Value]:
        """How a parameter of a function is declared, and its value.

        Arrays are passed in parts: where all calls pass the same sizes and strides, clang then knows them.
        """
        if not isinstance(kind, Array):
            return f"{self.name(kind)} {name}", Value(name, kind)
        names = [f"{name}_{member}" for member in members_of(kind)]
        declared = [f"{NUMBERS[kind.dtype]}* {names[0]}", *(f"i64 {size}" for size in names[1:])]
        return ", ".join(declared), Value(f"{self.name(kind)}{{{', '.join(names)}}}", kind)

    def text(self) -> str:
        """Their definitions. There are no templates: they stand inside a function."""
        lines: list[str] = []
        for dtype, axes in sorted(self.arrays, key=lambda one: (one[1], one[0])):
            lines += _array_struct(dtype, axes)
        for name, kind in self.tuples.items():
            parts = " ".join(f"{self.name(item)} a{place};" for place, item in enumerate(kind.items))
            lines.append(f"struct {name} {{ {parts} }};")
        return "\n".join(lines)


def members_of(kind: Array) -> list[str]:
    """Members of the struct of an array: where it begins, sizes, and elements from one place to the next."""
    axes = range(max(len(kind.shape), 1))
    return ["p", *(f"n{axis}" for axis in axes), *(f"s{axis}" for axis in axes)]


def _array_struct(dtype: str, axes: int) -> list[str]:
    name, element, places = f"A_{dtype}_{axes}", NUMBERS[dtype], range(axes)
    sizes = ", ".join([*(f"n{axis}" for axis in places), *(f"s{axis}" for axis in places)])
    where = " + ".join(f"i{axis} * s{axis}" for axis in places)
    indices = ", ".join(f"i64 i{axis}" for axis in places)
    lines = [
        f"struct {name} {{ {element}* p; i64 {sizes};",
        f"  CUDA_CALLABLE {element}& at({indices}) const {{ return p[{where}]; }}",
    ]
    if axes > 1:
        rest = ", ".join([*(f"n{axis}" for axis in places[1:]), *(f"s{axis}" for axis in places[1:])])
        part = f"A_{dtype}_{axes - 1}"
        lines.append(f"  CUDA_CALLABLE {part} row(i64 i) const {{ return {part}{{p + i * s0, {rest}}}; }}")
    return [*lines, "};"]


def strides_of(shape: Sequence[int]) -> list[int]:
    """Elements from one place to the next along each axis."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def literal(value: Any) -> Value:
    """A number of Python."""
    if isinstance(value, (bool, np.bool_)):
        return Value("true" if value else "false", BOOL)
    if isinstance(value, (int, np.integer)):
        number = int(value)
        if number == -(2**63):
            return Value("(-9223372036854775807LL - 1)", INT)
        return Value(f"{number}LL" if number >= 0 else f"({number}LL)", INT)
    number = float(value)
    if math.isnan(number):
        return Value("U::nan()", FLOAT)
    if math.isinf(number):
        return Value("U::inf()" if number > 0 else "(-U::inf())", FLOAT)
    return Value(f"((real){number!r})" if math.copysign(1.0, number) > 0 else f"((real)({number!r}))", FLOAT)
