"""Random programs of calls, compared with a model of the envs: the same state machine on every engine."""

from __future__ import annotations

import itertools
import os
import weakref

import pytest

from tests.laws.building import native_envs, python_envs
from vecenv.testing import check_machine
from vecenv.testing._interrupting import errors_in_hooks_printed

EXAMPLES = {
    "sync": 30,
    "thread": 20,
    "thread-ordered": 6,
    "asyncio": 10,
    "asyncio-ordered": 4,
    "fork": 8,
    "fork-ordered": 4,
    "caller": 4,
    "forkserver": 2,
    "spawn": 2,
}
"""Programs in every run: as many as a few seconds allow."""
MANY = 5
"""How many times as many a long run tries."""
BOUND = {"spawn": 30.0}
IN_THIS_PROCESS = ("sync", "thread", "thread-ordered", "asyncio", "asyncio-ordered")
"""Interrupts that meet a process that is being started differ from run to run: those are for long runs."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", EXAMPLES)
def test_every_answer_is_the_one_of_the_model(engine: str) -> None:
    how = {"examples": EXAMPLES[engine], "bound": BOUND.get(engine, 10.0), "interrupts": engine in IN_THIS_PROCESS}
    tally = check_machine(python_envs(engine), **how)
    assert tally["rows"] > 2 * EXAMPLES[engine]


@pytest.mark.parametrize("threads", [1, 2])
def test_every_answer_of_native_code_is_the_one_of_the_model(threads: int) -> None:
    tally = check_machine(native_envs(threads=threads), native=True, examples=12)
    assert tally["rows"] > 50


def test_an_error_in_a_hook_keeps_nothing_alive() -> None:
    class Raises:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def call() -> int:
        local = {1}
        kept.append(weakref.ref(local))
        Raises()  # its exception is reported by a hook, as one in a hook that runs at a fork
        return 1

    kept: list[weakref.ref] = []
    with errors_in_hooks_printed():
        assert call() == 1
    assert kept[0]() is None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_programs_try_what_they_are_meant_to_try() -> None:
    tally = check_machine(python_envs("fork"), examples=20, seed=9, interrupts=False, bound=10.0)
    seeds = itertools.count(9)
    while sum(count for what, count in tally.items() if what.startswith("interrupts of")) < 5:  # they fall by chance
        tally += check_machine(python_envs("thread"), examples=20, seed=next(seeds))
    for what in ("EnvError", "WorkerDied", "kills", "refusals", "wrong calls"):
        assert tally[what], tally


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", [*EXAMPLES, "compiled"])
def test_many_programs(engine: str) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"{engine}: seed {seed}")
    native = engine == "compiled"
    build = native_envs(threads=2) if native else python_envs(engine)
    examples = MANY * EXAMPLES.get(engine, 15)
    print(check_machine(build, native=native, examples=examples, seed=seed, bound=BOUND.get(engine, 10.0)))
