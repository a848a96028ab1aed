"""Ports: what a kernel's methods get in Python, an action to read and an observation to write. Built once per env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space

from vecenv._batch.layout import Columns, Layout
from vecenv.kernel.language.fields import Field, FieldError, cells, conform


class ActionPort:
    """Turns an action into what `step` reads. The next action overwrites it."""

    def __init__(self, space: Space[Any]) -> None:
        self._space, self._layout = space, Layout(space)
        self._columns: Columns = [np.zeros((1, *leaf.shape), leaf.dtype) for leaf in self._layout.leaves]
        self._tree = _tree(self._layout, self._columns, writeable=False)
        leaf = self._layout.leaves[0] if self._layout.leaves else None
        self._is_number = leaf is not None and leaf.path == "" and not leaf.shape
        self._limit = leaf.unsigned_limit if leaf is not None and self._is_number else None

    def take(self, action: Any) -> Any:
        """The action for the method. Raises InvalidAction if the action is not in the space."""
        if self._limit is not None and type(action) in (int, np.int64) and 0 <= action <= self._limit:
            return int(action)
        packed = self._layout.pack([action], 1)
        if self._is_number:
            return packed[0].item()
        for column, given in zip(self._columns, packed, strict=True):
            column[...] = given
        return self._tree

    def __reduce__(self) -> tuple[Any, ...]:
        return ActionPort, (self._space,)


class ObservationPort:
    """What `observe` writes into, and the observation that it then holds."""

    def __init__(self, space: Space[Any]) -> None:
        self._space, layout = space, Layout(space)
        self._columns: Columns = [np.zeros((1, *leaf.shape), leaf.dtype) for leaf in layout.leaves]
        self._tree = _tree(layout, self._columns, writeable=True)
        self._read = layout.reader(self._columns)

    def cleared(self) -> Any:
        """What to write into; all zero."""
        for column in self._columns:
            column.fill(0)
        return self._tree

    def written(self) -> Any:
        """What was written into."""
        return self._tree

    def value(self) -> Any:
        """A copy of the observation."""
        return _copied(self._read(0))

    def __reduce__(self) -> tuple[Any, ...]:
        return ObservationPort, (self._space,)


class Branch:
    """A Dict or Tuple of leaves, by key: arrays are written into, single numbers are assigned."""

    def __init__(self, children: Mapping[str, Any], numbers: Mapping[str, np.ndarray], writeable: bool) -> None:
        self._children, self._numbers, self._writeable = children, numbers, writeable
        self._fields = {key: Field(key, column.dtype) for key, column in numbers.items()}

    def __getitem__(self, key: Any) -> Any:
        name = str(key)
        if name in self._numbers:
            return self._numbers[name].item()
        if name not in self._children:
            known = ", ".join([*self._children, *self._numbers])
            raise FieldError(f"there is no {key!r} (there are: {known})")
        return self._children[name]

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self._writeable:
            raise FieldError("actions are read-only; use a variable of your own")
        if str(key) not in self._numbers:
            self[key]  # unknown is another mistake than this one
            raise FieldError(f"{key!r} is no single number; write into its elements: [{key!r}][:] = ...")
        self._numbers[str(key)][0] = conform(self._fields[str(key)], value)


def _tree(layout: Layout, columns: Columns, writeable: bool) -> Any:
    """What a method gets for a space: the one array, or a Branch. A plain number is an array of one element."""
    by_path = {leaf.path: column for leaf, column in zip(layout.leaves, columns, strict=True)}
    if "" in by_path:
        column = by_path[""]
        return _element(column if column.ndim == 1 else column[0], writeable)
    return _branch(by_path, writeable)


def _branch(by_path: Mapping[str, np.ndarray], writeable: bool) -> Branch:
    children: dict[str, Any] = {}
    numbers: dict[str, np.ndarray] = {}
    for key in dict.fromkeys(path.partition(".")[0] for path in by_path):
        column = by_path.get(key)
        if column is None:
            inner = {path[len(key) + 1 :]: own for path, own in by_path.items() if path.startswith(f"{key}.")}
            children[key] = _branch(inner, writeable)
        elif column.ndim > 1:
            children[key] = _element(column[0], writeable)
        else:
            numbers[key] = column
    return Branch(children, numbers, writeable)


def _element(array: np.ndarray, writeable: bool) -> Any:
    view = cells(array)
    view.flags.writeable = writeable
    return view


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return tuple(map(_copied, value)) if isinstance(value, tuple) else value
