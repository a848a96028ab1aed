"""close(): once, twice, at any time, from anywhere; bounded, and silent unless an env misbehaves."""

from __future__ import annotations

import gc
import os
import time
import warnings
from functools import partial
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

import vecenv
from tests.faults.faulty import START_METHODS, actions, fails, faulty, on_every_engine, until, walk, within
from tests.faults.programs import program
from tests.sampling import product
from tests.twins import options_of
from vecenv.errors import ClosedError, EnvError
from vecenv.testing import FaultEnv, LawEnv


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE}


@on_every_engine
def test_close_may_be_called_twice_and_nothing_works_afterwards(engine: str) -> None:
    with faulty(engine) as envs:
        envs.reset(seed=40)
        envs.close()
        envs.close()
        with pytest.raises(ClosedError):
            envs.step(actions(1))
        with pytest.raises(ClosedError):
            envs.call("poke")


@on_every_engine
def test_close_during_a_pending_step_is_quick(engine: str) -> None:
    with faulty(engine) as envs:
        envs.reset(seed=40)
        envs.send(actions(1))
        with within(1.0):
            envs.close()


@on_every_engine
def test_close_after_an_error_is_quick(engine: str) -> None:
    with faulty(engine, "raise") as envs:
        envs.reset(seed=40)
        fails(envs, 1, EnvError)
        with within(1.0):
            envs.close()


@pytest.mark.parametrize("engine", ["sync", "thread"])
def test_everything_is_closed_although_warnings_are_errors(engine: str) -> None:
    with faulty(engine, "raise", where="close") as envs, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="env 1 raised in close"):
            envs.close()
        assert envs.closed


HOMES = [("sync", {}), ("thread", {}), *(("process", {"context": context}) for context in START_METHODS)]
HANGS = ("hang", "hang-with-gil", "hang-ignoring-sigterm")


@pytest.mark.parametrize(("engine", "options"), HOMES)
def test_an_env_that_raises_in_close_is_named_in_one_warning(engine: str, options: dict[str, str]) -> None:
    with faulty(engine, "raise", where="close", **options) as envs:
        envs.reset(seed=40)
        with pytest.warns(RuntimeWarning) as caught:
            envs.close()
        assert ["env 1 raised in close(): ValueError('boom in env 1')"] == [str(warning.message) for warning in caught]


@product(together=1, context=START_METHODS, kind=HANGS)
def test_an_env_that_hangs_in_close_is_named_in_one_warning(context: str, kind: str) -> None:
    hangs_in_close("process", kind, context=context)


def test_an_env_of_a_thread_that_hangs_in_close_is_named_in_one_warning() -> None:
    """Other kinds do not apply: nothing else runs while a thread has the GIL, and signals are for the main thread."""
    hangs_in_close("thread", "hang")


def hangs_in_close(engine: str, kind: str, **options: str) -> None:
    before = children()
    with faulty(engine, kind, where="close", seconds=5.0, **options) as envs:
        envs.reset(seed=40)
        with within(3.0), pytest.warns(RuntimeWarning, match=r"env 1 .*within 1.0 s") as caught:
            envs.close(timeout=1.0)
        assert len(caught) == 1
    assert until(lambda: children() <= before)


def test_an_env_that_hangs_in_close_does_not_keep_others_from_closing_well() -> None:
    with faulty("process", "hang", where="close", env=3) as envs:
        envs.reset(seed=40)
        with pytest.warns(RuntimeWarning, match="env 3 "):
            envs.close(timeout=0.3)


class ClosesAlone(FaultEnv):
    """Notes whether another env of this process is in close() at the same time, as pygame's shutdown must not be."""

    closing: ClassVar[set[int]] = set()
    together: ClassVar[list[set[int]]] = []

    def close(self) -> None:
        self.closing.add(self.index)
        time.sleep(0.05)
        self.together.append(set(self.closing))
        self.closing.discard(self.index)


@pytest.mark.parametrize("engine", ["sync", "thread"])
def test_envs_after_one_that_raises_in_close_are_closed_too(engine: str) -> None:
    closed = []

    class Closing(LawEnv):
        def close(self) -> None:
            closed.append(self._index)
            if self._index == 0:
                raise ValueError("not now")

    envs = vecenv.make([lambda row=row: Closing(row) for row in range(3)], engine=engine)
    with pytest.warns(RuntimeWarning, match="env 0 raised in close"):
        envs.close()
    assert sorted(closed) == [0, 1, 2]


def test_threads_close_their_envs_one_after_another() -> None:
    envs = vecenv.make([partial(ClosesAlone, index) for index in range(4)], engine="thread", workers=4)
    envs.reset(seed=40)
    envs.close()
    assert sorted(ClosesAlone.together, key=min) == [{0}, {1}, {2}, {3}]


@on_every_engine
def test_a_vector_env_that_is_dropped_without_close_leaves_nothing(engine: str) -> None:
    before = children()
    envs = vecenv.make(FaultEnv.many(4), engine=engine, **options_of(engine))
    envs.reset(seed=40)
    assert bool(children() - before) == (engine == "process")
    with within(2.0):
        del envs
        gc.collect()
    assert until(lambda: children() <= before)


def test_a_forked_child_that_closes_leaves_the_workers_to_its_parent() -> None:
    with faulty("process") as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    envs.close()
                    envs.__del__()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        walk(envs, 2, 4)


def test_workers_come_from_a_fork_server_unless_told_otherwise() -> None:
    """A fork of a process with threads, and NumPy has some, may hang."""
    with faulty("process", context=None) as envs:
        assert [type(process).__name__ for process in envs.engine.processes] == ["ForkServerProcess"] * 2


def test_a_forked_child_cannot_use_the_vector_env() -> None:
    with faulty("process") as envs:
        envs.reset(seed=40)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                envs.step(actions(1))
            except RuntimeError as error:
                code = 0 if "make one in the child" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        walk(envs, 1, 2)


LEFT_OPEN = """
class Env(FaultEnv):
    def close(self):
        print(f"env {self.index} closed\\n", end="", flush=True)  # one write: other processes write to the file too

envs = vecenv.make([lambda index=index: Env(index) for index in range(3)], engine=ENGINE, **OPTIONS)
envs.reset(seed=0)
"""


@pytest.mark.parametrize(
    ("engine", "options"), [("sync", {}), ("thread", {"workers": 2}), ("process", {"workers": 2, "context": "fork"})]
)
def test_envs_that_a_program_leaves_open_are_closed_when_it_ends(engine: str, options: dict, tmp_path: Path) -> None:
    body = LEFT_OPEN.replace("ENGINE", repr(engine)).replace("OPTIONS", repr(options))
    with program(body, tmp_path) as running:
        assert running.end(60.0) == 0, running.stderr
        assert sorted(running.stdout.splitlines()) == [f"env {index} closed" for index in range(3)]
        assert running.stderr == ""
