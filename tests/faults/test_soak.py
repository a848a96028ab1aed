"""A soak passes, and can fail: leaks and wrong rows are noticed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vecenv
from vecenv.engines.recording.files import MOST_FILES
from vecenv.errors import EnvError
from vecenv.testing import FaultEnv
from vecenv.testing._soak_gauges import Gauges
from vecenv.testing._soak_model import Model, WrongRow
from vecenv.testing._soak_recordings import look
from vecenv.testing._soak_report import Report, Sample
from vecenv.testing.soak import soak

SOURCE = str(Path(vecenv.__file__).parents[1])


LONGEST = 4.0
"""Minutes. A soak ends at the event that its test waits for, which on a busy machine comes late."""
pytestmark = pytest.mark.timeout(300)


def command(*arguments: Any) -> list[str]:
    return [sys.executable, "-m", "vecenv.testing.soak", *map(str, arguments)]


def quiet(line: str) -> None:
    """Says nothing."""


def faults(report: Report, *names: str) -> int:
    """How many faults there were so far, of these names or of all."""
    seen = report.samples[-1].faults
    return sum(seen.get(name, 0) for name in names or seen)


def dead(count: int, samples: int = 0) -> Callable[[Report], bool]:
    """Ends a soak after this many deaths of workers and this many samples, however long that takes."""
    return lambda report: faults(report, "WorkerDied") >= count and len(report.samples) > samples


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_minutes_with_faults_show_no_wrong_row_and_no_growth(tmp_path: Path) -> None:
    def enough(report: Report) -> bool:
        return faults(report) >= 60 and dead(8, 240)(report)

    report = soak(10, tmp_path, record=True, warm_up=60.0, sample_every=0.5, until=enough, tell=quiet)
    assert not report.failures, report.lines()
    assert faults(report, "WorkerDied") >= 8


def test_faults_show_no_wrong_row_and_the_record_of_them_is_written(tmp_path: Path) -> None:
    report = soak(
        LONGEST, tmp_path, envs=8, workers=2, record=True, faults_per_minute=600, warm_up=2.0, sample_every=0.1,
        until=dead(3, 40), tell=quiet,
    )  # fmt: skip
    assert report.lines()[-1] == "passed", report.lines()
    found = json.loads((tmp_path / "soak.json").read_text())
    assert found["ok"]
    assert found["summary"]["faults"]["WorkerDied"] >= 3
    assert found["summary"]["rows_checked"] > 0
    assert any(" recordings of " in note and not note.startswith("0 ") for note in found["notes"])
    assert (tmp_path / "soak.png").stat().st_size > 20_000
    assert len((tmp_path / "soak.csv").read_text().splitlines()) == 1 + len(found["samples"])


@pytest.mark.parametrize("engine", ["sync", "thread"])
def test_other_engines_can_be_soaked_too(engine: str) -> None:
    report = soak(
        LONGEST, engine=engine, envs=8, workers=2, faults_per_minute=600, sample_every=0.1,
        until=lambda report: faults(report) >= 3, tell=quiet,
    )  # fmt: skip
    assert not report.failures
    assert set(report.samples[-1].faults) <= {"ValueError", "NaN", "RestartLimit"}
    assert faults(report) >= 3


@pytest.mark.parametrize("context", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_other_start_methods_can_be_soaked_too(context: str) -> None:
    report = soak(
        LONGEST, envs=8, workers=2, context=context, record=True, faults_per_minute=600, sample_every=0.1,
        until=dead(2), tell=quiet,
    )  # fmt: skip
    assert not report.failures
    assert faults(report, "WorkerDied") >= 2
    assert any(" recordings of " in note for note in report.notes)


@pytest.mark.parametrize("leak", ["descriptors", "threads", "shared", "memory"])
def test_what_leaks_is_noticed(leak: str) -> None:
    report = soak(
        LONGEST, envs=8, workers=2, leak=leak, faults_per_minute=0, warm_up=0.5, sample_every=0.1,
        until=lambda report: any(grown.startswith(leak) for grown in report.grown()), tell=quiet,
    )  # fmt: skip
    assert any(failure.startswith(leak) for failure in report.failures), report.lines()


def stale(what: str, after: int) -> Any:
    """`vecenv.make`, with an engine that hands out a wrong row in one of its exchanges."""

    def made(factories: Any, **options: Any) -> Any:
        envs = vecenv.make(factories, **options)
        receive, batch, state = envs.engine.recv, envs.engine.batch, {"exchanges": 0, "before": None}

        def recv(*arguments: Any) -> Any:
            rows = receive(*arguments)
            state["exchanges"] += 1
            if state["exchanges"] == after:
                if what == "stale":
                    batch.obs[0][3] = state["before"][3]
                elif what == "torn":
                    batch.obs[0][3, 4] = state["before"][3, 4]
                elif what == "misrouted":
                    batch.obs[0][[2, 3]] = batch.obs[0][[3, 2]]
                elif what == "reward":
                    batch.reward[3] += 1
                elif what == "flag":
                    batch.terminated[3] ^= True
            state["before"] = batch.obs[0].copy()
            return rows

        envs._decorated.recv = recv
        return envs

    return made


@pytest.mark.parametrize("what", ["stale", "torn", "misrouted", "reward", "flag"])
def test_an_engine_that_hands_out_one_wrong_row_is_noticed(what: str) -> None:
    report = soak(LONGEST, envs=8, workers=2, faults_per_minute=0, tell=quiet, make_envs=stale(what, 20))
    failure = report.failures[0]
    assert failure.startswith("WrongRow:")
    assert "env 3" in failure or "env 2" in failure
    assert "it must be" in failure


def test_the_same_engine_without_a_wrong_row_passes() -> None:
    report = soak(
        LONGEST, envs=8, workers=2, faults_per_minute=0, sample_every=0.01, tell=quiet, make_envs=stale("nothing", 20),
        until=lambda report: report.samples[-1].rows > 40 * 8,
    )  # fmt: skip
    assert report.samples[-1].rows > 40 * 8
    assert not report.failures


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_with_the_report_so_far(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        command("--minutes", 30, "--envs", 8, "--workers", 2, "--out", tmp_path), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": SOURCE},
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert "Ctrl-C ends this" in running.stdout.readline()
        running.send_signal(number)
        out, err = running.communicate(timeout=40)
    assert running.returncode == 130, out + err
    assert "interrupted: this is the report so far" in out
    assert err == ""
    found = json.loads((tmp_path / "soak.json").read_text())
    assert found["ok"]
    assert found["summary"]["rows_checked"] > 0


def test_nothing_is_left_of_envs_that_cannot_be_made(tmp_path: Path) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError("no more of these")

    report = soak(0.05, tmp_path, tell=quiet, make_envs=refuse)
    assert report.failures == ["OSError: no more of these"]
    assert not json.loads((tmp_path / "soak.json").read_text())["ok"]


# --- the parts -------------------------------------------------------------------------------------------------------


def samples(**columns: Any) -> list[Sample]:
    """A sample per second."""
    usual = {"processes": 5, "memory": 50 << 20, "rss": 60 << 20, "descriptors": 50, "threads": 9, "shared": 4096}
    length = len(next(iter(columns.values())))
    return [
        Sample(second, Gauges(**{**usual, **{name: int(values[second]) for name, values in columns.items()}}), 0, 0, {})
        for second in range(length)
    ]


def judged(record: bool = False, **columns: Any) -> list[str]:
    report = Report({"record": record}, warm_up=20.0, samples=samples(**columns))
    report.judge()
    return report.failures


def test_growth_is_told_from_breathing() -> None:
    rng = np.random.default_rng(0)
    breath = (50 << 20) + rng.integers(-(3 << 20), 3 << 20, 300)
    much, little = (np.arange(300) * (2 << 20) // each for each in (60, 240))
    assert not judged(memory=breath, rss=breath)
    assert judged(memory=breath + much, rss=breath + much)
    assert not judged(memory=breath + little, rss=breath + little)
    assert judged(memory=breath + much, rss=breath)
    assert judged(record=True, memory=breath + much, rss=breath + much)
    assert not judged(record=True, memory=breath + much, rss=breath), "pages that are shared no more are no growth"
    early = np.where(np.arange(300) < 15, 20 << 20, 50 << 20)
    assert not judged(memory=early, rss=early), "in the warm-up it may grow"
    assert not judged(descriptors=50 + rng.integers(0, 2, 300))
    assert judged(descriptors=50 + np.arange(300) // 200) == ["descriptors grew from 50 to 51"]
    assert judged(threads=np.where(np.arange(300) < 150, 9, 10)) == ["threads grew from 9 to 10"]
    assert not judged(threads=np.where(np.arange(300) < 150, 10, 9))
    assert judged(shared=4096 + 4096 * (np.arange(300) // 100))


def test_recordings_that_are_too_many_too_few_or_damaged_are_noticed(tmp_path: Path) -> None:
    with vecenv.make(
        FaultEnv.many(2, kind="raise"), engine="sync", record="last-episode", record_folder=tmp_path
    ) as envs:
        envs.reset(seed=1)
        with pytest.raises(EnvError):
            envs.step([0, 0])
    [file] = tmp_path.iterdir()
    assert look(tmp_path, {"ValueError": 1, "NaN": 9})[0] == []
    assert look(tmp_path, {"ValueError": 4})[0] == ["4 faults left 1 recordings"]
    file.write_bytes(file.read_bytes()[:-40])
    assert [f"the recording {file.name} cannot be read" in wrong for wrong in look(tmp_path, {})[0]] == [True]
    for number in range(MOST_FILES):
        (tmp_path / f"{number}.npz").touch()
    assert look(tmp_path, {})[0][0] == "101 recordings are kept, at most 100 should be"


def test_too_few_samples_are_no_verdict() -> None:
    report = Report({}, warm_up=20.0, samples=samples(memory=np.full(25, 1 << 20)))
    report.judge()
    assert not report.failures
    assert "too few" in report.notes[0]


def test_gauges_see_what_is_taken() -> None:
    # In a process of its own: in this one other tests have left threads and children whose memory changes too.
    program = """if True:
        import os
        from vecenv.testing._soak_gauges import Gauges

        before = Gauges.read()
        descriptor = os.memfd_create("vecenv-test")
        os.posix_fallocate(descriptor, 0, 1 << 20)
        held = bytearray(os.urandom(32 << 20))
        after = Gauges.read()
        print(after.shared - before.shared, after.descriptors - before.descriptors, after.memory - before.memory)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    shared, descriptors, memory = map(int, done.stdout.split())
    assert (shared, descriptors) == (1 << 20, 1)
    assert (30 << 20) < memory < (40 << 20)


def test_the_model_follows_envs_without_faults_to_the_last_bit() -> None:
    model = Model(3, 4)
    with vecenv.make(FaultEnv.many(3, length=4), engine="sync", autoreset="same-step") as envs:
        model.reset(envs.reset(seed=9)[0], 9)
        for number in range(2000):  # more draws than are made at once
            actions = np.array([number % 7, 1, 2])
            result = envs.step(actions)
            model.step(actions, result)
        with pytest.raises(WrongRow, match="must be"):
            model.step(actions, result)
    assert model.rows == 6000
    assert not model.faults
