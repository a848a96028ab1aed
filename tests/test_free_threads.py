"""What threads share, so that engines are right without the GIL too. `make test-free-threaded` runs the laws there."""

import importlib.util
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import vecenv
from vecenv._front.call_order import CallOrder
from vecenv.engines.python.queued import QueuedEngine
from vecenv.engines.python.thread import ThreadEngine
from vecenv.errors import CallOrderError, EngineRefused, UnsupportedError, WorkerTimeout
from vecenv.kernel.numba.functions import address_of, native_function
from vecenv.kernel.numba.trial import is_free_threaded, native_code_fails
from vecenv.testing import LawEnv, ObedientEnv

ROUNDS = 300


def leave(order: CallOrder) -> None:
    order.inside, order.vacant = None, True


def in_threads(function, count):
    """Call the function in threads, at once."""
    errors, start = [], threading.Barrier(count)

    def work():
        try:
            start.wait(30)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors


def test_of_threads_that_enter_at_once_one_gets_in():
    order, inside, several = CallOrder(4, lambda: np.arange(0)), [], []

    def enter_often():
        for _ in range(ROUNDS * 10):
            try:
                order.enter("step")
            except CallOrderError:
                continue
            inside.append(threading.get_ident())
            if len(inside) > 1:
                several.append(tuple(inside))
            inside.remove(threading.get_ident())
            leave(order)

    in_threads(enter_often, 3)
    assert not several


def test_a_call_is_refused_also_if_the_other_thread_leaves_meanwhile(monkeypatch):
    order = CallOrder(4, lambda: np.arange(0))
    order.enter("step")
    monkeypatch.setattr(order, "check_open", lambda call: leave(order))
    with pytest.raises(CallOrderError, match="inside this vector env"):
        order.enter("step")
    assert order.inside is None
    order.enter("step")


def test_listeners_come_and_go_while_rows_finish():
    engine, over, errors = QueuedEngine(4, ordered=False), threading.Event(), []

    def finish():
        try:
            while not over.is_set():
                engine._finish([0], {})
        except RuntimeError as error:
            errors.append(error)

    finishing = threading.Thread(target=finish)
    finishing.start()
    for _ in range(ROUNDS * 10):
        listeners = [lambda number=number: number for number in range(8)]
        engine._listeners.update(listeners)
        engine._listeners.difference_update(listeners)
    over.set()
    finishing.join(30)
    assert not errors


class Mailboxes(dict):
    """Notes which threads write."""

    def __init__(self):
        super().__init__()
        self.writers = set()

    def __setitem__(self, key, value):
        self.writers.add(threading.get_ident())
        super().__setitem__(key, value)

    def update(self, *values):
        self.writers.add(threading.get_ident())
        super().update(*values)


@pytest.mark.parametrize("workers", [1, 2])
def test_only_the_caller_writes_into_the_mailboxes_that_it_reads(workers):
    engine = ThreadEngine([LawEnv] * 4, workers=workers)
    try:
        engine.batch.mail = mailboxes = Mailboxes()
        engine.batch.op[:] = vecenv.engines.Op.RESET
        engine.send(np.arange(4))
        engine.recv(4)
        assert mailboxes
        assert mailboxes.writers == {threading.get_ident()}
    finally:
        engine.close()


def test_a_step_of_all_envs_on_threads_times_out():
    gate = threading.Event()

    class Waits(ObedientEnv):
        def step(self, action):
            gate.wait(30)
            return super().step(action)

    with vecenv.make(Waits, 2, engine="thread", workers=2, timeout=0.05) as envs:
        envs.reset(seed=0)
        with pytest.raises(WorkerTimeout):
            envs.step([0, 0])
        gate.set()
        envs.recv()


LEFT_OPEN = """
import vecenv
from vecenv.testing import LawEnv
def factory():  # which knows this module, and so the envs themselves
    return LawEnv()
kept = [vecenv.make(factory, 2, engine=engine) for engine in ("sync", "thread")]
for envs in kept:
    envs.reset(seed=0)
"""


def test_a_program_that_leaves_envs_open_ends_without_a_word():
    ended = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


OWN_KERNEL = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None  # importing them fails
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("numba", "llvmlite") else find_spec(name, *rest)
import vecenv
with vecenv.make("Snake-v0", 2) as envs:
    envs.reset(seed=0)
    envs.step([0, 0])
    print(envs.engine.name, envs.engine_reason)
"""


@pytest.fixture
def no_numba(monkeypatch):
    """As if Numba were not installed, which it cannot be on some Pythons."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "numba" else find_spec(name, *rest)
    )
    native_code_fails.cache_clear()
    yield
    native_code_fails.cache_clear()


def test_without_numba_kernels_run_in_python_and_native_code_is_refused(no_numba):
    with vecenv.make("CartPole-v1", 2) as envs:
        assert envs.engine.name == "sync"
        assert "Numba is not installed" in envs.engine_reason
    with pytest.raises(EngineRefused, match="Numba is not installed"):
        vecenv.make("CartPole-v1", 2, engine="compiled")
    with pytest.raises(UnsupportedError, match="Numba is not installed"):
        native_function(test_without_numba_kernels_run_in_python_and_native_code_is_refused)


def test_without_numba_an_own_kernel_runs_in_python():
    ended = subprocess.run([sys.executable, "-c", OWN_KERNEL], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("sync")
    assert "Numba is not installed" in ended.stdout


def test_addresses_of_arrays_are_right_on_this_python():
    array = np.zeros((3, 4))
    assert address_of(array) == array.ctypes.data
    assert address_of(array[1:]) == array[1:].ctypes.data


ALL_ENGINES = """
import sys
import vecenv
from vecenv.testing import LawEnv
for engine in ("sync", "thread", "process", "asyncio"):
    with vecenv.make(LawEnv, 4, engine=engine) as envs:
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())
print(sys._is_gil_enabled())
"""


@pytest.mark.skipif(not is_free_threaded(), reason="this Python always has the GIL")
def test_nothing_turns_the_gil_on():
    """In a process without PYTHON_GIL, which would keep it off whatever is imported."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-W", "error", "-c", ALL_ENGINES]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "False\n", "")
