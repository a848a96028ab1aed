"""Arithmetic and the language in native code: what Python computes, to the last bit."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vecenv
from tests.kernels.defining import imported, marked, written
from tests.kernels.language_kernels import Language, Narrow, ReadsObs
from vecenv.errors import KernelError
from vecenv.kernel.language import forbidden
from vecenv.kernel.numba.emit import NOT_IN_CACHED_CODE
from vecenv.testing import check_kernel

SMALL = "abs(s.a) < 1e15"
ARITHMETIC = """
s.a + s.b; s.a * s.b - s.a; s.a / s.b; s.a // s.b; s.a % s.b; s.a ** 2; s.a ** 3; s.a ** 0.5; s.a ** s.b
pow(s.a, 2); s.a ** -2; 0.5 ** s.m; s.m ** 3; s.q ** 2; 2.0 ** s.m
s.n // s.m; s.n % s.m; s.n / s.m; s.n * s.m; abs(s.n); abs(s.a); -s.q; abs(s.q); s.n - s.q
s.n >> 1; s.m << 2; s.n & s.m; s.n ^ s.m; s.n | s.m; s.q; s.q & (s.a > 0); s.q ^ (s.a > 0); (s.a > 0) + (s.b > 0)
divmod(s.n, s.m)[0]; divmod(s.n, s.m)[1]; divmod(s.a, s.b)[0]; divmod(s.a, s.b)[1]; s.a % s.n; s.n // s.a
min(s.a, s.b); max(s.a, s.b); min(s.a, s.n); max(s.n, s.a, s.b); min(s.q, s.n); min(1, max(-1, s.a))
bool(s.a); float(s.n); int(s.q); not s.a; s.a and s.b; s.a or s.b; s.n and s.m; s.n or s.a
s.a < s.b < 2.0; s.a < s.n; s.a == s.b; s.a != s.b; s.a if s.q else s.n; s.q * s.a
s.f * s.f; s.f * s.a; s.f ** 2; s.f / s.n; s.f - s.q; float(s.f)
round(s.a) if SMALL else 0; int(s.a) if SMALL else 0; round(s.n); round(s.a * 8) / 8 if SMALL else 0.0
math.pow(s.n, 2); math.pow(s.n, s.m); math.pow(s.a, s.b); math.sin(s.n); math.sin(s.f); math.exp(s.q)
""".replace("SMALL", SMALL)
REWRITTEN = """
s.a ** 2 if SIZED else 0.0; math.pow(s.a, 2.0) if SIZED else 0.0; s.a ** 3 if SIZED else 0.0; abs(s.a) ** 0.5
10.0 ** s.b if SIZED else 0.0; math.pow(2.0, s.b) if SIZED else 0.0; 1.0 / (1.0 + math.exp(-s.b)) if SIZED else 0.0
math.sin(s.b) * math.cos(s.b) if SIZED else 0.0; math.cos(-s.b) if SIZED else 0.0; math.log(3.3); 2.1 ** 0.3
s.a * s.b + s.n; s.n - s.a * s.b; s.a / 3.0; s.a / 10.0 * 10.0; (s.a + 0.1) - 0.1; -s.a + 0.0; s.a * 0.0
math.sqrt(s.a * s.a); math.exp(math.log(abs(s.a))) if SIZED else 0.0; math.hypot(s.a, s.b); math.hypot(s.a, s.b, s.f)
(s.a + math.pi) % (2 * math.pi) - math.pi; s.f * s.f + s.a; 2 ** (s.m % 8); s.a ** s.m if SIZED else 0.0
""".replace("SIZED", "1e-3 < abs(s.a) < 1e3 and abs(s.b) < 1e2")
"""What compilers compute in another way if bits do not matter: powers as products, sums of products rounded once."""
TO_INT = ("ceil", "floor", "trunc")
ABOVE = {"acosh": 1.0, "log": 0.0, "log2": 0.0, "log10": 0.0, "sqrt": 0.0}
"""Where some functions begin: below, Python raises, also when the kernel is tried out."""
PAIRWISE = {"atan2", "copysign", "hypot", "pow"}


def parts(text):
    return [part.strip() for line in text.strip().splitlines() for part in line.split(";")]


def of_math(name):
    """A call of a function of math on what it is defined for."""
    if name in TO_INT:
        return f"math.{name}(s.a) if {SMALL} else 0"
    if name in ABOVE:
        return f"math.{name}(s.a) if s.a > {ABOVE[name]} else 0.0"
    if name in PAIRWISE:
        return f"math.{name}(s.a, s.b)"
    if name == "gcd":
        return "math.gcd(s.n, s.m)"
    if name in ("acos", "asin", "atanh"):
        return f"math.{name}(s.a / 1e4) if abs(s.a) < 1e4 else 0.0"
    return f"math.{name}(s.a) if abs(s.a) < 300.0 else 0.0"


def columns(count=150, seed=0):
    """Fields of many envs: ordinary numbers of many sizes, and all pairs of special ones."""
    rng = np.random.default_rng(seed)
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e-300, 1e300, np.inf, -np.inf, np.nan, 5e-324, -3.0]
    )
    pairs = len(special)
    sized = rng.normal(size=(2, count)) * 10.0 ** rng.integers(-3, 4, (2, count))
    a = np.concatenate([sized[0], np.repeat(special, pairs)])
    b = np.concatenate([sized[1], np.tile(special, pairs)])
    n, m = rng.integers(-20, 20, len(a)), rng.integers(-5, 6, len(a))
    n[:7], m[:7] = [2**31, -(2**31), 2**53 + 1, -(2**63), 2**52, 7, -7], [3, 3, 2, -1, 1, -2, 2]
    singles = rng.normal(size=len(a)).astype(np.float32)
    return {"a": a, "b": b, "n": n, "m": m, "f": singles, "q": rng.random(len(a)) < 0.5}


def natively(expressions, fields, path):
    """The values of expressions of `s` in native code, one row per env."""
    lines = "\n".join(f"    s.out[{place}] = {text}" for place, text in enumerate(expressions))
    file = written(
        path,
        'state = {"a": float, "b": float, "n": int, "m": int, "f": np.float32, "q": bool, '
        f'"out": (float, {len(expressions)})}}',
        "info = {}",
        "def reset(s, rng, p):\n    s.a, s.b, s.n, s.m, s.f = 0.5, 0.25, 3, 2, 1.5",
        f"def step(s, action, rng, p):\n{lines}\n    return 0.0, False",
        "def observe(s, obs, p):\n    obs[0] = s.a",
    )
    with imported(file) as module, vecenv.make(module.Wrong, len(fields["a"]), engine="compiled") as envs:
        envs.reset(seed=0)
        for name, column in fields.items():
            getattr(envs.state, name)[:] = column
        envs.step(np.zeros(envs.num_envs, np.int64))
        return envs.state.out.copy()


def in_python(expression, fields):
    """Its values in Python; None where Python raises, has a complex number, or an int beyond 64 bits."""
    code = compile(expression, "expression", "eval")

    def value(row):
        s = SimpleNamespace(**{name: column[row].item() for name, column in fields.items()})
        try:
            found = eval(code, {"math": math, "s": s})
        except (ArithmeticError, ValueError):
            return None
        beyond = isinstance(found, int) and abs(found) >= 2**63
        return None if isinstance(found, complex) or beyond else np.float64(found)

    return [value(row) for row in range(len(fields["a"]))]


def same_bits(one, other):
    return one.tobytes() == other.tobytes() or (np.isnan(one) and np.isnan(other))


def differing(expressions, fields, path):
    """Expressions whose bits differ, with the first such row."""
    native = natively(expressions, fields, path)
    found = []
    for place, expression in enumerate(expressions):
        for row, expected in enumerate(in_python(expression, fields)):
            got = native[row, place]
            if expected is not None and not same_bits(expected, got):
                given = {name: column[row].item() for name, column in fields.items()}
                found.append(f"{expression}: native {got!r}, Python {expected!r} at {given}")
                break
    return found


def test_arithmetic_is_pythons(tmp_path):
    assert differing(parts(ARITHMETIC), columns(), tmp_path) == []


def test_what_a_compiler_may_rewrite_keeps_pythons_bits(tmp_path):
    assert differing(parts(REWRITTEN), columns(count=2000), tmp_path) == []


def test_every_function_of_math_that_kernels_may_call_is_pythons(tmp_path):
    names = sorted(forbidden.MATH - NOT_IN_CACHED_CODE.keys())
    assert differing([of_math(name) for name in names], columns(), tmp_path) == []


NUMBERS = st.sampled_from(["s.a", "s.b", "s.n", "s.m", "s.f", "s.q", "2", "0.1", "3", "-1.5"])


def _grown(inner):
    binary = st.tuples(st.sampled_from(["+", "-", "*"]), inner, inner).map(lambda t: f"({t[1]} {t[0]} {t[2]})")
    divided = st.tuples(st.sampled_from(["/", "//", "%"]), inner, inner).map(
        lambda t: f"({t[1]} {t[0]} (1.0 + abs({t[2]})))"
    )
    called = st.tuples(
        st.sampled_from(["math.sin", "math.cos", "math.tanh", "math.atan", "abs", "float", "bool"]), inner
    )
    chosen = st.tuples(inner, inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} < {t[2]} else {t[3]})")
    joined = st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})")
    powers = st.tuples(inner, st.sampled_from(["2", "3", "0.5"])).map(lambda t: f"(1.0 + abs({t[0]})) ** {t[1]}")
    roots = inner.map(lambda t: f"math.sqrt(abs({t}))")
    applied = called.map(lambda t: f"{t[0]}({t[1]})")
    return st.one_of(binary, divided, applied, chosen, joined, powers, roots)


@settings(max_examples=1, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.recursive(NUMBERS, _grown, max_leaves=8), min_size=30, max_size=30))
def test_random_expressions_are_pythons(tmp_path_factory, expressions):
    rng = np.random.default_rng(0)
    fields = columns(count=60)
    fields = {name: column[:60].copy() for name, column in fields.items()}
    fields["n"][:7] = rng.integers(-9, 9, 7)  # ints stay small, so that products fit 64 bits
    assert differing(expressions, fields, tmp_path_factory.mktemp("random")) == []


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.recursive(NUMBERS, _grown, max_leaves=12), min_size=40, max_size=40))
@pytest.mark.timeout(900)
def test_many_random_expressions_are_pythons(tmp_path_factory, expressions):
    test_random_expressions_are_pythons.hypothesis.inner_test(tmp_path_factory, expressions)


@pytest.mark.parametrize("definition", [Language, Narrow, ReadsObs], ids=lambda definition: definition.__name__)
def test_the_language_means_the_same(definition):
    check_kernel(definition, num_envs=4, steps=300)


def test_what_is_read_of_an_observation_is_zero_also_in_used_buffers():
    with vecenv.make(ReadsObs, 2, copy=False) as envs:
        envs.reset(seed=0)
        for turn in range(1, 8):
            obs = envs.step(np.zeros(2, np.int64))[0]
            assert obs.tolist() == [[0.5 + turn, 0.5 + turn, 1.0]] * 2


REFUSED = {
    "a function that Python computes otherwise": ("    s.x = math.fmod(s.x, 1.0)  #!", "x % y"),
    "a function that is not there without Numba": ("    s.x = math.ldexp(s.x, 3)  #!", "ldexp"),
    "an int to the power of a negative int": ("    s.x = 1.0 + s.count ** -2  #!", "power"),
    "a variable that is an int or an array": (
        "    if s.x > 2.0:\n        kept = 1\n    else:\n        kept = s.order\n    s.count = kept  #!",
        "",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_bit_equal_is_refused_with_its_line(case, tmp_path):
    body, said = REFUSED[case]
    head = "def step(s, action, rng, p):\n    if s.flag:\n        return 0.0, True\n"
    reset = "def reset(s, rng, p):\n    s.x, s.flag, s.count = 3.0, True, 7"
    file = written(tmp_path, f"{head}{body}\n    return 0.0, False", reset)
    with pytest.raises(KernelError) as caught, imported(file) as module:
        vecenv.make(module.Wrong, 2, engine="compiled")
    assert said in str(caught.value)
    assert "Wrong.step" in str(caught.value)
    if "array" not in case:  # where that variable is wrong the compiler does not say exactly
        assert caught.value.line == marked(file)
