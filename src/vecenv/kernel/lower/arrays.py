"""Array expressions as loops over elements: from a resolved program to one that any backend can compile.

What NumPy would build an array for is a loop that stores into memory which the function has: a local array, which the
operation `local_array` declares at the head of a function. Nothing is allocated when the code runs. All arithmetic of
elements is of 64 bits, rounded or wrapped to the dtype after each operation, which gives NumPy's bits. Functions that
do nothing with arrays stay as they are.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from vecenv.kernel.language.array_functions import (
    function_of,
)
from vecenv.kernel.lower.elements import (
    Dim,
    Memory,
    builtin,
    scalar,
    set_to,
    whole,
)
from vecenv.kernel.lower.infer import Inference
from vecenv.kernel.lower.instance import Instance
from vecenv.kernel.lower.list_types import is_enumerate
from vecenv.kernel.lower.program import Function, Program
from vecenv.kernel.lower.tree import Kind, Ref, at, local, operation, slice_shape
from vecenv.kernel.lower.types import Array, Number, Tuple
from vecenv.kernel.lower.values import MAY_BE_COPIES, Values, fresh_results, is_fresh
from vecenv.kernel.lower.windows import windows_in

MOST_BYTES = 256 * 1024
"""Of all local arrays of a function."""
_EFFECTS = {Kind.DRAW, Kind.DRAWN_ARRAY, Kind.HELPER}
"""What may draw random numbers or change the state."""
_LEFT_TO_BACKENDS = frozenset({"absolute", "floor", "ceil", "trunc", "rint", "sqrt", "isnan", "isfinite", "isinf"})
"""Elementwise functions of one number that backends have; others are written out for numbers too."""


def lower_arrays(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    """The program without array expressions; the same one if it has none. Raises KernelError.

    Args:
        program: resolved.
        shapes: shapes of the parameters that are arrays.
    """
    inference = Inference(program, shapes)
    methods = inference.run()
    instances = list(inference.instances.values())
    counts = Counter(instance.function.name for instance in instances)
    changed: dict[int, Function] = {}
    known: dict[tuple[str, ...], Function] = {}
    for number, instance in enumerate(instances):
        rewriter = Rewriter(program, instance, changed)
        if rewriter.is_needed:
            name = instance.function.name
            with program.found.noting():
                function = rewriter.function(name if counts[name] == 1 else f"{name}__{number}")
                # Arrays of other fields or sizes often make no difference: the function is compiled once then.
                text = (name, *function.results, repr(function.expanded), *map(ast.dump, function.body))
                changed[id(instance)] = known.setdefault(text, function)
    program.found.raise_all()
    if not changed:
        return program
    never_called = [function for function in program.functions if not counts[function.name]]
    functions = [*never_called, *(changed.get(id(instance), instance.function) for instance in instances)]
    kept = {function.name: function for function in functions}
    return replace_functions(
        program, list(kept.values()), {name: changed.get(id(one), one.function) for name, one in methods.items()}
    )


def replace_functions(program: Program, functions: list[Function], methods: dict[str, Function]) -> Program:
    """A program with other functions; constants that they do not use are left out."""
    used = {
        node.name
        for function in functions
        for statement in (*function.body, *function.defaults)
        for node in ast.walk(statement)
        if isinstance(node, Ref) and node.kind in (Kind.CONSTANT, Kind.NUMPY)
    }
    constants = {name: value for name, value in program.constants.items() if name in used}
    return Program(
        program.kernel,
        program.layouts,
        functions,
        methods,
        constants,
        program.draws,
        program.twins,
        program.twin_functions,
        checked=program.checked,
    )


class Rewriter(Values):
    """Rewrites one function for one tuple of argument types.

    Args:
        program: what it is a part of.
        instance: the function and its types.
        changed: functions that were rewritten before, by the identity of their instances.
    """

    def __init__(self, program: Program, instance: Instance, changed: Mapping[int, Function]) -> None:
        super().__init__(program, instance, changed)
        self._needs: dict[int, bool] = {}
        self.results = fresh_results(instance)

    @property
    def is_needed(self) -> bool:
        """Whether anything has to be rewritten."""
        given = self._returns_array or bool(self.results) or bool(self.instance.lists)
        return given or any(map(self.needs, self.instance.function.body))

    @property
    def _returns_array(self) -> bool:
        return self.instance.function.method is None and isinstance(self.instance.result, Array)

    def function(self, name: str) -> Function:
        """The rewritten function, to be called by this name."""
        function = self.instance.function
        self._check_results()
        body = self.block(function.body)
        total = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in self.local_arrays.values())
        if total > MOST_BYTES:
            rule = f"its local arrays take {total:,} bytes, more than {MOST_BYTES:,}; declare large ones in `state`"
            raise self.fail(function.source.node, rule)
        declared = [
            at(function.source.node, set_to(array, operation(f"local_array_{dtype}_{'x'.join(map(str, shape))}")))
            for array, (dtype, shape) in self.local_arrays.items()
        ]
        return Function(
            name=name,
            source=function.source,
            method=function.method,
            roles=function.roles,
            body=[*declared, *body],
            defaults=function.defaults,
            assigned=function.assigned,
            passes_state=function.passes_state,
            guarded=True,
            results=tuple(f"result{place}__" for place in range(len(self.results))),
            returns_array=self._returns_array,
            expanded={
                name: tuple(array.id for array in self.arrays_of(name) if isinstance(array, ast.Name))
                for name in self.instance.lists
                if name in function.source.parameters
            },
        )

    def _check_results(self) -> None:
        result = self.instance.result
        for item in result.items if isinstance(result, Tuple) else [result]:
            origins = item.origins if isinstance(item, Array) else ()
            local_ones = [origin for origin in origins if origin.startswith("local:")]
            if local_ones and len(local_ones) < len(origins):
                rule = (
                    "it returns a new array on one path and a part of its arguments on another; "
                    "return a copy on the other, x.copy()"
                )
                raise self.fail(self.instance.function.source.node, rule)

    # --- what has to be rewritten ------------------------------------------------------------------------------------

    def needs(self, node: ast.AST) -> bool:
        """Whether a node or a part of it has to be rewritten."""
        known = self._needs.get(id(node))
        if known is None:
            known = self._is_rewritten(node) or any(map(self.needs, ast.iter_child_nodes(node)))
            self._needs[id(node)] = known
        return known

    def _is_rewritten(self, node: ast.AST) -> bool:
        if self.is_list(node):
            return True
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return self.is_array(node) or any(map(self.is_array, ast.iter_child_nodes(node)))
        if isinstance(node, ast.Compare):
            return any(map(self.is_array, (node.left, *node.comparators)))
        if isinstance(node, ast.Subscript):
            return self.is_array(node.value) and (self.is_several(node.slice) or self.is_picked(node))
        if isinstance(node, ast.Call):
            return self._is_rewritten_call(node)
        if isinstance(node, ast.Assign):
            return self._is_rewritten_assignment(node)
        return isinstance(node, ast.Return) and bool(self.results)

    def _is_rewritten_call(self, node: ast.Call) -> bool:
        function = node.func
        if isinstance(function, ast.Attribute):
            return self.is_array(function.value)
        if not isinstance(function, Ref):
            return False
        if function.kind is Kind.HELPER:
            callee = self.instance.calls.get(id(node))
            return callee is not None and id(callee) in self.changed
        if function.kind is Kind.NUMPY:
            known = function_of(self.program.constants[function.name])
            kinds = [self.types.get(id(argument)) for argument in node.args]
            several = any(isinstance(kind, (Array, Tuple)) for kind in [*kinds, self.types.get(id(node))])
            return known is not None and (several or known.name not in _LEFT_TO_BACKENDS)
        if function.kind is Kind.OPERATION and function.name == "assign":
            return not self._is_plain_copy(node.args[0], node.args[1])
        if function.kind is Kind.DRAWN_ARRAY or (function.kind is Kind.DRAW and self.is_array(node)):
            return True
        arrays = any(map(self.is_array, node.args))
        if function.kind is Kind.BUILTIN:
            return arrays and function.name in ("abs", "min", "max", "sum", "any", "all")
        return function.kind is Kind.OPERATION and function.name in ("power", "as_number") and arrays

    def _is_plain_copy(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether backends copy a value into a part of an array as it is."""
        kind, held = self.types.get(id(value)), self.types.get(id(target))
        if isinstance(kind, Tuple) or not isinstance(held, Array):
            return not isinstance(kind, Tuple)
        if _calls(target, _EFFECTS) or (_calls(value, {Kind.HELPER}) and _reads_in_index(target)):
            return False  # Python computes the value before the index, and both may have effects
        if not isinstance(kind, Array):
            return True
        if len(kind.shape) != len(held.shape) or len(kind.shape) > 3:
            return False
        if not kind.origins & held.origins:
            return True
        of, into = _owner(value), _owner(target)
        if of is None or into is None or ast.dump(of[0]) != ast.dump(into[0]):
            return False
        return of[1] is not None and into[1] is not None and slice_shape(of[1]) == slice_shape(into[1])

    def _is_rewritten_assignment(self, node: ast.Assign) -> bool:
        (target,) = node.targets
        value = self.types.get(id(node.value))
        if isinstance(target, Ref):
            return self.is_array(target)
        if isinstance(target, ast.Name):
            return bool(getattr(node, "in_place", False)) and isinstance(value, Array)
        if isinstance(target, ast.Subscript):
            return self.is_array(target) and isinstance(value, (Array, Tuple))
        return False

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        kept, self.out = self.out, []
        for statement in statements:
            self.place = statement
            if self.needs(statement):
                self._rewrite(statement)
            else:
                self.out.append(statement)
        result, self.out = self.out, kept
        return result

    def _rewrite(self, statement: ast.stmt) -> None:
        rewrite = getattr(self, f"_do_{type(statement).__name__}")
        windows = windows_in(self, statement)
        if not windows:
            rewrite(statement)
            return
        tests = {ast.dump(window.fits): window.fits for window in windows.values()}
        conditions = [self.kept(self.value(test)) for test in tests.values()]
        self.windows = windows
        within = self.captured(lambda: rewrite(statement))
        self.windows = {}
        others = self.captured(lambda: rewrite(statement))
        self.emit(ast.If(conditions[0] if len(conditions) == 1 else ast.BoolOp(ast.And(), conditions), within, others))

    def _do_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, Ref) and call.func.name == "assign":
            if getattr(node, "in_place", False):
                self._store_in_place(*call.args)
            else:
                self._store(call.args[0], call.args[1])
            return
        value = self.value(call)
        if not isinstance(value, (ast.Name, ast.Constant)):
            self.emit(ast.Expr(value))

    def _do_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Name) and self.is_list(node.value):
            self.make_list(target.id, node.value)
        elif isinstance(target, ast.Subscript) and self.is_list(target.value):
            self.store_item(target, node.value)
        elif isinstance(target, ast.Name):
            held = self.types.get(id(node.value))
            if getattr(node, "in_place", False) and isinstance(held, Array):
                elements = self.elements(node.value)
                self.fill(self._target(self._left_of(node.value)), elements)
            elif isinstance(held, Array):
                self.emit(ast.Assign([target], self.array(node.value, binding=True)))
            else:
                self.emit(ast.Assign([target], self.value(node.value)))
        elif isinstance(target, ast.Tuple):
            self.emit(ast.Assign([target], self.value(node.value)))
        elif self.is_array(target) or isinstance(self.types.get(id(node.value)), (Array, Tuple)):
            self._store(target, node.value)
        else:
            if isinstance(target, ast.Subscript):
                value = self.value(node.value)
                value = self.kept(value) if self.needs(target) else value  # Python computes it before the index
                index = self.several(self.index_of(target))
                place = index[0] if len(index) == 1 else ast.Tuple(index, ast.Load())
                self.emit(ast.Assign([ast.Subscript(self.value(target.value), place, ast.Store())], value))
            else:
                self.emit(ast.Assign([target], self.value(node.value)))

    def _left_of(self, value: ast.expr) -> ast.expr:
        """The array that `x += y` writes to: what stands on the left of the operator."""
        return value.left if isinstance(value, ast.BinOp) else value.args[0]  # type: ignore[attr-defined]

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        """`target[...] = value`."""
        if isinstance(target, ast.Subscript) and self.is_picked(target):
            self.store_selected(target, value)
            return
        if isinstance(value, (ast.Tuple, ast.List)) and all(
            isinstance(self.type_of(item), Number) for item in value.elts
        ):
            self._store_each(target, value)
            return
        elements = self.elements(value)
        self.fill(self._target(target), elements)

    def _store_in_place(self, target: ast.expr, value: ast.expr) -> None:
        """`target[...] += value`: the part is found once, for reading and for writing."""
        part, left = self._target(target), self._left_of(value)
        if isinstance(left, ast.Call):  # of widen
            left = left.args[0]
        self.known_parts[id(left)] = part
        self.fill(part, self.elements(value))
        del self.known_parts[id(left)]

    def _target(self, node: ast.expr) -> Memory:
        """The part of memory that is assigned."""
        owner = node
        while isinstance(owner, ast.Subscript):
            owner = owner.value
        kind = self.type_of(owner)
        part = self.memory_or_elements(node)
        known = self.canonical(owner)
        if not isinstance(part, Memory) or not getattr(kind, "origins", True) or (known and known[0] in MAY_BE_COPIES):
            raise self.fail(node, "this is a new array, and what is assigned to it is lost; give it a name first")
        return part

    def _store_each(self, target: ast.expr, value: ast.Tuple | ast.List) -> None:
        """`target[:] = (a, b, c)`."""
        values = [self.kept(one) for one in self.several(value.elts)]
        part = self._target(target)
        names = [self.name("index") for _ in part.dims[:-1]]
        statements: list[ast.stmt] = []
        for place, one in enumerate(values):
            last: ast.expr = ast.Constant(place)
            statements.append(ast.Assign([part.element([*map(local, names), last], ast.Store())], one))
        for name, dim in reversed(list(zip(names, part.dims[:-1], strict=True))):
            statements = [ast.For(local(name, ast.Store()), builtin("range", dim.size), statements, [])]
        if len(values) == 1 and part.dims[-1] != Dim(1):
            self.fill(part, scalar(values[0], part.dtype))
            return
        self.emit(*statements)

    def _do_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is not None and self.is_list(value):
            self.return_list(value)
            return
        if not self.results or value is None:
            self.emit(ast.Return(None if value is None else self.value(value)))
            return
        if isinstance(self.type_of(value), Array):
            self.emit(ast.Return(self._into_result(0, value)))
            return
        parts: list[ast.expr] = []
        if not isinstance(value, ast.Tuple):
            raise self.fail(node, "return the values one by one: return a, b")
        place = 0
        for item in value.elts:
            kind = self.type_of(item)
            if isinstance(kind, Array) and is_fresh(kind):
                parts.append(self._into_result(place, item))
                place += 1
            else:
                parts.append(self.array(item) if isinstance(kind, Array) else self.kept(self.value(item)))
        self.emit(ast.Return(ast.Tuple(parts, ast.Load())))

    def _into_result(self, place: int, value: ast.expr) -> ast.expr:
        elements, kind = self.elements(value), self.type_of(value)
        assert isinstance(kind, Array)
        provided = whole(local(f"result{place}__"), kind.dtype, [Dim(dim.most) for dim in elements.dims], frozenset())
        part = self.cut(provided, elements.dims)
        self.fill(part, elements)
        return part.view()

    def _do_If(self, node: ast.If) -> None:
        test = self.value(node.test)
        place = self.place
        body, orelse = self.block(node.body), self.block(node.orelse)
        self.place = place
        self.emit(ast.If(test, body or [ast.Pass()], orelse))

    def _do_While(self, node: ast.While) -> None:
        if not self.needs(node.test):
            self.emit(at(node, ast.While(node.test, self._turn(node.body), [])))
            return
        tests: list[ast.expr] = []
        self.loop_depth += 1
        head = self.captured(lambda: tests.append(self.value(node.test)))
        self.loop_depth -= 1
        (test,) = tests
        stop = ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], [])
        place = node
        body = [*head, at(node, stop), *self._turn(node.body)]
        self.place = place
        self.emit(ast.While(ast.Constant(True), body, []))

    def _do_For(self, node: ast.For) -> None:
        if self._is_over_list(node.iter):
            place = self.place
            body = self._turn(node.body)
            self.place = place
            self.emit(self.loop_over_items(node, body))
            return
        over = self.array(node.iter) if self.is_array(node.iter) else self.value(node.iter)
        place = self.place
        body = self._turn(node.body)
        self.place = place
        self.emit(ast.For(node.target, over, body, []))

    def _turn(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The body of a loop."""
        self.loop_depth += 1
        written = self.block(body)
        self.loop_depth -= 1
        return written or [ast.Pass()]

    def _is_over_list(self, node: ast.expr) -> bool:
        counted = isinstance(node, ast.Call) and is_enumerate(self.program.constants, node)
        return self.is_list(node.args[0] if counted else node)  # type: ignore[attr-defined]  # a call has them


def _reads_in_index(target: ast.expr) -> bool:
    """Whether an index of `target` is not a constant."""
    indices = (part.slice for part in ast.walk(target) if isinstance(part, ast.Subscript))
    return any(isinstance(part, (ast.Name, Ref)) for index in indices for part in ast.walk(index))


def _calls(node: ast.expr, kinds: set[Kind]) -> bool:
    """Whether an expression calls something of these kinds."""
    functions = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(isinstance(function, Ref) and function.kind in kinds for function in functions)


def _owner(node: ast.expr) -> tuple[ast.expr, ast.expr | None] | None:
    """The array that a part is of, and its index."""
    if isinstance(node, ast.Call) and isinstance(node.func, Ref) and node.func.name == "widen":
        return _owner(node.args[0])
    if isinstance(node, ast.Subscript):
        return node.value, node.slice
    return (node, None) if isinstance(node, (ast.Name, Ref)) else None
