"""Whether `observe` writes every element on every path, so that the observation need not be cleared first."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from vecenv.kernel.language.source import FunctionSource


def writes_everything(source: FunctionSource, shapes: Sequence[tuple[int, ...]]) -> bool:
    """True if the top level of the function certainly assigns each element; False if that is not certain.

    Recognised are `obs[0] = ...` for every index of the first axis or a single number, `obs[:] = ...` and
    `obs[...] = ...`.
    """
    if len(shapes) != 1:
        return False
    wanted = set(range(shapes[0][0] if shapes[0] else 1))
    obs = source.parameters[1]
    if _is_read(source.node, obs):
        return False
    for statement in source.node.body:
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            return False
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            for element in target.elts if isinstance(target, ast.Tuple) else [target]:
                if (
                    isinstance(element, ast.Subscript)
                    and isinstance(element.value, ast.Name)
                    and element.value.id == obs
                ):
                    wanted -= _indices(element.slice, wanted)
    return not wanted


def _is_read(function: ast.FunctionDef, obs: str) -> bool:
    """Whether the observation is used in any other way than `obs[...] = ...`: what is read first must be zero."""
    nodes = list(ast.walk(function))
    targets = [node for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    added_to = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    written = {id(target.value) for target in targets if id(target) not in added_to}
    return any(isinstance(node, ast.Name) and node.id == obs and id(node) not in written for node in nodes)


def _indices(index: ast.expr, all_of_them: set[int]) -> set[int]:
    if isinstance(index, ast.Slice) and index.lower is None and index.upper is None and index.step is None:
        return set(all_of_them)
    if isinstance(index, ast.Constant):
        return set(all_of_them) if index.value is Ellipsis else {index.value} if isinstance(index.value, int) else set()
    return set()
