"""Arrays in kernel functions as LLVM's text: elements, slices, copies, and loops over them."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import NumbaError

from vecenv.kernel.lower.tree import index_parts
from vecenv.kernel.numba.naturals import is_natural
from vecenv.kernel.numba.row_loop import (
    BYTE,
    DOUBLE,
    FLAG,
    WORD,
    NotInRowLoop,
    Number,
    View,
    Writer,
    numba_type,
    product,
)

PLAIN_TYPES = (types.int64, types.float64, types.boolean)


@dataclass(frozen=True)
class KeptView:
    """A variable that is a view: what never changes of it, and where the rest is kept."""

    template: View
    places: tuple[Any, ...]


class ArrayWriter(Writer):
    """Reads and writes arrays. See `KernelFunction` for what its attributes are."""

    module: Any
    names: Mapping[str, Any]
    naturals: Collection[str]
    failed: Any
    is_reachable: bool
    loops: list[tuple[Any, Any, list[bool]]]

    def _pass_on(self, failed: Any) -> None:
        following = self.function.append_basic_block()
        self.builder.cbranch(failed, self.failed, following).set_weights([1, 99])
        self.builder.position_at_end(following)

    def _body(self, statements: Sequence[ast.stmt], following: Any, after: Any) -> bool:
        """Write the body of a loop; returns whether it has a break."""
        before = self.is_reachable
        self.loops.append((following, after, []))
        self._statements(statements)
        self.builder.branch(following)
        self.is_reachable = before
        return any(self.loops.pop()[2])

    @contextlib.contextmanager
    def _turns(self, body: Sequence[ast.stmt], start: Any, stop: Any, step: Any) -> Iterator[Any]:
        """The turns of a loop; what is written in the context comes before the body."""
        sign, before = "<" if step.constant > 0 else ">", self.builder.block
        inside, following, after = (self.function.append_basic_block() for _ in range(3))
        self.builder.cbranch(self.builder.icmp_signed(sign, start, stop), inside, after)
        self.builder.position_at_end(inside)
        index = self.builder.phi(WORD)
        index.add_incoming(start, before)
        yield index
        self._body(body, following, after)
        self.builder.position_at_end(following)
        next_index = self.builder.add(index, step, flags=("nsw",))
        index.add_incoming(next_index, following)
        self.builder.cbranch(self.builder.icmp_signed(sign, next_index, stop), inside, after)
        self.builder.position_at_end(after)

    def _constant_array(self, value: Any) -> View:
        """An array of the module, or a tuple of ints or floats, as memory that is never written."""
        if isinstance(value, tuple) and value and {type(one) for one in value} in ({int}, {float}):
            value = np.array(value)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or not value.size or not value.ndim:
            raise NotInRowLoop(repr(value))
        if not value.dtype.isnative or value.dtype == np.float16:
            raise NotInRowLoop(str(value.dtype))
        element = types.boolean if value.dtype.kind == "b" else getattr(types, value.dtype.name)
        data = bytearray(np.ascontiguousarray(value).tobytes())
        whole = ir.Constant(ir.ArrayType(BYTE, len(data)), data)
        place: Any = cgutils.global_constant(self.module, self.module.get_unique_name("vecenv_constant"), whole)
        place.align = 16
        pointer = self.builder.bitcast(place, self.context.get_data_type(element).as_pointer())
        return View(pointer, element, tuple(map(WORD, value.shape)))

    def _local_array(self, dtype: str, shape: tuple[int, ...]) -> View:
        element = types.boolean if dtype == "bool" else getattr(types, dtype)
        kind = self.context.get_data_type(element)
        with self.builder.goto_entry_block():
            data = self.builder.alloca(kind, size=WORD(int(np.prod(shape))))
        return View(data, element, tuple(map(WORD, shape)))

    def _of_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            view = self._value(node.value.value)
            if not isinstance(view, View) or not isinstance(node.slice, ast.Constant):
                raise NotInRowLoop(ast.unparse(node))
            return Number(view.shape[node.slice.value])  # type: ignore[index]  # it is an int
        owner = self._value(node.value)
        if isinstance(owner, list) and isinstance(node.slice, ast.Constant):
            return owner[node.slice.value]  # type: ignore[index]  # it is an int
        view = self._part_of(owner, node)
        if view.shape:
            return view
        if view.element not in PLAIN_TYPES:
            raise NotInRowLoop(ast.unparse(node))
        return self._read_element(view)

    def _part(self, node: ast.Subscript) -> View:
        return self._part_of(self._value(node.value), node)

    def _part_of(self, view: Any, node: ast.Subscript) -> View:
        indices = index_parts(node.slice)
        if not isinstance(view, View) or len(indices) > len(view.shape):
            raise NotInRowLoop(ast.unparse(node))
        if isinstance(indices[0], ast.Constant) and indices[0].value is ... and len(indices) == 1:
            return view
        strides, places, shape, kept, contiguous = self._strides(view), [], [], [], view.strides is None
        for axis, index in enumerate(indices):
            if isinstance(index, ast.Slice):
                start, size, is_whole = self._sliced(index, view.shape[axis])
                contiguous &= is_whole or not shape
                shape.append(size)
                kept.append(strides[axis])
            else:
                start = self._place(index, view.shape[axis])
                contiguous &= not shape
                if isinstance(node.value, ast.Name) and isinstance(self.names.get(node.value.id), tuple):
                    self._pass_on(self.builder.icmp_unsigned(">=", start, view.shape[axis]))  # as Numba raises for it
            places.append(start)
        part = self._element(view, places)
        shape, kept = [*shape, *view.shape[len(indices) :]], [*kept, *strides[len(indices) :]]
        return replace(part, shape=tuple(shape), strides=None if contiguous else tuple(kept))

    def _element(self, view: View, places: Sequence[Any]) -> View:
        """What is at these places along the first axes, as one element."""
        found = WORD(0)
        for place, stride in zip(places, self._strides(view), strict=False):
            scaled = product(self.builder, place, stride)
            if isinstance(scaled, ir.Constant) and isinstance(found, ir.Constant):
                found = WORD(scaled.constant + found.constant)
            elif isinstance(found, ir.Constant) and found.constant == 0:
                found = scaled
            else:
                found = self.builder.add(found, scaled, flags=("nsw",))
        return View(self.builder.gep(view.data, [found], inbounds=True), view.element, ())

    def _strides(self, view: View) -> Sequence[Any]:
        """How many elements the places along each axis are apart."""
        if view.strides is not None:
            return view.strides
        strides, stride = [], WORD(1)
        for size in reversed(view.shape):
            strides.insert(0, stride)
            stride = product(self.builder, stride, size)
        return strides

    def _place(self, index: ast.expr, size: Any) -> Any:
        """An index; a negative one counts from the end."""
        place = self._whole(self._value(index))
        return place if self._is_natural(index) else self._from_end(place, size)

    def _from_end(self, place: Any, size: Any) -> Any:
        if isinstance(place, ir.Constant) and isinstance(size, ir.Constant):
            return WORD(place.constant + (size.constant if place.constant < 0 else 0))
        negative = self.builder.icmp_signed("<", place, WORD(0))
        return self.builder.select(negative, self.builder.add(place, size), place)

    def _sliced(self, index: ast.Slice, size: Any) -> tuple[Any, Any, bool]:
        """Where a slice begins, its size, and whether it is known to be the whole axis."""
        if index.step is not None:
            raise NotInRowLoop(ast.unparse(index))
        lower = WORD(0) if index.lower is None else self._bound(index.lower, size)
        upper = size if index.upper is None else self._bound(index.upper, size)
        if isinstance(lower, ir.Constant) and lower.constant == 0:
            return lower, upper, _is_same(upper, size)
        if isinstance(lower, ir.Constant) and isinstance(upper, ir.Constant):
            return lower, WORD(max(upper.constant - lower.constant, 0)), False
        count = self.builder.sub(upper, lower)
        negative = self.builder.icmp_signed("<", count, WORD(0))
        return lower, self.builder.select(negative, WORD(0), count), False

    def _bound(self, bound: ast.expr, size: Any) -> Any:
        place = self._whole(self._value(bound))
        natural = self._is_natural(bound)
        place = place if natural else self._from_end(place, size)
        if isinstance(place, ir.Constant) and isinstance(size, ir.Constant):
            return WORD(min(max(place.constant, 0), size.constant))
        if not natural:
            place = self.builder.select(self.builder.icmp_signed("<", place, WORD(0)), WORD(0), place)
        return self.builder.select(self.builder.icmp_signed(">=", place, size), size, place)

    def _is_natural(self, node: ast.expr) -> bool:
        return is_natural(node, self.naturals)

    def _store(self, target: ast.Subscript, value: Any) -> None:
        if not isinstance(value, Number):
            raise NotInRowLoop(ast.unparse(target))
        self._fill(self._part(target), value)

    def _write_element(self, view: View, number: Number) -> None:
        try:
            value = self.context.cast(self.builder, number.value, numba_type(number), view.element)
        except NumbaError as error:
            raise NotInRowLoop(str(error)) from None  # Numba names the line
        if view.element == types.boolean:
            value = self.builder.zext(value, BYTE)
        self.builder.store(value, view.data)

    def _read_element(self, view: View) -> Number:
        loaded = self.builder.load(view.data)
        if view.element == types.boolean:
            return Number(self.builder.trunc(loaded, FLAG))
        return self._from_numba(loaded, view.element)

    def _copy(self, target: Any, source: Any) -> None:
        """`target[...] = source`; both may be parts of one array that overlap, if they have the same type."""
        if isinstance(target, View) and isinstance(source, Number):
            self._fill(target, source)
            return
        if not (isinstance(target, View) and isinstance(source, View)) or len(target.shape) != len(source.shape):
            raise NotInRowLoop("assign__")
        if target.element != source.element:
            self._convert(target, source)
            return
        alike = all(map(_is_same, target.shape[1:], source.shape[1:]))
        if target.strides is not None or source.strides is not None or not alike:
            raise NotInRowLoop("assign__")
        if _is_same(target.shape[0], source.shape[0]):
            self._move(target, source)
            return
        builder, (repeat, move, after) = self.builder, (self.function.append_basic_block() for _ in range(3))
        builder.cbranch(builder.icmp_signed("==", source.shape[0], WORD(1)), repeat, move)
        builder.position_at_end(move)
        self._move(target, source)
        builder.branch(after)
        builder.position_at_end(repeat)
        part = View(source.data, source.element, source.shape[1:])
        with self._turns((), WORD(0), target.shape[0], WORD(1)) as index:
            row = replace(self._element(target, [index]), shape=target.shape[1:])
            self._move(row, part)
        builder.branch(after)
        builder.position_at_end(after)

    def _move(self, target: View, source: View) -> None:
        size = self._size(target)
        cgutils.raw_memmove(self.builder, self._bytes_at(target), self._bytes_at(source), size, 1)

    def _fill(self, target: View, number: Number) -> None:
        if not target.shape:
            self._write_element(target, number)
            return
        with self._turns((), WORD(0), target.shape[0], WORD(1)) as index:
            self._fill(self._along_first_axis(target, index), number)

    def _convert(self, target: View, source: View) -> None:
        """Copy elements of another type; an axis of the source with one element is repeated."""
        if not target.shape:
            self._write_element(target, self._read_element(source))
            return
        single = self.builder.icmp_signed("==", source.shape[0], WORD(1))
        known = isinstance(source.shape[0], ir.Constant) or _is_same(source.shape[0], target.shape[0])
        repeats = isinstance(source.shape[0], ir.Constant) and source.shape[0].constant == 1
        with self._turns((), WORD(0), target.shape[0], WORD(1)) as index:
            place = (WORD(0) if repeats else index) if known else self.builder.select(single, WORD(0), index)
            self._convert(self._along_first_axis(target, index), self._along_first_axis(source, place))

    def _along_first_axis(self, view: View, place: Any) -> View:
        strides = None if view.strides is None else view.strides[1:]
        return replace(self._element(view, [place]), shape=view.shape[1:], strides=strides)


# --- parts of views --------------------------------------------------------------------------------------------------


def template_of(view: View, first_changes: bool) -> View:
    """What is constant of a view: None stands for what is not."""
    shape = [size.constant if isinstance(size, ir.Constant) else None for size in view.shape]
    if first_changes and shape:
        shape[0] = None
    strides = None
    if view.strides is not None:
        strides = tuple(stride.constant if isinstance(stride, ir.Constant) else None for stride in view.strides)
    return View(None, view.element, tuple(shape), strides=strides)


def changing_parts(value: Number | View, template: Any) -> list[Any]:
    """What must be kept of a value, besides what its template says."""
    if isinstance(value, Number):
        return [value.value]
    strides, known = value.strides or (), template.strides or ()
    sizes = [size for size, fixed in zip(value.shape, template.shape, strict=True) if fixed is None]
    return [value.data, *sizes, *(stride for stride, fixed in zip(strides, known, strict=True) if fixed is None)]


def rebuilt(template: Any, values: list[Any]) -> Number | View:
    """A value of its template, or of an argument like it; takes from the list what is not constant."""
    if not isinstance(template, View):
        return Number(values.pop(0))
    data = values.pop(0)

    def given(known: Any) -> Any:
        if isinstance(known, ir.Constant):
            return known
        return WORD(known) if isinstance(known, int) else values.pop(0)

    shape = tuple(map(given, template.shape))
    strides = None if template.strides is None else tuple(map(given, template.strides))
    return View(data, template.element, shape, strides=strides)


def returned_part(value: Any) -> Any:
    if isinstance(value, Number):
        return {WORD: types.int64, FLAG: types.boolean, DOUBLE: types.float64}[value.value.type]
    if isinstance(value, View):
        return template_of(value, first_changes=True)
    raise NotInRowLoop("a tuple in a tuple is returned")


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, ir.Constant) and isinstance(other, ir.Constant):
        return one.constant == other.constant
    return one is other
