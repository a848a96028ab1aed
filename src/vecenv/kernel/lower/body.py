"""Resolving one function: what each name in it is, and the semantics of the language as operations (see `tree.py`).

Functions that come here keep the rules of `language/rules.py` and `names.py`. Refused here is what those cannot see.
"""

from __future__ import annotations

import ast
import copy
import enum
import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language.array_functions import function_of
from vecenv.kernel.language.draws import method_arguments
from vecenv.kernel.language.fields import Field
from vecenv.kernel.language.queues import LIST_METHODS
from vecenv.kernel.language.scope import Roles, number
from vecenv.kernel.language.source import MISSING, FunctionSource, is_constant, read_source, returned_values
from vecenv.kernel.language.twins import twin_module
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref, at, is_slice, loading, local, operation, ref, widened

ResolveHelper = Callable[[FunctionType, tuple[str | None, ...]], tuple[str, bool]]
"""Resolves a helper for the roles of its arguments: returns its name, and whether it is guarded."""
_LARGEST_CONSTANT = 1_000_000
"""Bytes of an array that may be part of the code."""
_PARTS = ("state", "params", "obs", "action")
"""Roles of parameters that consist of parts: fields or leaves."""
_WITH_HEADS = (ast.If, ast.For, ast.While)
"""Statements whose bodies are looked at although their heads are wrong."""
_OVER_ROWS = (enumerate, zip, reversed, sum, min, max, any, all)
"""Functions of Python that take any of the elements of what they are given."""
_PURE_BUILTINS = frozenset({abs, min, max, int, bool, round, range, len, divmod, sum, any, all})


class Body(ast.NodeTransformer):
    """Resolves one function: adds the constants, draws and twins that it uses to `program`.

    `helper` resolves a function that this one calls; `source`, `roles` and `method` are as in `Function`.
    """

    def __init__(
        self, program: Program, helper: ResolveHelper, source: FunctionSource, roles: Roles, method: str | None
    ) -> None:
        self.program, self.helper = program, helper
        self.source, self.roles, self.method = source, roles, method
        self.fields: dict[str, Field] = program.kernel.state
        self.guarded = any(self._needs_guard(node) for node in ast.walk(source.node))
        self._temporaries = 0
        self._own_actions = _replaced_actions(source.node, roles) if method == "step" else frozenset()
        self._made_lists, changed = list_names(source.node)
        self._lists = (self._made_lists & changed) - set(roles)

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        """The error to raise for a node."""
        return self.program.error(self.source, node, rule)

    def _needs_guard(self, node: ast.AST) -> bool:
        """Whether this must not run on an arbitrary state: a loop may not end, an index may be out of range."""
        if isinstance(node, ast.Subscript):
            of_action = isinstance(node.value, ast.Name) and self.roles.get(node.value.id) == "action"
            return not (of_action and isinstance(node.slice, ast.Constant) and isinstance(node.ctx, ast.Load))
        return isinstance(node, (ast.For, ast.While))

    def resolved(self, name: str) -> Function:
        """The function in which every name is known, to be called by this name."""
        source, node = self.source, self.source.node
        own = [at(node, self._first_of(name)) for name in sorted(self._own_actions)]
        body = [*own, *self._block(copy.deepcopy(node.body))] or [ast.Pass()]
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
        resolved: list[ast.stmt] = []
        for statement in statements:
            if self._is_wrong(statement):
                resolved.extend(self._left_out(statement))
                continue
            kept = copy.deepcopy(statement) if isinstance(statement, _WITH_HEADS) else statement
            try:
                result = self.visit(statement)
            except KernelError as error:
                self.program.found.add(error)
                resolved.extend(self._left_out(kept))
                continue
            resolved.extend(result if isinstance(result, list) else [] if result is None else [result])
        return resolved

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

    def visit_If(self, node: ast.If | ast.While) -> Any:
        test = self.visit(node.test)
        return at(node, type(node)(test, self._block(node.body) or [ast.Pass()], self._block(node.orelse)))

    visit_While = visit_If

    def visit_For(self, node: ast.For) -> Any:
        iterator = self._keys(node.iter) or self._row(self.visit(self._reversed(node.iter)))
        name = self._temporary()
        taken = [*self._unpack(node.target, widened(at(node, local(name))), node), *self._block(node.body)]
        return at(node, ast.For(local(name, ast.Store()), iterator, taken, self._block(node.orelse)))

    def _reversed(self, node: ast.expr) -> ast.expr:
        """`reversed(range(n))` and `reversed(array)` as a range and an array."""
        if not isinstance(node, ast.Call) or self.source.evaluate(node.func) is not reversed or len(node.args) != 1:
            return node
        over = node.args[0]
        if not isinstance(over, ast.Call) or self.source.evaluate(over.func) is not range:
            return at(node, ast.Subscript(over, ast.Slice(None, None, ast.Constant(-1)), ast.Load()))
        if len(over.args) > 2:
            ends = [number(part) for part in over.args]
            if not all(isinstance(end, int) for end in ends) or not ends[2]:
                raise self.fail(
                    node, "reversed() of a range with a step; count the other way: range(last, first - 1, -step)"
                )
            back = range(*ends)[::-1]  # type: ignore[arg-type]  # ints
            ends = [back.start, back.stop, back.step]
            return at(node, ast.Call(over.func, [ast.Constant(end) for end in ends], []))
        first = over.args[0] if len(over.args) == 2 else ast.Constant(0)
        ends = [ast.BinOp(end, ast.Sub(), ast.Constant(1)) for end in (over.args[-1], first)]
        return at(node, ast.Call(over.func, [*(at(node, end) for end in ends), ast.Constant(-1)], []))

    def visit_Assert(self, node: ast.Assert) -> Any:
        for part in ast.walk(node.test):
            if isinstance(part, ast.Call) and self.source.evaluate(part.func) not in _PURE_BUILTINS:
                raise self.fail(node, "an assert calls a function; native code leaves asserts out, so call it before")
        return None  # Python checks it, native code relies on it

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
        elif isinstance(value, ast.BinOp) and _repeated(value) is not None:
            items, count = _repeated(value)  # type: ignore[misc]  # see above
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

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"temporary{self._temporaries}__"

    # --- expressions -------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        role = self.roles.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if role == "state":
            return self._field(node)
        if role == "params":
            return at(node, ref(Kind.PARAMETER, node.attr))
        value = self.source.evaluate(node)
        return self.generic_visit(node) if value is MISSING else self._outer(node, node.attr, value)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id.endswith("__") or node.id in self._own_actions:
            return node  # a temporary, or an action that was replaced
        if node.id in self.source.locals or not isinstance(node.ctx, ast.Load):
            role = self.roles.get(node.id)
            if role in self.program.layouts:
                return self._leaf(node, "", node, role)
            if role in ("state", "params"):
                raise self.fail(node, f"{node.id} can be used by its fields, or passed on to a function as it is")
            return node
        return self._outer(node, node.id, self.source.lookup(node.id))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        leaf = self._path(node)
        if leaf is not None:
            return self._leaf(node, *leaf)
        table = self._table(node.value)
        if table is not None:
            return self._looked_up(node, table, node.slice)
        new = ast.Subscript(self._indexed(node), self._index(node.slice), node.ctx)
        return widened(at(node, new)) if isinstance(node.ctx, ast.Load) else at(node, new)

    def _indexed(self, node: ast.Subscript) -> ast.expr:
        """What a subscript is of. The numbers of a constant that is indexed by a variable are all of one type."""
        owner = self.visit(node.value)
        return owner if isinstance(node.slice, (ast.Constant, ast.Slice)) else self._row(owner)

    def _index(self, index: ast.expr) -> ast.expr:
        """An index. A list selects elements; a tuple is one index per axis."""
        is_made = isinstance(index, ast.Name) and index.id in self._made_lists
        if isinstance(index, ast.List) or is_made or isinstance(self.source.evaluate(index), list):
            return at(index, ast.Tuple([self.visit(index)], ast.Load()))
        return self.visit(index)

    def _row(self, node: ast.expr) -> ast.expr:
        """A constant whose numbers are of one type, so that it does not matter which of them is taken."""
        if not isinstance(node, Ref) or node.kind is not Kind.CONSTANT:
            return node
        value = self.program.constants[node.name]
        same = _of_one_type(value)
        return (
            node if same is value else at(node, ref(Kind.CONSTANT, self._constant(node.name.partition("__")[2], same)))
        )

    # --- dicts and sets of the module --------------------------------------------------------------------------------

    def _table(self, node: ast.expr) -> dict[Any, Any] | None:
        """The dict that a node is: `TABLE`, or `TABLE["a"]` if its values are dicts."""
        if isinstance(node, ast.Subscript):
            owner = self._table(node.value)
            if owner is None or not isinstance(node.slice, ast.Constant):
                return None
            value = owner.get(node.slice.value)
        else:
            value = self.source.evaluate(node)
        return value if isinstance(value, dict) else None

    def _looked_up(
        self, node: ast.expr, table: dict[Any, Any], key: ast.expr, default: ast.expr | None = None
    ) -> ast.expr:
        """`TABLE[key]` and `TABLE.get(key, default)` of a dict of the module."""
        owner = node.func.value if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined]
        name = ast.unparse(owner)
        if isinstance(key, ast.Constant) and default is None:
            return self._outer(node, "value", table[key.value])
        if not all(type(known) is int for known in table):
            raise self.fail(node, f"the keys of {name} are strings; write the key out, or use numbers")
        if not all(map(is_constant, table.values())):
            raise self.fail(node, f"the values of {name} are dicts; write the key out")
        if not self._may_repeat(key):
            raise self.fail(node, f"assign the key of {name} to a variable first")
        values = [self._outer(node, "value", value) for value in _of_one_type(tuple(table.values()))]
        is_checked = default is None and self.program.checked
        found = values.pop() if default is None else self.visit(default)  # Python raises for any other key
        for known, value in reversed(list(zip(table, values, strict=False))):
            found = ast.IfExp(
                ast.Compare(self.visit(copy.deepcopy(key)), [ast.Eq()], [ast.Constant(known)]), value, found
            )
        if is_checked:
            keys = ast.Tuple([ast.Constant(known) for known in table], ast.Load())
            is_known = ast.Compare(self.visit(copy.deepcopy(key)), [ast.In()], [keys])
            found = operation("known_key", is_known, self.visit(copy.deepcopy(key)), found)
            found.what = name  # type: ignore[attr-defined]  # see checks.py
        return at(node, found)

    def _may_repeat(self, node: ast.expr) -> bool:
        """Whether an expression may be written several times: it changes nothing."""
        calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
        return all(self.source.evaluate(call.func) in _PURE_BUILTINS for call in calls)

    def _dict_method(self, node: ast.Call, table: dict[Any, Any], method: str) -> ast.expr:
        """`TABLE.get(...)`, and `keys`, `values` and `items` as tuples."""
        if method == "get":
            if len(node.args) != 2 or node.keywords:
                raise self.fail(node, f"write {ast.unparse(node.func)}(key, default), with a number as default")
            return self._looked_up(node, table, node.args[0], node.args[1])
        return self._outer(node, method, _of_one_type(tuple(getattr(table, method)())))

    def _keys(self, node: ast.expr) -> ast.expr | None:
        """The keys of a dict or a set of the module, or of a set that is written out, as a tuple."""
        if isinstance(node, ast.Set):
            return at(node, ast.Tuple([self.visit(element) for element in node.elts], ast.Load()))
        table = self._table(node)
        table = self.source.evaluate(node) if table is None else table
        if not isinstance(table, (dict, set, frozenset)):
            return None
        if not table or not all(map(is_constant, table)):
            raise self.fail(node, f"{ast.unparse(node)} must hold numbers; strings have no native form")
        return self._outer(node, "keys", _of_one_type(tuple(table if isinstance(table, dict) else sorted(table))))

    def visit_Compare(self, node: ast.Compare) -> Any:
        sides = [node.left, *node.comparators]
        left, *others = (self._keys(side) or self._row_of(side, node) for side in sides)
        return at(node, ast.Compare(left, node.ops, others))

    def _row_of(self, side: ast.expr, node: ast.Compare) -> ast.expr:
        is_in = side is not node.left and any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops)
        return self._row(self.visit(side)) if is_in else self.visit(side)

    def visit_List(self, node: ast.List) -> Any:
        """A list that is built and not changed is a tuple."""
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        return at(node, ast.Tuple([self.visit(element) for element in node.elts], ast.Load()))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return at(node, operation("power", node.left, node.right)) if isinstance(node.op, ast.Pow) else node

    def visit_Call(self, node: ast.Call) -> Any:
        function = node.func
        owner = function.value if isinstance(function, ast.Attribute) else None
        if isinstance(owner, ast.Name) and self.roles.get(owner.id) == "rng":
            assert isinstance(function, ast.Attribute)
            return self._drawn_by_method(node, function.attr, local(owner.id))
        callee = self.source.evaluate(function)
        callee = getattr(callee, "py_func", callee)  # what @njit of Numba was put on
        if getattr(callee, "__module__", None) == random_numbers.__name__:
            return self._draw(node, callee.__name__, [self.visit(argument) for argument in node.args])
        if callee is MISSING and isinstance(function, ast.Attribute):
            table = self._table(function.value)
            return self._method(node, function) if table is None else self._dict_method(node, table, function.attr)
        if callee is len and len(node.args) == 1 and self._table(node.args[0]) is not None:
            return at(node, ast.Constant(len(self._table(node.args[0]) or ())))
        module = twin_module(callee)
        if module:
            self.guarded = True
            self.program.twins[callee.__name__] = module
            self.program.twin_functions[callee.__name__] = callee
            return at(node, ast.Call(ref(Kind.TWIN, callee.__name__), [self.visit(arg) for arg in node.args], []))
        if isinstance(callee, FunctionType) and callee.__module__.partition(".")[0] not in ("numpy", "math"):
            return self._helper(node, callee)
        if callee is pow:
            return at(node, operation("power", *map(self.visit, node.args)))
        if callee is reversed:
            return self.visit(self._reversed(node))
        node.func = self._outer(function, getattr(callee, "__name__", "function"), callee)
        node.args = [self.visit(argument) for argument in node.args]
        if callee in _OVER_ROWS:
            node.args = [self._row(argument) for argument in node.args]
        if callee is enumerate and node.keywords:
            node.args, node.keywords = [*node.args, self.visit(node.keywords[0].value)], []
        if callee is zip:
            node.keywords = []  # strict=True, which Python checks
        node.keywords = [ast.keyword(keyword.arg, self.visit(keyword.value)) for keyword in node.keywords]
        return node

    def _method(self, node: ast.Call, function: ast.Attribute) -> ast.expr:
        """A method of an array."""
        self.guarded = True
        method = at(function, ast.Attribute(self.visit(function.value), function.attr, ast.Load()))
        keywords = [ast.keyword(keyword.arg, self.visit(keyword.value)) for keyword in node.keywords]
        return at(node, ast.Call(method, [self.visit(argument) for argument in node.args], keywords))

    def _field(self, node: ast.Attribute) -> ast.expr:
        field = at(node, ref(Kind.FIELD, node.attr, context=node.ctx))
        is_number = not self.fields[node.attr].shape
        return widened(field) if is_number and isinstance(node.ctx, ast.Load) else field

    def _scalar_field(self, target: ast.expr) -> Field | None:
        if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
            return None
        of_state = self.roles.get(target.value.id) == "state"
        return self.fields[target.attr] if of_state and not self.fields[target.attr].shape else None

    def _path(self, node: ast.Subscript) -> tuple[str, ast.expr, str] | None:
        """The leaf that a chain of constant keys leads to, its node and its role; None if it is no such chain."""
        keys: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
            keys.insert(0, str(inner.slice.value))
            inner = inner.value
        role = self.roles.get(inner.id) if isinstance(inner, ast.Name) else None
        if role not in self.program.layouts:
            return None
        paths = [leaf.path for leaf in self.program.layouts[role].leaves]
        path = ".".join(keys)
        if paths == [""] or path not in paths:
            inside = [k for k in paths if k.startswith(f"{path}.") or path.startswith(f"{k}.")]
            if paths != [""] and not inside:
                raise self.fail(node, f"the {role} has no {path!r}; it has {', '.join(paths)}")
            return None
        return path, node, role

    def _leaf(self, node: Any, path: str, place: ast.expr, role: str) -> ast.expr:
        layout = self.program.layouts[role]
        paths = [leaf.path for leaf in layout.leaves]
        if path not in paths:
            raise self.fail(node, f"the {role} is made of {', '.join(paths)}; use one of these")
        number = paths.index(path)
        if path and layout.leaves[number].shape and isinstance(node.ctx, ast.Store):
            text = ast.unparse(node)
            raise self.fail(node, f"{text} is an array; write into it: {text}[:] = ...")
        leaf = at(place, ref(Kind.LEAF, role, number))
        if layout.leaves[number].shape or path == "" or (role == "action" and self.method != "policy"):
            return leaf
        element = at(place, ast.Subscript(leaf, ast.Constant(0), node.ctx))
        return widened(element) if isinstance(node.ctx, ast.Load) else element

    def _drawn_by_method(self, node: ast.Call, name: str, stream: ast.expr) -> ast.expr:
        """`rng.uniform(0.0, 1.0)`; with a size, a new array."""
        given = method_arguments(node, name)
        named = {key: value for key, value in given.items() if not _is_none(value)}
        if "size" in named or name in ("permutation", "multinomial"):
            self.guarded = True
            keywords = [ast.keyword(key, self.visit(value)) for key, value in named.items()]
            return at(node, ast.Call(ref(Kind.DRAWN_ARRAY, name), [stream], keywords))
        if not {"size", "replace"}.isdisjoint(given) or any(keyword.arg in ("a", "x") for keyword in node.keywords):
            first = [named.pop(key) for key in ("a", "x") if key in named]  # has another name in `vecenv.kernel.rng`
            named.pop("replace", None)  # makes no difference for one number
            node = at(node, ast.Call(node.func, first, [ast.keyword(key, value) for key, value in named.items()]))
        return self._draw(node, name, [stream, *map(self.visit, node.args)])

    def _draw(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> ast.expr:
        self.guarded = True
        self.program.draws.add(name)
        keywords = [ast.keyword(keyword.arg, self.visit(keyword.value)) for keyword in node.keywords]
        drawn = at(node, ast.Call(ref(Kind.DRAW, name), arguments, keywords))
        return widened(drawn) if name == "choice" else drawn

    def _helper(self, node: ast.Call, callee: FunctionType) -> ast.expr:
        given = self._given(node, callee)
        roles = tuple(
            self.roles.get(argument.id)
            if isinstance(argument, ast.Name) and argument.id not in self._own_actions
            else None
            for argument in given
        )
        roles = tuple(None if self._is_number(role) else role for role in roles)
        name, guarded = self.helper(callee, roles)
        self.guarded = self.guarded or guarded
        arguments = [
            self.visit(argument) if role is None else self._passed_on(argument, role)
            for argument, role in zip(given, roles, strict=True)
        ]
        return at(node, ast.Call(ref(Kind.HELPER, name), arguments, []))

    def _given(self, node: ast.Call, callee: FunctionType) -> list[ast.expr]:
        """The arguments of a call of a helper by position: with defaults where later ones are given by name."""
        source = read_source(callee)
        given = source.given(node)
        defaults = dict(zip(source.parameters[::-1], (callee.__defaults__ or ())[::-1], strict=False))
        last = max((source.parameters.index(name) for name in given), default=-1)
        return [
            given[name] if name in given else self._outer(node.func, name, defaults[name])
            for name in source.parameters[: last + 1]
        ]

    def _passed_on(self, argument: ast.expr, role: str) -> ast.expr:
        """A parameter of this function as an argument of a helper. A stream or a mask is passed as it is."""
        assert isinstance(argument, ast.Name)
        return ref(Kind.ARGUMENT, role) if role in _PARTS else local(argument.id)

    def _is_number(self, role: str | None) -> bool:
        """Whether an argument is an action that is one number, which a helper gets like any other."""
        return role == "action" and self.program.layouts["action"].leaves[0].path == ""

    def _outer(self, node: ast.expr, name: str, value: Any) -> ast.expr:
        """A name from outside the function: a constant, or something that native code can call."""
        if isinstance(value, enum.Enum):
            value = value.value
        value = _as_tuple(value)
        if value is None:
            raise self.fail(node, f"{name} is None, which is no number; use a number that cannot occur otherwise")
        if is_constant(value):
            if isinstance(value, np.generic):
                value = value.item()
            if isinstance(value, np.ndarray) and value.nbytes > _LARGEST_CONSTANT:
                raise self.fail(node, f"{name} has {value.nbytes:,} bytes; put arrays beyond 1 MB into Params")
            if isinstance(value, int):  # or a bool
                return at(node, ast.Constant(value))
            return at(node, ref(Kind.CONSTANT, self._constant(name, value)))
        module = getattr(value, "__module__", None)
        if value is float:
            return at(node, ref(Kind.OPERATION, "as_number"))
        if value in _PURE_BUILTINS:
            return at(node, ref(Kind.BUILTIN, name))
        if getattr(math, name, None) is value:
            return at(node, ref(Kind.MATH, name))
        if module == "numpy" or isinstance(value, (np.ufunc, type)) or function_of(value) is not None:
            return at(node, ref(Kind.NUMPY, self._constant(name, value)))
        raise self.fail(node, f"{name} is {type(value).__name__} {value!r:.60}; native code has no form of it")

    def _constant(self, name: str, value: Any) -> str:
        """The name of a value among the program's constants."""
        constants = self.program.constants
        of_list = value if isinstance(value, tuple) and _is_plain(value) else None  # made anew at each use
        for known, held in constants.items():
            if held is value or (of_list is not None and repr(held) == repr(of_list) and known.endswith(f"__{name}")):
                return known
        known = f"constant{len(constants)}__{name}"
        constants[known] = value
        return known


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_list(node: ast.expr | None) -> bool:
    """Whether a list is made: `[a, b]`, `[a] * n` or by a loop in brackets."""
    return isinstance(node, (ast.List, ast.ListComp)) or (isinstance(node, ast.BinOp) and _repeated(node) is not None)


def _repeated(node: ast.BinOp) -> tuple[ast.List, ast.expr] | None:
    """The list and the number of `[a, b] * n`."""
    if not isinstance(node.op, ast.Mult):
        return None
    if isinstance(node.left, ast.List):
        return node.left, node.right
    return (node.right, node.left) if isinstance(node.right, ast.List) else None


def list_names(function: ast.FunctionDef) -> tuple[set[str], set[str]]:
    """Variables that are assigned lists, and variables whose items change. Lists that do not are tuples."""
    made: set[str] = set()
    changed: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and is_list(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            made |= names
            changed |= names if not isinstance(node.value, ast.List) else set()
        owner = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LIST_METHODS:
            owner = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            owner = node.value
        if isinstance(owner, ast.Name):
            changed.add(owner.id)
    return made, changed


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return at(node, ast.Name(self.names.get(node.id, node.id), node.ctx))


def _replaced_actions(function: ast.FunctionDef, roles: Roles) -> frozenset[str]:
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return frozenset(name.id for name in names if roles.get(name.id) == "action")


def _as_tuple(value: Any) -> Any:
    """A list that does not change, as a tuple."""
    if type(value) not in (list, tuple):
        return value
    parts = tuple(map(_as_tuple, value))
    return value if type(value) is tuple and all(new is old for new, old in zip(parts, value, strict=True)) else parts


def _of_one_type(value: Any) -> Any:
    """A tuple whose numbers are all floats, or all ints, as far as they are numbers; rows of it place by place."""
    if not isinstance(value, tuple) or not value:
        return value
    kinds = {type(part) for part in value}
    if kinds <= {bool, int, float} and len(kinds) > 1:
        return tuple(map(float if float in kinds else int, value))
    if kinds != {tuple} or len({len(part) for part in value}) != 1:
        return value
    columns = [_of_one_type(tuple(column)) for column in zip(*value, strict=True)]
    rows = tuple(zip(*columns, strict=True))
    return value if repr(rows) == repr(value) else rows


def _is_plain(value: tuple[Any, ...]) -> bool:
    return all(_is_plain(part) if isinstance(part, tuple) else type(part) in (int, float, bool) for part in value)


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
