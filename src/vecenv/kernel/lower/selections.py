"""Selections and movers: elements by masks, by arrays of indices, at other places, one array after another."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv.kernel.lower import array_types
from vecenv.kernel.lower.elements import Dim, Elements, Memory, aligned, builtin, compare, moved, plus, reshaped, set_to
from vecenv.kernel.lower.formulas import truth
from vecenv.kernel.lower.tree import local, widened
from vecenv.kernel.lower.types import Array, most
from vecenv.kernel.lower.writing import Writing


class Selections(Writing):
    """Writes selections."""

    # --- by masks and by indices -------------------------------------------------------------------------------------

    def picked(self, node: ast.Subscript) -> Memory | Elements:
        """`x[mask]`, `x[places]`, `x[rows, columns]`."""
        owner = self.memory(node.value)
        parts = self.index_of(node)
        kind = self.type_of(node)
        assert isinstance(kind, Array)
        if self._is_mask(parts):
            return self._by_mask(owner, self.elements(parts[0]), kind)
        places = [self.elements(part) for part in parts]
        dims = self.together([one.dims for one in places])
        places = [aligned(one, dims) for one in places]
        rest, pairs = owner.dims[len(places) :], list(zip(places, owner.dims, strict=False))

        def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            here = [self._from_first(one.at(indices[: len(dims)], out), dim, out) for one, dim in pairs]
            return widened(owner.element([*here, *indices[len(dims) :]], ast.Load()))

        reads = [(owner, False), *(read for one in places for read in one.reads)]
        return Elements(kind.dtype, (*dims, *rest), at, tuple((part, False) for part, _ in reads))

    def _is_mask(self, parts: Sequence[ast.expr]) -> bool:
        kind = array_types.as_array(self, parts[0], self.type_of(parts[0]))
        return kind.dtype == "bool" and isinstance(kind, Array)

    def _from_first(self, place: ast.expr, dim: Dim, out: list[ast.stmt]) -> ast.expr:
        """An index from the first element on, where it is computed."""
        name = self.name("place")
        out.append(set_to(name, place))
        below = compare(local(name), ast.Lt(), ast.Constant(0))
        return ast.IfExp(below, plus(local(name), dim.size), local(name))

    def _by_mask(self, owner: Memory, mask: Elements, kind: Array) -> Memory:
        rest = owner.dims[len(mask.dims) :]
        result = self.storage(kind.dtype, [most(size) for size in kind.shape])
        count = self.name("size")

        def found(indices: list[ast.expr]) -> list[ast.stmt]:
            def copied(more: list[ast.expr]) -> list[ast.stmt]:
                target = result.element([local(count), *more], ast.Store())
                return [ast.Assign([target], widened(owner.element([*indices, *more], ast.Load())))]

            return [*self.loop(rest, copied), set_to(count, plus(local(count), ast.Constant(1)))]

        self.emit(set_to(count, ast.Constant(0)), *self._where(mask, found))
        return self.settled(self.cut(result, (Dim(result.dims[0].most, count), *rest)), [(owner, True), *mask.reads])

    def _where(self, mask: Elements, found: Any) -> list[ast.stmt]:
        """A loop over the places where a mask is true."""

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            test = truth(mask.at(indices, before), mask.dtype)
            return [*before, ast.If(test, found(indices), [])]

        return self.loop(mask.dims, body)

    def store_selected(self, target: ast.Subscript, value: ast.expr) -> None:
        """`x[mask] = value`, `x[places] = value`."""
        source = self.elements(value)
        owner = self.memory(target.value)
        parts = self.index_of(target)
        if any(part.origins & owner.origins for part, _ in source.reads):
            source = self.materialized(source).elements()
        if self._is_mask(parts):
            self._store_by_mask(owner, self.elements(parts[0]), source)
            return
        places = [self.elements(part) for part in parts]
        places = [
            self.materialized(one).elements() if any(part.origins & owner.origins for part, _ in one.reads) else one
            for one in places
        ]
        dims = self.together([one.dims for one in places])
        places = [aligned(one, dims) for one in places]
        full, pairs = (*dims, *owner.dims[len(places) :]), list(zip(places, owner.dims, strict=False))
        given = aligned(source, full)

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            out: list[ast.stmt] = []
            here = [self._from_first(one.at(indices[: len(dims)], out), dim, out) for one, dim in pairs]
            stored = given.at(indices, out)
            return [*out, ast.Assign([owner.element([*here, *indices[len(dims) :]], ast.Store())], stored)]

        self.emit(*self.loop(full, body))

    def _store_by_mask(self, owner: Memory, mask: Elements, source: Elements) -> None:
        if any(
            part.origins & owner.origins and not (is_own and part.is_same_part(owner)) for part, is_own in mask.reads
        ):
            mask = self.materialized(mask).elements()
        rest = owner.dims[len(mask.dims) :]
        count = self.name("place")
        given = aligned(source, (Dim(2**31, count), *rest)) if len(source.dims) <= len(rest) else source
        one = source.dims[0] if len(source.dims) > len(rest) else None

        def found(indices: list[ast.expr]) -> list[ast.stmt]:
            def stored(more: list[ast.expr]) -> list[ast.stmt]:
                out: list[ast.stmt] = []
                place: ast.expr = local(count)
                if one is not None and one.name is not None:
                    place = ast.IfExp(compare(one.size, ast.Eq(), ast.Constant(1)), ast.Constant(0), place)
                elif one == Dim(1):
                    place = ast.Constant(0)
                value = given.at([place, *more], out)
                return [*out, ast.Assign([owner.element([*indices, *more], ast.Store())], value)]

            return [*self.loop(rest, stored), set_to(count, plus(local(count), ast.Constant(1)))]

        self.emit(set_to(count, ast.Constant(0)), *self._where(mask, found))

    # --- places of elements ------------------------------------------------------------------------------------------

    def selected(self, node: ast.expr, name: str, arguments: dict[str, Any]) -> ast.expr:
        """`np.nonzero(x)` and `np.where(x)`: one array of indices per axis."""
        parts = self._nonzero(self.elements(arguments["condition" if name == "where" else "a"]))
        return ast.Tuple([part.view() for part in parts], ast.Load())

    def _nonzero(self, source: Elements) -> list[Memory]:
        total = int(np.prod([dim.most for dim in source.dims], dtype=np.int64))
        results = [self.storage("int64", [total]) for _ in source.dims]
        count = self.name("size")

        def found(indices: list[ast.expr]) -> list[ast.stmt]:
            stores: list[ast.stmt] = [
                ast.Assign([result.element([local(count)], ast.Store())], index)
                for result, index in zip(results, indices, strict=True)
            ]
            return [*stores, set_to(count, plus(local(count), ast.Constant(1)))]

        self.emit(set_to(count, ast.Constant(0)), *self._where(source, found))
        return [self.settled(self.cut(result, (Dim(total, count),)), source.reads) for result in results]

    def selected_array(self, node: ast.expr, name: str, arguments: dict[str, Any], kind: Array) -> Memory:
        """`flatnonzero`, `argwhere` and `concatenate`."""
        if name == "concatenate":
            return self._concatenated(arguments["arrays"], kind)
        source = self.elements(arguments["a"])
        total = most(kind.shape[0])
        result, count, place = (
            self.storage("int64", [most(size) for size in kind.shape]),
            self.name("size"),
            self.name("place"),
        )

        def found(indices: list[ast.expr]) -> list[ast.stmt]:
            values: list[ast.expr] = [local(place)] if name == "flatnonzero" else indices
            stores: list[ast.stmt] = [
                ast.Assign([result.element([local(count), ast.Constant(axis)][: len(kind.shape)], ast.Store())], value)
                for axis, value in enumerate(values)
            ]
            return [*stores, set_to(count, plus(local(count), ast.Constant(1)))]

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            before: list[ast.stmt] = []
            test = truth(source.at(indices, before), source.dtype)
            return [*before, ast.If(test, found(indices), []), set_to(place, plus(local(place), ast.Constant(1)))]

        self.emit(set_to(count, ast.Constant(0)), set_to(place, ast.Constant(0)), *self.loop(source.dims, body))
        return self.settled(self.cut(result, (Dim(total, count), *result.dims[1:])), source.reads)

    def _concatenated(self, node: ast.expr, kind: Array) -> Memory:
        if not isinstance(node, (ast.Tuple, ast.List)):
            raise self.fail(self.place, "np.concatenate needs its arrays written out: np.concatenate((a, b))")
        parts = [self.elements(item) for item in node.elts]
        result = self.storage(kind.dtype, [most(size) for size in kind.shape])
        begin: ast.expr = ast.Constant(0)
        for part in parts:
            place = begin

            def body(indices: list[ast.expr], part: Elements = part, place: ast.expr = place) -> list[ast.stmt]:
                before: list[ast.stmt] = []
                value = part.at(indices, before)
                target = result.element([plus(place, indices[0]), *indices[1:]], ast.Store())
                return [*before, ast.Assign([target], value)]

            self.emit(*self.loop(part.dims, body))
            begin = plus(begin, part.dims[0].size)
        reads = [read for part in parts for read in part.reads]
        if isinstance(begin, ast.Constant):
            return self.settled(result, reads)
        count = self.name("size")
        self.emit(set_to(count, begin))
        return self.settled(self.cut(result, (Dim(result.dims[0].most, count), *result.dims[1:])), reads)

    # --- movers ------------------------------------------------------------------------------------------------------

    def transposed(self, part: Memory | Elements) -> Memory | Elements:
        if isinstance(part, Memory):
            return part.transposed()
        return moved(part, part.dims[::-1], lambda indices, out: part.at(list(indices)[::-1], out))

    def flipped(self, part: Memory | Elements, axis: int) -> Memory | Elements:
        if isinstance(part, Memory):
            return part.flipped(axis)

        def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            last = plus(part.dims[axis].size, ast.Constant(-1))
            return part.at([*indices[:axis], _minus(last, indices[axis]), *indices[axis + 1 :]], out)

        return moved(part, part.dims, at)

    def moved(self, node: ast.expr, name: str, arguments: dict[str, Any], kind: Array) -> Memory | Elements:
        part = self.memory_or_elements(next(iter(arguments.values())))
        count = len(part.dims)
        if name == "transpose":
            return self.transposed(part)
        if name in ("flip", "fliplr", "flipud"):
            axis = array_types.axis_of(self, node, arguments.get("axis"), count) if name == "flip" else None
            axes = [axis] if axis is not None else range(count) if name == "flip" else [int(name == "fliplr")]
            for one in axes:
                part = self.flipped(part, one)
            return part
        elements = part.elements() if isinstance(part, Memory) else part
        if name == "roll":
            return self._rolled(node, elements, arguments)
        if name == "rot90":
            return self._turned(elements, arguments["k"], kind)
        return reshaped(elements, tuple(Dim(most(size)) for size in kind.shape))

    def _rolled(self, node: ast.expr, elements: Elements, arguments: dict[str, Any]) -> Elements:
        axis = array_types.axis_of(self, node, arguments["axis"], len(elements.dims)) or 0
        dim = elements.dims[axis]
        shift = ast.UnaryOp(ast.USub(), self.kept(self.value(arguments["shift"])))
        begin = self.name("place")
        size = dim.size if dim.name is None else builtin("max", dim.size, ast.Constant(1))
        self.emit(set_to(begin, ast.BinOp(shift, ast.Mod(), size)))

        def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            place = self.name("place")
            out.append(set_to(place, plus(indices[axis], local(begin))))
            beyond = compare(local(place), ast.GtE(), dim.size)
            here = ast.IfExp(beyond, _minus(local(place), dim.size), local(place))
            return elements.at([*indices[:axis], here, *indices[axis + 1 :]], out)

        return moved(elements, elements.dims, at)

    def _turned(self, elements: Elements, turns: Any, kind: Array) -> Elements:
        known = self.constant(turns) if isinstance(turns, ast.expr) else turns
        rows, columns = (plus(dim.size, ast.Constant(-1)) for dim in elements.dims)
        if known is None:
            return self._turned_by(elements, self.value(turns), rows, columns)

        def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            i, j = indices
            turned = [
                (i, j),
                (j, _minus(columns, i)),
                (_minus(rows, i), _minus(columns, j)),
                (_minus(rows, j), i),
            ]
            return elements.at(list(turned[known % 4]), out)

        return moved(elements, elements.dims if known % 2 == 0 else elements.dims[::-1], at)

    def _turned_by(self, elements: Elements, turns: ast.expr, rows: ast.expr, columns: ast.expr) -> Elements:
        """A square turned by a variable number of quarters: where element (0, 0) is, and the steps along both axes."""
        turn = self.name("value")
        self.emit(set_to(turn, ast.BinOp(turns, ast.Mod(), ast.Constant(4))))

        def by_turn(*values: ast.expr) -> ast.expr:
            chosen = values[3]
            for number in (2, 1, 0):
                chosen = ast.IfExp(compare(local(turn), ast.Eq(), ast.Constant(number)), values[number], chosen)
            return self.kept(chosen)

        zero, one, back = ast.Constant(0), ast.Constant(1), ast.Constant(-1)
        y, x = by_turn(zero, zero, rows, rows), by_turn(zero, columns, columns, zero)
        straight, aside = by_turn(one, zero, back, zero), by_turn(zero, one, zero, back)

        def at(indices: Sequence[ast.expr], out: list[ast.stmt]) -> ast.expr:
            i, j = indices
            down = plus(plus(y, _product(straight, i)), _product(aside, j))
            right = _minus(plus(x, _product(straight, j)), _product(aside, i))
            return elements.at([down, right], out)

        return moved(elements, elements.dims, at)


def _product(one: ast.expr, other: ast.expr) -> ast.expr:
    return ast.BinOp(one, ast.Mult(), other)


def _minus(one: ast.expr, other: ast.expr) -> ast.expr:
    if isinstance(one, ast.Constant) and isinstance(other, ast.Constant):
        return ast.Constant(one.value - other.value)  # type: ignore[operator]  # ints
    return ast.BinOp(one, ast.Sub(), other)
