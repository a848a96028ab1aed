"""What the option classes of engines have in common."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol

from vecenv._util.checks import positive_int, positive_seconds
from vecenv._util.cpus import usable_cpus
from vecenv.engines import Engine, registry
from vecenv.engines.request import Request, Source
from vecenv.errors import ConfigError

Order = Literal["first-ready", "fixed"]


class EngineBuilder(Protocol):
    """What `make(engine=...)` takes: an object that builds an engine. Write one for an engine of your own."""

    @property
    def name(self) -> str:
        """Name of the engine, for messages. A plain attribute will do."""
        ...

    def refuses(self, source: Source, request: Request) -> str | None:
        """Why this engine cannot run the source as requested, None if it can. Nothing is built or started."""
        ...

    def build(self, source: Source, request: Request) -> Engine:
        """The engine. It is called after `refuses` returned None."""
        ...


@dataclass(frozen=True)
class EngineOptions:
    """Base of the options of vecenv's own engines, which are frozen dataclasses.

    Attributes:
        name: of the engine.
        where: the place where envs run, for tables.
        use_for: what the engine is good for, for tables.
        needs: an optional module and what pip installs it with, None if there is nothing to install.
        native: whether envs are native code, which steps all rows at once.
        parallel: whether envs run beside the caller, who waits for them.
        isolated: whether envs run in other processes: the caller cannot touch them, and survives their crashes.
        automatic: whether `engine="auto"` may choose it.
        in_actors: whether actors of the Ray engine can run it.
        has_states: whether everything that an env consists of can be read and written (`SupportsStates`).
        awaitable: whether results can be awaited in an event loop (`SupportsGatherAsync`).
        cannot: attributes of `Request` that the engine cannot do anything about, and why.
        returns_tensors: whether results are torch tensors in the engine's own memory: the vector env is then a
            `DeviceVectorEnv`. The device engine decides that by its options.
    """

    name: ClassVar[str]
    where: ClassVar[str]
    use_for: ClassVar[str]
    needs: ClassVar[tuple[str, str] | None] = None
    native: ClassVar[bool] = False
    parallel: ClassVar[bool] = False
    isolated: ClassVar[bool] = False
    automatic: ClassVar[bool] = True
    in_actors: ClassVar[bool] = False
    has_states: ClassVar[bool] = False
    awaitable: ClassVar[bool] = False
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({})
    returns_tensors: ClassVar[bool] | property = False

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of the fields."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def lacks(cls, options: Mapping[str, Any]) -> str | None:
        """The first of these options that the engine does not have, as a message; None if it has all."""
        for name, value in options.items():
            if name not in cls.option_names():
                return no_such_option(cls.name, name, value)
        return None

    @classmethod
    def unavailable(cls) -> str | None:
        """Why the engine cannot run on this machine whatever the env, None if it can."""
        if cls.needs is None or importlib.util.find_spec(cls.needs[0]) is not None:
            return None
        return f"needs {cls.needs[0]}: pip install '{cls.needs[1]}'"

    def __post_init__(self) -> None:
        """Check the options that several engines have."""
        for name in self.option_names():
            if name in _CHECKS:
                _CHECKS[name](name, getattr(self, name))

    def reason(self, source: Source) -> str | None:
        """Why `auto` prefers this engine for this source, None if the source is nothing special to it."""
        return None

    def refuses(self, source: Source, request: Request) -> str | None:
        """Why this engine cannot run the source as requested, None if it can."""
        most = self._most_workers(request.num_envs)
        workers: int | None = getattr(self, "workers", None)
        if workers is not None and workers > most:
            return f"workers must be in 1 ... {most} (one env each at least), got {workers}"
        for name, why in self.cannot.items():
            if request.asks_for(name):
                value = f"{getattr(request, name)!r:.40}"
                able = registry.words(registry.honouring(name))
                return f"the {self.name} engine cannot honour {name}={value}: {why}; use {able}, or leave {name} out"
        return None

    def build(self, source: Source, request: Request) -> Engine:
        """The engine."""
        raise NotImplementedError

    def count_workers(self, num_envs: int) -> int:
        """The number of workers to start for this number of envs: as given, else one per processor."""
        workers: int | None = getattr(self, "workers", None)
        return min(usable_cpus(), self._most_workers(num_envs)) if workers is None else int(workers)

    def _most_workers(self, num_envs: int) -> int:
        """The number of workers that there is work for."""
        return num_envs


def no_such_option(engine: str, option: str, value: Any) -> str:
    """The message about an option that an engine does not have."""
    able = registry.words(registry.having(option))
    return f"the {engine} engine has no option {option} (got {value!r:.40}); use {able}, or leave {option} out"


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise unless an option has one of these values."""
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "workers": lambda name, value: None if value is None else positive_int(name, value),
    "order": lambda name, value: check_choice(name, value, ("first-ready", "fixed")),
    "precision": lambda name, value: check_choice(name, value, ("exact", "fast")),
    "check": lambda name, value: None if value is None else check_choice(name, value, ("bounds",)),
    "start_timeout": positive_seconds,
}
"""Checks of the options that several engines have."""
