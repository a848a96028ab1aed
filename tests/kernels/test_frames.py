"""Pictures of compiled envs: those that Gymnasium's own envs draw of the same states."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import registry

import vecenv
from vecenv.errors import ConfigError, EngineRefused
from vecenv.kernel.language.registry import GAMES, SHIPPED

IDS = [id for id in SHIPPED if id in registry and id not in GAMES]
TEXTS = [id for id in IDS if id.startswith(("FrozenLake", "Taxi", "CliffWalking"))]
TAXI = next(id for id in IDS if id.startswith("Taxi"))
COUNT = 3
pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date")  # CartPole-v0


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")


def pair(id, mode="rgb_array", **kwargs):
    """Envs of ours and of Gymnasium, reset alike."""
    ours = vecenv.make(id, COUNT, engine="compiled", render_mode=mode, **kwargs)
    theirs = gymnasium.make_vec(id, COUNT, vectorization_mode="sync", render_mode=mode, **kwargs)
    for envs in (ours, theirs):
        envs.reset(seed=5)
    ours.action_space.seed(1)
    return ours, theirs


def same_frames(ours, theirs):
    frames, expected = ours.render(), theirs.render()
    assert isinstance(frames, tuple)
    assert len(frames) == len(expected) == COUNT
    for frame, wanted in zip(frames, expected, strict=True):
        assert frame.dtype == wanted.dtype == np.uint8
        np.testing.assert_array_equal(frame, wanted)


@pytest.mark.parametrize("id", IDS)
def test_frames_are_those_of_gymnasium(id):
    ours, theirs = pair(id)
    with ours:
        same_frames(ours, theirs)
        for _ in range(14):
            actions = ours.action_space.sample()
            assert np.array_equal(ours.step(actions)[2], theirs.step(actions)[2])
            same_frames(ours, theirs)
        assert ours.render_mode == "rgb_array"
        assert ours.metadata["render_modes"] == [
            mode for mode in theirs.metadata["render_modes"] if mode in ("rgb_array", "ansi")
        ]
        assert ours.metadata["render_fps"] == theirs.metadata["render_fps"]
    theirs.close()


@pytest.mark.parametrize("id", TEXTS)
def test_texts_are_those_of_gymnasium(id):
    ours, theirs = pair(id, "ansi")
    with ours:
        for _ in range(5):
            actions = ours.action_space.sample()
            ours.step(actions)
            theirs.step(actions)
            assert ours.render() == tuple(theirs.render())
    theirs.close()


def test_a_taxi_looks_where_gymnasiums_does_also_if_it_is_drawn_now_and_then():
    ours, theirs = pair(TAXI, max_episode_steps=7)
    with ours:
        for turn in range(40):
            actions = np.random.default_rng(turn).choice([0, 1, 2, 3, 4, 4, 5], COUNT)
            ours.step(actions)
            theirs.step(actions)
            if turn % 5 in (1, 2):
                same_frames(ours, theirs)
    theirs.close()


def test_maps_may_differ_between_envs():
    maps = [["SFF", "FHG"], ["SHH", "FFG"], ["FFS", "GFF"]]
    with vecenv.make("FrozenLake-v1", 3, render_mode="rgb_array", env_kwargs=[{"desc": desc} for desc in maps]) as envs:
        assert envs.engine.name == "compiled"
        envs.reset(seed=0)
        frames = envs.render()
        for frame, desc in zip(frames, maps, strict=True):
            env = gymnasium.make("FrozenLake-v1", render_mode="rgb_array", desc=desc)
            env.reset(seed=0)
            np.testing.assert_array_equal(frame, env.render())


def test_frames_of_some_envs():
    with vecenv.make("CartPole-v1", 4, engine="compiled", render_mode="rgb_array") as envs:
        envs.reset(seed=0)
        everyone, some = envs.render(), envs.render(env_ids=[2, 0])
        assert [frame.shape for frame in everyone] == [(400, 600, 3)] * 4
        np.testing.assert_array_equal(some, [everyone[2], everyone[0]])


def test_copies_and_states_bring_the_last_action_along():
    with vecenv.make("Pendulum-v1", 3, render_mode="rgb_array") as envs:
        envs.reset(seed=0)
        envs.step(np.array([[2.0], [-2.0], [0.5]], np.float32))
        before, frames = envs.get_state(), envs.render()
        envs.clone(0, 1)
        np.testing.assert_array_equal(envs.render()[1], frames[0])
        envs.step(np.zeros((3, 1), np.float32))
        envs.set_state(before)
        np.testing.assert_array_equal(envs.render(), frames)
        with vecenv.make("Pendulum-v1", 3) as plain:  # whose states have no last action
            plain.reset(seed=0)
            envs.set_state(plain.get_state())
            plain.set_state(before)
        assert envs.render()[0].shape == (500, 500, 3)


def test_a_wrong_action_is_not_drawn():
    with vecenv.make("FrozenLake-v1", 2, render_mode="rgb_array", is_slippery=False) as envs:
        envs.reset(seed=0)
        envs.step(np.array([2, 1]))
        frames = envs.render()
        with pytest.raises(ValueError, match="action"):
            envs.step(np.array([0, 9]))
        np.testing.assert_array_equal(envs.render(), frames)


def test_frames_after_a_rollout_and_of_single_steps():
    with vecenv.make("CartPole-v1", 3, render_mode="rgb_array") as envs, vecenv.make("CartPole-v1", 3) as plain:
        for each in (envs, plain):
            each.reset(seed=0)
            each.rollout(np.ones((6, 3), np.int64))
            each.step(np.array([0]), env_ids=[1])
        assert np.array_equal(envs.state.theta, plain.state.theta)
        frames = envs.render()
        assert not np.array_equal(frames[0], frames[1])
        assert envs.get_attr("sutton_barto_reward") == (False,) * 3
        assert envs.call("has_wrapper_attr", "state") == (True,) * 3


def test_closing_others_does_not_end_frames():
    with vecenv.make("Blackjack-v1", 2, render_mode="rgb_array") as envs:
        envs.reset(seed=0)
        before = envs.render()
        other = gymnasium.make("CartPole-v1", render_mode="rgb_array")
        other.reset()
        other.render()
        other.close()  # ends pygame
        np.testing.assert_array_equal(envs.render(), before)


@pytest.mark.parametrize("id", ["CartPole-v1", "Blackjack-v1"])
def test_windows_are_refused_by_name(id):
    with pytest.raises(EngineRefused, match=r"a window \('human'\) shows one env; use engine='sync'"):
        vecenv.make(id, 2, engine="compiled", render_mode="human")
    with pytest.raises(EngineRefused, match="cannot draw 'depth'"):
        vecenv.make(id, 2, engine="compiled", render_mode="depth")


def test_without_a_render_mode_nothing_is_drawn():
    with vecenv.make("CartPole-v1", 2) as envs, pytest.raises(ConfigError, match="no render_mode"):
        envs.render()
