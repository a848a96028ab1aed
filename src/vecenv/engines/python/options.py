"""Options of the engines that run Python envs in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vecenv.engines import Engine
from vecenv.engines.options import EngineOptions, Order
from vecenv.engines.request import Request, Source


@dataclass(frozen=True)
class Sync(EngineOptions):
    """Envs in the calling thread, one after another. The reference for all other engines.

    Attributes:
        order: "first-ready" or "fixed"; rows are received in the order of their sends either way.
    """

    order: Order = "first-ready"

    name: ClassVar[str] = "sync"
    where: ClassVar[str] = "in the calling thread"
    use_for: ClassVar[str] = "cheap environments; the reference for all others"
    in_actors: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = {
        "timeout": "it steps envs in the calling thread and cannot give up on one that hangs"
    }

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.python.sync import SyncEngine

        return SyncEngine(
            source.env_fns,
            observation_mode=request.observation_mode,
            on_error=request.on_error,
            origin=source.origin,
        )


@dataclass(frozen=True)
class Thread(EngineOptions):
    """Envs on threads of this process.

    Attributes:
        workers: number of threads; default: the processors this process may use, at most one per env.
        order: "first-ready", or "fixed": `recv` returns envs in the order of their sends, those of one send by id.
    """

    workers: int | None = None
    order: Order = "first-ready"

    name: ClassVar[str] = "thread"
    where: ClassVar[str] = "on threads of this process"
    use_for: ClassVar[str] = "environments that release the GIL; free-threaded Python"
    parallel: ClassVar[bool] = True
    in_actors: ClassVar[bool] = True
    awaitable: ClassVar[bool] = True

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.python.thread import ThreadEngine

        return ThreadEngine(
            source.env_fns,
            workers=self.count_workers(request.num_envs),
            observation_mode=request.observation_mode,
            on_error=request.on_error,
            ordered=self.order == "fixed",
            origin=source.origin,
        )
