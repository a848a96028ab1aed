"""Calls as C++: helpers, operations of the language, functions of Python, `math` and NumPy, and native twins."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vecenv.kernel.cpp.draws import Draws
from vecenv.kernel.cpp.values import NUMBERS, Value, members_of
from vecenv.kernel.language.array_functions import function_of
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.lower.typed import OF_FLOATS, common, parameters_of
from vecenv.kernel.lower.types import BOOL, FLOAT, INT, NOTHING, Array, Number, Tuple, Type, promoted_dtypes, wide

ONE = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "fabs",
    "log",
    "log10",
    "log1p",
    "log2",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
"""Functions of `math` of one float."""
TWO = ("atan2", "copysign", "fmod", "pow")
TO_INT = ("ceil", "floor", "trunc")
TESTS = ("isnan", "isinf", "isfinite")


class Calls(Draws):
    """Writes calls."""

    def of_call(self, node: ast.Call) -> Value:
        function = node.func
        if not isinstance(function, Ref):
            raise self.fail(node, f"the C++ backend has no form of {ast.unparse(node):.40}")
        if function.kind is Kind.HELPER:
            return self._helper(node)
        if function.kind is Kind.DRAW:
            return self.draw(node, function.name)
        if function.kind is Kind.TWIN:
            return self._twin(node, function.name)
        if function.kind is Kind.OPERATION:
            return self._operation(node, function.name)
        if node.keywords:
            raise self.fail(node, "the C++ backend takes arguments of this function by place")
        if function.kind is Kind.MATH:
            return self._math(node, function.name, self.several(node.args))
        if function.kind is Kind.NUMPY:
            return self._numpy(node, self.program.constants[function.name], self.several(node.args))
        return self._builtin(node, function.name, self.several(node.args))

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _helper(self, node: ast.Call) -> Value:
        instance = self.instance.calls[id(node)]
        function = instance.function
        values = [one for one in node.args if not (isinstance(one, Ref) and one.kind is Kind.ARGUMENT)]
        own = [one for one in parameters_of(function) if one.role not in ("state", "params", "obs", "action")]
        passed = [value for value, one in zip(values, own, strict=False) if one.role is None]
        missing = len(instance.arguments) - len(passed)
        defaults = list(function.defaults[len(function.defaults) - missing :]) if missing else []
        given = self.several([*passed, *defaults])
        texts = [self._passed(self.cast(value, kind)) for value, kind in zip(given, instance.arguments, strict=True)]
        text = f"{self.functions.function(instance)}({', '.join(['r', *texts])})"
        result = self.known(node, instance.result or NOTHING)
        if result == NOTHING:
            self.add(f"{text};")
            return Value("", NOTHING)
        value = Value(text, result)
        return self.temporary(value) if self.functions.has_effects(node) else value

    def _passed(self, value: Value) -> str:
        """A value as an argument, see `Structs.parameter`."""
        if not isinstance(value.kind, Array):
            return value.text
        array = value if value.is_simple else self.temporary(value)
        return ", ".join(f"{array.text}.{member}" for member in members_of(value.kind))

    # --- operations of the language ----------------------------------------------------------------------------------

    def _operation(self, node: ast.Call, name: str) -> Value:
        if name == "assign":
            return self._assign(*node.args)
        if name == "power":
            return self._power(node, *self.several(node.args))
        if name == "pairwise_sum":
            values, count = self.several(node.args)
            row, dtype = (values if values.is_simple else self.temporary(values)), values.dtype
            called = f"U::pairwise_{'f' if dtype == 'float32' else 'r'}({row.text}.p, {row.text}.s0, {count.text})"
            return Value(called, Number(dtype))
        if name.startswith("fitting_") or name not in ("widen", "as_number", "as_flag", *OF_FLOATS, *_CONVERSIONS):
            raise self.fail(node, "the C++ backend has no checked code; leave check= out, or use engine='compiled'")
        (value,) = self.several(node.args)
        if name == "widen":
            return value if not isinstance(value.kind, Number) else self.cast(value, wide(value.kind))
        if name == "as_number":
            return self.cast(value, FLOAT)
        if name == "as_flag":
            return self.cast(value, BOOL)
        if name in OF_FLOATS:
            return Value(f"U::{name}_({self.cast(value, FLOAT).text})", FLOAT)
        narrow = Number(name.removeprefix("as_"))
        return self.cast(self.cast(value, narrow), Number(promoted_dtypes(narrow.dtype)))

    def _power(self, node: ast.AST, base: Value, exponent: Value) -> Value:
        whole = "float" not in base.dtype and "float" not in exponent.dtype
        if whole:
            return Value(f"U::pow_i({self.cast(base, INT).text}, {self.cast(exponent, INT).text})", INT)
        if base.dtype == exponent.dtype == "float32":
            return Value(f"((real)U::powf_({base.text}, {exponent.text}))", FLOAT)
        x, y = self.cast(base, FLOAT).text, self.cast(exponent, FLOAT).text
        if exponent.text == "2LL":
            return Value(f"U::squared({x})", FLOAT)
        return Value(f"U::pow_({x}, {y})", FLOAT)

    def _assign(self, target: ast.expr, value: ast.expr) -> Value:
        """`target[...] = value`, element by element; backwards if the target lies behind the value."""
        given = self.temporary(self.expression(value))
        self.assign_part(self.expression(target), given)
        return Value("", NOTHING)

    def assign_part(self, part: Value, given: Value) -> None:
        """Store a number, or an array, into a part of an array."""
        part, given = (one if one.is_simple else self.temporary(one) for one in (part, given))
        source, kind = given.kind, part.kind
        assert isinstance(kind, Array)
        if not isinstance(source, Array):
            self.over_elements(part, lambda places: self.cast(given, Number(kind.dtype)).text)
            return

        def read(places: Sequence[str]) -> str:
            sizes = zip(places, kind.shape, source.shape, strict=True)
            own = [_own_place(place, f"{given.text}.n{axis}", *both) for axis, (place, *both) in enumerate(sizes)]
            return self.cast(self.element(given, own), Number(kind.dtype)).text

        # Two loops, each with a direction that does not vary: compilers turn them into copies of many elements at once.
        self.add(f"if ((u64){part.text}.p > (u64){given.text}.p) {{")
        self.depth += 1
        self.over_elements(part, read, backwards=True)
        self.depth -= 1
        self.add("} else {")
        self.depth += 1
        self.over_elements(part, read)
        self.depth -= 1
        self.add("}")

    def over_elements(self, part: Value, value: Callable[[list[str]], str], *, backwards: bool = False) -> None:
        """Loops that store a value, given the places, into every element of a part."""
        assert isinstance(part.kind, Array)
        places: list[str] = []
        for axis in range(len(part.kind.shape)):
            turn, size = self.name("k"), f"{part.text}.n{axis}"
            first, test, step = (f"{size} - 1", ">= 0", -1) if backwards else ("0", f"< {size}", 1)
            self.add(f"for (i64 {turn} = {first}; {turn} {test}; {turn} += {step}) {{")
            self.depth += 1
            places.append(turn)
        self.add(f"{part.text}.at({', '.join(places)}) = {value(places)};")
        for _ in places:
            self.depth -= 1
            self.add("}")

    # --- native twins ------------------------------------------------------------------------------------------------

    def _twin(self, node: ast.Call, name: str) -> Value:
        """Functions of `vecenv.mujoco.numerics`, the only ones with twins that have C++."""
        values = self.several(node.args)
        if name == "fused":
            return Value(f"U::fused({', '.join(self.cast(value, FLOAT).text for value in values)})", FLOAT)
        if name not in _TERMS:
            raise self.fail(node, f"the C++ backend has no twin of {name}(); use another engine")
        array = values[0] if values[0].is_simple else self.temporary(values[0])
        bounds = [self.temporary(self.cast(value, FLOAT)).text for value in values[1:]]
        return self.cast(self._summed(node, array, _TERMS[name], bounds), FLOAT)

    def _summed(self, node: ast.Call, array: Value, term: str, bounds: list[str]) -> Value:
        """The sum of a term over all elements in NumPy's order; NumPy computes all terms before it adds any."""
        kind = array.kind
        sizes = [size for size in kind.shape if isinstance(size, int)] if isinstance(kind, Array) else []
        if not isinstance(kind, Array) or len(sizes) < len(kind.shape):
            raise self.fail(node, "the C++ backend sums arrays of a known size")
        size, single = math.prod(sizes), kind.dtype == "float32"
        if size == 0:
            return Value("((real)0)", FLOAT)
        terms, turn, number = self.name("x"), self.name("k"), NUMBERS[kind.dtype]
        self.add(f"{number} {terms}[{size}];")
        self.add(f"for (i64 {turn} = 0; {turn} < {size}; {turn} += 1) {{")
        self.add(f"  const {number} x = {array.text}.{f'at({turn})' if len(kind.shape) == 1 else f'p[{turn}]'};")
        self.add(f"  {terms}[{turn}] = {term.format(*(f'({number}){bound}' for bound in bounds))};")
        self.add("}")
        return Value(f"U::pairwise_{'f' if single else 'r'}({terms}, 1, {size})", Number(kind.dtype))

    # --- functions of Python -----------------------------------------------------------------------------------------

    def _math(self, node: ast.Call, name: str, given: list[Value]) -> Value:
        if name == "gcd" and len(given) == 2:
            return Value(f"U::gcd({', '.join(self.cast(value, INT).text for value in given)})", INT)
        texts = [self.cast(value, FLOAT).text for value in given]
        if name in TO_INT and len(texts) == 1:
            return Value(f"U::to_int(U::{name}_({texts[0]}))", INT)
        if name in TESTS and len(texts) == 1:
            return Value(f"U::{name}_({texts[0]})", BOOL)
        if (name in ONE and len(texts) == 1) or (name in TWO and len(texts) == 2):
            return Value(f"U::{name}_({', '.join(texts)})", FLOAT)
        if name == "hypot" and len(texts) in (2, 3):
            return Value(f"U::hypot_({', '.join([*texts, *['(real)0'] * (3 - len(texts))])})", FLOAT)
        if name == "degrees":
            return Value(f"({texts[0]} * ((real){180.0 / math.pi!r}))", FLOAT)
        if name == "radians":
            return Value(f"({texts[0]} * ((real){math.pi / 180.0!r}))", FLOAT)
        raise self.fail(node, f"the C++ backend has no math.{name} of {len(given)} numbers; engine='compiled' runs it")

    def _numpy(self, node: ast.Call, callee: Any, given: list[Value]) -> Value:
        if isinstance(callee, type) and issubclass(callee, (np.number, np.bool_)):
            return self.cast(given[0], Number(np.dtype(callee).name))
        known = function_of(callee)
        name = known.name if known is not None else ""
        if name == "absolute":
            return self._absolute(given[0], self.kind_of(node))
        if name in ("sqrt", *OF_FLOATS):
            return self.cast(Value(f"U::{name}_({self.cast(given[0], FLOAT).text})", FLOAT), self.kind_of(node))
        if name in TESTS:
            return Value(f"U::{name}_({self.cast(given[0], FLOAT).text})", BOOL)
        named = getattr(callee, "__name__", "")
        if named in _OF_MATH and len(given) == 1:
            return Value(f"U::{_OF_MATH[named]}_({self.cast(given[0], FLOAT).text})", FLOAT)
        raise self.fail(node, f"the C++ backend has no np.{named or callee}; use math, or engine='compiled'")

    def _absolute(self, value: Value, kind: Type) -> Value:
        if kind == BOOL:
            return value
        of_floats = isinstance(kind, Number) and "float" in kind.dtype
        wanted = FLOAT if of_floats else INT
        return self.cast(Value(f"U::abs_{'f' if of_floats else 'i'}({self.cast(value, wanted).text})", wanted), kind)

    def _builtin(self, node: ast.Call, name: str, given: list[Value]) -> Value:
        if name == "len":
            return self._length(given[0], node.args[0])
        if name in ("int", "bool"):
            return self.cast(self._number(given[0]), INT if name == "int" else BOOL)
        if name == "round" and len(given) == 1:
            value = self._number(given[0])
            if "float" not in value.dtype:
                return self.cast(value, INT)
            return Value(f"U::to_int(U::rint_({self.cast(value, FLOAT).text}))", INT)
        if name == "abs":
            kind = self.kind_of(node)
            return self._absolute(given[0], kind)
        if name == "divmod":
            return self._divmod(node, given)
        if len(given) == 1 and isinstance(given[0].kind, (Tuple, Array)):
            known = self.types[id(node.args[0])]
            given = self.parts_of(given[0], len(known.items)) if isinstance(known, Tuple) else given
        if name in ("min", "max") and all(isinstance(value.kind, Number) for value in given):
            return self._extreme(node, name, given)
        if name in ("any", "all"):
            tests = [value.text if value.kind == BOOL else f"({value.text} != 0)" for value in given]
            joined = (" || " if name == "any" else " && ").join(tests)
            return Value(f"({joined})" if tests else ("false" if name == "any" else "true"), BOOL)
        if name == "sum":
            return self._sum(node, given)
        raise self.fail(node, f"the C++ backend has no {name}() of {len(given)} values; engine='compiled' runs it")

    def _number(self, value: Value) -> Value:
        """A number, or the one element of an array."""
        if isinstance(value.kind, Array):
            return self.element(value, ["0"] * len(value.kind.shape))
        return value

    def _length(self, value: Value, node: ast.expr) -> Value:
        known = self.types[id(node)]
        if isinstance(known, Tuple):
            return Value(f"{len(known.items)}LL", INT)
        return Value(f"{(value if value.is_simple else self.temporary(value)).text}.n0", INT)

    def _divmod(self, node: ast.Call, given: list[Value]) -> Value:
        kind = self.kind_of(node)
        assert isinstance(kind, Tuple)
        left, right = (self.temporary(value) for value in given)
        wanted = common([left.kind, right.kind])
        wanted = INT if wanted == BOOL else wanted
        parts = [self.operation_on(operator, left, right, wanted) for operator in (ast.FloorDiv, ast.Mod)]
        return self.cast(self.tuple_of(parts), kind)

    def _extreme(self, node: ast.Call, name: str, given: list[Value]) -> Value:
        """The first of the smallest or largest; NaN is neither smaller nor larger than anything."""
        kind = common([value.kind for value in given])
        assert isinstance(kind, Number)
        computed = FLOAT if "float" in kind.dtype else INT
        text = self.cast(given[0], computed).text
        for other in given[1:]:
            letter = "f" if computed == FLOAT else "i"
            text = f"U::{name}_{letter}({text}, {self.cast(other, computed).text})"
        return self.cast(Value(text, computed), self.kind_of(node))

    def _sum(self, node: ast.Call, given: list[Value]) -> Value:
        kind = self.kind_of(node)
        kind = INT if kind == BOOL else kind
        total = Value("0LL", INT)
        for value in given:
            total = self.operation_on(ast.Add, total, value, common([total.kind, value.kind, INT]))
        return self.cast(total, kind)


def _own_place(place: str, length: str, size: object, own: object) -> str:
    """Where an array is read for a place of the target: its only element along an axis stands for all of them."""
    if own == 1:
        return "0"
    return place if isinstance(own, int) and own == size else f"({length} == 1 ? 0 : {place})"


_TERMS = {
    "sum_of": "x",
    "sum_of_squares": "x * x",
    "sum_of_squares_clipped": "(x < {0} ? {0} : x > {1} ? {1} : x) * (x < {0} ? {0} : x > {1} ? {1} : x)",
}
"""What the twins sum: the term of an element x."""
_CONVERSIONS = frozenset(f"as_{dtype}" for dtype in NUMBERS)
_OF_MATH = {
    **{name: name for name in ONE if hasattr(np, name) and name != "fabs"},
    "fabs": "fabs",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
}
"""Functions of NumPy of one number, and the function of the C library that they are."""
