"""One function that is checked: its nodes in order, and what they stand for as far as the syntax tree says."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from vecenv._batch.leaf import Leaf
from vecenv.errors import KernelError
from vecenv.kernel.language.fields import Field
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.source import FunctionSource
from vecenv.kernel.rng import NUMBERS

Roles = Mapping[str, str]
"""What parameters of a function stand for: name -> "state", "params", "rng", "obs", "action" or "mask"."""

METHODS: dict[str, tuple[str, ...]] = {
    "reset": ("state", "rng", "params"),
    "step": ("state", "action", "rng", "params"),
    "observe": ("state", "obs", "params"),
    "action_mask": ("state", "mask", "params"),
}
"""What the parameters of each compiled method stand for, in order."""
AROUND_PHYSICS: dict[str, tuple[str, ...]] = {
    "control": ("state", "action", "rng", "params"),
    "begin": ("state", "params"),
}
"""The same of methods that only kernels with a simulation between their parts have (`mujoco/_device.py`)."""
_WITH_BODIES = (ast.With, ast.Try, ast.Match, ast.ExceptHandler)
"""Statements whose bodies are checked although they are wrong themselves."""

USES = {
    "state": "is used by its fields, {name}.x, or passed on to a function as it is",
    "params": "is used by its fields, {name}.x, or passed on to a function as it is",
    "rng": "is used by its functions, {name}.uniform(0.0, 1.0), or passed on to a function as it is",
}
"""How a parameter that is no number and no array is used."""


class Scope:
    """One function, and what is known of its names.

    Args:
        kernel: name of the class, for messages.
        source: the function.
        roles: what its parameters stand for.
        fields: fields of the state.
        params: fields of `Params`.
        leaves: leaves of the spaces behind the roles "obs" and "action", as far as they are known.
        method: the method of the kernel that this is, "policy" for a policy, None for a helper.
        callers: the functions that led here, if this one is a helper.
        later: names that its module may define later, while the module is still being read.
    """

    def __init__(
        self,
        kernel: str,
        source: FunctionSource,
        roles: Roles,
        fields: Mapping[str, Field],
        params: Mapping[str, Field],
        leaves: Mapping[str, Sequence[Leaf]] | None = None,
        *,
        method: str | None = None,
        callers: Sequence[Callable[..., Any]] = (),
        later: frozenset[str] = frozenset(),
    ) -> None:
        self.kernel, self.source, self.roles = kernel, source, roles
        self.fields, self.params = fields, params
        self.leaves = {role: {leaf.path: leaf for leaf in its} for role, its in (leaves or {}).items()}
        self.method, self.callers, self.later = method, callers, later
        self.nodes = _in_order(source.node.body)
        self._parents = {id(child): node for node in self.nodes for child in _children(node)}
        self._wrong: set[int] = set()

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        """The error to raise for a node."""
        return KernelError(rule, self.kernel, self.source.name, self.source.file, getattr(node, "lineno", None))

    def each(self, found: Found) -> Iterator[tuple[ast.AST, AbstractContextManager[None]]]:
        """Every node, with a context that notes its mistake. Parts of an expression that is wrong are left out."""
        for node in self.nodes:
            parent = self._parents.get(id(node))
            is_inside = not (isinstance(parent, _WITH_BODIES) and isinstance(node, ast.stmt))
            if parent is not None and id(parent) in self._wrong and is_inside:
                self._wrong.add(id(node))
            else:
                yield node, self._noting(node, found)

    @contextmanager
    def _noting(self, node: ast.AST, found: Found) -> Iterator[None]:
        try:
            yield
        except KernelError as error:
            self._wrong.add(id(node))
            parent = self.parent(node)
            if isinstance(parent, ast.Subscript) and parent.value is node:
                self._wrong.add(id(parent))  # s["x"] is one mistake
            found.add(error)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that this one is a part of; None for a statement of the function."""
        return self._parents.get(id(node))

    def role(self, node: ast.expr) -> str | None:
        """What a node stands for if it is a parameter."""
        return self.roles.get(node.id) if isinstance(node, ast.Name) else None

    def owner(self, node: ast.expr) -> str | None:
        """The role of `s` if the node is `s.x`."""
        return self.role(node.value) if isinstance(node, ast.Attribute) else None

    def field(self, node: ast.expr) -> Field | None:
        """The field that `s.x` or `p.x` is."""
        if not isinstance(node, ast.Attribute):
            return None
        return {"state": self.fields, "params": self.params}.get(self.owner(node) or "", {}).get(node.attr)

    def keys(self, role: str, path: str = "") -> list[Any]:
        """Keys of the Dict or Tuple at a path; none if it is a plain space or not known. Positions are ints."""
        leaves = self.leaves.get(role, {})
        if path in leaves:
            return []
        prefix = f"{path}." if path else ""
        keys = [leaf[len(prefix) :].partition(".")[0] for leaf in leaves if leaf.startswith(prefix)]
        distinct = list(dict.fromkeys(keys))
        positions = list(range(len(distinct)))
        return positions if distinct == list(map(str, positions)) else distinct

    def kind(self, node: ast.expr) -> type | None:
        """Type of an expression if it is plain: bool, int, float, str, tuple, dict or NoneType; None for unknown."""
        if isinstance(node, ast.Constant):
            return type(node.value)
        if isinstance(node, (ast.Tuple, ast.Dict)):
            return tuple if isinstance(node, ast.Tuple) else dict
        if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return bool
        if isinstance(node, ast.UnaryOp):
            kind = self.kind(node.operand)
            return int if kind is bool else kind
        if isinstance(node, ast.BinOp):
            return _kind_of_operation(node.op, self.kind(node.left), self.kind(node.right))
        if isinstance(node, ast.IfExp):
            kinds = {self.kind(node.body), self.kind(node.orelse)}
            return float if float in kinds else kinds.pop() if len(kinds) == 1 else None
        if isinstance(node, ast.Call):
            return self._kind_of_call(node)
        field = self.field(node)
        return None if field is None or field.shape else type(field.dtype.type(0).item())

    def _kind_of_call(self, node: ast.Call) -> type | None:
        function = node.func
        if isinstance(function, ast.Attribute) and self.owner(function) == "rng":
            return None if any(keyword.arg == "out" for keyword in node.keywords) else NUMBERS.get(function.attr)
        callee = self.source.evaluate(function)
        return callee if callee in (int, float, bool) else None


def roles_of(method: str, source: FunctionSource) -> dict[str, str]:
    """What the parameters of a method stand for, by their names."""
    return dict(zip(source.parameters, {**METHODS, **AROUND_PHYSICS}[method], strict=True))


def root(node: ast.expr) -> ast.expr:
    """What a chain of subscripts starts with."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def chain(node: ast.expr) -> list[ast.Subscript]:
    """The subscripts of a chain, the first first."""
    found: list[ast.Subscript] = []
    while isinstance(node, ast.Subscript):
        found.insert(0, node)
        node = node.value
    return found


def number(node: ast.expr) -> int | float | None:
    """The value of a number that is written out."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    return None


def _kind_of_operation(operator: ast.operator, left: type | None, right: type | None) -> type | None:
    if isinstance(operator, ast.Div) or float in (left, right):
        return float
    if left is None or right is None or isinstance(operator, ast.Pow):
        return None
    if left is right is bool and isinstance(operator, (ast.BitAnd, ast.BitOr, ast.BitXor)):
        return bool
    return int if {left, right} <= {int, bool} else None


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node that have a place in the file."""
    for child in ast.iter_child_nodes(node):
        if hasattr(child, "lineno"):
            yield child
        else:  # as the `for` part of a comprehension
            yield from _children(child)


def _in_order(body: Iterable[ast.stmt]) -> list[ast.AST]:
    """All nodes that are compiled, by their place in the file: the first mistake is the one to report."""
    nodes = [node for statement in body for node in _compiled(statement)]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]  # all have them


def _compiled(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it, without docstrings, annotations and the messages of asserts."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if hasattr(node, "lineno"):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "msg", "returns", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _compiled(child)
