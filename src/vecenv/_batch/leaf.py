"""One leaf of a space: a column of numbers, or of Python objects where there is no fixed size.

Everything that is done to a single column: store values, batch them, check a batch of actions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from vecenv._util.checks import brief
from vecenv._util.forks import cached_property
from vecenv.errors import InvalidAction, SpaceError

FIXED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_OTHERS = (spaces.Text, spaces.OneOf, spaces.Graph, spaces.Sequence)


@dataclass(frozen=True)
class Leaf:
    """One node of a space tree that has no children."""

    path: str
    space: Space[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bounds: tuple[Any, Any] = (None, None)
    """Smallest and largest integer, for integer leaves."""

    @cached_property
    def unsigned_limit(self) -> int | None:
        """The largest value of an int64 leaf whose smallest is 0, else None."""
        low, high = self.bounds
        return high if type(low) is int and low == 0 and self.dtype == np.int64 else None

    @property
    def is_custom(self) -> bool:
        """True if the space is none of Gymnasium's own kinds."""
        return not isinstance(self.space, (*FIXED, *_OTHERS))

    @cached_property
    def by_value(self) -> bool:
        """True if the leaf has no fixed size and is stored as Python objects."""
        return self.dtype == object


def batch_leaf(leaf: Leaf, column: np.ndarray) -> Any:
    if not leaf.by_value:
        return column
    # Gymnasium's own functions, so that what users registered for their custom spaces is respected.
    return concatenate(leaf.space, column.tolist(), create_empty_array(leaf.space, len(column)))


def leaf_writer(leaf: Leaf, column: np.ndarray) -> Callable[[int, Any], None]:
    if leaf.by_value:

        def write_object(row: int, value: Any) -> None:
            column[row] = copy.deepcopy(value)

        return write_object
    shape, dtype, ndarray = leaf.shape, leaf.dtype, np.ndarray

    def write(row: int, value: Any) -> None:
        if type(value) is ndarray and value.dtype is dtype and value.shape == shape:
            column[row] = value
        else:
            column[row] = _conform(leaf, value)

    return write


def bulk_leaf_writer(leaf: Leaf, column: np.ndarray) -> Callable[[Any, Sequence[Any]], bool]:
    if leaf.by_value:
        return lambda index, values: False
    if not leaf.shape:
        allowed = {int, leaf.dtype.type} if leaf.dtype == np.int64 else {leaf.dtype.type}

        def store_scalars(index: Any, values: Sequence[Any]) -> bool:
            if not allowed.issuperset(map(type, values)):
                return False
            column[index] = values
            return True

        return store_scalars
    # Sizes are spelled out: with a zero in the shape NumPy cannot work out a -1.
    length, joined = {leaf.shape[0]}, column.reshape((len(column) * leaf.shape[0], *leaf.shape[1:]))

    def store(index: Any, values: Sequence[Any]) -> bool:
        # Lengths are looked at here; concatenate itself insists on the other dimensions, and with "equiv" on the dtype.
        if set(map(len, values)) != length:
            return False
        if index is ...:
            np.concatenate(values, out=joined, casting="equiv")
        else:
            gathered = np.concatenate(values, dtype=leaf.dtype, casting="equiv")
            if gathered.shape[1:] != leaf.shape[1:]:  # a reshape would make them fit
                return False
            column[index] = gathered.reshape((len(values), *leaf.shape))
        return True

    return store


def _conform(leaf: Leaf, value: Any) -> np.ndarray:
    """Bring a value to the leaf's dtype, or raise SpaceError if that needs a broadcast or loses a number."""
    what = f"observation{at(leaf.path)}"
    if value is None:
        raise SpaceError(f"{what} is None, its space is {leaf.space}")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise SpaceError(f"{what} cannot become an array of {leaf.space}: {error}") from None
    if array.shape != leaf.shape:
        raise SpaceError(f"{what} has shape {array.shape}, its space {leaf.space} has {leaf.shape}")
    if array.dtype == leaf.dtype:
        return array
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and leaf.dtype.kind != "f"):
        raise SpaceError(f"{what} has dtype {array.dtype}, its space {leaf.space} has {leaf.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(leaf.dtype)
    if leaf.dtype.kind == "f":
        lossless = bool(np.array_equal(np.isfinite(array), np.isfinite(converted)))
    else:
        lossless = bool(np.array_equal(array, converted))
    if not lossless:
        raise SpaceError(f"{what} has values that do not fit {leaf.dtype}, the dtype of its space {leaf.space}")
    return converted


def leaf_checker(leaf: Leaf, column: np.ndarray) -> Callable[[], bool] | None:
    """A function that says whether `pack_leaf` would take the values of a column; None for spaces that are rare."""
    if leaf.dtype.kind == "f":
        return lambda: 0 not in np.isfinite(column).tobytes()
    if leaf.unsigned_limit is None:
        return None
    # Seen as unsigned, a negative number is a very large one.
    unsigned, most = column.view(np.uint64), np.full(column.shape, leaf.unsigned_limit, np.uint64)
    above = np.zeros(column.shape, np.bool_)

    def check() -> bool:
        np.greater(unsigned, most, above)
        return 1 not in above.tobytes()

    return check


def pack_leaf(leaf: Leaf, values: Any, count: int) -> np.ndarray:
    if leaf.by_value:
        return _pack_objects(leaf, values, count)
    array = values.copy() if type(values) is np.ndarray else _as_array(leaf, values, count)
    want = (count, *leaf.shape)
    if array.shape != want:
        raise InvalidAction(_shape_message(leaf, array, count))
    if leaf.dtype.kind == "f":
        return _pack_floats(leaf, array)
    boolean = isinstance(leaf.space, spaces.MultiBinary) or leaf.dtype.kind == "b"
    if array.dtype.kind not in "iu" and not (array.dtype.kind == "b" and boolean):
        raise InvalidAction(
            f"actions{at(leaf.path)} have dtype {array.dtype}, {leaf.space} needs integers; pass an integer array"
        )
    _check_integers(leaf, array)
    return array.astype(leaf.dtype, copy=False)


def _pack_floats(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiu":
        raise InvalidAction(
            f"actions{at(leaf.path)} have dtype {array.dtype}, {leaf.space} needs numbers; pass a float array"
        )
    with np.errstate(over="ignore"):
        packed = array.astype(leaf.dtype, copy=False)
    if np.count_nonzero(np.isfinite(packed)) != packed.size:
        row, *component = np.argwhere(~np.isfinite(packed))[0]
        raise InvalidAction(
            f"env {row}: action{at(leaf.path)} is {array[(row, *component)]} at component "
            f"{[int(i) for i in component]}, {leaf.space} needs finite numbers; look for NaN in the policy"
        )
    return packed


def _check_integers(leaf: Leaf, array: np.ndarray) -> None:
    low, high = leaf.bounds
    wrong = (array < low) | (array > high)
    if not np.count_nonzero(wrong):
        return
    row, *component = np.argwhere(wrong)[0]
    where = f" at component {[int(i) for i in component]}" if component else ""
    raise InvalidAction(
        f"env {row}: action{at(leaf.path)} {array[(row, *component)]}{where} is not in {leaf.space}; "
        "nothing was sent, pass an action of the space"
    )


def integer_bounds(space: Space[Any]) -> tuple[Any, Any]:
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return 0, 1
    # Box bounds are not enforced, but a number that the dtype cannot hold would wrap around.
    if np.dtype(space.dtype) == np.bool_:
        return 0, 1
    limits = np.iinfo(space.dtype or np.int64)  # type: ignore[arg-type]  # the dtype of an integer Box
    return int(limits.min), int(limits.max)


def _pack_objects(leaf: Leaf, values: Any, count: int) -> np.ndarray:
    rows = rows_of(values, count, leaf.path)
    column = np.empty(count, dtype=object)
    for row, value in enumerate(rows):
        if not leaf.is_custom and not contains(leaf.space, value):
            raise InvalidAction(f"env {row}: action{at(leaf.path)} {brief(value)} is not in {leaf.space}")
        column[row] = value
    return column


def contains(space: Space[Any], value: Any) -> bool:
    """Whether the value is of the space. Some of Gymnasium's spaces raise for what they cannot make an array of."""
    try:
        return bool(space.contains(value))
    except Exception:
        return False


def rows_of(values: Any, count: int, path: str) -> Sequence[Any]:
    if not isinstance(values, (list, tuple, np.ndarray)) or (isinstance(values, np.ndarray) and not values.ndim):
        raise InvalidAction(f"actions{at(path)} must be a batch of {count} actions, got {brief(values)}")
    if len(values) != count:
        raise InvalidAction(count_message(len(values), count, path))
    return values  # type: ignore[return-value]  # an ndarray is iterable and has a length, which is all that is used


def _as_array(leaf: Leaf, values: Any, count: int) -> np.ndarray:
    if values is None or isinstance(values, (str, bytes, Mapping)):
        raise InvalidAction(_type_message(leaf, values, count))
    if isinstance(values, np.ndarray) and isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        who = f"env {np.argwhere(np.ma.getmaskarray(values))[0][0]}: " if values.ndim else ""
        raise InvalidAction(
            f"{who}action{at(leaf.path)} is masked, {leaf.space} needs a value; pass an array without masked entries"
        )
    try:
        array = np.array(values)
    except Exception as error:
        if isinstance(error, ValueError) and isinstance(values, (list, tuple)):
            raise InvalidAction(_ragged_message(leaf, values, count)) from None
        raise InvalidAction(
            f"actions{at(leaf.path)} of type {type(values).__name__} cannot become a NumPy array ({error}); "
            "call .cpu().numpy() on them first"
        ) from None
    if array.dtype == object:
        raise InvalidAction(_type_message(leaf, values, count))
    return array


def _ragged_message(leaf: Leaf, values: Sequence[Any], count: int) -> str:
    for row, value in enumerate(values):
        try:
            fits = np.shape(value) == leaf.shape
        except Exception:  # it is ragged itself, or refuses to become an array
            fits = False
        if not fits:
            got = f"env {row}: action{at(leaf.path)} {brief(value)}"
            return f"{got} does not have shape {leaf.shape}, as {leaf.space} needs"
    return _type_message(leaf, values, count)


def _type_message(leaf: Leaf, values: Any, count: int) -> str:
    return (
        f"actions{at(leaf.path)} must be an array of shape {(count, *leaf.shape)} and dtype {leaf.dtype} "
        f"for {leaf.space}, got {brief(values)}"
    )


def _shape_message(leaf: Leaf, array: np.ndarray, count: int) -> str:
    if array.ndim and array.shape[1:] == leaf.shape:
        return count_message(len(array), count, leaf.path)
    return f"actions{at(leaf.path)} have shape {array.shape}, want {(count, *leaf.shape)} for {leaf.space}"


def count_message(got: int, count: int, path: str) -> str:
    return f"got {got} actions{at(path)} for {count} envs; pass one action per env, or env_ids= for a partial step"


def at(path: str) -> str:
    return f" at '{path}'" if path else ""
