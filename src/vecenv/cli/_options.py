"""Kinds of options that commands share, and NAME=VALUE pairs."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro

from vecenv._batch.seeding import LARGEST_OF_RUN
from vecenv.errors import ConfigError

Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
Pairs = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...", help_behavior_hint="")]


def _count(text: list[str]) -> int:
    plain = text[0].replace("_", "").replace(",", "")
    if re.fullmatch(r"[-+]?[0-9]+", plain):
        return int(plain)  # a float would lose digits of a seed
    number = _float(plain)
    if not number.is_integer():
        raise ValueError(f"{text[0]} is not a whole number")
    return int(number)


def _seed(text: list[str]) -> int:
    number = _count(text)
    if not 0 <= number <= LARGEST_OF_RUN:
        raise ValueError(f"{text[0]:.60} is not a seed; seeds are from 0 to 2**63 - 2**32 = {LARGEST_OF_RUN}")
    return number


def _number(text: list[str]) -> float:
    number = _float(text[0])
    if math.isnan(number):
        raise ValueError(f"{text[0]} is not a number")
    return number


def _float(text: str) -> float:
    """The number, NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _written(metavar: str, read: Callable[[list[str]], Any]) -> Any:
    """How an option is read from its text. An optional one is None unless it is given."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1, metavar=metavar, instance_from_str=read, str_from_instance=lambda value: [str(value)],
        is_instance=lambda value: value is None or isinstance(value, (int, float)),
    )  # fmt: skip


Count = Annotated[int, _written("INT", _count)]
CountOrNone = Annotated[int | None, _written("INT", _count)]
"""A whole number, which may be written as 1e5 or 100_000.

`CountOrNone` is not `Count | None`, because tyro's error messages would then list both types.
"""
Seed = Annotated[int, _written("INT", _seed)]
NumberOrNone = Annotated[float | None, _written("FLOAT", _number)]
"""A number; NaN is none."""
DeviceName = Annotated[str, tyro.conf.arg(metavar="auto|cpu|cuda|mps")]
Screens = Annotated[str | None, tyro.conf.arg(help_behavior_hint="", metavar="dqn|True|False|DICT")]
"""Preprocessing of Atari games."""
MAKE_OPTIONS = ("workers", "timeout", "on_error", "record", "preprocessing")
"""Options of `vecenv train` that are arguments of `vecenv.make`."""
Optional = tyro.conf.arg(help_behavior_hint="")
"""The value of an option that is None unless it is given."""


def pairs(given: Sequence[str], option: str) -> dict[str, Any]:
    """`("a=1", "b=x")` as a dict; values are Python literals, else text."""
    found: dict[str, Any] = {}
    for pair in given:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise ConfigError(f"{option} takes NAME=VALUE, got {pair!r}")
        found[name.strip()] = literal(value)
    return found


def screens(text: str | None) -> Any:
    """The value of --preprocessing: "dqn", True, a dict of options; False: raw frames; None: not given."""
    found = None if text is None else literal(text)
    if found is not None and not isinstance(found, (bool, dict)) and found != "dqn":
        raise ConfigError(
            f"--preprocessing must be dqn, True, False or options such as \"{{'frame_stack': 2}}\", got {text!r}"
        )
    return found


def literal(text: str) -> Any:
    """A Python literal such as a number, True, None or a list; any other text unchanged."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: deeply nested brackets
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)
