"""Products of parameters: a covering sample of them runs in `make test`, all of them in `make test-all`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def slow(*values: Any) -> list[Any]:
    """Parameters that only `make test-all` tries."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def product(*, together: int = 2, **axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test over a product of parameters, most of it marked slow.

    Args:
        together: every combination of the values of this many axes is tried by some test that is not slow. 2 covers all
            pairs, 1 every single value.
        axes: name of a parameter, and its values.
    """
    names, values = list(axes), [list(axis) for axis in axes.values()]
    chosen = set(covering([len(axis) for axis in values], together))
    cases = [
        pytest.param(
            *(axis[place] for axis, place in zip(values, places, strict=True)),
            marks=() if places in chosen else pytest.mark.slow,
        )
        for places in itertools.product(*map(range, map(len, values)))
    ]
    return pytest.mark.parametrize(names, cases)


def covering(sizes: Sequence[int], together: int) -> list[tuple[int, ...]]:
    """A few rows of a product in which every combination of values of `together` columns appears.

    Each row is the one that covers most of what is still missing; of equal ones, the one whose values were used least.
    """
    columns = list(itertools.combinations(range(len(sizes)), together))
    missing: set[Any] = set().union(*(_covered(row, columns) for row in itertools.product(*map(range, sizes))))
    used: Counter[tuple[int, int]] = Counter()
    rows: list[tuple[int, ...]] = []
    while missing:
        row = max(
            itertools.product(*map(range, sizes)),
            key=lambda row: (len(_covered(row, columns) & missing), -sum(used[pair] for pair in enumerate(row))),
        )
        missing -= _covered(row, columns)
        used.update(enumerate(row))
        rows.append(row)
    return rows


def _covered(row: tuple[int, ...], columns: list[tuple[int, ...]]) -> set[Any]:
    return {(axes, tuple(row[axis] for axis in axes)) for axes in columns}


def quick(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """All values as parameters; those that were not chosen are marked slow."""
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.slow) for value in values]
