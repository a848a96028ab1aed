"""Loops over elements of local arrays are one loop where no turn needs another turn of the loop before."""

import ast

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from vecenv.kernel import kernel_of
from vecenv.kernel.numba.fuse import fuse
from vecenv.testing import check_kernel

HEAD = """
def helper(result0__, given):
    array1__ = local_array_float64_6x6__()
    array2__ = local_array_float64_6x6__()
"""
WRITE = """
    for index1__ in range(6):
        for index2__ in range(6):
            array1__[index1__, index2__] = widen__(given[index1__]) - widen__(given[index2__])
"""
READ = """
    for index3__ in range(6):
        value1__ = 0.0
        for index4__ in range(6):
            value1__ = value1__ + widen__(array1__[index3__, index4__])
        result0__[index3__] = value1__
"""


def fused(*parts: str) -> str:
    function = ast.parse("".join(parts)).body[0]
    assert isinstance(function, ast.FunctionDef)
    fuse(function, ["result0__"])
    return ast.unparse(function)


def loops(text: str) -> int:
    """Outermost loops."""
    return sum(line.startswith("    for ") for line in text.splitlines())


def test_a_loop_that_reads_elements_of_its_own_turn_joins_the_one_before():
    text = fused(HEAD, WRITE, "    again = array1__\n", READ.replace("widen__(array1__", "widen__(again"))
    assert loops(text) == 1
    assert text.index("again = array1__") < text.index("for index1__")
    assert "result0__[index1__] = value1__" in text
    assert "again[index1__, index4__]" in text


def test_a_parameter_that_becomes_another_array_is_no_other_name_of_it():
    """The loop before reads what the parameter was."""
    assert loops(fused(HEAD, WRITE, "    given = array1__\n", READ.replace("widen__(array1__", "widen__(given"))) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("array1__[index3__, index4__]", "array1__[index4__, index3__]"),  # elements of later turns
        ("array1__[index3__, index4__]", "array1__[5, index4__]"),
        ("value1__ = 0.0", "value1__ = rng__random(rng)"),  # other order of random numbers
        ("value1__ = 0.0", "value1__ = helper1__more(given)"),
        ("result0__[index3__] = value1__", "given[index3__] = value1__"),  # the next turn would read it
        ("range(6):\n        value1__", "range(5):\n        value1__"),
        ("range(6):\n        value1__", "range(size1__):\n        value1__"),
    ],
)
def test_other_loops_stay_apart(old, new):
    assert old in READ
    assert loops(fused(HEAD, WRITE, READ.replace(old, new))) == 2


@pytest.mark.parametrize(
    "view", ["row = array1__[2]", "row = array1__[1:]", "row = helper1__same(array1__)[0]", "row = flat__(array1__)"]
)
def test_arrays_that_something_else_is_a_view_of_stay_apart(view):
    assert loops(fused(HEAD, f"    {view}\n", WRITE, READ.replace("array1__[index3__", "row[index3__"))) == 2


def test_a_variable_of_the_first_loop_that_the_second_reads_keeps_them_apart():
    first = WRITE + "        last = widen__(array1__[index1__, 5])\n"
    assert loops(fused(HEAD, first, READ.replace("value1__ = 0.0", "value1__ = last"))) == 2


def test_a_variable_of_the_second_loop_that_the_first_reads_keeps_them_apart():
    second = READ + "        last = value1__\n"
    assert loops(fused(HEAD, "    last = 1.0\n", WRITE.replace("widen__(given[index2__])", "last"), second)) == 2


def test_statements_between_keep_loops_apart():
    assert loops(fused(HEAD, WRITE, "    value9__ = widen__(array1__[0, 0])\n", READ)) == 2


def attraction(position, mass):
    away = position[None, :, :] - position[:, None, :]
    square = (away**2).sum(axis=2) + 0.01
    pull = mass / (square * np.sqrt(square))
    back = (pull[:, :, None] * away).sum(axis=0)
    return (pull[:, :, None] * away).sum(axis=1) - 0.5 * back


@vecenv.kernel("Attraction-v0", max_episode_steps=30)
class Attraction:
    """Sums over both axes: one of them reads what other turns have written."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (5, 2), np.float64), spaces.Discrete(2)
    state = {"position": (float, (5, 2)), "velocity": (float, (5, 2)), "mass": (float, (5,))}

    def reset(s, rng, p):
        s.position = rng.uniform(-1.0, 1.0, size=(5, 2))
        s.velocity[:] = 0.0
        s.mass = rng.uniform(0.5, 1.0, size=5)

    def step(s, action, rng, p):
        s.velocity += 0.01 * attraction(s.position, s.mass)
        s.position += (0.01 + 0.01 * action) * s.velocity
        s.position = turned(s.position)
        return float(s.position.sum()), False

    def observe(s, obs, p):
        obs[:] = s.position


def turned(position):
    """The result of a call is an argument of the next one: they must not have the same memory."""
    moved = position.copy()
    for _ in range(3):
        moved = attraction(moved, np.ones(5))
    return position + 0.0001 * moved


def test_fused_loops_give_the_same_bits_as_python():
    check_kernel(Attraction)


def test_the_loops_of_an_array_expression_over_pairs_are_fused():
    from vecenv._batch.layout import Layout
    from vecenv.kernel.backend import native_text

    kernel = kernel_of(Attraction)
    assert kernel is not None
    text = native_text(kernel, Layout(Attraction.observation_space), Layout(Attraction.action_space))
    helper = text[text.index("__attraction(") :]
    assert loops(helper[: helper.index("\n\n\n")]) == 2


def twice(x):
    x = x * 2.0
    y = x + 1.0
    return x * y


def mirrored(x, y):
    """Both arguments are one array: what is written into it is read by the other name."""
    x += 1.0
    z = y[::-1] * 2.0
    x = z
    return x + y


@vecenv.kernel("Renamed-v0", max_episode_steps=30)
class Renamed:
    """Its helpers give their parameters other arrays."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (6,), np.float64), spaces.Discrete(2)
    state = {"x": (float, (6,))}

    def reset(s, rng, p):
        s.x = rng.uniform(0.1, 0.2, size=6)

    def step(s, action, rng, p):
        s.x = 0.1 * twice(s.x)
        both = s.x * 1.0
        s.x = 0.1 * mirrored(both, both)
        return float(both.sum()), False

    def observe(s, obs, p):
        obs[:] = s.x


def test_parameters_may_become_other_arrays():
    check_kernel(Renamed)
