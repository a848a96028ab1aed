"""Inference: the type of every expression of a program, function by function, before any backend sees it.

A function is typed once per tuple of argument types. Variables have a type at each place: where paths meet, types are
joined, and loops are run until nothing changes. Mistakes with arrays are errors here, with file and line. What only a
backend knows (the result of a native twin) has the type UNKNOWN, about which nothing is said.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from vecenv.errors import KernelError
from vecenv.kernel.language.array_functions import ATTRIBUTES, METHODS, function_of
from vecenv.kernel.language.found import Unsure
from vecenv.kernel.language.queues import QUEUE_METHODS, Queue
from vecenv.kernel.lower import array_draws, array_types, number_types
from vecenv.kernel.lower.list_types import ListTyping
from vecenv.kernel.lower.liveness import live_after, names_read
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref, index_parts
from vecenv.kernel.lower.types import (
    BOOL,
    FLOAT,
    INT,
    NOTHING,
    STREAM,
    UNKNOWN,
    UNSURE,
    Array,
    Bound,
    Conflict,
    Items,
    Iterator,
    Number,
    Size,
    Tuple,
    Type,
    join,
    most,
    number_of,
    plain,
    promoted_dtypes,
    wide,
)

Names = dict[str, Type]
_INT_OF_MATH = frozenset({"floor", "ceil", "trunc", "gcd"})
_BOOL_OF_MATH = frozenset({"isfinite", "isinf", "isnan"})
_RESULTS_OF_TWINS: dict[Any, Type] = {"None": NOTHING, "int": INT, "float": FLOAT, "bool": BOOL}


@dataclass(eq=False)
class Instance:
    """A function for one tuple of argument types.

    Attributes:
        function: as it was resolved.
        arguments: types of its parameters that have no role.
        types: of its expressions, by the identity of their nodes.
        stored: every type that a variable is assigned, in the order in which they are first seen.
        result: what it returns.
        sites: numbers of the places where arrays come into being, by the identity of their nodes.
        calls: the instances of the helpers that it calls, by the identity of the calls.
        lists: what its variables are that hold lists or queues.
    """

    function: Function
    arguments: tuple[Type, ...]
    types: dict[int, Type] = field(default_factory=dict)
    stored: dict[str, list[Type]] = field(default_factory=dict)
    result: Type | None = None
    sites: dict[int, int] = field(default_factory=dict)
    calls: dict[int, Instance] = field(default_factory=dict)
    lists: dict[str, Items] = field(default_factory=dict)

    def site(self, node: ast.AST) -> str:
        """The origin of an array that comes into being at a node."""
        return f"local:{self.sites.setdefault(id(node), len(self.sites))}"


class Inference:
    """Types of a whole program.

    Args:
        program: resolved.
        shapes: shapes of the parameters that are arrays.
    """

    def __init__(self, program: Program, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.program, self.shapes = program, shapes
        self.functions = {function.name: function for function in program.functions}
        self.instances: dict[tuple[str, tuple[Type, ...]], Instance] = {}
        """In the order in which they are needed: helpers before their callers."""

    def run(self) -> dict[str, Instance]:
        """Type everything that the methods of the kernel call; return the methods' own instances by name.

        Raises KernelError for all mistakes of the program, those that were found before this stage too.
        """
        methods = {name: self.instance(function, ()) for name, function in self.program.methods.items()}
        self.program.found.raise_all()
        return methods

    def instance(self, function: Function, arguments: tuple[Type, ...]) -> Instance:
        """A function for these types of the parameters that have no role."""
        key = (function.name, arguments)
        if key not in self.instances:
            instance = Instance(function, arguments)
            _Typing(self, instance).run()
            self.instances[key] = instance
        return self.instances[key]

    def helper_instance(self, function: Function, plain: tuple[Type, ...], known: tuple[Type, ...]) -> Instance:
        """A helper for types of its arguments, with the values of ints that are `known` if it needs those."""
        found, before, errors = self.program.found, dict(self.instances), self.program.found.noted()
        instance = self.instance(function, plain)
        if known == plain or found.noted() == errors:
            return instance
        self.instances = before
        found.forget(errors)
        return self.instance(function, known)


class _Typing(ListTyping):
    """Types one function."""

    def __init__(self, inference: Inference, instance: Instance) -> None:
        self.inference, self.program, self.instance = inference, inference.program, instance
        self.function = instance.function
        self._statement: ast.stmt | None = None
        self._assigned_to = "it"
        """The field that the statement assigns, for messages."""
        self.names: Names | None = self._parameters()
        """Types of the variables at the current place; None where no path leads."""
        self._leaving: list[tuple[list[Names], list[Names]]] = []
        """Of each loop around: names at its breaks and at its continues."""
        self._overwritten: list[tuple[ast.stmt, str, str]] = []
        """Statements that make an array anew, the variable, and another one that may hold the array made before."""
        self._unclear: dict[str, ast.AST] = {}
        """Lists that get values of a type that is not known yet."""

    def run(self) -> None:
        found, instances = self.program.found, dict(self.inference.instances)
        errors = found.noted()
        known: dict[str, Items] = {}
        self._run_once()
        with found.noting():
            while self.instance.lists:
                self.bound_lists()
                if self.instance.lists == known:
                    break
                self.check_growth(known)
                known = dict(self.instance.lists)
                found.forget(errors)  # what is a mistake is found again
                self.inference.instances = dict(instances)
                self.instance.types.clear()
                self.instance.stored.clear()
                self.instance.result, self._overwritten, self.names = None, [], self._parameters()
                self._run_once()

    def _run_once(self) -> None:
        self.block(self.function.body)
        if self.names is not None and self.function.method not in ("step", "policy"):
            self._returned(NOTHING)
        self.instance.result = self.instance.result or NOTHING
        with self.program.found.noting():
            self._check_overwritten()

    def _check_overwritten(self) -> None:
        """An array that is made anew in a loop has the memory of the one before: no variable may still need that."""
        if not self._overwritten:
            return
        live = live_after(self.function.body)
        for statement, name, other in self._overwritten:
            assert isinstance(statement, (ast.Assign, ast.For))
            parts = statement.value.elts if isinstance(getattr(statement, "value", None), ast.Tuple) else []  # type: ignore[union-attr]
            if other in live[id(statement)] or sum(other in names_read(part) for part in parts) > 1:
                rule = (
                    f"{other} may be the array that {name} was in the turn before, and this makes {name} anew in its "
                    f"place; keep a copy: {other} = {name}.copy()"
                )
                raise self.fail(statement, rule)

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        place = node if hasattr(node, "lineno") or self._statement is None else self._statement
        return self.program.error(self.function.source, place, rule)

    def _parameters(self) -> Names:
        function = self.function
        roles = {"rng": STREAM, "mask": Array("int8", (self._actions(),), frozenset({"leaf:mask"}))}
        names: Names = {}
        plain_ones = [name for name in function.source.parameters if name not in function.roles]
        for name, role in function.roles.items():
            if role in roles:
                names[name] = roles[role]
        given = list(self.instance.arguments)
        left_out = function.defaults[len(function.defaults) - (len(plain_ones) - len(given)) :] if plain_ones else []
        given += [self.type_of(default) for default in left_out] if len(given) < len(plain_ones) else []
        names |= dict(zip(plain_ones, given, strict=True))
        self.instance.lists |= {name: kind for name, kind in names.items() if isinstance(kind, Items)}
        return names

    def _actions(self) -> int:
        space = self.program.layouts["action"].space
        return int(space.n) if isinstance(space, Discrete) else 0

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.names is None:
                return  # never reached
            self._statement = statement
            try:
                getattr(self, f"_do_{type(statement).__name__}")(statement)
            except KernelError as error:
                self._leave_out(statement, error)

    def _leave_out(self, statement: ast.stmt, error: KernelError) -> None:
        """Note a mistake and go on: nothing is known of what the statement assigns or returns."""
        self.program.found.add(error)
        if isinstance(statement, ast.Return):
            self._returned(UNSURE)
            self.names = None
        elif self.names is not None:
            names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
            self.names |= {name.id: UNSURE for name in names if isinstance(name.ctx, ast.Store)}

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Expr(self, node: ast.Expr) -> None:
        self.type_of(node.value)

    def _do_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        self._assigned_to = f"field {target.name!r}" if isinstance(target, Ref) else "it"
        self._taken = node.value if isinstance(target, ast.Name) else None
        value = self.type_of(node.value)
        owner = self.items(target.value) if isinstance(target, ast.Subscript) else None
        if owner is not None:
            self.type_of(target)
            self.put(node, target.value.id, value)  # type: ignore[attr-defined]  # a name, see `items`
        elif isinstance(target, ast.Tuple):
            self._assign_parts(node, target, value)
        elif isinstance(target, ast.Name):
            if getattr(node, "in_place", False) and isinstance(self._held(target.id), Array):
                self._check_stored(node, self._held(target.id), value)
                return
            self.assign(target.id, value, node.value)
        else:
            held = self.type_of(target)
            if isinstance(held, Array) and value in (UNKNOWN, NOTHING):
                raise self.fail(node, f"an array is assigned {value}; it must be numbers or an array")
            if isinstance(held, Array) or isinstance(value, (Array, Tuple)):
                self._check_stored(node, held, value)
            elif isinstance(target, ast.Subscript) and isinstance(held, Number):
                number_types.check_assigned(self, node, held.dtype, value, "an element")

    def _assign_parts(self, node: ast.Assign, target: ast.Tuple, value: Type) -> None:
        count = len(target.elts)
        number_types.check_several(self, node, value, "several variables are assigned")
        parts: list[Type] = [UNKNOWN] * count
        sources: list[ast.expr] = [node.value] * count
        if isinstance(value, Tuple):
            parts = list(value.items)
            if isinstance(node.value, ast.Tuple):
                sources = node.value.elts
        elif isinstance(value, Array):
            size = value.shape[0]
            parts = [_item(value)] * (size if isinstance(size, int) else count)
        if len(parts) != count:
            raise self.fail(node, f"{count} variables are assigned {len(parts)} values")
        for element, part, source in zip(target.elts, parts, sources, strict=True):
            assert isinstance(element, ast.Name)
            self.assign(element.id, part, element if source is node.value else source)

    def assign(self, name: str, value: Type, source: ast.AST) -> None:
        """A variable gets a value; `source` is where it comes from."""
        assert self.names is not None
        if isinstance(value, Items):
            value = self.named(name, value, source)
        else:
            self.check_no_list(name, source)
        if isinstance(value, Array) and not value.origins:
            origin = self.instance.site(source)
            value = Array(value.dtype, value.shape, frozenset({origin}))
            for other, kind in self.names.items():
                if other != name and isinstance(kind, Array) and origin in kind.origins:
                    assert self._statement is not None
                    self._overwritten.append((self._statement, name, other))
        self.names[name] = value
        seen = self.instance.stored.setdefault(name, [])
        if value not in seen:
            seen.append(value)

    def _held(self, name: str) -> Type:
        assert self.names is not None
        return self.names.get(name, UNKNOWN)

    def _check_stored(self, node: ast.AST, held: Type, value: Type) -> None:
        array_types.check_stored(self, node, held, value)

    def _do_Return(self, node: ast.Return) -> None:
        held = None if node.value is None else self.items(node.value)
        if held is not None:
            self._returned(held)
        elif node.value is not None:
            self._returned(self._with_memory(node.value, self.type_of(node.value)))
        else:
            self._returned(NOTHING)
        self.names = None

    def _with_memory(self, node: ast.expr, value: Type) -> Type:
        """A value whose new arrays have the places where they come into being as their origins."""
        if isinstance(value, Array) and not value.origins:
            return Array(value.dtype, value.shape, frozenset({self.instance.site(node)}))
        if isinstance(value, Tuple):
            nodes = node.elts if isinstance(node, ast.Tuple) else [node] * len(value.items)
            return Tuple(tuple(map(self._with_memory, nodes, value.items)))
        return value

    def _returned(self, value: Type) -> None:
        result = self.instance.result
        self.instance.result = plain(value if result is None else join(result, value))

    def _do_If(self, node: ast.If) -> None:
        self._test_of_statement(node.test)
        before = self._copied()
        self.block(node.body)
        after, self.names = self.names, before
        self.block(node.orelse)
        self.names = _joined(after, self.names)

    def test(self, node: ast.expr) -> None:
        """An expression whose truth is asked."""
        if self.items(node) is not None:
            return
        kind = self.type_of(node)
        number_types.check_operand(self, node, kind)
        if isinstance(kind, Tuple):
            raise self.fail(node, f"{kind} are neither true nor false; compare one of them")
        if isinstance(kind, Array) and kind.shape != (1,):
            raise self.fail(node, f"{kind} is neither true nor false; use np.any(...) or np.all(...)")

    def _test_of_statement(self, node: ast.expr) -> None:
        """The condition of a statement; the statement's body is looked at even if the condition is wrong."""
        with self.program.found.noting():
            self.test(node)

    def _do_While(self, node: ast.While) -> None:
        self._loop(node, lambda: self._test_of_statement(node.test))

    def _do_For(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name)
        name, over, item = node.target.id, UNSURE, None
        with self.program.found.noting():
            item = self.looped_over(node)
            if item is None:
                over = self._with_memory(node.iter, self.type_of(node.iter))
                number_types.check_several(self, node, over, "a loop runs over")
                number_types.check_same_kind(self, node, over)
        if item is not None:
            self._loop(node, lambda: None, lambda: self.assign(name, item, node.iter))
            return
        self._loop(node, lambda: None, lambda: self.assign(name, _item(over), node.iter))

    def _loop(
        self, node: ast.While | ast.For, head: Callable[[], None], begin: Callable[[], None] | None = None
    ) -> None:
        while True:
            before = self._copied()
            head()
            tested = self._copied()
            if begin is not None:
                begin()
            self._leaving.append(([], []))
            self.block(node.body)
            breaks, continues = self._leaving.pop()
            after = self.names
            for names in continues:
                after = _joined(after, names)
            again = _joined(before, after)
            if again == before:
                break
            self.names = again
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.names = None if endless else tested
        self.block(node.orelse)
        for names in breaks:
            self.names = _joined(self.names, names)

    def _do_Break(self, node: ast.Break) -> None:
        self._leaving[-1][0].append(self._copied())
        self.names = None

    def _do_Continue(self, node: ast.Continue) -> None:
        self._leaving[-1][1].append(self._copied())
        self.names = None

    def _copied(self) -> Names:
        return dict(self.names or {})

    # --- expressions -------------------------------------------------------------------------------------------------

    def type_of(self, node: ast.AST) -> Type:
        """The type of an expression, which is noted."""
        found: Type = getattr(self, f"_type_{type(node).__name__}", self._unknown)(node)
        self.instance.types[id(node)] = found
        return found

    def _unknown(self, node: ast.AST) -> Type:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.type_of(child)
        return UNKNOWN

    def _type_Constant(self, node: ast.Constant) -> Type:
        return type_of_value(node.value)

    def _type_Name(self, node: ast.Name) -> Type:
        found = self._held(node.id)
        if found == UNSURE:
            raise Unsure("see another line")
        if isinstance(found, Items):
            raise self.refused_use(node, found)
        if isinstance(found, Conflict):
            name = "this" if node.id.endswith("__") else node.id
            raise self.fail(node, f"{name} is {found}; use two variables")
        return found

    def _type_Ref(self, node: Ref) -> Type:
        if node.kind is Kind.FIELD:
            kept = self.program.kernel.state[node.name]
            if kept.shape:
                return Array(kept.dtype.name, kept.shape, frozenset({f"field:{node.name}"}))
            return Number(kept.dtype.name)
        if node.kind is Kind.PARAMETER:
            kept = self.program.kernel.params[node.name]
            if kept.shape:
                return Array(kept.dtype.name, self.inference.shapes[node.name], frozenset({f"params:{node.name}"}))
            return Number(promoted_dtypes(kept.dtype.name))
        if node.kind is Kind.LEAF:
            leaf = self.program.layouts[node.name].leaves[node.index]
            if leaf.shape or node.name == "obs" or self.function.method == "policy":
                return Array(leaf.dtype.name, leaf.shape or (1,), frozenset({f"leaf:{node.name}:{node.index}"}))
            return Number(promoted_dtypes(leaf.dtype.name))
        if node.kind is Kind.CONSTANT:
            return type_of_value(self.program.constants[node.name])
        return UNKNOWN

    def _type_Tuple(self, node: ast.Tuple | ast.List) -> Type:
        return Tuple(tuple(map(self.type_of, node.elts)))

    _type_List = _type_Tuple

    def _type_IfExp(self, node: ast.IfExp) -> Type:
        self.test(node.test)
        return self._either(node, [node.body, node.orelse])

    def _type_BoolOp(self, node: ast.BoolOp) -> Type:
        for operand in node.values:
            self.test(operand)
        return self._either(node, node.values)

    def _either(self, node: ast.AST, operands: Sequence[ast.expr]) -> Type:
        """One of several values."""
        found: Type | None = None
        for operand in operands:
            is_list = isinstance(node, ast.BoolOp) and self.items(operand) is not None
            kind = BOOL if is_list else self.type_of(operand)
            found = join(found, plain(self._with_memory(operand, kind)))
        if isinstance(found, Conflict):
            raise self.fail(node, f"this is {found}; it must be one of them")
        assert found is not None
        return found

    def _type_UnaryOp(self, node: ast.UnaryOp) -> Type:
        if isinstance(node.op, ast.Not) and self.items(node.operand) is not None:
            return BOOL
        operand = self.type_of(node.operand)
        if isinstance(node.op, ast.Not):
            self.test(node.operand)
            return BOOL
        if isinstance(operand, Array):
            return array_types.of_unary(self, node, operand)
        if isinstance(node.op, ast.Invert) and operand != INT and plain(operand) != INT:
            raise self.fail(node, "~ of a bool is a number in Python; write not x, or -x - 1")
        number_types.check_numbers(self, node, [operand])
        if not isinstance(operand, Number):
            return UNKNOWN
        if isinstance(node.op, ast.USub) and operand.value is not None:
            return Number("int64", -operand.value)
        return INT if operand.dtype == "bool" else plain(operand)

    def _type_BinOp(self, node: ast.BinOp) -> Type:
        left, right = self.type_of(node.left), self.type_of(node.right)
        if isinstance(left, Array) or isinstance(right, Array):
            return array_types.of_binary(self, node, left, right)
        number_types.check_numbers(self, node, [left, right])
        if not isinstance(left, Number) or not isinstance(right, Number):
            return UNKNOWN
        return _of_numbers(node.op, left, right)

    def _type_Compare(self, node: ast.Compare) -> Type:
        if self.contained(node):
            return BOOL
        self.check_chain(node)
        operands = [self.type_of(operand) for operand in (node.left, *node.comparators)]
        if any(isinstance(operand, Array) for operand in operands):
            return array_types.of_compare(self, node, operands)
        for operand in operands:
            number_types.check_operand(self, node, operand)
        if not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            number_types.check_compared(self, node, operands)
        return BOOL

    def _type_Subscript(self, node: ast.Subscript) -> Type:
        held = self.items(node.value)
        owner = self.type_of(node.value) if held is None else held
        nodes = index_parts(node.slice)
        parts = [self._type_of_index(part) for part in nodes]
        if held is not None:
            return self.item_type(node, held, parts)
        if isinstance(owner, Array):
            if not isinstance(node.slice, ast.Tuple) and isinstance(parts[0], Tuple):  # x[place] of a tuple is x[y, x]
                parts = list(parts[0].items)
                nodes = nodes * len(parts)
            return array_types.of_subscript(self, node, owner, nodes, parts)
        number_types.check_several(self, node, owner, "an index is used on")
        if not isinstance(owner, Tuple):
            return UNKNOWN
        if isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            bounds = [None if end is None else self.constant(end) for end in ends]
            if any(end is not None and bound is None for end, bound in zip(ends, bounds, strict=True)):
                raise self.fail(node, "a part of a tuple needs bounds that are constants; write a for loop")
            return Tuple(owner.items[slice(*bounds)])
        place = number_types.place_in_tuple(self, node, owner, parts)
        if place is not None:
            return owner.items[place]
        found: Type | None = None
        for item in owner.items:
            found = join(found, plain(item))
        return UNKNOWN if found is None or isinstance(found, Conflict) else found

    def _type_of_index(self, part: ast.expr) -> Type:
        if not isinstance(part, ast.Slice):
            return self.type_of(part)
        for bound in (part.lower, part.upper, part.step):
            if bound is not None:
                number_types.check_bound(self, bound, self.type_of(bound))
        return UNKNOWN

    def size_of_slice(self, part: ast.Slice, size: Size) -> Size:
        """How many elements a slice takes of an axis."""
        known = [None if bound is None else self.constant(bound) for bound in (part.lower, part.upper, part.step)]
        missing = [
            value is None and bound is not None
            for value, bound in zip(known, (part.lower, part.upper, part.step), strict=True)
        ]
        if not any(missing) and isinstance(size, int):
            return len(range(*slice(*known).indices(size)))
        if part.lower is None and part.upper is None and not missing[2] and abs(known[2] or 1) == 1:
            return size
        return Bound(min(most(size), _length_of(part, most(size))))

    def constant(self, node: ast.expr) -> int | None:
        """The value of an int that is the same whenever the code runs."""
        found = self.instance.types.get(id(node))
        found = self.type_of(node) if found is None else found
        return found.value if isinstance(found, Number) else None

    def _type_Attribute(self, node: ast.Attribute) -> Type:
        owner = self.type_of(node.value)
        if isinstance(owner, (Number, Tuple)) or owner in (NOTHING, STREAM):
            raise self.fail(node, f"this asks {owner} for its {node.attr!r}; only arrays have {', '.join(ATTRIBUTES)}")
        if not isinstance(owner, Array):
            return UNKNOWN
        if node.attr not in ATTRIBUTES:
            rule = f"arrays have no {node.attr!r} in kernels; they have {', '.join(ATTRIBUTES)}"
            raise self.fail(node, rule)
        if node.attr == "T":
            return Array(owner.dtype, owner.shape[::-1], owner.origins)
        if node.attr == "shape":
            return Tuple(tuple(map(number_of, owner.shape)))
        if node.attr == "ndim":
            return Number("int64", len(owner.shape))
        size = int(np.prod([most(size) for size in owner.shape], dtype=np.int64))
        return number_of(size if all(isinstance(size, int) for size in owner.shape) else Bound(size))

    # --- calls -------------------------------------------------------------------------------------------------------

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
            items = tuple(map(_item, over))
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


def _item(over: Type) -> Type:
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


def _joined(one: Names | None, other: Names | None) -> Names | None:
    if one is None or other is None:
        return one if other is None else other
    return {name: join(one.get(name), other.get(name)) for name in {**one, **other}}


def type_of_value(value: Any) -> Type:
    """The type of a constant."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return Number("int64", value)
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, np.ndarray):
        return Array(value.dtype.name, value.shape, frozenset({"constant"})) if value.ndim else Number(value.dtype.name)
    if isinstance(value, tuple):
        return Tuple(tuple(map(type_of_value, value)))
    return NOTHING if value is None else UNKNOWN


def _of_numbers(operator: ast.operator, left: Number, right: Number) -> Type:
    if left.dtype == right.dtype and left.dtype not in ("bool", "int64", "float64"):
        return Number(left.dtype)  # two numbers that were made narrow: np.float32(x) * np.float32(y)
    floats = "float" in left.dtype or "float" in right.dtype
    if isinstance(operator, ast.Div) or floats:
        return FLOAT
    if left.dtype == right.dtype == "bool" and isinstance(operator, (ast.BitAnd, ast.BitOr, ast.BitXor)):
        return BOOL
    value = None
    if left.value is not None and right.value is not None:
        value = _computed(operator, left.value, right.value)
    return Number("int64", value)


def _computed(operator: ast.operator, left: int, right: int) -> int | None:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.FloorDiv) and right:
        return left // right
    return left % right if isinstance(operator, ast.Mod) and right else None


def _length_of(part: ast.Slice, size: int) -> int:
    """The most that a slice with bounds that are not known takes: of `x[i : i + 3]` three elements."""
    lower, upper = part.lower, part.upper
    if (
        part.step is None
        and lower is not None
        and isinstance(upper, ast.BinOp)
        and isinstance(upper.op, ast.Add)
        and isinstance(upper.right, ast.Constant)
        and isinstance(upper.right.value, int)
        and _same(upper.left, lower)
    ):
        return max(upper.right.value, 0)
    return size


def _same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions are the same variable."""
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and one.id == other.id
