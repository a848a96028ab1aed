"""The wrappers without statistics: Stable-Baselines3 is the oracle."""

import json
import subprocess
import sys
import warnings
from copy import deepcopy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.sb3.test_vec_normalize import BOX, DICT, IMAGE, assert_equal, functions
from vecenv.sb3.dummy_vec_env import DummyVecEnv
from vecenv.sb3.stacked_observations import StackedObservations
from vecenv.sb3.vec_check_nan import VecCheckNan
from vecenv.sb3.vec_extract_dict_obs import VecExtractDictObs
from vecenv.sb3.vec_frame_stack import VecFrameStack
from vecenv.sb3.vec_monitor import VecMonitor
from vecenv.sb3.vec_transpose import VecTransposeImage

CHANNELS_FIRST = spaces.Box(0, 255, (3, 6, 5), np.uint8)
PICTURE = spaces.Box(0, 255, (20, 21, 3), np.uint8)
BOXES = spaces.Dict({"vector": BOX, "image": PICTURE})


def twins(space, *names_and_arguments):
    """The same wrappers around the same envs: ours, theirs."""
    from stable_baselines3.common import vec_env

    mine, oracle = DummyVecEnv(functions(space)), vec_env.DummyVecEnv(functions(space))
    for name, *arguments in names_and_arguments:
        mine, oracle = globals()[name](mine, *arguments), getattr(vec_env, name)(oracle, *arguments)
    return mine, oracle


STACKS = {
    "box": (BOX, ("VecFrameStack", 4)),
    "one": (BOX, ("VecFrameStack", 1)),
    "image": (IMAGE, ("VecFrameStack", 4)),
    "image first": (IMAGE, ("VecFrameStack", 2, "first")),
    "channels first": (CHANNELS_FIRST, ("VecFrameStack", 3)),
    "channels first, stacked last": (CHANNELS_FIRST, ("VecFrameStack", 3, "last")),
    "dict": (BOXES, ("VecFrameStack", 3)),
    "dict with orders": (BOXES, ("VecFrameStack", 3, {"vector": "first", "image": None})),
    "transposed": (IMAGE, ("VecTransposeImage",)),
    "transposed dict": (DICT, ("VecTransposeImage",)),
    "skipped": (IMAGE, ("VecTransposeImage", True)),
    "stacked and transposed": (PICTURE, ("VecFrameStack", 4), ("VecTransposeImage",)),
    "stacked and transposed dict": (BOXES, ("VecFrameStack", 4), ("VecTransposeImage",)),
    "transposed and stacked": (IMAGE, ("VecTransposeImage",), ("VecFrameStack", 4)),
    "extracted": (DICT, ("VecExtractDictObs", "image"), ("VecFrameStack", 2)),
    "checked": (DICT, ("VecCheckNan", True)),
}


@pytest.mark.parametrize("case", STACKS)
def test_observations_are_those_of_stable_baselines3(case):
    space, *wrappers = STACKS[case]
    mine, oracle = twins(space, *wrappers)
    assert mine.observation_space == oracle.observation_space
    assert_equal(mine.reset(), oracle.reset())
    for step in range(40):
        if step == 20:
            assert_equal(mine.reset(), oracle.reset())
        obs, rewards, dones, infos = mine.step(np.zeros(3, np.int64))
        expected_obs, expected_rewards, expected_dones, expected_infos = oracle.step(np.zeros(3, np.int64))
        assert_equal(obs, expected_obs)
        assert_equal(rewards, expected_rewards)
        assert_equal(dones, expected_dones)
        for row in np.flatnonzero(dones):
            assert_equal(infos[row]["terminal_observation"], expected_infos[row]["terminal_observation"])


def test_stacks_are_nobody_elses():
    """Stable-Baselines3 hands out the array in which it keeps the stack."""
    venv = VecFrameStack(DummyVecEnv(functions(BOX)), 4)
    first = venv.reset()
    kept = first.copy()
    second = venv.step(np.zeros(3, np.int64))[0]
    expected = second.copy()
    second[...] = 77
    np.testing.assert_array_equal(first, kept)
    third = venv.step(np.zeros(3, np.int64))[0]
    np.testing.assert_array_equal(third[:, :9], expected[:, 3:])
    venv.stacked_obs.stacked_obs[...] = 5
    np.testing.assert_array_equal(venv.stacked_obs.stacked_obs, third)


def test_stacked_images_are_transposed_without_a_copy():
    venv = VecTransposeImage(VecFrameStack(DummyVecEnv(functions(PICTURE)), 4))
    assert venv.reset().flags.c_contiguous
    obs, _, _, _ = venv.step(np.zeros(3, np.int64))
    assert obs.shape == (3, 12, 20, 21)
    assert obs.flags.c_contiguous
    assert obs.flags.writeable


def test_transposing_leaves_the_inner_space_and_observation_alone():
    inner = DummyVecEnv(functions(DICT))
    venv = VecTransposeImage(inner)
    assert inner.observation_space == DICT
    obs = inner.reset()
    venv.transpose_observations(obs)
    assert obs["image"].shape == (3, 4, 5, 3)


@pytest.mark.parametrize("call", ["box with orders", "order", "discrete", "frame stack", "transpose", "first", "key"])
def test_what_cannot_be_stacked_or_transposed_is_refused(call):
    discrete, box = spaces.Discrete(3), BOX
    calls = {
        "box with orders": (TypeError, "can't be a dict", lambda: StackedObservations(1, 2, box, {"a": "first"})),
        "order": (AssertionError, "must be one of", lambda: StackedObservations(1, 2, box, "middle")),
        "discrete": (TypeError, "only supports Box and Dict", lambda: StackedObservations(1, 2, discrete)),  # type: ignore[arg-type]
        "frame stack": (AssertionError, "only works with", lambda: VecFrameStack(DummyVecEnv(functions(discrete)), 2)),
        "transpose": (AssertionError, "must be an image", lambda: VecTransposeImage(DummyVecEnv(functions(box)))),
        "first": (AssertionError, "channel last", lambda: VecTransposeImage(DummyVecEnv(functions(CHANNELS_FIRST)))),
        "key": (AssertionError, "Dict obs space", lambda: VecExtractDictObs(DummyVecEnv(functions(box)), "a")),
    }
    error, message, function = calls[call]
    with pytest.raises(error, match=message):
        function()


def test_a_part_of_terminal_observation_is_extracted_also_where_no_episode_ended(monkeypatch):
    venv = VecExtractDictObs(DummyVecEnv(functions(DICT)), "image")
    obs, rewards, dones, infos = venv.venv.reset(), np.zeros(3), np.zeros(3, bool), [{}, {}, {}]
    infos[1]["terminal_observation"] = {"image": "picture"}
    monkeypatch.setattr(venv.venv, "step_wait", lambda: (obs, rewards, dones, infos))
    assert venv.step_wait()[3] == [{}, {"terminal_observation": "picture"}, {}]


def test_an_end_without_terminal_observation_is_a_warning():
    stack = StackedObservations(2, 2, BOX)
    stack.reset(np.ones((2, 3), np.float32))
    with pytest.warns(UserWarning, match="without terminal_observation"):
        obs, infos = stack.update(np.full((2, 3), 2, np.float32), np.array([True, False]), [{}, {}])
    np.testing.assert_array_equal(obs, [[0, 0, 0, 2, 2, 2], [1, 1, 1, 2, 2, 2]])
    assert infos == [{}, {}]


# --- VecCheckNan -----------------------------------------------------------------------------------------------------


class Echo(gymnasium.Env):
    """Observation and reward are the action; the first observation is `first`."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    first = 0.0

    def reset(self, *, seed=None, options=None):
        return np.array([self.first], np.float32), {}

    def step(self, action):
        value = {1: np.nan, 2: np.inf}.get(float(action[0]), 0.0)
        return np.array([value], np.float32), float(action[0]), False, False, {}


@pytest.mark.parametrize("actions", [[[0.0]], [[np.nan]], [[-np.inf]], [[1.0]], [[2.0]]])
@pytest.mark.parametrize("check_inf", [True, False])
def test_messages_are_those_of_stable_baselines3(actions, check_inf):
    from stable_baselines3.common import vec_env

    messages = []
    for module_class, base in ((VecCheckNan, DummyVecEnv), (vec_env.VecCheckNan, vec_env.DummyVecEnv)):
        venv = module_class(base([Echo]), raise_exception=True, check_inf=check_inf)
        venv.reset()
        try:
            venv.step(np.array(actions))
            messages.append("")
        except ValueError as error:
            messages.append(str(error))
    assert messages[0] == messages[1]


def test_one_warning_is_enough_unless_more_are_wanted():
    quiet, loud = (VecCheckNan(DummyVecEnv([Echo]), warn_once=once) for once in (True, False))
    for venv, count in ((quiet, 1), (loud, 3)):
        venv.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                venv.step(np.array([[1.0]]))
        assert len(caught) == count


def test_bad_first_observations_and_dict_actions_are_errors():
    class Bad(Echo):
        first = np.nan

    with pytest.raises(ValueError, match=r"found nan in observations.\r\nOriginated from the environment observation"):
        VecCheckNan(DummyVecEnv([Bad]), raise_exception=True).reset()

    class DictActions(Echo):
        action_space = spaces.Dict({"a": Echo.action_space})

    with pytest.raises(NotImplementedError, match="dict action"):
        VecCheckNan(DummyVecEnv([DictActions]))


# --- VecMonitor ------------------------------------------------------------------------------------------------------


class Rewarded(Echo):
    """Rewards 1, 2, 3, ...; episodes of 4 steps."""

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return super().reset()

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), self.steps, False, self.steps == 4, {"score": self.steps * 10}


def test_monitor_reports_as_stable_baselines3_does(tmp_path):
    from stable_baselines3.common import vec_env

    mine = VecMonitor(DummyVecEnv([Rewarded] * 2), str(tmp_path / "mine"), info_keywords=("score",))
    oracle = vec_env.VecMonitor(vec_env.DummyVecEnv([Rewarded] * 2), str(tmp_path / "oracle"), info_keywords=("score",))
    episodes = []
    for venv in (mine, oracle):
        venv.reset()
        found = []
        for _ in range(9):
            infos = venv.step(np.zeros((2, 1)))[3]
            found += [deepcopy(info["episode"]) for info in infos if "episode" in info]
        venv.close()
        assert venv.episode_count == 4
        np.testing.assert_array_equal(venv.episode_returns, [1, 1])
        np.testing.assert_array_equal(venv.episode_lengths, [1, 1])
        for episode in found:
            assert episode.pop("t") >= 0
        episodes.append([{key: (type(value), value) for key, value in episode.items()} for episode in found])
    assert episodes[0] == episodes[1]
    texts = [(tmp_path / f"{name}.monitor.csv").read_text().splitlines() for name in ("mine", "oracle")]
    assert json.loads(texts[0][0][1:]).keys() == json.loads(texts[1][0][1:]).keys()
    assert texts[0][1] == texts[1][1] == "r,l,t,score"
    without_time = [[line.split(",")[:2] + line.split(",")[3:] for line in text[2:]] for text in texts]
    assert without_time[0] == without_time[1] == [["10.0", "4", "40"]] * 4


def test_monitor_keeps_the_inner_infos_and_forgets_at_reset():
    venv = VecMonitor(DummyVecEnv([Rewarded]))
    venv.reset()
    venv.step(np.zeros((1, 1)))
    venv.reset()
    assert (venv.episode_returns[0], venv.episode_lengths[0]) == (0, 0)
    for _ in range(4):
        infos = venv.step(np.zeros((1, 1)))[3]
    assert infos[0]["episode"]["r"] == 10
    assert infos[0]["TimeLimit.truncated"] is True
    assert "terminal_observation" in infos[0]


def test_monitor_warns_of_a_monitor_inside():
    from vecenv.sb3.monitor import Monitor

    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        VecMonitor(DummyVecEnv([lambda: Monitor(Rewarded())]))


def test_the_plugin_replaces_every_module_of_stable_baselines3():
    code = """
import vecenv.testing.replace_sb3
import sys
from stable_baselines3.common import base_class, callbacks, env_util, monitor, running_mean_std, vec_env
import vecenv.sb3
assert vec_env is vecenv.sb3
assert base_class.VecNormalize is vecenv.sb3.VecNormalize and base_class.Monitor is vecenv.sb3.Monitor
assert callbacks.evaluate_policy is vecenv.sb3.evaluate_policy
left = [name for name, module in sys.modules.items()
        if name.startswith("stable_baselines3.common.vec_env") and "vecenv" not in module.__file__]
assert not left, left
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


def test_monitor_counts_around_a_vec_env_that_returns_lists(monkeypatch):
    inside = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
    step_wait = inside.step_wait

    def lists():
        obs, rewards, dones, infos = step_wait()
        return obs, rewards, dones.tolist(), infos

    monkeypatch.setattr(inside, "step_wait", lists)
    venv = VecMonitor(inside)
    venv.seed(0)
    venv.reset()
    for count in range(1, 501):
        _, _, dones, infos = venv.step([0])
        if dones[0]:
            break
    assert infos[0]["episode"]["l"] == count
    venv.close()
