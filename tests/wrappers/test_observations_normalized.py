"""Normalized observations, and the moments behind them."""

import copy
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers.utils import RunningMeanStd

from tests.wrappers.observing import cart_poles, drive, ours, theirs
from vecenv.errors import SpaceError
from vecenv.kernel.numba.functions import address_of
from vecenv.testing._check_transform import MODES, Driver
from vecenv.wrappers import NormalizeObservation, _moments_native
from vecenv.wrappers._moments import Moments

BOX = spaces.Box(-3.0, 5.0, (4,), np.float64)
SHAPES = [(), (1,), (17,), (3, 5), (600,)]
DTYPES = ["float32", "float64", "uint8", "int32", "bool"]


def batches(shape, dtype):
    rng = np.random.default_rng(0)
    for count in (1, 3, 7, 8, 9, 64, 129, 1000, 1):
        yield (rng.normal(size=(count, *shape)) * 50 + 100).astype(dtype)


def reference():
    sb3 = pytest.importorskip("stable_baselines3.common.running_mean_std")
    return sb3.RunningMeanStd


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", ["gymnasium", "sb3"])
def test_moments_are_equal_to_the_last_bit(shape, dtype, make):
    theirs = (RunningMeanStd if make == "gymnasium" else reference())(shape=shape)
    moments, together = Moments(shape), Moments(shape)
    for batch in batches(shape, dtype):
        theirs.update(batch)
        moments.update(batch)
        results = moments.normalize(batch, 1e-8, 2.0), together.update_and_normalize(batch, 1e-8, 2.0)
        for own in (moments, together):
            np.testing.assert_array_equal(own.mean, theirs.mean)
            np.testing.assert_array_equal(own.var, theirs.var)
            assert own.count == theirs.count
        wanted = np.clip((batch - theirs.mean) / np.sqrt(theirs.var + 1e-8), -2.0, 2.0).astype(np.float32)
        for result in results:
            assert result.dtype == np.float32
            np.testing.assert_array_equal(result, wanted)


def test_moments_combine_as_sb3_does():
    shape = (3,)
    theirs, other = reference()(shape=shape), reference()(shape=shape)
    moments, more = Moments(shape), Moments(shape)
    first, second, *_ = [batch for batch in batches(shape, "float64") if len(batch) > 3]
    for own, batch in ((theirs, first), (moments, first), (other, second), (more, second)):
        own.update(batch)
    theirs.combine(other)
    moments.combine(more)
    np.testing.assert_array_equal(moments.mean, theirs.mean)
    np.testing.assert_array_equal(moments.var, theirs.var)
    assert moments.count == theirs.count


@pytest.mark.parametrize("clone", [copy.deepcopy, Moments.copy, lambda moments: pickle.loads(pickle.dumps(moments))])
def test_copies_of_moments_go_on_by_themselves(clone):
    moments = Moments((2,))
    moments.update(np.arange(6.0).reshape(3, 2))
    other = clone(moments)
    np.testing.assert_array_equal(other.mean, moments.mean)
    assert other.count == moments.count
    before = moments.mean
    other.update(np.ones((4, 2)))
    np.testing.assert_array_equal(moments.mean, before)
    assert not np.array_equal(other.mean, before)


def test_numbers_of_moments_are_changed_by_assigning_them():
    moments = Moments((2,))
    with pytest.raises(ValueError, match="read-only"):
        moments.mean[0] = 1
    moments.normalize(np.ones((1, 2)), 1e-8)
    moments.mean, moments.var = np.array([1.0, 2.0]), np.array([4.0, 9.0])
    np.testing.assert_allclose(moments.normalize(np.array([[3.0, 5.0]]), 1e-8), [[1, 1]])
    np.testing.assert_allclose(moments.unnormalize(np.array([1.0, 1.0]), 1e-8), [3, 5])
    np.testing.assert_allclose(moments.scale(np.array([4.0, 90.0]), 1e-8, 5.0), [2, 5])
    with pytest.raises(SpaceError, match="shape"):
        moments.mean = np.zeros(3)


def test_moments_take_any_layout_and_refuse_other_shapes():
    moments, wanted = Moments((3, 2)), Moments((3, 2))
    batch = np.random.default_rng(0).normal(size=(2, 3, 8)).transpose(2, 1, 0)
    moments.update(batch)
    wanted.update(np.ascontiguousarray(batch))
    np.testing.assert_array_equal(moments.mean, wanted.mean)
    moments.update(np.zeros((0, 3, 2)))
    assert moments.count == wanted.count
    assert moments.normalize(np.zeros((2, 5, 3, 2)), 1e-8).shape == (2, 5, 3, 2)
    assert moments.normalize(np.zeros((3, 2)), 1e-8).shape == (3, 2)
    with pytest.raises(SpaceError, match="shape"):
        moments.update(np.zeros((4, 2, 3)))


def test_native_moments_are_what_their_python_code_says():
    native, plain = Moments((5,)), Moments((5,))
    batch = np.random.default_rng(0).normal(size=(9, 5))
    native.update(batch)
    table = np.array([address_of(batch), 0, 9, 5, address_of(plain._moments), 0])
    _moments_native.update(address_of(table))
    np.testing.assert_array_equal(native.mean, plain.mean)
    np.testing.assert_array_equal(native.var, plain.var)
    assert native.count == plain.count


def test_wrappers_are_imported_without_a_compiler():
    heavy = ("numba", "llvmlite", "cv2", "torch")
    code = f"import sys, vecenv.wrappers; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- the wrapper -----------------------------------------------------------------------------------------------------


def normalized(obs, moments):
    return ((obs - moments.mean) / np.sqrt(moments.var + 1e-8)).astype(np.float32)


def test_observations_are_those_of_gymnasium():
    wanted = drive(gymnasium.wrappers.vector.NormalizeObservation(theirs(BOX, "next-step")))
    seen = drive(NormalizeObservation(ours(BOX, "next-step")))
    for (obs, *_), (want, *_) in zip(seen, wanted, strict=True):
        if want.dtype == np.float64:
            np.testing.assert_array_equal(obs, want.astype(np.float32))
        else:  # Gymnasium 1.4 keeps its statistics in float32
            np.testing.assert_allclose(obs, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["whole", "partial", "sent"])
@pytest.mark.parametrize("engine", ["sync", "compiled"])
def test_moments_are_of_the_envs_of_each_exchange(mode, way, engine):
    wrapped = NormalizeObservation(cart_poles(engine)(3, mode))
    moments, learn, shown = RunningMeanStd(shape=(4,)), wrapped.transform.exchange, []

    def checked(exchange):
        obs, final_obs = exchange.obs, exchange.final_obs
        learn(exchange)
        moments.update(obs[exchange.touched])
        np.testing.assert_array_equal(exchange.obs, normalized(obs, moments))
        if final_obs is not None:
            shown.append(exchange.rolled.sum())
            np.testing.assert_array_equal(
                exchange.final_obs[exchange.rolled], normalized(final_obs[exchange.rolled], moments)
            )

    wrapped.transform.exchange = checked
    driver = Driver(wrapped, mode, seed=1)
    driver.begin()
    for _ in range(60):
        ended = driver._done.copy() if mode == "disabled" else np.zeros(3, np.bool_)
        if ended.any():
            wrapped.reset(options={"reset_mask": ended})
            driver._done[:] = False
        getattr(driver, f"_{way}")()
    driver.check_ownership()
    assert wrapped.obs_rms.count == moments.count
    assert sum(shown) > 0 or mode != "same-step"


def test_evaluation_learns_nothing():
    wrapped = NormalizeObservation(ours(BOX, "same-step"), clip=0.5)
    drive(wrapped)
    state = wrapped.state_dict()
    wrapped.update_running_mean = False
    seen = drive(wrapped)
    assert not wrapped.update_running_mean
    assert wrapped.obs_rms.count == state["0.NormalizeObservation"][""]["count"]
    assert max(np.abs(obs).max() for obs, *_ in seen) == 0.5
    assert wrapped.single_observation_space == spaces.Box(-0.5, 0.5, (4,), np.float32)
    other = NormalizeObservation(ours(BOX, "same-step"), clip=0.5)
    other.load_state_dict(state)
    other.update_running_mean = False
    for (obs, *_), (again, *_) in zip(seen, drive(other), strict=True):
        np.testing.assert_array_equal(obs, again)


def test_a_dict_is_normalized_key_by_key():
    space = spaces.Dict({"a": BOX, "b": spaces.Box(0, 255, (2, 2, 3), np.uint8), "c": spaces.Discrete(3)})
    wrapped = NormalizeObservation(ours(space, "same-step"), keys=["a", "b"])
    moments = {key: RunningMeanStd(shape=space[key].shape) for key in ("a", "b")}
    seen, raw = drive(wrapped), drive(ours(space, "same-step"))
    for (obs, finals, ended), (given, finals_given, _) in zip(seen, raw, strict=True):
        for key, own in moments.items():
            own.update(given[key])
            np.testing.assert_array_equal(obs[key], normalized(given[key], own))
            for row in np.flatnonzero(ended) if ended is not None else ():
                np.testing.assert_array_equal(finals[row][key], normalized(finals_given[row][key], own))
        np.testing.assert_array_equal(obs["c"], given["c"])
    assert wrapped.obs_rms["b"].count == moments["b"].count
    assert wrapped.single_observation_space["b"] == spaces.Box(-np.inf, np.inf, (2, 2, 3), np.float32)
    with pytest.raises(SpaceError):
        wrapped.load_state_dict({"0.NormalizeObservation": {"a": wrapped.obs_rms["a"].state_dict()}})
