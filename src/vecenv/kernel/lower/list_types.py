"""Types of lists and queues: what they hold, and how much at most, found out over the whole function.

A list or a queue has one name. What a name holds is the same at every place of a function: a function with lists is
typed again until nothing changes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel.language.forbidden import METHODS_INSTEAD
from vecenv.kernel.language.queues import LIST_METHODS, QUEUE_METHODS
from vecenv.kernel.lower import array_types
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.lower.types import (
    INT,
    NOTHING,
    UNKNOWN,
    Array,
    Bound,
    Items,
    Iterator,
    Number,
    Tuple,
    Type,
    join,
    most,
    promoted_dtypes,
    wide,
)

if TYPE_CHECKING:
    from vecenv.kernel.lower.infer import Inference
    from vecenv.kernel.lower.instance import Instance

_NEVER = float("-inf")
_PASSES = 10
"""A list that still gets longer after this number of passes has no bound."""
_HAS = "len(), an index, `in`, a for loop and its truth"
_REDUCED = frozenset({"max", "min", "sum", "any", "all"})


class ListTyping:
    """What the inference knows of lists and queues."""

    inference: Inference
    instance: Instance
    _taken: ast.AST | None = None
    """The value of an assignment, which may be a new list."""
    _unclear: dict[str, ast.AST]
    _passes = 0
    """How often the function was typed."""

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        raise NotImplementedError

    def type_of(self, node: ast.AST) -> Type:
        raise NotImplementedError

    def constant(self, node: ast.expr) -> int | None:
        raise NotImplementedError

    def _held(self, name: str) -> Type:
        raise NotImplementedError

    # --- names -------------------------------------------------------------------------------------------------------

    def items(self, node: ast.AST) -> Items | None:
        """The list or queue that a node is, which is noted; None if it is something else."""
        if not isinstance(node, ast.Name) or not isinstance(self._held(node.id), Items):
            return None
        found = self.instance.lists[node.id]
        self.instance.types[id(node)] = found
        return found

    def refused_use(self, node: ast.Name, found: Items) -> KernelError:
        methods = ", ".join(QUEUE_METHODS if found.is_queue else LIST_METHODS)
        return self.fail(node, f"{node.id} is {found}; it has {methods}, {_HAS}, and no second name or other use")

    def named(self, name: str, value: Items, source: ast.AST) -> Items:
        """A variable gets a list or a queue; returns what it holds over the whole function."""
        if not isinstance(source, ast.Call):
            raise self.fail(source, "a list or a queue has one name in native code; use it by that name")
        known = self.instance.lists.get(name)
        if name in self.instance.function.source.parameters:
            raise self.fail(source, f"{name} is an argument; give the new list another name")
        merged = value if known is None else join(known, value)
        if not isinstance(merged, Items):
            raise self.fail(source, f"{name} is {known} on one path and {value} on another; use two variables")
        self.instance.lists[name] = merged
        return merged

    def check_no_list(self, name: str, source: ast.AST) -> None:
        """Raise if a variable that holds a list gets something else."""
        if name in self.instance.lists:
            held = self.instance.lists[name]
            raise self.fail(source, f"{name} is {held} at another place; use two variables")

    # --- what makes them ---------------------------------------------------------------------------------------------

    def type_of_queue(self, node: ast.Call) -> Items:
        """`Queue(int, 100)`."""
        given = dict(zip(("dtype", "capacity"), node.args, strict=False))
        given |= {keyword.arg or "**": keyword.value for keyword in node.keywords}
        if set(given) != {"dtype", "capacity"} or len(node.args) > 2:
            raise self.fail(node, "a queue is made by Queue(dtype, capacity), such as Queue(int, 100)")
        self._check_taken(node)
        capacity = self.constant(given["capacity"])
        if capacity is None or capacity < 1:
            rule = "the capacity of a Queue must be known when the kernel is compiled; use a constant, or x.size"
            raise self.fail(node, rule)
        kind, width = given["dtype"], None
        if isinstance(kind, ast.Tuple) and len(kind.elts) == 2:
            kind, width = kind.elts[0], self.constant(kind.elts[1])
            if width is None or width < 1:
                raise self.fail(node, "items of a Queue are numbers, int, or tuples of numbers, (int, 2)")
        dtype = array_types.dtype_named(self, kind)  # type: ignore[arg-type]  # the inference
        assert dtype is not None
        return Items((dtype,) * (width or 1), width is not None, capacity, is_queue=True)

    def type_of_list(self, node: ast.Call, name: str, given: Sequence[Type]) -> Items:
        """`[a, b]`, and `[a] * n`, whose first argument is n."""
        self._check_taken(node)
        made = Items(None, False, 0, is_queue=False)
        count = 1
        if name == "list_times":
            times = given[0].value if isinstance(given[0], Number) else None
            if times is None or times < 0:
                raise self.fail(node, "the length of a list must be known when the kernel is compiled")
            given, count = given[1:], times
        for value in given:
            made = self._with(node, "the list", made, value) or made
        return replace(made, most=count * len(given))

    def _check_taken(self, node: ast.AST) -> None:
        if self._taken is not node:
            raise self.fail(node, "give the list or queue a name first: items = ...")

    # --- what changes them -------------------------------------------------------------------------------------------

    def type_of_list_method(self, node: ast.Call, method: ast.Attribute, owner: Items) -> Type:
        assert isinstance(method.value, ast.Name)
        name, attribute = method.value.id, method.attr
        there = QUEUE_METHODS if owner.is_queue else LIST_METHODS
        if attribute not in there:
            instead = "; use pop(0), or a Queue" if attribute == "popleft" else f"; there are {', '.join(there)}"
            raise self.fail(node, f"{name} is {owner} and has no {attribute}() in kernels{instead}")
        if node.keywords or len(node.args) != (attribute == "append"):
            first = attribute == "pop" and len(node.args) == 1 and not owner.is_queue
            if not first or self.constant(node.args[0]) not in (0, -1):
                takes = "pop(), or pop(0)" if attribute == "pop" and not owner.is_queue else f"{attribute}()"
                takes = "append(item)" if attribute == "append" else takes
                raise self.fail(node, f"write {name}.{takes}; {ast.unparse(method.value)} has no other form of it")
        if attribute == "append":
            self.put(node, name, self.type_of(node.args[0]))
            return NOTHING
        return NOTHING if attribute == "clear" else owner.item

    def no_list_method(self, node: ast.Call, method: ast.Attribute, owner: Type) -> KernelError:
        """The error for `x.append(...)` where x is no list."""
        text = ast.unparse(method.value) if isinstance(method.value, ast.Name) else "this"
        if isinstance(owner, Array):
            return self.fail(node, METHODS_INSTEAD.get(method.attr, "arrays keep their shape").format(owner=text))
        if isinstance(owner, Tuple):
            return self.fail(node, f"a list that changes is made in a line of its own: {text} = [...]")
        return self.fail(node, f"{method.attr}() is a method of lists and queues, and {text} is {owner}")

    def put(self, node: ast.AST, name: str, value: Type) -> None:
        """A list or a queue gets a value at one of its places."""
        changed = self._with(node, name, self.instance.lists[name], value)
        if changed is None:
            self._unclear[name] = node
        else:
            self._unclear.pop(name, None)
            self.instance.lists[name] = changed

    def _with(self, node: ast.AST, name: str, held: Items, value: Type) -> Items | None:
        """What a list is after it got a value; None if its type is not known yet."""
        numbers = value.items if isinstance(value, Tuple) else (value,)
        if UNKNOWN in numbers:
            return None
        if not all(isinstance(number, Number) for number in numbers) or not numbers:
            raise self.fail(node, f"{name} is given {value}; lists and queues hold numbers, and tuples of numbers")
        is_tuple = isinstance(value, Tuple)
        dtypes = tuple(promoted_dtypes(number.dtype) for number in numbers if isinstance(number, Number))
        if held.dtypes is None:
            return replace(held, dtypes=dtypes, is_tuple=is_tuple)
        if is_tuple != held.is_tuple or len(dtypes) != len(held.dtypes):
            raise self.fail(node, f"{name} is given {value} as an item, and its items are {held.item}")
        if not held.is_queue:
            joined = join(held, replace(held, dtypes=dtypes))
            assert isinstance(joined, Items)
            return joined
        for dtype, its in zip(held.dtypes, dtypes, strict=True):
            kind, given = np.dtype(dtype).kind, np.dtype(its).kind
            if (kind in "iu" and given == "f") or (kind == "b" and given != "b"):
                use = "a comparison" if kind == "b" else "int(...) or //, or a Queue of float"
                raise self.fail(node, f"{name} is a Queue of {dtype} and is given {Number(its)}; use {use}")
        return held

    # --- other uses --------------------------------------------------------------------------------------------------

    def argument(self, node: ast.expr) -> Type:
        """An argument of a helper."""
        held = self.items(node)
        if held is None:
            return self.type_of(node)
        if not held.is_queue:
            assert isinstance(node, ast.Name)
            rule = f"{node.id} is {held}, which cannot be passed on; make it a queue: {self._as_queue(node.id)}"
            raise self.fail(node, rule)
        return held

    def item_type(self, node: ast.Subscript, owner: Items, parts: Sequence[Type]) -> Type:
        """`queue[i]`."""
        assert isinstance(node.value, ast.Name)
        (part,) = parts if len(parts) == 1 else (UNKNOWN,)
        if isinstance(node.slice, (ast.Slice, ast.Tuple)) or not isinstance(part, (Number, type(UNKNOWN))):
            raise self.fail(node, f"{node.value.id} is {owner}; take one item by an int, or write a for loop")
        if isinstance(part, Number) and "float" in part.dtype:
            raise self.fail(node, f"a float is no index of {node.value.id}; use int(...) or //")
        return owner.item

    def contained(self, node: ast.Compare) -> bool:
        """Whether this is `x in queue`."""
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return False
        held = self.items(node.comparators[0])
        if held is None:
            return False
        value = self.type_of(node.left)
        count = len(value.items) if isinstance(value, Tuple) else None
        if UNKNOWN not in (value, held.item) and count != (len(held.dtypes or ()) if held.is_tuple else None):
            raise self.fail(node, f"this looks for {value}, and items are {held.item}")
        return True

    def check_chain(self, node: ast.Compare) -> None:
        """Raise if an item is taken in `a < b < queue.pop()`: Python would not do it if the first part is false."""
        for part in (part for side in node.comparators[1:] for part in ast.walk(side)):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in QUEUE_METHODS:
                raise self.fail(node, "an item is taken within a comparison of three; assign it to a variable first")

    def builtin_arguments(self, node: ast.Call, name: str) -> list[Type]:
        """Types of arguments of a function of Python: `len` and some others take lists."""
        found: list[Type] = []
        for argument in node.args:
            held = self.items(argument) if name in _REDUCED or name == "len" else None
            if held is not None and name != "len":
                found.append(self._as_array(node, f"{name}()", held))
            else:
                found.append(self.type_of(argument) if held is None else held)
        return found

    def type_of_choice(self, node: ast.Call) -> Type | None:
        """`rng.choice(items)` of a list; None if it is of something else."""
        held = self.items(node.args[1]) if len(node.args) > 1 else None
        if held is None:
            return None
        for argument in (*node.args[2:], *(keyword.value for keyword in node.keywords)):
            self.type_of(argument)
        return wide(self._as_array(node, "rng.choice", held).element)

    def _as_array(self, node: ast.AST, what: str, held: Items) -> Array:
        if held.is_queue or held.is_tuple:
            raise self.fail(node, f"{what} of {held} has no native form; write a for loop")
        return Array((held.dtypes or ("int64",))[0], (Bound(held.most),), frozenset({"list"}))

    # --- loops -------------------------------------------------------------------------------------------------------

    def looped_over(self, node: ast.For) -> Type | None:
        """What a loop over a list, or over enumerate(list), gives; None if it is over something else."""
        over, counted = node.iter, False
        if is_enumerate(self.inference.program.constants, over) and len(over.args) == 1:  # type: ignore[attr-defined]
            over, counted = over.args[0], True  # type: ignore[attr-defined]
        held = self.items(over)
        if held is None:
            return None
        assert isinstance(over, ast.Name)
        for statement in node.body:
            for part in ast.walk(statement):
                if _changes(part, over.id):
                    rule = f"{over.id} changes while this loop runs over it; write for i in range(len({over.id}))"
                    raise self.fail(part, rule)
        self.instance.types[id(node.iter)] = held if not counted else Iterator(Tuple((INT, held.item)), held.most)
        return Tuple((INT, held.item)) if counted else held.item

    def trips(self, node: ast.Call, name: str, arguments: Sequence[Type]) -> int | None:
        """How many turns a loop over `range`, `enumerate` or `zip` takes at most."""
        if name != "range":
            known = [turns for turns in map(turns_of, arguments) if turns is not None]
            return min(known, default=None)
        values = [argument.value if isinstance(argument, Number) else None for argument in arguments]
        if None not in values and (len(values) < 3 or values[2]):
            return len(range(*values))  # type: ignore[arg-type]  # ints
        last = arguments[0 if len(arguments) == 1 else 1]
        first = 0 if len(values) == 1 else values[0]
        if len(values) > 2 or first is None or first < 0:
            return None
        return last.most if isinstance(last, Number) else None

    # --- how much they hold ------------------------------------------------------------------------------------------

    def bound_lists(self) -> None:
        """Note how long each list gets at most."""
        for name, held in list(self.instance.lists.items()):
            if held.is_queue:
                continue
            if name in self._unclear and held.dtypes is None:
                raise self.fail(self._unclear[name], "the type of this is unknown; write int(...) or float(...)")
            length = _Length(self, name).of(self.instance.function.body)
            self.instance.lists[name] = replace(held, most=max(int(length.peak(0)), held.most, 1))

    def check_growth(self, before: dict[str, Items]) -> None:
        """Raise if a list gets longer each time that the function is typed: then its length depends on itself."""
        self._passes += 1
        for name, held in self.instance.lists.items():
            if self._passes > _PASSES and name in before and held.most > before[name].most:
                raise self.endless(self.instance.function.source.node, name)

    def endless(self, node: ast.AST, name: str) -> KernelError:
        rule = (
            f"{name} grows in a loop, and native code does not know how many turns that takes; "
            f"from vecenv.kernel import Queue, and make it {self._as_queue(name)}"
        )
        return self.fail(node, rule)

    def _as_queue(self, name: str) -> str:
        held = self.instance.lists[name]
        names = {"float64": "float", "bool": "bool"}
        kinds = [names.get(dtype, "int") for dtype in held.dtypes or ("int64",)]
        kind = "float" if "float" in kinds else kinds[0]
        return f"{name} = Queue({f'({kind}, {len(kinds)})' if held.is_tuple else kind}, capacity)"


def is_enumerate(constants: dict[str, Any], node: ast.AST) -> bool:
    """Whether a node is a call of `enumerate`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, Ref) or node.func.kind is not Kind.NUMPY:
        return False
    return constants[node.func.name] is enumerate


def turns_of(over: Type | None) -> int | None:
    """How many turns a loop over a value takes at most; None if that is not known."""
    if isinstance(over, Array) and over.shape:
        return most(over.shape[0])
    if isinstance(over, Tuple):
        return len(over.items)
    return over.most if isinstance(over, (Items, Iterator)) else None


def _changes(node: ast.AST, name: str) -> bool:
    """Whether a node may change the items of a list: by a method, by a new list, in a helper."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Attribute):
            return isinstance(called.value, ast.Name) and called.value.id == name
        is_helper = isinstance(called, Ref) and called.kind is Kind.HELPER
        return is_helper and any(isinstance(one, ast.Name) and one.id == name for one in node.args)
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


# --- how long a list gets --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Grown:
    """What statements do to a length L: it is at most max(L + more, fixed) after them, and the same with `peak` on the
    way. `more` is -inf where they make the list anew on every path."""

    more: float = 0
    fixed: float = _NEVER
    peak_more: float = 0
    peak_fixed: float = _NEVER

    def peak(self, length: int) -> float:
        return max(length + self.peak_more, self.peak_fixed)

    def then(self, other: _Grown) -> _Grown:
        return _Grown(
            self.more + other.more,
            max(self.fixed + other.more, other.fixed),
            max(self.peak_more, self.more + other.peak_more),
            max(self.peak_fixed, self.fixed + other.peak_more, other.peak_fixed),
        )

    def or_else(self, other: _Grown) -> _Grown:
        return _Grown(
            max(self.more, other.more),
            max(self.fixed, other.fixed),
            max(self.peak_more, other.peak_more),
            max(self.peak_fixed, other.peak_fixed),
        )

    def repeated(self, turns: float) -> _Grown:
        """As often as a loop runs, or less."""
        if not turns:
            return _Grown()
        grown = max(self.more, 0)
        before = grown * (turns - 1) if grown else 0
        return _Grown(
            before + grown,
            self.fixed + before,
            self.peak_more + before,
            max(self.peak_fixed, self.fixed + before + max(self.peak_more, 0)),
        )

    @property
    def on_the_way(self) -> _Grown:
        """What may be left of it at any place."""
        return replace(self, more=self.peak_more, fixed=self.peak_fixed)


class _Length:
    """Follows the length of one list through a function."""

    def __init__(self, typing: ListTyping, name: str) -> None:
        self.typing, self.name = typing, name
        self.types = typing.instance.types

    def of(self, statements: Iterable[ast.AST]) -> _Grown:
        grown = _Grown()
        for statement in statements:
            grown = grown.then(self._of(statement))
        return grown

    def _of(self, node: ast.AST) -> _Grown:
        if isinstance(node, ast.If):
            return self._within(node.test).then(self.of(node.body).or_else(self.of(node.orelse)))
        if isinstance(node, ast.For):
            turns = turns_of(self.types.get(id(node.iter)))
            return self._loop(node, turns, lambda: self.of(node.body)).then(self.of(node.orelse))
        if isinstance(node, ast.While):
            body = self._loop(node, None, lambda: self._within(node.test).then(self.of(node.body)))
            return body.then(self._within(node.test)).then(self.of(node.orelse))
        grown = self._within(node)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == self.name:
            made = self.types.get(id(node.value))
            length = made.most if isinstance(made, Items) else 0
            return grown.then(_Grown(_NEVER, length, 0, length))
        return grown

    def _within(self, node: ast.AST) -> _Grown:
        """What the calls in an expression or a simple statement do."""
        count = sum(map(self._appends, ast.walk(node)))
        return _Grown(count, _NEVER, count, _NEVER)

    def _appends(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "append":
            return False
        return isinstance(node.func.value, ast.Name) and node.func.value.id == self.name

    def _loop(self, node: ast.For | ast.While, turns: int | None, body: Callable[[], _Grown]) -> _Grown:
        grown = body()
        if any(isinstance(part, (ast.Break, ast.Continue)) for part in ast.walk(node)):
            grown = grown.on_the_way
        if turns is None and grown.more > 0:
            raise self.typing.endless(next(part for part in ast.walk(node) if self._appends(part)), self.name)
        return grown.repeated(1 if turns is None else turns)
