"""Native versions of `_physics.py`: libmujoco's functions, called by their addresses. Only the compiler imports this.

Addresses are read from memory and never part of the code, so that code can be stored on disk; see `_simulator.WORDS`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.np import arrayobj

from vecenv.kernel.numba.compile import column
from vecenv.kernel.numba.math import NATIVE, address, intrinsic

_BAD = 4
"""Kinds of warnings of a diverged simulation: position, velocity, acceleration, control."""
_int32_at, _float64_at = column("int32", 1), column("float64", 1)


def _call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Call the C function at the address that comes first with the words after it."""
    function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * (len(arguments) - 1))
    builder.call(builder.inttoptr(arguments[0], function.as_pointer()), arguments[1:])
    return context.get_dummy_value()


@intrinsic
def _call_2(typing_context: Any, function: Any, first: Any, second: Any) -> Any:
    return types.void(*[types.int64] * 3), _call


@intrinsic
def _call_4(typing_context: Any, function: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    return types.void(*[types.int64] * 5), _call


@njit(**NATIVE)
def load(words: Any, physics: Any) -> None:
    _call_4(words[5], words[6], words[7], address(physics), words[9])


@njit(**NATIVE)
def save(words: Any, physics: Any) -> None:
    _call_4(words[4], words[6], words[7], address(physics), words[9])


@njit(**NATIVE)
def clear(words: Any) -> None:
    _call_2(words[3], words[6], words[7])


@njit(**NATIVE)
def forward(words: Any) -> None:
    _call_2(words[2], words[6], words[7])


@njit(**NATIVE)
def advance(words: Any) -> None:
    for _ in range(words[8]):
        _call_2(words[0], words[6], words[7])
    if words[1] != 0:
        _call_2(words[1], words[6], words[7])


@njit(**NATIVE)
def trouble(words: Any) -> Any:
    found = 0
    for kind in range(_BAD):
        number = _int32_at(words[10] + kind * words[11], 1)
        if number[0] != 0:
            number[0] = 0
            found = kind + 1 if found == 0 else found
    if found == 0 and not _is_finite(words[12], words[13]):
        found = 1
    if found == 0 and not _is_finite(words[14], words[15]):
        found = 2
    return found


@njit(**NATIVE)
def _is_finite(place: Any, count: Any) -> Any:
    values, differences = _float64_at(place, count), 0.0
    for k in range(count):
        differences += values[k] - values[k]  # NaN unless the value is finite
    return differences == 0.0


# --- sums in NumPy's order -------------------------------------------------------------------------------------------


@njit(**NATIVE)
def _plain(value: Any, low: Any, high: Any) -> Any:
    return value


@njit(**NATIVE)
def _square(value: Any, low: Any, high: Any) -> Any:
    return value * value


@njit(**NATIVE)
def _clipped_square(value: Any, low: Any, high: Any) -> Any:
    value = low if value < low else high if value > high else value
    return value * value


def _pairwise(term: Any) -> Any:
    """NumPy's `pairwise_sum` of `term(value)`: eight partial sums up to 128 numbers, halves beyond."""

    @njit(**NATIVE)
    def level_0(values: Any, begin: Any, count: Any, low: Any, high: Any) -> Any:
        if count < 8:
            total = term(values[begin], low, high)
            for k in range(begin + 1, begin + count):
                total = total + term(values[k], low, high)
            return total
        a, b = term(values[begin], low, high), term(values[begin + 1], low, high)
        c, d = term(values[begin + 2], low, high), term(values[begin + 3], low, high)
        e, f = term(values[begin + 4], low, high), term(values[begin + 5], low, high)
        g, h = term(values[begin + 6], low, high), term(values[begin + 7], low, high)
        whole = begin + count - count % 8
        for k in range(begin + 8, whole, 8):
            a = a + term(values[k], low, high)
            b = b + term(values[k + 1], low, high)
            c = c + term(values[k + 2], low, high)
            d = d + term(values[k + 3], low, high)
            e = e + term(values[k + 4], low, high)
            f = f + term(values[k + 5], low, high)
            g = g + term(values[k + 6], low, high)
            h = h + term(values[k + 7], low, high)
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for k in range(whole, begin + count):
            total = total + term(values[k], low, high)
        return total

    level = level_0
    for _ in range(4):
        level = _halved(level_0, level)
    return level


def _halved(whole: Any, half: Any) -> Any:
    @njit(**NATIVE)
    def level(values: Any, begin: Any, count: Any, low: Any, high: Any) -> Any:
        if count <= 128:
            return whole(values, begin, count, low, high)
        first = count // 2
        first = first - first % 8
        return half(values, begin, first, low, high) + half(values, begin + first, count - first, low, high)

    return level


_sum_plain, _sum_square, _sum_clipped = (_pairwise(term) for term in (_plain, _square, _clipped_square))


@intrinsic
def _flat(typing_context: Any, values: Any) -> Any:
    """A one-dimensional view of a contiguous array."""
    array_type = types.Array(values.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
        array = arrayobj.make_array(array_type)(context, builder)
        size = source.itemsize
        layout = {"shape": [source.nitems], "strides": [size], "itemsize": size}
        arrayobj.populate_array(array, data=source.data, meminfo=None, **layout)
        return array._getvalue()

    return array_type(values), generate


@njit(**NATIVE)
def sum_of(values: Any) -> Any:
    return types.float64(_sum_plain(_flat(values), 0, values.size, 0.0, 0.0)) if values.size else 0.0


@njit(**NATIVE)
def sum_of_squares(values: Any) -> Any:
    return types.float64(_sum_square(_flat(values), 0, values.size, 0.0, 0.0)) if values.size else 0.0


@njit(**NATIVE)
def sum_of_squares_clipped(values: Any, low: Any, high: Any) -> Any:
    return _sum_clipped(_flat(values), 0, values.size, low, high) if values.size else 0.0
