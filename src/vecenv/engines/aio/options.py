"""Options of the asyncio engine."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from vecenv._util.checks import brief, positive_int, positive_seconds
from vecenv.engines import Engine
from vecenv.engines.options import EngineOptions, Order, check_choice
from vecenv.engines.request import Request, Source
from vecenv.errors import ConfigError, ConfigTypeError

if TYPE_CHECKING:
    from vecenv.engines.aio.faults import Classify
    from vecenv.engines.aio.loop import LoopChoice


@dataclass(frozen=True)
class Asyncio(EngineOptions):
    """Envs that wait: `async def` envs in an event loop, ordinary ones on a thread each. Thousands run at once.

    Attributes:
        concurrency: how many envs may run at once; default: all. As many are built at once; default: 64.
        rate: how many calls of envs may start per second; default: no limit.
        step_timeout: seconds that a step of an env may take, counted from its start. One that takes longer is cancelled
            and has failed with EnvTimeout. Default: no limit.
        reset_timeout: the same for a reset.
        start_timeout: seconds that building all envs may take, and later building one again.
        classify: a function of what was raised and the phase ("make", "reset", "step") that returns the class of the
            fault: "retry", "terminal" or "infrastructure" (docs/slow_envs.md), or None for the default.
        loop: "own": an event loop in a thread of its own. "running": that of the coroutine that calls `make`; then
            only `await envs.recv_async()` and its kin can wait.
        order: "first-ready", or "fixed": `recv` returns envs in the order of their sends, those of one send by id.
    """

    concurrency: int | None = None
    rate: float | None = None
    step_timeout: float | None = None
    reset_timeout: float | None = None
    start_timeout: float = 60.0
    classify: Classify | None = None
    loop: LoopChoice = "own"
    order: Order = "first-ready"

    name: ClassVar[str] = "asyncio"
    where: ClassVar[str] = "in an event loop (async def step), ordinary ones on a thread each"
    use_for: ClassVar[str] = "thousands of slow envs: tools, browsers, language models, remote simulators"
    parallel: ClassVar[bool] = True
    automatic: ClassVar[bool] = False
    in_actors: ClassVar[bool] = True
    awaitable: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("loop", self.loop, ("own", "running"))
        if self.concurrency is not None:
            positive_int("concurrency", self.concurrency)
        for name in ("step_timeout", "reset_timeout"):
            if getattr(self, name) is not None:
                positive_seconds(name, getattr(self, name))
        rate: Any = self.rate
        if rate is not None and (
            isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < math.inf
        ):
            raise ConfigError(f"rate must be a positive number of starts per second or None, got {brief(rate)}")
        if self.classify is not None and not callable(self.classify):
            raise ConfigTypeError(f"classify must be a function or None, got {brief(self.classify)}")

    def refuses(self, source: Source, request: Request) -> str | None:
        if self.loop == "running":
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return "loop='running' is for make() inside a coroutine; no event loop runs here: use loop='own'"
            if "truncate" in (request.check_finite.obs, request.check_finite.reward):
                return (
                    "check_finite='truncate' waits for resets, which would stop the loop of loop='running'; use "
                    "loop='own', or another policy"
                )
        return super().refuses(source, request)

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.aio.engine import AsyncioEngine

        return AsyncioEngine(
            source.env_fns,
            observation_mode=request.observation_mode,
            on_error=request.on_error,
            concurrency=None if self.concurrency is None else int(self.concurrency),
            rate=self.rate,
            step_timeout=self.step_timeout,
            reset_timeout=self.reset_timeout,
            start_timeout=self.start_timeout,
            classify=self.classify,
            loop=self.loop,
            ordered=self.order == "fixed",
            origin=source.origin,
        )
