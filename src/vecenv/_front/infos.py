"""Infos of single envs as one dict of arrays (Gymnasium) or as one dict per env (SB3, RLlib)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vecenv.errors import SpaceError

_EVERYONE = np.ones(1, np.bool_)


def as_arrays(infos: Iterable[tuple[int, Mapping[str, Any]]], count: int) -> dict[str, Any]:
    """Gymnasium's layout: per key an array over `count` rows, and a bool array `_key` of the rows that have it.

    A row without the key has zero (None in an object array). Nested dicts are rendered the same way. The dtype holds
    every value: int and float give float, values that share no dtype or shape give an object array.
    """
    gathered: dict[str, tuple[list[int], list[Any]]] = {}
    for row, info in infos:
        for key, value in info.items():
            rows, values = gathered.setdefault(key, ([], []))
            rows.append(row)
            values.append(value)
    rendered: dict[str, Any] = {}
    for key, (rows, values) in gathered.items():
        rendered[key] = _column(rows, values, count)
        mask = np.zeros(count, np.bool_)
        mask[rows] = True
        rendered[f"_{key}"] = mask
    return rendered


def ended_by_fault(infos: Mapping[str, Any]) -> np.ndarray | None:
    """Which rows have a fault that ended an episode (`info["fault"]["ended"]`), as a mask; None if none has a fault.

    An info "fault" of the env's own is none.
    """
    fault = infos.get("fault")
    ended = fault.get("ended") if isinstance(fault, Mapping) else None
    return infos["_fault"] & ended if isinstance(ended, np.ndarray) and ended.dtype == np.bool_ else None


def as_dicts(infos: Iterable[tuple[int, Mapping[str, Any]]], count: int) -> list[dict[str, Any]]:
    """One fresh dict per row."""
    dicts: list[dict[str, Any]] = [{} for _ in range(count)]
    for row, info in infos:
        dicts[row].update(info)
    return dicts


def from_columns(
    columns: Mapping[str, np.ndarray], rows: Any, mask: np.ndarray | None, some: Collection[str] = (), have: Any = None
) -> dict[str, Any]:
    """Gymnasium's layout of infos that are columns already.

    Args:
        columns: one value per row of the batch.
        rows: which rows of it (None: all).
        mask: which of these have infos (None: all); the others read zero.
        some: names that are left out where `have`, a mask like the other, is False.
    """
    rendered: dict[str, Any] = {}
    both = have if mask is None or have is None else mask & have
    counts = [None if present is None else np.count_nonzero(present) for present in (mask, both)]
    for key, column in columns.items():
        present, count = (both, counts[1]) if key in some else (mask, counts[0])
        if count == 0 and key in some:
            continue
        values = column.copy() if rows is None else column[rows]
        if present is None:
            present = np.empty(len(values), np.bool_)
            present.fill(True)  # a tenth of the time of np.ones
        else:
            present = present.copy()
            if count != len(values):
                values[~present] = 0
        rendered[key], rendered[f"_{key}"] = values, present
    return rendered


def row_of_columns(columns: Mapping[str, np.ndarray], row: int) -> dict[str, Any]:
    """The infos of one row as a fresh dict of plain values."""
    return {key: np.array(column[row]) if column.ndim > 1 else column[row].item() for key, column in columns.items()}


def infos_to_list(infos: Mapping[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """Infos of a vector env as one dict per env, which many libraries want: what each single env had returned.

    In same-step mode, envs whose episode ended also have "final_obs" and "final_info".

    Args:
        infos: what `reset` or `step` of a Gymnasium vector env returned, or `Step.infos`.
        num_envs: how many envs these are about.

    Returns:
        Fresh dicts with the keys that each env has. Numbers are Python's; arrays are views into `infos`.

    Raises:
        SpaceError: an entry has another number of values.
    """
    for key, column in infos.items():
        if not isinstance(column, Mapping) and np.shape(column)[:1] != (num_envs,):
            raise SpaceError(
                f"infos[{key!r}] has shape {np.shape(column)}, and there are {num_envs} envs; pass the dict that reset "
                "or step returned, and the number of envs in it"
            )
    return rows_of_arrays(infos, num_envs)


def rows_of_arrays(infos: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """The reverse of `as_arrays`: one fresh dict of plain values per row, with the keys that the row has.

    A key without a mask, as some envs of others return it, belongs to all rows. Arrays in a dict are views, of rows
    that belong to it alone.
    """
    dicts: list[dict[str, Any]] = [{} for _ in range(count)]
    for key, column in infos.items():
        if key[:1] == "_" and key[1:] in infos:  # a mask
            continue
        mask = infos.get(f"_{key}", _EVERYONE)
        if isinstance(column, Mapping):
            values: Any = rows_of_arrays(column, count)
        else:
            values = list(column) if column.ndim > 1 else column.tolist()
        if not mask.all():
            for row in np.flatnonzero(mask).tolist():
                dicts[row][key] = values[row]
            continue
        for info, value in zip(dicts, values, strict=True):
            info[key] = value
    return dicts


def objects(rows: Sequence[int], values: Iterable[Any], count: int) -> np.ndarray:
    """An object array of None with `values` at `rows`, whatever the values are."""
    column = np.full(count, None, dtype=object)
    column[rows] = np.fromiter(values, object, len(rows))
    return column


def _column(rows: list[int], values: list[Any], count: int) -> Any:
    try:
        if all(issubclass(type(value), dict) for value in values):
            return as_arrays(zip(rows, values, strict=True), count)
        dtype = _common_dtype(values)
        if dtype is not None:
            column = np.zeros((count, *np.shape(values[0])), dtype)
            column[rows] = values
            return column
    except Exception:  # a dict that contains itself, an array whose methods raise: values of envs may do anything
        pass
    return objects(rows, values, count)


def _common_dtype(values: list[Any]) -> np.dtype | None:
    """The dtype that holds all values, None if they are not numbers of one shape."""
    kinds = {type(value) for value in values}
    if kinds <= {float}:
        return np.dtype(np.float64)
    if not all(issubclass(kind, (bool, int, float, np.number, np.bool_, np.ndarray)) for kind in kinds):
        return None
    arrays = [np.asarray(value) for value in values]
    if any(array.shape != arrays[0].shape or array.dtype.kind not in "biufcSU" for array in arrays):
        return None
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1 and any(dtype.kind in "bSU" for dtype in dtypes):
        return None
    common = np.result_type(*dtypes)
    if common.kind == "f" and all(dtype.kind in "iu" for dtype in dtypes):
        return None  # int64 and uint64: no integer dtype holds both
    return common
