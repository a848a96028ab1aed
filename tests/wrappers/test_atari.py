"""Atari games in a batch are those of Gymnasium's wrapper around each of them."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests import twins
from tests.wrappers.driving import MODES, assert_same, drive, make
from vecenv.errors import ConfigError, MissingExtra, NotResetError, SpaceError, UnknownRow, UnsupportedError
from vecenv.wrappers import AtariPreprocessing, RecordEpisodeStatistics

pytest.importorskip("cv2")
ale_py = pytest.importorskip("ale_py")


class Game(gymnasium.Env):
    """What Gymnasium's wrapper wants of ALE: random screens, three lives, each of 5 to 30 frames."""

    action_space = spaces.Discrete(4)
    _frameskip = 1

    def __init__(self, obs_type="grayscale"):
        self.observation_space = spaces.Box(0, 255, (30, 20, 3) if obs_type == "rgb" else (30, 20), np.uint8)
        self.ale = self

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.frames = 3, 0
        self.life = int(self.np_random.integers(5, 31))
        return self.paint(), self.info()

    def step(self, action):
        self.frames += 1
        self.life -= 1
        if not self.life:
            self.left -= 1
            self.life = int(self.np_random.integers(5, 31))
        return self.paint(), float(action) + 0.5, self.left == 0, False, self.info()

    def paint(self):
        self.screen = self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)
        return self.screen

    def info(self):
        return {"lives": self.left, "episode_frame_number": self.frames}

    def lives(self):
        return self.left

    def getScreenGrayscale(self, out):  # ALE's name
        out[...] = self.screen

    getScreenRGB = getScreenGrayscale

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "LEFT", "RIGHT"]


def breakout(**kwargs):
    gymnasium.register_envs(ale_py)
    kwargs = {"frameskip": 1, "repeat_action_probability": 0.0, "obs_type": "grayscale", **kwargs}
    return gymnasium.make("ALE/Breakout-v5", disable_env_checker=True, **kwargs)


SETTINGS = {
    "usual": {},
    "lives": {"terminal_on_life_loss": True},
    "three frames in colour": {"frame_skip": 3, "grayscale_obs": False, "screen_size": (40, 60)},
    "one frame": {"frame_skip": 1, "grayscale_newaxis": True, "scale_obs": True},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["step", "partial"])
@pytest.mark.parametrize("name", SETTINGS)
def test_games_are_those_of_wrapped_single_envs(name, mode, way):
    settings = SETTINGS[name]
    kind = "grayscale" if settings.get("grayscale_obs", True) else "rgb"
    frames = 10 * settings.get("frame_skip", 4) + 1
    compare(lambda: gymnasium.wrappers.TimeLimit(Game(kind), frames), mode, way, 80, **settings)


def test_a_real_game_is_that_of_a_wrapped_single_env():
    compare(lambda: gymnasium.wrappers.TimeLimit(breakout(), 41), "same-step", "step", 25)


def compare(game, mode, way, steps, **settings):
    settings = {"noop_max": 0, **settings}
    inner = gymnasium.wrappers.AtariPreprocessing
    with make("sync", game, 2, autoreset=mode, wrappers=[lambda env: inner(env, **settings)]) as oracle:
        expected = drive(oracle, way, steps=steps)
        space = oracle.single_observation_space
    with make("sync", game, 2, autoreset=mode) as envs:
        wrapped = AtariPreprocessing(envs, **settings)
        assert wrapped.single_observation_space == space
        results = drive(wrapped, way, steps=steps)
    assert_same(results, expected)
    for one, other in zip(results, expected, strict=True):
        assert one[-1].keys() == other[-1].keys()
        for key in ("lives", "_lives", "episode_frame_number"):
            np.testing.assert_array_equal(one[-1].get(key), other[-1].get(key))
            finals = one[-1].get("final_info", {}), other[-1].get("final_info", {})
            np.testing.assert_array_equal(finals[0].get(key), finals[1].get(key))
    assert sum((result[2] | result[3]).sum() for result in results if len(result) == 5) > 1


class Short(gymnasium.Env):
    """Three steps an episode, three lives; observes 10 times its steps everywhere, plus 100 in odd episodes."""

    observation_space = spaces.Box(0, 255, (8, 8), np.uint8)
    action_space = spaces.Discrete(2)
    length = 3

    def __init__(self, length=3):
        self.length, self.episodes = length, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.episodes += 1
        return self.obs(), {"lives": 3, "steps": 0}

    def step(self, action):
        self.steps += 1
        return self.obs(), 1.0, self.steps == self.length, False, {"lives": 3 - self.steps, "steps": self.steps}

    def obs(self):
        return np.full((8, 8), min(10 * self.steps + 100 * (self.episodes % 2), 255), np.uint8)


@pytest.mark.parametrize("mode", MODES)
def test_episodes_that_end_within_no_ops_begin_again(mode):
    envs = AtariPreprocessing(twins.make("sync", Short, 8, autoreset=mode), noop_max=10, screen_size=8)
    obs, infos = envs.reset(seed=0)
    np.testing.assert_array_equal(obs[:, 0, 0] % 100, infos["steps"] * 10)
    assert (infos["steps"] < 3).all()
    assert (obs >= 100).any()  # begun again


@pytest.mark.parametrize("engine", ["sync", "process"])
@pytest.mark.parametrize("mode", MODES)
def test_no_ops_are_of_each_env_s_own_stream(engine, mode):
    frames = {}
    for name, seeds in (("one", 3), ("two", 3), ("other", 4)):
        with twins.make(engine, lambda: Short(99), 20, autoreset=mode) as envs:
            wrapped = AtariPreprocessing(envs, noop_max=30, frame_skip=1, screen_size=8)
            frames[name] = wrapped.reset(seed=seeds)[1]["steps"]
            mask = np.zeros(20, np.bool_)
            mask[3] = True
            later = wrapped.reset(options={"reset_mask": mask})[1]
            assert later["_steps"].tolist() == mask.tolist()
            frames[name, "later"] = later["steps"]
    np.testing.assert_array_equal(frames["one"], frames["two"])
    np.testing.assert_array_equal(frames["one", "later"], frames["two", "later"])
    assert (frames["one"] != frames["other"]).any()
    assert frames["one"].min() >= 1
    assert frames["one"].max() <= 30
    assert len(set(frames["one"])) > 5
    np.testing.assert_array_equal(frames["one"][1:], frames["other"][:-1])  # the seeds are 3, 4 ... and 4, 5 ...


@pytest.mark.parametrize("mode", MODES)
def test_statistics_go_around_it(mode):
    envs = twins.make("sync", lambda: Short(10), 2, autoreset=mode)
    wrapped = RecordEpisodeStatistics(AtariPreprocessing(envs, noop_max=0, screen_size=8))
    drive(wrapped, steps=20)
    assert set(wrapped.length_queue) == {3}  # of 4, 4 and 2 frames
    assert set(wrapped.return_queue) == {10.0}


def test_an_ended_life_wants_a_reset_where_nobody_else_makes_it():
    envs = AtariPreprocessing(twins.make("sync", Game, 2, autoreset="disabled"), 0, terminal_on_life_loss=True)
    envs.reset(seed=0)
    for _ in range(8):
        terminated = envs.step(np.zeros(2, np.int64))[2]
        if terminated.any():
            break
    with pytest.raises(NotResetError):
        envs.step(np.zeros(2, np.int64))
    envs.step(np.zeros(int((~terminated).sum()), np.int64), np.flatnonzero(~terminated))


def test_state_goes_on_where_it_was():
    settings = {"screen_size": 8, "terminal_on_life_loss": True}
    one, other = (AtariPreprocessing(twins.make("sync", lambda: Short(99), 2), **settings) for _ in range(2))
    one.reset(seed=1), other.reset(seed=2)
    one.step(np.zeros(2, np.int64))
    other.load_state_dict(one.state_dict())
    for name, value in one.transform.state_dict().items():
        np.testing.assert_array_equal(other.transform.state_dict()[name], value)
    few = AtariPreprocessing(twins.make("sync", Short, 1), **settings)
    with pytest.raises(SpaceError, match="these are"):
        few.load_state_dict(one.state_dict())


def test_what_cannot_be_done_is_said(monkeypatch):
    envs = twins.make("sync", Short, 2)
    with pytest.raises(SpaceError, match="rgb"):
        AtariPreprocessing(twins.make("sync", Short, 2), grayscale_obs=False)
    with pytest.raises(ConfigError, match="frame_skip"):
        AtariPreprocessing(envs, frame_skip=0)
    with pytest.raises(ConfigError, match="frameskip=1"):
        AtariPreprocessing(twins.make("sync", lambda: breakout(frameskip=4), 1))
    with pytest.raises(UnsupportedError, match="vecenv"):
        AtariPreprocessing(gymnasium.vector.SyncVectorEnv([Short]))
    wrapped = AtariPreprocessing(twins.make("sync", Short, 2), noop_max=0, screen_size=8)
    wrapped.reset(seed=0)
    for call in (lambda: wrapped.send(np.zeros(2, np.int64)), wrapped.recv):
        with pytest.raises(UnsupportedError, match="step"):
            call()
    with pytest.raises(UnknownRow):
        wrapped.step(np.zeros(1, np.int64), [2])
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(MissingExtra, match=r"vecenv\[atari\]"):
        AtariPreprocessing(envs)
