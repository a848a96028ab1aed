"""Tensors instead of arrays, of the same memory; lists instead of dicts; and what passes through every wrapper."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from tests import twins
from tests.wrappers.driving import drive, make
from vecenv import wrappers
from vecenv.errors import ConfigTypeError, MissingExtra, UnsupportedError
from vecenv.wrappers import (
    ArrayConversion,
    ClipReward,
    DictInfoToList,
    NumpyToTorch,
    RecordEpisodeStatistics,
)
from vecenv.wrappers._arrays import Converter

torch = pytest.importorskip("torch")
MODES = ("next-step", "same-step", "disabled")


def test_tensors_share_the_memory_of_arrays():
    given = []

    class Spy(gymnasium.vector.VectorWrapper):
        def step(self, actions):
            given.append(actions)
            results = self.env.step(actions)
            given.extend(results[:4])
            return results

    envs = NumpyToTorch(Spy(make("compiled", "CartPole-v1")))
    envs.reset(seed=0)
    actions = torch.tensor([0, 1, 0])
    results = envs.step(actions)
    assert given[0].ctypes.data == actions.data_ptr()
    for tensor, array in zip(results, given[1:], strict=False):
        assert isinstance(tensor, torch.Tensor)
        assert tensor.data_ptr() == array.ctypes.data
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert [tensor.dtype for tensor in results[:4]] == [torch.float32, torch.float64, torch.bool, torch.bool]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["step", "partial", "send"])
def test_tensors_say_what_arrays_say(mode, way):
    with make("compiled", "CartPole-v1", autoreset=mode) as envs:
        expected = drive(envs, way)
    with make("compiled", "CartPole-v1", autoreset=mode) as envs:
        wrapped = NumpyToTorch(envs)
        results = drive(Back(wrapped), way)
    ended = 0
    for one, other in zip(results, expected, strict=True):
        for value, wanted in zip(one[:-1], other[:-1], strict=True):
            np.testing.assert_array_equal(value, wanted)
        assert one[-1].keys() == other[-1].keys()
        for final, wanted in zip(one[-1].get("final_obs", ()), other[-1].get("final_obs", ()), strict=True):
            if wanted is not None:
                assert isinstance(final, torch.Tensor)
                np.testing.assert_array_equal(final, wanted)
                ended += 1
    assert (ended > 0) == (mode == "same-step")


class Back(gymnasium.vector.VectorWrapper):
    """Gives tensors as actions and masks, and looks at results as arrays."""

    def reset(self, *, seed=None, options=None):
        if options:
            options["reset_mask"] = torch.from_numpy(options["reset_mask"])
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs.numpy(), infos

    def step(self, actions, env_ids=None):
        ids = None if env_ids is None else torch.from_numpy(env_ids)
        *values, infos = self.env.step(torch.from_numpy(actions), ids)
        return *(value.numpy() for value in values), infos

    def send(self, actions):
        self.env.send(torch.from_numpy(actions))

    def recv(self):
        *values, infos = self.env.recv()
        return *(value.numpy() for value in values), infos


def test_what_is_received_is_converted_with_all_that_can_be_asked_of_it():
    with (
        make("compiled", "CartPole-v1", autoreset="same-step") as envs,
        make("compiled", "CartPole-v1", autoreset="same-step") as others,
    ):
        wrapped = NumpyToTorch(envs)
        wrapped.reset(seed=3), others.reset(seed=3)
        seen = False
        for _ in range(40):
            wrapped.send(torch.ones(3, dtype=torch.int64)), others.send(np.ones(3, np.int64))
            step, wanted = wrapped.recv(), others.recv()
            for name in ("obs", "reward", "done", "rolled", "valid", "next_obs", "env_ids", "episode_length"):
                value = getattr(step, name)
                assert isinstance(value, torch.Tensor), name
                np.testing.assert_array_equal(value, getattr(wanted, name), err_msg=name)
            seen |= bool(step.rolled.any())
        assert seen


def test_tensors_with_gradients_are_actions():
    with make("compiled", "Pendulum-v1") as envs:
        wrapped = NumpyToTorch(envs, device="cpu")
        wrapped.reset(seed=0)
        obs, *_ = wrapped.step(torch.zeros((3, 1), requires_grad=True))
        assert obs.device.type == "cpu"


def test_nested_observations_and_infos_are_converted():
    convert = Converter(torch)
    value = {
        "a": (np.zeros(2), [np.ones(1, bool)]),
        "objects": np.array([None, np.arange(3), "text"], object),
        "text": np.array(["x"]),
        "number": 3,
        "locked": np.broadcast_to(np.float32(1), (3,)),
        "backwards": np.arange(3)[::-1],
        "scalar": np.float64(2),
    }
    converted = convert(value)
    assert isinstance(converted["a"][0], torch.Tensor)
    assert isinstance(converted["a"][1][0], torch.Tensor)
    assert isinstance(converted["objects"][1], torch.Tensor)
    assert converted["objects"][0] is None
    assert converted["objects"][2] == "text"
    assert converted["text"] is value["text"]
    assert converted["number"] == 3
    assert converted["locked"].tolist() == [1, 1, 1]
    converted["locked"][0] = 2  # a copy
    assert converted["backwards"].tolist() == [2, 1, 0]
    assert float(converted["scalar"]) == 2


def test_other_wrappers_go_inside():
    with make("compiled", "CartPole-v1") as envs:
        inside = NumpyToTorch(RecordEpisodeStatistics(envs))
        for wrapped in (inside, DictInfoToList(RecordEpisodeStatistics(envs))):
            outside = ClipReward(wrapped, 0, 1)
            with pytest.raises(UnsupportedError, match="outermost"):
                outside.reset()
        with pytest.raises(ConfigTypeError, match="target_xp"):
            ArrayConversion(envs, np, pytest)


def test_missing_libraries_name_their_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with make("compiled", "CartPole-v1") as envs, pytest.raises(MissingExtra, match=r"vecenv\[torch\]"):
        NumpyToTorch(envs)


# --- jax --------------------------------------------------------------------------------------------------------------


def test_what_jax_needs_works_in_a_process_of_its_own():
    """Where JAX was imported, nobody may fork any more."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    path = Path(__file__).with_name("jax_arrays.py")
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", str(path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert "skipped" not in run.stdout


# --- lists of infos ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_lists_of_infos_are_gymnasium_s(mode):
    theirs = gymnasium.wrappers.vector.DictInfoToList
    with make("sync", "CartPole-v1", autoreset=mode) as envs, make("sync", "CartPole-v1", autoreset=mode) as others:
        expected = drive(theirs(RecordEpisodeStatistics(others)))
        results = drive(DictInfoToList(RecordEpisodeStatistics(envs)))
        counted = 0
        for one, other in zip(results, expected, strict=True):
            assert isinstance(one[-1], list)
            for info, wanted in zip(one[-1], other[-1], strict=True):
                assert info.keys() == wanted.keys()
                if "episode" in info:
                    assert {key: info["episode"][key] for key in "rl"} == {key: wanted["episode"][key] for key in "rl"}
                    counted += 1
        assert counted > 3


def test_lists_of_partial_steps_and_of_what_is_received():
    with make("compiled", "CartPole-v1", autoreset="same-step") as envs:
        wrapped = DictInfoToList(RecordEpisodeStatistics(envs))
        wrapped.reset(seed=0)
        for _ in range(30):
            assert len(wrapped.step(np.ones(2, np.int64), [0, 2])[-1]) == 2
        wrapped.send(np.ones(1, np.int64), [1])
        assert wrapped.recv().infos == [{}]


# --- every wrapper ----------------------------------------------------------------------------------------------------


class Plain(gymnasium.Env):
    """Has what every wrapper needs: a Box of actions and observations, frames, an attribute, a method."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1000}
    observation_space = gymnasium.spaces.Box(0, 255, (32, 32), np.uint8)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    render_mode = "rgb_array"
    mass = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((32, 32), np.uint8), {"lives": 1}

    def step(self, action):
        return np.zeros((32, 32), np.uint8), 0.0, False, False, {"lives": 1}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)

    def heavier(self, by):
        return self.mass + by


ARGUMENTS = {
    "ArrayConversion": lambda path: (np, torch),
    "ClipReward": lambda path: (0, 1),
    "RecordResults": lambda path: (path / "log",),
    "RecordVideo": lambda path: (path,),
    "RescaleAction": lambda path: (-0.5, 0.5),
    "StickyAction": lambda path: (0.5,),
    "TransformAction": lambda path: (lambda actions: actions,),
    "TransformReward": lambda path: (lambda reward: reward,),
    "VectorizeTransformAction": lambda path: (gymnasium.wrappers.ClipAction,),
    "VectorizeTransformReward": lambda path: (gymnasium.wrappers.ClipReward, 0),
}
MINE = [
    *ARGUMENTS,
    *("AtariPreprocessing", "CheckFinite", "ClipAction", "DictInfoToList", "HumanRendering", "NormalizeReward"),
    *("NumpyToTorch", "RecordEpisodeStatistics"),
]


def wrap(name, envs, path):
    arguments = ARGUMENTS.get(name, lambda path: ())(path)
    if name == "VectorizeTransformReward":
        return wrappers.VectorizeTransformReward(envs, arguments[0], min_reward=0)
    return getattr(wrappers, name)(envs, *arguments)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MINE)
def test_everything_else_passes_through(name, mode, tmp_path, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    envs = twins.make("sync", Plain, 2, autoreset=mode, batch_size=1)
    wrapped = wrap(name, envs, tmp_path)
    assert wrapped.num_envs == 2
    assert wrapped.unwrapped is envs
    assert wrapped.autoreset_mode is envs.autoreset_mode is wrapped.metadata["autoreset_mode"]
    assert wrapped.metadata["render_fps"] == 1000
    assert wrapped.batch_size == 1
    assert wrapped.engine_reason == envs.engine_reason
    wrapped.reset(seed=0)
    actions = np.zeros((2, 1), np.float32)
    wrapped.step(actions)
    wrapped.step(actions[:1], [1])
    wrapped.set_attr("mass", [2.0, 3.0])
    assert wrapped.get_attr("mass") == (2.0, 3.0)
    assert wrapped.call("heavier", 1) == (3.0, 4.0)
    if name == "AtariPreprocessing":
        with pytest.raises(UnsupportedError, match="step"):
            wrapped.send(actions)
    else:
        wrapped.send(actions[:1], [0])
        assert np.asarray(wrapped.recv().env_ids).tolist() == [0]
        assert np.asarray(wrapped.episode_length).tolist() == [2, 2]
    assert wrapped.stats().exchanges >= 3
    state = wrapped.state_dict()
    wrapped.load_state_dict(state)
    wrapped.close()
    wrapped.close()
    assert envs.closed


@pytest.mark.parametrize("name", [name for name in MINE if name not in ("AtariPreprocessing",)])
def test_gymnasium_s_vector_envs_can_be_wrapped(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    wrapped = wrap(name, gymnasium.vector.SyncVectorEnv([Plain] * 2), tmp_path)
    wrapped.reset(seed=0)
    wrapped.step(np.zeros((2, 1), np.float32))
    for call in (lambda: wrapped.send(np.zeros((2, 1), np.float32)), wrapped.recv, wrapped.stats):
        with pytest.raises(UnsupportedError, match="vecenv"):
            call()
    with pytest.raises(UnsupportedError, match="partial step"):
        wrapped.step(np.zeros((1, 1), np.float32), [1])
    wrapped.close()


def test_every_wrapper_of_this_kind_is_tested_here():
    modules = ("_rewards", "_actions", "_episodes", "_check_finite", "_record_video", "_human", "_arrays", "_atari")
    exported = [getattr(wrappers, name) for name in wrappers.__all__]
    mine = {thing.__name__ for thing in exported if thing.__module__.rpartition(".")[2] in modules}
    assert mine - {"JaxToNumpy", "JaxToTorch", "NumpyToJax"} == set(MINE)
