"""Types of expressions: names, operators, indices, attributes. Of calls: `call_types`; of arrays: `array_types`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv.kernel.language.array_functions import ATTRIBUTES
from vecenv.kernel.language.found import Unsure
from vecenv.kernel.lower import array_types, number_types
from vecenv.kernel.lower.list_types import ListTyping
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref, index_parts
from vecenv.kernel.lower.types import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    STREAM,
    UNKNOWN,
    UNSURE,
    Array,
    Bound,
    Conflict,
    Items,
    Number,
    Size,
    Tuple,
    Type,
    join,
    most,
    number_of,
    plain,
    promoted_dtypes,
)


class ExpressionTyping(ListTyping):
    """Types the expressions of one function, except calls."""

    program: Program
    function: Function

    def type_of(self, node: ast.AST) -> Type:
        """The type of an expression, which is noted."""
        found: Type = getattr(self, f"_type_{type(node).__name__}", self._unknown)(node)
        self.instance.types[id(node)] = found
        return found

    def _unknown(self, node: ast.AST) -> Type:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.type_of(child)
        return UNKNOWN

    def _type_Constant(self, node: ast.Constant) -> Type:
        return type_of_value(node.value)

    def _type_Name(self, node: ast.Name) -> Type:
        self._check_assigned(node)
        found = self._held(node.id)
        if found == UNSURE:
            raise Unsure("see another line")
        if isinstance(found, Items):
            raise self.refused_use(node, found)
        if isinstance(found, Conflict):
            name = "this" if node.id.endswith("__") else node.id
            raise self.fail(node, f"{name} is {found}; use two variables")
        return found

    def _type_Ref(self, node: Ref) -> Type:
        if node.kind is Kind.FIELD:
            kept = self.program.kernel.state[node.name]
            if kept.shape:
                return Array(kept.dtype.name, kept.shape, frozenset({f"field:{node.name}"}))
            return Number(kept.dtype.name)
        if node.kind is Kind.PARAMETER:
            kept = self.program.kernel.params[node.name]
            if kept.shape:
                return Array(kept.dtype.name, self.inference.shapes[node.name], frozenset({f"params:{node.name}"}))
            return Number(promoted_dtypes(kept.dtype.name))
        if node.kind is Kind.LEAF:
            leaf = self.program.layouts[node.name].leaves[node.index]
            if leaf.shape or node.name == "obs" or self.function.method == "policy":
                return Array(leaf.dtype.name, leaf.shape or (1,), frozenset({f"leaf:{node.name}:{node.index}"}))
            return Number(promoted_dtypes(leaf.dtype.name))
        if node.kind is Kind.CONSTANT:
            return type_of_value(self.program.constants[node.name])
        return UNKNOWN

    def _type_Tuple(self, node: ast.Tuple | ast.List) -> Type:
        return Tuple(tuple(map(self.type_of, node.elts)))

    _type_List = _type_Tuple

    def _type_IfExp(self, node: ast.IfExp) -> Type:
        self.test(node.test)
        return self._either(node, [node.body, node.orelse])

    def _type_BoolOp(self, node: ast.BoolOp) -> Type:
        for operand in node.values:
            self.test(operand)
        return self._either(node, node.values)

    def _either(self, node: ast.AST, operands: Sequence[ast.expr]) -> Type:
        """One of several values."""
        found: Type | None = None
        for operand in operands:
            is_list = isinstance(node, ast.BoolOp) and self.items(operand) is not None
            kind = BOOL if is_list else self.type_of(operand)
            found = join(found, plain(self._with_memory(operand, kind)))
        if isinstance(found, Conflict):
            raise self.fail(node, f"this is {found}; make both alike, arrays with .astype(...)")
        assert found is not None
        return found

    def _type_UnaryOp(self, node: ast.UnaryOp) -> Type:
        if isinstance(node.op, ast.Not) and self.items(node.operand) is not None:
            return BOOL
        operand = self.type_of(node.operand)
        if isinstance(node.op, ast.Not):
            self.test(node.operand)
            return BOOL
        if isinstance(operand, Array):
            return array_types.of_unary(self, node, operand)
        if isinstance(node.op, ast.Invert) and operand != INT and plain(operand) != INT:
            raise self.fail(node, "~ of a bool is a number in Python; write not x, or -x - 1")
        number_types.check_numbers(self, node, [operand])
        if not isinstance(operand, Number):
            return UNKNOWN
        if isinstance(node.op, ast.USub) and operand.value is not None:
            return Number("int64", -operand.value)
        return INT if operand.dtype == "bool" else plain(operand)

    def _type_BinOp(self, node: ast.BinOp) -> Type:
        left, right = self.type_of(node.left), self.type_of(node.right)
        if isinstance(left, Array) or isinstance(right, Array):
            return array_types.of_binary(self, node, left, right)
        number_types.check_numbers(self, node, [left, right])
        if not isinstance(left, Number) or not isinstance(right, Number):
            return UNKNOWN
        return _of_numbers(node.op, left, right)

    def _type_Compare(self, node: ast.Compare) -> Type:
        if self.contained(node):
            return BOOL
        self.check_chain(node)
        operands = [self.type_of(operand) for operand in (node.left, *node.comparators)]
        if any(isinstance(operand, Array) for operand in operands):
            return array_types.of_compare(self, node, operands)
        for operand in operands:
            number_types.check_operand(self, node, operand)
        if not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            number_types.check_compared(self, node, operands)
        return BOOL

    def _type_Subscript(self, node: ast.Subscript) -> Type:
        held = self.items(node.value)
        owner = self.type_of(node.value) if held is None else held
        nodes = index_parts(node.slice)
        parts = [self._type_of_index(part) for part in nodes]
        if held is not None:
            return self.item_type(node, held, parts)
        if isinstance(owner, Array):
            if not isinstance(node.slice, ast.Tuple) and isinstance(parts[0], Tuple):  # x[place] of a tuple is x[y, x]
                parts = list(parts[0].items)
                nodes = nodes * len(parts)
            return array_types.of_subscript(self, node, owner, nodes, parts)
        number_types.check_several(self, node, owner, "an index is used on")
        if not isinstance(owner, Tuple):
            return UNKNOWN
        if isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            bounds = [None if end is None else self.constant(end) for end in ends]
            if any(end is not None and bound is None for end, bound in zip(ends, bounds, strict=True)):
                raise self.fail(node, "a part of a tuple needs bounds that are constants; write a for loop")
            return Tuple(owner.items[slice(*bounds)])
        place = number_types.place_in_tuple(self, node, owner, parts)
        if place is not None:
            return owner.items[place]
        found: Type | None = None
        for item in owner.items:
            found = join(found, plain(item))
        return UNKNOWN if found is None or isinstance(found, Conflict) else found

    def _type_of_index(self, part: ast.expr) -> Type:
        if not isinstance(part, ast.Slice):
            return self.type_of(part)
        for bound in (part.lower, part.upper, part.step):
            if bound is not None:
                number_types.check_bound(self, bound, self.type_of(bound))
        return UNKNOWN

    def size_of_slice(self, part: ast.Slice, size: Size) -> Size:
        """How many elements a slice takes of an axis."""
        known = [None if bound is None else self.constant(bound) for bound in (part.lower, part.upper, part.step)]
        missing = [
            value is None and bound is not None
            for value, bound in zip(known, (part.lower, part.upper, part.step), strict=True)
        ]
        if not any(missing) and isinstance(size, int):
            return len(range(*slice(*known).indices(size)))
        if part.lower is None and part.upper is None and not missing[2] and abs(known[2] or 1) == 1:
            return size
        return Bound(min(most(size), _length_of(part, most(size))))

    def constant(self, node: ast.expr) -> int | None:
        """The value of an int that is the same whenever the code runs."""
        found = self.instance.types.get(id(node))
        found = self.type_of(node) if found is None else found
        return found.value if isinstance(found, Number) else None

    def _type_Attribute(self, node: ast.Attribute) -> Type:
        owner = self.type_of(node.value)
        if isinstance(owner, (Number, Tuple)) or owner in (NOTHING, STREAM):
            raise self.fail(node, f"this asks {owner} for its {node.attr!r}; only arrays have {', '.join(ATTRIBUTES)}")
        if not isinstance(owner, Array):
            return UNKNOWN
        if node.attr not in ATTRIBUTES:
            rule = f"arrays have no {node.attr!r} in kernels; they have {', '.join(ATTRIBUTES)}"
            raise self.fail(node, rule)
        if node.attr == "T":
            return Array(owner.dtype, owner.shape[::-1], owner.origins)
        if node.attr == "shape":
            return Tuple(tuple(map(number_of, owner.shape)))
        if node.attr == "ndim":
            return Number("int64", len(owner.shape))
        size = int(np.prod([most(size) for size in owner.shape], dtype=np.int64))
        return number_of(size if all(isinstance(size, int) for size in owner.shape) else Bound(size))

    def test(self, node: ast.expr) -> None:
        """An expression whose truth is asked."""
        if self.items(node) is not None:
            return
        kind = self.type_of(node)
        number_types.check_operand(self, node, kind)
        if isinstance(kind, Tuple):
            raise self.fail(node, f"{kind} are neither true nor false; compare one of them")
        if isinstance(kind, Array) and kind.shape != (1,):
            raise self.fail(node, f"{kind} is neither true nor false; use np.any(...) or np.all(...)")

    def _with_memory(self, node: ast.expr, value: Type) -> Type:
        """A value whose new arrays have the places where they come into being as their origins."""
        if isinstance(value, Array) and not value.origins:
            return Array(value.dtype, value.shape, frozenset({self.instance.site(node)}))
        if isinstance(value, Tuple):
            nodes = node.elts if isinstance(node, ast.Tuple) else [node] * len(value.items)
            return Tuple(tuple(map(self._with_memory, nodes, value.items)))
        return value

    def _check_assigned(self, node: ast.Name) -> None:
        """Raise if no path to here assigns the variable."""
        raise NotImplementedError

    def _check_stored(self, node: ast.AST, held: Type, value: Type) -> None:
        """Raise unless the memory of `held` can take the value."""
        array_types.check_stored(self, node, held, value)


def type_of_value(value: Any) -> Type:
    """The type of a constant."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return Number("int64", value)
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, np.ndarray):
        return Array(value.dtype.name, value.shape, frozenset({"constant"})) if value.ndim else Number(value.dtype.name)
    if isinstance(value, tuple):
        return Tuple(tuple(map(type_of_value, value)))
    return NOTHING if value is None else UNKNOWN


def _of_numbers(operator: ast.operator, left: Number, right: Number) -> Type:
    if left.dtype == right.dtype and left.dtype not in ("bool", "int64", "float64"):
        return Number(left.dtype)  # two numbers that were made narrow: np.float32(x) * np.float32(y)
    floats = "float" in left.dtype or "float" in right.dtype
    if isinstance(operator, ast.Div) or floats:
        return FLOAT
    if left.dtype == right.dtype == "bool" and isinstance(operator, (ast.BitAnd, ast.BitOr, ast.BitXor)):
        return BOOL
    value = None
    if left.value is not None and right.value is not None:
        value = _computed(operator, left.value, right.value)
    return Number("int64", value)


def _computed(operator: ast.operator, left: int, right: int) -> int | None:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.FloorDiv) and right:
        return left // right
    return left % right if isinstance(operator, ast.Mod) and right else None


def _length_of(part: ast.Slice, size: int) -> int:
    """The most that a slice with bounds that are not known takes: of `x[i : i + 3]` three elements."""
    lower, upper = part.lower, part.upper
    if (
        part.step is None
        and lower is not None
        and isinstance(upper, ast.BinOp)
        and isinstance(upper.op, ast.Add)
        and isinstance(upper.right, ast.Constant)
        and isinstance(upper.right.value, int)
        and _same(upper.left, lower)
    ):
        return max(upper.right.value, 0)
    return size


def _same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are the same variable."""
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and one.id == other.id
