"""Wrong input is refused with a helpful error before anything happens: the next step is that of an untouched twin."""

from __future__ import annotations

import copy
import functools
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.twins import ENGINES, SPACES, SampleEnv, assert_same, make, mostly_on_sync, on_every_engine
from vecenv._front.call_order import CallOrder
from vecenv._util.forks import _HereByPid
from vecenv.engines import registry
from vecenv.errors import (
    CallOrderError,
    ClosedError,
    ConfigError,
    ConfigTypeError,
    EngineRefused,
    EnvError,
    InvalidAction,
    NothingPendingError,
    NotResetError,
    PendingError,
    SpaceError,
    UnknownEngine,
    UnknownEnv,
    UnknownRow,
    VecenvError,
)

OBSERVATION = spaces.Box(-1.0, 1.0, (2,), np.float32)
DISCRETE = spaces.Discrete(3)
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
FORK = multiprocessing.get_context("fork")


class Env(SampleEnv):
    """SampleEnv with a frame, an attribute to set and a private one."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, action_space: Any = DISCRETE, render_mode: str | None = None) -> None:
        super().__init__(OBSERVATION, action_space)
        self.render_mode = render_mode
        self.gravity = 1.0
        self._secret = 5
        self.lock = threading.Lock()

    def render(self) -> Any:
        return np.zeros((2, 2, 3), np.uint8)


def factory(action_space: Any = DISCRETE, **kwargs: Any) -> Callable[[], Env]:
    return functools.partial(Env, action_space, **kwargs)


class Pair:
    """A vector env and an untouched twin on the sync engine."""

    def __init__(self, engine: str, action_space: Any = DISCRETE, count: int = 4, **kwargs: Any) -> None:
        self.envs = make(engine, factory(action_space), count, **kwargs)
        self.twin = make("sync", factory(action_space), count, **kwargs)
        self.twin.action_space.seed(3)
        self.steps = 0

    def __enter__(self) -> Pair:
        assert_same(self.envs.reset(seed=1), self.twin.reset(seed=1))
        self.go_on(2)
        return self

    def __exit__(self, *exception: object) -> None:
        self.envs.close()
        self.twin.close()

    def go_on(self, steps: int = 12) -> None:
        """Both do the same from here on, past the end of an episode."""
        for _ in range(steps):
            actions = self.twin.action_space.sample()
            assert_same(self.envs.step(copy.deepcopy(actions)), self.twin.step(actions))


def refused(call: Callable[[], Any], *types: type[BaseException], says: str) -> VecenvError:
    """The call raises an error of ours, of all these types, whose message matches every line of `says`."""
    with pytest.raises(VecenvError) as caught:
        call()
    for kind in types:
        assert isinstance(caught.value, kind), f"{type(caught.value).__mro__} has no {kind.__name__}"
    for part in says.split(" & "):
        assert re.search(part, str(caught.value), re.DOTALL), f"{part!r} not in: {caught.value}"
    return caught.value


def children() -> set[int]:
    return {process.pid for process in multiprocessing.active_children() if process.pid}


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


# --- make ------------------------------------------------------------------------------------------------------------

WRONG_ARGUMENTS = {
    "num_envs 0": ({"num_envs": 0}, ConfigError, ValueError, "num_envs must be an int >= 1, got 0"),
    "num_envs -1": ({"num_envs": -1}, ConfigError, ValueError, "num_envs must be an int >= 1, got -1"),
    "num_envs 2.5": ({"num_envs": 2.5}, ConfigTypeError, TypeError, "num_envs must be an int >= 1, got float 2.5"),
    "num_envs str": ({"num_envs": "4"}, ConfigTypeError, TypeError, "num_envs must be an int >= 1, got str '4'"),
    "num_envs bool": ({"num_envs": True}, ConfigTypeError, TypeError, "num_envs must be an int >= 1, got bool"),
    "env id": ({"env": "CartPol-v1"}, UnknownEnv, gymnasium.error.NameNotFound, "(?i)did you mean.*CartPole"),
    "env id version": ({"env": "CartPole-v99"}, UnknownEnv, gymnasium.error.Error, "v99 & v1"),
    "env object": (
        {"env": SampleEnv(BOX, BOX)},
        ConfigTypeError,
        TypeError,
        "SampleEnv & it is an env, pass a function & lambda: SampleEnv",
    ),
    "not callable": (
        {"env": [factory(), factory(), factory(), 3]},
        ConfigTypeError,
        TypeError,
        r"env_fns\[3\] is not callable \(got int\)",
    ),
    "env object in list": (
        {"env": [factory(), SampleEnv(BOX, BOX)]},
        ConfigTypeError,
        TypeError,
        r"env_fns\[1\] is not callable & pass a function",
    ),
    "env is a number": ({"env": 3}, ConfigTypeError, TypeError, "env must be a Gymnasium id.*got int 3"),
    "empty list": ({"env": []}, ConfigError, ValueError, "at least one env factory"),
    "list of another length": ({"env": [factory()] * 3}, ConfigError, ValueError, "num_envs=4 & 3 env functions"),
    "workers 0": ({"workers": 0}, ConfigError, ValueError, "workers must be an int >= 1, got 0"),
    "workers 5": ({"workers": 5}, ConfigError, ValueError, r"workers must be in 1 \.\.\. 4 & got 5"),
    "workers str": (
        {"workers": "auto2"},
        ConfigTypeError,
        TypeError,
        "workers must be an int >= 1, got str 'auto2'",
    ),
    "batch_size 5": (
        {"batch_size": 5},
        ConfigError,
        ValueError,
        r"batch_size must be in 1 \.\.\. num_envs = 4, got 5",
    ),
    "batch_size 0": ({"batch_size": 0}, ConfigError, ValueError, "batch_size must be .* got 0"),
    "batch_size -3": ({"batch_size": -3}, ConfigError, ValueError, "batch_size must be .* got -3"),
    "batch_size float": ({"batch_size": 2.0}, ConfigTypeError, TypeError, "batch_size must be an int.* got float"),
    "engine": (
        {"engine": "turbo"},
        UnknownEngine,
        ValueError,
        "'sync', 'thread', 'process', 'asyncio', 'ray'.* got 'turbo'",
    ),
    "engine near": ({"engine": "proces"}, UnknownEngine, ValueError, "did you mean 'process'"),
    "engine type": ({"engine": 3}, UnknownEngine, ValueError, "got 3"),
    "context": ({"context": "thread"}, ConfigError, ValueError, "context must be one of.*'spawn'.*got 'thread'"),
    "context type": ({"context": 3}, ConfigTypeError, TypeError, "context must be one of.*'spawn'.*got int 3"),
    "keyword": ({"num_env": 4}, ConfigTypeError, TypeError, "unknown argument 'num_env'; did you mean 'num_envs'"),
    "Gymnasium's keyword": ({"autoreset_mode": "x"}, ConfigTypeError, TypeError, "did you mean 'autoreset'"),
    "keyword elsewhere": ({"num_workers": 2}, ConfigTypeError, TypeError, "did you mean 'workers'"),
    "timeout str": (
        {"timeout": "5s"},
        ConfigTypeError,
        TypeError,
        "timeout must be a number of seconds, got str '5s'",
    ),
    "timeout -1": ({"timeout": -1}, ConfigError, ValueError, "timeout must be a positive number of seconds, got -1"),
    "timeout NaN": (
        {"timeout": float("nan")},
        ConfigError,
        ValueError,
        "timeout must be a positive number.* got nan",
    ),
    "start_timeout": ({"start_timeout": "1"}, ConfigTypeError, TypeError, "start_timeout must be a number"),
    "on_error": (
        {"on_error": "ignore"},
        ConfigError,
        ValueError,
        "on_error must be one of 'raise', 'restart', got 'ignore'",
    ),
    "autoreset": (
        {"autoreset": "sometimes"},
        ConfigError,
        ValueError,
        "'next-step', 'same-step', 'disabled', got 'som",
    ),
    "autoreset type": (
        {"autoreset": ["next-step"]},
        ConfigError,
        ValueError,
        "autoreset must be one of.*got \\['next",
    ),
    "seeding": (
        {"seeding": "hash"},
        ConfigError,
        ValueError,
        "seeding must be one of 'gymnasium', 'spawn', got 'hash'",
    ),
    "order": ({"order": "random"}, ConfigError, ValueError, "order must be one of.*got 'random'"),
    "observation_mode": ({"observation_mode": "any"}, ConfigError, ValueError, "'same' or 'different'.*got any"),
    "env_kwargs": ({"env_kwargs": 3}, ConfigTypeError, TypeError, "env_kwargs must be a dict.*got int 3"),
    "env_kwargs length": ({"env_kwargs": [{}]}, ConfigError, ValueError, "got 1 env_kwargs for 4 envs"),
    "env_kwargs entry": (
        {"env_kwargs": [{}, 3, {}, {}]},
        ConfigTypeError,
        TypeError,
        r"env_kwargs\[1\] must be a dict",
    ),
    "env_kwargs entry and keyword": (
        {"env_kwargs": [{}, 3, {}, {}], "render_mode": None},
        ConfigTypeError,
        TypeError,
        r"env_kwargs\[1\] must be a dict",
    ),
    "wrappers": ({"wrappers": 3}, ConfigTypeError, TypeError, "wrappers must be.*got int 3"),
    "wrappers entry": (
        {"wrappers": [Env, 3]},
        ConfigTypeError,
        TypeError,
        r"wrappers\[1\] is not callable \(got int\)",
    ),
}


@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS)
def test_make_refuses_a_wrong_argument_before_any_env_is_built(engine, wrong):
    given, ours, builtin, says = WRONG_ARGUMENTS[wrong]
    option = next(iter(given))
    if engine != "auto" and option in registry.option_defaults() and engine not in registry.having(option):
        ours, builtin, says = EngineRefused, ValueError, f"the {engine} engine has no option {option}"
    built: list[int] = []

    def build(**kwargs: Any) -> Any:
        built.append(1)
        return Env()

    arguments = {"env": build, "num_envs": 4, "engine": engine, **given}
    refused(lambda: vecenv.make(**arguments), ours, builtin, says=says)
    assert not built


@on_every_engine
@pytest.mark.parametrize("result", [None, 3, Env], ids=["None", "int", "class"])
def test_make_names_the_factory_that_returned_no_env(engine, result):
    fns = [factory(), factory(), factory(), lambda: result]
    says = rf"env_fns\[3\]\(\) returned {type(result).__name__} & need a gymnasium.Env"
    refused(lambda: make(engine, fns), SpaceError, TypeError, says=says)


@on_every_engine
def test_make_refuses_one_env_object_from_two_factories(engine):
    shared = Env()
    fns = [factory(), factory(), lambda: shared, lambda: shared]
    says = r"env_fns\[2\] and \[3\] returned the same object & build a new env"
    refused(lambda: make(engine, fns), SpaceError, ValueError, says=says)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
@pytest.mark.parametrize("bad", [0, 3])
def test_make_names_the_closure_variable_that_cannot_be_pickled(context, bad):
    lock = threading.Lock()

    def build() -> Env:
        assert lock is not None
        return Env()

    fns: list[Any] = [Env] * 4
    fns[bad] = build
    says = rf"env_fns\[{bad}\] cannot be sent to a worker & 'lock' & _thread.lock & engine='sync'"
    error = refused(lambda: make("process", fns, context=context), ConfigError, pickle.PicklingError, says=says)
    assert error.__cause__ is not None


@on_every_engine
@pytest.mark.parametrize("which", ["observation", "action"])
def test_make_names_the_env_and_key_whose_space_differs(engine, which):
    cameras = [spaces.Dict({"cam": spaces.Box(0, high, (2,)), "pos": BOX}) for high in (1, 1, 9)]
    if which == "observation":
        fns = [functools.partial(SampleEnv, space, DISCRETE) for space in cameras]
        says = r"(?i)env 2 has Box\(0.0, 9.0.* at 'cam' where env 0 has Box\(0.0, 1.0 & observation_mode='different'"
    else:
        fns = [functools.partial(SampleEnv, OBSERVATION, space) for space in cameras]
        says = "env 2 has Dict & must be equal"
    refused(lambda: make(engine, fns), SpaceError, ValueError, RuntimeError, says=says)


@on_every_engine
@pytest.mark.parametrize("kind", ["sequence", "graph", "custom", "box-empty"])
def test_spaces_without_a_fixed_size_travel_by_value_and_empty_boxes_are_empty_columns(engine, kind):
    with make(engine, functools.partial(SampleEnv, SPACES[kind], DISCRETE), 2) as envs:
        assert envs.reset(seed=0)[0] in envs.observation_space


def test_gymnasium_itself_refuses_a_box_of_objects():
    with pytest.raises((ValueError, AssertionError), match="object"):
        spaces.Box(0, 1, (2,), object)  # type: ignore[arg-type]  # wrong on purpose


@on_every_engine
def test_make_passes_on_why_the_env_rejects_its_arguments(engine):
    error = refused(lambda: make(engine, Env, 4, gravityy=3), EnvError, TypeError, says="env 0 & make & gravityy")
    assert isinstance(error, EnvError)
    assert (error.row, error.phase) == (0, "make")
    assert type(error.__cause__) is TypeError


@on_every_engine
def test_make_names_the_one_env_that_rejects_its_arguments(engine):
    every = [{}, {}, {}, {"gravityy": 3}]
    error = refused(lambda: make(engine, Env, 4, env_kwargs=every), EnvError, TypeError, says="env 3 & make & gravityy")
    assert isinstance(error, EnvError)
    assert error.row == 3


SCRIPT = """
    import gymnasium, numpy as np, vecenv
    print("running")

    class Mine(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}
        def step(self, action):
            return np.full(2, action / 2, np.float32), 1.0, False, False, {}

    envs = vecenv.make(Mine, 2, engine="process", workers=2, context="CONTEXT")
    envs.reset(seed=0)
    print(envs.step([0, 1])[0].tolist())
    envs.close()
"""


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_a_script_without_a_main_guard_simply_works(tmp_path, context):
    script = tmp_path / "unguarded.py"
    script.write_text(textwrap.dedent(SCRIPT).replace("CONTEXT", context))
    source = os.path.dirname(os.path.dirname(vecenv.__file__))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "running\n[[0.0, 0.0], [0.5, 0.5]]\n"


def in_a_process(function: Callable[[], str], *, daemon: bool) -> str:
    """What the function returns in a forked child."""
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=lambda: theirs.send(function()), daemon=daemon)
    process.start()
    try:
        assert ours.poll(30)
        return ours.recv()
    finally:
        process.join(10)
        process.close()


def test_a_daemonic_process_is_told_that_it_cannot_have_workers():
    def attempt() -> str:
        with make("sync", Env, 2) as envs:
            envs.reset()
        error = refused(lambda: make("process", Env, 2), ConfigError, RuntimeError, says="daemonic & engine='sync'")
        return str(error)

    assert "non-daemonic" in in_a_process(attempt, daemon=True)


def test_more_shared_memory_than_there_is_is_a_memory_error_at_once():
    huge = spaces.MultiBinary(2**50)  # says its size without taking it

    class Huge(SampleEnv):
        def __init__(self) -> None:
            super().__init__(OBSERVATION, DISCRETE)
            self.observation_space = huge

    with pytest.raises(
        MemoryError, match=r"2 envs .*1125899906842624.* need 4294967296.*MiB.* MiB are free; use fewer envs"
    ):
        make("process", Huge, 2, observation_mode=(DISCRETE, huge))


def test_more_heap_than_there_is_is_a_memory_error():
    huge = spaces.MultiBinary(2**50)

    class Huge(SampleEnv):
        def __init__(self) -> None:
            super().__init__(OBSERVATION, DISCRETE)
            self.observation_space = huge

    with pytest.raises(MemoryError, match="1125899906842624"):
        make("sync", Huge, 2, observation_mode=(DISCRETE, huge))


# --- reset -----------------------------------------------------------------------------------------------------------

LOCK = threading.Lock()
WRONG_RESETS = {
    "seed str": ({"seed": "a"}, TypeError, "seed must be an int, a sequence of int .*or None; got str 'a'"),
    "seed float": ({"seed": 1.5}, TypeError, "seed must be an int.*got float 1.5"),
    "seed bool": ({"seed": True}, TypeError, "seed must be an int.*got bool"),
    "seed np.bool": ({"seed": np.True_}, TypeError, "seed must be an int.*got bool"),
    "seed -1": ({"seed": -1}, ValueError, r"seed must be in 0 \.\.\. 2\*\*63 - 1, got -1"),
    "seed 2**70": ({"seed": 2**70}, ValueError, r"seed must be in 0 \.\.\. 2\*\*63 - 1, got 1180591620717411303424"),
    "seed near the end": ({"seed": 2**63 - 2}, ValueError, r"at most 2\*\*63 - num_envs = 9223372036854775804, got"),
    "three seeds": ({"seed": [1, 2, 3]}, ValueError, "num_envs=4 but got length=3"),
    "no seeds": ({"seed": []}, ValueError, "num_envs=4 but got length=0"),
    "a table of seeds": ({"seed": np.ones((4, 1), int)}, ValueError, r"seed\[0\] must be an int.*got ndarray"),
    "seed list with str": ({"seed": [1, "b", None, 2]}, TypeError, r"seed\[1\] must be an int.*got str 'b'"),
    "seed list with bool": ({"seed": [1, True, None, 2]}, TypeError, r"seed\[1\] must be an int.*got bool"),
    "seed list with list": ({"seed": [1, 2, [3], 4]}, TypeError, r"seed\[2\] must be an int.*got list \[3\]"),
    "seed list with negative": ({"seed": [1, 2, 3, -4]}, ValueError, r"seed\[3\] must be in 0 \.\.\. .*got -4"),
    "seed array of floats": ({"seed": np.ones(4)}, TypeError, r"seed\[0\] must be an int.*got float64"),
    "options 3": ({"options": 3}, TypeError, "options must be a dict.*or None; got int 3"),
    "options list": ({"options": [{}, {}]}, ValueError, "got 2 options for 4 envs"),
    "options list entry": (
        {"options": [{}, 3, None, {}]},
        TypeError,
        r"options\[1\] must be a dict or None, got int 3",
    ),
    "mask shape": ({"options": {"reset_mask": np.ones(3, bool)}}, ValueError, r"shape `\(4,\)`, got \(3,\)"),
    "mask dtype": ({"options": {"reset_mask": np.ones(4, int)}}, TypeError, "dtype=np.bool_`, got int64"),
    "mask list": ({"options": {"reset_mask": [True] * 4}}, TypeError, "must be a numpy array, got .*list"),
    "mask all False": ({"options": {"reset_mask": np.zeros(4, bool)}}, ValueError, "must contain a boolean array"),
    "wrong seed, right mask": ({"seed": -1, "options": {"reset_mask": np.ones(4, bool)}}, ValueError, "got -1"),
}


@mostly_on_sync
@pytest.mark.parametrize("wrong", WRONG_RESETS)
def test_reset_refuses_wrong_seeds_and_options(engine, wrong):
    given, builtin, says = WRONG_RESETS[wrong]
    before = copy.deepcopy(given)
    with Pair(engine) as pair:
        refused(lambda: pair.envs.reset(**given), SpaceError, builtin, says=says)
        assert_same(given, before)
        pair.go_on()


@on_every_engine
def test_reset_with_options_that_cannot_be_sent_leaves_no_seed_behind(engine):
    unsendable = {"lock": LOCK}
    with Pair(engine) as pair:
        if engine != "process":
            pair.twin.reset(seed=1, options=unsendable)
            pair.envs.reset(seed=1, options=unsendable)
        else:
            says, given = "cannot be sent to a worker & lock & engine='sync'", pair.envs._batch.given_seed.tolist()
            refused(lambda: pair.envs.reset(seed=8, options=unsendable), TypeError, pickle.PicklingError, says=says)
            assert pair.envs._batch.given_seed.tolist() == given, "the seeds of restarts follow from it"
        pair.go_on(20)


@on_every_engine
@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), np.array(3)], ids=["int64", "uint8", "0-d array"])
def test_reset_accepts_numpy_integers(engine, seed):
    with Pair(engine) as pair:
        assert_same(pair.envs.reset(seed=seed), pair.twin.reset(seed=3))
        pair.go_on()


@on_every_engine
@pytest.mark.parametrize(
    "seed", [(3, None, 5, 6), np.array([3, 4, 5, 6]), range(3, 7)], ids=["tuple", "array", "range"]
)
def test_reset_accepts_any_sequence_of_seeds_with_none_among_them(engine, seed):
    with Pair(engine) as pair:
        pair.envs.reset(seed=7)
        pair.twin.reset(seed=7)
        assert_same(pair.envs.reset(seed=seed), pair.twin.reset(seed=list(seed)))
        pair.go_on()


@on_every_engine
def test_the_callers_options_are_never_changed(engine):
    mask = np.array([True, False, True, False])
    options = {"reset_mask": mask, "level": 3}
    with Pair(engine) as pair:
        assert_same(pair.envs.reset(seed=9, options=options), pair.twin.reset(seed=9, options=dict(options)))
        assert options.keys() == {"reset_mask", "level"}
        assert options["reset_mask"] is mask
        pair.go_on()


@on_every_engine
def test_reset_while_a_step_is_pending_is_refused_and_the_step_is_still_there(engine):
    with Pair(engine) as pair:
        pair.envs.send([0, 1, 2, 0])
        says = r"reset & pending call to `step` & \(4 envs\) & recv\(\)"
        refused(pair.envs.reset, PendingError, RuntimeError, gymnasium.error.AlreadyPendingCallError, says=says)
        assert_same(tuple(pair.envs.recv()), pair.twin.step([0, 1, 2, 0]))
        pair.go_on()


# --- step ------------------------------------------------------------------------------------------------------------


@on_every_engine
@pytest.mark.parametrize("call", ["step", "send"])
def test_step_before_the_first_reset_says_so(engine, call):
    pair = Pair(engine)
    says = rf"need a reset before {call}\(\) & call reset\(\)"
    step = getattr(pair.envs, call)
    refused(lambda: step([0] * 4), NotResetError, RuntimeError, gymnasium.error.ResetNeeded, says=says)
    with pair:
        pair.go_on()


class OnTheGpu:
    """Answers like a CUDA tensor."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")


INT8 = spaces.Box(-100, 100, (2,), np.int8)
NESTED = spaces.Dict({"move": spaces.Discrete(3), "aim": spaces.Tuple((BOX, spaces.MultiBinary(2)))})
WIDE = spaces.MultiDiscrete([2, 3])


def nested(**changes: Any) -> dict[str, Any]:
    return {"move": np.zeros(4, int), "aim": (np.zeros((4, 2)), np.zeros((4, 2), int)), **changes}


def cell(shape: tuple[int, ...], index: tuple[int, ...], value: Any) -> np.ndarray:
    array = np.zeros(shape, np.asarray(value).dtype)
    array[index] = value
    return array


WRONG_ACTIONS = {
    "three": (DISCRETE, [0, 1, 2], ValueError, "got 3 actions for 4 envs & one action per env"),
    "five": (DISCRETE, [0, 1, 2, 0, 1], ValueError, "got 5 actions for 4 envs & one action per env"),
    "none at all": (DISCRETE, np.zeros(0, int), ValueError, "got 0 actions for 4 envs"),
    "None": (DISCRETE, None, TypeError, r"shape \(4,\) and dtype int64 for Discrete\(3\), got NoneType"),
    "scalar": (DISCRETE, 1, TypeError, r"have shape \(\), want \(4,\) for Discrete\(3\)"),
    "str": (DISCRETE, "0120", TypeError, r"shape \(4,\) and dtype int64 for Discrete\(3\), got str '0120'"),
    "dict": (DISCRETE, {"a": 1}, TypeError, r"shape \(4,\) and dtype int64 for Discrete\(3\), got dict"),
    "strs": (DISCRETE, ["0", "1", "2", "0"], TypeError, "dtype <U1, .*needs integers"),
    "Nones": (DISCRETE, [0, None, 1, 2], TypeError, r"shape \(4,\) and dtype int64"),
    "(4, 1) for Discrete": (DISCRETE, np.zeros((4, 1), int), ValueError, r"\(4, 1\), want \(4,\)"),
    "(1, 4) for Discrete": (DISCRETE, np.zeros((1, 4), int), ValueError, r"\(1, 4\), want \(4,\)"),
    "(4,) for Box": (BOX, np.zeros(4), ValueError, r"\(4,\), want \(4, 2\)"),
    "(4, 1) for Box": (BOX, np.zeros((4, 1)), ValueError, r"\(4, 1\), want \(4, 2\)"),
    "(2, 4) for Box": (BOX, np.zeros((2, 4)), ValueError, r"\(2, 4\), want \(4, 2\)"),
    "one for all": (BOX, np.zeros((1, 2)), ValueError, "got 1 actions for 4 envs"),
    "floats": (
        DISCRETE,
        [0.0, 1.0, 2.0, 0.5],
        TypeError,
        "dtype float64, Discrete.* needs integers & integer array",
    ),
    "integral floats": (DISCRETE, np.ones(4), TypeError, "dtype float64, Discrete.* needs integers"),
    "bools": (DISCRETE, [True, False, True, False], TypeError, "dtype bool, Discrete.* needs integers"),
    "bools for Box": (BOX, np.ones((4, 2), bool), TypeError, "dtype bool, Box.* needs numbers"),
    "too large": (DISCRETE, [0, 7, 1, 2], ValueError, r"env 1: action 7 is not in Discrete\(3\) & nothing was sent"),
    "negative": (DISCRETE, np.array([0, 1, -1, 2]), ValueError, r"env 2: action -1 is not in Discrete\(3\)"),
    "too large, int32": (DISCRETE, np.array([0, 1, 2, 3], np.int32), ValueError, "env 3: action 3 is not in"),
    "too large, uint64": (
        DISCRETE,
        np.array([0, 1, 2, 2**63], np.uint64),
        ValueError,
        "env 3: action 9223372036854775808",
    ),
    "start": (spaces.Discrete(3, start=5), [5, 6, 7, 4], ValueError, "env 3: action 4 is not in Discrete"),
    "MultiDiscrete": (
        WIDE,
        cell((4, 2), (2, 0), 2),
        ValueError,
        r"env 2: action 2 at component \[0\] is not in Multi",
    ),
    "MultiBinary": (
        spaces.MultiBinary(2),
        cell((4, 2), (1, 1), 2),
        ValueError,
        r"env 1: action 2 at component \[1\]",
    ),
    "NaN": (
        BOX,
        cell((4, 2), (1, 1), np.nan),
        ValueError,
        r"env 1: action is nan at component \[1\] & finite & policy",
    ),
    "infinity": (BOX, cell((4, 2), (3, 0), -np.inf), ValueError, r"env 3: action is -inf at component \[0\]"),
    "overflow": (BOX, cell((4, 2), (3, 0), 1e300), ValueError, r"env 3: action is 1e\+300 at component \[0\]"),
    "int8": (INT8, cell((4, 2), (1, 0), 300), ValueError, r"env 1: action 300 at component \[0\] is not in Box"),
    "int8 below": (INT8, cell((4, 2), (2, 1), -129), ValueError, r"env 2: action -129 at component \[1\]"),
    "complex": (BOX, np.zeros((4, 2), complex), TypeError, "dtype complex128, Box.* needs numbers"),
    "tensor on a GPU": (BOX, OnTheGpu(), TypeError, r"OnTheGpu & \.cpu\(\)\.numpy\(\)"),
    "missing key": (
        NESTED,
        {"move": np.zeros(4, int)},
        ValueError,
        r"misses \['aim'\]; pass exactly the keys \['aim', 'move'\]",
    ),
    "extra key": (NESTED, nested(jump=1), ValueError, r"has unknown \['jump'\]; pass exactly"),
    "no dict": (
        NESTED,
        np.zeros(4),
        TypeError,
        r"env 0: action must be a dict with keys \['aim', 'move'\], got float64",
    ),
    "missing key of one env": (
        NESTED,
        [{"move": 0, "aim": (np.zeros(2), [0, 1])}] * 3 + [{"move": 0}],
        ValueError,
        r"env 3: action misses \['aim'\]",
    ),
    "wrong tuple": (NESTED, nested(aim=(np.zeros((4, 2)),)), ValueError, "at 'aim'"),
    "wrong leaf": (NESTED, nested(move=[0, 0, 3, 0]), ValueError, "env 2: action at 'move' 3 is not in"),
    "ragged": (
        BOX,
        [[0, 0], [0, 0], [0], [0, 0]],
        ValueError,
        r"env 2: action list \[0\] does not have shape \(2,\)",
    ),
    "ragged for Discrete": (
        DISCRETE,
        [0, [1], 2, 0],
        ValueError,
        r"env 1: action list \[1\] does not have shape \(\)",
    ),
    "text": (SPACES["text"], ["ab", 3, "c", "d"], TypeError, "env 1: action int 3 is not in Text"),
    "text str": (SPACES["text"], "abcd", TypeError, "must be a batch of 4 actions, got str 'abcd'"),
    "text three": (SPACES["text"], ["a", "b", "c"], ValueError, "got 3 actions for 4 envs"),
    "custom three": (SPACES["custom"], (["a"], ["b"], ["c"]), ValueError, "got 3 actions for 4 envs"),
}


@mostly_on_sync
@pytest.mark.parametrize("wrong", WRONG_ACTIONS)
def test_step_and_send_refuse_wrong_actions(engine, wrong):
    space, actions, builtin, says = WRONG_ACTIONS[wrong]
    with Pair(engine, space) as pair:
        for call in (pair.envs.step, pair.envs.send):
            refused(lambda call=call: call(actions), InvalidAction, builtin, gymnasium.error.InvalidAction, says=says)
        refused(pair.envs.recv, NothingPendingError, says="nothing is pending")
        pair.go_on()


@on_every_engine
def test_box_actions_outside_the_bounds_are_passed_on_as_gymnasium_does(engine):
    oracle = gymnasium.vector.SyncVectorEnv([factory(BOX)] * 4)
    with make(engine, factory(BOX), 4) as envs:
        envs.reset(seed=1)
        oracle.reset(seed=1)
        outside = np.full((4, 2), 5.0, np.float32)
        assert_same(envs.step(outside), oracle.step(outside))
    oracle.close()


@on_every_engine
def test_actions_of_a_custom_space_are_passed_on_unchecked_as_gymnasium_does(engine):
    with Pair(engine, SPACES["custom"]) as pair:
        actions = (["a"], ["z"], ["b"], ["not a letter"])
        assert_same(pair.envs.step(actions), pair.twin.step(actions))
        pair.go_on()


UNUSUAL = {
    "non-contiguous": (DISCRETE, np.array([0, 9, 1, 9, 2, 9, 1, 9])[::2]),
    "reversed": (DISCRETE, np.array([1, 2, 1, 0])[::-1]),
    "read-only": (DISCRETE, np.broadcast_to(np.int64(1), (4,))),
    "big-endian": (DISCRETE, np.array([0, 1, 2, 1], ">i8")),
    "small": (DISCRETE, np.array([0, 1, 2, 1], np.uint8)),
    "list": (DISCRETE, [0, 1, 2, 1]),
    "tuple": (DISCRETE, (0, 1, 2, 1)),
    "range": (spaces.Discrete(4), range(4)),
    "Fortran": (BOX, np.asfortranarray(np.linspace(-1, 1, 8).reshape(4, 2))),
    "big-endian floats": (BOX, np.linspace(-1, 1, 8).reshape(4, 2).astype(">f4")),
    "ints for Box": (BOX, np.ones((4, 2), int)),
    "lists for Box": (BOX, [[0.5, 1]] * 4),
    "bools for MultiBinary": (spaces.MultiBinary(2), np.ones((4, 2), bool)),
    "bools for a bool Box": (SPACES["box-bool"], np.ones((4, 3), bool)),
}


@mostly_on_sync
@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_but_right_arrays_are_accepted_and_copied(engine, kind):
    space, given = UNUSUAL[kind]
    with Pair(engine, space) as pair:
        plain = np.ascontiguousarray(given, space.dtype)
        before = np.array(given)
        assert_same(pair.envs.step(given), pair.twin.step(plain))
        assert_same(np.array(given), before)
        pair.go_on()


@on_every_engine
def test_actions_may_be_overwritten_as_soon_as_send_returned(engine):
    with Pair(engine) as pair:
        actions = np.array([0, 1, 2, 0])
        pair.envs.send(actions)
        actions[:] = 99
        assert_same(tuple(pair.envs.recv()), pair.twin.step([0, 1, 2, 0]))
        pair.go_on()


@on_every_engine
def test_our_own_observation_buffer_may_be_passed_as_action(engine):
    with Pair(engine, BOX, copy=False) as pair:
        for _ in range(8):
            ours, theirs = pair.envs.step(np.zeros((4, 2)))[0], pair.twin.step(np.zeros((4, 2)))[0]
            assert_same(pair.envs.step(ours)[1], pair.twin.step(theirs.copy())[1])


# --- send and recv ---------------------------------------------------------------------------------------------------

WRONG_IDS = {
    "too large": ([0, 7], UnknownRow, IndexError, r"env id 7, this vector env has 4 \(0 \.\.\. 3\)"),
    "negative": ([-1, 0], UnknownRow, IndexError, "env id -1, this vector env has 4"),
    "twice": ([1, 1], SpaceError, ValueError, r"env_ids \[1, 1\] name an env twice"),
    "floats": ([0.0, 1.0], SpaceError, TypeError, r"1-d array of ints, got float64 of shape \(2,\)"),
    "mask of wrong length": (np.array([True, True]), SpaceError, ValueError, r"mask .* shape \(4,\), got \(2,\)"),
    "empty mask": (np.zeros(4, bool), SpaceError, ValueError, "non-empty"),
    "scalar": (1, SpaceError, ValueError, r"1-d array of ints, got int64 of shape \(\)"),
    "none": ([], SpaceError, ValueError, "non-empty"),
    "table": ([[0], [1]], SpaceError, ValueError, r"of shape \(2, 1\)"),
    "strs": (["0", "1"], SpaceError, TypeError, "1-d array of ints"),
    "objects": ([0, None], SpaceError, TypeError, "1-d array of ints, got object"),
    "ragged": ([0, [1]], SpaceError, TypeError, r"1-d array of ints, got list \[0, \[1\]\]"),
}


@mostly_on_sync
@pytest.mark.parametrize("wrong", WRONG_IDS)
def test_step_and_send_refuse_wrong_env_ids(engine, wrong):
    ids, ours, builtin, says = WRONG_IDS[wrong]
    with Pair(engine) as pair:
        for call in (pair.envs.step, pair.envs.send):
            refused(lambda call=call: call([0, 1], ids), ours, builtin, says=says)
        refused(pair.envs.recv, NothingPendingError, says="nothing is pending")
        pair.go_on()


@on_every_engine
def test_send_names_the_envs_that_are_still_running(engine):
    with Pair(engine) as pair:
        pair.envs.send([0, 1], [1, 3])
        says = r"envs \[3\] are still running & recv\(\)"
        refused(lambda: pair.envs.send([0, 1], [2, 3]), PendingError, RuntimeError, says=says)
        refused(lambda: pair.envs.send([0] * 4), PendingError, says="pending call to `step` .*2 envs")
        refused(lambda: pair.envs.step([0], [0]), PendingError, says="pending call to `step` .*2 envs")
        pair.envs.send([2, 0], [2, 0])
        step = pair.envs.recv(4)
        assert step.env_ids.tolist() == [0, 1, 2, 3]
        assert_same(tuple(step), pair.twin.step([0, 0, 2, 1]))
        pair.go_on()


@on_every_engine
def test_a_mask_of_the_right_length_names_its_envs(engine):
    with Pair(engine) as pair:
        pair.envs.send([1, 2], np.array([True, False, False, True]))
        pair.envs.send([0, 0], [1, 2])
        assert_same(tuple(pair.envs.recv(4)), pair.twin.step([1, 0, 0, 2]))
        pair.go_on()


@on_every_engine
def test_recv_with_nothing_pending_is_refused_at_once(engine):
    with Pair(engine) as pair:
        says = r"recv\(\) without any prior send\(\)"
        refused(pair.envs.recv, NothingPendingError, RuntimeError, gymnasium.error.NoAsyncCallError, says=says)
        pair.go_on()


@on_every_engine
@pytest.mark.parametrize(
    ("given", "builtin", "says"),
    [
        ({"min_envs": 3}, ValueError, r"min_envs must be in 1 \.\.\. 2 .*got 3"),
        ({"min_envs": 0}, ValueError, "min_envs must be in .*got 0"),
        ({"min_envs": -1}, ValueError, "min_envs must be in .*got -1"),
        ({"min_envs": 1.5}, TypeError, "min_envs must be an int.*got float 1.5"),
        ({"min_envs": "2"}, TypeError, "min_envs must be an int.*got str '2'"),
        ({"min_envs": True}, TypeError, "min_envs must be an int.*got bool True"),
        ({"timeout": "5s"}, TypeError, "timeout must be a number of seconds.*got str '5s'"),
        ({"timeout": float("nan")}, ValueError, "timeout must be .*got nan"),
        ({"timeout": -1}, ValueError, "timeout must be .*got -1"),
    ],
)
def test_recv_refuses_a_wrong_count_or_timeout_and_the_results_are_still_there(engine, given, builtin, says):
    with Pair(engine) as pair:
        pair.envs.send([0, 1], [0, 1])
        refused(lambda: pair.envs.recv(**given), VecenvError, builtin, says=says)
        pair.envs.send([2, 0], [2, 3])
        assert_same(tuple(pair.envs.recv(np.int64(4), timeout=float("inf"))), pair.twin.step([0, 1, 2, 0]))
        pair.go_on()


# --- any call --------------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[vecenv.VectorEnv], Any]] = {
    "reset": lambda envs: envs.reset(seed=5),
    "step": lambda envs: envs.step([0] * 4),
    "send": lambda envs: envs.send([0] * 4),
    "recv": lambda envs: envs.recv(),
    "call": lambda envs: envs.call("render"),
    "get_attr": lambda envs: envs.get_attr("gravity"),
    "set_attr": lambda envs: envs.set_attr("gravity", 3.0),
    "render": lambda envs: envs.render(),
}


@on_every_engine
@pytest.mark.parametrize("call", CALLS)
def test_every_call_after_close_is_a_closed_error_and_close_twice_is_fine(engine, call):
    envs = make(engine, factory(render_mode="rgb_array"), 4)
    envs.reset()
    envs.close()
    envs.close()
    says = r"after a call to `close\(\)`"
    refused(lambda: CALLS[call](envs), ClosedError, RuntimeError, gymnasium.error.ClosedEnvironmentError, says=says)
    envs.close()


class Gate(Env):
    """An env whose first step waits for permission."""

    def __init__(self, inside: Any, open_gate: Any) -> None:
        super().__init__(render_mode="rgb_array")
        self.inside, self.open_gate = inside, open_gate

    def step(self, action: Any) -> Any:
        self.inside.set()
        assert self.open_gate.wait(30)
        return super().step(action)


@on_every_engine
def test_calls_from_another_thread_at_the_same_time_are_refused(engine):
    inside, gate = FORK.Event(), FORK.Event()
    twin = make("sync", factory(), 4)
    with make(engine, functools.partial(Gate, inside, gate), 4) as envs:
        envs.reset(seed=1)
        twin.reset(seed=1)
        results: list[Any] = []
        stepping = threading.Thread(target=lambda: results.append(envs.step([0, 1, 2, 0])))
        stepping.start()
        assert inside.wait(30)
        for name, call in CALLS.items():
            asked = "call" if name in ("get_attr", "render") else name
            says = rf"{asked}\(\) while another thread is inside & one vector env per thread"
            refused(lambda call=call: call(envs), CallOrderError, RuntimeError, says=says)
        gate.set()
        stepping.join(30)
        assert_same(results[0], twin.step([0, 1, 2, 0]))
        assert_same(envs.step([1] * 4), twin.step([1] * 4))
    twin.close()


@pytest.mark.parametrize(("module", "name"), [(os, "getpid"), (threading, "get_ident")])
def test_one_of_two_threads_gets_in_wherever_python_switches_between_them(monkeypatch, module, name):
    order, original, refusals = CallOrder(4, lambda: np.arange(0)), getattr(module, name), []
    order._here = _HereByPid()  # as on systems that cannot wipe memory: it calls more

    def enter_in_another_thread():
        try:
            order.enter("step")
        except CallOrderError as error:
            refusals.append(error)

    def switch() -> int:
        monkeypatch.setattr(module, name, original)
        other = threading.Thread(target=enter_in_another_thread)
        other.start()
        other.join(30)
        return original()

    monkeypatch.setattr(module, name, switch)
    enter_in_another_thread()
    assert order.inside is not None
    assert len(refusals) == 1


def in_a_fork(function: Callable[[], str]) -> str:
    """What the function returns in a child that is forked in the middle of this very test."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork in a process with threads
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, function().encode()[:4000])
        except BaseException as error:
            os.write(writer, repr(error).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        text = answers.read()
    os.waitpid(child, 0)
    return text


@on_every_engine
def test_calls_in_a_forked_child_are_refused_and_the_parent_is_not_disturbed(engine):
    with Pair(engine) as pair:

        def attempt() -> str:
            for call in CALLS.values():
                if call is not CALLS["render"]:
                    says = rf"in process {os.getpid()} & process {parent} made this vector env & make one in the child"
                    refused(lambda call=call: call(pair.envs), CallOrderError, RuntimeError, says=says)
            pair.envs.close()
            return "all refused"

        parent = os.getpid()
        assert in_a_fork(attempt) == "all refused"
        pair.go_on()


class Signalling(Env):
    """An env whose step sends a signal to the process that made it and waits until it was handled."""

    def __init__(self, target: int, handled: Any) -> None:
        super().__init__()
        self.target, self.handled = target, handled

    def step(self, action: Any) -> Any:
        # Again and again: Python misses a signal that comes just before its main thread begins to wait for a lock.
        while not self.handled.wait(0.05):
            os.kill(self.target, signal.SIGUSR2)
        return super().step(action)


@on_every_engine
def test_calls_from_a_signal_handler_inside_a_call_are_refused(engine):
    handled, errors = FORK.Event(), []

    def handler(number: int, frame: Any) -> None:
        if errors:
            return  # every env sends the signal, and a handler may be interrupted by another
        for call in (CALLS["step"], CALLS["reset"], CALLS["recv"], CALLS["get_attr"]):
            try:
                call(envs)
            except Exception as error:
                errors.append(error)
        handled.set()

    twin = make("sync", factory(), 4)
    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with make(engine, functools.partial(Signalling, os.getpid(), handled), 4) as envs:
            envs.reset(seed=1)
            twin.reset(seed=1)
            assert_same(envs.step([0, 1, 2, 0]), twin.step([0, 1, 2, 0]))
            assert_same(envs.step([1] * 4), twin.step([1] * 4))
    finally:
        signal.signal(signal.SIGUSR2, before)
        twin.close()
    assert errors
    assert {type(error) for error in errors} == {CallOrderError}
    assert all("the same thread (a signal handler?) is inside" in str(error) for error in errors)


# --- reaching the envs -----------------------------------------------------------------------------------------------


@on_every_engine
@pytest.mark.parametrize("reach", ["call", "get_attr"])
def test_a_missing_attribute_is_an_attribute_error_that_names_the_env(engine, reach):
    with Pair(engine) as pair:
        error = refused(
            lambda: getattr(pair.envs, reach)("gravitas"), EnvError, AttributeError, says="env 0 & gravitas"
        )
        assert isinstance(error, EnvError)
        assert (error.row, error.phase) == (0, "call")
        assert pair.envs.get_attr("gravity") == (1.0,) * 4
        pair.go_on()


@on_every_engine
def test_an_attribute_missing_in_one_env_names_that_env(engine):
    class Special(Env):
        only_here = 3

    fns = [Special, Special, Special, Env]
    with make(engine, fns) as envs:
        error = refused(lambda: envs.get_attr("only_here"), EnvError, AttributeError, says="env 3 & only_here")
        assert isinstance(error, EnvError)
        assert error.row == 3


@on_every_engine
@pytest.mark.parametrize("name", ["reset", "step", "close"])
@pytest.mark.parametrize("reach", ["call", "get_attr"])
def test_call_refuses_what_would_bypass_the_vector_env(engine, name, reach):
    with Pair(engine) as pair:
        refused(lambda: getattr(pair.envs, reach)(name), ConfigError, ValueError, says=f"use `{name}` directly instead")
        pair.go_on()


@on_every_engine
def test_private_names_can_be_read_as_in_gymnasium(engine):
    with Pair(engine) as pair:
        assert pair.envs.get_attr("_secret") == (5,) * 4


@on_every_engine
@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], (1.0,) * 5, []], ids=["three", "five", "none"])
def test_set_attr_refuses_a_wrong_number_of_values_and_sets_none(engine, values):
    with Pair(engine) as pair:
        says = f"`{len(values)}` values for 4 environments"
        refused(lambda: pair.envs.set_attr("gravity", values), SpaceError, ValueError, says=says)
        assert pair.envs.get_attr("gravity") == (1.0,) * 4
        pair.go_on()


@pytest.mark.parametrize("bad", [0, 3])
def test_set_attr_refuses_a_value_that_cannot_be_sent_and_sets_none(bad):
    values: list[Any] = [2.0] * 4
    values[bad] = LOCK
    with Pair("process") as pair:
        says = "cannot be sent to a worker & lock & engine='sync'"
        refused(lambda: pair.envs.set_attr("gravity", values), TypeError, pickle.PicklingError, says=says)
        assert pair.envs.get_attr("gravity") == (1.0,) * 4
        pair.go_on()


@on_every_engine
def test_a_result_that_cannot_be_sent_names_the_env(engine):
    with Pair(engine) as pair:
        if engine == "process":
            refused(lambda: pair.envs.get_attr("lock"), EnvError, TypeError, says="env 0 & cannot be sent & lock")
        else:
            assert len(set(map(id, pair.envs.get_attr("lock")))) == 4
        assert pair.envs.get_attr("gravity") == (1.0,) * 4
        pair.go_on()


@on_every_engine
def test_render_without_a_render_mode_says_how_to_get_one(engine):
    with Pair(engine) as pair:
        refused(pair.envs.render, ConfigError, ValueError, says="no render_mode & render_mode='rgb_array'")
        pair.go_on()


@on_every_engine
def test_render_with_a_render_mode_gives_one_frame_per_env(engine):
    with make(engine, factory(render_mode="rgb_array"), 4) as envs:
        envs.reset()
        assert [frame.shape for frame in envs.render()] == [(2, 2, 3)] * 4
