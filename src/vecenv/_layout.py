"""Spaces, flattened once into named leaves. The only module that looks inside a space.

A leaf with a fixed shape and dtype (Box, Discrete, MultiDiscrete, MultiBinary) is a column of numbers. Any other leaf
(Text, OneOf, Sequence, Graph, a custom Space) is a column of Python objects: it travels by value.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from vecenv.errors import InvalidAction, SpaceError

Columns: TypeAlias = list[np.ndarray]
"""One array per leaf, in the order of `Layout.leaves`; the first axis is the row."""

Writer: TypeAlias = Callable[[int, Any], None]
"""Stores the value of one row."""

_EVERY_ROW = slice(None)
_FIXED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass(frozen=True)
class Leaf:
    """One node of a space tree that has no children."""

    path: str
    space: Space[Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bounds: tuple[Any, Any] = (None, None)
    """Smallest and largest integer, for integer leaves."""

    @functools.cached_property
    def unsigned_limit(self) -> int | None:
        """The largest value of an int64 leaf whose smallest is 0, else None."""
        low, high = self.bounds
        return high if type(low) is int and low == 0 and self.dtype == np.int64 else None

    @functools.cached_property
    def by_value(self) -> bool:
        """True if the leaf has no fixed size and is stored as Python objects."""
        return self.dtype == object


class Layout:
    """A space as columns: how to allocate, write, read, batch and check its values."""

    def __init__(self, space: Space[Any]) -> None:
        self.space = space
        self.leaves: tuple[Leaf, ...] = tuple(_leaves(space, ""))
        self.by_value: tuple[int, ...] = tuple(index for index, leaf in enumerate(self.leaves) if leaf.by_value)
        self._flat = not isinstance(space, (spaces.Dict, spaces.Tuple))

    def writer(self, columns: Columns) -> Callable[[int, Any], None]:
        """A function `(row, value)` that stores one env's value, copying it.

        It raises SpaceError unless structure, shape and dtype fit exactly; nothing is ever broadcast.
        """
        writers = [_leaf_writer(leaf, column) for leaf, column in zip(self.leaves, columns, strict=True)]
        return _tree_writer(self.space, "", iter(writers))

    def bulk_writer(self, columns: Columns) -> Callable[[Any, Sequence[Any]], bool]:
        """A function `(index, values)` that stores the values of many envs at once, at the rows picked by `index`.

        It answers False, and may have written some of them, if any needs the care of `writer`: a cast or an error.
        """
        writers = [_bulk_leaf_writer(leaf, column) for leaf, column in zip(self.leaves, columns, strict=True)]

        def write(index: Any, values: Sequence[Any]) -> bool:
            try:
                gathered: list[Sequence[Any]] = []
                _gather(self.space, values, gathered)
                return all(store(index, leaf) for store, leaf in zip(writers, gathered, strict=True))
            except (AttributeError, KeyError, TypeError, ValueError):
                return False

        if not self._flat:
            return write
        (only,) = writers

        def write_flat(index: Any, values: Sequence[Any]) -> bool:
            try:
                return only(index, values)
            except (AttributeError, TypeError, ValueError):
                return False

        return write_flat

    def reader(self, columns: Columns) -> Callable[[int], Any]:
        """A function `(row)` that returns one env's value. Arrays in it are views of the columns."""
        return _tree_reader(self.space, iter(columns), observation=True)

    def lister(self, columns: Columns) -> Callable[[Any, int], Sequence[Any]]:
        """A function `(index, count)` that returns the values of the `count` rows picked by a slice or list, as copies."""
        if self._flat:
            (column,) = columns
            return lambda index, count: list(column[index].copy())

        def values(index: Any, count: int) -> Sequence[Any]:
            read = _tree_reader(self.space, iter([column[index].copy() for column in columns]), observation=False)
            return [read(place) for place in range(count)]

        return values

    def batched(self, columns: Columns) -> Any:
        """Nest the columns as Gymnasium's batched observations are nested. Numbers are not copied."""
        if self._flat:
            return _batch_leaf(self.leaves[0], columns[0])
        return _nest(self.space, iter([_batch_leaf(*pair) for pair in zip(self.leaves, columns, strict=True)]))

    def fits(self, values: Any, count: int) -> bool:
        """Whether a batch of actions is exactly what the column of a plain space holds: nothing to cast or refuse."""
        if not self._flat or type(values) is not np.ndarray or self.leaves[0].by_value:
            return False
        leaf = self.leaves[0]
        if values.dtype != leaf.dtype or values.shape != (count, *leaf.shape):
            return False
        low, high = leaf.bounds
        return low is None or not bool(((values < low) | (values > high)).any())

    def pack(self, values: Any, count: int) -> Columns:
        """Turn a batch of actions for `count` envs into columns, checked: count, structure, shape, dtype, range.

        Box values outside the bounds are passed on, as Gymnasium does; NaN and infinity are refused.

        Raises:
            InvalidAction: naming the first wrong env, what was given and what was expected.
        """
        if self._flat:
            leaf = self.leaves[0]
            if type(values) is np.ndarray and values.dtype is leaf.dtype and values.shape == (count, *leaf.shape):
                # The usual case in as few steps as can be. Seen as unsigned, a negative number is a very large one.
                limit = leaf.unsigned_limit
                if limit is not None and 1 not in (values.view(np.uint64) > limit).tobytes():
                    return [values]
            return [_pack_leaf(leaf, values, count)]
        columns: Columns = []
        _pack_tree(self.space, "", values, count, columns, iter(self.leaves))
        return columns


def as_given(batched: Space[Any], actions: Any, count: int) -> list[Any]:
    """The single actions of a batch as they are: types, dtypes and values unchecked, only counted."""
    given = list(iterate(batched, actions))
    if len(given) != count:
        raise InvalidAction(_count_message(len(given), count, ""))
    return given


def is_custom(space: Space[Any]) -> bool:
    """Whether the space, or one inside it, is none of Gymnasium's own kinds."""
    if isinstance(space, spaces.Dict):
        return any(map(is_custom, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return any(map(is_custom, space.spaces))
    return not isinstance(space, (*_FIXED, spaces.Text, spaces.OneOf, spaces.Graph, spaces.Sequence))


def check_same_spaces(observation: Sequence[Space[Any]], action: Sequence[Space[Any]], mode: Any) -> None:
    """Raise SpaceError naming the first env whose spaces cannot share columns with those of env 0.

    Args:
        observation: observation space of every env; with a custom mode, compared with that mode's single space.
        action: action space of every env.
        mode: "same", "different", or a pair of spaces.
    """
    reference = mode[1] if isinstance(mode, tuple) else observation[0]
    for row, (observation_space, action_space) in enumerate(zip(observation, action, strict=True)):
        if mode == "same" and observation_space != reference:
            raise SpaceMismatch(
                "VectorEnv(..., observation_mode='same') however the sub-environments observation spaces are not "
                f"equivalent. Env {row} has {_difference(observation_space, reference)}. If this is intentional, use "
                "`observation_mode='different'` instead."
            )
        if mode != "same" and not is_space_dtype_shape_equiv(observation_space, reference):
            raise SpaceMismatch(
                "VectorEnv(..., observation_mode='different' or custom space) however the sub-environment's "
                "observation spaces do not share a common shape and dtype. "
                f"Env {row} has {_difference(observation_space, reference)}."
            )
        if action_space != action[0]:
            raise SpaceMismatch(
                f"Some environments have an action space different from `{action[0]}`: env {row} has {action_space}. "
                "In order to batch actions, the action spaces from all environments must be equal."
            )


class SpaceMismatch(SpaceError, RuntimeError):
    """Envs of one batch have different spaces (a RuntimeError in Gymnasium)."""


def _difference(space: Space[Any], reference: Space[Any], path: str = "") -> str:
    """Where two spaces first differ, in words."""
    if isinstance(space, spaces.Dict) and isinstance(reference, spaces.Dict) and space.keys() == reference.keys():
        for key in space.spaces:
            if space[key] != reference[key]:
                return _difference(space[key], reference[key], f"{path}.{key}")
    if isinstance(space, spaces.Tuple) and isinstance(reference, spaces.Tuple) and len(space) == len(reference):
        for index, (ours, theirs) in enumerate(zip(space.spaces, reference.spaces, strict=True)):
            if ours != theirs:
                return _difference(ours, theirs, f"{path}.{index}")
    where = f" at '{path[1:]}'" if path else ""
    return f"{space}{where} where env 0 has {reference}"


def _leaves(space: Space[Any], path: str) -> Iterator[Leaf]:
    if isinstance(space, spaces.Dict):
        for key, child in space.spaces.items():
            yield from _leaves(child, _join(path, key))
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            yield from _leaves(child, _join(path, index))
    elif isinstance(space, _FIXED) and space.dtype != object:
        dtype = np.dtype(space.dtype)
        bounds = (None, None) if dtype.kind == "f" else _integer_bounds(space)
        yield Leaf(path, space, tuple(space.shape or ()), dtype, bounds)
    else:
        yield Leaf(path, space, (), np.dtype(object))


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _nest(space: Space[Any], values: Iterator[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _nest(child, values) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_nest(child, values) for child in space.spaces)
    return next(values)


def _batch_leaf(leaf: Leaf, column: np.ndarray) -> Any:
    if not leaf.by_value:
        return column
    # Gymnasium's own functions, so that what users registered for their custom spaces is respected.
    return concatenate(leaf.space, column.tolist(), create_empty_array(leaf.space, len(column)))


# --- one env's value in and out of a row -----------------------------------------------------------------------------


def _tree_writer(space: Space[Any], path: str, writers: Iterator[Writer]) -> Writer:
    if isinstance(space, spaces.Dict):
        children = {key: _tree_writer(child, _join(path, key), writers) for key, child in space.spaces.items()}
        return lambda row, value: _write_dict(children, path, row, value)
    if isinstance(space, spaces.Tuple):
        items = [_tree_writer(child, _join(path, index), writers) for index, child in enumerate(space.spaces)]
        return lambda row, value: _write_tuple(items, path, row, value)
    return next(writers)


def _write_dict(children: Mapping[str, Callable[[int, Any], None]], path: str, row: int, value: Any) -> None:
    if not isinstance(value, Mapping) or value.keys() != children.keys():
        got = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
        raise SpaceError(f"observation{_at(path)} needs the keys {sorted(map(str, children))}, got {got}")
    for key, write in children.items():
        write(row, value[key])


def _write_tuple(items: Sequence[Callable[[int, Any], None]], path: str, row: int, value: Any) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != len(items):
        got = f"{len(value)} items" if isinstance(value, (tuple, list)) else type(value).__name__
        raise SpaceError(f"observation{_at(path)} must be a tuple of {len(items)} items, got {got}")
    for write, item in zip(items, value, strict=True):
        write(row, item)


def _leaf_writer(leaf: Leaf, column: np.ndarray) -> Callable[[int, Any], None]:
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


def _gather(space: Space[Any], values: Sequence[Any], leaves: list[Sequence[Any]]) -> None:
    """Turn values of many envs into one sequence per leaf. Any irregularity raises or gives the wrong count."""
    if isinstance(space, spaces.Dict):
        if set(map(len, values)) != {len(space.spaces)}:
            raise ValueError
        for key, child in space.spaces.items():
            _gather(child, [value[key] for value in values], leaves)
    elif isinstance(space, spaces.Tuple):
        for child, part in zip(space.spaces, zip(*values, strict=True), strict=True):
            _gather(child, part, leaves)
    else:
        leaves.append(values)


def _bulk_leaf_writer(leaf: Leaf, column: np.ndarray) -> Callable[[Any, Sequence[Any]], bool]:
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
        if index == _EVERY_ROW:
            np.concatenate(values, out=joined, casting="equiv")
        else:
            joined_values = np.concatenate(values, dtype=leaf.dtype, casting="equiv")
            column[index] = joined_values.reshape((len(values), *leaf.shape))
        return True

    return store


def _conform(leaf: Leaf, value: Any) -> np.ndarray:
    """Bring a value to the leaf's dtype, or raise SpaceError if that needs a broadcast or loses a number."""
    what = f"observation{_at(leaf.path)}"
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


def _tree_reader(space: Space[Any], columns: Iterator[np.ndarray], *, observation: bool) -> Callable[[int], Any]:
    if isinstance(space, spaces.Dict):
        children = {key: _tree_reader(child, columns, observation=observation) for key, child in space.spaces.items()}
        return lambda row: {key: read(row) for key, read in children.items()}
    if isinstance(space, spaces.Tuple):
        items = [_tree_reader(child, columns, observation=observation) for child in space.spaces]
        return lambda row: tuple(read(row) for read in items)
    column = next(columns)
    if observation and isinstance(space, spaces.Discrete):
        return lambda row: int(column[row])  # what envs return; actions are NumPy integers, as Gymnasium passes them
    return column.__getitem__


# --- batches of actions ----------------------------------------------------------------------------------------------


def _pack_tree(space: Space[Any], path: str, values: Any, count: int, columns: Columns, leaves: Iterator[Leaf]) -> None:
    """Append one checked column per leaf. A batch may be nested like the space or be a sequence of single actions."""
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        columns.append(_pack_leaf(next(leaves), values, count))
        return
    children = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    values = _by_component(space, path, values, count)
    for key, child in children:
        _pack_tree(child, _join(path, key), values[key], count, columns, leaves)


def _by_component(space: spaces.Dict | spaces.Tuple, path: str, values: Any, count: int) -> Any:
    """The batch nested like the space: one entry per key or position, each holding `count` values."""
    if isinstance(space, spaces.Dict):
        wanted = space.spaces.keys()
        if isinstance(values, Mapping):
            _check_keys(values, wanted, path, None)
            return values
        rows = _rows_of(values, count, path)
        for row, value in enumerate(rows):
            if not isinstance(value, Mapping):
                raise InvalidAction(
                    f"env {row}: action{_at(path)} must be a dict with keys {sorted(wanted)}, got {_brief(value)}"
                )
            _check_keys(value, wanted, path, row)
        return {key: [value[key] for value in rows] for key in wanted}
    size = len(space.spaces)
    by_component = isinstance(values, tuple) and len(values) == size
    if by_component and (size != count or not _looks_like_rows(space, values, count)):
        return values
    rows = _rows_of(values, count, path)
    for row, value in enumerate(rows):
        if not isinstance(value, (tuple, list)) or len(value) != size:
            raise InvalidAction(f"env {row}: action{_at(path)} must be a tuple of {size} items, got {_brief(value)}")
    return [[value[index] for value in rows] for index in range(size)]


def _looks_like_rows(space: spaces.Tuple, values: tuple[Any, ...], count: int) -> bool:
    """Tell a tuple of single actions from a tuple of component batches when both have the same length.

    What could be either is the batch, as in Gymnasium.
    """
    if not all(isinstance(value, tuple) and space.contains(value) for value in values):
        return False
    try:
        return not batch_space(space, count).contains(values)
    except ValueError:  # some spaces' contains() raises for what cannot be an array
        return True


def _check_keys(value: Mapping[Any, Any], wanted: Any, path: str, row: int | None) -> None:
    missing, extra = [key for key in wanted if key not in value], [key for key in value if key not in wanted]
    if missing or extra:
        who = "" if row is None else f"env {row}: "
        parts = [f"{word} {keys}" for word, keys in (("misses", missing), ("has unknown", extra)) if keys]
        raise InvalidAction(f"{who}action{_at(path)} {' and '.join(parts)}; pass exactly the keys {sorted(wanted)}")


def _rows_of(values: Any, count: int, path: str) -> Sequence[Any]:
    if not isinstance(values, (list, tuple, np.ndarray)):
        raise InvalidAction(f"actions{_at(path)} must be a batch of {count} actions, got {_brief(values)}")
    if len(values) != count:
        raise InvalidAction(_count_message(len(values), count, path))
    return values  # type: ignore[return-value]  # an ndarray is iterable and has a length, which is all that is used


def _pack_leaf(leaf: Leaf, values: Any, count: int) -> np.ndarray:
    if leaf.by_value:
        return _pack_objects(leaf, values, count)
    array = values if isinstance(values, np.ndarray) else _as_array(leaf, values, count)
    want = (count, *leaf.shape)
    if array.shape != want:
        raise InvalidAction(_shape_message(leaf, array, count))
    if leaf.dtype.kind == "f":
        return _pack_floats(leaf, array)
    boolean = isinstance(leaf.space, spaces.MultiBinary) or leaf.dtype.kind == "b"
    if array.dtype.kind not in "iu" and not (array.dtype.kind == "b" and boolean):
        raise InvalidAction(
            f"actions{_at(leaf.path)} have dtype {array.dtype}, {leaf.space} needs integers; pass an integer array"
        )
    _check_integers(leaf, array)
    return array.astype(leaf.dtype, copy=False)


def _pack_floats(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiu":
        raise InvalidAction(
            f"actions{_at(leaf.path)} have dtype {array.dtype}, {leaf.space} needs numbers; pass a float array"
        )
    with np.errstate(over="ignore"):
        packed = array.astype(leaf.dtype, copy=False)
    if np.count_nonzero(np.isfinite(packed)) != packed.size:
        row, *component = np.argwhere(~np.isfinite(packed))[0]
        raise InvalidAction(
            f"env {row}: action{_at(leaf.path)} is {array[(row, *component)]} at component "
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
        f"env {row}: action{_at(leaf.path)} {array[(row, *component)]}{where} is not in {leaf.space}; "
        "nothing was sent, pass an action of the space"
    )


def _integer_bounds(space: Space[Any]) -> tuple[Any, Any]:
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
    rows = _rows_of(values, count, leaf.path)
    column = np.empty(count, dtype=object)
    for row, value in enumerate(rows):
        if not is_custom(leaf.space) and not leaf.space.contains(value):
            raise InvalidAction(f"env {row}: action{_at(leaf.path)} {_brief(value)} is not in {leaf.space}")
        column[row] = value
    return column


def _as_array(leaf: Leaf, values: Any, count: int) -> np.ndarray:
    if values is None or isinstance(values, (str, bytes, Mapping)):
        raise InvalidAction(_type_message(leaf, values, count))
    try:
        array = np.asarray(values)
    except TypeError as error:
        raise InvalidAction(
            f"actions{_at(leaf.path)} of type {type(values).__name__} cannot become a NumPy array ({error}); "
            "call .cpu().numpy() on them first"
        ) from None
    except ValueError:
        raise InvalidAction(_ragged_message(leaf, values, count)) from None
    if array.dtype == object:
        raise InvalidAction(_type_message(leaf, values, count))
    return array


def _ragged_message(leaf: Leaf, values: Sequence[Any], count: int) -> str:
    for row, value in enumerate(values):
        try:
            fits = np.shape(value) == leaf.shape
        except ValueError:
            fits = False
        if not fits:
            got = f"env {row}: action{_at(leaf.path)} {_brief(value)}"
            return f"{got} does not have shape {leaf.shape}, as {leaf.space} needs"
    return _type_message(leaf, values, count)


def _type_message(leaf: Leaf, values: Any, count: int) -> str:
    return (
        f"actions{_at(leaf.path)} must be an array of shape {(count, *leaf.shape)} and dtype {leaf.dtype} "
        f"for {leaf.space}, got {_brief(values)}"
    )


def _shape_message(leaf: Leaf, array: np.ndarray, count: int) -> str:
    if array.ndim and array.shape[1:] == leaf.shape:
        return _count_message(len(array), count, leaf.path)
    return f"actions{_at(leaf.path)} have shape {array.shape}, want {(count, *leaf.shape)} for {leaf.space}"


def _count_message(got: int, count: int, path: str) -> str:
    return f"got {got} actions{_at(path)} for {count} envs; pass one action per env, or env_ids= for a partial step"


def _at(path: str) -> str:
    return f" at '{path}'" if path else ""


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
