"""The compiler of kernel functions: their emitted text becomes LLVM's, without Numba's inference.

Numba takes a tenth of a second for a function. It is not needed where all types are plain: numbers are 64-bit ints,
floats and bools, a variable has one type everywhere, and an array has a known number of axes. A function with anything
else raises `NotInRowLoop`, and is then compiled by Numba, together with all that it calls.

What is computed is the same in both, to the bit. Conversions, random numbers and mathematics are Numba's functions, and
so is every operation that has no method here (`_by_numba`). Statements and variables are here, expressions in
`expression_writer.py`, arrays in `array_writer.py`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir

from vecenv.kernel.numba.array_writer import PLAIN_TYPES, KeptView, changing_parts, rebuilt, returned_part, template_of
from vecenv.kernel.numba.expression_writer import ExpressionWriter
from vecenv.kernel.numba.naturals import is_call_of, natural_variables
from vecenv.kernel.numba.row_loop import (
    FLAG,
    WORD,
    KernelCalls,
    NotInRowLoop,
    Number,
    Returned,
    View,
    passed_for,
)


class KernelFunction(ExpressionWriter):
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
        widened = {id(one.args[0]) for one in nodes if isinstance(one, ast.Call) and is_call_of(one, "widen__")}
        self.read_as_they_are = {one.id for one in loads if id(one) not in widened}
        self.naturals = natural_variables(nodes, parameters)
        given = list(self.function.args)
        for parameter, argument in zip(parameters, arguments, strict=True):
            value = rebuilt(argument, given)
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

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Return(self, node: ast.Return) -> None:
        empty = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        self._return(None if empty else self._value(node.value))  # type: ignore[arg-type]  # it is not None
        self._leave()

    def _return(self, value: Any) -> None:
        values = value if isinstance(value, list) else [] if value is None else [value]
        parts = tuple(returned_part(one) for one in values)
        returned = Returned(parts, isinstance(value, list))
        flat = [found for one, part in zip(values, parts, strict=True) for found in changing_parts(one, part)]
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
        if not (isinstance(node.iter, ast.Call) and is_call_of(node.iter, "range")):
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
        if len(view.shape) == 1 and view.element not in PLAIN_TYPES and (counts or target in self.read_as_they_are):
            raise NotInRowLoop(ast.unparse(node.iter))
        with self._turns(node.body, WORD(0), view.shape[0], WORD(1)) as index:
            part: Any = self._along_first_axis(view, index)
            part = part if part.shape else self._read_element(part)
            self._assign_name(target, [Number(index), part] if counts else part)

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
        if view.element not in PLAIN_TYPES and (read or not all(isinstance(one, ast.Name) for one in target.elts)):
            return None
        return [self._read_element(self._element(view, [WORD(place)])) for place in range(view.shape[0].constant)]

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
        if isinstance(place, (View, KeptView, list)) or place.type.pointee != kind:
            raise NotInRowLoop(f"{name} has values of several types")
        self.builder.store(value.value, place)

    def _assign_view(self, name: str, view: View) -> None:
        is_argument = any(name == argument.arg for argument in self.node.args.args)
        template = template_of(view, first_changes=self.stores[name] + is_argument > 1)
        values = changing_parts(view, template)
        if name not in self.variables:
            with self.builder.goto_entry_block():
                places = tuple(self.builder.alloca(value.type) for value in values)
            self.variables[name] = KeptView(template, places)
        kept = self.variables[name]
        if not isinstance(kept, KeptView) or kept.template != template:
            raise NotInRowLoop(f"{name} is several kinds of arrays")
        for value, place in zip(values, kept.places, strict=True):
            self.builder.store(value, place)
