"""The asyncio engine: every row is a coroutine, and thousands of them can wait at once."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextvars
import functools
import inspect
import math
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.batch import Batch, Mail, Op, Rows
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import Fault, OnError
from vecenv._util.text import text_of
from vecenv.engines.aio.building import Raised, build_env, build_envs
from vecenv.engines.aio.faults import Classify
from vecenv.engines.aio.homes import Home, ThreadHome
from vecenv.engines.aio.limits import Limits, Pace
from vecenv.engines.aio.loop import EnvLoop, LoopChoice
from vecenv.engines.aio.rows import AwaitedRows
from vecenv.engines.facts import EnvFacts, check_observation_mode, merge_facts
from vecenv.engines.python.envs import Factory, close_quietly
from vecenv.engines.python.local import hand_over, results_or_raise, warn_of
from vecenv.engines.python.queued import QueuedEngine
from vecenv.errors import ClosedError, Phase, SpaceError, WorkerDied, WorkerTimeout

_BUILT_AT_ONCE = 64
"""Envs that are built at once if `concurrency` does not say."""


class AsyncioEngine(QueuedEngine):
    """Envs whose calls are awaited in an event loop, and ordinary envs on threads of their own.

    Args:
        concurrency: how many envs may run at once, and be built at once; None: all run, 64 are built.
        rate: how many calls of envs may start per second; None for no limit.
        step_timeout, reset_timeout: seconds that a call of an env may take, counted from its start; None for ever.
        start_timeout: seconds that building all envs may take, and later building one again.
        loop: "own" or "running", see `EnvLoop`.
        classify: the user's classes of faults.
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
        origin: index of the first row among all envs, if these are a part of a larger batch.
    """

    name = "asyncio"

    def __init__(
        self,
        factories: Sequence[Factory],
        *,
        observation_mode: Any = "same",
        on_error: OnError = "raise",
        concurrency: int | None = None,
        rate: float | None = None,
        step_timeout: float | None = None,
        reset_timeout: float | None = None,
        start_timeout: float = 60.0,
        loop: LoopChoice = "own",
        classify: Classify | None = None,
        ordered: bool = False,
        origin: int = 0,
    ) -> None:
        check_observation_mode(observation_mode)
        super().__init__(len(factories), ordered)
        self._factories = list(factories)
        self._start_timeout = start_timeout
        self._stopping = self._closed = False
        """No row is started any more; everything is closed, or was left running."""
        self._to_run = np.zeros(len(factories), np.int64)
        """Number of the `send` that each row has still to run, 0 once it began to. Tasks of another number are void."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._forget_task = self._tasks.discard
        self._context = contextvars.Context()
        """Of that callback: one for all tasks, as in `Deadlines`."""
        self._closing: asyncio.Task[None] | None = None
        self._complaints: list[str] = []
        """Of that task."""
        self._rows: AwaitedRows | None = None
        self._loop = EnvLoop(loop)
        self._pace = Pace(self._loop.loop, rate)
        self._limits = Limits(self._loop.loop, concurrency, self._pace)
        self._built_at_once = concurrency or _BUILT_AT_ONCE
        self._building = Limits(self._loop.loop, self._built_at_once, self._pace)
        """Apart from those of calls: a row whose env is being built again may wait for it, and is running."""
        try:
            envs, homes = self._build_all(start_timeout)
            self._rows = AwaitedRows(
                self._allocate(envs, homes, observation_mode),
                self._factories,
                envs,
                homes,
                self._loop.loop,
                building=self._building,
                origin=origin,
                on_error=on_error,
                classify=classify,
                seconds={"step": step_timeout, "reset": reset_timeout, "make": start_timeout},
            )
        except BaseException:
            self._loop.stop(1.0)
            raise
        _open.add(self)

    # --- the seam ----------------------------------------------------------------------------------------------------

    def send(self, rows: Rows) -> None:
        # Not is_alive: Ctrl-C inside of Thread.is_alive() makes Python 3.11 take a thread that runs for one that ended.
        if self._loop.loop.is_closed():
            self._check_running()
        rows = np.sort(rows)
        listed, number = rows.tolist(), self._pending.sequence + 1
        self._to_run[rows] = number
        try:
            self._pending.open(rows)
            self._share_out(listed, number)
        except BaseException:
            if self._pending.sequence == number:  # interrupted half way; rows that come twice are run once
                self._share_out(listed, number)
            raise

    def _share_out(self, listed: list[int], number: int) -> None:
        hand_over(self.batch, self._awaited.batch, listed, 0)
        self._loop.soon(self._accept, listed, number)

    def wake(self) -> None:
        self._stopping = True
        super().wake()

    def close(self, timeout: float = 5.0) -> None:
        if self._closed:
            return
        self._stopping = True
        deadline = time.monotonic() + timeout
        if self._loop.is_here or self._loop.is_stopped:  # waiting is no use: the loop closes the envs when it runs on
            self._closing = self._keep(self._close_all(timeout, self._complaints))
            self._closed = True
            if self._loop.is_stopped:
                text = "the event loop that the envs run in is stopped, and closes them when it runs on"
                warn_of([f"{text}; use `async with` or `await envs.close_async()` in that loop"])
            return
        complaints: list[str] = []
        if not self._loop.is_alive:
            self._leave_all()
            complaints.append(
                "the event loop that the envs ran in ended before close(), so those with async methods were not "
                "closed; use `async with` or `await envs.close_async()` in that loop"
            )
        else:
            closing = self._loop.submit(self._close_all(timeout, complaints))
            try:
                closing.result(timeout)
            except (concurrent.futures.TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError):
                complaints.append(
                    f"the event loop did not close the envs within {timeout} s: env code blocks it, and was left "
                    f"running\n{self._loop.stack()}"
                )
        self._loop.stop(max(0.1, deadline - time.monotonic()))
        self._closed = True
        warn_of(complaints)

    # --- abilities ---------------------------------------------------------------------------------------------------

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The envs. Only the event loop, or the thread of each, may call them."""
        return self._awaited.envs

    def call(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        def one(env: gymnasium.Env[Any, Any], row: int) -> Any:
            if not isinstance(name, str):
                return name(env, row, *args, **kwargs)
            attribute = env.get_wrapper_attr(name)
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        return self._ask(lambda row: self._awaited.call(row, one, row), timeout)

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        def one(env: gymnasium.Env[Any, Any], value: Any) -> None:
            env.set_wrapper_attr(name, value)

        self._ask(lambda row: self._awaited.call(row, one, values[row]), timeout)

    def clocks(self) -> list[tuple[slice, Clocks]]:
        return [(slice(0, len(self._factories)), self._awaited.clocks)]

    def summary(self) -> str:
        """How many envs are coroutines and how many have a thread."""
        threads = sum(not home.in_loop for home in self._awaited.homes)
        return f"{len(self.envs) - threads} envs in the event loop, {threads} on threads of their own"

    @property
    def is_here(self) -> bool:
        """Whether the envs run in the event loop of this very thread."""
        return self._loop.is_here

    async def closed(self) -> None:
        """Wait until the envs are closed, after a `close` in their own event loop."""
        if self._closing is not None:
            await self._closing
            complaints, self._complaints = self._complaints, []
            warn_of(complaints)

    # --- starting ----------------------------------------------------------------------------------------------------

    def _build_all(self, seconds: float) -> tuple[list[gymnasium.Env[Any, Any]], list[Home]]:
        """Build all envs, many at once. If one fails, those already built are closed and its EnvError is raised."""
        deadline = time.monotonic() + seconds
        found: dict[int, Any] = {}
        try:
            found = build_envs(self._loop.loop, self._factories, self._built_at_once, self._pace.rate, seconds)
            self._raise_failed(found)
            awaited = [row for row, what in found.items() if inspect.isawaitable(what)]
            if awaited:
                self._await_built(found, awaited, deadline - time.monotonic())
            self._raise_failed(found)
            missing = [row for row in range(len(self._factories)) if row not in found]
            if missing:
                raise self._late_start(missing[0], seconds)
            return self._checked(found)
        except BaseException:
            self._leave_built(found)
            raise

    def _await_built(self, found: dict[int, Any], rows: list[int], seconds: float) -> None:
        """Await what factories returned that are `async def`; rows are removed that do not come in time."""
        works = [found.pop(row) for row in rows]
        if self._loop.is_here:
            for work in works:
                work.close()
            raise SpaceError(
                f"env_fns[{rows[0]}] is an async def and cannot be awaited: make() is called in the event loop itself; "
                "make the envs with loop='own'"
            )

        async def build(place: int) -> None:
            async def awaited() -> Any:
                return await works[place]

            factory: Any = awaited
            try:
                found[rows[place]] = await build_env(self._loop.loop, factory, rows[place])
            except Raised as raised:
                found[rows[place]] = raised.error
                raise

        building = self._loop.submit(self._gather(build, self._building, len(rows), set()))
        try:
            building.result(max(0.0, seconds))
        except (concurrent.futures.TimeoutError, Raised):
            pass
        finally:  # what is not built by now is not needed any more; then nothing is written into `found`
            concurrent.futures.wait([self._loop.submit(self._cancel_tasks())], 2.0)

    async def _cancel_tasks(self) -> None:
        """Cancel what is built now, and wait a second for it."""
        tasks = self._tasks.copy()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    def _raise_failed(self, found: dict[int, Any]) -> None:
        """Raise why the first env that failed could not be built."""
        for row, built in sorted(found.items()):
            if isinstance(built, SpaceError):
                raise built
            if isinstance(built, BaseException):
                raise Fault.of(built, "make").to_error(row)

    def _checked(self, found: dict[int, Any]) -> tuple[list[gymnasium.Env[Any, Any]], list[Home]]:
        """The envs and their homes. Raises SpaceError if two rows have the same env."""
        known: dict[int, int] = {}
        for row in range(len(self._factories)):
            twin = known.setdefault(id(found[row][0]), row)
            if twin != row:
                raise SpaceError(f"env_fns[{twin}] and [{row}] returned the same object; build a new env in each call")
        return [found[row][0] for row in range(len(found))], [found[row][1] for row in range(len(found))]

    def _allocate(self, envs: list[gymnasium.Env[Any, Any]], homes: list[Home], observation_mode: Any) -> Batch:
        """Reserve the batch; the same columns with other mailboxes, for the event loop."""
        try:
            self.facts = merge_facts([EnvFacts.of(env) for env in envs], observation_mode)
            self.batch = Batch.allocate(self.facts.observation_layout, self.facts.action_layout, len(envs))
        except BaseException:
            self._leave_built(dict(enumerate(zip(envs, homes, strict=True))))
            raise
        return self.batch.rows(0, len(envs))

    def _leave_built(self, found: dict[int, Any]) -> None:
        """Close envs that are not needed any more, as far as that takes less than a second."""
        homes = [entry for entry in found.values() if isinstance(entry, tuple)]
        for entry in found.values():
            if inspect.iscoroutine(entry):
                entry.close()

        async def leave() -> None:
            works = {home.start(env.close) for env, home in homes}
            if self._loop.is_own:  # and what `build_env` closes because it was cancelled
                works |= asyncio.all_tasks() - {asyncio.current_task()}
            if works:
                await asyncio.wait(works, timeout=1.0)
            for _, home in homes:
                home.leave()

        if self._loop.is_here:  # it cannot be waited for here: they are closed when the loop runs on
            self._keep(leave())
        else:
            concurrent.futures.wait([self._loop.submit(leave())], 2.0)

    def _late_start(self, row: int, seconds: float) -> WorkerTimeout:
        return WorkerTimeout(
            f"env {row} was not built within {seconds:g} s; start_timeout= gives them longer, concurrency= lets more "
            "be built at once",
            row=row,
            phase="make",
        )

    # --- in the event loop -------------------------------------------------------------------------------------------

    @property
    def _awaited(self) -> AwaitedRows:
        assert self._rows is not None
        return self._rows

    def _accept(self, listed: list[int], number: int) -> None:
        for row in listed:
            if self._to_run[row] == number and not self._stopping:
                self._to_run[row] = 0
                self._limits.add(lambda row=row: self._keep(self._run(row)))

    async def _run(self, row: int) -> None:
        mail: Mail | None = None
        try:
            mail = await self._awaited.run(row)
        except asyncio.CancelledError:  # by `close`
            raise
        except BaseException as error:  # no known error gets here; a row that is lost would be waited for without end
            mail = Mail(fault=Fault.of(error, "step"))
        finally:
            self._limits.release()
        self._finish([row], {} if mail is None else {row: mail})

    def _keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task, which the event loop itself would forget."""
        task = self._loop.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task, context=self._context)
        return task

    async def _gather(
        self, work: Callable[[int], Coroutine[Any, Any, Any]], limits: Limits, count: int, answered: set[int]
    ) -> list[Any]:
        """Results of `work(row)` of all rows, within limits. Rows that have one are put into `answered`."""

        async def run(row: int) -> Any:
            async with limits.turn():
                result = await work(row)
            answered.add(row)
            return result

        return await asyncio.gather(*(self._keep(run(row)) for row in range(count)))

    async def _close_all(self, timeout: float, complaints: list[str]) -> None:
        """Cancel what runs and close all envs, for at most 0.8 of these seconds: the rest is for ending the loop."""
        rows, seconds = self._awaited, 0.8 * timeout
        end = time.monotonic() + seconds
        self._limits.clear()
        self._building.clear()
        mine = asyncio.current_task()
        given_up = {home.work for home in rows.homes if isinstance(home.work, asyncio.Task) and home.work.cancelling()}
        running = {*self._tasks, *rows.rebuilding.values()} - {mine}
        for task in running:
            task.cancel()
        for home in rows.homes:
            if home.is_busy and home.work is not None and home.work not in given_up:
                home.work.cancel()
        running |= {work for work in given_up if not work.done()}
        if running:
            await asyncio.wait(running, timeout=0.75 * seconds)
        lock = threading.Lock()
        works: dict[Any, int] = {}
        for row, home in enumerate(rows.homes):
            if row in rows.retired:
                continue
            if home.in_loop and home.is_busy:  # it was cancelled and goes on: nothing else may be called meanwhile
                complaints.append(f"env {row} did not end its call within {0.75 * seconds:.2g} s and was left running")
                continue
            closing = rows.envs[row].close if home.in_loop else _in_turn(rows.envs[row].close, lock, seconds / 2)
            works[home.start(closing)] = row
        done, late = await asyncio.wait(works, timeout=max(0.0, end - time.monotonic())) if works else (set(), set())
        for work in done:
            _, error = (None, None) if work.cancelled() else work.result()
            if error is not None:
                complaints.append(f"env {works[work]} raised in close(): {text_of(error, repr):.1000}")
        for work in late:
            work.cancel()
            complaints.append(f"env {works[work]} did not end within {timeout:g} s and was left running")
        complaints.sort()
        for home in rows.homes:
            home.leave()

    # --- how ---------------------------------------------------------------------------------------------------------

    def _leave_all(self) -> None:
        """The event loop has ended, or does not run any more: close what runs on threads, without waiting for it."""
        for env, home in zip(self._awaited.envs, self._awaited.homes, strict=True):
            if isinstance(home, ThreadHome):
                home.start_outside(functools.partial(close_quietly, env))
            home.leave()

    def _ask(self, ask: Callable[[int], Coroutine[Any, Any, Any]], timeout: float | None) -> list[Any]:
        """Ask all envs, within the limits; see `results_or_raise`."""
        self._loop.check_may_wait("this call")
        count, answered = len(self._factories), set[int]()
        asked = self._loop.submit(self._gather(ask, self._limits, count, answered))
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        try:
            while True:
                concurrent.futures.wait([asked], min(1.0, max(0.0, deadline - time.monotonic())))
                if asked.done():
                    return results_or_raise(dict(enumerate(asked.result())), self._home)
                if self._stopping:
                    raise ClosedError("close() was called meanwhile")
                self._check_running()
                if time.monotonic() >= deadline:
                    late = next((row for row in range(count) if row not in answered), 0)
                    raise self._late_error(late, "call", timeout)
        except BaseException:
            asked.cancel()
            raise

    def check_may_wait(self, call: str) -> None:
        """Raise CallOrderError if this thread would wait for envs that run in it."""
        self._loop.check_may_wait(call)

    def _check_may_wait(self) -> None:
        self.check_may_wait("recv()")

    def _check_running(self) -> None:
        if not self._loop.is_alive:
            rows = self._pending.rows().tolist() or [0]
            raise WorkerDied(
                "the event loop that the envs run in has ended; close the vector env and make it anew",
                row=rows[0],
                rows=tuple(rows),
                phase="step",
            )

    def _home(self, row: int) -> tuple[None, None]:
        return None, None

    def _late(self, timeout: float | None) -> WorkerTimeout:
        pending = self._pending
        row = next(row for row in pending.oldest(pending.count).tolist() if not pending.finished[row])
        return self._late_error(row, "reset" if self.batch.op[row] == Op.RESET else "step", timeout)

    def _late_error(self, row: int, phase: Phase, timeout: float | None) -> WorkerTimeout:
        stack = self._loop.stack()
        error = WorkerTimeout(
            f"env {row} did not answer within {timeout} s in {phase}; call recv() to wait on; step_timeout= and "
            f"reset_timeout= give each env a deadline of its own. The event loop is at:\n{stack}",
            row=row,
            phase=phase,
        )
        error.stack, error.elapsed = stack, timeout
        return error


def _in_turn(close: Callable[[], Any], lock: threading.Lock, seconds: float) -> Callable[[], Any]:
    """Close one env after another: libraries that draw and play sound crash if two shut them down."""

    def turn() -> Any:
        alone = lock.acquire(timeout=seconds)
        try:
            return close()
        finally:
            if alone:
                lock.release()

    return turn


_open: weakref.WeakSet[AsyncioEngine] = weakref.WeakSet()


@atexit.register
def _close_open() -> None:
    """Close what the program left open, while its threads can still run."""
    for engine in list(_open):
        if engine._loop.is_stopped:
            engine._leave_all()
        else:
            engine.close(1.0)
