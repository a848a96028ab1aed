"""Reductions: numbers that are computed from many elements, in an order that is the same in Python and in native code.

Floats are added as NumPy adds a contiguous array: fewer than eight one by one, others by the operation `pairwise_sum`.
Along an axis that is not the last, rows are added one after the other. Products of vectors and matrices are added one
by one.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv.kernel.lower import array_types
from vecenv.kernel.lower.elements import (
    At,
    Dim,
    Elements,
    as_dtype,
    compare,
    plus,
    set_to,
)
from vecenv.kernel.lower.formulas import truth
from vecenv.kernel.lower.tree import Kind, local, operation, ref, widened
from vecenv.kernel.lower.types import Array
from vecenv.kernel.lower.writing import Writing


class Reductions(Writing):
    """Writes reductions."""

    def reduced(self, node: ast.expr, name: str, arguments: dict[str, Any]) -> ast.expr:
        """The number that a reduction of a whole array is."""
        if name == "array_equal":
            return self._all_equal(arguments["a1"], arguments["a2"])
        if name in ("dot", "norm"):
            return self._inner_product(node, name, list(arguments.values()))
        source = self.elements(arguments["a"])
        if name == "builtin sum":
            name = "sum"
        return self._folded(name, source.dtype, source.dims, source.at, self.out)

    def reduced_along(self, node: ast.expr, name: str, arguments: dict[str, Any], kind: Array) -> Elements:
        """The array that a reduction along an axis is."""
        if name == "dot":
            return self.product(node, arguments["a"], arguments["b"])
        source = self.elements(arguments["a"])
        axis = array_types.axis_of(self, node, arguments["axis"], len(source.dims))
        assert axis is not None
        rest = (*source.dims[:axis], *source.dims[axis + 1 :])
        is_sum = name in ("sum", "mean") and np.dtype(source.dtype).kind == "f"
        one_by_one = is_sum and any(dim != Dim(1) for dim in source.dims[axis + 1 :])

        def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            def along(places: Sequence[ast.expr], before: list[ast.stmt]) -> ast.expr:
                return source.at([*indices[:axis], places[0], *indices[axis:]], before)

            return self._folded(name, source.dtype, (source.dims[axis],), along, out, one_by_one)

        return Elements(kind.dtype, rest, at, tuple((part, False) for part, _ in source.reads))

    def contains(self, node: ast.Compare) -> ast.expr:
        """`x in array`."""
        wanted = self.kept(self.value(node.left))
        source = self.elements(node.comparators[0])

        def at(indices: Sequence[ast.expr], before: list[ast.stmt]) -> ast.expr:
            return compare(source.at(indices, before), ast.Eq(), wanted)

        found = self._folded("any", "bool", source.dims, at, self.out)
        return ast.UnaryOp(ast.Not(), found) if isinstance(node.ops[0], ast.NotIn) else found

    # --- folding -----------------------------------------------------------------------------------------------------

    def _folded(
        self, name: str, dtype: str, dims: Sequence[Dim], at: At, out: list[ast.stmt], one_by_one: bool = False
    ) -> ast.expr:
        """Write a loop over elements to `out`; return what it computes."""
        is_float = np.dtype(dtype).kind == "f"
        if name == "mean":
            total = self._folded("sum", dtype, dims, at, out, one_by_one)
            mean = ast.BinOp(total, ast.Div(), self.count(dims))
            return as_dtype(dtype, mean) if is_float else mean
        if name == "sum" and is_float:
            return self._float_sum(dtype, dims, at, out, one_by_one)
        if name in ("argmax", "argmin"):
            return self._place_of_extreme(name, is_float, dims, at, out)
        if name in ("max", "min", "builtin max", "builtin min"):
            return self._extreme(name, is_float, dims, at, out)
        result = self.name("value")
        begin: Any = {"any": False, "builtin any": False, "all": True, "builtin all": True}.get(name, 0)
        begin = (1.0 if is_float else 1) if name == "prod" else begin

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            value = at(indices, before)
            return [*before, _step(name, result, value, dtype)]

        out += [set_to(result, ast.Constant(begin)), *self.loop(dims, body)]
        return local(result)

    def _extreme(self, name: str, is_float: bool, dims: Sequence[Dim], at: At, out: list[ast.stmt]) -> ast.expr:
        result = self.name("value")
        out.append(set_to(result, at([ast.Constant(0) for _ in dims], out)))
        is_numpys = not name.startswith("builtin")

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            kept = self.name("value")
            before.append(set_to(kept, at(indices, before)))
            better: ast.expr = compare(local(kept), ast.Gt() if name.endswith("max") else ast.Lt(), local(result))
            if is_float and is_numpys:
                better = ast.BoolOp(ast.Or(), [better, compare(local(kept), ast.NotEq(), local(kept))])
            return [*before, ast.If(better, [set_to(result, local(kept))], [])]

        out += self.loop(dims, body)
        return local(result)

    def _place_of_extreme(
        self, name: str, is_float: bool, dims: Sequence[Dim], at: At, out: list[ast.stmt]
    ) -> ast.expr:
        best, result, place = self.name("value"), self.name("value"), self.name("place")
        out.append(set_to(best, at([ast.Constant(0) for _ in dims], out)))
        out += [set_to(result, ast.Constant(0)), set_to(place, ast.Constant(0))]

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            kept = self.name("value")
            before.append(set_to(kept, at(indices, before)))
            better: ast.expr = compare(local(kept), ast.Gt() if name == "argmax" else ast.Lt(), local(best))
            if is_float:
                first: list[ast.expr] = [
                    compare(local(kept), ast.NotEq(), local(kept)),
                    compare(local(best), ast.Eq(), local(best)),
                ]
                either: list[ast.expr] = [better, ast.BoolOp(ast.And(), first)]
                better = ast.BoolOp(ast.Or(), either)
            found = ast.If(better, [set_to(best, local(kept)), set_to(result, local(place))], [])
            return [*before, found, set_to(place, plus(local(place), ast.Constant(1)))]

        out += self.loop(dims, body)
        return local(result)

    def _float_sum(self, dtype: str, dims: Sequence[Dim], at: At, out: list[ast.stmt], one_by_one: bool) -> ast.expr:
        known = int(np.prod([dim.most for dim in dims], dtype=np.int64))
        small = known < array_types.ADDED_ONE_BY_ONE
        if one_by_one or small:
            result = self.name("value")

            def add(indices: list[ast.expr]) -> list[ast.stmt]:
                before: list[ast.stmt] = []
                value = at(indices, before)
                total = as_dtype(dtype, ast.BinOp(local(result), ast.Add(), value))
                return [*before, set_to(result, total)]

            out += [set_to(result, ast.Constant(0.0)), *self.loop(dims, add)]
            return local(result)
        row = self.storage(dtype, [known])
        place = self.name("place")

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            value = at(indices, before)
            store = ast.Assign([row.element([local(place)], ast.Store())], value)
            return [*before, store, set_to(place, plus(local(place), ast.Constant(1)))]

        out += [set_to(place, ast.Constant(0)), *self.loop(dims, body)]
        result = self.name("value")
        out.append(set_to(result, widened(operation("pairwise_sum", row.base, local(place)))))
        return local(result)

    # --- products ----------------------------------------------------------------------------------------------------

    def product(self, node: ast.expr, left: ast.expr, right: ast.expr) -> Elements:
        """`left @ right`, an array."""
        kind = self.type_of(node)
        assert isinstance(kind, Array)
        one, other = (self.in_memory(self.memory_or_elements(side)) for side in (left, right))
        dims = (*one.dims[:-1], *(other.dims[1:] if len(other.dims) == 2 else ()))
        rows = len(one.dims) - 1

        def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            def of_one(place: ast.expr) -> ast.expr:
                return widened(one.element([*indices[:rows], place], ast.Load()))

            def of_other(place: ast.expr) -> ast.expr:
                return widened(other.element([place, *indices[rows:]], ast.Load()))

            return self._added_products(kind.dtype, one.dims[-1], of_one, of_other, out)

        return Elements(kind.dtype, dims, at, ((one, False), (other, False)))

    def _inner_product(self, node: ast.expr, name: str, operands: Sequence[ast.expr]) -> ast.expr:
        parts = [self.in_memory(self.memory_or_elements(operand)) for operand in operands]
        one, other = parts[0], parts[-1]
        dtype = str(np.result_type(one.dtype, other.dtype))
        if name == "norm" and np.dtype(dtype).kind != "f":
            dtype = "float64"
        total = self._added_products(
            dtype,
            one.dims[0],
            lambda place: widened(one.element([place], ast.Load())),
            lambda place: widened(other.element([place], ast.Load())),
            self.out,
        )
        if name == "dot":
            return total
        return as_dtype(dtype, ast.Call(ref(Kind.MATH, "sqrt"), [total], []))

    def _added_products(self, dtype: str, dim: Dim, one: Any, other: Any, out: list[ast.stmt]) -> ast.expr:
        result = self.name("value")
        begin = 0.0 if np.dtype(dtype).kind == "f" else 0

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            multiplied = as_dtype(dtype, ast.BinOp(one(indices[0]), ast.Mult(), other(indices[0])))
            return [set_to(result, as_dtype(dtype, ast.BinOp(local(result), ast.Add(), multiplied)))]

        out += [set_to(result, ast.Constant(begin)), *self.loop((dim,), body)]
        return local(result)

    def _all_equal(self, one: ast.expr, other: ast.expr) -> ast.expr:
        left, right = self.elements(one), self.elements(other)
        if len(left.dims) != len(right.dims):
            return ast.Constant(False)
        sizes: list[ast.expr] = []
        for mine, its in zip(left.dims, right.dims, strict=True):
            if mine.name is None and its.name is None and mine != its:
                return ast.Constant(False)
            if mine != its:
                sizes.append(compare(mine.size, ast.Eq(), its.size))
        result = self.name("value")

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            here = compare(left.at(indices, before), ast.NotEq(), right.at(indices, before))
            return [*before, ast.If(here, [set_to(result, ast.Constant(False))], [])]

        def write() -> None:
            self.emit(*self.loop(left.dims, body))

        if not sizes:
            self.emit(set_to(result, ast.Constant(True)))
            write()
        else:
            test = sizes[0] if len(sizes) == 1 else ast.BoolOp(ast.And(), sizes)
            self.emit(set_to(result, test), ast.If(local(result), self.captured(write), []))
        return local(result)


def _step(name: str, result: str, value: ast.expr, dtype: str) -> ast.stmt:
    """One turn of a loop."""
    kind = name.removeprefix("builtin ")
    if kind in ("any", "all"):
        test = truth(value, dtype)
        test = test if kind == "any" else ast.UnaryOp(ast.Not(), test)
        return ast.If(test, [set_to(result, ast.Constant(kind == "any"))], [])
    if kind == "count_nonzero":
        return ast.If(truth(value, dtype), [set_to(result, plus(local(result), ast.Constant(1)))], [])
    operator: ast.operator = ast.Mult() if kind == "prod" else ast.Add()
    computed = ast.BinOp(local(result), operator, value)
    return set_to(result, as_dtype(dtype, computed) if np.dtype(dtype).kind == "f" else computed)
