"""Types of expressions over arrays: what NumPy would make of them, and what is refused by name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel.language.array_functions import CONSTRUCTOR, ELEMENTWISE, MOVER, REDUCTION, ArrayFunction
from vecenv.kernel.lower.program import Program
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.lower.types import (
    BOOL,
    FLOAT,
    INT,
    Array,
    Bound,
    Number,
    Shape,
    Size,
    Tuple,
    Type,
    broadcast,
    common_dtype,
    fits,
    most,
    promoted_dtypes,
    shape_text,
    wide,
)

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.MatMult: "dot",
    ast.USub: "negative",
    ast.Invert: "invert",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
"""The elementwise functions that operators are."""
COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
_LOGICAL = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not"})
_TESTS = frozenset({"isnan", "isfinite", "isinf"})
_BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "invert"})
_ROUNDING = frozenset({"floor", "ceil", "trunc", "rint"})
ADDED_ONE_BY_ONE = 8
"""NumPy adds fewer floats than these one by one, in whatever way they lie in memory."""
_POWERS = "NumPy's ** of arrays rounds otherwise than the C library's; write x * x, or a for loop with math.pow"


class Typing(Protocol):
    """What is asked of the inference."""

    program: Program

    def fail(self, node: ast.AST, rule: str) -> KernelError: ...
    def type_of(self, node: ast.AST) -> Type: ...
    def constant(self, node: ast.expr) -> int | None: ...
    def size_of_slice(self, part: ast.Slice, size: Size) -> Size: ...


# --- operators -------------------------------------------------------------------------------------------------------


def of_unary(typing: Typing, node: ast.UnaryOp, operand: Array) -> Type:
    if isinstance(node.op, ast.UAdd):
        return Array(operand.dtype, operand.shape)
    return of_elementwise(typing, node, OPERATORS[type(node.op)], [operand])


def of_binary(typing: Typing, node: ast.BinOp, left: Type, right: Type) -> Type:
    name = OPERATORS.get(type(node.op))
    if name is None:
        raise typing.fail(node, "shifts of arrays have no native form; multiply or divide by a power of two")
    if name == "dot":
        return _of_dot(typing, node, left, right, matrix=True)
    return of_elementwise(typing, node, name, [left, right])


def of_compare(typing: Typing, node: ast.Compare, operands: Sequence[Type]) -> Type:
    if len(node.ops) > 1:
        raise typing.fail(node, "an array cannot be compared twice at once; write (a < x) & (x < b)")
    if isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return BOOL
    name = OPERATORS.get(type(node.ops[0]))
    if name is None:
        raise typing.fail(node, "arrays are compared by == and <; `is` has no native form")
    return of_elementwise(typing, node, name, operands)


def of_power(typing: Typing, node: ast.Call, base: Type, exponent: Type) -> Type:
    if isinstance(base, Array) and isinstance(exponent, Number) and exponent.value == 2:
        return of_elementwise(typing, node, "square", [base])
    raise typing.fail(node, _POWERS)


def of_builtin(typing: Typing, node: ast.Call, name: str, arguments: Sequence[Type]) -> Type:
    """`abs`, `min`, `max`, `sum`, `any` and `all` of arrays."""
    if name == "abs":
        return of_elementwise(typing, node, "absolute", list(arguments))
    array = arguments[0]
    if name == "divmod" or len(arguments) > 1 or not isinstance(array, Array):
        instead = {"min": "np.minimum", "max": "np.maximum"}.get(name, "// and %")
        raise typing.fail(node, f"{name}() of arrays compares them as a whole; use {instead}")
    if len(array.shape) != 1:
        raise typing.fail(node, f"{name}() goes over rows of {array}; use np.{name}")
    if name == "sum" and np.dtype(array.dtype).kind == "f":
        raise typing.fail(node, "sum() of floats rounds otherwise from Python 3.12 on; use np.sum")
    return BOOL if name in ("any", "all") else INT if name == "sum" else wide(array.element)


# --- elementwise -----------------------------------------------------------------------------------------------------


def of_elementwise(typing: Typing, node: ast.AST, name: str, operands: Sequence[Type]) -> Type:
    """The type of an elementwise function; of numbers alone it is a number."""
    arrays = [as_array(typing, node, operand) for operand in operands]
    shape = broadcast([operand.shape for operand in arrays if isinstance(operand, Array)])
    if shape is None:
        shapes = " and ".join(shape_text(operand.shape) for operand in arrays if isinstance(operand, Array))
        raise typing.fail(node, f"arrays of shapes {shapes} do not fit together")
    dtype = dtype_of(typing, node, name, arrays)
    if not any(isinstance(operand, Array) for operand in arrays):
        return Number(promoted_dtypes(dtype))
    return Array(dtype, shape)


def as_array(typing: Typing, node: ast.AST, operand: Type) -> Array | Number:
    """An operand of an elementwise function; several numbers are an array to NumPy."""
    if isinstance(operand, (Array, Number)):
        return operand
    if isinstance(operand, Tuple) and operand.items:
        items = [as_array(typing, node, item) for item in operand.items]
        if all(isinstance(item, Number) for item in items):
            return Array(common_dtype(items), (len(items),))
        if all(isinstance(item, Array) and item.shape == items[0].shape for item in items):  # type: ignore[union-attr]
            assert isinstance(items[0], Array)
            return Array(common_dtype(items), (len(items), *items[0].shape))
    raise typing.fail(node, f"this computes with {operand}; it must be numbers and arrays")


def dtype_of(typing: Typing, node: ast.AST, name: str, operands: Sequence[Array | Number]) -> str:
    """The dtype of the elements that an elementwise function gives."""
    if name in COMPARISONS or name in _LOGICAL:
        return "bool"
    dtype = computed_with(typing, node, name, operands)
    return "bool" if name in _TESTS else dtype


def computed_with(typing: Typing, node: ast.AST, name: str, operands: Sequence[Array | Number]) -> str:
    """The dtype in which an elementwise function computes."""
    dtype = common_dtype(operands[1:] if name == "where" else operands)
    kind = np.dtype(dtype).kind
    if name in COMPARISONS or name in _LOGICAL:
        return dtype
    _check_constants(typing, node, dtype, operands)
    if name in _BITWISE:
        if kind == "f":
            raise typing.fail(node, "& | ^ ~ are of bools and ints, and this is a float array; compare it first")
        return dtype
    if kind == "b" and name in ("subtract", "negative", "sign", "square", "floor_divide", "remainder"):
        raise typing.fail(node, f"np.{name} of bools has no meaning in NumPy; use .astype(int), or & | ^ ~")
    if name in _ROUNDING and kind != "f":
        raise typing.fail(node, f"np.{name} of ints changes with the version of NumPy; leave it out")
    if name == "divide" and kind != "f":
        return "float64"
    if name == "sqrt" and kind != "f":
        if np.dtype(dtype).itemsize < 4:
            raise typing.fail(node, f"np.sqrt of a {dtype} array rounds to less than 32 bits; use .astype(float)")
        return "float64"
    return dtype


def _check_constants(typing: Typing, node: ast.AST, dtype: str, operands: Sequence[Array | Number]) -> None:
    if np.dtype(dtype).kind not in "iu":
        return
    limits = np.iinfo(dtype)
    for operand in operands:
        if isinstance(operand, Number) and operand.value is not None and not limits.min <= operand.value <= limits.max:
            raise typing.fail(node, f"{operand.value} does not fit {dtype}: {limits.min} ... {limits.max}")


# --- parts -----------------------------------------------------------------------------------------------------------


def of_subscript(
    typing: Typing, node: ast.Subscript, owner: Array, nodes: Sequence[ast.expr], parts: Sequence[Type]
) -> Type:
    """The type of a part of an array. Of the index there is a node and a type for each axis."""
    if any(isinstance(part, (Array, Tuple)) for part in parts):
        return _of_selection(typing, node, owner, nodes, parts)
    shape: list[Size] = []
    axis, count = 0, len(owner.shape)
    taken = sum(not _is_new_axis(part) and not _is_ellipsis(part) for part in nodes)
    if taken > count:
        raise typing.fail(node, f"{taken} indices for {owner}")
    for part, kind in zip(nodes, parts, strict=True):
        if _is_new_axis(part):
            shape.append(1)
            continue
        if _is_ellipsis(part):
            rest = count - taken
            shape += owner.shape[axis : axis + rest]
            axis += rest
            continue
        if isinstance(part, ast.Slice):
            shape.append(typing.size_of_slice(part, owner.shape[axis]))
        else:
            _check_index(typing, node, kind, owner.shape[axis])
        axis += 1
    shape += owner.shape[axis:]
    whole = not shape and not any(_is_ellipsis(part) for part in nodes)
    return owner.element if whole else Array(owner.dtype, tuple(shape), owner.origins)


def _check_index(typing: Typing, node: ast.Subscript, kind: Type, size: Size) -> None:
    if not isinstance(kind, Number):
        return
    if kind.dtype == "float64":
        raise typing.fail(node, f"{ast.unparse(_readable(node.slice))} is a float and no index; use int(...) or //")
    if kind.value is not None and isinstance(size, int) and not -size <= kind.value < size:
        raise typing.fail(node, f"index {kind.value} is out of range: there are {size} elements")


def _readable(node: ast.expr) -> ast.expr:
    """An index as the user wrote it, as far as that is known."""
    return node if not any(isinstance(part, Ref) for part in ast.walk(node)) else ast.Name("the index")


def _is_new_axis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is None


def _is_ellipsis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is ...


def _of_selection(
    typing: Typing, node: ast.Subscript, owner: Array, nodes: Sequence[ast.expr], parts: Sequence[Type]
) -> Type:
    """`x[mask]`, `x[places]`, `x[rows, columns]`."""
    if any(isinstance(part, (ast.Slice, ast.Constant)) and not _is_int(part) for part in nodes):
        raise typing.fail(node, "an array as an index beside a slice has no native form; write a for loop")
    places = [as_array(typing, node, part) for part in parts]
    masks = [part for part in places if part.dtype == "bool"]
    if masks:
        mask = masks[0]
        if len(places) > 1 or not isinstance(mask, Array) or mask.shape != owner.shape[: len(mask.shape)]:
            raise typing.fail(node, f"a mask must have the shape of what it selects from; this is {mask} for {owner}")
        count = int(np.prod([most(size) for size in mask.shape], dtype=np.int64))
        return Array(owner.dtype, (Bound(count), *owner.shape[len(mask.shape) :]))
    if any(np.dtype(part.dtype).kind == "f" for part in places):
        raise typing.fail(node, "an index is an int, and this is a float array; use .astype(int)")
    if len(places) > len(owner.shape):
        raise typing.fail(node, f"{len(places)} indices for {owner}")
    shape = broadcast([part.shape for part in places if isinstance(part, Array)])
    if shape is None:
        raise typing.fail(node, "the arrays of indices do not fit together")
    return Array(owner.dtype, (*shape, *owner.shape[len(places) :]))


def _is_int(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and type(part.value) is int


def check_stored(typing: Typing, node: ast.AST, held: Type, value: Type) -> None:
    """Raise unless a value can be assigned to a part of an array, or to a number."""
    if not isinstance(held, (Array, Number)) or not isinstance(value, (Array, Number, Tuple)):
        return
    value = as_array(typing, node, value)
    if isinstance(held, Number):
        if isinstance(value, Array):
            raise typing.fail(node, f"one element is assigned {value}; take one of its elements, [0]")
        return
    kinds = "biuf"
    stored, its = np.dtype(held.dtype).kind, np.dtype(value.dtype).kind
    if (stored == "b") != (its == "b") and stored == "b":
        raise typing.fail(node, f"a bool array is assigned {value}; use a comparison")
    if stored in "iu" and its == "f":
        raise typing.fail(node, f"{held} is assigned {value}; use .astype(int), //, or declare it as float")
    assert its in kinds
    if isinstance(value, Array) and not fits(value.shape, held.shape):
        rule = f"an array of shape {shape_text(value.shape)} does not fit into one of shape {shape_text(held.shape)}"
        raise typing.fail(node, rule)


# --- functions -------------------------------------------------------------------------------------------------------


def arguments_of(typing: Typing, node: ast.Call, function: ArrayFunction, given: Sequence[ast.expr]) -> dict[str, Any]:
    """The arguments of a call by name; those that were left out have their default."""
    keywords = {keyword.arg or "**": keyword.value for keyword in node.keywords}
    if function.name == "reshape" and len(given) > 2:
        given = [given[0], ast.Tuple(list(given[1:]), ast.Load())]
    try:
        bound = function.signature.bind(*given, **keywords)
    except TypeError as error:
        taken = ", ".join(map(str, function.signature.parameters.values())).replace("<class 'float'>", "float")
        raise typing.fail(node, f"{function.name}: {error}; in kernels it takes {taken}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def of_call(typing: Typing, node: ast.Call, function: ArrayFunction, given: Sequence[ast.expr]) -> Type:
    arguments = arguments_of(typing, node, function, given)
    for value in arguments.values():
        if isinstance(value, ast.expr):
            typing.type_of(value)
    if function.kind == CONSTRUCTOR:
        return _of_constructor(typing, node, function.name, arguments)
    if function.kind == ELEMENTWISE:
        return _of_elementwise_call(typing, node, function.name, arguments)
    if function.kind == REDUCTION:
        return _of_reduction(typing, node, function.name, arguments)
    if function.kind == MOVER:
        return _of_mover(typing, node, function.name, arguments)
    return _of_selecting(typing, node, function.name, arguments)


def dtype_named(typing: Typing, node: Any) -> str | None:
    """The dtype that an argument names; None if it was left out."""
    if node is None or node is float:
        return None if node is None else "float64"
    value: Any = None
    if isinstance(node, Ref) and node.kind is Kind.NUMPY:
        value = typing.program.constants[node.name]
    elif isinstance(node, Ref) and node.kind is Kind.OPERATION and node.name == "as_number":
        value = float
    elif isinstance(node, Ref) and node.kind is Kind.BUILTIN:
        value = {"int": int, "bool": bool}.get(node.name)
    if isinstance(value, type) and issubclass(value, (np.number, np.bool_, int, float)):
        dtype = np.dtype(value)
        if dtype.kind in "biuf" and dtype not in (np.uint64, np.float16):
            return dtype.name
    raise typing.fail(node, "the dtype must be float, int, bool or a NumPy type of up to 64 bits, such as np.int8")


def shape_named(typing: Typing, node: ast.expr) -> Shape:
    """The shape that an argument names, which must be known."""
    kind = typing.type_of(node)
    sizes = kind.items if isinstance(kind, Tuple) else (kind,)
    shape: list[Size] = []
    for size in sizes:
        if isinstance(size, Number) and size.most is not None:
            shape.append(Bound(size.most))
            continue
        if not isinstance(size, Number) or size.value is None or size.value < 0:
            raise typing.fail(
                node, "the shape of a local array must be known when the kernel is compiled; use constants, or x.shape"
            )
        shape.append(size.value)
    return tuple(shape)


def _of_constructor(typing: Typing, node: ast.Call, name: str, arguments: dict[str, Any]) -> Type:
    dtype = dtype_named(typing, arguments["dtype"])
    if name.endswith("_like"):
        like = as_array(typing, node, typing.type_of(arguments["a"]))
        if isinstance(like, Number):
            raise typing.fail(node, f"np.{name} is given a number; it needs an array")
        return Array(dtype or like.dtype, like.shape)
    if name in ("zeros", "ones", "empty", "full"):
        fill = typing.type_of(arguments["fill_value"]) if name == "full" else FLOAT
        if not isinstance(fill, Number):
            raise typing.fail(node, "np.full fills with one number")
        return Array(dtype or promoted_dtypes(fill.dtype), shape_named(typing, arguments["shape"]))
    if name == "eye":
        rows = shape_named(typing, arguments["N"])
        columns = rows if arguments["M"] is None else shape_named(typing, arguments["M"])
        return Array(dtype or "float64", (*rows, *columns))
    if name == "array":
        made = as_array(typing, node, typing.type_of(arguments["object"]))
        if isinstance(made, Number):
            raise typing.fail(node, "np.array of one number; use the number")
        return Array(dtype or made.dtype, made.shape)
    start, stop, step = arange_values(typing, node, arguments)
    return Array(dtype or "int64", (len(range(start, stop, step)),))


def arange_values(typing: Typing, node: ast.Call, arguments: dict[str, Any]) -> tuple[int, int, int]:
    """Start, stop and step of `np.arange`."""
    given = [arguments["start"], arguments["stop"], arguments["step"]]
    values = [typing.constant(value) if isinstance(value, ast.expr) else value for value in given]
    if given[1] is None:
        values = [0, values[0], values[2]]
    if any(value is None for value in values) or not values[2]:
        raise typing.fail(node, "np.arange needs ints that are known when the kernel is compiled; write a for loop")
    start, stop, step = values
    return start, stop, step  # type: ignore[return-value]  # none is None


def _of_elementwise_call(typing: Typing, node: ast.Call, name: str, arguments: dict[str, Any]) -> Type:
    if name == "astype":
        dtype = dtype_named(typing, arguments["dtype"])
        assert dtype is not None
        array = typing.type_of(arguments["a"])
        assert isinstance(array, Array)
        return Array(dtype, array.shape)
    if name == "where" and (arguments["x"] is None) != (arguments["y"] is None):
        raise typing.fail(node, "np.where takes a condition, or a condition and two values")
    if name == "where" and arguments["x"] is None:
        return _of_selecting(typing, node, "nonzero", {"a": arguments["condition"]})
    operands = [typing.type_of(value) for value in arguments.values()]
    if name == "copy":
        array = as_array(typing, node, operands[0])
        return Array(array.dtype, array.shape) if isinstance(array, Array) else array
    return of_elementwise(typing, node, name, operands)


def axis_of(typing: Typing, node: ast.AST, value: Any, count: int) -> int | None:
    """The axis that an argument names, counted from the first; None for all."""
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return None
    axis = typing.constant(value) if isinstance(value, ast.expr) else value
    if axis is None or not -count <= axis < count:
        raise typing.fail(node, f"the axis must be a constant from 0 to {count - 1}")
    return int(axis) % count


def _of_reduction(typing: Typing, node: ast.Call, name: str, arguments: dict[str, Any]) -> Type:
    operands = [typing.type_of(value) for key, value in arguments.items() if key != "axis"]
    if name == "dot":
        return _of_dot(typing, node, *operands, matrix=False)
    arrays = [as_array(typing, node, operand) for operand in operands]
    if name == "array_equal":
        return BOOL
    array = arrays[0]
    if isinstance(array, Number):
        raise typing.fail(node, f"np.{name} is given a number; it needs an array")
    kind = np.dtype(array.dtype).kind
    if name == "norm":
        if len(array.shape) != 1:
            raise typing.fail(node, "np.linalg.norm is of one row of numbers here; use np.sqrt(np.sum(x * x))")
        return FLOAT
    axis = axis_of(typing, node, arguments["axis"], len(array.shape))
    dtype = _dtype_of_reduction(name, array.dtype)
    if axis is None:
        return Number(promoted_dtypes(dtype)) if dtype != "uint64" else INT
    if len(array.shape) == 1:
        return INT if dtype == "uint64" else Number(promoted_dtypes(dtype))
    if dtype == "uint64":
        raise typing.fail(node, f"the {name} of unsigned ints has no native form along an axis; use .astype(int) first")
    later = array.shape[axis + 1 :]
    is_sum = kind == "f" and name in ("sum", "mean") and most(array.shape[axis]) >= ADDED_ONE_BY_ONE
    if is_sum and any(isinstance(size, Bound) for size in later):
        rule = f"np.{name} of floats adds them in another order if a later axis has one element; write a for loop"
        raise typing.fail(node, rule)
    return Array(dtype, (*array.shape[:axis], *array.shape[axis + 1 :]))


def _dtype_of_reduction(name: str, dtype: str) -> str:
    kind = np.dtype(dtype).kind
    if name in ("any", "all"):
        return "bool"
    if name in ("argmax", "argmin", "count_nonzero"):
        return "int64"
    if name in ("sum", "prod"):
        return dtype if kind == "f" else "uint64" if kind == "u" else "int64"
    if name == "mean":
        return dtype if kind == "f" else "float64"
    return dtype


def _of_dot(typing: Typing, node: ast.AST, left: Type, right: Type, matrix: bool) -> Type:
    one, other = as_array(typing, node, left), as_array(typing, node, right)
    if isinstance(one, Number) or isinstance(other, Number):
        if matrix:
            raise typing.fail(node, "@ is of arrays, and this is a number; use *")
        if isinstance(one, Number) and isinstance(other, Number):
            raise typing.fail(node, "dot is of arrays, and these are numbers; use *")
        return of_elementwise(typing, node, "multiply", [one, other])
    dtype = common_dtype([one, other])
    if np.dtype(dtype).kind == "b":
        raise typing.fail(node, "@ and dot are of numbers; use .astype(int)")
    if len(one.shape) > 2 or len(other.shape) > 2:
        raise typing.fail(node, "@ and dot are of vectors and matrices here; write a for loop")
    if one.shape[-1:] != other.shape[-2:][:1]:
        shapes = f"{shape_text(one.shape)} and {shape_text(other.shape)}"
        raise typing.fail(node, f"arrays of shapes {shapes} cannot be multiplied by @ or dot")
    shape = (*one.shape[:-1], *(other.shape[1:] if len(other.shape) == 2 else ()))
    return Array(dtype, shape) if shape else Number(promoted_dtypes(dtype))


def _of_mover(typing: Typing, node: ast.Call, name: str, arguments: dict[str, Any]) -> Type:
    values = list(arguments.values())
    array = as_array(typing, node, typing.type_of(values[0]))
    if isinstance(array, Number):
        raise typing.fail(node, f"np.{name} is given a number; it needs an array")
    count = len(array.shape)
    if name == "roll":
        axis = axis_of(typing, node, arguments["axis"], count)
        if not isinstance(typing.type_of(arguments["shift"]), Number):
            raise typing.fail(node, "np.roll shifts by one number; call it once per axis")
        if axis is None and count > 1:
            raise typing.fail(node, "np.roll of several axes at once has no native form; name the axis")
        return Array(array.dtype, array.shape)
    if name == "flip":
        axis_of(typing, node, arguments["axis"], count)
        return array
    if name in ("fliplr", "flipud"):
        if count < (2 if name == "fliplr" else 1):
            raise typing.fail(node, f"np.{name} needs an array of two axes")
        return array
    if name == "transpose":
        return Array(array.dtype, array.shape[::-1], array.origins)
    if name == "rot90":
        return _of_rot90(typing, node, array, arguments["k"])
    if any(isinstance(size, Bound) for size in array.shape):
        raise typing.fail(node, f"np.{name} of an array whose size is not known; write a for loop")
    size = int(np.prod([most(size) for size in array.shape], dtype=np.int64))
    if name in ("ravel", "flatten"):
        return Array(array.dtype, (size,), array.origins if name == "ravel" else frozenset())
    return Array(array.dtype, _reshaped(typing, node, size, arguments["shape"]), array.origins)


def _reshaped(typing: Typing, node: ast.Call, size: int, wanted: ast.expr) -> Shape:
    kind = typing.type_of(wanted)
    items = kind.items if isinstance(kind, Tuple) else (kind,)
    values = [item.value if isinstance(item, Number) else None for item in items]
    if None in values or values.count(-1) > 1:
        raise typing.fail(node, "the shape must be known when the kernel is compiled")
    known = int(np.prod([value for value in values if value != -1], dtype=np.int64))  # type: ignore[arg-type]
    shape = tuple(size // known if value == -1 and known else value for value in values)
    if int(np.prod(shape, dtype=np.int64)) != size:  # type: ignore[arg-type]
        raise typing.fail(node, f"{size} elements cannot have the shape {shape}")
    return shape  # type: ignore[return-value]  # none is None


def _of_rot90(typing: Typing, node: ast.Call, array: Array, turns: Any) -> Type:
    if len(array.shape) != 2:
        raise typing.fail(node, "np.rot90 turns arrays of two axes here")
    known = typing.constant(turns) if isinstance(turns, ast.expr) else turns
    if known is None:
        if array.shape[0] != array.shape[1]:
            raise typing.fail(node, f"np.rot90 with a k that is not known needs a square array, and this is {array}")
        return Array(array.dtype, array.shape)
    return Array(array.dtype, array.shape if known % 2 == 0 else array.shape[::-1])


def _of_selecting(typing: Typing, node: ast.Call, name: str, arguments: dict[str, Any]) -> Type:
    if name == "concatenate":
        return _of_concatenate(typing, node, arguments)
    array = as_array(typing, node, typing.type_of(arguments["a"]))
    if isinstance(array, Number):
        raise typing.fail(node, f"np.{name} is given a number; it needs an array")
    count = Bound(int(np.prod([most(size) for size in array.shape], dtype=np.int64)))
    if name == "flatnonzero":
        return Array("int64", (count,))
    if name == "argwhere":
        return Array("int64", (count, len(array.shape)))
    return Tuple(tuple(Array("int64", (count,)) for _ in array.shape))


def _of_concatenate(typing: Typing, node: ast.Call, arguments: dict[str, Any]) -> Type:
    given = typing.type_of(arguments["arrays"])
    if not isinstance(given, Tuple) or not given.items:
        raise typing.fail(node, "np.concatenate needs its arrays written out: np.concatenate((a, b))")
    arrays = [as_array(typing, node, item) for item in given.items]
    if not all(isinstance(array, Array) for array in arrays):
        raise typing.fail(node, "np.concatenate is given a number; write np.array([x]) or (x,)")
    axis = axis_of(typing, node, arguments["axis"], len(arrays[0].shape))  # type: ignore[union-attr]
    shapes = [array.shape for array in arrays]  # type: ignore[union-attr]
    if axis != 0:
        raise typing.fail(node, "np.concatenate puts arrays one after the other along the first axis here")
    if any(shape[1:] != shapes[0][1:] for shape in shapes):
        raise typing.fail(node, f"arrays of shapes {', '.join(map(shape_text, shapes))} cannot be concatenated")
    sizes = [shape[0] for shape in shapes]
    total = sum(map(most, sizes))
    size: Size = total if all(isinstance(size, int) for size in sizes) else Bound(total)
    return Array(common_dtype(arrays), (size, *shapes[0][1:]))


def instead_of(callee: Callable[..., Any]) -> str:
    """What to say of a function of NumPy that kernels do not have for arrays."""
    name = getattr(callee, "__name__", str(callee))
    if isinstance(callee, type):
        return f"np.{name}() of an array; use .astype(np.{name})"
    return f"np.{name} of an array has no native form; write a for loop"
