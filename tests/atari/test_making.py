"""Which engine runs games, and what is said when none can."""

import subprocess
import sys

import gymnasium
import pytest

import vecenv
from tests.atari.games import same
from vecenv import errors
from vecenv.atari import Preprocessing

PONG = "ALE/Pong-v5"


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"render_mode": "rgb_array"}, "cannot draw"),
        ({"difficulty": 1}, "no difficulties"),
        ({"mode": 0}, "no modes"),
        ({"max_episode_steps": 7}, "count frames, not steps"),
        ({"wrappers": [gymnasium.wrappers.FlattenObservation]}, "wrappers wrap Python envs"),
        ({"workers": 2, "preprocessing": "dqn"}, "the next life alone"),
    ],
)
def test_what_native_games_cannot_do_is_done_in_python_and_said(kwargs, reason):
    with pytest.raises(errors.EngineRefused, match=reason):
        vecenv.make(PONG, 2, engine="ale", **{"preprocessing": True, **kwargs})
    with vecenv.make(PONG, 2, **{"preprocessing": True, **kwargs}) as envs:
        assert envs.engine.name in ("process", "sync")
        assert reason in envs.engine_reason
        assert "not the ale engine" in envs.engine_reason


def test_games_in_python_draw_and_can_be_cloned_and_play_the_same_game():
    with (
        vecenv.make(PONG, 2, preprocessing=True) as native,
        vecenv.make(PONG, 2, preprocessing=True, render_mode="rgb_array", engine="sync") as python,
    ):
        assert native.engine.name == "ale"
        same(native.reset(seed=2), python.reset(seed=2))
        assert python.render()[0].shape == (210, 160, 3)
        assert len(python.call("clone_state")) == 2
        for name in ("clone_state", "render_frame"):
            with pytest.raises(errors.UnsupportedError, match="use engine='sync', 'thread' or 'process'"):
                native.call(name)
        with pytest.raises(errors.UnsupportedError, match="cannot be set"):
            native.set_attr("game", "breakout")
        assert native.call("get_action_meanings") == python.call("get_action_meanings")


def test_ram_and_plain_games_go_to_python():
    with vecenv.make(PONG, 2, obs_type="ram", engine="auto") as envs:
        assert envs.single_observation_space.shape == (128,)
        assert "not the ale engine" in envs.engine_reason
    with vecenv.make([PONG, "ALE/Breakout-v5"], engine="sync") as envs:
        assert envs.single_action_space.n == 18
        assert envs.single_observation_space.shape == (210, 160, 3)


def test_arguments_may_differ_from_game_to_game():
    each = [{"repeat_action_probability": 0.0}, {"repeat_action_probability": 0.5}]
    with vecenv.make(PONG, 2, preprocessing=True, env_kwargs=each) as envs:
        assert [spec.repeat_action_probability for spec in envs.engine.specs] == [0.0, 0.5]


def test_a_limit_beyond_what_ale_counts_is_none():
    with vecenv.make(PONG, 1, preprocessing=True, max_num_frames_per_episode=2**31) as envs:
        assert envs.engine.name == "ale"
        envs.reset(seed=0)


MISTAKES = [
    (("ALE/Pnog-v5",), {}, errors.UnknownEnv, "did you mean 'ALE/Pong-v5'"),
    (("CartPole-v1",), {}, errors.ConfigError, "CartPole-v1 is none"),
    (("Pong-v4",), {}, errors.ConfigError, "at random"),
    ((lambda: None,), {}, errors.ConfigTypeError, "ids of Atari games"),
    ((PONG,), {"preprocessing": {"nop_max": 3}}, errors.ConfigTypeError, "did you mean 'noop_max'"),
    ((PONG,), {"preprocessing": 84}, errors.ConfigTypeError, "True, 'dqn'"),
    ((PONG,), {"noop_max": 3}, errors.ConfigTypeError, "matter of preprocessing"),
    ((PONG,), {"frameskip": 2}, errors.ConfigTypeError, "'frame_skip': 2"),
    ((PONG,), {"dificulty": 2}, errors.ConfigTypeError, "did you mean 'difficulty'"),
    ((PONG,), {"autoreset_mode": "disabled"}, errors.ConfigTypeError, "did you mean 'autoreset'"),
    ((PONG,), {"repeat_action_probability": 2}, errors.ConfigError, "in 0 ... 1"),
    ((PONG,), {"obs_type": "ram"}, errors.ConfigError, "leave preprocessing out"),
    ((PONG,), {"preprocessing": None, "engine": "ale"}, errors.EngineRefused, "older screen"),
    (("CartPole-v1",), {"preprocessing": None, "engine": "ale"}, errors.ConfigError, "CartPole-v1 is none"),
    ((PONG, 2), {"batch_size": 3}, errors.ConfigError, "batch_size"),
    ((PONG, 2), {"batch_size": 1.5}, errors.ConfigTypeError, "batch_size"),
    ((PONG, 2), {"workers": 50}, errors.ConfigError, "workers"),
    ((PONG, 2), {"ray_address": "x:1"}, errors.ConfigError, "ray_address"),
    ((PONG, 2), {"context": "nonsense"}, errors.ConfigError, "nonsense"),
    ((PONG, 2), {"start_timeout": -3}, errors.ConfigError, "start_timeout"),
    ((PONG,), {"timeout": 1.0, "engine": "ale"}, errors.EngineRefused, "cannot be interrupted"),
    (([PONG] * 3, 2), {}, errors.ConfigError, "leave num_envs out"),
    (([PONG, "ALE/Breakout-v5"],), {"full_action_space": False}, errors.SpaceError, "full_action_space=True"),
]


@pytest.mark.parametrize(("args", "kwargs", "error", "message"), MISTAKES)
def test_a_mistake_is_named_before_anything_starts(args, kwargs, error, message):
    with pytest.raises(error, match=message):
        vecenv.make(*args, **{"preprocessing": True, **kwargs})


@pytest.mark.parametrize(
    "options",
    [
        {"frame_skip": 0},
        {"screen_size": (84,)},
        {"screen_size": 0},
        {"noop_max": -1},
        {"grayscale": 1},
        {"episodic_life": True},
        {"frame_stack": 0},
        {"stack_padding": "none"},
    ],
)
def test_a_wrong_option_is_refused(options):
    with pytest.raises(errors.ConfigError, match=next(iter(options))):
        Preprocessing(**options)


def test_without_ale_py_the_extra_is_named(monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == "ale_py"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    monkeypatch.delitem(gymnasium.registry, PONG)
    for kwargs in ({}, {"preprocessing": True}):
        with pytest.raises(errors.MissingExtra, match=r"GPL-2.0.*vecenv\[atari\]"):
            vecenv.make(PONG, 2, **kwargs)


def test_another_ale_py_is_not_trusted_with_native_games(monkeypatch):
    import ale_py

    monkeypatch.setattr(ale_py, "__version__", "0.13.0")
    with pytest.raises(errors.EngineRefused, match=r"this is 0\.13\.0"):
        vecenv.make(PONG, 2, preprocessing=True, engine="ale")


OLD = """
import sys, vecenv

assert vecenv.make("CartPole-v0", 1).engine.name
assert "ale_py" not in sys.modules
for id in ("Pong-v4", "Breakout-v4"):
    with vecenv.make(id, 1, engine="sync") as envs:
        print(envs.reset(seed=0)[0].shape)
"""


def test_ids_of_older_games_need_no_import():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", OLD], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["(1, 210, 160, 3)"] * 2, done.stderr
