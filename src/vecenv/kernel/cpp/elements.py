"""What names refer to as C++: fields, parameters, constants and tables; elements and parts of arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv.kernel.cpp.expressions import Expressions
from vecenv.kernel.cpp.values import NUMBERS, Value, literal
from vecenv.kernel.lower.tree import Kind, Ref, index_parts
from vecenv.kernel.lower.types import INT, Array, Number, Tuple, Type, plain


class Elements(Expressions):
    """Writes references and subscripts."""

    def array_of_row(self, name: str, kind: Type) -> Value:
        """An array that belongs to the row, as a variable at the head of the function."""
        assert isinstance(kind, Array)
        self.arrays_used.setdefault(name, kind)
        return Value(name, kind)

    def _of_Ref(self, node: Ref) -> Value:
        if node.kind is Kind.CONSTANT:
            return self._constant(node)
        kind = self.kind_of(node)
        names = {Kind.FIELD: f"S_{node.name}", Kind.PARAMETER: f"P_{node.name}"}
        name = names.get(node.kind) or f"{'A' if node.name == 'action' else 'O'}_{node.index}"
        if isinstance(kind, Array):
            return self.array_of_row(name, kind)
        if node.kind is Kind.FIELD:
            return Value(f"r.{name}", kind)
        held = self.program.kernel.params[node.name].dtype if node.kind is Kind.PARAMETER else self._leaf_dtype(node)
        return self.cast(Value(f"r.{name}", Number(held.name)), kind)

    def _leaf_dtype(self, node: Ref) -> np.dtype[Any]:
        return self.program.layouts[node.name].leaves[node.index].dtype

    def _constant(self, node: Ref) -> Value:
        """A value from outside: a literal, or a table."""
        value = self.program.constants[node.name]
        if isinstance(value, (bool, int, float)):
            return literal(value)
        array = _table(value)
        if array is None:
            assert isinstance(value, tuple)
            return self._tuple_constant(node, value)
        if node.name not in self.functions.tables:
            kind, element = Array(array.dtype.name, array.shape), NUMBERS[array.dtype.name]
            items = ", ".join(literal(item).text for item in array.ravel().tolist()) or "0"
            whole = self.whole(f"({element}*)d", kind, array.shape)
            text = (
                f"  static CUDA_CALLABLE {self.structs.name(kind)} {node.name}() {{ "
                f"static const {element} d[] = {{{items}}}; return {whole.text}; }}"
            )
            self.functions.tables[node.name] = kind, text
        return Value(f"{node.name}()", self.functions.tables[node.name][0])

    def _tuple_constant(self, node: Ref, value: tuple[Any, ...]) -> Value:
        """A tuple whose parts differ: each is a constant of its own."""
        parts: list[Value] = []
        for place, part in enumerate(value):
            if isinstance(part, (bool, int, float)):
                parts.append(literal(part))
            else:
                name = f"{node.name}_{place}"
                self.program.constants.setdefault(name, part)
                parts.append(self._constant(Ref(Kind.CONSTANT, name, 0, ast.Load())))  # type: ignore[call-arg]
        return self.tuple_of(parts)

    def _of_Attribute(self, node: ast.Attribute) -> Value:
        owner = self.expression(node.value)
        kind = owner.kind
        assert isinstance(kind, Array)
        owner = owner if owner.is_simple else self.temporary(owner)
        axes = range(len(kind.shape))
        if node.attr == "ndim":
            return literal(len(kind.shape))
        if node.attr == "T":
            turned = Array(kind.dtype, kind.shape[::-1])
            parts = [f"{owner.text}.{letter}{axis}" for letter in "ns" for axis in reversed(axes)]
            return Value(f"{self.structs.name(turned)}{{{', '.join([f'{owner.text}.p', *parts])}}}", turned)
        sizes = [Value(f"{owner.text}.n{axis}", INT) for axis in axes]
        if node.attr == "size":
            return Value(f"({' * '.join(size.text for size in sizes)})", INT)
        return self.tuple_of(sizes)

    def _of_Subscript(self, node: ast.Subscript) -> Value:
        return self.place(node)

    def place(self, node: ast.expr) -> Value:
        """What a target of an assignment is, or what an index reads: a field, an element or a part of an array."""
        if not isinstance(node, ast.Subscript):
            assert isinstance(node, Ref)
            return self._of_Ref(node)
        owner = self.expression(node.value)
        known = self.types.get(id(node.value))
        if isinstance(owner.kind, Tuple) or (isinstance(known, Tuple) and isinstance(node.slice, ast.Slice)):
            return self._part_of_tuple(node, owner)
        assert isinstance(owner.kind, Array)
        owner = owner if owner.is_simple else self.temporary(owner)
        return self._indexed(owner, node)

    def _part_of_tuple(self, node: ast.Subscript, owner: Value) -> Value:
        known = self.types[id(node.value)]
        assert isinstance(known, Tuple)
        if isinstance(node.slice, ast.Slice) and isinstance(owner.kind, Array):
            return self._view(owner if owner.is_simple else self.temporary(owner), node, [node.slice])
        parts = self.parts_of(owner, len(known.items))
        if isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            return self.tuple_of(parts[slice(*(None if end is None else self.constant(end) for end in ends))])
        place = self.constant(node.slice)
        if place is not None:
            return parts[place]
        row = self.as_row(self.tuple_of(parts), node)
        index = self._index(self.expression(node.slice), None, self.length(row))
        return self.cast_item(self.item(row, index), self.kind_of(node))

    def cast_item(self, item: Value, kind: Type) -> Value:
        """An item of a row as the type that it has in Python: a row of a table is a tuple."""
        return item if isinstance(item.kind, Array) and isinstance(kind, Array) else self.cast(item, kind)

    def _indexed(self, owner: Value, node: ast.Subscript) -> Value:
        kind, nodes = owner.kind, index_parts(node.slice)
        assert isinstance(kind, Array)
        if any(map(_is_part, nodes)):
            return self._view(owner, node, nodes)
        values = self.several(nodes)
        constants = [self.constant(part) for part in nodes]
        if len(values) == 1 and isinstance(values[0].kind, (Tuple, Array)):  # x[place] of a tuple is x[y, x]
            given = self.types[id(nodes[0])]
            count = len(given.items) if isinstance(given, Tuple) else len(kind.shape)
            values = self.parts_of(values[0], count)
            constants = [None] * count
        first = bool(getattr(node, "from_first", False))
        places = [
            self._index(value, constants[axis], None if first else f"{owner.text}.n{axis}")
            for axis, value in enumerate(values)
        ]
        if len(places) == max(len(kind.shape), 1):
            return self.cast_element(self.element(owner, places), node)
        for place in places:
            owner = Value(f"{owner.text}.row({place})", Array(kind.dtype, owner.kind.shape[1:]))  # type: ignore[union-attr]
        self.structs.name(owner.kind)
        known = self.types.get(id(node))
        return self.cast(owner, plain(known)) if isinstance(known, Tuple) else owner

    def cast_element(self, element: Value, node: ast.Subscript) -> Value:
        """An element of a table that is a tuple in Python has the type that it has there."""
        known = self.types.get(id(node))
        return (
            self.cast(element, plain(known))
            if isinstance(known, Number) and isinstance(node.ctx, ast.Load)
            else element
        )

    def _index(self, value: Value, constant: int | None, size: str | None) -> str:
        """An index, counted from the first element; `size` is None if it is already."""
        if constant is not None:
            return f"{constant}" if constant >= 0 else f"({size} - {-constant})"
        text = self.cast(value, INT).text
        return text if size is None else f"U::place({text}, {size})"

    def _view(self, owner: Value, node: ast.Subscript, parts: Sequence[ast.expr]) -> Value:
        """`a[1:3, j]` as an array of its own over the same memory."""
        assert isinstance(owner.kind, Array)
        from_first = bool(getattr(node, "from_first", False))
        array, axis = owner.text, 0
        start, sizes, strides = [f"{array}.p"], [], []
        for part in _spelled_out(parts, len(owner.kind.shape)):
            if isinstance(part, ast.Constant) and part.value is None:  # a new axis
                sizes.append("1")
                strides.append("0")
                continue
            if isinstance(part, ast.Slice):
                first, count, step = self._bounds(part, f"{array}.n{axis}")
                start.append(f"{first} * {array}.s{axis}")
                sizes.append(count)
                strides.append(f"{array}.s{axis} * {step}")
            else:
                size = None if from_first else f"{array}.n{axis}"
                index = self._index(self.expression(part), self.constant(part), size)
                start.append(f"{index} * {array}.s{axis}")
            axis += 1
        known = self.types.get(id(node))
        shape = known.shape if isinstance(known, Array) else (1,) * len(sizes)
        if isinstance(known, Tuple):  # rows of a table
            shape = (len(known.items), *owner.kind.shape[1:])
        kind = Array(owner.kind.dtype, shape)
        text = f"{self.structs.name(kind)}{{{' + '.join(start)}, {', '.join([*sizes, *strides])}}}"
        return self.temporary(Value(text, kind))

    def _bounds(self, part: ast.Slice, size: str) -> tuple[str, str, int]:
        """First place, number of places and step of a slice."""
        step = 1 if part.step is None else self.constant(part.step)
        if step is None or step == 0:
            raise self.fail(part, "the step of a slice must be a constant")
        ends = ("0", size) if step > 0 else (f"({size} - 1)", "-1")
        limit = "bound" if step > 0 else "bound_back"
        low, high = (
            end if node is None else self._bound(node, limit, size)
            for node, end in zip((part.lower, part.upper), ends, strict=True)
        )
        return low, f"U::span({low}, {high}, {step})", step

    def _bound(self, node: ast.expr, limit: str, size: str) -> str:
        return self.temporary(Value(f"U::{limit}({self.cast(self.expression(node), INT).text}, {size})", INT)).text


def _table(value: Any) -> np.ndarray | None:
    """A constant as an array, if all its numbers are of one type."""
    if isinstance(value, np.ndarray):
        return value if value.ndim else value.reshape(1)
    if not isinstance(value, tuple) or not value:
        return None
    kinds = {type(item) for item in _numbers(value)}
    if len(kinds) != 1 or not kinds <= {bool, int, float} or not _is_regular(value):
        return None
    return np.array(value)


def _numbers(value: Any) -> Any:
    if isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    else:
        yield value


def _is_regular(value: tuple[Any, ...]) -> bool:
    parts = [item for item in value if isinstance(item, tuple)]
    if not parts:
        return True
    return len(parts) == len(value) and len({len(part) for part in parts}) == 1 and all(map(_is_regular, parts))


def _is_part(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) or (isinstance(node, ast.Constant) and (node.value is ... or node.value is None))


def _spelled_out(parts: Sequence[ast.expr], axes: int) -> list[ast.expr]:
    """With `:` for what `...` stands for and what is left out at the end."""
    own = sum(not (isinstance(part, ast.Constant) and part.value in (None, ...)) for part in parts)
    missing: list[ast.expr] = [ast.Slice() for _ in range(axes - own)]
    found: list[ast.expr] = []
    for part in parts:
        if isinstance(part, ast.Constant) and part.value is ...:
            found += missing
            missing = []
        else:
            found.append(part)
    return found + missing
