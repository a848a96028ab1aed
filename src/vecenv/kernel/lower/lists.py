"""Lists and queues as arrays: one of each number that an item consists of, and one with the places that are in use.

`queue_ends__[0]` is the place of the first item, `queue_ends__[1]` their number. Items of a queue that begins behind
the first place go on at the first place. What Python would raise an error for stays within the arrays: an item too many
is dropped, an item of an empty queue is 0.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from vecenv.kernel.language.queues import Queue
from vecenv.kernel.lower.elements import Dim, Memory, Taken, as_dtype, builtin, compare, plus, set_to
from vecenv.kernel.lower.list_types import is_enumerate
from vecenv.kernel.lower.tree import Kind, Ref, local, operation, part_of_tuple, widened
from vecenv.kernel.lower.types import Array, Items, Tuple
from vecenv.kernel.lower.writing import Writing


class Lists(Writing):
    """Rewrites lists and queues."""

    def is_list(self, node: ast.AST) -> bool:
        return isinstance(self.types.get(id(node)), Items)

    def several(self, nodes: Sequence[ast.expr]) -> list[ast.expr]:
        """Values in Python's order."""
        raise NotImplementedError

    def called_into(self, node: ast.Call, provided: Sequence[ast.expr]) -> ast.expr:
        """A call of a helper that writes what it returns into these arrays."""
        raise NotImplementedError

    # --- memory ------------------------------------------------------------------------------------------------------

    def arrays_of(self, name: str) -> list[ast.expr]:
        """The arrays of a list or a queue: its numbers, and its ends."""
        held = self.instance.lists[name]
        dtypes = held.dtypes or ("int64",)
        arrays = {f"{name}_items{place}__": (dtype, (held.most,)) for place, dtype in enumerate(dtypes)}
        arrays[f"{name}_ends__"] = ("int64", (2,))
        if name not in self.instance.function.source.parameters:
            self.local_arrays |= arrays
        return [local(array) for array in arrays]

    def size(self, name: str) -> ast.expr:
        return ast.Subscript(self.arrays_of(name)[-1], ast.Constant(1), ast.Load())

    def _end(self, name: str, which: int, value: ast.expr) -> ast.stmt:
        return ast.Assign([ast.Subscript(self.arrays_of(name)[-1], ast.Constant(which), ast.Store())], value)

    def _begins_elsewhere(self, name: str) -> bool:
        """Whether the first item may be at another place than the first."""
        if name in self.instance.function.source.parameters:
            return True
        for statement in self.instance.function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and self._takes_first(node, name):
                    return True
        return False

    def _takes_first(self, node: ast.Call, name: str) -> bool:
        function = node.func
        if isinstance(function, ast.Attribute):
            is_own = isinstance(function.value, ast.Name) and function.value.id == name
            return is_own and (function.attr == "popleft" or self._is_first(node))
        is_helper = isinstance(function, Ref) and function.kind is Kind.HELPER
        return is_helper and any(isinstance(one, ast.Name) and one.id == name for one in node.args)

    def _is_first(self, node: ast.Call) -> bool:
        """Whether this is `pop(0)`."""
        assert isinstance(node.func, ast.Attribute)
        return node.func.attr == "pop" and bool(node.args) and self.constant(node.args[0]) == 0

    def _place(self, name: str, index: ast.expr, out: list[ast.stmt]) -> ast.expr:
        """Where the item with an index is; statements that this needs are added to a list."""
        if not self._begins_elsewhere(name):
            return index
        place, most = self.name("place"), ast.Constant(self.instance.lists[name].most)
        begin = ast.Subscript(self.arrays_of(name)[-1], ast.Constant(0), ast.Load())
        out.append(set_to(place, plus(begin, index)))
        beyond = compare(local(place), ast.GtE(), most)
        out.append(set_to(place, ast.IfExp(beyond, ast.BinOp(local(place), ast.Sub(), most), local(place))))
        return local(place)

    def _read(self, name: str, place: ast.expr) -> ast.expr:
        numbers: list[ast.expr] = [
            widened(ast.Subscript(array, place, ast.Load())) for array in self.arrays_of(name)[:-1]
        ]
        return ast.Tuple(numbers, ast.Load()) if self.instance.lists[name].is_tuple else numbers[0]

    def _written(self, name: str, place: ast.expr, numbers: Sequence[ast.expr]) -> list[ast.stmt]:
        dtypes = self.instance.lists[name].dtypes or ("int64",)
        return [
            ast.Assign([ast.Subscript(array, place, ast.Store())], as_dtype(dtype, number))
            for array, dtype, number in zip(self.arrays_of(name)[:-1], dtypes, numbers, strict=True)
        ]

    def _numbers(self, node: ast.expr) -> list[ast.expr]:
        """The numbers that an item consists of."""
        kind = self.type_of(node)
        if not isinstance(kind, Tuple):
            return [self.kept(self.value(node))]
        if isinstance(node, ast.Tuple):
            return [self.kept(number) for number in self.several(node.elts)]
        base = self.kept(self.value(node))
        return [part_of_tuple(base, ast.Constant(place)) for place in range(len(kind.items))]

    # --- statements --------------------------------------------------------------------------------------------------

    def make_list(self, name: str, node: ast.expr) -> None:
        """`name = [...]`, `name = Queue(...)`, or what a helper returned."""
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, Ref)
        if node.func.kind is Kind.HELPER:
            self._take_returned(name, node)
            return
        begun = [self._end(name, 0, ast.Constant(0))] if self._begins_elsewhere(name) else []
        if node.func.kind is Kind.NUMPY:
            assert self.program.constants[node.func.name] is Queue
            self.emit(*begun, self._end(name, 1, ast.Constant(0)))
            return
        times = node.func.name == "list_times"
        items = [self._numbers(item) for item in node.args[times:]]
        count = self.constant(node.args[0]) if times else 1
        assert count is not None

        def body(indices: list[ast.expr]) -> list[ast.stmt]:
            begin = ast.Constant(0) if count == 1 else ast.BinOp(indices[0], ast.Mult(), ast.Constant(len(items)))
            statements: list[ast.stmt] = []
            for place, numbers in enumerate(items):
                statements += self._written(name, plus(begin, ast.Constant(place)), numbers)
            return statements or [ast.Pass()]

        if items and count:
            self.emit(*self.loop([Dim(count)], body))
        self.emit(*begun, self._end(name, 1, ast.Constant(count * len(items))))

    def _take_returned(self, name: str, node: ast.Call) -> None:
        made, held = self.type_of(node), self.instance.lists[name]
        assert isinstance(made, Items)
        if made.dtypes == held.dtypes and not any(map(self.is_list, node.args)):
            self.emit(ast.Expr(self.called_into(node, self.arrays_of(name))))
            return
        shapes = [(dtype, made.most) for dtype in made.dtypes or ("int64",)]
        provided = [self.storage(dtype, [size]).base for dtype, size in (*shapes, ("int64", 2))]
        self.emit(ast.Expr(self.called_into(node, provided)))
        count = ast.Subscript(provided[-1], ast.Constant(1), ast.Load())
        index = self.name("index")
        numbers: list[ast.expr] = [widened(ast.Subscript(array, local(index), ast.Load())) for array in provided[:-1]]
        copied = self._written(name, local(index), numbers)
        self.emit(
            ast.For(local(index, ast.Store()), builtin("range", count), copied, []),
            self._end(name, 0, ast.Constant(0)),
            self._end(name, 1, count),
        )

    def return_list(self, node: ast.expr) -> None:
        """`return name`: what the list holds is written into arrays that the caller provides."""
        assert isinstance(node, ast.Name)
        name, index = node.id, self.name("index")
        arrays = self.arrays_of(name)
        provided = [local(f"result{place}__") for place in range(len(arrays))]
        body: list[ast.stmt] = []
        place = self._place(name, local(index), body)
        for array, result in zip(arrays[:-1], provided[:-1], strict=True):
            value = widened(ast.Subscript(array, place, ast.Load()))
            body.append(ast.Assign([ast.Subscript(result, local(index), ast.Store())], value))
        self.emit(ast.For(local(index, ast.Store()), builtin("range", self.size(name)), body, []))
        for which, value in enumerate((ast.Constant(0), self.size(name))):
            self.emit(ast.Assign([ast.Subscript(provided[-1], ast.Constant(which), ast.Store())], value))
        self.emit(ast.Return(None))

    def store_item(self, target: ast.Subscript, value: ast.expr) -> None:
        """`name[i] = value`."""
        assert isinstance(target.value, ast.Name)
        name, numbers = target.value.id, self._numbers(value)
        place = self._place_of_item(name, target.slice)
        self.emit(*self._written(name, place, numbers))

    def loop_over_items(self, node: ast.For, body: list[ast.stmt]) -> ast.stmt:
        """A loop over a list, or over `enumerate(list)`."""
        over, counted = node.iter, False
        if is_enumerate(self.program.constants, over):
            over, counted = over.args[0], True  # type: ignore[attr-defined]  # a call
        assert isinstance(over, ast.Name)
        index = self.name("index")
        begin: list[ast.stmt] = []
        item = self._read(over.id, self._place(over.id, local(index), begin))
        item = ast.Tuple([local(index), item], ast.Load()) if counted else item
        begin.append(ast.Assign([node.target], item))
        return ast.For(local(index, ast.Store()), builtin("range", self.size(over.id)), [*begin, *body], [])

    # --- expressions -------------------------------------------------------------------------------------------------

    def list_value(self, node: ast.expr) -> ast.expr | None:
        """An expression with a list or a queue; None if it is another."""
        if isinstance(node, ast.Name) and self.is_list(node):  # its truth: all other uses are refused
            return compare(self.size(node.id), ast.NotEq(), ast.Constant(0))
        if isinstance(node, ast.Subscript) and self.is_list(node.value):
            assert isinstance(node.value, ast.Name)
            return self._read(node.value.id, self._place_of_item(node.value.id, node.slice))
        if isinstance(node, ast.Compare) and self.is_list(node.comparators[0]):
            return self._contained(node)
        if not isinstance(node, ast.Call):
            return None
        function = node.func
        if isinstance(function, ast.Attribute) and self.is_list(function.value):
            return self._method(node, function)
        is_len = isinstance(function, Ref) and function.kind is Kind.BUILTIN and function.name == "len"
        if is_len and self.is_list(node.args[0]):
            assert isinstance(node.args[0], ast.Name)
            return self.size(node.args[0].id)
        return None

    def _method(self, node: ast.Call, method: ast.Attribute) -> ast.expr:
        assert isinstance(method.value, ast.Name)
        name = method.value.id
        if method.attr == "clear":
            self.emit(self._end(name, 0, ast.Constant(0)), self._end(name, 1, ast.Constant(0)))
            return ast.Constant(0)
        if method.attr == "append":
            self._append(name, self._numbers(node.args[0]))
            return ast.Constant(0)
        return self._taken(name, is_first=method.attr == "popleft" or self._is_first(node))

    def _append(self, name: str, numbers: Sequence[ast.expr]) -> None:
        held, size = self.instance.lists[name], self.name("size")
        self.emit(set_to(size, self.size(name)))
        stored: list[ast.stmt] = []
        stored += self._written(name, self._place(name, local(size), stored), numbers)
        stored.append(self._end(name, 1, plus(local(size), ast.Constant(1))))
        room = compare(local(size), ast.Lt(), ast.Constant(held.most))
        if held.is_queue:
            self._check(name, "room", local(size), ast.Constant(held.most))
        self.emit(*([ast.If(room, stored, [])] if held.is_queue else stored))

    def _taken(self, name: str, is_first: bool) -> ast.expr:
        """`pop()` and `popleft()`."""
        held, size = self.instance.lists[name], self.name("size")
        dtypes = held.dtypes or ("int64",)
        values = [self.name("value") for _ in dtypes]
        self.emit(set_to(size, self.size(name)))
        self._check(name, "not_empty", local(size))
        for value, dtype in zip(values, dtypes, strict=True):
            zero = {"b": False, "f": 0.0}.get(np.dtype(dtype).kind, 0)
            self.emit(set_to(value, ast.Constant(zero)))
        taken: list[ast.stmt] = []
        fewer = plus(local(size), ast.Constant(-1))
        place = self._place(name, ast.Constant(0) if is_first else fewer, taken)
        for value, array in zip(values, self.arrays_of(name)[:-1], strict=True):
            taken.append(set_to(value, widened(ast.Subscript(array, place, ast.Load()))))
        if is_first:
            begin = plus(place, ast.Constant(1))
            within = compare(begin, ast.Lt(), ast.Constant(held.most))
            taken.append(self._end(name, 0, ast.IfExp(within, begin, ast.Constant(0))))
        taken.append(self._end(name, 1, fewer))
        self.emit(ast.If(compare(local(size), ast.Gt(), ast.Constant(0)), taken, []))
        found: list[ast.expr] = [local(value) for value in values]
        return ast.Tuple(found, ast.Load()) if held.is_tuple else found[0]

    def _place_of_item(self, name: str, index: ast.expr) -> ast.expr:
        """The place of `name[index]`, which is one of the array whatever the index is."""
        last = ast.Constant(self.instance.lists[name].most - 1)
        known = self.constant(index)
        if self.program.checked:
            index = self.typed(self.kept(self.value(index)), self.type_of(index))
            self._check(name, "item", self.size(name), index)
        place: ast.expr
        if known is not None and 0 <= known <= last.value:  # type: ignore[operator]  # ints
            place = ast.Constant(known)
        else:
            given = self.kept(self.value(index))
            below = compare(given, ast.Lt(), ast.Constant(0))
            from_first = ast.IfExp(below, plus(given, self.size(name)), given)
            within = self.name("place")
            self.emit(set_to(within, from_first))
            self.emit(set_to(within, builtin("min", builtin("max", local(within), ast.Constant(0)), last)))
            place = local(within)
        out: list[ast.stmt] = []
        place = self._place(name, place, out)
        self.emit(*out)
        return place

    def _check(self, name: str, check: str, *arguments: ast.expr) -> None:
        """In checked code, look at a list or a queue that the user calls `name`."""
        if self.program.checked:
            call = operation(check, *arguments)
            call.what = name  # type: ignore[attr-defined]  # see checks.py
            self.emit(ast.Expr(call))

    def _contained(self, node: ast.Compare) -> ast.expr:
        """`x in name`."""
        over = node.comparators[0]
        assert isinstance(over, ast.Name)
        numbers, found, index = self._numbers(node.left), self.name("value"), self.name("index")
        body: list[ast.stmt] = []
        place = self._place(over.id, local(index), body)
        same: ast.expr | None = None
        for array, number in zip(self.arrays_of(over.id)[:-1], numbers, strict=True):
            one = compare(widened(ast.Subscript(array, place, ast.Load())), ast.Eq(), number)
            same = one if same is None else ast.BoolOp(ast.And(), [same, one])
        assert same is not None
        body.append(ast.If(same, [set_to(found, ast.Constant(True)), ast.Break()], []))
        self.emit(
            set_to(found, ast.Constant(False)),
            ast.For(local(index, ast.Store()), builtin("range", self.size(over.id)), body, []),
        )
        is_in = isinstance(node.ops[0], ast.In)
        return local(found) if is_in else ast.UnaryOp(ast.Not(), local(found))

    def items_in_memory(self, node: ast.expr) -> Memory:
        """A list of numbers as an array; a list never goes on at its first place."""
        assert isinstance(node, ast.Name)
        held, array = self.instance.lists[node.id], self.arrays_of(node.id)[0]
        size = self.name("size")
        self.emit(set_to(size, self.size(node.id)))
        begin: ast.expr = ast.Constant(0)
        if self._begins_elsewhere(node.id):
            begin = self.kept(ast.Subscript(self.arrays_of(node.id)[-1], ast.Constant(0), ast.Load()))
        dtype = (held.dtypes or ("int64",))[0]
        return Memory(array, dtype, (Taken(begin, 0),), (Dim(held.most, size),), frozenset({"list"}), is_uncut=False)


def arrays_for(held: Items) -> list[Array]:
    """The arrays that a caller provides for a list or a queue that a function returns."""
    return [*(Array(dtype, (held.most,)) for dtype in held.dtypes or ("int64",)), Array("int64", (2,))]
