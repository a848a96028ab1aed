"""Which variables are still needed after a statement: what a local array may be overwritten under."""

from __future__ import annotations

import ast
from collections.abc import Sequence

Live = frozenset[str]
_NONE: Live = frozenset()


def live_after(body: Sequence[ast.stmt]) -> dict[int, Live]:
    """For each statement, by its identity, the variables that may be read after it before they are assigned."""
    found: dict[int, Live] = {}
    _Liveness(found).block(body, _NONE)
    return found


class _Liveness:
    def __init__(self, found: dict[int, Live]) -> None:
        self.found = found
        self._loops: list[tuple[Live, Live]] = []
        """Of each loop around: what is live where it is left, and where its next turn begins."""

    def block(self, statements: Sequence[ast.stmt], after: Live) -> Live:
        """What is live before statements, from what is live after them."""
        for statement in reversed(statements):
            self.found[id(statement)] = self.found.get(id(statement), _NONE) | after
            after = self._before(statement, after)
        return after

    def _before(self, node: ast.stmt, after: Live) -> Live:
        if isinstance(node, ast.Return):
            return names_read(node)
        if isinstance(node, (ast.Break, ast.Continue)):
            return self._loops[-1][isinstance(node, ast.Continue)]
        if isinstance(node, ast.If):
            return self.block(node.body, after) | self.block(node.orelse, after) | names_read(node.test)
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node, after)
        return (after - _assigned(node)) | names_read(node)

    def _loop(self, node: ast.For | ast.While, after: Live) -> Live:
        ended = self.block(node.orelse, after)
        head = names_read(node.test) if isinstance(node, ast.While) else _NONE
        own = _names(node.target, ast.Store) if isinstance(node, ast.For) else _NONE
        begin = ended | head
        while True:
            self._loops.append((after, begin))
            inside = self.block(node.body, begin)
            self._loops.pop()
            wider = begin | (inside - own) | head
            if wider == begin:
                break
            begin = wider
        return begin | names_read(node.iter) if isinstance(node, ast.For) else begin


def names_read(node: ast.AST) -> Live:
    """Variables that a node reads."""
    return _names(node, ast.Load)


def _names(node: ast.AST, context: type[ast.expr_context]) -> Live:
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, context))


def _assigned(node: ast.stmt) -> Live:
    """Variables that a statement replaces."""
    return _names(node, ast.Store)
