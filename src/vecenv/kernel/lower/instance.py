"""A function for one tuple of argument types, and what is known of its expressions."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from vecenv.kernel.lower.program import Function
from vecenv.kernel.lower.types import (
    Items,
    Type,
)

Names = dict[str, Type]


@dataclass(eq=False)
class Instance:
    """A function for one tuple of argument types.

    Attributes:
        function: as it was resolved.
        arguments: types of its parameters that have no role.
        types: of its expressions, by the identity of their nodes.
        stored: every type that a variable is assigned, in the order in which they are first seen.
        result: what it returns.
        sites: numbers of the places where arrays come into being, by the identity of their nodes.
        calls: the instances of the helpers that it calls, by the identity of the calls.
        lists: what its variables are that hold lists or queues.
    """

    function: Function
    arguments: tuple[Type, ...]
    types: dict[int, Type] = field(default_factory=dict)
    stored: dict[str, list[Type]] = field(default_factory=dict)
    result: Type | None = None
    sites: dict[int, int] = field(default_factory=dict)
    calls: dict[int, Instance] = field(default_factory=dict)
    lists: dict[str, Items] = field(default_factory=dict)

    def site(self, node: ast.AST) -> str:
        """The origin of an array that comes into being at a node."""
        return f"local:{self.sites.setdefault(id(node), len(self.sites))}"
