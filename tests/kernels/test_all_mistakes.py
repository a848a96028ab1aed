"""All mistakes of a definition are told at once, by line, each with what to write instead."""

from __future__ import annotations

import pickle
import re

import pytest

import vecenv
from tests.kernels.defining import imported, written
from vecenv.errors import KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.language.python import KernelEnv

HELPERS = """
def weighed(values):
    kept = {value for value in values}  #! a set is built
    return values.sum() * np.exp(values)  #! use math.exp

def shifted(x, y):
    return x + y  #! do not fit together

def fine(x):
    return x * 2.0
"""
STATE = 'state = {"x": float, "count": int, "board": (np.int8, (3, 4)), "a": (float, 4), "b": (float, 3)}'
RESET = """
def reset(s, rng, p):
    s.xx = 0.0  #! no field 'xx'; did you mean 'x'
    s.count = 0.5  #! use int\\(...\\) or //
    s.x = rng.lognormal(0.0, 1.0)  #! math.exp\\(rng.normal
    s.b = s.a  #! an array of shape \\(4,\\) does not fit
    s.x = fine(s.x)
"""
STEP = """
def step(s, action, rng, p):
    total = weighed(s.a)
    if s.a > 1.0:  #! np.any
        s.x = total * 2.0
        table = {1: 2}  #! a dict is built
    for value in s.board.cumsum():  #! write a for loop
        s.x += value
        s.x = s.a[4]  #! index 4 is out of range
    moved = shifted(s.a, s.b)
    s.x = moved.sum() + missing  #! no name 'missing'
    s.a = moved
    print(s.x)  #! put a breakpoint
    return s.x, False
"""


def wanted(file):
    """Lines with a mistake, and words of what is said of them."""
    lines = file.read_text().splitlines()
    return [(number, line.partition("#! ")[2]) for number, line in enumerate(lines, start=1) if "#! " in line]


def refused(file, call):
    with pytest.raises(KernelError) as caught, imported(file) as module:
        call(module)
    return caught.value


def never(module):
    raise AssertionError("the definition was not refused")


def assert_told(error, file):
    expected = wanted(file)
    assert [one.line for one in error.errors] == [line for line, _ in expected], str(error)
    for one, (_, words) in zip(error.errors, expected, strict=True):
        assert re.search(words, one.rule), (words, one.rule)
        assert one.file == str(file)
        assert str(one) in str(error)
    assert (error.line, error.rule) == (error.errors[0].line, error.errors[0].rule)


def test_rules_names_and_types_are_told_together_each_once_and_by_line(tmp_path):
    file = written(tmp_path, STATE, RESET, STEP, "info = {}", before=HELPERS)
    error = refused(file, never)
    assert_told(error, file)
    assert str(error).startswith("Wrong breaks 13 rules:\n  Wrong.weighed, line")
    functions = [one.function for one in error.errors]
    assert functions == ["weighed"] * 2 + ["shifted"] + ["reset"] * 4 + ["step"] * 6


def test_helpers_below_the_class_are_judged_when_an_env_is_made(tmp_path):
    step = """
    def step(s, action, rng, p):
        s.x = below(s.a) + nowhere  #! no name 'nowhere'
        return s.x, False
    """
    file = written(tmp_path, STATE, step, "info = {}")
    below = "\n\ndef below(values):\n    return sorted(values)  #! kernels allocate nothing\n"
    file.write_text(file.read_text() + below)
    assert_told(refused(file, lambda module: KernelEnv(kernel_of(module.Wrong))), file)
    file.write_text(file.read_text().replace("+ nowhere  #! no name 'nowhere'", "+ {1}  #! a set is built"))
    first = refused(file, never)
    assert [one.rule[:14] for one in first.errors] == ["a set is built"]


@pytest.mark.parametrize("engine", ["sync", "compiled"])
def test_every_engine_refuses_the_same(engine, tmp_path):
    step = """
    def step(s, action, rng, p):
        s.a = s.a + s.b  #! do not fit together
        big = np.zeros((300, 300))
        s.x = np.sort(s.a)[0] if action else 0.0  #! builds an array
        return s.x, False
    """
    file = written(tmp_path, STATE, step, "info = {}")
    assert_told(refused(file, lambda module: vecenv.make(module.Wrong, 2, engine=engine)), file)
    text = file.read_text().replace("s.a + s.b  #! do", "s.a  #").replace("np.sort(s.a)[0]", "1.0").replace("#! b", "#")
    file.write_text(text)
    error = refused(file, lambda module: vecenv.make(module.Wrong, 2, engine=engine))
    assert "local arrays take 720,000 bytes" in str(error)


def test_python_mode_refuses_what_only_the_backend_knows(tmp_path):
    step = "def step(s, action, rng, p):\n    s.x = math.ldexp(1.0, 3)  #! use x \\* 2.0\n    return s.x, False"
    file = written(tmp_path, step)
    assert_told(refused(file, lambda module: KernelEnv(kernel_of(module.Wrong))), file)


def test_mistakes_of_the_class_are_told_together(tmp_path):
    file = written(
        tmp_path,
        'state = {"x": str, "y": [0, 0], "z": float}',
        "class Params:\n    speed = 'fast'\n    size: int",
        "def observe(self, obs, p):\n    obs[0] = 1.0",
        "info = {'w': None}",
    )
    text = str(refused(file, never))
    for words in ("'x' is declared as str", "'y' is declared as", "'w' is declared as None", "'speed' is 'fast'"):
        assert words in text
    assert "'size' has no default" in text


def test_an_error_of_several_mistakes_can_be_pickled(tmp_path):
    error = refused(written(tmp_path, STATE, RESET, "info = {}", before=HELPERS), never)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert [str(one) for one in again.errors] == [str(one) for one in error.errors]
