"""Lowering: from functions over `s`, `p`, `obs` to functions over plain numbers and arrays, as syntax trees.

`s.x` of a method becomes a local variable `s__x`, which is passed in and, if it was assigned, returned: a compiler can
then keep it in a register and step several envs with one instruction. Where `s` goes on to a helper, a variable would
not do; there `s__x` is an array of one element, and `s.x` becomes `s__x[0]`. Array fields are always the env's own part
of the column. Every number read from an array is widened to 64 bits, as it is in Python.

Nothing here knows Numba: the result is text that can be read, compared and hashed.
"""

from __future__ import annotations

import ast
import copy
import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vecenv._batch.layout import Layout
from vecenv.errors import KernelError
from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language.define import Kernel, roles_of
from vecenv.kernel.language.fields import Field
from vecenv.kernel.language.rules import Rules
from vecenv.kernel.language.source import MISSING, Source, is_constant, read_source
from vecenv.kernel.language.twins import twin_module

Roles = Mapping[str, str]
_LARGEST_CONSTANT = 1_000_000
"""Bytes of an array that may be part of the code."""
_OF_NUMBA = {"frexp": "use math.log2", "ldexp": "use x * 2.0 ** n"}
"""Functions that are part of Numba's library, which is not there when code comes from the cache, and what to use."""
_PURE_BUILTINS = frozenset({abs, min, max, int, bool, round, range, len, divmod})


@dataclass
class Lowered:
    """One function ready for the compiler.

    Attributes:
        name: what others call it by.
        node: its definition.
        file: where the user wrote it, so that line numbers in messages are true.
        registers: fields are passed as numbers (True) or as arrays of one element.
        assigned: scalar fields that it assigns; it returns them, after its own values, if `registers`.
        branches: whether it must not be run on rows that are not to be stepped: it draws numbers, indexes or loops.
    """

    name: str
    node: ast.FunctionDef
    file: str
    registers: bool
    assigned: tuple[str, ...]
    branches: bool

    @property
    def text(self) -> str:
        return ast.unparse(self.node)


@dataclass
class Program:
    """Everything that is compiled for one kernel.

    Attributes:
        functions: helpers first.
        methods: the lowered methods, by their names.
        constants: values of names in the functions.
        draws: functions of `rng` that are used.
        twins: modules of native twins that are called, by the names of the functions.
    """

    functions: list[Lowered] = field(default_factory=list)
    methods: dict[str, Lowered] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    draws: set[str] = field(default_factory=set)
    twins: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of it in words, for the cache's key."""
        constants = [f"{name} = {_words(value)}" for name, value in self.constants.items()]
        return "\n".join([*constants, *(function.text for function in self.functions)])


class Lowering:
    """Lowers the methods of one kernel.

    Args:
        kernel: the definition.
        observation, action: layouts of its spaces.
    """

    def __init__(self, kernel: Kernel, observation: Layout, action: Layout) -> None:
        assert kernel.names_checked
        self.kernel = kernel
        self.layouts = {"obs": observation, "action": action}
        self.program = Program()
        self._helpers: dict[tuple[Any, ...], str] = {}
        self._safe: set[str] = set()
        for method, source in kernel.methods.items():
            self.program.methods[method] = self._lower(source, roles_of(method, source), method, method)

    def policy(self, function: Callable[..., Any]) -> Lowered:
        """Lower a policy: `policy(obs)` that returns an action, or `policy(obs, action)` that writes into an array."""
        source = self._read(function, None)
        if len(source.parameters) not in (1, 2):
            raise self._fail(
                source, source.node, "a policy is policy(obs), or policy(obs, action) to write into action"
            )
        roles = dict(zip(source.parameters, ("obs", "action"), strict=False))
        leaves = {role: layout.leaves for role, layout in self.layouts.items()}
        rules = Rules(self.kernel.name, source, roles, {}, {}, leaves, method="policy")
        rules.check()
        rules.check_names()
        lowered = self._lower(source, roles, "policy", "policy")
        self.program.methods["policy"] = lowered
        return lowered

    def helper(self, function: FunctionType, roles: tuple[str | None, ...], caller: _Body, call: ast.Call) -> str:
        """Lower a helper for these roles of its arguments and return the name to call it by."""
        key = (function, roles)
        if key in self._helpers:
            return self._helpers[key]
        source = self._read(function, (caller, call))
        if len(source.parameters) < len(roles):
            raise caller.fail(
                call, f"{function.__name__} takes {len(source.parameters)} arguments, {len(roles)} are given"
            )
        named = {name: role for name, role in zip(source.parameters, roles, strict=False) if role is not None}
        name = f"helper{len(self._helpers)}__{function.__name__}"
        self._helpers[key] = name
        self._lower(source, named, name, None)
        return name

    def constant(self, name: str, value: Any) -> str:
        """The name under which the functions find a value."""
        for known, held in self.program.constants.items():
            if held is value:
                return known
        known = f"constant{len(self.program.constants)}__{name}"
        self.program.constants[known] = value
        return known

    def arguments(self, role: str, name: str) -> list[str]:
        """The names that stand for one argument of the user's."""
        if role == "state":
            return [f"s__{field}" for field in self.kernel.state]
        if role == "params":
            return [f"p__{field}" for field in self.kernel.params]
        if role in self.layouts:
            return [f"{role}__{leaf}" for leaf in range(len(self.layouts[role].leaves))]
        return [name]

    def _read(self, function: Any, where: tuple[_Body, ast.Call] | None) -> Source:
        try:
            return read_source(function)
        except (OSError, TypeError, SyntaxError):
            name = getattr(function, "__name__", function)
            rule = f"the source of {name!r} cannot be read; define it by `def` in a file"
            raise where[0].fail(where[1], rule) if where else KernelError(rule, self.kernel.name) from None

    def _lower(self, source: Source, roles: Roles, name: str, method: str | None) -> Lowered:
        body = _Body(self, source, roles, method)
        node = body.lowered(name)
        lowered = Lowered(
            name=name,
            node=node,
            file=source.file,
            registers=body.registers,
            assigned=body.assigned,
            branches=body.branches,
        )
        self.program.functions.append(lowered)
        if not body.branches:
            self._safe.add(name)
        return lowered

    def is_safe(self, helper: str) -> bool:
        """Whether a helper may run on any state: it draws no numbers, loops or indices. Not while it is lowered."""
        return helper in self._safe

    def _fail(self, source: Source, node: ast.AST, rule: str) -> KernelError:
        return KernelError(rule, self.kernel.name, source.name, source.file, getattr(node, "lineno", None))


class _Body(ast.NodeTransformer):
    """Rewrites one function."""

    def __init__(self, lowering: Lowering, source: Source, roles: Roles, method: str | None) -> None:
        self.lowering, self.source, self.roles, self.method = lowering, source, roles, method
        self.fields: dict[str, Field] = lowering.kernel.state
        self.registers = method is not None and not _passed_on(source.node, roles)
        assigned = _assigned_fields(source.node, roles)
        self.assigned = tuple(name for name in self.fields if name in assigned)
        self.branches = any(self._is_unsafe(node) for node in ast.walk(source.node))
        self._temporaries = 0
        self._hoisted: list[ast.stmt] = []

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        return self.lowering._fail(self.source, node, rule)

    def _is_unsafe(self, node: ast.AST) -> bool:
        """Whether this must not run on a state that nobody thought of: a loop, or an index that may be wrong."""
        if isinstance(node, ast.Subscript):
            of_action = isinstance(node.value, ast.Name) and self.roles.get(node.value.id) == "action"
            return not (of_action and isinstance(node.slice, ast.Constant) and isinstance(node.ctx, ast.Load))
        return isinstance(node, (ast.For, ast.While))

    def lowered(self, name: str) -> ast.FunctionDef:
        """The definition that is compiled."""
        statements = copy.deepcopy(self.source.node.body)
        if isinstance(statements[0], ast.Expr) and isinstance(statements[0].value, ast.Constant):
            statements = statements[1:]
        body = self._block(statements) or [ast.Pass()]
        if self._returns_fields:
            body.append(self._return([]))
        names = [
            lowered
            for parameter in self.source.parameters
            for lowered in (
                self.lowering.arguments(self.roles[parameter], parameter) if parameter in self.roles else [parameter]
            )
        ]
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(argument) for argument in names],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[self._default(value) for value in self.source.function.__defaults__ or ()],
        )
        node = ast.parse("def function(): pass").body[0]
        assert isinstance(node, ast.FunctionDef)
        node.name, node.args, node.body = name, arguments, body
        ast.copy_location(node, self.source.node)
        return ast.fix_missing_locations(node)

    def _default(self, value: Any) -> ast.expr:
        return self._outer(self.source.node.args.args[-1], "default", value)  # type: ignore[arg-type]  # only its place

    @property
    def _returns_fields(self) -> bool:
        return self.registers and self.method not in ("step", "policy")

    # --- statements --------------------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        lowered: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            lowered.extend(self._hoisted)
            self._hoisted = []
            lowered.extend(result if isinstance(result, list) else [] if result is None else [result])
        return lowered

    def visit_If(self, node: ast.If) -> Any:
        test = self.visit(node.test)
        hoisted, self._hoisted = self._hoisted, []
        new = ast.copy_location(ast.If(test, self._block(node.body) or [ast.Pass()], self._block(node.orelse)), node)
        return [*hoisted, new]

    def visit_For(self, node: ast.For) -> Any:
        iterator = self.visit(node.iter)
        name = self._temporary()
        taken = [*_listed(self._unpack(node.target, _widened(_at(node, _name(name))), node)), *self._block(node.body)]
        new = ast.For(_name(name, ast.Store()), iterator, taken, self._block(node.orelse))
        return ast.copy_location(new, node)

    def visit_While(self, node: ast.While) -> Any:
        new = ast.While(self.visit(node.test), self._block(node.body) or [ast.Pass()], self._block(node.orelse))
        return ast.copy_location(new, node)

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
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self._unpack(node.targets[0], value, node)
        name = self._temporary()
        result: list[ast.stmt] = [_at(node, ast.Assign([_name(name, ast.Store())], value))]
        for target in node.targets:
            result.extend(_listed(self._unpack(target, _name(name), node)))
        return result

    def _unpack(self, target: ast.expr, value: ast.expr, node: ast.AST) -> Any:
        """Assign a value to a target, which may be a tuple: by way of temporaries, so that fields keep their types."""
        if not isinstance(target, (ast.Tuple, ast.List)):
            return self._store(target, value, node)
        parts = [self._temporary() for _ in target.elts]
        unpacked = ast.Tuple([_name(part, ast.Store()) for part in parts], ast.Store())
        result: list[ast.stmt] = [_at(node, ast.Assign([unpacked], value))]
        for part, element in zip(parts, target.elts, strict=True):
            result.extend(_listed(self._unpack(element, _widened(_at(node, _name(part))), node)))
        return result

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        target = self._once(node.target)
        read = _loading(target)
        value = _at(node, ast.BinOp(read, node.op, node.value))
        return self._store(target, self.visit(value), node)

    def _once(self, target: Any) -> Any:
        """The target of `+=` with its indices computed beforehand, because it is read and written."""
        if not isinstance(target, ast.Subscript):
            return target
        return _at(target, ast.Subscript(self._once(target.value), self._index_once(target.slice), target.ctx))

    def _index_once(self, index: ast.expr) -> ast.expr:
        if isinstance(index, ast.Tuple):
            return _at(index, ast.Tuple([self._index_once(part) for part in index.elts], ast.Load()))
        if isinstance(index, (ast.Slice, ast.Constant)):
            return index
        name = self._temporary()
        self._hoisted.append(_at(index, ast.Assign([_name(name, ast.Store())], self.visit(index))))
        return _at(index, _name(name))

    def visit_Return(self, node: ast.Return) -> Any:
        if self.method == "step" and isinstance(node.value, ast.Tuple):
            reward, terminated, *truncated = [self.visit(element) for element in node.value.elts]
            flags = [_call("as_flag", terminated), *(_call("as_flag", flag) for flag in truncated)]
            flags = [*flags, ast.Constant(False)] if len(flags) == 1 else flags
            return _at(node, self._return([_call("as_number", reward), *flags]))
        if self._returns_fields:
            return _at(node, self._return([]))
        return self.generic_visit(node)

    def _return(self, values: list[ast.expr]) -> ast.Return:
        fields: list[ast.expr] = [_name(f"s__{name}") for name in self.assigned] if self.registers else []
        everything = [*values, *fields]
        return ast.Return(ast.Tuple(everything, ast.Load()) if everything else ast.Constant(0))

    def _store(self, target: ast.expr, value: ast.expr, node: ast.AST) -> Any:
        """Assign, with the type of the field if the target is one."""
        if isinstance(target, ast.Subscript) and _is_slice(target.slice):
            self._check_overlap(target, node)
            part = ast.Subscript(self.visit(target.value), self.visit(target.slice), ast.Load())
            return _at(node, ast.Expr(_call("assign", part, value)))
        scalar = self._scalar_field(target)
        if scalar is not None:
            value = _call(f"as_{scalar.dtype.name}", value)
        return _at(node, ast.Assign([self.visit(target)], value))

    def _check_overlap(self, target: ast.Subscript, node: Any) -> None:
        """Parts of one array may overlap only if they are shifted: then the order of copying can be chosen."""
        source = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(source, (ast.Subscript, ast.Attribute, ast.Name)):
            return
        of = source.value if isinstance(source, ast.Subscript) else source
        if ast.unparse(of) != ast.unparse(target.value):
            return
        index = source.slice if isinstance(source, ast.Subscript) else None
        if index is None or _slice_shape(index) != _slice_shape(target.slice):
            raise self.fail(node, "parts of one array that lie across each other are copied; copy them in a for loop")

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"temporary{self._temporaries}__"

    # --- expressions -------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        role = self.roles.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if role == "state":
            return self._field(node)
        if role == "params":
            return _at(node, _name(f"p__{node.attr}"))
        value = self.source.evaluate(node)
        if value is MISSING:
            if role == "rng":
                raise self.fail(node, f"call it: rng.{node.attr}(...)")
            return self.generic_visit(node)
        return self._outer(node, node.attr, value)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id.endswith("__"):
            return node  # one of ours
        if node.id in self.source.locals or not isinstance(node.ctx, ast.Load):
            role = self.roles.get(node.id)
            if role in self.lowering.layouts:
                return self._leaf(node, "", node, role)
            if role in ("state", "params"):
                raise self.fail(node, f"{node.id} can be used by its fields, or passed on to a function as it is")
            return node
        return self._outer(node, node.id, self.source.lookup(node.id))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        leaf = self._path(node)
        if leaf is not None:
            return self._leaf(node, *leaf)
        new = ast.Subscript(self.visit(node.value), self.visit(node.slice), node.ctx)
        return _widened(_at(node, new)) if isinstance(node.ctx, ast.Load) else _at(node, new)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Invert):
            raise self.fail(node, "~ of a bool is a number in Python; write not x, or -x - 1")
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        return _at(node, _call("power", node.left, node.right)) if isinstance(node.op, ast.Pow) else node

    def visit_Call(self, node: ast.Call) -> Any:
        function = node.func
        owner = function.value if isinstance(function, ast.Attribute) else None
        if isinstance(owner, ast.Name) and self.roles.get(owner.id) == "rng":
            assert isinstance(function, ast.Attribute)
            return self._draw(node, function.attr, [_name(owner.id), *map(self.visit, node.args)])
        callee = self.source.evaluate(function)
        if callee is MISSING:
            raise self.fail(
                node, f"{ast.unparse(function)} cannot be called in native code; call a function of a module"
            )
        callee = getattr(callee, "py_func", callee)  # what @njit of Numba was put on
        if getattr(callee, "__module__", None) == random_numbers.__name__:
            return self._draw(node, callee.__name__, [self.visit(argument) for argument in node.args])
        module = twin_module(callee)
        if module:
            self.branches = True
            self.lowering.program.twins[callee.__name__] = module
            return _at(node, ast.Call(_name(f"twin__{callee.__name__}"), [self.visit(arg) for arg in node.args], []))
        if isinstance(callee, FunctionType) and callee.__module__.partition(".")[0] not in ("numpy", "math"):
            return self._helper(node, callee)
        if callee is pow:
            return _at(node, _call("power", *map(self.visit, node.args)))
        node.func = self._outer(function, getattr(callee, "__name__", "function"), callee)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [ast.keyword(keyword.arg, self.visit(keyword.value)) for keyword in node.keywords]
        return node

    def _field(self, node: ast.Attribute) -> ast.expr:
        name = _at(node, _name(f"s__{node.attr}", node.ctx))
        if self.fields[node.attr].shape or self.registers:
            return name
        element = _at(node, ast.Subscript(_name(f"s__{node.attr}"), ast.Constant(0), node.ctx))
        return _widened(element) if isinstance(node.ctx, ast.Load) else element

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
        if role not in self.lowering.layouts:
            return None
        paths = [leaf.path for leaf in self.lowering.layouts[role].leaves]
        path = ".".join(keys)
        if paths == [""] or path not in paths:
            inside = [k for k in paths if k.startswith(f"{path}.") or path.startswith(f"{k}.")]
            if paths != [""] and not inside:
                raise self.fail(node, f"the {role} has no {path!r}; it has {', '.join(paths)}")
            return None
        return path, node, role

    def _leaf(self, node: Any, path: str, at: ast.expr, role: str) -> ast.expr:
        layout = self.lowering.layouts[role]
        paths = [leaf.path for leaf in layout.leaves]
        if path not in paths:
            raise self.fail(node, f"the {role} is made of {', '.join(paths)}; use one of these")
        number = paths.index(path)
        name = _at(at, _name(f"{role}__{number}"))
        if layout.leaves[number].shape or path == "" or (role == "action" and self.method != "policy"):
            return name
        element = _at(at, ast.Subscript(name, ast.Constant(0), node.ctx))
        return _widened(element) if isinstance(node.ctx, ast.Load) else element

    def _draw(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> ast.expr:
        self.branches = True
        self.lowering.program.draws.add(name)
        keywords = [ast.keyword(keyword.arg, self.visit(keyword.value)) for keyword in node.keywords]
        drawn = _at(node, ast.Call(_name(f"rng__{name}"), arguments, keywords))
        return _widened(drawn) if name == "choice" else drawn

    def _helper(self, node: ast.Call, callee: FunctionType) -> ast.expr:
        if node.keywords:
            raise self.fail(node, f"pass the arguments of {callee.__name__} by position")
        roles = tuple(self.roles.get(argument.id) if isinstance(argument, ast.Name) else None for argument in node.args)
        roles = tuple(None if self._is_number(role) else role for role in roles)
        name = self.lowering.helper(callee, roles, self, node)
        self.branches = self.branches or not self.lowering.is_safe(name)
        arguments: list[ast.expr] = []
        for argument, role in zip(node.args, roles, strict=True):
            if role is None:
                arguments.append(self.visit(argument))
            else:
                assert isinstance(argument, ast.Name)
                arguments.extend(_name(part) for part in self.lowering.arguments(role, argument.id))
        return _at(node, ast.Call(_name(name), arguments, []))

    def _is_number(self, role: str | None) -> bool:
        """Whether an argument is an action that is one number, which a helper gets like any other."""
        return role == "action" and self.lowering.layouts["action"].leaves[0].path == ""

    def _outer(self, node: ast.expr, name: str, value: Any) -> ast.expr:
        """A name from outside the function: a constant, or something that native code can call."""
        if isinstance(value, enum.Enum):
            value = value.value
        if is_constant(value):
            if isinstance(value, np.generic):
                value = value.item()
            if isinstance(value, np.ndarray) and value.nbytes > _LARGEST_CONSTANT:
                raise self.fail(node, f"{name} has {value.nbytes:,} bytes; put arrays beyond 1 MB into Params")
            if isinstance(value, (bool, int, float)) and not isinstance(value, float):
                return _at(node, ast.Constant(value))
            return _at(node, _name(self.lowering.constant(name, value)))
        if isinstance(value, ModuleType):
            return _at(node, _name(name))
        module = getattr(value, "__module__", None)
        if value is float:
            return _at(node, _name("as_number__"))  # Numba's float() of a float32 stays one
        if value in _PURE_BUILTINS:
            return _at(node, _name(name))
        if getattr(math, name, None) is value:
            if name in _OF_NUMBA:
                raise self.fail(node, f"math.{name} needs Numba when it runs; {_OF_NUMBA[name]}")
            return _at(node, _name(f"math__{name}"))
        if module == "numpy" or isinstance(value, (np.ufunc, type)):
            return _at(node, _name(self.lowering.constant(name, value)))
        raise self.fail(node, f"{name} is {type(value).__name__} {value!r:.60}; native code has no form of it")


def _passed_on(function: ast.FunctionDef, roles: Roles) -> bool:
    """Whether the state is used in any other way than by its fields."""
    state = {name for name, role in roles.items() if role == "state"}
    by_field = {
        id(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return any(
        isinstance(node, ast.Name) and node.id in state and id(node) not in by_field for node in ast.walk(function)
    )


def _assigned_fields(function: ast.FunctionDef, roles: Roles) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and roles.get(node.value.id) == "state"
    }


def _is_slice(index: ast.expr) -> bool:
    """Whether an index picks a part of an array and not one element."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...) for part in parts)


def _slice_shape(index: ast.expr) -> list[Any]:
    """Which parts of an index are slices; one with a step is like itself only."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return [isinstance(part, ast.Slice) if getattr(part, "step", None) is None else ast.unparse(part) for part in parts]


def _words(value: Any) -> str:
    """A constant in words that differ when the values do."""
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.shape}, {np.ascontiguousarray(value).tobytes().hex()})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_words, value))})"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value.hex()
    if callable(value):
        return f"{getattr(value, '__module__', None)}.{value.__name__}"  # repr may show its address
    return repr(value)


def _loading(target: ast.expr) -> ast.expr:
    """A copy of an assignment's target as an expression that reads it."""
    target = copy.deepcopy(target)
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    assert isinstance(target, ast.Subscript)
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)


def _name(name: str, context: ast.expr_context | None = None) -> ast.Name:
    return ast.Name(name, context or ast.Load())


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_name(f"{name}__"), list(arguments), [])


def _widened(node: ast.expr) -> ast.expr:
    return ast.copy_location(_call("widen", node), node)


def _at(node: Any, new: Any) -> Any:
    return ast.copy_location(new, node)


def _listed(result: Any) -> list[ast.stmt]:
    return result if isinstance(result, list) else [result]
