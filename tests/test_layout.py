"""Laws of the layout: a value fits its column exactly or is refused; nothing is broadcast, wrapped or truncated."""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.twins import SPACES, assert_same
from vecenv._batch.batch import Batch
from vecenv._batch.layout import Layout, SpaceMismatch, check_same_spaces
from vecenv._front.rollout import pack_time
from vecenv.errors import InvalidAction, SpaceError

FLOAT32 = spaces.Box(-1.0, 1.0, (2,), np.float32)
FLOAT16 = spaces.Box(-1.0, 1.0, (2,), np.float16)
UINT8 = spaces.Box(0, 255, (2,), np.uint8)
INT8 = spaces.Box(-100, 100, (2,), np.int8)
BOOLS = spaces.Box(0, 1, (2,), np.bool_)
COUNT = 3


def columns_of(space: Space[Any], count: int = COUNT) -> tuple[Layout, list[np.ndarray]]:
    layout = Layout(space)
    return layout, Batch.allocate(layout, Layout(spaces.Discrete(1)), count).obs


def write(space: Space[Any], value: Any, row: int = 1) -> list[np.ndarray]:
    layout, columns = columns_of(space)
    layout.writer(columns)(row, value)
    return columns


# --- leaves ----------------------------------------------------------------------------------------------------------


def test_leaves_are_named_by_their_path_and_in_the_order_of_the_space():
    layout = Layout(SPACES["dict"])
    described = [(leaf.path, leaf.shape, leaf.dtype) for leaf in layout.leaves]
    assert described == [
        ("camera", (2, 2, 1), np.uint8),
        ("inner.gear", (), np.int64),
        ("inner.speed", (), np.float64),
        ("pair.0", (2,), np.int8),
        ("pair.1", (), np.int64),
    ]
    assert layout.by_value == ()


@pytest.mark.parametrize("kind", ["text", "oneof", "sequence", "sequence-stacked", "graph", "custom"])
def test_spaces_without_a_fixed_size_are_one_leaf_by_value(kind):
    layout = Layout(SPACES[kind])
    assert layout.by_value == (0,)
    assert layout.leaves[0].dtype == object


# --- observations in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SPACES)
def test_what_is_written_is_read_back_batched_as_gymnasium_batches_it(kind):
    space = copy.deepcopy(SPACES[kind])
    space.seed(0)
    values = [space.sample() for _ in range(COUNT)]
    layout, columns = columns_of(space)
    put = layout.writer(columns)
    for row, value in enumerate(values):
        put(row, value)
    assert_same(layout.batched(columns), concatenate(space, values, create_empty_array(space, COUNT)))
    read = layout.reader(columns)
    assert_same([read(row) for row in range(COUNT)], values)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("index", [slice(None), slice(1, 2), [0, 2]], ids=str)
def test_writing_many_rows_at_once_is_writing_them_one_by_one(kind, index):
    space = copy.deepcopy(SPACES[kind])
    space.seed(0)
    rows = np.arange(COUNT)[index].tolist()
    values = [space.sample() for _ in rows]
    layout, one_by_one = columns_of(space)
    _, at_once = columns_of(space)
    put = layout.writer(one_by_one)
    for row, value in zip(rows, values, strict=True):
        put(row, value)
    if layout.bulk_writer(at_once)(index, values):
        assert_same(at_once, one_by_one)
    else:
        # Gymnasium samples a Box of shape () as a 0-d array, which takes the careful way.
        assert layout.by_value or kind in ("box-scalar", "dict"), "only what is irregular is left to the careful writer"


@pytest.mark.parametrize("bad", [0, 2])
@pytest.mark.parametrize(
    "value",
    [
        None,
        0.0,
        np.zeros(1, np.float32),
        np.zeros((1, 2), np.float32),
        np.zeros(3, np.float32),
        np.zeros(2),
        [0.0, 0.0],
    ],
    ids=["None", "scalar", "short", "2-d", "long", "float64", "list"],
)
def test_writing_many_rows_leaves_anything_irregular_to_the_careful_writer(value, bad):
    layout, columns = columns_of(FLOAT32)
    values: list[Any] = [np.zeros(2, np.float32)] * 3
    values[bad] = value
    assert not layout.bulk_writer(columns)(slice(None), values)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (FLOAT32, 1.0),
        (FLOAT32, np.zeros(1, np.float32)),
        (FLOAT32, np.zeros((2, 1), np.float32)),
        (FLOAT32, np.zeros((1, 2), np.float32)),
        (FLOAT32, np.zeros((), np.float32)),
        (FLOAT32, []),
        (FLOAT32, [[1.0], [1.0, 2.0]]),
        (SPACES["discrete"], np.zeros(1, np.int64)),
        (SPACES["discrete"], [1]),
        (SPACES["box-scalar"], np.zeros(1, np.float32)),
        (SPACES["multidiscrete-2d"], np.zeros(4, np.int64)),
        (SPACES["box-uint8-image"], np.zeros((6, 5), np.uint8)),
    ],
    ids=str,
)
def test_a_value_of_another_shape_is_refused_never_broadcast(space, value):
    with pytest.raises(SpaceError, match=r"shape|array"):
        write(space, value)


@pytest.mark.parametrize(
    ("space", "value", "stored"),
    [
        (FLOAT32, np.array([0.1, -1e30]), np.array([0.1, -1e30], np.float32)),
        (FLOAT32, [0.5, 1], np.array([0.5, 1.0], np.float32)),
        (FLOAT32, np.array([3, 4], np.int64), np.array([3.0, 4.0], np.float32)),
        (FLOAT32, np.array([np.nan, np.inf]), np.array([np.nan, np.inf], np.float32)),
        (FLOAT32, np.array([0.5, 1.0], ">f4"), np.array([0.5, 1.0], np.float32)),
        (FLOAT16, np.array([0.1, 60000.0]), np.array([0.1, 60000.0], np.float16)),
        (UINT8, [0, 255], np.array([0, 255], np.uint8)),
        (UINT8, np.array([True, False]), np.array([1, 0], np.uint8)),
        (INT8, np.array([-100, 100]), np.array([-100, 100], np.int8)),
        (BOOLS, [0, 1], np.array([False, True])),
    ],
    ids=str,
)
def test_a_cast_that_keeps_every_number_is_accepted(space, value, stored):
    assert_same(write(space, value)[0][1], stored)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (FLOAT32, np.array([0.0, 1e300])),
        (FLOAT32, np.array([-1e39, 0.0])),
        (FLOAT16, np.array([1e6, 0.0], np.float32)),
        (FLOAT16, np.array([70000, 0])),
        (UINT8, [0, 256]),
        (UINT8, [-1, 0]),
        (UINT8, np.array([0.0, 1.0])),
        (UINT8, np.array([0.5, 1.0], np.float32)),
        (INT8, np.array([0, 128])),
        (BOOLS, [0, 2]),
        (BOOLS, [0.0, 1.0]),
        (SPACES["box-int64"], np.array([2**63, 0], np.uint64)),
        (SPACES["discrete"], 1.0),
        (FLOAT32, ["1.0", "2.0"]),
        (FLOAT32, np.array([1j, 0])),
        (FLOAT32, None),
        (FLOAT32, [None, 1.0]),
        (FLOAT32, {"a": 1}),
    ],
    ids=str,
)
def test_a_cast_that_loses_a_number_is_refused(space, value):
    with pytest.raises(SpaceError):
        write(space, value)


@given(hnp.arrays(st.sampled_from([np.int64, np.uint64, np.int32, np.uint8, np.bool_]), (2,)))
def test_an_integer_column_holds_exactly_what_was_written_or_refuses(value):
    for space in (UINT8, INT8, SPACES["box-int64"]):
        fits = all(np.iinfo(space.dtype).min <= int(number) <= np.iinfo(space.dtype).max for number in value)
        if fits:
            assert write(space, value)[0][1].tolist() == [int(number) for number in value]
        else:
            with pytest.raises(SpaceError):
                write(space, value)


@given(hnp.arrays(np.float64, (2,), elements=st.floats()))
def test_a_float_column_never_turns_a_finite_number_into_infinity(value):
    with np.errstate(over="ignore"):
        expected = value.astype(np.float32)
    if np.array_equal(np.isfinite(expected), np.isfinite(value)):
        assert_same(write(FLOAT32, value)[0][1], expected)
    else:
        with pytest.raises(SpaceError, match="do not fit float32"):
            write(FLOAT32, value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"camera": 1}, "needs the keys .*'camera', 'inner', 'pair'"),
        ([1, 2, 3], "needs the keys .* got list"),
        ({"camera": None, "inner": {}, "pair": ()}, "at 'camera' is None"),
        ({"camera": np.zeros((2, 2, 1), np.uint8), "inner": {"gear": 1}, "pair": ()}, "at 'inner' needs the keys"),
        (
            {"camera": np.zeros((2, 2, 1), np.uint8), "inner": {"gear": 1, "speed": 0.5}, "pair": (1,)},
            "at 'pair' must be a tuple of 2 items, got 1 items",
        ),
        (
            {"camera": np.zeros((2, 2, 1), np.uint8), "inner": {"gear": 1, "speed": [1.0]}, "pair": (1, 2)},
            r"at 'inner.speed' has shape \(1,\)",
        ),
    ],
)
def test_an_error_in_a_nested_observation_names_the_place(value, says):
    with pytest.raises(SpaceError, match=says):
        write(SPACES["dict"], value)


@pytest.mark.parametrize("kind", ["custom", "box-float32", "dict-with-objects"])
def test_what_was_written_does_not_follow_the_object_it_came_from(kind):
    space = copy.deepcopy(SPACES[kind])
    value = space.sample()
    before = copy.deepcopy(value)
    columns = write(space, value)
    inner = value["parts"] if isinstance(value, dict) else value
    inner[:] = inner[:1] * 2 if isinstance(inner, list) else 0.5
    assert_same(Layout(space).reader(columns)(1), before)


# --- actions in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_packed_actions_are_what_gymnasium_would_hand_to_each_env(kind, count):
    space = SPACES[kind]
    batched = batch_space(copy.deepcopy(space), count)
    batched.seed(4)
    layout = Layout(space)
    for _ in range(5):
        actions = batched.sample()
        packed = layout.pack(actions, count)
        assert [column.dtype for column in packed] == [leaf.dtype for leaf in layout.leaves]
        assert_same(list(layout.read_many(packed)(slice(None), count)), list(iterate(batched, actions)))


def test_a_tuple_that_could_be_a_batch_is_the_batch_as_in_gymnasium():
    space = spaces.Tuple((spaces.Discrete(3), spaces.Discrete(3)))
    first, second = Layout(space).pack(((0, 1), (2, 0)), 2)
    assert (first.tolist(), second.tolist()) == ([0, 1], [2, 0])


def test_a_tuple_that_can_only_be_single_actions_is_read_as_such():
    space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,))))
    actions = ((0, np.zeros(2, np.float32)), (2, np.ones(2, np.float32)))
    first, second = Layout(space).pack(actions, 2)
    assert first.tolist() == [0, 2]
    assert second.tolist() == [[0, 0], [1, 1]]


@given(hnp.arrays(st.sampled_from([np.int64, np.int8, np.uint64, np.int32]), (COUNT,)))
def test_discrete_actions_are_accepted_exactly_when_all_are_in_the_space(actions):
    for space in (spaces.Discrete(5), spaces.Discrete(5, start=-2), spaces.Discrete(2**40)):
        inside = all(space.start <= int(action) < space.start + space.n for action in actions)
        if inside:
            assert Layout(space).pack(actions, COUNT)[0].tolist() == actions.tolist()
        else:
            wrong = next(
                row for row, action in enumerate(actions) if not space.start <= int(action) < space.start + space.n
            )
            with pytest.raises(InvalidAction, match=f"env {wrong}: action {actions[wrong]} is not in"):
                Layout(space).pack(actions, COUNT)


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4), elements=st.just(0)))
def test_actions_are_accepted_in_exactly_one_shape(actions):
    for space, shape in ((spaces.Discrete(2), (COUNT,)), (FLOAT32, (COUNT, 2)), (SPACES["box-scalar"], (COUNT,))):
        if actions.shape == shape:
            assert Layout(space).pack(actions, COUNT)[0].shape == shape
        else:
            with pytest.raises(InvalidAction):
                Layout(space).pack(actions, COUNT)


def test_packing_never_changes_what_it_was_given():
    given_actions = np.array([[0.5, 2.0]] * COUNT)
    before = given_actions.copy()
    Layout(FLOAT32).pack(given_actions, COUNT)
    assert_same(given_actions, before)


# --- spaces that differ ----------------------------------------------------------------------------------------------


def test_difference_is_named_down_to_the_leaf():
    ours = spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))), "b": FLOAT32})
    theirs = spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), spaces.Discrete(4))), "b": FLOAT32})
    with pytest.raises(SpaceMismatch, match=r"Env 1 has Discrete\(4\) at 'a.1' where env 0 has Discrete\(3\)"):
        check_same_spaces([ours, theirs], [FLOAT32, FLOAT32], "same")


@pytest.mark.parametrize(
    "other",
    [spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)],
    ids=["shape", "dtype", "kind"],
)
@pytest.mark.parametrize("mode", ["different", (FLOAT32, FLOAT32)], ids=["different", "pair"])
def test_other_shapes_and_dtypes_are_refused_in_every_mode(mode, other):
    with pytest.raises(SpaceMismatch, match="Env 1 has"):
        check_same_spaces([FLOAT32, other], [FLOAT32, FLOAT32], mode)


def test_other_action_bounds_are_refused_in_every_mode():
    with pytest.raises(SpaceMismatch, match="env 1 has"):
        check_same_spaces([FLOAT32, FLOAT32], [FLOAT32, spaces.Box(-2, 2, (2,))], "different")


def test_an_action_that_is_infinite_in_the_dtype_of_its_space_is_refused():
    layout = Layout(spaces.Box(-np.inf, np.inf, (2,), np.float32))
    with pytest.raises(InvalidAction, match=r"env 1: action is 1e\+300 at component \[0\]"):
        layout.pack(np.array([[0.0, 1.0], [1e300, 0.0]]), 2)


# --- actions that Gymnasium's own checks raise for -------------------------------------------------------------------

PARTS = {
    "discrete": spaces.Discrete(3),
    "box": FLOAT32,
    "multidiscrete": spaces.MultiDiscrete([3, 3]),
    "binary": spaces.MultiBinary(2),
    "text": spaces.Text(2),
    "oneof": spaces.OneOf((spaces.Discrete(3), FLOAT32)),
    "sequence": spaces.Sequence(spaces.Discrete(2)),
    "stacked": spaces.Sequence(FLOAT32, stack=True),
}


@pytest.mark.parametrize(("first", "second"), list(itertools.product(PARTS, PARTS)))
def test_as_many_envs_as_a_tuple_has_parts_may_be_given_batches_and_lists_of_actions(first: str, second: str) -> None:
    space = spaces.Tuple((PARTS[first], PARTS[second]))
    batched, layout = batch_space(space, 2), Layout(space)
    space.seed(0)
    batched.seed(1)
    for _ in range(5):
        single = [space.sample(), space.sample()]
        assert_same(list(layout.read_many(layout.pack(single, 2))(..., 2)), single)
        batch = batched.sample()
        assert_same(list(layout.read_many(layout.pack(batch, 2))(..., 2)), list(iterate(batched, batch)))


def test_a_tuple_of_actions_that_cannot_be_a_batch_is_one_action_for_each_env() -> None:
    layout = Layout(spaces.Tuple((FLOAT32, spaces.MultiDiscrete([3, 3]))))
    actions = tuple((np.full(2, row / 4, np.float32), np.array([row, 2])) for row in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(list(layout.read_many(layout.pack(actions, 2))(..., 2)), list(actions))


class Refusing:
    """Will not become an array."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("not me")


ODD_ACTIONS = [
    np.ma.array([1, 2], mask=[False, True]),
    np.ma.array([[1, 9], [0, 1]], mask=[[False, True], [False, False]]),
    np.ma.array([[1.0, np.nan], [0.0, 1.0]], mask=[[False, True], [False, False]]),
    np.ma.masked,
    [np.ma.masked, 1],
    np.array(3),
    np.array(None),
    np.array([None, None]),
    np.array([1, "a"], dtype=object),
    [(0, [1, "x"]), (0, [[1], 2])],
    ((0, (1, [2, 3])), (0, 1)),
    [Refusing(), Refusing()],
    Refusing(),
    np.zeros(2, [("a", int)]),
]


@pytest.mark.parametrize("odd", range(len(ODD_ACTIONS)))
def test_odd_arrays_are_refused_as_actions_and_raise_nothing_else(odd: int) -> None:
    pairs = [spaces.Tuple(pair) for pair in itertools.product(PARTS.values(), PARTS.values())]
    for space in [*PARTS.values(), *pairs, spaces.Dict(a=FLOAT32, b=spaces.Text(2))]:
        with pytest.raises(InvalidAction):
            Layout(space).pack(ODD_ACTIONS[odd], 2)


def test_a_masked_array_is_an_array_unless_something_in_it_is_masked() -> None:
    layout = Layout(spaces.Discrete(3))
    (column,) = layout.pack(np.ma.array([1, 2]), 2)
    assert (type(column), column.tolist()) == (np.ndarray, [1, 2])
    with pytest.raises(InvalidAction, match=r"^env 1: action is masked, Discrete\(3\) needs a value; pass an array"):
        layout.pack(np.ma.array([1, 2], mask=[False, True]), 2)


def test_keys_of_actions_need_no_order() -> None:
    space = spaces.Dict({"a": spaces.Discrete(2), 1: spaces.Discrete(2)})
    with pytest.raises(InvalidAction, match=r"pass exactly the keys \[1, 'a'\]"):
        Layout(space).pack({"a": [0, 1]}, 2)


def test_actions_over_time_that_are_ragged_or_masked_are_refused() -> None:
    batch = Batch.allocate(Layout(FLOAT32), Layout(spaces.Discrete(3)), 2)
    masked = np.ma.array([[0, 1], [1, 1]], mask=[[False, True], [False, False]])
    for odd in ([[0, 1], [1]], masked, Refusing()):
        with pytest.raises(InvalidAction):
            pack_time(batch, odd, None)
