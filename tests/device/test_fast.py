"""Fast code: floats of 32 bits throughout. And code for GPUs that are not here: PTX, by Warp's own compiler."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import vecenv
from tests.device.zoo import Zoo
from tests.kernels.shipped import SHIPPED
from vecenv._batch.batch import Op
from vecenv._batch.layout import Layout
from vecenv.engines.device.engine import DeviceEngine
from vecenv.kernel import kernel_of
from vecenv.kernel.cpp.emit import source
from vecenv.kernel.cpp.host import compiled_for
from vecenv.kernel.cpp.host import kernel_of as warp_kernel
from vecenv.kernel.language.registry import find_kernel
from vecenv.kernel.language.snapshot import generator as stream
from vecenv.kernel.lower.resolve import resolve

ARCHITECTURES = (80, 90)
"""A100, H100."""
F64 = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?!\.)[\w.]+\.f64\b.*;", re.MULTILINE)
"""An instruction on floats of 64 bits, conversions and those under a condition among them."""


def ptx_of(kernel, precision, architecture, folder):
    spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
    text, _ = source(resolve(kernel, *map(Layout, spaces)), precision)
    return compiled_for(warp_kernel(f"{kernel.id}_{precision}", text), architecture, folder).read_text()


def test_instructions_on_wide_floats_are_found():
    lines = ["add.rn.f64 %fd1, %fd2, %fd3;", "@%p1 mul.f64 %fd1, %fd2, %fd3;", "\t@!%p12 cvt.f64.f32 \t%fd1, %f2;"]
    assert len(F64.findall("\n".join(lines))) == 3
    assert not F64.findall(".reg .f64 %fd<3>;\nadd.rn.f32 %f1, %f2, %f3;")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("id", [
    id if id == "CartPole-v1" else pytest.param(id, marks=pytest.mark.slow) for id in [*SHIPPED, "DeviceZoo-v0"]
])  # fmt: skip
def test_ptx_is_made_without_a_driver(id, architecture, precision, tmp_path):
    text = ptx_of(find_kernel(id), precision, architecture, tmp_path)
    assert f".target sm_{architecture}" in text
    wide = F64.findall(text)
    assert not wide if precision == "fast" else wide, wide[:5]


def test_exact_ptx_fuses_nothing(tmp_path):
    """A fused product and sum rounds once and not twice: the bits of an env would be others than on the CPU."""
    text = ptx_of(find_kernel("Pendulum-v1"), "exact", 80, tmp_path)
    own = text[text.index(".entry") :]
    code = re.sub(r"(?s)\.func .*?\n\}", "", own)
    fused = re.findall(r"fma\.rn\.f64", code)
    plain = re.findall(r"(?:mul|add|sub)(?:\.rn)?\.f64", code)
    assert plain
    assert all(".rn" in one for one in re.findall(r"(?:mul|add|sub)\S*\.f64", code)), "or ptxas may fuse them"
    del fused  # those inside sin and cos are CUDA's own


# --- against a reference of 32 bits ----------------------------------------------------------------------------------


class Singles:
    """The state of one env as the functions of a kernel see it, in floats of 32 bits: NumPy computes with those."""

    def __init__(self, kernel, row):
        object.__setattr__(self, "_fields", kernel.state)
        for name in kernel.state:
            setattr(self, name, row[name])

    def __setattr__(self, name, value):
        field = self._fields[name]
        kind = np.float32 if field.dtype.kind == "f" else field.dtype.type
        made = np.array(value, kind) if field.shape else kind(value)
        object.__setattr__(self, name, made if field.shape or kind is np.float32 else made.item())


class SingleMath:
    """Python's `math` in floats of 32 bits."""

    def __getattr__(self, name):
        found = getattr(math, name)
        return (lambda *given: rounded(found(*given))) if callable(found) else rounded(found)


def rounded(value):
    return np.float32(value) if isinstance(value, float) else value


def single_params(kernel):
    """Parameters of one env in floats of 32 bits."""
    return SimpleNamespace(**{
        name: np.float32(column[0]) if column.dtype.kind == "f" else column[0].item()
        for name, column in kernel.parameters({}, 1).items()
    })  # fmt: skip


def compared_with_numpy(definition, steps, same, monkeypatch, count=32):
    """Compare single steps with the Python function, run from the same states on NumPy's float32.

    Args:
        definition: of the kernel.
        steps: how many.
        same: gets what was found and what is expected.
        monkeypatch: pytest's.
        count: number of envs.
    """
    kernel, generator = kernel_of(definition), np.random.default_rng(0)
    step, params = kernel.definition.step, single_params(kernel)
    floats = [name for name, field in kernel.state.items() if field.dtype.kind == "f"]
    assert floats
    with vecenv.make(definition, count, device="cpu", precision="fast", results="numpy", autoreset="disabled") as envs:
        envs.reset(seed=0)
        monkeypatch.setitem(step.__globals__, "math", SingleMath())  # now that the kernel is compiled
        for _ in range(steps):
            before = {name: np.array(getattr(envs.state, name)) for name in kernel.state}
            words, actions = envs.get_state().columns["RNG"], random_actions(envs, generator)
            rewards, ended = envs.step(actions)[1:3]
            for row in range(count):
                state = Singles(kernel, {name: column[row] for name, column in before.items()})
                action = actions[row] if actions.ndim > 1 else actions[row].item()
                result = step(state, action, stream(words[row]), params)
                for name in kernel.state:
                    found, expected = getattr(envs.state, name)[row], getattr(state, name)
                    if name in floats:
                        same(found, expected)
                    else:
                        assert np.array_equal(found, expected), name
                same(rewards[row], np.float32(result[0]))
                assert ended[row] == result[1]
            if ended.any():
                envs.reset(options={"reset_mask": ended})


def random_actions(envs, generator):
    space = envs.single_action_space
    if isinstance(space, Box):
        return generator.uniform(space.low, space.high, (envs.num_envs, *space.shape)).astype(space.dtype)
    return generator.integers(0, space.n, envs.num_envs)


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=4e-7)


def equal(found, expected):
    assert np.float32(found).tobytes() == np.float32(expected).tobytes(), (found, expected)


FLOATS = [
    "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0",
    *(pytest.param(id, marks=pytest.mark.slow) for id in ("Acrobot-v1", "Pendulum-v1", "Breakout-v0", "CartPole-v0")),
]  # fmt: skip
"""Kernels whose state has floats. All of them call sin or cos, which may differ by a unit or two."""


@pytest.mark.parametrize("id", FLOATS)
def test_a_step_of_fast_code_is_the_python_function_in_floats_of_32_bits(id, monkeypatch):
    compared_with_numpy(find_kernel(id).definition, 20 if id == "Breakout-v0" else 5, near, monkeypatch)


@vecenv.kernel("SingleArithmetic-v0")
class SingleArithmetic:
    """Floats, and no function of the C library."""

    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float32), Discrete(4)
    state = {"x": float, "y": float, "row": (float, 4), "k": int}

    class Params:
        gain = 0.3

    def reset(s, rng, p):
        s.x, s.y, s.k = rng.uniform(-3.0, 3.0), rng.uniform(0.1, 1.0), 0

    def step(s, action, rng, p):
        s.x = s.x * 1.1 + s.x * s.x * p.gain - 0.7
        s.y = (s.y - 5.0) // 0.7 + s.x % -1.3 + s.y / 3.0
        s.row[action] = max(s.x, s.y) + min(s.x, 0.1) * abs(s.y)
        for k in range(4):
            s.x += s.row[k] * 0.01
        s.x = s.x % 3.0
        s.k += 1 if s.x > s.y else 0
        return s.x - s.y * 0.1, s.k > 3

    def observe(s, obs, p):
        obs[0] = s.x


def test_arithmetic_of_fast_code_has_the_bits_of_floats_of_32_bits(monkeypatch):
    compared_with_numpy(SingleArithmetic, 8, equal, monkeypatch)


def compare_with_exact(id, steps, count):
    """All numbers that are no floats are those of exact code, in every step; other floats are the same but rounded."""
    kernel, generator = find_kernel(id), np.random.default_rng(1)
    limit = min(kernel.max_episode_steps or steps, steps // 2)  # so that episodes end
    engines = [DeviceEngine(kernel, count, precision=kind, max_episode_steps=limit) for kind in ("exact", "fast")]
    for engine in engines:
        engine._columns["FALLBACK"][...] = 0
        engine.batch.seed[:] = np.arange(count)
        engine.batch.op[:] = Op.RESET
        engine.exchange_all(0, 0, rotate=False)
    exact, fast = engines
    ended = 0
    for step in range(steps):
        (leaf,) = exact.facts.action_layout.leaves
        low, high = leaf.bounds
        actions = generator.integers(low, np.asarray(high) + 1, exact.batch.actions[0].shape)
        for engine in engines:
            engine.batch.actions[0][...] = actions
        ended += exact.exchange_all(int(Op.ROLL), int(Op.ROLL), rotate=False)
        fast.exchange_all(int(Op.ROLL), int(Op.ROLL), rotate=False)
        ours, theirs = fast.get_rows(np.arange(count)), exact.get_rows(np.arange(count))
        for name, column in theirs.items():
            if column.dtype.kind != "f" or name.startswith("O_"):
                assert np.array_equal(column, ours[name]), (step, name)
            else:
                np.testing.assert_allclose(ours[name], column, rtol=1e-5, atol=1e-6, err_msg=f"{step}, {name}")
    return ended


def has_floats(id):
    return any(field.dtype.kind == "f" and name != "prob" for name, field in find_kernel(id).state.items())


WHOLE = [id for id in SHIPPED if not has_floats(id)]
"""Kernels whose state has no floats but constants."""


@pytest.mark.parametrize(
    "id", [id if id in ("Snake-v0", "Taxi-v3") else pytest.param(id, marks=pytest.mark.slow) for id in WHOLE]
)
def test_whole_numbers_of_fast_code_are_those_of_exact_code(id):
    assert compare_with_exact(id, 100, 32) > 0


def test_every_kernel_is_compared():
    listed = [one if isinstance(one, str) else one.values[0] for one in FLOATS]
    assert sorted([*listed, *WHOLE]) == sorted(SHIPPED)


def test_fast_code_stays_near_exact_code():
    """The same seeds and actions: streams have the same words, floats differ by roundings."""
    actions = np.random.default_rng(0).integers(0, 5, (10, 16))
    with (
        vecenv.make(Zoo, 16, device="cpu", results="numpy") as exact,
        vecenv.make(Zoo, 16, device="cpu", precision="fast", results="numpy") as fast,
    ):
        one, other = exact.reset(seed=0)[0], fast.reset(seed=0)[0]
        assert np.array_equal(one["place"], other["place"]), "ints are drawn alike"
        np.testing.assert_allclose(one["grid"], other["grid"], rtol=1e-5, atol=1e-6)
        assert np.array_equal(exact.state.new, fast.state.new)
        assert kernel_of(Zoo).state["x"].dtype == np.float64
        np.testing.assert_allclose(exact.state.x, fast.state.x, rtol=1e-5)
        exact.step(actions[0])
        fast.step(actions[0])
        assert np.array_equal(exact.state.order, fast.state.order)
