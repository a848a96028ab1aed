"""Fast code: floats of 32 bits throughout. And code for GPUs that are not here: PTX, by Warp's own compiler."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

import vecenv
from tests.device.zoo import Zoo
from vecenv._batch.layout import Layout
from vecenv.kernel import kernel_ids, kernel_of
from vecenv.kernel.cpp.emit import source
from vecenv.kernel.cpp.host import compiled_for
from vecenv.kernel.cpp.host import kernel_of as warp_kernel
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
        for name in kernel.state:
            setattr(self, name, row[name])

    def __setattr__(self, name, value):
        kind = self._fields[name].dtype
        object.__setattr__(self, name, np.float32(value) if kind.kind == "f" else kind.type(value).item())


class SingleMath:
    """Python's `math` in floats of 32 bits."""

    def __getattr__(self, name):
        found = getattr(math, name)
        return (lambda *given: np.float32(found(*given))) if callable(found) else np.float32(found)


@pytest.mark.parametrize("id", ["CartPole-v1", "MountainCar-v0"])
def test_a_step_of_fast_code_is_the_python_function_in_floats_of_32_bits(id, monkeypatch):
    """From the same state, with NumPy's float32 scalars as the reference; sin and cos may differ by a unit or two."""
    count, generator, kernel = 32, np.random.default_rng(0), find_kernel(id)
    step = kernel.definition.step
    params = kernel.parameters({}, 1)
    single = SimpleNamespace(**{
        name: np.float32(column[0]) if column.dtype.kind == "f" else column[0].item() for name, column in params.items()
    })  # fmt: skip
    with vecenv.make(id, count, device="cpu", precision="fast", results="numpy", autoreset="disabled") as envs:
        envs.reset(seed=0)
        monkeypatch.setitem(step.__globals__, "math", SingleMath())  # now that the kernel is compiled
        for _ in range(5):
            before = {name: np.array(getattr(envs.state, name)) for name in kernel.state}
            actions = generator.integers(0, envs.single_action_space.n, count)
            envs.step(actions)
            for row in range(count):
                state = Singles(kernel, {name: column[row] for name, column in before.items()})
                step(state, actions[row].item(), None, single)
                for name, field in kernel.state.items():
                    if field.dtype.kind == "f":
                        found = getattr(envs.state, name)[row]
                        np.testing.assert_allclose(found, getattr(state, name), rtol=2e-6, atol=1e-7)


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
