"""What makes ale-py's vector environment hang, and what else could."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import LONG, close_at_any_moment, until
from tests.sampling import product
from vecenv import errors

PONG = "ALE/Pong-v5"


@pytest.fixture
def envs():
    with vecenv.make(PONG, 3, preprocessing=True) as envs:
        envs.reset(seed=0)
        yield envs


@pytest.mark.parametrize("workers", [None, 2])
def test_games_that_another_thread_steps_can_be_closed_at_any_moment(workers):
    close_at_any_moment(lambda: vecenv.make(PONG, 3, preprocessing=True, workers=workers))


@pytest.mark.parametrize("wrong", [[0, 6, 0], [0, -1, 0], [0, 0], [0.5, 0, 0]])
def test_an_action_that_is_none_is_refused_and_nothing_has_changed(envs, wrong):
    before = envs.step(np.zeros(3, np.int64))[4]["frame_number"]
    with pytest.raises(errors.SpaceError):
        envs.step(np.array(wrong))
    np.testing.assert_array_equal(envs.step(np.zeros(3, np.int64))[4]["frame_number"], before + 4)


def test_the_engine_itself_lets_no_such_action_through(envs):
    engine = envs.engine
    engine.batch.actions[0][:] = [0, 99, 0]
    engine.batch.op[:] = vecenv.Op.STEP
    with pytest.raises(errors.InvalidAction, match=r"env 1 must be in 0 \.\.\. 5, got 99"):
        engine.send(np.arange(3))
    assert not len(engine.pending())


def test_nothing_is_waited_for_that_was_not_sent(envs):
    with pytest.raises(errors.NothingPendingError):
        envs.recv()
    envs.send(np.zeros(1, np.int64), [1])
    with pytest.raises(errors.PendingError):
        envs.send(np.zeros(3, np.int64))
    assert envs.recv().env_ids.tolist() == [1]
    with pytest.raises(errors.NothingPendingError):
        envs.recv()


def test_a_step_before_the_first_reset_is_refused():
    with vecenv.make(PONG, 2, preprocessing=True) as envs, pytest.raises(errors.NotResetError):
        envs.step(np.zeros(2, np.int64))


def test_closing_does_not_wait_for_results(envs):
    envs.send(np.zeros(3, np.int64))
    started = time.perf_counter()
    envs.close()
    envs.close()
    assert time.perf_counter() - started < 5
    with pytest.raises(errors.ClosedError):
        envs.step(np.zeros(3, np.int64))


def test_closing_ends_the_threads():
    before = len(os.listdir("/proc/self/task"))
    with vecenv.make(PONG, 3, preprocessing=True, batch_size=1) as envs:
        envs.reset(seed=0)
        envs.send(np.zeros(3, np.int64))
        envs.recv()
        assert len(os.listdir("/proc/self/task")) > before
    del envs
    # Linux lists ended threads for a moment.
    assert until(lambda: len(os.listdir("/proc/self/task")) <= before, LONG)


@product(together=1, workers=[None, 2], batch_size=[3, 1])
def test_ctrl_c_loses_no_row_for_good(workers, batch_size):
    """Interrupts at any moment: whatever was under way, the envs can be reset and go on as if new."""
    with vecenv.make(PONG, 3, preprocessing=True, workers=workers) as envs:
        envs.reset(seed=0)
        disturb(envs, batch_size)


def disturb(envs, batch_size):
    stop, main = threading.Event(), threading.main_thread().ident

    def interrupt():
        generator = np.random.default_rng(0)
        while not stop.wait(generator.uniform(0.002, 0.03)):
            signal.pthread_kill(main, signal.SIGINT)

    disturber = threading.Thread(target=interrupt)
    interrupted = 0
    disturber.start()
    try:
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            try:
                if envs._call_order.pending_count:
                    envs.recv(min(batch_size, envs._call_order.pending_count))
                elif envs._call_order.broken or not envs._call_order.all_ready:
                    envs.reset()
                else:
                    envs.send(np.ones(3, np.int64))
            except KeyboardInterrupt:
                interrupted += 1
            except (errors.EnvError, errors.NotResetError):
                pass
    finally:
        while True:
            try:
                stop.set()
                disturber.join()
                break
            except KeyboardInterrupt:
                continue
    assert interrupted > 3
    while envs._call_order.pending_count:
        with contextlib.suppress(KeyboardInterrupt, errors.EnvError):
            envs.recv()
    obs, _ = envs.reset(seed=9)
    with vecenv.make(PONG, 3, preprocessing=True) as fresh:
        np.testing.assert_array_equal(obs, fresh.reset(seed=9)[0])
        for _ in range(5):
            np.testing.assert_array_equal(envs.step(np.full(3, 2))[0], fresh.step(np.full(3, 2))[0])


class Interrupting(dict):
    """Raises once, right after results were put in."""

    armed = True

    def update(self, *args, **kwargs):
        super().update(*args, **kwargs)
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


def test_a_pool_that_was_interrupted_before_it_noted_results_goes_on():
    with vecenv.make(PONG, 3, preprocessing=True, workers=2) as envs, vecenv.make(PONG, 3, preprocessing=True) as other:
        envs.reset(seed=0)
        other.reset(seed=0)
        envs.send(np.ones(3, np.int64))
        envs.engine._games.results = Interrupting(envs.engine._games.results)
        with pytest.raises(KeyboardInterrupt):
            envs.recv()
        np.testing.assert_array_equal(envs.recv().obs, other.step(np.ones(3, np.int64))[0])


SCRIPT = """
import os, vecenv, numpy as np
envs = vecenv.make("ALE/Pong-v5", 2, preprocessing=True)
envs.reset(seed=0)
child = os.fork()
if not child:
    del envs  # their threads are not here: to wait for them would be for ever
else:
    assert os.waitpid(child, 0)[1] == 0
    envs.step(np.zeros(2, np.int64))
    print("fine")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_may_end():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=40)
    assert done.stdout == "fine\n", done.stderr
