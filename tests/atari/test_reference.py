"""Native games beside Gymnasium's and SB3's wrappers: which options are equal pixel for pixel, and which are not."""

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from stable_baselines3.common.atari_wrappers import AtariWrapper

import vecenv
from tests.atari.games import actions
from vecenv.atari._preprocessing import ale_seed

FITTING, OTHER = 1, 0
"""Seeds of which Gymnasium gives ALE a number that native games take, and one that they do not."""


def test_which_seeds_fit():
    for seed, fits in ((FITTING, True), (OTHER, False)):
        assert (int(np.random.SeedSequence(seed).generate_state(2)[1]) == ale_seed(seed)) is fits


def gymnasium_env(game, wrapper, stack=4, padding="reset", **kwargs):
    env = AtariPreprocessing(gymnasium.make(game, frameskip=1, **kwargs), **{"noop_max": 0, **wrapper})
    return env if stack is None else FrameStackObservation(env, stack, padding_type=padding)


def first_difference(game, ours, theirs, seed=FITTING, steps=60, **kwargs):
    """What differs first between a native game and Gymnasium's, which steps and resets alike; None if nothing does."""
    options = {"noop_max": 0, **ours}
    with vecenv.make(game, 1, preprocessing=options, autoreset="same-step", **kwargs) as native:
        obs, infos = native.reset(seed=seed)
        expected, info = theirs.reset(seed=seed)
        if not np.array_equal(obs[0], expected) or infos["frame_number"][0] != info["frame_number"]:
            return "reset"
        for step, action in enumerate(actions(1, steps, theirs.action_space.n)[:, 0]):
            obs, reward, terminated, truncated, infos = native.step(np.array([action]))
            expected, *others, info = theirs.step(int(action))
            if [reward[0], terminated[0], truncated[0]] != others:
                return f"flags {step}"
            if terminated[0] or truncated[0]:
                if not np.array_equal(infos["final_obs"][0], expected):
                    return f"final_obs {step}"
                expected, info = theirs.reset()
            if not np.array_equal(obs[0], expected):
                return f"obs {step}"
            if any(infos[name][0] != info[name] for name in ("lives", "frame_number", "episode_frame_number")):
                return f"infos {step}"
    return None


EQUAL = {
    "grey": ("ALE/Pong-v5", {}, {}, {}),
    "sticky": ("ALE/Breakout-v5", {}, {}, {"repeat_action_probability": 0.25}),
    "zero-padding": ("PongNoFrameskip-v4", {"stack_padding": "zero"}, {}, {}),
    "rgb": ("ALE/Pong-v5", {"grayscale": False}, {"grayscale_obs": False}, {}),
    "size": ("ALE/Pong-v5", {"screen_size": (64, 100), "frame_stack": None}, {"screen_size": (64, 100)}, {}),
    "larger": ("ALE/Pong-v5", {"screen_size": 230}, {"screen_size": 230}, {}),
    "whole-screen": ("ALE/Pong-v5", {"screen_size": (160, 210)}, {"screen_size": (160, 210)}, {}),
    "every-frame": ("ALE/Pong-v5", {"frame_skip": 1}, {"frame_skip": 1}, {}),
    "three-frames": ("ALE/MsPacman-v5", {"frame_skip": 3}, {"frame_skip": 3}, {}),
    "all-actions": ("ALE/Boxing-v5", {}, {}, {"full_action_space": True}),
    "time": ("ALE/Pong-v5", {}, {}, {"max_num_frames_per_episode": 90}),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_to_gymnasium_pixel_for_pixel(name):
    game, ours, wrapper, kwargs = EQUAL[name]
    stack = ours.get("frame_stack", 4)
    theirs = gymnasium_env(game, wrapper, stack, ours.get("stack_padding", "reset"), **kwargs)
    assert first_difference(game, ours, theirs, **kwargs) is None


def test_episodes_of_a_life_restart_as_gymnasiums_do():
    theirs = gymnasium_env("BreakoutNoFrameskip-v4", {"terminal_on_life_loss": True})
    assert first_difference("BreakoutNoFrameskip-v4", {"episodic_life": "restart"}, theirs, steps=200) is None


def test_without_sticky_actions_any_seed_is_equal():
    theirs = gymnasium_env("PongNoFrameskip-v4", {})
    assert first_difference("PongNoFrameskip-v4", {}, theirs, seed=OTHER) is None


def test_sticky_actions_differ_where_native_games_do_not_take_the_seed():
    assert first_difference("ALE/Breakout-v5", {}, gymnasium_env("ALE/Breakout-v5", {}), seed=OTHER) is not None


@pytest.mark.parametrize(
    ("ours", "wrapper"), [({"noop_max": 30}, {"noop_max": 30}), ({"fire_reset": True}, {}), ({"max_pool": False}, {})]
)
def test_not_equal_to_gymnasium(ours, wrapper):
    """Numbers of no-ops are drawn by ALE instead of NumPy; Gymnasium has no FIRE, and always pools."""
    theirs = gymnasium_env("ALE/Breakout-v5", wrapper)
    assert first_difference("ALE/Breakout-v5", ours, theirs, steps=100) is not None


def sb3_run(game, ours, wrapper, steps=60, action=None):
    """Every frame of ours and SB3's beside each other; what is not pixels must be equal."""
    theirs = AtariWrapper(gymnasium.make(game), **{"noop_max": 0, "terminal_on_life_loss": False, **wrapper})
    options = {"noop_max": 0, "frame_stack": None, "clip_reward": True, **ours}
    with vecenv.make(game, 1, preprocessing=options, autoreset="same-step") as native:
        frames = [(native.reset(seed=FITTING)[0][0], theirs.reset(seed=FITTING)[0][..., 0])]
        ends = 0
        for chosen in actions(1, steps, theirs.action_space.n)[:, 0] if action is None else [action] * steps:
            obs, reward, terminated, _, infos = native.step(np.array([chosen]))
            expected, their_reward, over, _, info = theirs.step(int(chosen))
            assert (reward[0], terminated[0]) == (their_reward, over)
            if over:
                ends += 1
                final, said = infos["final_obs"][0], infos["final_info"]
                frames.append((final, expected[..., 0]))
                expected, _ = theirs.reset()
            else:
                said = infos
            assert said["frame_number"][0] == info["frame_number"]
            assert said["lives"][0] == info["lives"]
            frames.append((obs[0], expected[..., 0]))
    return frames, ends


def test_equal_to_sb3_pixel_for_pixel_without_pooling():
    frames, _ = sb3_run("FreewayNoFrameskip-v4", {"frame_skip": 1}, {"frame_skip": 1})
    assert all(np.array_equal(*pair) for pair in frames)


def test_pooled_frames_differ_from_sb3s_where_something_moved_and_nothing_else_does():
    """SB3 makes grey of the brighter colour, ALE takes the brighter grey."""
    lives = {"episodic_life": "continue"}, {"terminal_on_life_loss": True}
    frames, ends = sb3_run("MsPacmanNoFrameskip-v4", *lives, steps=180, action=1)
    assert ends > 0
    different = [np.mean(ours != theirs) for ours, theirs in frames]
    assert 0 < max(different) < 0.1


def test_no_ops_and_fire_begin_episodes_elsewhere_than_sb3s():
    theirs = AtariWrapper(gymnasium.make("BreakoutNoFrameskip-v4"))
    with vecenv.make("BreakoutNoFrameskip-v4", 1, preprocessing="dqn") as native:
        begun = native.reset(seed=FITTING)[1]["frame_number"][0]
        theirs.reset(seed=FITTING)
        assert begun != theirs.unwrapped.ale.getFrameNumber()


def test_plain_games_are_gymnasiums():
    """Plain ids are not changed by there being native games."""
    theirs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("ALE/Pong-v5")] * 2)
    with vecenv.make("ALE/Pong-v5", 2) as ours:
        assert ours.engine.name != "ale"
        assert "older screen" in ours.engine_reason
        assert ours.observation_space == theirs.observation_space
        assert ours.spec == theirs.envs[0].spec or ours.spec.id == "ALE/Pong-v5"
        np.testing.assert_array_equal(ours.reset(seed=4)[0], theirs.reset(seed=4)[0])
        for chosen in actions(2, 20, 6):
            for one, other in zip(ours.step(chosen)[:4], theirs.step(chosen)[:4], strict=True):
                np.testing.assert_array_equal(one, other)
    theirs.close()


def test_native_games_show_an_older_screen_at_the_end():
    """Why plain games are not run on them: all frames are equal but the last."""
    limit = {"max_num_frames_per_episode": 400}
    plain = gymnasium.make("ALE/Pong-v5", **limit)
    options = {"noop_max": 0, "screen_size": (160, 210), "grayscale": False, "max_pool": False, "frame_stack": None}
    with vecenv.make("ALE/Pong-v5", 1, preprocessing=options, autoreset="disabled", **limit) as native:
        native.reset(seed=FITTING), plain.reset(seed=FITTING)
        for chosen in actions(1, 100, 6)[:, 0]:
            obs, _, _, ours, _ = native.step(np.array([chosen]))
            expected, _, _, truncated, _ = plain.step(int(chosen))
            assert ours[0] == truncated
            assert np.array_equal(obs[0], expected) is not truncated
        assert truncated
