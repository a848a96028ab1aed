"""The rules of kernels, checked on the syntax tree before any compiler sees the code."""

from __future__ import annotations

import ast
import builtins
import difflib
import enum
import inspect
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vecenv._leaf import Leaf
from vecenv.errors import KernelError
from vecenv.kernel import _forbidden as forbidden
from vecenv.kernel import rng as random_numbers
from vecenv.kernel._fields import Field, mismatch, unknown
from vecenv.kernel._source import MISSING, Source, is_constant, read_source

Roles = Mapping[str, str]
"""What parameters of a function stand for: name -> "state", "params", "rng", "obs", "action" or "mask"."""

_METHODS = {
    "reset": ("state", "rng", "params"),
    "step": ("state", "action", "rng", "params"),
    "observe": ("state", "obs", "params"),
    "action_mask": ("state", "mask", "params"),
}
_ROLE_OF_NAME = {"s": "state", "state": "state", "p": "params", "params": "params"}
_ROLE_OF_NAME |= {"rng": "rng", "action": "action", "obs": "obs", "mask": "mask"}
_USES = {
    "state": "is used by its fields, {name}.x, or passed on to a function as it is",
    "params": "is used by its fields, {name}.x, or passed on to a function as it is",
    "rng": "is used by its functions, {name}.uniform(0.0, 1.0), or passed on to a function as it is",
}
_REPLACED = {
    "state": "assign its fields: {name}.x = ...",
    "params": "Params are read-only; use a variable of another name",
    "rng": "every env has one stream",
    "obs": "write into it: {name}[:] = ..., or {name}[0] = ...",
    "mask": "write into it: {name}[0] = 1",
    "action": "use a variable of another name",
}
_FROM_MODULE = "native code can use numbers, arrays and tuples of numbers from outside"


class Rules:
    """Checks one function, and the functions that it calls.

    Args:
        kernel: name of the class, for messages.
        source: the function.
        roles: what its parameters stand for.
        fields: fields of the state.
        params: fields of `Params`.
        leaves: leaves of the spaces behind the roles "obs" and "action", as far as they are known.
        callers: the functions that led here, if this one is a helper.
    """

    def __init__(
        self,
        kernel: str,
        source: Source,
        roles: Roles,
        fields: Mapping[str, Field],
        params: Mapping[str, Field],
        leaves: Mapping[str, Sequence[Leaf]] | None = None,
        callers: Sequence[Callable[..., Any]] = (),
    ) -> None:
        self.kernel, self.source, self.roles = kernel, source, roles
        self.fields, self.params = fields, params
        self.leaves = leaves or {}
        self.callers = callers
        is_method = not callers and _METHODS.get(source.name) == tuple(roles.values())
        self.method = source.name if is_method else None
        self._nodes = _in_order(source.node.body)
        self._parents = {id(child): node for node in self._nodes for child in ast.iter_child_nodes(node)}

    def check(self) -> None:
        """Everything that can be known from this function alone. Raises KernelError."""
        self._check_head()
        for node in self._nodes:
            self._check_node(node)
        if self.method == "step" and not _always_returns(self.source.node.body):
            last = self.source.node.body[-1]
            raise self.fail(last, "step can end without a return; return reward, terminated on every path")

    def check_names(self) -> None:
        """That every name exists and can be compiled, here and in all helpers.

        Later than `check`: a helper may be defined below the class. Raises KernelError, for a helper with its own file.
        """
        for node in self._nodes:
            if isinstance(node, ast.Call):
                self._check_call(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._check_name(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                self._check_attribute(node)

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        """The error to raise for a node."""
        return KernelError(rule, self.kernel, self.source.name, self.source.file, getattr(node, "lineno", None))

    # --- the function's head -----------------------------------------------------------------------------------------

    def _check_head(self) -> None:
        head = self.source.node
        if self.method is None:
            if head.args.vararg or head.args.kwarg or head.args.kwonlyargs or head.args.posonlyargs:
                raise self.fail(head, "a function that kernels call has plain parameters; no *, ** or /")
            if hasattr(self.source.function, "__wrapped__"):
                raise self.fail(head, "it is wrapped by a decorator, which native code would not run; take it off")
            return
        for decorator in head.decorator_list:
            if ast.unparse(decorator) != "staticmethod":
                raise self.fail(
                    decorator,
                    f"@{ast.unparse(decorator)} has no effect on native code; methods of kernels are plain `def`s",
                )
        wanted = ", ".join(_short(role) for role in _METHODS[self.method])
        for parameter, role in self.roles.items():
            if parameter in ("self", "cls"):
                raise self.fail(head, f"kernels have no {parameter}: write {self.method}({wanted})")
            if _ROLE_OF_NAME.get(parameter, role) != role:
                raise self.fail(head, f"{parameter!r} is given the {role}; the order is {self.method}({wanted})")

    # --- one node ----------------------------------------------------------------------------------------------------

    def _check_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Return):
            self._check_return(node)
        rule = None if _is_target(node) else forbidden.SYNTAX.get(type(node))
        if rule is not None:
            raise self.fail(node, rule)
        if isinstance(node, ast.Constant):
            self._check_constant(node)
        elif isinstance(node, ast.Name):
            self._check_role(node)
        elif isinstance(node, ast.Attribute):
            self._check_field(node)
        elif isinstance(node, ast.Subscript):
            self._check_subscript(node)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            self._check_assignment(node)

    def _check_constant(self, node: ast.Constant) -> None:
        value, parent = node.value, self._parents.get(id(node))
        if isinstance(value, complex):
            raise self.fail(node, "complex numbers have no native form here; keep real and imaginary part")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise self.fail(node, f"{value} does not fit into the 64 bits that native code has for an int")
        if not isinstance(value, (str, bytes)):
            return
        if isinstance(parent, ast.Compare) and any(
            self._role(side) == "action" for side in (parent.left, *parent.comparators)
        ):
            raise self.fail(node, f"the action is compared with the string {value!r}; actions are numbers")
        if not (isinstance(parent, ast.Subscript) and self._role(_root(parent)) in ("obs", "action")):
            raise self.fail(
                node, f"the string {value!r} has no native form; use numbers, by names of the module if you like"
            )

    def _check_role(self, node: ast.Name) -> None:
        role = self.roles.get(node.id)
        if role is None:
            return
        if isinstance(node.ctx, ast.Store):
            what = _REPLACED[role].format(name=node.id)
            raise self.fail(node, f"{node.id!r} is the {role} of the env and cannot be replaced; {what}")
        parent = self._parents.get(id(node))
        if role in _USES and not isinstance(parent, (ast.Attribute, ast.Call, ast.keyword)):
            if isinstance(parent, ast.Subscript) and parent.value is node:
                key = parent.slice.value if isinstance(parent.slice, ast.Constant) else "x"
                raise self.fail(node, f"fields are attributes; write {node.id}.{key}, not {ast.unparse(parent)}")
            raise self.fail(node, f"{node.id} {_USES[role].format(name=node.id)}")

    def _check_field(self, node: ast.Attribute) -> None:
        role = self._role(node.value)
        stored = isinstance(node.ctx, ast.Store)
        if role == "state":
            if node.attr not in self.fields:
                raise self.fail(node, unknown(node.attr, self.fields))
            if stored and self.fields[node.attr].shape:
                raise self.fail(node, f"field {node.attr!r} is an array; write into it: {ast.unparse(node)}[:] = ...")
        elif role == "params":
            if stored:
                raise self.fail(node, f"Params are read-only: keep what changes in `state`, not in {node.attr!r}")
            if node.attr not in self.params:
                raise self.fail(node, unknown(node.attr, self.params, "parameter"))
        elif role in ("obs", "action") and self._keys(role) and (stored or node.attr in self._keys(role)):
            raise self.fail(node, f"write {ast.unparse(node.value)}[{node.attr!r}], not {ast.unparse(node)}")
        elif role == "rng" and not isinstance(self._parents.get(id(node)), ast.Call):
            raise self.fail(node, f"{ast.unparse(node)} must be called: {ast.unparse(node)}(...)")
        elif stored:
            raise self.fail(node, f"{ast.unparse(node)} cannot be assigned; keep what changes in `state`")

    # --- elements ----------------------------------------------------------------------------------------------------

    def _check_subscript(self, node: ast.Subscript) -> None:
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Subscript) and parent.value is node:
            return  # the outermost of a chain is looked at
        root, stored = _root(node), isinstance(node.ctx, ast.Store)
        role = self._role(root)
        if stored and isinstance(root, ast.Name) and root.id not in self.source.locals:
            raise self.fail(node, f"{root.id} is a constant in native code; keep what changes in `state`")
        if stored and role == "action" and self.method == "step":
            raise self.fail(node, f"{ast.unparse(root)} is read-only; use a variable of your own")
        if role in ("obs", "action") and self.leaves.get(role):
            self._check_leaf(node, role)
        elif isinstance(root, ast.Attribute) and self._role(root.value) in ("state", "params"):
            self._check_element(node, root, stored)

    def _check_element(self, node: ast.Subscript, root: ast.Attribute, stored: bool) -> None:
        is_state = self._role(root.value) == "state"
        field = (self.fields if is_state else self.params).get(root.attr)
        if field is None:
            return  # reported by _check_field
        if not field.shape:
            raise self.fail(node, f"{ast.unparse(root)} is a single number; use it without [ ]")
        if stored and not is_state:
            raise self.fail(node, f"Params are read-only: keep what changes in `state`, not in {root.attr!r}")
        # The size of a parameter may be another one in the next call of make.
        self._check_index(_chain(node), field.shape if is_state else (None,) * len(field.shape), ast.unparse(root))

    def _check_leaf(self, node: ast.Subscript, role: str) -> None:
        """Follow keys down to a leaf of a space; what is left are indices into its array."""
        leaves = {leaf.path: leaf for leaf in self.leaves[role]}
        chain, path = _chain(node), ""
        name = ast.unparse(_root(node))
        while path not in leaves and chain:
            key = chain[0].slice
            keys = _children(leaves, path)
            shown = ", ".join(f"{name}[{key!r}]" for key in keys)
            if not isinstance(key, ast.Constant):
                raise self.fail(node, f"a key of {name} must be written out (there are: {shown})")
            if str(key.value) not in map(str, keys):
                near = difflib.get_close_matches(str(key.value), [str(key) for key in keys], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise self.fail(node, f"{name} has no {key.value!r}{hint} (there are: {shown})")
            name = ast.unparse(chain.pop(0))
            path = f"{path}.{key.value}" if path else str(key.value)
        leaf = leaves.get(path)
        if leaf is None:
            keys = ", ".join(f"{name}[{key!r}]" for key in _children(leaves, path))
            raise self.fail(node, f"{name} has parts; use {keys}")
        if not chain and isinstance(node.ctx, ast.Store) and leaf.shape:
            raise self.fail(node, f"{name} is an array; write into it: {name}[:] = ...")
        if chain and not leaf.shape and not (role == "obs" and path == ""):
            raise self.fail(node, f"{name} is a single number; use it without [ ]")
        self._check_index(chain, leaf.shape or (1,), name)

    def _check_index(self, chain: list[ast.Subscript], shape: tuple[int | None, ...], name: str) -> None:
        """Constant indices against a shape; None in it is a size that is not known."""
        if not chain:
            return
        index = chain[0].slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        values = [_number(part) for part in parts]
        if any(isinstance(part, ast.Constant) and part.value in (None, ...) for part in parts):
            return
        if len(parts) > len(shape):
            raise self.fail(
                chain[0], f"{len(parts)} indices for {name}, which has {len(shape)} dimension{'s' * (len(shape) > 1)}"
            )
        for axis, (part, value, size) in enumerate(zip(parts, values, shape, strict=False)):
            if isinstance(value, float) or (isinstance(part, ast.Constant) and isinstance(part.value, str)):
                raise self.fail(
                    chain[0], f"{ast.unparse(part)} is no index of {name}; an index is an int, use int(...) or //"
                )
            if value is not None and size is not None and not -size <= value < size:
                where = f" along axis {axis}" if len(shape) > 1 else ""
                raise self.fail(
                    chain[0], f"index {value} is out of range: {name} has {size} element{'s' * (size > 1)}{where}"
                )
        if None not in values:
            self._check_index(chain[1:], shape[len(parts) :], f"{name}[{ast.unparse(index)}]")

    # --- assignments and returns -------------------------------------------------------------------------------------

    def _check_assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> None:
        if isinstance(node, ast.AugAssign):
            self._check_value(node.target, ast.BinOp(node.target, node.op, node.value))
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part, value in _pairs(target, node.value):
                self._check_value(part, value)

    def _check_value(self, target: ast.expr, value: ast.expr | None) -> None:
        field = self._field_of(target)
        kind = None if value is None else self._kind(value)
        if field is None or value is None or kind is None:
            return
        wrong = mismatch(field.dtype, kind)
        if wrong:
            given = "None" if kind is type(None) else f"a {kind.__name__}: {ast.unparse(value)}"
            raise self.fail(target, f"{field.name} is {field.dtype}, but is assigned {given}; {wrong}")

    def _field_of(self, target: ast.expr) -> Field | None:
        """What a target of an assignment holds, if it is one number of known type."""
        root = _root(target) if isinstance(target, ast.Subscript) else target
        if isinstance(root, ast.Attribute) and self._role(root.value) == "state" and root.attr in self.fields:
            return Field(f"field {root.attr!r}", self.fields[root.attr].dtype)
        role = self._role(root)
        if isinstance(target, ast.Subscript) and role in ("obs", "action"):
            keys = [str(part.slice.value) for part in _chain(target) if isinstance(part.slice, ast.Constant)]
            for leaf in self.leaves.get(role, ()):
                if leaf.path == "" or leaf.path.split(".") == keys[: leaf.path.count(".") + 1]:
                    return Field(ast.unparse(target), leaf.dtype)
        return None

    def _kind(self, node: ast.expr) -> type | None:
        """Type of an expression as far as it is plain: bool, int, float, str, tuple, NoneType, or None for unknown."""
        if isinstance(node, ast.Constant):
            return type(node.value)
        if isinstance(node, ast.Tuple):
            return tuple
        if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return bool
        if isinstance(node, ast.UnaryOp):
            kind = self._kind(node.operand)
            return int if kind is bool else kind
        if isinstance(node, ast.BinOp):
            return _kind_of_operation(node.op, self._kind(node.left), self._kind(node.right))
        if isinstance(node, ast.IfExp):
            kinds = {self._kind(node.body), self._kind(node.orelse)}
            return float if float in kinds else kinds.pop() if len(kinds) == 1 else None
        if isinstance(node, ast.Attribute):
            fields = {"state": self.fields, "params": self.params}.get(self._role(node.value) or "", {})
            field = fields.get(node.attr)
            return None if field is None or field.shape else type(field.dtype.type(0).item())
        if isinstance(node, ast.Call):
            return self._kind_of_call(node.func)
        return None

    def _kind_of_call(self, function: ast.expr) -> type | None:
        if isinstance(function, ast.Attribute) and self._role(function.value) == "rng":
            return {"random": float, "uniform": float, "normal": float, "integers": int}.get(function.attr)
        callee = self.source.evaluate(function)
        return callee if callee in (int, float, bool) else None

    def _check_return(self, node: ast.Return) -> None:
        value = node.value
        if self.method is None:
            return
        if self.method != "step":
            if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                target = "s" if self.method == "reset" else self.source.parameters[1]
                into = f"assigns fields: {target}.x = ..." if self.method == "reset" else f"writes: {target}[0] = ..."
                raise self.fail(node, f"{self.method} returns a value; it returns nothing and {into}")
            return
        count = len(value.elts) if isinstance(value, ast.Tuple) else int(value is not None)
        if not isinstance(value, ast.Tuple) or count not in (2, 3):
            more = "; observations are written by observe, infos are fields declared in `info`" if count > 3 else ""
            raise self.fail(
                node,
                f"step returns {count} value{'s' * (count != 1)}; write return reward, terminated (and, if the env "
                f"itself truncates, truncated as a third){more}",
            )
        for name, part in zip(("reward", "terminated", "truncated"), value.elts, strict=False):
            self._check_result(name, part)

    def _check_result(self, name: str, part: ast.expr) -> None:
        kind = dict if isinstance(part, ast.Dict) else self._kind(part)
        if kind is dict:
            raise self.fail(
                part, f"{name} is a dict; infos are fields declared in `info` and assigned like those of `state`"
            )
        if name == "reward" and kind not in (None, int, float, bool):
            raise self.fail(part, f"the reward is {ast.unparse(part)}; it must be a number")
        if name != "reward" and kind not in (None, int, bool):
            raise self.fail(
                part, f"{name} is {ast.unparse(part)}; return reward, terminated, in this order; it must be a bool"
            )

    # --- names -------------------------------------------------------------------------------------------------------

    def _check_name(self, node: ast.Name) -> None:
        if node.id in self.source.locals:
            return
        value = self.source.lookup(node.id)
        if value is MISSING:
            raise self.fail(node, f"there is no name {node.id!r}{self._instead_of_name(node.id)}")
        self._check_outer(node, value)

    def _instead_of_name(self, name: str) -> str:
        if name in ("self", "cls"):
            return "; kernels have none: state is in s, parameters are in p"
        for role, fields in (("state", self.fields), ("params", self.params)):
            owner = next((parameter for parameter, its in self.roles.items() if its == role), None)
            if owner and name in fields:
                return f"; did you mean {owner}.{name}?"
        scope = self.source.function.__globals__
        if hasattr(scope.get(self.kernel), name):
            return (
                f"; its methods do not see the names of a class: write {self.kernel}.{name}, or move it to the module"
            )
        near = difflib.get_close_matches(name, [*self.source.locals, *scope, *vars(builtins)], n=1)
        return f"; did you mean {near[0]!r}?" if near else ""

    def _check_attribute(self, node: ast.Attribute) -> None:
        owner = self.source.evaluate(node.value)
        if isinstance(owner, enum.Enum):
            raise self.fail(node, f"write {ast.unparse(node.value)}, which is a number if it is an IntEnum")
        if not isinstance(owner, (ModuleType, type)):
            return
        value = self.source.evaluate(node)
        if value is MISSING:
            near = difflib.get_close_matches(node.attr, dir(owner), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            what = "module" if isinstance(owner, ModuleType) else "class"
            raise self.fail(node, f"{what} {owner.__name__!r} has no {node.attr!r}{hint}")
        self._check_outer(node, value)

    def _check_outer(self, node: ast.expr, value: Any) -> None:
        """A value from outside the function, where it is not called."""
        if is_constant(value):
            return
        parent = self._parents.get(id(node))
        is_owner = isinstance(parent, ast.Attribute) and parent.value is node
        if (is_owner and isinstance(value, (ModuleType, type))) or (
            isinstance(parent, ast.Call) and parent.func is node
        ):
            return
        if isinstance(value, type) and issubclass(value, (np.generic, int, float)):
            return  # a dtype as an argument
        if callable(value) and not is_owner:
            raise self.fail(node, f"{ast.unparse(node)} is a function; it can be called, but not be used as a value")
        raise self.fail(node, f"{ast.unparse(node)} is {_what(value)}; {_instead_of(value)}")

    # --- calls -------------------------------------------------------------------------------------------------------

    def _check_call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            self._check_name(function)
        elif isinstance(function, ast.Attribute):
            if self._role(function.value) == "rng":
                self._check_draw(node, function.attr, node.args, ast.unparse(function))
                return
            if isinstance(function.value, ast.Name):
                self._check_name(function.value)
            self._check_attribute(function)
        callee = self.source.evaluate(function)
        if callee is MISSING:
            raise self.fail(node, self._no_callee(function))
        self._check_callee(node, getattr(callee, "py_func", callee))  # what @njit of Numba was put on

    def _no_callee(self, function: ast.expr) -> str:
        text, role = ast.unparse(function), self._role(function)
        if role is not None:
            return f"{text} is the {role} of the env and cannot be called" + (
                "; try rng.uniform(...)" if role == "rng" else ""
            )
        if not isinstance(function, ast.Attribute):
            return f"{text} is no function of a module; only these can be called"
        if self._role(function.value) in ("state", "params"):
            return f"{text} is a field and cannot be called"
        owner = ast.unparse(function.value)
        instead = forbidden.METHODS_INSTEAD.get(function.attr, "call a function of a module").format(owner=owner)
        return f"the method {text}() has no native form; {instead}"

    def _check_callee(self, node: ast.Call, callee: Any) -> None:
        text, name = ast.unparse(node.func), getattr(callee, "__name__", "")
        module = getattr(callee, "__module__", None) or ""
        if module == random_numbers.__name__ and name in random_numbers.__all__:
            self._check_draw_function(node, name)
            return
        if isinstance(callee, FunctionType) and module.partition(".")[0] not in ("numpy", *forbidden.MODULES_INSTEAD):
            self._check_helper(node, callee)
            return
        self._check_no_record_given(node, text)
        if getattr(math, name, None) is callee:
            if name not in forbidden.MATH:
                instead = forbidden.MATH_INSTEAD.get(name, "write it out")
                raise self.fail(node, f"math.{name} has no native form; {instead}")
        elif getattr(builtins, name, None) is callee:
            if name not in forbidden.BUILTINS:
                instead = forbidden.BUILTINS_INSTEAD.get(name, f"there are: {', '.join(sorted(forbidden.BUILTINS))}")
                raise self.fail(node, f"{name}() has no native form; {instead}")
        elif isinstance(callee, np.ufunc) or getattr(np, name, None) is callee:
            self._check_numpy(node, name, callee)
        else:
            raise self.fail(node, f"{text}() has no native form; {_instead_of_call(callee, module)}")

    def _check_no_record_given(self, node: ast.Call, text: str) -> None:
        for argument in node.args:
            role = self._role(argument)
            if role in _USES:
                name = ast.unparse(argument)
                raise self.fail(node, f"{text}() is given {name}, which {_USES[role].format(name=name)}")

    def _check_numpy(self, node: ast.Call, name: str, callee: Any) -> None:
        if isinstance(callee, type) and not issubclass(callee, (np.number, np.bool_)):
            raise self.fail(node, f"np.{name} has no native form; {_FROM_MODULE}")
        if name in forbidden.NUMPY_ALLOCATES:
            raise self.fail(
                node,
                f"np.{name} builds an array; kernels allocate nothing: declare an array in `state` and write into it",
            )
        if name in forbidden.NUMPY_ROUNDS_OTHERWISE:
            raise self.fail(
                node,
                f"use math.{forbidden.NUMPY_ROUNDS_OTHERWISE[name]}: NumPy's {name} may round otherwise than the C "
                "library's, and native code would not be bit-equal to Python",
            )
        if name in forbidden.NUMPY_ADDS_OTHERWISE:
            raise self.fail(
                node, f"np.{name} adds in an order of its own, and native code would not be bit-equal; write a for loop"
            )

    def _check_draw_function(self, node: ast.Call, name: str) -> None:
        """`uniform(rng, 0.0, 1.0)`."""
        first = node.args[0] if node.args else None
        if first is None or (self._role(first) != "rng" and not isinstance(first, ast.Name)):
            raise self.fail(node, f"the first argument of {name} is the stream: {name}(rng, ...)")
        self._check_draw(node, name, node.args[1:], name)

    def _check_draw(self, node: ast.Call, name: str, arguments: list[ast.expr], text: str) -> None:
        if name not in random_numbers.__all__:
            near = difflib.get_close_matches(name, random_numbers.__all__, n=1)
            hint = (
                "; use normal(mean, deviation)" if "gauss" in name else f"; did you mean {near[0]!r}?" if near else ""
            )
            raise self.fail(
                node, f"rng has no {name!r} in kernels{hint} (there are: {', '.join(random_numbers.__all__)})"
            )
        in_place = name in ("permutation", "shuffle")
        if in_place and text != name:
            raise self.fail(node, f"use vecenv.kernel.rng.{name}(rng, array), which writes into an array of `state`")
        if any(isinstance(argument, ast.Tuple) for argument in arguments):
            raise self.fail(node, f"{text} is given a tuple; make it an array of the module")
        if in_place and arguments and _number(arguments[0]) is not None:
            raise self.fail(
                node, f"{name} writes into an array of `state`: {name}(rng, s.order), not {ast.unparse(node)}"
            )
        signature = inspect.signature(getattr(random_numbers, name))
        try:
            signature.bind(None, *arguments, **{keyword.arg or "**": None for keyword in node.keywords})
        except TypeError as error:
            takes = (
                ", ".join(str(each).partition(":")[0] for each in list(signature.parameters.values())[1:])
                or "no argument"
            )
            raise self.fail(node, f"{text}: {error}; it draws one number and takes {takes}") from None

    def _check_helper(self, node: ast.Call, function: FunctionType) -> None:
        name = function.__name__
        if function in self.callers or function is self.source.function:
            raise self.fail(node, f"{name} calls itself; native code has no recursion here, write a loop")
        if node.keywords:
            raise self.fail(node, f"pass the arguments of {name} by position")
        try:
            source = read_source(function)
        except (OSError, TypeError, SyntaxError):
            raise self.fail(node, f"the source of {name} cannot be read; define it by `def` in a file") from None
        given, taken = len(node.args), len(source.parameters)
        helper = Rules(
            kernel=self.kernel,
            source=source,
            roles=self._roles_given(source, node.args),
            fields=self.fields,
            params=self.params,
            leaves=self.leaves,
            callers=(*self.callers, self.source.function),
        )
        helper.check()
        if not taken - len(source.node.args.defaults) <= given <= taken:
            raise self.fail(
                node, f"{name}({', '.join(source.parameters)}) is given {given} argument{'s' * (given != 1)}"
            )
        helper.check_names()

    def _roles_given(self, source: Source, arguments: list[ast.expr]) -> dict[str, str]:
        roles = {name: self._role(argument) for name, argument in zip(source.parameters, arguments, strict=False)}
        # An action that is one number or one array is to a helper what any other number or array is.
        plain = {"action"} if self.leaves.get("action") and not self._keys("action") else set()
        return {name: role for name, role in roles.items() if role is not None and role not in plain}

    # --- what nodes stand for ----------------------------------------------------------------------------------------

    def _role(self, node: ast.expr) -> str | None:
        return self.roles.get(node.id) if isinstance(node, ast.Name) else None

    def _keys(self, role: str) -> list[Any]:
        """Keys of a Dict or Tuple space; none if it is a plain one or not known."""
        leaves = {leaf.path: leaf for leaf in self.leaves.get(role, ())}
        return [] if "" in leaves else _children(leaves, "")


def _in_order(body: Iterable[ast.stmt]) -> list[ast.AST]:
    """All nodes that are compiled, by their place in the file: the first mistake is the one to report."""
    nodes = [node for statement in body for node in _compiled(statement)]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]  # all have them


def _compiled(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those below it, without docstrings, annotations and the messages of asserts."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if hasattr(node, "lineno"):
        yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "msg", "returns", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _compiled(child)


def _is_target(node: ast.AST) -> bool:
    """`[a, b] = 1, 2` builds no list."""
    return isinstance(node, ast.List) and isinstance(node.ctx, ast.Store)


def _root(node: ast.expr) -> ast.expr:
    """What a chain of subscripts starts with."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _chain(node: ast.expr) -> list[ast.Subscript]:
    """The subscripts of a chain, the first first."""
    chain: list[ast.Subscript] = []
    while isinstance(node, ast.Subscript):
        chain.insert(0, node)
        node = node.value
    return chain


def _children(leaves: Mapping[str, Leaf], path: str) -> list[Any]:
    """Keys of the Dict or Tuple at a path; positions of a Tuple are ints."""
    prefix = f"{path}." if path else ""
    keys = [leaf[len(prefix) :].partition(".")[0] for leaf in leaves if leaf.startswith(prefix)]
    distinct = list(dict.fromkeys(keys))
    is_tuple = distinct == [str(position) for position in range(len(distinct))]
    return list(range(len(distinct))) if is_tuple else distinct


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Targets of an assignment with the values that they get, None where that cannot be seen."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
        return
    values = (
        value.elts
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
        else [None] * len(target.elts)
    )
    for part, its in zip(target.elts, values, strict=True):
        yield from _pairs(part, its)


def _kind_of_operation(operator: ast.operator, left: type | None, right: type | None) -> type | None:
    if isinstance(operator, ast.Div) or float in (left, right):
        return float
    if left is None or right is None or isinstance(operator, ast.Pow):
        return None
    if left is right is bool and isinstance(operator, (ast.BitAnd, ast.BitOr, ast.BitXor)):
        return bool
    return int if {left, right} <= {int, bool} else None


def _number(node: ast.expr) -> int | float | None:
    """The value of a number that is written out."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return node.value if is_number else None  # type: ignore[union-attr]  # a Constant


def _always_returns(body: list[ast.stmt]) -> bool:
    """Whether no path leads past the end of these statements."""
    return any(map(_returns, body))


def _returns(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return _always_returns(statement.body) and _always_returns(statement.orelse)
    if isinstance(statement, ast.While):
        return isinstance(statement.test, ast.Constant) and bool(statement.test.value) and not _breaks(statement.body)
    return isinstance(statement, ast.Return)


def _breaks(body: list[ast.stmt]) -> bool:
    """Whether a loop with this body can be left by break."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, ast.If) and (_breaks(statement.body) or _breaks(statement.orelse)):
            return True
        if isinstance(statement, (ast.For, ast.While)) and _breaks(statement.orelse):
            return True
    return False


def _short(role: str) -> str:
    return {"state": "s", "params": "p"}.get(role, role)


def _what(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}, {value!r:.40}"


def _instead_of(value: Any) -> str:
    """What to do about an object from outside that native code cannot hold."""
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        return "it is not seeded with the env; use rng"
    if isinstance(value, enum.Enum):
        return "make its class an IntEnum"
    if isinstance(value, list):
        return "make it a tuple or a NumPy array"
    if isinstance(value, dict):
        return "make it a NumPy array, or one number per name"
    return _FROM_MODULE


def _instead_of_call(callee: Any, module: str) -> str:
    owner = getattr(callee, "__self__", None)
    if isinstance(owner, (random.Random, np.random.RandomState)):
        return forbidden.MODULES_INSTEAD["random" if isinstance(owner, random.Random) else "numpy.random"]
    for name, instead in forbidden.MODULES_INSTEAD.items():
        if module == name or module.startswith(f"{name}."):
            return instead
    if isinstance(callee, type):
        return "kernels build no objects; keep numbers in `state`"
    if isinstance(callee, ModuleType):
        return "it is a module; call a function of it"
    return "call functions of math, of vecenv.kernel.rng, or your own"
