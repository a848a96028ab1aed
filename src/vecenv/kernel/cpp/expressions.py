"""Expressions as C++: numbers, tuples, elements and parts of arrays, in Python's order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel.cpp.values import NUMBERS, Structs, Value, literal, strides_of
from vecenv.kernel.lower.instance import Instance
from vecenv.kernel.lower.program import Program
from vecenv.kernel.lower.tree import Kind, Ref, index_parts
from vecenv.kernel.lower.typed import common
from vecenv.kernel.lower.types import BOOL, FLOAT, INT, NOTHING, Array, Number, Tuple, Type, plain

if TYPE_CHECKING:
    from vecenv.kernel.cpp.functions import Functions

T = TypeVar("T")
_SIGNS: dict[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
}  # fmt: skip
_WRAPPED: dict[type, str] = {ast.Add: "add_i", ast.Sub: "sub_i", ast.Mult: "mul_i", ast.LShift: "shl_i"}
"""Operations on ints that may overflow, which C++ leaves undefined."""


@dataclass(frozen=True)
class StructRow(Value):
    """An array of structs: tuples, picked by an index."""

    item: Type
    count: int


class Expressions:
    """Writes expressions. `FunctionWriter` has the rest."""

    functions: Functions
    instance: Instance
    program: Program
    structs: Structs
    types: dict[int, Type]
    arrays_used: dict[str, Array]
    depth: int

    def add(self, text: str) -> None:
        raise NotImplementedError

    def name(self, letter: str) -> str:
        raise NotImplementedError

    def temporary(self, value: Value) -> Value:
        raise NotImplementedError

    def captured(self, write: Callable[[], T]) -> tuple[list[str], T]:
        raise NotImplementedError

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        raise NotImplementedError

    def variable(self, node: ast.Name) -> Value:
        raise NotImplementedError

    def of_call(self, node: ast.Call) -> Value:
        raise NotImplementedError

    # --- types -------------------------------------------------------------------------------------------------------

    def known(self, node: ast.AST, kind: Type) -> Type:
        """A type that C++ can name. Raises KernelError."""
        if isinstance(kind, (Number, Array, Tuple)) or str(kind) in ("nothing", "the random stream"):
            if isinstance(kind, Tuple):
                return Tuple(tuple(self.known(node, item) for item in kind.items))
            return plain(kind)
        raise self.fail(node, f"the C++ backend cannot tell the type of this ({kind}); engine='compiled' runs it")

    def kind_of(self, node: ast.expr) -> Type:
        return self.known(node, self.types[id(node)])

    def constant(self, node: ast.expr) -> int | None:
        """The value of an int that is the same whenever the code runs."""
        found = self.types.get(id(node))
        return found.value if isinstance(found, Number) else None

    def cast(self, value: Value, to: Type) -> Value:
        """A value as another type."""
        kind = value.kind
        if self.structs.name(kind) == self.structs.name(to) and not (
            isinstance(kind, Array) and isinstance(to, Number)
        ):
            return Value(value.text, to)
        if isinstance(to, Number) and isinstance(kind, Number):
            if to == BOOL:
                return Value(f"(({value.text}) != 0)", BOOL)
            if "float" in kind.dtype and "float" not in to.dtype:
                whole = f"U::to_int({value.text})"
                return Value(whole if to.dtype == "int64" else f"(({NUMBERS[to.dtype]}){whole})", to)
            return Value(f"(({NUMBERS[to.dtype]})({value.text}))", to)
        if isinstance(to, Number) and isinstance(kind, Array):
            element = self.element(value, ["0"] * len(kind.shape))
            return self.cast(element, to)
        if isinstance(to, Tuple) and isinstance(kind, (Tuple, Array)):
            return self.tuple_of(
                [
                    self.cast(part, item)
                    for part, item in zip(self.parts_of(value, len(to.items)), to.items, strict=True)
                ]
            )
        raise AssertionError(f"{kind} as {to}: {value.text}")

    # --- order -------------------------------------------------------------------------------------------------------

    def several(self, nodes: Sequence[ast.expr]) -> list[Value]:
        """Values in Python's order: what stands left of an effect is computed before it."""
        found: list[Value] = []
        for place, node in enumerate(nodes):
            value = self.expression(node)
            later = any(map(self.functions.has_effects, nodes[place + 1 :]))
            if later and isinstance(value.kind, (Number, Tuple)) and not isinstance(node, ast.Constant):
                value = self.temporary(value)
            found.append(value)
        return found

    def expression(self, node: ast.expr) -> Value:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise self.fail(node, f"the C++ backend has no form of this ({type(node).__name__.lower()})")
        return method(node)

    def truth(self, node: ast.expr) -> str:
        """An expression as a condition."""
        return self._is_true(self.expression(node))

    def _is_true(self, value: Value) -> str:
        if isinstance(value.kind, Array):
            value = self.element(value, ["0"] * len(value.kind.shape))
        return value.text if value.kind == BOOL else f"({value.text} != 0)"

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _of_Constant(self, node: ast.Constant) -> Value:
        if node.value is None:
            return Value("", NOTHING)
        return literal(node.value)

    def _of_Name(self, node: ast.Name) -> Value:
        return self.variable(node)

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(f"(!({self.truth(node.operand)}))", BOOL)
        kind = self.kind_of(node)
        value = self.cast(self.expression(node.operand), kind)
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(node.op, ast.Invert):
            return Value(f"(~{value.text})", kind)
        return Value(f"U::neg_i({value.text})" if kind == INT else f"(-{value.text})", kind)

    def _of_BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.several([node.left, node.right])
        return self.operation_on(type(node.op), left, right, self.kind_of(node))

    def operation_on(self, operator: type, left: Value, right: Value, kind: Type) -> Value:
        """An operation with a result of a type, in which it is computed."""
        assert isinstance(kind, Number)
        if kind.dtype not in ("bool", "int64", "float64", "float32"):  # narrow ints: with 64 bits, then cut
            return self.cast(self.operation_on(operator, self.cast(left, INT), self.cast(right, INT), INT), kind)
        x, y = self.cast(left, kind).text, self.cast(right, kind).text
        if operator in (ast.FloorDiv, ast.Mod):
            name = f"{'floordiv' if operator is ast.FloorDiv else 'mod'}_{'f' if 'float' in kind.dtype else 'i'}"
            found = Value(f"U::{name}({x}, {y})", FLOAT if kind.dtype == "float32" else kind)
            return self.cast(found, kind)
        if kind == INT and operator in _WRAPPED:
            return Value(f"U::{_WRAPPED[operator]}({x}, {y})", INT)
        if operator is ast.RShift:
            return Value(f"U::shr_i({x}, {y})", INT)
        text = f"({x} {_SIGNS[operator]} {y})"
        return Value(f"((bool){text})" if kind == BOOL else text, kind)

    def _of_IfExp(self, node: ast.IfExp) -> Value:
        test, kind = self.truth(node.test), self.kind_of(node)
        branches = [
            self.captured(lambda branch=branch: self.cast(self.expression(branch), kind))
            for branch in (node.body, node.orelse)
        ]
        (one, yes), (two, no) = branches
        if not one and not two:
            return Value(f"({test} ? {yes.text} : {no.text})", kind)
        return self._chosen(test, kind, branches)

    def _chosen(self, test: str, kind: Type, branches: Sequence[tuple[list[str], Value]]) -> Value:
        name = self.name("t")
        self.add(f"{self.structs.name(kind)} {name}{{}};")
        self.add(f"if ({test}) {{")
        for (lines, value), end in zip(branches, ("} else {", "}"), strict=True):
            for line in lines:
                self.add("  " + line.strip())
            self.add(f"  {name} = {value.text};")
            self.add(end)
        return Value(name, kind)

    def _of_BoolOp(self, node: ast.BoolOp) -> Value:
        """`and` and `or`: operands after the first are computed only if they are needed."""
        is_and, kind = isinstance(node.op, ast.And), self.kind_of(node)
        first = self.expression(node.values[0])
        rest = [self.captured(lambda value=value: self.expression(value)) for value in node.values[1:]]
        if kind == BOOL and not any(lines for lines, _ in rest):
            tests = [self._is_true(first), *(self._is_true(value) for _, value in rest)]
            return Value(f"({(' && ' if is_and else ' || ').join(tests)})", BOOL)
        name = self.temporary(self.cast(first, kind))
        for lines, value in rest:
            true = self._is_true(name)
            self.add(f"if ({true if is_and else f'!({true})'}) {{")
            for line in lines:
                self.add("  " + line.strip())
            self.add(f"  {name.text} = {self.cast(value, kind).text};")
        for _ in rest:
            self.add("}")
        return name

    def _of_Compare(self, node: ast.Compare) -> Value:
        if len(node.ops) > 1:
            return self._chain(node)
        left, right = self.several([node.left, node.comparators[0]])
        return Value(self._compared(node, node.ops[0], left, right), BOOL)

    def _chain(self, node: ast.Compare) -> Value:
        """`a < b < c`: b is computed once, c only if a < b."""
        lines, parts = self.captured(lambda: self.several([node.left, *node.comparators]))
        numbers = all(isinstance(part.kind, Number) for part in parts)
        if not lines and numbers and all(part.is_simple for part in parts[1:-1]):
            pairs = zip(node.ops, parts, parts[1:], strict=False)
            return Value(f"({' && '.join(self._compared(node, *pair) for pair in pairs)})", BOOL)
        left, right = self.several([node.left, node.comparators[0]])
        found: Value | None = None
        for place, operator in enumerate(node.ops):
            if place:
                left = right
                lines, right = self.captured(lambda place=place: self.expression(node.comparators[place]))
                for line in lines:
                    self.add("  " + line.strip())
            if place < len(node.ops) - 1 and not right.is_simple:
                right = self.temporary(right)
            text = self._compared(node, operator, left, right)
            if found is None:
                found = self.temporary(Value(text, BOOL))
                self.add(f"if ({found.text}) {{")
                continue
            self.add(f"  {found.text} = {text};")
            self.add(f"  if ({found.text}) {{" if place < len(node.ops) - 1 else "}" * place)
        assert found is not None
        return found

    def _compared(self, node: ast.Compare, operator: ast.cmpop, left: Value, right: Value) -> str:
        if isinstance(operator, (ast.In, ast.NotIn)):
            return self._contained(node, operator, left, right)
        if isinstance(left.kind, Number) and isinstance(right.kind, Number):
            kind = common([left.kind, right.kind])
            return f"({self.cast(left, kind).text} {_SIGNS[type(operator)]} {self.cast(right, kind).text})"
        if not isinstance(left.kind, (Tuple, Array)) or not isinstance(right.kind, (Tuple, Array)):
            raise self.fail(node, "the C++ backend cannot compare these")
        count = len(left.kind.items if isinstance(left.kind, Tuple) else right.kind.items)  # type: ignore[union-attr]
        pairs = list(zip(self.parts_of(left, count), self.parts_of(right, count), strict=True))
        return self._compared_tuples(node, operator, pairs)

    def _compared_tuples(self, node: ast.Compare, operator: ast.cmpop, pairs: list[tuple[Value, Value]]) -> str:
        """Tuples of one length: equal in all parts, or by the first part that differs."""
        equal = [self._compared(node, ast.Eq(), one, other) for one, other in pairs]
        if isinstance(operator, ast.Eq):
            return f"({' && '.join(equal)})"
        if isinstance(operator, ast.NotEq):
            return f"(!({' && '.join(equal)}))"
        text = "true" if isinstance(operator, (ast.LtE, ast.GtE)) else "false"
        strict = ast.Lt() if isinstance(operator, (ast.Lt, ast.LtE)) else ast.Gt()
        for (one, other), same in zip(reversed(pairs), reversed(equal), strict=True):
            text = f"({same} ? {text} : {self._compared(node, strict, one, other)})"
        return text

    def _contained(self, node: ast.Compare, operator: ast.cmpop, item: Value, row: Value) -> str:
        item = item if item.is_simple else self.temporary(item)
        if isinstance(row.kind, Tuple):
            tests = [self._compared(node, ast.Eq(), item, part) for part in self.parts_of(row, len(row.kind.items))]
            text = f"({' || '.join(tests)})" if tests else "false"
        else:
            assert isinstance(row.kind, Array)
            row, found, turn = self.temporary(row), self.name("t"), self.name("k")
            self.add(f"bool {found} = false;")
            self.add(f"for (i64 {turn} = 0; {turn} < {row.text}.n0 && !{found}; ++{turn}) {{")
            self.depth += 1
            self.add(f"{found} = {self._compared(node, ast.Eq(), item, self.item(row, turn))};")
            self.depth -= 1
            self.add("}")
            text = found
        return f"(!{text})" if isinstance(operator, ast.NotIn) else text

    # --- tuples and rows ---------------------------------------------------------------------------------------------

    def _of_Tuple(self, node: ast.Tuple | ast.List) -> Value:
        parts = self.several(node.elts)
        if any(part.kind == NOTHING for part in parts):
            raise self.fail(node, "a tuple with None in it has no C++ form; leave None out")
        return self.tuple_of(parts)

    _of_List = _of_Tuple

    def tuple_of(self, parts: Sequence[Value]) -> Value:
        kind = Tuple(tuple(plain(part.kind) for part in parts))
        return Value(f"{self.structs.name(kind)}{{{', '.join(part.text for part in parts)}}}", kind)

    def parts_of(self, value: Value, count: int) -> list[Value]:
        """The parts of a tuple, or the first elements of an array."""
        value = value if value.is_simple else self.temporary(value)
        if isinstance(value.kind, Tuple):
            return [Value(f"{value.text}.a{place}", item) for place, item in enumerate(value.kind.items)]
        return [self.item(value, str(place)) for place in range(count)]

    def as_row(self, value: Value, node: ast.AST) -> Value:
        """Several values of one type as an array in a variable, to be picked from by a number."""
        if isinstance(value.kind, Array):
            return value if value.is_simple else self.temporary(value)
        if not isinstance(value.kind, Tuple):
            raise self.fail(node, "the C++ backend cannot loop over this")
        item = common(value.kind.items)
        if not isinstance(item, Number):
            return self._row_of_rows(value, item, node)
        parts = [self.cast(part, item).text for part in self.parts_of(value, len(value.kind.items))]
        memory = self.name("d")
        self.add(f"{self.structs.name(item)} {memory}[] = {{{', '.join(parts)}}};")
        return self.temporary(self.whole(memory, Array(item.dtype, (len(parts),)), (len(parts),)))

    def _row_of_rows(self, value: Value, item: Type, node: ast.AST) -> Value:
        """A tuple of tuples as an array of structs."""
        assert isinstance(value.kind, Tuple)
        if not isinstance(item, Tuple):
            raise self.fail(node, "the C++ backend cannot pick one of these by a variable; use an array")
        parts = [self.cast(part, item).text for part in self.parts_of(value, len(value.kind.items))]
        memory = self.name("d")
        self.add(f"{self.structs.name(item)} {memory}[] = {{{', '.join(parts)}}};")
        return StructRow(memory, value.kind, item, len(parts))

    def length(self, row: Value) -> str:
        """How many items a row has."""
        return str(row.count) if isinstance(row, StructRow) else f"{row.text}.n0"

    def item(self, row: Value, place: str) -> Value:
        """An element, or a part, at a place that is counted from the first."""
        if isinstance(row, StructRow):
            return Value(f"{row.text}[{place}]", row.item)
        kind = row.kind
        assert isinstance(kind, Array)
        if len(kind.shape) == 1:
            return Value(f"{row.text}.at({place})", Number(kind.dtype))
        return Value(f"{row.text}.row({place})", Array(kind.dtype, kind.shape[1:]))

    # --- arrays ------------------------------------------------------------------------------------------------------

    def whole(self, memory: str, kind: Array, sizes: Sequence[int | str]) -> Value:
        """Memory as an array: its sizes are numbers, or texts."""
        if all(isinstance(size, int) for size in sizes):
            strides = list(map(str, strides_of([int(size) for size in sizes])))
        else:
            strides = [" * ".join(map(str, sizes[axis + 1 :])) or "1" for axis in range(len(sizes))]
        parts = ", ".join([memory, *map(str, sizes), *strides])
        return Value(f"{self.structs.name(kind)}{{{parts}}}", kind)

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

    def element(self, array: Value, places: Sequence[str]) -> Value:
        array = array if array.is_simple else self.temporary(array)
        return Value(f"{array.text}.at({', '.join(places)})", Number(array.dtype))

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

    def _of_Call(self, node: ast.Call) -> Value:
        return self.of_call(node)


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
