"""The recorder: a failure names a file, and what is in it is the episode of that env, bit for bit."""

import functools
import os
import pickle
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import vecenv
from tests.recording.recorded_envs import (
    BAD_REWARD,
    CRASH,
    END_BADLY,
    EXIT,
    FINE,
    HANG,
    INTERRUPT,
    KILL,
    NAN,
    RAISE,
    SHAPE,
    Diary,
    OldDiary,
    Rich,
    run_again,
    run_kernel_again,
)
from vecenv._batch import faults
from vecenv._batch.starts import WATCHED, WORDS
from vecenv._make.decorate import decorate
from vecenv.engines.python.factories import Renewal
from vecenv.engines.python.sync import SyncEngine
from vecenv.engines.recording import files
from vecenv.engines.recording.log import Log
from vecenv.errors import ConfigError, EngineRefused, EnvError, NotFiniteError, UnknownRow, WorkerDied, WorkerTimeout
from vecenv.gymnasium._face import GymnasiumFace
from vecenv.kernel.language.registry import find_kernel
from vecenv.recording import Recording
from vecenv.wrappers import CheckFinite, ClipReward, RecordEpisodeStatistics

COUNT = 5
ENGINES = ("sync", "thread", "asyncio", "process")
MODES = ("next-step", "same-step", "disabled")
in_every_mode = pytest.mark.parametrize("autoreset", MODES)
on_every_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.001)


def make(folder, engine="sync", env=Diary, count=COUNT, **options):
    workers = {} if engine in ("sync", "asyncio", "compiled") else {"workers": 2}
    if engine == "process":
        workers["context"] = "fork"  # starts in milliseconds
    return vecenv.make(env, count, engine=engine, record="last-episode", record_folder=folder, **{**workers, **options})


class Player:
    """Steps envs with harmless random actions, whatever the mode."""

    def __init__(self, envs, seed=0):
        self.envs, self.random = envs, np.random.default_rng(seed)
        self.ended = np.zeros(envs.num_envs, np.bool_)

    def step(self, wrong=None):
        """One step of all; `wrong`: an action of env 1."""
        if self.envs.unwrapped.autoreset_mode.value == "Disabled" and self.ended.any():
            self.envs.reset(options={"reset_mask": self.ended})
        actions = self.random.integers(0, FINE, self.envs.num_envs)
        if wrong is not None:
            actions[1] = wrong
        results = self.envs.step(actions)
        self.ended = results[2] | results[3]
        return results

    def until_fresh(self):
        """Until env 1 is in the middle of an episode that no seed began."""
        for _ in range(30):
            self.step()
        while self.ended[1]:
            self.step()


def fail(player, wrong, error=EnvError):
    with pytest.raises(error) as caught:
        player.step(wrong)
    return caught.value


def until_it_fails(envs, error):
    def play():
        envs.reset(seed=9)
        player = Player(envs)
        while True:
            player.step()

    with pytest.raises(error) as caught:
        play()
    return caught.value


def loaded(error):
    """The recording that an error names, which its text says too."""
    assert f"vecenv replay {error.recording}" in str(error)
    return Recording.load(error.recording)


# --- what fails names a file -----------------------------------------------------------------------------------------


@on_every_engine
@in_every_mode
def test_the_file_of_an_env_that_raises_is_its_episode(tmp_path, engine, autoreset):
    with make(tmp_path, engine, autoreset=autoreset) as envs:
        player = Player(envs)
        envs.reset(seed=5)
        player.until_fresh()
        recording = loaded(fail(player, RAISE, ValueError))
    assert (recording.row, recording.num_envs, recording.engine, recording.autoreset) == (1, COUNT, engine, autoreset)
    assert recording.start["kind"] == "random-state"
    assert recording.actions[0][-1] == RAISE
    assert len(recording.reward) == recording.steps - 1
    failure = recording.failure
    assert [failure[key] for key in ("kind", "phase", "type", "step")] == [
        "raised",
        "step",
        "ValueError",
        recording.steps,
    ]
    assert "boom" in failure["message"]
    assert "in step" in failure["traceback"]
    assert recording.build == {
        "kind": "reference",
        "where": "tests.recording.recorded_envs:Diary",
        "args": [],
        "kwargs": {},
        "wrappers": [],
    }
    assert str(run_again(recording, Diary)) == f"boom at step {recording.steps}"


@on_every_engine
def test_the_first_episode_begins_with_its_seed(tmp_path, engine):
    with make(tmp_path, engine, env=functools.partial(Diary, length=1e9)) as envs:
        player = Player(envs)
        envs.reset(seed=5)
        player.step()
        recording = loaded(fail(player, RAISE))
    assert recording.start == {"kind": "seed", "seed": 6}
    assert recording.steps == 2
    assert recording.build["kwargs"] == {"length": 1e9}
    assert run_again(recording, functools.partial(Diary, 1e9)) is not None


@on_every_engine
def test_invalid_results_are_recorded_as_such(tmp_path, engine):
    with make(tmp_path, engine) as envs:
        player = Player(envs)
        envs.reset()
        player.until_fresh()
        recording = loaded(fail(player, SHAPE))
    assert recording.failure["kind"] == "invalid"
    assert run_again(recording, Diary) is None


@pytest.mark.parametrize(
    ("context", "wrong", "how"),
    [
        ("fork", KILL, "SIGKILL"),
        ("forkserver", CRASH, "SIGSEGV"),
        ("spawn", KILL, "SIGKILL"),
        ("forkserver", EXIT, None),
    ],
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_the_episode_outlives_the_worker(tmp_path, context, wrong, how, autoreset):
    with make(tmp_path, "process", context=context, autoreset=autoreset) as envs:
        player = Player(envs)
        envs.reset(seed=1)
        player.until_fresh()
        recording = loaded(fail(player, wrong, WorkerDied))
        assert recording.failure["kind"] == "died"
        assert recording.failure["signal"] == how
        assert recording.failure["exitcode"] == (5 if how is None else recording.failure["exitcode"])
        assert recording.actions[0][-1] == wrong
        run_again(recording, Diary)
        assert envs.recording(1).failure["kind"] == "died"
        assert envs.recording(0).failure is None
        run_again(envs.recording(0), Diary)  # it was lost with the worker; its last step did not come back
        envs.reset()
        run_again(envs.recording(1), Diary)
        assert envs.recording(1).failure is None
    assert len(os.listdir(tmp_path)) == 1


def test_ctrl_c_while_a_hang_is_written_loses_neither_the_hang_nor_the_interrupt(tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    with make(tmp_path, "process") as envs:
        player = Player(envs)
        envs.reset(seed=1)
        player.until_fresh()
        with monkeypatch.context() as patch:
            patch.setattr(files.Folder, "write", interrupt)
            envs.send([0, HANG, 0, 0, 0])
            with pytest.raises(KeyboardInterrupt):
                envs.recv(timeout=0.5)
        envs.reset()  # kills the worker that hangs, because the front knows that a recv timed out
        assert envs.recording(1).steps == 0


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_a_hang_is_recorded_once(tmp_path, engine):
    with make(tmp_path, engine, timeout=0.7) as envs:
        player = Player(envs)
        envs.reset(seed=1)
        player.until_fresh()
        first = fail(player, HANG, WorkerTimeout)
        recording = loaded(first)
        assert recording.failure["kind"] == "hung"
        assert "recorded_envs" in recording.failure["stack"]
        run_again(recording, Diary)
        with pytest.raises(WorkerTimeout) as again:
            envs.recv(timeout=0.1)
        assert again.value.recording == first.recording
        if engine == "process":
            envs.reset()
            assert envs.recording(1).steps == 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a thread is left running
            envs.close(timeout=0.1)
    assert len(os.listdir(tmp_path)) == 1


@on_every_engine
@in_every_mode
def test_a_reset_that_fails_is_recorded_with_where_its_stream_was(tmp_path, engine, autoreset):
    factory = functools.partial(Diary, length=3.0, reset_fails=0.1)
    with make(tmp_path, engine, env=factory, autoreset=autoreset) as envs:
        error = until_it_fails(envs, ValueError)
        recording = loaded(error)
        row = error.row
        assert recording.row == row
        assert envs.recording(row).failure is not None
    assert recording.failure["phase"] == "reset"
    assert (recording.steps, len(recording.obs[0])) == (0, 0)
    assert run_again(recording, factory) is not None


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_a_reset_that_kills_its_worker_is_recorded(tmp_path, autoreset):
    factory = functools.partial(Diary, length=3.0, reset_fails=0.1, how="kill")
    with make(tmp_path, "process", env=factory, autoreset=autoreset) as envs:
        recording = loaded(until_it_fails(envs, WorkerDied))
    assert (recording.failure["kind"], recording.failure["phase"], recording.steps) == ("died", "reset", 0)
    assert recording.start["kind"] == "random-state"
    raises = functools.partial(Diary, length=3.0, reset_fails=0.1)
    assert run_again(_as_raised(recording), raises) is not None


def _as_raised(recording):
    return replace(recording, failure={**recording.failure, "kind": "raised"})


# --- what is recorded is what happened -------------------------------------------------------------------------------


@on_every_engine
@in_every_mode
@pytest.mark.parametrize("copy", [True, False])
def test_recordings_of_subsets_and_masks_are_what_each_env_did(tmp_path, engine, autoreset, copy):
    random = np.random.default_rng(3)
    with make(tmp_path, engine, autoreset=autoreset, copy=copy, batch_size=2) as envs:
        envs.reset(seed=2)
        idle, ended = set(range(COUNT)), np.zeros(COUNT, np.bool_)
        for _ in range(40):
            chosen = random.permutation(sorted(idle))[: random.integers(1, len(idle) + 1)]
            if autoreset == "disabled":
                chosen = chosen[~ended[chosen]]
            if len(chosen):
                envs.send(random.integers(0, FINE, len(chosen)), chosen)
                idle -= set(chosen.tolist())
            while idle != set(range(COUNT)) and (len(idle) < 2 or random.random() < 0.7):
                step = envs.recv()
                ended[step.env_ids] = step.terminated | step.truncated
                idle |= set(step.env_ids.tolist())
            if len(idle) == COUNT and (ended.all() or random.random() < 0.2):
                mask = ended if ended.any() else random.random(COUNT) < 0.5
                mask = mask if mask.any() else ~mask
                envs.reset(options={"reset_mask": mask})
                ended[mask] = False
            if autoreset == "disabled" and ended.all() and len(idle) < COUNT:
                idle |= set(envs.recv(COUNT - len(idle)).env_ids.tolist())
            for row in sorted(idle):
                recording = envs.recording(row)
                assert recording.complete
                assert len(recording.reward) == recording.steps == recording.actions[0].shape[0]
                run_again(recording, Diary)


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_an_episode_is_current_until_the_next_begins(tmp_path, engine):
    with make(tmp_path, engine) as envs:
        player = Player(envs)
        envs.reset(seed=1)
        while not player.ended[1]:
            player.step()
        last = envs.recording(1)
        assert last.terminated[-1]
        assert last.steps == envs.episode_length[1]
        np.testing.assert_allclose(last.reward.sum(), envs.episode_return[1])
        player.step()
        assert envs.recording(1).steps == 0
        assert envs.recording(1).start["kind"] == "random-state"


def harmless(space):
    actions = [space.sample() for _ in range(4)]
    for action in actions:
        action["move"][1] %= FINE
    return actions


@on_every_engine
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_nested_spaces_and_values_without_a_size(tmp_path, engine, autoreset):
    with make(tmp_path, engine, env=Rich, count=4, autoreset=autoreset) as envs:
        envs.single_action_space.seed(3)
        envs.reset(seed=4)
        for _ in range(25):
            envs.step(harmless(envs.single_action_space))
        for row in range(4):
            recording = envs.recording(row)
            path = recording.save(tmp_path / f"{row}.npz")
            run_again(Recording.load(path), Rich)
        assert recording.obs_paths == ("image", "name", "net", "pair.0", "pair.1", "some")
        assert recording.digested == (True, False, False, False, False, False)
        wrong = harmless(envs.single_action_space)
        wrong[2]["move"][1] = RAISE
        while True:  # in next-step mode the first may be ignored
            try:
                envs.step(wrong)
            except ValueError as error:
                failed = loaded(error)
                break
        assert failed.row == 2
        assert run_again(failed, Rich) is not None


def test_options_are_those_of_the_reset(tmp_path):
    with make(tmp_path, "process", autoreset="same-step") as envs:
        player = Player(envs)
        given = [{"level": float(row)} if row else None for row in range(COUNT)]
        envs.reset(seed=3, options=given)
        given[2]["level"] = 77.0
        assert [envs.recording(row).options["kind"] for row in range(COUNT)] == ["none", *["value"] * 4]
        assert envs.recording(2).options["value"] == {"level": 2.0}
        run_again(envs.recording(2), Diary)
        while not player.ended[2]:
            player.step()
        assert envs.recording(2).options == {"kind": "none"}
        envs.reset(options={"reset_mask": np.arange(COUNT) == 2, "level": 5.0})
        run_again(envs.recording(2), Diary)
        with pytest.raises(ValueError, match="boom") as caught:
            envs.reset(options={"fail": True, "level": 4.0})
        assert run_again(loaded(caught.value), Diary) is not None
        envs.reset()
        assert envs.recording(0).options == {"kind": "none"}


def test_options_that_are_no_data_are_named(tmp_path):
    with make(tmp_path) as envs:
        envs.reset(seed=1, options={"lock": threading.Lock()})
        recording = envs.recording(0)
        assert "options['value']['lock'] is a _thread.lock" in recording.options["why"]
        error = fail(Player(envs), RAISE)
        assert "lock" in str(error)
        assert "vecenv replay" not in str(error)
        assert Recording.load(error.recording).why_not_replayable is not None


def test_envs_that_options_build_again(tmp_path):
    with make(tmp_path, "process", env=functools.partial(Diary, length=1e9), autoreset="same-step") as envs:
        envs.reset(seed=1)
        envs._prime(np.array([1, 2]), [Renewal({"length": 2.0}, {"level": 3.0}), Renewal({"length": 4.0})])
        envs.reset(options=None)
        recording = envs.recording(1)
        assert recording.options == {"kind": "value", "value": {"level": 3.0}, "build_kwargs": {"length": 2.0}}
        run_again(recording, functools.partial(Diary, length=2.0))
        assert envs.recording(2).options == {"kind": "none", "build_kwargs": {"length": 4.0}}
        envs.reset(seed=4)
        assert envs.recording(1).options == {"kind": "none", "build_kwargs": {"length": 2.0}}
        assert envs.recording(0).options == {"kind": "none"}
        fail(Player(envs), KILL)
        envs.reset()
        assert envs.recording(1).options == {"kind": "none"}


def test_what_could_not_be_sent_is_not_recorded(tmp_path):
    with make(tmp_path, "process", env=functools.partial(Diary, length=1e9)) as envs:
        player = Player(envs)
        envs.reset(seed=1)
        player.step()
        before = envs.recording(1)
        with pytest.raises(Exception, match="cannot be sent"):
            envs.reset(options={"lock": threading.Lock()})
        after = envs.recording(1)
        assert (after.steps, after.start) == (before.steps, before.start)
        player.step()
        assert envs.recording(1).steps == 2
        run_again(envs.recording(1), functools.partial(Diary, length=1e9))


def test_an_interrupt_leaves_the_others_as_they_were(tmp_path):
    with make(tmp_path, env=functools.partial(Diary, length=1e9)) as envs:
        player, again = Player(envs), functools.partial(Diary, length=1e9)
        envs.reset(seed=1)
        player.step()
        with pytest.raises(KeyboardInterrupt):
            player.step(INTERRUPT)
        with pytest.raises(EnvError, match="KeyboardInterrupt") as caught:
            envs.recv()
        assert loaded(caught.value).steps == 2
        step = envs.recv()
        assert step.env_ids.tolist() == [0, 2, 3, 4]
        for row in (0, 2, 3, 4):
            assert len(envs.recording(row).reward) == envs.recording(row).steps == 2
            run_again(envs.recording(row), again)
        envs.reset()
        player.step()
        for row in range(COUNT):
            assert envs.recording(row).steps == 1
            run_again(envs.recording(row), again)


def test_a_stream_without_words_needs_a_seed(tmp_path):
    with make(tmp_path, env=OldDiary) as envs:
        player = Player(envs)
        envs.reset(seed=3)
        run_again(envs.recording(1), OldDiary)
        envs.reset()
        assert "PCG64" in envs.recording(1).start["why"]
        error = fail(player, RAISE)
        assert "reset it with a seed" in str(error)


def test_the_caller_s_own_envs_are_recorded_too(tmp_path):
    with make(tmp_path, "process", caller_works=True) as envs:
        player = Player(envs)
        envs.reset(seed=3)
        player.until_fresh()
        for row in range(COUNT):
            run_again(envs.recording(row), Diary)


def test_actions_as_they_are_given(tmp_path):
    recorded = decorate(SyncEngine([Diary] * 3), AutoresetMode.NEXT_STEP, "off", ([Diary] * 3, tmp_path, 10**6))
    with GymnasiumFace(recorded) as envs:
        envs.reset(seed=1)
        envs.step([1.0, 2.0, 3.0])
        recording = envs.recording(1)
        assert recording.given == {0: 2.0}
        run_again(recording, Diary)


# --- restarts --------------------------------------------------------------------------------------------------------


@on_every_engine
@in_every_mode
def test_a_restarted_env_tells_of_its_file(tmp_path, engine, autoreset):
    with make(tmp_path, engine, autoreset=autoreset, on_error="restart") as envs:
        player = Player(envs)
        envs.reset(seed=5)
        player.until_fresh()
        infos = player.step(RAISE)[4]
        path = infos["fault"]["recording"][1]
        recording = Recording.load(path)
        assert recording.failure["kind"] == "raised"
        assert "in step" in recording.failure["traceback"]
        assert run_again(recording, Diary) is not None
        now = envs.recording(1)
        assert (now.failure is None) == (autoreset == "same-step")
        for _ in range(10):
            player.step()
        for row in range(COUNT):
            assert envs.recording(row).failure is None
            run_again(envs.recording(row), Diary)
    assert len(os.listdir(tmp_path)) == 1


@in_every_mode
def test_a_restarted_worker_tells_of_the_env_it_was_at(tmp_path, autoreset):
    with make(tmp_path, "process", autoreset=autoreset, on_error="restart", count=4) as envs:
        player = Player(envs)
        envs.reset(seed=5)
        player.until_fresh()
        infos = player.step(KILL)[4]
        assert infos["fault"]["_recording"].tolist() == [True, True, False, False]
        assert infos["fault"]["recording"][0] == infos["fault"]["recording"][1]
        recording = Recording.load(infos["fault"]["recording"][1])
        assert (recording.row, recording.failure["kind"], recording.failure["signal"]) == (1, "died", "SIGKILL")
        run_again(recording, Diary)
        for row in range(4):
            run_again(envs.recording(row), Diary)
        for _ in range(10):
            player.step()
        for row in range(4):
            run_again(envs.recording(row), Diary)
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize("engine", ["sync", "process"])
@in_every_mode
def test_resets_that_fail_and_are_mended_are_recorded(tmp_path, engine, autoreset):
    factory = functools.partial(Diary, length=3.0, reset_fails=0.1)
    with make(tmp_path, engine, env=factory, autoreset=autoreset, on_error="restart") as envs:
        player = Player(envs)
        envs.reset(seed=11)
        infos = {}
        while not (written := sorted(tmp_path.iterdir())):
            infos = player.step()[4]
        told = [path for path in infos.get("fault", {}).get("recording", []) if path]
        assert told == list(map(str, written)) or autoreset == "disabled"  # there, it was reset() that told it
        recording = Recording.load(written[0])
        assert (recording.failure["phase"], recording.steps) == ("reset", 0)
        assert run_again(recording, factory) is not None


# --- not finite ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
@pytest.mark.parametrize("wrong", [NAN, BAD_REWARD, END_BADLY])
def test_numbers_that_are_not_finite_are_recorded(tmp_path, wrong, autoreset):
    with CheckFinite(ClipReward(make(tmp_path, autoreset=autoreset, check_finite="off"), -1, 1)) as envs:
        player = Player(envs)
        envs.reset(seed=5)
        player.until_fresh()
        recording = loaded(fail(player, wrong, NotFiniteError))
    assert recording.failure["kind"] == "not-finite"
    assert recording.actions[0][-1] == wrong
    assert len(recording.reward) == recording.steps
    assert np.isnan(recording.reward[-1]) == (wrong == BAD_REWARD)
    run_again(recording, Diary)


@pytest.mark.parametrize("autoreset", ["next-step", "same-step", "disabled"])
@pytest.mark.parametrize("engine", ["sync", "process"])
@pytest.mark.parametrize("policy", ["error", "truncate"])
@pytest.mark.parametrize("wrong", [NAN, BAD_REWARD, END_BADLY])
def test_what_check_finite_finds_is_recorded_as_the_env_left_it(tmp_path, engine, autoreset, policy, wrong):
    with make(tmp_path, engine, autoreset=autoreset, check_finite=policy) as envs:
        player = Player(envs)
        envs.reset(seed=5)
        player.until_fresh()
        if policy == "error":
            recording = loaded(fail(player, wrong, NotFiniteError))
        else:
            *_, truncated, infos = player.step(wrong)
            (path,) = [path for path in infos["fault"]["recording"] if path]
            assert truncated.sum() == 1
            recording = Recording.load(path)
        assert recording.failure["kind"] == "not-finite"
        assert recording.actions[0][-1] == wrong
        assert len(recording.reward) == recording.steps
        assert np.isnan(recording.reward[-1]) == (wrong == BAD_REWARD)
        run_again(recording, Diary)
        for row in np.flatnonzero(np.arange(envs.num_envs) != recording.row):  # the others go on being recorded
            assert envs.recording(int(row)).failure is None


# --- kernels ---------------------------------------------------------------------------------------------------------


@in_every_mode
@pytest.mark.parametrize("copy", [True, False])
def test_recordings_of_kernels_begin_with_their_state(tmp_path, autoreset, copy):
    kernel = find_kernel("CartPole-v1")
    with make(tmp_path, "compiled", env="CartPole-v1", count=6, autoreset=autoreset, copy=copy) as envs:
        random, ended = np.random.default_rng(1), np.zeros(6, np.bool_)
        envs.reset(seed=3)
        for number in range(120):
            if autoreset == "disabled" and ended.any():
                envs.reset(options={"reset_mask": ended})
            if number % 3:
                ended = np.logical_or(*envs.step(random.integers(0, 2, 6))[2:4])
            else:
                some = random.permutation(6)[:4]
                envs.send(random.integers(0, 2, 4), some)
                step = envs.recv()
                ended[step.env_ids] = step.terminated | step.truncated
            for row in range(6):
                recording = envs.recording(row)
                assert recording.build["id"] == "CartPole-v1"
                run_kernel_again(recording, kernel)
        run_kernel_again(Recording.load(recording.save(tmp_path / "one.npz")), kernel)


def test_an_action_that_a_kernel_refused_is_not_part_of_the_recording(tmp_path):
    with make(tmp_path, "compiled", env="CartPole-v1", count=3) as envs:
        envs.reset(seed=3)
        envs.step([0, 1, 1])
        with pytest.raises(gymnasium.error.InvalidAction):
            envs.step(np.array([0, 7, 1]))  # an array is checked in native code
        envs.step([1, 0, 0])
        for row, actions in enumerate([[0, 1], [1, 0], [1, 0]]):
            recording = envs.recording(row)
            assert recording.actions[0].tolist() == actions
            run_kernel_again(recording, find_kernel("CartPole-v1"))


def test_a_long_episode_is_kept_beside_many_short_ones(tmp_path):
    diaries = [functools.partial(Diary, length) for length in (1e9, 3.0)]
    with vecenv.make(diaries, engine="sync", record="last-episode", record_folder=tmp_path) as envs:
        envs.reset(seed=3)
        for number in range(1500):
            envs.step([number % FINE, 0])
        recording = envs.recording(0)
    assert recording.actions[0].tolist() == [number % FINE for number in range(1500)]


def test_kernels_with_parameters_states_and_rollouts(tmp_path):
    kernel = find_kernel("CartPole-v1")
    with make(tmp_path, "compiled", env="CartPole-v1", count=4, max_episode_steps=25) as envs:
        random = np.random.default_rng(1)
        envs.reset(seed=3, options={"low": -0.01, "high": 0.02})
        envs.step(random.integers(0, 2, 4))
        assert envs.recording(1).start["columns"]["P_high"] == 0.02
        assert envs.recording(1).options["value"] == {"low": -0.01, "high": 0.02}
        with pytest.raises(gymnasium.error.InvalidAction):
            envs.step(np.full(4, 7))
        saved = envs.get_state()
        envs.rollout(random.integers(0, 2, (7, 4)))
        for _ in range(20):
            envs.step(random.integers(0, 2, 4))
            for row in range(4):
                run_kernel_again(envs.recording(row), kernel)
        envs.set_state(saved)
        assert [envs.recording(row).steps for row in range(4)] == [0] * 4
        assert envs.recording(2).start["columns"]["ELAPSED"] == 1
        for _ in range(30):
            envs.step(random.integers(0, 2, 4))
            for row in range(4):
                run_kernel_again(envs.recording(row), kernel)


def test_mujoco_tasks_begin_with_their_state(tmp_path):
    from vecenv.mujoco._env import TaskEnv

    with make(tmp_path, "mujoco", env="Hopper-v5", count=3) as envs:
        random = np.random.default_rng(1)
        envs.reset(seed=3)
        for _ in range(40):
            envs.step(random.uniform(-1, 1, (3, 3)).astype(np.float32))
        recording = envs.recording(2)
        kernel, columns = envs.engine.kernel, recording.start["columns"]
        env = TaskEnv(kernel, None)
        own = [name for name in kernel.state if name not in kernel.shared]
        params = {name: columns[f"P_{name}"][None] for name in kernel.params}
        env.continue_from(params, {name: columns[f"S_{name}"] for name in own})
        for step in range(recording.steps):
            obs, reward, terminated, _, _ = env.step(recording.actions[0][step])
            assert obs.tobytes() == recording.obs[0][step + 1].tobytes()
            assert (reward, terminated) == (recording.reward[step], recording.terminated[step])
        assert recording.build["where"] == "vecenv.mujoco.tasks.hopper:Hopper" or recording.build["id"] == "Hopper-v5"
        assert recording.steps


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["sync", "compiled"])
def test_long_episodes_lose_their_beginning(tmp_path, engine):
    env = "CartPole-v1" if engine == "compiled" else functools.partial(Diary, length=1e9)
    with make(tmp_path, engine, env=env, record_limit=40_000) as envs:
        envs.reset(seed=1)
        sent = []
        for _ in range(300):
            sent.append(np.random.default_rng(len(sent)).integers(0, 2, COUNT))
            envs.step(sent[-1])
        if engine == "compiled":
            assert max(envs.recording(row).steps for row in range(COUNT)) > 0
            return
        recording = envs.recording(1)
        assert not recording.complete
        assert 0 < recording.steps < 50
        np.testing.assert_array_equal(recording.actions[0], [batch[1] for batch in sent[-recording.steps :]])
        np.testing.assert_array_equal(recording.obs[0][:, 0], np.arange(300 - recording.steps, 301))
        error = fail(Player(envs), RAISE)
        assert "record_limit" in str(error)
        assert not Recording.load(error.recording).complete


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_exchanges_larger_than_the_limit_are_not_kept_and_do_no_harm(tmp_path, engine):
    with make(tmp_path, engine, env=functools.partial(Diary, length=2.0), record_limit=1200) as envs:
        envs.reset(seed=1)
        for _ in range(10):
            envs.step(np.zeros(COUNT, np.int64))
        envs.reset(seed=2)
        assert not envs.recording(1).complete


def test_an_interrupt_while_starts_are_reduced_does_no_harm():
    class Interrupted(list):
        def __setitem__(self, index, entry):
            super().__setitem__(index, entry)
            raise KeyboardInterrupt

    log = Log(2, 10**9, opened=lambda entry: entry)
    for _ in range(3):
        log.began(log.add((1000, b"results", bytes(8 * WORDS * 2))), bytes([WATCHED, WATCHED + 1]))
    log._entries = Interrupted(log._entries)
    with pytest.raises(KeyboardInterrupt):
        log._compact()
    log._entries = list(log._entries)
    log._compact()
    for _, _, (rows, starts) in log._entries:
        assert (rows.tolist(), starts.shape) == ([1], (1, WORDS))


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_starts_of_short_episodes_do_not_push_out_the_beginning_of_a_long_one(tmp_path, engine):
    diaries = [functools.partial(Diary, length) for length in (1e9, *[3.0] * 30)]
    with make(tmp_path, engine, env=diaries, count=1, record_limit=1_000_000) as envs:
        envs.reset(seed=3)
        for number in range(200):
            envs.step(np.full(31, number % FINE))
        log = envs._decorated._log
        log._prune()
        sizes = [entry[0] for entry in log._entries]
        long, short = envs.recording(0), envs.recording(7)
    assert long.complete
    assert long.start["seed"] == 3
    assert long.actions[0].tolist() == [number % FINE for number in range(200)]
    assert log._bytes == sum(sizes) <= 1_000_000
    assert short.complete
    assert short.start["kind"] == "random-state"
    run_again(short, functools.partial(Diary, 3.0))


def test_exchanges_in_shared_memory_are_copied_at_once(tmp_path):
    with make(tmp_path, "process") as envs:
        player = Player(envs)
        envs.reset(seed=1)
        for _ in range(5):
            player.step()
        assert {len(entry) for entry in envs._decorated._log._entries} == {2, 3}


def test_what_no_episode_needs_is_forgotten(tmp_path):
    with make(tmp_path, "compiled", env="CartPole-v1") as envs:
        envs.reset(seed=1)
        for _ in range(3000):
            envs.step(np.random.default_rng(0).integers(0, 2, COUNT))
        log = envs._decorated._log
        assert len(log._entries) < 1500
        assert log._bytes == sum(entry[0] for entry in log._entries)


def test_only_the_latest_files_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_FILES", 3)
    (tmp_path / "Diary-env1-1-0.npz").write_bytes(b"not ours")
    with make(tmp_path) as envs, make(tmp_path) as others:
        paths = []
        for _ in range(5):
            envs.reset()
            paths.append(fail(Player(envs), RAISE).recording)
        others.reset()
        theirs = fail(Player(others), RAISE).recording
        left = {str(path) for path in tmp_path.iterdir()}
    assert left == {*paths[2:], theirs, str(tmp_path / "Diary-env1-1-0.npz")}


def test_a_folder_that_cannot_be_written_warns_once_and_hides_nothing(tmp_path):
    with make(tmp_path / "taken") as envs:
        (tmp_path / "taken").write_text("a file")  # only now, or it would be refused
        player = Player(envs)
        envs.reset()
        with pytest.warns(RuntimeWarning, match="could not be recorded"):
            error = fail(player, RAISE, ValueError)
        assert error.recording is None
        envs.reset()
        error = fail(player, RAISE, ValueError)
        assert "boom" in str(error)
        assert "replay" not in str(error)
        assert envs.recording(1).failure["kind"] == "raised"
    with make(tmp_path / "other") as envs:
        (tmp_path / "other").write_text("a file")
        envs.reset()
        fail(Player(envs), RAISE, ValueError)  # the warning is an error here, and is not what is raised


# --- how an env was built --------------------------------------------------------------------------------------------


def wrapped(env):
    return gymnasium.wrappers.TimeLimit(env, 50)


def test_builds_are_ids_references_or_named_as_unknown(tmp_path):
    def build(env, **options):
        with make(tmp_path, env=env, count=2, **options) as envs:
            return envs.recording(1).build

    by_id = build("Acrobot-v1", wrappers=[wrapped, lambda env: env], render_mode="rgb_array")
    assert (by_id["kind"], by_id["id"], by_id["kwargs"]) == ("id", "Acrobot-v1", {"render_mode": "rgb_array"})
    assert by_id["entry_point"] == "gymnasium.envs.classic_control.acrobot:AcrobotEnv"
    assert [part["kind"] for part in by_id["wrappers"]] == ["reference", "unknown"]
    assert by_id["wrappers"][0]["where"] == "tests.recording.test_recorder:wrapped"
    assert build(Diary, length=2.0)["kwargs"] == {"length": 2.0}
    partial = build(functools.partial(functools.partial(Diary, 3.0), how="kill"))
    assert (partial["args"], partial["kwargs"]) == ([3.0], {"how": "kill"})
    assert "a lambda" in build(lambda: Diary())["why"]
    assert "define it in a module" in build(lambda: Diary())["why"]
    locked = build(functools.partial(Locked, threading.Lock()))
    assert "['args'][0] is a _thread.lock" in locked["why"]
    assert "Locked" in locked["repr"]
    snake = build("Snake-v0")
    assert (snake["kind"], snake["id"], snake["where"]) == ("kernel", "Snake-v0", "vecenv.envs.snake:Snake")


class Locked(Diary):
    def __init__(self, lock):
        super().__init__()


# --- asking ----------------------------------------------------------------------------------------------------------


def test_recordings_reach_through_wrappers(tmp_path):
    with RecordEpisodeStatistics(CheckFinite(make(tmp_path))) as envs:
        envs.reset(seed=1)
        Player(envs).step()
        run_again(envs.recording(2), Diary)


def test_nothing_is_recorded_unless_asked_for():
    with vecenv.make(Diary, 2, engine="sync") as envs:
        envs.reset(seed=1)
        with pytest.raises(ConfigError, match="record='last-episode'"):
            envs.recording(0)
        with pytest.raises(EnvError) as caught:
            envs.step([0, RAISE])
        assert caught.value.recording is None
        assert not envs.unwrapped._batch.start_kind.any()


def test_wrong_arguments_are_refused(tmp_path):
    (tmp_path / "taken").write_text("a file")
    for options, words in (
        ({"record": "last-episode", "record_folder": tmp_path / "taken"}, "taken is no folder that can be written to"),
        ({"record": "last-episode", "record_folder": tmp_path / "taken" / "deeper"}, "taken is no folder"),
        ({"record": "all"}, "record must be 'last-episode' or None, got 'all'"),
        ({"record": True}, "record must be 'last-episode' or None, got True"),
        ({"record": "last-episode", "record_folder": 3}, "record_folder must be a path"),
        ({"record": "last-episode", "record_limit": 0}, "record_limit"),
    ):
        with pytest.raises(ConfigError, match=words):
            vecenv.make(Diary, 2, engine="sync", **options)
    with make(tmp_path) as envs:
        assert "it was not reset yet" in (envs.recording(0).why_not_replayable or "")
        for row in (COUNT, -1, "x", 1.0, True):
            with pytest.raises(UnknownRow, match="env id"):
                envs.recording(row)


def test_native_games_refuse(tmp_path):
    options = {"preprocessing": True, "record": "last-episode", "record_folder": tmp_path}
    with pytest.raises(
        EngineRefused, match="cannot honour record='last-episode': native games do not say how their episodes begin"
    ):
        vecenv.make("ALE/Pong-v5", 2, engine="ale", **options)
    with vecenv.make("ALE/Pong-v5", 1, **options) as envs:
        assert envs.engine.name == "sync"
        envs.reset(seed=1)
        assert envs.recording(0).digested == (True,)


def test_an_error_keeps_its_file_when_it_is_pickled(tmp_path):
    with CheckFinite(make(tmp_path)) as envs:
        player = Player(envs)
        envs.reset(seed=1)
        player.until_fresh()
        error = fail(player, NAN, NotFiniteError)
        again = pickle.loads(pickle.dumps(error))
        assert (again.recording, str(again)) == (error.recording, str(error))


def test_who_does_not_record_does_not_load_it():
    code = (
        "import sys, vecenv; vecenv.make('Acrobot-v1', engine='sync').reset(); print('vecenv.recording' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_interrupt_when_all_is_sent_leaves_the_options_of_a_reset(tmp_path, monkeypatch):
    with make(tmp_path) as envs:
        with monkeypatch.context() as patch:
            patch.setattr(envs._decorated._log, "tidy", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.reset(seed=1, options={"level": 3})
        envs.recv()
        assert envs.recording(0).options["kind"] != "none"


def _interrupt():
    raise KeyboardInterrupt
