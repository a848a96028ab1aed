"""Storage of observations and actions: one array per leaf of a space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space

from vecenv._batch.layout import Layout, map_tree
from vecenv._util.extras import load_extra
from vecenv.errors import SpaceError, UnsupportedError


class Storage:
    """One array per leaf of a single env's space (`columns`), with axes of these sizes in front."""

    def __init__(self, space: Space[Any], axes: tuple[int, ...], columns: list[np.ndarray] | None = None) -> None:
        self.layout = Layout(space)
        self.nest, self.flat = self.layout.nest, self.layout.flat
        self.columns = columns or [np.zeros((*axes, *leaf.shape), leaf.dtype) for leaf in self.layout.leaves]

    @property
    def tree(self) -> Any:
        """The arrays, nested like the space. Not copies."""
        return self.nest(self.columns)

    def write(self, index: Any, tree: Any, rows: Any = None) -> None:
        """Store a batch at `index`; with `rows`, only those rows of it."""
        for column, leaf in zip(self.columns, self.flat(tree), strict=True):
            put(column, index, leaf, rows)

    def read(self, index: np.ndarray) -> Any:
        """Copies of the entries at these indices of the first axis."""
        return self.nest([column.take(index, 0) for column in self.columns])

    def part(self, index: Any) -> Storage:
        """A view of the entries at `index`."""
        return Storage(self.layout.space, (), [column[index] for column in self.columns])

    def check_plain(self, call: str) -> None:
        """Raise UnsupportedError if some leaves are Python objects."""
        for number in self.layout.by_value:
            leaf = self.layout.leaves[number]
            raise UnsupportedError(
                f"{call} needs spaces of numbers; {leaf.path or 'this'} is {leaf.space}, which has no fixed size"
            )


def put(column: np.ndarray, index: Any, values: Any, rows: Any = None) -> None:
    """Assign values, or some rows of them, to a column. Values without a fixed size are assigned one by one."""
    if column.dtype == object:
        chosen = list(values) if rows is None else [values[row] for row in np.arange(len(values))[rows]]
        places = np.empty(len(chosen), object)
        for position, value in enumerate(chosen):
            places[position] = value
        column[index] = places
        return
    values = np.asarray(values)
    column[index] = values if rows is None else values[rows]


def as_tensors(tree: Any) -> Any:
    """Torch tensors that share the memory of every array in a tree."""
    torch = load_extra("torch", "tensors need torch: pip install 'vecenv[torch]'")

    def view(array: np.ndarray) -> Any:
        if array.dtype == object:
            raise UnsupportedError("tensors need numbers; this space has parts without a fixed size")
        return torch.from_numpy(array)

    return map_tree(view, tree)


def extra_columns(extras: Any, axes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Columns for additional data of a transition: `{name: dtype}` or `{name: (shape, dtype)}`."""
    columns = {}
    for name, kind in extras.items():
        shape, dtype = kind if isinstance(kind, tuple) else ((), kind)
        columns[name] = np.zeros((*axes, *shape), dtype)
    return columns


def check_extras(columns: dict[str, np.ndarray], given: dict[str, Any]) -> None:
    """Raise SpaceError unless `given` has exactly the names of the columns."""
    if columns.keys() != given.keys():
        raise SpaceError(f"this buffer has the extra columns {sorted(columns)}, add() was given {sorted(given)}")
