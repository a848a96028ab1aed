"""The vocabulary of resolved functions: Python syntax trees in which a `Ref` stands for every name that is not local.

What the kernel language computes differently from a compiler is part of the tree, as calls of operations:

    widen(x)             a number that was read from memory, as 64 bits; anything else as it is
    power(x, y)          `x ** y` and `pow(x, y)`: the C library's pow
    as_float32(x), ...   a value as a field of this type holds it, read back as 64 bits
    as_number(x)         a float of 64 bits: the reward, `float(x)`
    as_flag(x)           a bool: terminated, truncated
    assign(part, x)      `array[a:b] = x` without a temporary array; the two may overlap
    local_array_int8_3x4()   an array on the function's own stack, at the head of a function (see `arrays.py`)
    pairwise_sum(x, n)   the first n elements of a row of floats, added in NumPy's order
    floor(x), ceil(x), trunc(x), rint(x)   as floats
    unsure()             what stands for a mistake; such a program is not compiled

A statement with a true attribute `in_place` was `+=` or the like: an array is changed, and not replaced. An
`ast.Subscript` with a true attribute `from_first` was made for an array expression: its indices count from the first
element. One with a true attribute `of_tuple` takes a part of a tuple, which is known to be there. Operations of checked
code are in `checks.py`.

Fields, parameters and numbers of an action are read as 64 bits too, wherever a backend keeps them.
"""

from __future__ import annotations

import ast
import copy
import enum
from typing import Any, TypeVar

T = TypeVar("T")


class Kind(enum.Enum):
    """What a name is."""

    FIELD = "a field of the state: a number, or the row's own array"
    PARAMETER = "a parameter: a number, or the row's own array"
    LEAF = "a leaf of the observation or the action: an array, or the number of an action"
    ARGUMENT = "the whole state, parameters, observation or action, as an argument of a helper"
    CONSTANT = "a value in `Program.constants`"
    NUMPY = "a function or a type of NumPy, or `enumerate` or `zip`, in `Program.constants`"
    BUILTIN = "another function of Python"
    MATH = "a function of Python's `math`"
    DRAW = "a function of `vecenv.kernel.rng`; its first argument is the stream"
    DRAWN_ARRAY = "a method of `rng` that returns a new array; see `drawn.py`"
    HELPER = "another function of the program"
    TWIN = "the native twin of a Python function, see `language/twins.py` and `Program.twins`"
    OPERATION = "an operation of the language, see above"


class Ref(ast.expr):
    """A name, and what it is.

    Attributes:
        kind: what it is.
        name: of the field, parameter, constant or function; the role of a leaf or an argument.
        index: number of a leaf.
        ctx: whether it is read or written.
    """

    _fields = ("kind", "name", "index", "ctx")
    kind: Kind
    name: str
    index: int
    ctx: ast.expr_context


def copied(node: T) -> T:
    """A copy of a node, or of a list of nodes, in which every node stands at one place. `copy.deepcopy` is slower."""
    if isinstance(node, list):
        return [copied(part) for part in node]  # type: ignore[return-value]  # a list again
    if not isinstance(node, ast.AST):
        return node
    new, fields = node.__class__.__new__(node.__class__), node._fields
    for name, value in node.__dict__.items():
        has_nodes = name in fields and isinstance(value, (ast.AST, list))
        new.__dict__[name] = copied(value) if has_nodes else value
    return new


def ref(kind: Kind, name: str, index: int = 0, context: ast.expr_context | None = None) -> Ref:
    """A reference that is read, unless the context says otherwise."""
    return Ref(kind, name, index, context or ast.Load())  # type: ignore[call-arg]  # a node takes its fields


def operation(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of an operation of the language."""
    return ast.Call(ref(Kind.OPERATION, name), list(arguments), [])


def widened(node: ast.expr) -> ast.expr:
    """A number that was read from memory, as 64 bits."""
    return at(node, operation("widen", node))


def part_of_tuple(several: ast.expr, place: ast.expr) -> ast.Subscript:
    """`several[place]` with a constant place."""
    part = ast.Subscript(several, place, ast.Load())
    part.of_tuple = True  # type: ignore[attr-defined]  # see above
    return part


def local(name: str, context: ast.expr_context | None = None) -> ast.Name:
    """A local variable."""
    return ast.Name(name, context or ast.Load())


def at(node: Any, new: Any) -> Any:
    """A new node with the place of another in the user's file."""
    return ast.copy_location(new, node)


def loading(target: ast.expr) -> ast.expr:
    """A copy of an assignment's target as an expression that reads it."""
    target = copy.deepcopy(target)
    assert isinstance(target, (ast.Name, ast.Attribute, ast.Subscript))
    target.ctx = ast.Load()
    return target


def index_parts(index: ast.expr) -> list[ast.expr]:
    """The parts of an index, one per axis."""
    return list(index.elts) if isinstance(index, ast.Tuple) else [index]


def is_slice(index: ast.expr) -> bool:
    """Whether an index picks a part of an array and not one element."""
    parts = index_parts(index)
    return any(isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...) for part in parts)


def slice_shape(index: ast.expr) -> list[Any]:
    """Which parts of an index are slices. A slice with a step equals only itself."""
    parts = index_parts(index)
    return [isinstance(part, ast.Slice) if getattr(part, "step", None) is None else ast.unparse(part) for part in parts]
