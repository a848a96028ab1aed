"""Emitting: from a resolved program to Python functions over plain numbers and arrays, which Numba compiles.

A field of the state is a variable `s__x`, which is passed in and, if it was assigned, returned: the compiler can then
keep it in a register and step several envs with one instruction. Where the state is passed on to a helper, `s__x` is an
array of one element, and the field is `s__x[0]`. Array fields are always the env's own part of the column.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv.kernel.lower.checks import needs_fault
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref, at, local
from vecenv.kernel.numba.collapse import Block, blocks_given, collapse, returned_argument
from vecenv.kernel.numba.fuse import fuse

NOT_IN_CACHED_CODE = {"frexp": "use math.log2", "ldexp": "use x * 2.0 ** n"}
"""Functions of `math` that call Numba's library, which is not loaded with code from the cache; what to use instead."""
_PREFIX = {
    Kind.FIELD: "s__",
    Kind.PARAMETER: "p__",
    Kind.CONSTANT: "",
    Kind.NUMPY: "",
    Kind.BUILTIN: "",
    Kind.MATH: "math__",
    Kind.DRAW: "rng__",
    Kind.HELPER: "",
    Kind.TWIN: "twin__",
}


@dataclass(frozen=True, eq=False)
class EmittedFunction:
    """One function as Numba compiles it.

    Attributes:
        function: what it was emitted from.
        node: its definition.
        registers: whether fields that are numbers are passed as numbers, and those that are assigned returned after its
            own values; otherwise they are passed as arrays of one element.
    """

    function: Function
    node: ast.FunctionDef
    registers: bool

    @property
    def assigned(self) -> tuple[str, ...]:
        """The fields that it returns."""
        return self.function.assigned if self.registers else ()


@dataclass(frozen=True, eq=False)
class EmittedProgram:
    """The functions of a program as Numba compiles them, by their names, helpers first."""

    program: Program
    functions: Mapping[str, EmittedFunction]

    @property
    def text(self) -> str:
        """Constants and functions, for readers and for the cache's key."""
        functions = [ast.unparse(function.node) for function in self.functions.values()]
        constants = self.program.constants_text
        return "\n\n\n".join([*(["\n".join(constants)] if constants else []), *functions])


def emit(program: Program) -> EmittedProgram:
    """The functions of a program for Numba."""
    used: dict[str, set[str]] = {}
    for function in program.functions:  # helpers come before those that call them
        used[function.name] = _used(function, used)
    emitted = [_Emitter(program, function, used).emitted() for function in program.functions]
    _collapse_loops(program, emitted)
    return EmittedProgram(program, {one.function.name: one for one in emitted})


def _used(function: Function, used: Mapping[str, Collection[str]]) -> set[str]:
    """The fields, parameters and leaves that a function and the helpers that it calls use, by their emitted names.

    Args:
        function: any function of the program.
        used: what is found here for its helpers.
    """
    found: set[str] = set()
    for node in (node for statement in function.body for node in ast.walk(statement)):
        if isinstance(node, Ref):
            if node.kind in (Kind.FIELD, Kind.PARAMETER):
                found.add(_PREFIX[node.kind] + node.name)
            elif node.kind is Kind.LEAF:
                found.add(f"{node.name}__{node.index}")
            elif node.kind is Kind.HELPER:
                found |= set(used[node.name])
    return found


def _collapse_loops(program: Program, emitted: Sequence[EmittedFunction]) -> None:
    """Let loops over elements that lie one behind the other be one loop, see `collapse.py`, and fuse others."""
    fixed = _blocks(program)
    parameters = {
        one.function.name: [argument.arg for argument in one.node.args.args]
        for one in emitted
        if one.function.method is None
    }
    found = {one.function.name: returned_argument(one.node) for one in emitted if one.function.method is None}
    returned = {name: place for name, place in found.items() if place is not None}
    given: dict[str, dict[str, set[Block | None]]] = {name: {} for name in parameters}
    for one in _callers_first(emitted):
        always = {
            parameter: block
            for parameter, blocks in given.get(one.function.name, {}).items()
            if len(blocks) == 1 and (block := next(iter(blocks))) is not None
        }
        known = collapse(one.node, {**fixed, **always}, returned)
        for helper, parameter, block in blocks_given(one.node, known, parameters):
            given[helper].setdefault(parameter, set()).add(block)
        if not one.function.faults:
            fuse(one.node, one.function.results)
        ast.fix_missing_locations(one.node)


def _callers_first(emitted: Sequence[EmittedFunction]) -> list[EmittedFunction]:
    """The functions in an order in which each comes after all that call it; none calls itself."""
    calls = {
        one.function.name: {
            node.func.id
            for node in ast.walk(one.node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for one in emitted
    }
    ordered: list[EmittedFunction] = []
    waiting = list(emitted)
    while waiting:
        called = {name for one in waiting for name in calls[one.function.name]}
        ready = [one for one in waiting if one.function.name not in called] or waiting
        ordered += ready
        waiting = [one for one in waiting if one not in ready]
    return ordered


def _blocks(program: Program) -> dict[str, Block]:
    """The arrays that have the same name in all functions, but for parameters, which have any shape."""
    kernel = program.kernel
    blocks: dict[str, Block] = {}
    if not kernel.shared:  # the sizes of these are known when they run
        blocks |= {f"s__{name}": Block(field.dtype.name, field.shape) for name, field in kernel.state.items()}
        for role, layout in program.layouts.items():
            blocks |= {f"{role}__{k}": Block(leaf.dtype.name, leaf.shape) for k, leaf in enumerate(layout.leaves)}
    for name, value in program.constants.items():
        if isinstance(value, np.ndarray) and value.flags.c_contiguous:
            blocks[name] = Block(value.dtype.name, value.shape)
    return {name: block for name, block in blocks.items() if block.shape}


class _Emitter(ast.NodeTransformer):
    """Writes one function. `used` are the names that each function uses: helpers are passed nothing else."""

    def __init__(self, program: Program, function: Function, used: Mapping[str, Collection[str]]) -> None:
        self.program, self.function, self.used = program, function, used
        self.functions = {other.name: other for other in program.functions}
        self.registers = function.method is not None and not function.passes_state
        self.returns_fields = self.registers and function.method not in ("step", "policy")

    def emitted(self) -> EmittedFunction:
        function = self.function
        body: list[Any] = [self.visit(copy.deepcopy(statement)) for statement in function.body]
        if self.returns_fields:
            body.append(self._return([]))
        names = [*self._fault(function), *function.results] + [
            name
            for parameter in function.source.parameters
            for name in self._names(function, function.roles.get(parameter), parameter)
        ]
        node = ast.parse("def function(): pass").body[0]
        assert isinstance(node, ast.FunctionDef)
        node.name, node.body = function.name, body
        node.args.args = [ast.arg(name) for name in names]
        node.args.defaults = [self.visit(copy.deepcopy(value)) for value in function.defaults]
        at(function.source.node, node)
        return EmittedFunction(function, ast.fix_missing_locations(node), self.registers)

    def _fault(self, function: Function) -> list[str]:
        """The name of the address of the row's fault, if a function gets it: before all other arguments."""
        return ["fault__"] if function.faults else []

    def _names(self, function: Function, role: str | None, parameter: str) -> list[str]:
        """The names that stand for a parameter with this role; methods get all of them from the row loop."""
        if role == "state":
            names = [f"s__{field}" for field in self.program.kernel.state]
        elif role == "params":
            names = [f"p__{field}" for field in self.program.kernel.params]
        elif role in self.program.layouts:
            names = [f"{role}__{leaf}" for leaf in range(len(self.program.layouts[role].leaves))]
        else:
            return list(function.expanded.get(parameter, (parameter,)))
        return [name for name in names if function.method is not None or name in self.used[function.name]]

    def visit_Ref(self, node: Ref) -> ast.expr:
        if node.kind is Kind.OPERATION:
            return at(node, local(f"{node.name}__"))
        if node.kind is Kind.LEAF:
            return at(node, local(f"{node.name}__{node.index}"))
        if node.kind is Kind.FIELD and not self._is_variable(node):
            return at(node, ast.Subscript(local(f"s__{node.name}"), ast.Constant(0), node.ctx))
        return at(node, local(_PREFIX[node.kind] + node.name, node.ctx))

    def _is_variable(self, field: Ref) -> bool:
        return self.registers or bool(self.program.kernel.state[field.name].shape)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, Ref) and node.func.kind is Kind.OPERATION and node.func.name == "widen":
            field = node.args[0]
            if isinstance(field, Ref) and field.kind is Kind.FIELD and self._is_variable(field):
                return self.visit(field)  # registers hold 64 bits
        arguments: list[Any] = list(map(local, self._passed_fault(node.func)))
        for argument in node.args:
            if isinstance(argument, Ref) and argument.kind is Kind.ARGUMENT:
                assert isinstance(node.func, Ref)
                called = self.functions[node.func.name]
                arguments += [local(name) for name in self._names(called, argument.name, argument.name)]
            else:
                arguments.append(self.visit(argument))
        keywords = [self.visit(keyword) for keyword in node.keywords]
        call = at(node, ast.Call(self.visit(node.func), arguments, keywords))
        return at(node, ast.Subscript(call, ast.Constant(0), ast.Load())) if self._gives_array(node.func) else call

    def _passed_fault(self, function: ast.expr) -> list[str]:
        if not isinstance(function, Ref):
            return []
        if function.kind is Kind.HELPER:
            return self._fault(self.functions[function.name])
        return ["fault__"] if function.kind is Kind.OPERATION and needs_fault(function.name) else []

    def visit_While(self, node: ast.While) -> ast.stmt:
        """A loop that may not end looks now and then whether it was interrupted."""
        self.generic_visit(node)
        stop = ast.Raise(local("InterruptedError"), None)
        poll = ast.If(ast.Call(local("poll__"), [], []), [stop], [])
        return at(node, ast.While(node.test, [at(node, poll), *node.body], node.orelse))

    def _gives_array(self, function: ast.expr) -> bool:
        """Whether a call returns a tuple of one value, usually an array.

        Numba returns no arrays by themselves without its allocator.
        """
        if not isinstance(function, Ref):
            return False
        if function.kind is Kind.OPERATION:
            return function.name == "element"
        return function.kind is Kind.HELPER and self.functions[function.name].returns_array

    def visit_List(self, node: ast.List) -> ast.expr:
        """Options of a draw, which are a constant; Numba would allocate a list."""
        return at(node, ast.Tuple([self.visit(element) for element in node.elts], ast.Load()))

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if self.function.method == "step" and isinstance(node.value, ast.Tuple):
            return at(node, self._return(node.value.elts))
        if self.function.returns_array and node.value is not None:
            return at(node, ast.Return(ast.Tuple([node.value], ast.Load())))
        return at(node, self._return([])) if self.returns_fields else node

    def _return(self, values: list[ast.expr]) -> ast.Return:
        fields: list[ast.expr] = [local(f"s__{name}") for name in self.function.assigned] if self.registers else []
        everything = [*values, *fields]
        return ast.Return(ast.Tuple(everything, ast.Load()) if everything else ast.Constant(0))
