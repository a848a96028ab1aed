"""Rules for random numbers: what `rng` has in kernels, what its functions take, what to use instead of others."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np

from vecenv._util.suggest import did_you_mean
from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language.scope import Scope, number, root

_FROM_TABLE = "draw from a table that you compute beforehand: rng.choice(VALUES, p=WEIGHTS)"
_ONE_BY_ONE = "draw one by one and count, with rng.random() < p"
INSTEAD = {
    "beta": _FROM_TABLE,
    "bit_generator": "every env has one stream; draw from it",
    "bytes": "use rng.integers(0, 256)",
    "chisquare": "add up squares of rng.standard_normal()",
    "dirichlet": _FROM_TABLE,
    "f": _FROM_TABLE,
    "gamma": "add up rng.exponential(scale) if the shape is a whole number",
    "gauss": "use normal(mean, deviation)",
    "gumbel": "use loc - scale * math.log(rng.standard_exponential())",
    "hypergeometric": _ONE_BY_ONE,
    "laplace": "use rng.exponential(scale) with a sign of its own",
    "logistic": "use loc + scale * math.log(u / (1.0 - u)) of u = rng.random()",
    "lognormal": "use math.exp(rng.normal(mean, sigma))",
    "logseries": _FROM_TABLE,
    "multivariate_hypergeometric": _ONE_BY_ONE,
    "multivariate_normal": "multiply a factor of the covariance by numbers of rng.standard_normal()",
    "negative_binomial": "add up rng.geometric(p) - 1",
    "noncentral_chisquare": "add up squares of rng.normal(mean)",
    "noncentral_f": _FROM_TABLE,
    "pareto": "use math.expm1(rng.standard_exponential() / a)",
    "permuted": "use shuffle(rng, array), for one row after the other",
    "power": "use rng.random() ** (1.0 / a)",
    "rand": "use rng.random()",
    "randint": "use rng.integers(low, high)",
    "randn": "use rng.standard_normal()",
    "random_sample": "use rng.random()",
    "rayleigh": "use scale * math.sqrt(2.0 * rng.standard_exponential())",
    "spawn": "every env has one stream; draw from it",
    "standard_cauchy": "use rng.standard_normal() / rng.standard_normal()",
    "standard_gamma": "add up rng.standard_exponential() if the shape is a whole number",
    "standard_t": "divide rng.standard_normal() by the root of a mean of squares of it",
    "triangular": "compute it of u = rng.random()",
    "vonmises": _FROM_TABLE,
    "wald": _FROM_TABLE,
    "weibull": "use rng.standard_exponential() ** (1.0 / a)",
    "zipf": _FROM_TABLE,
}
"""Names of NumPy's `Generator`, and some of others, that kernels do not have, and what to write."""
_SIGNATURES = {name: inspect.signature(eval(f"lambda {takes}: None")) for name, takes in random_numbers.METHODS.items()}
_LISTS = ("options", "p", "pvals")
"""Arguments that may be tuples or lists that are written out."""


def draw_name(scope: Scope, call: ast.Call) -> str | None:
    """The name of the function if a call draws random numbers."""
    if isinstance(call.func, ast.Attribute) and scope.owner(call.func) == "rng":
        return call.func.attr
    callee = scope.source.evaluate(call.func)
    if getattr(callee, "__module__", None) != random_numbers.__name__:
        return None
    return callee.__name__ if callee.__name__ in random_numbers.__all__ else None


def is_draw_argument(scope: Scope, node: ast.expr) -> bool:
    """Whether a list is an argument of a function that draws: it is a constant then, and nothing is built."""
    parent = scope.parent(node)
    call = scope.parent(parent) if isinstance(parent, ast.keyword) else parent
    return isinstance(call, ast.Call) and call.func is not node and draw_name(scope, call) is not None


def check_draw(scope: Scope, node: ast.Call, name: str) -> None:
    """Check `rng.uniform(0.0, 1.0)`."""
    if name not in random_numbers.METHODS:
        if name in random_numbers.IN_PLACE:
            raise scope.fail(node, f"use {_call_of(name)}, which writes into an array of `state`")
        hint = f"; {INSTEAD[name]}" if name in INSTEAD else did_you_mean(name, random_numbers.METHODS)
        raise scope.fail(node, f"rng has no {name!r} in kernels{hint} (there are: {', '.join(random_numbers.METHODS)})")
    text = ast.unparse(node.func)
    try:
        given = method_arguments(node, name)
    except TypeError as error:
        raise scope.fail(node, f"{text}: {error}; in kernels it takes {random_numbers.METHODS[name]}") from None
    for parameter, argument in given.items():
        if parameter == "out" or (name, parameter) == ("shuffle", "x"):
            _check_array(scope, node, name, argument)
        elif parameter in ("a", "p", "pvals", "x"):
            _check_list(scope, node, argument)
        elif parameter != "size" and isinstance(argument, (ast.Tuple, ast.List)):
            raise scope.fail(node, f"{text} is given {ast.unparse(argument)} as {parameter}, which is one number")


def method_arguments(node: ast.Call, name: str) -> dict[str, ast.expr]:
    """The arguments of `rng.name(...)` by their names in NumPy. Raises TypeError."""
    keywords = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    return dict(_SIGNATURES[name].bind(*node.args, **keywords).arguments)


def check_draw_function(scope: Scope, node: ast.Call, name: str) -> None:
    """Check `uniform(rng, 0.0, 1.0)`."""
    if not node.args or not isinstance(node.args[0], ast.Name):
        raise scope.fail(node, f"the first argument of {name} is the stream: {name}(rng, ...)")
    _check_arguments(scope, node, name, node.args[1:])


def _call_of(name: str) -> str:
    """How a function that writes into an array is called."""
    signature = inspect.signature(getattr(random_numbers, name))
    needed = [each.name for each in signature.parameters.values() if each.default is each.empty]
    return f"vecenv.kernel.rng.{name}({', '.join(needed)})"


def _check_arguments(scope: Scope, node: ast.Call, name: str, arguments: list[ast.expr]) -> None:
    text = ast.unparse(node.func)
    keywords = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    signature = inspect.signature(getattr(random_numbers, name))
    try:
        given = signature.bind(None, *arguments, **keywords).arguments
    except TypeError as error:
        raise scope.fail(node, f"{text}: {error}; {_takes(name, signature)}") from None
    array = random_numbers.IN_PLACE.get(name, "out")
    for parameter, argument in given.items():
        if parameter == array:
            _check_array(scope, node, name, argument)
        elif parameter in _LISTS:
            _check_list(scope, node, argument)
        elif isinstance(argument, (ast.Tuple, ast.List)):
            raise scope.fail(node, f"{text} is given {ast.unparse(argument)} as {parameter}, which is one number")


def _takes(name: str, signature: inspect.Signature) -> str:
    """What a function takes, for somebody who gave it something else."""
    parameters = list(signature.parameters.values())[1:]
    taken = [f"{each.name}=" if each.kind is each.KEYWORD_ONLY else each.name for each in parameters]
    takes = ", ".join(taken) or "no argument"
    if name not in random_numbers.NUMBERS:
        return f"it takes {takes}"
    return f"it draws one number and takes {takes}; to fill an array of `state`, use {_call_of(f'fill_{name}')}"


def _check_array(scope: Scope, node: ast.Call, name: str, argument: Any) -> None:
    """An array that is written into: no number, and nothing that is read-only."""
    first, text = root(argument), ast.unparse(argument)
    field = scope.field(first)
    if number(argument) is not None or isinstance(argument, (ast.Tuple, ast.List)) or (field and not field.shape):
        rule = f"{name} writes into an array of `state`: {_call_of(name)}, not {ast.unparse(node)}"
        raise scope.fail(node, rule)
    is_outside = isinstance(first, ast.Name) and first.id not in scope.source.locals
    if scope.owner(first) == "params" or is_outside:
        raise scope.fail(node, f"{name} writes into {text}, which is read-only; keep what changes in `state`")


def _check_list(scope: Scope, node: ast.Call, argument: Any) -> None:
    """Options or their probabilities: a number, or an array that is not empty."""
    text = ast.unparse(argument)
    shape = (len(argument.elts),) if isinstance(argument, (ast.Tuple, ast.List)) else _shape(scope, argument)
    if shape and shape[0] == 0:
        raise scope.fail(node, f"{ast.unparse(node.func)} is given {text}, which is empty")


def _shape(scope: Scope, argument: ast.expr) -> tuple[int, ...] | None:
    """Shape of a field or of a constant, None if it is not known."""
    field = scope.field(argument)
    if field is not None:
        return field.shape
    value = scope.source.evaluate(argument)
    if not isinstance(value, (int, float, tuple, list, np.generic, np.ndarray)):
        return None
    try:
        return np.shape(value)
    except ValueError:  # rows of different lengths
        return None
