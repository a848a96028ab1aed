"""Writing statements over arrays: names, local arrays, loops that store, sizes that are known only at run time."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vecenv.errors import KernelError
from vecenv.kernel.lower.elements import (
    Dim,
    Elements,
    Memory,
    Taken,
    aligned,
    builtin,
    compare,
    loops,
    plus,
    set_to,
    times,
    whole,
)
from vecenv.kernel.lower.instance import Instance
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref, at, index_parts, local, operation, part_of_tuple
from vecenv.kernel.lower.types import Array, Bound, Number, Tuple, Type, most
from vecenv.kernel.lower.windows import Window


class Writing:
    """What the parts of the rewriter share.

    Args:
        program: what the function is a part of.
        instance: the function and its types.
        changed: functions that were rewritten before, by the identity of their instances.
    """

    def __init__(self, program: Program, instance: Instance, changed: Mapping[int, Function]) -> None:
        self.program, self.instance, self.changed = program, instance, changed
        self.types = instance.types
        self.out: list[ast.stmt] = []
        """The statements that are being written."""
        self.place: ast.AST = instance.function.source.node
        """The user's statement that is being rewritten."""
        self.loop_depth = 0
        """How many of the user's loops are around the statement."""
        self.known_parts: dict[int, Memory] = {}
        """Parts of arrays that are known already, by the identity of their nodes: what `+=` reads is what it writes."""
        self.windows: dict[int, Window] = {}
        """Slices that are known to be within their arrays, by their identity; see `windows.py`."""
        self.local_arrays: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._counts: dict[str, int] = {}
        self._typed: list[ast.AST] = []

    # --- the rewriter's own ------------------------------------------------------------------------------------------

    def needs(self, node: ast.AST) -> bool:
        """Whether a node or a part of it has to be rewritten."""
        raise NotImplementedError

    def value(self, node: ast.expr) -> ast.expr:
        """An expression without array expressions; statements that it needs are written before it."""
        raise NotImplementedError

    def elements(self, node: ast.expr) -> Elements:
        """An operand by its elements; a number has none and is computed once."""
        raise NotImplementedError

    def array(self, node: ast.expr, binding: bool = False) -> ast.expr:
        """An array in memory; `binding` if it gets a name, by which it may be written to."""
        raise NotImplementedError

    def memory(self, node: ast.expr) -> Memory:
        """The part of memory that an expression is."""
        raise NotImplementedError

    def memory_or_elements(self, node: ast.expr) -> Memory | Elements:
        """A part of memory if the expression is one, else its elements."""
        raise NotImplementedError

    # --- types -------------------------------------------------------------------------------------------------------

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        return self.program.error(self.instance.function.source, node if hasattr(node, "lineno") else self.place, rule)

    def type_of(self, node: ast.AST) -> Type:
        return self.types[id(node)]

    def is_array(self, node: ast.AST) -> bool:
        return isinstance(self.types.get(id(node)), Array)

    def is_several(self, node: ast.AST) -> bool:
        return isinstance(self.types.get(id(node)), (Array, Tuple))

    def constant(self, node: ast.expr) -> int | None:
        found = self.types.get(id(node))
        return found.value if isinstance(found, Number) else None

    def size_of_slice(self, part: ast.Slice, size: Any) -> Any:
        raise NotImplementedError  # only the inference is asked

    def typed(self, node: ast.expr, kind: Type) -> ast.expr:
        """A new node with its type."""
        self.types[id(node)] = kind
        self._typed.append(node)  # kept, so that no other node gets its identity
        return node

    # --- statements and names ----------------------------------------------------------------------------------------

    def emit(self, *statements: ast.stmt) -> None:
        self.out += [at(self.place, statement) for statement in statements]

    def captured(self, write: Callable[[], None]) -> list[ast.stmt]:
        """The statements that a function writes."""
        kept, self.out = self.out, []
        write()
        written, self.out = self.out, kept
        return written

    def name(self, what: str) -> str:
        """A new name for a variable."""
        self._counts[what] = self._counts.get(what, 0) + 1
        return f"{what}{self._counts[what]}__"

    def kept(self, value: ast.expr) -> ast.expr:
        """A value that can be used many times: what is not a constant or a variable is put into one."""
        if isinstance(value, (ast.Constant, ast.Name)) or (isinstance(value, Ref) and value.kind is Kind.CONSTANT):
            return value
        name = self.name("value")
        self.emit(set_to(name, value))
        return local(name)

    def loop(self, dims: Sequence[Dim], body: Callable[[list[ast.expr]], list[ast.stmt]]) -> list[ast.stmt]:
        """Loops over all indices of these sizes."""
        return loops(dims, lambda: self.name("index"), body)

    # --- memory ------------------------------------------------------------------------------------------------------

    def storage(self, dtype: str, shape: Sequence[int], origins: frozenset[str] = frozenset()) -> Memory:
        """A new local array."""
        name = self.name("array")
        self.local_arrays[name] = dtype, tuple(max(size, 1) for size in shape)
        part = whole(local(name), dtype, [Dim(size) for size in shape], origins)
        return part if all(shape) else replace(part, is_uncut=False)  # no array has no elements

    def cut(self, part: Memory, dims: Sequence[Dim]) -> Memory:
        """The first elements of an array along each axis."""
        return part if tuple(dims) == part.dims else replace(part, dims=tuple(dims), is_uncut=False)

    def dims_of(self, base: ast.expr, kind: Array) -> tuple[Dim, ...]:
        """The sizes of an array in a variable."""
        dims: list[Dim] = []
        for axis, size in enumerate(kind.shape):
            if isinstance(size, Bound):
                name = self.name("size")
                shape = ast.Attribute(base, "shape", ast.Load())
                self.emit(set_to(name, ast.Subscript(shape, ast.Constant(axis), ast.Load())))
                dims.append(Dim(size.most, name))
            else:
                dims.append(Dim(size))
        return tuple(dims)

    def fill(self, target: Memory, elements: Elements) -> None:
        """Store elements into memory; by way of another array if they are read from there at other places."""
        overlap = any(
            part.origins & target.origins and not (is_own and part.is_same_part(target))
            for part, is_own in elements.reads
        )
        if overlap:
            elements = self.materialized(elements).elements()
        source = aligned(elements, target.dims)
        for one, full in zip(reversed(elements.dims), reversed(target.dims), strict=False):
            self._expect("fills", one, full)

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            value = source.at(indices, before)
            return [*before, ast.Assign([target.element(indices, ast.Store())], value)]

        self.emit(*self.loop(target.dims, body))

    def materialized(self, elements: Elements, origins: frozenset[str] = frozenset()) -> Memory:
        """Elements in an array of their own."""
        part = self.cut(self.storage(elements.dtype, [dim.most for dim in elements.dims], origins), elements.dims)
        self.fill(part, elements)
        return part

    def settled(self, part: Memory, reads: Sequence[tuple[Memory, bool]]) -> Memory:
        """A result in memory that the next turn of a loop may read while it writes the result anew."""
        is_local = any(origin.startswith("local:") for memory, _ in reads for origin in memory.origins)
        if not self.loop_depth or not is_local:
            return part
        return self.materialized(replace(part.elements(), reads=()))

    def in_memory(self, elements: Memory | Elements) -> Memory:
        return elements if isinstance(elements, Memory) else self.materialized(elements)

    # --- sizes -------------------------------------------------------------------------------------------------------

    def sizes(self, node: ast.expr, kind: Array) -> tuple[Dim, ...]:
        """The sizes of an array whose shape is an argument."""
        if not any(isinstance(size, Bound) for size in kind.shape):
            return tuple(Dim(most(size)) for size in kind.shape)
        given = self.type_of(node)
        value = self.value(node)
        if isinstance(given, Tuple):
            several = self.kept(value)
            values = [part_of_tuple(several, ast.Constant(place)) for place in range(len(given.items))]
        else:
            values = [value]
        dims: list[Dim] = []
        for size, its in zip(kind.shape, values, strict=True):
            if isinstance(size, Bound):
                name = self.name("size")
                self.emit(set_to(name, its))
                dims.append(Dim(size.most, name))
            else:
                dims.append(Dim(size))
        return tuple(dims)

    def together(self, shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
        """The sizes of an expression over arrays with these sizes."""
        dims: list[Dim] = []
        for axis in range(-max(map(len, shapes), default=0), 0):
            dim = Dim(1)
            for shape in shapes:
                if -axis <= len(shape):
                    dim = self._common(dim, shape[axis])
            dims.append(dim)
        return tuple(dims)

    def _common(self, one: Dim, other: Dim) -> Dim:
        if one == other or other == Dim(1):
            return one
        self._expect("joins", one, other)
        if one == Dim(1) or one.name is None or other.name is None:
            return other if one == Dim(1) or other.name is None else one
        name = self.name("size")
        smaller = builtin("min", one.size, other.size)
        rest = ast.IfExp(compare(other.size, ast.Eq(), ast.Constant(1)), one.size, smaller)
        self.emit(set_to(name, ast.IfExp(compare(one.size, ast.Eq(), ast.Constant(1)), other.size, rest)))
        return Dim(max(one.most, other.most), name)

    def _expect(self, check: str, one: Dim, other: Dim) -> None:
        """In checked code, look whether two sizes fit, where one of them is known only then."""
        if self.program.checked and one != other and Dim(1) != one and (one.name or other.name):
            self.emit(ast.Expr(operation(check, one.size, other.size)))

    def count(self, dims: Sequence[Dim]) -> ast.expr:
        """How many elements there are."""
        known = 1
        result: ast.expr | None = None
        for dim in dims:
            if dim.name is None:
                known *= dim.most
            else:
                result = dim.size if result is None else ast.BinOp(result, ast.Mult(), dim.size)
        return ast.Constant(known) if result is None else times(result, known)

    # --- parts -------------------------------------------------------------------------------------------------------

    def sliced(self, owner: Memory, parts: Sequence[ast.expr]) -> Memory:
        """`owner[parts]`."""
        used = sum(not (isinstance(part, ast.Constant) and part.value in (None, ...)) for part in parts)
        rest: list[ast.expr] = [ast.Slice() for _ in range(len(owner.dims) - used)]
        where = next((k for k, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is ...), None)
        full = [*parts, *rest] if where is None else [*parts[:where], *rest, *parts[where + 1 :]]
        dims: list[Dim] = []
        of_axis: list[tuple[ast.expr, int | None, int]] = []
        for part in full:
            if isinstance(part, ast.Constant) and part.value is None:
                dims.append(Dim(1))
            elif isinstance(part, ast.Slice):
                start, step, dim = self._bounds(part, owner.dims[len(of_axis)])
                of_axis.append((start, len(dims), step))
                dims.append(dim)
            else:
                of_axis.append((self._place_of(part, owner.dims[len(of_axis)]), None, 1))

        def taken(one: Taken) -> Taken:
            if one.axis is None:
                return one
            start, axis, step = of_axis[one.axis]
            return Taken(plus(one.start, times(start, one.step)), axis, one.step * step)

        uncut = owner.is_uncut and tuple(dims) == owner.dims
        return replace(owner, taken=tuple(map(taken, owner.taken)), dims=tuple(dims), is_uncut=uncut)

    def index_of(self, node: ast.Subscript) -> list[ast.expr]:
        """The parts of an index, one per axis; a tuple in a variable has several."""
        kind = self.types.get(id(node.slice))
        if isinstance(node.slice, ast.Tuple) or not isinstance(kind, Tuple):
            return index_parts(node.slice)
        place = self.typed(self.kept(self.value(node.slice)), kind)
        return [self.item_of(place, number, item) for number, item in enumerate(kind.items)]

    def item_of(self, several: ast.expr, place: int, kind: Type) -> ast.expr:
        """`several[place]` of a tuple, as a node with a type."""
        index = self.typed(ast.Constant(place), Number("int64", place))
        return self.typed(ast.Subscript(several, index, ast.Load()), kind)

    def is_picked(self, node: ast.Subscript) -> bool:
        """Whether elements are picked by a mask or by arrays of places."""
        kind = self.types.get(id(node.slice))
        if not isinstance(node.slice, ast.Tuple) and isinstance(kind, Tuple):
            return any(isinstance(item, (Array, Tuple)) for item in kind.items)
        return any(map(self.is_several, index_parts(node.slice)))

    def at_place(self, owner: Memory, place: int) -> Memory:
        """`owner[place]`."""
        return self.sliced(owner, [self.typed(ast.Constant(place), Number("int64", place))])

    def sliced_at(self, owner: Memory, place: ast.expr) -> Memory:
        """`owner[place]` of a variable that is not negative."""
        taken = tuple(
            one
            if one.axis is None
            else Taken(plus(one.start, times(place, one.step)))
            if one.axis == 0
            else replace(one, axis=one.axis - 1)
            for one in owner.taken
        )
        return replace(owner, taken=taken, dims=owner.dims[1:], is_uncut=False)

    def _place_of(self, part: ast.expr, dim: Dim) -> ast.expr:
        """An index from the first element on."""
        known = self.constant(part)
        if known is not None:
            return ast.Constant(known) if known >= 0 else plus(dim.size, ast.Constant(known))
        place = self.kept(self.value(part))
        name = self.name("place")
        below = compare(place, ast.Lt(), ast.Constant(0))
        self.emit(set_to(name, ast.IfExp(below, plus(place, dim.size), place)))
        return local(name)

    def _bounds(self, part: ast.Slice, dim: Dim) -> tuple[ast.expr, int, Dim]:
        """Start, step and size of a slice."""
        given = (part.lower, part.upper, part.step)
        known = [None if bound is None else self.constant(bound) for bound in given]
        unknown = [bound is not None and value is None for bound, value in zip(given, known, strict=True)]
        if unknown[2] or known[2] == 0:
            raise self.fail(self.place, "the step of a slice must be a constant that is not 0")
        step = known[2] or 1
        if not any(unknown) and dim.name is None:
            places = range(*slice(*known).indices(dim.most))
            return ast.Constant(places.start), step, Dim(len(places))
        if part.lower is None and part.upper is None and abs(step) == 1:
            return (ast.Constant(0) if step > 0 else plus(dim.size, ast.Constant(-1))), step, dim
        window = self.windows.get(id(part))
        if window is not None:
            return self.kept(self.value(window.start)), 1, Dim(window.size)
        if step < 0:
            rule = "a slice that goes backwards needs bounds that are known; slice it first, then [::-1]"
            raise self.fail(self.place, rule)
        low: ast.expr = ast.Constant(0) if part.lower is None else self._clamped(part.lower, dim)
        high = dim.size if part.upper is None else self._clamped(part.upper, dim)
        length: ast.expr = ast.BinOp(high, ast.Sub(), low)
        if step > 1:
            length = ast.BinOp(plus(length, ast.Constant(step - 1)), ast.FloorDiv(), ast.Constant(step))
        name = self.name("size")
        self.emit(set_to(name, builtin("max", length, ast.Constant(0))))
        return low, step, Dim(dim.most, name)

    def _clamped(self, bound: ast.expr, dim: Dim) -> ast.expr:
        place, name = self._place_of(bound, dim), self.name("place")
        self.emit(set_to(name, builtin("min", builtin("max", place, ast.Constant(0)), dim.size)))
        return local(name)
