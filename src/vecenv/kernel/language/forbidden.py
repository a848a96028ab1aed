"""What kernels cannot use, and what to use instead, in tables that `rules.py` and `names.py` read."""

from __future__ import annotations

import ast
import builtins
import enum
import math
import random
from types import ModuleType
from typing import Any

import numpy as np

from vecenv.kernel.language.array_functions import function_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(names_of: dict[str, str]) -> dict[str, str]:
    """A table by name, of one that has the names for each text."""
    return {name: text for text, names in names_of.items() for name in names.split()}


ALLOCATES = "kernels allocate nothing; declare an array in `state` and write into it"
_LOOP = "write a for loop"
_HELPER = "define a function of the module and call it"

_SYNTAX = _each(
    {
        "a list is built here; give it a name first: items = [...]": "ListComp",
        f"a dict is built here; {ALLOCATES}": "Dict DictComp",
        "a set is built here; it can be asked where it is written, x in {1, 2}, or be one of the module": "Set SetComp",
        f"generator expressions have no native form; {_LOOP}": "GeneratorExp",
        f"a lambda has no native form; {_HELPER}": "Lambda",
        f"functions cannot be defined inside; {_HELPER}": "FunctionDef AsyncFunctionDef",
        "classes cannot be defined inside; keep what they would hold in `state`": "ClassDef",
        "try has no native form; test for the condition instead": "Try TryStar",
        ":= has no native form; assign it in a line before": "NamedExpr",
        "with has no native form; kernels hold no resources": "With",
        "async has no native form; a kernel waits for nothing": "AsyncWith AsyncFor Await",
        "match has no native form; write if and elif": "Match",
        "native code cannot raise; end the episode (terminated), or assert, which the Python env checks": "Raise",
        "yield has no native form; return the values": "Yield YieldFrom",
        "import at the top of the module, not inside": "Import ImportFrom",
        "global variables cannot be changed; keep what changes in `state`": "Global",
        "variables outside cannot be changed; keep what changes in `state`": "Nonlocal",
        "an f-string has no native form; keep numbers in `info`; the message of an assert may be one": "JoinedStr",
        "del has no native form; fields are there for the whole episode": "Delete",
        "* has no native form; write the values out": "Starred",
        "a type alias has no native form; define it outside": "TypeAlias",
        "a template string has no native form; keep numbers in `info`": "TemplateStr",
    }
)
SYNTAX_BY_NAME = _SYNTAX
"""The rules of `SYNTAX` by the names of the nodes, in any version of Python."""
SYNTAX: dict[type[ast.AST], str] = {getattr(ast, name): rule for name, rule in _SYNTAX.items() if hasattr(ast, name)}
"""Statements and expressions without a native form. Some are not in every version of Python."""

SPELLED = {
    "ListComp": "[... for x in y]", "Dict": "{...: ...}", "DictComp": "{...: ... for x in y}", "Set": "{...}",
    "SetComp": "{... for x in y}", "GeneratorExp": "(... for x in y)", "Lambda": "lambda", "FunctionDef": "def inside",
    "AsyncFunctionDef": "async def inside", "ClassDef": "class inside", "Try": "try", "TryStar": "except*",
    "NamedExpr": ":=", "With": "with", "AsyncWith": "async with", "AsyncFor": "async for", "Await": "await",
    "Match": "match", "Raise": "raise", "Yield": "yield", "YieldFrom": "yield from", "Import": "import inside",
    "ImportFrom": "from ... import inside", "Global": "global", "Nonlocal": "nonlocal", "JoinedStr": "f'...'",
    "Delete": "del", "Starred": "*x", "TypeAlias": "type X = ...",
    "TemplateStr": "t'...'",
}  # fmt: skip
"""How the nodes of `SYNTAX` are written."""
STATEMENTS = {
    "Assign": "x = ...", "AugAssign": "x += ...", "AnnAssign": "x: float = ...", "If": "if", "For": "for",
    "While": "while", "Break": "break", "Continue": "continue", "Return": "return", "Pass": "pass",
    "Assert": "assert", "Expr": "f(...)",
}  # fmt: skip
"""Statements that native code has, and how they are written. `assert` is checked in Python alone."""
EXPRESSIONS = {
    "BinOp": "+ - * / // % ** @ & | ^ << >>", "UnaryOp": "-x +x ~x not", "Compare": "< <= == != in",
    "BoolOp": "and or", "IfExp": "a if b else c", "Subscript": "x[i, 1:]", "Attribute": "s.x", "Call": "f(x, by=2)",
    "Tuple": "(a, b)", "List": "[a, b]", "Slice": "1:3", "Name": "x", "Constant": "1.0",
}  # fmt: skip
"""Expressions that native code has, and how they are written."""

BUILTINS = _words("abs all any bool divmod enumerate float int len max min pow range reversed round sum zip")
"""Functions of Python that native code has."""

ARGUMENTS = {
    "abs": (1, 1), "all": (1, 1), "any": (1, 1), "bool": (1, 1), "divmod": (2, 2), "enumerate": (1, 2), "float": (1, 1),
    "int": (1, 1), "len": (1, 1), "max": (1, 99), "min": (1, 99), "pow": (2, 2), "range": (1, 3), "reversed": (1, 1),
    "round": (1, 2), "sum": (1, 2), "zip": (1, 99),
}  # fmt: skip
"""How many arguments functions of Python take in kernels, at least and at most."""
BY_NAME = {"enumerate": ("start",), "zip": ("strict",)}
"""Arguments of functions of Python that may be given by name in kernels."""

BUILTINS_INSTEAD = _each(
    {
        "put a breakpoint into the Python env (vecenv.make_env)": "print",
        "put it into the Python env only (vecenv.make_env)": "breakpoint",
        _LOOP: "map filter",
        ALLOCATES: "sorted list dict set",
        "write the values out": "tuple",
        "use numbers": "str repr",
        "write the field out": "getattr setattr",
        "every field is always there": "hasattr",
        "types are known beforehand": "isinstance type",
        "call a function of the module": "super",
    }
)

MATH = _words(
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp expm1 fabs floor frexp "
    "gcd hypot isfinite isinf isnan ldexp log log10 log1p log2 pow radians sin sinh sqrt tan tanh "
    "trunc"
)
"""Functions of `math` that native code has."""

MATH_INSTEAD = _each(
    {
        "use x % y, with care for the sign": "fmod",
        "use x - y * round(x / y)": "remainder",
        "use abs(a - b) < 1e-9": "isclose",
        _LOOP: "prod fsum",
        "use math.hypot(x1 - x2, y1 - y2)": "dist",
        "libraries differ in its last digits": "gamma lgamma",
        "use math.copysign(abs(x) ** (1 / 3), x)": "cbrt",
        "use int(math.sqrt(n))": "isqrt",
        "use x - math.trunc(x)": "modf",
    }
)

NUMPY_ALLOCATES = _words(
    "zeros ones empty full array asarray ascontiguousarray arange linspace logspace zeros_like ones_like empty_like "
    "full_like concatenate stack hstack vstack dstack column_stack append insert delete copy where select meshgrid "
    "eye identity repeat tile roll pad unique sort argsort nonzero flatnonzero argwhere cumsum cumprod diff outer "
    "cross kron fromiter frombuffer broadcast_to atleast_1d atleast_2d"
)
NUMPY_ROUNDS_OTHERWISE = {
    **{name: name for name in _words("exp expm1 log log1p log2 log10 sin cos tan tanh sinh cosh")},
    **{f"arc{name}": f"a{name}" for name in _words("sin cos tan tan2 sinh cosh tanh")},
    **{f"a{name}": f"a{name}" for name in _words("sin cos tan tan2 sinh cosh tanh")},
    "power": "pow",
    "pow": "pow",
}
"""Functions of NumPy that may round differently from the C library, and the functions of `math` to use."""
NUMPY_ADDS_OTHERWISE = _words("sum mean average std var prod dot vdot inner matmul einsum trace nansum")
"""Functions of NumPy that add floats in an order of their own."""

MODULES_INSTEAD = {
    "random": "Python's own generator is not seeded with the env; use rng, for example rng.uniform(0.0, 1.0)",
    "numpy.random": "NumPy's global generator is not seeded with the env; use rng, for example rng.uniform(0.0, 1.0)",
    "secrets": "it is not seeded with the env; use rng",
    "time": "a kernel knows no clock; count steps in `state`",
    "datetime": "a kernel knows no clock; count steps in `state`",
}

METHODS_INSTEAD = _each(
    {
        "write {owner}[:] = value": "fill",
        _LOOP: "std var cumsum",
        "an array is a list already": "tolist",
        "use np.sum(...) of a comparison": "count",
        "arrays keep their shape: keep a count in `state` and write {owner}[count] = value": "append",
        "arrays keep their shape: keep a count in `state`": "pop",
        "write {owner}[0]": "item",
        "append the values one by one: {owner}.append(item)": "extend",
        "lists have append, pop and pop(0); keep what is to stay in another one": "insert remove sort reverse",
        "lists have append and pop; put new items behind the others": "appendleft extendleft rotate",
        "write a for loop, or k in {owner}": "index",
    }
)
"""Methods of arrays, and what to write."""
_FROM_MODULE = "native code can use numbers, arrays and tuples of numbers from outside"


def instead_of_value(value: Any) -> str:
    """What to do about an object from outside that native code cannot hold."""
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        return "it is not seeded with the env; use rng"
    if isinstance(value, enum.Enum):
        return "make its class an IntEnum"
    if isinstance(value, list):
        return "make it a tuple or a NumPy array"
    if isinstance(value, (set, frozenset)):
        return "a set of numbers has `x in SET`; make it a tuple for other uses"
    if isinstance(value, dict):
        return "a dict of numbers has TABLE[key], TABLE.get(key, default), len(), `in` and a for loop"
    return _FROM_MODULE


def wrong_call(callee: Any, name: str, text: str) -> str | None:
    """What is wrong with calling a function of Python or of a library by this text; None if native code has it."""
    if getattr(math, name, None) is callee:
        instead = MATH_INSTEAD.get(name, "write it out")
        return None if name in MATH else f"math.{name} has no native form; {instead}"
    if getattr(builtins, name, None) is callee:
        instead = BUILTINS_INSTEAD.get(name, f"there are: {', '.join(sorted(BUILTINS))}")
        return None if name in BUILTINS else f"{name}() has no native form; {instead}"
    if isinstance(callee, np.ufunc) or getattr(np, name, None) is callee or function_of(callee) is not None:
        return _wrong_numpy(callee, name)
    return f"{text}() has no native form; {_instead_of_other(callee)}"


def _wrong_numpy(callee: Any, name: str) -> str | None:
    if function_of(callee) is not None:
        return None
    if isinstance(callee, type) and not issubclass(callee, (np.number, np.bool_)):
        return f"np.{name} has no native form; {_FROM_MODULE}"
    if name in NUMPY_ALLOCATES:
        return f"np.{name} builds an array; {ALLOCATES}"
    if name in NUMPY_ROUNDS_OTHERWISE:
        return (
            f"use math.{NUMPY_ROUNDS_OTHERWISE[name]}: NumPy's {name} may round otherwise than the C "
            "library's, and native code would not be bit-equal to Python"
        )
    if name in NUMPY_ADDS_OTHERWISE:
        return f"np.{name} adds in an order of its own, and native code would not be bit-equal; write a for loop"
    return None


def _instead_of_other(callee: Any) -> str:
    module, owner = getattr(callee, "__module__", None) or "", getattr(callee, "__self__", None)
    if isinstance(owner, (random.Random, np.random.RandomState)):
        module = "random" if isinstance(owner, random.Random) else "numpy.random"
    for name, instead in MODULES_INSTEAD.items():
        if module == name or module.startswith(f"{name}."):
            return instead
    if isinstance(callee, type):
        return "kernels build no objects; keep numbers in `state`"
    if isinstance(callee, ModuleType):
        return "it is a module; call a function of it"
    return "call functions of math, of vecenv.kernel.rng, or your own"
