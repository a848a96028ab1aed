"""Expressions as C++: numbers, tuples and rows, in Python's order of evaluation. Arrays are in `elements.py`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vecenv.errors import KernelError
from vecenv.kernel.cpp.values import NUMBERS, Structs, Value, literal, strides_of
from vecenv.kernel.lower.instance import Instance
from vecenv.kernel.lower.program import Program
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
    """Writes expressions of numbers and rows. `FunctionWriter` has the rest."""

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

    def whole(self, memory: str, kind: Array, sizes: Sequence[int | str]) -> Value:
        """Memory as an array: its sizes are numbers, or texts."""
        if all(isinstance(size, int) for size in sizes):
            strides = list(map(str, strides_of([int(size) for size in sizes])))
        else:
            strides = [" * ".join(map(str, sizes[axis + 1 :])) or "1" for axis in range(len(sizes))]
        parts = ", ".join([memory, *map(str, sizes), *strides])
        return Value(f"{self.structs.name(kind)}{{{parts}}}", kind)

    def element(self, array: Value, places: Sequence[str]) -> Value:
        array = array if array.is_simple else self.temporary(array)
        return Value(f"{array.text}.at({', '.join(places)})", Number(array.dtype))

    def _of_Call(self, node: ast.Call) -> Value:
        return self.of_call(node)
