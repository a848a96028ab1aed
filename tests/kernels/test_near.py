"""sin and cos of several envs at once: what they return is what the C library returns, or NaN."""

from __future__ import annotations

import ast
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numba import njit

from tests.kernels.test_backend import kernel_and_layouts
from vecenv.kernel.lower.resolve import resolve
from vecenv.kernel.numba import near
from vecenv.kernel.numba.early import call_early
from vecenv.kernel.numba.emit import emit
from vecenv.kernel.numba.math import EXACT, fused


@njit(**EXACT)
def results(numbers, found):
    for i in range(numbers.size):
        x = numbers[i]
        found[i, 0], found[i, 1] = near.near_sin(x), math.sin(x)
        found[i, 2], found[i, 3] = near.near_cos(x), math.cos(x)


@njit(**EXACT)
def sums(numbers, found):
    """sin and cos of numbers up to pi/4 as sums of two floats."""
    for i in range(numbers.size):
        x = numbers[i]
        square = x * x
        rest = fused(x, x, -square)
        found[i, 0], found[i, 1] = near._sin_sum(x, 0.0, square, rest)
        found[i, 2], found[i, 3] = near._cos_sum(square, rest)


def compared(numbers):
    """Shares of numbers whose sin and cos are known; fails if one differs from the C library's."""
    found = np.empty((len(numbers), 4))
    results(numbers, found)
    known = ~np.isnan(found[:, ::2])
    np.testing.assert_array_equal(found[:, ::2][known], found[:, 1::2][known])
    return known.mean(0)


@pytest.mark.parametrize("largest", [0.05, 0.21, 0.8, 7.0, 1000.0])
def test_most_results_are_known_and_all_of_these_are_the_c_librarys(largest):
    shares = compared(np.random.default_rng(0).uniform(-largest, largest, 200_000))
    assert (shares > 0.85).all()


def test_results_next_to_multiples_of_a_quarter_turn_are_the_c_librarys_or_not_known():
    rng = np.random.default_rng(1)
    multiples = rng.integers(-640, 640, 100_000) * (math.pi / 4)
    compared(multiples + rng.choice([-1, 1], 100_000) * 10.0 ** rng.uniform(-17, -1, 100_000))
    compared(multiples)
    compared(10.0 ** rng.uniform(-300, 3, 100_000))


@pytest.mark.parametrize("number", [0.0, -0.0, 5e-324, 1e-8, 1e5, 1e300, math.inf, -math.inf, math.nan])
def test_of_zero_of_very_small_and_of_large_numbers_nothing_is_known(number):
    assert compared(np.array([number])).tolist() == [0, 0]


def exact(x):
    """sin and cos of a float, with 50 digits."""
    number, term, sine, cosine = Decimal(x), Decimal(1), Decimal(0), Decimal(0)
    for n in range(1, 60, 4):  # four terms of the exponential series of an imaginary number
        cosine += term
        sine += (term := term * number / n)
        cosine -= (term := term * number / (n + 1))
        sine -= (term := term * number / (n + 2))
        term = term * number / (n + 3)
    return sine, cosine


def test_sums_of_two_floats_have_errors_below_what_is_allowed_for():
    numbers = np.random.default_rng(2).uniform(1e-4, math.pi / 4, 3000)
    found = np.empty((len(numbers), 4))
    sums(numbers, found)
    with localcontext() as context:
        context.prec = 50
        for x, row in zip(numbers.tolist(), found.tolist(), strict=True):
            allowed = Decimal(0.003 + 0.12 * x**4)
            for value, high, low in zip(exact(x), row[::2], row[1::2], strict=True):
                assert abs(Decimal(high) + Decimal(low) - value) < allowed * Decimal(math.ulp(high))


def calls_of(found, name):
    return [node.func.id for node in ast.walk(found[name].node) if isinstance(node, ast.Call)]


def test_a_step_that_calls_other_mathematics_too_has_no_near_results(monkeypatch):
    emitted = emit(resolve(*kernel_and_layouts("CartPole-v1")))
    found = call_early(emitted, "exact").functions
    assert calls_of(found, "near") == ["near__cos", "near__sin"]
    assert calls_of(found, "early") == ["math__cos", "math__sin"]
    for call in ast.walk(emitted.functions["step"].node):
        if isinstance(call, ast.Name) and call.id == "math__cos":
            call.id = "math__exp"
    assert "near" not in call_early(emitted, "exact").functions


def test_with_another_c_library_the_row_loop_calls_it_for_all_rows(monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    found = call_early(emit(resolve(*kernel_and_layouts("CartPole-v1"))), "exact").functions
    assert "early" in found
    assert "near" not in found
