"""The calls of a vector env that are awaited: for programs that own an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Op, Rows
from vecenv._batch.seeding import one_seed
from vecenv._front.exchange import Exchange
from vecenv._front.results import SingleStep
from vecenv._front.step import Step
from vecenv._front.transport import Transport
from vecenv._util.checks import brief, patience, seconds
from vecenv.engines import SupportsGather, SupportsGatherAsync, registry
from vecenv.engines.decorator import Decorator
from vecenv.errors import (
    CallOrderError,
    ConfigTypeError,
    EnvError,
    PendingError,
    UnsupportedError,
    WorkerTimeout,
)

OneForm: TypeAlias = Callable[[Rows], dict[int, Any]]
"""What makes results of each of some rows by itself."""


class Awaiting(Transport):
    """`recv_async`, an async iterator, and `step_one` for programs with one coroutine per env."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ones: dict[int, tuple[asyncio.Future[Any], OneForm]] = {}
        """Rows that `step_one` and `reset_one` wait for, and the form that they want results in."""
        self._delivering: asyncio.Task[None] | None = None
        """Hands their results out."""
        self._receiving: asyncio.Task[Any] | None = None
        """The task in which a `recv_async` waits."""
        self._gathering: asyncio.Future[int] | None = None
        """The wait in another thread, which goes on if the call that began it is cancelled; None if a call took what
        came of it."""

    async def recv_async(
        self,
        min_envs: int | None = None,
        max_envs: int | None = None,
        *,
        until: float | None = None,
        timeout: float | None = None,
    ) -> Step:
        """As `recv`, awaited: meanwhile the event loop runs other coroutines, which may `send`.

        Engines other than "asyncio" and "thread" wait in another thread, where "sync" runs its envs, and meanwhile no
        other call is possible, also if this is cancelled; the next `recv_async` waits for that. Engines of kernels run
        them in the thread of the event loop.
        """
        envs: Any = self
        return await self._await_recv(envs.recv, min_envs, max_envs, until, timeout)

    async def _await_recv(
        self,
        receive: Callable[..., Step],
        min_envs: int | None,
        max_envs: int | None,
        until: float | None,
        timeout: float | None,
    ) -> Step:
        """Wait until `receive`, the `recv` of this vector env or of a wrapper around it, need not wait, and call it."""
        if not isinstance(self.engine, (SupportsGatherAsync, SupportsGather)):
            await asyncio.sleep(0)
            return receive(min_envs, max_envs, until=until, timeout=timeout)
        self._check_no_waits("recv_async")
        self._raise_missed()
        order = self._call_order
        order.check_open("recv_async")
        patient, started = self.timeout if timeout is None else patience(seconds("timeout", timeout)), time.monotonic()
        exact = max_envs is None and until is None
        if exact:
            default = min(self.batch_size, order.pending_count) or None
            least = most = order.check_can_receive(default if min_envs is None else min_envs)
        else:
            least, most = order.check_range(min_envs, max_envs)
        task = self._receiving = asyncio.current_task()
        try:
            longest = None if until is None else seconds("until", until)
            longest = longest if longest is None or patient is None else min(longest, patient)
            ready = 0 if longest is None else await self._ready(most, longest)
            if ready < least:
                left = None if patient is None else max(0.0, patient - (time.monotonic() - started))
                ready = await self._ready(least, None, left, patient)
        finally:
            if self._receiving is task:
                self._receiving = None
        if ready < least:
            raise WorkerTimeout(
                f"{least - ready} of {least} envs did not answer within {patient} s; await recv_async() to wait on",
                phase="step",
            )
        return receive(least if exact else min(ready, most), timeout=patient)

    async def __aiter__(self) -> AsyncIterator[Step]:
        """What `recv_async()` returns, as long as anything is pending."""
        while self._call_order.pending_count:
            yield await self.recv_async()

    async def step_one(self, env_id: int, action: Any) -> SingleStep:
        """Step one env and wait for it: what its own `step` returns, with autoreset as in `step`.

        Many coroutines may do this at once, each with an env of its own. Where an episode ended in "same-step" mode,
        `info` has "final_obs" and "final_info".

        If this is cancelled, the env finishes its step all the same. The result is discarded, and the env needs
        `reset_one`, which waits for that.

        Raises:
            EnvError: the env failed, and needs `reset_one`.
        """
        return await self._step_one(env_id, [action], self._results.ones)

    async def _step_one(self, env_id: int, actions: Any, form: OneForm) -> Any:
        row = self._one("step_one", env_id)
        self._run("step_one", self._send_step, actions, np.array([row]), "step_one")
        return await self._wait_for_one(row, form)

    async def reset_one(
        self, env_id: int, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode of one env and wait for it: what its own `reset` returns."""
        obs, _, _, _, info = await self._reset_one(env_id, seed, options, self._results.ones)
        return obs, info

    async def _reset_one(self, env_id: int, seed: int | None, options: dict[str, Any] | None, form: OneForm) -> Any:
        row = self._one("reset_one", env_id)
        if row in self._ones:  # a call that was cancelled: its env is not done yet
            with contextlib.suppress(EnvError):
                await self._wait_for_one(row, form)
            row = self._one("reset_one", env_id)
        if options is not None and not isinstance(options, dict):
            raise ConfigTypeError(f"options must be a dict or None, got {brief(options)}")
        self._run("reset_one", self._send_reset_one, row, one_seed(seed), options)
        return await self._wait_for_one(row, form)

    async def close_async(self, timeout: float = 5.0) -> None:
        """As `close`, awaited."""
        envs: Any = self
        if getattr(self.engine, "is_here", False):
            envs.close(timeout)
            await self.engine.closed()
        else:
            await asyncio.to_thread(envs.close, timeout)

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close_async()

    # --- for wrappers ------------------------------------------------------------------------------------------------

    async def _exchange_step_one(self, env_id: int, actions: Any) -> Exchange:
        """As `step_one`, before the results of a single env are made of it. `actions` has one."""
        return await self._step_one(env_id, actions, self._exchanges_of_one)

    async def _exchange_reset_one(self, env_id: int, seed: int | None, options: dict[str, Any] | None) -> Exchange:
        return await self._reset_one(env_id, seed, options, self._exchanges_of_one)

    def _exchanges_of_one(self, rows: Rows) -> dict[int, Exchange]:
        return {row: self._aged(np.array([row])) for row in rows.tolist()}

    # --- how ---------------------------------------------------------------------------------------------------------

    async def _ready(
        self, count: int, wait: float | None, left: float | None = None, timeout: float | None = None
    ) -> int:
        """How many rows are ready, when `count` are or `wait` seconds have passed.

        After the `left` seconds of `timeout`, the engine raises WorkerTimeout or builds the env that is late again, if
        it does so in `recv`.
        """
        held = self._decorated.held() if isinstance(self._decorated, Decorator) else 0
        missing, longest, started = max(0, count - held), wait if left is None else left, time.monotonic()
        if isinstance(self.engine, SupportsGatherAsync):
            return held + await self.engine.gather_async(missing, longest)
        others = self._gathering
        if others is not None and not others.done() and others.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([others], timeout=longest)  # of a call that was cancelled
            if not others.done():
                return held
        self._raise_missed()
        passed = time.monotonic() - started
        wait, left = (None if seconds is None else max(0.0, seconds - passed) for seconds in (wait, left))
        # Nothing is received in that thread, so nothing is lost if this is cancelled.
        work = asyncio.to_thread(self._run, "recv_async", self._gather, missing, wait, left, timeout)
        gathering = self._gathering = asyncio.ensure_future(work)
        gathering.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio complains of it
        await asyncio.wait([gathering])
        self._gathering = None
        return held + gathering.result()

    def _gather(self, count: int, wait: float | None, left: float | None, timeout: float | None) -> int:
        try:
            return self.engine.gather(count, threading.TIMEOUT_MAX if wait is None else wait, left)
        except BaseException as error:
            self._note_failure(error, left, timeout)
            raise

    def _raise_missed(self) -> None:
        """Raise what a wait has raised after its call was cancelled, unless that was only that its time is up."""
        others = self._gathering
        if others is None or not others.done():
            return
        self._gathering = None
        error = None if others.cancelled() else others.exception()
        if isinstance(error, EnvError) and not isinstance(error, WorkerTimeout):
            raise error

    def _receive_some(self, *arguments: Any, **named: Any) -> Any:
        self._check_no_waits("recv")
        self._raise_missed()
        return super()._receive_some(*arguments, **named)

    def _send_step(self, actions: Any, rows: Rows | None, call: str) -> None:
        if call == "send":
            self._check_not_awaited(call)
        super()._send_step(actions, rows, call)

    def _send_some_resets(self, env_ids: Any, seed: Any, options: Any) -> None:
        self._check_not_awaited("send_reset")
        super()._send_some_resets(env_ids, seed, options)

    def _send_reset(self, seed: Any, options: Any) -> None:
        self._check_no_waits("reset")
        super()._send_reset(seed, options)

    def _dispatch_reset(self, rows: Rows, seeds: np.ndarray, options: Sequence[Any] | None) -> None:
        self._gathering = None  # an error that was missed is of no interest any more
        super()._dispatch_reset(rows, seeds, options)

    def _check_not_awaited(self, call: str) -> None:
        """Raise PendingError while coroutines wait in `step_one`: this call would take the results they wait for.

        Those whose event loop was stopped do not count: their rows are pending as after `send`. They get an error if
        the loop goes on.
        """
        running = {row: future for row, (future, _) in list(self._ones.items()) if future.get_loop().is_running()}
        waiting = sorted(row for row, future in running.items() if not future.done())
        if waiting:
            raise PendingError(f"{call}() while step_one() waits for envs {waiting[:8]}; await that first", "step_one")
        if running:
            raise PendingError(
                f"{call}() while envs {sorted(running)[:8]} end a step whose step_one() was cancelled; await "
                "reset_one() of each first",
                "step_one",
            )
        for row, (future, _) in self._ones.items():
            if not future.done() and not future.get_loop().is_closed():
                future.set_exception(
                    PendingError(f"env {row} was left to {call}() while this event loop was stopped", "step_one")
                )
        self._ones.clear()
        self._delivering = None

    def _check_no_waits(self, call: str) -> None:
        """Also raise CallOrderError while one waits in `recv_async`; it is cancelled if its event loop was stopped."""
        self._check_not_awaited(call)
        if self._is_receiving:
            raise CallOrderError(f"{call}() while another coroutine waits in recv_async()")
        if self._receiving is not None and not self._receiving.get_loop().is_closed():
            self._receiving.cancel(f"{call}() was called while this event loop was stopped")
        self._receiving = None

    def _one(self, call: str, env_id: Any) -> int:
        if not isinstance(self.engine, SupportsGatherAsync):
            able = registry.words(registry.declaring("awaitable"))
            raise UnsupportedError(f"{call}() needs {able}; this is the {self.engine.name} engine")
        if len(self._ones) != self._call_order.pending_count or self._is_receiving:
            raise PendingError(f"{call}() while results of send() are pending; recv_async() them first", "send")
        (row,) = self._call_order.parse_rows([env_id]).tolist()
        if row in self._ones and not (call == "reset_one" and self._ones[row][0].cancelled()):
            raise PendingError(f"{call}({row}) while env {row} is still running; wait until its call has ended", call)
        loop = self._delivering_loop()
        if loop is not None and loop is not asyncio.get_running_loop():
            raise CallOrderError(
                f"{call}() while coroutines of another event loop wait for envs {sorted(self._ones)[:8]}; use one "
                "vector env per event loop"
            )
        return row

    @property
    def _is_receiving(self) -> bool:
        """Whether a `recv_async` waits; not in an event loop that was stopped."""
        return self._receiving is not None and self._receiving.get_loop().is_running()

    def _delivering_loop(self) -> asyncio.AbstractEventLoop | None:
        """The running event loop in which a task hands results out; None if there is none."""
        if self._delivering is None or self._delivering.done():
            return None
        loop = self._delivering.get_loop()
        return loop if loop.is_running() else None

    def _send_reset_one(self, row: int, seed: int | None, options: dict[str, Any] | None) -> None:
        rows = np.array([row])
        if row in self.engine.pending():
            raise PendingError(f"env {row} is still running; wait for it first", "step_one")
        given = int(self._batch.given_seed[row])
        try:
            if seed is not None:
                self._batch.seed[row] = self._batch.given_seed[row] = seed
            if options is not None:
                self._batch.options[row] = options
            self._dispatch(rows, int(Op.RESET), "reset_one")
        except BaseException:
            self._batch.given_seed[self._forget(rows)] = given
            raise

    async def _wait_for_one(self, row: int, form: OneForm) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._ones[row] = future, form
        if self._delivering_loop() is None:
            self._delivering = loop.create_task(self._deliver())
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled():  # its result had just come
                self._call_order.failed(np.array([row]))
            raise

    async def _deliver(self) -> None:
        """Receive rows as they become ready, and hand each to the coroutine that waits for it."""
        while self._ones:
            try:
                ready = await self._ready(1, None)
                if self._delivering is not asyncio.current_task():  # this loop was stopped meanwhile: another does it
                    return
                results = self._run("step_one", self._receive_results, ready, 0.0, self._as_wanted)
            except EnvError as error:
                for row in error.rows:
                    self._answer(row, error)
            except BaseException as error:
                for row in list(self._ones):
                    self._answer(row, error)
                if not isinstance(error, Exception):
                    raise
            else:
                for row, result in results.items():
                    self._answer(row, result)

    def _as_wanted(self, rows: Rows) -> dict[int, Any]:
        """The results of each row in the form that the coroutine that waits for it wants."""
        by_form: dict[OneForm, list[int]] = {}
        for row in rows.tolist():
            by_form.setdefault(self._ones[row][1], []).append(row)
        return {row: result for form, some in by_form.items() for row, result in form(np.array(some)).items()}

    def _answer(self, row: int, result: Any) -> None:
        future, _ = self._ones.pop(row)
        if future.done() or future.get_loop().is_closed():  # the coroutine that waited was cancelled, with its result
            self._call_order.failed(np.array([row]))
        elif isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)
