"""Functions of a program as C++: statements. `expressions.py`, `elements.py` and `calls.py` have the rest.

What Python guarantees and C++ does not is written out. Operands that stand left of a call with effects are put into
variables before it (C++ leaves their order open). A variable of Python that holds an int here and a float there is
several variables of C++, one of each type that is read anywhere; an assignment writes all that can hold the value.
Names of the user get the prefix `v_`: `new` is a word of C++.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vecenv.errors import KernelError
from vecenv.kernel.cpp.calls import Calls
from vecenv.kernel.cpp.values import Structs, Value, literal
from vecenv.kernel.lower.instance import Instance
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.lower.typed import LoweredInference, local_array_of, parameters_of
from vecenv.kernel.lower.types import INT, NOTHING, STREAM, Array, Iterator, Number, Tuple, Type, join, plain

T = TypeVar("T")


class Functions:
    """The functions of one program, written as they are asked for.

    Args:
        program: resolved and lowered, without checks.

    Attributes:
        structs: that the functions need.
        tables: texts of constants that are arrays, by name.
        texts: of the functions, helpers first.
        assigned: fields of the state that are numbers and that some function assigns.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.inference = LoweredInference(program)
        self.methods = self.inference.run()
        self.structs = Structs()
        self.tables: dict[str, tuple[Array, str]] = {}
        self.texts: list[str] = []
        self.assigned = {name for function in program.functions for name in _assigned(function)}
        self._names: dict[int, str] = {}
        """Names of the functions of instances, by identity."""
        self._known: dict[tuple[str, str], str] = {}
        """Names of functions by what they were made from and their text: equal ones are written once."""
        self._pure: dict[str, bool] = {}
        self._effects: dict[int, tuple[ast.AST, bool]] = {}
        """Whether nodes have effects, by their identity; it holds the nodes, so that no other gets the same."""

    def method(self, name: str) -> str:
        """The name of a method's function, which is written."""
        return self.function(self.methods[name])

    def function(self, instance: Instance) -> str:
        """The name of an instance's function, which is written with all that it calls."""
        if id(instance) not in self._names:
            own, head, body = FunctionWriter(self, instance).parts()
            key = (own, "\n".join([*head, *body]))
            if key not in self._known:
                self._known[key] = name = f"{own}_{len(self._known)}"
                self.texts.append("\n".join([head[0].replace("NAME", name), *head[1:], *body]))
            self._names[id(instance)] = self._known[key]
        return self._names[id(instance)]

    def has_effects(self, node: ast.AST) -> bool:
        """Whether an expression changes anything: it calls something that draws or stores."""
        known = self._effects.get(id(node))
        if known is None:
            own = isinstance(node, ast.Call) and self._calls_effect(node)
            known = node, own or any(map(self.has_effects, ast.iter_child_nodes(node)))
            self._effects[id(node)] = known
        return known[1]

    def _calls_effect(self, node: ast.Call) -> bool:
        function = node.func
        if not isinstance(function, Ref):
            return False
        if function.kind is Kind.HELPER:
            return not self._is_pure(function.name)
        return function.kind in (Kind.DRAW, Kind.TWIN) or function.name == "assign"

    def _is_pure(self, name: str) -> bool:
        if name not in self._pure:
            self._pure[name] = False  # while it is looked at
            nodes = [node for statement in self.inference.functions[name].body for node in ast.walk(statement)]
            self._pure[name] = not any(map(_stores, nodes)) and not any(map(self.has_effects, nodes))
        return self._pure[name]


def _stores(node: ast.AST) -> bool:
    return isinstance(node, (ast.Subscript, Ref)) and isinstance(getattr(node, "ctx", None), ast.Store)


def _assigned(function: Function) -> set[str]:
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    return {
        node.name
        for node in nodes
        if isinstance(node, Ref) and node.kind is Kind.FIELD and isinstance(node.ctx, ast.Store)
    }


class FunctionWriter(Calls):
    """Writes one function for one tuple of argument types."""

    def __init__(self, functions: Functions, instance: Instance) -> None:
        self.functions, self.instance = functions, instance
        self.program, self.structs, self.types = functions.program, functions.structs, instance.types
        self.source = instance.function.source
        self.result: Type = plain(instance.result or NOTHING)
        self.out: list[str] = []
        self.depth, self.count = 2, 0
        self.arrays_used: dict[str, Array] = {}
        """Fields, parameters and leaves that are arrays: each is a variable at the head."""
        self._left: list[str | None] = []
        """Of each loop around: the flag that says that it was left by `break`, if it has an `else`."""
        self._versions = self._read_types()

    def parts(self) -> tuple[str, list[str], list[str]]:
        """What the function is called in Python, its head with NAME in place of its name, and its body."""
        function = self.instance.function
        given = [one for one in parameters_of(function) if one.role is None]
        arguments = zip(given, self.instance.arguments, strict=True)
        typed: list[str] = []
        for place, (parameter, kind) in enumerate(arguments):
            declared, value = self.structs.parameter(f"a{place}", plain(kind))
            typed.append(declared)
            self.store(parameter.name, value)
        self.statements(function.body)
        if self.result != NOTHING:
            self.add(f"return {self.structs.name(self.result)}{{}};")
        head = [
            f"  static CUDA_CALLABLE {self.structs.name(self.result)} NAME({', '.join(['Row& r', *typed])}) {{",
            "    EXACT",
            *(f"    const {self.structs.name(kind)} {name} = r.{name}_();" for name, kind in self.arrays_used.items()),
            *(
                f"    {self.structs.name(kind)} {self._version(name, kind)}{{}};"
                for name, kinds in self._versions.items()
                for kind in kinds.values()
            ),
        ]
        return function.name, head, [*self.out, "  }"]

    # --- variables ---------------------------------------------------------------------------------------------------

    def _read_types(self) -> dict[str, dict[str, Type]]:
        """The types that each variable has where it is read, by the names of their C++ types."""
        found: dict[str, dict[str, Type]] = {}
        for statement in self.instance.function.body:
            for node in ast.walk(statement):
                kind = self.types.get(id(node))
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and kind is not None:
                    role = self.instance.function.roles.get(node.id)
                    if role in ("rng", "mask") or isinstance(kind, Iterator):
                        continue
                    kind = self.known(node, kind)
                    found.setdefault(node.id, {}).setdefault(self.structs.name(kind), kind)
        return found

    def _version(self, name: str, kind: Type) -> str:
        if len(self._versions[name]) == 1:
            return f"v_{name}"
        return f"v_{name}_{self.structs.name(kind).replace(' ', '')}"

    def variable(self, node: ast.Name) -> Value:
        """A variable where it is read."""
        kind = self.known(node, self.types[id(node)])
        role = self.instance.function.roles.get(node.id)
        if role == "rng":
            return Value("r.rng", STREAM)
        if role == "mask":
            return self.array_of_row("mask", kind)
        return Value(self._version(node.id, kind), kind)

    def store(self, name: str, value: Value) -> None:
        """Assign a value to all variables of C++ that can hold it."""
        kinds = [kind for kind in self._versions.get(name, {}).values() if self._can_hold(kind, value.kind)]
        if len(kinds) > 1 and not value.is_simple:
            value = self.temporary(value)
        for kind in kinds:
            self.add(f"{self._version(name, kind)} = {self.cast(value, kind).text};")

    def _can_hold(self, kind: Type, given: Type) -> bool:
        if isinstance(kind, Number) and isinstance(given, Number):
            return kind.dtype == given.dtype or plain(join(given, kind)) == kind
        if isinstance(kind, Tuple) and isinstance(given, Tuple):
            return len(kind.items) == len(given.items) and all(map(self._can_hold, kind.items, given.items))
        if isinstance(kind, Tuple) and isinstance(given, Array):
            return True  # a constant
        return (
            isinstance(kind, Array) and isinstance(given, Array) and self.structs.name(kind) == self.structs.name(given)
        )

    # --- lines -------------------------------------------------------------------------------------------------------

    def add(self, text: str) -> None:
        self.out.append("  " * self.depth + text)

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def temporary(self, value: Value) -> Value:
        """A value in a variable of its own."""
        name = self.name("t")
        self.add(f"{self.structs.name(value.kind)} {name} = {value.text};")
        return Value(name, value.kind)

    def captured(self, write: Callable[[], T]) -> tuple[list[str], T]:
        """The lines that a function writes, and what it returns."""
        kept, self.out = self.out, []
        found = write()
        lines, self.out = self.out, kept
        return lines, found

    def fail(self, node: ast.AST, rule: str) -> KernelError:
        return self.program.error(self.source, node, rule)

    # --- statements --------------------------------------------------------------------------------------------------

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement = statement
            if self._is_reached(statement):
                getattr(self, f"_do_{type(statement).__name__}")(statement)

    def _is_reached(self, statement: ast.stmt) -> bool:
        """Whether the inference came to a statement: it does not where no path leads."""
        parts = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
        if isinstance(statement, ast.For):
            parts = [statement.iter]
        parts = [part for part in parts if not (isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))]
        parts = [part for part in parts if not isinstance(part, ast.Tuple) or not isinstance(part.ctx, ast.Store)]
        return not parts or any(id(part) in self.types for part in parts)

    def inner(self, body: Sequence[ast.stmt]) -> None:
        self.depth += 1
        self.statements(body)
        self.depth -= 1

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Expr(self, node: ast.Expr) -> None:
        value = self.expression(node.value)
        if value.text and value.kind == NOTHING:
            self.add(f"{value.text};")

    def _do_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Name):
            declared = self._local_array(target.id, node.value)
            if not declared:
                self.store(target.id, self.expression(node.value))
        elif isinstance(target, ast.Tuple):
            self._assign_parts(target, node.value)
        else:
            value = self.expression(node.value)
            if self.functions.has_effects(target) and not isinstance(value.kind, Array):
                value = self.temporary(value)
            place = self.place(target)
            if isinstance(place.kind, Array):
                self.assign_part(place, value)
                return
            self.add(f"{place.text} = {self.cast(value, place.kind).text};")

    def _local_array(self, name: str, value: ast.expr) -> bool:
        """Declare an array on the stack, if that is what a value is."""
        function = value.func if isinstance(value, ast.Call) else None
        if not isinstance(function, Ref) or not function.name.startswith("local_array_"):
            return False
        dtype, shape = local_array_of(function.name)
        kind, memory = Array(dtype, shape), self.name("d")
        size = 1
        for length in shape:
            size *= length
        self.add(f"{self.structs.name(Number(dtype))} {memory}[{max(size, 1)}];")
        self.store(name, self.whole(memory, kind, shape))
        return True

    def _assign_parts(self, target: ast.Tuple, node: ast.expr) -> None:
        if isinstance(node, ast.Tuple):
            values = [value if value.is_simple else self.temporary(value) for value in self.several(node.elts)]
            values = [self.temporary(value) if value.text.startswith("v_") else value for value in values]
        else:
            values = self.parts_of(self.expression(node), len(target.elts))
        for element, value in zip(target.elts, values, strict=True):
            assert isinstance(element, ast.Name)
            self.store(element.id, value)

    def _do_Return(self, node: ast.Return) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            self.add("return;" if self.result == NOTHING else f"return {self.structs.name(self.result)}{{}};")
            return
        value = self.expression(node.value)
        if self.result == NOTHING:
            self.add("return;")
        else:
            self.add(f"return {self.cast(value, self.result).text};")

    def _do_If(self, node: ast.If) -> None:
        self.add(f"if ({self.truth(node.test)}) {{")
        self.inner(node.body)
        if node.orelse:
            self.add("} else {")
            self.inner(node.orelse)
        self.add("}")

    def _do_While(self, node: ast.While) -> None:
        """The test stands inside: what it needs is computed in every turn. Now and then it asks whether to stop."""
        self._begin_loop(node, "while (true) {")
        self.depth += 1
        constant = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if not constant:
            self.add(f"if (!({self.truth(node.test)})) break;")
        self.add(f"if (r.is_stopped()) {self._break()}")
        self.depth -= 1
        self._end_loop(node)

    def _begin_loop(self, node: ast.While | ast.For, text: str) -> None:
        flag = self.name("left") if node.orelse else None
        if flag is not None:
            self.add(f"bool {flag} = false;")
        self._left.append(flag)
        self.add(text)

    def _end_loop(self, node: ast.While | ast.For) -> None:
        self.inner(node.body)
        self.add("}")
        flag = self._left.pop()
        if flag is not None:
            self.add(f"if (!{flag}) {{")
            self.inner(node.orelse)
            self.add("}")

    def _break(self) -> str:
        flag = self._left[-1]
        return "break;" if flag is None else f"{{ {flag} = true; break; }}"

    def _do_For(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name)
        function = node.iter.func if isinstance(node.iter, ast.Call) else None
        if isinstance(function, Ref) and function.kind is Kind.BUILTIN and function.name == "range":
            self._count(node, node.target.id, node.iter.args)  # type: ignore[attr-defined]  # a call
            return
        length, item = self._items(node.iter)
        turn = self.name("k")
        self._begin_loop(node, f"for (i64 {turn} = 0; {turn} < {length}; {turn} += 1) {{")
        self.depth += 1
        self.store(node.target.id, item(turn))
        self.depth -= 1
        self._end_loop(node)

    def _count(self, node: ast.For, name: str, arguments: list[ast.expr]) -> None:
        """A loop over a range."""
        values = [self.temporary(self.cast(value, INT)).text for value in self.several(arguments)]
        start, stop, step = {1: ["0", *values, "1"], 2: [*values, "1"], 3: values}[len(values)]
        turn = self.name("k")
        goes_on = f"{turn} < {stop}"
        if len(values) == 3:
            known = self.constant(arguments[2])
            down = f"{turn} > {stop}"
            goes_on = f"({step} > 0 ? {goes_on} : {down})" if known is None else goes_on if known > 0 else down
        self._begin_loop(node, f"for (i64 {turn} = {start}; {goes_on}; {turn} += {step}) {{")
        self.depth += 1
        self.store(name, Value(turn, INT))
        self.depth -= 1
        self._end_loop(node)

    def _items(self, node: ast.expr) -> tuple[str, Callable[[str], Value]]:
        """How many items a loop runs over, and the item of a turn."""
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, Ref) and function.kind is Kind.NUMPY:
            callee: Any = self.program.constants[function.name]
            arguments: list[ast.expr] = node.args  # type: ignore[attr-defined]  # a call
            if callee is enumerate:
                length, item = self._items(arguments[0])
                first = self.temporary(self.cast(self.expression(arguments[1]), INT)) if arguments[1:] else literal(0)
                return length, lambda turn: self.tuple_of([Value(f"({turn} + {first.text})", INT), item(turn)])
            if callee is zip:
                parts = [self._items(argument) for argument in arguments]
                length = parts[0][0]
                for other, _ in parts[1:]:
                    length = f"U::min_i({length}, {other})"
                length = self.temporary(Value(length, INT)).text
                return length, lambda turn: self.tuple_of([item(turn) for _, item in parts])
            if callee is reversed:
                raise self.fail(node, "reversed() of this has no C++ form; count backwards")
        row = self.as_row(self.expression(node), node)
        return self.length(row), lambda turn: self.item(row, turn)

    def _do_Break(self, node: ast.Break) -> None:
        self.add(self._break())

    def _do_Continue(self, node: ast.Continue) -> None:
        self.add("continue;")
