"""Native draws without a kernel around them: the twins of `vecenv.kernel.rng`, to be compared with NumPy."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from vecenv.kernel import rng as random_numbers
from vecenv.kernel.numba import backend
from vecenv.kernel.numba.load import load_or_compile

_WORD, _WIDE = 2**64, 2**128
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645


def generator_of(first: int, second: int) -> np.random.Generator:
    """A generator whose next two words are these.

    PCG64 steps, then gives the two halves of its state, one xor the other, turned by its highest six bits. So a state
    whose high half is 0 or 1 gives its low half, or that but for the last bit; the increment, which is odd, leads from
    one such state to the next.
    """
    after_first = first
    for high in (0, 1):
        after_second = high * _WORD + (second ^ high)
        increment = (after_second - after_first * _MULTIPLIER) % _WIDE
        if increment % 2:
            break
    before = (after_first - increment) * pow(_MULTIPLIER, -1, _WIDE) % _WIDE
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": before, "inc": increment},
        "has_uint32": 0,
        "uinteger": 0,
    }
    return np.random.Generator(bits)


class NativeStream:
    """A stream of native code that begins where a generator is."""

    def __init__(self, generator: np.random.Generator) -> None:
        state: Any = generator.bit_generator.state
        wide = [state["state"]["state"], state["state"]["inc"]]
        parts = [part for value in wide for part in divmod(value, _WORD)]
        self.words = np.array([*parts, state["has_uint32"], state["uinteger"]], np.uint64)

    def is_where(self, generator: np.random.Generator) -> bool:
        """Whether a generator has come to the same state; a half word that was used does not matter."""
        other = NativeStream(generator).words
        return bool((self.words[:5] == other[:5]).all()) and bool(self.words[4] == 0 or self.words[5] == other[5])

    def call(self, case: str, out: np.ndarray, *arguments: float, weights: Any = ()) -> np.ndarray:
        """Run a case of `CASES` on an array of int64 or float64 and return the array."""
        orders = np.zeros(12, np.int64)
        held = np.array(weights, np.float64)
        orders[:5] = self.words.ctypes.data, out.ctypes.data, len(out), held.ctypes.data, len(held)
        for place, argument in enumerate(arguments):
            as_bits = np.array(argument, np.float64 if isinstance(argument, float) else np.int64)
            orders[5 + place] = as_bits.view(np.int64)
        _native(case)(self._result.ctypes.data, self._result.ctypes.data, orders.ctypes.data)
        return out

    _result = np.zeros(1, np.int64)


CASES = {
    "random": "fill_random(rng, floats)",
    "random-out": "random(rng, out=floats)",
    "uniform": "fill_uniform(rng, floats, x[0], x[1])",
    "normal": "fill_normal(rng, floats, x[0], x[1])",
    "standard_normal": "standard_normal(rng, out=floats)",
    "exponential": "fill_exponential(rng, floats, x[0])",
    "standard_exponential": "standard_exponential(rng, out=floats)",
    "poisson": "fill_poisson(rng, ints, x[0])",
    "binomial": "fill_binomial(rng, ints, n[0], x[1])",
    "geometric": "fill_geometric(rng, ints, x[0])",
    "integers-below": "fill_integers(rng, ints, n[0])",
    "integers-up-to": "fill_integers(rng, ints, n[0], endpoint=True)",
    "integers": "fill_integers(rng, ints, n[0], n[1])",
    "integers-endpoint": "fill_integers(rng, ints, n[0], n[1], endpoint=True)",
    "choice": "fill_choice(rng, ints, n[0])",
    "choice-weighted": "fill_choice(rng, ints, n[0], weights)",
    "choice-of-array": "fill_choice(rng, floats, weights)",
    "choice-of-tuple": "fill_choice(rng, floats, (1, 2.5, -3), (0.5, 0, 0.5))",
    "permutation": "permutation(rng, ints)",
    "shuffle": "shuffle(rng, floats)",
    "shuffle-rows": "shuffle(rng, rows)",
    "sample": "sample(rng, n[0], ints)",
    "sample-weighted": "sample(rng, len(weights), ints, weights)",
    "multinomial": "multinomial(rng, n[0], weights, ints)",
}
"""Calls of native functions: `ints`, `floats` and `rows` (of two) are the array, `n` and `x` are the arguments."""


@functools.cache
def _native(case: str) -> Any:
    """A case as native code, which is compiled once and kept on the disk as kernels are."""
    text = f"""\
def run(orders_at):
    orders = column_int64(orders_at, 12)
    rng, weights = column_uint64(orders[0], 6), column_float64(orders[3], orders[4])
    ints, floats = column_int64(orders[1], orders[2]), column_float64(orders[1], orders[2])
    rows = column_rows(orders[1], (orders[2] // 2, 2))
    n, x = column_int64(orders_at + 40, 6), column_float64(orders_at + 40, 6)
    {CASES[case]}
    return 0
"""

    def build() -> tuple[bytes, str]:
        from numba import njit, types

        from vecenv.kernel.numba import draws
        from vecenv.kernel.numba.compile import column
        from vecenv.kernel.numba.math import NATIVE

        names = {name: getattr(draws, name) for name in random_numbers.__all__}
        names |= {f"column_{dtype}": column(dtype, 1) for dtype in ("int64", "uint64", "float64")}
        names["column_rows"] = column("float64", 2)
        exec(text, names)
        run = njit(**NATIVE)(names["run"])
        run.compile((types.int64,))
        result = run.overloads[(types.int64,)]
        return result.library._get_compiled_object(), result.fndesc.llvm_func_name

    here = Path(backend.__file__).parent
    return load_or_compile((text,), tuple(here / name for name in backend._COMPILER), "draws", build)
