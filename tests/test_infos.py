"""Laws of infos: Gymnasium's layout, and a dtype that holds every value whatever came first."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import vecenv
from tests.twins import assert_same
from vecenv._front.infos import as_arrays, as_dicts, objects

COUNT = 4


def gymnasium_infos(infos: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """What Gymnasium itself makes of the infos of single envs."""

    class Front(SimpleNamespace):
        _add_info = VectorEnv._add_info

    front, gathered = Front(num_envs=COUNT), {}
    for row, info in infos:
        gathered = front._add_info(gathered, info, row)
    return gathered


KINDS = {
    "count": st.integers(-(2**63), 2**63 - 1),
    "ratio": st.floats(),
    "lucky": st.booleans(),
    "single": st.floats(width=32).map(np.float32),
    "small": st.integers(-128, 127).map(np.int8),
    "place": hnp.arrays(np.float32, (2,)),
    "grid": hnp.arrays(np.int64, (2, 3)),
    "scalar": hnp.arrays(np.float64, ()),
    "name": st.text(max_size=3),
    "nothing": st.none(),
    "items": st.lists(st.integers(), max_size=2),
}


def one_info(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    kinds = dict(KINDS)
    if depth:
        kinds["nested"] = one_info(depth - 1)
    return st.fixed_dictionaries({}, optional=kinds)


@given(st.lists(one_info(2), min_size=COUNT, max_size=COUNT))
def test_regular_infos_are_rendered_as_gymnasium_renders_them(infos):
    told = [(row, info) for row, info in enumerate(infos) if info]
    before = copy.deepcopy(told)
    rendered = as_arrays(told, COUNT)
    assert_same(rendered, gymnasium_infos(told))
    assert_same(told, before)


@given(st.lists(one_info(1), min_size=COUNT, max_size=COUNT))
def test_every_value_can_be_found_again_where_the_mask_says_so(infos):
    rendered = as_arrays(enumerate(infos), COUNT)
    for row, info in enumerate(infos):
        for key, value in info.items():
            assert rendered[f"_{key}"][row]
            if key != "nested":
                assert_same(rendered[key][row], value)
    for key in KINDS.keys() & rendered.keys():
        assert rendered[f"_{key}"].tolist() == [key in info for info in infos]


@given(st.lists(one_info(1), min_size=COUNT, max_size=COUNT))
def test_infos_to_list_gives_back_what_each_env_said(infos):
    plain = [{key: value for key, value in info.items() if not isinstance(value, np.generic)} for info in infos]
    assert_same(vecenv.infos_to_list(as_arrays(enumerate(plain), COUNT), COUNT), plain)


def test_infos_to_list_has_final_obs_and_final_info_where_an_episode_ended():
    with vecenv.make("CartPole-v1", 3, autoreset="same-step", max_episode_steps=2, engine="sync") as envs:
        _, infos = envs.reset(seed=0)
        assert vecenv.infos_to_list(infos, 3) == [{}, {}, {}]
        envs.step([0, 0, 0])
        infos = envs.step([0, 0, 0])[4]
    for row, info in enumerate(vecenv.infos_to_list(infos, 3)):
        assert_same(info, {"final_obs": infos["final_obs"][row], "final_info": {}})


def test_infos_to_list_gives_keys_without_a_mask_to_all_envs_and_refuses_another_number_of_envs():
    infos = {"lives": np.array([3, 2]), "_odd": np.array([True, False])}
    assert vecenv.infos_to_list(infos, 2) == [{"lives": 3, "_odd": True}, {"lives": 2, "_odd": False}]
    with pytest.raises(vecenv.errors.SpaceError, match=r"infos\['lives'\] has shape \(2,\), and there are 3 envs"):
        vecenv.infos_to_list(infos, 3)


def column(*values: Any) -> Any:
    return as_arrays([(row, {"key": value}) for row, value in enumerate(values)], len(values))["key"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 2.5), np.array([1.0, 2.5])),
        ((2.5, 1), np.array([2.5, 1.0])),
        ((np.float32(0.1), 0.1), np.array([np.float32(0.1), 0.1], np.float64)),
        ((np.int8(1), 2**40), np.array([1, 2**40])),
        ((np.bool_(True), False), np.array([True, False])),
        ((np.bool_(True), np.bool_(False)), np.array([True, False])),
        ((np.array([1, 2]), np.array([0.5, 1.0])), np.array([[1, 2], [0.5, 1.0]])),
        ((np.uint64(2**63), np.uint64(1)), np.array([2**63, 1], np.uint64)),
    ],
    ids=str,
)
def test_the_dtype_holds_every_value_whatever_came_first(values, expected):
    assert_same(column(*values), expected)


@pytest.mark.parametrize(
    "values",
    [
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), 1.0),
        (1.0, np.zeros(2)),
        (1, "one"),
        ("one", 1),
        (None, 1.0),
        (True, 1),
        (True, 0.5),
        ({"a": 1}, 2),
        ([1, 2], [3]),
        (2**70, 1),
        (1 + 2j, 1.0),
        (np.uint64(2**63), -1),
        (2**63, -1),
        (np.array(["a"]), np.array([1])),
        (np.array([None, 1]), np.array([2, 3])),
    ],
    ids=str,
)
def test_values_that_share_no_dtype_or_shape_are_kept_as_they_are(values):
    result = column(*values)
    assert result.dtype == object
    assert result.shape == (len(values),)
    for ours, value in zip(result.tolist(), values, strict=True):
        assert_same(ours, value)
        assert type(ours) is type(value)


def test_rows_without_the_key_are_zero_or_none():
    rendered = as_arrays([(1, {"number": 3, "word": "x", "place": np.ones(2)})], 3)
    assert_same(rendered["number"], np.array([0, 3, 0]))
    assert_same(rendered["place"], np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    assert rendered["word"].tolist() == [None, "x", None]
    assert rendered["_number"].tolist() == [False, True, False]


def test_nested_dicts_have_masks_of_their_own():
    rendered = as_arrays([(0, {"a": {"x": 1}}), (2, {"a": {"y": 2.0}})], 3)
    assert rendered["_a"].tolist() == [True, False, True]
    assert rendered["a"]["_x"].tolist() == [True, False, False]
    assert_same(rendered["a"]["y"], np.array([0.0, 0.0, 2.0]))


def test_no_infos_at_all_are_an_empty_dict():
    assert as_arrays([], 3) == {}
    assert as_arrays([(0, {})], 3) == {}


def test_arrays_are_copied():
    place = np.zeros(2)
    rendered = column(place, np.ones(2))
    place[:] = 7
    assert rendered[0].tolist() == [0, 0]


def test_dicts_are_fresh_and_one_per_row():
    info = {"a": 1}
    dicts = as_dicts([(1, info)], 3)
    assert dicts == [{}, {"a": 1}, {}]
    dicts[1]["a"] = 2
    dicts[0]["b"] = 3
    assert info == {"a": 1}
    assert dicts[2] == {}


@pytest.mark.parametrize("value", [np.zeros(3), [1, 2, 3], (1, 2, 3), {"a": 1}, None, np.zeros(())], ids=str)
def test_objects_keeps_anything_as_one_entry(value):
    result = objects([1], [value], 3)
    assert result.shape == (3,)
    assert_same(result[1], value)
