"""Kinds of options that commands share, and NAME=VALUE pairs."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from vecenv.errors import ConfigError

Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
Pairs = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...", help_behavior_hint="")]


def _count(text: list[str]) -> int:
    try:
        number = float(text[0].replace("_", "").replace(",", ""))
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise ValueError(f"{text[0]} is not a whole number")
    return int(number)


_COUNT: Any = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1, metavar="INT", instance_from_str=_count, str_from_instance=lambda value: [str(value)],
    is_instance=lambda value: value is None or isinstance(value, int),
)  # fmt: skip
Count = Annotated[int, _COUNT]
CountOrNone = Annotated[int | None, _COUNT]
"""A whole number, which may be written as 1e5 or 100_000.

`CountOrNone` is not `Count | None`, because tyro's error messages would then list both types.
"""
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
