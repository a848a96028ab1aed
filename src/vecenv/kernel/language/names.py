"""Rules for names from outside a function and for calls: what exists, what native code has, what to use instead."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import math
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from vecenv._util.suggest import did_you_mean
from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language import forbidden
from vecenv.kernel.language.array_functions import METHODS
from vecenv.kernel.language.draws import check_draw, check_draw_function
from vecenv.kernel.language.found import Found, Unsure
from vecenv.kernel.language.queues import QUEUE_METHODS, Queue
from vecenv.kernel.language.scope import USES, Scope
from vecenv.kernel.language.source import MISSING, FunctionSource, is_constant, is_constant_dict, read_source
from vecenv.kernel.language.twins import twin_module

DICT_METHODS = ("get", "keys", "values", "items")
"""Methods of dicts of the module that native code has."""
Helper = tuple[FunctionSource, dict[str, str]]
"""A function of the user's that is called, and what its parameters stand for in that call."""


def check_names(scope: Scope, found: Found) -> list[Helper]:
    """Check every name and every call of one function, note every mistake; return the helpers that it calls."""
    helpers: dict[tuple[Any, ...], Helper] = {}
    for node, noting in scope.each(found):
        with noting:
            if isinstance(node, ast.Call):
                helper = _check_call(scope, node)
                if helper is not None:
                    source, roles = helper
                    helpers.setdefault((source.function, *roles.items()), helper)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                _check_name(scope, node)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                _check_attribute(scope, node)
    return list(helpers.values())


# --- names -----------------------------------------------------------------------------------------------------------


def _check_name(scope: Scope, node: ast.Name) -> None:
    if node.id in scope.source.locals:
        return
    value = scope.source.lookup(node.id)
    if value is MISSING and node.id in scope.later:
        raise Unsure("it is defined later", scope.kernel, scope.source.name, scope.source.file, node.lineno)
    if value is MISSING:
        raise scope.fail(node, f"there is no name {node.id!r}{_instead_of_name(scope, node.id)}")
    _check_outer(scope, node, value)


def _instead_of_name(scope: Scope, name: str) -> str:
    if name in ("self", "cls"):
        return "; kernels have none: state is in s, parameters are in p"
    for role, fields in (("state", scope.fields), ("params", scope.params)):
        owner = next((parameter for parameter, its in scope.roles.items() if its == role), None)
        if owner and name in fields:
            return f"; did you mean {owner}.{name}?"
    outside = scope.source.function.__globals__
    if hasattr(outside.get(scope.kernel), name):
        return f"; its methods do not see the names of a class: write {scope.kernel}.{name}, or move it to the module"
    return did_you_mean(name, [*scope.source.locals, *outside, *vars(builtins)])


def _check_attribute(scope: Scope, node: ast.Attribute) -> None:
    owner = scope.source.evaluate(node.value)
    if isinstance(owner, enum.Enum):
        raise scope.fail(node, f"write {ast.unparse(node.value)}, which is a number if it is an IntEnum")
    if not isinstance(owner, (ModuleType, type)):
        return
    value = scope.source.evaluate(node)
    if value is MISSING:
        what = "module" if isinstance(owner, ModuleType) else "class"
        hint = did_you_mean(node.attr, dir(owner))
        raise scope.fail(node, f"{what} {owner.__name__!r} has no {node.attr!r}{hint}")
    _check_outer(scope, node, value)


def _check_outer(scope: Scope, node: ast.expr, value: Any) -> None:
    """A value from outside the function, where it is not called."""
    parent = scope.parent(node)
    is_owner = isinstance(parent, ast.Attribute) and parent.value is node
    is_called = isinstance(parent, ast.Call) and parent.func is node
    is_dtype = isinstance(value, type) and issubclass(value, (np.generic, int, float))  # as an argument
    if isinstance(value, dict) and is_constant_dict(value) and _is_asked(scope, node):
        key = parent.slice if isinstance(parent, ast.Subscript) else None
        if isinstance(key, ast.Constant) and key.value not in value:
            raise scope.fail(node, f"{ast.unparse(node)} has no {key.value!r}; it has {', '.join(map(repr, value))}")
        return
    if isinstance(value, (set, frozenset)) and all(map(is_constant, value)) and _is_asked(scope, node, is_set=True):
        return
    if is_constant(value) or is_called or is_dtype or (is_owner and isinstance(value, (ModuleType, type))):
        return
    text = ast.unparse(node)
    if callable(value) and not (is_owner and isinstance(value, type)):
        raise scope.fail(node, f"{text} is a function; it can be called, but not be used as a value")
    kind = type(value).__name__
    article = "an" if kind[0] in "aeiouAEIOU" else "a"
    raise scope.fail(node, f"{text} is {article} {kind}, {value!r:.40}; {forbidden.instead_of_value(value)}")


def _is_asked(scope: Scope, node: ast.expr, is_set: bool = False) -> bool:
    """Whether a dict or a set is used in a way that native code has: by a key, by `in`, by a loop."""
    parent = scope.parent(node)
    if isinstance(parent, ast.Compare):
        return parent.left is not node and all(isinstance(operator, (ast.In, ast.NotIn)) for operator in parent.ops)
    if is_set:
        return False
    if isinstance(parent, ast.Attribute):
        call = scope.parent(parent)
        return parent.attr in DICT_METHODS and isinstance(call, ast.Call) and call.func is parent
    if isinstance(parent, ast.Call):
        return scope.source.evaluate(parent.func) is len
    return isinstance(parent, ast.Subscript) or (isinstance(parent, ast.For) and parent.iter is node)


def _check_cast(scope: Scope, node: ast.Call, kind: type) -> None:
    """A narrow number may round a value, but not go on as it is: NumPy would compute with it in its own width."""
    if not issubclass(kind, np.number) or kind in (np.float64, np.int64):
        return
    parent = scope.parent(node)
    if isinstance(parent, ast.BinOp):
        casts = [scope.source.evaluate(side.func) for side in (parent.left, parent.right) if isinstance(side, ast.Call)]
        parent = scope.parent(parent) if casts == [kind, kind] else parent
    if not isinstance(parent, ast.Call):
        text = ast.unparse(node)
        raise scope.fail(node, f"NumPy computes with {kind.__name__} in its own width; write float({text})")


# --- calls -----------------------------------------------------------------------------------------------------------


def _check_call(scope: Scope, node: ast.Call) -> Helper | None:
    """Check a call; return the function that is called if it is the user's own."""
    function = node.func
    if isinstance(function, ast.Name):
        _check_name(scope, function)
    elif isinstance(function, ast.Attribute):
        if scope.owner(function) == "rng":
            check_draw(scope, node, function.attr)
            return None
        if isinstance(function.value, ast.Name):
            _check_name(scope, function.value)
        _check_attribute(scope, function)
    callee = scope.source.evaluate(function)
    if callee is MISSING and _is_method(scope, function):
        return None
    if callee is MISSING:
        raise scope.fail(node, _no_callee(scope, function))
    callee = getattr(callee, "py_func", callee)  # what @njit of Numba was put on
    module, name = getattr(callee, "__module__", None) or "", getattr(callee, "__name__", "")
    if module == random_numbers.__name__ and name in random_numbers.__all__:
        check_draw_function(scope, node, name)
        return None
    if twin_module(callee) or callee is Queue:
        return None
    theirs = module.partition(".")[0] in ("numpy", *forbidden.MODULES_INSTEAD)
    if isinstance(function, ast.Name) and getattr(builtins, function.id, None) is callee:
        theirs, name = True, function.id  # also if somebody has replaced it, as Ray does with print
    if isinstance(callee, FunctionType) and not theirs:
        return _helper(scope, node, callee)
    _check_callee(scope, node, callee, name)
    return None


def _is_method(scope: Scope, function: ast.expr) -> bool:
    """Whether this may be a method of an array or a list that native code has; its type is found out later."""
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in DICT_METHODS and _is_dict(scope, function.value):
        return True
    if function.attr in QUEUE_METHODS and isinstance(function.value, ast.Name) and not scope.role(function.value):
        return True
    return function.attr in METHODS and scope.role(function.value) not in USES


def _is_dict(scope: Scope, node: ast.expr) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(scope.source.evaluate(node), dict)


def _no_callee(scope: Scope, function: ast.expr) -> str:
    text, role = ast.unparse(function), scope.role(function)
    if role is not None:
        hint = "; try rng.uniform(...)" if role == "rng" else ""
        return f"{text} is the {role} of the env and cannot be called{hint}"
    if not isinstance(function, ast.Attribute):
        return f"{text} is no function of a module; only these can be called"
    if scope.owner(function) in ("state", "params"):
        return f"{text} is a field and cannot be called"
    owner = ast.unparse(function.value)
    instead = forbidden.METHODS_INSTEAD.get(function.attr, "call a function of a module").format(owner=owner)
    return f"the method {text}() has no native form; {instead}"


def _check_callee(scope: Scope, node: ast.Call, callee: Any, name: str) -> None:
    """A function that is not the user's own: whether native code has it."""
    text = ast.unparse(node.func)
    for argument in node.args:
        role = scope.role(argument)
        if role in USES:
            given = ast.unparse(argument)
            raise scope.fail(node, f"{text}() is given {given}, which {USES[role].format(name=given)}")
    wrong = forbidden.wrong_call(callee, name, text)
    if wrong is not None:
        raise scope.fail(node, wrong)
    _check_count(scope, node, callee, name)
    if isinstance(callee, type):
        _check_cast(scope, node, callee)
    if callee is round and len(node.args) > 1:
        raise scope.fail(node, "round with digits rounds decimals; use round(x * 100) / 100")
    if callee in (np.cbrt, np.exp2):
        raise scope.fail(node, f"{text} differs in signs of zero or last digits; use min, max, % or math")


def _check_count(scope: Scope, node: ast.Call, callee: Any, name: str) -> None:
    """How many arguments a function of Python or of `math` is given."""
    text = ast.unparse(node.func)
    if getattr(builtins, name, None) is callee:
        least, most = forbidden.ARGUMENTS.get(name, (0, 99))
    elif getattr(math, name, None) is callee:
        try:
            least = most = len(inspect.signature(callee).parameters)
        except ValueError:  # no signature
            least, most = 1, 2
        if name in ("gcd", "hypot"):  # what they take is looked at when they are resolved
            return
    else:
        return
    for keyword in node.keywords:
        if keyword.arg not in forbidden.BY_NAME.get(name, ()):
            raise scope.fail(node, f"{text}() takes no argument {keyword.arg}= in kernels")
    if not least <= len(node.args) <= most:
        takes = str(least) if least == most else f"{least} to {most}" if most < 99 else f"at least {least}"
        raise scope.fail(
            node, f"{text}() takes {takes} argument{'s' * (takes != '1')} in kernels, not {len(node.args)}"
        )


# --- helpers ---------------------------------------------------------------------------------------------------------


def _helper(scope: Scope, node: ast.Call, function: FunctionType) -> Helper:
    name = function.__name__
    if function in scope.callers or function is scope.source.function:
        raise scope.fail(node, f"{name} calls itself; native code has no recursion here, write a loop")
    try:
        source = read_source(function)
    except (OSError, TypeError, SyntaxError):
        raise scope.fail(node, f"the source of {name} cannot be read; define it by `def` in a file") from None
    try:
        given = source.given(node) if source.is_plain else {}
    except TypeError as error:
        raise scope.fail(node, str(error)) from None
    return source, _roles_given(scope, given)


def _roles_given(scope: Scope, given: dict[str, ast.expr]) -> dict[str, str]:
    roles = {name: scope.role(argument) for name, argument in given.items()}
    # An action that is one number or one array is to a helper what any other number or array is.
    plain = "action" if "" in scope.leaves.get("action", {}) else None
    return {name: role for name, role in roles.items() if role is not None and role != plain}
