"""Draws as C++: every function of `vecenv.kernel.rng`, of one number and of arrays."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable

from vecenv.kernel import rng as random_numbers
from vecenv.kernel.cpp.elements import Elements
from vecenv.kernel.cpp.values import Value, literal
from vecenv.kernel.lower.types import FLOAT, INT, NOTHING, Array, Number, Tuple, Type, most, plain

_FLOATS: dict[str, tuple[str, ...]] = {
    "random": (),
    "standard_normal": (),
    "standard_exponential": (),
    "uniform": ("low", "high"),
    "normal": ("loc", "scale"),
    "exponential": ("scale",),
}
"""Functions that draw a float, and their arguments, which are floats."""
_INTS: dict[str, tuple[str, ...]] = {"poisson": ("lam",), "geometric": ("p",), "binomial": ("n", "p")}
"""Functions that draw an int, and their arguments: floats but `n`."""


class Draws(Elements):
    """Writes draws."""

    def over_elements(self, part: Value, value: Callable[[list[str]], str], *, backwards: bool = False) -> None:
        raise NotImplementedError

    def draw(self, node: ast.Call, name: str) -> Value:
        given = self._arguments(node, name)
        if name.startswith("fill_") and name != "fill_choice":
            return self._fill(name.removeprefix("fill_"), given)
        if name in ("random", "standard_normal", "standard_exponential") and "out" in given:
            self._fill(name, given)
            return given["out"]
        if name in _FLOATS or name in _INTS or name == "integers":
            return self.temporary(self._drawn(name, given))
        return getattr(self, f"_draw_{name}")(node, given)

    def _arguments(self, node: ast.Call, name: str) -> dict[str, Value]:
        """Arguments by the names of the parameters, without those that are None or left out."""
        signature = inspect.signature(getattr(random_numbers, name))
        keywords = [keyword.value for keyword in node.keywords]
        values = self.several([*node.args[1:], *keywords])
        places = list(signature.parameters)[1 : len(node.args)]
        names = [*places, *(keyword.arg or "" for keyword in node.keywords)]
        found = dict(zip(names, values, strict=True))
        for parameter in signature.parameters.values():
            default = parameter.default
            if parameter.name not in found and isinstance(default, (bool, int, float)):
                found[parameter.name] = literal(default)
        return {key: value for key, value in found.items() if value.kind != NOTHING}

    def _drawn(self, name: str, given: dict[str, Value]) -> Value:
        """One number, to be drawn where the text stands."""
        if name == "integers":
            return self._integer(given)
        names = _FLOATS.get(name) or _INTS.get(name) or ()
        texts = [self.cast(given[key], INT if key == "n" else FLOAT).text for key in names]
        return Value(f"R::{name}({', '.join(['r.rng', *texts])})", FLOAT if name in _FLOATS else INT)

    def _integer(self, given: dict[str, Value]) -> Value:
        low, high = (given["low"], given["high"]) if "high" in given else (literal(0), given["low"])
        first, last = self.cast(low, INT).text, self.cast(high, INT).text
        endpoint = given.get("endpoint", literal(False)).text
        last = last if endpoint == "false" else f"U::add_i({last}, ({endpoint} ? 1 : 0))"
        return Value(f"R::between(r.rng, {first}, {last})", INT)

    def _fill(self, name: str, given: dict[str, Value]) -> Value:
        """Every element of an array gets a number of its own."""
        out = self._kept(given["out"])
        kept = {key: self._kept(value) for key, value in given.items() if key != "out"}
        self.over_elements(out, lambda places: self.cast(self._drawn(name, kept), self._element(out)).text)
        return Value("", NOTHING)

    def _kept(self, value: Value) -> Value:
        return value if value.is_simple else self.temporary(value)

    def _element(self, array: Value) -> Type:
        assert isinstance(array.kind, Array)
        return Number(array.kind.dtype)

    # --- choices -----------------------------------------------------------------------------------------------------

    def _draw_choice(self, node: ast.Call, given: dict[str, Value]) -> Value:
        options, weights = given["options"], self._weights(given, node)
        if isinstance(options.kind, Number):
            return self.temporary(self._place(self._kept(self.cast(options, INT)).text, weights))
        row = self._row(options, node)
        place = self.temporary(self._place(f"{row.text}.n0", weights))
        chosen = self.item(row, place.text)
        known = self.types[id(node)]
        return self.temporary(self.cast(chosen, plain(known)) if isinstance(known, Number) else chosen)

    def _row(self, options: Value, node: ast.Call) -> Value:
        """Options to be picked from by a number; numbers of different types become those of NumPy's array."""
        if isinstance(options.kind, Tuple) and all(isinstance(item, Number) for item in options.kind.items):
            dtypes = {item.dtype for item in options.kind.items}  # type: ignore[union-attr]  # numbers, see above
            kind = FLOAT if any("float" in one for one in dtypes) else INT if dtypes != {"bool"} else Number("bool")
            parts = self.parts_of(options, len(options.kind.items))
            options = self.tuple_of([self.cast(part, kind) for part in parts])
        return self.as_row(options, node)

    def _weights(self, given: dict[str, Value], node: ast.Call) -> Value | None:
        """Weights as a row of floats in memory."""
        if "p" not in given:
            return None
        return self._floats(given["p"], node)

    def _floats(self, weights: Value, node: ast.Call) -> Value:
        if isinstance(weights.kind, Tuple):
            parts = self.parts_of(weights, len(weights.kind.items))
            weights = self.tuple_of([self.cast(part, FLOAT) for part in parts])
        row = self.as_row(weights, node)
        return row if row.dtype == "float64" else self._copied(row, "float64")

    def _copied(self, row: Value, dtype: str) -> Value:
        """The numbers of a row in memory of another type."""
        copy = self._memory(row, dtype)
        self.over_elements(copy, lambda places: self.cast(self.element(row, places), Number(dtype)).text)
        return copy

    def _memory(self, row: Value, dtype: str) -> Value:
        """New memory for as many numbers as a row has."""
        assert isinstance(row.kind, Array)
        (size,), memory = row.kind.shape, self.name("d")
        kind = Array(dtype, (most(size),))
        self.add(f"{self.structs.name(Number(dtype))} {memory}[{max(most(size), 1)}];")
        return self.temporary(self.whole(memory, kind, [f"{row.text}.n0"]))

    def _place(self, count: str, weights: Value | None) -> Value:
        if weights is None:
            return Value(f"R::between(r.rng, 0, {count})", INT)
        row = weights.text
        return Value(f"R::weighted(r.rng, {row}.p, {row}.n0, {row}.s0)", INT)

    def _draw_fill_choice(self, node: ast.Call, given: dict[str, Value]) -> Value:
        out, options, weights = self._kept(given["out"]), given["options"], self._weights(given, node)
        if isinstance(options.kind, Number):
            count = self._kept(self.cast(options, INT)).text
            self.over_elements(out, lambda places: self.cast(self._place(count, weights), self._element(out)).text)
            return Value("", NOTHING)
        row = self._row(options, node)

        def chosen(places: list[str]) -> str:
            return self.cast(self.item(row, self._place(f"{row.text}.n0", weights).text), self._element(out)).text

        self.over_elements(out, chosen)
        return Value("", NOTHING)

    # --- arrays of whole numbers -------------------------------------------------------------------------------------

    def _draw_shuffle(self, node: ast.Call, given: dict[str, Value]) -> Value:
        self._shuffle(self._kept(given["values"]), "R::interval(r.rng, (u64){last})")
        return Value("", NOTHING)

    def _shuffle(self, row: Value, other: str) -> None:
        """Swap every place with one at or below it, from the last on."""
        last, place = self.name("k"), self.name("j")
        self.add(f"for (i64 {last} = {row.text}.n0 - 1; {last} > 0; {last} -= 1) {{")
        self.depth += 1
        self.add(f"const i64 {place} = {other.format(last=last)};")
        assert isinstance(row.kind, Array)
        if len(row.kind.shape) == 1:
            self._swap(row, [place], row, [last])
        else:
            one, two = self.temporary(self.item(row, place)), self.temporary(self.item(row, last))
            self._swap_parts(one, two)
        self.depth -= 1
        self.add("}")

    def _swap_parts(self, one: Value, two: Value) -> None:
        assert isinstance(one.kind, Array)
        places = [self.name("k") for _ in one.kind.shape]
        for axis, place in enumerate(places):
            self.add(f"for (i64 {place} = 0; {place} < {one.text}.n{axis}; {place} += 1) {{")
            self.depth += 1
        self._swap(one, places, two, places)
        for _ in places:
            self.depth -= 1
            self.add("}")

    def _swap(self, one: Value, places: list[str], two: Value, others: list[str]) -> None:
        first, second = self.element(one, places), self.element(two, others)
        kept = self.temporary(first)
        self.add(f"{first.text} = {second.text};")
        self.add(f"{second.text} = {kept.text};")

    def _draw_permutation(self, node: ast.Call, given: dict[str, Value]) -> Value:
        out = self._kept(given["out"])
        self.over_elements(out, lambda places: self.cast(Value(places[0], INT), self._element(out)).text)
        self._shuffle(out, "R::interval(r.rng, (u64){last})")
        return Value("", NOTHING)

    def _draw_multinomial(self, node: ast.Call, given: dict[str, Value]) -> Value:
        out, weights = self._kept(given["out"]), self._floats(given["pvals"], node)
        count, rest, place = (
            self.temporary(self.cast(given["n"], INT)),
            self.temporary(Value("1.0", FLOAT)),
            self.name("k"),
        )
        drawn, element = self.name("t"), self.structs.name(self._element(out))
        self.over_elements(out, lambda places: f"({element})0")
        self.add(f"for (i64 {place} = 0; {place} < {out.text}.n0; {place} += 1) {{")
        self.add(f"  if ({place} == {out.text}.n0 - 1) {{ {out.text}.at({place}) = ({element}){count.text}; break; }}")
        self.add(
            f"  const i64 {drawn} = R::binomial(r.rng, {count.text}, {weights.text}.at({place}) / {rest.text}); "
            f"{out.text}.at({place}) = ({element}){drawn};"
        )
        self.add(f"  {count.text} -= {drawn}; if ({count.text} <= 0) break;")
        self.add(f"  {rest.text} -= {weights.text}.at({place});")
        self.add("}")
        return Value("", NOTHING)

    def _draw_sample(self, node: ast.Call, given: dict[str, Value]) -> Value:
        """Places without replacement, in a row of 64 bits that is copied to the array."""
        out, weights = self._kept(given["out"]), self._weights(given, node)
        assert isinstance(out.kind, Array)
        memory = out if out.dtype == "int64" else self._memory(out, "int64")
        row = f"{memory.text}.p, {memory.text}.s0, {memory.text}.n0"
        if weights is None:
            self.add(f"R::sample(r.rng, {self.cast(given['n'], INT).text}, {row});")
        else:
            p = f"{weights.text}.p, {weights.text}.n0, {weights.text}.s0"
            self.add(f"R::sample_weighted(r.rng, {p}, {row});")
        if memory is not out:
            self.over_elements(out, lambda places: self.cast(self.element(memory, places), self._element(out)).text)
        return Value("", NOTHING)
