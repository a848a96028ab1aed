"""Types of calls: helpers, NumPy's functions, built-ins, methods, draws."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv.kernel.language.array_functions import METHODS, function_of
from vecenv.kernel.language.found import Unsure
from vecenv.kernel.language.queues import QUEUE_METHODS, Queue
from vecenv.kernel.lower import array_draws, array_types, number_types
from vecenv.kernel.lower.expression_types import ExpressionTyping
from vecenv.kernel.lower.program import Function
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.lower.types import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    UNKNOWN,
    UNSURE,
    Array,
    Bound,
    Conflict,
    Items,
    Iterator,
    Number,
    Tuple,
    Type,
    join,
    number_of,
    plain,
    promoted_dtypes,
    wide,
)

_INT_OF_MATH = frozenset({"floor", "ceil", "trunc", "gcd"})
_BOOL_OF_MATH = frozenset({"isfinite", "isinf", "isnan"})
_RESULTS_OF_TWINS: dict[Any, Type] = {"None": NOTHING, "int": INT, "float": FLOAT, "bool": BOOL}


class CallTyping(ExpressionTyping):
    """Types the calls of one function."""

    _assigned_to: str

    def _type_Call(self, node: ast.Call) -> Type:
        function = node.func
        if isinstance(function, ast.Attribute):
            return self._type_of_method(node, function)
        for keyword in node.keywords:
            self.type_of(keyword.value)
        if not isinstance(function, Ref):
            return UNKNOWN
        if function.kind is Kind.HELPER:
            return self._type_of_helper(node, function.name)
        if function.kind is Kind.NUMPY:
            return self._type_of_numpy(node, self.program.constants[function.name])
        if function.kind is Kind.BUILTIN:
            return self._type_of_builtin(node, function.name, self.builtin_arguments(node, function.name))
        chosen = self.type_of_choice(node) if function.kind is Kind.DRAW and function.name == "choice" else None
        if chosen is not None:
            return chosen
        arguments = [self.type_of(argument) for argument in node.args]
        if function.kind is Kind.OPERATION and function.name in ("list", "list_times"):
            return self.type_of_list(node, function.name, arguments)
        if function.kind is Kind.OPERATION:
            return self._type_of_operation(node, function.name, arguments)
        if function.kind is Kind.MATH:
            return self._type_of_math(node, function.name, arguments)
        if function.kind is Kind.DRAWN_ARRAY:
            return array_draws.of_drawn_array(self, node, function.name)
        if function.kind is Kind.DRAW:
            keywords = {keyword.arg or "": self.type_of(keyword.value) for keyword in node.keywords}
            given = number_types.arguments_of_draw(function.name, arguments, keywords)
            number_types.check_draw(self, node, function.name, given)
            return array_draws.of_draw(self, node, function.name)
        if function.kind is Kind.TWIN:
            twin = self.program.twin_functions.get(function.name)
            return _RESULTS_OF_TWINS.get(getattr(twin, "__annotations__", {}).get("return"), UNKNOWN)
        return UNKNOWN

    def _type_of_method(self, node: ast.Call, method: ast.Attribute) -> Type:
        held = self.items(method.value)
        if held is not None:
            return self.type_of_list_method(node, method, held)
        owner = self.type_of(method.value)
        if method.attr in QUEUE_METHODS:
            raise self.no_list_method(node, method, owner)
        if not isinstance(owner, Array):
            if method.attr in METHODS:
                raise self.fail(node, f"{method.attr}() is a method of arrays, and this is {owner}")
            return UNKNOWN
        if method.attr not in METHODS:
            raise self.fail(node, f"arrays have no method {method.attr}() in kernels; there are {', '.join(METHODS)}")
        return array_types.of_call(self, node, METHODS[method.attr], [method.value, *node.args])

    def _type_of_numpy(self, node: ast.Call, callee: Any) -> Type:
        if callee is Queue:
            return self.type_of_queue(node)
        if callee is enumerate or callee is zip:
            over = [self.type_of(argument) for argument in node.args]
            over = over[:1] if callee is enumerate else over
            for one in over:
                number_types.check_several(self, node, one, f"{callee.__name__}() is given")
                number_types.check_same_kind(self, node, one)
            items = tuple(map(item_of, over))
            turns = self.trips(node, callee.__name__, over)
            return Iterator(Tuple((INT, *items) if callee is enumerate else items), turns)
        known = function_of(callee)
        if known is not None:
            return array_types.of_call(self, node, known, node.args)
        arguments = [self.type_of(argument) for argument in node.args]
        if any(isinstance(argument, Array) for argument in arguments):
            raise self.fail(node, array_types.instead_of(callee))
        if isinstance(callee, type) and issubclass(callee, np.generic):
            return Number(np.dtype(callee).name)
        return FLOAT if isinstance(callee, np.ufunc) else UNKNOWN

    def _type_of_operation(self, node: ast.Call, name: str, arguments: list[Type]) -> Type:
        if name == "unsure":
            raise Unsure("see another line")
        if name == "widen":
            return wide(arguments[0])
        if name == "power":
            return self._type_of_power(node, arguments)
        if name == "known_key":
            return arguments[-1]
        if name == "assign":
            self._check_stored(node, arguments[0], arguments[1])
            return NOTHING
        if name in ("as_flag", "as_number"):
            number_types.check_result(self, node, name, arguments[0])
        if name == "as_flag":
            return BOOL
        if isinstance(arguments[0], Array) and name in ("as_number",):
            if all(size == 1 for size in arguments[0].shape):
                return FLOAT
            raise self.fail(node, f"float() of {arguments[0]}; take one element, or use .astype(float)")
        if name == "as_number":
            return FLOAT
        dtype = name.removeprefix("as_")
        if isinstance(arguments[0], Array):
            raise self.fail(node, f"a number is assigned {arguments[0]}; take one element, [0]")
        number_types.check_assigned(self, node, dtype, arguments[0], self._assigned_to)
        return Number(promoted_dtypes(dtype))

    def _type_of_power(self, node: ast.Call, arguments: list[Type]) -> Type:
        base, exponent = arguments
        if isinstance(base, Array) or isinstance(exponent, Array):
            return array_types.of_power(self, node, base, exponent)
        number_types.check_power(self, node, base, exponent)
        if not isinstance(base, Number) or not isinstance(exponent, Number):
            return UNKNOWN
        if "float" in base.dtype or "float" in exponent.dtype:
            return FLOAT
        if base.value is not None and exponent.value is not None and exponent.value >= 0:
            value = base.value**exponent.value
            return Number("int64", value) if abs(value) < 2**63 else INT
        return INT

    def _type_of_builtin(self, node: ast.Call, name: str, arguments: list[Type]) -> Type:
        if name == "range":
            number_types.check_range(self, node, arguments)
            return Iterator(INT, self.trips(node, name, arguments))
        if name == "len":
            return self._type_of_len(node, arguments[0])
        if name in ("int", "bool", "round"):
            for argument in arguments:
                if isinstance(argument, Array) and not all(size == 1 for size in argument.shape):
                    raise self.fail(node, f"{name}() of {argument}; take one element, or use .astype({name})")
            value = arguments[0].value if arguments and isinstance(arguments[0], Number) and name == "int" else None
            return BOOL if name == "bool" else Number("int64", value)
        if any(isinstance(argument, Array) for argument in arguments):
            return array_types.of_builtin(self, node, name, arguments)
        if name in ("any", "all"):
            return BOOL
        if len(arguments) == 1 and isinstance(arguments[0], Tuple):
            arguments = list(arguments[0].items)
        if not all(isinstance(argument, Number) for argument in arguments):
            return UNKNOWN
        found: Type | None = None
        for argument in arguments:
            found = join(found, plain(argument))
        assert found is not None
        if name == "divmod":
            return Tuple((found, found))
        return INT if name in ("abs", "sum") and found == BOOL else found

    def _type_of_len(self, node: ast.Call, argument: Type) -> Type:
        number_types.check_several(self, node, argument, "len() is given")
        if isinstance(argument, Array):
            return number_of(argument.shape[0])
        if isinstance(argument, Items):
            return number_of(Bound(argument.most))
        return Number("int64", len(argument.items)) if isinstance(argument, Tuple) else INT

    def _type_of_math(self, node: ast.Call, name: str, arguments: list[Type]) -> Type:
        for argument in arguments:
            if isinstance(argument, Array):
                raise self.fail(node, f"math.{name} is of one number, and this is {argument}; write a for loop")
        number_types.check_numbers(self, node, arguments)
        if name == "hypot" and len(arguments) not in (2, 3):
            raise self.fail(node, "math.hypot is of two or three numbers in kernels; use np.linalg.norm of an array")
        if name == "frexp":
            return Tuple((FLOAT, INT))
        return INT if name in _INT_OF_MATH else BOOL if name in _BOOL_OF_MATH else FLOAT

    def _type_of_helper(self, node: ast.Call, name: str) -> Type:
        function = self.inference.functions[name]
        given = [
            (argument, self.argument(argument))
            for argument in node.args
            if not (isinstance(argument, Ref) and argument.kind is Kind.ARGUMENT)
            and not _has_role(function, node.args.index(argument))
        ]
        known = [self._with_memory(argument, kind) for argument, kind in given]
        actual = [plain(kind) for kind in known]
        instance = self.inference.helper_instance(function, _canonical(function, actual), _canonical(function, known))
        self.instance.calls[id(node)] = instance
        assert instance.result is not None
        if instance.result == UNSURE:
            raise Unsure("see another line")
        if isinstance(instance.result, Items):
            self._check_taken(node)
        return _as_seen_by_caller(instance.result, actual, instance.arguments)


def _has_role(function: Function, position: int) -> bool:
    parameters = function.source.parameters
    return position < len(parameters) and parameters[position] in function.roles


def _canonical(function: Function, arguments: Sequence[Type]) -> tuple[Type, ...]:
    """Types of arguments as the function sees them: what they are a part of matters only if it can see that otherwise.

    So that a function is not typed anew for every array that it is given.
    """
    seen: dict[str, str] = {}
    roles = set(function.roles.values())
    result: list[Type] = []
    for place, argument in enumerate(arguments):
        if not isinstance(argument, Array):
            result.append(argument)
            continue
        origins: set[str] = set()
        for origin in sorted(argument.origins):
            kind = origin.partition(":")[0]
            visible = kind == "field" and "state" in roles
            visible = visible or (kind == "leaf" and bool(roles & {"obs", "action", "mask"}))
            visible = visible or kind in ("params", "constant")
            origins.add(origin if visible else seen.setdefault(origin, f"argument:{place}"))
        result.append(Array(argument.dtype, argument.shape, frozenset(origins)))
    return tuple(result)


def _as_seen_by_caller(result: Type, actual: Sequence[Type], canonical: Sequence[Type]) -> Type:
    """The result of a helper in which arguments stand for what they are a part of, and local arrays for nothing."""
    if isinstance(result, Tuple):
        return Tuple(tuple(_as_seen_by_caller(item, actual, canonical) for item in result.items))
    if not isinstance(result, Array):
        return result
    meaning: dict[str, set[str]] = {}
    for ours, theirs in zip(actual, canonical, strict=True):
        if isinstance(ours, Array) and isinstance(theirs, Array):
            for origin in theirs.origins:
                meaning.setdefault(origin, set()).update(ours.origins)
    origins: set[str] = set()
    for origin in result.origins:
        if not origin.startswith("local:"):
            origins |= meaning.get(origin, {origin})
    return Array(result.dtype, result.shape, frozenset(origins))


def item_of(over: Type) -> Type:
    """What a for loop over a value gives."""
    if isinstance(over, Iterator):
        return over.item
    if over == UNSURE:
        return UNSURE
    if isinstance(over, Array):
        return over.element if len(over.shape) == 1 else Array(over.dtype, over.shape[1:], over.origins)
    if isinstance(over, Tuple):
        found: Type | None = None
        for item in over.items:
            found = join(found, plain(item))
        return UNKNOWN if found is None or isinstance(found, Conflict) else found
    return UNKNOWN
