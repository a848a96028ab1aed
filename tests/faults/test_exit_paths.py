"""However the program ends, whatever its workers are doing: they end too, and nothing is left on disk."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.faulty import START_METHODS, with_every_start_method, within
from tests.faults.programs import Program, own_words, program
from tests.sampling import product, slow

PARTS = """
class Done(Exception):
    pass

def act(number, frame):
    {act}

signal.signal(signal.SIGUSR1, act)
envs = None
fault = dict(seconds=600.0, fuse={sign!r})

def make(**fault):
    return vecenv.make(FaultEnv.many(2, length=10**9, **fault), engine="process", workers=2, context={context!r})

try:
    {state}
except Done:
    pass
{finally_}
"""
WAYS: dict[str, tuple[Any, str, int]] = {
    # from inside: what a signal handler does in the middle of it; from outside: the signal, and to whom
    "normal": ("raise Done", "if envs is not None: envs.close(timeout=0.5)", 0),
    "no close": ("raise Done", "", 0),
    "exception": ("raise ValueError('the end')", "", 1),
    "sys.exit": ("sys.exit(3)", "", 3),
    "os._exit": ("os._exit(3)", "", 3),
    "segfault": ("ctypes.string_at(0)", "", -signal.SIGSEGV),
    "SIGINT": ((os.kill, signal.SIGINT), "", -signal.SIGINT),
    "SIGINT group": ((os.killpg, signal.SIGINT), "", -signal.SIGINT),
    "SIGTERM": ((os.kill, signal.SIGTERM), "", -signal.SIGTERM),
    "SIGHUP": ((os.kill, signal.SIGHUP), "", -signal.SIGHUP),
    "SIGKILL": ((os.kill, signal.SIGKILL), "", -signal.SIGKILL),
    "SIGKILL group": ((os.killpg, signal.SIGKILL), "", -signal.SIGKILL),
}
_STEP = "envs = make({fault}**fault); envs.reset(seed=0); envs.step([0, 0])"
STATES = {
    "idle": "envs = make(); envs.reset(seed=0); ready(); time.sleep(600)",
    "stepping": "envs = make(); envs.reset(seed=0); ready()\n    while True: envs.step([0, 0]); time.sleep(1e-4)",
    "hung": _STEP.format(fault="kind='hang', "),
    "hung with the GIL": _STEP.format(fault="kind='hang-with-gil', "),
    "in reset": "envs = make(kind='hang', where='reset', **fault); envs.reset(seed=0)",
    "in start": "envs = make(kind='hang', where='make', **fault)",
}
SECONDS = 8.0
"""A program may take this long to end; what it leaves, two seconds more."""


@product(together=1, way=WAYS, state=STATES, context=START_METHODS)
def test_nothing_is_left_whenever_and_however_a_program_ends(
    way: str, state: str, context: str, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    with _started(way, state, context, sign, tmp_path) as running:
        _end(running, way, state, sign)


def _started(way: str, state: str, context: str, sign: Path, folder: Path) -> Any:
    how, finally_, _ = WAYS[way]
    act = how if isinstance(how, str) else "pass"
    body = PARTS.format(act=act, sign=str(sign), context=context, state=STATES[state], finally_=finally_)
    return program(body, folder)


def _end(running: Program, way: str, state: str, sign: Path) -> None:
    how, _, code = WAYS[way]
    running.wait_ready(None if "ready()" in STATES[state] else sign)
    send, number = (os.kill, signal.SIGUSR1) if isinstance(how, str) else how
    with within(SECONDS):
        send(running.process.pid, number)
        assert running.end(3 * SECONDS) == code, running.stderr
    running.assert_nothing_left()
    assert len(own_words(running.stderr)) <= 5, running.stderr
    last = {"exception": "ValueError: the end", "SIGINT": "KeyboardInterrupt", "SIGINT group": "KeyboardInterrupt"}
    if way in last:
        assert running.stderr.count("Traceback") == 1, running.stderr
        assert running.stderr.rstrip().endswith(last[way]), running.stderr
    elif way != "segfault":
        assert running.stderr == ""


ENDINGS = {
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


@pytest.mark.parametrize("context", ["fork", *slow("forkserver", "spawn")])
@pytest.mark.parametrize("how", ENDINGS)
def test_a_program_that_ends_leaves_nothing(how: str, context: str, tmp_path: Path) -> None:
    body, code = ENDINGS[how]
    with program(body.format(context=context), tmp_path) as running, within(10.0):
        assert running.end(20.0) == code
        assert running.stderr == ""
        running.assert_nothing_left()


IN_A_THREAD = """
made = []
thread = threading.Thread(target=lambda: made.append(start({context!r}, {kind!r}, fuse={sign!r})))
thread.start()
thread.join()
time.sleep(0.3)
(envs,) = made
"""


@with_every_start_method
def test_a_vector_env_outlives_the_thread_that_made_it(context: str, tmp_path: Path) -> None:
    body = IN_A_THREAD.format(context=context, kind="none", sign="")
    with program(body + "for _ in range(3): envs.step([0] * 4)\nready(); envs.close()", tmp_path) as running:
        running.wait_ready()
        assert running.end(5.0) == 0
        running.assert_nothing_left()


@with_every_start_method
def test_no_worker_made_in_a_thread_outlives_a_program_that_is_killed(context: str, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    body = IN_A_THREAD.format(context=context, kind="hang-with-gil", sign=str(sign))
    with program(body + "envs.step([0] * 4)", tmp_path) as running:
        running.wait_ready(sign)
        running.process.kill()
        running.end(2.0)
        running.assert_nothing_left()
