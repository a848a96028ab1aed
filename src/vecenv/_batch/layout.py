"""Spaces, flattened once into named leaves. Only this module walks a tree of spaces; `_batch/leaf.py` handles one leaf.

A leaf with a fixed shape and dtype (Box, Discrete, MultiDiscrete, MultiBinary) is a column of numbers. Any other leaf
(Text, OneOf, Sequence, Graph, a custom Space) is a column of Python objects: it travels by value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_space, iterate

from vecenv._batch.leaf import (
    FIXED,
    Leaf,
    at,
    batch_leaf,
    bulk_leaf_writer,
    contains,
    count_message,
    integer_bounds,
    leaf_checker,
    leaf_writer,
    pack_leaf,
    rows_of,
)
from vecenv._util.checks import brief
from vecenv.errors import InvalidAction, SpaceError

Columns: TypeAlias = list[np.ndarray]
"""One array per leaf, in the order of `Layout.leaves`; the first axis is the row."""

Writer: TypeAlias = Callable[[int, Any], None]
"""Stores the value of one row."""


class Layout:
    """A space as columns: how to allocate, write, read, batch and check its values."""

    def __init__(self, space: Space[Any]) -> None:
        self.space = space
        self.leaves: tuple[Leaf, ...] = tuple(_leaves(space, ""))
        self.by_value: tuple[int, ...] = tuple(index for index, leaf in enumerate(self.leaves) if leaf.by_value)
        self._flat = not isinstance(space, (spaces.Dict, spaces.Tuple))
        self.is_array = self._flat and not self.by_value
        """Whether a batch of values is one array of numbers, the only column."""
        self._places = _nest(space, iter(range(len(self.leaves))))
        """Positions in `leaves`, nested like the space."""

    def writer(self, columns: Columns) -> Callable[[int, Any], None]:
        """A function `(row, value)` that stores one env's value, copying it.

        It raises SpaceError unless structure, shape and dtype fit exactly; nothing is ever broadcast.
        """
        writers = [leaf_writer(leaf, column) for leaf, column in zip(self.leaves, columns, strict=True)]
        return _tree_writer(self.space, "", iter(writers))

    def bulk_writer(self, columns: Columns) -> Callable[[Any, Sequence[Any]], bool]:
        """A function `(index, values)` that stores the values of many envs at once, at the rows picked by `index`.

        It answers False, and may have written some of them, if any needs the care of `writer`: a cast or an error.
        """
        writers = [bulk_leaf_writer(leaf, column) for leaf, column in zip(self.leaves, columns, strict=True)]

        def write(index: Any, values: Sequence[Any]) -> bool:
            try:
                gathered: list[Sequence[Any]] = []
                _gather(self.space, values, gathered)
                return all(store(index, leaf) for store, leaf in zip(writers, gathered, strict=True))
            except Exception:  # values of envs may raise anything
                return False

        if not self._flat:
            return write
        (only,) = writers

        def write_flat(index: Any, values: Sequence[Any]) -> bool:
            try:
                return only(index, values)
            except Exception:
                return False

        return write_flat

    def flat_view(self, columns: Columns) -> memoryview | None:
        """The values of all rows, one after the other, if each is an array with one axis; else None.

        Assigning an array to a slice of it is the fastest way to store one. Of arrays it takes those of that length and
        of the column's own dtype, and no others.
        """
        if not self.is_array or len(self.leaves[0].shape) != 1:
            return None
        try:
            return memoryview(columns[0].reshape(columns[0].size))  # type: ignore[arg-type]  # an array is a buffer
        except ValueError:  # a dtype that buffers do not have
            return None

    def reader(self, columns: Columns) -> Callable[[int], Any]:
        """A function `(row)` that returns one env's value. Arrays in it are views of the columns."""
        return _tree_reader(self.space, iter(columns), observation=True)

    def read_many(self, columns: Columns) -> Callable[[Any, int], Iterable[Any]]:
        """A function `(index, count)` that returns copies of the values of the `count` rows that `index` picks.

        Numbers are copied when they are read, one by one.
        """
        if self._flat:
            (column,) = columns
            if self.is_array and not self.leaves[0].shape:
                return lambda index, count: column if index is ... else column[index]
            return lambda index, count: column[index].copy()

        def values(index: Any, count: int) -> Iterable[Any]:
            read = _tree_reader(self.space, iter([column[index].copy() for column in columns]), observation=False)
            return [read(place) for place in range(count)]

        return values

    def batched(self, columns: Columns) -> Any:
        """Nest the columns as Gymnasium's batched observations are nested. Numbers are not copied."""
        if self._flat:
            return batch_leaf(self.leaves[0], columns[0])
        return _nest(self.space, iter([batch_leaf(*pair) for pair in zip(self.leaves, columns, strict=True)]))

    def flat(self, tree: Any) -> list[Any]:
        """The leaves of a value that is nested like the space."""
        if self._flat:
            return [tree]
        leaves: list[Any] = []
        map_tree(lambda _, leaf: leaves.append(leaf), self._places, tree)
        return leaves

    def nest(self, leaves: Sequence[Any]) -> Any:
        """One value per leaf, nested like the space."""
        return leaves[0] if self._flat else map_tree(leaves.__getitem__, self._places)

    def fits(self, values: Any, count: int) -> bool:
        """Whether a batch of actions is exactly what the column of a plain space holds: nothing to cast or refuse."""
        if not self._flat or type(values) is not np.ndarray or self.leaves[0].by_value:
            return False
        leaf = self.leaves[0]
        if values.dtype != leaf.dtype or values.shape != (count, *leaf.shape):
            return False
        low, high = leaf.bounds
        return low is None or not bool(((values < low) | (values > high)).any())

    def checker(self, columns: Columns) -> Callable[[], bool] | None:
        """A function that says whether the actions in the only column are in their space; None if `pack` must check."""
        return leaf_checker(self.leaves[0], columns[0]) if self.is_array else None

    def pack(self, values: Any, count: int) -> Columns:
        """Turn a batch of actions for `count` envs into columns, checked: count, structure, shape, dtype, range.

        Box values outside the bounds are passed on, as Gymnasium does; NaN and infinity are refused. The columns are
        copies, made before they are checked: native code uses actions as indices, and another thread may change what
        the caller passed.

        Raises:
            InvalidAction: naming the first wrong env, what was given and what was expected.
        """
        if self._flat:
            leaf = self.leaves[0]
            if type(values) is np.ndarray and values.dtype is leaf.dtype and values.shape == (count, *leaf.shape):
                # The usual case in as few steps as can be. Seen as unsigned, a negative number is a very large one.
                limit = leaf.unsigned_limit
                if limit is not None:
                    own = values.copy()
                    if 1 not in (own.view(np.uint64) > limit).tobytes():
                        return [own]
            return [pack_leaf(leaf, values, count)]
        columns: Columns = []
        _pack_tree(self.space, "", values, count, columns, iter(self.leaves))
        return columns


def map_tree(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to the leaves of values that are nested alike: dicts, tuples, and anything else as a leaf."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: map_tree(function, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, tuple):
        return tuple(map_tree(function, *parts) for parts in zip(*trees, strict=True))
    return function(*trees)


def stack_trees(like: Any, values: Sequence[Any], mask: np.ndarray) -> Any:
    """Batched leaves shaped like those of `like`, with `values[k]` where `mask[k]`, and anything elsewhere."""
    batched = map_tree(np.empty_like, like)
    for position in np.flatnonzero(mask).tolist():
        map_tree(lambda column, value, at=position: column.__setitem__(at, value), batched, values[position])
    return batched


def as_given(batched: Space[Any], actions: Any, count: int) -> list[Any]:
    """The single actions of a batch as they are: types, dtypes and values unchecked, only counted."""
    given = list(iterate(batched, actions))
    if len(given) != count:
        raise InvalidAction(count_message(len(given), count, ""))
    return given


def is_custom(space: Space[Any]) -> bool:
    """Whether the space, or one inside it, is none of Gymnasium's own kinds."""
    return any(leaf.is_custom for leaf in _leaves(space, ""))


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
    elif isinstance(space, FIXED) and space.dtype != object:
        dtype = np.dtype(
            np.dtype(space.dtype).str
        )  # NumPy's own object: `is` is faster than ==, and copies have others
        bounds = (None, None) if dtype.kind == "f" else integer_bounds(space)
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
        raise SpaceError(f"observation{at(path)} needs the keys {sorted(map(str, children))}, got {got}")
    for key, write in children.items():
        write(row, value[key])


def _write_tuple(items: Sequence[Callable[[int, Any], None]], path: str, row: int, value: Any) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != len(items):
        got = f"{len(value)} items" if isinstance(value, (tuple, list)) else type(value).__name__
        raise SpaceError(f"observation{at(path)} must be a tuple of {len(items)} items, got {got}")
    for write, item in zip(items, value, strict=True):
        write(row, item)


def _gather(space: Space[Any], values: Sequence[Any], leaves: list[Sequence[Any]]) -> None:
    """Turn values of many envs into one sequence per leaf. Any irregularity raises or gives the wrong count."""
    if isinstance(space, spaces.Dict):
        if set(map(type, values)) != {dict} or set(map(len, values)) != {len(space.spaces)}:
            raise ValueError
        for key, child in space.spaces.items():
            _gather(child, [value[key] for value in values], leaves)
    elif isinstance(space, spaces.Tuple):
        if not {tuple, list}.issuperset(map(type, values)):
            raise ValueError
        for child, part in zip(space.spaces, zip(*values, strict=True), strict=True):
            _gather(child, part, leaves)
    else:
        leaves.append(values)


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
    if observation and isinstance(space, spaces.Box) and not space.shape:
        return lambda row: column[row : row + 1].reshape(())  # an array, as the space wants it
    return column.__getitem__


# --- batches of actions ----------------------------------------------------------------------------------------------


def _pack_tree(space: Space[Any], path: str, values: Any, count: int, columns: Columns, leaves: Iterator[Leaf]) -> None:
    """Append one checked column per leaf. A batch may be nested like the space or be a sequence of single actions."""
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        columns.append(pack_leaf(next(leaves), values, count))
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
        rows = rows_of(values, count, path)
        for row, value in enumerate(rows):
            if not isinstance(value, Mapping):
                keys = sorted(wanted, key=str)
                raise InvalidAction(f"env {row}: action{at(path)} must be a dict with keys {keys}, got {brief(value)}")
            _check_keys(value, wanted, path, row)
        return {key: [value[key] for value in rows] for key in wanted}
    size = len(space.spaces)
    by_component = isinstance(values, tuple) and len(values) == size
    if by_component and (size != count or not _looks_like_rows(space, path, values, count)):
        return values
    rows = rows_of(values, count, path)
    for row, value in enumerate(rows):
        if not isinstance(value, (tuple, list)) or len(value) != size:
            raise InvalidAction(f"env {row}: action{at(path)} must be a tuple of {size} items, got {brief(value)}")
    return [[value[index] for value in rows] for index in range(size)]


def _looks_like_rows(space: spaces.Tuple, path: str, values: tuple[Any, ...], count: int) -> bool:
    """Tell a tuple of single actions from a tuple of component batches when both have the same length.

    What could be either is the batch, as in Gymnasium.
    """
    if not all(isinstance(value, tuple) for value in values):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's, of tuples that it makes arrays of
        if not all(contains(space, value) for value in values):
            return False
        if not contains(batch_space(space, count), values):
            return True
    try:  # Gymnasium casts what we refuse, such as a float to an integer
        leaves = _leaves(space, path)
        for child, part in zip(space.spaces, values, strict=True):
            _pack_tree(child, path, part, count, [], leaves)
    except InvalidAction:
        return True
    return False


def _check_keys(value: Mapping[Any, Any], wanted: Any, path: str, row: int | None) -> None:
    missing, extra = [key for key in wanted if key not in value], [key for key in value if key not in wanted]
    if missing or extra:
        who = "" if row is None else f"env {row}: "
        parts = [f"{word} {keys}" for word, keys in (("misses", missing), ("has unknown", extra)) if keys]
        raise InvalidAction(
            f"{who}action{at(path)} {' and '.join(parts)}; pass exactly the keys {sorted(wanted, key=str)}"
        )
