"""Draws of C++ without an env around them: in place of the native functions of tests/kernels/native_draws.py."""

from __future__ import annotations

import ctypes
import functools
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.kernels.defining import imported, written
from tests.kernels.native_draws import CASES
from vecenv._batch.batch import Op
from vecenv.engines.device.engine import DeviceEngine
from vecenv.kernel import kernel_of

ARGUMENTS = 6
"""Words of 64 bits that a case has as arguments, read as ints or as floats."""


class _Untried(DeviceEngine):
    """Its states are set from outside; with zeros, weights cannot be drawn by."""

    def _try_out(self) -> None:
        pass


def cpp_of(case: str) -> Callable[[int, int, int], None]:
    """A case of `CASES` as a function of the orders that `NativeStream.call` writes."""

    def run(result: int, status: int, orders: int) -> None:
        words, out, size, weights, count, *arguments = (ctypes.c_int64 * (5 + ARGUMENTS)).from_address(orders)
        given = np.array(arguments, np.int64)
        rng, drawn = _memory(words, 6, np.uint64), _memory(out, size, np.int64)
        engine = _engine(case, size, count)
        columns = engine._columns
        (name,) = {"ints", "floats", "rows"}.intersection(columns_of(case))
        state = {"n": given, "x": given.view(float), "weights": _memory(weights, count, np.float64), name: drawn}
        for field in columns_of(case):
            column = columns[f"S_{field}"]
            column[0] = state[field].view(column.dtype).reshape(column.shape[1:])
        columns["RNG"][0] = rng
        engine.batch.op[:] = Op.STEP
        engine.exchange_all(0, 0, rotate=False)
        rng[:] = columns["RNG"][0]
        drawn[:] = columns[f"S_{name}"][0].ravel().view(np.int64)

    return run


def columns_of(case: str) -> list[str]:
    """The arrays that a case uses."""
    return sorted(set(re.findall(r"\b(?:ints|floats|rows|weights|n|x)\b", CASES[case])))


@functools.cache
def _engine(case: str, size: int, weights: int) -> DeviceEngine:
    """One env whose step is the case."""
    fields = {
        "ints": f"(int, {size})",
        "floats": f"(float, {size})",
        "rows": f"(float, ({size // 2}, 2))",
        "weights": f"(float, {weights})",
        "n": f"(int, {ARGUMENTS})",
        "x": f"(float, {ARGUMENTS})",
    }
    used = ", ".join(f'"{name}": {fields[name]}' for name in columns_of(case))
    call = re.sub(r"\b(ints|floats|rows|weights|n|x)\b", r"s.\1", CASES[case])
    members = [
        f"state = {{{used}}}",
        "def reset(s, rng, p):\n    pass",
        f"def step(s, action, rng, p):\n    numbers.{call}\n    return 0.0, False",
        "def observe(s, obs, p):\n    obs[0] = 0.0",
    ]
    with tempfile.TemporaryDirectory() as folder, imported(written(Path(folder), *members)) as module:
        return _Untried(kernel_of(module.Wrong), 1)


def _memory(address: int, size: int, dtype: type) -> np.ndarray:
    words = (ctypes.c_int64 * size).from_address(address) if size else (ctypes.c_int64 * 0)()
    return np.frombuffer(words, dtype)
