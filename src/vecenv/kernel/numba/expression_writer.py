"""Expressions of kernel functions as LLVM's text."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError

from vecenv.kernel.lower.tree import local
from vecenv.kernel.numba.array_writer import PLAIN_TYPES, ArrayWriter, KeptView, rebuilt
from vecenv.kernel.numba.row_loop import (
    COMPARISONS,
    DOUBLE,
    FLAG,
    WORD,
    NotInRowLoop,
    Number,
    Returned,
    View,
    numba_type,
)

_LOCAL_ARRAY = re.compile(r"local_array_([a-z0-9]+)_([0-9x]+)__")
_CHEAP_CALLS = re.compile(r"widen__|abs|as_\w+__")
_CHEAP = (ast.Name, ast.Constant, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.BinOp, ast.IfExp, ast.Tuple, ast.Call)
_LITERAL = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
_SLOW_OPERATORS = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


class ExpressionWriter(ArrayWriter):
    """Computes what expressions say. See `KernelFunction` for what its attributes are."""

    stores: Counter[str]

    def _of_Name(self, node: ast.Name) -> Any:
        if node.id not in self.variables:
            return self._constant(node.id)
        place = self.variables[node.id]
        if isinstance(place, list):
            return [self._of_Name(local(part)) for part in place]
        if isinstance(place, KeptView):
            return rebuilt(place.template, [self.builder.load(one) for one in place.places])
        return place if isinstance(place, View) else Number(self.builder.load(place))

    def _constant(self, name: str) -> Any:
        value = self.names.get(name)
        if self.stores[name] or value is None:
            raise NotInRowLoop(name)
        if type(value) in (bool, int, float):
            return self._of_Constant(ast.Constant(value))
        return self._constant_array(value)

    def _of_Constant(self, node: ast.Constant) -> Number:
        if type(node.value) is int and not -(2**63) <= node.value < 2**63:
            raise NotInRowLoop(ast.unparse(node))
        return super()._of_Constant(node)

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

        So it is no `and` of bits, which is undefined to LLVM if one of them is: after a shift by less than 0, or a
        conversion of NaN to an int.
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
            if not isinstance(part, View) and part not in PLAIN_TYPES:
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


def _is_cheap(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and _CHEAP_CALLS.fullmatch(node.func.id) is not None
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, _SLOW_OPERATORS)
    return isinstance(node, _CHEAP) or not isinstance(node, ast.expr)


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
