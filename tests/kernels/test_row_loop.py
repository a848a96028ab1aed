"""The compiler of the row loop, and parts of one module that others use too."""

import ctypes
import re

import numpy as np
import pytest
from numba import njit

import vecenv
from vecenv.kernel.backend import load_kernel
from vecenv.kernel.lower.resolve import resolve
from vecenv.kernel.numba.backend import NumbaBackend
from vecenv.kernel.numba.driver import BLOCK, rows_together
from vecenv.kernel.numba.entry import python_function
from vecenv.kernel.numba.load import _load
from vecenv.kernel.numba.math import NATIVE
from vecenv.kernel.numba.one_module import object_code, parts_of_one_module
from vecenv.kernel.numba.row_loop import NotInRowLoop, compile_row_loop

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
TEXT = """
def block(T, lo, hi):
    n = hi - lo
    total = 0
    A = column_{dtype}_1(T[0] + lo * {size}, (n,))
    B_grid = column_{dtype}_3(T[1], (n, 3, T[4],))
    P_grid = column_{dtype}_3(T[2], (n, 3, T[4],))
    OUT = column_float64_2(T[3], (n, 8))
    for i in range(n):
        value = widen__(A[i])
        big = value > 1
        OUT[i, 0] = value
        OUT[i, 1] = value if big else 0.5
        OUT[i, 2] = 1 if 0 <= value < 3 else 0
        OUT[i, 3] = (not big) | (i == 3) & big
        OUT[i, 4] = n // 8 + n % 8 * 10
        first, second = i * 2, 1.5
        OUT[i, 5] = second + (first if big and (not i == 2) else -1)
        for j in range(B_grid[i].size):
            P_grid[i].flat[j] = B_grid[i].flat[j]
        OUT[i, 6] = widen__(P_grid[i, 2, 1]) + widen__(P_grid[i][0, 0])
        if i % 3 == 0:
            P_grid[i][...] = 0
        elif i % 3 == 1:
            assign__(P_grid[i], B_grid[0])
        A[i:i + 1][0] = B_grid[i, 1, 1]
        total += 1 if big else 2
    for i in range(1, n, 3):
        OUT[i, 7] = i
    if later(T, n) != n + 4:
        return -1
    return total


def later(T, n):
    return n + T[4]


def run(orders):
    TABLE = column_int64_1(orders, (5,))
    if TABLE[4] and block(TABLE, 0, 1) < 0:
        return -1
    return block(TABLE, 1, min(9, 100)) + 1000
"""


def view(dtype, address, shape):
    shape = tuple(int(size) for size in shape)
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * count).from_address(int(address)), dtype).reshape(shape)


def python(text):
    names = {f"column_{d}_{k}": (lambda a, s, d=d: view(d, a, s)) for d, k in re.findall(r"column_(\w+)_(\d)", text)}
    names["widen__"] = lambda value: value.item()
    names["assign__"] = lambda target, value: np.copyto(target, value)
    exec(text, names)
    return names["run"]


_libraries = []
"""Of native code that is called."""


def native(text, apart=True):
    with parts_of_one_module():
        library, symbol = compile_row_loop(text, {}, (), {}, apart)
    function, library = _load(object_code(library, symbol), symbol, python_function)
    _libraries.append(library)
    return function


def memory(dtype):
    numbers = np.arange(9) % 5 if dtype[0] in "bu" else np.arange(9) % 5 - 1.0
    grid = np.arange(9 * 12).reshape(9, 3, 4) % 7
    columns = [numbers.astype(dtype), grid.astype(dtype), np.ones((9, 3, 4), dtype), np.full((9, 8), 7.25)]
    return np.array([*(column.ctypes.data for column in columns), 4], np.int64), columns


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_row_loop_does_what_python_does(dtype):
    text = TEXT.format(dtype=dtype, size=np.dtype(dtype).itemsize)
    found = []
    for run in (python(text), native(text), native(text, apart=False)):
        table, columns = memory(dtype)
        found.append([run(table.ctypes.data), *(column.tobytes() for column in columns)])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "line",
    [
        "x = T[0] / 2",
        "x = unknown(1)",
        "x = [1]",
        "while True: pass",
        "x = 1 << 3",
        "x = T[0] // T[1]",
        "x = y",
        "x = 'a'",
    ],
)
def test_what_the_row_loop_does_not_know_is_refused(line):
    with parts_of_one_module(), pytest.raises(NotInRowLoop):
        compile_row_loop(f"def run(T):\n    {line}\n    return 0\n", {}, (), {}, True)


def test_parts_of_a_kernel_can_be_used_by_other_code_afterwards():
    @njit(**NATIVE)
    def doubled(x):
        return 2.0 * x

    @njit
    def with_entry(x):
        return doubled(x) + 1.0

    with parts_of_one_module():
        with_entry.compile("float64(float64)")
    assert with_entry(4.0) == 9.0

    @njit
    def caller(x):
        return doubled(x) - with_entry(x)

    assert caller(3.0) == -1.0


def test_a_kernel_runs_no_more_rows_together_than_the_nearest_cache_holds():
    sizes = {}
    for id in ("CartPole-v1", "Breakout-v0", "Snake-v0"):
        with vecenv.make(id, 1) as envs:
            kernel, facts = envs.engine.kernel, envs.engine.facts
            code = load_kernel(kernel, facts.observation_layout, facts.action_layout, "exact")
        sizes[id] = rows_together(kernel, code.slots)
        assert BLOCK % sizes[id] == 0
        assert sizes[id] % 8 == 0
    assert sizes["CartPole-v1"] == BLOCK
    assert sizes["Breakout-v0"] < BLOCK


def test_arrays_of_later_rows_are_fetched_where_rows_are_large():
    """Not short ones, whose rows lie near each other, and not of rows that are run many at a time."""
    fetched = {
        "CartPole-v1": [],
        "2048-v0": [],
        "MinAtar/Asterix-v1": [],
        "Snake-v0": ["S_body", "S_taken"],
        "Tetris-v0": ["S_board"],
    }
    for id, expected in fetched.items():
        with vecenv.make(id, 1) as envs:
            kernel, facts = envs.engine.kernel, envs.engine.facts
        text = NumbaBackend().emit(resolve(kernel, facts.observation_layout, facts.action_layout))
        assert sorted(re.findall(r"prefetch__\((S_\w+)\[i\], 2\)", text)) == expected
