"""`vecenv.replay`: one env, in this process, held against what was recorded."""

import subprocess
import sys
import time
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.recording.by_hand import by_id, record, reference
from tests.recording.replayed_envs import Drifting, GlobalNoise, Nested, Walk
from vecenv.errors import ConfigError, ConfigTypeError, EnvError, UnknownEnv, UnsafeFile
from vecenv.recording import Recording
from vecenv.testing import FaultEnv

ACTIONS = [np.int64(number % 3) for number in range(12)]


def begun(env):
    """An env in the middle of its stream."""
    env.reset(seed=1)
    env.step(1)
    return env


def failing(kind, failure, *, phase="step", **options):
    """What the recorder writes of a FaultEnv that fails in its fifth step, or in its reset."""
    steps = 5 if phase == "step" else 0
    options = {"index": 1, "kind": kind, "at": max(steps, 1), "where": phase, "length": 10**6, **options}
    made = record(FaultEnv(1, length=10**6), reference(FaultEnv, **options), [np.int64(3)] * steps, seed=4)
    came = max(steps - 1, 0)
    return replace(
        made,
        obs=tuple(column[:steps] for column in made.obs),
        reward=made.reward[:came],
        terminated=made.terminated[:came],
        truncated=made.truncated[:came],
        failure={"phase": phase, "message": "", "type": None, **failure},
    )


# --- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("options", [None, {"shift": 2.5}])
def test_an_episode_is_replayed_bit_for_bit_from_a_seed_or_from_the_middle_of_a_stream(seed, options, tmp_path):
    made = record(begun(Walk()), reference(Walk), ACTIONS, seed=seed, options=options)
    for what in (made, made.save(tmp_path / "one.npz"), str(tmp_path / "one.npz")):
        told = vecenv.replay(what, trust=True)
        assert (told.outcome, told.reproduced, told.steps) == ("clean", True, 12)
        assert told.difference is None
        assert told.failure is None


def test_registered_envs_need_no_trust():
    made = record(gymnasium.make("CartPole-v1"), by_id("CartPole-v1"), [np.int64(1)] * 30, seed=3)
    assert made.terminated[-1]
    assert vecenv.replay(made).text == f"replayed: {made.steps} steps, every bit as recorded"


def test_arguments_and_limits_of_registered_envs_are_those_of_the_recording():
    env = gymnasium.make("CartPole-v1", max_episode_steps=4, sutton_barto_reward=True)
    build = {**by_id("CartPole-v1", sutton_barto_reward=True), "max_episode_steps": 4}
    made = record(env, build, [np.int64(number % 2) for number in range(9)], seed=3)
    assert made.truncated.tolist() == [False, False, False, True]
    assert vecenv.replay(made).outcome == "clean"


def test_pictures_numbers_and_texts_are_compared():
    actions = [{"push": np.full(2, number, np.float32), "word": "abc"[:number]} for number in range(4)]
    made = record(begun_nested(), reference(Nested), actions, seed=3)
    assert made.digested[made.obs_paths.index("picture")]
    assert vecenv.replay(made, trust=True).outcome == "clean"
    told = vecenv.replay(made, Nested, env_kwargs={"spoilt": True})
    assert told.outcome == "differs"
    assert (told.difference.step, told.difference.field) == (2, "obs.picture")
    words = replace(made, obs=tuple(("", "", "x", "ab", "abc") if type(one) is tuple else one for one in made.obs))
    assert vecenv.replay(words, Nested).difference.field == "obs.more.1"


def begun_nested():
    env = Nested()
    env.reset(seed=0)
    return env


def test_wrappers_of_the_build_are_put_around_the_env():
    wrapper = {"kind": "reference", "where": "gymnasium.wrappers:RescaleObservation", "args": [], "kwargs": {}}
    wrapper["kwargs"] = {"min_obs": np.float32(0), "max_obs": np.float32(1)}
    limit = {
        "kind": "reference",
        "where": "gymnasium.wrappers:TimeLimit",
        "args": [],
        "kwargs": {"max_episode_steps": 3},
    }
    plain = gymnasium.make("Pendulum-v1")
    env = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.RescaleObservation(plain, **wrapper["kwargs"]), 3)
    made = record(env, {**by_id("Pendulum-v1"), "wrappers": [wrapper, limit]}, [np.zeros(1, np.float32)] * 9, seed=3)
    assert made.steps == 3
    assert vecenv.replay(made, trust=True).outcome == "clean"
    with pytest.raises(UnsafeFile, match=r"wrappers:RescaleObservation and gymnasium\.wrappers:TimeLimit"):
        vecenv.replay(made)


def test_actions_that_fit_no_column_are_handed_on_as_they_were_given():
    class Any(Walk):
        def step(self, action):
            return super().step(len(action) if isinstance(action, str) else action)

    made = replace(record(Any(), reference(Walk), ACTIONS[:4], seed=1), given={2: "xx", 3: ""})
    told = vecenv.replay(made, Any)
    assert told.difference is None
    assert vecenv.replay(replace(made, given={2: "x"}), Any).difference.step == 3


def test_on_step_sees_the_env_after_the_reset_and_after_each_step():
    seen = []
    made = record(Walk(), reference(Walk), ACTIONS, seed=1)
    vecenv.replay(made, Walk, on_step=lambda step, env: seen.append((step, env.unwrapped.steps, env.unwrapped.x)))
    assert [step for step, *_ in seen] == [steps for _, steps, _ in seen] == list(range(13))
    np.testing.assert_array_equal([x for *_, x in seen], made.obs[0][:, 0])


# --- failures --------------------------------------------------------------------------------------------------------


def test_the_same_error_comes_at_the_same_step_with_a_traceback_that_begins_in_the_env():
    made = record(begun(Walk(fails_at=7)), reference(Walk, fails_at=7), ACTIONS)
    told = vecenv.replay(made, trust=True)
    assert told.outcome == "reproduced"
    assert told.steps == 6
    assert (told.failure.step, told.failure.type, told.failure.message) == (
        7,
        "ZeroDivisionError",
        "the walk broke at 7",
    )
    lines = told.failure.traceback.splitlines()
    assert "replayed_envs.py" in lines[1]
    assert lines[-1] == "ZeroDivisionError: the walk broke at 7"
    assert told.text.splitlines()[0] == "reproduced: ZeroDivisionError in step 7, as recorded"


def test_a_traceback_has_what_led_to_the_error_and_not_what_was_handled_around_the_replay():
    class Nested(Walk):
        def step(self, action):
            try:
                return super().step(action)
            except ZeroDivisionError:
                raise RuntimeError("while walking")  # the context is what is looked at

    made = record(Nested(fails_at=2), reference(Walk), ACTIONS, seed=2)
    try:
        raise LookupError("something else")
    except LookupError:
        told = vecenv.replay(made, Nested, env_kwargs={"fails_at": 2})
    assert told.outcome == "reproduced"
    assert "ZeroDivisionError" in told.failure.traceback
    assert "LookupError" not in told.failure.traceback
    assert "runner.py" not in told.failure.traceback


def test_a_reset_that_failed_fails_again():
    made = failing("raise", {"kind": "raised", "type": "ValueError", "message": "boom in env 1"}, phase="reset")
    told = vecenv.replay(made, trust=True)
    assert told.outcome == "reproduced"
    assert told.text == "reproduced: ValueError in the reset, as recorded\n0 steps before it, every bit as recorded"


@pytest.mark.parametrize("kind", ["four-values", "no-values", "reward-none", "flag-string", "obs-shape", "obs-none"])
def test_what_cannot_be_used_cannot_be_used_again(kind):
    made = failing(kind, {"kind": "invalid", "type": "SpaceError"})
    told = vecenv.replay(made, trust=True)
    assert (told.outcome, told.failure.step, told.failure.type) == ("reproduced", 5, "SpaceError")


@pytest.mark.parametrize("kind", ["system-exit", "keyboard-interrupt", "two-args", "unpicklable"])
def test_odd_exceptions_are_failures_of_the_env(kind):
    kinds = {"system-exit": "SystemExit", "keyboard-interrupt": "KeyboardInterrupt"}
    kinds |= {"two-args": "TwoArgumentsError", "unpicklable": "UnpicklableError"}
    told = vecenv.replay(failing(kind, {"kind": "raised", "type": kinds[kind]}), trust=True)
    assert told.outcome == "reproduced"


def test_ctrl_c_is_no_failure_of_the_env():
    def interrupts(step, env):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vecenv.replay(record(Walk(), reference(Walk), ACTIONS, seed=1), Walk, on_step=interrupts)
    made = failing("keyboard-interrupt", {"kind": "raised", "type": "ValueError"})
    with pytest.raises(KeyboardInterrupt):
        vecenv.replay(made, trust=True)


def test_a_number_that_is_not_finite_comes_again():
    class Nan(Walk):
        def _obs(self):
            return np.array([np.nan if self.steps == 4 else self.x, self.steps])

    made = record(Nan(), reference(Walk), ACTIONS[:4], seed=2, failure={"kind": "not-finite", "type": "NotFiniteError"})
    told = vecenv.replay(made, Nan)
    assert told.outcome == "reproduced"
    assert told.steps == 3
    assert told.text == (
        "reproduced: obs[0] is nan after step 4, as recorded\n3 steps before it, every bit as recorded"
    )
    told = vecenv.replay(made, Walk)
    assert (told.outcome, told.difference.step, told.steps) == ("differs", 4, 4)


def test_a_reset_that_is_not_finite_has_no_steps_before_it():
    class Nan(Walk):
        def _obs(self):
            return np.array([self.x, np.inf])

    made = record(Nan(), reference(Walk), [], seed=2, failure={"kind": "not-finite", "type": "NotFiniteError"})
    told = vecenv.replay(made, Nan)
    assert told.steps == 0
    assert told.text == (
        "reproduced: obs[1] is inf after the reset, as recorded\n0 steps before it, every bit as recorded"
    )


def test_numbers_that_a_wrapper_spoilt_are_not_blamed_on_the_env():
    made = record(
        Walk(), reference(Walk), ACTIONS[:4], seed=2, failure={"kind": "not-finite", "type": "NotFiniteError"}
    )
    told = vecenv.replay(made, Walk)
    assert told.outcome == "not reproduced"
    assert "look at the wrappers" in told.text


@pytest.mark.parametrize("kind", ["hang", "hang-with-gil"])
def test_what_hung_hangs_again_for_a_bounded_time_and_says_where(kind):
    started = time.monotonic()
    told = vecenv.replay(failing(kind, {"kind": "hung"}), trust=True, patience=0.3)
    assert time.monotonic() - started < 5
    assert told.outcome == "reproduced"
    assert f"_{kind.replace('-', '_')}" in told.failure.traceback
    assert "runner.py" not in told.failure.traceback


@pytest.mark.parametrize(
    ("kind", "death"),
    [
        ("kill", {"signal": "SIGKILL", "exitcode": -9}),
        ("segfault", {"signal": "SIGSEGV", "exitcode": -11}),
        ("os-exit", {"signal": None, "exitcode": 9}),
        ("fork-and-die", {"signal": None, "exitcode": 9}),
    ],
)
@pytest.mark.parametrize("phase", ["step", "reset"])
def test_what_ended_a_worker_is_tried_in_a_copy_of_this_process(kind, death, phase):
    made = failing(kind, {"kind": "died", **death}, phase=phase, seconds=0.2)
    told = vecenv.replay(made, trust=True)
    assert told.outcome == "reproduced"
    assert told.failure.type == (death["signal"] or "exit code 9")
    assert ("_segfault" in told.failure.traceback) == (kind == "segfault")


def test_what_ended_a_worker_and_does_not_now_is_said():
    told = vecenv.replay(failing("none", {"kind": "died", "signal": "SIGSEGV", "exitcode": -11}), trust=True)
    assert told.outcome == "not reproduced"
    assert told.text.startswith("not reproduced: nothing failed, the recording has a death in step 5 (SIGSEGV)")
    told = vecenv.replay(failing("kill", {"kind": "died", "signal": "SIGSEGV", "exitcode": -11}), trust=True)
    assert told.outcome == "not reproduced"
    assert "SIGKILL" in told.text
    told = vecenv.replay(failing("raise", {"kind": "hung"}), trust=True)
    assert told.text.startswith("not reproduced: ValueError in step 5 (boom in env 1), the recording has a hang")


def test_a_failure_that_does_not_come_again_is_said():
    made = record(Walk(fails_at=7), reference(Walk), ACTIONS, seed=2)
    told = vecenv.replay(made, trust=True)
    assert (told.outcome, told.reproduced, told.failure) == ("not reproduced", False, None)
    assert told.text.startswith("not reproduced: nothing failed, the recording has ZeroDivisionError in step 7")
    told = vecenv.replay(made, Walk, env_kwargs={"fails_at": 3})
    assert "ZeroDivisionError in step 3 (the walk broke at 3)" in told.text


def test_other_words_of_the_same_error_are_told():
    made = record(Walk(fails_at=7), reference(Walk, fails_at=7), ACTIONS, seed=2)
    made = replace(made, failure={**made.failure, "message": "the walk broke at 0x7f"})
    told = vecenv.replay(made, trust=True)
    assert told.outcome == "reproduced"
    assert told.text.endswith("it now says: the walk broke at 7")


# --- differences -----------------------------------------------------------------------------------------------------


def test_hidden_global_randomness_is_found_with_step_and_field():
    told = vecenv.replay(record(GlobalNoise(), reference(GlobalNoise), ACTIONS, seed=3), trust=True)
    assert told.outcome == "differs"
    assert (told.difference.step, told.difference.field) == (3, "obs")
    assert "obs after step 3: [0] is " in told.text
    assert "np.random" in told.text
    assert told.steps == 12


def test_what_is_kept_from_one_episode_to_the_next_is_found():
    told = vecenv.replay(record(begun(Drifting()), reference(Drifting), ACTIONS), trust=True)
    assert (told.difference.step, told.difference.field) == (1, "reward")
    assert told.difference.want - told.difference.got == pytest.approx(1.0)


def test_an_env_that_was_given_may_be_the_one_to_blame():
    hint = "env= / --env makes another env than was recorded (arguments, wrappers)"
    made = record(Walk(fails_at=7), reference(Walk), ACTIONS, seed=3)
    assert vecenv.replay(made, Walk).text.splitlines()[-1] == f"maybe {hint}"
    assert hint not in vecenv.replay(made, trust=True).text
    assert hint not in vecenv.replay(made, Walk, env_kwargs={"fails_at": 7}).text
    made = record(GlobalNoise(), reference(GlobalNoise), ACTIONS, seed=3)
    assert vecenv.replay(made, GlobalNoise).text.endswith(f"from one episode to the next; or {hint}")
    assert hint not in vecenv.replay(made, trust=True).text


def test_a_difference_does_not_hide_the_failure():
    made = record(begun(Drifting(fails_at=7)), reference(Drifting, fails_at=7), ACTIONS)
    told = vecenv.replay(made, trust=True)
    assert told.outcome == "differs"
    assert told.same_failure
    assert "it failed as recorded all the same" in told.text


@pytest.mark.parametrize("field", ["terminated", "truncated"])
def test_flags_are_compared_and_an_ended_episode_is_not_stepped(field):
    made = record(Walk(length=20), reference(Walk), ACTIONS, seed=3)
    flags = getattr(made, field).copy()
    flags[4] = True
    told = vecenv.replay(replace(made, **{field: flags}), trust=True)
    assert (told.difference.step, told.difference.field) == (5, field)
    told = vecenv.replay(made, Walk, env_kwargs={"length": 3})
    assert (told.difference.step, told.difference.field, told.steps) == (3, "truncated", 3)


def test_minus_zero_differs_from_zero_and_nan_from_nothing():
    made = record(Walk(), reference(Walk), ACTIONS, seed=3)
    zero = replace(made, obs=(np.where(made.obs[0] == 0, -0.0, made.obs[0]),))
    assert vecenv.replay(zero, Walk).difference.step == 0

    class Nan(Walk):
        def _obs(self):
            return np.array([-np.nan, self.steps])

    nan = made.obs[0].copy()
    nan[:, 0] = np.nan
    assert vecenv.replay(replace(made, obs=(nan,)), Nan).difference is None


# --- trust -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A module that leaves a trace when it is imported."""
    (tmp_path / "trap_module.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'sprung')!r}).touch()\n"
        "import gymnasium\n"
        "def make(*args, **kwargs):\n    return gymnasium.make('CartPole-v1')\n"
        "if __name__ != 'nothing':\n"
        "    gymnasium.register('Trap-v0', entry_point='trap_module:make')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "sprung"
    sys.modules.pop("trap_module", None)
    gymnasium.registry.pop("Trap-v0", None)


@pytest.mark.parametrize(
    "build",
    [
        {"kind": "reference", "where": "trap_module:make", "args": [], "kwargs": {}},
        {"kind": "id", "id": "trap_module:Trap-v0", "kwargs": {}},
        {"kind": "id", "id": "Trap-v0", "entry_point": "trap_module:make", "kwargs": {}},
        {
            **by_id("CartPole-v1"),
            "wrappers": [{"kind": "reference", "where": "trap_module:make", "args": [], "kwargs": {}}],
        },
    ],
    ids=["function", "module-of-id", "entry-point", "wrapper"],
)
def test_nothing_that_a_file_names_is_imported_without_trust(build, trap, tmp_path):
    made = record(gymnasium.make("CartPole-v1"), {"wrappers": [], **build}, [np.int64(1)] * 3, seed=3)
    path = made.save(tmp_path / "hostile.npz")
    with pytest.raises(UnsafeFile, match=r"trap_module.*nothing was\. If you trust .*trust=True \(--trust\)"):
        vecenv.replay(path)
    assert not trap.exists()
    assert vecenv.replay(path, "CartPole-v1").outcome == "clean"
    assert not trap.exists()
    assert vecenv.replay(path, trust=True).outcome == "clean"
    assert trap.exists()


def test_a_kernel_of_another_place_under_a_known_id_is_not_run_without_trust(trap):
    build = {"kind": "kernel", "id": "CartPole-v1", "where": "trap_module:make", "params": {}, "wrappers": []}
    made = record(gymnasium.make("CartPole-v1"), build, [np.int64(1)] * 3, seed=3)
    with pytest.raises(UnsafeFile, match="trap_module:make"):
        vecenv.replay(made)
    assert not trap.exists()


def test_arguments_that_look_like_code_need_trust_too():
    made = record(
        gymnasium.make("CartPole-v1"), by_id("CartPole-v1", deep=[{"env_id": "evil.module:Env-v0"}]), [], seed=3
    )
    with pytest.raises(UnsafeFile, match=r"names code, evil\.module:Env-v0, that"):
        vecenv.replay(made)
    made = record(gymnasium.make("CartPole-v1"), by_id("CartPole-v1"), [], seed=3)
    assert vecenv.replay(made).outcome == "clean"


@pytest.mark.parametrize(
    ("build", "example"),
    [
        (reference(Walk), "tests.recording.replayed_envs:Walk"),
        (reference(Walk, length=3), "module:function"),
        (reference(Walk) | {"args": [3]}, "module:function"),
        (reference(Walk) | {"wrappers": [reference(gymnasium.wrappers.TimeLimit)]}, "module:function"),
        (reference(Walk) | {"where": "__main__:Walk"}, "module:function"),
        (by_id("my_walks:Walk-v0"), "my_walks:Walk-v0"),
        (
            by_id("Walk-v7") | {"entry_point": "tests.recording.replayed_envs:Walk", "max_episode_steps": 5},
            "package:Walk-v7",
        ),
        (by_id("Walk-v7", length=3) | {"entry_point": "tests.recording.replayed_envs:Walk"}, "module:function"),
        (by_id("CartPole-v1") | {"wrappers": [reference(gymnasium.wrappers.TimeLimit)]}, "module:function"),
        ({"kind": "kernel", "id": "My-v0", "where": "mine:My", "params": {}, "wrappers": []}, "mine:My"),
        ({"kind": "kernel", "id": "My-v0", "where": "mine:My", "params": {"g": 1}, "wrappers": []}, "module:function"),
    ],
)
def test_who_does_not_trust_is_told_of_an_env_that_is_all_of_it(build, example):
    with pytest.raises(UnsafeFile, match=rf"with its arguments and wrappers: env=\.\.\. \(--env {example}\)$"):
        vecenv.replay(record(Walk(), build, ACTIONS, seed=3))


def test_a_function_that_is_imported_already_is_not_called_without_trust():
    build = {"kind": "reference", "where": "os:system", "args": ["exit 3"], "kwargs": {}, "wrappers": []}
    with pytest.raises(UnsafeFile, match="os:system"):
        vecenv.replay(record(Walk(), build, ACTIONS, seed=3))


@pytest.fixture
def script(tmp_path):
    """The path of a script; what loading it leaves behind is taken away."""
    yield tmp_path / "script_of_walks.py"
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]
    sys.modules.pop("script_of_walks", None)


def of_script(script, name, **more):
    """How something that a script defines is named."""
    return {"kind": "reference", "where": f"__main__:{name}", "args": [], "kwargs": {}, "file": str(script), **more}


def test_envs_of_a_script_come_from_its_file_which_is_not_run_further(script, tmp_path):
    script.write_text(
        """\"\"\"A training that must not begin.\"\"\"
from __future__ import annotations
from tests.recording.replayed_envs import Walk
LENGTH = 50
class Mine(Walk):
    def __init__(self, length: NotThere = LENGTH):
        super().__init__(length=helper(length))
1 / 0
def helper(value):
    return value
if __name__ == "__main__":
    1 / 0
"""
    )
    build = of_script(script, "Mine", wrappers=[])
    made = record(Walk(), build, ACTIONS, seed=3)
    with pytest.raises(UnsafeFile, match=f"__main__:Mine in {script}"):
        vecenv.replay(made)
    assert vecenv.replay(made, trust=True).outcome == "clean"
    with pytest.raises(ConfigError, match=r"gone\.py"):
        vecenv.replay(record(Walk(), {**build, "file": str(tmp_path / "gone.py")}, ACTIONS, seed=3), trust=True)
    with pytest.raises(ConfigError, match="at a prompt or in a notebook"):
        vecenv.replay(record(Walk(), {**build, "file": None}, ACTIONS, seed=3), trust=True)


@pytest.mark.parametrize("first", ["Base", "Checked"])
def test_an_env_and_its_wrappers_of_one_script_see_the_same_classes(first, script, tmp_path):
    base = "class Base(Walk):\n    pass\n"
    checked = (
        "class Checked(gymnasium.Wrapper):\n"
        "    def __init__(self, env):\n"
        "        assert isinstance(env.unwrapped, Base)\n"
        "        super().__init__(env)\n"
    )
    script.write_text(
        "import gymnasium\nfrom tests.recording.replayed_envs import Walk\n"
        f"with open({str(tmp_path / 'runs')!r}, 'a') as runs:\n    runs.write('x')\n"
        + (base + checked if first == "Base" else checked + base)
    )
    build = of_script(script, "Base", wrappers=[of_script(script, "Checked"), of_script(script, "Checked")])
    made = record(Walk(), build, ACTIONS, seed=3)
    assert vecenv.replay(made, trust=True).outcome == "clean"
    assert (tmp_path / "runs").read_text() == "x"
    assert vecenv.replay(made, trust=True).outcome == "clean"  # from the file as it is then
    assert (tmp_path / "runs").read_text() == "xx"


def test_constants_that_follow_an_env_in_its_script_are_there_and_other_values_are_not_made(script):
    script.write_text(
        """from tests.recording.replayed_envs import Walk
class Mine(Walk):
    def __init__(self):
        assert (HALF, OTHER, NAMES) == (-25, 25, {"a": [1, None]})
        assert "made" not in globals()
        super().__init__(length=LENGTH)
LENGTH: int = 50
LATER: int
HALF, OTHER = -25, 25
NAMES = ALIAS = {"a": [1, None]}
made = 1 / 0
made.length = 3
made[0], made = 3, 4
made += 1
"""
    )
    made = record(Walk(), of_script(script, "Mine", wrappers=[]), ACTIONS, seed=3)
    assert vecenv.replay(made, trust=True).outcome == "clean"


def test_what_a_script_does_before_the_second_name_is_done_once(script, tmp_path):
    script.write_text(
        "import gymnasium\nfrom tests.recording.replayed_envs import Walk\n"
        "class Base(Walk):\n    pass\n"
        f"with open({str(tmp_path / 'runs')!r}, 'a') as runs:\n    runs.write('x')\n"
        "if runs:\n    class Limit(gymnasium.wrappers.TimeLimit):\n        pass\n"
        "1 / 0\n"
    )
    limit = of_script(script, "Limit", kwargs={"max_episode_steps": 4})
    made = record(Walk(length=4), of_script(script, "Base", wrappers=[limit, limit]), ACTIONS, seed=3)
    assert vecenv.replay(made, trust=True).outcome == "clean"
    assert (tmp_path / "runs").read_text() == "x"


# --- wrong input -----------------------------------------------------------------------------------------------------


def made_walk(**changes):
    return replace(record(Walk(), reference(Walk), ACTIONS, seed=3), **changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"complete": False}, "longer than the recorder keeps"),
        ({"start": {"kind": "unknown", "why": "its np_random is none"}}, "its np_random is none"),
        ({"options": {"kind": "unknown", "why": "options['lock'] is a lock"}}, "is a lock"),
        ({"actions": (None,), "problems": ("an action is a lock",)}, "an action is a lock"),
        ({"build": {"kind": "unknown", "repr": "<lambda>", "why": "it is a lambda"}}, r"it is a lambda.*env=\.\.\."),
        ({"build": reference(Walk) | {"wrappers": [{"kind": "unknown", "repr": "w", "why": "no name"}]}}, "no name"),
        (
            {"build": reference(Walk) | {"where": "tests.recording.replayed_envs:Wlak"}},
            "there is no 'tests.recording.replayed_envs:Wlak'",
        ),
        ({"build": reference(Walk) | {"where": "no_such_module:Walk"}}, "'no_such_module:Walk'.*cannot be imported"),
        ({"build": by_id("CartPole-v99")}, "there is no env 'CartPole-v99' here"),
        (
            {"build": by_id("CartPole-v1")},
            "this is not the env that was recorded: its observations have",
        ),
    ],
)
def test_recordings_that_cannot_be_replayed_say_why(changes, told):
    with pytest.raises(ConfigError, match=told):
        vecenv.replay(made_walk(**changes), trust=True)


def test_wrong_arguments_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(ConfigTypeError, match="path of a recording or a Recording, got int"):
        vecenv.replay(3)
    with pytest.raises(FileNotFoundError):
        vecenv.replay(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(UnsafeFile, match=r"text\.npz"):
        vecenv.replay(tmp_path / "text.npz")
    with pytest.raises(ConfigError, match="stop_before must be an int >= 1, got 0"):
        vecenv.replay(made_walk(), Walk, stop_before=0)
    for wrong in ("x", 1.0, True):
        with pytest.raises(ConfigTypeError, match=f"stop_before must be an int >= 1, got {type(wrong).__name__}"):
            vecenv.replay(made_walk(), Walk, stop_before=wrong)
    with pytest.raises(ConfigError, match="patience"):
        vecenv.replay(made_walk(), Walk, patience=-1)
    with pytest.raises(ConfigError, match="env_kwargs are for env="):
        vecenv.replay(made_walk(), env_kwargs={"length": 3}, trust=True)
    with pytest.raises(UnknownEnv):
        vecenv.replay(made_walk(), "CartPole-v99")


def test_an_env_that_cannot_be_made_is_an_error_and_no_replay():
    with pytest.raises(EnvError, match="raised TypeError in make"):
        vecenv.replay(made_walk(), Walk, env_kwargs={"nonsense": 1})


def test_the_env_is_closed_whatever_happens():
    closed = []

    class Closing(Walk):
        def close(self):
            closed.append(self)

    def broken(step, env):
        raise LookupError

    vecenv.replay(made_walk(), Closing)
    with pytest.raises(LookupError):
        vecenv.replay(made_walk(), Closing, on_step=broken)
    with pytest.raises(ConfigError):
        vecenv.replay(record(gymnasium.make("CartPole-v1"), by_id("CartPole-v1"), [np.int64(1)], seed=1), Closing)
    assert len(closed) == 3


def test_names_are_public_and_loaded_late():
    assert vecenv.Recording is Recording
    code = "import sys, vecenv; assert 'vecenv.recording' not in sys.modules; assert callable(vecenv.replay)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=50).returncode == 0
