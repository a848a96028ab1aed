"""Draws of arrays: a method of `rng` that returns a new array fills a local one.

A call of a `Ref` of kind DRAWN_ARRAY has the stream as its argument, and NumPy's other arguments by their names.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from vecenv.kernel.lower.array_draws import is_sample
from vecenv.kernel.lower.elements import Dim, Elements, Memory, reshaped, set_to, whole
from vecenv.kernel.lower.tree import Kind, local, ref, widened
from vecenv.kernel.lower.types import Array, Number, most
from vecenv.kernel.lower.writing import Writing


class Draws(Writing):
    """Writes draws of arrays."""

    def drawn(self, node: ast.Call, name: str, kind: Array) -> Memory | Elements:
        """`rng.uniform(0.0, 1.0, size=3)`, `rng.permutation(5)`."""
        given = {keyword.arg or "": keyword.value for keyword in node.keywords}
        stream = node.args[0]
        if name == "permutation":
            return self._permuted(stream, given["x"], kind)
        if name == "multinomial":
            trials, weights = (self.kept(self._operand(given[key])) for key in ("n", "pvals"))
            out = self.storage("int64", [most(size) for size in kind.shape])
            self._draw(name, stream, trials, weights, out.base)
            return out
        if name == "choice":
            return self._chosen(stream, given, kind)
        arguments = {key: self.kept(self.value(value)) for key, value in given.items() if key != "size"}
        out = self._new(kind.dtype, given["size"], kind)
        self._draw(f"fill_{name}", stream, out.view(), **arguments)
        return out

    def drawn_part(self, node: ast.Call, name: str, kind: Array) -> Memory | Elements:
        """`rng.choice(rows)`, a row; `rng.random(out=x)`, which is x."""
        if name != "choice":
            keywords = [ast.keyword(keyword.arg, self.value(keyword.value)) for keyword in node.keywords]
            base = self.kept(ast.Call(node.func, node.args, keywords))
            return whole(base, kind.dtype, self.dims_of(base, kind), kind.origins)
        stream, *rest = node.args
        given = dict(zip(("options", "p"), rest, strict=False)) | {one.arg: one.value for one in node.keywords}
        rows = self.in_memory(self.memory_or_elements(given["options"]))
        place = self.name("place")
        chances = [self._operand(given["p"])] if "p" in given else []
        self.emit(set_to(place, self._draw_call("choice", stream, rows.dims[0].size, *chances)))
        return self.settled(self.materialized(self.sliced_at(rows, local(place)).elements()), [(rows, False)])

    def _draw(self, name: str, *arguments: ast.expr, **keywords: ast.expr) -> None:
        self.emit(ast.Expr(self._draw_call(name, *arguments, **keywords)))

    def _draw_call(self, name: str, *arguments: ast.expr, **keywords: ast.expr) -> ast.Call:
        self.program.draws.add(name)
        given = [ast.keyword(key, value) for key, value in keywords.items()]
        return ast.Call(ref(Kind.DRAW, name), list(arguments), given)

    def _operand(self, node: ast.expr) -> ast.expr:
        """A number, a tuple of numbers or an array as an argument."""
        return self.array(node) if self.is_array(node) else self.value(node)

    def _new(self, dtype: str, size: ast.expr, kind: Array) -> Memory:
        """A new array of the size that a draw was given."""
        out = self.storage(dtype, [most(one) for one in kind.shape])
        return self.cut(out, self.sizes(size, kind))

    def _permuted(self, stream: ast.expr, node: ast.expr, kind: Array) -> Memory:
        if isinstance(self.type_of(node), Number):
            out = self._new("int64", node, kind)
            self._draw("permutation", stream, out.view())
            return out
        source = self.elements(node)
        out = self.settled(self.materialized(source), source.reads)
        self._draw("shuffle", stream, out.view())
        return out

    def _chosen(self, stream: ast.expr, given: dict[str, ast.expr], kind: Array) -> Memory | Elements:
        """`rng.choice` with a size: drawn places, and the options there."""
        of_numbers = isinstance(self.type_of(given["a"]), Number)
        options = None if of_numbers else self.in_memory(self.memory_or_elements(given["a"]))
        count = self.kept(self.value(given["a"])) if options is None else options.dims[0].size
        chances = [self._operand(given["p"])] if "p" in given else []
        size_type = self.type_of(given["size"])
        axes = 1 if isinstance(size_type, Number) else len(size_type.items)  # type: ignore[union-attr]  # a tuple
        drawn = Array("int64", kind.shape[:axes])
        if is_sample(given):
            total = int(np.prod([most(size) for size in drawn.shape], dtype=np.int64))
            row = self.storage("int64", [total])
            self._draw("sample", stream, count, row.base, *chances)
            places = reshaped(row.elements(), tuple(Dim(most(size)) for size in drawn.shape))
        else:
            out = self._new("int64", given["size"], drawn)
            self._draw("fill_choice", stream, out.view(), count, *chances)
            places = out.elements()
        if options is None:
            return places
        rest = options.dims[1:]

        def at(indices: Sequence[ast.expr], before: list[ast.stmt]) -> ast.expr:
            place = self.name("place")
            before.append(set_to(place, places.at(indices[:axes], before)))
            return widened(options.element([local(place), *indices[axes:]], ast.Load()))

        dims = (*places.dims, *rest)
        chosen = Elements(kind.dtype, dims, at, ((options, False),))
        return self.settled(self.materialized(chosen), [(options, False)])
