"""The checks of checked code (`lower/checks.py`) and the poll of endless loops, for emitted code. Needs Numba.

Checks get the address of their row's fault: words of 64 bits, `FAULT_WORDS`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError

from vecenv.kernel.lower.checks import BUDGET
from vecenv.kernel.numba.interrupts import PLACES, PYTHON, STOPS, THREAD
from vecenv.kernel.numba.math import NATIVE, assign, intrinsic, overloaded

POLL_TURNS = 1 << 20
"""Turns of a `while` loop after which it looks whether it was interrupted."""
_WORD = ir.IntType(64)
_IDENT = ir.IntType(8 * ctypes.sizeof(ctypes.c_ulong))
"""Python's idents of threads: 32 bits on Windows."""


# --- loops that do not end -------------------------------------------------------------------------------------------


@intrinsic
def poll(typing_context: Any) -> Any:
    """Count a turn of a loop, and every POLL_TURNS ask whether to stop."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        turns = cgutils.alloca_once(builder, _WORD)  # zero when the function begins
        answer = cgutils.alloca_once(builder, cgutils.bool_t)
        turn = builder.add(builder.load(turns), _WORD(1))
        builder.store(turn, turns)
        builder.store(cgutils.false_bit, answer)
        due = builder.icmp_unsigned("==", builder.and_(turn, _WORD(POLL_TURNS - 1)), _WORD(0))
        with builder.if_then(due, likely=False):
            builder.store(_is_interrupted(builder), answer)
        return builder.load(answer)

    return types.boolean(), generate


def _is_interrupted(builder: Any) -> Any:
    """Whether there was a SIGINT, in the main thread, or this thread is to stop."""
    number, nothing = ir.IntType(32), ir.VoidType()

    def call(name: str, result: Any, *arguments: Any) -> Any:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    ensure, release, occurred, set_again = PYTHON
    held = call(ensure, number)
    interrupted = builder.icmp_unsigned("!=", call(occurred, number), number(0))
    with builder.if_then(interrupted):
        call(set_again, nothing)
    call(release, nothing, held)
    stops = builder.module.globals.get(STOPS) or cgutils.add_global_variable(
        builder.module, ir.ArrayType(_WORD, PLACES), STOPS
    )
    thread = builder.zext(call(THREAD, _IDENT), _WORD)
    for place in range(PLACES):
        one = builder.load(builder.gep(stops, [_WORD(0), _WORD(place)]))
        interrupted = builder.or_(interrupted, builder.icmp_unsigned("==", one, thread))
    return interrupted


# --- faults ----------------------------------------------------------------------------------------------------------


def _word_at(place: int) -> tuple[Any, Any]:
    """Functions that read and write a word of a fault."""

    @intrinsic
    def read(typing_context: Any, fault: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(_pointer(builder, arguments[0], place))

        return types.int64(types.int64), generate

    @intrinsic
    def write(typing_context: Any, fault: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[1], _pointer(builder, arguments[0], place))
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return read, write


def _pointer(builder: Any, address: Any, place: int) -> Any:
    return builder.inttoptr(builder.add(address, _WORD(8 * place)), _WORD.as_pointer())


(_site, _set_site), (_, _set_value), (_, _set_limit), (_turns, _set_turns) = map(_word_at, range(4))


@njit(**NATIVE)
def _note(fault: Any, site: Any, value: Any, limit: Any) -> None:
    """Write a fault, unless the row has one."""
    if _site(fault) == 0:
        _set_site(fault, site)
        _set_value(fault, value)
        _set_limit(fault, limit)


# --- indices ---------------------------------------------------------------------------------------------------------


@overloaded()
def place(fault, site, size, index):  # type: ignore[no-untyped-def]  # Numba compares signatures, annotations too
    """An index from the first element on, without a sign, so that the compiler needs no code for negative ones."""

    def checked(fault, site, size, index):  # type: ignore[no-untyped-def]  # as above
        found = types.int64(index)
        found = found + size if found < 0 else found
        if types.uint64(found) < types.uint64(size):
            return types.uint64(found)
        _note(fault, site, index, size)
        return types.uint64(0)

    return checked


@overloaded()
def inner_place(fault, site, size, index):  # type: ignore[no-untyped-def]  # as above
    """An index that was counted from the first element on before; a negative one was too low by the size."""

    def checked(fault, site, size, index):  # type: ignore[no-untyped-def]  # as above
        found = types.int64(index)
        if types.uint64(found) < types.uint64(size):
            return types.uint64(found)
        _note(fault, site, found - size if found < 0 else found, size)
        return types.uint64(0)

    return checked


@overloaded()
def size(array, axis):  # type: ignore[no-untyped-def]  # as above
    if isinstance(array, types.BaseTuple):
        length = len(array)
        return lambda array, axis: length
    return lambda array, axis: array.shape[axis]


@overloaded(prefer_literal=True)
def element(fault, site, array, index):  # type: ignore[no-untyped-def]  # as above
    """`array[index]` with a constant index, which may be an array: as a tuple of one value (see `emit.py`)."""
    known = getattr(index, "literal_value", None)
    if isinstance(array, types.BaseTuple):
        if known is None:
            raise TypingError("vecenv: a tuple of different values needs a constant index")
        return eval(f"lambda fault, site, array, index: (array[{known}],)")
    many = array.ndim > 1

    def checked(fault, site, array, index):  # type: ignore[no-untyped-def]  # as above
        return (array[_inside(fault, site, array.shape[0], index)],)

    def checked_number(fault, site, array, index):  # type: ignore[no-untyped-def]  # as above
        found = _inside(fault, site, array.shape[0], index)
        return (array[found] if array.shape[0] > 0 else array.dtype.type(0),)

    return checked if many else checked_number


@njit(**NATIVE)
def _inside(fault: Any, site: Any, length: Any, index: Any) -> Any:
    found = index + length if index < 0 else index
    if 0 <= found < length:
        return found
    _note(fault, site, index, length)
    return 0


@overloaded()
def checked_assign(fault, site, target, value):  # type: ignore[no-untyped-def]  # as above
    """`target[...] = value`, if the sizes fit."""
    if not isinstance(value, types.Array):
        return lambda fault, site, target, value: assign(target, value)

    def checked(fault, site, target, value):  # type: ignore[no-untyped-def]  # as above
        fits = True
        for axis in range(target.ndim):
            have, need = value.shape[axis], target.shape[axis]
            if have != need and have != 1:
                fits = False
                _note(fault, site, have, need)
        if fits:
            assign(target, value)

    return checked


@overloaded()
def fills(fault, site, size, full):  # type: ignore[no-untyped-def]  # as above
    """Note that a value of a size does not fill an axis of another."""

    def checked(fault, site, size, full):  # type: ignore[no-untyped-def]  # as above
        if size != full and size != 1:
            _note(fault, site, size, full)

    return checked


@overloaded()
def joins(fault, site, one, other):  # type: ignore[no-untyped-def]  # as above
    """Note that axes of two sizes cannot be computed with."""

    def checked(fault, site, one, other):  # type: ignore[no-untyped-def]  # as above
        if one != other and one != 1 and other != 1:
            _note(fault, site, one, other)

    return checked


@overloaded()
def room(fault, site, size, most):  # type: ignore[no-untyped-def]  # as above
    """Note that a queue is full."""

    def checked(fault, site, size, most):  # type: ignore[no-untyped-def]  # as above
        if size >= most:
            _note(fault, site, size, most)

    return checked


@overloaded()
def not_empty(fault, site, size):  # type: ignore[no-untyped-def]  # as above
    """Note that there is no item to be taken."""

    def checked(fault, site, size):  # type: ignore[no-untyped-def]  # as above
        if size == 0:
            _note(fault, site, 0, 0)

    return checked


@overloaded()
def item(fault, site, size, index):  # type: ignore[no-untyped-def]  # as above
    """Note that a list or a queue has no item with an index."""

    def checked(fault, site, size, index):  # type: ignore[no-untyped-def]  # as above
        if not -size <= index < size:
            _note(fault, site, index, size)

    return checked


@overloaded()
def known_key(fault, site, is_known, key, value):  # type: ignore[no-untyped-def]  # as above
    """The value of a key; note that a dict does not have it."""

    def checked(fault, site, is_known, key, value):  # type: ignore[no-untyped-def]  # as above
        if not is_known:
            _note(fault, site, types.int64(key), 0)
        return value

    return checked


# --- numbers ---------------------------------------------------------------------------------------------------------


@overloaded()
def divisor(fault, site, value):  # type: ignore[no-untyped-def]  # as above
    """A value to divide by; 1 instead of an int that is 0."""
    if not isinstance(value, (types.Integer, types.Boolean)):
        return lambda fault, site, value: value

    def checked(fault, site, value):  # type: ignore[no-untyped-def]  # as above
        if value == 0:
            _note(fault, site, 0, 0)
            return types.int64(1)
        return types.int64(value)

    return checked


@overloaded()
def exponent(fault, site, base, value):  # type: ignore[no-untyped-def]  # as above
    """An exponent; 0 instead of a negative int if the base is an int too, whose power is a float in Python."""
    if not isinstance(base, (types.Integer, types.Boolean)) or not isinstance(value, types.Integer):
        return lambda fault, site, base, value: value

    def checked(fault, site, base, value):  # type: ignore[no-untyped-def]  # as above
        if value < 0:
            _note(fault, site, value, 0)
            return types.int64(0)
        return types.int64(value)

    return checked


@overloaded()
def whole(fault, site, value):  # type: ignore[no-untyped-def]  # as above
    """A value that can become an int; 0.0 instead of a float that cannot."""
    if not isinstance(value, types.Float):
        return lambda fault, site, value: value

    def checked(fault, site, value):  # type: ignore[no-untyped-def]  # as above
        if -9223372036854775808.0 <= value < 9223372036854775808.0:
            return value
        _note(fault, site, 0, 0)
        return 0.0

    return checked


def _fitting(dtype: np.dtype[Any]) -> Any:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), min(int(limits.max), 2**63 - 1)

    @overloaded(strict=False)
    def fitting(fault, site, value):  # type: ignore[no-untyped-def]  # as above
        if not isinstance(value, types.Integer):
            return lambda fault, site, value: value

        def checked(fault, site, value):  # type: ignore[no-untyped-def]  # as above
            if not low <= value <= high:
                _note(fault, site, value, 0)
            return value

        return checked

    return fitting


_NARROW = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64")
_FITTING = {name: _fitting(np.dtype(name)) for name in _NARROW}


@overloaded(strict=False)
def fitting_in(fault, site, array, value):  # type: ignore[no-untyped-def]  # as above
    """What an element of an array can hold."""
    name = str(getattr(array, "dtype", ""))
    if name not in _FITTING or not isinstance(value, (types.Integer, types.Float)):
        return lambda fault, site, array, value: value
    limits = np.iinfo(name)
    if isinstance(value, types.Float):
        lowest, highest = float(limits.min) - 1.0, float(limits.max) + 1.0

        def checked(fault, site, array, value):  # type: ignore[no-untyped-def]  # as above
            if lowest < value < highest:
                return value
            _note(fault, site, 0, 1)
            return 0.0

        return checked
    fitting = _FITTING[name]
    return lambda fault, site, array, value: fitting(fault, site, value)


# --- budgets ---------------------------------------------------------------------------------------------------------


@overloaded()
def spent(fault, site):  # type: ignore[no-untyped-def]  # as above
    """Count a turn of a loop; whether there were too many."""

    def checked(fault, site):  # type: ignore[no-untyped-def]  # as above
        turns = _turns(fault) + 1
        _set_turns(fault, turns)
        if turns <= BUDGET:
            return False
        _note(fault, site, turns, BUDGET)
        return True

    return checked


@overloaded()
def stop(fault, site, start, end, step):  # type: ignore[no-untyped-def]  # as above
    """The end of a range; its start if it is too long."""

    def checked(fault, site, start, end, step):  # type: ignore[no-untyped-def]  # as above
        if step == 0:
            _note(fault, site, 0, BUDGET)
            return types.int64(start)
        distance = types.float64(end) - types.float64(start)
        length = distance / types.float64(step)
        if length <= 0.0:
            return types.int64(end)
        turns = types.float64(_turns(fault)) + length
        if turns <= BUDGET:
            _set_turns(fault, types.int64(turns))
            return types.int64(end)
        _note(fault, site, types.int64(min(turns, 9e18)), BUDGET)  # type: ignore[call-overload, arg-type]  # Numba converts
        _set_turns(fault, BUDGET)
        return types.int64(start)

    return checked


def checks() -> dict[str, Any]:
    """The functions that checked code calls."""
    found = {"place__": place, "inner_place__": inner_place, "size__": size, "element__": element}
    found |= {
        "checked_assign__": checked_assign,
        "fills__": fills,
        "joins__": joins,
        "divisor__": divisor,
        "exponent__": exponent,
        "known_key__": known_key,
        "room__": room,
        "not_empty__": not_empty,
        "item__": item,
        "whole__": whole,
    }
    found |= {f"fitting_{name}__": fitting for name, fitting in _FITTING.items()}
    return found | {"fitting_in__": fitting_in, "spent__": spent, "stop__": stop}
