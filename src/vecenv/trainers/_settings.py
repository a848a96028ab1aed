"""Settings of trainers: frozen dataclasses whose types and ranges are checked when they are made."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import math
import operator
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real
from types import UnionType
from typing import Any, ClassVar, Literal, Self, SupportsIndex

from vecenv._util.checks import brief
from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, ConfigTypeError

Schedule = Callable[[float], float]
"""A setting that changes: a function of progress, which is 0 at the start of training and 1 at its end."""

_LARGEST = sys.float_info.max
_SMALLEST = math.nextafter(0, 1)
COUNT = (1, math.inf)
LIMIT = (_SMALLEST, math.inf)
"""Infinity is no limit at all."""
POSITIVE = (_SMALLEST, _LARGEST)
NOT_NEGATIVE = (0, _LARGEST)
FINITE = (-_LARGEST, _LARGEST)
SHARE = (0, 1)
THREADS = (1, 1024)

OTHER_NAMES = {
    "n_steps": "rollout_steps", "batch_size": "minibatch", "n_epochs": "epochs", "gae_lambda": "lam",
    "ent_coef": "entropy", "vf_coef": "value_weight", "clip_range_vf": "clip_value", "buffer_size": "capacity",
    "learning_starts": "warmup", "gradient_steps": "updates_per_step", "target_update_interval": "target_every",
    "exploration_fraction": "exploration_share", "exploration_final_eps": "final_exploration",
}  # fmt: skip
"""Stable-Baselines3's names of settings, and ours."""


@dataclass(frozen=True)
class Settings:
    """Base class of the trainers' settings.

    A subclass lists the allowed range of its numbers in `ranges`: lowest and highest value. A `float | Schedule` may be
    a function of progress; its values at 0 and at 1 are checked when the settings are made.
    """

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Settings that must stay the same when training continues from a checkpoint; a subclass adds its own."""

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Raise ConfigTypeError for settings that there are not, such as those of other libraries."""
        known = _arguments(cls)
        for name in named:
            if known is not None and name not in known:
                raise ConfigTypeError(f"{cls.__name__}: {_no_setting(name, known)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        for field in fields(self):
            value = _fitting(field.name, getattr(self, field.name), hints[field.name])
            object.__setattr__(self, field.name, value)
            if field.name in self.ranges and value is not None:
                self._check_range(field.name, value)

    def at(self, name: str, progress: float) -> float:
        """The value of a setting at this progress (0 to 1), for numbers and schedules.

        Raises:
            ConfigError: the schedule returned something else than a number in the allowed range.
        """
        value: Any = getattr(self, name)
        return self._scheduled(name, value, progress) if callable(value) else value

    def check_fixed(self, stored: Mapping[str, Any], more: Iterable[str] = ()) -> None:
        """Raise ConfigError if a setting that must stay the same, or one of `more`, is not that in a file."""
        names = set(more).union(*(vars(kind).get("fixed", ()) for kind in type(self).__mro__))
        given = self.as_data()
        for name in sorted(names & stored.keys() & given.keys()):
            if _text(given[name]) != _text(stored[name]):
                raise ConfigError(
                    f"the training was begun with {name}={stored[name]!r:.80}; continue with the same value, got "
                    f"{given[name]!r:.80}"
                )

    @property
    def functions(self) -> list[str]:
        """Names of settings that are functions, which files do not store."""
        return [field.name for field in fields(self) if callable(getattr(self, field.name))]

    def as_data(self) -> dict[str, Any]:
        """The settings as plain data; functions are left out."""
        return {name: value for name, value in asdict(self).items() if not callable(value)}

    def _check_range(self, name: str, value: Any) -> None:
        if callable(value):
            for progress in (0.0, 1.0):
                self._scheduled(name, value, progress)
            return
        low, high = self.ranges[name]
        for number in value if isinstance(value, tuple) else (value,):
            if not low <= number <= high:
                raise ConfigError(f"{name} must be {_range_words(low, high)}, got {number}")

    def _scheduled(self, name: str, function: Callable[..., Any], progress: float) -> float:
        try:
            value = function(progress)
        except TypeError as error:
            raise ConfigTypeError(f"{name} raised TypeError when it was called with the progress: {error}") from error
        low, high = self.ranges[name]
        if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
            raise ConfigError(
                f"{name} is a function of progress and returned {brief(value)} at {progress:.2f}; it must return a "
                f"number {_range_words(low, high)}"
            )
        return float(value)


def settings_of(config: type[Settings], changes: dict[str, Any]) -> dict[str, Any]:
    """Check that settings of these names exist; whole numbers such as 1e6 become ints where ints are needed."""
    hints = _hints(config)
    for name, value in changes.items():
        if name not in hints:
            raise ConfigError(_no_setting(name, hints))
        kinds = _kinds(hints[name])
        if isinstance(value, float) and int in kinds and float not in kinds and value.is_integer():
            changes[name] = int(value)
    return changes


def _no_setting(name: str, known: Mapping[str, Any]) -> str:
    if OTHER_NAMES.get(name) in known:
        return f"there is no setting {name!r}; it is {OTHER_NAMES[name]!r} here"
    hint = did_you_mean(name, known, f"settings: {', '.join(known)}")
    return f"there is no setting {name!r}{hint}"


def _text(value: Any) -> str:
    """A text that is the same for a value and for what a file has of it: tuples are lists there."""
    return json.dumps(value, default=lambda other: other.tolist() if hasattr(other, "tolist") else str(other))


@functools.cache
def _arguments(config: type) -> dict[str, None] | None:
    """Names that `__init__` can be called with, which a subclass may have written itself; None: any name."""
    _, *parameters = inspect.signature(config.__init__).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {parameter.name: None for parameter in parameters if parameter.kind in named}


@functools.cache
def _hints(config: type) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(config)
    except NameError as error:
        raise ConfigTypeError(
            f"{config.__name__}: {error} in its module; import the types of settings there"
        ) from error
    return {field.name: hints[field.name] for field in fields(config)}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union else (hint,)


def _fitting(name: str, value: Any, hint: Any) -> Any:
    """The value as the type that the hint asks for; NumPy's numbers become Python's. Raises ConfigTypeError."""
    kinds = _kinds(hint)
    if value is None and type(None) in kinds:
        return None
    for kind in kinds:
        if typing.get_origin(kind) is Literal:
            if value in typing.get_args(kind):
                return value
            names = ", ".join(map(repr, typing.get_args(kind)))
            raise ConfigError(f"{name} must be one of {names}, got {value!r:.80}")
    several = next((kind for kind in kinds if typing.get_origin(kind) is tuple), None)
    if several is not None and isinstance(value, (tuple, list)):
        items = typing.get_args(several)
        hints = [items[0]] * len(value) if items[-1] is Ellipsis else list(items)
        if len(hints) != len(value):
            raise ConfigError(f"{name} must have {len(hints)} values, got {brief(value)}")
        parts = enumerate(zip(value, hints, strict=True))
        return tuple(_fitting(f"{name}[{place}]", item, own) for place, (item, own) in parts)
    if any(kind not in _CHECKED and typing.get_origin(kind) is not tuple for kind in kinds):
        return value  # a type that only a subclass knows
    if Schedule in kinds and callable(value):
        return value
    for kind in (bool, str):
        if kind in kinds and isinstance(value, kind):
            return value
    if not isinstance(value, bool):
        if int in kinds and isinstance(value, SupportsIndex):
            with contextlib.suppress(TypeError):  # an array that is no whole number
                return operator.index(value)
        if float in kinds and isinstance(value, Real):
            return float(value) if not isinstance(value, int) else value
    raise ConfigTypeError(f"{name} must be {_type_words(kinds)}, got {brief(value)}")


_CHECKED = (int, float, bool, str, type(None), Schedule)


def _type_words(kinds: tuple[Any, ...]) -> str:
    words = {int: "an int", float: "a number", bool: "True or False", str: "text", type(None): "None"}
    names = [words.get(kind) or ("a function of progress" if kind == Schedule else "a list of ints") for kind in kinds]
    return " or ".join(names)


def _range_words(low: float, high: float) -> str:
    if (low, high) == FINITE:
        return "finite"
    at_least = "positive" if low == _SMALLEST else f"at least {low}"
    return at_least if high == math.inf else f"{at_least} and finite" if high == _LARGEST else f"from {low} to {high}"
