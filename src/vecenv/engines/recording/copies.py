"""Copies of columns, and columns over time made of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vecenv._batch.batch import Rows
from vecenv._batch.layout import Columns, Layout
from vecenv.engines.recording.digests import digest_rows, is_digested
from vecenv.engines.recording.log import Kept, parts
from vecenv.engines.recording.recording import Column
from vecenv.engines.recording.values import NotData, pack


def copier(layout: Layout, *, digests: bool) -> Callable[[Columns, Rows | None], Kept]:
    """A function that copies columns of some rows (None: all), large ones as digests."""

    def numbers(column: np.ndarray, rows: Rows | None) -> np.ndarray:
        return column.copy() if rows is None else column[rows]

    def digest(column: np.ndarray, rows: Rows | None) -> np.ndarray:
        return digest_rows(column if rows is None else column[rows])

    def values(column: np.ndarray, rows: Rows | None) -> list[Any]:
        return [copied_value(value) for value in (column if rows is None else column[rows]).tolist()]

    def of(leaf: Any) -> Callable[[np.ndarray, Rows | None], Any]:
        if leaf.by_value:
            return values
        return digest if digests and is_digested(leaf.dtype.itemsize * int(np.prod(leaf.shape))) else numbers

    each = [of(leaf) for leaf in layout.leaves]
    if each == [numbers]:
        return lambda columns, rows: (columns[0].copy() if rows is None else columns[0][rows],)
    return lambda columns, rows: tuple([copied(column, rows) for copied, column in zip(each, columns, strict=True)])


def copied_value(value: Any) -> Any:
    """A copy of a value; what cannot be copied, and so cannot be written to a file either, is returned as it is."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def columns_of(
    layout: Layout, entries: Sequence[tuple[Any, int]], name: str, digested: tuple[bool, ...], problems: list[str]
) -> tuple[Column, ...]:
    """Leaves of a row over time."""
    columns: list[Column] = []
    for number, (leaf, is_digest) in enumerate(zip(layout.leaves, digested, strict=True)):
        found = list(parts(entries, name, number))
        if leaf.by_value:
            title = f"{name}.{leaf.path}" if leaf.path else name
            columns.append(tuple(found) if is_data(tuple(found), title, problems) else None)
        elif is_digest:
            columns.append(np.array(found, np.uint64))
        else:
            columns.append(np.array(found, leaf.dtype).reshape((len(found), *leaf.shape)))
    return tuple(columns)


def is_data(value: Any, where: str, problems: list[str]) -> bool:
    """Whether a file can hold this value; if not, why is added to `problems`."""
    try:
        pack(value, [], where)
    except NotData as error:
        problems.append(str(error))
        return False
    return True
