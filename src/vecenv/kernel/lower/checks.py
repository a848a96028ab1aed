"""Checks in native code: from a lowered program to one that notes what Python would raise, and goes on.

A check is an operation that gets the number of its `Site`. If the value is wrong, it writes site, value and limit into
the row's fault (`FAULT_WORDS`) unless there is one already, and returns a value that does no harm: place 0, divisor 1.
So a row that fails runs to the end of its step within its own memory, and all other rows are as they would have been.

    place(site, size, index)          an index counted from the first element
    inner_place(site, size, place)    the same of an index that must not be negative any more
    size(array, axis)                 of an array or a tuple
    element(site, array, constant)    `array[constant]`, where the array may be a tuple
    checked_assign(site, part, x)     `assign` of a value that must fit the part
    divisor(site, x)                  an int that is not 0; a float as it is
    whole(site, x)                    a float that can become an int; an int as it is
    fitting_int8(site, x), ...        an int within the limits of the type; others as they are
    fitting_in(site, array, x)        what an element of the array can hold
    fills(site, size, full)           the size of a value that is assigned to an axis: equal, or 1
    joins(site, one, other)           two sizes that are computed with: equal, or one of them 1
    exponent(site, x, y)              of `x ** y`: an int that is not negative if both are ints; others as they are
    known_key(site, is_known, key, x) x, the value of a key that a dict of the module must have
    room(site, size, most)            of a queue before an item is added
    not_empty(site, size)             of a list or a queue before an item is taken
    item(site, size, index)           of `items[index]`
    spent(site)                       one more turn of a loop: whether there were too many in this step
    stop(site, start, stop, step)     the end of a range that is not too long for the turns that are left

Only what the user wrote is checked for division, conversion and overflow: elements of array expressions wrap and go on
as NumPy's do. Nodes without a line number are what array expressions were lowered to.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from vecenv.kernel.lower.program import Function, Program, Site
from vecenv.kernel.lower.tree import Kind, Ref, at, index_parts, local, operation

BUDGET = 1_000_000
"""Turns of all `while` loops and of `for` loops over ranges without a constant length that a row may take in a step."""
FAULT_WORDS = ("site", "value", "limit", "turns", "step")
"""The words of a row's fault: the number of its site from 1 on (0: none), what was wrong, what it had to fit, the turns
of loops in this step, and the step of a rollout in which it happened."""
OPERATIONS = frozenset(
    {
        "place",
        "inner_place",
        "element",
        "checked_assign",
        "divisor",
        "whole",
        "fitting_in",
        "fills",
        "joins",
        "exponent",
        "known_key",
        "room",
        "not_empty",
        "item",
        "spent",
        "stop",
    }
)
"""Operations that need the row's fault; so do those whose names begin with `fitting_`."""
_Interval: TypeAlias = tuple[int, int]
_PROBLEMS = {"fills": "size", "joins": "size", "room": "full", "not_empty": "empty", "item": "index"}
"""What the operations look for that array expressions, lists and queues were lowered with."""
_TO_INT = {(Kind.BUILTIN, "int"), (Kind.BUILTIN, "round")} | {(Kind.MATH, name) for name in ("floor", "ceil", "trunc")}
_FLOAT_MATH = frozenset({"sin", "cos", "tan", "sqrt", "exp", "log", "tanh", "atan2", "hypot", "pow", "fabs"})
_EFFECTS = (Kind.HELPER, Kind.TWIN, Kind.DRAW)


def needs_fault(operation_name: str) -> bool:
    """Whether an operation is a check."""
    return operation_name in OPERATIONS or operation_name.startswith("fitting_")


def add_checks(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    """The program with checks; the same one if there is nothing to check. `shapes` are those of parameter arrays."""
    sites: list[Site] = []
    checked = [_Checker(program, function, shapes, sites).function() for function in program.functions]
    if not sites:
        return program
    checked = _with_callers(checked)
    by_old = {id(old): new for old, new in zip(program.functions, checked, strict=True)}
    methods = {name: by_old[id(function)] for name, function in program.methods.items()}
    return dataclasses.replace(program, functions=checked, methods=methods, sites=sites)


def _with_callers(functions: list[Function]) -> list[Function]:
    """Functions that call one with checks have a fault to pass on. None of them runs on rows that are not stepped."""
    failing = {function.name for function in functions if function.faults}
    calls = {function.name: _called(function) for function in functions}
    while True:
        more = {name for name, called in calls.items() if name not in failing and called & failing}
        if not more:
            break
        failing |= more
    return [
        dataclasses.replace(function, faults=True, guarded=True) if function.name in failing else function
        for function in functions
    ]


def _called(function: Function) -> set[str]:
    nodes = (node for statement in function.body for node in ast.walk(statement))
    return {node.name for node in nodes if isinstance(node, Ref) and node.kind is Kind.HELPER}


class _Checker(ast.NodeTransformer):
    """Adds the checks of one function."""

    def __init__(
        self, program: Program, function: Function, shapes: Mapping[str, tuple[int, ...]], sites: list[Site]
    ) -> None:
        self.program, self.of, self.shapes, self.sites = program, function, shapes, sites
        self.line = function.source.node.lineno
        self._names = 0
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        stored = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        self._stores = Counter(stored) + Counter(function.source.parameters)
        self._local_arrays = self._declared(function.body)
        self._intervals: dict[str, _Interval] = {}
        self._values: dict[str, list[ast.expr]] = {}
        for node in nodes:
            self._note_interval(node)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._values.setdefault(node.targets[0].id, []).append(node.value)

    def function(self) -> Function:
        before = len(self.sites)
        body = [new for statement in copy.deepcopy(list(self.of.body)) for new in _listed(self.visit(statement))]
        last = body[-1]
        if isinstance(last, ast.While) and isinstance(last.test, ast.Constant):
            # The budget may end `while True`, which only a return leaves: then too a value of its type is returned.
            body += [copy.deepcopy(part) for part in ast.walk(last) if isinstance(part, ast.Return) and part.value][:1]
        if len(self.sites) == before:
            return self.of
        return dataclasses.replace(self.of, body=body, faults=True, guarded=True)

    # --- what is known without running -------------------------------------------------------------------------------

    def _declared(self, body: Sequence[ast.stmt]) -> dict[str, tuple[int, ...]]:
        """Shapes of the local arrays that are declared at the head."""
        shapes: dict[str, tuple[int, ...]] = {}
        for statement in body:
            value = statement.value if isinstance(statement, ast.Assign) else None
            named = isinstance(value, ast.Call) and isinstance(value.func, Ref) and value.func.kind is Kind.OPERATION
            if named and value.func.name.startswith("local_array_"):  # type: ignore[union-attr]  # as was seen
                target: Any = statement.targets[0]  # type: ignore[attr-defined]
                if self._stores[target.id] == 1:
                    sizes = value.func.name.rsplit("_", 1)[1]  # type: ignore[union-attr]
                    shapes[target.id] = tuple(map(int, sizes.split("x")))
        return shapes

    def _note_interval(self, node: ast.AST) -> None:
        """Remember the values of a name that is set once: by a loop over a constant range, or to another such name."""
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            places = _constant_range(node.iter)
            if places is not None and len(places) and self._stores[node.target.id] == 1:
                self._intervals[node.target.id] = min(places[0], places[-1]), max(places[0], places[-1])
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found = self._interval(node.value)
            if found is not None and self._stores[node.targets[0].id] == 1:
                self._intervals[node.targets[0].id] = found

    def _interval(self, node: ast.expr) -> _Interval | None:
        """The lowest and the highest value of an int, None if unknown."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value, node.value
        if isinstance(node, ast.Name):
            return self._intervals.get(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, Ref) and node.func.name == "widen":
            return self._interval(node.args[0])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self._interval(node.operand)
            return None if inner is None else (-inner[1], -inner[0])
        if isinstance(node, ast.IfExp):
            one, other = self._interval(node.body), self._interval(node.orelse)
            return None if one is None or other is None else (min(one[0], other[0]), max(one[1], other[1]))
        if not isinstance(node, ast.BinOp):
            return None
        left, right = self._interval(node.left), self._interval(node.right)
        if isinstance(node.op, ast.Mod) and right is not None and right[0] == right[1] > 0:
            return 0, right[0] - 1
        if left is None or right is None:
            return None
        return _combined(node.op, left, right)

    def _is_float(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether an expression is a float for sure."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, float)
        if isinstance(node, Ref):
            fields = {Kind.FIELD: self.program.kernel.state, Kind.PARAMETER: self.program.kernel.params}.get(node.kind)
            if fields is not None:
                return fields[node.name].dtype.kind == "f"
            return isinstance(self.program.constants.get(node.name), float)
        if isinstance(node, ast.BinOp):
            sides = self._is_float(node.left, depth) or self._is_float(node.right, depth)
            return sides or isinstance(node.op, ast.Div)
        if isinstance(node, ast.UnaryOp):
            return self._is_float(node.operand, depth)
        if isinstance(node, ast.IfExp):
            return self._is_float(node.body, depth) and self._is_float(node.orelse, depth)
        if isinstance(node, ast.Call) and isinstance(node.func, Ref):
            return self._gives_float(node.func, node, depth)
        values = self._values.get(node.id, []) if isinstance(node, ast.Name) else []
        only = isinstance(node, ast.Name) and self._stores[node.id] == len(values) > 0 and depth < 9
        return only and all(self._is_float(value, depth + 1) for value in values)

    def _gives_float(self, function: Ref, call: ast.Call, depth: int) -> bool:
        if function.kind is Kind.MATH:
            return function.name in _FLOAT_MATH
        if function.kind is Kind.NUMPY:
            made = self.program.constants[function.name]
            return isinstance(made, type) and issubclass(made, np.floating)
        if function.kind is Kind.OPERATION and function.name in ("widen", "power"):
            return any(self._is_float(argument, depth) for argument in call.args)
        return function.kind is Kind.OPERATION and function.name in ("as_number", "as_float32", "as_float64")

    def _shape(self, base: ast.expr) -> tuple[int, ...] | None:
        """The shape of an array, None if unknown."""
        if isinstance(base, ast.Name):
            values = self._values.get(base.id, [])
            is_part = self._stores[base.id] == len(values) == 1 and base.id not in self._local_arrays
            itself = is_part and any(isinstance(node, ast.Name) and node.id == base.id for node in ast.walk(values[0]))
            return self._part_shape(values[0]) if is_part and not itself else self._local_arrays.get(base.id)
        if not isinstance(base, Ref):
            return None
        if base.kind is Kind.FIELD:
            return self.program.kernel.state[base.name].shape if self._has_own_sizes else None
        if base.kind is Kind.PARAMETER:
            return tuple(self.shapes.get(base.name, ())) or None if self._has_own_sizes else None
        if base.kind is Kind.LEAF:
            leaf = self.program.layouts[base.name].leaves[base.index]
            return (leaf.shape or (1,)) if self._has_own_sizes else None
        value = self.program.constants.get(base.name) if base.kind is Kind.CONSTANT else None
        return value.shape if isinstance(value, np.ndarray) else None

    @property
    def _has_own_sizes(self) -> bool:
        """Whether the sizes are those of this kernel; the code of a MuJoCo task serves models of several sizes."""
        return not self.program.kernel.shared

    # --- sites -------------------------------------------------------------------------------------------------------

    def _site(self, problem: str, what: str, axis: int | None = None) -> ast.expr:
        source = self.of.source
        self.sites.append(Site(problem, source.name, source.file, self.line, what, axis))
        return ast.Constant(len(self.sites))

    def _called_by_user(self, base: ast.expr) -> str:
        """What the user calls an array or a field."""
        if isinstance(base, Ref):
            prefix = {Kind.FIELD: "s.", Kind.PARAMETER: "p."}.get(base.kind, "")
            if base.kind is Kind.LEAF:
                path = self.program.layouts[base.name].leaves[base.index].path
                return f"{base.name}[{path!r}]" if path else base.name
            return prefix + base.name.split("__", 1)[-1]
        if isinstance(base, ast.Name):
            return "an array of this expression" if base.id.endswith("__") else base.id
        if isinstance(base, (ast.Subscript, ast.Attribute)):
            return self._called_by_user(base.value)
        if isinstance(base, ast.Call) and isinstance(base.func, Ref) and base.func.name in ("widen", "size"):
            return self._called_by_user(base.args[0])
        return "an array"

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt):
            self.line = getattr(node, "lineno", self.line)
        return super().visit(node)

    # --- indices -----------------------------------------------------------------------------------------------------

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return node
        if getattr(node, "of_tuple", False):
            node.value = self.visit(node.value)
            return node
        shape, line = self._shape(node.value), self.line
        self.line = getattr(node, "lineno", self.line)
        what = self._called_by_user(node.value)
        unchecked = [part for part in _places(node.slice, shape) if self._is_open(part, shape)]
        node.value, head = self.visit(node.value), ""
        if unchecked and shape is None and _has_effects(node.value):
            head = self._name("base")
            node.value = at(node, ast.NamedExpr(local(head, ast.Store()), node.value))
        base = local(head) if head else node.value
        single = isinstance(node.slice, ast.Constant) and type(node.slice.value) is int
        if unchecked and shape is None and single and isinstance(node.ctx, ast.Load):
            new: Any = operation("element", self._site("index", what, 0), node.value, node.slice)
        else:
            new = node
            self._replace_places(node, {id(part) for part, _ in unchecked}, shape, base, what)
        self.line = line
        return at(node, new) if hasattr(node, "lineno") else new

    def _is_open(self, place: tuple[ast.expr, int], shape: tuple[int, ...] | None) -> bool:
        """Whether an index has to be looked at when the code runs."""
        part, axis = place
        known = self._interval(part)
        return shape is None or known is None or not (-shape[axis] <= known[0] and known[1] < shape[axis])

    def _replace_places(
        self, node: ast.Subscript, parts: set[int], shape: tuple[int, ...] | None, base: ast.expr, what: str
    ) -> None:
        name = "inner_place" if getattr(node, "from_first", False) else "place"
        axes = {id(part): axis for part, axis in _places(node.slice, shape)}

        def replaced(part: ast.expr) -> ast.expr:
            new = self.visit(part)
            if id(part) not in parts:
                return new
            axis = axes[id(part)]
            size = ast.Constant(shape[axis]) if shape is not None else _size(base, axis)
            return operation(name, self._site("index", what, axis), size, new)

        if isinstance(node.slice, ast.Tuple):
            node.slice = ast.Tuple([replaced(part) for part in node.slice.elts], ast.Load())
        else:
            node.slice = replaced(node.slice)

    # --- statements --------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if isinstance(target, Ref) and target.kind is Kind.FIELD:
            self._fit_field(node, target)
        node.value = self.visit(node.value)
        if not isinstance(target, ast.Subscript):
            return node
        if self._may_overflow(target, node.value):
            what = self._called_by_user(target.value)
            node.value = operation("fitting_in", self._site("overflow", what), target.value, node.value)
        unknown = self._shape(target.value) is None and not _has_effects(target.value)
        places = [axis for _, axis in _places(target.slice, None)]
        node.targets = [self.visit(target)]
        if not unknown or not places:
            return node
        target: Any = node.targets[0]  # an element stays one
        base = target.value
        full = [ast.Compare(_size(base, axis), [ast.Gt()], [ast.Constant(0)]) for axis in places]
        test = full[0] if len(full) == 1 else ast.BoolOp(ast.And(), [*full])
        looked = [at(node, ast.Expr(copy.deepcopy(part))) for part in index_parts(target.slice) if _is_check(part)]
        return at(node, ast.If(test, [node], looked or [ast.Pass()]))

    def _may_overflow(self, target: ast.Subscript, value: ast.expr) -> bool:
        """Whether the user assigns an element a number that it may not hold. Array expressions wrap."""
        if getattr(target, "from_first", False) or _has_effects(target.value):
            return False
        dtype = self._dtype(target.value)
        return not _is_wide(dtype) and not self._fits(dtype, value)

    def _fits(self, dtype: np.dtype[Any] | None, value: ast.expr) -> bool:
        """Whether all that an expression can be is within the limits of an integer type."""
        known = self._interval(value)
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            return True
        if dtype is not None and self._read_from(value) == dtype:
            return True
        limits = np.iinfo(np.int8 if dtype is None else dtype)
        return (
            known is not None
            and limits.min <= known[0] <= known[1] <= limits.max
            and (dtype is not None or known[0] >= 0)
        )

    def _read_from(self, value: ast.expr) -> np.dtype[Any] | None:
        """The type of the memory that a number is read from, None if it is computed or unknown."""
        if isinstance(value, ast.Call) and isinstance(value.func, Ref) and value.func.name == "widen":
            return self._read_from(value.args[0])
        return self._dtype(value.value if isinstance(value, ast.Subscript) else value)

    def _fit_field(self, node: ast.Assign, target: Ref) -> None:
        field, value = self.program.kernel.state[target.name], node.value
        if field.dtype.kind not in "iu" or _is_wide(field.dtype) or not isinstance(value, ast.Call):
            return
        inner = value.args[0]
        if not self._fits(field.dtype, inner):
            site = self._site("overflow", f"s.{target.name}")
            value.args = [operation(f"fitting_{field.dtype.name}", site, inner)]

    def _dtype(self, base: ast.expr) -> np.dtype[Any] | None:
        if isinstance(base, Ref) and base.kind is Kind.FIELD:
            return self.program.kernel.state[base.name].dtype
        if isinstance(base, Ref) and base.kind is Kind.LEAF:
            return self.program.layouts[base.name].leaves[base.index].dtype
        return None

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, Ref) and call.func.kind is Kind.OPERATION:
            if call.func.name == "assign" and not self._is_copy_that_fits(*call.args):
                site = self._site("size", self._called_by_user(call.args[0]))
                node.value = operation("checked_assign", site, *map(self.visit, call.args))
                return node
            if call.func.name in _PROBLEMS:
                what = getattr(call, "what", "an array of this expression")
                axis = 0 if call.func.name == "item" else None
                site = self._site(_PROBLEMS[call.func.name], what, axis)
                node.value = operation(call.func.name, site, *call.args)
                return node
        return self.generic_visit(node)

    def _is_copy_that_fits(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether the sizes of an assignment to a slice are known and right; a number fits every part."""
        if isinstance(value, ast.Constant):
            return True
        full, given = self._part_shape(target), self._part_shape(value)
        return full is not None and full == given

    def _part_shape(self, node: ast.expr) -> tuple[int, ...] | None:
        """The shape of a part of an array, None if it is not the same whenever the code runs."""
        if isinstance(node, ast.Call) and isinstance(node.func, Ref) and node.func.name == "widen":
            return self._part_shape(node.args[0])
        if not isinstance(node, ast.Subscript):
            return self._shape(node)
        shape, parts = self._shape(node.value), index_parts(node.slice)
        if shape is None or len(parts) > len(shape) or any(_is_special(part) for part in parts):
            return None
        sizes: list[int] = []
        for part, size in zip(parts, shape, strict=False):
            if isinstance(part, ast.Slice):
                given = [bound for bound in (part.lower, part.upper, part.step) if bound is not None]
                if any(_number_of(bound) is None for bound in given):
                    return None
                bounds = [bound and _number_of(bound) for bound in (part.lower, part.upper, part.step)]
                sizes.append(len(range(*slice(*bounds).indices(size))))
        return (*sizes, *shape[len(parts) :])

    def visit_While(self, node: ast.While) -> Any:
        site = self._site("loop", "while")
        self.generic_visit(node)
        node.body = [at(node, ast.If(operation("spent", site), [ast.Break()], [])), *node.body]
        return node

    def visit_For(self, node: ast.For) -> Any:
        before: list[ast.stmt] = []
        call, line = node.iter, self.line
        self.generic_visit(node)
        self.line = line
        if _is_range(call) and hasattr(call, "lineno") and _constant_range(call) is None:
            before = self._limit(node, call)  # type: ignore[arg-type]  # a call, as was seen
        return [*before, node]

    def _limit(self, node: ast.For, call: ast.Call) -> list[ast.stmt]:
        """Let the range of a loop end at its start if it is too long; statements to run before the loop."""
        start, stop, step = (
            [ast.Constant(0), *call.args, ast.Constant(1)]
            if len(call.args) == 1
            else ([*call.args, ast.Constant(1)][:3])
        )
        before: list[ast.stmt] = []

        def kept(value: ast.expr) -> ast.expr:
            if isinstance(value, (ast.Constant, ast.Name)):
                return value
            name = self._name("bound")
            before.append(at(node, ast.Assign([local(name, ast.Store())], value)))
            return local(name)

        start, step = kept(start), kept(step)
        end = operation("stop", self._site("loop", "for"), start, stop, step)
        node.iter = at(call, ast.Call(call.func, [start, end, step], []))
        return before

    def _name(self, what: str) -> str:
        self._names += 1
        return f"checked_{what}{self._names}__"

    # --- numbers -----------------------------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        known, is_float = self._interval(node.right), self._is_float(node.right)
        self.generic_visit(node)
        divides = isinstance(node.op, (ast.FloorDiv, ast.Mod, ast.Div)) and hasattr(node, "lineno")
        if divides and (known is None or known[0] <= 0 <= known[1]) and not is_float:
            node.right = operation("divisor", self._site("division", _text(node.right)), node.right)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        divides_floats = len(node.args) == 2 and self._is_float(node.args[1])
        self.generic_visit(node)
        function = node.func
        if not isinstance(function, Ref) or not hasattr(node, "lineno"):
            return node
        if (function.kind, function.name) in _TO_INT and len(node.args) == 1:
            node.args = [operation("whole", self._site("conversion", f"{function.name}()"), node.args[0])]
        elif function.kind is Kind.OPERATION and function.name == "known_key":
            node.args = [self._site("key", getattr(node, "what", "a dict")), *node.args]
        elif function.kind is Kind.OPERATION and function.name == "power" and not any(map(self._is_float, node.args)):
            known = self._interval(node.args[1])
            if known is None or known[0] < 0:
                site = self._site("power", _text(node.args[1]))
                node.args[1] = operation("exponent", site, copy.deepcopy(node.args[0]), node.args[1])
        elif (function.kind, function.name) == (Kind.BUILTIN, "divmod") and not divides_floats:
            node.args[1] = operation("divisor", self._site("division", "divmod()"), node.args[1])
        return node


# --- syntax ----------------------------------------------------------------------------------------------------------


def _listed(found: Any) -> list[ast.stmt]:
    return found if isinstance(found, list) else [] if found is None else [found]


def _places(index: ast.expr, shape: tuple[int, ...] | None) -> list[tuple[ast.expr, int]]:
    """The parts of an index that pick one place, each with its axis; from the last on after an ellipsis."""
    parts = index_parts(index)
    found: list[tuple[ast.expr, int]] = []
    axis = 0
    for place, part in enumerate(parts):
        if isinstance(part, ast.Constant) and part.value is ...:
            axis = -sum(not _is_new_axis(later) for later in parts[place + 1 :])
            continue
        if _is_new_axis(part):
            continue
        if not isinstance(part, ast.Slice):
            found.append((part, axis))
        axis += 1
    return found


def _is_special(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value in (None, ...)


def _is_new_axis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is None


def _size(base: ast.expr, axis: int) -> ast.expr:
    loaded = copy.deepcopy(base)
    return operation("size", loaded, ast.Constant(axis))


def _is_check(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, Ref) and needs_fault(node.func.name)


def _has_effects(node: ast.AST) -> bool:
    return any(isinstance(part, Ref) and part.kind in _EFFECTS for part in ast.walk(node)) or any(
        isinstance(part, ast.NamedExpr) for part in ast.walk(node)
    )


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, Ref) and node.func.name == "range"


def _constant_range(node: ast.expr) -> range | None:
    if not isinstance(node, ast.Call) or not _is_range(node):
        return None
    values = [_number_of(argument) for argument in node.args]
    if any(value is None for value in values) or (len(values) == 3 and values[2] == 0):
        return None
    return range(*values)  # type: ignore[arg-type]  # ints


def _number_of(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number_of(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _is_wide(dtype: np.dtype[Any] | None) -> bool:
    """Whether every int that native code computes fits."""
    return dtype is not None and (dtype.kind in "bf" or dtype == np.int64)


_COMBINE: dict[type, Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: int.__floordiv__,
}


def _combined(operator: ast.operator, left: _Interval, right: _Interval) -> _Interval | None:
    combine = _COMBINE.get(type(operator))
    if combine is None or (combine is int.__floordiv__ and right[0] <= 0 <= right[1]):
        return None
    ends = [combine(one, other) for one in left for other in right]
    return min(ends), max(ends)


def _text(node: ast.expr) -> str:
    """What the user wrote, nearly."""

    class Plain(ast.NodeTransformer):
        def visit_Ref(self, node: Ref) -> ast.expr:
            prefix = {Kind.FIELD: "s.", Kind.PARAMETER: "p."}.get(node.kind, "")
            return local(prefix + node.name.split("__", 1)[-1])

        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            hidden = isinstance(node.func, ast.Name) and node.func.id in _HIDDEN
            return node.args[-1] if hidden else node

    try:
        return ast.unparse(Plain().visit(copy.deepcopy(node)))[:60]
    except (ValueError, AttributeError):
        return "the divisor"


_HIDDEN = {"widen", *OPERATIONS}
