"""Random numbers in Python mode: what NumPy's Generator draws, number for number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vecenv.kernel import rng as numbers
from vecenv.kernel.language.fields import cells

OPTIONS, WEIGHTS = np.array([2.0, 3.0, 5.0]), np.array([0.2, 0.3, 0.5])
DRAWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "random": (lambda rng: numbers.random(rng), lambda rng: rng.random()),
    "uniform": (lambda rng: numbers.uniform(rng), lambda rng: rng.uniform()),
    "uniform-between": (lambda rng: numbers.uniform(rng, -2.0, 3.0), lambda rng: rng.uniform(-2.0, 3.0)),
    "integers": (lambda rng: numbers.integers(rng, 7), lambda rng: rng.integers(7)),
    "integers-between": (lambda rng: numbers.integers(rng, -3, 4), lambda rng: rng.integers(-3, 4)),
    "normal": (lambda rng: numbers.normal(rng), lambda rng: rng.normal()),
    "normal-scaled": (lambda rng: numbers.normal(rng, 1.0, 2.0), lambda rng: rng.normal(1.0, 2.0)),
    "choice": (lambda rng: numbers.choice(rng, 5), lambda rng: rng.choice(5)),
    "choice-of-array": (lambda rng: numbers.choice(rng, OPTIONS), lambda rng: rng.choice(OPTIONS)),
    "choice-weighted": (lambda rng: numbers.choice(rng, OPTIONS, WEIGHTS), lambda rng: rng.choice(OPTIONS, p=WEIGHTS)),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_a_draw_is_the_generators_and_a_python_number(draw: str) -> None:
    ours, theirs = DRAWS[draw]
    left, right = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(20):
        value = ours(left)
        assert value == theirs(right)
        assert type(value) in (int, float)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float64])
@pytest.mark.parametrize("size", [1, 2, 5, 52])
def test_permutation_and_shuffle_write_into_fields(dtype: type, size: int) -> None:
    left, right = np.random.default_rng(3), np.random.default_rng(3)
    ours, theirs = cells(np.zeros(size, dtype)), np.zeros(size, dtype)
    for _ in range(5):
        numbers.permutation(left, ours)
        theirs[:] = right.permutation(size)
        assert ours.tolist() == theirs.tolist()
        numbers.shuffle(left, ours)
        right.shuffle(theirs)
        assert ours.tolist() == theirs.tolist()
    assert left.random() == right.random()
