"""From a failure in a vector env to the same failure in this process: the file that the error names is all it takes."""

import dataclasses
import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import vecenv
from tests.recording.replayed_envs import Cliff, Drifting, GlobalNoise, Nested, Walk
from vecenv.errors import EnvError, NotFiniteError, WorkerDied, WorkerTimeout
from vecenv.wrappers import CheckFinite

COUNT = 3
MODES = ("next-step", "same-step", "disabled")


@vecenv.kernel("RecordedSlope-v0", max_episode_steps=12)
class Slope:
    """Slides down; the square root of less than nothing is NaN in native code, and an error in Python."""

    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete(2)
    state = {"height": float}

    class Params:
        top = 1e9

    bounds = {"top": (0.0, None)}  # so that `make` does not try a low one in Python, where it would be an error at once

    def reset(s, rng, p):
        s.height = p.top + rng.uniform(0.0, 1.0)

    def step(s, action, rng, p):
        s.height -= 0.5 + rng.uniform(0.0, 1.0)
        s.height = s.height**0.5 * s.height**0.5
        return s.height, False

    def observe(s, obs, p):
        obs[0] = s.height


def made(env, tmp_path, engine="sync", **options):
    if engine == "process":
        options = {"workers": 2, "context": "fork", **options}
    how = {"engine": engine, "record": "last-episode", "record_folder": tmp_path}
    return vecenv.make(env, COUNT, **how, **options)


def drive(envs, steps=400, seed=3):
    """Random actions, and resets where the user has to make them."""
    envs.action_space.seed(1)
    envs.reset(seed=seed)
    for _ in range(steps):
        _, _, terminated, truncated, _ = envs.step(envs.action_space.sample())
        ended = terminated | truncated
        if envs.metadata["autoreset_mode"].name == "DISABLED" and ended.any():
            envs.reset(options={"reset_mask": ended})


def failure(envs, kind=EnvError, **options):
    """The error that comes sooner or later."""
    try:
        with pytest.raises(kind) as caught:
            drive(envs, **options)
    finally:
        envs.close(timeout=1.0)
    assert f"replay it: vecenv replay {caught.value.recording}" in str(caught.value)
    return caught.value


def assert_reproduced(error, outcome="reproduced", **options):
    told = vecenv.replay(error.recording, trust=True, **options)
    assert told.outcome == outcome, told.text
    assert told.recording.row == error.row
    assert told.difference is None
    return told


@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("engine", ["sync", "thread", "process"])
def test_an_error_in_a_later_episode_comes_again_at_its_step(engine, autoreset, tmp_path):
    error = failure(made(functools.partial(Cliff, edge=6.5), tmp_path, engine, autoreset=autoreset), OverflowError)
    told = assert_reproduced(error)
    assert told.recording.start["kind"] == "random-state"
    assert (told.failure.type, told.failure.step) == ("OverflowError", told.recording.steps)
    assert told.failure.message in str(error)


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_what_cannot_be_used_comes_again(engine, tmp_path):
    error = failure(made(functools.partial(Cliff, how="invalid"), tmp_path, engine))
    told = assert_reproduced(error)
    assert told.recording.failure["kind"] == "invalid"
    assert told.failure.type == "SpaceError"


@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("engine", ["sync", "process"])
def test_a_number_that_is_not_finite_comes_again(engine, autoreset, tmp_path):
    envs = CheckFinite(made(functools.partial(Cliff, how="nan"), tmp_path, engine, autoreset=autoreset))
    told = assert_reproduced(failure(envs, NotFiniteError))
    assert told.failure.kind == "not-finite"
    assert told.failure.message == "obs[0] is nan"


def test_a_hang_comes_again_and_is_bounded(tmp_path):
    envs = made(functools.partial(Cliff, how="hang"), tmp_path, "process", timeout=1.0)
    told = assert_reproduced(failure(envs, WorkerTimeout), patience=0.5)
    assert told.failure.kind == "hung"
    assert "replayed_envs.py" in told.failure.traceback


def test_a_death_comes_again_without_ending_this_process(tmp_path):
    told = assert_reproduced(failure(made(functools.partial(Cliff, how="die"), tmp_path, "process"), WorkerDied))
    assert (told.failure.kind, told.failure.type) == ("died", "SIGKILL")


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_failures_that_were_mended_come_again(engine, tmp_path):
    envs = made(functools.partial(Cliff, edge=5.0), tmp_path, engine, on_error="restart")
    envs.action_space.seed(1)
    envs.reset(seed=3)
    infos = {}
    while "fault" not in infos:
        _, _, _, _, infos = envs.step(envs.action_space.sample())
    envs.close()
    (path,) = infos["fault"]["recording"][infos["_fault"]].tolist()
    assert vecenv.replay(path, trust=True).outcome == "reproduced"


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_hidden_randomness_and_state_kept_across_episodes_are_told_by_step_and_field(engine, tmp_path):
    wanted = {GlobalNoise: (3, "obs"), Drifting: (1, "reward")}
    for env, (step, field) in wanted.items():
        envs = made(functools.partial(env, length=20), tmp_path, engine)
        drive(envs, steps=40)
        told = vecenv.replay(envs.recording(2), trust=True)
        envs.close()
        assert (told.outcome, told.difference.step, told.difference.field) == ("differs", step, field)


@pytest.mark.parametrize("engine", ["sync", "thread", "process"])
@pytest.mark.parametrize("steps", [0, 5, 30])
def test_the_current_episode_is_replayed_on_demand(engine, steps, tmp_path):
    for env in (functools.partial(Walk, length=12), Nested):
        envs = made(env, tmp_path, engine)
        drive(envs, steps=steps)
        for row in range(COUNT):
            told = vecenv.replay(envs.recording(row), trust=True)
            assert told.outcome == "clean", told.text
        envs.close()


def test_options_arguments_and_wrappers_are_those_of_the_row(tmp_path):
    envs = vecenv.make(
        Walk,
        3,
        engine="sync",
        env_kwargs=[{"length": 5}, {"length": 6}, None],
        wrappers=[
            functools.partial(gymnasium.wrappers.ClipReward, min_reward=-1.0),
            gymnasium.wrappers.NormalizeReward,
        ],
        record="last-episode",
        record_folder=tmp_path,
    )
    envs.reset(seed=1, options=[{"shift": 1.0}, None, {"shift": np.float64(3.0)}])
    for _ in range(4):
        envs.step(np.array([2, 2, 2]))
    for row in range(3):
        told = vecenv.replay(envs.recording(row), trust=True)
        assert told.outcome == "clean", told.text
    envs.close()


@pytest.mark.parametrize("autoreset", MODES)
def test_kernels_are_replayed_bit_for_bit_from_any_episode(autoreset, tmp_path):
    envs = made("CartPole-v1", tmp_path, "compiled", autoreset=autoreset)
    drive(envs, steps=157)
    for row in range(COUNT):
        told = vecenv.replay(envs.recording(row))
        assert told.outcome == "clean", told.text
        assert told.recording.start["kind"] == "kernel-state"
    envs.close()


def test_a_kernel_that_goes_wrong_is_replayed_to_the_line_it_came_from(tmp_path):
    envs = CheckFinite(made(Slope, tmp_path, "compiled", top=np.array([1e9, 1e9, 7.0]), check_finite="off"))
    error = failure(envs, NotFiniteError)
    assert error.row == 2
    told = assert_reproduced(error)
    assert told.failure.type == "KernelError"
    assert "test_record_and_replay.py: field 'height' is float64, but was assigned complex" in told.failure.message
    assert told.text.startswith("reproduced: native code went on to a number that is not finite in step ")


def test_kernels_with_fast_numbers_are_held_to_a_tolerance(tmp_path):
    envs = made("Pendulum-v1", tmp_path, "compiled", precision="fast")
    drive(envs, steps=30)
    recording = envs.recording(1)
    envs.close()
    told = vecenv.replay(recording)
    assert told.text == "replayed: 30 steps, as recorded, within 0.1 % (precision='fast')"
    spoilt = recording.obs[0].copy()
    spoilt[20, 1] += 0.01
    told = vecenv.replay(dataclasses.replace(recording, obs=(spoilt,)))
    assert (told.difference.step, told.difference.field) == (20, "obs")
    assert "precision='fast'" in told.text


def test_mujoco_tasks_are_replayed_bit_for_bit(tmp_path):
    envs = made("Hopper-v5", tmp_path, "mujoco", frame_skip=3)
    drive(envs, steps=60)
    for row in range(COUNT):
        told = vecenv.replay(envs.recording(row))
        assert told.outcome == "clean", told.text
    envs.close()


def test_a_row_whose_state_was_set_is_replayed_from_there(tmp_path):
    envs = made("CartPole-v1", tmp_path, "compiled", max_episode_steps=15)
    envs.reset(seed=1)
    for _ in range(6):
        envs.step(np.array([0, 1, 0]))
    envs.clone(1, 0)
    for number in range(6):
        envs.step(np.full(3, number % 2))
    told = vecenv.replay(envs.recording(0))
    envs.close()
    assert told.outcome == "clean", told.text


def test_scenarios_that_rebuild_an_env_are_replayed_with_their_arguments(tmp_path):
    from vecenv._front.reset_options import ResetOptions
    from vecenv.engines.python.factories import Renewal

    envs = made(Walk, tmp_path, "sync")
    renewals = [Renewal({"length": 30 + row}, {"shift": float(row)}) for row in range(COUNT)]
    envs.reset(seed=2, options=ResetOptions(None, renewals))
    for _ in range(29):
        envs.step(np.ones(COUNT, np.int64))
    envs.step(np.ones(COUNT, np.int64))
    for row in range(COUNT):
        told = vecenv.replay(envs.recording(row), trust=True)
        assert told.outcome == "clean", told.text
    assert envs.recording(0).truncated[-1]
    envs.close()
