"""What runs in a Ray actor whose rows answer one by one: slow envs in the asyncio engine."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from vecenv._batch.batch import Op
from vecenv._batch.faults import Fault
from vecenv.engines import Engine
from vecenv.engines.ray.actor import ActorRequest, Answer, LastSeen, RestartedEngine, RowActor, as_fault
from vecenv.errors import EnvError


class ConcurrentRowActor(RowActor):
    """As RowActor, with requests of one row each. Ray runs `run` as a coroutine for each of them, in one event loop."""

    def __init__(self, build: bytes, path: list[str], first: int, last_seen: LastSeen | None = None) -> None:
        super().__init__(build, path, first, last_seen)
        self._runs: dict[int, tuple[int, asyncio.Task[Answer]]] = {}
        """The latest request of each row, by number, and its answer."""
        self._waiting: dict[int, asyncio.Future[Fault | None]] = {}
        """Rows that were sent; the future has why the row failed."""
        self._receiver: asyncio.Task[None] | None = None

    def _restarted(self, engine: Engine, last_seen: LastSeen) -> RestartedEngine:
        return ConcurrentRestartedEngine(engine, last_seen, self._first)

    async def run(self, request: ActorRequest) -> Answer:  # type: ignore[override]  # for Ray both are methods
        """Run the op of a row. The same request sent twice is run once."""
        assert request.rows is not None
        (row,) = request.rows.tolist()
        number, task = self._runs.get(row, (None, None))
        if task is None or number != request.number:
            task = asyncio.ensure_future(self._run_row(row, request))
            self._runs[row] = request.number, task
        return await asyncio.shield(task)

    async def _run_row(self, row: int, request: ActorRequest) -> Answer:
        started = time.perf_counter()
        self._waiting[row] = asyncio.get_running_loop().create_future()
        try:
            rows = self._send(request)
        except BaseException:
            del self._waiting[row]
            raise
        if self._receiver is None or self._receiver.done():  # only now: it ends when nothing is pending
            self._receiver = asyncio.ensure_future(self._receive_all())
        fault = await self._waiting[row]
        del self._waiting[row]
        return self._answer(request, rows, {} if fault is None else {row: fault}, time.perf_counter() - started, 0.0)

    async def _receive_all(self) -> None:
        """Receive rows as they are finished, and wake the calls that wait for them."""
        while len(self._engine.pending()):
            ready = await self._engine.gather_async(1, 1.0)
            if not ready:
                continue
            try:
                for row in self._engine.recv(ready, 0.0).tolist():
                    self._waiting[row].set_result(None)
            except EnvError as error:
                for row in error.rows:
                    self._waiting[row].set_result(as_fault(error, self._first))
            except BaseException as error:  # no known error gets here; but a call that waits would wait for ever
                for waiting in self._waiting.values():
                    waiting.set_result(Fault.of(error, "step"))
            await asyncio.sleep(0)


class ConcurrentRestartedEngine(RestartedEngine):
    """RestartedEngine whose rows are received one by one."""

    async def gather_async(self, count: int, seconds: float | None = None) -> int:
        """As of engines; rows that only report their lost episode are ready at once."""
        return self._reported() or await self.engine.gather_async(count, seconds)

    def recv(self, count: int, timeout: float | None = None) -> np.ndarray:
        """As of engines, without waiting."""
        idle = [row for row in self._reporting if self.batch.op[row] == Op.IDLE]
        try:
            rows = np.array(idle) if idle else self.engine.recv(count, timeout)
        except EnvError as error:
            self._pending.give_back(np.intersect1d(error.rows, self._pending.rows()))
            raise
        for row in self._reporting.keys() & set(rows.tolist()):
            self._report(row, *self._reporting.pop(row))
        self._pending.give_back(rows)
        return rows

    def _reported(self) -> int:
        return sum(self.batch.op[row] == Op.IDLE for row in self._reporting)
