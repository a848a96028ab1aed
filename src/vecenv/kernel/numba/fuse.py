"""Loops over the elements of local arrays that follow each other become one loop, see `fuse`.

    for index1__ in range(6):                            for index1__ in range(6):
        for index2__ in range(6):                            for index2__ in range(6):
            square[index1__, index2__] = ...                     square[index1__, index2__] = ...
    for index3__ in range(6):                                for index4__ in range(6):
        for index4__ in range(6):                                pull[index1__, index4__] = ...square[index1__, ...
            pull[index3__, index4__] = ...square[index3__, ...

LLVM then keeps elements in registers and computes several turns of the outer loop at once. Without it LLVM unrolls all
loops and finds nothing to compute together. Every element is computed by the same operations as before.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vecenv.kernel.lower.tree import index_parts, is_slice
from vecenv.kernel.numba.collapse import LOCAL_ARRAY, loop_index, loop_size

MOST = 16
"""Turns of loops that are fused. LLVM computes those of longer loops together anyway."""
_PURE = re.compile(r"range|abs|min|max|int|float|bool|(widen|power|equals|floor|ceil|trunc|rint|as_\w+)__|math__\w+")
"""Functions that change no array."""
_PLAIN = (ast.For, ast.If, ast.Assign, ast.Pass)


def fuse(function: ast.FunctionDef, results: Collection[str]) -> None:
    """Fuse the loops of a function in place.

    Args:
        function: as Numba compiles it, without checks.
        results: names of the arrays that its caller provides for what it returns; they overlap no other argument.
    """
    arrays = _local_arrays(function, results)
    if arrays:
        _fuse_in(function, arrays)


def _fuse_in(block: ast.AST, arrays: Mapping[str, str]) -> None:
    """Fuse loops in all bodies inside a statement; `arrays` are names of local arrays, and what each is first."""
    for field in ("body", "orelse"):
        body = getattr(block, field, None)
        if isinstance(body, list) and body:
            setattr(block, field, _fused(body, arrays))
            for statement in getattr(block, field):
                _fuse_in(statement, arrays)


def _fused(body: Sequence[ast.stmt], arrays: Mapping[str, str]) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for statement in body:
        place = len(made)
        while place and _is_name_of_array(made[place - 1], arrays):
            place -= 1
        before = made[place - 1] if place else None
        if isinstance(statement, ast.For) and isinstance(before, ast.For) and _may_be_one(before, statement, arrays):
            made = [*made[: place - 1], *made[place:], before]  # new names of arrays come first
            rename = _Rename(loop_index(statement), loop_index(before))
            before.body += [rename.visit(inner) for inner in statement.body]
        else:
            made.append(statement)
    return made


def _is_name_of_array(statement: ast.stmt, arrays: Mapping[str, str]) -> bool:
    """Whether this only gives another name to a local array."""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id in arrays
        and isinstance(statement.value, ast.Name)
        and statement.value.id in arrays
    )


# --- whether two loops may be one ------------------------------------------------------------------------------------


@dataclass
class _Uses:
    """What a loop reads and writes.

    Attributes:
        names: all names in it.
        stored: those that it assigns.
        written: local arrays that it writes.
        aside: local arrays of which it reads or writes other elements than those of its own turn.
    """

    names: set[str]
    stored: set[str]
    written: set[str]
    aside: set[str]


def _may_be_one(one: ast.For, other: ast.For, arrays: Mapping[str, str]) -> bool:
    """Whether no turn of the first loop has anything to do with an earlier turn of the other."""
    if loop_size(one) != loop_size(other) or not 0 < loop_size(one) <= MOST:
        return False
    first, second = _uses(one, arrays), _uses(other, arrays)
    if first is None or second is None or first.stored & second.names or second.stored & first.names:
        return False
    return not (first.written | second.written) & (first.aside | second.aside)


def _uses(loop: ast.For, arrays: Mapping[str, str]) -> _Uses | None:
    """What a loop does; None if it does more than to compute elements of local arrays."""
    nodes = list(ast.walk(loop))
    if not all(map(_is_known, nodes)):
        return None
    names = [node for node in nodes if isinstance(node, ast.Name)]
    uses = _Uses({node.id for node in names if node.id not in arrays}, set(), set(), set())
    uses.names -= {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    uses.stored = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    for node in nodes:
        if not isinstance(node, ast.Subscript):
            continue
        array = arrays.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if array is None:
            if not isinstance(node.ctx, ast.Load):
                return None
            continue
        place = index_parts(node.slice)[0]
        if not isinstance(place, ast.Name) or place.id != loop_index(loop):
            uses.aside.add(array)
        if not isinstance(node.ctx, ast.Load):
            uses.written.add(array)
    return uses


def _is_known(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and _PURE.fullmatch(node.func.id) is not None
    if isinstance(node, ast.For):
        return loop_size(node) > 0 and not node.orelse
    return isinstance(node, _PLAIN) or not isinstance(node, ast.stmt)


# --- local arrays ----------------------------------------------------------------------------------------------------


def _local_arrays(function: ast.FunctionDef, results: Collection[str]) -> dict[str, str]:
    """Names of arrays of which only elements are used, by these names: nothing else is a view of them."""
    nodes = list(ast.walk(function))
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    parameters = {argument.arg for argument in function.args.args}
    arrays = {name: name for name in results if not stored[name]}
    whole: set[int] = set()
    """Loads of a whole array that make no view of it that is used here."""
    for node in nodes:
        if isinstance(node, ast.Return):
            whole |= {id(part) for part in ast.walk(node)}
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if stored[name] > 1 or name in parameters:  # before, it was another array
            continue
        if _declared_axes(node) is not None:
            arrays[name] = name
        elif isinstance(value, ast.Name) and value.id in arrays:
            arrays[name] = arrays[value.id]
            whole.add(id(value))
    whole |= {id(node.value) for node in nodes if isinstance(node, ast.Subscript) and not is_slice(node.slice)}
    shared = {arrays[node.id] for node in _loads(nodes) if node.id in arrays and id(node) not in whole}
    shared |= _used_with_several_axes(nodes, arrays)
    return {name: array for name, array in arrays.items() if array not in shared}


def _used_with_several_axes(nodes: Iterable[ast.AST], arrays: Mapping[str, str]) -> set[str]:
    """Arrays that are indexed by different numbers of indices: fewer than all axes make a view."""
    axes: dict[str, set[int]] = {}
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in arrays:
            axes.setdefault(arrays[node.value.id], set()).add(len(index_parts(node.slice)))
        declared = _declared_axes(node)
        if declared is not None:
            axes.setdefault(declared[0], set()).add(declared[1])
    return {array for array, counts in axes.items() if len(counts) > 1}


def _declared_axes(node: ast.AST) -> tuple[str, int] | None:
    """The name of a local array and the number of its axes, if this declares one."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return None
    called = node.value.func if isinstance(node.value, ast.Call) else None
    declared = LOCAL_ARRAY.fullmatch(called.id) if isinstance(called, ast.Name) else None
    return None if declared is None else (node.targets[0].id, len(declared[2].split("x")))


def _loads(nodes: Iterable[ast.AST]) -> list[ast.Name]:
    return [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


class _Rename(ast.NodeTransformer):
    """Gives a variable another name."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.new, node.ctx), node) if node.id == self.old else node
