"""Programs that were written at random: Python, loops and native code have the same bits, and every error is ours."""

from __future__ import annotations

import pytest

from tests.kernels.trying_programs import (
    Result,
    is_accepted,
    try_careless,
    try_natively,
    try_programs,
    works_as_loops,
)
from tests.trying import tries
from vecenv.engines.native.compiled import CompiledEngine


@pytest.fixture
def untried(monkeypatch):
    """Kernels are not tried out in Python before they are compiled: the states of these tests are not zero."""
    monkeypatch.setattr(CompiledEngine, "_try_out", lambda self: None)


@tries(24, 240, seconds=10)
def test_random_programs_do_the_same_in_python_and_natively(count, tmp_path, untried, tried):
    """Many programs are one kernel, because the compiler needs a second before it begins."""
    result = try_programs(range(count), tmp_path, native=True, batch=24)
    assert not result.defects, "\n".join(result.defects[:5])
    assert result.tried["native"] >= count // 2, result.refused
    tried["random kernel programs, natively"] += result.tried["native"]


@tries(40, 500, seconds=1)
def test_random_programs_do_the_same_in_python_and_as_loops(count, tmp_path, tried):
    """Without the compiler: what the stages before it make of the programs, run by Python."""
    result = try_programs(range(10_000, 10_000 + count), tmp_path, native=False)
    assert not result.defects, "\n".join(result.defects[:5])
    tried["random kernel programs, as loops"] += result.tried["as loops"]


@tries(300, 3000, seconds=0.2)
def test_careless_programs_are_refused_in_our_words(count, tmp_path, tried):
    result = try_careless(range(count), tmp_path, native=False)
    assert not result.defects, "\n".join(result.defects[:5])
    tried["careless kernel programs"] += count


@pytest.mark.slow
@tries(100, 400, seconds=5)
def test_careless_programs_that_are_not_refused_can_be_compiled(count, tmp_path, untried, tried):
    result = try_careless(range(10_000, 10_000 + count), tmp_path, native=True)
    assert not result.defects, "\n".join(result.defects[:5])
    tried["careless kernel programs, compiled"] += result.tried["compiled"]


FOUND = {
    "draws for the shape alone": "s.x = np.zeros_like(s.y + rng.random())\ns.y = np.full_like(s.x * rng.random(), 2.0)",
    "ints beside floats": "s.q = np.floor(-np.clip(p.curve, 0, 2))\ns.x = -np.where(s.d, s.c, s.x)",
    "bools beside ints": "s.b = np.where((TABLE >= 1) ^ s.d, TABLE, s.d) - np.logical_and(s.y, s.r)",
    "an index that is drawn after the value": "s.g[1:, rng.integers(4)] = rng.standard_normal()",
    "a division by zero without np": "s.m = s.f / (s.y * 0.0) + s.m",
    "a statement behind an endless loop": "while True:\n    if s.n > 9:\n        return 0.5\n    s.n += 1\ns.x += 1",
    "else of an endless loop": "while True:\n    s.n += 1\n    if s.n > 9:\n        return 0.5\nelse:\n    s.x += 1",
    "a statement behind a return": "if s.t:\n    return 0.5\n    s.x = s.x + 1\ns.x = s.y * 2",
    "break in the else of a loop with arrays in its test": """\
for i in range(4):
    turn = 0
    while turn < 3 and (s.x > i - 2).any():
        turn += 1
    else:
        break
    s.n += 10
s.w = i""",
    "continue in the else of a loop with arrays in its test": """\
for i in range(4):
    turn = 0
    while turn < 3 and (s.x > i - 2).any():
        turn += 1
        if s.y[i] > 0:
            break
    else:
        continue
    s.n += 10""",
    "what follows is never reached, because of a constant": """\
found = LIMIT != 0 and LIMIT // LIMIT > 0
for x, y in NEIGHBOURS:
    if (0 <= s.n < 1) == s.dd[k % 3, rng.integers(4)]:
        if s.t or found:
            continue
        for turn in range(4, 0, -2):
            s.n = sum(s.i) % 50
        s.n = turn""",
}
"""What random programs have found."""


def found_program(case, number):
    body = "".join(f"    {line}\n" for line in FOUND[case].splitlines())
    return f"def program{number}(s, rng, p, k):\n{body}    return rng.random()\n"


@pytest.mark.parametrize("case", FOUND)
@pytest.mark.filterwarnings("error")
def test_what_was_found_stays_mended(case, tmp_path):
    result = Result()
    assert works_as_loops(0, found_program(case, 0), tmp_path, result), result.defects


def test_what_was_found_stays_mended_in_native_code(tmp_path, untried):
    result = Result()
    try_natively([found_program(case, number) for number, case in enumerate(FOUND)], tmp_path, result)
    assert not result.defects
    assert result.tried["native"] == len(FOUND)


REFUSED = {
    "a product of two numbers": "s.m = np.dot(-k, not k)",
    "a variable that only itself is assigned to": "for i in range(3):\n        w = added(w, 1.0)",
}
"""Careless programs that were neither refused nor could be compiled."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_was_not_refused_is_refused(case, tmp_path):
    result = Result()
    text = f"def program0(s, rng, p, k):\n    {REFUSED[case]}\n    return rng.random()\n"
    assert not is_accepted(0, text, tmp_path, result)
    assert not result.defects
