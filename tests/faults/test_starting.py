"""Starting workers: several threads at once, and nothing of the user's program is changed meanwhile or afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing import forkserver, get_context, reduction, spawn
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import vecenv
from tests.faults.faulty import until
from tests.sampling import slow
from vecenv._util.forks import FORK_LOCK
from vecenv.engines.process import launch, reaper
from vecenv.testing import FaultEnv

SCRIPT = {"init_main_from_name", "init_main_from_path"}
"""What makes multiprocessing run the user's script again in a child."""


class Process:
    """A process that calls a function of this one when it is started."""

    def __init__(self, start: Callable[[], object]) -> None:
        self.start = start


def in_a_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(30)
    return results[0]


@pytest.mark.parametrize("context", ["fork", *slow("forkserver", "spawn")])
def test_threads_that_make_vector_envs_at_once_all_get_them(context: str) -> None:
    main, config = sys.modules["__main__"], dict(multiprocessing.current_process()._config)  # type: ignore[attr-defined]
    start, stepped = threading.Barrier(2), []

    def use() -> None:
        start.wait(30)
        with vecenv.make(FaultEnv.many(2), engine="process", workers=1, context=context) as envs:
            envs.reset(seed=0)
            stepped.append(envs.step([1, 2])[0][:, 3].tolist())

    threads = [threading.Thread(target=use, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert stepped == [[1.0, 2.0]] * 2
    assert sys.modules["__main__"] is main
    assert config.items() <= multiprocessing.current_process()._config.items()  # type: ignore[attr-defined]


def test_only_the_thread_that_starts_a_worker_leaves_the_script_out(monkeypatch: pytest.MonkeyPatch) -> None:
    main, seen = sys.modules["__main__"], []
    monkeypatch.setattr(main, "__file__", __file__, raising=False)  # pytest-xdist's processes run no file

    def look() -> None:
        seen.append(sys.modules["__main__"] is main)
        seen.append(SCRIPT & spawn.get_preparation_data("worker").keys())
        seen.append(in_a_thread(lambda: SCRIPT & spawn.get_preparation_data("the user's").keys()))

    launch.start(Process(look), get_context("spawn"))
    assert seen[:2] == [True, set()]
    assert seen[2]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_a_start_replaces_is_put_back_if_it_fails(error: type[BaseException]) -> None:
    original = spawn.get_preparation_data

    def fail() -> None:
        assert spawn.get_preparation_data is not original
        raise error

    with pytest.raises(error):
        launch.start(Process(fail), get_context("spawn"))
    assert spawn.get_preparation_data is original
    assert in_a_thread(lambda: launch.start(Process(lambda: None), get_context("spawn"))) is None


def test_no_other_thread_forks_while_the_reaper_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copy of the program would hold a pipe open that the start waits for."""
    held: list[bool] = []

    def run(*_: Any, **__: Any) -> None:
        held.append(not in_a_thread(lambda: FORK_LOCK.acquire(blocking=False)))

    monkeypatch.setattr(reaper.subprocess, "run", run)
    orphans = reaper.OrphanReaper()
    orphans.new_mark()
    orphans.begin()
    assert held == [True]


class Main(FaultEnv):
    """An env that tells which module is the main one."""

    def main(self) -> int:
        return id(sys.modules["__main__"])


def test_a_forked_worker_has_the_users_main_module() -> None:
    with vecenv.make(Main.many(2), engine="process", workers=1, context="fork") as envs:
        assert set(envs.call("main")) == {id(sys.modules["__main__"])}


def test_an_interrupt_while_a_worker_is_started_leaves_other_workers_and_the_fork_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make() -> vecenv.VectorEnv:
        return vecenv.make(FaultEnv.many(2), engine="process", workers=2, context="forkserver")

    sendfds, servers = reduction.sendfds, []

    def interrupted(*arguments: Any) -> Any:
        """Ctrl-C after the connection to the fork server, before anything is sent."""
        servers.append(forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGINT)
        return sendfds(*arguments)

    with make() as others:
        others.reset(seed=0)
        with monkeypatch.context() as patched:
            patched.setattr(reduction, "sendfds", interrupted)
            with pytest.raises(KeyboardInterrupt):
                make()
        assert others.step([1, 2])[0][:, 3].tolist() == [1.0, 2.0]
        with make() as more:
            more.reset(seed=0)
            assert more.step([3, 4])[0][:, 3].tolist() == [3.0, 4.0]
        assert forkserver._forkserver._forkserver_pid == servers[0]  # type: ignore[attr-defined]
        assert others.step([5, 6])[0][:, 3].tolist() == [5.0, 6.0]


class Draws(FaultEnv):
    """Draws from NumPy's global stream when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = float(np.random.random())


def test_workers_of_one_fork_server_draw_different_numbers_and_the_users_preload_is_kept() -> None:
    server: Any = forkserver._forkserver
    before = list(server._preload_modules)
    with vecenv.make(Draws, 2, engine="process", workers=2, context="forkserver") as envs:
        assert len(set(envs.get_attr("drawn"))) == 2
        imported = Path(f"/proc/{server._forkserver_pid}/maps").read_text()
        assert "_multiarray_umath" in imported, "the server has not imported NumPy"
        with multiprocessing.get_context("forkserver").Pool(2, maxtasksperchild=1) as others:  # processes of the user
            assert len(set(others.map(_drawn, range(4), chunksize=1))) == 4
    assert server._preload_modules == before


def test_workers_come_from_a_fork_server_that_was_started_ahead_and_from_another_when_it_is_gone() -> None:
    server: Any = forkserver._forkserver
    old = server._forkserver_pid
    if old is not None:  # of another test
        os.kill(old, signal.SIGKILL)
        assert until(lambda: not psutil.pid_exists(old) or psutil.Process(old).status() == psutil.STATUS_ZOMBIE)
    vecenv.engines.start_fork_server()
    first, servers = server._forkserver_pid, []
    assert first not in (None, old)
    for _ in range(2):
        with vecenv.make(FaultEnv.many(2), engine="process", workers=1, context="forkserver") as envs:
            servers.append(psutil.Process(envs.engine.processes[0].pid).ppid())
            imported = Path(f"/proc/{servers[-1]}/maps").read_text()
            assert "_multiarray_umath" in imported, "the server has not imported NumPy"
        os.kill(servers[-1], signal.SIGKILL)
        assert until(lambda: not psutil.pid_exists(first) or psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
    assert servers[0] == first != servers[1]


def _drawn(_: int) -> float:
    return float(np.random.random())


def _holds_interrupts() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_spawned_process_begins_without_interrupts() -> None:
    """Ctrl-C in a terminal also reaches a worker that is still importing modules, which printed a traceback."""
    held: list[tuple[bool, bool]] = []

    def started() -> None:
        held.append((_holds_interrupts(), threading.current_thread() is threading.main_thread()))

    launch.start(Process(started), get_context("spawn"))
    assert held == [(True, False)]
    assert not _holds_interrupts()


class Masked(FaultEnv):
    """Tells whether its process holds interrupts back."""

    def holds_interrupts(self) -> bool:
        return _holds_interrupts()


@pytest.mark.parametrize("context", ["fork", *slow("forkserver", "spawn")])
def test_envs_do_not_run_with_interrupts_held_back(context: str) -> None:
    """Or what they start would have them held back, too."""
    with vecenv.make(Masked, 1, engine="process", context=context) as envs:
        assert envs.call("holds_interrupts") == (False,)
