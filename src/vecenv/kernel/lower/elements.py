"""Arrays as functions of indices: what an expression over arrays is until it is stored somewhere.

`Elements` give the expression of one element. `Memory` is a part of an array that exists, so that slices, transposed
and flipped arrays need no code of their own. Loops over all elements are written here, and nowhere else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vecenv.kernel.lower.tree import Kind, local, operation, ref, widened
from vecenv.kernel.lower.types import FRESH, Origins

At = Callable[[Sequence[ast.expr], "list[ast.stmt]"], ast.expr]
"""The expression of the element at some indices; statements that it needs before it are added to a list."""


@dataclass(frozen=True)
class Dim:
    """The size of an axis: `most`, or what a variable holds, which is at most that."""

    most: int
    name: str | None = None

    @property
    def size(self) -> ast.expr:
        return ast.Constant(self.most) if self.name is None else local(self.name)


@dataclass(frozen=True)
class Elements:
    """An array by its elements.

    Attributes:
        dtype: of the elements. What `at` gives is a number of 64 bits that such an element can hold.
        dims: sizes of the axes; none for a number.
        at: see there.
        reads: parts of arrays in memory that are read, and whether each element only at its own place.
    """

    dtype: str
    dims: tuple[Dim, ...]
    at: At
    reads: tuple[tuple[Memory, bool], ...] = ()


@dataclass(frozen=True)
class Taken:
    """How an axis of an array is taken: one place, or every `step`th from `start` on as an axis of the part."""

    start: ast.expr
    axis: int | None = None
    step: int = 1

    def index(self, indices: Sequence[ast.expr]) -> ast.expr:
        if self.axis is None:
            return self.start
        return plus(self.start, times(indices[self.axis], self.step))


@dataclass(frozen=True)
class Memory:
    """A part of an array in memory.

    Attributes:
        base: the array, a name.
        dtype: of its elements.
        taken: how each of its axes is taken.
        dims: sizes of the axes of the part.
        origins: what the array may be a part of.
        is_uncut: whether the sizes are those of the base.
    """

    base: ast.expr
    dtype: str
    taken: tuple[Taken, ...]
    dims: tuple[Dim, ...]
    origins: Origins = field(default=FRESH)
    is_uncut: bool = True

    def element(self, indices: Sequence[ast.expr], context: ast.expr_context) -> ast.Subscript:
        """The element at some indices, to be read or written."""
        places = [one.index(indices) for one in self.taken]
        index = places[0] if len(places) == 1 else ast.Tuple(places, ast.Load())
        element = ast.Subscript(self.base, index, context)
        element.from_first = True  # type: ignore[attr-defined]  # no index is negative, see tree.py
        return element

    def elements(self) -> Elements:
        return Elements(
            self.dtype, self.dims, lambda indices, _: widened(self.element(indices, ast.Load())), ((self, True),)
        )

    def is_same_part(self, other: Memory) -> bool:
        """Whether every element is at the same place as in another part, as far as can be seen."""
        return self._seen == other._seen

    @property
    def _seen(self) -> tuple[Any, ...]:
        return self.dims, text(self.base), [(text(one.start), one.axis, one.step) for one in self.taken]

    def view(self) -> ast.expr:
        """The part as an array."""
        axes = [one.axis for one in self.taken if one.axis is not None]
        flips = {one.axis for one in self.taken if one.step < 0}
        result = self.base if self._is_whole else ast.Subscript(self.base, self._slices(axes), ast.Load())
        if axes != sorted(axes):
            result = ast.Attribute(result, "T", ast.Load())
        if flips:
            back: list[ast.expr] = [
                ast.Slice(None, None, minus_one() if axis in flips else None) for axis in range(len(self.dims))
            ]
            result = ast.Subscript(result, back[0] if len(back) == 1 else ast.Tuple(back, ast.Load()), ast.Load())
        return result

    @property
    def _is_whole(self) -> bool:
        """Whether the part is the whole array, so that no slices need to be written."""
        is_plain = all(one.axis is not None and _is_zero(one.start) and one.step == 1 for one in self.taken)
        return is_plain and len(self.dims) == len(self.taken) and self.is_uncut

    def _slices(self, axes: list[int]) -> ast.expr:
        parts: list[ast.expr] = []
        missing = [axis for axis in range(len(self.dims)) if axis not in axes]  # new ones
        ascending = axes == sorted(axes)
        for one in self.taken:
            if one.axis is None:
                parts.append(one.start)
                continue
            while ascending and missing and missing[0] < one.axis:
                parts.append(ast.Constant(None))
                missing.pop(0)
            size = self.dims[one.axis].size
            if one.step < 0:
                low = plus(one.start, times(plus(size, minus_one()), one.step))
                parts.append(ast.Slice(low, plus(one.start, ast.Constant(1)), _step(-one.step)))
            else:
                parts.append(ast.Slice(one.start, plus(one.start, times(size, one.step)), _step(one.step)))
        parts += [ast.Constant(None) for _ in missing]
        return parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())

    # --- parts of the part -------------------------------------------------------------------------------------------

    def transposed(self) -> Memory:
        last = len(self.dims) - 1
        taken = tuple(one if one.axis is None else replace(one, axis=last - one.axis) for one in self.taken)
        return replace(self, taken=taken, dims=self.dims[::-1])

    def flipped(self, axis: int) -> Memory:
        def turned(one: Taken) -> Taken:
            if one.axis != axis:
                return one
            end = plus(one.start, times(plus(self.dims[axis].size, minus_one()), one.step))
            return replace(one, start=end, step=-one.step)

        return replace(self, taken=tuple(map(turned, self.taken)))


def whole(base: ast.expr, dtype: str, dims: Sequence[Dim], origins: Origins) -> Memory:
    """An array as it is."""
    taken = tuple(Taken(ast.Constant(0), axis) for axis in range(len(dims)))
    return Memory(base, dtype, taken, tuple(dims), origins)


def scalar(value: ast.expr, dtype: str) -> Elements:
    """A number as an array without axes; `value` may be evaluated many times."""
    return Elements(dtype, (), lambda indices, out: value)


def aligned(elements: Elements, dims: Sequence[Dim]) -> Elements:
    """Elements as an operand of an expression with these sizes: axes of size one are repeated."""
    if elements.dims == tuple(dims):
        return elements
    own = elements.dims
    wanted = tuple(dims)[len(dims) - len(own) :]

    def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
        places: list[ast.expr] = []
        for index, dim, full in zip(list(indices)[len(indices) - len(own) :], own, wanted, strict=True):
            if dim == full:
                places.append(index)
            elif dim.name is None:
                places.append(ast.Constant(0) if dim.most == 1 else index)
            else:
                many = ast.Compare(dim.size, [ast.NotEq()], [ast.Constant(1)])
                places.append(ast.IfExp(many, index, ast.Constant(0)))
        return elements.at(places, out)

    same = own == wanted
    return Elements(elements.dtype, tuple(dims), at, tuple((part, is_own and same) for part, is_own in elements.reads))


def moved(elements: Elements, dims: Sequence[Dim], at: At) -> Elements:
    """Elements that are read at other places than their own."""
    return Elements(elements.dtype, tuple(dims), at, tuple((part, False) for part, _ in elements.reads))


def reshaped(elements: Elements, dims: tuple[Dim, ...]) -> Elements:
    """The same elements in another shape; all sizes are known."""

    def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
        place: ast.expr = ast.Constant(0)
        for index, dim in zip(indices, dims, strict=True):
            place = plus(times(place, dim.most), index)
        places: list[ast.expr] = []
        for dim in reversed(elements.dims):
            if dim is elements.dims[0] and len(places) == len(elements.dims) - 1:
                places.insert(0, place)
            else:
                places.insert(0, ast.BinOp(place, ast.Mod(), ast.Constant(dim.most)))
                place = ast.BinOp(place, ast.FloorDiv(), ast.Constant(dim.most))
        return elements.at(places, out)

    return moved(elements, dims, at)


# --- expressions -----------------------------------------------------------------------------------------------------


def text(node: ast.AST) -> str:
    return ast.dump(node)


def minus_one() -> ast.expr:
    return ast.Constant(-1)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _step(step: int) -> ast.expr | None:
    return None if step == 1 else ast.Constant(step)


def plus(one: ast.expr, other: ast.expr) -> ast.expr:
    if isinstance(one, ast.Constant) and isinstance(other, ast.Constant):
        return ast.Constant(one.value + other.value)  # type: ignore[operator]  # ints
    if isinstance(one, ast.Constant) and one.value == 0:
        return other
    if isinstance(other, ast.Constant) and other.value == 0:
        return one
    return ast.BinOp(one, ast.Add(), other)


def times(one: ast.expr, factor: int) -> ast.expr:
    if isinstance(one, ast.Constant):
        return ast.Constant(one.value * factor)  # type: ignore[operator]  # an int
    return one if factor == 1 else ast.BinOp(one, ast.Mult(), ast.Constant(factor))


def builtin(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ref(Kind.BUILTIN, name), list(arguments), [])


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [operator], [right])


def set_to(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([local(name, ast.Store())], value)


def as_dtype(dtype: str, value: ast.expr) -> ast.expr:
    """A number as an element of a narrow type holds it, read back as 64 bits."""
    return value if dtype in ("bool", "int64", "float64") else operation(f"as_{dtype}", value)


def loops(
    dims: Sequence[Dim], name: Callable[[], str], body: Callable[[list[ast.expr]], list[ast.stmt]]
) -> list[ast.stmt]:
    """Loops over all indices of these sizes; `body` gets the indices and returns statements."""
    names = [None if dim == Dim(1) else name() for dim in dims]
    indices = [ast.Constant(0) if one is None else local(one) for one in names]
    statements: list[ast.stmt] = body(list(indices))
    for dim, one in reversed(list(zip(dims, names, strict=True))):
        if one is not None:
            loop: list[ast.stmt] = [ast.For(local(one, ast.Store()), builtin("range", dim.size), statements, [])]
            statements = loop
    return statements
