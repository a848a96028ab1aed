"""The rules of kernels, checked on the syntax tree before any compiler sees the code."""

from __future__ import annotations

import ast
import difflib
import math
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel import rng as random_numbers
from vecenv.kernel._fields import Field, unknown
from vecenv.kernel._source import MISSING, Source, is_constant

Roles = Mapping[str, str]
"""What parameters of a function stand for: name -> "state", "params", "rng", "obs", "action" or "mask"."""

_ALLOCATES = "kernels allocate nothing; declare an array in `state` and write into it"
_FORBIDDEN: dict[type[ast.AST], str] = {
    ast.List: f"a list is built here; {_ALLOCATES}",
    ast.ListComp: f"a list is built here; {_ALLOCATES}",
    ast.Dict: f"a dict is built here; {_ALLOCATES}",
    ast.DictComp: f"a dict is built here; {_ALLOCATES}",
    ast.Set: f"a set is built here; {_ALLOCATES}",
    ast.SetComp: f"a set is built here; {_ALLOCATES}",
    ast.GeneratorExp: "generator expressions have no native form; write a for loop",
    ast.Lambda: "a lambda has no native form; define a function of the module and call it",
    ast.FunctionDef: "functions cannot be defined inside; define a function of the module and call it",
    ast.AsyncFunctionDef: "async functions have no native form",
    ast.ClassDef: "classes cannot be defined inside",
    ast.Try: "try has no native form; test for the condition instead",
    ast.With: "with has no native form",
    ast.Raise: "native code cannot raise; end the episode (terminated) instead",
    ast.Yield: "yield has no native form",
    ast.YieldFrom: "yield has no native form",
    ast.Await: "await has no native form",
    ast.Import: "import at the top of the module, not inside",
    ast.ImportFrom: "import at the top of the module, not inside",
    ast.Global: "global variables cannot be changed; keep what changes in `state`",
    ast.Nonlocal: "variables outside cannot be changed; keep what changes in `state`",
    ast.JoinedStr: "strings have no native form",
    ast.Delete: "del has no native form",
    ast.Starred: "* has no native form; write the values out",
}
_NOT_NATIVE = {
    "print": "print has no native form; put a breakpoint into the Python env (vecenv.make_env)",
    "open": "files cannot be opened in native code",
    "input": "input has no native form",
    "sum": "sum over Python objects has no native form; write a for loop",
    "sorted": f"sorted builds a list; {_ALLOCATES}",
    "list": f"list() builds a list; {_ALLOCATES}",
    "dict": f"dict() builds a dict; {_ALLOCATES}",
    "set": f"set() builds a set; {_ALLOCATES}",
    "str": "strings have no native form",
    "getattr": "getattr has no native form; write the field out",
    "setattr": "setattr has no native form; write the field out",
}
_NUMPY_ALLOCATES = frozenset(
    "zeros ones empty full array asarray arange linspace zeros_like ones_like empty_like full_like concatenate stack "
    "copy where meshgrid eye".split()
)
_NUMPY_ROUNDS_OTHERWISE = frozenset(
    "exp expm1 log log1p log2 log10 tan tanh sinh cosh arcsin arccos arctan arctan2 arcsinh arccosh arctanh power cbrt "
    "hypot sin cos".split()
)
_MATH_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "power": "pow"}
_MATH_NAMES |= {"arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh"}


class Rules:
    """Checks one function.

    Args:
        kernel: name of the class, for messages.
        source: the function.
        roles: what its parameters stand for.
        fields: fields of the state.
        params: fields of `Params`.
    """

    def __init__(
        self, kernel: str, source: Source, roles: Roles, fields: Mapping[str, Field], params: Mapping[str, Field]
    ) -> None:
        self.kernel, self.source, self.roles = kernel, source, roles
        self.fields, self.params = fields, params

    def check(self) -> None:
        """Everything that can be known from this function alone. Raises KernelError."""
        for node in self._nodes():
            self._check_node(node)
        if self.source.name == "step" and "action" in self.roles.values():
            self._check_returns_of_step()
        elif "obs" in self.roles.values() or "mask" in self.roles.values() or self.source.name == "reset":
            self._check_no_value_returned()

    def check_names(self) -> None:
        """That every name exists and can be compiled. Later than `check`: a helper may be defined below the class."""
        for node in self._nodes():
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                self._check_name(node)
            if isinstance(node, ast.Call):
                self._check_call(node)

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        """The error to raise for a node."""
        return KernelError(rule, self.kernel, self.source.name, self.source.file, getattr(node, "lineno", None))

    def _nodes(self) -> Iterator[ast.AST]:
        """All nodes below the function's head, without its docstring."""
        body = self.source.node.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        for statement in body:
            yield from ast.walk(statement)

    def _check_node(self, node: ast.AST) -> None:
        rule = _FORBIDDEN.get(type(node))
        if rule is not None:
            raise self.fail(node, rule)
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and not self._is_key(node):
            raise self.fail(node, f"the string {node.value!r} has no native form; use numbers")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            self._check_field(node, self.roles.get(node.value.id))
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            self._check_assignment(node)

    def _is_key(self, node: ast.Constant) -> bool:
        """Whether a string is a key of a Dict observation or action."""
        for parent in self._nodes():
            if isinstance(parent, ast.Subscript) and parent.slice is node:
                root = parent.value
                while isinstance(root, ast.Subscript):
                    root = root.value
                return isinstance(root, ast.Name) and self.roles.get(root.id) in ("obs", "action")
        return False

    def _check_field(self, node: ast.Attribute, role: str | None) -> None:
        if role == "state" and node.attr not in self.fields:
            raise self.fail(node, unknown(node.attr, self.fields))
        if role == "params":
            if isinstance(node.ctx, ast.Store):
                raise self.fail(node, f"Params are read-only: keep what changes in `state`, not in {node.attr!r}")
            if node.attr not in self.params:
                raise self.fail(node, unknown(node.attr, self.params).replace("field", "parameter", 1))

    def _check_assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id in self.roles:
                raise self.fail(target, f"{target.id!r} is the {self.roles[target.id]} of the env and cannot be replaced")
            if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
                continue
            if self.roles.get(target.value.id) != "state":
                continue
            field = self.fields[target.attr]
            if field.shape:
                raise self.fail(
                    target, f"field {target.attr!r} is an array; write into it: {target.value.id}.{target.attr}[:] = ..."
                )
            constant = node.value.value if isinstance(node.value, ast.Constant) else 0
            if constant is None or (isinstance(constant, (float, complex)) and field.dtype.kind in "iub"):
                raise self.fail(target, f"field {target.attr!r} is {field}, but is assigned {constant!r}")

    def _check_returns_of_step(self) -> None:
        found = False
        for node in self._nodes():
            if isinstance(node, ast.Return):
                found = True
                count = len(node.value.elts) if isinstance(node.value, ast.Tuple) else 0 if node.value is None else 1
                if count not in (2, 3):
                    raise self.fail(
                        node,
                        f"step returns {count} value{'s' * (count != 1)}; return reward, terminated (and, if the env "
                        "itself truncates, truncated as a third), written out",
                    )
        if not found or not _always_returns(self.source.node.body):
            raise self.fail(
                self.source.node.body[-1], "step can end without a return; return reward, terminated on every path"
            )

    def _check_no_value_returned(self) -> None:
        for node in self._nodes():
            if isinstance(node, ast.Return) and node.value is not None:
                raise self.fail(node, f"{self.source.name} returns a value; it writes into its arguments instead")

    def _check_name(self, node: ast.Name | ast.Attribute) -> None:
        if isinstance(node, ast.Name):
            if node.id in self.source.locals or self.source.lookup(node.id) is not MISSING:
                return
            known = [*self.source.locals, *self.source.function.__globals__]
            near = difflib.get_close_matches(node.id, known, n=1)
            raise self.fail(node, f"there is no name {node.id!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        owner = self.source.evaluate(node.value)
        if isinstance(owner, ModuleType) and not hasattr(owner, node.attr):
            raise self.fail(node, f"module {owner.__name__!r} has no {node.attr!r}")
        value = self.source.evaluate(node)
        if value is not MISSING and not (is_constant(value) or callable(value) or isinstance(value, ModuleType)):
            raise self.fail(node, f"{ast.unparse(node)} is {_kind(value)}; native code can use numbers and arrays only")

    def _check_call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _NOT_NATIVE and node.func.id not in self.source.locals:
            raise self.fail(node, _NOT_NATIVE[node.func.id])
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            if self.roles.get(node.func.value.id) == "rng":
                self._check_draw(node, node.func.attr)
                return
            if self.source.evaluate(node.func.value) is np:
                self._check_numpy(node, node.func.attr)

    def _check_draw(self, node: ast.Call, name: str) -> None:
        if name in ("permutation", "shuffle"):
            raise self.fail(node, f"use vecenv.kernel.rng.{name}(rng, array), which writes into an array of `state`")
        if name not in random_numbers.__all__:
            near = difflib.get_close_matches(name, random_numbers.__all__, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise self.fail(node, f"rng has no {name!r} in kernels{hint} (there are: {', '.join(random_numbers.__all__)})")

    def _check_numpy(self, node: ast.Call, name: str) -> None:
        if name in _NUMPY_ALLOCATES:
            raise self.fail(node, f"np.{name} builds an array; {_ALLOCATES}")
        if name in _NUMPY_ROUNDS_OTHERWISE:
            better = _MATH_NAMES.get(name, name)
            if hasattr(math, better):
                raise self.fail(
                    node, f"use math.{better}: NumPy's {name} may round otherwise than the C library's, and native code "
                    "would not be bit-equal to Python"
                )


def _always_returns(body: list[ast.stmt]) -> bool:
    """Whether no path leads past the end of these statements."""
    last = body[-1]
    if isinstance(last, ast.Return):
        return True
    if isinstance(last, ast.If):
        return bool(last.orelse) and _always_returns(last.body) and _always_returns(last.orelse)
    if isinstance(last, ast.While):
        return isinstance(last.test, ast.Constant) and bool(last.test.value)
    return False


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.40}"
