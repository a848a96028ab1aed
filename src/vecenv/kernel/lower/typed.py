"""Types of a lowered program: the inference once more, over the loops that array expressions have become.

A backend that must name the type of every variable (C++ has to, Numba finds them itself) asks here. The vocabulary is
that of `tree.py`: local arrays are declared, arrays that a function returns are arguments of it, and there are no
lists.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from vecenv.errors import KernelError
from vecenv.kernel.lower.infer import Inference, _Typing
from vecenv.kernel.lower.instance import Instance, Names
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.lower.types import FLOAT, STREAM, Array, Conflict, Number, Tuple, Type, join, plain

OF_FLOATS = frozenset({"floor", "ceil", "trunc", "rint"})
"""Operations that round a float to a float."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a lowered function: its name, and its role if it has one."""

    name: str
    role: str | None = None


def parameters_of(function: Function) -> list[Parameter]:
    """The parameters of a lowered function: arrays for its results, then its own; queues are several arrays."""
    found = [Parameter(name) for name in function.results]
    for name in function.source.parameters:
        if name in function.roles:
            found.append(Parameter(name, function.roles[name]))
        else:
            found += [Parameter(part) for part in function.expanded.get(name, (name,))]
    return found


class LoweredInference(Inference):
    """Types of a lowered program; `instances` has every function for each tuple of argument types.

    Bodies are copied, so that every node stands at one place and has one type.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program, program.shapes)

    def instance(self, function: Function, arguments: tuple[Type, ...]) -> Instance:
        key = (function.name, arguments)
        if key not in self.instances:
            instance = Instance(replace(function, body=list(map(_unshared, function.body))), arguments)
            _LoweredTyping(self, instance).run()
            self.instances[key] = instance
        return self.instances[key]


class _LoweredTyping(_Typing):
    """Types one lowered function."""

    inference: LoweredInference

    def run(self) -> None:
        self._run_once()

    def _parameters(self) -> Names:
        mask = Array("int8", (self._actions(),), frozenset({"leaf:mask"}))
        own = {name: {"rng": STREAM, "mask": mask}.get(role) for name, role in self.function.roles.items()}
        names: Names = {name: kind for name, kind in own.items() if kind is not None}
        given = zip(_plain_ones(self.function), self.instance.arguments, strict=True)
        return names | {parameter.name: value for parameter, value in given}

    def _check_overwritten(self) -> None:
        """What shares memory was looked at when arrays were lowered."""

    def _check_assigned(self, node: ast.Name) -> None:
        """That was looked at when the names were the user's."""

    def _check_stored(self, node: ast.AST, held: Type, value: Type) -> None:
        """Shapes were looked at when arrays were lowered."""

    def _leave_out(self, statement: ast.stmt, error: KernelError) -> None:
        raise error

    def _type_of_operation(self, node: ast.Call, name: str, arguments: list[Type]) -> Type:
        if name.startswith("local_array_"):
            dtype, shape = local_array_of(name)
            return Array(dtype, shape, frozenset({self.instance.site(node)}))
        if name == "pairwise_sum":
            (values, _) = arguments
            assert isinstance(values, Array)
            return Number(values.dtype)
        if name in OF_FLOATS:
            return FLOAT
        return super()._type_of_operation(node, name, arguments)

    def _type_of_helper(self, node: ast.Call, name: str) -> Type:
        function = self.inference.functions[name]
        values = [argument for argument in node.args if not _is_whole(argument)]
        parameters = [parameter for parameter in parameters_of(function) if parameter.role not in _WHOLE]
        given: list[Type] = []
        for parameter, argument in zip(parameters, values, strict=False):
            kind = self.type_of(argument)
            if parameter.role is None:
                given.append(_shapeless(plain(kind)))
        missing = len(_plain_ones(function)) - len(given)
        defaults = function.defaults[len(function.defaults) - missing :] if missing else []
        given += [_shapeless(plain(self.type_of(default))) for default in defaults]
        instance = self.inference.instance(function, tuple(given))
        self.instance.calls[id(node)] = instance
        assert instance.result is not None
        return instance.result


_WHOLE = frozenset({"state", "params", "obs", "action"})
"""Roles of parameters that are not passed on by value."""


def _is_whole(argument: ast.expr) -> bool:
    return isinstance(argument, Ref) and argument.kind is Kind.ARGUMENT


def _plain_ones(function: Function) -> list[Parameter]:
    return [parameter for parameter in parameters_of(function) if parameter.role is None]


def _shapeless(kind: Type) -> Type:
    """A type of an argument: what an array is a part of does not matter any more."""
    if isinstance(kind, Array):
        return Array(kind.dtype, kind.shape, frozenset({"argument"}))
    return Tuple(tuple(map(_shapeless, kind.items))) if isinstance(kind, Tuple) else kind


def local_array_of(name: str) -> tuple[str, tuple[int, ...]]:
    """The dtype and the shape that an operation `local_array_int8_3x4` declares."""
    _, dtype, sizes = name.rsplit("_", 2)
    return dtype, tuple(map(int, sizes.split("x")))


def _unshared(node: Any) -> Any:
    """A copy in which every node stands at one place."""
    if isinstance(node, list):
        return [_unshared(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    new = copy.copy(node)
    for name, value in ast.iter_fields(node):
        setattr(new, name, _unshared(value))
    return new


def common(kinds: Sequence[Type]) -> Type:
    """The type of one of several values."""
    found: Type | None = None
    for kind in kinds:
        found = join(found, plain(kind))
    assert found is not None
    assert not isinstance(found, Conflict)
    return found
