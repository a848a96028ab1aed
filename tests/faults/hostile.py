"""Exceptions that raise when they are looked at, and an env that raises them."""

from __future__ import annotations

import builtins
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.faults.faulty import within
from vecenv._batch.faults import Fault
from vecenv._util.text import type_name


class Odd(BaseException):
    """Neither an Exception nor Ctrl-C."""


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("do not look at me")


def _leave(*args: Any, **kwargs: Any) -> Any:
    raise SystemExit(3)


def _interrupt(*args: Any, **kwargs: Any) -> Any:
    raise KeyboardInterrupt


class _Text(str):
    """What `__str__` of an exception may return."""

    __getitem__ = __format__ = __len__ = __str__ = _refuse  # type: ignore[assignment]


class _Meta(type):
    """The class of a class: it answers nothing."""

    __hash__ = __call__ = __getattribute__ = __instancecheck__ = _refuse  # type: ignore[assignment]


def _class(**methods: Any) -> type[Exception]:
    return type("Hostile", (Exception,), methods)


def _not_fields(self: Any, name: str) -> Any:
    return _refuse() if name in ("row", "rows", "elapsed", "__notes__") else object.__getattribute__(self, name)


def _not_elapsed(self: Any, name: str, value: Any) -> None:
    _refuse() if name in ("elapsed", "__cause__") else object.__setattr__(self, name, value)


_CLASSES: dict[str, type[BaseException]] = {
    "getattr": _class(__getattr__=_refuse),
    "getattr-exits": _class(__getattr__=_leave),
    "getattr-interrupts": _class(__getattr__=_interrupt),
    "getattribute": _class(__getattribute__=_refuse),
    "getattribute-of-fields": _class(__getattribute__=_not_fields),
    "setattr": _class(__setattr__=_refuse),
    "setattr-of-elapsed": _class(__setattr__=_not_elapsed),
    "str": _class(__str__=_refuse),
    "str-exits": _class(__str__=_leave),
    "str-odd": _class(__str__=lambda self: _Text("text")),
    "str-is-no-str": _class(__str__=lambda self: 5),
    "repr": _class(__repr__=_refuse, __str__=_refuse),
    "bool": _class(__bool__=_refuse, __len__=_refuse),
    "empty": _class(__len__=lambda self: 0),
    "hash": _class(__hash__=_refuse, __eq__=_refuse),
    "reduce": _class(__reduce__=_refuse),
    "reduce-exits": _class(__reduce_ex__=_leave),
    "reduce-to-exit": _class(__reduce__=lambda self: (sys.exit, (4,))),
    "class": _class(__class__=property(_refuse)),
    "traceback": _class(__traceback__=property(_refuse)),
    "cause": _class(__cause__=property(_refuse), __context__=property(_refuse)),
    "suppress": _class(__suppress_context__=property(_refuse)),
    "notes": _class(__notes__=property(_refuse)),
    "row": _class(row=property(lambda self: 77, lambda self, value: None)),
    "init-subclass": _class(__init_subclass__=classmethod(_leave)),
    "meta": _Meta("Hostile", (Exception,), {}),
    "odd": Odd,
}
KINDS = (*_CLASSES, "chain", "cycle", "argument", "name", *(["group"] if hasattr(builtins, "ExceptionGroup") else []))


def hostile(kind: str) -> BaseException:
    """A new exception of this kind."""
    if kind == "chain":
        error: BaseException = ValueError("the last one")
        error.__cause__ = type.__call__(_CLASSES["getattribute"], "the first one")
        error.__cause__.__context__ = type.__call__(_CLASSES["meta"])  # type: ignore[union-attr]
        return error
    if kind == "cycle":
        error = ValueError("one")
        error.__cause__ = ValueError("two")
        error.__cause__.__cause__ = error
        return error
    if kind == "group":
        return builtins.ExceptionGroup("many", [type.__call__(_CLASSES["getattr"]), ValueError("fine")])  # type: ignore[attr-defined]
    if kind == "argument":
        return ValueError(_CLASSES["repr"]("an argument"))
    if kind == "name":
        return type(_Text("Hostile"), (Exception,), {})()
    return type.__call__(_CLASSES[kind])


@contextlib.contextmanager
def plainly(kind: str, seconds: float = 5.0) -> Iterator[None]:
    """The block must end in about this time. pytest cannot show hostile exceptions: what escapes is named here."""
    name = None
    try:
        with within(seconds):
            yield
    except AssertionError as error:
        name = str(error)
    except BaseException as error:
        name = f"{type_name(error)} escaped: {Fault.of(error, 'step').traceback}"
    if name is not None:
        raise pytest.fail.Exception(f"{kind}: {name}", pytrace=False) from None


class HostileEnv(gymnasium.Env[Any, Any]):
    """Counts its steps. In env 1 every second call of `where` raises, the first such call the first of `kinds`."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self, index: int, kinds: tuple[str, ...] = (), where: str = "step") -> None:
        self.index, self.where = index, where
        self.steps = self.calls = 0
        self.kinds = iter(kinds)
        if index == 1 and where == "make":
            raise hostile(*kinds)

    def _perhaps(self, where: str) -> None:
        if self.index == 1 and where == self.where:
            self.calls += 1
            if self.calls % 2 == 0:
                raise hostile(next(self.kinds))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._perhaps("reset")
        self.steps = 0
        return np.array([self.index, 0.0]), {}

    def step(self, action: Any) -> Any:
        self._perhaps("step")
        self.steps += 1
        return np.array([self.index, self.steps]), 1.0, False, False, {}

    def poke(self) -> int:
        self._perhaps("poke")
        return self.index
