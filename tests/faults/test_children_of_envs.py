"""Processes that envs start themselves: allowed, and ended when their worker is, or the program."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.faults.faulty import START_METHODS, actions, fails, faulty, until, walk, with_every_start_method
from tests.faults.programs import program
from tests.sampling import product
from vecenv.engines.process.reaper import REAPER
from vecenv.errors import WorkerDied

CHILDREN = ("fork-child", "session-child")
of_every_child = pytest.mark.parametrize("kind", CHILDREN)
BODY = """
envs = start({context!r}, {kind!r})
envs.step([0] * 4)
from vecenv.engines.process.reaper import REAPER
print(REAPER.token)
ready()
"""


def guards(token: str) -> list[int]:
    return [process.pid for process in psutil.process_iter(["cmdline"]) if token in (process.info["cmdline"] or [])]


def descendants(pid: int) -> set[int]:
    return {child.pid for child in psutil.Process(pid).children(recursive=True)}


def gone(*pids: int) -> bool:
    return all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in pids)


@product(together=1, kind=CHILDREN, context=START_METHODS, whom=[os.kill, os.killpg])
def test_children_of_envs_end_with_a_program_that_is_killed(kind: str, context: str, whom, tmp_path: Path) -> None:
    with program(BODY.format(context=context, kind=kind) + "time.sleep(600)", tmp_path) as running:
        running.wait_ready()
        token = running.stdout.split()[0]
        assert len(guards(token)) == 1
        whom(running.process.pid, signal.SIGKILL)
        running.end(2.0)
        running.assert_nothing_left()
        assert until(lambda: not guards(token), 2.0)


@product(together=1, kind=CHILDREN, end=["", "sys.exit(3)", "raise ValueError", "os._exit(3)", "envs.engine.kill(1)"])
def test_children_in_the_workers_group_end_with_it_however_the_program_ends(
    kind: str, end: str, tmp_path: Path
) -> None:
    """Those with a session of their own end unless their env was closed: that was its chance to end them."""
    with program(BODY.format(context="forkserver", kind=kind) + end, tmp_path) as running:
        running.end(20.0)
        if kind == "fork-child" or end in ("os._exit(3)", "envs.engine.kill(1)"):
            running.assert_nothing_left()
        else:
            assert until(lambda: len(running.alive()) == 1)
        token = running.stdout.split()[0]
        assert until(lambda: not guards(token), 2.0)


@of_every_child
@with_every_start_method
def test_children_of_a_worker_that_is_killed_are_ended(kind: str, context: str) -> None:
    with faulty("process", kind, context=context) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        worker = envs.call("worker_pid")[1]
        children = descendants(worker)
        assert len(children) == 1
        os.kill(worker, signal.SIGKILL)
        fails(envs, 2, WorkerDied)
        envs.reset(seed=40)
        assert until(lambda: gone(*children))
        walk(envs, 1, 1)


@with_every_start_method
def test_an_env_may_have_children_by_multiprocessing_too(context: str) -> None:
    """Workers are not daemonic."""
    with faulty("process", context=context) as envs:
        envs.reset(seed=40)
        assert envs.call("poke", 1) == (1, 2, 3, 4)
        assert envs.engine.call(_child_by_multiprocessing, (), {}) == [0] * 4  # type: ignore[attr-defined]


def _child_by_multiprocessing(env, place) -> int:
    import multiprocessing

    child = multiprocessing.get_context("fork").Process(target=os.getpid)
    child.start()
    child.join()
    return child.exitcode  # type: ignore[return-value]


def test_a_forked_child_of_the_front_does_not_keep_the_guard(tmp_path: Path) -> None:
    body = BODY.format(context="fork", kind="none") + "\nif os.fork() == 0: time.sleep(3); os._exit(0)\ntime.sleep(600)"
    with program(body, tmp_path) as running:
        running.wait_ready()
        token = running.stdout.split()[0]
        running.process.kill()
        running.end(2.0)
        assert until(lambda: not guards(token), 1.0)


def test_a_guard_that_is_gone_or_cannot_be_had_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty("process") as envs:
        envs.reset(seed=40)
        for pid in guards(REAPER.token):
            os.kill(pid, signal.SIGKILL)
        envs.engine.kill(1)  # type: ignore[attr-defined]
        fails(envs, 1, WorkerDied)
        envs.reset(seed=40)
        walk(envs, 1, 2)
    monkeypatch.setattr("vecenv.engines.process.reaper._SHELL", "/no/such/shell")
    with faulty("process") as envs:
        envs.reset(seed=40)
        envs.step(actions(1))
