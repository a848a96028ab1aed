"""Nested loops over elements that lie one behind the other become one loop, which LLVM vectorises as a whole.

    for index1__ in range(8):                                  flat1__ = flat__(obs__0[place1__])
        for index2__ in range(8):                              flat2__ = flat__(s__grid)
            obs__0[place1__, index1__, index2__] = ...         for index1__ in range(64):
                widen__(s__grid[index1__, index2__])               flat1__[index1__] = widen__(flat2__[index1__])

An element of a narrow type is compared with a variable in that type (`equals__`), so that LLVM compares many at once.
Only loops that `kernel/lower` wrote for array expressions are looked at, and only arrays whose shape is known and whose
elements lie in their order: fields, observations, constants, local arrays, and parameters of helpers that are always
given such an array.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vecenv.kernel.lower.tree import at, index_parts, local

_LOOP_INDEX = re.compile(r"index\d+__")
LOCAL_ARRAY = re.compile(r"local_array_([a-z0-9]+)_([0-9x]+)__")
FEWEST = 64
"""Elements below which loops stay as they are: LLVM unrolls them, and can keep small local arrays in registers."""
_NARROW = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})


@dataclass(frozen=True)
class Block:
    """An array whose elements lie in their order."""

    dtype: str
    shape: tuple[int, ...]


def collapse(function: ast.FunctionDef, blocks: Mapping[str, Block], returned: Mapping[str, int]) -> dict[str, Block]:
    """Rewrite the loops of a function in place.

    Args:
        function: as Numba compiles it.
        blocks: arrays by name.
        returned: helpers that return the array that they are given as the argument with this number.

    Returns:
        The same for all names of the function, local arrays included.
    """
    function.body = [_unshared(statement) for statement in function.body]
    stored = Counter(
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )
    known = {name: block for name, block in blocks.items() if not stored[name]}
    known |= _local_blocks(function, known, stored, returned)
    _Collapser(known).visit(function)
    return known


def blocks_given(
    function: ast.FunctionDef, known: Mapping[str, Block], parameters: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, Block | None]]:
    """What a function gives to helpers: name of the helper, of its parameter, and the array if it is a known one.

    Args:
        function: the caller, as Numba compiles it.
        known: arrays by name in the caller.
        parameters: names of the parameters of each helper.
    """
    given = []
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in parameters:
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            for place, parameter in enumerate(parameters[node.func.id]):
                value = node.args[place] if place < len(node.args) else named.get(parameter)
                block = known.get(value.id) if isinstance(value, ast.Name) else None
                given.append((node.func.id, parameter, block))
    return given


def returned_argument(function: ast.FunctionDef) -> int | None:
    """The number of the argument that a helper always returns as its only result; None if it returns others."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    only = [value.elts[0] for value in values if isinstance(value, ast.Tuple) and len(value.elts) == 1]
    names = {item.id for item in only if isinstance(item, ast.Name)}
    stored = {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    arguments = [argument.arg if argument.arg not in stored else "" for argument in function.args.args]
    is_one = len(names) == 1 and len(only) == len(values) and all(isinstance(item, ast.Name) for item in only)
    return arguments.index(name) if is_one and (name := names.pop()) in arguments else None


def _local_blocks(
    function: ast.FunctionDef, blocks: Mapping[str, Block], stored: Mapping[str, int], returned: Mapping[str, int]
) -> dict[str, Block]:
    """Local arrays, and variables that are never anything but one array."""
    found: dict[str, Block] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if stored[name] > 1:
            continue
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            declared = LOCAL_ARRAY.fullmatch(value.func.id)
            if declared:
                found[name] = Block(declared[1], tuple(map(int, declared[2].split("x"))))
            continue
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Call):  # the result of a helper
            call = value.value
            place = returned.get(call.func.id) if isinstance(call.func, ast.Name) else None
            if place is None or place >= len(call.args):
                continue
            value = call.args[place]
        if isinstance(value, ast.Name) and (block := found.get(value.id) or blocks.get(value.id)):
            found[name] = block
    return found


class _Collapser(ast.NodeTransformer):
    """Collapses the loops of one function."""

    def __init__(self, blocks: Mapping[str, Block]) -> None:
        self.blocks = blocks
        self.count = 0

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        nest = _nest(node)
        for depth in range(len(nest), 1, -1):
            collapsed = self._collapsed(nest[:depth])
            if collapsed is not None:
                return collapsed
        self.generic_visit(node)
        return node

    def _collapsed(self, nest: Sequence[ast.For]) -> list[ast.stmt] | None:
        """One loop instead of these; None if some array is read or written in another order."""
        names = [loop_index(loop) for loop in nest]
        sizes = [loop_size(loop) for loop in nest]
        if math.prod(sizes) < FEWEST:
            return None
        body = nest[-1].body
        parts = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Subscript)]
        own = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)]
        counted = [node for node in own if node.id in names]
        changing = {*names, *(node.id for node in own if isinstance(node.ctx, ast.Store))}
        places = {id(part): self._first_place(part, names, sizes, changing) for part in parts}
        found = {part: first for part, first in places.items() if first is not None}
        if len(counted) != len(names) * len(found):
            return None  # an index is used in another way, too
        body = [_NarrowComparisons(self.blocks, found).visit(statement) for statement in body]
        flat: dict[str, str] = {}
        before: list[ast.stmt] = []
        for part in parts:
            if id(part) not in found:
                continue
            leading = index_parts(part.slice)[: -len(names)]
            owner: ast.expr = part.value
            if leading:
                index = leading[0] if len(leading) == 1 else ast.Tuple(leading, ast.Load())
                owner = ast.Subscript(part.value, index, ast.Load())
            text = ast.dump(owner)
            if text not in flat:
                self.count += 1
                flat[text] = f"flat{self.count}__"
                view = ast.Call(local("flat__"), [owner], [])
                before.append(at(nest[0], ast.Assign([local(flat[text], ast.Store())], view)))
            first = found[id(part)] * math.prod(sizes[1:])
            place: ast.expr = local(names[0])
            part.value = local(flat[text])
            part.slice = place if first == 0 else ast.BinOp(ast.Constant(first), ast.Add(), place)
        span = ast.Call(local("range"), [ast.Constant(math.prod(sizes))], [])
        return [*before, at(nest[0], ast.For(local(names[0], ast.Store()), span, body, []))]

    def _first_place(
        self, part: ast.Subscript, names: Sequence[str], sizes: Sequence[int], changing: Collection[str]
    ) -> int | None:
        """Where `x[..., 2 + index1__, index2__]` begins along the first of the loops' axes; None for another part.

        The indices before must not be `changing` in the loops.
        """
        if not isinstance(part.value, ast.Name) or part.value.id not in self.blocks:
            return None
        shape, places = self.blocks[part.value.id].shape, index_parts(part.slice)
        if len(places) != len(shape) or len(shape) < len(names):
            return None
        leading, own = places[: -len(names)], places[-len(names) :]
        for node in (node for one in leading for node in ast.walk(one)):
            if isinstance(node, (ast.Slice, ast.Subscript)) or (isinstance(node, ast.Name) and node.id in changing):
                return None
        if any(not isinstance(one, ast.Name) or one.id != name for one, name in zip(own[1:], names[1:], strict=True)):
            return None
        if shape[len(shape) - len(names) + 1 :] != tuple(sizes[1:]):
            return None
        first = own[0]
        if isinstance(first, ast.Name):
            return 0 if first.id == names[0] else None
        if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add) and isinstance(first.left, ast.Constant):
            whole = isinstance(first.left.value, int) and isinstance(first.right, ast.Name)
            return first.left.value if whole and first.right.id == names[0] else None  # type: ignore[return-value,attr-defined]
        return None


class _NarrowComparisons(ast.NodeTransformer):
    """Makes `widen__(x[i]) == y` of narrow integers `equals__(x[i], y)`."""

    def __init__(self, blocks: Mapping[str, Block], elements: Collection[int]) -> None:
        self.blocks, self.elements = blocks, elements

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        left, right = node.left, node.comparators[0]
        if len(node.ops) > 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)) or not isinstance(right, ast.Name):
            return node
        if not isinstance(left, ast.Call) or not isinstance(left.func, ast.Name) or left.func.id != "widen__":
            return node
        (element,) = left.args
        if id(element) not in self.elements or self.blocks[element.value.id].dtype not in _NARROW:  # type: ignore[attr-defined]
            return node
        equal = ast.Call(local("equals__"), [element, right], [])
        return at(node, equal if isinstance(node.ops[0], ast.Eq) else ast.UnaryOp(ast.Not(), equal))


def _unshared(node: ast.AST) -> Any:
    """A copy in which no node stands in two places, so that one of them can be changed."""
    made = copy.copy(node)
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            setattr(made, name, _unshared(value))
        elif isinstance(value, list):
            setattr(made, name, [_unshared(one) if isinstance(one, ast.AST) else one for one in value])
    return made


def _nest(loop: ast.For) -> list[ast.For]:
    """A loop over elements and those inside it, as long as there is nothing else in them."""
    nest: list[ast.For] = []
    inner: ast.stmt = loop
    while isinstance(inner, ast.For) and loop_size(inner) and not inner.orelse:
        nest.append(inner)
        inner = inner.body[0] if len(inner.body) == 1 else ast.Pass()
    return nest


def loop_index(loop: ast.For) -> str:
    """The variable of a loop."""
    return loop.target.id if isinstance(loop.target, ast.Name) else ""


def loop_size(loop: ast.For) -> int:
    """The number of turns of a loop over elements, 0 if it is another loop or the number is not a constant."""
    span = loop.iter
    if not _LOOP_INDEX.fullmatch(loop_index(loop)) or not isinstance(span, ast.Call) or len(span.args) != 1:
        return 0
    last = span.args[0]
    is_range = isinstance(span.func, ast.Name) and span.func.id == "range"
    return last.value if is_range and isinstance(last, ast.Constant) and isinstance(last.value, int) else 0
