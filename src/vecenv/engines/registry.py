"""The engines by name. Everything that lists engines reads this: `make`, the command line, docs and tests."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from vecenv._util.suggest import did_you_mean
from vecenv.errors import UnknownEngine

if TYPE_CHECKING:
    from vecenv.engines.options import EngineOptions

_MODULES = {
    "compiled": "native",
    "device": "device",
    "mujoco": "native",
    "ale": "ale",
    "sync": "python",
    "thread": "python",
    "process": "process",
    "asyncio": "aio",
    "ray": "ray",
}
"""Package in `vecenv.engines` whose module `options` has the class of each engine, which is called like the engine."""

if TYPE_CHECKING:
    EngineName = str
else:
    EngineName = Literal[("auto", *_MODULES)]
"""What `--engine` of a command line takes."""


def names() -> tuple[str, ...]:
    """The names of all engines."""
    return tuple(_MODULES)


def find(name: Any) -> type[EngineOptions]:
    """The class of the engine with this name. Raises UnknownEngine, which suggests the nearest name."""
    if isinstance(name, str) and name in _MODULES:
        module = importlib.import_module(f"vecenv.engines.{_MODULES[name]}.options")
        return getattr(module, name.capitalize())
    hint = did_you_mean(name, _MODULES) if isinstance(name, str) else ""
    if isinstance(name, type):
        hint = f"; pass an object of it, {name.__name__}()"
    raise UnknownEngine(
        f"engine must be 'auto', one of {', '.join(map(repr, _MODULES))}, or an object with name, refuses and build, "
        f"such as vecenv.engines.Process(workers=4); got {name!r:.60}{hint}"
    )


def classes() -> list[type[EngineOptions]]:
    """The classes of all engines."""
    return [find(name) for name in _MODULES]


@functools.cache
def option_defaults() -> dict[str, Any]:
    """Every option of an engine that `make` takes as a keyword, and its default."""
    return {field.name: field.default for engine in classes() for field in dataclasses.fields(engine)}


def having(option: str) -> list[str]:
    """Names of the engines that have an option."""
    return [engine.name for engine in classes() if option in engine.option_names()]


def honouring(name: str) -> list[str]:
    """Names of the engines that can do what an attribute of `Request` asks for."""
    return [engine.name for engine in classes() if name not in engine.cannot]


def declaring(fact: str) -> list[str]:
    """Names of the engines that declare this attribute of `EngineOptions` to be true."""
    return [engine.name for engine in classes() if getattr(engine, fact)]


def python_engines() -> list[str]:
    """Names of the engines that run any Python env on this machine."""
    found = (engine for engine in classes() if not engine.native and engine.automatic)
    return [engine.name for engine in found if engine.unavailable() is None]


def declares(engine: Any, fact: str) -> bool:
    """Whether an engine, given by name or as an object, declares this attribute of `EngineOptions` to be true.

    Engines of others declare it themselves, as an attribute; one that does not is taken for False.
    """
    name = engine if isinstance(engine, str) else getattr(engine, "name", "")
    return bool(getattr(find(name) if name in _MODULES else engine, fact, False))


def words(engines: Iterable[str]) -> str:
    """`engine='thread', 'process' or 'ray'`."""
    *others, last = map(repr, engines)
    return f"engine={', '.join(others)} or {last}" if others else f"engine={last}"
