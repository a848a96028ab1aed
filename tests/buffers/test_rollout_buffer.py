"""The rollout buffer."""

import threading

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import vecenv
from tests.buffers.filling import ACTIONS, ENVS, LENGTH, SEED, by_hand, make, play, same
from vecenv._batch.batch import Op
from vecenv._front.step import Step
from vecenv.buffers import RolloutBuffer, gae
from vecenv.errors import CallOrderError, SpaceError, UnsupportedError

MODES = ["same-step", "next-step", "disabled"]


def buffer_of(envs, steps, count=ENVS, **kwargs):
    return RolloutBuffer(envs.single_observation_space, envs.single_action_space, steps, count, **kwargs)


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("engine", ["compiled", "sync", "process"])
def test_every_mode_stores_the_transitions_that_were_made(mode, engine, partial):
    with make(mode, engine) as envs:
        buffer = buffer_of(envs, 2 * LENGTH)

        def reset(obs, mask):
            buffer.begin(obs) if mask.all() and not buffer._times.any() else buffer.reset(obs, mask)

        play(envs, lambda obs, actions, step: buffer.add(actions, step), reset, partial=partial)
    for env in range(ENVS):
        same(buffer.transitions(), env, by_hand(env))


def test_several_vector_envs_write_at_once():
    whole = [make("same-step"), make("same-step")]
    buffer = buffer_of(whole[0], LENGTH, 2 * ENVS)

    def fill(number):
        part = buffer.part(number * ENVS, ENVS)
        play(whole[number], lambda obs, actions, step: part.add(actions, step), lambda obs, mask: part.begin(obs))

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert buffer.full
    for env in range(2 * ENVS):
        same(buffer.transitions(), env, by_hand(env % ENVS))


def test_a_part_that_is_cleared_takes_nothing_of_its_neighbour_along():
    with make("same-step") as envs:
        buffer = buffer_of(envs, LENGTH, 2 * ENVS)
        parts = [buffer.part(first, ENVS) for first in (0, ENVS)]

        def add(obs, actions, step):
            for part in parts:
                part.add(actions, step)

        play(envs, add, lambda obs, mask: [part.begin(obs) for part in parts])
    parts[0].clear()
    for env in range(ENVS):
        same(parts[1].transitions(), env, by_hand(env))


def test_restart_goes_on_where_it_was():
    with make("same-step") as envs:
        buffer, found = buffer_of(envs, LENGTH // 4), []

        def note(obs, actions, step):
            buffer.add(actions, step)
            if buffer.full:
                found.append(buffer.transitions())
                buffer.restart()

        play(envs, note, lambda obs, mask: buffer.begin(obs))
    assert len(found) == 4
    for env in range(ENVS):
        expected = by_hand(env)
        for number, transitions in enumerate(found):
            same(transitions, env, expected[number * LENGTH // 4 :][: LENGTH // 4])


def test_began_marks_first_observations():
    with make("same-step") as envs:
        buffer = buffer_of(envs, LENGTH)
        play(envs, lambda obs, actions, step: buffer.add(actions, step), lambda obs, mask: buffer.begin(obs))
    assert buffer.began[0].all()
    np.testing.assert_array_equal(buffer.began[1:], buffer.terminated | buffer.truncated)


@pytest.mark.parametrize("mode", MODES)
def test_advantages_are_those_of_the_true_transitions(mode):
    """The value of an observation is its sum here. In next-step mode some rows are no transitions."""
    with make(mode) as envs:
        buffer = buffer_of(envs, LENGTH)
        obs, _ = envs.reset(seed=SEED)
        buffer.begin(obs)
        made = np.zeros(ENVS, int)
        while not buffer.full:
            actions = ACTIONS[np.arange(ENVS), made]
            envs.send(actions)
            step = envs.recv()
            buffer.add(actions, step)
            made += step.valid
            if mode == "disabled" and step.done.any():
                buffer.reset(envs.reset(options={"reset_mask": step.done})[0], step.done)
    values = buffer.obs.sum(-1)
    advantages, _ = buffer.gae(values[:-1], values[-1], buffer.finals()[2].sum(-1), 0.9, 0.8)
    for env in range(ENVS):
        columns = [np.array(column) for column in zip(*by_hand(env, made[env]), strict=True)]
        obs, _, reward, after, terminated, truncated = columns
        expected, _ = gae(reward, obs.sum(-1), after[-1].sum(), terminated, truncated, gamma=0.9, lam=0.8,
                          final_value=after.sum(-1))  # fmt: skip
        np.testing.assert_array_equal(advantages[buffer.valid[:, env], env], expected)
        assert truncated.any()


def test_an_episode_that_is_reset_before_its_end_is_truncated():
    with vecenv.make("CartPole-v1", 1, autoreset="disabled") as envs:
        buffer, everyone = buffer_of(envs, 2, 1), np.ones(1, bool)
        buffer.begin(envs.reset(seed=SEED)[0])
        for _ in range(2):
            envs.send(np.zeros(1, np.int64))
            buffer.add(np.zeros(1, np.int64), envs.recv())
            for _ in range(2):  # the second one ends no episode
                buffer.reset(envs.reset(options={"reset_mask": everyone})[0], everyone)
    zeros = np.zeros((2, 1), np.float32)
    advantages, _ = buffer.gae(zeros, zeros[0], np.array([7.0, 0.0], np.float32), 1.0, 1.0)
    np.testing.assert_array_equal(advantages[:, 0], [8.0, 1.0])
    assert len(buffer.finals()[0]) == 2


def test_tensors_share_the_memory():
    buffer = RolloutBuffer(spaces.Dict({"a": spaces.Box(-1, 1, (2,))}), spaces.Discrete(2), 4, 3, {"value": np.float32})
    tensors = buffer.torch()
    tensors["obs"]["a"][1, 2] = 5.0
    tensors["extras"]["value"][0, 1] = 6.0
    assert (buffer.obs["a"][1, 2] == 5.0).all()
    assert buffer.extras["value"][0, 1] == 6.0
    assert isinstance(tensors["actions"], torch.Tensor)


def test_any_space_can_be_stored():
    space = spaces.Dict(
        {"t": spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 255, (2, 2), np.uint8)]), "s": spaces.Text(4)}
    )
    action = spaces.Tuple([spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (1,))])
    envs = vecenv.make(lambda: _Anything(space, action), 2, engine="sync", autoreset="same-step")
    buffer, obs = RolloutBuffer(space, action, 6, 2), envs.reset(seed=1)[0]
    buffer.begin(obs)
    kept = [obs]
    for _ in range(6):
        actions = envs.action_space.sample()
        envs.send(actions)
        step = envs.recv()
        buffer.add(actions, step)
        kept.append(step.obs)
    for time, obs in enumerate(kept):
        np.testing.assert_array_equal(buffer.obs["t"][0][time], obs["t"][0])
        np.testing.assert_array_equal(buffer.obs["t"][1][time], obs["t"][1])
        assert buffer.obs["s"][time].tolist() == list(obs["s"])
    assert buffer.transitions().next_obs["s"].tolist().count("end") == 2 * 2
    with pytest.raises(UnsupportedError, match="without a fixed size"):
        buffer.torch()


class _Anything(gymnasium.Env):
    """Episodes of three steps with random values of any spaces; their last text is "end"."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space, self.time = observation_space, action_space, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        obs = self.observation_space.sample()
        return {**obs, "s": "end" if self.time == 3 else obs["s"]}, 1.0, self.time == 3, False, {}


def test_wrong_use_is_refused():
    with make("same-step") as envs:
        buffer = buffer_of(envs, 1, extras={"value": np.float32})
        buffer.begin(envs.reset(seed=SEED)[0])
        envs.send(ACTIONS[:, 0])
        step = envs.recv()
        with pytest.raises(SpaceError, match=r"extra columns \['value'\], add\(\) was given \[\]"):
            buffer.add(ACTIONS[:, 0], step)
        buffer.add(ACTIONS[:, 0], step, value=np.ones(ENVS))
        with pytest.raises(CallOrderError, match="rollout is full"):
            buffer.add(ACTIONS[:, 0], step, value=np.ones(ENVS))


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_rows_that_wait_repeat_what_they_did_in_rollouts_of_any_length(steps):
    """Two players by turns: what one did is beside its result, which comes after the other's turn."""
    space, found = spaces.Box(0, 99, (1,), np.float32), []
    buffer = RolloutBuffer(space, spaces.Discrete(100), steps, 2, {"value": np.float32})
    buffer.begin(np.zeros((2, 1), np.float32))
    for time in range(8):
        if buffer.full:
            buffer.restart()
        waits, nothing = np.arange(2) == time % 2, np.zeros(2, np.bool_)
        step = Step(
            obs=np.full((2, 1), time + 1, np.float32), reward=np.zeros(2), terminated=nothing, truncated=nothing,
            infos={}, env_ids=np.arange(2), ops=np.where(waits, Op.IDLE, Op.STEP), episode_return=np.zeros(2),
            episode_length=np.ones(2, np.int64),
        )  # fmt: skip
        buffer.add(np.array([time, time + 50]), step, value=np.array([time, time + 50]))
        at = time % steps
        assert buffer.actions[at].tolist() == buffer.extras["value"][at].tolist()
        found.append(buffer.actions[at].tolist())
    # A row that was idle repeats its action: the first one in odd steps, the second one in even steps from 2 on.
    assert found == [[0, 50], [0, 51], [2, 51], [2, 53], [4, 53], [4, 55], [6, 55], [6, 57]]
