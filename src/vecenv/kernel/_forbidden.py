"""What kernels cannot use, and what to say of it: tables for `_rules.py`."""

from __future__ import annotations

import ast
import sys


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALLOCATES = "kernels allocate nothing; declare an array in `state` and write into it"
_LIST = f"a list is built here; {_ALLOCATES}"
_DICT = f"a dict is built here; {_ALLOCATES}"
_SET = f"a set is built here; {_ALLOCATES}"
_ASYNC = "async has no native form; a kernel waits for nothing"
_TRY = "try has no native form; test for the condition instead"

SYNTAX: dict[type[ast.AST], str] = {
    ast.List: _LIST,
    ast.ListComp: _LIST,
    ast.Dict: _DICT,
    ast.DictComp: _DICT,
    ast.Set: _SET,
    ast.SetComp: _SET,
    ast.GeneratorExp: "generator expressions have no native form; write a for loop",
    ast.Lambda: "a lambda has no native form; define a function of the module and call it",
    ast.FunctionDef: "functions cannot be defined inside; define a function of the module and call it",
    ast.AsyncFunctionDef: "functions cannot be defined inside; define a function of the module and call it",
    ast.ClassDef: "classes cannot be defined inside; keep what they would hold in `state`",
    ast.Try: _TRY,
    ast.With: "with has no native form; kernels hold no resources",
    ast.AsyncWith: _ASYNC,
    ast.AsyncFor: _ASYNC,
    ast.Await: _ASYNC,
    ast.Match: "match has no native form; write if and elif",
    ast.Raise: "native code cannot raise; end the episode (terminated), or assert, which the Python env checks",
    ast.Yield: "yield has no native form; return the values",
    ast.YieldFrom: "yield has no native form; return the values",
    ast.Import: "import at the top of the module, not inside",
    ast.ImportFrom: "import at the top of the module, not inside",
    ast.Global: "global variables cannot be changed; keep what changes in `state`",
    ast.Nonlocal: "variables outside cannot be changed; keep what changes in `state`",
    ast.JoinedStr: "an f-string has no native form; keep numbers in `info` and write text where they are read",
    ast.Delete: "del has no native form; fields are there for the whole episode",
    ast.Starred: "* has no native form; write the values out",
}
"""Statements and expressions without a native form."""
if sys.version_info >= (3, 11):
    SYNTAX[ast.TryStar] = _TRY

BUILTINS = _words("abs bool divmod enumerate float int len max min pow range round zip")
"""Functions of Python that native code has."""

BUILTINS_INSTEAD = {
    "print": "put a breakpoint into the Python env (vecenv.make_env)",
    "breakpoint": "put it into the Python env only (vecenv.make_env)",
    "sum": "write a for loop",
    "any": "write a for loop",
    "all": "write a for loop",
    "map": "write a for loop",
    "filter": "write a for loop",
    "sorted": _ALLOCATES,
    "reversed": "count down: range(n - 1, -1, -1)",
    "list": _ALLOCATES,
    "dict": _ALLOCATES,
    "set": _ALLOCATES,
    "tuple": "write the values out",
    "str": "use numbers",
    "repr": "use numbers",
    "getattr": "write the field out",
    "setattr": "write the field out",
    "hasattr": "every field is always there",
    "isinstance": "types are known beforehand",
    "type": "types are known beforehand",
    "super": "call a function of the module",
}

MATH = _words(
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp expm1 fabs floor frexp "
    "gamma gcd hypot isfinite isinf isnan ldexp lgamma log log10 log1p log2 pow radians sin sinh sqrt tan tanh "
    "trunc"
)
"""Functions of `math` that native code has."""

MATH_INSTEAD = {
    "fmod": "use x % y, with care for the sign",
    "remainder": "use x - y * round(x / y)",
    "isclose": "use abs(a - b) < 1e-9",
    "prod": "write a for loop",
    "fsum": "write a for loop",
    "dist": "use math.hypot or math.sqrt",
    "cbrt": "use math.copysign(abs(x) ** (1 / 3), x)",
    "isqrt": "use int(math.sqrt(n))",
    "modf": "use x - math.trunc(x)",
}

NUMPY_ALLOCATES = _words(
    "zeros ones empty full array asarray ascontiguousarray arange linspace logspace zeros_like ones_like empty_like "
    "full_like concatenate stack hstack vstack dstack column_stack append insert delete copy where select meshgrid "
    "eye identity repeat tile roll pad unique sort argsort nonzero flatnonzero argwhere cumsum cumprod diff outer "
    "cross kron fromiter frombuffer broadcast_to atleast_1d atleast_2d"
)
NUMPY_ROUNDS_OTHERWISE = {
    **{name: name for name in _words("exp expm1 log log1p log2 log10 sin cos tan tanh sinh cosh hypot")},
    **{f"arc{name}": f"a{name}" for name in _words("sin cos tan tan2 sinh cosh tanh")},
    **{f"a{name}": f"a{name}" for name in _words("sin cos tan tan2 sinh cosh tanh")},
    "power": "pow",
    "pow": "pow",
}
"""Functions of NumPy that may round otherwise than the C library's, and the functions of `math` to use."""
NUMPY_ADDS_OTHERWISE = _words("sum mean average std var prod dot vdot inner matmul einsum trace nansum")
"""Functions of NumPy that add floats in an order of their own."""

MODULES_INSTEAD = {
    "random": "Python's own generator is not seeded with the env; use rng, for example rng.uniform(0.0, 1.0)",
    "numpy.random": "NumPy's global generator is not seeded with the env; use rng, for example rng.uniform(0.0, 1.0)",
    "secrets": "it is not seeded with the env; use rng",
    "time": "a kernel knows no clock; count steps in `state`",
    "datetime": "a kernel knows no clock; count steps in `state`",
}

METHODS_INSTEAD = {
    "fill": "write {owner}[:] = value",
    "sum": "write a for loop",
    "any": "write a for loop",
    "all": "write a for loop",
    "max": "write a for loop",
    "min": "write a for loop",
    "mean": "write a for loop",
    "argmax": "write a for loop",
    "argmin": "write a for loop",
    "copy": _ALLOCATES,
    "astype": _ALLOCATES,
    "tolist": _ALLOCATES,
    "flatten": _ALLOCATES,
    "append": "arrays keep their shape: keep a count in `state` and write {owner}[count] = value",
    "pop": "arrays keep their shape: keep a count in `state`",
    "item": "write {owner}[0]",
}
"""Methods of arrays, and what to write."""
