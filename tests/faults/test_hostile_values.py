"""Values of envs whose own methods raise: a failure of their env, or kept as they are; the other rows are right."""

from __future__ import annotations

import contextlib
import warnings
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.faults.faulty import on_every_engine
from tests.faults.test_wrong_returns import Odd
from tests.twins import options_of
from vecenv.errors import EnvError, SpaceError


def refuses(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError("by the env's own code")


class RefusingDict(dict):
    items = keys = __iter__ = refuses


class RefusingArray(np.ndarray):
    __array_function__ = refuses


class Pretends:
    __class__ = property(lambda self: dict)  # type: ignore[assignment]


def endless() -> dict[str, Any]:
    info: dict[str, Any] = {"a": 1}
    info["info"] = info
    return info


def among(engine: str, count: int = 5, **odd: Any) -> vecenv.VectorEnv:
    """Envs of which the first returns this."""
    return vecenv.make([partial(Odd, **odd), *[Odd] * (count - 1)], engine=engine, **options_of(engine, 1))


@on_every_engine
@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"obs": np.zeros(1, np.float32).view(RefusingArray)}, None),
        ({"reward": np.timedelta64(3, "s")}, "reward must be a number"),
        ({"info": RefusingDict(a=1)}, "by the env's own code"),
        ({"info": Pretends()}, "info must be a dict, got Pretends"),
    ],
    ids=["array", "time", "dict", "pretence"],
)
def test_values_whose_methods_raise_are_failures_of_their_env_alone(
    engine: str, odd: dict[str, Any], message: str | None
) -> None:
    with among(engine, **odd) as envs:
        envs.reset()
        if message is None:  # an array like any other, once nobody calls NumPy's functions with it
            assert envs.step(np.zeros(5, np.int64))[0].tolist() == [[0.0]] * 5
            return
        with pytest.raises(EnvError, match=message) as caught:
            envs.step(np.zeros(5, np.int64))
        assert caught.value.rows == (0,)
        assert envs.recv().env_ids.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("value", [RefusingDict(a=1), Pretends(), endless()], ids=["dict", "pretence", "endless"])
def test_infos_that_cannot_be_arrays_are_kept_as_they_are(value: Any) -> None:
    with among("sync", info={"odd": value, "fine": 1}) as envs:
        envs.reset()
        infos = envs.step(np.zeros(5, np.int64))[-1]
        assert infos["fine"].tolist() == [1, 0, 0, 0, 0]
        assert infos["_odd"].tolist() == [True, False, False, False, False]


def test_an_info_of_another_class_of_dict_is_a_dict() -> None:
    with among("sync", info=type("Mine", (dict,), {})(fine=1)) as envs:
        envs.reset()
        assert envs.step(np.zeros(5, np.int64))[-1]["fine"].tolist() == [1, 0, 0, 0, 0]


class WithSpace(Odd):
    """An env with another space."""

    def __init__(self, name: str, make: Any) -> None:
        super().__init__()
        if make is None:
            self.__class__ = type("Spaceless", (gymnasium.Env,), {"render_mode": None})
        else:
            setattr(self, name, make())


def box(**methods: Any) -> Any:
    return type("OwnBox", (spaces.Box,), methods)(-1, 1, (1,), np.float32)


SPACES: dict[str, Any] = {
    "none": None,
    "a class": lambda: spaces.Box,
    "equality": partial(box, __eq__=refuses),
    "equality of arrays": partial(box, __eq__=lambda self, other: np.array([True, False])),
}


@on_every_engine
@pytest.mark.parametrize("name", ["observation_space", "action_space"])
@pytest.mark.parametrize("space", SPACES)
def test_spaces_that_cannot_be_used_are_space_errors(engine: str, name: str, space: str) -> None:
    with pytest.raises(SpaceError, match="space"):
        vecenv.make([partial(WithSpace, name, SPACES[space])] * 2, engine=engine, **options_of(engine, 1)).close()


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_workers_take_spaces_of_classes_that_only_cloudpickle_can_send(name: str) -> None:
    factories = [partial(WithSpace, name, box)] * 2
    with vecenv.make(factories, engine="process", workers=1, context="fork") as envs:
        envs.reset()


class RefusingTuple(tuple):
    __len__ = __iter__ = refuses


@on_every_engine
@pytest.mark.parametrize(
    "result", [RefusingTuple((1, 2)), type("T", (), {"__class__": property(lambda self: tuple)})()], ids=["tuple", "no"]
)
def test_results_that_only_look_like_five_values_are_failures_of_their_env_alone(engine: str, result: Any) -> None:
    class Returns(Odd):
        def step(self, action: Any) -> Any:
            return result

    with vecenv.make([Returns, *[Odd] * 4], engine=engine, **options_of(engine, 1)) as envs:
        envs.reset()
        with pytest.raises(EnvError, match=r"step\(\) (must return 5|returned 2) values") as caught:
            envs.step(np.zeros(5, np.int64))
        assert caught.value.rows == (0,)
        assert envs.recv().env_ids.tolist() == [1, 2, 3, 4]


class ExitsWhenCopied:
    def __reduce__(self) -> Any:
        raise SystemExit(3)


@on_every_engine
def test_an_info_that_exits_when_it_is_copied_ends_no_program(engine: str) -> None:
    odd = {"info": {"odd": ExitsWhenCopied(), "fine": 1}, "truncated": True}
    factories = [partial(Odd, **odd), Odd, Odd, Odd, Odd]
    with vecenv.make(factories, engine=engine, autoreset="same-step", **options_of(engine, 1)) as envs:
        envs.reset()
        with contextlib.suppress(EnvError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # workers may drop the entry, or fail its env
            envs.step(np.zeros(5, np.int64))
