"""Rules for what is read and written: fields, elements of arrays, parts of observations and actions; their types."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from vecenv._batch.leaf import Leaf
from vecenv._util.suggest import did_you_mean
from vecenv.kernel.language.fields import Field, mismatch, unknown
from vecenv.kernel.language.scope import Scope, chain, number, root

_READ_ONLY = "Params are read-only: keep what changes in `state`, not in {!r}"


def check_field(scope: Scope, node: ast.Attribute) -> None:
    """Check `s.x` and `p.x`: the field is declared, and if it is assigned, it can be."""
    role, text = scope.owner(node), ast.unparse(node)
    stored = isinstance(node.ctx, ast.Store)
    if role == "state":
        if node.attr not in scope.fields:
            raise scope.fail(node, unknown(node.attr, scope.fields))
    elif role == "params":
        if stored:
            raise scope.fail(node, _READ_ONLY.format(node.attr))
        if node.attr not in scope.params:
            raise scope.fail(node, unknown(node.attr, scope.params, "parameter"))
    elif role == "rng" and not isinstance(scope.parent(node), ast.Call):
        raise scope.fail(node, f"{text} must be called: {text}(...)")
    elif role is not None and scope.keys(role) and (stored or node.attr in scope.keys(role)):
        raise scope.fail(node, f"write {ast.unparse(node.value)}[{node.attr!r}], not {text}")
    elif stored:
        raise scope.fail(node, f"{text} cannot be assigned; keep what changes in `state`")


def check_subscript(scope: Scope, node: ast.Subscript) -> None:
    """Check `s.x[0]`, `obs["pose"][1, 2]`: keys exist, indices are in range, and what is assigned can be."""
    parent = scope.parent(node)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return  # the outermost of a chain is looked at
    first, stored = root(node), isinstance(node.ctx, ast.Store)
    role = scope.role(first)
    if stored and isinstance(first, ast.Name) and first.id not in scope.source.locals:
        raise scope.fail(node, f"{first.id} is a constant in native code; keep what changes in `state`")
    if stored and (scope.method, role) in (("step", "action"), ("policy", "obs")):
        raise scope.fail(node, f"{ast.unparse(first)} is read-only; use a variable of your own")
    if role is not None and scope.leaves.get(role):
        _check_leaf(scope, node, role)
    field = scope.field(first)
    if field is None:
        return
    is_state = scope.owner(first) == "state"
    if not field.shape:
        raise scope.fail(node, f"{ast.unparse(first)} is a single number; use it without [ ]")
    if stored and not is_state:
        raise scope.fail(node, _READ_ONLY.format(field.name))
    # The size of a parameter may be another one in the next call of make.
    _check_index(scope, chain(node), field.shape if is_state else (None,) * len(field.shape), ast.unparse(first))


def _check_leaf(scope: Scope, node: ast.Subscript, role: str) -> None:
    """Follow keys down to a leaf of a space; what is left are indices into its array."""
    rest, path, name = chain(node), "", ast.unparse(root(node))
    while rest and (keys := scope.keys(role, path)):
        key = rest[0].slice
        shown = ", ".join(f"{name}[{key!r}]" for key in keys)
        if not isinstance(key, ast.Constant):
            raise scope.fail(node, f"a key of {name} must be written out (there are: {shown})")
        if str(key.value) not in map(str, keys):
            hint = did_you_mean(str(key.value), map(str, keys))
            raise scope.fail(node, f"{name} has no {key.value!r}{hint} (there are: {shown})")
        name = ast.unparse(rest.pop(0))
        path = f"{path}.{key.value}" if path else str(key.value)
    leaf = scope.leaves[role].get(path)
    if leaf is None:
        raise scope.fail(node, f"{name} has parts; use {', '.join(f'{name}[{k!r}]' for k in scope.keys(role, path))}")
    if not rest and isinstance(node.ctx, ast.Store) and leaf.shape:
        raise scope.fail(node, f"{name} is an array; write into it: {name}[:] = ...")
    if rest and not leaf.shape and not _is_array_of_one(scope, leaf, role):
        raise scope.fail(node, f"{name} is a single number; use it without [ ]")
    _check_index(scope, rest, leaf.shape or (1,), name)


def _is_array_of_one(scope: Scope, leaf: Leaf, role: str) -> bool:
    """Whether a single number comes as an array, because there is no other way to write it."""
    return leaf.path == "" and (role == "obs" or scope.method == "policy")


def _check_index(scope: Scope, rest: list[ast.Subscript], shape: tuple[int | None, ...], name: str) -> None:
    """Check constant indices against a shape, in which None is an unknown size."""
    if not rest:
        return
    node, index = rest[0], rest[0].slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(part, ast.Constant) and part.value in (None, ...) for part in parts):
        return
    if len(parts) > len(shape):
        dimensions = f"{len(shape)} dimension{'s' * (len(shape) > 1)}"
        raise scope.fail(node, f"{len(parts)} indices for {name}, which has {dimensions}")
    values = [number(part) for part in parts]
    for axis, (part, value, size) in enumerate(zip(parts, values, shape, strict=False)):
        if isinstance(value, float) or scope.kind(part) is str:
            raise scope.fail(node, f"{ast.unparse(part)} is no index of {name}; an index is an int, use int(...) or //")
        if value is not None and size is not None and not -size <= value < size:
            has = f"{size} element{'s' * (size > 1)}" + (f" along axis {axis}" if len(shape) > 1 else "")
            raise scope.fail(node, f"index {value} is out of range: {name} has {has}")
    if None not in values:
        _check_index(scope, rest[1:], shape[len(parts) :], f"{name}[{ast.unparse(index)}]")


def check_assignment(scope: Scope, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
    """Check the type of a value, as far as it is known, against the type of the field that it is assigned to."""
    if isinstance(node, ast.AugAssign):
        _check_value(scope, node.target, ast.BinOp(node.target, node.op, node.value))
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for part, value in _pairs(target, node.value):
            _check_value(scope, part, value)


def _check_value(scope: Scope, target: ast.expr, value: ast.expr | None) -> None:
    held = _held_by(scope, target)
    kind = None if value is None else scope.kind(value)
    if held is None or value is None or kind is None:
        return
    wrong = None if kind is tuple and _may_be_array(scope, target) else mismatch(held.dtype, kind)
    if wrong:
        given = "None" if kind is type(None) else f"a {kind.__name__}: {ast.unparse(value)}"
        raise scope.fail(target, f"{held.name} is {held.dtype}, but is assigned {given}; {wrong}")


def _may_be_array(scope: Scope, target: ast.expr) -> bool:
    """Whether a target may be an array, which several numbers can be assigned to."""
    field = scope.field(target)
    return isinstance(target, ast.Subscript) or (field is not None and bool(field.shape))


def _held_by(scope: Scope, target: ast.expr) -> Field | None:
    """What a target of an assignment holds, if it is of known type."""
    first = root(target)
    field = scope.field(first)
    if field is not None and scope.owner(first) == "state":
        return Field(f"field {field.name!r}", field.dtype)
    role = scope.role(first)
    if role is None or not isinstance(target, ast.Subscript):
        return None
    keys = [str(part.slice.value) for part in chain(target) if isinstance(part.slice, ast.Constant)]
    for path, leaf in scope.leaves.get(role, {}).items():
        if path == "" or path.split(".") == keys[: path.count(".") + 1]:
            return Field(ast.unparse(target), leaf.dtype)
    return None


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Targets of an assignment with the values that they get, None where that cannot be seen."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
        return
    is_seen = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
    values = value.elts if isinstance(value, ast.Tuple) and is_seen else [None] * len(target.elts)
    for part, its in zip(target.elts, values, strict=True):
        yield from _pairs(part, its)
