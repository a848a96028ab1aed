"""Wrappers of actions do what Gymnasium's do around each single env."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.wrappers.driving import assert_same, drive, in_every_case, make
from vecenv.errors import ConfigError, InvalidAction, SpaceError
from vecenv.wrappers import ClipAction, RescaleAction, StickyAction, TransformAction, VectorizeTransformAction

single = gymnasium.wrappers
BOUNDS = np.array([-0.5], np.float32), np.array([1.5], np.float32)
WIDE = spaces.Box(-np.inf, np.inf, (1,), np.float32)


def bend(action):
    return np.tanh(action).astype(np.float32)


PAIRS = {
    "clip": (ClipAction, single.ClipAction),
    "rescale": (lambda envs: RescaleAction(envs, -0.5, 1.5), lambda env: single.RescaleAction(env, *BOUNDS)),
    "function": (
        lambda envs: TransformAction(envs, bend, single_action_space=WIDE),
        lambda env: single.TransformAction(env, bend, WIDE),
    ),
    "vectorized": (
        lambda envs: VectorizeTransformAction(envs, single.TransformAction, func=bend, action_space=WIDE),
        lambda env: single.TransformAction(env, bend, WIDE),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@in_every_case
def test_actions_arrive_as_in_wrapped_single_envs(name, engine, mode, way):
    outer, inner = PAIRS[name]
    kwargs = {"autoreset": mode, "max_episode_steps": 15}
    with make("sync", "Pendulum-v1", wrappers=[inner], **kwargs) as oracle:
        expected = drive(oracle, way, steps=30)
        spaces_wanted = oracle.single_action_space, oracle.action_space
    with make(engine, "Pendulum-v1", **kwargs) as envs:
        wrapped = outer(envs)
        assert (wrapped.single_action_space, wrapped.action_space) == spaces_wanted
        assert_same(drive(wrapped, way, steps=30), expected, rtol=1e-5)  # arms of float32, rescaled in two orders


def test_a_batched_space_may_be_given():
    with make("compiled", "Pendulum-v1") as envs:
        batched = spaces.Box(-7, 7, (3, 1), np.float32)
        wrapped = TransformAction(envs, bend, action_space=batched)
        assert wrapped.action_space is batched
        assert wrapped.single_action_space is envs.single_action_space


def test_bounds_may_be_arrays_and_wrong_ones_are_named():
    with make("compiled", "Pendulum-v1") as envs:
        wrapped = RescaleAction(envs, np.array([0.0], np.float32), np.array([1.0], np.float32))
        assert wrapped.single_action_space == spaces.Box(0, 1, (1,), np.float32)
        for low, high in ((1, 1), (2, 1)):
            with pytest.raises(ConfigError, match="smaller"):
                RescaleAction(envs, low, high)
        with pytest.raises(ConfigError, match="infinite"):
            RescaleAction(envs, -np.inf, 1)
    with make("compiled", "CartPole-v1") as envs:
        for wrapper in (ClipAction, lambda envs: RescaleAction(envs, 0, 1)):
            with pytest.raises(SpaceError, match="Box"):
                wrapper(envs)


# --- sticky -----------------------------------------------------------------------------------------------------------


class Echo(gymnasium.Env):
    """Observes the action that reached it; -1 after a reset. Episodes have 20 steps."""

    observation_space = spaces.Box(-1, 1000, (1,), np.float32)
    action_space = spaces.Discrete(1000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.array([-1], np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.array([action], np.float32), 0.0, self.steps == 20, False, {}


class EchoDict(Echo):
    action_space = spaces.Dict({"a": spaces.Discrete(1000), "b": spaces.Box(-1, 1, (2,), np.float32)})

    def step(self, action):
        assert action["b"] == pytest.approx(action["a"] / 1000)
        return super().step(action["a"])


def taken(envs, seed, groups, rounds):
    """What reached each env, and what was asked: the k-th action of every env is k. Envs are stepped in groups."""
    envs.reset(seed=seed)
    reached = [[] for _ in range(envs.num_envs)]
    for number in range(rounds):
        for group in groups:
            obs, *_, infos = envs.step(np.full(len(group), number % 1000), np.array(group))
            finals = infos.get("final_obs", [None] * len(group))
            for row, value, final in zip(group, obs, finals, strict=True):
                seen = value[0] if final is None else final[0]
                if seen >= 0:
                    reached[row].append((number, int(seen)))
    return reached


def sticky(mode="same-step", num_envs=4, **kwargs):
    kwargs = {"repeat_action_probability": 0.4, **kwargs}
    return StickyAction(make("sync", Echo, num_envs, autoreset=mode), **kwargs)


def test_what_happens_to_an_env_does_not_depend_on_who_steps_with_it():
    together = taken(sticky(), 7, [[0, 1, 2, 3]], 100)
    apart = taken(sticky(), 7, [[3], [0, 2], [1]], 100)
    assert together == apart
    assert len({str(row) for row in together}) == 4
    fewer = taken(sticky(num_envs=2), 7, [[0, 1]], 100)
    assert fewer == together[:2]
    assert taken(sticky(), 8, [[0, 1, 2, 3]], 100) != together


def test_reset_steps_of_next_step_mode_take_no_luck():
    same = taken(sticky(), 7, [[0, 1, 2, 3]], 60)
    later = taken(sticky("next-step"), 7, [[0, 1, 2, 3]], 63)
    for one, other in zip(same, later, strict=True):
        repeats = [asked != got for asked, got in one]
        assert [asked != got for asked, got in other][:60] == repeats


def test_the_first_action_is_taken_and_the_others_repeat_the_last_as_often_as_asked():
    (rows,) = taken(sticky(num_envs=1), 1, [[0]], 4000)
    last = None
    for asked, got in rows:
        if asked % 20 == 0:
            assert got == asked % 1000
        else:
            assert got in (asked % 1000, last)
        last = got
    share = np.mean([asked % 1000 != got for asked, got in rows if asked % 20])
    assert share == pytest.approx(0.4, abs=0.03)  # four standard deviations


@pytest.mark.parametrize("duration", [3, (2, 4)])
def test_a_series_is_as_long_as_asked(duration):
    (rows,) = taken(sticky(num_envs=1, repeat_action_duration=duration, repeat_action_probability=0.2), 1, [[0]], 2000)
    runs = [0]
    for asked, got in rows:
        if asked % 20 == 0:
            runs.append(0)  # cut by the end of an episode or not: not counted
            runs[-2] = 0
        elif asked % 1000 != got:
            runs[-1] += 1
        elif runs[-1]:
            runs.append(0)
    lengths = {run for run in runs if run}
    shortest, longest = (3, 3) if duration == 3 else duration
    assert min(lengths) == shortest
    assert longest in lengths
    assert all(any(sum(part) == run for part in _sums(run, shortest, longest)) for run in lengths)


def _sums(total, low, high):
    """Ways to write a run as series that follow each other at once."""
    if total == 0:
        return [()]
    return [(part, *rest) for part in range(low, high + 1) if part <= total for rest in _sums(total - part, low, high)]


def test_nested_actions_repeat_as_a_whole():
    envs = StickyAction(make("sync", EchoDict, 2), 0.5)
    envs.reset(seed=0)
    last = np.zeros(2)
    repeats = 0
    for number in range(20):  # an episode; the envs compare both parts
        b = np.full((2, 2), number / 1000, np.float32)
        reached = envs.step({"a": np.full(2, number), "b": b})[0][:, 0]
        assert ((reached == number) | (reached == last)).all()
        repeats += (reached != number).sum()
        last = reached
    assert 10 < repeats < 30


def test_a_step_that_was_refused_leaves_no_trace():
    one, other = sticky(), sticky()
    for envs in (one, other):
        envs.reset(seed=3)
    for number in range(30):
        with pytest.raises(InvalidAction):
            one.step(np.full(4, 5000))
        np.testing.assert_array_equal(one.step(np.full(4, number))[0], other.step(np.full(4, number))[0])


def test_state_goes_on_where_it_was_and_constructor_seeds_count():
    one, other = sticky(seed=1), sticky(seed=2)
    for envs in (one, other):
        envs.reset()
    for number in range(10):
        one.step(np.full(4, number))
        other.step(np.full(4, number))
    other.load_state_dict(one.state_dict())
    for number in range(10, 18):
        np.testing.assert_array_equal(one.step(np.full(4, number))[0], other.step(np.full(4, number))[0])
    with pytest.raises(SpaceError, match="2 envs"):
        sticky(num_envs=2).load_state_dict(one.state_dict())


def test_bad_arguments_of_sticky_are_named():
    with pytest.raises(ConfigError, match="probability"):
        sticky(repeat_action_probability=1.0)
    for duration in (0, (3, 2)):
        with pytest.raises(ConfigError, match="duration"):
            sticky(repeat_action_duration=duration)
