"""The device engine: tensors in and out, nothing on the host; NumPy's face of it; what it refuses."""

import dataclasses
import functools
import gc
import pickle
import signal
import threading
import weakref

import numpy as np
import pytest
import torch

import vecenv
from tests.device.zoo import Zoo
from tests.kernels.defining import imported
from vecenv._front.autoreset import parse_mode
from vecenv._front.vector_env import VectorEnv
from vecenv.engines.device.engine import DeviceEngine
from vecenv.errors import (
    ClosedError,
    ConfigError,
    EngineRefused,
    InvalidAction,
    KernelError,
    KernelFault,
    NotResetError,
    SpaceError,
    UnsupportedError,
)
from vecenv.kernel import kernel_of
from vecenv.kernel.cpp.host import warp
from vecenv.kernel.language.define import build as kernel_build
from vecenv.testing import check_engine
from vecenv.testing._law_kernel import LawKernel
from vecenv.trainers import PPO, PPOConfig
from vecenv.trainers._collect import torch_threads

one_thread = functools.partial(torch_threads, 1, 0)
MODES = ("next-step", "same-step", "disabled")


def tensors(id="CartPole-v1", count=8, **options):
    return vecenv.make(id, count, device="cpu", **options)


def assert_same(expected, found):
    assert np.array_equal(expected, found.numpy()), (expected, found)


@pytest.mark.parametrize("mode", MODES)
def test_tensors_are_what_the_compiled_engine_returns(mode):
    generator = np.random.default_rng(0)
    with vecenv.make("Snake-v0", 16, autoreset=mode) as one, tensors("Snake-v0", 16, autoreset=mode) as other:
        (expected, infos), (obs, found) = one.reset(seed=5), other.reset(seed=5)
        assert_same(expected, obs)
        assert_same(infos["length"], found["length"])
        for _ in range(80):
            actions = generator.integers(0, 4, 16)
            theirs, ours = one.step(actions), other.step(torch.as_tensor(actions))
            for expected, tensor in zip(theirs[:4], ours[:4], strict=True):
                assert_same(expected, tensor)
            assert_same(theirs[4]["length"], ours[4]["length"])
            done = theirs[2] | theirs[3]
            if mode == "same-step" and done.any():
                finals = np.stack(theirs[4]["final_obs"][done].tolist())
                assert_same(finals, ours[4]["final_obs"][torch.as_tensor(done)])
            assert_same(one.episode_return, other.episode_return)
            assert_same(one.episode_length, other.episode_length)
            if mode == "disabled" and done.any():
                one.reset(options={"reset_mask": done})
                obs, _ = other.reset(options={"reset_mask": torch.as_tensor(done)})
                assert_same(one.step(actions)[0], other.step(torch.as_tensor(actions))[0])
                over = (one._batch.done).copy()
                if over.any():
                    one.reset(options={"reset_mask": over})
                    other.reset(options={"reset_mask": torch.as_tensor(over)})
        other.check()
        assert other.engine.columns_apart.transfers == 0


def test_nothing_is_copied_between_host_and_device():
    with tensors() as envs:
        envs.reset(seed=0)
        actions = torch.zeros(8, dtype=torch.int64)
        first = envs.step(actions)[0]
        kept = first.clone()
        for _ in range(3):
            after = envs.step(actions)[0]
        assert torch.equal(first, kept), "what a step returned stays during the next three"
        assert envs.step(actions)[0].data_ptr() != after.data_ptr()
        envs.get_state()
        assert envs.engine.columns_apart.transfers == 0
        assert len(envs.call("np_random")) == 8  # read from the host's columns
        assert envs.engine.columns_apart.transfers > 0
        envs.state.x.zero_()
        assert torch.equal(envs.get_state().columns["S_x"], torch.zeros(8, dtype=torch.float64))


def test_actions_come_by_dlpack_from_other_libraries():
    with tensors() as envs, tensors() as others:
        for each in (envs, others):
            each.reset(seed=0)

        class Foreign:  # an array of another library
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, **options):
                return self.tensor.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

        actions = torch.ones(8, dtype=torch.int64)
        assert torch.equal(envs.step(Foreign(actions))[0], others.step(actions)[0])
        assert torch.equal(envs.step(np.ones(8, int))[0], others.step(actions)[0])
        columns = torch.ones(8, 2, dtype=torch.int64)[:, 0]
        assert torch.equal(envs.step(columns)[0], others.step(actions)[0]), "not contiguous"


class CudaArray:
    """An array that says that its memory is a GPU's."""

    def __init__(self, array):
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}


@pytest.mark.skipif(torch.cuda.is_available(), reason="the address is not one of a GPU")
def test_arrays_of_a_gpu_are_refused_where_there_is_none():
    with tensors() as envs:
        envs.reset(seed=0)
        with pytest.raises(InvalidAction, match="CudaArray cannot be used on cpu"):
            envs.step(CudaArray(np.zeros(8, np.int64)))
        assert not envs.episode_length.any()


@pytest.mark.parametrize("actions", [
    np.full(8, 0.7), [0.7] * 8, [7] * 8, np.zeros(7, int), [[0]] * 8, "left", None, [None] * 8, np.array(["0"] * 8),
])  # fmt: skip
def test_actions_of_the_host_are_refused_as_on_other_engines_and_nothing_runs(actions):
    with tensors() as envs, vecenv.make("CartPole-v1", 8) as others:
        for each in (envs, others):
            each.reset(seed=0)
        with pytest.raises(InvalidAction) as expected:
            others.step(actions)
        with pytest.raises(InvalidAction) as found:
            envs.step(actions)
        assert str(found.value) == str(expected.value)
        assert not envs.episode_length.any()


def test_errors_of_other_libraries_are_invalid_actions():
    class Broken:
        def __dlpack__(self, **options):
            raise BufferError("no")

        def __dlpack_device__(self):
            return 1, 0

    with tensors() as envs:
        envs.reset(seed=0)
        for actions in (Broken(), torch.zeros(8, dtype=torch.int64).to_sparse()):
            with pytest.raises(InvalidAction):
                envs.step(actions)


def test_copies_are_made_when_they_are_asked_for_and_only_then():
    actions = torch.zeros(8, dtype=torch.int64)
    with tensors(autoreset="same-step", copy=True) as envs, tensors(autoreset="same-step") as others:
        kept = [each.reset(seed=0)[0] for each in (envs, others)]
        first = [each.step(actions) for each in (envs, others)]
        for _ in range(4):
            latest = [each.step(actions) for each in (envs, others)]
        assert first[1][0].data_ptr() == latest[1][0].data_ptr(), "the ring has four layers"
        assert first[0][4]["final_obs"].data_ptr() != latest[0][4]["final_obs"].data_ptr()
        assert torch.equal(latest[0][0], latest[1][0])
        with tensors() as again:
            assert torch.equal(again.reset(seed=0)[0], kept[0])
            assert torch.equal(again.step(actions)[0], first[0][0])
        assert envs.engine.columns_apart.transfers == 0


def test_the_same_seed_begins_the_same_episode_in_every_form():
    with vecenv.make("CartPole-v1", 4, seeding="spawn") as one, tensors(count=4, seeding="spawn") as other:
        assert_same(one.reset(seed=7)[0], other.reset(seed=7)[0])
        seeds = [3, None, 5, 6]
        assert_same(one.reset(seed=seeds)[0], other.reset(seed=seeds)[0])
        assert_same(one.reset(seed=np.int64(9))[0], other.reset(seed=np.int64(9))[0])


def test_the_largest_seeds_are_those_of_other_engines():
    largest = 2**63 - 4
    with vecenv.make("CartPole-v1", 4) as one, tensors(count=4) as other:
        assert_same(one.reset(seed=largest)[0], other.reset(seed=largest)[0])
        for envs in (one, other):
            with pytest.raises(SpaceError, match=rf"seed must be at most 2\*\*63 - num_envs = {largest}"):
                envs.reset(seed=largest + 1)


def test_states_are_read_written_and_cloned_on_the_device():
    actions = torch.tensor([0, 1] * 4)
    with tensors() as envs:
        envs.reset(seed=0)
        envs.step(actions)
        state = envs.get_state()
        future = [envs.step(actions)[0].clone() for _ in range(5)]
        envs.set_state(state)
        for expected in future:
            assert torch.equal(envs.step(actions)[0], expected)
        envs.clone([0], [1, 2])
        rows = envs.get_state().columns
        assert torch.equal(rows["S_x"][0], rows["S_x"][2])
        assert torch.equal(rows["RNG"][0], rows["RNG"][1])
        envs.clone(0, [1, 2], seed=3)
        rows = envs.get_state().columns["RNG"]
        assert not torch.equal(rows[1], rows[2])
        with pytest.raises(SpaceError):
            envs.set_state(envs.get_state([0, 1]))


PICKY = """
from gymnasium.spaces import Box, Discrete
import numpy as np
import vecenv

@vecenv.kernel("DevicePicky-v0")
class Picky:
    observation_space, action_space, state = Box(-9, 9, (1,)), Discrete(2), {"n": int}
    bounds = {"gain": (0.1, 2.0)}

    class Params(vecenv.kernel.Params, shared=True):
        gain = 1.0
        place = 0
        prices = np.arange(3.0)
        places = np.zeros(2, np.int64)

    def reset(s, rng, p):
        s.n = 0

    def step(s, action, rng, p):
        s.n += 1
        return p.gain * p.prices[p.place] + p.prices[p.places[0]], False

    def observe(s, obs, p):
        obs[0] = p.gain
"""


@pytest.fixture
def picky(tmp_path):
    path = tmp_path / "picky.py"
    path.write_text(PICKY)
    with imported(path) as module:
        yield module.Picky


ENGINES = {
    "compiled": {"engine": "compiled"}, "torch": {"device": "cpu"}, "fast": {"device": "cpu", "precision": "fast"},
    "numpy": {"device": "cpu", "results": "numpy"},
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_of_a_state_are_checked(engine, picky):
    with vecenv.make(picky, 2, **ENGINES[engine], gain=[0.1, 2.0]) as envs:
        envs.reset(seed=0)
        state = envs.get_state()
        envs.set_state(state)
        for name, value, error in (("gain", 5.0, ConfigError), ("place", 7, KernelError), ("place", -9, KernelError)):
            for part in ("P", "B"):
                state = envs.get_state()
                state.columns[f"{part}_{name}"][1] = value
                with pytest.raises(error, match="gain" if name == "gain" else "index"):
                    envs.set_state(state)
        envs.set_state(envs.get_state())
        assert float(envs.step(np.zeros(2, int))[1][1]) == 0.0


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_that_all_envs_share_are_tried(engine, picky):
    with vecenv.make(picky, 2, **ENGINES[engine]) as envs:
        envs.reset(seed=0)
        before = envs.get_state()
        with pytest.raises(KernelError, match="index"):
            envs.set_attr("places", np.array([9, 9]))
        assert float(envs.step(np.zeros(2, int))[1][0]) == 0.0
        envs.set_attr("prices", np.array([4.0, 5.0, 6.0]))
        assert float(envs.step(np.zeros(2, int))[1][0]) == 8.0
        with pytest.raises(SpaceError, match="other prices, which all envs share"):
            envs.set_state(first_of(before), [0])
        envs.set_state(before)
        assert float(envs.step(np.zeros(2, int))[1][0]) == 0.0


def first_of(state):
    """The part of a state that is of env 0."""
    columns = {
        name: column if name in ("P_prices", "P_places") else column[:1] for name, column in state.columns.items()
    }
    return dataclasses.replace(state, columns=columns, ready=state.ready[:1])


def test_parameters_are_per_env_and_options_hold_for_an_episode():
    gain, actions = np.linspace(0.1, 2.0, 8), np.ones(8, int)
    with (
        vecenv.make(Zoo, 8, gain=gain, device="cpu", results="numpy") as one,
        vecenv.make(Zoo, 8, gain=gain, device="cpu") as other,
    ):

        def steps(count):
            for _ in range(count):
                assert_same(one.step(actions)[0]["grid"], other.step(torch.as_tensor(actions))[0]["grid"])

        for options in (None, {"gain": 3.0}):
            one.reset(seed=0, options=options)
            other.reset(seed=0, options=options)
            steps(40)
        for envs in (one, other):
            envs.set_attr("gain", 1.0)
        steps(40)


def test_a_wrong_action_is_noted_with_its_env_and_the_env_stays():
    with tensors() as envs:
        envs.reset(seed=0)
        actions = torch.zeros(8, dtype=torch.int64)
        actions[5] = 7
        envs.step(actions)
        with pytest.raises(InvalidAction, match="env 5"):
            envs.check()
        envs.check()
        assert int(envs.episode_length[5]) == 0
        assert int(envs.episode_length[4]) == 1


def test_an_env_that_stays_has_its_latest_observation_and_no_reward():
    """Results are a ring: without that they would be those of four steps before."""
    with tensors("Snake-v0", autoreset="same-step") as envs:
        envs.reset(seed=0)
        for _ in range(9):
            before, *_, infos = envs.step(torch.zeros(8, dtype=torch.int64))
        length, ended = infos["length"].clone(), torch.zeros(8, dtype=torch.bool)
        for _ in range(5):
            obs, reward, terminated, truncated, infos = envs.step(torch.full((8,), 7))
            assert torch.equal(obs, before)
            assert torch.equal(reward, torch.zeros(8, dtype=torch.float64))
            assert torch.equal(terminated | truncated, ended)
            assert torch.equal(infos["length"], length)
        with pytest.raises(InvalidAction):
            envs.check()


def test_an_env_whose_episode_is_over_stays_where_autoreset_is_disabled():
    with tensors(autoreset="disabled") as envs:
        envs.reset(seed=0)
        over, ones = torch.zeros(8, dtype=torch.bool), torch.ones(8, dtype=torch.int64)
        before = torch.zeros(8, 4)
        for _ in range(60):
            obs, reward, terminated, *_ = envs.step(ones)
            assert torch.equal(obs[over], before[over])
            assert not reward[over].any()
            assert not terminated[over].any()
            over, before = over | terminated, obs.clone()
        assert over.all()


def wrong(count=8):
    actions = torch.zeros(count, dtype=torch.int64)
    actions[5] = 7
    return actions


@pytest.mark.parametrize("waits", [
    lambda envs: envs.reset(options={"gain": 1.0}), lambda envs: envs.call("np_random"),
    lambda envs: envs.set_attr("gain", 1.0),
])  # fmt: skip
def test_notes_are_read_when_something_waits_for_the_device(waits):
    """None is lost, and what raised has not changed anything."""
    with tensors(Zoo) as envs:
        envs.reset(seed=0)
        envs.step(wrong())
        before = envs.get_state().columns
        with pytest.raises(InvalidAction, match="env 5"):
            waits(envs)
        after = envs.get_state().columns
        assert all(torch.equal(column, after[name]) for name, column in before.items())
        waits(envs)


def test_all_notes_are_in_one_message():
    with tensors(autoreset="disabled") as envs:
        envs.reset(seed=0)
        for _ in range(60):
            envs.step(torch.ones(8, dtype=torch.int64))
        envs.reset(options={"reset_mask": torch.arange(8) == 5})
        envs.step(wrong())
        with pytest.raises(InvalidAction, match=r"env 5 was not in.*env 0 was to be stepped"):
            envs.check()


def test_an_episode_that_is_over_is_noted_where_autoreset_is_disabled():
    with tensors(autoreset="disabled") as envs:
        envs.reset(seed=0)
        for _ in range(60):
            envs.step(torch.ones(8, dtype=torch.int64))
        with pytest.raises(NotResetError, match="env 0"):
            envs.check()


@pytest.mark.parametrize("actions", [
    torch.zeros(8, dtype=torch.int32), torch.zeros(7, dtype=torch.int64), torch.zeros(8, dtype=torch.float32),
    torch.zeros(8, dtype=torch.int64, device="meta"),
])  # fmt: skip
def test_tensors_of_a_wrong_dtype_shape_or_device_are_refused_and_nothing_runs(actions):
    with tensors() as envs:
        envs.reset(seed=0)
        before = envs.get_state().columns["S_x"].clone()
        with pytest.raises(InvalidAction, match=r"these envs"):
            envs.step(actions)
        assert torch.equal(envs.get_state().columns["S_x"], before)


def test_a_torch_module_is_a_policy():
    torch.manual_seed(0)
    policy = torch.nn.Linear(4, 2)
    with tensors(autoreset="same-step") as envs, tensors(autoreset="same-step") as others:
        envs.reset(seed=0)
        obs, _ = others.reset(seed=0)
        taken = envs.rollout(policy=lambda obs: policy(obs).argmax(1), steps=40)
        with torch.no_grad():
            for moment in range(40):
                assert torch.equal(taken.obs[moment], obs)
                obs, reward, terminated, truncated, infos = others.step(policy(obs).argmax(1))
                assert torch.equal(taken.reward[moment], reward)
                assert torch.equal(taken.terminated[moment], terminated)
                done = terminated | truncated
                assert torch.equal(taken.final_obs[moment][done], infos["final_obs"][done])
        assert torch.equal(taken.next_obs, obs)
        assert envs.engine.columns_apart.transfers == 0
        again = others.rollout(taken.actions)
        assert again.reward.shape == (40, 8)


def test_graphs_are_refused_where_there_are_none():
    with tensors() as envs:
        envs.reset(seed=0)
        policy = torch.nn.Linear(4, 2)
        with pytest.raises(ConfigError, match="graph=True is for rollouts of kernels with a policy on CUDA"):
            envs.rollout(policy=policy, steps=2, graph=True)
        greedy = torch.nn.Sequential(policy, torch.nn.Flatten())
        envs.rollout(policy=lambda obs: greedy(obs).argmax(1), steps=2, graph=False)


def test_wrappers_are_for_numpys_arrays():
    """A wrapper would copy everything to the host, and return tensors here and arrays there."""
    with tensors() as envs, pytest.raises(UnsupportedError, match=r"RecordEpisodeStatistics.*results='numpy'"):
        vecenv.wrappers.RecordEpisodeStatistics(envs)
    with tensors(results="numpy") as envs:
        assert vecenv.wrappers.RecordEpisodeStatistics(envs).reset(seed=0)[0].shape == (8, 4)


def test_numpy_callers_get_numpy_and_the_reason_says_what_it_costs():
    with vecenv.make("CartPole-v1", 4, device="cpu", results="numpy") as envs:
        assert isinstance(envs.reset(seed=0)[0], np.ndarray)
        assert "memory of NumPy's arrays" in envs.engine_reason
    with vecenv.make("CartPole-v1", 4, device="cpu", results="numpy", precision="fast") as envs:
        assert "copied once to the device and once back" in envs.engine_reason
        assert envs.reset(seed=0)[0].dtype == np.float32
        assert envs.step(np.ones(4, int))[1].dtype == np.float64


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_numpy_callers_of_memory_that_is_apart_get_the_same_bits(mode):
    """As on a GPU: columns of the host are copies. The whole language, states, rollouts and partial steps."""
    kernel = kernel_of(Zoo)
    one = vecenv.make(Zoo, 6, device="cpu", results="numpy", autoreset=mode)
    engine = DeviceEngine(kernel, 6, max_episode_steps=kernel.max_episode_steps, tensors=True)
    other = VectorEnv(engine, autoreset=parse_mode(mode))
    generator = np.random.default_rng(0)
    with one, other:
        for envs in (one, other):
            envs.reset(seed=1)
        for step in range(40):
            actions = generator.integers(0, 5, 6)
            for theirs, ours in zip(one.step(actions)[1:4], other.step(actions)[1:4], strict=True):
                assert np.array_equal(theirs, ours), step
            if step == 20:
                for envs in (one, other):
                    envs.state.x[2] = 0.25
                    envs.clone(2, 3)
        kept = one.get_state(), other.get_state()
        for name, column in kept[0].columns.items():
            assert column.tobytes() == kept[1].columns[name].tobytes(), name
        actions = generator.integers(0, 5, (20, 6))
        assert np.array_equal(one.rollout(actions).reward, other.rollout(actions).reward)
        other.set_state(kept[1])
        one.set_state(kept[0])
        assert np.array_equal(one.step(actions[0], None)[1], other.step(actions[0], None)[1])
        assert np.array_equal(one.step(actions[0][:2], [1, 4])[1], other.step(actions[0][:2], [1, 4])[1])


@pytest.mark.parametrize("apart", [False, True])
def test_the_six_laws_hold(apart):
    """Law 6 as: the same bits on the CPU device."""

    def build(factories):
        kernel = kernel_build("vecenv-law", LawKernel, None, {})
        return DeviceEngine(kernel, len(factories), kwargs={"index": np.arange(len(factories))}, tensors=apart)

    check_engine(build, infos=False, failures=False)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_device_may_be_one_of_torch():
    with tensors() as envs, vecenv.make("CartPole-v1", 2, device=envs.device) as others:
        assert others.device == torch.device("cpu")


def test_wrong_devices_say_what_is_there():
    for name in ("gpu", "cuda:x", "tpu", 3):
        with pytest.raises(ConfigError, match="'cpu', 'cuda' or 'cuda:N'"):
            vecenv.make("CartPole-v1", 2, device=name)
    if not torch.cuda.is_available():
        for name in ("cuda:0", torch.device("cuda", 0)):
            with pytest.raises(ConfigError, match=r"device='cuda:0' needs .*driver.*device='cpu'"):
                vecenv.make("CartPole-v1", 2, device=name)


def test_too_many_envs_say_how_much_memory_there_is_and_nothing_is_allocated(monkeypatch):
    from vecenv.engines.device import memory

    monkeypatch.setattr(memory, "_free_on_host", lambda: 2**20)
    monkeypatch.setattr(memory.DeviceMemory, "empty", lambda *_: pytest.fail("memory is allocated"))
    with pytest.raises(ConfigError, match=r"300 envs need 0\.0 GiB.*which has 0\.0 GiB.*make fewer"):
        vecenv.make("Breakout-v0", 300, device="cpu")


def test_memory_that_runs_out_meanwhile_is_given_back(monkeypatch):
    from vecenv.engines.device import memory

    allocated, empty = [], memory.DeviceMemory.empty

    def some(self, shape, dtype):
        if len(allocated) == 5:
            raise RuntimeError("Failed to allocate 8 bytes on device 'cpu'")
        allocated.append(weakref.ref(array := empty(self, shape, dtype)))
        return array

    monkeypatch.setattr(memory.DeviceMemory, "empty", some)
    with pytest.raises(ConfigError, match="do not fit the memory of cpu"):
        vecenv.make("CartPole-v1", 4, device="cpu")
    gc.collect()
    assert len(allocated) == 5
    assert all(array() is None for array in allocated)


@pytest.mark.parametrize("options", [{}, {"results": "numpy", "precision": "fast"}])
def test_a_rollout_that_does_not_fit_is_refused_before_anything_moves(options, monkeypatch):
    from vecenv.engines.device import memory

    with vecenv.make("CartPole-v1", 4, device="cpu", **options) as envs:
        envs.reset(seed=0)
        before, actions = envs.get_state().columns["S_x"], np.ones((20000, 4), np.int64)
        with monkeypatch.context() as patch:
            patch.setattr(memory, "_free_on_host", lambda: 2**20)
            patch.setattr(memory.DeviceMemory, "layered", lambda *_: pytest.fail("memory is allocated"))
            with pytest.raises(
                ConfigError, match=r"20000 steps of 4 envs need .* GiB in the memory of cpu.*fewer steps"
            ):
                envs.rollout(actions)
        assert envs.get_state().columns["S_x"].tolist() == before.tolist()
        envs.step(actions[0])


def test_memory_that_runs_out_in_a_rollout_is_a_config_error(monkeypatch):
    from vecenv.engines.device import memory

    with tensors() as envs:
        envs.reset(seed=0)
        monkeypatch.setattr(memory.DeviceMemory, "check_rollout", lambda *_: None)  # as on a GPU
        with pytest.raises(ConfigError, match=r"do not fit the memory of cpu; roll out fewer steps"):
            envs.rollout(policy=lambda obs: obs[:, 0].long(), steps=10**12)
        envs.step(torch.zeros(8, dtype=torch.int64))


def test_no_axis_of_memory_is_longer_than_a_layer(monkeypatch):
    """Warp counts the places of an axis with 32 bits: 80,000 pictures of Breakout in four layers are more."""
    wp, longest = warp(), []
    zeros = wp.zeros
    monkeypatch.setattr(wp, "zeros", lambda shape, **more: longest.append(np.max(shape)) or zeros(shape, **more))
    with vecenv.make("Breakout-v0", 3, device="cpu") as envs:
        assert max(longest) == 3 * np.prod(envs.single_observation_space.shape)


def test_a_rollout_takes_actions_as_a_step_does():
    with tensors() as one, tensors() as other:
        one.reset(seed=0)
        other.reset(seed=0)
        actions = np.random.default_rng(0).integers(0, 2, (5, 8))
        expected = one.rollout(torch.as_tensor(actions))
        chosen = iter(actions.tolist())
        found = other.rollout(policy=lambda obs: next(chosen), steps=5)
        assert torch.equal(found.obs, expected.obs)
        assert torch.equal(found.actions, expected.actions)
        assert torch.equal(one.rollout(actions).obs, other.rollout(torch.as_tensor(actions)).obs)
        with pytest.raises(InvalidAction, match="3 actions for 8 envs"):
            other.rollout(policy=lambda obs: np.zeros(3, int), steps=2)


def test_a_rollout_looks_at_actions_once(monkeypatch):
    with tensors() as envs:
        envs.reset(seed=0)
        looked, look = [], envs._actions.tensors
        monkeypatch.setattr(envs._actions, "tensors", lambda actions: looked.append(actions) or look(actions))
        envs.rollout(policy=lambda obs: (obs[:, 0] > 0).long(), steps=5)
        assert len(looked) == 5


@pytest.mark.parametrize(("arguments", "error", "said"), [
    ({"policy": 3, "steps": 2}, ConfigError, "policy must be a torch module or a function of observations, got int 3"),
    ({"actions": np.zeros((3, 8), int), "steps": 7}, ConfigError, "steps is for policy="),
    ({"actions": torch.zeros(3, 8, dtype=torch.int64), "steps": 7}, ConfigError, "steps is for policy="),
    ({"actions": 5}, InvalidAction, r"want \(T, 8"),
    ({"actions": torch.tensor(5)}, InvalidAction, r"shape \(\), want \(T, 8\) with T >= 1"),
    ({"actions": torch.zeros(0, 8, dtype=torch.int64)}, InvalidAction, r"shape \(0, 8\), want \(T, 8\)"),
    ({"actions": torch.zeros(3, 7, dtype=torch.int64)}, InvalidAction, r"shape \(3, 7\), want \(T, 8\)"),
    ({"actions": [[0] * 8, [0] * 7]}, InvalidAction, "as one array"),
    ({"actions": [[0] * 8, [9] * 8]}, InvalidAction, "action 9 is not in"),
    ({"actions": {"left": torch.zeros(3, 8, dtype=torch.int64)}}, InvalidAction, r"want \(T, 8"),
])  # fmt: skip
def test_wrong_arguments_of_a_rollout_are_refused_and_nothing_runs(arguments, error, said):
    with tensors() as envs:
        envs.reset(seed=0)
        with pytest.raises(error, match=said):
            envs.rollout(**arguments)
        assert not envs.episode_length.any()
        moments = [torch.zeros(8, dtype=torch.int64)] * 2
        assert envs.rollout(moments).reward.shape == (2, 8)
    with pytest.raises(ClosedError, match=r"rollout\(\)"):
        envs.rollout(moments)


def test_what_a_device_has_not_is_refused_in_words():
    with pytest.raises(EngineRefused, match="wrappers"):
        vecenv.make("Acrobot-v1", 2, device="cpu", wrappers=[lambda env: env])
    with pytest.raises(EngineRefused, match="kernel"):
        vecenv.make(lambda: None, 2, device="cpu")
    for option, value in {"record": "last-episode", "batch_size": 1, "check_finite": "error"}.items():
        said = (
            rf"device engine with results='torch' cannot honour {option}=.*results='numpy', use engine=.*'compiled'.*or"
        )
        with pytest.raises(EngineRefused, match=said):
            vecenv.make("CartPole-v1", 2, device="cpu", **{option: value})
    with pytest.raises(EngineRefused, match=r"device engine cannot honour render_mode='rgb_array'.*engine='compiled'"):
        vecenv.make("CartPole-v1", 2, device="cpu", render_mode="rgb_array")
    with tensors() as envs:
        with pytest.raises(NotResetError):
            envs.step(torch.zeros(8, dtype=torch.int64))
        envs.reset(seed=0)
        for refused in (lambda: envs.send(torch.zeros(8, dtype=torch.int64)), envs.send_reset, envs.recv, envs.xla):
            with pytest.raises(UnsupportedError, match="results='numpy'"):
                refused()
        envs.step(torch.zeros(8, dtype=torch.int64))  # nothing is pending
        with pytest.raises(UnsupportedError):
            envs.step(torch.zeros(1, dtype=torch.int64), env_ids=[0])
        meta = torch.zeros(8, dtype=torch.bool, device="meta")
        for mask in (torch.zeros(3, dtype=torch.bool), torch.zeros(8), "all", object(), meta):
            with pytest.raises(SpaceError, match="reset_mask must be 8 bools"):
                envs.reset(options={"reset_mask": mask})


# --- learning --------------------------------------------------------------------------------------------------------


def test_ppo_learns_on_the_device_and_touches_the_host_never():
    config = PPOConfig(rollout_steps=32, epochs=8, minibatch=512, learning_rate=2e-3, gamma=0.98, lam=0.9)
    returns = []
    with tensors(count=32, autoreset="same-step") as envs, one_thread():
        trainer = PPO(envs, config, seed=1)
        trainer.learn(30_000, callback=lambda progress: returns.append(progress.mean_return))
        assert envs.engine.columns_apart.transfers == 0
        envs.check()
    assert returns[-1] > 60 > 30 > returns[2]


def test_ppo_raises_what_the_device_has_noted():
    """A policy that has become NaN would go on for ever otherwise: its envs stay as they are."""
    with tensors("Pendulum-v1", 4, autoreset="same-step") as envs:
        trainer = PPO(envs, PPOConfig(rollout_steps=8, epochs=1, minibatch=0))
        trainer.learn(32)
        with torch.no_grad():
            trainer.network.head.log_std.fill_(float("nan"))
        with pytest.raises(InvalidAction, match="env 0"):
            trainer.learn(64)


def test_ppo_on_the_device_takes_continuous_actions_and_masks():
    config = PPOConfig(rollout_steps=8, epochs=1, minibatch=0)
    with tensors("Pendulum-v1", 4, autoreset="same-step") as envs:
        PPO(envs, config).learn(64)
        envs.check()
    with tensors("Taxi-v3", 4, autoreset="same-step") as envs:
        PPO(envs, dataclasses.replace(config, mask="action_mask")).learn(64)
        assert envs.engine.columns_apart.transfers == 0


def test_ppo_on_the_device_refuses_other_modes():
    with tensors() as envs, pytest.raises(ConfigError, match="same-step"):
        PPO(envs)


# --- processes and signals -------------------------------------------------------------------------------------------

ENDLESS = """
from gymnasium.spaces import Box, Discrete
import vecenv

@vecenv.kernel("DeviceEndless-v0")
class Endless:
    observation_space, action_space, state = Box(0, 1, (1,)), Discrete(2), {"n": int, "spins": int}

    def reset(s, rng, p):
        s.n, s.spins = 0, 0

    def step(s, action, rng, p):
        while s.spins == 1:
            s.n += 1
        return 0.0, False

    def observe(s, obs, p):
        obs[0] = 0.0
"""


@pytest.mark.parametrize("results", ["torch", "numpy"])
def test_ctrl_c_ends_a_loop_that_does_not_end(results, tmp_path):
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS)
    with imported(path) as module, vecenv.make(module.Endless, 2, device="cpu", results=results) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(2, int))
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        timer.start()
        envs.state.spins[:] = 1
        with pytest.raises(KeyboardInterrupt):
            envs.step(np.ones(2, int))
        timer.join()
        envs.reset(seed=0)
        envs.step(np.zeros(2, int))


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Loops do not ask Python: they end after a number of turns, here a million."""
    from vecenv.kernel.cpp import backend, rows

    limited = rows._IS_STOPPED.replace("#ifdef VECENV_GPU", "#if 1").replace("1LL << 31", "1LL << 20")
    assert limited != rows._IS_STOPPED
    monkeypatch.setattr(rows, "_IS_STOPPED", limited)
    monkeypatch.setattr(backend, "digest_of", lambda *_: None)  # texts that were written before are not used
    monkeypatch.setattr(DeviceEngine, "_asks_python", False)


@pytest.mark.parametrize("way", ["torch", "step", "some", "rollout"])
def test_a_loop_that_was_stopped_is_heard_of(way, tmp_path, as_on_a_gpu):
    path = tmp_path / "endless.py"
    path.write_text(ENDLESS)
    actions = np.zeros((3, 4), int)
    with imported(path) as module:
        kernel = kernel_of(module.Endless)
        envs = (
            vecenv.make(module.Endless, 4, device="cpu")
            if way == "torch"
            else VectorEnv(DeviceEngine(kernel, 4, tensors=True))
        )
    calls = {
        "torch": lambda: (envs.step(actions[0]), envs.check()),
        "step": lambda: envs.step(actions[0]),
        "some": lambda: envs.step(actions[0][:2], [1, 2]),
        "rollout": lambda: envs.rollout(actions),
    }
    with envs:
        envs.reset(seed=0)
        calls[way]()
        envs.state.spins[2] = 1
        with pytest.raises(KernelFault, match="a loop of env 2 did not end and was stopped") as raised:
            calls[way]()
        assert raised.value.rows == (2,)
        if way in ("step", "some"):
            assert len(envs.recv().env_ids) == (3 if way == "step" else 1), "the others are finished"
            with pytest.raises(NotResetError):
                calls[way]()
        envs.reset(seed=0)
        calls[way]()


def test_an_env_on_a_device_is_pickled_with_its_state():
    actions = torch.ones(8, dtype=torch.int64)
    with tensors() as envs:
        envs.reset(seed=0)
        envs.step(actions)
        with pickle.loads(pickle.dumps(envs)) as copied:
            assert torch.equal(copied.step(actions)[0], envs.step(actions)[0])
