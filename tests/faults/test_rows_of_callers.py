"""Wrong calls and interrupts on every engine, those in native code too: refused at once, and nothing has changed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import START_METHODS, within
from tests.faults.programs import own_words, program
from tests.faults.test_interrupts import interrupt_after
from vecenv.errors import InvalidAction, NothingPendingError, NotResetError, PendingError, SpaceError, UnknownRow

CARTPOLE, PENDULUM, PONG = ("CartPole-v1", 3), ("InvertedPendulum-v5", 3), ("ALE/Pong-v5", 3)
ENGINES: dict[str, tuple[tuple[str, int], dict[str, Any]]] = {
    "sync": (CARTPOLE, {"engine": "sync"}),
    "thread": (CARTPOLE, {"engine": "thread", "workers": 2}),
    **{
        f"process-{context}": (CARTPOLE, {"engine": "process", "workers": 2, "context": context})
        for context in START_METHODS
    },
    "compiled": (CARTPOLE, {"engine": "compiled"}),
    "mujoco": (PENDULUM, {"engine": "mujoco"}),
    "ale": (PONG, {"engine": "ale", "preprocessing": True}),
}


class Twins(NamedTuple):
    """Two vector envs alike: one suffers, the other tells what should come next."""

    name: str
    one: vecenv.VectorEnv
    other: vecenv.VectorEnv

    def actions(self, fill: float = 0) -> np.ndarray:
        return np.full((3, 1), fill, np.float32) if self.name == "mujoco" else np.full(3, fill).astype(np.int64)

    def begin(self, seed: int = 5) -> None:
        self.same(self.one.reset(seed=seed), self.other.reset(seed=seed))
        self.step()

    def step(self) -> None:
        self.same(self.one.step(self.actions()), self.other.step(self.actions()))

    def same(self, mine: Any, theirs: Any) -> None:
        for left, right in zip(mine[:-1], theirs[:-1], strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.fixture(scope="module", params=ENGINES)
def twins(request: pytest.FixtureRequest) -> Iterator[Twins]:
    (id, count), options = ENGINES[request.param]
    with vecenv.make(id, count, **options) as one, vecenv.make(id, count, **options) as other:
        pair = Twins(request.param, one, other)
        pair.begin()
        yield pair


@pytest.mark.parametrize("count", [0, 2, 4])
def test_too_few_or_too_many_actions(twins: Twins, count: int) -> None:
    twins.step()
    wrong = np.resize(twins.actions(), (count, *twins.actions().shape[1:]))
    for call in (twins.one.step, twins.one.send):
        with within(1.0), pytest.raises(SpaceError, match=rf"{count}.*3|3.*{count}"):
            call(wrong)
    twins.step()


@pytest.mark.parametrize("wrong", [6, -1, 10**9])
def test_an_action_out_of_range_names_the_env_and_the_value(twins: Twins, wrong: int) -> None:
    twins.step()
    actions = twins.actions()
    actions[1] = wrong
    if twins.name == "mujoco":  # a Box: what is beyond its bounds is the env's own affair, as in Gymnasium
        twins.same(twins.one.step(actions), twins.other.step(actions))
        return
    for call in (twins.one.step, twins.one.send):
        with within(1.0), pytest.raises(InvalidAction, match=rf"env 1\b.*{wrong}"):
            call(actions)
    twins.step()


def test_an_action_that_is_not_a_number_names_the_env(twins: Twins) -> None:
    twins.step()
    actions = twins.actions().astype(np.float32)
    actions[1] = np.nan
    for call in (twins.one.step, twins.one.send):
        with within(1.0), pytest.raises(SpaceError, match=r"env 1|float32"):
            call(actions)
    twins.step()


@pytest.mark.parametrize(
    ("ids", "error"), [([0, 3], UnknownRow), ([-1, 0], UnknownRow), ([2**40, 0], UnknownRow), ([1, 1], SpaceError)]
)
def test_an_env_id_that_is_unknown_or_there_twice(twins: Twins, ids: list[int], error: type[Exception]) -> None:
    twins.step()
    assert issubclass(error, IndexError if error is UnknownRow else ValueError)
    for call in (twins.one.step, twins.one.send):
        with within(1.0), pytest.raises(error, match=str(ids[-1] if ids[0] == 0 else ids[0])):
            call(twins.actions()[:2], ids)
    twins.step()


def test_nothing_pending_is_an_error_at_once(twins: Twins) -> None:
    twins.step()
    with within(1.0), pytest.raises(NothingPendingError):
        twins.one.recv()
    twins.step()


def test_too_many_sends(twins: Twins) -> None:
    twins.step()
    twins.one.send(twins.actions())
    for rows in (None, [1]):
        with within(1.0), pytest.raises(PendingError):
            twins.one.send(twins.actions() if rows is None else twins.actions()[:1], rows)
    step = twins.one.recv()
    np.testing.assert_array_equal(step.obs, twins.other.step(twins.actions())[0])
    twins.step()


def test_a_reset_after_an_interrupt_begins_anew_with_nothing_stale(twins: Twins) -> None:
    chance, interrupted = random.Random(3), 0
    turns = 5 if twins.name == "ale" else 40  # to begin a game takes a hundred frames
    for turn in range(turns):
        try:
            with interrupt_after(chance.uniform(1e-6, 1e-3)):
                for _ in range(100_000):  # until it comes, however fast steps are
                    twins.one.step(twins.actions())
        except (KeyboardInterrupt, NotResetError):
            interrupted += 1
        with within(5.0):
            twins.begin(turn)
    assert interrupted > turns // 8


BODY = """
import numpy as np
envs = vecenv.make({id!r}, {count}, **{options!r})
envs.reset(seed=0)
envs.step(np.zeros(envs.action_space.shape, envs.action_space.dtype))
ready()
while True:
    envs.step(np.zeros(envs.action_space.shape, envs.action_space.dtype))
"""


@pytest.mark.parametrize("name", [name for name in ENGINES if not name.startswith("process")])
def test_ctrl_c_ends_the_program_promptly_on_every_engine(name: str, tmp_path: Path) -> None:
    (id, count), options = ENGINES[name]
    with program(BODY.format(id=id, count=count, options=options), tmp_path) as running:
        running.wait_ready()
        with within(5.0):
            os.killpg(running.process.pid, signal.SIGINT)
            assert running.end(10.0) == -signal.SIGINT
        assert running.stderr.count("Traceback") == 1
        assert running.stderr.rstrip().endswith("KeyboardInterrupt")
        assert len(own_words(running.stderr)) <= 5
        running.assert_nothing_left()
