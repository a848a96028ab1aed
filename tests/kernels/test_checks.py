"""Checked native code: what Python would raise for is an error that names env, field, value and line."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import vecenv
from tests.kernels import checked_kernels
from tests.kernels.checked_kernels import EXPECTED, GOOD, MISTAKES, Endless, Mistakes
from tests.kernels.shipped import SHIPPED
from vecenv._batch.layout import Layout
from vecenv._make.source import find_build
from vecenv.envs.taxi import ID as TAXI
from vecenv.errors import ConfigError, EngineRefused, KernelError, KernelFault
from vecenv.kernel.backend import native_text
from vecenv.testing._difference import difference

LINES = Path(checked_kernels.__file__).read_text().splitlines()
WRONG = [row == 3 for row in range(8)]


@pytest.fixture(scope="module")
def envs():
    made = vecenv.make(Mistakes, 8, check="bounds", wrong=WRONG)
    yield made
    made.close()


@pytest.fixture(scope="module")
def endless():
    made = vecenv.make(Endless, 4, check="bounds", hang=[False, True, False, False])
    yield made
    made.close()


def _texts(definition):
    kernel = find_build(definition)[0]
    parameters = kernel.parameters({}, 1)
    layouts = map(Layout, kernel.spaces(kernel.record(parameters)))
    shapes = {name: column.shape[1:] for name, column in parameters.items() if column.ndim > 1}
    arguments = (kernel, *layouts, shapes)
    return native_text(*arguments), native_text(*arguments, check=True)


@pytest.mark.parametrize("mistake", range(MISTAKES))
def test_a_mistake_is_an_error_that_names_env_field_value_and_line(envs, mistake):
    envs.reset(seed=5)
    with pytest.raises(KernelFault) as caught:
        envs.step(np.full(8, mistake))
    error, (problem, field, value, limit, line) = caught.value, EXPECTED[mistake]
    assert (error.row, error.rows, error.phase, error.seed, error.action) == (3, (3,), "step", 8, mistake)
    assert (error.kernel, error.problem, error.field) == ("Mistakes", problem, field)
    assert (error.value, error.limit) == (value, limit)
    assert line in LINES[error.line - 1]
    assert f"line {error.line} of {checked_kernels.__file__}" in str(error)
    assert error.file == checked_kernels.__file__


def test_the_other_envs_go_on_as_if_nothing_had_happened(envs):
    envs.reset(seed=5)
    envs.step(np.full(8, GOOD))
    expected = envs.step(np.full(8, GOOD))
    envs.reset(seed=5)
    envs.step(np.full(8, GOOD))
    with pytest.raises(KernelFault):
        envs.step(np.full(8, 0))
    step = envs.recv()
    assert step.env_ids.tolist() == [0, 1, 2, 4, 5, 6, 7]
    others = step.env_ids
    assert np.array_equal(step.obs, expected[0][others])
    mask = np.array(WRONG)
    envs.reset(seed=9, options={"reset_mask": mask})
    envs.step(np.full(8, GOOD))


def test_several_envs_fail_one_after_the_other(envs):
    envs.reset(seed=0)
    envs.set_attr("wrong", [True, False] * 4)
    envs.reset(seed=0)
    failed = []
    with pytest.raises(KernelFault) as caught:
        envs.step(np.zeros(8, np.int64))
    failed.append(caught.value.row)
    while len(failed) < 4:
        with pytest.raises(KernelFault) as caught:
            envs.recv()
        failed.append(caught.value.row)
    assert failed == [0, 2, 4, 6]
    assert envs.recv().env_ids.tolist() == [1, 3, 5, 7]
    envs.set_attr("wrong", WRONG)
    envs.reset(seed=0)


def test_a_mistake_within_send_and_recv_is_raised_by_recv(envs):
    envs.reset(seed=0)
    envs.send(np.zeros(3, np.int64), env_ids=[2, 3, 4])
    with pytest.raises(KernelFault, match="env 3 in step"):
        envs.recv()
    assert envs.recv().env_ids.tolist() == [2, 4]
    envs.reset(seed=0)


def test_a_rollout_names_the_step(envs):
    envs.reset(seed=0)
    actions = np.full((5, 8), GOOD)
    actions[2:] = 4
    with pytest.raises(KernelFault, match="env 3 in step 2 of the rollout") as caught:
        envs.rollout(actions)
    assert (caught.value.rows, caught.value.value) == ((3,), 150)
    envs.reset(seed=0)


def test_a_policy_is_checked_too(endless):
    def wrong_place(obs):
        return int(obs[int(obs[0]) + 1])

    endless.reset(seed=0)
    with pytest.raises(KernelFault, match="index 1 is out of range for obs") as caught:
        endless.rollout(policy=wrong_place, steps=2)
    assert caught.value.rows == (0, 1, 2, 3)
    endless.reset(seed=0)


def test_a_fault_is_pickled_and_envs_made_from_a_pickle_are_checked(envs):
    envs.reset(seed=0)
    again = pickle.loads(pickle.dumps(envs))
    with pytest.raises(KernelFault) as caught:
        again.step(np.zeros(8, np.int64))
    again.close()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.line, copy.field) == (str(caught.value), caught.value.line, "s.board")


def test_states_of_checked_envs_fit_unchecked_ones(endless):
    endless.reset(seed=3)
    with vecenv.make(Endless, 4) as unchecked:
        unchecked.reset(seed=1)
        for _ in range(2):
            endless.step(np.zeros(4, np.int64))
        unchecked.set_state(endless.get_state())
        assert np.array_equal(endless.step(np.zeros(4, np.int64))[0], unchecked.step(np.zeros(4, np.int64))[0])


# --- what is compiled ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "CliffWalking-v1"])
def test_a_kernel_with_nothing_to_check_has_the_same_code(id):
    plain, checked = _texts(id)
    assert plain == checked


def test_places_that_are_right_for_sure_are_not_checked():
    @vecenv.kernel("vecenv-Sure-v0")
    class Sure:
        observation_space = Box(0, 1, (4, 3), np.float32)
        action_space = Discrete(2)
        state = {"board": (np.int8, (4, 3)), "x": np.int8}

        def reset(s, rng, p):
            s.board[:] = 0
            s.x = 3

        def step(s, action, rng, p):
            for i in range(3):
                for j in range(2, -1, -1):
                    s.board[i + 1, j] = s.board[i, j - 3]
                    s.board[i % 4, (i * j) % 3] = 1
            s.x = 100 // 7
            return s.board[-1, -1] / 2.0, s.board[2, 1] > 1

        def observe(s, obs, p):
            obs[:] = s.board

    plain, checked = _texts(Sure)
    assert plain == checked


def test_only_loops_that_may_not_end_look_for_an_interrupt():
    assert "poll__" in _texts(TAXI)[0]
    assert "poll__" not in _texts("CartPole-v1")[0]


# --- the option ------------------------------------------------------------------------------------------------------


def test_check_is_an_option_of_the_compiled_engine_alone():
    with pytest.raises(EngineRefused, match=r"the sync engine has no option check .* use engine='compiled'"):
        vecenv.make("CartPole-v1", 2, engine="sync", check="bounds")
    with pytest.raises(EngineRefused, match="use engine='compiled'"):
        vecenv.make("CartPole-v1", 2, engine="thread", check="bounds")
    with pytest.raises(ConfigError, match="check must be one of 'bounds', got 'everything'"):
        vecenv.make("CartPole-v1", 2, check="everything")
    with vecenv.make("CartPole-v1", 2, check="bounds") as envs:
        assert envs.engine.name == "compiled"


# --- parameters that were never tried --------------------------------------------------------------------------------


@vecenv.kernel("vecenv-Reach-v0")
class Reach:
    observation_space = Discrete(4)
    action_space = Discrete(2)
    state = {"x": int}

    class Params:
        start = 0
        far = 1.0

    def reset(s, rng, p):
        s.x = 0

    def step(s, action, rng, p):
        s.x += TENTHS[p.start]
        return p.far, False

    def observe(s, obs, p):
        obs[0] = 0


TENTHS = np.array([1, 2, 3])


def test_parameters_beyond_all_that_were_tried_are_tried_in_python():
    with pytest.raises(KernelError, match=r"IndexError.*size 3"):
        vecenv.make(Reach, 4, start=[0, 1, 3, 0])
    envs = vecenv.make(Reach, 4, start=[0, 1, 2, 0])
    envs.reset(seed=0)
    with pytest.raises(KernelError, match="IndexError"):
        envs.set_attr("start", [0, 0, 0, 7])
    with pytest.raises(KernelError, match="IndexError"):
        envs.reset(options={"start": -4})
    assert envs.get_attr("start") == (0, 1, 2, 0)
    envs.reset(seed=0)
    envs.step(np.zeros(4, np.int64))
    envs.close()


def test_only_values_beyond_are_tried(monkeypatch):
    from vecenv.kernel.language import snapshot

    envs = vecenv.make(Reach, 4)
    tried = []
    monkeypatch.setattr(snapshot, "try_out", lambda env: tried.append(env.params.far))
    envs.reset(seed=0)
    envs.set_attr("far", [1.0, 3.0, 2.0, -1.0])
    assert tried == [3.0, -1.0]
    envs.set_attr("far", [2.9, 0.0, -0.5, 1.0])
    envs.reset(options={"far": 2.5})
    assert len(tried) == 2
    envs.reset(options={"far": 3.5})
    assert tried[2:] == [3.5]
    envs.close()


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys, threading, numpy as np, vecenv
from tests.kernels.checked_kernels import Endless
count, workers, row = map(int, sys.argv[1:])
envs = vecenv.make(Endless, count, workers=workers)
envs.reset(seed=0)
envs.engine._tuner.together, envs.engine._tuner.trying = workers > 1, False
envs.set_attr("hang", [i == row for i in range(count)])
envs.reset(seed=0)
actions = np.ones(count, np.int64)
print("begun", flush=True)
try:
    envs.step(actions)
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    envs.step(actions)
except vecenv.errors.NotResetError:
    print("needs a reset", flush=True)
envs.set_attr("hang", False)
envs.reset(seed=1)
envs.step(actions)
envs.close()
print("closed", threading.active_count(), flush=True)
"""


@pytest.mark.parametrize(("count", "workers", "row"), [(4, 1, 2), (4096, 2, 4000)])
def test_ctrl_c_ends_a_native_loop_that_does_not_end(tmp_path, count, workers, row):
    arguments = [sys.executable, "-c", PROGRAM, *map(str, (count, workers, row))]
    vecenv.make(Endless, 1).close()  # compiled before the clock runs
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2], preexec_fn=_default_interrupt
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)  # now it is in the loop, or soon will be: before, Python itself would handle the signal
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out.split("\n") == ["interrupted", "needs a reset", "closed 1", ""]
    assert process.returncode == 0


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with it ignored


def test_an_endless_loop_of_checked_code_ends_by_its_budget(endless):
    endless.reset(seed=0)
    with pytest.raises(KernelFault, match="does it end") as caught:
        endless.step(np.ones(4, np.int64))
    assert (caught.value.row, caught.value.value) == (1, 1_000_001)
    endless.reset(seed=0)


# --- every kernel that comes with vecenv -----------------------------------------------------------------------------


def _same_with_checks(id: str, autoreset: str, steps: int) -> None:
    with (
        vecenv.make(id, 16, autoreset=autoreset) as plain,
        vecenv.make(id, 16, autoreset=autoreset, check="bounds") as checked,
    ):
        assert checked.engine.check
        _same(plain.reset(seed=7), checked.reset(seed=7))
        plain.action_space.seed(7)
        for _ in range(steps):
            actions = plain.action_space.sample()
            _same(plain.step(actions), checked.step(actions))


def _same(one, other):
    assert difference(one, other, "results", None) is None


@pytest.mark.parametrize("id", ["FrozenLake-v1", "2048-v0", "MiniGrid-FourRooms-v0"])
def test_checks_change_no_bit(id):
    _same_with_checks(id, "same-step", 60)


@pytest.mark.parametrize("id", SHIPPED)
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_checks_change_no_bit_of_any_kernel(id, autoreset):
    _same_with_checks(id, autoreset, 400)
