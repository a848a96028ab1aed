"""Resolving the expressions of a function: names, fields, leaves, tables of the module, calls."""

from __future__ import annotations

import ast
import copy
import enum
import math
from collections.abc import Callable
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
from vecenv.kernel.language.source import MISSING, FunctionSource, is_constant, read_source
from vecenv.kernel.language.twins import twin_module
from vecenv.kernel.lower.program import Program
from vecenv.kernel.lower.tree import Kind, Ref, at, local, operation, ref, widened

ResolveHelper = Callable[[FunctionType, tuple[str | None, ...]], tuple[str, bool]]
"""Resolves a helper for the roles of its arguments: returns its name, and whether it is guarded."""
_LARGEST_CONSTANT = 1_000_000
"""Bytes of an array that may be part of the code."""
_PARTS = ("state", "params", "obs", "action")
"""Roles of parameters that consist of parts: fields or leaves."""
_OVER_ROWS = (enumerate, zip, reversed, sum, min, max, any, all)
"""Functions of Python that take any of the elements of what they are given."""
PURE_BUILTINS = frozenset({abs, min, max, int, bool, round, range, len, divmod, sum, any, all})


class Expressions(ast.NodeTransformer):
    """Resolves the expressions of one function: adds the constants, draws and twins that they use to `program`.

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
        return all(self.source.evaluate(call.func) in PURE_BUILTINS for call in calls)

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
        self._check_order(node, [given[name] for name in source.parameters if name in given])
        defaults = dict(zip(source.parameters[::-1], (callee.__defaults__ or ())[::-1], strict=False))
        last = max((source.parameters.index(name) for name in given), default=-1)
        return [
            given[name] if name in given else self._outer(node.func, name, defaults[name])
            for name in source.parameters[: last + 1]
        ]

    def _check_order(self, node: ast.Call, by_parameter: list[ast.expr]) -> None:
        """Refuse arguments that Python computes in another order than native code, where that may matter."""
        computed = [one for one in by_parameter if not isinstance(one, (ast.Constant, ast.Name))]
        written = [one for one in (*node.args, *(keyword.value for keyword in node.keywords)) if one in computed]
        if written != computed and any(isinstance(part, ast.Call) for one in computed for part in ast.walk(one)):
            raise self.fail(
                node,
                "arguments given by name are computed in the order in which they are written; write them in the order "
                "of the parameters, or compute them before the call",
            )

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
            if isinstance(value, np.ndarray) and (value.dtype == np.float16 or not value.dtype.isnative):
                raise self.fail(node, f"{name} has dtype {value.dtype}, which native code has no form of; use .astype")
            if isinstance(value, np.ndarray) and value.dtype == np.uint64 and (value >= 2**63).any():
                raise self.fail(node, f"{name} has values from 2**63 on; native ints have 64 bits with a sign")
            if isinstance(value, int):  # or a bool
                return at(node, ast.Constant(value))
            return at(node, ref(Kind.CONSTANT, self._constant(name, value)))
        module = getattr(value, "__module__", None)
        if value is float:
            return at(node, ref(Kind.OPERATION, "as_number"))
        if value in PURE_BUILTINS:
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

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"temporary{self._temporaries}__"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_list(node: ast.expr | None) -> bool:
    """Whether a list is made: `[a, b]`, `[a] * n` or by a loop in brackets."""
    return isinstance(node, (ast.List, ast.ListComp)) or (isinstance(node, ast.BinOp) and repeated(node) is not None)


def repeated(node: ast.BinOp) -> tuple[ast.List, ast.expr] | None:
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
