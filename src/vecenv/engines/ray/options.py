"""Options of the Ray engine, and how its actors build the engines of their rows."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vecenv._util.checks import brief
from vecenv.engines import Engine, registry
from vecenv.engines.aio.options import Asyncio
from vecenv.engines.native.options import Compiled, engine_class, split_kwargs, time_limit
from vecenv.engines.options import EngineOptions, Order, check_choice
from vecenv.engines.python.options import Sync
from vecenv.engines.request import Request, Source
from vecenv.errors import ConfigError, ConfigTypeError

if TYPE_CHECKING:
    from vecenv.kernel.backend import Precision


@dataclass(frozen=True)
class Ray(EngineOptions):
    """Envs in actors of a Ray cluster, each with an engine of its own for its part of the rows.

    Attributes:
        workers: number of actors; default: the processors this process may use, at most one per env.
        ray_address: a running cluster ("auto" or host:port); default: the one this process is connected to, or a new
            one on this machine that lives until the last user closes.
        num_cpus: processors that each actor reserves; a fraction is fine.
        local_engine: name of the engine inside each actor; "auto" is "compiled" for kernels, else "sync".
        local: that engine with its options, instead of `local_engine`: `Asyncio(step_timeout=60.0)` runs slow envs,
            and returns each one when it is ready. Its limits are those of one actor.
        precision: of kernels inside the actors, see `Compiled`.
        start_timeout: seconds that placing the actors and building the envs may take.
        order: "first-ready", or "fixed": `recv` returns envs in the order of their sends, those of one send by id.
    """

    workers: int | None = None
    ray_address: str | None = None
    num_cpus: float = 1.0
    local_engine: str = "auto"
    local: EngineOptions | None = None
    precision: Precision = "exact"
    start_timeout: float = 60.0
    order: Order = "first-ready"

    name: ClassVar[str] = "ray"
    where: ClassVar[str] = "in actors of a Ray cluster, each with an engine of its own"
    use_for: ClassVar[str] = "more than one machine"
    needs: ClassVar[tuple[str, str] | None] = ("ray", "vecenv[ray]")
    parallel: ClassVar[bool] = True
    isolated: ClassVar[bool] = True
    automatic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ray_address is not None and not isinstance(self.ray_address, str):
            raise ConfigTypeError(f"ray_address must be 'auto', host:port or None, got {self.ray_address!r:.40}")
        cpus: Any = self.num_cpus
        if isinstance(cpus, bool) or not isinstance(cpus, (int, float, np.number)) or not 0 < cpus < float("inf"):
            raise ConfigError(f"num_cpus must be a positive number (a fraction is fine), got {cpus!r}")
        check_choice("local_engine", self.local_engine, ("auto", *(engine.name for engine in local_engines())))
        if self.local is None:
            return
        if type(self.local) not in local_engines():
            able = ", ".join(engine.__name__ for engine in local_engines())
            raise ConfigTypeError(f"local must be an object of {able} (vecenv.engines), got {brief(self.local)}")
        if self.local_engine != "auto":
            raise ConfigError(f"local_engine={self.local_engine!r} and local= name an engine twice; leave one out")
        if isinstance(self.local, Asyncio) and self.local.loop != "own":
            raise ConfigError("local=Asyncio(loop='running') is not possible: actors have no event loop of yours")

    def refuses(self, source: Source, request: Request) -> str | None:
        unfit = super().refuses(source, request)
        if unfit is not None:
            return unfit
        local = self.local_options(source, request)
        unfit = local.refuses(source, _inside(request))
        if unfit is not None:
            return f"in actors of the ray engine: {unfit}"
        if local.isolated and request.observation_mode != "same":  # the actor has to ask each env for its spaces
            able = [engine.name for engine in local_engines() if not engine.isolated and not engine.native]
            given = f"observation_mode={request.observation_mode!r:.60}"
            fix = f"use local_{registry.words(able)}, or leave it out"
            return f"{given} is not for engine='ray' with {local.name!r} in its actors; {fix}"
        if self.precision != "exact" and not local.native:
            return f"precision={self.precision!r} is for kernels, this is {local.name!r} in each actor"
        return None

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.ray.engine import RayEngine

        local = self.local_options(source, request)
        return RayEngine(
            self.part_builder(source, request),
            request.num_envs,
            workers=self.count_workers(request.num_envs),
            observation_mode=request.observation_mode,
            on_error=request.on_error,
            ordered=self.order == "fixed",
            start_timeout=self.start_timeout,
            ray_address=self.ray_address,
            num_cpus=float(self.num_cpus),
            local=local.name,
            each_row=isinstance(local, Asyncio),
        )

    def part_builder(self, source: Source, request: Request) -> Callable[[int, int], Callable[[], Engine]]:
        """A function of rows start ... stop - 1 that returns what builds their engine, picklable."""
        local = self.local_options(source, request)
        if isinstance(local, Compiled):
            return self._kernel_builder(source, request)
        from vecenv.engines.process.launch import pickled_factories

        def builder(start: int, stop: int) -> Callable[[], Engine]:
            counted = "workers" in local.option_names() and getattr(local, "workers", None) is None
            workers = {"workers": min(self._width, stop - start)} if counted else {}
            inside = replace(request, num_envs=stop - start, wrappers=())
            env_fns = pickled_factories(source.env_fns[start:stop], start)
            return functools.partial(build_part, replace(local, **workers), env_fns, start, inside)

        return builder

    def _kernel_builder(self, source: Source, request: Request) -> Callable[[int, int], Callable[[], Engine]]:
        from vecenv.engines.native.compiled import parameter_columns

        assert source.kernel is not None
        ours, theirs = split_kwargs(source.kernel, source.env_kwargs)
        columns = parameter_columns(source.kernel, ours, request.num_envs)
        shared = source.kernel.shared_params
        build = functools.partial(
            engine_class(source.kernel, theirs.get("render_mode")),
            source.kernel,
            precision=self.precision,
            threads=self._width,
            render_mode=theirs.get("render_mode"),
            max_episode_steps=time_limit(source.kernel, theirs),
        )

        def builder(start: int, stop: int) -> Callable[[], Engine]:
            mine = {name: column if name in shared else column[start:stop] for name, column in columns.items()}
            return functools.partial(build, stop - start, parameters=mine)

        return builder

    @property
    def _width(self) -> int:
        """Threads or processes of each actor."""
        return max(1, int(self.num_cpus))

    def local_options(self, source: Source, request: Request) -> EngineOptions:
        """The engine inside each actor."""
        if self.local is not None:
            return self.local
        name = self.local_engine
        if name == "auto":
            name = Sync.name if Compiled().refuses(source, _inside(request)) else Compiled.name
        kind = registry.find(name)
        given = {"start_timeout": self.start_timeout, "precision": self.precision}
        return kind(**{name: value for name, value in given.items() if name in kind.option_names()})


def local_engines() -> list[type[EngineOptions]]:
    """Engines that actors can run."""
    return [engine for engine in registry.classes() if engine.in_actors]


def _inside(request: Request) -> Request:
    """The request for the engine inside an actor. The front handles failures and timeouts."""
    return replace(request, timeout=None, on_error="raise", record=None)


def build_part(local: EngineOptions, env_fns: bytes, origin: int, request: Request) -> Engine:
    """The engine of an actor, from the pickled factories of its rows."""
    return local.build(Source(pickle.loads(env_fns), origin=origin), request)
