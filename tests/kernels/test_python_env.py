"""A kernel as a plain Python env: the mode that checks types and bounds, and says in which line they were wrong."""

from __future__ import annotations

import copy
import pickle
import textwrap
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.utils.env_checker import check_env

import vecenv
from tests.kernels.defining import accepted, imported, marked, refused, written
from vecenv.errors import ConfigError, ConfigTypeError, InvalidAction, KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.language.declared import per_env
from vecenv.kernel.language.fields import Field, FieldError, Record, conform, field_of
from vecenv.kernel.language.python import KernelEnv, check_render_mode, option_columns
from vecenv.kernel.language.registry import find_kernel
from vecenv.kernel.language.snapshot import try_out


@vecenv.kernel("WalkHere-v0", max_episode_steps=5)
@vecenv.kernel("WalkFast-v0", kwargs={"speed": 1.0})
class Walk:
    observation_space, action_space = Box(-10.0, 10.0, (1,)), Discrete(2)
    state = {"x": float}
    info = {"moves": int, "trail": (np.float32, 3)}

    class Params:
        speed = 0.5
        starts = np.array([1.0, 2.0])

    def reset(s, rng, p):
        s.x = p.starts[rng.integers(2)]
        s.moves = 0
        s.trail[:] = 0.0

    def step(s, action, rng, p):
        s.x += p.speed if action else -p.speed
        s.moves += 1
        s.trail[s.moves % 3] = s.x
        return -abs(s.x), abs(s.x) > 5.0

    def observe(s, obs, p):
        obs[0] = s.x

    def render(s, p):
        return np.full((2, 2, 3), s.moves, np.uint8)


def walk(id: str = "WalkHere-v0", **kwargs: Any) -> KernelEnv:
    kernel = find_kernel(id)
    assert kernel is not None
    return KernelEnv(kernel, **kwargs)


def contains(space: gymnasium.Space[Any], value: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a NumPy number of a Box without dimensions is cast with a warning
        return space.contains(value)


PLAYED = {
    "float-to-int": ("y = s.x + 0.5\ns.count = y  #!", "'count' is int64, but is assigned a float; use int"),
    "float-added-to-int": ("y = 0.5\ns.count += y  #!", "'count' is int64, but is assigned a float"),
    "int-to-bool": ("y = 1\ns.flag = y  #!", "'flag' is bool, but is assigned an int; use a comparison"),
    "none": ("y = None\ns.x = y  #!", "'x' is float64, but is assigned nothing; a field always holds a number"),
    "array": ("s.x = p.moves  #!", r"assigned a float64 array of shape \(2,\); take one element, \[0\]"),
    "too-large": ("y = 300\ns.small = y  #!", "300 does not fit field 'small', which is int8: -128 ... 127"),
    "too-large-for-64": ("s.count = 2**62 * (2 + s.count)  #!", "does not fit field 'count'"),
    "negative-unsigned": ("s.level -= 1  #!", "-1 does not fit field 'level'"),
    "index-of-a-variable": ("y = s.count + 5\ns.order[y] = 1  #!", "index 5 is out of bounds .*size 5"),
    "index": ("y = 5\ns.order[y] = 1  #!", "index 5 is out of range: there are 5 elements"),
    "index-read": ("y = 3\ns.x = s.board[y, 0] * 1.0  #!", "index 3 is out of range"),
    "float-in-array": ("y = 0.5\ns.board[0, 0] = y  #!", "an element is int8, but is assigned a float; use int"),
    "float-array": ("y = s.floats\ns.order[:2] = y[:2]  #!", "int64 array of shape .* is assigned a float64 array"),
    "too-large-in-array": ("y = 200\ns.board[0, 0] = y  #!", "200 does not fit"),
    "int-in-bools": ("y = 2\ns.bools[0] = y  #!", "an element is bool, but is assigned an int"),
    "shapes": ("s.order[:] = s.floats[0:3] > 0  #!", "does not fit into"),
    "unbound": ("if action > 5:\n    y = 1\ns.count = y  #!", "UnboundLocalError.*'y'"),
    "zero": ("s.x = 1.0 / s.x  #!", "ZeroDivisionError.*native code would go on with inf or nan"),
    "domain": ("s.x = math.sqrt(s.x - 1.0)  #!", "ValueError: .*"),
    "ambiguous": ("if s.order > 0:  #!\n    s.x = 1.0", "neither true nor false; use np.any"),
    "parameter-by-alias": ("y = p.moves\ny[0] = 1.0  #!", "read-only"),
    "helper": ("s.x = third(s.order, 7)", "index 7 is out of bounds"),
}  # fmt: skip
STATE = """
state = {"x": float, "count": int, "flag": bool, "board": (np.int8, (3, 4)), "order": (int, 5), "small": np.int8,
         "level": np.uint8, "floats": (float, 3), "bools": (bool, 2)}
"""
HELPER = "def third(values, position):\n    return values[position] * 1.0"


@pytest.mark.parametrize("case", PLAYED)
def test_a_mistake_at_run_time_is_reported_with_its_line(case: str, tmp_path: Path) -> None:
    body, words = PLAYED[case]
    method = "def step(s, action, rng, p):\n" + textwrap.indent(body + "\nreturn 0.0, False", "    ")
    before = HELPER + "  #!" * (case == "helper")
    file = written(tmp_path, STATE, method, before=before)
    with pytest.raises(KernelError, match=words) as caught:
        raise refused(file, play=True)
    error = caught.value
    assert (error.kernel, error.function) == ("Wrong", "third" if case == "helper" else "step")
    assert (error.file, error.line) == (str(file), marked(file))


def test_a_mistake_in_observe_and_reset_is_reported_with_its_line(tmp_path: Path) -> None:
    for method, words in {
        "def reset(s, rng, p):\n    y = s.count + 7\n    s.order[y] = 1  #!": "index 7 is out of bounds",
        "def observe(s, obs, p):\n    for i in range(3):\n        obs[i] = s.x  #!": "index 2 is out of bounds",
        "def action_mask(s, mask, p):\n    for i in range(4):\n        mask[i] = 1  #!": "index 3 is out of bounds",
    }.items():
        file = written(tmp_path, method)
        with pytest.raises(KernelError, match=words) as caught:
            raise refused(file, play=True)
        assert (caught.value.function, caught.value.line) == (method[4:].partition("(")[0], marked(file))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("nothing(), False", "this is nothing; it must be a number"),
        ("s.order, False", "int64 array of shape .*take one element"),
        ("0.0, half()", "bools, and this is a float; return reward, terminated, in this order"),
        ("0.0, False, half()", "bools, and this is a float"),
    ],
)
def test_wrong_results_are_reported_with_the_line_of_the_return(values: str, words: str, tmp_path: Path) -> None:
    before = "def nothing():\n    pass\n\n\ndef half():\n    return 0.5"
    file = written(tmp_path, f"def step(s, action, rng, p):\n    s.x = 1.0\n    return {values}  #!", before=before)
    with pytest.raises(KernelError, match=words) as caught:
        raise refused(file, play=True)
    assert (caught.value.function, caught.value.line) == ("step", marked(file))


def test_a_failing_assert_is_the_users_own(tmp_path: Path) -> None:
    file = written(tmp_path, 'def step(s, action, rng, p):\n    assert s.x > 1, "small"\n    return 0.0, False')
    with pytest.raises(AssertionError, match="small"):
        accepted(file)


# --- spaces ----------------------------------------------------------------------------------------------------------

PARTS = Dict(
    {
        "pose": Dict({"angle": Discrete(8), "place": Box(-1.0, 1.0, (2,), np.float64)}),
        "pair": Tuple((Discrete(4), MultiBinary(3))),
        "speed": Box(0.0, 9.0, ()),
        "wheels": MultiDiscrete([3, 3]),
    }
)


@vecenv.kernel("Echo-v0")
class Echo:
    """Observes the action that was taken."""

    observation_space = action_space = PARTS
    state = {"angle": int, "place": (float, 2), "first": int, "bits": (np.int8, 3), "speed": float, "wheels": (int, 2)}

    def reset(s, rng, p):
        s.angle = s.first = 0
        s.place[:] = 0.0
        s.bits[:] = 0
        s.speed = 0.0
        s.wheels[:] = 0

    def step(s, action, rng, p):
        s.angle = action["pose"]["angle"]
        s.place[:] = action["pose"]["place"]
        s.first = action["pair"][0]
        for i in range(3):
            s.bits[i] = action["pair"][1][i]
        s.speed = action["speed"]
        s.wheels[0] = action["wheels"][0]
        s.wheels[1] = action["wheels"][1]
        return s.speed, False

    def observe(s, obs, p):
        obs["pose"]["angle"] = s.angle
        obs["pose"]["place"][:] = s.place
        obs["pair"][0] = s.first
        obs["pair"][1][:] = s.bits
        obs["speed"] = s.speed
        obs["wheels"][:] = s.wheels


def test_nested_spaces_are_read_and_written_by_key() -> None:
    env = walk("Echo-v0")
    obs, _ = env.reset(seed=0)
    assert contains(env.observation_space, obs)
    env.action_space.seed(0)
    for _ in range(5):
        action = env.action_space.sample()
        obs, reward, *_ = env.step(action)
        assert contains(env.observation_space, obs)
        assert reward == action["speed"]
        np.testing.assert_equal(obs, action)
    assert type(obs["pose"]["angle"]) is int


@pytest.mark.parametrize(
    ("space", "body", "want"),
    [
        ("Discrete(5, start=2)", "obs[0] = 3", 3),
        ("Box(-1.0, 1.0, ())", "obs[0] = 0.5", 0.5),
        ("Box(-1.0, 1.0, (2, 2))", "obs[:] = 0.5\n    obs[1, 1] = -0.5", [[0.5, 0.5], [0.5, -0.5]]),
        ("MultiDiscrete([3, 4])", "obs[1] = 3", [0, 3]),
        ("MultiBinary(3)", "obs[2] = True", [0, 0, 1]),
        ("Tuple(())", "pass", ()),
        ("Tuple((Discrete(3), Box(0, 1, (2,))))", "obs[0] = 2\n    obs[1][0] = 1.0", (2, [1.0, 0.0])),
    ],
)
def test_an_observation_of_every_space(space: str, body: str, want: Any, tmp_path: Path) -> None:
    file = written(tmp_path, f"observation_space = {space}", f"def observe(s, obs, p):\n    {body}")
    with imported(file) as module:
        env = KernelEnv(kernel_of(module.Wrong))
        obs, _ = env.reset()
    np.testing.assert_equal(obs if isinstance(want, tuple) else np.asarray(obs).tolist(), want)
    assert contains(env.observation_space, obs)


@pytest.mark.parametrize(
    ("space", "expression", "action", "want"),
    [
        ("Discrete(5, start=2)", "action", 3, 3.0),
        ("Box(-1.0, 1.0, ())", "action", np.float32(0.5), 0.5),
        ("Box(-1.0, 1.0, (2,))", "action[0] + action[1]", np.array([0.5, 0.25], np.float32), 0.75),
        ("MultiDiscrete([3, 4])", "action[1] * 1.0", np.array([1, 3]), 3.0),
        ("MultiBinary(3)", "action[2] * 1.0", np.array([0, 0, 1], np.int8), 1.0),
        ("Tuple((Discrete(3), Box(0, 1, (2,))))", "action[0] + action[1][1]", (2, np.ones(2, np.float32)), 3.0),
        ('Dict({"steer": Box(-1, 1)})', 'action["steer"][0]', {"steer": np.array([0.5], np.float32)}, 0.5),
    ],
)
def test_an_action_of_every_space(space: str, expression: str, action: Any, want: float, tmp_path: Path) -> None:
    step = f"def step(s, action, rng, p):\n    s.x = {expression}\n    return s.x, False"
    with imported(written(tmp_path, f"action_space = {space}", step)) as module:
        env = KernelEnv(kernel_of(module.Wrong))
        env.reset()
        assert env.step(action)[1] == want


def test_spaces_that_depend_on_params_are_checked_when_they_are_known(tmp_path: Path) -> None:
    space = "def observation_space(p):\n    return Box(-1.0, 1.0, (p.size,))"
    params = "class Params:\n    size = 2"
    observe = "def observe(s, obs, p):\n    obs[2] = 0.5  #!"
    file = written(tmp_path, space, params, observe)
    with imported(file) as module:
        kernel = kernel_of(module.Wrong)
        obs, _ = KernelEnv(kernel, size=3).reset()
        assert obs.tolist() == [0.0, 0.0, 0.5]
        with pytest.raises(KernelError, match="index 2 is out of range") as caught:
            KernelEnv(kernel).reset()
    assert caught.value.line == marked(file)


KEYED = "def observation_space(p):\n    return Dict({'n': Discrete(3), 'box': Box(0, 1, (2,))})"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("obs['m'] = 1", "the obs has no 'm'; it has box, n"),
        ("obs['box'] = 1", r"obs\['box'\] is an array; write into it: obs\['box'\]\[:\] = ..."),
        ("y = 0.5\n    obs['n'] = y", "an element is int64, but is assigned a float"),
    ],
)
def test_keys_that_are_known_late_are_checked_late(body: str, words: str, tmp_path: Path) -> None:
    file = written(tmp_path, KEYED, f"def observe(s, obs, p):\n    {body}  #!")
    with pytest.raises(KernelError, match=words) as caught:
        raise refused(file, play=True)
    assert (caught.value.function, caught.value.line) == ("observe", marked(file))


def test_an_action_outside_its_space_is_refused() -> None:
    env = walk()
    env.reset(seed=0)
    with pytest.raises(InvalidAction):
        env.step(2)


def test_actions_are_not_changed_by_the_kernel(tmp_path: Path) -> None:
    step = "def step(s, action, rng, p):\n    y = action\n    y[0] = 1.0  #!\n    return 0.0, False"
    file = written(tmp_path, "action_space = Box(-1, 1)", step)
    with pytest.raises(KernelError, match="actions are read-only") as caught:
        raise refused(file, play=True)
    assert caught.value.line == marked(file)


# --- parameters ------------------------------------------------------------------------------------------------------


def test_parameters_have_defaults_and_can_be_given() -> None:
    assert walk().params.speed == 0.5
    assert walk(speed=2).params.speed == 2.0
    assert walk(starts=[3.0, 3.0]).reset()[0] == [3.0]
    with pytest.raises(ConfigTypeError, match="no parameter 'sped'; did you mean 'speed'"):
        walk(sped=1.0)
    with pytest.raises(ConfigTypeError, match="'speed' must be float64, got 'fast'"):
        walk(speed="fast")


@pytest.mark.parametrize(
    ("value", "given", "want"),
    [
        (True, 2, "parameter 'x' is bool, which cannot hold 2"),
        (True, 0.0, "must be bool, got 0.0"),
        (np.int8(1), 300, "is int8, which cannot hold 300"),
        (np.uint8(1), [3, -1], "is uint8, which cannot hold -1"),
        (np.float32(1), 1e300, r"is float32, which cannot hold 1e\+300"),
        (1, float("nan"), "must be int64, got nan"),
        (1, 2**70, "must be int64, got 1180591620717411303424"),
        (1, [[1], [1, 2]], "must be int64, got"),
        (1, None, "must be int64, got None"),
        (1.0, np.zeros((2, 2)), r"got shape \(2, 2\)"),
    ],
)
def test_a_value_that_a_parameter_cannot_hold_is_refused(value: Any, given: Any, want: str) -> None:
    with pytest.raises(ConfigError, match=want):
        per_env(field_of("x", value), given, 2)


@pytest.mark.parametrize(
    ("value", "given", "want"),
    [
        (True, 1, [True, True]),
        (np.int8(1), True, [1, 1]),
        (1.0, float("nan"), [np.nan, np.nan]),
        (1.0, [1, 2], [1.0, 2.0]),
        (1, np.array([1, 2], np.uint64), [1, 2]),
    ],
)
def test_a_value_that_a_parameter_can_hold_has_its_type(value: Any, given: Any, want: Any) -> None:
    column = per_env(field_of("x", value), given, 2)
    assert column.dtype == np.asarray(value).dtype
    np.testing.assert_array_equal(column, want)


def test_one_class_under_two_ids() -> None:
    assert (walk("WalkHere-v0").params.speed, walk("WalkFast-v0").params.speed) == (0.5, 1.0)
    assert walk("WalkFast-v0", speed=3.0).params.speed == 3.0
    assert vecenv.make_env("WalkHere-v0").spec.max_episode_steps == 5
    assert vecenv.make_env("WalkFast-v0").spec.max_episode_steps is None
    assert {"WalkHere-v0", "WalkFast-v0"} <= set(vecenv.kernel.kernel_ids())


def test_reset_options_hold_for_one_episode() -> None:
    env = walk(starts=[0.0, 0.0])
    env.reset(options={"speed": 3.0})
    assert env.step(1)[0] == [3.0]
    env.reset()
    assert env.step(1)[0] == [0.5]
    with pytest.raises(ConfigError, match=r"'starts' must have shape \(2,\), got \(3,\)"):
        env.reset(options={"starts": [1.0, 2.0, 3.0]})


def test_an_unknown_reset_option_warns() -> None:
    with pytest.warns(UserWarning, match="WalkHere-v0 ignores the reset option 'sped'; it knows speed, starts"):
        walk().reset(options={"sped": 1.0})
    kernel = find_kernel("WalkHere-v0")
    assert kernel is not None
    assert option_columns(kernel, kernel.parameters({}, 1), None) == {}


CONFIGURED = """
def configure(size=2, slow=False):
    return {"speed": 0.1 if slow else 1.0, "moves": np.ones(size)}
"""


def test_configure_turns_arguments_into_parameters(tmp_path: Path) -> None:
    with imported(written(tmp_path, f"@staticmethod{CONFIGURED}", "shapes = {'moves': (None,)}")) as module:
        kernel = kernel_of(module.Wrong)
        env = KernelEnv(kernel, size=4, slow=True)
        assert (env.params.speed, len(env.params.moves)) == (0.1, 4)
        with pytest.raises(ConfigTypeError, match=r"unexpected keyword argument 'speed'.*size=2, slow=False"):
            KernelEnv(kernel, speed=1.0)


def test_configure_must_return_a_dict(tmp_path: Path) -> None:
    error = refused(written(tmp_path, "def configure():\n    return 3"))
    assert (error.kernel, error.function) == ("Wrong", "configure")
    assert "it must return a dict of values of Params, got 3" in str(error)


# --- infos, masks, rendering -----------------------------------------------------------------------------------------


def test_infos_are_fields_and_copies() -> None:
    env = walk(starts=[0.0, 0.0])
    _, first = env.reset()
    second = env.step(1)[-1]
    assert (first["moves"], second["moves"]) == (0, 1)
    assert type(second["moves"]) is int
    assert type(second["trail"]) is np.ndarray
    assert (first["trail"].tolist(), second["trail"].tolist()) == ([0.0, 0.0, 0.0], [0.0, 0.5, 0.0])
    assert second["trail"].dtype == np.float32


def test_an_action_mask_is_part_of_the_info_and_kept_to_in_the_trial(tmp_path: Path) -> None:
    mask = "def action_mask(s, mask, p):\n    mask[s.count % 3] = True"
    step = "def step(s, action, rng, p):\n    assert action == s.count % 3\n    s.count += 1\n    return 0.0, False"
    with imported(written(tmp_path, mask, step)) as module:
        env = KernelEnv(kernel_of(module.Wrong))
        _, info = env.reset()
        assert info["action_mask"].tolist() == [1, 0, 0]
        assert info["action_mask"].dtype == np.int8
        assert env.step(0)[-1]["action_mask"].tolist() == [0, 1, 0]
        try_out(KernelEnv(kernel_of(module.Wrong)))


def test_rendering_needs_a_render_mode() -> None:
    env = walk(render_mode="rgb_array")
    env.reset()
    env.step(1)
    assert (env.render() == 1).all()
    with pytest.raises(ConfigError, match="made without render_mode; use render_mode='rgb_array'"):
        walk().render()
    with pytest.raises(ConfigError, match="cannot be rendered as 'human'; use render_mode='rgb_array'"):
        walk(render_mode="human")
    with pytest.raises(ConfigError, match=r"Echo-v0 cannot be rendered as 'rgb_array'; it defines no render\(s, p\)"):
        walk("Echo-v0", render_mode="rgb_array")


def test_metadata_names_render_modes_but_render_draws(tmp_path: Path) -> None:
    with imported(written(tmp_path, 'metadata = {"render_modes": ["ansi"]}')) as module:
        with pytest.raises(ConfigError, match=r"defines no render\(s, p\)"):
            check_render_mode(kernel_of(module.Wrong), "ansi")


def test_a_render_that_cannot_be_called_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "def render(self):  #!\n    return 1")
    with imported(file) as module, pytest.raises(KernelError, match=r"defined as render\(s, p\)") as caught:
        KernelEnv(kernel_of(module.Wrong), render_mode="rgb_array")
    assert (caught.value.function, caught.value.line) == ("render", marked(file))


# --- as a Gymnasium env ----------------------------------------------------------------------------------------------


def test_it_passes_gymnasiums_own_checker() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has opinions on bounds and render modes
        check_env(walk(), skip_render_check=True)
        check_env(walk("Echo-v0"), skip_render_check=True)


def test_an_observation_is_the_callers_own() -> None:
    env = walk("Echo-v0")
    env.action_space.seed(0)
    first, _ = env.reset(seed=0)
    for _ in range(3):
        kept = copy.deepcopy(first)
        second = env.step(env.action_space.sample())[0]
        np.testing.assert_equal(first, kept)
        first = second


def test_a_seed_fixes_the_episode() -> None:
    def episode(env: gymnasium.Env[Any, Any]) -> list[float]:
        obs, _ = env.reset(seed=7)
        return [obs[0], *(env.step(action)[0][0] for action in (0, 1, 1))]

    assert episode(walk()) == episode(vecenv.make_env("WalkHere-v0"))


@pytest.mark.parametrize("duplicate", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy])
def test_a_copy_of_an_env_goes_on_from_where_it_was(duplicate: Any) -> None:
    env = walk(speed=0.25)
    env.reset(seed=3)
    env.step(1)
    other = duplicate(env)
    for action in (1, 0, 1):
        np.testing.assert_equal(other.step(action), env.step(action))
    np.testing.assert_equal(other.reset(), env.reset())


def test_a_kernel_can_be_pickled() -> None:
    kernel = find_kernel("WalkFast-v0")
    assert kernel is not None
    other = pickle.loads(pickle.dumps(kernel))
    assert (other.id, other.definition, other.kwargs) == (kernel.id, Walk, {"speed": 1.0})
    assert KernelEnv(other).params.speed == 1.0


def test_a_kernel_error_can_be_pickled(tmp_path: Path) -> None:
    error = refused(written(tmp_path, "def reset(s, rng, p):\n    s.y = 1.0"))
    other = pickle.loads(pickle.dumps(error))
    assert (str(other), other.line, other.function) == (str(error), error.line, error.function)


# --- fields ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        ("f8", 1, 1.0),
        ("f8", True, 1.0),
        ("f8", np.float32(0.1), float(np.float32(0.1))),
        ("f4", 0.1, float(np.float32(0.1))),
        ("f4", 1e300, float("inf")),
        ("i8", np.int8(3), 3),
        ("i8", np.True_, 1),
        ("i1", -128, -128),
        ("u8", 2**64 - 1, 2**64 - 1),
        ("?", np.True_, True),
        ("?", False, False),
    ],
)
def test_a_field_reads_as_the_python_number_of_its_type(dtype: str, value: Any, want: Any) -> None:
    got = conform(Field("x", np.dtype(dtype)), value)
    assert (got, type(got)) == (want, type(want))


def test_arrays_read_as_python_numbers() -> None:
    record = Record({"board": Field("board", np.dtype(np.int8), (2, 2))})
    record.board[0, 0] = 100
    assert type(record.board[0, 0]) is int
    assert record.board[0, 0] + record.board[0, 0] == 200
    assert [type(value) for row in record.board for value in row] == [int] * 4


def test_a_record_can_be_copied_and_looked_at() -> None:
    record = Record({"x": Field("x", np.dtype(float)), "row": Field("row", np.dtype(int), (2,))})
    record.x = 2.0
    for other in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert repr(other) == repr(record)
        other.row[0] = 5
        assert record.row[0] == 0
    assert not hasattr(record, "__wrapped__")
    assert list(dir(record)) == ["row", "x"]
    assert repr(record) == "state(x=2.0, row=array([0, 0]))"
    assert repr(record.row * 2) == "array([0, 0])"
    with pytest.raises(AttributeError, match="'array' object has no attribute 'rows'"):
        record.row.rows
    with pytest.raises(FieldError, match="no field 'y'"):
        record.y


def test_a_frozen_record_is_read_only() -> None:
    fields = {"x": Field("x", np.dtype(float)), "row": Field("row", np.dtype(int), (2,))}
    record = Record(fields, frozen="Params are read-only: keep what changes in `state`")
    with pytest.raises(FieldError, match=r"read-only.*not in 'x'"):
        record.x = 1.0
    with pytest.raises(FieldError, match="read-only"):
        record.row[0] = 1
    assert repr(copy.deepcopy(record)) == repr(record)
