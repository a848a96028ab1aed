"""Wrappers of observations do what Gymnasium's do around each single env, in the batch."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests import twins
from tests.wrappers.observing import assert_same_observations, cart_poles, drive, ours, theirs
from vecenv import wrappers
from vecenv.errors import ConfigError, MissingExtra, SpaceError
from vecenv.testing import check_transform

single = gymnasium.wrappers
BOX = spaces.Box(np.float32([-1, -2, 0]), np.float32([1, 3, 5]))
PICTURE = spaces.Box(0, 255, (12, 10, 3), np.uint8)
MANY = twins.SPACES["dict"]
PAIR = twins.SPACES["tuple"]
LIMIT = 50


def clocked(**kwargs):
    """TimeAwareObservation, ours and Gymnasium's."""
    return (
        lambda envs: wrappers.TimeAwareObservation(envs, max_timesteps=LIMIT, **kwargs),
        lambda env: single.TimeAwareObservation(single.TimeLimit(env, LIMIT), **kwargs),
    )


def alike(name, **kwargs):
    """A wrapper that has the same name and arguments here and there."""
    return lambda envs: getattr(wrappers, name)(envs, **kwargs), lambda env: getattr(single, name)(env, **kwargs)


def twice(obs):
    return obs * 2


CASES = {
    "stack": (BOX, *alike("FrameStackObservation", stack_size=3)),
    "stack of one": (BOX, *alike("FrameStackObservation", stack_size=1)),
    "stack zeros": (PICTURE, *alike("FrameStackObservation", stack_size=4, padding_type="zero")),
    "stack zeros of a space without zero": (
        spaces.Box(2.0, 3.0, (2,)),
        *alike("FrameStackObservation", stack_size=3, padding_type="zero"),
    ),
    "stack custom": (BOX, *alike("FrameStackObservation", stack_size=3, padding_type=np.float32([0.5, 0, 1]))),
    "stack discrete": (spaces.Discrete(5, start=2), *alike("FrameStackObservation", stack_size=3, padding_type="zero")),
    "stack dict": (MANY, *alike("FrameStackObservation", stack_size=3)),
    "stack tuple": (PAIR, *alike("FrameStackObservation", stack_size=3, padding_type="zero")),
    "delay": (BOX, *alike("DelayObservation", delay=2)),
    "no delay": (BOX, *alike("DelayObservation", delay=0)),
    "delay dict": (MANY, *alike("DelayObservation", delay=1)),
    "time": (BOX, *clocked()),
    "time from 0 to 1": (BOX, *clocked(normalize_time=True)),
    "time beside": (BOX, *clocked(flatten=False)),
    "time in dict": (MANY, *clocked(flatten=False, dict_time_key="clock")),
    "time in tuple": (PAIR, *clocked(flatten=False, normalize_time=True)),
    "time and dict in vectors": (MANY, *clocked()),
    "grey": (PICTURE, *alike("GrayscaleObservation")),
    "grey with an axis": (PICTURE, *alike("GrayscaleObservation", keep_dim=True)),
    "resize": (PICTURE, *alike("ResizeObservation", shape=(5, 7))),
    "resize grey": (spaces.Box(0, 255, (9, 8), np.uint8), *alike("ResizeObservation", shape=(4, 4))),
    "reshape": (PICTURE, *alike("ReshapeObservation", shape=(10, 36))),
    "rescale": (BOX, *alike("RescaleObservation", min_obs=np.float32(-0.5), max_obs=np.float32([1, 2, 3]))),
    "dtype": (twins.SPACES["box-int8"], *alike("DtypeObservation", dtype=np.float32)),
    "dtype of discrete": (spaces.Discrete(4, start=1), *alike("DtypeObservation", dtype=np.float32)),
    "dtype of multibinary": (spaces.MultiBinary(3), *alike("DtypeObservation", dtype=np.float32)),
    "flatten picture": (PICTURE, *alike("FlattenObservation")),
    "flatten discrete": (spaces.Discrete(5, start=-2), *alike("FlattenObservation")),
    "flatten multidiscrete": (twins.SPACES["multidiscrete-start"], *alike("FlattenObservation")),
    "flatten dict": (MANY, *alike("FlattenObservation")),
    "flatten tuple": (PAIR, *alike("FlattenObservation")),
    "filter dict": (MANY, *alike("FilterObservation", filter_keys=["pair", "camera"])),
    "filter tuple": (PAIR, *alike("FilterObservation", filter_keys=[1])),
    "filter objects away": (twins.SPACES["dict-with-objects"], *alike("FilterObservation", filter_keys=["place"])),
    "extract": (
        MANY,
        lambda envs: wrappers.ExtractObservation(envs, "inner"),
        lambda env: single.TransformObservation(env, lambda obs: obs["inner"], MANY["inner"]),
    ),
    "function": (
        BOX,
        lambda envs: wrappers.TransformObservation(envs, twice, single_observation_space=BOX),
        lambda env: single.TransformObservation(env, twice, BOX),
    ),
    "function one by one": (
        MANY,
        lambda envs: wrappers.VectorizeTransformObservation(envs, single.FlattenObservation),
        lambda env: single.FlattenObservation(env),
    ),
    "transpose": (
        PICTURE,
        wrappers.TransposeImage,
        lambda env: single.TransformObservation(
            env, lambda obs: obs.transpose(2, 0, 1), spaces.Box(0, 255, (3, 12, 10), np.uint8)
        ),
    ),
}
MODES = ("next-step", "same-step", "disabled")
in_every_mode = pytest.mark.parametrize("mode", MODES)


@pytest.mark.parametrize("name", CASES)
@in_every_mode
def test_observations_are_those_of_wrapped_single_envs(name, mode):
    space, outer, inner = CASES[name]
    oracle = theirs(space, mode, inner)
    wanted = drive(oracle)
    for envs in (ours(space, mode), theirs(space, mode)):
        if name == "filter objects away" and envs.__class__.__module__.startswith("gymnasium"):
            continue  # objects around envs that are not ours have no columns
        wrapped = outer(envs)
        if name != "dtype of discrete":  # before 1.4, Gymnasium's has one number too many
            assert wrapped.single_observation_space == oracle.single_observation_space
            assert wrapped.observation_space == oracle.observation_space
        assert_same_observations(drive(wrapped), wanted)
        wrapped.close()
    oracle.close()


LAWFUL = [name for name in CASES if name.split()[0] not in ("flatten", "dtype", "reshape") and "objects" not in name]


@pytest.mark.parametrize("name", [*LAWFUL[::2], "flatten dict", "dtype"])
def test_the_laws_of_wrappers_hold(name):
    space, outer, _ = CASES[name]
    check_transform(outer, lambda count, mode: ours(space, mode, count), steps=16)


def chain(envs):
    """Many wrappers at once."""
    envs = wrappers.RescaleObservation(wrappers.DtypeObservation(envs, np.float64), *bounds(envs))
    envs = wrappers.TimeAwareObservation(wrappers.DelayObservation(envs, 1), flatten=False)
    return wrappers.FlattenObservation(wrappers.FrameStackObservation(envs, 3, padding_type="zero"))


def bounds(envs):
    low, high = envs.single_observation_space.low, envs.single_observation_space.high
    return np.where(np.isinf(low), low, -1), np.where(np.isinf(high), high, 1)


@pytest.mark.parametrize("engine", ["sync", "thread", "compiled", "process"])
def test_the_laws_hold_for_many_wrappers_on_every_engine(engine):
    check_transform(
        chain, cart_poles(engine), alone=cart_poles("compiled" if engine == "compiled" else "sync"), steps=20
    )


@in_every_mode
@pytest.mark.parametrize("order", ["first", "last"])
def test_joined_channels_are_the_stack_concatenated(order, mode):
    axis = {"first": 0, "last": -1}[order]
    stacked = drive(wrappers.FrameStackObservation(ours(PICTURE, mode), 3, padding_type="zero"))
    envs = wrappers.FrameStackObservation(ours(PICTURE, mode), 3, padding_type="zero", channels=order)
    joined = drive(envs)
    assert envs.single_observation_space == spaces.Box(0, 255, joined[0][0].shape[1:], np.uint8)
    for (obs, finals, ended), (stack, stacks, _) in zip(joined, stacked, strict=True):
        np.testing.assert_array_equal(obs, [np.concatenate(list(frames), axis) for frames in stack])
        for row in np.flatnonzero(ended) if ended is not None else ():
            np.testing.assert_array_equal(finals[row], np.concatenate(list(stacks[row]), axis))


def test_channels_are_joined_key_by_key():
    space = spaces.Dict({"eye": PICTURE, "place": BOX})
    envs = wrappers.FrameStackObservation(ours(space, "same-step"), 2, channels={"eye": "last", "place": "first"})
    obs, _ = envs.reset(seed=1)
    assert obs["eye"].shape == (3, 12, 10, 6)
    assert obs["place"].shape == (3, 6)
    assert envs.observation_space.contains(obs)
    check_transform(
        lambda envs: wrappers.FrameStackObservation(envs, 2, channels="last"),
        lambda count, mode: ours(space, mode, count),
        steps=16,
    )


def test_a_joined_stack_is_turned_without_a_copy():
    stack = wrappers.FrameStackObservation(ours(PICTURE, "same-step"), 2, channels="last")
    obs, _ = stack.reset(seed=1)
    turned = np.ascontiguousarray(obs.transpose(0, 3, 1, 2))
    assert np.shares_memory(turned, obs)
    obs, _ = wrappers.TransposeImage(stack).reset(seed=1)
    assert obs.flags.c_contiguous
    np.testing.assert_array_equal(obs, turned)


def test_only_pictures_of_a_dict_are_turned():
    space = spaces.Dict({"eye": PICTURE, "cube": spaces.Box(-1, 1, (2, 3, 4))})
    envs = wrappers.TransposeImage(ours(space, "same-step"))
    obs, _ = envs.reset(seed=1)
    assert {key: leaf.shape for key, leaf in obs.items()} == {"eye": (3, 3, 12, 10), "cube": (3, 2, 3, 4)}
    assert envs.observation_space.contains(obs)


def test_a_picture_of_one_channel_keeps_it_when_resized():
    envs = wrappers.ResizeObservation(ours(spaces.Box(0, 255, (9, 8, 1), np.uint8), "same-step"), (4, 4))
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (3, 4, 4, 1)


def test_resizing_names_what_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtra, match=r"vecenv\[atari\]"):
        wrappers.ResizeObservation(ours(PICTURE, "same-step"), (4, 4))


def test_time_limits_come_from_the_spec():
    envs = wrappers.TimeAwareObservation(vecenv.make("CartPole-v1", 2, engine="compiled"), normalize_time=True)
    assert envs.max_timesteps == 500
    with pytest.raises(ConfigError, match="max_timesteps"):
        wrappers.TimeAwareObservation(ours(BOX, "same-step"))


def test_a_transformed_batch_space_that_does_not_match_is_an_error(recwarn):
    space = spaces.Box(-9, 9, (3, 3), np.float32)
    with pytest.warns(UserWarning, match="give TransformObservation both spaces"):
        wrappers.TransformObservation(ours(BOX, "same-step"), twice, observation_space=space)


@pytest.mark.parametrize(
    ("space", "wrap"),
    [
        (BOX, lambda envs: wrappers.FilterObservation(envs, ["a"])),
        (MANY, lambda envs: wrappers.FilterObservation(envs, ["nobody"])),
        (MANY, lambda envs: wrappers.FilterObservation(envs, [])),
        (MANY, lambda envs: wrappers.FilterObservation(envs, ["pair", "pair"])),
        (MANY, lambda envs: wrappers.FilterObservation(envs, "pair")),
        (PAIR, lambda envs: wrappers.FilterObservation(envs, [2])),
        (PAIR, lambda envs: wrappers.ExtractObservation(envs, "a")),
        (BOX, wrappers.GrayscaleObservation),
        (BOX, wrappers.TransposeImage),
        (BOX, lambda envs: wrappers.ResizeObservation(envs, (2, 2))),
        (PICTURE, lambda envs: wrappers.ResizeObservation(envs, (2, 0))),
        (PICTURE, lambda envs: wrappers.ReshapeObservation(envs, (2, 2))),
        (MANY, lambda envs: wrappers.ReshapeObservation(envs, (2, 2))),
        (BOX, lambda envs: wrappers.RescaleObservation(envs, 2.0, 1.0)),
        (MANY, lambda envs: wrappers.DtypeObservation(envs, np.float32)),
        (twins.SPACES["text"], lambda envs: wrappers.FrameStackObservation(envs, 2)),
        (twins.SPACES["text"], wrappers.FlattenObservation),
        (BOX, lambda envs: wrappers.FrameStackObservation(envs, 2, padding_type="reste")),
        (BOX, lambda envs: wrappers.FrameStackObservation(envs, 2, channels={"a": "last"})),
        (spaces.Discrete(3), lambda envs: wrappers.FrameStackObservation(envs, 2, channels="last")),
        (MANY, lambda envs: wrappers.TimeAwareObservation(envs, dict_time_key="pair", max_timesteps=3)),
        (MANY, wrappers.NormalizeObservation),
        (MANY, lambda envs: wrappers.NormalizeObservation(envs, keys=["nobody"])),
        (BOX, lambda envs: wrappers.NormalizeObservation(envs, keys=["a"])),
    ],
)
def test_observations_that_cannot_be_wrapped_are_refused(space, wrap):
    with pytest.raises(SpaceError):
        wrap(ours(space, "same-step"))


@pytest.mark.parametrize("name", ["FrameStackObservation", "DelayObservation", "TimeAwareObservation"])
def test_observations_that_are_no_arrays_are_refused_by_the_name_of_the_wrapper(name):
    kwargs = {"max_timesteps": 3} if name == "TimeAwareObservation" else {}
    with pytest.raises(SpaceError, match=f"^{name} needs observations that are arrays"):
        getattr(wrappers, name)(ours(twins.SPACES["text"], "same-step"), *() if kwargs else (2,), **kwargs)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda envs: wrappers.FrameStackObservation(envs, 0),
        lambda envs: wrappers.FrameStackObservation(envs, 2.0),
        lambda envs: wrappers.FrameStackObservation(envs, 2, channels="middle"),
        lambda envs: wrappers.DelayObservation(envs, -1),
        lambda envs: wrappers.DelayObservation(envs, "1"),
        lambda envs: wrappers.NormalizeObservation(envs, epsilon=0),
        lambda envs: wrappers.NormalizeObservation(envs, clip=-1),
    ],
)
def test_wrong_arguments_are_refused(wrap):
    with pytest.raises(ConfigError):
        wrap(ours(BOX, "same-step"))


def test_states_of_other_wrappers_are_refused_and_change_nothing():
    envs = wrappers.FrameStackObservation(ours(BOX, "same-step"), 3)
    envs.reset(seed=1)
    before = envs.state_dict()
    other = wrappers.FrameStackObservation(ours(BOX, "same-step"), 2)
    with pytest.raises(SpaceError):
        envs.load_state_dict(other.state_dict())
    twins.assert_same(envs.state_dict(), before)
    clock = wrappers.TimeAwareObservation(ours(BOX, "same-step", count=2), max_timesteps=9)
    with pytest.raises(SpaceError):
        clock.load_state_dict({"0.TimeAwareObservation": {"time": np.zeros(3, np.int64)}})
