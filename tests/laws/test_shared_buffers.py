"""Envs that share one array: each row is what its env returned, as in a loop that copies every result at once."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector.utils import concatenate, create_empty_array

import vecenv
import vecenv.sb3
from tests.sampling import product
from tests.sharing import FORMS, SharingEnv
from tests.twins import assert_same
from vecenv._batch.own import own, own_info

HOMES: dict[str, dict[str, Any]] = {
    "sync": {"engine": "sync"},
    "thread": {"engine": "thread", "workers": 1},
    "process": {"engine": "process", "workers": 1, "context": "fork"},
    "processes": {"engine": "process", "workers": 2, "context": "fork"},
    "caller works": {"engine": "process", "workers": 1, "context": "fork", "caller_works": True},
}


class PlainLoop:
    """The envs in a list, stepped one after the other; every result is copied before the next env runs."""

    def __init__(self, envs: list[SharingEnv], mode: str) -> None:
        self._envs, self._mode = envs, mode
        self._over = [False] * len(envs)

    def reset(self) -> tuple[Any, Any]:
        obs, infos = zip(*(copy.deepcopy(env.reset()) for env in self._envs), strict=True)
        return self._batched(obs), [info["index"] for info in infos]

    def step(self, actions: Any) -> dict[str, Any]:
        rows = [self._one(*each) for each in enumerate(zip(self._envs, actions, strict=True))]
        obs, reward, over, infos, finals = zip(*rows, strict=True)
        self._over = list(over)
        return {
            "obs": self._batched(obs),
            "reward": list(reward),
            "terminated": list(over),
            "index": [info["index"] for info in infos],
            "state": np.array([info["state"] for info in infos]),
            "deep": np.array([info["deep"]["state"] for info in infos]),
            "final": list(finals),
        }

    def _one(self, row: int, asked: tuple[SharingEnv, Any]) -> tuple[Any, ...]:
        env, action = asked
        if self._over[row] and self._mode == "next-step":
            obs, info = copy.deepcopy(env.reset())
            return obs, 0.0, False, info, None
        obs, reward, over, _, info = copy.deepcopy(env.step(action))
        if not over or self._mode == "next-step":
            return obs, reward, over, info, None
        final = np.array(obs) if isinstance(obs, list) else obs, info["index"]
        obs, info = copy.deepcopy(env.reset())
        return obs, reward, over, info, final

    def _batched(self, values: Any) -> Any:
        space = self._envs[0].observation_space
        return concatenate(space, values, create_empty_array(space, len(values)))


def finals(terminated: np.ndarray, infos: dict[str, Any]) -> list[Any]:
    """What ended an episode in each row, if one was ended and the next begun."""
    if "final_obs" not in infos:
        return [None] * len(terminated)
    index = infos["final_info"]["index"]
    return [(infos["final_obs"][row], int(index[row])) if over else None for row, over in enumerate(terminated)]


@product(home=HOMES, form=FORMS, mode=["next-step", "same-step"], count=[2, 5])
def test_rows_are_those_of_a_plain_loop(home: str, form: str, mode: str, count: int) -> None:
    loop = PlainLoop([SharingEnv(row, form) for row in range(count)], mode)
    makers = [partial(SharingEnv, row, form) for row in range(count)]
    with vecenv.make(makers, autoreset=mode, **HOMES[home]) as envs:
        obs, infos = envs.reset()
        assert_same((obs, infos["index"].tolist()), loop.reset())
        for number in range(8):
            actions = (number + np.arange(count)) % 9
            obs, reward, terminated, _, infos = envs.step(actions)
            expected = loop.step(actions)
            assert_same(obs, expected["obs"])
            assert reward.tolist() == expected["reward"]
            assert terminated.tolist() == expected["terminated"]
            assert infos["index"].tolist() == expected["index"]
            assert_same(infos["state"], expected["state"])
            assert_same(infos["deep"]["state"], expected["deep"])
            assert_same(finals(terminated, infos), expected["final"])


class KeepsItsResult(gymnasium.Env[Any, Any]):
    """Writes into an array that only one tuple holds, which all envs return."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    result = np.zeros(2), 0.0, False, False, {}

    def __init__(self, index: int) -> None:
        self.index = index

    def reset(self, **kwargs: Any) -> Any:
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        self.result[0][:] = self.index
        return self.result


@pytest.mark.parametrize("make", [vecenv.make, vecenv.sb3.DummyVecEnv], ids=["sync", "sb3"])
def test_an_array_in_a_result_that_envs_keep_is_copied(make: Any) -> None:
    envs = make([partial(KeepsItsResult, index) for index in range(4)])
    envs.reset()
    assert envs.step(np.zeros(4, np.int64))[0].tolist() == [[index, index] for index in range(4)]
    envs.close()


def test_an_error_while_a_result_is_copied_is_told_as_it_is() -> None:
    class CannotBeCopied(dict[str, Any]):
        def __deepcopy__(self, memo: Any) -> Any:
            raise SystemExit("no copies")

    class Env(KeepsItsResult):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1, 2), np.float64)

        def reset(self, **kwargs: Any) -> Any:
            return np.zeros((1, 2)), {}

        def step(self, action: Any) -> Any:
            return CannotBeCopied(), 0.0, False, False, {}

    envs = vecenv.make([partial(Env, index) for index in range(2)], engine="thread")
    envs.reset()
    with pytest.raises(vecenv.errors.EnvError, match="no copies"):
        envs.step(np.zeros(2, np.int64))
    envs.close()


def test_an_info_that_contains_itself_is_copied_with_its_arrays() -> None:
    info: dict[str, Any] = {"array": np.zeros(2)}
    info["itself"] = info
    owned = own_info(info)
    info["array"][:] = 1
    assert owned["itself"] is owned
    assert_same(owned["array"], np.zeros(2))


def test_an_info_may_be_nested_deeper_than_python_calls_functions() -> None:
    innermost = np.zeros(2)
    info: dict[str, Any] = {"array": innermost}
    for _ in range(10_000):
        info = {"deeper": info}
    owned = own_info(info)
    innermost[:] = 1
    for _ in range(10_000):
        owned = owned["deeper"]
    assert_same(owned["array"], np.zeros(2))


def test_only_arrays_that_others_hold_are_copied() -> None:
    fresh, held = {"one": np.zeros(2), "two": (np.zeros(3), np.zeros(4))}, np.zeros(5)
    places = [array.__array_interface__["data"][0] for array in (fresh["one"], *fresh["two"])]
    owned = own(fresh, held=False)
    assert [array.__array_interface__["data"][0] for array in (owned["one"], *owned["two"])] == places
    assert own(fresh) is not fresh
    assert own({"held": held}, held=False)["held"] is not held
    assert own([held[:2]], held=False)[0].base is None


def test_an_array_that_repeats_its_elements_is_copied_without_its_repeats() -> None:
    held = np.arange(3.0)
    view = np.broadcast_to(held[:, None], (3, 4))
    owned = own(view)
    held += 1
    assert_same(owned, np.repeat([[0.0], [1.0], [2.0]], 4, axis=1))
    assert own(np.broadcast_to(held, (10**12, 3))).shape == (10**12, 3)
    assert own(np.broadcast_to(held[:0], (10**12, 0))).shape == (10**12, 0)
