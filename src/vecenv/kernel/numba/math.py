"""The functions that emitted code calls: conversions, powers, and mathematics in both precisions. Needs Numba.

Exact: the C library's functions, as Python's `math` calls them. Fast: polynomials without branches, so that LLVM can
compute them for several envs with one instruction. Their errors are within these bounds
(tests/kernels/test_fast_math.py):

    sin, cos     2e-16 absolute for |x| <= 1e5
    tan          5e-16 relative (away from its poles) for |x| <= 1e5
    exp          4e-16 relative for -700 <= x <= 700
    log          4e-16 relative, or 2e-16 absolute near 1
    tanh         4e-16 absolute

All other functions are the C library's in both precisions.
"""

from __future__ import annotations

import functools
import math
import platform
from collections.abc import Callable
from typing import Any, cast

import numba.extending
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.np import arrayobj

EXACT: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "fastmath": False}
"""A function without "fastmath" gets that of its first caller, and keeps it for later ones."""
FAST: dict[str, Any] = {**EXACT, "fastmath": {"contract", "nsz", "arcp"}}
"""Without "reassoc": it would undo the careful order of the range reductions."""
ALONE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only native code calls: no wrappers for Python, which take long to compile."""
NATIVE: dict[str, Any] = {**EXACT, **ALONE}
_FAST_NATIVE: dict[str, Any] = {**FAST, **ALONE}
intrinsic: Any = numba.extending.intrinsic  # its type hints leave the typing context among the arguments


def overloaded(options: dict[str, Any] = NATIVE, **settings: Any) -> Callable[[Any], Any]:
    """Make a function for native code of a function that gets Numba's types and returns what is compiled for them.

    `options` are the compiler's, `settings` those of Numba's `overload`.
    """

    def decorate(choose: Any) -> Any:
        def stub(*arguments: Any) -> Any:
            raise NotImplementedError(f"{choose.__name__} is for native code only")

        numba.extending.overload(stub, jit_options=cast(Any, options), **settings)(choose)
        return stub

    return decorate


# --- conversions -----------------------------------------------------------------------------------------------------


def _cast(value: Any, kind: Any, narrow: Any = None) -> Any:
    """What an intrinsic returns: a number of one type is given another, by way of a narrower one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found, its = arguments[0], signature.args[0]
        for wanted in (narrow, kind):
            if wanted is not None:
                found, its = context.cast(builder, found, its, wanted), wanted
        return found

    return kind(value), generate


def _conversion(dtype: np.dtype[Any]) -> Any:
    """A function that gives a value the type of a field and reads it back as 64 bits; it refuses other kinds."""
    narrow = getattr(types, dtype.name) if dtype.kind != "b" else types.boolean

    @intrinsic
    def convert(typing_context: Any, value: Any) -> Any:
        if dtype.kind == "f" and isinstance(value, (types.Float, types.Integer, types.Boolean)):
            return _cast(value, types.float64, narrow)
        if dtype.kind in "iu" and isinstance(value, (types.Integer, types.Boolean)):
            return _cast(value, types.int64, narrow)
        if dtype.kind == "b" and isinstance(value, types.Boolean):
            return _cast(value, types.boolean)
        raise TypingError(f"vecenv: a field of type {dtype} is assigned {value}")

    return convert


_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
_CONVERSIONS = {f"as_{name}__": _conversion(np.dtype(name)) for name in _DTYPES}


@intrinsic
def widen(typing_context: Any, value: Any) -> Any:
    """A number as 64 bits, anything else as it is."""
    if isinstance(value, types.Float):
        return _cast(value, types.float64)
    if isinstance(value, types.Integer):
        return _cast(value, types.int64)
    return value(value), lambda context, builder, signature, arguments: arguments[0]


@intrinsic
def as_flag(typing_context: Any, value: Any) -> Any:
    """A bool."""
    if isinstance(value, (types.Boolean, types.Integer, types.Float)):
        return _cast(value, types.boolean)
    raise TypingError(f"vecenv: step returns {value} as a flag; terminated and truncated are bools")


@intrinsic
def as_number(typing_context: Any, value: Any) -> Any:
    """A float of 64 bits, as a reward is."""
    if isinstance(value, (types.Boolean, types.Integer, types.Float)):
        return _cast(value, types.float64)
    raise TypingError(f"vecenv: step returns {value} as the reward; it must be a number")


# --- arrays ----------------------------------------------------------------------------------------------------------


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Where an array's elements begin."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = arrayobj.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


@overloaded()
def assign(target, value):  # type: ignore[no-untyped-def]  # as above
    """`target[...] = value` without a temporary array. Both may be parts of one array that overlap."""
    if not isinstance(value, types.Array):
        return _FILLS.get(target.ndim, _fill)
    if value.ndim != target.ndim or value.ndim > 3:
        raise TypingError(
            "vecenv: an array is assigned to a part with another number of dimensions, or with more than 3"
        )
    return (_copy_1, _copy_2, _copy_3)[value.ndim - 1]


def _fill(target, value):  # type: ignore[no-untyped-def]  # as above
    for index in np.ndindex(target.shape):
        target[index] = value


def _fill_1(target, value):  # type: ignore[no-untyped-def]  # as above
    for i in range(target.shape[0]):
        target[i] = value


def _fill_2(target, value):  # type: ignore[no-untyped-def]  # as above
    for i in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[i, j] = value


_FILLS = {1: _fill_1, 2: _fill_2}
"""By the number of dimensions; LLVM makes less of `np.ndindex`."""


def _copy_1(target, value):  # type: ignore[no-untyped-def]  # as above
    size = target.shape[0]
    step_0 = 0 if value.shape[0] == 1 else 1
    if address(target) > address(value):
        for back in range(size):
            target[size - 1 - back] = value[(size - 1 - back) * step_0]
    else:
        for i in range(size):
            target[i] = value[i * step_0]


def _copier(copy_part: Any) -> Any:
    """A function that copies an array by its parts along the first axis, with the function that copies a part."""

    def copy(target, value):  # type: ignore[no-untyped-def]  # as above
        size = target.shape[0]
        backwards = address(target) > address(value)
        step_0 = 0 if value.shape[0] == 1 else 1
        for turn in range(size):
            i = size - 1 - turn if backwards else turn
            copy_part(target[i], value[i * step_0])

    return copy


_copy_2 = _copier(njit(**NATIVE)(_copy_1))
_copy_3 = _copier(njit(**NATIVE)(_copy_2))


@functools.cache
def local_array(dtype: str, shape: tuple[int, ...]) -> Any:
    """A function that returns an array on the stack of the function that calls it. Its elements are not set."""
    element = types.boolean if dtype == "bool" else getattr(types, dtype)
    array_type = types.Array(element, len(shape), "C")

    @intrinsic
    def declare(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            data_type = context.get_data_type(element)
            item = context.get_abi_sizeof(data_type)
            data = cgutils.alloca_once(builder, data_type, size=word(int(np.prod(shape))))
            strides = [item * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
            array = arrayobj.make_array(array_type)(context, builder)
            arrayobj.populate_array(
                array,
                data=data,
                shape=[word(size) for size in shape],
                strides=[word(stride) for stride in strides],
                itemsize=word(item),
                meminfo=None,
            )
            return array._getvalue()

        return array_type(), generate

    return declare


@intrinsic
def flat(typing_context: Any, array: Any) -> Any:
    """The elements of an array, which lie one behind the other, as an array with one axis."""
    assert array.layout == "C"
    flat_type = types.Array(array.dtype, 1, "C", readonly=not array.mutable)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = arrayobj.make_array(array)(context, builder, arguments[0])
        count = functools.reduce(builder.mul, cgutils.unpack_tuple(builder, whole.shape))
        made = arrayobj.make_array(flat_type)(context, builder)
        arrayobj.populate_array(
            made, data=whole.data, shape=[count], strides=[whole.itemsize], itemsize=whole.itemsize, meminfo=None
        )
        return made._getvalue()

    return flat_type(array), generate


@intrinsic
def equals(typing_context: Any, element: Any, value: Any) -> Any:
    """Whether a narrow integer equals a number of 64 bits; integers are compared with the narrow one's bits."""
    is_float = isinstance(value, types.Float)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = arguments
        if is_float:
            wide = context.cast(builder, one, element, types.float64)
            return builder.fcmp_ordered("==", wide, context.cast(builder, other, value, types.float64))
        other = context.cast(builder, other, value, types.int64)
        narrow = builder.trunc(other, one.type)
        back = (builder.sext if element.signed else builder.zext)(narrow, other.type)
        return builder.and_(builder.icmp_signed("==", one, narrow), builder.icmp_signed("==", back, other))

    return types.boolean(element, value), generate


_DEPTH = 24
"""Twice as many elements need one more."""


@overloaded()
def pairwise_sum(values, count):  # type: ignore[no-untyped-def]  # as above
    """The sum of the first elements of a row of floats, in NumPy's order and width."""
    zero = values.dtype(0.0)
    places, sums = local_array("int64", (_DEPTH, 3)), local_array(str(values.dtype), (_DEPTH,))

    def add(values, count):  # type: ignore[no-untyped-def]  # as above
        if count <= 128:
            return zero + _block_sum(values, 0, count, zero)
        waiting, found = places(), sums()  # parts as begin, count and how many of its halves are begun; their sums
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, count, 0
        top, last = 0, -1
        while top >= 0:
            begin, size, begun = waiting[top, 0], waiting[top, 1], waiting[top, 2]
            half = size // 2
            half -= half % 8
            if size <= 128:
                last += 1
                found[last] = _block_sum(values, begin, size, zero)
                top -= 1
            elif begun == 2:
                last -= 1
                found[last] += found[last + 1]
                top -= 1
            else:
                waiting[top, 2] += 1
                top += 1
                waiting[top, 0] = begin + half * begun
                waiting[top, 1] = size - half if begun else half
                waiting[top, 2] = 0
        return zero + found[0]

    return add


@njit(**NATIVE)
def _block_sum(values: Any, begin: Any, count: Any, zero: Any) -> Any:
    """The sum of at most 128 elements: in eight parts, or one by one if there are fewer."""
    if count < 8:
        total = -zero
        for place in range(count):
            total += values[begin + place]
        return total
    r0, r1, r2, r3 = values[begin], values[begin + 1], values[begin + 2], values[begin + 3]
    r4, r5, r6, r7 = values[begin + 4], values[begin + 5], values[begin + 6], values[begin + 7]
    whole = count - count % 8
    for turn in range(1, whole // 8):
        place = begin + 8 * turn
        r0 += values[place]
        r1 += values[place + 1]
        r2 += values[place + 2]
        r3 += values[place + 3]
        r4 += values[place + 4]
        r5 += values[place + 5]
        r6 += values[place + 6]
        r7 += values[place + 7]
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    for place in range(whole, count):
        total += values[begin + place]
    return total


# --- powers ----------------------------------------------------------------------------------------------------------


def _library_function(name: str, number: Any) -> Any:
    """The C library's pow or powf. LLVM would make x * x of pow(x, 2), whose last bit differs once in a thousand."""

    @intrinsic
    def function(typing_context: Any, base: Any, exponent: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = context.get_data_type(number)
            callee = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind, kind]), name)
            callee.attributes.add("nobuiltin")
            return builder.call(callee, arguments)

        return number(number, number), generate

    return function


_library_pow = _library_function("pow", types.float64)
_library_powf = _library_function("powf", types.float32)


@intrinsic
def _double_of_bits(typing_context: Any, bits: Any) -> Any:
    return types.float64(types.int64), lambda context, builder, signature, arguments: builder.bitcast(
        arguments[0], ir.DoubleType()
    )


@intrinsic
def bits_of_double(typing_context: Any, number: Any) -> Any:
    return types.int64(types.float64), lambda context, builder, signature, arguments: builder.bitcast(
        arguments[0], ir.IntType(64)
    )


_GLIBC = platform.libc_ver()[0] == "glibc"


@intrinsic
def fused(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """`x * y + z`, rounded once."""
    number = types.float64
    return number(number, number, number), lambda context, builder, signature, arguments: builder.fma(*arguments)


@njit(**NATIVE)
def _squared(x: Any) -> Any:
    """What the GNU C library's pow(x, 2.0) gives, mostly without calling it.

    The error of pow is below 0.52 units in the last place, so it can differ from x * x only where the exact square is
    nearly half way between two numbers; it is called only there.
    """
    square = x * x
    unit = _double_of_bits(bits_of_double(square) & 0x7FF0000000000000) * 2.220446049250313e-16
    if abs(fused(x, x, -square)) <= 0.45 * unit:
        return square
    return _library_pow(x, 2.0)


def _is_whole(base: Any, exponent: Any) -> bool:
    """Whether an int is raised to an int. Raises TypingError if the result might be a float in Python."""
    if not isinstance(base, types.Integer) or not isinstance(exponent, types.Integer):
        return False
    known = getattr(exponent, "literal_value", None)
    if known is not None and known < 0:
        raise TypingError("vecenv: an int to the power of a negative int; use float(x) ** n")
    return True


def _power_of_two(base, exponent):  # type: ignore[no-untyped-def]  # as above
    return 0 if exponent > 63 else 1 << (exponent & 63)


@overloaded(prefer_literal=True)
def power_exact(base, exponent):  # type: ignore[no-untyped-def]  # as above
    """What Python's ** gives."""
    known = getattr(exponent, "literal_value", None)
    if _is_whole(base, exponent):
        return _power_of_two if getattr(base, "literal_value", None) == 2 else lambda base, exponent: base**exponent
    if known == 2 and _GLIBC and base == types.float64:
        return lambda base, exponent: _squared(base)
    if base == exponent == types.float32:
        return lambda base, exponent: _library_powf(base, exponent)
    return lambda base, exponent: _library_pow(types.float64(base), types.float64(exponent))


@overloaded()
def float_power(base, exponent):  # type: ignore[no-untyped-def]  # as above
    """What `math.pow` gives, of ints too."""
    return lambda base, exponent: _library_pow(types.float64(base), types.float64(exponent))


@overloaded(_FAST_NATIVE, prefer_literal=True)
def power_fast(base, exponent):  # type: ignore[no-untyped-def]  # as above
    """Products for small whole exponents, else pow."""
    known = getattr(exponent, "literal_value", None)
    if known == 2:
        return lambda base, exponent: base * base
    if known == 3:
        return lambda base, exponent: base * base * base
    if _is_whole(base, exponent):
        return _power_of_two if getattr(base, "literal_value", None) == 2 else lambda base, exponent: base**exponent
    return lambda base, exponent: math.pow(base, exponent)


# --- fast ------------------------------------------------------------------------------------------------------------
# Polynomials of sin and cos on |x| <= pi/4, and the parts of pi/2 and log 2, are those of the classic fdlibm.


@njit(**_FAST_NATIVE)
def _quarter(x: Any) -> Any:
    """The multiple of pi/2 that is nearest to x, modulo 4, and the rest of x."""
    turns = np.rint(x * 0.6366197723675814)
    left = x - turns * 1.57079632673412561417e00
    left = (left - turns * 6.07710050630396597660e-11) - turns * 2.02226624879595063154e-21
    return turns - 4.0 * np.floor(turns * 0.25), left


@njit(**_FAST_NATIVE)
def _sin_near_zero(x: Any) -> Any:
    z = x * x
    inner = 2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
    inner = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * inner)
    return x + x * z * (-1.66666666666666324348e-01 + z * inner)


@njit(**_FAST_NATIVE)
def _cos_near_zero(x: Any) -> Any:
    z = x * x
    inner = -2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)
    inner = 4.16666666666666019037e-02 + z * (
        -1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * inner)
    )
    return 1.0 - (0.5 * z - z * z * inner)


@njit(**_FAST_NATIVE)
def fast_sin(x: Any) -> Any:
    quarter, left = _quarter(float(x))
    value = _cos_near_zero(left) if (quarter == 1.0) | (quarter == 3.0) else _sin_near_zero(left)
    return -value if quarter >= 2.0 else value


@njit(**_FAST_NATIVE)
def fast_cos(x: Any) -> Any:
    quarter, left = _quarter(float(x))
    value = _sin_near_zero(left) if (quarter == 1.0) | (quarter == 3.0) else _cos_near_zero(left)
    return -value if (quarter == 1.0) | (quarter == 2.0) else value


@njit(**_FAST_NATIVE)
def fast_tan(x: Any) -> Any:
    return fast_sin(x) / fast_cos(x)


@njit(**_FAST_NATIVE)
def _exp_parts(x: Any) -> Any:
    """A power of two and a factor near one, whose product is exp(x)."""
    twos = np.rint(x * 1.4426950408889634)
    left = (x - twos * 6.93147180369123816490e-01) - twos * 1.90821492927058770002e-10
    z = left * left
    inner = 6.61375632143793436117e-05 + z * (-1.65339022054652515390e-06 + z * 4.13813679705723846039e-08)
    inner = left - z * (1.66666666666666019037e-01 + z * (-2.77777777770155933842e-03 + z * inner))
    return twos, 1.0 + (left + left * inner / (2.0 - inner))


@njit(**_FAST_NATIVE)
def fast_exp(x: Any) -> Any:
    x = float(x)
    inside = min(max(x, -745.2), 709.79)
    twos, factor = _exp_parts(inside)
    half = np.floor(twos * 0.5)
    first = _double_of_bits((np.int64(half) + 1023) << 52)
    second = _double_of_bits((np.int64(twos - half) + 1023) << 52)
    value = factor * first * second
    value = np.inf if x > 709.782712893384 else value
    value = 0.0 if x < -745.1332191019411 else value
    return x if x != x else value


@njit(**_FAST_NATIVE)
def fast_log(x: Any) -> Any:
    x = float(x)
    tiny = x < 2.2250738585072014e-308
    bits = bits_of_double(x * 18014398509481984.0 if tiny else x)
    exponent = (bits >> 52) - 1023
    mantissa = _double_of_bits((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)
    large = mantissa > 1.4142135623730951
    mantissa = 0.5 * mantissa if large else mantissa
    twos = float(exponent + (1 if large else 0)) - (54.0 if tiny else 0.0)
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    inner = 2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)
    odd = z * (6.666666666666735130e-01 + w * inner)
    half = 0.5 * f * f
    value = twos * 6.93147180369123816490e-01 - (
        (half - (s * (half + (odd + even)) + twos * 1.90821492927058770002e-10)) - f
    )
    value = -np.inf if x == 0.0 else value
    value = np.nan if x < 0.0 else value
    return x if (x != x) | (x == np.inf) else value


@njit(**_FAST_NATIVE)
def fast_tanh(x: Any) -> Any:
    x = float(x)
    size = min(abs(x), 20.0)
    grown = fast_exp(2.0 * size)
    value = 1.0 - 2.0 / (grown + 1.0)
    value = -value if x < 0.0 else value
    return x if x != x else value


# --- lengths of vectors ----------------------------------------------------------------------------------------------


@njit(**EXACT)
def _length(x: Any, y: Any, z: Any) -> Any:
    """The length of a vector, as Python's `math.hypot` computes it: scaled, in twice the precision, corrected once."""
    x, y, z = abs(x), abs(y), abs(z)
    if (x == np.inf) | (y == np.inf) | (z == np.inf):
        return np.inf
    largest = max(x, max(y, z))
    if not largest > 0.0:  # or NaN
        return x + y + z
    small = 1.0
    if largest < 2.2250738585072014e-308:
        small = 2.2250738585072014e-308
        x, y, z, largest = x / small, y / small, z / small, largest / small
    exponent = (bits_of_double(largest) >> 52) - 1022  # largest / 2 ** exponent is in 0.5 ... 1
    bits = (1023 - exponent) << 52 if exponent < 1023 else 1 << (1074 - exponent)
    scale = _double_of_bits(bits)
    total, low, lost = 1.0, 0.0, 0.0
    for part in (x * scale, y * scale, z * scale):
        square = part * part
        added = total + square
        low += fused(part, part, -square)
        lost += (total - added) + square
        total = added
    root = math.sqrt(total - 1.0 + (low + lost))
    square = -root * root
    added = total + square
    low += fused(-root, root, -square)
    lost += (total - added) + square
    rest = added - 1.0 + (low + lost)
    return small * ((root + rest / (2.0 * root)) / scale)


@overloaded()
def hypot(x, y, z=0.0):  # type: ignore[no-untyped-def]  # as above
    """What `math.hypot` gives, of two or three numbers."""
    return lambda x, y, z=0.0: _length(types.float64(x), types.float64(y), types.float64(z))


def functions(precision: str) -> dict[str, Any]:
    """The functions that emitted code calls by names that end in two underscores or begin with `math__`."""
    found = {f"math__{name}": getattr(math, name) for name in dir(math) if callable(getattr(math, name))}
    found |= {"widen__": widen, "assign__": assign, "as_flag__": as_flag, "as_number__": as_number, **_CONVERSIONS}
    found |= {"flat__": flat, "equals__": equals}
    found |= {"pairwise_sum__": pairwise_sum, "floor__": np.floor, "ceil__": np.ceil}
    found |= {"trunc__": np.trunc, "rint__": np.rint, "math__hypot": hypot}
    if precision == "fast":
        found |= {"math__sin": fast_sin, "math__cos": fast_cos, "math__tan": fast_tan, "math__exp": fast_exp}
        return found | {"math__log": fast_log, "math__tanh": fast_tanh, "power__": power_fast}
    return found | {"math__pow": float_power, "power__": power_exact}
