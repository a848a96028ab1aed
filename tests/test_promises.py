"""Promises of many parts that no test checked until a seeded fault broke them (`tests/seeded_faults`)."""

import copy
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

import vecenv
from tests.buffers.test_rollout_buffer import LENGTH, buffer_of, make, play
from tests.evaluation.worlds import Drift
from tests.faces.test_gym import build, walks
from tests.mujoco.comparing import compare
from tests.wrappers.test_actions import sticky, taken
from vecenv._batch import faults
from vecenv._batch.layout import Layout
from vecenv.errors import InvalidAction, WorkerTimeout
from vecenv.testing import FaultEnv, check_kernel


def test_a_kernel_that_is_seeded_again_repeats_its_episode():
    with vecenv.make("Blackjack-v1", 16, engine="compiled") as envs:
        first, again = envs.reset(seed=0)[0], envs.reset(seed=0)[0]
        np.testing.assert_array_equal(first, again)


def test_an_env_that_fails_in_its_reset_begins_again_reproducibly(monkeypatch, tmp_path):
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.001)

    def begun(fuse):
        fault = {"kind": "raise", "where": "reset", "at": 1, "fuse": str(tmp_path / fuse)}
        with vecenv.make(FaultEnv.many(2, **fault), engine="sync", on_error="restart") as envs:
            obs, infos = envs.reset(seed=40)
            assert infos["_fault"].tolist() == [False, True]
            return obs

    np.testing.assert_array_equal(begun("first"), begun("second"))


class Halves(gymnasium.Env):
    observation_space = Dict(a=Box(0, 9, (1,), np.float64), b=Box(0, 9, (1,), np.float64))
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        return {"a": np.zeros(1), "b": np.zeros(1)}, {}

    def step(self, action):
        return {"a": np.ones(1), "b": np.ones(2)}, 0.0, False, False, {}


@pytest.mark.parametrize("count", [1, 5])
def test_an_observation_that_is_refused_in_part_leaves_the_last_good_one(count, monkeypatch):
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.001)
    with vecenv.make([Halves] * count, engine="sync", on_error="restart") as envs:
        envs.reset(seed=0)
        obs, _, _, truncated, _ = envs.step(np.zeros(count, np.int64))
        assert truncated.all()
        assert not obs["a"].any()


def test_an_action_below_the_first_one_of_a_discrete_space_is_refused():
    class Late(Halves):
        observation_space, action_space = Box(0, 1, (1,), np.float64), Discrete(3, start=5)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1), {}

    with vecenv.make([Late] * 4, engine="sync") as envs:
        envs.reset()
        with pytest.raises(InvalidAction, match="env 3: action 4 is not in Discrete"):
            envs.step(np.array([5, 6, 7, 4]))


def test_an_observation_with_a_key_too_many_is_not_written_in_bulk():
    layout = Layout(Dict(a=Box(0, 1, (2,), np.float32)))
    write = layout.bulk_writer([np.zeros((4, 2), np.float32)])
    value = np.zeros(2, np.float32)
    assert write(slice(None), [{"a": value}] * 4)
    assert not write(slice(None), [{"a": value, "b": value}] * 4)


def test_a_copy_of_a_vector_env_spreads_seeds_as_the_original_does():
    with vecenv.make("CartPole-v1", 3, seeding="spawn") as envs, copy.deepcopy(envs) as twin:
        np.testing.assert_array_equal(envs.reset(seed=1)[0], twin.reset(seed=1)[0])


@pytest.mark.parametrize("name", ["episode_return", "episode_length"])
def test_totals_that_were_returned_are_the_users_to_keep(name):
    with vecenv.make("CartPole-v1", 2, engine="sync") as envs:
        envs.reset(seed=0)
        before = getattr(envs, name)
        envs.step(np.zeros(2, np.int64))
        assert before.tolist() == [0, 0]


@vecenv.kernel("Falls-v0", max_episode_steps=9)
class Falls:
    observation_space, action_space = Box(-np.inf, np.inf, (12,), np.float64), Discrete(5)
    state = {"rows": (np.int16, (4, 3))}

    def reset(s, rng, p):
        s.rows[:, :] = 0

    def step(s, action, rng, p):
        s.rows[1:, :] = s.rows[:-1, :]
        s.rows[0, :] = action + 1
        return 0.0, False

    def observe(s, obs, p):
        for row in range(4):
            for column in range(3):
                obs[3 * row + column] = s.rows[row, column]


def test_rows_of_an_array_may_be_moved_down_onto_the_same_array():
    check_kernel(Falls)


@vecenv.kernel("Leaves-v0", max_episode_steps=9)
class Leaves:
    observation_space, action_space = Box(-np.inf, np.inf, (2,), np.float64), Discrete(2)
    state = {"x": float}

    def reset(s, rng, p):
        s.x = 0.0

    def step(s, action, rng, p):
        s.x += 1.0
        return 0.0, False

    def observe(s, obs, p):
        obs[0] = s.x
        if s.x > 3.0:
            return
        obs[1] = 5.0


def test_what_observe_leaves_out_because_it_returns_early_is_zero():
    check_kernel(Leaves)


def test_velocities_of_hopper_count_for_its_healthy_state_range():
    assert compare("Hopper-v5", count=2, steps=20, healthy_state_range=(-1.0, 1.0)) > 2


class Waits(gymnasium.Env):
    """A step lasts until there is a file."""

    observation_space, action_space = Box(0, 9, (1,), np.float64), Discrete(9)

    def __init__(self, file):
        self._file = file

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        while not self._file.exists():
            time.sleep(0.01)
        return np.zeros(1), 0.0, False, False, {}


def test_an_env_that_hangs_a_second_time_gets_a_recording_of_its_own(tmp_path):
    go_on = tmp_path / "go on"
    options = {"context": "fork", "record": "last-episode", "record_folder": tmp_path}
    with vecenv.make([partial(Waits, go_on)], engine="process", workers=1, **options) as envs:
        envs.reset(seed=0)
        files = []
        for _ in range(2):
            envs.send([1])
            with pytest.raises(WorkerTimeout) as caught:
                envs.recv(timeout=0.05)
            files.append(caught.value.recording)
            go_on.touch()
            envs.recv()
            go_on.unlink()
        assert len(set(files)) == 2


def test_a_reset_with_the_same_seed_brings_the_same_sticky_actions():
    envs = sticky()
    first = taken(envs, 7, [[0, 1, 2, 3]], 30)
    assert taken(envs, 7, [[0, 1, 2, 3]], 30) == first


def test_episodes_that_go_on_after_a_restart_of_the_buffer_have_not_begun():
    with make("same-step") as envs:
        buffer, seen = buffer_of(envs, LENGTH // 4), []

        def note(obs, actions, step):
            buffer.add(actions, step)
            seen.append(step.terminated | step.truncated)
            if buffer.full:
                buffer.restart()
                np.testing.assert_array_equal(buffer.began[0], seen[-1])

        play(envs, note, lambda obs, mask: buffer.begin(obs))


def test_modules_in_evaluation_mode_are_so_after_evaluate():
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)).eval()
    vecenv.evaluate(net, Drift, episodes=1, num_envs=1)
    assert not any(module.training for module in net.modules())


def test_the_timeout_of_call_wait_holds_for_that_call_alone():
    with build("process", walks(2)) as envs:
        envs.reset(seed=0)
        envs.call_async("name")
        envs.call_wait(timeout=3.0)
        assert envs._front.timeout is None


def test_an_env_that_failed_is_closed_before_it_is_built_again(monkeypatch):
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.001)
    closed = []

    class Closes(FaultEnv):
        def close(self):
            closed.append(self)

    with vecenv.make([partial(Closes, 1, kind="raise", at=2)], engine="sync", on_error="restart") as envs:
        envs.reset(seed=0)
        before = envs.engine.envs[0]
        envs.step([0])
        envs.step([0])
        assert closed == [before]
