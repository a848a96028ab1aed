"""Inference: the type of every expression of a program, function by function, before any backend sees it.

A function is typed once per tuple of argument types. Variables have a type at each place: where paths meet, types are
joined, and loops are run until nothing changes. Mistakes with arrays are errors here, with file and line. What only a
backend knows (the result of a native twin) has the type UNKNOWN, about which nothing is said.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gymnasium.spaces import Discrete

from vecenv.errors import KernelError
from vecenv.kernel.lower import number_types
from vecenv.kernel.lower.call_types import CallTyping, item_of
from vecenv.kernel.lower.instance import Instance, Names
from vecenv.kernel.lower.liveness import live_after, names_read
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Ref
from vecenv.kernel.lower.types import (
    NOTHING,
    STREAM,
    UNKNOWN,
    UNSURE,
    Array,
    Items,
    Number,
    Tuple,
    Type,
    join,
    plain,
)


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


class _Typing(CallTyping):
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
        self._looped: list[Counter[str]] = []
        """Of each loop around: the variables that it assigns."""
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
            parts = [item_of(value)] * (size if isinstance(size, int) else count)
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

    def _check_assigned(self, node: ast.Name) -> None:
        assert self.names is not None
        if node.id in self.names or node.id.endswith("__"):
            return
        own = _stores(self._statement) if isinstance(self._statement, ast.Assign) else Counter[str]()
        if any(names[node.id] > own[node.id] for names in self._looped):
            return  # a turn before may have assigned it, in another statement
        raise self.fail(node, f"{node.id} has no value here: nothing before assigns it")

    def _held(self, name: str) -> Type:
        assert self.names is not None
        return self.names.get(name, UNKNOWN)

    def _do_Return(self, node: ast.Return) -> None:
        held = None if node.value is None else self.items(node.value)
        if held is not None:
            self._returned(held)
        elif node.value is not None:
            self._returned(self._with_memory(node.value, self.type_of(node.value)))
        else:
            self._returned(NOTHING)
        self.names = None

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
        self._loop(node, lambda: None, lambda: self.assign(name, item_of(over), node.iter))

    def _loop(
        self, node: ast.While | ast.For, head: Callable[[], None], begin: Callable[[], None] | None = None
    ) -> None:
        self._looped.append(_stores(node))
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
        self._looped.pop()
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


def _stores(node: ast.AST) -> Counter[str]:
    """How often each variable is assigned in a statement."""
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return Counter(name.id for name in names if isinstance(name.ctx, ast.Store))


def _joined(one: Names | None, other: Names | None) -> Names | None:
    if one is None or other is None:
        return one if other is None else other
    return {name: join(one.get(name), other.get(name)) for name in {**one, **other}}
