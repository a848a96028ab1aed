"""The program forks: the child can do what a new program can, and ends nothing that is the parent's."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import get_context, spawn
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import vecenv
from tests.faults.faulty import with_every_start_method
from tests.faults.programs import program
from tests.test_bad_input import in_a_fork
from vecenv._util.forks import cached_property
from vecenv.buffers import SumTree
from vecenv.engines.process import launch
from vecenv.engines.process.shared import _fence_lock, fence
from vecenv.engines.ray.connection import CONNECTION
from vecenv.errors import NotResetError
from vecenv.evaluation import _background
from vecenv.kernel.numba.load import load_or_compile
from vecenv.wrappers._moments import Moments

CHILD = """
import warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
envs = start({context!r})
child = os.fork()
if child == 0:
    own = start({context!r})
    own.step([0] * 4)
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
for _ in range(3):
    envs.step([0] * 4)
envs.close()
"""


@with_every_start_method
def test_a_forked_child_has_workers_of_its_own_and_ends_those_alone(context: str, tmp_path: Path) -> None:
    with program(CHILD.format(context=context), tmp_path) as running:
        assert running.end(50.0) == 0, running.stderr
        assert running.stderr == ""
        running.assert_nothing_left()


# --- what other threads were doing -----------------------------------------------------------------------------------


def in_a_fork_beside(work: Callable[[Callable[[], None]], object], attempt: Callable[[], str]) -> str:
    """What `attempt` returns in a child that is forked while another thread is in the middle of `work`.

    `work` is given a function that it calls in the middle: it returns when this thread is about to fork.
    """
    halfway, forking = threading.Event(), threading.Event()
    os.register_at_fork(before=forking.set)  # before those of vecenv, which were registered earlier

    def wait_for_fork() -> None:
        halfway.set()
        assert forking.wait(30)

    thread = threading.Thread(target=work, args=(wait_for_fork,), daemon=True)
    thread.start()
    assert halfway.wait(30)
    result = in_a_fork(lambda: within_seconds(10, attempt))
    thread.join(30)
    assert not thread.is_alive()
    return result


def within_seconds(seconds: int, attempt: Callable[[], str]) -> str:
    """Call this; a process in which it takes longer is ended by the kernel, whatever it waits for."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    return attempt()


def compiled() -> tuple[bytes, str]:
    """An object file with a function that does nothing."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    return machine.emit_object(llvm.parse_assembly("define i32 @nothing(i64, i64, i64) {\nret i32 0\n}")), "nothing"


def test_a_child_forked_while_another_thread_compiles_can_compile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("VECENV_CACHE_DIR", str(tmp_path))

    def work(wait_for_fork: Callable[[], None]) -> None:
        def build() -> tuple[bytes, str]:
            wait_for_fork()
            return compiled()

        load_or_compile([str(tmp_path), "parent"], (), "nothing", build)

    def attempt() -> str:
        return str(load_or_compile([str(tmp_path), "child"], (), "nothing", compiled)(0, 0, 0))

    assert in_a_fork_beside(work, attempt) == "0"
    assert not list(tmp_path.glob("*.lock"))


BESIDE_NUMBA = """
import warnings
from numba.core.compiler_lock import global_compiler_lock
warnings.simplefilter("ignore")

def play(name):
    with vecenv.make(name, 2, engine="compiled") as envs:
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())

thread = threading.Thread(target=play, args=("CartPole-v1",))
thread.start()
while global_compiler_lock._lock.acquire(blocking=False):  # until the thread has it
    global_compiler_lock._lock.release()
    assert thread.is_alive()
    time.sleep(0.001)
child = os.fork()
if child == 0:
    signal.alarm(100)
    play("MountainCar-v0")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
thread.join()
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_child_forked_while_numba_compiles_can_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    monkeypatch.setenv("VECENV_CACHE_DIR", str(cache))
    with program(BESIDE_NUMBA, tmp_path) as running:
        assert running.end(200.0) == 0, running.stderr


def test_a_child_forked_while_another_thread_starts_a_worker_finds_multiprocessing_as_it_was() -> None:
    original = spawn.get_preparation_data

    class Process:
        def __init__(self, start: Callable[[], None]) -> None:
            self.start = start

    def attempt() -> str:
        launch.start(Process(lambda: None), get_context("spawn"))
        return str(spawn.get_preparation_data is original)

    assert in_a_fork_beside(lambda wait: launch.start(Process(wait), get_context("spawn")), attempt) == "True"


BESIDE_A_LOGGER = """
import warnings
from vecenv._util.forks import FORK_LOCK
warnings.simplefilter("ignore")
held, forking = threading.Event(), threading.Event()

def compile():
    with FORK_LOCK:
        held.set()
        forking.wait()
        import logging
        end = time.monotonic() + 0.5
        while time.monotonic() < end:  # meanwhile the fork waits for the lock
            logging.getLogger("made while a fork waits")

thread = threading.Thread(target=compile)
thread.start()
held.wait()
os.register_at_fork(before=forking.set)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_fork_does_not_hold_the_lock_of_logging_while_it_waits_for_a_thread_that_compiles(tmp_path: Path) -> None:
    with program(BESIDE_A_LOGGER, tmp_path) as running:  # where vecenv is imported first, and logging by it
        assert running.end(40.0) == 0, running.stderr


class Slow:
    """An object with a property that takes its time."""

    def __init__(self, compute: Callable[[], None]) -> None:
        self.compute = compute

    @cached_property
    def value(self) -> int:
        self.compute()
        return 1


def test_a_child_forked_while_another_thread_computes_a_property_can_compute_it() -> None:
    assert in_a_fork_beside(lambda wait: Slow(wait).value, lambda: str(Slow(lambda: None).value)) == "1"


@pytest.mark.parametrize(
    ("lock", "use"), [(_fence_lock, fence), (CONNECTION._lock, CONNECTION._lock.acquire)], ids=["fence", "ray"]
)
def test_locks_of_other_threads_are_free_in_a_forked_child(lock: threading.Lock, use: Callable[[], object]) -> None:
    def work(wait_for_fork: Callable[[], None]) -> None:
        with lock:
            wait_for_fork()

    assert in_a_fork_beside(work, lambda: f"used {use() and ''}")


def test_a_program_may_fork_while_another_thread_forks_a_worker() -> None:
    """Both take all locks that are taken at a fork, in the same order."""
    forked: list[str] = []

    class Process:
        def __init__(self, wait_for_fork: Callable[[], None]) -> None:
            self._wait = wait_for_fork

        def start(self) -> None:
            self._wait()
            forked.append(in_a_fork(lambda: "worker"))

    assert in_a_fork_beside(lambda wait: launch.start(Process(wait), get_context("fork")), lambda: "child") == "child"
    assert forked == ["worker"]


def until_forked(wait_for_fork: Callable[[], None]) -> None:
    """Wait until the fork is over."""
    forked = threading.Event()
    os.register_at_fork(after_in_parent=forked.set)
    wait_for_fork()
    assert forked.wait(30)


def test_objects_with_locks_can_be_used_in_a_child_forked_while_another_thread_uses_them() -> None:
    moments, tree = Moments((2,)), SumTree(4)
    moments.update(np.ones((3, 2)))  # imports and compiles, which may take longer than the child is given
    tree.update(np.array([0]), 0.0)

    def work(wait_for_fork: Callable[[], None]) -> None:
        with moments._lock, tree._lock:
            until_forked(wait_for_fork)

    def attempt() -> str:
        moments.update(np.ones((3, 2)))
        tree.update(np.array([1]), 2.0)
        return f"{tree.total}"

    assert in_a_fork_beside(work, attempt) == "2.0"


def test_kernels_of_a_child_forked_within_a_step_need_a_reset_and_can_be_closed() -> None:
    envs = vecenv.make("CartPole-v1", 2, engine="compiled")
    envs.reset(seed=0)
    actions = np.zeros(2, np.int64)

    def work(wait_for_fork: Callable[[], None]) -> None:
        envs._run("step", until_forked, wait_for_fork)

    def attempt() -> str:
        with pytest.raises(NotResetError):
            envs.step(actions)
        obs = envs.reset(seed=3)[0]
        envs.step(actions)
        envs.close()
        return f"{obs.tolist()} {envs.closed}"

    child = in_a_fork_beside(work, attempt)
    assert child == f"{envs.reset(seed=3)[0].tolist()} True"
    envs.close()


def test_evaluations_of_the_parent_are_not_the_childs_to_stop() -> None:
    stop = threading.Event()
    running = _background.Running(lambda *_: stop.wait(30), None)  # type: ignore[arg-type, return-value]  # no result
    try:
        assert running in _background._running
        assert in_a_fork(lambda: str(len(_background._running))) == "0"
    finally:
        stop.set()
        running.join(30)
