"""Options of the process engine."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, ClassVar

from vecenv._util.cpus import usable_cpus
from vecenv.engines import Engine, registry
from vecenv.engines.options import EngineOptions, Order
from vecenv.engines.request import Request, Source
from vecenv.errors import ConfigTypeError


@dataclass(frozen=True)
class Process(EngineOptions):
    """Envs in worker processes, several per worker, with the batch in shared memory.

    Attributes:
        workers: number of processes; default: the processors this process may use, at most one per env.
        context: start method ("fork", "forkserver", "spawn") or a multiprocessing context; default: "forkserver" where
            there is one, else "spawn".
        start_timeout: seconds that building the envs may take.
        caller_works: the calling process holds a share of the envs too and steps them instead of waiting.
        order: "first-ready", or "fixed": `recv` returns envs in the order of their sends, those of one send by id.
    """

    workers: int | None = None
    context: Any = None
    start_timeout: float = 60.0
    caller_works: bool = False
    order: Order = "first-ready"

    name: ClassVar[str] = "process"
    where: ClassVar[str] = "in worker processes, several per worker, batch in shared memory"
    use_for: ClassVar[str] = "envs that take more than about 0.1 ms a step, or thousands of them"
    parallel: ClassVar[bool] = True
    isolated: ClassVar[bool] = True
    in_actors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        from vecenv.engines.process.launch import check_context

        super().__post_init__()
        check_context(self.context)
        if not isinstance(self.caller_works, bool):
            raise ConfigTypeError(f"caller_works must be True or False, got {self.caller_works!r:.40}")

    @classmethod
    def unavailable(cls) -> str | None:
        return None if hasattr(socket, "send_fds") else "it needs Unix sockets, which this platform does not have"

    def refuses(self, source: Source, request: Request) -> str | None:
        unfit = self.unavailable()
        if unfit is not None:
            others = registry.words(name for name in registry.python_engines() if name != self.name)
            return f"the process engine cannot run here: {unfit}; use {others}"
        if self.caller_works and request.num_envs < 2:
            return "caller_works shares envs between the caller and workers, and there is only one env"
        return super().refuses(source, request)

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.process.engine import ProcessEngine

        return ProcessEngine(
            source.env_fns,
            workers=self.count_workers(request.num_envs),
            context=self.context,
            observation_mode=request.observation_mode,
            on_error=request.on_error,
            ordered=self.order == "fixed",
            caller_works=self.caller_works,
            start_timeout=self.start_timeout,
            origin=source.origin,
        )

    def count_workers(self, num_envs: int) -> int:
        """How many processes to start; a caller that works takes the place of one."""
        most = super().count_workers(num_envs)
        return max(1, min(most, usable_cpus() - 1)) if self.caller_works and self.workers is None else most

    def _most_workers(self, num_envs: int) -> int:
        return num_envs - self.caller_works
