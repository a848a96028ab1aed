"""Native draws are NumPy's: values, and where they leave the stream, for every way through its algorithms."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kernels.native_draws import CASES, NativeStream, generator_of
from vecenv.kernel import rng as numbers

COUNT = 20_000
WEIGHTS = np.array([0.05, 0.0, 0.25, 0.1, 0.4, 0.2])
NUMBERS: list[tuple[str, tuple[Any, ...]]] = [
    ("random", ()),
    ("random-out", ()),
    ("uniform", (-2.0, 3.0)),
    ("standard_normal", ()),
    ("normal", (1.5, 2.5)),
    ("standard_exponential", ()),
    ("exponential", (3.7,)),
    *(("poisson", (lam,)) for lam in (0.0, 1e-9, 0.3, 4.5, 9.999, 10.0, 12.3, 29.9, 333.3, 1e7, 1e12)),
    *(("binomial", (n, p)) for n, p in ((0, 0.3), (5, 0.0), (5, 1.0), (1, 0.5), (10, 0.3), (10, 0.7))),
    *(("binomial", (n, p)) for n, p in ((100, 0.3), (101, 0.3), (60, 0.5), (61, 0.5), (999, 0.97), (1000, 0.97))),
    *(("binomial", (n, p)) for n, p in ((10**5, 0.4), (10**9, 0.75), (10**12, 1e-11), (2**62, 0.5), (10**9, 1e-9))),
    *(("geometric", (p,)) for p in (1.0, 0.9, 0.5, 1 / 3, 0.33333333333333326, 0.1, 1e-9, 1e-18)),
    *(("integers-below", (n,)) for n in (1, 7, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**61)),
    *(("integers-up-to", (n,)) for n in (0, 7, 2**32 - 2, 2**32 - 1, 2**32, 2**63 - 1)),
    *(("integers", (low, high)) for low, high in ((-3, 4), (5, 6), (-(2**62), 2**62 + 12345), (-(2**63), 2**63 - 1))),
    *(("integers-endpoint", (low, high)) for low, high in ((-3, 4), (5, 5), (0, 3 * 2**30), (-(2**63), 2**63 - 1))),
    ("choice", (13,)),
    ("choice-weighted", (6,)),
    ("choice-of-array", ()),
    ("choice-of-tuple", ()),
]


def numpys(generator: np.random.Generator, case: str, arguments: tuple[Any, ...], size: int) -> np.ndarray:
    """What NumPy draws for a case of `NUMBERS`."""
    special: dict[str, Callable[[], Any]] = {
        "random-out": lambda: generator.random(size),
        "integers-below": lambda: generator.integers(*arguments, size=size),
        "integers-up-to": lambda: generator.integers(*arguments, size=size, endpoint=True),
        "integers-endpoint": lambda: generator.integers(*arguments, size=size, endpoint=True),
        "choice-weighted": lambda: generator.choice(6, size, p=WEIGHTS),
        "choice-of-array": lambda: generator.choice(WEIGHTS, size),
        "choice-of-tuple": lambda: generator.choice((1, 2.5, -3), size, p=(0.5, 0, 0.5)),
    }
    return special[case]() if case in special else getattr(generator, case)(*arguments, size=size)


@pytest.mark.parametrize(("case", "arguments"), NUMBERS, ids=str)
def test_numbers_are_numpys(case: str, arguments: tuple[Any, ...]) -> None:
    generator = np.random.default_rng(5)
    generator.integers(9)  # half a word is left
    native = NativeStream(generator)
    expected = numpys(generator, case, arguments, COUNT)
    drawn = native.call(case, np.zeros(COUNT, expected.dtype), *arguments, weights=WEIGHTS)
    assert drawn.tobytes() == expected.tobytes()
    assert native.is_where(generator)


# --- the last bit ----------------------------------------------------------------------------------------------------

ONE_WORD = [
    *(("poisson", (lam,)) for lam in (1e-3, 0.4, 3.3, 9.9)),
    *(("binomial", (n, p)) for n, p in ((1, 0.5), (10, 0.3), (60, 0.5), (999, 0.97), (10**12, 1e-11))),
    *(("geometric", (p,)) for p in (0.9, 0.5, 1 / 3, 0.3, 1e-6)),
]
"""Draws for which the first word decides what is drawn, and whether it is enough."""
TWO_WORDS = [
    *(("poisson", (lam,)) for lam in (10.0, 13.3, 55.5, 12345.6, 1e8)),
    *(("binomial", (n, p)) for n, p in ((61, 0.5), (400, 0.1), (1001, 0.97), (10**5, 0.4), (10**9, 0.25))),
    ("standard_normal", ()),
    ("standard_exponential", ()),
]
"""Draws for which the second word decides whether what the first one gave is accepted."""


def _drawn(case: str, arguments: tuple[Any, ...], words: tuple[int, int], needed: int) -> Any:
    """What is drawn if these words come next; None if it needs more than `needed` words."""
    generator = generator_of(*words)
    native = NativeStream(generator)
    out = native.call(case, np.zeros(1, np.int64), *arguments)
    generator.bit_generator.random_raw(needed)
    return out.item() if native.is_where(generator) else None


def boundary(
    case: str, arguments: tuple[Any, ...], words: Callable[[int], tuple[int, int]], needed: int
) -> tuple[int, int]:
    """Two neighbouring values of a word between which native code draws something else, or the same value twice.

    Only the 53 highest bits of the word count, as in a float.
    """
    low, high = 0, 2**53 - 1
    at_low = _drawn(case, arguments, words(low), needed)
    if at_low == _drawn(case, arguments, words(high), needed):
        return low, low
    while high - low > 1:
        middle = (low + high) // 2
        if _drawn(case, arguments, words(middle), needed) == at_low:
            low = middle
        else:
            high = middle
    return low, high


@pytest.mark.parametrize(
    ("case", "arguments", "needed"), [(*one, 1) for one in ONE_WORD] + [(*two, 2) for two in TWO_WORDS], ids=str
)
def test_a_rounding_never_decides_otherwise_than_in_numpy(case: str, arguments: tuple[Any, ...], needed: int) -> None:
    """A sum in another order would differ in its last bit only, which ten million draws would not show."""
    source, found = random.Random(3), 0
    for _ in range(400):
        other = source.getrandbits(64)

        def words(place: int, other: int = other) -> tuple[int, int]:
            return (place << 11, other) if needed == 1 else (other, place << 11)

        places = boundary(case, arguments, words, needed)
        found += places[0] != places[1]
        for place in places:
            generator = generator_of(*words(place))
            native = NativeStream(generator)
            expected = np.array(getattr(generator, case)(*arguments))
            assert native.call(case, np.zeros(1, expected.dtype), *arguments).tobytes() == expected.tobytes()
            assert native.is_where(generator)
        if found == 12:
            return
    assert found >= 3


# --- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 6, 52, 300])
def test_permutation_and_shuffle_are_numpys(size: int) -> None:
    generator = np.random.default_rng(7)
    native = NativeStream(generator)
    values, rows = np.arange(size) / 3, np.arange(2 * size) / 3
    theirs, their_rows = values.copy(), rows.copy()
    for _ in range(30):
        assert native.call("permutation", np.zeros(size, int)).tolist() == generator.permutation(size).tolist()
        generator.shuffle(theirs)
        assert native.call("shuffle", values).tolist() == theirs.tolist()
        generator.shuffle(their_rows.reshape(-1, 2))
        assert native.call("shuffle-rows", rows).tolist() == their_rows.tolist()
    assert native.is_where(generator)


@pytest.mark.parametrize(
    ("n", "size"),
    [
        *((1, 1), (5, 1), (5, 4), (5, 5), (100, 7), (1000, 100), (2**40, 20)),
        *((10_000, 300), (10_001, 200), (10_001, 201), (12_345, 700), (10_100, 10_100)),
    ],
)
def test_a_sample_without_replacement_is_numpys(n: int, size: int) -> None:
    generator = np.random.default_rng(11)
    generator.integers(9)
    native = NativeStream(generator)
    for _ in range(20 if size < 1000 else 1):
        expected = generator.choice(n, size, replace=False)
        assert native.call("sample", np.zeros(size, int), n).tolist() == expected.tolist()
    assert native.is_where(generator)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_weighted_sample_without_replacement_is_numpys(size: int) -> None:
    generator = np.random.default_rng(13)
    native = NativeStream(generator)
    for _ in range(500):
        expected = generator.choice(6, size, replace=False, p=WEIGHTS)
        assert native.call("sample-weighted", np.zeros(size, int), weights=WEIGHTS).tolist() == expected.tolist()
    assert native.is_where(generator)


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 10**9])
@pytest.mark.parametrize(
    "weights", [WEIGHTS, [1.0], [1.0, 0.0], [0.0, 1.0], [0.1] * 10, [0.5, 0.5, 0.0], [0.3, 0.3, 0.3]], ids=str
)
def test_multinomial_is_numpys(n: int, weights: Any) -> None:
    generator = np.random.default_rng(17)
    native = NativeStream(generator)
    for _ in range(100):
        expected = generator.multinomial(n, weights)
        drawn = native.call("multinomial", np.full(len(weights), 9), n, weights=weights)
        assert drawn.tolist() == expected.tolist()
    assert native.is_where(generator)


def test_every_function_is_compared_with_numpy() -> None:
    called = {call.partition("(")[0] for call in CASES.values()}
    assert {name for name in numbers.__all__ if name.startswith("fill_") and name not in called} == {
        "fill_standard_normal",
        "fill_standard_exponential",
    }
    assert set(numbers.NUMBERS) | set(numbers.IN_PLACE) == set(numbers.__all__)
