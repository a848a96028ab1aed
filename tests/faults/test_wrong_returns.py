"""An env that returns nonsense: never broadcast, never guessed, always said."""

from __future__ import annotations

import contextlib
import threading
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.faults.faulty import assert_rows, faulty, on_every_engine, with_every_start_method
from tests.twins import options_of
from vecenv.errors import EnvError


@with_every_start_method
def test_an_info_that_cannot_be_pickled_is_dropped_with_one_warning(context: str) -> None:
    with faulty("process", "info-unpicklable", at=1, context=context) as envs:
        envs.reset(seed=40)
        with pytest.warns(RuntimeWarning, match=r"info\['lock'\] of env 1") as caught:
            infos = envs.step(np.zeros(4, np.int64))[-1]
        assert len(caught) == 1
        assert "lock" not in infos
        assert infos["fine"][1] == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            obs, *_ = envs.step(np.array([20, 21, 22, 23]))
        assert_rows(obs, 2)


def one_warning(engine: str, key: str) -> contextlib.AbstractContextManager[Any]:
    """What is expected of the first step with such an info: processes drop the entry, and say so."""
    if engine == "process":
        return pytest.warns(RuntimeWarning, match=rf"^info\[{key}\] of env 1 cannot be pickled and was dropped")
    return contextlib.nullcontext()


@on_every_engine
def test_an_info_that_cannot_be_pickled_or_copied_in_the_step_that_ends_an_episode_is_of_no_harm(engine: str) -> None:
    ending = {"terminated": True, "info": {"lock": threading.Lock(), "fine": 1}}
    makers = [Odd, lambda: Odd(**ending), Odd, lambda: Odd(terminated=True, info={"fine": 3})]
    with vecenv.make(makers, engine=engine, autoreset="same-step", **options_of(engine, 1)) as envs:
        envs.reset()
        for expected in (one_warning(engine, "'lock'"), contextlib.nullcontext()):
            with expected as caught:
                _, _, terminated, _, infos = envs.step(np.zeros(4, np.int64))
            assert caught is None or len(caught) == 1
            assert terminated.tolist() == [False, True, False, True]
            assert infos["final_info"]["fine"].tolist() == [0, 1, 0, 3]
            assert ("lock" in infos["final_info"]) is (engine != "process")
            assert infos["_final_info"].tolist() == terminated.tolist()
    assert list(ending["info"]) == ["lock", "fine"]


class Attached(dict):
    """An info whose entries can be pickled, but not the dict itself."""

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self.lock = threading.Lock()


class Key:
    """A key that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("not this one")

    def __repr__(self) -> str:
        return "Key()"


@on_every_engine
@pytest.mark.parametrize("call", ["reset", "step"])
def test_infos_whose_keys_or_dicts_cannot_be_pickled_lose_only_that(engine: str, call: str) -> None:
    def odd(info: dict[Any, Any]) -> Odd:
        return Odd(reset=(np.zeros(1, np.float32), info)) if call == "reset" else Odd(info=info)

    makers = [lambda: odd(Attached({"fine": 0.5})), lambda: odd({Key(): 1.0, "fine": 1.0})]
    with vecenv.make(makers, engine=engine, **options_of(engine, 1)) as envs:
        if call == "step":
            envs.reset()
        with one_warning(engine, r"Key\(\)"):
            infos = envs.reset()[-1] if call == "reset" else envs.step(np.zeros(2, np.int64))[-1]
        assert infos["fine"].tolist() == [0.5, 1.0]


def test_an_env_keeps_its_own_dict_of_infos_when_an_entry_cannot_be_sent() -> None:
    class Keeper(Odd):
        def step(self, action: Any) -> Any:
            with self.odd["info"]["lock"]:  # it is still there
                return super().step(action)

    makers = [Odd, lambda: Keeper(info={"lock": threading.Lock(), "fine": 1})]
    with vecenv.make(makers, engine="process", workers=1, context="fork") as envs:
        envs.reset()
        with one_warning("process", "'lock'"):
            envs.step(np.zeros(2, np.int64))
        assert envs.step(np.zeros(2, np.int64))[-1]["fine"].tolist() == [0, 1]


class Mine:
    """Can be pickled, but not unpickled."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)


def test_an_info_that_cannot_be_unpickled_is_a_failure_and_not_the_end() -> None:
    with vecenv.make([Odd, lambda: Odd(info={"mine": Mine()})], engine="process", workers=2, context="fork") as envs:
        envs.reset()
        with pytest.raises(EnvError, match=r"env 1 .*cannot be unpickled here: ValueError"):
            envs.step(np.zeros(2, np.int64))
        assert envs.recv().env_ids.tolist() == [0]
        envs.reset()
        with pytest.raises(EnvError, match=r"env 1 .*cannot be unpickled"):
            envs.step(np.zeros(2, np.int64))


class Odd(gymnasium.Env):
    """Returns what it is told to."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, **odd: Any) -> None:
        self.odd = odd

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.odd.get("reset", (np.zeros(1, np.float32), {}))

    def step(self, action: Any) -> Any:
        odd = {"obs": np.zeros(1, np.float32), "reward": 0.0, "terminated": False, "truncated": False, "info": {}}
        return tuple({**odd, **self.odd}[name] for name in odd)


@on_every_engine
@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"reward": np.array([1.0, 2.0])}, "reward must be a number"),
        ({"reward": 10**400}, "too large"),
        ({"info": np.array([1, 2])}, "info must be a dict, got ndarray"),
        ({"terminated": None}, "terminated must be a bool, got NoneType"),
        ({"truncated": 1}, "truncated must be a bool, got int"),
        ({"obs": np.full(1, 1e300)}, "do not fit float32"),
        ({"obs": "text"}, "observation"),
    ],
)
def test_odd_values_are_refused_alone_and_among_many(
    engine: str, count: int, odd: dict[str, Any], message: str
) -> None:
    with vecenv.make([lambda: Odd(**odd)] * count, engine=engine, **options_of(engine, 1)) as envs:
        envs.reset()
        with pytest.raises(EnvError, match=message):
            envs.step(np.zeros(count, np.int64))


@on_every_engine
@pytest.mark.parametrize(
    "result", [None, np.zeros(1), (np.zeros(1),), (np.zeros(2), {}), (np.zeros(1, np.float32), None)]
)
def test_a_wrong_result_of_reset_is_of_phase_reset(engine: str, result: Any) -> None:
    with vecenv.make([lambda: Odd(reset=result)] * 5, engine=engine, **options_of(engine, 1)) as envs:
        with pytest.raises(EnvError) as caught:
            envs.reset(seed=3)
        assert (caught.value.row, caught.value.phase, caught.value.action) == (0, "reset", None)


@on_every_engine
def test_observations_outside_the_bounds_are_passed_on_as_gymnasium_does(engine: str) -> None:
    far = np.full(1, 7.0, np.float32)
    with vecenv.make([lambda: Odd(obs=far)] * 5, engine=engine, **options_of(engine, 1)) as envs:
        envs.reset()
        assert envs.step(np.zeros(5, np.int64))[0].tolist() == [[7.0]] * 5


@on_every_engine
def test_a_reward_in_an_array_of_one_is_a_number(engine: str) -> None:
    with vecenv.make([lambda: Odd(reward=np.array([2.5]))] * 5, engine=engine, **options_of(engine, 1)) as envs:
        envs.reset()
        assert envs.step(np.zeros(5, np.int64))[1].tolist() == [2.5] * 5
