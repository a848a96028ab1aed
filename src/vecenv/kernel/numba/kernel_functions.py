"""The compiler of kernel functions: their emitted text becomes LLVM's, without Numba's inference.

Numba takes a tenth of a second for a function. It is not needed where all types are plain: numbers are 64-bit ints,
floats and bools, a variable has one type everywhere, and an array has a known number of axes. A function with anything
else raises `NotInRowLoop`, and is then compiled by Numba, together with all that it calls.

What is computed is the same in both, to the bit. Conversions, random numbers and mathematics are Numba's functions, and
so is every operation that has no method here (`_by_numba`).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import NumbaError, TypingError

from vecenv.kernel.lower.tree import index_parts, local
from vecenv.kernel.numba.row_loop import (
    BYTE,
    COMPARISONS,
    DOUBLE,
    FLAG,
    WORD,
    KernelCalls,
    NotInRowLoop,
    Number,
    Returned,
    View,
    Writer,
    numba_type,
    passed_for,
    product,
)

_LOCAL_ARRAY = re.compile(r"local_array_([a-z0-9]+)_([0-9x]+)__")
_CHEAP_CALLS = re.compile(r"widen__|abs|as_\w+__")
_CHEAP = (ast.Name, ast.Constant, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.BinOp, ast.IfExp, ast.Tuple, ast.Call)
_LITERAL = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
_CONDITIONAL_OPERATORS = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift)
"""Slow, or without a result for some operands."""
_PLAIN_TYPES = (types.int64, types.float64, types.boolean)


@dataclass(frozen=True)
class _Kept:
    """A variable that is a view: what never changes of it, and where the rest is kept."""

    template: View
    places: tuple[Any, ...]


class KernelFunction(Writer):
    """Writes one function for arguments of these types. Views are passed as addresses and sizes that are not constant.

    It returns a struct: whether it failed, and the values.
    """

    def __init__(
        self,
        node: ast.FunctionDef,
        arguments: Sequence[Number | View],
        module: Any,
        calls: KernelCalls,
        flags: tuple[str, ...],
        names: Mapping[str, Any],
    ) -> None:
        self.node, self.module, self.calls, self.flags, self.names = node, module, calls, flags, names
        self.context = calls.context
        parameters = [argument.arg for argument in node.args.args]
        if len(parameters) != len(arguments) or node.args.kwonlyargs:
            raise NotInRowLoop(node.name)
        name = module.get_unique_name(f"vecenv_{node.name}")
        self.result = module.context.get_identified_type(f"{name}.result")
        passed = [value.type for argument in arguments for value in passed_for(argument)]
        self.function = ir.Function(module, ir.FunctionType(self.result, passed), name)
        self.function.linkage = "internal"
        self.builder: Any = ir.IRBuilder(self.function.append_basic_block())
        self.failed = self.function.append_basic_block("failed")
        self.returned: Returned | None = None
        self.is_reachable = True
        self.loops: list[tuple[Any, Any, list[bool]]] = []
        """Of each loop around the statement: where the next turn begins, what comes after it, its breaks."""
        self.variables: dict[str, Any] = {}
        nodes = list(ast.walk(node))
        loads = [one for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        self.stores = Counter(one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
        widened = {id(one.args[0]) for one in nodes if isinstance(one, ast.Call) and _calls(one, "widen__")}
        self.read_as_they_are = {one.id for one in loads if id(one) not in widened}
        self.naturals = _natural_variables(nodes, parameters)
        given = list(self.function.args)
        for parameter, argument in zip(parameters, arguments, strict=True):
            value = _rebuilt(argument, given)
            if isinstance(value, View) and not self.stores[parameter]:
                self.variables[parameter] = value
            else:
                self._assign_name(parameter, value)

    def write(self) -> None:
        self._statements(self.node.body)
        if self.is_reachable:
            self._return(None)
        else:
            self.builder.unreachable()
        if self.returned is None:  # it never returns
            raise NotInRowLoop(self.node.name)
        self.builder.position_at_end(self.failed)
        self.builder.ret(self._result([FLAG(1)]))

    # --- statements --------------------------------------------------------------------------------------------------

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Return(self, node: ast.Return) -> None:
        empty = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        self._return(None if empty else self._value(node.value))  # type: ignore[arg-type]  # it is not None
        self._leave()

    def _return(self, value: Any) -> None:
        values = value if isinstance(value, list) else [] if value is None else [value]
        parts = tuple(_returned_part(one) for one in values)
        returned = Returned(parts, isinstance(value, list))
        flat = [found for one, part in zip(values, parts, strict=True) for found in _changing(one, part)]
        if self.returned is None:
            self.returned = returned
            self.result.set_body(FLAG, *(found.type for found in flat))
        elif self.returned != returned:
            raise NotInRowLoop(f"{self.node.name} returns values of several types")
        self.builder.ret(self._result([FLAG(0), *flat]))

    def _result(self, values: Sequence[Any]) -> Any:
        made = ir.Constant(self.result, ir.Undefined)
        for number, value in enumerate(values):
            made = self.builder.insert_value(made, value, number)
        return made

    def _leave(self) -> None:
        """What follows is never reached."""
        self.builder.position_at_end(self.function.append_basic_block())
        self.is_reachable = False

    def _do_Raise(self, node: ast.Raise) -> None:
        self.builder.branch(self.failed)
        self._leave()

    def _pass_on(self, failed: Any) -> None:
        following = self.function.append_basic_block()
        self.builder.cbranch(failed, self.failed, following).set_weights([1, 99])
        self.builder.position_at_end(following)

    def _do_If(self, node: ast.If) -> None:
        yes, no, after = (self.function.append_basic_block() for _ in range(3))
        self._branch(node.test, yes, no)
        before, reached = self.is_reachable, False
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            self.is_reachable = before
            self._statements(statements)
            reached |= self.is_reachable
            self.builder.branch(after)
        self.is_reachable = reached
        self.builder.position_at_end(after)

    def _do_Continue(self, node: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])
        self._leave()

    def _do_Break(self, node: ast.Break) -> None:
        _, after, breaks = self.loops[-1]
        breaks.append(self.is_reachable)
        self.builder.branch(after)
        self._leave()

    def _body(self, statements: Sequence[ast.stmt], following: Any, after: Any) -> bool:
        """Write the body of a loop; returns whether it has a break."""
        before = self.is_reachable
        self.loops.append((following, after, []))
        self._statements(statements)
        self.builder.branch(following)
        self.is_reachable = before
        return any(self.loops.pop()[2])

    def _do_While(self, node: ast.While) -> None:
        if node.orelse:
            raise NotInRowLoop(ast.unparse(node))
        head, body, after = (self.function.append_basic_block() for _ in range(3))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self._branch(node.test, body, after)
        self.builder.position_at_end(body)
        breaks = self._body(node.body, head, after)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.is_reachable &= breaks or not endless
        self.builder.position_at_end(after)

    def _do_For(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise NotInRowLoop(ast.unparse(node))
        if not (isinstance(node.iter, ast.Call) and _calls(node.iter, "range")):
            self._for_each(node, node.target.id)
            return
        bounds = [self._whole(self._value(argument)) for argument in node.iter.args]
        start, stop = (WORD(0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else WORD(1)
        if not isinstance(step, ir.Constant) or step.constant == 0:
            raise NotInRowLoop(ast.unparse(node.iter))
        with self._turns(node.body, start, stop, step) as index:
            self._assign_name(node.target.id, Number(index))

    def _for_each(self, node: ast.For, target: str) -> None:
        """A loop over the parts of an array along its first axis, also with their numbers."""
        called = node.iter.func.id if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name) else ""
        counts = self.names.get(called) is enumerate
        iterated: ast.expr = node.iter.args[0] if counts else node.iter  # type: ignore[attr-defined]  # it is a call
        if isinstance(iterated, ast.Tuple) and all(isinstance(part, ast.Constant) for part in iterated.elts):
            view: Any = self._constant_array(ast.literal_eval(iterated))
        else:
            view = self._value(iterated)
        if not isinstance(view, View) or (counts and len(node.iter.args) > 1):  # type: ignore[attr-defined]  # as above
            raise NotInRowLoop(ast.unparse(node.iter))
        if len(view.shape) == 1 and view.element not in _PLAIN_TYPES and (counts or target in self.read_as_they_are):
            raise NotInRowLoop(ast.unparse(node.iter))
        with self._turns(node.body, WORD(0), view.shape[0], WORD(1)) as index:
            part: Any = self._along_first_axis(view, index)
            part = part if part.shape else self._read_element(part)
            self._assign_name(target, [Number(index), part] if counts else part)

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

    def _do_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if not isinstance(target, ast.Tuple):
            super()._do_Assign(node)
            return
        values = self._value(node.value)
        if isinstance(values, View):
            values = self._elements(values, target)
        if not isinstance(values, list) or len(values) != len(target.elts):
            raise NotInRowLoop(ast.unparse(node))
        for one, value in zip(target.elts, values, strict=True):
            self._assign(one, value)

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise NotInRowLoop(ast.unparse(node))  # the index must not be computed twice
        super()._do_AugAssign(node)

    def _elements(self, view: View, target: ast.Tuple) -> list[Any] | None:
        """The elements of an array with one axis of constant size, for these variables."""
        read = {one.id for one in target.elts if isinstance(one, ast.Name)} & self.read_as_they_are
        if len(view.shape) != 1 or not isinstance(view.shape[0], ir.Constant):
            return None
        if view.element not in _PLAIN_TYPES and (read or not all(isinstance(one, ast.Name) for one in target.elts)):
            return None
        return [self._read_element(self._element(view, [WORD(place)])) for place in range(view.shape[0].constant)]

    # --- variables ---------------------------------------------------------------------------------------------------

    def _assign_name(self, name: str, value: Any) -> None:
        if isinstance(value, View):
            self._assign_view(name, value)
            return
        if isinstance(value, list) and self.stores[name] == 1:
            self.variables[name] = [f"{name}.{place}" for place in range(len(value))]
            for part, one in zip(self.variables[name], value, strict=True):
                self._assign_name(part, one)
            return
        if not isinstance(value, Number):
            raise NotInRowLoop(name)
        kind = value.value.type
        if name not in self.variables:
            with self.builder.goto_entry_block():
                self.variables[name] = self.builder.alloca(kind, name=name)
        place = self.variables[name]
        if isinstance(place, (View, _Kept, list)) or place.type.pointee != kind:
            raise NotInRowLoop(f"{name} has values of several types")
        self.builder.store(value.value, place)

    def _assign_view(self, name: str, view: View) -> None:
        is_argument = any(name == argument.arg for argument in self.node.args.args)
        template = _template(view, first_changes=self.stores[name] + is_argument > 1)
        values = _changing(view, template)
        if name not in self.variables:
            with self.builder.goto_entry_block():
                places = tuple(self.builder.alloca(value.type) for value in values)
            self.variables[name] = _Kept(template, places)
        kept = self.variables[name]
        if not isinstance(kept, _Kept) or kept.template != template:
            raise NotInRowLoop(f"{name} is several kinds of arrays")
        for value, place in zip(values, kept.places, strict=True):
            self.builder.store(value, place)

    def _of_Name(self, node: ast.Name) -> Any:
        if node.id not in self.variables:
            return self._constant(node.id)
        place = self.variables[node.id]
        if isinstance(place, list):
            return [self._of_Name(local(part)) for part in place]
        if isinstance(place, _Kept):
            return _rebuilt(place.template, [self.builder.load(one) for one in place.places])
        return place if isinstance(place, View) else Number(self.builder.load(place))

    def _constant(self, name: str) -> Any:
        value = self.names.get(name)
        if self.stores[name] or value is None:
            raise NotInRowLoop(name)
        if type(value) in (bool, int, float):
            return self._of_Constant(ast.Constant(value))
        return self._constant_array(value)

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

    def _of_Constant(self, node: ast.Constant) -> Number:
        if type(node.value) is int and not -(2**63) <= node.value < 2**63:
            raise NotInRowLoop(ast.unparse(node))
        return super()._of_Constant(node)

    # --- arrays ------------------------------------------------------------------------------------------------------

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
        if view.element not in _PLAIN_TYPES:
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
        return _is_natural(node, self.naturals)

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

    # --- expressions -------------------------------------------------------------------------------------------------

    def _is_cheap(self, *nodes: ast.AST) -> bool:
        """Whether it may be computed although it is not needed, and takes no time."""
        return all(_is_cheap(part) for node in nodes for part in ast.walk(node))

    def _branch(self, test: ast.expr, yes: Any, no: Any, only_flags: bool = False) -> None:
        """Go to one of two blocks. Later parts of `and` and `or` are computed only if they are needed."""
        if isinstance(test, ast.BoolOp) and self._is_cheap(test) and not only_flags:
            flags = [self._truth(self._value(one)) for one in test.values]
            self.builder.cbranch(self._joined(test.op, flags), yes, no)
            return
        if isinstance(test, ast.BoolOp) and not self._is_cheap(test):
            for part in test.values[:-1]:
                following = self.function.append_basic_block()
                if isinstance(test.op, ast.And):
                    self._branch(part, following, no, only_flags)
                else:
                    self._branch(part, yes, following, only_flags)
                self.builder.position_at_end(following)
            self._branch(test.values[-1], yes, no, only_flags)
            return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._branch(test.operand, no, yes)
            return
        value = self._value(test)
        if only_flags and not (isinstance(value, Number) and value.value.type == FLAG):
            raise NotInRowLoop(ast.unparse(test))
        self.builder.cbranch(self._truth(value), yes, no)

    def _joined(self, operator: ast.boolop, flags: Sequence[Any]) -> Any:
        """`and` or `or` of flags. A later flag has no influence where Python would not compute it.

        So it is no `and` of bits: to LLVM, that is undefined if one of them is (a conversion of NaN to an int).
        """
        if isinstance(operator, ast.And):
            return functools.reduce(lambda first, second: self.builder.select(first, second, FLAG(0)), flags)
        return functools.reduce(lambda first, second: self.builder.select(first, FLAG(1), second), flags)

    def _of_BoolOp(self, node: ast.BoolOp) -> Number:
        if self._is_cheap(node):
            values = [self._value(value) for value in node.values]
            if any(not isinstance(value, Number) or value.value.type != FLAG for value in values):
                raise NotInRowLoop(ast.unparse(node))
            return Number(self._joined(node.op, [value.value for value in values]))
        yes, no, after = (self.function.append_basic_block() for _ in range(3))
        self._branch(node, yes, no, only_flags=True)
        for block in (yes, no):
            self.builder.position_at_end(block)
            self.builder.branch(after)
        self.builder.position_at_end(after)
        found = self.builder.phi(FLAG)
        found.add_incoming(FLAG(1), yes)
        found.add_incoming(FLAG(0), no)
        return Number(found)

    def _of_IfExp(self, node: ast.IfExp) -> Number:
        if self._is_cheap(node.body, node.orelse):
            test = self._truth(self._value(node.test))
            yes, no = self._alike(self._value(node.body), self._value(node.orelse))
            return Number(self.builder.select(test, yes, no))
        blocks = self.function.append_basic_block(), self.function.append_basic_block()
        self._branch(node.test, *blocks)
        sides = []
        for block, value in zip(blocks, (node.body, node.orelse), strict=True):
            self.builder.position_at_end(block)
            sides.append((self._value(value), self.builder.block))
        if any(not isinstance(value, Number) for value, _ in sides):
            raise NotInRowLoop(ast.unparse(node))
        kind = next(kind for kind in (DOUBLE, WORD, FLAG) if any(kind == value.value.type for value, _ in sides))
        after, found = self.function.append_basic_block(), []
        for value, block in sides:
            self.builder.position_at_end(block)
            found.append((self._as(value, kind), block))
            self.builder.branch(after)
        self.builder.position_at_end(after)
        phi = self.builder.phi(kind)
        for value, block in found:
            phi.add_incoming(value, block)
        return Number(phi)

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Number:
        operand = self._value(node.operand)
        if isinstance(node.op, ast.Not):
            return Number(self.builder.not_(self._truth(operand)))
        if not isinstance(node.op, ast.USub) or not isinstance(operand, Number) or operand.value.type == FLAG:
            raise NotInRowLoop(ast.unparse(node))
        if isinstance(operand.value, ir.Constant):
            return Number(operand.value.type(-operand.value.constant))
        if operand.value.type == DOUBLE:
            return Number(self.builder.fsub(DOUBLE(-0.0), operand.value, flags=self.flags))
        return Number(self.builder.neg(operand.value))

    def _of_Compare(self, node: ast.Compare) -> Number:
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self._is_among(node)
        if not self._is_cheap(*node.comparators[1:]) or any(type(one) not in COMPARISONS for one in node.ops):
            raise NotInRowLoop(ast.unparse(node))
        values = [self._value(part) for part in (node.left, *node.comparators)]
        flags = [
            self._compared(COMPARISONS[type(operator)], first, second)
            for operator, first, second in zip(node.ops, values, values[1:], strict=False)
        ]
        return Number(self._joined(ast.And(), flags))

    def _compared(self, sign: str, first: Any, second: Any) -> Any:
        left, right = self._alike(first, second)
        if left.type == DOUBLE:
            unequal = sign == "!="  # also of what is not a number
            return (self.builder.fcmp_unordered if unequal else self.builder.fcmp_ordered)(sign, left, right)
        return (self.builder.icmp_unsigned if left.type == FLAG else self.builder.icmp_signed)(sign, left, right)

    def _is_among(self, node: ast.Compare) -> Number:
        """`x in (a, b, c)`."""
        if len(node.ops) > 1:
            raise NotInRowLoop(ast.unparse(node))
        (options,) = node.comparators
        known = self.names.get(options.id) if isinstance(options, ast.Name) else None
        if isinstance(known, tuple) and all(type(one) in (int, float, bool) for one in known):
            options = ast.Tuple([ast.Constant(one) for one in known], ast.Load())
        if not isinstance(options, ast.Tuple) or not self._is_cheap(options):
            raise NotInRowLoop(ast.unparse(node))
        value, found = self._value(node.left), FLAG(0)
        for option in options.elts:
            found = self.builder.or_(found, self._compared("==", value, self._value(option)))
        return Number(found if isinstance(node.ops[0], ast.In) else self.builder.not_(found))

    def _computed(self, operator: ast.operator, first: Any, second: Any, node: ast.AST) -> Number:
        if not (isinstance(first, Number) and isinstance(second, Number)):
            raise NotInRowLoop(ast.unparse(node))
        kind, both = type(operator), {first.value.type, second.value.type}
        if kind is ast.Div and FLAG not in both:
            left, right = self._as(first, DOUBLE), self._as(second, DOUBLE)
            return Number(self.builder.fdiv(left, right, flags=self.flags))
        constant = second.value.constant if isinstance(second.value, ir.Constant) else 0
        if kind in (ast.FloorDiv, ast.Mod) and both == {WORD} and constant > 0:
            return Number(self._divided(kind, first.value, second.value))
        if kind in (ast.Add, ast.Sub, ast.Mult) or (kind in (ast.BitAnd, ast.BitOr) and DOUBLE not in both):
            return super()._computed(operator, first, second, node)
        text = ast.unparse(ast.BinOp(ast.Name("first"), operator, ast.Name("second")))
        return self._by_numba(text, {"first": first, "second": second})

    def _divided(self, kind: type[ast.operator], value: Any, by: Any) -> Any:
        """Rounded down, by a positive constant; or what is left."""
        builder = self.builder
        quotient, rest = builder.sdiv(value, by), builder.srem(value, by)
        below = builder.icmp_signed("<", rest, WORD(0))
        if kind is ast.Mod:
            return builder.select(below, builder.add(rest, by), rest)
        return builder.select(below, builder.sub(quotient, WORD(1)), quotient)

    # --- calls -------------------------------------------------------------------------------------------------------

    def _of_Call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            raise NotInRowLoop(ast.unparse(node))
        name = node.func.id
        declared = _LOCAL_ARRAY.fullmatch(name)
        if declared is not None:
            return self._local_array(declared[1], tuple(map(int, declared[2].split("x"))))
        method = getattr(self, f"_call_{name.rstrip('_')}", None)
        if method is not None and not node.keywords:
            found = method(node)
            if found is not NotImplemented:
                return found
        definition = self.calls.definition(name)
        if definition is not None:
            arguments = [self._value(argument) for argument in _positional(node, definition)]
            if not all(isinstance(argument, (Number, View)) for argument in arguments):
                raise NotInRowLoop(ast.unparse(node))
            return self._call_kernel(name, arguments)
        intrinsic = getattr(self.names.get(name), "_defn", None)
        if intrinsic is not None and not node.keywords:
            return self._call_intrinsic(intrinsic, [self._number(argument) for argument in node.args])
        return self._call_by_numba(node)

    def _number(self, node: ast.expr) -> Number:
        value = self._value(node)
        if not isinstance(value, Number):
            raise NotInRowLoop(ast.unparse(node))
        return value

    def _call_intrinsic(self, define: Any, arguments: Sequence[Number], kinds: Sequence[Any] | None = None) -> Number:
        """Write what one of our intrinsics generates."""
        kinds = kinds or [numba_type(argument) for argument in arguments]
        try:
            signature, generate = define(None, *kinds)
        except TypingError as error:
            raise NotInRowLoop(str(error)) from None  # Numba names the line
        value = generate(self.context, self.builder, signature, [argument.value for argument in arguments])
        return self._from_numba(value, signature.return_type)

    def _call_by_numba(self, node: ast.Call) -> Any:
        """A call of what only Numba knows; constants stay constants."""
        given: dict[str, Number | View] = {}

        def passed(argument: ast.expr) -> ast.expr:
            literal = all(isinstance(part, _LITERAL) for part in ast.walk(argument))
            known = isinstance(argument, ast.Name) and argument.id not in self.variables and argument.id in self.names
            if literal or known:
                return argument
            value = self._value(argument)
            if not isinstance(value, (Number, View)):
                raise NotInRowLoop(ast.unparse(argument))
            given[f"given{len(given)}"] = value
            return ast.Name(f"given{len(given) - 1}", ast.Load())

        arguments = [passed(argument) for argument in node.args]
        keywords = [ast.keyword(keyword.arg, passed(keyword.value)) for keyword in node.keywords]
        return self._by_numba(ast.unparse(ast.Call(node.func, arguments, keywords)), given)

    def _by_numba(self, text: str, given: Mapping[str, Number | View]) -> Any:
        """The value of an expression over these names, by Numba."""
        return self._called(*self.calls.expression(text, given), list(given.values()))

    def _called(self, function: Any, returned: Returned, arguments: Sequence[Number | View]) -> Any:
        for part in returned.parts:
            if not isinstance(part, View) and part not in _PLAIN_TYPES:
                raise NotInRowLoop(f"{part} is returned")  # Numba computes with it as it is
        return super()._called(function, returned, arguments)

    def _call_widen(self, node: ast.Call) -> Any:
        (argument,) = node.args
        if isinstance(argument, ast.Subscript) and not (
            isinstance(argument.value, ast.Attribute) and argument.value.attr == "shape"
        ):
            owner = self._value(argument.value)
            if isinstance(owner, View):
                view = self._part_of(owner, argument)
                return view if view.shape else self._read_element(view)
            if isinstance(owner, list) and isinstance(argument.slice, ast.Constant):
                return owner[argument.slice.value]  # type: ignore[index]  # it is an int
            raise NotInRowLoop(ast.unparse(node))
        return self._value(argument)

    def _call_equals(self, node: ast.Call) -> Number:
        element, value = node.args
        if not isinstance(element, ast.Subscript):
            raise NotInRowLoop(ast.unparse(node))
        view, number = self._part(element), self._number(value)
        if view.shape or not isinstance(view.element, types.Integer):
            raise NotInRowLoop(ast.unparse(node))
        narrow = Number(self.builder.load(view.data))
        return self._call_intrinsic(self.names["equals__"]._defn, [narrow, number], [view.element, numba_type(number)])

    def _local_array(self, dtype: str, shape: tuple[int, ...]) -> View:
        element = types.boolean if dtype == "bool" else getattr(types, dtype)
        kind = self.context.get_data_type(element)
        with self.builder.goto_entry_block():
            data = self.builder.alloca(kind, size=WORD(int(np.prod(shape))))
        return View(data, element, tuple(map(WORD, shape)))

    def _call_flat(self, node: ast.Call) -> View:
        view = self._value(node.args[0])
        if not isinstance(view, View) or view.strides is not None:
            raise NotInRowLoop(ast.unparse(node))
        return View(view.data, view.element, (self._count(view),))

    def _call_len(self, node: ast.Call) -> Number:
        view = self._value(node.args[0])
        if not isinstance(view, View):
            raise NotInRowLoop(ast.unparse(node))
        return Number(view.shape[0])

    def _call_assign(self, node: ast.Call) -> Any:
        if len(node.args) != 2:
            raise NotInRowLoop(ast.unparse(node))
        target, source = (self._value(argument) for argument in node.args)
        try:
            self._copy(target, source)
        except NotInRowLoop:
            self._by_numba("assign__(target, source)", {"target": target, "source": source})

    def _call_min(self, node: ast.Call) -> Any:
        return self._extreme(node, "<")

    def _call_max(self, node: ast.Call) -> Any:
        return self._extreme(node, ">")

    def _extreme(self, node: ast.Call, sign: str) -> Any:
        if len(node.args) < 2:
            raise NotInRowLoop(ast.unparse(node))
        found, *others = [self._number(argument) for argument in node.args]
        for other in others:
            first, second = self._alike(found, other)
            better = self._compared(sign, Number(second), Number(first))
            found = Number(self.builder.select(better, second, first))
        return found

    def _call_abs(self, node: ast.Call) -> Any:
        value = self._number(node.args[0]).value
        if value.type == FLAG:
            raise NotInRowLoop(ast.unparse(node))
        if value.type == DOUBLE:
            return Number(self.builder.call(self.module.declare_intrinsic("llvm.fabs", [DOUBLE]), [value]))
        negative = self.builder.icmp_signed("<", value, WORD(0))
        return Number(self.builder.select(negative, self.builder.neg(value), value))

    def _call_int(self, node: ast.Call) -> Any:
        if len(node.args) != 1:
            raise NotInRowLoop(ast.unparse(node))
        number = self._number(node.args[0])
        if number.value.type == DOUBLE:
            return Number(self.builder.fptosi(number.value, WORD))
        return Number(self._as(number, WORD))


# --- parts of views --------------------------------------------------------------------------------------------------


def _template(view: View, first_changes: bool) -> View:
    """What is constant of a view: None stands for what is not."""
    shape = [size.constant if isinstance(size, ir.Constant) else None for size in view.shape]
    if first_changes and shape:
        shape[0] = None
    strides = None
    if view.strides is not None:
        strides = tuple(stride.constant if isinstance(stride, ir.Constant) else None for stride in view.strides)
    return View(None, view.element, tuple(shape), strides=strides)


def _changing(value: Number | View, template: Any) -> list[Any]:
    """What must be kept of a value, besides what its template says."""
    if isinstance(value, Number):
        return [value.value]
    strides, known = value.strides or (), template.strides or ()
    sizes = [size for size, fixed in zip(value.shape, template.shape, strict=True) if fixed is None]
    return [value.data, *sizes, *(stride for stride, fixed in zip(strides, known, strict=True) if fixed is None)]


def _rebuilt(template: Any, values: list[Any]) -> Number | View:
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


def _returned_part(value: Any) -> Any:
    if isinstance(value, Number):
        return {WORD: types.int64, FLAG: types.boolean, DOUBLE: types.float64}[value.value.type]
    if isinstance(value, View):
        return _template(value, first_changes=True)
    raise NotInRowLoop("a tuple in a tuple is returned")


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, ir.Constant) and isinstance(other, ir.Constant):
        return one.constant == other.constant
    return one is other


def _is_cheap(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and _CHEAP_CALLS.fullmatch(node.func.id) is not None
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, _CONDITIONAL_OPERATORS)
    return isinstance(node, _CHEAP) or not isinstance(node, ast.expr)


# --- numbers that are never negative ---------------------------------------------------------------------------------


def _natural_variables(nodes: Sequence[ast.AST], parameters: Collection[str]) -> set[str]:
    """Variables of which every value is an int that is not negative."""
    stored: dict[str, list[ast.expr | None]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            stored.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            stored.setdefault(node.target.id, []).append(_first_of_range(node.iter))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.setdefault(node.id, [])
    counts = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    natural = {name for name, values in stored.items() if len(values) == counts[name]} - set(parameters)
    while True:
        found = {
            name for name in natural if all(value is not None and _is_natural(value, natural) for value in stored[name])
        }
        if found == natural:
            return natural
        natural = found


def _first_of_range(iterated: ast.expr) -> ast.expr | None:
    """The smallest value of a range that ascends."""
    if not (isinstance(iterated, ast.Call) and _calls(iterated, "range")):
        return None
    if len(iterated.args) == 1:
        return ast.Constant(0)
    if len(iterated.args) == 3 and not (isinstance(iterated.args[2], ast.Constant) and iterated.args[2].value > 0):  # type: ignore[operator]  # it is an int
        return None
    return iterated.args[0]


def _is_natural(node: ast.expr, naturals: Collection[str]) -> bool:
    """Whether an expression is an int that is not negative, if these variables are."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value >= 0
    if isinstance(node, ast.Name):
        return node.id in naturals
    if isinstance(node, ast.IfExp):
        return _is_natural(node.body, naturals) and _is_natural(node.orelse, naturals)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        return _is_natural(node.left, naturals) and _is_natural(node.right, naturals)
    if isinstance(node, ast.Call):
        if _calls(node, "len"):
            return True
        return (_calls(node, "widen__") or _calls(node, "min")) and all(_is_natural(one, naturals) for one in node.args)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        return node.value.attr == "shape"
    return False


def _positional(call: ast.Call, definition: ast.FunctionDef) -> list[ast.expr]:
    """The arguments of a call in the order of the parameters, with defaults."""
    parameters = [argument.arg for argument in definition.args.args]
    found = dict(zip(parameters, call.args, strict=False))
    found |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    defaults = definition.args.defaults
    found = {**dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)), **found}
    if any(name not in found for name in parameters) or len(found) != len(parameters):
        raise NotInRowLoop(ast.unparse(call))
    return [found[name] for name in parameters]


def _calls(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name
