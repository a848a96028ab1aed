"""Resolving one function: what each name in it is, and the semantics of the language as operations (see `tree.py`).

Functions that come here keep the rules of `language/rules.py` and `names.py`. Refused here is what those cannot see.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from vecenv.errors import KernelError
from vecenv.kernel.language.array_functions import METHODS, function_of
from vecenv.kernel.language.scope import Roles
from vecenv.kernel.language.source import MISSING, returned_values
from vecenv.kernel.lower.expressions import PURE_BUILTINS, Expressions, is_list, repeated
from vecenv.kernel.lower.program import Function
from vecenv.kernel.lower.tree import at, copied, is_slice, loading, local, operation, widened

_WITH_HEADS = (ast.If, ast.For, ast.While)
"""Statements whose bodies are looked at although their heads are wrong."""


class Body(Expressions):
    """Resolves one function."""

    def resolved(self, name: str) -> Function:
        """The function in which every name is known, to be called by this name."""
        source, node = self.source, self.source.node
        own = [at(node, self._first_of(name)) for name in sorted(self._own_actions)]
        body = [*own, *self._block(copied(node.body))] or [ast.Pass()]
        defaults = source.function.__defaults__ or ()  # type: ignore[attr-defined]  # a function has them
        place: Any = node.args.args[-1] if defaults else None
        assigned = _assigned_fields(node, self.roles)
        return Function(
            name=name,
            source=source,
            method=self.method,
            roles=self.roles,
            body=body,
            defaults=[self._outer(place, "default", value) for value in defaults],
            assigned=tuple(name for name, field in self.fields.items() if name in assigned and not field.shape),
            passes_state=_is_passed_on(node, self.roles),
            guarded=self.guarded,
        )

    def _first_of(self, name: str) -> ast.stmt:
        """A step that replaces its action begins with a variable of its own."""
        return ast.Assign([local(name, ast.Store())], self._leaf(local(name), "", local(name), "action"))

    # --- statements --------------------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements, resolved. Those that are never reached are looked at for mistakes, and left out."""
        resolved: list[ast.stmt] = []
        for statement in statements:
            for one in self._resolved(statement):
                if not (resolved and _is_end(resolved[-1])):
                    resolved.append(one)
        return resolved

    def _resolved(self, statement: ast.stmt) -> list[ast.stmt]:
        if self._is_wrong(statement):
            return self._left_out(statement)
        kept = copied(statement) if isinstance(statement, _WITH_HEADS) else statement
        try:
            result = self.visit(statement)
        except KernelError as error:
            self.program.found.add(error)
            return self._left_out(kept)
        return result if isinstance(result, list) else [] if result is None else [result]

    def _is_wrong(self, statement: ast.stmt) -> bool:
        """Whether something is wrong with a statement, or with its head if it has a body."""
        places = self.program.found.places
        if not places or isinstance(statement, (ast.Pass, ast.Break, ast.Continue)):
            return False
        body = getattr(statement, "body", None)
        last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
        lines = range(statement.lineno, max(last, statement.lineno) + 1)
        return any((self.source.file, line) in places for line in lines)

    def _left_out(self, statement: ast.stmt) -> list[ast.stmt]:
        """A statement that is wrong, for the stages after this one: they know nothing of what it assigns."""
        unsure = at(statement, operation("unsure"))
        names = {
            node.id: at(statement, ast.Assign([local(node.id, ast.Store())], unsure))
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in self.roles
        }
        if isinstance(statement, ast.Return):
            return [at(statement, ast.Return(unsure))]
        if isinstance(statement, (ast.If, ast.While)):
            body, orelse = self._block(statement.body) or [ast.Pass()], self._block(statement.orelse)
            return [at(statement, type(statement)(unsure, body, orelse))]
        if isinstance(statement, ast.For):
            assigned = [node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)]
            begin = [names[name] for name in assigned if name in names]
            body, orelse = [*begin, *self._block(statement.body)], self._block(statement.orelse)
            return [at(statement, ast.For(local(self._temporary(), ast.Store()), unsure, body or [ast.Pass()], orelse))]
        return list(names.values())

    def visit_If(self, node: ast.If) -> Any:
        test = self.visit(node.test)
        return at(node, ast.If(test, self._block(node.body) or [ast.Pass()], self._block(node.orelse)))

    def visit_While(self, node: ast.While) -> Any:
        test = self.visit(node.test)
        loop = at(node, ast.While(test, self._block(node.body) or [ast.Pass()], []))
        return self._with_else(loop, self._block(node.orelse))

    def _with_else(self, loop: ast.For | ast.While, orelse: list[ast.stmt]) -> list[ast.stmt]:
        """A loop and its `else`, which comes after it, unless the loop was left by break."""
        if not orelse or not _is_left(loop.body):
            return [loop, *orelse]
        flag = self._temporary()
        begin, note = (at(loop, ast.Assign([local(flag, ast.Store())], ast.Constant(left))) for left in (False, True))
        loop.body = _noting_breaks(loop.body, note)
        return [begin, loop, at(loop, ast.If(ast.UnaryOp(ast.Not(), local(flag)), orelse, []))]

    def visit_For(self, node: ast.For) -> Any:
        iterator = self._keys(node.iter) or self._row(self.visit(self._reversed(node.iter)))
        name = self._temporary()
        taken = [*self._unpack(node.target, widened(at(node, local(name))), node), *self._block(node.body)]
        loop = at(node, ast.For(local(name, ast.Store()), iterator, taken, []))
        return self._with_else(loop, self._block(node.orelse))

    def visit_Assert(self, node: ast.Assert) -> Any:
        for part in ast.walk(node.test):
            if isinstance(part, ast.Call) and not self._only_computes(part):
                raise self.fail(
                    node,
                    "an assert calls a function that may draw or change something; native code leaves asserts out, so "
                    "call it before",
                )
        return None  # Python checks it, native code relies on it

    def _only_computes(self, call: ast.Call) -> bool:
        """Whether a call is one of Python's, math's or NumPy's functions with arguments that it does not write to."""
        value, given = self.source.evaluate(call.func), len(call.args)
        function = function_of(value)
        if value is MISSING and isinstance(call.func, ast.Attribute):
            function, given = METHODS.get(call.func.attr), given + 1  # the array itself is the first argument
        if function is None:
            return value in PURE_BUILTINS or getattr(value, "__module__", "") == "math"
        names = function.signature.parameters
        return given <= len(names) and all(keyword.arg in names for keyword in call.keywords)

    def visit_Expr(self, node: ast.Expr) -> Any:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return None
        return self.visit_Assign(at(node, ast.Assign([node.target], node.value)))

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and target.id in self._lists:
            return self._built(target.id, node.value, node)
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self._unpack(node.targets[0], value, node)
        name = self._temporary()
        result: list[ast.stmt] = [at(node, ast.Assign([local(name, ast.Store())], value))]
        for target in node.targets:
            result.extend(self._unpack(target, local(name), node))
        return result

    def _built(self, name: str, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        """A list that changes gets its first items."""
        made: ast.expr
        if isinstance(value, ast.List):
            made = operation("list", *map(self.visit, value.elts))
        elif isinstance(value, ast.BinOp) and repeated(value) is not None:
            items, count = repeated(value)  # type: ignore[misc]  # see above
            made = operation("list_times", self.visit(count), *map(self.visit, items.elts))
        elif isinstance(value, ast.ListComp):
            return self._comprehended(name, value, node)
        else:
            made = self.visit(value)
        return [at(node, ast.Assign([local(name, ast.Store())], at(node, made)))]

    def _comprehended(self, name: str, value: ast.ListComp, node: ast.stmt) -> list[ast.stmt]:
        """`name = [item for x in over if test]` as a loop. Variables of it are its own."""
        if any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value)):
            raise self.fail(node, f"{name} is read while it is made anew; give the new list another name")
        own = {part.id for part in ast.walk(value) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        first = value.generators[0].iter
        renamed = _Renamed({each: self._temporary() for each in sorted(own)})
        value = renamed.visit(copy.deepcopy(value))
        value.generators[0].iter = copy.deepcopy(first)  # it sees the variables outside
        append = ast.Attribute(local(name), "append", ast.Load())
        body: ast.stmt = ast.Expr(ast.Call(append, [value.elt], []))
        for generator in reversed(value.generators):
            for test in reversed(generator.ifs):
                body = ast.If(test, [at(node, body)], [])
            body = ast.For(generator.target, generator.iter, [at(node, body)], [])
        empty = ast.Assign([local(name, ast.Store())], at(node, operation("list")))
        loop = ast.fix_missing_locations(at(node, body))
        return [at(node, empty), *self._block([loop])]

    def _unpack(self, target: ast.expr, value: ast.expr, node: ast.AST) -> list[ast.stmt]:
        """Assign a value to a target, which may be a tuple: by way of temporaries, so that fields keep their types."""
        if not isinstance(target, (ast.Tuple, ast.List)):
            return [self._store(target, value, node)]
        parts = [self._temporary() for _ in target.elts]
        unpacked = ast.Tuple([local(part, ast.Store()) for part in parts], ast.Store())
        result: list[ast.stmt] = [at(node, ast.Assign([unpacked], value))]
        for part, element in zip(parts, target.elts, strict=True):
            result.extend(self._unpack(element, widened(at(node, local(part))), node))
        return result

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if isinstance(node.target, ast.Name) and node.target.id in self._lists:
            raise self.fail(node, f"append to {node.target.id} one by one: {node.target.id}.append(item)")
        indices: list[ast.stmt] = []
        target = self._once(node.target, indices)
        value = at(node, ast.BinOp(loading(target), node.op, node.value))
        stored = self._store(target, self.visit(value), node)
        stored.in_place = True  # type: ignore[attr-defined]  # see tree.py
        return [*indices, stored]

    def _once(self, target: Any, indices: list[ast.stmt]) -> Any:
        """The target of `+=`, which is read and written; statements that compute its indices are added to `indices`."""
        if not isinstance(target, ast.Subscript):
            return target
        owner = self._once(target.value, indices)
        return at(target, ast.Subscript(owner, self._index_once(target.slice, indices), target.ctx))

    def _index_once(self, index: ast.expr, indices: list[ast.stmt]) -> ast.expr:
        if isinstance(index, ast.Tuple):
            return at(index, ast.Tuple([self._index_once(part, indices) for part in index.elts], ast.Load()))
        if isinstance(index, (ast.Slice, ast.Constant)):
            return index
        name = self._temporary()
        indices.append(at(index, ast.Assign([local(name, ast.Store())], self.visit(index))))
        return at(index, local(name))

    def visit_Return(self, node: ast.Return) -> Any:
        if self.method == "step" and isinstance(node.value, ast.Tuple):
            reward, terminated, *truncated = [self.visit(element) for element in node.value.elts]
            flags = [operation("as_flag", terminated), *(operation("as_flag", flag) for flag in truncated)]
            flags = [*flags, ast.Constant(False)] if len(flags) == 1 else flags
            return at(node, ast.Return(ast.Tuple([operation("as_number", reward), *flags], ast.Load())))
        if self.method == "step" and isinstance(node.value, ast.Call):
            return self._returned_by_helper(node, node.value)
        if isinstance(node.value, ast.ListComp) or (self._lists and is_list(node.value)):
            name = self._temporary()
            assert node.value is not None
            return [*self._built(name, node.value, node), at(node, ast.Return(at(node, local(name))))]
        return self.generic_visit(node)

    def _returned_by_helper(self, node: ast.Return, call: ast.Call) -> list[ast.stmt]:
        """`return helper(...)` of a step: the values that the helper returns, one by one."""
        count = returned_values(self.source, call)
        assert count is not None  # the rules have seen it
        names = [self._temporary() for _ in range(count)]
        target = ast.Tuple([local(name, ast.Store()) for name in names], ast.Store())
        values = at(node, ast.Tuple([at(node, local(name)) for name in names], ast.Load()))
        taken = at(node, ast.Assign([target], self.visit(call)))
        return [taken, self.visit_Return(at(node, ast.Return(values)))]

    def _store(self, target: ast.expr, value: ast.expr, node: ast.AST) -> ast.stmt:
        """Assign, with the type of the field if the target is one."""
        if isinstance(target, ast.Subscript) and is_slice(target.slice):
            part = ast.Subscript(self.visit(target.value), self.visit(target.slice), ast.Load())
            return at(node, ast.Expr(operation("assign", part, value)))
        scalar = self._scalar_field(target)
        if scalar is not None:
            value = operation(f"as_{scalar.dtype.name}", value)
        return at(node, ast.Assign([self.visit(target)], value))


def _is_end(statement: ast.stmt) -> bool:
    """Whether nothing after this statement is reached, of statements that were resolved.

    A loop that never ends at all is none: the return after it says what the function returns.
    """
    if isinstance(statement, ast.If):
        return all(part and _is_end(part[-1]) for part in (statement.body, statement.orelse))
    if isinstance(statement, ast.While):
        endless = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
        returns = any(isinstance(part, ast.Return) for part in ast.walk(statement))
        return endless and returns and not _is_left(statement.body)
    return isinstance(statement, (ast.Return, ast.Break, ast.Continue))


def _is_left(body: Sequence[ast.stmt]) -> bool:
    """Whether a break in these statements leaves the loop that they are the body of."""
    return any(
        isinstance(one, ast.Break) or (isinstance(one, ast.If) and (_is_left(one.body) or _is_left(one.orelse)))
        for one in body
    )


def _noting_breaks(body: Sequence[ast.stmt], note: ast.stmt) -> list[ast.stmt]:
    """The body of a loop in which this statement comes before every break that leaves the loop."""
    found: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.If):
            statement.body = _noting_breaks(statement.body, note)
            statement.orelse = _noting_breaks(statement.orelse, note)
        found += [copied(note), statement] if isinstance(statement, ast.Break) else [statement]
    return found


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return at(node, ast.Name(self.names.get(node.id, node.id), node.ctx))


def _is_passed_on(function: ast.FunctionDef, roles: Roles) -> bool:
    """Whether the state is used in any other way than by its fields."""
    nodes = list(ast.walk(function))
    by_field = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    names = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in by_field]
    return any(roles.get(name.id) == "state" for name in names)


def _assigned_fields(function: ast.FunctionDef, roles: Roles) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and roles.get(node.value.id) == "state"
    }
