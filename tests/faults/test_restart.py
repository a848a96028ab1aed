"""on_error="restart": only what failed is built again, its episode is truncated, and the run stays reproducible."""

from __future__ import annotations

import os
import pickle
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.seeding import np_random

import vecenv
from tests.faults.faulty import (
    COUNT,
    START_METHODS,
    actions,
    assert_rows,
    faulty,
    first_failure,
    in_every_mode,
    on_every_engine,
    until,
    within,
)
from tests.sampling import product
from vecenv._batch import faults
from vecenv.errors import EnvError, RestartLimit, WorkerDied
from vecenv.testing import LawEnv

LENGTH, STEPS = 3, 12


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.001)


class Run:
    """Twelve steps from seed 40: what every row showed, and which row reported what fault at which step."""

    def __init__(self, engine: str, autoreset: str, kind: str = "none", **options: Any) -> None:
        self.shown: list[list[np.ndarray]] = [[] for _ in range(COUNT)]
        self.faults: dict[int, dict[int, dict[str, Any]]] = {}
        with faulty(engine, kind, length=LENGTH, autoreset=autoreset, on_error="restart", **options) as envs:
            self.delivered, _ = envs.reset(seed=40)
            for number in range(1, STEPS + 1):
                self._step(envs, number)

    def _step(self, envs: vecenv.VectorEnv, number: int) -> None:
        obs, reward, terminated, truncated, infos = envs.step(actions(number))
        self._show(range(COUNT), np.column_stack([obs, reward, terminated, truncated]))
        if "fault" in infos:
            rows = np.flatnonzero(infos["_fault"])
            self.faults[number] = {row: {key: infos["fault"][key][row] for key in _KEYS} for row in rows.tolist()}
        for row in np.flatnonzero(truncated):
            assert (reward[row], terminated[row]) == (0.0, False)
            last = infos["final_obs"][row] if envs.autoreset_mode.name == "SAME_STEP" else obs[row]
            np.testing.assert_array_equal(last, self.delivered[row])
        self.delivered = obs
        ended = terminated | truncated
        if envs.autoreset_mode.name == "DISABLED" and ended.any():
            self.delivered, _ = envs.reset(options={"reset_mask": ended})
            self._show(np.flatnonzero(ended).tolist(), self.delivered[ended])

    def _show(self, rows: Any, values: np.ndarray) -> None:
        for row, value in zip(rows, values, strict=True):
            self.shown[row].append(value)

    def of(self, *rows: int) -> np.ndarray:
        return np.concatenate([np.concatenate(self.shown[row]) for row in rows])


_KEYS = ("kind", "message", "phase", "env", "restarts", "ended")


@on_every_engine
@in_every_mode
@pytest.mark.parametrize(("where", "at"), [("step", 2), ("step", 4), ("reset", 2)])
def test_an_error_rebuilds_that_env_alone(engine: str, autoreset: str, where: str, at: int, tmp_path: Path) -> None:
    fault = {"where": where, "at": at}
    run = Run(engine, autoreset, "raise", fuse=str(tmp_path / "first"), **fault)
    plain = Run(engine, autoreset)
    if autoreset != "disabled" or where == "step":
        ((_, rows),) = run.faults.items()
        said = {"kind": "ValueError", "message": "boom in env 1", "phase": where}
        assert rows[1] == {**said, "env": 1, "restarts": 1, "ended": where == "step"}
        assert list(rows) == [1]
    np.testing.assert_array_equal(run.of(0, 2, 3), plain.of(0, 2, 3))
    assert not np.array_equal(run.of(1), plain.of(1))
    again = Run(engine, autoreset, "raise", fuse=str(tmp_path / "second"), **fault)
    np.testing.assert_array_equal(run.of(0, 1, 2, 3), again.of(0, 1, 2, 3))


@in_every_mode
@pytest.mark.parametrize("kind", ["kill", "segfault"])
@pytest.mark.parametrize(("where", "at"), [("step", 2), ("reset", 2)])
def test_a_death_rebuilds_that_worker_alone(autoreset: str, kind: str, where: str, at: int, tmp_path: Path) -> None:
    fault = {"where": where, "at": at}
    with within(10.0):
        run = Run("process", autoreset, kind, fuse=str(tmp_path / "first"), **fault)
    plain = Run("process", autoreset)
    if autoreset != "disabled" or where == "step":
        told = {row: report for rows in run.faults.values() for row, report in rows.items()}
        assert sorted(told) == [0, 1]
        assert [(report["kind"], report["env"], report["restarts"]) for _, report in sorted(told.items())] == [
            ("WorkerDied", 0, 1),
            ("WorkerDied", 1, 1),
        ]
        assert all("died by SIG" in report["message"] for report in told.values())
        assert not any("reset()" in report["message"] for report in told.values()), "it has been started again"
    np.testing.assert_array_equal(run.of(2, 3), plain.of(2, 3))
    again = Run("process", autoreset, kind, fuse=str(tmp_path / "second"), **fault)
    np.testing.assert_array_equal(run.of(0, 1, 2, 3), again.of(0, 1, 2, 3))


@in_every_mode
@pytest.mark.parametrize("kind", ["hang", "hang-with-gil"])
def test_a_hang_is_ended_by_the_timeout_and_rebuilt(autoreset: str, kind: str, tmp_path: Path) -> None:
    with within(5.0):
        run = Run("process", autoreset, kind, at=2, timeout=0.3, fuse=str(tmp_path / "fuse"))
    plain = Run("process", autoreset)
    told = {row: report["message"] for rows in run.faults.values() for row, report in rows.items()}
    assert sorted(told) == [0, 1]
    assert all("did not answer within 0.3 s" in text and "reset()" not in text for text in told.values())
    np.testing.assert_array_equal(run.of(2, 3), plain.of(2, 3))


@on_every_engine
def test_the_new_stream_depends_on_seed_env_and_restarts(engine: str, tmp_path: Path) -> None:
    def noise_of_the_second_life(seed: int, name: str) -> float:
        options = {"autoreset": "same-step", "on_error": "restart", "fuse": str(tmp_path / name)}
        with faulty(engine, "raise", at=1, **options) as envs:
            envs.reset(seed=seed)
            return float(envs.step(actions(1))[0][1, 4])

    assert noise_of_the_second_life(40, "a") == noise_of_the_second_life(40, "b")
    assert noise_of_the_second_life(40, "c") != noise_of_the_second_life(41, "d")


@on_every_engine
def test_the_new_stream_is_exactly_that_of_its_seed(engine: str) -> None:
    """Env 1 fails in each of its lives, at its second step."""
    with faulty(engine, "raise", at=2, autoreset="same-step", on_error="restart") as envs:
        envs.reset(seed=40)
        for life in (1, 2, 3):
            envs.step(actions(1))
            obs, _, _, truncated, infos = envs.step(actions(2))
            assert truncated.tolist() == [False, True, False, False]
            assert infos["fault"]["restarts"][1] == life
            assert obs[1, 4] == np_random(faults.restart_seed(41, 1, life))[0].random()


class DiesTwice(LawEnv):
    """Env 1 kills its process in its first step, and again while it is built, or reset, for the first time after that.

    Args:
        lives: an empty folder; it gets a file for each time that the env is built.
    """

    def __init__(self, index: int, where: str, lives: str) -> None:
        super().__init__(index)
        life = len(os.listdir(lives)) if index == 1 else 9
        self._dies_in = {0: "step", 1: where}.get(life, "")
        if index == 1:
            (Path(lives) / str(life)).touch()
        self._die("make")

    def _die(self, where: str) -> None:
        if self._dies_in == where:
            os.kill(os.getpid(), signal.SIGKILL)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        result = super().reset(seed=seed, options=options)
        self._die("reset")
        return result

    def step(self, action: Any) -> Any:
        self._die("step")
        return super().step(action)


@pytest.mark.parametrize("where", ["make", "reset"])
def test_the_new_stream_does_not_depend_on_where_an_earlier_restart_failed(where: str, tmp_path: Path) -> None:
    fns = [partial(DiesTwice, index, where, str(tmp_path)) for index in range(2)]
    with vecenv.make(fns, engine="process", workers=1, autoreset="same-step", on_error="restart") as envs:
        envs.reset(seed=40)
        obs, _, _, _, infos = envs.step(np.ones(2, np.int64))
        assert infos["fault"]["restarts"].tolist() == [2, 2]
        seeds = [faults.restart_seed(40 + row, row, 2) for row in range(2)]
        np.testing.assert_array_equal(obs[:, 3], [np_random(seed)[0].random() for seed in seeds])


@product(together=1, context=START_METHODS, kind=["raise", "kill", "hang-with-gil"])
def test_a_restart_is_the_same_by_every_start_method(kind: str, context: str, tmp_path: Path) -> None:
    options = {"at": 2, "timeout": 2.0 if kind.startswith("hang") else None}
    run = Run("process", "same-step", kind, context=context, fuse=str(tmp_path / "one"), **options)
    same = Run("process", "same-step", kind, fuse=str(tmp_path / "other"), **options)
    np.testing.assert_array_equal(run.of(0, 1, 2, 3), same.of(0, 1, 2, 3))
    assert list(run.faults) == [2]
    radius = [1] if kind == "raise" else [0, 1]
    assert list(run.faults[2]) == radius
    others = [row for row in range(COUNT) if row not in radius]
    np.testing.assert_array_equal(run.of(*others), Run("sync", "same-step").of(*others))


def test_pauses_double_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.1)
    monkeypatch.setattr(faults, "_LONGEST_PAUSE", 0.2)
    policy, fault = faults.RestartPolicy(0), faults.Fault.of(ValueError("once more"), "step")
    started = time.monotonic()
    for _ in range(faults.RESTARTS):
        policy.allow(fault, now=5)
    assert 0.5 <= time.monotonic() - started < 2.0
    with pytest.raises(RestartLimit, match="failed 4 times within 1000 of its steps") as caught:
        policy.allow(fault, now=5)
    assert [str(cause).count("once more") for cause in caught.value.causes] == [1] * 4


def test_failures_that_are_far_apart_are_no_reason_to_give_up() -> None:
    policy, fault = faults.RestartPolicy(0), faults.Fault.of(ValueError("once more"), "step")
    for number in range(30):
        policy.allow(fault, now=number * (faults.WINDOW // 3 + 1))
    assert len(policy.recent) == faults.RESTARTS


@on_every_engine
def test_an_error_in_the_very_first_reset_is_restarted_too(engine: str, tmp_path: Path) -> None:
    with faulty(engine, "raise", where="reset", on_error="restart", fuse=str(tmp_path / "fuse")) as envs:
        obs, infos = envs.reset(seed=40)
        assert_rows(obs, 0, episode=1)
        assert infos["fault"]["phase"][1] == "reset"
        assert infos["_fault"].tolist() == [False, True, False, False]
        assert envs.episode_length.tolist() == [0] * COUNT
        obs, _, _, truncated, _ = envs.step(actions(1))
        assert_rows(obs, 1)
        assert not truncated.any()


@on_every_engine
def test_an_env_that_fails_again_and_again_is_given_up_with_all_causes(engine: str) -> None:
    with faulty(engine, "raise", at=1, on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=40)
        error = pickle.loads(pickle.dumps(first_failure(envs)))
        assert isinstance(error, RestartLimit)
        assert "env 1 failed 4 times" in str(error)
        assert error.row == 1
        assert len(error.causes) == 4
        assert all(isinstance(cause, EnvError) and isinstance(cause, ValueError) for cause in error.causes)
        assert envs.recv().env_ids.tolist() == [0, 2, 3]
        assert_rows(envs.reset(seed=40)[0], 0)


def test_a_worker_that_dies_again_and_again_is_given_up_with_all_causes() -> None:
    with faulty("process", "kill", at=1, on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=40)
        error = first_failure(envs)
        assert isinstance(error, RestartLimit)
        assert error.rows == (0, 1)
        assert [type(cause) for cause in error.causes] == [WorkerDied] * 4
        assert_rows(envs.recv().obs[:, :4], 4, [2, 3])
        assert_rows(envs.reset(seed=40)[0], 0)


def test_a_worker_whose_envs_cannot_be_built_again_is_given_up(tmp_path: Path) -> None:
    with faulty("process", "kill", at=1, on_error="restart", start_timeout=5.0) as envs:
        envs.reset(seed=40)
        envs.engine._factories[1] = _refuse  # type: ignore[attr-defined]
        with pytest.raises(RestartLimit) as caught:
            envs.step(actions(1))
        assert caught.value.rows == (0, 1)
        assert [type(cause).__name__ for cause in caught.value.causes] == ["WorkerDied", *["EnvError"] * 3]
        assert_rows(envs.recv().obs, 1, [2, 3])


def _refuse() -> Any:
    raise OSError("no more of these")


def test_a_worker_that_dies_between_steps_truncates_its_rows() -> None:
    with faulty("process", on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=40)
        envs.step(actions(1))
        envs.engine.kill(0)  # type: ignore[attr-defined]
        obs, _, _, truncated, infos = envs.step(actions(2))
        assert truncated.tolist() == [True, True, False, False]
        assert_rows(obs, [0, 0, 2, 2])
        assert infos["fault"]["kind"][0] == "WorkerDied"


def test_whoever_is_ready_first_works_across_a_restart(tmp_path: Path) -> None:
    options = {"on_error": "restart", "autoreset": "same-step", "batch_size": 2, "fuse": str(tmp_path / "fuse")}
    with faulty("process", "kill", at=2, **options) as envs:
        envs.reset(seed=40)
        envs.step(actions(1))
        envs.send(actions(2))
        steps = [envs.recv(), envs.recv()]
        truncated = dict(pair for step in steps for pair in zip(step.env_ids.tolist(), step.truncated, strict=True))
        assert sorted(truncated) == [0, 1, 2, 3]
        assert (truncated[1], truncated[2], truncated[3]) == (True, False, False)
        later = envs.step(actions(3))[3]  # env 0 may have been delivered before its worker died; then it tells now
        assert later.tolist() == [not truncated[0], False, False, False]


def test_a_call_is_asked_again_of_a_worker_that_died_in_it(tmp_path: Path) -> None:
    options = {"on_error": "restart", "autoreset": "same-step", "fuse": str(tmp_path / "fuse")}
    with faulty("process", "kill", where="call", **options) as envs:
        envs.reset(seed=40)
        assert envs.call("poke", 1) == (1, 2, 3, 4)
        truncated = envs.step(actions(1))[3]
        assert truncated.tolist() == [True, True, False, False]


def test_rows_of_a_worker_that_dies_show_what_was_delivered_last(tmp_path: Path) -> None:
    class Dies(LawEnv):
        def step(self, action: Any) -> Any:
            if action == 2 and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().step(action)

    with vecenv.make(Dies, 2, engine="process", workers=1, context="fork", on_error="restart") as envs:
        envs.reset(seed=0)
        delivered = envs.step(np.zeros(2, int))[0]
        envs.send([0], [0])
        assert until(lambda: envs.engine._ledger.are_finished()[0], 10)  # its observation is written, and not received
        envs.send([2], [1])
        step = envs.recv(2)
        assert step.truncated.all()
        np.testing.assert_array_equal(step.obs[np.argsort(step.env_ids)], delivered)
