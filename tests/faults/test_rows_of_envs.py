"""Every way in which an env goes wrong, on every engine and start method: what is said, how soon, and who goes on.

One vector env per engine and start method lives through all of them.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import COUNT, actions, faulty, mask, within
from tests.faults.programs import program
from tests.sampling import slow
from vecenv.errors import EnvError, SpaceError, WorkerDied, WorkerTimeout
from vecenv.testing._fault_kinds import TwoArgumentsError, UnpicklableError

HOMES = [("sync", None), ("thread", None), ("process", "fork"), *slow(("process", "forkserver"), ("process", "spawn"))]
LAST = 6
NOISE = 4


class Home(NamedTuple):
    engine: str
    envs: vecenv.VectorEnv


def _pool(engine: str, context: str | None) -> Any:
    return faulty(engine, **({} if context is None else {"context": context}))


@pytest.fixture(scope="module", params=HOMES, ids=lambda home: "-".join(filter(None, home)))
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    with _pool(*request.param) as envs:
        yield Home(request.param[0], envs)


@pytest.fixture(scope="module", params=["fork", *slow("forkserver", "spawn")])
def processes(request: pytest.FixtureRequest) -> Iterator[Home]:
    with _pool("process", request.param) as envs:
        yield Home("process", envs)


@pytest.fixture(scope="module")
def expected() -> list[np.ndarray]:
    """The observations after each step, if nothing goes wrong."""
    with faulty("sync") as envs:
        return [envs.reset(seed=40)[0], *(envs.step(actions(number))[0] for number in range(1, LAST + 1))]


SHOWN = [0, 2, 3, NOISE]
"""All of an observation but how often its object was reset."""


def assert_shows(obs: np.ndarray, expected: np.ndarray, rows: Any) -> None:
    np.testing.assert_array_equal(obs[:, SHOWN], expected[list(rows)][:, SHOWN])


def fails(home: Home, kind: str, where: str, expected: list[np.ndarray], **options: Any) -> Any:
    """Two steps, of which env 1 does not survive the second (or a reset, which it does not survive); the error."""
    envs = home.envs
    envs.timeout = None
    assert_shows(envs.reset(seed=40)[0], expected[0], range(COUNT))
    if where == "step":
        assert_shows(envs.step(actions(1))[0], expected[1], range(COUNT))
    envs.call("arm", kind, where, **options)
    with pytest.raises(EnvError) as caught:
        envs.step(actions(2)) if where == "step" else envs.reset(seed=40)
    return caught.value


def goes_on(home: Home, lost: tuple[int, ...], reached: int, expected: list[np.ndarray]) -> None:
    """The others show what they would have shown anyway; those that are lost begin again."""
    envs = home.envs
    others = [row for row in range(COUNT) if row not in lost]
    step = envs.recv()
    assert step.env_ids.tolist() == others
    assert_shows(step.obs, expected[reached], others)
    obs, _ = envs.reset(seed=40, options=mask(*lost))
    assert_shows(obs[list(lost)], expected[0], lost)
    for number in range(reached + 1, LAST + 1):
        obs, *_ = envs.step(actions(number))
        assert_shows(obs[others], expected[number], others)
        np.testing.assert_array_equal(obs[list(lost), NOISE], expected[number - reached][list(lost), NOISE])


def assert_names(error: EnvError, home: Home, where: str, rows: tuple[int, ...] = (1,)) -> None:
    """What every error has, whatever happened."""
    assert (error.row, error.rows, error.phase) == (1, rows, where)
    assert error.seed == 41
    assert error.action == (21 if where == "step" else None)
    assert error.elapsed is not None
    assert 0 <= error.elapsed < 3.0
    assert error.worker == (None if home.engine == "sync" else 0)
    assert "reset()" in str(error)
    parts = ("worker 0", f"pid {error.pid}") if home.engine == "process" else ()
    for part in ("env 1", where, "seed 41", *parts):
        assert part in str(error)
    assert (error.pid not in (None, os.getpid())) == (home.engine == "process")
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.elapsed, copied.rows) == (str(error), error.elapsed, error.rows)


RAISED: dict[str, tuple[type[BaseException], str]] = {
    "raise": (ValueError, "boom in env 1"),
    "percent": (ValueError, "100 % wrong: %s %d %(name)s"),
    "two-args": (TwoArgumentsError, "one and two"),
    "unpicklable": (UnpicklableError, "it holds a lock"),
    "system-exit": (SystemExit, "7"),
}


@pytest.mark.parametrize("where", ["step", "reset"])
@pytest.mark.parametrize("kind", RAISED)
def test_an_env_that_raises(home: Home, kind: str, where: str, expected: list[np.ndarray]) -> None:
    with within(3.0):
        error = fails(home, kind, where, expected)
    original, text = RAISED[kind]
    assert text in str(error)
    assert original.__name__ in error.remote_traceback
    assert "_fault_kinds.py" in error.remote_traceback
    travels = home.engine != "process" or kind not in ("two-args", "unpicklable")
    assert isinstance(error.__cause__, original) == travels
    assert isinstance(error, original) == (travels and issubclass(original, Exception))
    assert_names(error, home, where)
    goes_on(home, (1,), 2 if where == "step" else 0, expected)


WRONG = {
    "four-values": "4 values, 5 needed.*old Gym API",
    "no-values": "5 values.*got NoneType",
    "reward-none": "reward must be a number, got NoneType",
    "reward-string": "reward must be a number, got str",
    "reward-array": "reward must be a number, got ndarray",
    "flag-string": "terminated must be a bool, got str 'False'",
    "obs-shape": r"shape \(3,\).*\(5,\)",
    "obs-scalar": r"shape \(\).*\(5,\)",
    "obs-overflow": "float64",
    "obs-none": "observation is None",
    "info-none": "info must be a dict, got NoneType",
    "info-list": "info must be a dict, got list",
}


@pytest.mark.parametrize("kind", WRONG)
def test_an_env_that_returns_nonsense(home: Home, kind: str, expected: list[np.ndarray]) -> None:
    with within(3.0):
        error = fails(home, kind, "step", expected)
    assert isinstance(error, SpaceError)
    assert re.search(WRONG[kind], str(error)), str(error)
    assert_names(error, home, "step")
    goes_on(home, (1,), 2, expected)


DEATHS = {
    "kill": (-signal.SIGKILL, "SIGKILL", "out-of-memory killer"),
    "os-exit": (9, None, "ended the process"),
    "segfault": (-signal.SIGSEGV, "SIGSEGV", "native code of the env crashed"),
    "abort": (-signal.SIGABRT, "SIGABRT", "native code of the env aborted"),
    "fork-and-die": (9, None, "ended the process"),
}


@pytest.mark.parametrize("where", ["step", "reset"])
@pytest.mark.parametrize("kind", DEATHS)
def test_a_worker_that_dies(processes: Home, kind: str, where: str, expected: list[np.ndarray]) -> None:
    with within(3.0):
        error = fails(processes, kind, where, expected)
    code, name, advice = DEATHS[kind]
    assert isinstance(error, WorkerDied)
    assert (error.exitcode, error.signal) == (code, name)
    for part in (f"worker 0 (pid {error.pid})", "envs 0 to 1", name or "exit code 9", advice):
        assert part in str(error)
    assert (f"_{kind}" in error.stack) == (kind in ("segfault", "abort"))
    assert error.stack in str(error)
    if where == "step":
        assert_names(error, processes, where, (0, 1))
    goes_on(processes, (0, 1), 2 if where == "step" else 0, expected)


HANGS = {
    "hang": "_hang",
    "hang-with-gil": "_hang_with_gil",
    "hang-ignoring-sigterm": "_hang_ignoring_sigterm",
    "stop": "",
}


@pytest.mark.parametrize("where", ["step", "reset"])
@pytest.mark.parametrize("kind", HANGS)
def test_an_env_that_hangs(processes: Home, kind: str, where: str, expected: list[np.ndarray]) -> None:
    envs = processes.envs
    envs.reset(seed=40)
    envs.timeout = 1.0
    with within(4.0):
        error = hangs(processes, kind, where, expected)
    assert isinstance(error, WorkerTimeout)
    assert 0.9 < error.elapsed < 10.0
    for part in (f"worker 0, pid {error.pid}", "env 1", f"within 1.0 s in {where}", "reset() kills", HANGS[kind]):
        assert part in str(error)
    assert HANGS[kind] in error.stack
    assert ("kill -CONT" in str(error)) == (kind == "stop")
    envs.timeout = None
    envs.engine.kill(1)  # type: ignore[attr-defined]
    with within(3.0), pytest.raises(WorkerDied):
        envs.recv()
    goes_on(processes, (0, 1), 2 if where == "step" else 0, expected)


def hangs(home: Home, kind: str, where: str, expected: list[np.ndarray]) -> Any:
    """Like `fails`, but not waiting for ever."""
    envs = home.envs
    if where == "step":
        envs.step(actions(1))
    envs.call("arm", kind, where)
    with pytest.raises(EnvError) as caught:
        envs.step(actions(2)) if where == "step" else envs.reset(seed=40)
    return caught.value


def test_a_big_info_arrives_whole(home: Home, expected: list[np.ndarray]) -> None:
    home.envs.reset(seed=40)
    home.envs.call("arm", "info-big")
    with within(5.0):
        obs, *_, infos = home.envs.step(actions(1))
    assert_shows(obs, expected[1], range(COUNT))
    np.testing.assert_array_equal(infos["big"][1], np.arange(10**6))
    assert_shows(home.envs.step(actions(2))[0], expected[2], range(COUNT))


def test_an_env_that_writes_to_stdout_disturbs_nobody(home: Home, expected: list[np.ndarray]) -> None:
    home.envs.reset(seed=40)
    home.envs.call("arm", "print")
    for number in range(1, LAST + 1):
        assert_shows(home.envs.step(actions(number))[0], expected[number], range(COUNT))


def test_a_leaked_descriptor_is_the_envs_own_affair(home: Home, expected: list[np.ndarray]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    home.envs.reset(seed=40)
    home.envs.call("arm", "fd-leak")
    for number in range(1, LAST + 1):
        assert_shows(home.envs.step(actions(number))[0], expected[number], range(COUNT))
    assert len(os.listdir("/proc/self/fd")) <= before + (home.engine != "process")


LIFE = """
envs = vecenv.make(FaultEnv.many(4, length=10**6), engine={engine!r}, **{options!r})
envs.reset(seed=0)
told = 0
for kind in {kinds!r}:
    envs.timeout = 0.5 if kind.startswith(("hang", "stop")) else None
    envs.call("arm", kind)
    try:
        envs.step([0] * 4)
    except vecenv.errors.EnvError:
        told += 1
    envs.reset(seed=0)
envs.timeout = 0.3
if {last!r}:
    envs.call("arm", {last!r})
    try:
        envs.step([0] * 4)
    except vecenv.errors.EnvError:
        told += 1
    envs.close(timeout=0.2)
print("told", told, flush=True)
"""


@pytest.mark.parametrize("home", HOMES)
def test_a_life_full_of_faults_leaves_nothing_and_says_nothing_on_stderr(
    home: tuple[str, str | None], tmp_path: Path
) -> None:
    engine, context = home
    options = {} if engine == "sync" else {"workers": 2}
    kinds = [*RAISED, *WRONG, "print"]
    if engine == "process":
        options["context"] = context
        kinds += [*DEATHS, *HANGS]
    last = "hang-ignoring-sigterm" if engine == "process" else ""
    body = LIFE.format(engine=engine, options=options, kinds=kinds, last=last)
    with program(body, tmp_path) as running:
        assert running.end(50.0) == 0, running.stderr
        assert f"told {len(kinds) - 1 + bool(last)}\n" in (tmp_path / "stdout").read_text(errors="replace")
        assert "env 1 says hello" in (tmp_path / "stdout").read_text(errors="replace")
        assert running.stderr == ""
        running.assert_nothing_left()
