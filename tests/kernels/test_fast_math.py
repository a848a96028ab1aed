"""The fast functions, against the C library's in extended precision."""

import functools
import importlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from numba.core.dispatcher import Dispatcher

from vecenv.kernel.numba import math as native_math

FAST_FIRST = """
import vecenv
from vecenv.testing import check_kernel

vecenv.make("Pendulum-v1", 2, precision="fast").close()
check_kernel("Pendulum-v1", steps=5)
"""


@functools.cache
def fast(name):
    """A fast function with an entry for Python, which it has not by itself."""
    function = getattr(native_math, f"fast_{name}")
    return njit(lambda value: function(value))


def apply(function, values):
    return np.array([function(value) for value in values.tolist()])


def exact(name, values):
    return getattr(np, name)(values.astype(np.longdouble))


def samples(low, high, count=4000):
    generator = np.random.default_rng(0)
    spread = generator.uniform(low, high, count)
    near_multiples = np.round(spread / (math.pi / 4)) * (math.pi / 4)
    return np.clip(np.concatenate([spread, near_multiples, [low, high]]), low, high)


@pytest.mark.parametrize(("name", "bound"), [("sin", 2e-16), ("cos", 2e-16)])
def test_sin_and_cos_are_within_their_bound(name, bound):
    values = samples(-1e5, 1e5)
    found = apply(fast(name), values)
    assert abs(found - exact(name, values)).max() < bound


@pytest.mark.parametrize(
    ("name", "low", "high"), [("exp", -700, 700), ("log", 1e-300, 1e300), ("log", 1e-6, 50.0), ("tan", -1.5, 1.5)]
)
def test_others_are_within_four_units(name, low, high):
    values = samples(low, high)
    found = apply(fast(name), values)
    wanted = exact(name, values)
    difference = abs(found - wanted)
    bound = 5e-16 if name == "tan" else 4e-16
    assert ((difference <= bound * abs(wanted)) | (difference <= 2e-16)).all(), values[difference.argmax()]


def test_tanh_is_within_its_bound():
    values = samples(-25, 25)
    found = apply(fast("tanh"), values)
    assert abs(found - exact("tanh", values)).max() < 4e-16


def test_special_values_are_the_c_librarys():
    assert math.isnan(fast("exp")(math.nan))
    assert fast("exp")(math.inf) == math.inf
    assert fast("exp")(-math.inf) == 0.0
    assert fast("exp")(0.0) == 1.0
    assert fast("log")(0.0) == -math.inf
    assert math.isnan(fast("log")(-1.0))
    assert fast("log")(math.inf) == math.inf
    assert fast("log")(1.0) == 0.0
    assert abs(fast("log")(5e-324) - math.log(5e-324)) < 1e-12
    assert fast("tanh")(math.inf) == 1.0
    assert fast("sin")(0.0) == 0.0
    assert math.isnan(fast("sin")(math.inf))


@pytest.mark.timeout(180)
def test_exact_code_is_exact_after_the_same_kernel_was_compiled_in_fast_precision(tmp_path):
    environment = {**os.environ, "VECENV_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", FAST_FIRST], env=environment, stderr=subprocess.PIPE, text=True, timeout=170
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["math", "draws", "distributions", "pcg64", "checks"])
def test_no_function_is_compiled_with_the_precision_of_its_first_caller(module):
    found = vars(importlib.import_module(f"vecenv.kernel.numba.{module}"))
    functions = {name: value for name, value in found.items() if isinstance(value, Dispatcher)}
    assert functions
    assert [name for name, one in functions.items() if "fastmath" not in one.targetoptions] == []
