"""Options of the process engine."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from vecenv._util.cpus import usable_cpus
from vecenv.engines import Engine, registry
from vecenv.engines.options import EngineOptions, Order
from vecenv.engines.request import Request, Source
from vecenv.errors import ConfigTypeError

_NEEDS = {
    "Unix sockets": (socket, "send_fds"),
    "poll": (select, "poll"),
    "process groups": (os, "killpg"),
    "signal masks": (signal, "pthread_sigmask"),
}
"""What workers are started, woken and ended with. Linux and macOS have all of it, Windows has none."""


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
        super().__post_init__()
        if self.unavailable() is None:
            from vecenv.engines.process.launch import check_context

            check_context(self.context)
        if not isinstance(self.caller_works, bool):
            raise ConfigTypeError(f"caller_works must be True or False, got {self.caller_works!r:.40}")

    @classmethod
    def unavailable(cls) -> str | None:
        missing = [name for name, (module, attribute) in _NEEDS.items() if not hasattr(module, attribute)]
        return f"it needs {', '.join(missing)}, which this platform ({sys.platform}) does not have" if missing else None

    def refuses(self, source: Source, request: Request) -> str | None:
        if (unfit := self.unavailable()) is not None:
            return f"the process engine cannot run here: {unfit}; use {registry.words(registry.python_engines())}"
        if self.caller_works and request.num_envs < 2:
            return "caller_works shares envs between the caller and workers, and there is only one env"
        return super().refuses(source, request)

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.process import launch

        if self.context in (None, "forkserver"):
            launch.start_fork_server()  # it imports its modules while this process imports the engine's
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
