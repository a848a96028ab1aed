"""An exception can do anything when it is looked at. It is a failure of its row all the same, and of no other."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.faults.faulty import ENGINES
from tests.faults.hostile import KINDS, HostileEnv, Odd, hostile, plainly
from vecenv._batch.faults import Fault
from vecenv.errors import EnvError, RestartLimit

SOME = ("getattr", "class", "reduce-exits", "odd")
with_every_kind = pytest.mark.parametrize("kind", KINDS)
COUNT = 5
"""So many that results are written together."""


ZEROS = np.zeros(COUNT, int)


def many(kinds: tuple[str, ...], where: str = "step") -> list[Any]:
    return [partial(HostileEnv, index, kinds, where) for index in range(COUNT)]


def on(engine: str) -> dict[str, Any]:
    one = {"sync": {}, "asyncio": {}, "thread": {"workers": 1}, "process": {"workers": 1, "context": "fork"}}[engine]
    return {"engine": engine, **one}


def raised(kind: str) -> BaseException:
    try:
        raise hostile(kind)
    except BaseException as error:
        return error


@with_every_kind
def test_a_fault_can_be_made_sent_and_raised_whatever_the_exception_is(kind: str) -> None:
    fault = Fault.of(raised(kind), "step", action=7)
    assert type(fault.message) is type(fault.kind) is type(fault.traceback) is str
    assert "in raised" in fault.traceback
    for each in (fault, pickle.loads(pickle.dumps(fault))):
        error = each.to_error(3, worker=1, pid=2)
        assert (error.row, error.rows, error.worker, error.pid, error.phase) == (3, (3,), 1, 2, "step")
        assert str(error).startswith("env 3 (worker 1, pid 2) raised ")
        assert error.elapsed is None
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.row) == (str(error), 3)


def test_an_action_that_cannot_be_shown_or_sent_is_left_out() -> None:
    fault = Fault.of(ValueError("text"), "step", action=hostile("repr"))
    assert "last action <repr() of the Hostile raised RuntimeError>" in str(fault.to_error(0))
    assert pickle.loads(pickle.dumps(Fault.of(ValueError("text"), "step", action=hostile("reduce")))).action is None


def test_an_exception_that_behaves_is_still_an_instance_of_its_class() -> None:
    class Fine(Exception):
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    assert isinstance(Fault.of(Fine("text"), "step").to_error(0), Fine)


def test_ctrl_c_while_a_fault_is_made_is_kept_for_later() -> None:
    assert isinstance(Fault.of(raised("getattr-interrupts"), "step").interrupt, KeyboardInterrupt)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["step", "reset"])
def test_a_hostile_exception_fails_its_own_row_alone(engine: str, where: str) -> None:
    with vecenv.make(many(KINDS, where), **on(engine)) as envs:
        for kind in KINDS:
            with plainly(kind):
                envs.reset(seed=0)
                envs.step(ZEROS)
                act = envs.reset if where == "reset" else partial(envs.step, ZEROS)
                if engine == "sync" and kind in ("odd", "getattr-interrupts"):  # to sync these are Ctrl-C
                    with pytest.raises((Odd, KeyboardInterrupt)):
                        act()
                    act = envs.recv
                with pytest.raises(EnvError) as caught:
                    act()
                assert (caught.value.rows, caught.value.phase) == ((1,), where)
                step = envs.recv()
                assert step.env_ids.tolist() == [0, 2, 3, 4]
                assert step.obs[:, 0].tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hostile_exception_in_a_call_is_an_error_of_its_env(engine: str) -> None:
    with vecenv.make(many(KINDS, "poke"), **on(engine)) as envs:
        for kind in KINDS:
            with plainly(kind):
                assert envs.call("poke") == (0, 1, 2, 3, 4)
                escapes = engine in ("sync", "thread") and kind == "odd"
                with pytest.raises(Odd if escapes else EnvError) as caught:
                    envs.call("poke")
                assert escapes or (caught.value.row, caught.value.phase) == (1, "call")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("engine", "kind"), [*(("sync", kind) for kind in KINDS if kind != "odd"), *(("process", kind) for kind in SOME)]
)
def test_a_hostile_exception_in_a_constructor_is_an_error_of_its_env(engine: str, kind: str) -> None:
    with plainly(kind):
        with pytest.raises(EnvError) as caught:
            vecenv.make(many((kind,), "make"), **on(engine))
        assert (caught.value.row, caught.value.phase) == (1, "make")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_env_with_hostile_exceptions_can_be_restarted(engine: str) -> None:
    kinds = ("meta", "getattr", "reduce-exits", "class")
    with plainly(engine), vecenv.make(many(kinds), **on(engine), on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=0)
        envs.step(ZEROS)
        *_, truncated, infos = envs.step(ZEROS)
        assert truncated.tolist() == [False, True, False, False, False]
        assert infos["fault"]["kind"][1] == "Hostile"
        with pytest.raises(RestartLimit) as caught:  # noqa: PT012  # one of these steps
            for _ in range(6):
                envs.step(ZEROS)
        assert caught.value.rows == (1,)
        assert len(caught.value.causes) == 4


class Value:
    """A result that raises when it is read, or pickled."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def fail(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error("do not read me")

    __array__ = __float__ = __bool__ = __len__ = __iter__ = __reduce_ex__ = __repr__ = fail


WRONG = [(place, error) for place in (0, 1, 2) for error in (ValueError, SystemExit, Odd)]
"""Which of the five values that `step` returns is hostile, and what it raises."""


class ValueEnv(HostileEnv):
    """In env 1 every second step returns a hostile value, as WRONG says."""

    def step(self, action: Any) -> Any:
        self.steps += 1
        result: list[Any] = [np.array([self.index, self.steps]), 1.0, False, False, {}]
        if self.index == 1 and self.steps % 2 == 0:
            place, error = WRONG[action]
            result[place] = Value(error)
        return tuple(result)

    action_space = spaces.Discrete(len(WRONG))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_that_raises_when_it_is_read_fails_its_own_row_alone(engine: str) -> None:
    with vecenv.make([partial(ValueEnv, index) for index in range(COUNT)], **on(engine)) as envs:
        for number, (place, error) in enumerate(WRONG):
            if engine == "sync" and error is Odd:
                continue  # to sync an Odd is Ctrl-C
            with plainly(f"{place} {error}"):
                envs.reset(seed=0)
                envs.step(np.full(COUNT, number))
                with pytest.raises(EnvError) as caught:
                    envs.step(np.full(COUNT, number))
                assert caught.value.rows == (1,)
                assert envs.recv().obs.tolist() == [[row, 2] for row in (0, 2, 3, 4)]
