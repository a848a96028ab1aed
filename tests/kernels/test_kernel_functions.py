"""Functions of kernels that are compiled without Numba's inference, and those that are left to Numba."""

import ast
import math

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from numba import njit

import vecenv
from tests.kernels.test_backend import kernel_and_layouts
from vecenv.errors import KernelError
from vecenv.kernel.lower.resolve import resolve
from vecenv.kernel.numba.early import call_early
from vecenv.kernel.numba.emit import emit
from vecenv.kernel.numba.entry import python_function
from vecenv.kernel.numba.load import _load
from vecenv.kernel.numba.math import ALONE, EXACT, functions, local_array
from vecenv.kernel.numba.one_module import object_code, parts_of_one_module
from vecenv.kernel.numba.row_loop import KernelCalls, compile_row_loop

RUN = """
def run(orders):
    TABLE = column_int64_1(orders, (2,))
    A = column_int64_1(TABLE[0], (12,))
    B = column_float64_1(TABLE[1], (16,))
    function(A, B)
    return 0
"""
ARRAYS = """
def third(a, n):
    return (a[n:], n)

def function(a, b):
    scratch = local_array_int8_3x4__()
    assign__(scratch, 1)
    scratch[-1, 2] = 300 % 7
    for i in range(11, -1, -5):
        b[i] = widen__(a[i]) * 0.5
    rest, n = third(a, 9)
    for x in rest:
        b[12] = b[12] + x
    assign__(a[1:5], a[0:4])
    assign__(a[5:-2], a[6:-1])
    assign__(b[0:3], a[3:4])
    b[13] = len(a[-3:40]) + len(a[7:2]) * 100
    for row in scratch:
        b[14] = b[14] + widen__(row[2])
    a[-1] = n + scratch.shape[1]
"""
PARTS_OF_ROWS = """
def function(a, b):
    scratch = local_array_int8_3x4__()
    for k in range(12):
        scratch[k // 4, k % 4] = k
    assign__(scratch[1:, 1:3], scratch[:-1, 1:3])
    assign__(scratch[:-1, 0:1], scratch[1:, 0:1])
    for k in range(12):
        b[k] = widen__(scratch[k // 4, k % 4])
"""
NUMBERS = """
def sign(x):
    if x < 0:
        return -1
    elif x == 0:
        return 0
    return 1

def function(a, b):
    for i in range(12):
        x = widen__(a[i])
        b[i] = (x // 4) * 1000 + x % 4 + (10 if x in (2, -3) else 20) + sign(x) * 0.25
        if not (x > 2 and a[x] > 0 or x == -5):
            b[i] = -b[i] / 3
        flag = x > 0
        b[i] = b[i] + flag + (flag == (i < 6)) + abs(x) + min(x, 2.5) + max(x, i, 1) + int(b[i])
    n = 0
    while True:
        n = n + 1
        if n % 2 == 0:
            continue
        if n > 7 or n == WEIGHTS[n % 3]:
            break
        b[15] = b[15] + n * WEIGHTS[-1]
    a[0] = -n - (x if b[15] > 0.0 else 7)
"""
TWO_TYPES = """
def function(a, b):
    total = 0
    for i in range(12):
        total = total + widen__(a[i]) * 0.5
    b[0] = total
"""
SINGLE = """
def single(x):
    return float32(x)

def function(a, b):
    b[0] = single(0.1) * single(0.7)
"""


def memory():
    columns = [np.arange(12) - 5, np.linspace(-3, 4, 16)]
    return np.array([column.ctypes.data for column in columns], np.int64), columns


def by_python(text):
    names = {"widen__": lambda value: value.item() if np.ndim(value) == 0 else value, "float32": np.float32}
    names |= {"assign__": lambda target, value: np.copyto(target, np.array(value)), "WEIGHTS": (5, 9, 2)}
    names["local_array_int8_3x4__"] = lambda: np.empty((3, 4), np.int8)
    exec(text, names)
    _, columns = memory()
    names["function"](*columns)
    return [column.tobytes() for column in columns]


def natively(text, monkeypatch):
    """What is in memory afterwards, and the functions that were left to Numba."""
    left = []
    write = KernelCalls._write

    def watched(self, name, arguments):
        found = write(self, name, arguments)
        left.extend([name] if found is None and self.definition(name) is not None else [])
        return found

    monkeypatch.setattr(KernelCalls, "_write", watched)
    nodes = {node.name: node for node in ast.parse(text).body}
    names = {**functions("exact"), "WEIGHTS": (5, 9, 2), "float32": np.float32}
    names["local_array_int8_3x4__"] = local_array("int8", (3, 4))
    exec(text, names)
    for name in nodes:
        names[name] = njit(**EXACT, **ALONE)(names[name])
    with parts_of_one_module():
        library, symbol = compile_row_loop(RUN, names, (), {**EXACT, **ALONE}, True, nodes)
    run, library = _load(object_code(library, symbol), symbol, python_function)
    table, columns = memory()
    assert run(table.ctypes.data) == 0
    del library
    return [column.tobytes() for column in columns], left


@pytest.mark.parametrize("text", [ARRAYS, PARTS_OF_ROWS, NUMBERS], ids=["arrays", "parts of rows", "numbers"])
def test_functions_with_plain_types_do_what_python_does_without_numba(text, monkeypatch):
    assert natively(text, monkeypatch) == (by_python(text), [])


@pytest.mark.parametrize(
    ("text", "left"), [(TWO_TYPES, ["function"]), (SINGLE, ["single", "function"])], ids=["two types", "32 bits"]
)
def test_functions_with_other_types_are_left_to_numba(text, left, monkeypatch):
    assert natively(text, monkeypatch) == (by_python(text), left)


@pytest.mark.parametrize(("precision", "calls"), [("exact", ["math__cos", "math__sin"]), ("fast", [])])
def test_mathematics_of_a_step_is_called_before_it_unless_it_is_no_call(precision, calls):
    found = call_early(emit(resolve(*kernel_and_layouts("CartPole-v1"))), precision).functions
    early = ast.walk(found["early"].node) if "early" in found else []
    assert [node.func.id for node in early if isinstance(node, ast.Call)] == calls
    step = ast.unparse(found["step"].node)
    assert all(call not in step for call in calls)


BIG_ENDIAN, HALF = np.array([1, 2, 3], ">i4"), np.array([1.0, 2.0, 3.0], np.float16)
LARGE = np.array([1, 2, 2**63], np.uint64)


def small_kernel(step):
    """A kernel with an int and a float in its state."""

    class Small:
        observation_space = Box(-np.inf, np.inf, (1,), np.float64)
        action_space = Discrete(3)
        state = {"m": int, "x": float}

        def reset(s, rng, p):
            s.m = 45
            s.x = rng.random()

        def observe(s, obs, p):
            obs[0] = s.x

    Small.step = step
    return vecenv.kernel("KernelFunctions-v0")(Small)


def guarded_shifts(s, action, rng, p):
    count = 0
    for n in range(-2, 6):
        if n >= 0 and (s.m >> n) & 1 == 1:
            count += 1
    s.x = count
    s.m += action
    return 0.0, False


def guarded_shifts_as_values(s, action, rng, p):
    count = 0
    for n in range(-3, 5):
        found = n >= 0 and (12345 >> n) & 1 == 1
        if not (n < 0 or (s.m + 9) >> n == 0):
            count += 100
        if found:
            count += 1
    s.x = count
    s.m += action
    return 0.0, False


def names_that_look_like_constants(s, action, rng, p):
    constant_speed = 0.5 * s.x
    s.x = math.cos(constant_speed)
    return 0.0, False


def membership(s, action, rng, p):
    s.x = (action in (0, 2)) + 2 * (s.m not in (45, 46)) + 4 * (0 <= action < 2)
    s.m += action
    return 0.0, False


def two(x, y):
    return x - 2.0 * y


def same_order(s, action, rng, p):
    s.x = two(x=rng.random(), y=rng.random()) + two(y=2.0, x=rng.random())
    return 0.0, False


@pytest.mark.parametrize(
    "step", [guarded_shifts, guarded_shifts_as_values, same_order, names_that_look_like_constants, membership]
)
def test_the_same_bits_as_in_python(step):
    small_kernel(step)
    with vecenv.make("KernelFunctions-v0", 9) as native, vecenv.make("KernelFunctions-v0", 9, engine="sync") as python:
        native.reset(seed=3)
        python.reset(seed=3)
        for number in range(6):
            actions = (np.arange(9) + number) % 3
            assert native.step(actions)[0].tolist() == python.step(actions)[0].tolist()


def big_endian(s, action, rng, p):
    return BIG_ENDIAN[action] * 1.0, False


def half(s, action, rng, p):
    return HALF[action] * 1.0, False


def large(s, action, rng, p):
    return LARGE[action] * 0.5, False


def other_order(s, action, rng, p):
    return two(y=rng.random(), x=rng.random()), False


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (big_endian, "BIG_ENDIAN has dtype >i4"),
        (half, "HALF has dtype float16"),
        (large, "LARGE has values from 2\\*\\*63 on"),
        (other_order, "write them in the order of the parameters"),
    ],
)
def test_what_would_differ_is_refused(step, words):
    with pytest.raises(KernelError, match=words):
        vecenv.make(small_kernel(step), 2)
