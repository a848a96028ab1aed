"""Arrays in kernels: Python, native code and plain NumPy compute the same bits."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import vecenv
from tests.kernels import array_kernels
from tests.kernels.array_cases import CASES, NARROW, blocks, windows
from tests.kernels.defining import imported, written
from tests.kernels.emitted import EmittedEnv
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.kernel import kernel_of
from vecenv.kernel.language.array_module import runnable
from vecenv.kernel.language.fields import Field, Record
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.numba import collapse
from vecenv.testing import check_kernel

FIELDS = {
    "x": "(np.float64, 4)", "y": "(np.float64, 4)", "m": "(np.float64, (3, 4))", "f": "(np.float32, 4)",
    "g": "(np.float32, (3, 4))", "b": "(np.int8, (3, 4))", "c": "(np.int8, 4)", "i": "(np.int64, 4)",
    "u": "(np.uint8, 4)", "h": "(np.int16, 4)", "q": "(bool, 4)", "w": "(np.float64, (4, 4))",
    "long": "(np.float64, 300)", "wide": "(np.float32, 37)", "n": "int", "k": "int", "a": "float", "t": "bool",
}  # fmt: skip
ELEMENTWISE = """
s.x + s.y; s.x - s.y; s.x * s.y; s.x / s.y; s.x // s.y; s.x % s.y; -s.x; abs(s.x); +s.x; s.x ** 2; s.i ** 2; s.x + 1
1 - s.x; s.x * s.a; s.a / s.x; s.x + s.n; s.x * s.t; s.x + s.m; s.m * s.x - s.m / 3; s.m + s.m[1]; s.f + s.f
s.f * 0.1; s.f / 3; s.f * s.a; s.f + s.n; s.f * s.x; s.f % 0.7; s.f - s.c; s.f * s.i; s.f + s.h; s.f ** 2
s.g * s.f + 0.1; s.g.T; s.m.T * 2; s.m[:, 1]; s.m[1:, ::2] + 1; s.m[::-1]; s.m[-1, ::-1]; s.x[1:3] + s.y[2:]
s.c + 1; s.c * 3; s.c + s.c; s.c - s.h; s.c * s.i; s.c // 3; s.c % 3; s.c / 2; -s.c; abs(s.c); s.c + 0.5; s.c * s.t
s.u + 1; s.u * 2; s.u - 3; s.u // 7; s.u + s.c; s.u / 2; s.u % 5; s.b + s.c; s.b * s.b; s.b[1] - s.b[0]; s.c & 3
s.c | s.u; s.i ^ 5; ~s.c; ~s.q; s.q & (s.x > 0); s.q | s.t; s.q ^ s.q; s.q + s.q; s.q * s.q; s.q * 3; s.q + 1
s.x < s.y; s.x >= 0; s.c == 1; s.c != 300; s.f < 0.1; s.f == s.f; s.i > s.a; s.q == s.t; s.u < s.c; s.x == s.i
0 < s.x; np.where(s.q, s.x, s.y); np.where(s.x > 0, 1, 0); np.where(s.x > 0, s.c, 0); np.where(s.q, s.f, 0.1)
np.where(s.c, 1.5, s.i); np.clip(s.x, -0.5, 0.5); np.clip(s.c, -1, 1); np.clip(s.m, s.x, 1.0); s.f.clip(-0.3, 0.3)
np.clip(s.x, -1, s.a); np.minimum(s.x, s.y); np.maximum(s.x, 0.0); np.minimum(s.c, 2); np.maximum(s.i, s.x)
np.minimum(s.f, 0.1); np.abs(s.x); np.sign(s.x); np.sign(s.c); np.floor(s.x); np.ceil(s.f); np.rint(s.x)
np.trunc(s.f); np.sqrt(abs(s.x)); np.sqrt(abs(s.f)); np.sqrt(s.i * s.i); np.square(s.c); np.isnan(s.x / s.y)
np.isfinite(s.x); np.isinf(s.f); np.isnan(s.c); np.logical_and(s.q, s.c); np.logical_or(s.x, s.q)
np.logical_not(s.c); np.add(s.x, 1); np.mod(s.c, 3); np.less(s.x, s.y); np.negative(s.f); np.multiply(s.c, s.c)
np.divide(s.c, 4); np.equal(s.c, s.u); np.invert(s.u); np.bitwise_and(s.c, s.h); s.x.astype(int)
s.x.astype(np.float32); s.c.astype(float); s.i.astype(np.int8); s.c.astype(bool); s.q.astype(np.uint8); s.x.copy()
s.b.copy(); s.f.astype(np.float64) * 0.1; (s.x * 10).astype(np.int16); s.u.astype(np.int8); s.x[s.k]; s.b[s.k][1]
s.x + (1, 2, 3, 4); s.c * (1, -1, 2, 0); s.x[None, :] + s.y[:, None]; s.x[:, None] * s.c; s.m[..., 0]
s.x[1:] - s.x[:-1]
"""
CONSTRUCTED = """
np.zeros(3); np.zeros((2, 3)); np.ones(4, np.int8); np.full(3, 0.5); np.full((2, 2), s.n); np.full(3, 7, np.float32)
np.zeros_like(s.b); np.ones_like(s.f); np.full_like(s.c, 3); np.full_like(s.q, s.n); np.full_like(s.q, 0.5)
np.full_like(s.b, s.t); np.full(3, s.n, bool); np.full_like(s.q, s.t); np.zeros(4, bool); np.arange(5)
np.arange(2, 9, 3)
np.arange(4) * s.x; np.array([1, 2, 3]); np.array([s.a, 1]); np.array([[1, 2], [s.n, 4]]); np.array((s.t, False))
np.array([1.5, s.n], np.float32); np.array(s.x); np.eye(3); np.eye(2, dtype=int); np.array([s.x, s.y])
-np.where(s.q, 0, s.x); -np.where(s.q, s.c, s.x)
np.zeros(len(s.x)); np.zeros(s.b.shape, np.int16); np.zeros(s.m.shape[1]) + s.a; np.array([s.x[0], s.y[-1]]) / 2
"""
REDUCED = """
s.x.sum(); np.sum(s.m); s.f.sum(); s.wide.sum(); s.long.sum(); s.b.sum(); s.u.sum(); s.q.sum(); s.i.sum()
np.sum(s.x * s.y); s.m.sum(axis=0); s.m.sum(axis=1); s.g.sum(axis=0); s.g.sum(axis=1); s.b.sum(axis=0); s.b.sum(1)
s.q.sum(axis=0); s.w.sum(axis=1); s.long.mean(); s.x.mean(); s.wide.mean(); s.c.mean(); s.m.mean(axis=0); s.f.mean()
s.x.prod(); s.c.prod(); s.f.prod(); s.x.max(); s.x.min(); s.c.max(); np.max(s.m, axis=0); s.m.min(axis=1); s.f.max()
s.q.max(); np.amax(s.b); s.long.min(); s.x.argmax(); s.m.argmax(); s.m.argmin(axis=1); s.c.argmin()
np.argmax(s.b, axis=0); np.any(s.x > 1); s.q.all(); s.q.any(); np.all(s.c != 0); np.any(s.b == 1, axis=0)
s.b.all(axis=1); np.count_nonzero(s.b); np.count_nonzero(s.x > 0); np.array_equal(s.x, s.y)
np.array_equal(s.x, s.x); np.array_equal(s.x, s.m); (s.x * 2).sum(); (s.m > 0).sum(axis=1); s.long[::2].sum()
s.long[:7].sum(); s.long[:200].sum(); s.long[5:150].mean(); s.m.T.sum(axis=0); s.w[1:, 1:].sum(); abs(s.x).max()
max(s.x); min(s.c); sum(s.c); any(s.q); all(s.c); 3 in s.c; s.a not in s.x; s.wide[:8].sum(); s.wide[:9].sum()
s.i @ s.i; s.b @ s.i; np.dot(s.i, s.i); s.m.max() + s.x.min(); (s.x[:3] @ s.m).shape[0]; s.x.sum() / s.x.max()
"""
MOVED = """
np.roll(s.x, 1); np.roll(s.x, -s.n); np.roll(s.b, s.k, axis=0); np.roll(s.m, 2, axis=1); np.flip(s.x)
np.flip(s.m, 0); np.flip(s.m); np.fliplr(s.b); np.flipud(s.b); np.transpose(s.m); s.b.transpose(); np.rot90(s.b)
np.rot90(s.b, 2); np.rot90(s.b, 3); np.rot90(s.w, s.n); np.rot90(s.w, -1); s.m.reshape(4, 3) + 1
np.reshape(s.m, (2, 6)); s.b.ravel() + 1; s.m.flatten(); np.ravel(s.b) * 2; s.x.reshape((2, 2)) + 1
np.reshape(s.long, (20, -1))[3]; np.concatenate((s.x, s.y)); np.concatenate((s.x[:2], s.c))
np.concatenate([s.b, s.b[:1]]); s.x[np.array([0, 2, 1])]; s.m[s.k % 2 + 1]; s.x[s.c % 4]
s.m[np.array([0, 1]), np.array([2, 3])]; np.roll(s.x, 1) + np.roll(s.x, -1) - 2 * s.x; s.i[::-1] * s.i
s.x[(1, 3, 0),]
"""
ALL = "".join((ELEMENTWISE, CONSTRUCTED, REDUCED, MOVED))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Loops over few elements are collapsed too: the arrays of these tests are small."""
    monkeypatch.setattr(collapse, "FEWEST", 1)


@pytest.fixture
def untried(monkeypatch):
    """Kernels are not tried out in Python before they are compiled: the states of these tests are not zero."""
    monkeypatch.setattr(CompiledEngine, "_try_out", lambda self: None)


def listed(text):
    return [part.strip() for line in text.splitlines() for part in line.split(";") if part.strip()]


def filled(state, seed):
    """Write values that NumPy and native code might compute differently."""
    generator = np.random.default_rng(seed)
    for name, array in state.items():
        if array.dtype.kind == "f":
            array[...] = np.round(generator.normal(0, 1, array.shape), 2 if seed % 2 else 17)
            if seed % 4 == 3:
                array.flat[generator.integers(array.size)] = 0.0
                array[array == 0.0] = -0.0  # of zeros of both signs NumPy's max gives either, see docs/kernels.md
        elif array.dtype.kind == "b":
            array[...] = generator.integers(0, 2, array.shape)
        elif name == "k":
            array[...] = generator.integers(0, 3)
        else:
            array[...] = generator.integers(-7 if array.dtype.kind == "i" else 0, 8, array.shape)


def plain_state(kernel, seed):
    state = {name: np.zeros(field.shape or (1,), field.dtype) for name, field in kernel.state.items() if name in FIELDS}
    filled(state, seed)
    return state


def by_numpy(expression, state):
    values = {name: array if name not in "nkat" else array[0].item() for name, array in state.items()}
    values = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    with np.errstate(all="ignore"):
        return np.asarray(eval(expression, {"np": np, "s": SimpleNamespace(**values)}))


def expression_kernel(path, expressions):
    """A kernel whose step assigns each expression to a field with the type and shape that NumPy gives it."""
    types = {name: np.zeros(1, eval(f"np.dtype({text})")) for name, text in FIELDS.items()}
    kept = {name: SimpleNamespace(shape=array.shape[1:], dtype=array.dtype) for name, array in types.items()}
    sample = plain_state(SimpleNamespace(state=kept), 0)
    fields = dict(FIELDS)
    for place, expression in enumerate(expressions):
        result = by_numpy(expression, sample)
        dtype = {"uint64": "int64"}.get(result.dtype.name, result.dtype.name)
        fields[f"r{place}"] = f"(np.dtype('{dtype}'), {result.shape})" if result.shape else f"np.dtype('{dtype}')"
    state = ", ".join(f"'{name}': {text}" for name, text in fields.items())
    lines = [f"    s.r{place} = {expression}" for place, expression in enumerate(expressions)]
    step = "def step(s, action, rng, p):\n" + "\n".join(lines) + "\n    return 0.0, False"
    return written(
        path, f"state = {{{state}}}", step, "def reset(s, rng, p):\n    pass", "def observe(s, obs, p):\n    pass"
    )


def assert_same(expression, wanted, found, who):
    wanted, found = np.asarray(wanted), np.asarray(found)
    wanted = wanted.astype(found.dtype) if wanted.dtype == np.uint64 else wanted
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), (who, expression, wanted, found)
    assert wanted.tobytes() == found.tobytes() or (
        wanted.dtype.kind == "f"
        and np.array_equal(np.isnan(wanted), np.isnan(found))
        and wanted[~np.isnan(wanted)].tobytes() == found[~np.isnan(found)].tobytes()
    ), (who, expression, wanted, found)


@pytest.mark.parametrize("group", ["ELEMENTWISE", "CONSTRUCTED", "REDUCED", "MOVED"])
def test_expressions_in_python_and_as_loops_are_numpys(group, tmp_path):
    expressions = listed(globals()[group])
    with imported(expression_kernel(tmp_path, expressions)) as module:
        kernel = kernel_of(module.Wrong)
        python, loops = KernelEnv(kernel), EmittedEnv(kernel)
        for seed in range(12):
            state = plain_state(kernel, seed)
            python.reset(seed=0)
            for name, array in state.items():
                loops.state[name][...] = array
                setattr(python.state, name, array if kernel.state[name].shape else array[0].item())
            python.step(0)
            loops.step(0)
            for place, expression in enumerate(expressions):
                wanted, name = by_numpy(expression, state), f"r{place}"
                shape = kernel.state[name].shape
                assert_same(expression, wanted, np.asarray(getattr(python.state, name), wanted.dtype), "Python")
                assert_same(expression, wanted, loops.state[name] if shape else loops.state[name][0], "loops")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(8))
def test_expressions_in_native_code_are_numpys(part, tmp_path, untried):
    expressions = listed(ALL)[part::8]
    with imported(expression_kernel(tmp_path, expressions)) as module:
        kernel, count = kernel_of(module.Wrong), 64
        envs = vecenv.make(module.Wrong, count, engine="compiled", workers=1)
        envs.reset(seed=0)
        states = [plain_state(kernel, seed) for seed in range(count)]
        for row, state in enumerate(states):
            for name, array in state.items():
                getattr(envs.state, name)[row] = array if kernel.state[name].shape else array[0]
        envs.step(np.zeros(count, int))
        for row, state in enumerate(states):
            for place, expression in enumerate(expressions):
                found = getattr(envs.state, f"r{place}")[row]
                assert_same(expression, by_numpy(expression, state), found, "native")
        envs.close()


class Plain:
    """The state as plain NumPy: assigning a field copies into it, and numbers keep the types of their fields."""

    def __init__(self, state):
        self.__dict__.update(
            {name: array.copy() if name not in "nkat" else array[0].item() for name, array in state.items()}
        )

    def __setattr__(self, name, value):
        held = self.__dict__[name]
        if isinstance(held, np.ndarray):
            if value is not held:
                held[...] = value
        else:
            self.__dict__[name] = type(held)(value)


def case_kernel(path, cases):
    state = ", ".join(f"'{name}': {text}" for name, text in FIELDS.items())
    calls = "\n".join(
        f"    {'if' if place == 0 else 'elif'} action == {place}:\n        {case.__name__}(s)"
        for place, case in enumerate(cases)
    )
    return written(
        path,
        f"state = {{{state}}}",
        f"action_space = Discrete({len(cases)})",
        f"def step(s, action, rng, p):\n{calls}\n    return 0.0, False",
        "def reset(s, rng, p):\n    pass",
        "def observe(s, obs, p):\n    pass",
        before=f"from tests.kernels.array_cases import {', '.join(case.__name__ for case in cases)}",
    )


def assert_same_state(case, wanted, found, who):
    for name in FIELDS:
        assert_same(f"{case.__name__}: {name}", np.asarray(getattr(wanted, name)), np.asarray(found(name)), who)


def run_plainly(case, state):
    if case in NARROW:
        return run_in_python(case, state)
    wanted = Plain(state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        case(wanted)
    return wanted


def run_in_python(case, state):
    """With numbers as kernels see them, but without a kernel."""
    fields = {name: Field(name, array.dtype, () if name in "nkat" else array.shape) for name, array in state.items()}
    record = Record(fields, {name: array if name not in "nkat" else array[0] for name, array in state.items()})
    runnable(case)(record)
    return record


@pytest.mark.parametrize("case", [*CASES, *NARROW], ids=lambda case: case.__name__)
def test_functions_in_python_and_as_loops_do_what_numpy_does(case, tmp_path):
    with imported(case_kernel(tmp_path, [case])) as module:
        kernel = kernel_of(module.Wrong)
        python, loops = KernelEnv(kernel), EmittedEnv(kernel)
        python.reset(seed=0)
        for seed in range(20):
            state = plain_state(kernel, seed)
            wanted = run_plainly(case, state)
            for name, array in state.items():
                loops.state[name][...] = array
                setattr(python.state, name, array if kernel.state[name].shape else array[0].item())
            python.step(0)
            loops.step(0)
            shaped = {name: field.shape for name, field in kernel.state.items()}
            assert_same_state(case, wanted, lambda name: getattr(python.state, name), "Python")
            assert_same_state(
                case, wanted, lambda name: loops.state[name] if shaped[name] else loops.state[name][0].item(), "loops"
            )


def emitted_text(tmp_path, case):
    with imported(case_kernel(tmp_path, [case])) as module:
        return EmittedEnv(kernel_of(module.Wrong)).text


def test_elements_that_lie_in_their_order_are_one_loop_unless_they_are_few(tmp_path, monkeypatch):
    text = emitted_text(tmp_path, blocks)
    assert "flat__(s__b)" in text
    assert "range(12)" in text
    assert "equals__(flat" in text
    monkeypatch.setattr(collapse, "FEWEST", 13)
    assert "flat__" not in emitted_text(tmp_path, blocks)


def test_a_window_within_its_array_has_a_constant_size_and_needs_no_other_array(tmp_path):
    text = emitted_text(tmp_path, windows)
    element = r"s__w\[k \+ (index\d+__), k \+ (index\d+__)\]"
    within = re.search(rf"for (index\d+__) in range\(2\):\s+for (index\d+__) in range\(2\):\s+{element} = ", text)
    assert within is not None
    assert within.groups()[:2] == within.groups()[2:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(4))
def test_functions_in_native_code_do_what_numpy_does(part, tmp_path, untried):
    cases = [*CASES, *NARROW][part::4]
    with imported(case_kernel(tmp_path, cases)) as module:
        kernel, count = kernel_of(module.Wrong), 20 * len(cases)
        envs = vecenv.make(module.Wrong, count, engine="compiled", workers=1)
        envs.reset(seed=0)
        states = [plain_state(kernel, row) for row in range(count)]
        for row, state in enumerate(states):
            for name, array in state.items():
                getattr(envs.state, name)[row] = array if kernel.state[name].shape else array[0]
        envs.step(np.arange(count) % len(cases))
        for row, state in enumerate(states):
            case = cases[row % len(cases)]
            found = {name: getattr(envs.state, name)[row] for name in FIELDS}
            shaped = {name: field.shape for name, field in kernel.state.items()}
            assert_same_state(
                case,
                run_plainly(case, state),
                lambda name, found=found, shaped=shaped: found[name] if shaped[name] else found[name].item(),
                "native",
            )
        envs.close()


@pytest.mark.parametrize("definition", array_kernels.ALL, ids=lambda definition: definition.__name__)
def test_kernels_with_arrays_do_as_loops_what_python_does(definition):
    kernel = kernel_of(definition)
    python, loops = KernelEnv(kernel), EmittedEnv(kernel)
    python.action_space.seed(0)
    for episode in range(3):
        seed = 7 if episode == 0 else None
        observed = [python.reset(seed=seed)[0]], loops.reset(seed)
        for _ in range(25):
            assert [one.tobytes() for one in observed[0]] == [one.tobytes() for one in observed[1]]
            action = python.action_space.sample()
            obs, *results = python.step(action)
            assert tuple(results[:2]) == tuple(loops.step(action)[:2])
            observed = [obs], loops.observe()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("definition", array_kernels.ALL, ids=lambda definition: definition.__name__)
def test_native_code_with_arrays_is_bit_equal_to_python(definition):
    check_kernel(definition, steps=150)
