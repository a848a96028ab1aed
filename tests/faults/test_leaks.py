"""Nothing piles up: descriptors, processes, threads, files."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from tests.faults.faulty import actions, fails, faulty, on_every_engine, until
from tests.sampling import slow
from vecenv.engines.process.reaper import OrphanReaper
from vecenv.errors import WorkerDied


def counts() -> tuple[int, int, int]:
    process = psutil.Process()
    return process.num_fds(), len(process.children(recursive=True)), threading.active_count()


@on_every_engine
@pytest.mark.parametrize("lives", [4, *slow(30)])
def test_lives_leave_no_descriptor_process_or_thread(engine: str, lives: int) -> None:
    for life in range(lives + 1):
        with faulty(engine) as envs:
            envs.reset(seed=40)
            envs.step(actions(1))
        if life == 0:
            before = counts()
    assert until(lambda: counts() <= before), (before, counts())


@pytest.mark.parametrize("context", ["forkserver", *slow("spawn")])
def test_other_start_methods_leave_nothing_either(context: str) -> None:
    for life in range(4):
        with faulty("process", context=context) as envs:
            envs.reset(seed=40)
        if life == 0:
            before = counts()
    assert until(lambda: counts() <= before), (before, counts())


def test_deaths_and_restarts_leave_no_descriptor_or_process() -> None:
    with faulty("process", "kill", at=2) as envs:
        for life in range(10):
            envs.reset(seed=40)
            envs.step(actions(1))
            fails(envs, 2, WorkerDied)
            if life == 0:
                before = counts()
        assert until(lambda: counts() <= before), (before, counts())


def test_a_failed_start_leaves_no_descriptor_or_process() -> None:
    for life in range(5):
        with pytest.raises(ValueError, match="boom"), faulty("process", "raise", where="make"):
            pass
        if life == 0:
            before = counts()
    assert until(lambda: counts() <= before), (before, counts())


def test_the_reaper_ends_when_its_last_worker_is_gone() -> None:
    reaper = OrphanReaper()
    marks = [reaper.new_mark() for _ in range(2)]
    workers = [subprocess.Popen(["sleep", "60"], process_group=0) for _ in marks]
    for worker in workers:
        reaper.watch(worker.pid)
    for worker, mark in zip(workers, marks, strict=True):
        assert until(lambda: reapers(reaper.token) == 1, 10)
        worker.kill()
        worker.wait()
        reaper.forget(worker.pid, mark, ended_well=True)
    assert until(lambda: reapers(reaper.token) == 0, 10)


def reapers(token: str) -> int:
    """Number of processes of a reaper."""
    return sum(
        token in process.info["cmdline"] for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"]
    )


def test_shared_memory_has_no_name() -> None:
    before = _named_memory(), set(os.listdir(tempfile.gettempdir()))
    with faulty("process", context="forkserver") as envs:
        envs.reset(seed=40)
        links = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if _open(number)]
        assert any(link.startswith("/memfd:vecenv") for link in links)
        assert _named_memory() <= before[0]
        new = set(os.listdir(tempfile.gettempdir())) - before[1]
        assert not [name for name in new if name.startswith(("vecenv", "pymp"))]


def _named_memory() -> set[str]:
    """Shared memory with a name that this process has. Other programs of the machine may have some, too."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.partition("/dev/shm/")[2] for line in lines if "/dev/shm/" in line}


def _open(number: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{number}")
