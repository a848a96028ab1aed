"""Scenarios: sets of parameters, and distributions over them."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vecenv._util.checks import brief
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.scenarios._noise import Noise

Values = dict[str, Any]
"""A parameter set: values of some parameters for one episode."""
Columns = dict[str, np.ndarray]
"""Parameter sets of many rows: a column per parameter, `ABSENT` where a row's set does not include it."""


class _Absent:
    def __repr__(self) -> str:
        return "-"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


class Scenarios:
    """A set or distribution of parameter sets. Made by `list`, `grid`, `uniform` and `curriculum`."""

    changes = False
    """Whether samples depend on progress."""

    def draw(self, noise: Noise, progress: float = 0.0) -> Columns:
        """Sample a parameter set for each row of `noise`."""
        raise NotImplementedError

    def parts(self) -> list[tuple[str, Scenarios]]:
        """The scenarios that an evaluation reports separately, by name: each set of a list; a distribution is one."""
        return [(str(self), self)]

    def extremes(self) -> list[Values]:
        """Parameter sets with all names and the extreme values, to be checked before anything runs."""
        raise NotImplementedError

    @property
    def names(self) -> list[str]:
        """The parameters of all sets."""
        return list(dict.fromkeys(name for values in self.extremes() for name in values))


class Sets(Scenarios):
    """Parameter sets by name, all equally likely."""

    def __init__(self, named: Mapping[str, Mapping[str, Any]]) -> None:
        if not named:
            raise ConfigError("there are no scenarios in the list; pass at least one parameter set, {} for the default")
        self._named = {name: _checked_set(values) for name, values in named.items()}
        self._columns = columns_of(list(self._named.values()))

    def draw(self, noise: Noise, progress: float = 0.0) -> Columns:
        if len(self._named) == 1:
            return {name: np.repeat(column, len(noise), axis=0) for name, column in self._columns.items()}
        chosen = noise.choice("set", len(self._named))
        return {name: column[chosen] for name, column in self._columns.items()}

    def parts(self) -> list[tuple[str, Scenarios]]:
        return [(name, Sets({name: values})) for name, values in self._named.items()]

    def extremes(self) -> list[Values]:
        return list(self._named.values())

    def __str__(self) -> str:
        return " | ".join(self._named)


class Uniform(Scenarios):
    """Numbers sampled between bounds (or a single value) of each parameter; with `log`, uniformly in the logarithm."""

    def __init__(self, bounds: Mapping[str, Any], log: bool = False) -> None:
        if not bounds:
            raise ConfigError("uniform() has no parameters; name some: uniform(gravity=(5.0, 15.0))")
        self._log = log
        self._bounds = {name: _interval(name, pair, log) for name, pair in bounds.items()}

    def draw(self, noise: Noise, progress: float = 0.0) -> Columns:
        return {name: self._between(low, high, noise.uniform(name)) for name, (low, high) in self._bounds.items()}

    def _between(self, low: float, high: float, share: np.ndarray) -> np.ndarray:
        if self._log:
            return np.clip(low * (high / low) ** share, low, high)
        return np.clip(low + (high - low) * share, low, high)

    def extremes(self) -> list[Values]:
        return [{name: pair[end] for name, pair in self._bounds.items()} for end in (0, 1)]

    def __str__(self) -> str:
        return ", ".join(
            f"{name}={low:g}" if low == high else f"{name}={low:g}...{high:g}"
            for name, (low, high) in self._bounds.items()
        )


class Curriculum(Scenarios):
    """Scenarios that change with progress, a number from 0 to 1.

    Args:
        at: function that returns the scenarios at a progress.
        milestones: values of progress at which the result of `at` is checked.
    """

    changes = True

    def __init__(self, at: Callable[[float], Any], milestones: Iterable[float]) -> None:
        self._at, self._milestones = at, sorted(milestones)
        self.extremes()

    def at(self, progress: float) -> Scenarios:
        """The scenarios at this progress."""
        return as_scenarios(self._at(progress), f"curriculum at progress {progress:g}")

    def draw(self, noise: Noise, progress: float = 0.0) -> Columns:
        return self.at(progress).draw(noise, progress)

    def parts(self) -> list[tuple[str, Scenarios]]:
        """The scenarios at progress 1."""
        return self.at(1.0).parts()

    def extremes(self) -> list[Values]:
        return [values for progress in self._milestones for values in self.at(progress).extremes()]

    def __str__(self) -> str:
        return f"curriculum to {self.at(1.0)}"


def listed(sets: Mapping[str, Mapping[str, Any]] | Iterable[Mapping[str, Any]]) -> Scenarios:
    """Parameter sets, all equally likely; an evaluation reports each separately.

    Args:
        sets: `[{"g": 9.8}, {"g": 1.6}]`, or with names: `{"earth": {"g": 9.8}, "moon": {"g": 1.6}}`. Parameters that
            are not in a set keep their values from `make`; `{}` is the unchanged env.
    """
    if isinstance(sets, Mapping):
        return Sets({str(name): values for name, values in sets.items()})
    if not isinstance(sets, Iterable):
        raise ConfigTypeError(f"list() takes parameter sets, such as [{{'g': 9.8}}]; got {brief(sets)}")
    named: dict[str, Mapping[str, Any]] = {}
    for values in sets:
        name = name_of(_checked_set(values))
        if name in named:  # the name shows rounded numbers, so different sets may have the same name
            name = str(dict(values))
        if name in named or str(dict(named.get(name_of(values), {}))) == name:
            raise ConfigError(f"the parameter set {name!r} occurs twice; name the sets: list({{'name': {{...}}}})")
        named[name] = values
    return Sets(named)


def grid(**values: Iterable[Any]) -> Scenarios:
    """Every combination of the given values: `grid(g=[1.6, 9.8], l=[0.5, 1.0])` has four parameter sets."""
    if not values:
        raise ConfigError("grid() has no parameters; name some: grid(gravity=[5.0, 10.0])")
    axes = {name: _axis(name, axis) for name, axis in values.items()}
    return listed([dict(zip(axes, cell, strict=True)) for cell in itertools.product(*axes.values())])


def uniform(*, log: bool = False, **bounds: Any) -> Scenarios:
    """Numbers sampled for every episode: `uniform(g=(1.6, 24.8), l=1.0)`.

    Args:
        log: whether to sample uniformly in the logarithm; bounds must be positive.
        **bounds: (lowest, highest) of each parameter, or one number.
    """
    return Uniform(bounds, log)


def curriculum(stages: Callable[[float], Any] | Mapping[float, Any]) -> Scenarios:
    """Scenarios that change with progress from 0 to 1; the trainer sets the progress.

    Args:
        stages: a function of progress that returns scenarios, or a dict of scenarios by the progress at which they
            start: `{0.0: easy, 0.5: hard}`.
    """
    if callable(stages):
        return Curriculum(stages, (0.0, 0.5, 1.0))
    if not isinstance(stages, Mapping) or not stages:
        raise ConfigTypeError(
            f"curriculum() takes a function of progress or a dict {{progress: scenarios}}; got {brief(stages)}"
        )
    starts = np.array([share("the progress at which a stage starts", start) for start in stages])
    if starts.min() > 0.0:
        raise ConfigError(f"the first stage of a curriculum must start at 0.0, got {starts.min():g}")
    ways = [as_scenarios(way, f"stage {start:g}") for start, way in zip(starts, stages.values(), strict=True)]

    def at(progress: float) -> Scenarios:
        reached = np.flatnonzero(starts <= progress)
        return ways[reached[np.argmax(starts[reached])]]

    return Curriculum(at, (*starts.tolist(), 1.0))


def as_scenarios(given: Any, what: str = "scenarios") -> Scenarios:
    """Convert the user's argument: Scenarios, one parameter set, or a list of them."""
    if isinstance(given, Scenarios):
        return given
    if isinstance(given, Mapping):
        return listed([given])
    if isinstance(given, Sequence) and not isinstance(given, str):
        return listed(given)
    raise ConfigTypeError(
        f"{what} must be a parameter set such as {{'g': 9.8}}, a list of them, or made by vecenv.scenarios; "
        f"got {brief(given)}"
    )


def name_of(values: Mapping[str, Any]) -> str:
    """A name for a parameter set."""
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items()) or "default"


def sets_of(columns: Columns, count: int) -> list[Values]:
    """Each row's parameter set, with plain Python numbers."""
    sets: list[Values] = [{} for _ in range(count)]
    for name, column in columns.items():
        values = column.tolist() if column.ndim == 1 else column
        for values_of_row, value in zip(sets, values, strict=True):
            if value is not ABSENT:
                values_of_row[name] = value
    return sets


def columns_of(sets: Sequence[Values]) -> Columns:
    """Parameter sets as columns, the inverse of `sets_of`."""
    names = dict.fromkeys(name for values in sets for name in values)
    return {name: _column([values.get(name, ABSENT) for values in sets]) for name in names}


def _checked_set(values: Any) -> Values:
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise ConfigTypeError(
            f"a parameter set is a dict of names and values, such as {{'g': 9.8}}; got {brief(values)}"
        )
    return dict(values)


def _column(values: list[Any]) -> np.ndarray:
    """Values of one parameter in all sets: numbers as a plain array, anything else as objects."""
    if all(isinstance(value, (numbers.Real, np.bool_)) for value in values):
        return np.array(values)
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _axis(name: str, axis: Any) -> list[Any]:
    if isinstance(axis, (str, Mapping)) or not isinstance(axis, Iterable):
        raise ConfigTypeError(f"grid({name}=...) takes the values to try, such as [1.0, 2.0]; got {brief(axis)}")
    values = [value.item() if isinstance(value, np.generic) else value for value in axis]
    if not values:
        raise ConfigError(f"grid({name}=...) has no values")
    return values


def _interval(name: str, pair: Any, log: bool) -> tuple[float, float]:
    ends = (pair, pair) if isinstance(pair, numbers.Real) else pair
    if not isinstance(ends, Sequence) or len(ends) != 2 or not all(isinstance(end, numbers.Real) for end in ends):
        raise ConfigTypeError(f"uniform({name}=...) takes (lowest, highest) or a number; got {brief(pair)}")
    low, high = map(float, ends)
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ConfigError(f"uniform({name}=...) takes finite (lowest, highest) in this order; got {pair!r:.60}")
    if log and low <= 0:
        raise ConfigError(f"uniform({name}={pair!r:.60}, log=True) needs positive bounds")
    return low, high


def share(name: str, value: Any) -> float:
    """The value as a float; raises ConfigError unless it is from 0 to 1."""
    if isinstance(value, numbers.Real) and 0.0 <= float(value) <= 1.0:
        return float(value)
    raise ConfigError(f"{name} must be from 0 to 1, got {value!r:.40}")


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value!s:.40}"
