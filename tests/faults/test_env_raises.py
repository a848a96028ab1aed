"""An env that raises: the error says everything, the others go on, a reset brings it back."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import (
    ENGINES,
    actions,
    assert_rows,
    fails,
    faulty,
    first_failure,
    mask,
    on_every_engine,
    walk,
    with_every_start_method,
    within,
)
from tests.twins import options_of
from vecenv.errors import EnvError, NotResetError, PendingError
from vecenv.testing import FaultEnv
from vecenv.testing._fault_kinds import TwoArgumentsError, UnpicklableError

RAISED: dict[str, tuple[type[BaseException], str]] = {
    "raise": (ValueError, "boom in env 1"),
    "percent": (ValueError, "100 % wrong: %s %d %(name)s"),
    "two-args": (TwoArgumentsError, "one and two"),
    "unpicklable": (UnpicklableError, "it holds a lock"),
    "system-exit": (SystemExit, "7"),
}
with_every_exception = pytest.mark.parametrize("kind", RAISED)


def assert_explains(error: EnvError, engine: str, kind: str, phase: str) -> None:
    original, text = RAISED[kind]
    assert (error.row, error.rows, error.phase) == (1, (1,), phase)
    assert "env 1" in str(error)
    assert phase in str(error)
    assert text in str(error)
    assert original.__name__ in error.remote_traceback
    assert "_fault_env.py" in error.remote_traceback
    portable = engine != "process" or kind not in ("two-args", "unpicklable")
    assert isinstance(error.__cause__, original) == portable
    if issubclass(original, Exception):
        assert isinstance(error, original) == portable
    if engine == "process":
        assert error.worker == 0
        assert error.pid not in (None, os.getpid())
        assert f"worker 0, pid {error.pid}" in str(error)


@on_every_engine
@with_every_exception
def test_an_error_in_the_constructor_names_the_env_and_leaves_nothing_behind(engine: str, kind: str) -> None:
    with within(3.0), pytest.raises(EnvError) as caught, faulty(engine, kind, where="make"):
        pass
    assert_explains(caught.value, engine, kind, "make")


@with_every_start_method
def test_errors_cross_every_start_method(context: str) -> None:
    with faulty("process", "raise", at=3, context=context) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        assert_explains(fails(envs, 3), "process", "raise", "step")
    with pytest.raises(EnvError) as caught, faulty("process", "raise", where="make", context=context):
        pass
    assert_explains(caught.value, "process", "raise", "make")


@on_every_engine
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
@pytest.mark.parametrize("kind", ["raise", "system-exit"])
def test_an_error_in_autoreset_is_of_phase_reset(engine: str, autoreset: str, kind: str) -> None:
    with faulty(engine, kind, where="reset", at=2, length=2, autoreset=autoreset) as envs:
        envs.reset(seed=40)
        assert_explains(first_failure(envs), engine, kind, "reset")
        assert envs.recv().env_ids.tolist() == [0, 2, 3]
        obs, _ = envs.reset()
        assert_rows(obs, 0)
        obs, _, terminated, _, _ = envs.step(actions(1))
        assert_rows(obs, 1)
        assert not terminated.any()


@on_every_engine
def test_results_of_the_others_wait_for_recv_and_the_failed_env_for_a_reset(engine: str) -> None:
    with faulty(engine, "raise", at=3) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        before = envs.episode_return[1], envs.episode_length[1]
        fails(envs, 3)
        assert (envs.episode_return[1], envs.episode_length[1]) == before
        with pytest.raises(PendingError):
            envs.step(actions(4))
        step = envs.recv()
        assert step.env_ids.tolist() == [0, 2, 3]
        assert_rows(step.obs, 3, [0, 2, 3], episode=1)
        with pytest.raises(NotResetError):
            envs.step(actions(4))
        envs.step(actions(4, 2)[[0, 1]], env_ids=[0, 2])


@on_every_engine
def test_a_partial_reset_of_the_failed_env_leaves_the_other_rows_alone(engine: str) -> None:
    with faulty(engine, "raise", at=3) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        fails(envs, 3)
        envs.recv()
        obs, _ = envs.reset(options=mask(1))
        assert_rows(obs, [3, 0, 3, 3], episode=[1, 2, 1, 1])
        obs, *_ = envs.step(np.array([40, 11, 42, 43]))
        assert_rows(obs, [4, 1, 4, 4], episode=[1, 2, 1, 1])


@on_every_engine
def test_a_partial_reset_does_not_throw_away_what_the_others_returned(engine: str) -> None:
    with faulty(engine, "raise", at=3) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        fails(envs, 3)
        with pytest.raises(PendingError, match="recv"):
            envs.reset(options=mask(1))
        assert_rows(envs.recv().obs, 3, [0, 2, 3], episode=1)


@on_every_engine
def test_reset_after_an_error_gives_fresh_episodes(engine: str) -> None:
    with faulty(engine, "raise", at=3) as envs:
        first, _ = envs.reset(seed=40)
        walk(envs, 1, 2)
        fails(envs, 3)
        obs, infos = envs.reset(seed=40)
        assert_rows(obs, 0, episode=2)
        assert infos == {}
        np.testing.assert_array_equal(obs[:, 4], first[:, 4])
        walk(envs, 1, 5)


@on_every_engine
def test_two_envs_that_fail_at_once_are_reported_one_after_the_other(engine: str) -> None:
    factories = [*FaultEnv.many(2, kind="raise", env=1), *FaultEnv.many(4, kind="raise", env=2)[2:]]
    with vecenv.make(factories, engine=engine, **options_of(engine)) as envs:
        envs.reset(seed=0)
        assert fails(envs, 1).row == 1
        with pytest.raises(EnvError) as caught:
            envs.recv()
        assert caught.value.row == 2
        assert_rows(envs.recv().obs, 1, [0, 3])


@pytest.mark.parametrize("engine", ["thread", "process"])
@pytest.mark.parametrize("where", ["step", "reset"])
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_a_keyboard_interrupt_of_the_env_itself_is_its_failure(engine: str, where: str, autoreset: str) -> None:
    with faulty(engine, "keyboard-interrupt", where=where, at=2, length=1, autoreset=autoreset) as envs:
        envs.reset(seed=40)
        error = first_failure(envs)
        assert (error.row, error.phase) == (1, where)
        assert envs.recv().env_ids.tolist() == [0, 2, 3]
        assert_rows(envs.reset()[0], 0)


@pytest.mark.parametrize("engine", ENGINES)
@with_every_exception
def test_errors_can_be_pickled(engine: str, kind: str) -> None:
    with faulty(engine, kind) as envs:
        envs.reset(seed=40)
        error = fails(envs, 1)
    copied = pickle.loads(pickle.dumps(error))
    assert isinstance(copied, EnvError)
    assert str(copied) == str(error)
    for name in ("row", "rows", "phase", "worker", "pid", "seed", "action", "remote_traceback"):
        assert getattr(copied, name) == getattr(error, name)
    if kind in ("raise", "percent"):
        assert isinstance(copied, ValueError)


class Fussy(Exception):
    """Cannot be crossed with EnvError: its constructor and its attributes resist."""

    def __new__(cls, one: int, two: int) -> Fussy:
        return super().__new__(cls, one, two)

    @property
    def message(self) -> str:
        return "mine"


class FussyEnv(FaultEnv):
    def step(self, action: Any) -> Any:
        raise Fussy(1, 2)


@on_every_engine
def test_an_exception_that_resists_is_still_an_env_error(engine: str) -> None:
    with vecenv.make(FussyEnv, 2, engine=engine, **options_of(engine, 1)) as envs:
        envs.reset(seed=0)
        with pytest.raises(EnvError, match=r"env 0.*Fussy"):
            envs.step(np.zeros(2, np.int64))


class FileEnv(FaultEnv):
    def step(self, action: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory", "/no/such/file")


@on_every_engine
def test_an_os_error_keeps_its_type(engine: str) -> None:
    with vecenv.make(FileEnv, 2, engine=engine, **options_of(engine, 1)) as envs:
        envs.reset(seed=0)
        with pytest.raises(FileNotFoundError, match="No such file") as caught:
            envs.step(np.zeros(2, np.int64))
        assert isinstance(caught.value, EnvError)
        assert caught.value.__cause__.errno == 2  # type: ignore[union-attr]
