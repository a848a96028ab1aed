"""However the program ends, its workers end too, and nothing is left on disk."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faulty import START_METHODS, until, within

MARKER = "VECENV_TEST_RUN"
PREAMBLE = """
import atexit, os, signal, sys, threading, time
import vecenv
from vecenv.testing import FaultEnv

def start(context, kind="none"):
    envs = vecenv.make(FaultEnv.many(4, kind=kind), engine="process", workers=2, context=context)
    envs.reset(seed=0)
    return envs

def ready():
    print("ready", flush=True)
"""
BODIES = {
    "idle": "envs = start({context!r}); ready(); time.sleep(60)",
    "hang": "envs = start({context!r}, 'hang'); envs.send([0] * 4); time.sleep(0.1); ready(); envs.recv()",
    "hang-with-gil": "envs = start({context!r}, 'hang-with-gil'); envs.send([0] * 4); time.sleep(0.1); ready(); "
    "envs.recv()",
}


def seldom(*values: Any) -> list[Any]:
    """Parameters that take the same road as others and are only run with `-m slow`."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


class Program:
    """A script in a process of its own, with a temporary directory of its own and a mark on all it starts."""

    def __init__(self, body: str, tmp_path: Path) -> None:
        self.mark = f"{MARKER}={uuid.uuid4().hex}"
        self.temporary = tmp_path / "temporary"
        self.temporary.mkdir()
        self.shared = set(os.listdir("/dev/shm"))
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(body))
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, name: value, "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.process.communicate(timeout=10)[1]

    def alive(self) -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.mark in _environment(pid)]

    def assert_nothing_left(self) -> None:
        assert until(lambda: not self.alive(), 2.0), [Path(f"/proc/{pid}/cmdline").read_text() for pid in self.alive()]
        assert list(self.temporary.iterdir()) == []
        assert set(os.listdir("/dev/shm")) <= self.shared


def _environment(pid: int) -> str:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if state == "Z" else Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@contextlib.contextmanager
def program(body: str, tmp_path: Path) -> Iterator[Program]:
    running = Program(body, tmp_path)
    try:
        yield running
    finally:
        for pid in running.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        running.process.communicate()


@pytest.mark.parametrize("context", START_METHODS)
@pytest.mark.parametrize("state", ["hang-with-gil", *seldom("idle", "hang")])
@pytest.mark.parametrize("number", [signal.SIGKILL, *seldom(signal.SIGTERM)])
def test_no_worker_outlives_a_program_that_is_killed(
    number: signal.Signals, state: str, context: str, tmp_path: Path
) -> None:
    with program(BODIES[state].format(context=context), tmp_path) as running:
        running.wait_ready()
        running.process.send_signal(number)
        running.process.wait(2.0)
        running.assert_nothing_left()


@pytest.mark.parametrize("state", ["hang-with-gil", "idle", *seldom("hang")])
@pytest.mark.parametrize("whom", ["main", "group"])
def test_ctrl_c_ends_the_program_promptly(whom: str, state: str, tmp_path: Path) -> None:
    with program(BODIES[state].format(context="fork"), tmp_path) as running:
        running.wait_ready()
        with within(4.0):
            if whom == "main":
                running.process.send_signal(signal.SIGINT)
            else:
                os.killpg(running.process.pid, signal.SIGINT)
            _, errors = running.process.communicate(timeout=10)
        assert running.process.returncode in (130, -signal.SIGINT)
        assert errors.count("Traceback") == 1, errors
        assert errors.rstrip().endswith("KeyboardInterrupt")
        running.assert_nothing_left()


ENDINGS = {
    "without close": ("envs = start({context!r})", 0),
    "by sys.exit": ("envs = start({context!r}); sys.exit(3)", 3),
    "by an exception": ("envs = start({context!r}); raise ValueError('the end')", 1),
    "after close": ("envs = start({context!r}); envs.close()", 0),
    "closing at exit": ("envs = start({context!r}); atexit.register(envs.close)", 0),
    "with a step pending": ("envs = start({context!r}); envs.send([0] * 4)", 0),
    "after a crash": (
        """
envs = start({context!r}, 'kill')
try:
    envs.step([0] * 4)
except vecenv.errors.WorkerDied:
    pass
""",
        0,
    ),
}


@pytest.mark.parametrize("context", ["fork", *seldom("forkserver", "spawn")])
@pytest.mark.parametrize("how", ENDINGS)
def test_a_program_that_ends_leaves_nothing(how: str, context: str, tmp_path: Path) -> None:
    body, code = ENDINGS[how]
    with program(body.format(context=context), tmp_path) as running, within(10.0):
        _, errors = running.process.communicate(timeout=20)
        assert running.process.returncode == code
        assert errors.rstrip().endswith("ValueError: the end") if how == "by an exception" else errors == ""
        running.assert_nothing_left()


@pytest.mark.parametrize("context", START_METHODS)
def test_a_vector_env_outlives_the_thread_that_made_it(context: str, tmp_path: Path) -> None:
    body = f"""
made = []
thread = threading.Thread(target=lambda: made.append(start({context!r})))
thread.start()
thread.join()
time.sleep(0.3)
(envs,) = made
for _ in range(3):
    envs.step([0] * 4)
ready()
envs.close()
"""
    with program(body, tmp_path) as running:
        running.wait_ready()
        running.process.wait(5.0)
        running.assert_nothing_left()


@pytest.mark.parametrize("context", START_METHODS)
@pytest.mark.parametrize("kind", ["hang-with-gil", *seldom("none", "hang")])
def test_no_worker_made_in_a_thread_outlives_a_program_that_is_killed(kind: str, context: str, tmp_path: Path) -> None:
    body = f"""
made = []
thread = threading.Thread(target=lambda: made.append(start({context!r}, {kind!r})))
thread.start()
thread.join()
made[0].send([0] * 4)
time.sleep(0.1)
ready()
time.sleep(60)
"""
    with program(body, tmp_path) as running:
        running.wait_ready()
        running.process.kill()
        running.process.wait(2.0)
        running.assert_nothing_left()
