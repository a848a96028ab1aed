"""Values of rewritten functions: numbers whose array expressions are written before them, arrays by their elements."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vecenv.kernel.language.array_functions import (
    CONSTRUCTOR,
    FUNCTIONS,
    METHODS,
    MOVER,
    REDUCTION,
    SELECTION,
    function_of,
)
from vecenv.kernel.lower import array_types
from vecenv.kernel.lower.drawn import Draws
from vecenv.kernel.lower.elements import Dim, Elements, Memory, aligned, compare, plus, scalar, set_to, times, whole
from vecenv.kernel.lower.formulas import converted, formula
from vecenv.kernel.lower.instance import Instance
from vecenv.kernel.lower.lists import Lists, arrays_for
from vecenv.kernel.lower.reductions import Reductions
from vecenv.kernel.lower.selections import Selections
from vecenv.kernel.lower.tree import Kind, Ref, at, local, operation, part_of_tuple, ref
from vecenv.kernel.lower.types import Array, Bound, Items, Number, Tuple, most


class Values(Reductions, Selections, Draws, Lists):
    """Rewrites expressions."""

    # --- expressions: numbers ----------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> ast.expr:
        """An expression without array expressions; statements that it needs are written before it."""
        if not self.needs(node):
            return node
        if self.is_array(node):
            return self.array(node)
        of_list = self.list_value(node)
        if of_list is not None:
            return of_list
        if isinstance(node, ast.BoolOp):
            return self._and_or(node)
        if isinstance(node, ast.IfExp):
            return self._either(node)
        if isinstance(node, ast.Compare) and any(map(self.is_array, (node.left, *node.comparators))):
            return self.contains(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return self.reduced(node, "dot", {"a": node.left, "b": node.right})
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple([self.kept_part(item) for item in node.elts], ast.Load())
        if isinstance(node, ast.Subscript):
            return self._element_of(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._rebuilt(node)

    def kept_part(self, node: ast.expr) -> ast.expr:
        return self.array(node, binding=True) if self.is_array(node) else self.kept(self.value(node))

    def several(self, nodes: Sequence[ast.expr]) -> list[ast.expr]:
        """Values in Python's order: what stands before an array expression is computed before it."""
        found: list[ast.expr] = []
        for place, node in enumerate(nodes):
            value = self.value(node)
            later = any(map(self.needs, nodes[place + 1 :]))
            found.append(self.kept(value) if later and not isinstance(node, ast.Slice) else value)
        return found

    def _rebuilt(self, node: ast.expr) -> ast.expr:
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        new = dict(zip(map(id, children), self.several(children), strict=True))

        def replaced(value: Any) -> Any:
            if isinstance(value, list):
                return [replaced(item) for item in value]
            return new.get(id(value), value)

        result = copy.copy(node)
        for name, value in ast.iter_fields(node):
            setattr(result, name, replaced(value))
        return result

    def _element_of(self, node: ast.Subscript) -> ast.expr:
        """`x[i]` where `x` or `i` has array expressions."""
        if self.is_array(node.value):
            owner = self.array(node.value)
            parts = self.several(self.index_of(node))
            index = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
            return ast.Subscript(owner, index, node.ctx)
        return self._rebuilt(node)

    def _and_or(self, node: ast.BoolOp) -> ast.expr:
        """`a and b`, where b is computed only if it is needed."""
        if not any(map(self.needs, node.values[1:])):
            return self._rebuilt(node)
        name = self.name("value")
        self.emit(set_to(name, self.value(node.values[0])))
        self._rest(name, node.op, node.values[1:])
        return local(name)

    def _rest(self, name: str, operator: ast.boolop, values: Sequence[ast.expr]) -> None:
        if not values:
            return
        test: ast.expr = local(name)
        test = test if isinstance(operator, ast.And) else ast.UnaryOp(ast.Not(), test)

        def write() -> None:
            self.emit(set_to(name, self.value(values[0])))
            self._rest(name, operator, values[1:])

        self.emit(ast.If(test, self.captured(write), []))

    def _either(self, node: ast.IfExp) -> ast.expr:
        test = self.value(node.test)
        if not self.needs(node.body) and not self.needs(node.orelse):
            return ast.IfExp(test, node.body, node.orelse)
        name = self.name("value")
        body, orelse = (
            self.captured(lambda branch=branch: self.emit(set_to(name, self.value(branch))))
            for branch in (node.body, node.orelse)
        )
        self.emit(ast.If(test, body, orelse))
        return local(name)

    def _call(self, node: ast.Call) -> ast.expr:
        known = self.canonical(node)
        if known is not None:
            name, arguments = known
            if name in REDUCERS:
                return self.reduced(node, name, arguments)
            kind = self.type_of(node)
            if isinstance(kind, Tuple):
                return self.selected(node, name, arguments)
            return self.computed(node, name, _operands(arguments)).at([], self.out)
        function = node.func
        if isinstance(function, Ref) and function.kind is Kind.HELPER:
            return self.called(node)
        if isinstance(function, Ref) and function.name == "as_number" and self.is_array(node.args[0]):
            array = self.elements(node.args[0])
            return operation("as_number", array.at([ast.Constant(0) for _ in array.dims], self.out))
        if isinstance(function, Ref) and function.kind is Kind.DRAW:
            arguments_ = [
                self.items_in_memory(one).view() if self.is_list(one) else self.value(one) for one in node.args
            ]
        else:
            arguments_ = self.several(node.args)
        keywords = [ast.keyword(keyword.arg, self.value(keyword.value)) for keyword in node.keywords]
        return at(node, ast.Call(function, arguments_, keywords))

    def called(self, node: ast.Call) -> ast.expr:
        """A call of a helper; the arrays that it returns are written into arrays of this function."""
        values = self._given(node.args)
        callee = self.instance.calls[id(node)]
        provided = [
            self.storage(kind.dtype, [most(size) for size in kind.shape]).base for kind in fresh_results(callee)
        ]
        result = self._call_of(node, [*provided, *values])
        copied = self.loop_depth and provided and any(map(self._is_local, node.args))
        return self._copied_result(node, result) if copied else result

    def called_into(self, node: ast.Call, provided: Sequence[ast.expr]) -> ast.expr:
        """A call of a helper that writes the arrays that it returns into these."""
        return self._call_of(node, [*provided, *self._given(node.args)])

    def _call_of(self, node: ast.Call, arguments: list[ast.expr]) -> ast.expr:
        callee = self.instance.calls[id(node)]
        function = self.changed.get(id(callee), callee.function)
        return at(node, ast.Call(ref(Kind.HELPER, function.name), arguments, []))

    def _given(self, arguments: Sequence[ast.expr]) -> list[ast.expr]:
        """Arguments of a helper."""
        values: list[ast.expr] = []
        for place, argument in enumerate(arguments):
            if self.is_list(argument):
                assert isinstance(argument, ast.Name)
                values += self.arrays_of(argument.id)
                continue
            is_made = self.is_array(argument) and self.needs(argument)
            value = self.array(argument, binding=True) if is_made else self.value(argument)
            later = any(map(self.needs, arguments[place + 1 :]))
            is_whole = isinstance(argument, Ref) and argument.kind is Kind.ARGUMENT
            values.append(self.kept(value) if later and not is_whole and not self.is_array(argument) else value)
        return values

    def _is_local(self, node: ast.expr) -> bool:
        kind = self.types.get(id(node))
        return isinstance(kind, Array) and any(origin.startswith("local:") for origin in kind.origins)

    def _copied_result(self, node: ast.expr, result: ast.expr) -> ast.expr:
        """What a helper returned, in other memory than it wrote: it may be given its last result in the next turn."""
        kind = self.type_of(node)
        base = self.kept(result)
        if isinstance(kind, Array):
            return self.materialized(whole(base, kind.dtype, self.dims_of(base, kind), frozenset()).elements()).view()
        assert isinstance(kind, Tuple)
        parts: list[ast.expr] = []
        for place, item in enumerate(kind.items):
            part: ast.expr = part_of_tuple(base, ast.Constant(place))
            if isinstance(item, Array):
                part = self.kept(part)
                copied = whole(part, item.dtype, self.dims_of(part, item), frozenset()).elements()
                part = self.materialized(copied).view()
            parts.append(part)
        return ast.Tuple(parts, ast.Load())

    # --- expressions: arrays -----------------------------------------------------------------------------------------

    def array(self, node: ast.expr, binding: bool = False) -> ast.expr:
        """An array in memory: the part that an expression is, or a local array with its elements."""
        if not self.needs(node):
            return node
        kind = self.type_of(node)
        assert isinstance(kind, Array)
        if isinstance(node, ast.IfExp):
            return self._either(node)
        known = self.canonical(node)
        if binding and known is not None and known[0] in MAY_BE_COPIES:
            raise self.fail(node, f"{known[0]}() may be a part of the array or a copy; write .flatten(), or a loop")
        part = self.memory_or_elements(node)
        if isinstance(part, Memory):
            return part.view()
        origin = frozenset({self.instance.site(node)})
        return self.materialized(part, origin).view()

    def memory(self, node: ast.expr) -> Memory:
        """The part of memory that an expression is."""
        part = self.memory_or_elements(node)
        return part if isinstance(part, Memory) else self.materialized(part)

    def elements(self, node: ast.expr) -> Elements:
        """An operand by its elements; a number has none and is computed once."""
        kind = self.type_of(node)
        if isinstance(kind, Number):
            return scalar(self.kept(self.value(node)), kind.dtype)
        part = self.memory_or_elements(node)
        return part.elements() if isinstance(part, Memory) else part

    def memory_or_elements(self, node: ast.expr) -> Memory | Elements:
        kind = self.type_of(node)
        if id(node) in self.known_parts:
            return self.known_parts[id(node)]
        if isinstance(kind, Tuple):
            return self.listed(node, kind)
        if isinstance(kind, Items):
            return self.items_in_memory(node)
        assert isinstance(kind, Array)
        if isinstance(node, (ast.Name, Ref)):
            base = copy.copy(node)
            base.ctx = ast.Load()
            return whole(base, kind.dtype, self.dims_of(base, kind), kind.origins)
        if isinstance(node, ast.Attribute):  # .T
            part = self.memory_or_elements(node.value)
            return self.transposed(part)
        if isinstance(node, ast.Subscript):
            return self._part(node)
        if isinstance(node, ast.UnaryOp):
            name = "copy" if isinstance(node.op, ast.UAdd) else array_types.OPERATORS[type(node.op)]
            return self.computed(node, name, [node.operand])
        if isinstance(node, ast.BinOp):
            name = array_types.OPERATORS[type(node.op)]
            if name == "dot":
                return self.product(node, node.left, node.right)
            return self.computed(node, name, [node.left, node.right])
        if isinstance(node, ast.Compare):
            name = array_types.OPERATORS[type(node.ops[0])]
            return self.computed(node, name, [node.left, *node.comparators])
        if isinstance(node, ast.IfExp):
            base = self._either(node)
            return whole(base, kind.dtype, self.dims_of(base, kind), kind.origins)
        assert isinstance(node, ast.Call), ast.dump(node)
        return self._array_call(node, kind)

    def _array_call(self, node: ast.Call, kind: Array) -> Memory | Elements:
        function = node.func
        if isinstance(function, Ref) and function.kind is Kind.OPERATION and function.name == "widen":
            return self.memory_or_elements(node.args[0])
        if isinstance(function, Ref) and function.kind is Kind.HELPER:
            base = self.kept(self.called(node))
            return whole(base, kind.dtype, self.dims_of(base, kind), kind.origins)
        if isinstance(function, Ref) and function.kind is Kind.DRAWN_ARRAY:
            return self.drawn(node, function.name, kind)
        if isinstance(function, Ref) and function.kind is Kind.DRAW:
            return self.drawn_part(node, function.name, kind)
        known = self.canonical(node)
        if known is None:
            raise self.fail(node, "this array expression has no native form; write a for loop")
        name, arguments = known
        if name in CONSTRUCTORS:
            return self.constructed(node, name, arguments, kind)
        if name in MOVERS:
            return self.moved(node, name, arguments, kind)
        if name in REDUCERS:
            return self.reduced_along(node, name, arguments, kind)
        if name in SELECTORS:
            return self.selected_array(node, name, arguments, kind)
        return self.computed(node, name, _operands(arguments))

    def canonical(self, node: ast.AST) -> tuple[str, dict[str, Any]] | None:
        """The array function that a call is, and its arguments by name."""
        if not isinstance(node, ast.Call):
            return None
        function = node.func
        if isinstance(function, ast.Attribute):
            known = METHODS.get(function.attr)
            given = [function.value, *node.args]
        elif isinstance(function, Ref) and function.kind is Kind.NUMPY:
            known, given = function_of(self.program.constants[function.name]), node.args
        elif isinstance(function, Ref) and function.kind is Kind.BUILTIN and any(map(self._is_row, node.args)):
            named = {"abs": "absolute", "min": "min", "max": "max", "sum": "sum", "any": "any", "all": "all"}
            if function.name not in named:
                return None
            if function.name == "abs":
                return "absolute", {"x": node.args[0]}
            return f"builtin {function.name}", {"a": node.args[0], "axis": None}
        elif isinstance(function, Ref) and function.name == "power" and self.is_array(node.args[0]):
            return "square", {"x": node.args[0]}
        else:
            return None
        return None if known is None else (known.name, array_types.arguments_of(self, node, known, given))

    def _is_row(self, node: ast.AST) -> bool:
        return self.is_array(node) or self.is_list(node)

    def computed(self, node: ast.AST, name: str, nodes: Sequence[ast.expr]) -> Elements:
        """An elementwise function of operands."""
        kinds = [array_types.as_array(self, node, self.type_of(one)) for one in nodes]
        operands = [self._operand_before(one, nodes[place + 1 :]) for place, one in enumerate(nodes)]
        kind = self.type_of(node)
        dtype = kind.dtype if isinstance(kind, (Array, Number)) else "bool"
        inner = dtype if name in ("copy", "astype") else array_types.computed_with(self, node, name, kinds)
        dims = self.together([operand.dims for operand in operands])
        own = [aligned(self._adapted(one, its, inner, name), dims) for one, its in zip(operands, kinds, strict=True)]
        compute = formula(name, inner, dtype, [one.dtype for one in own])

        def at_(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            def keep(value: ast.expr) -> ast.expr:
                if isinstance(value, (ast.Constant, ast.Name)):
                    return value
                kept = self.name("value")
                out.append(set_to(kept, value))
                return local(kept)

            return compute([one.at(indices, out) for one in own], keep)

        return Elements(dtype, dims, at_, tuple(read for one in own for read in one.reads))

    def _operand_before(self, node: ast.expr, later: Sequence[ast.expr]) -> Elements:
        """An operand by its elements: computed before operands that may change what it is computed from."""
        if isinstance(self.type_of(node), Number):
            return self.elements(node)
        part = self.memory_or_elements(node)
        if isinstance(part, Elements):
            calls = [call for one in later for call in ast.walk(one) if isinstance(call, ast.Call)]
            part = self.materialized(part) if any(map(_has_effects, calls)) else part
        return part.elements() if isinstance(part, Memory) else part

    def _adapted(self, operand: Elements, kind: Array | Number, dtype: str, name: str) -> Elements:
        """An operand in the dtype that is computed with: Python's numbers become float32 beside float32 arrays."""
        if name in ("where", "astype", "copy") and np.dtype(dtype).kind != "f":
            return operand
        if isinstance(kind, Number) and dtype == "float32" and not operand.dims:
            value = self.kept(operation("as_float32", operand.at([], self.out)))
            return scalar(value, "float32")
        return operand

    # --- parts -------------------------------------------------------------------------------------------------------

    def _part(self, node: ast.Subscript) -> Memory | Elements:
        if self.is_picked(node):
            return self.picked(node)
        kind = self.type_of(node)
        if isinstance(self.type_of(node.value), Tuple):  # np.nonzero(x)[0]
            assert isinstance(kind, Array)
            base = self.kept(part_of_tuple(self.value(node.value), self.value(node.slice)))
            return whole(base, kind.dtype, self.dims_of(base, kind), kind.origins)
        owner = self.memory(node.value)
        return self.sliced(owner, self.index_of(node))

    def listed(self, node: ast.expr, kind: Tuple) -> Memory:
        """Several numbers, or several arrays of one shape, as an array."""
        made = array_types.as_array(self, node, kind)
        assert isinstance(made, Array)
        shape = [most(size) for size in made.shape]
        target = self.storage(made.dtype, shape)
        self._list_into(target, node, kind)
        return target

    def _list_into(self, target: Memory, node: ast.expr, kind: Tuple) -> None:
        if not isinstance(node, (ast.Tuple, ast.List)):
            base = self.typed(self.kept(self.value(node)), kind)
            items = [self.item_of(base, place, its) for place, its in enumerate(kind.items)]
        else:
            items = list(node.elts)
        for place, (item, its) in enumerate(zip(items, kind.items, strict=True)):
            part = self.at_place(target, place)
            if isinstance(its, Number):
                self.emit(ast.Assign([part.element([], ast.Store())], self.value(item)))
            elif isinstance(its, Tuple):
                self._list_into(part, item, its)
            else:
                self.fill(part, self.elements(item))

    # --- constructors ------------------------------------------------------------------------------------------------

    def constructed(self, node: ast.Call, name: str, arguments: dict[str, Any], kind: Array) -> Memory | Elements:
        dims = tuple(Dim(most(size)) for size in kind.shape)
        if name == "array":
            return self._made_of(arguments["object"], kind)
        is_like = name.endswith("_like")
        if is_like and any(isinstance(part, ast.Call) for part in ast.walk(arguments["a"])):
            self.elements(arguments["a"])  # only its shape is needed, but it may draw random numbers
        if any(isinstance(size, Bound) for size in kind.shape):
            dims = self.elements(arguments["a"]).dims if is_like else self.sizes(arguments["shape"], kind)
        if name == "arange":
            start, _, step = array_types.arange_values(self, node, arguments)
            return Elements(kind.dtype, dims, lambda indices, _: plus(ast.Constant(start), times(indices[0], step)))
        if name == "eye":
            shift = arguments["k"] if isinstance(arguments["k"], int) else self.constant(arguments["k"]) or 0

            def at_(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
                here = compare(plus(indices[0], ast.Constant(shift)), ast.Eq(), indices[1])
                return here if kind.dtype == "bool" else ast.IfExp(here, _number(1, kind.dtype), _number(0, kind.dtype))

            return Elements(kind.dtype, dims, at_)
        if name.startswith("full"):
            fill = arguments["fill_value"]
            value, its = self.value(fill), self.type_of(fill)
            value = self.kept(converted(value, its.dtype, kind.dtype) if isinstance(its, Number) else value)
        else:
            value = _number(int(name.startswith("ones")), kind.dtype)
        return Elements(kind.dtype, dims, lambda indices, _: value)

    def _made_of(self, node: ast.expr, kind: Array) -> Memory | Elements:
        its = self.type_of(node)
        if isinstance(its, Tuple):
            made = self.listed(node, its)
            return made if made.dtype == kind.dtype else replace(made.elements(), dtype=kind.dtype)
        source = self.elements(node)
        return Elements(kind.dtype, source.dims, source.at, source.reads)


MAY_BE_COPIES = frozenset({"ravel", "reshape"})
"""NumPy gives a part of the array or a copy, depending on how it lies in memory."""


def _named(kind: str) -> frozenset[str]:
    return frozenset(name for name, function in FUNCTIONS.items() if function.kind == kind)


CONSTRUCTORS, MOVERS, SELECTORS = _named(CONSTRUCTOR), _named(MOVER), _named(SELECTION)
REDUCERS = _named(REDUCTION) | {f"builtin {name}" for name in ("min", "max", "sum", "any", "all")}


def _number(value: int, dtype: str) -> ast.Constant:
    kind = np.dtype(dtype).kind
    return ast.Constant(bool(value) if kind == "b" else float(value) if kind == "f" else value)


def _operands(arguments: dict[str, Any]) -> list[ast.expr]:
    return [value for key, value in arguments.items() if key != "dtype"]


def _has_effects(call: ast.Call) -> bool:
    """Whether a call may change an array."""
    return isinstance(call.func, Ref) and call.func.kind in (Kind.HELPER, Kind.TWIN, Kind.DRAW)


def is_fresh(kind: Array) -> bool:
    return not kind.origins or any(origin.startswith("local:") for origin in kind.origins)


def fresh_results(instance: Instance) -> list[Array]:
    """The arrays that a function returns and that its caller has to provide memory for."""
    result = instance.result
    if isinstance(result, Items):
        return arrays_for(result)
    items = result.items if isinstance(result, Tuple) else [result]
    return [item for item in items if isinstance(item, Array) and is_fresh(item)]
