"""A resolved program: the functions of one kernel as data, for backends to emit text from."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv._batch.layout import Layout
from vecenv.errors import KernelError
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.scope import Roles
from vecenv.kernel.language.source import FunctionSource

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel


@dataclass(frozen=True, eq=False)
class Function:
    """One function in which every name is known.

    Attributes:
        name: what others call it by.
        source: the function that the user wrote; line numbers of the tree are those of its file.
        method: the method of the kernel that it is, "policy" for a policy, None for a helper.
        roles: what its parameters stand for, by their names; a parameter without a role is a number or an array.
        body: its statements, see `tree.py`. A step returns a reward and two flags; other methods return nothing.
        defaults: default values of its last parameters.
        assigned: fields of the state that are numbers and that it assigns.
        passes_state: whether it passes the state on to a helper.
        guarded: whether it must run only on rows that are to be stepped: it draws random numbers, indexes or loops.
        results: names of the arrays that it writes what it returns into; its callers pass them before its arguments.
        returns_array: whether it returns one array.
        expanded: names of the arrays that its parameters are which are queues.
        faults: whether it, or a function that it calls, has checks (`checks.py`): it gets the row's fault.
    """

    name: str
    source: FunctionSource
    method: str | None
    roles: Roles
    body: Sequence[ast.stmt]
    defaults: Sequence[ast.expr]
    assigned: tuple[str, ...]
    passes_state: bool
    guarded: bool
    results: tuple[str, ...] = ()
    returns_array: bool = False
    expanded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: bool = False


@dataclass(frozen=True)
class Site:
    """A place in the user's code where native code checks something.

    Attributes:
        problem: "index", "size", "division", "conversion", "overflow", "power", "key", "full", "empty" or "loop".
        function: name of the user's function.
        file, line: where it is.
        what: the array, field or expression that is checked.
        axis: of the array.
    """

    problem: str
    function: str
    file: str
    line: int
    what: str
    axis: int | None = None


@dataclass(eq=False)
class Program:
    """Everything that is compiled for one kernel.

    Attributes:
        kernel: the definition.
        layouts: of the observation ("obs") and the action ("action").
        functions: helpers before the functions that call them.
        methods: the functions that are methods of the kernel, by their names; "policy" if there is one.
        constants: values of names in the functions.
        draws: functions of `vecenv.kernel.rng` that are called.
        twins: modules of the native twins that are called, by the names of the functions.
        twin_functions: the Python functions that those are the twins of.
        found: mistakes; a program with mistakes is looked at as far as possible, but not compiled.
        checked: whether native code is to check what Python would raise for.
        sites: where it checks something, by number from 1 on.
        shapes: of the parameters that are arrays.
    """

    kernel: Kernel
    layouts: dict[str, Layout]
    functions: list[Function] = field(default_factory=list)
    methods: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    draws: set[str] = field(default_factory=set)
    twins: dict[str, str] = field(default_factory=dict)
    twin_functions: dict[str, Any] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
    checked: bool = False
    sites: list[Site] = field(default_factory=list)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def error(self, source: FunctionSource, node: ast.AST, rule: str) -> KernelError:
        """The error to raise for a node of a function."""
        return KernelError(rule, self.kernel.name, source.name, source.file, getattr(node, "lineno", None))

    @property
    def constants_text(self) -> list[str]:
        """A line for each constant; lines differ where values do."""
        return [f"{name} = {_text_of(value)}" for name, value in self.constants.items()]


def _text_of(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array('{value.dtype}', {value.shape}, '{np.ascontiguousarray(value).tobytes().hex()}')"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text_of, value))})"
    if isinstance(value, np.generic):
        value = value.item()
    if callable(value):
        return f"{getattr(value, '__module__', None)}.{value.__name__}"  # repr may show its address
    return repr(value)  # of a float: all its digits
