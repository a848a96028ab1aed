"""Fast code: floats of 32 bits throughout. And code for GPUs that are not here: PTX, by Warp's own compiler."""

import re

import numpy as np
import pytest

pytest.importorskip("warp")

import vecenv
from tests.device.zoo import Zoo
from vecenv._batch.layout import Layout
from vecenv.kernel import kernel_ids, kernel_of
from vecenv.kernel.cpp.emit import source
from vecenv.kernel.cpp.host import compiled_for, kernel_of as warp_kernel
from vecenv.kernel.language.registry import find_kernel
from vecenv.kernel.lower.resolve import resolve

ARCHITECTURES = (80, 90)
"""A100, H100."""
F64 = re.compile(r"^\s*(?!\.)[\w.]+\.f64\b.*;", re.MULTILINE)
"""An instruction on floats of 64 bits, conversions among them."""


def ptx_of(kernel, precision, architecture, folder):
    spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
    text, _ = source(resolve(kernel, *map(Layout, spaces)), precision)
    return compiled_for(warp_kernel(f"{kernel.id}_{precision}", text), architecture, folder).read_text()


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ptx_is_made_without_a_driver(architecture, precision, tmp_path):
    text = ptx_of(find_kernel("CartPole-v1"), precision, architecture, tmp_path)
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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("id", [*kernel_ids(), "DeviceZoo-v0"])
def test_no_kernel_has_an_instruction_on_floats_of_64_bits_in_fast_code(id, tmp_path):
    found = F64.findall(ptx_of(find_kernel(id), "fast", 90, tmp_path))
    assert not found, found[:5]


# --- against a reference of 32 bits ----------------------------------------------------------------------------------


class Singles:
    """The state of one env as the functions of a kernel see it, in floats of 32 bits: NumPy computes with those."""

    def __init__(self, kernel, row):
        object.__setattr__(self, "_fields", kernel.state)
        for name, field in kernel.state.items():
            value = row[name]
            object.__setattr__(self, name, value if field.shape else np.float32(value) if field.dtype.kind == "f" else value)

    def __setattr__(self, name, value):
        kind = self._fields[name].dtype
        value = np.float32(value) if kind.kind == "f" else kind.type(value).item()
        object.__setattr__(self, name, value)


@pytest.mark.parametrize("id", ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0"])
def test_a_step_of_fast_code_is_the_python_function_in_floats_of_32_bits(id):
    """From the same state, NumPy's float32 scalars as reference; only sin and cos may differ by a unit or two."""
    count, generator = 64, np.random.default_rng(0)
    with vecenv.make(id, count, device="cpu", precision="fast", results="numpy", autoreset="disabled") as envs:
        envs.reset(seed=0)
        kernel = find_kernel(id)
        for _ in range(5):
            before = {name: np.array(getattr(envs.state, name)) for name in kernel.state}
            if envs.single_action_space.dtype == np.float32:
                actions = generator.uniform(-1, 1, (count, *envs.single_action_space.shape)).astype(np.float32)
            else:
                actions = generator.integers(0, envs.single_action_space.n, count)
            envs.step(actions)
            for row in range(count):
                state = Singles(kernel, {name: column[row] for name, column in before.items()})
                params = kernel.record(kernel.parameters({}, 1))
                kernel.definition.step(state, actions[row] if actions.ndim > 1 else actions[row].item(), None, params)
                for name, field in kernel.state.items():
                    found, expected = np.float32(getattr(envs.state, name)[row]), getattr(state, name)
                    if field.dtype.kind == "f":
                        np.testing.assert_array_max_ulp(found, np.float32(expected), 4)


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
