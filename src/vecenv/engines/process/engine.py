"""The process engine: the row loop in worker processes, over slices of one shared block.

Which worker was asked for which rows is in `ledger.py`, how the parent waits in `waiter.py`, what workers send besides
columns in `messages.py`, how workers are started and replaced in `pool.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing.util import Finalize
from types import SimpleNamespace
from typing import Any

import numpy as np

from vecenv._batch.batch import Rows
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import OnError
from vecenv._batch.memory import SharedMemory
from vecenv.engines.facts import EnvFacts, check_observation_mode, merge_facts
from vecenv.engines.process.backend import OSProcesses, ProcessBackend
from vecenv.engines.process.handle import Worker
from vecenv.engines.process.ledger import Ledger, Part
from vecenv.engines.process.messages import MessageReader
from vecenv.engines.process.pool import WorkerPool
from vecenv.engines.process.sendable import pickled
from vecenv.engines.process.shared import SharedBlock
from vecenv.engines.process.waiter import Waiter
from vecenv.engines.python.envs import Factory, build_envs
from vecenv.engines.python.local import hand_over, results_or_raise, split, warn_of
from vecenv.engines.python.runner import RowRunner
from vecenv.errors import EnvError, NotResetError


class ProcessEngine:
    """K envs per worker process; columns in shared memory; infos, calls and unsized observations by message.

    No env is created in this process, unless `caller_works`. A worker that died is started again by the next RESET of
    its rows, or at once with `on_error="restart"`.

    Args:
        workers: number of processes.
        context: a start method or a multiprocessing context; None is "forkserver" where available, else "spawn".
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
        caller_works: the calling process holds a share of the envs too, and steps them instead of waiting.
        start_timeout: seconds that building the envs may take.
        origin: index of the first row among all envs, if these are a part of a larger batch.
        backend: how workers are started, waited for and ended, in place of processes of `context`.
    """

    name = "process"
    checks_actions = False

    def __init__(
        self,
        factories: Sequence[Factory],
        *,
        workers: int,
        context: Any = None,
        observation_mode: Any = "same",
        on_error: OnError = "raise",
        ordered: bool = False,
        caller_works: bool = False,
        start_timeout: float = 60.0,
        origin: int = 0,
        backend: ProcessBackend | None = None,
    ) -> None:
        check_observation_mode(observation_mode)
        self._factories = list(factories)
        self._backend = backend or OSProcesses(context)
        self._on_error: OnError = on_error
        self.loses_options = on_error == "restart"
        """Whether a row may begin an episode without its reset options: those that a worker had are lost with it."""
        self._start_timeout = start_timeout
        self._origin = origin
        self._bounds = split(len(factories), workers + caller_works)
        self._worker_count = workers
        self._unfinished: tuple[list[Part], dict[int, bytes]] | None = None
        """Parts and messages of a `send` that was interrupted before all workers had them."""
        self._gathered = False
        """The `recv` that comes next takes what `gather` has waited for."""
        self._blocks: list[SharedMemory] = []
        self._caller: RowRunner | None = None
        self._pool = WorkerPool(
            self._backend,
            self._factories,
            self._bounds,
            on_error=on_error,
            origin=origin,
            start_timeout=start_timeout,
        )
        self._workers = self._pool.workers
        close = self._backend, self._workers, self._blocks, 1.0
        self._close = Finalize(self, _close_all, args=close, exitpriority=100)
        try:
            self._start(observation_mode, ordered, caller_works)
        except BaseException:
            self.close(0.5)
            raise

    # --- the seam ----------------------------------------------------------------------------------------------------

    def send(self, rows: Rows) -> None:
        self._messages.call_requests = []  # a call that failed is not repeated by workers that are started now
        if self._pool.needs_recovery:
            self._share_out_rest()
            self._pool.restart_for(rows)
        parts = self._ledger.parts(rows)
        extras = self._extras(parts)
        self._ledger.open(rows)
        try:
            self._share_out(parts, extras)
        except BaseException:  # interrupted half way: the rest is sent all the same
            self._unfinished, self._pool.needs_recovery = (parts, extras), True
            self._share_out_rest()
            raise

    def _share_out(self, parts: list[Part], extras: dict[int, bytes]) -> None:
        """Ask each worker for its rows."""
        ask, workers = self._ledger.ask, self._workers
        for part, mine, count in parts:
            if part in extras:
                workers[part].post(extras[part])
            ask(part, mine, count)
            workers[part].ring()

    def _share_out_rest(self) -> None:
        """Ask those workers for their rows that were not asked before an interrupt."""
        if self._unfinished is not None:
            parts, extras = self._unfinished
            for part, _, _ in parts:  # a worker that was asked may not have been woken
                self._workers[part].ring()
            self._share_out([asked for asked in parts if not self._ledger.was_asked(*asked[:2])], extras)
            self._unfinished = None
            self._pool.refresh()

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        if self._caller is not None:
            self._run_caller(self._caller)
        if self._pool.needs_recovery:
            self._share_out_rest()
            self._pool.finish_recovery()
        ledger = self._ledger
        eager = True if self._gathered else ledger.one_by_one(count)
        self._gathered = False
        self._waiter.until(ledger.enough_finished(count), timeout, eager=eager)
        rows = ledger.choose(count)
        # Only now: a row that is finished has sent its mail. Rows that finish from here on are not among `rows`.
        lost = self._messages.read(self._workers)
        if lost is not None:
            self._backend.is_gone(lost, set())  # kills it if it is alive
            self._pool.handle_death(lost)
            return self.recv(count, timeout)
        if self.batch.mail:
            ledger.raise_fault(self.batch, rows, self._pool.home)
        if self._on_error == "restart":
            self._pool.delivered(rows)
        ledger.give_back(rows)
        return rows

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Send all rows and receive them. Observations have no ring of buffers: `rotate` changes nothing."""
        batch, everyone = self.batch, self._ledger.everyone
        batch.set_ops(alive, over)
        self.send(everyone)
        self.recv(len(everyone))
        return batch.count_ended()

    @property
    def rewards_are_finite(self) -> bool:
        return self.batch.rewards_are_finite()

    def pending(self) -> Rows:
        return self._ledger.rows()

    def gather(self, count: int, seconds: float, timeout: float | None = None) -> int:
        if self._caller is not None:
            self._run_caller(self._caller)
        if self._pool.needs_recovery:
            self._share_out_rest()
            self._pool.finish_recovery()
        ledger = self._ledger
        enough = ledger.enough_finished(min(count, ledger.count))
        self._gathered = True
        self._waiter.gather(enough, seconds, timeout)
        return ledger.count if ledger.all_finished() else ledger.count_ready()

    def gone(self) -> Rows:
        return self._pool.gone()

    def wake(self) -> None:
        self._pool.closing = True

    def close(self, timeout: float = 5.0) -> None:
        self._pool.closing = True
        if self._close.still_active():
            complaints = _close_all(self._backend, self._workers, self._blocks, timeout)
            if self._caller is not None:
                complaints += self._caller.close()
            self._close.cancel()  # only now: after an interrupt there is something left to close
            warn_of(complaints)

    # --- abilities ---------------------------------------------------------------------------------------------------

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        self.begin_call(name, args, kwargs)
        return self.finish_call(timeout)

    def begin_call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Start a call of every env."""
        self._ask([pickled(("call", self._ledger.sequence + 1, name, args, kwargs))] * self._worker_count)
        if self._caller is not None:
            self._add_own(self._caller.call(range(len(self._caller.envs)), name, args, kwargs))

    def finish_call(self, timeout: float | None = None) -> list[Any]:
        """Wait for the results of `begin_call`."""
        return results_or_raise(self._answers(timeout), self._pool.home)

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        payloads = [
            pickled(("set", self._ledger.sequence + 1, name, dict(enumerate(values[start:stop]))))
            for start, stop in self._bounds[: self._worker_count]
        ]
        self._ask(payloads)
        if self._caller is not None:
            self._add_own(self._caller.set_attr(name, dict(enumerate(values[self._caller.first :]))))
        results_or_raise(self._answers(timeout), self._pool.home)

    def kill(self, row: int) -> None:
        self._pool.kill(row)

    def clocks(self) -> list[tuple[slice, Clocks]]:
        return [(slice(*bounds), clocks) for bounds, clocks in zip(self._bounds, self._block.clocks, strict=True)]

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        return [worker.process for worker in self._workers]

    # --- starting ----------------------------------------------------------------------------------------------------

    def _start(self, observation_mode: Any, ordered: bool, caller_works: bool) -> None:
        deadline = self._pool.deadline()
        facts = self._pool.start(self._worker_count, deadline)
        first = self._bounds[-1][0]
        mine = build_envs(self._factories[first:], first) if caller_works else []
        facts += [EnvFacts.of(env) for env in mine]
        self.facts = merge_facts(facts, observation_mode)
        layouts = self.facts.observation_layout, self.facts.action_layout
        memory = self._backend.reserve(
            SharedBlock.size(*layouts, self._bounds),
            lambda: f"{len(facts)} envs that observe {self.facts.single_observation_space}",
        )
        self._blocks.append(memory)
        block = self._block = SharedBlock.map(memory, *layouts, self._bounds)
        block.clear()
        self.batch = block.batch
        words = [self._backend.control(block, worker.number).worker for worker in self._workers]
        self._ledger = Ledger(self._bounds, words, block.requests, block.answers, ordered=ordered)
        self._messages = MessageReader(self.batch, self._ledger)
        self._waiter = Waiter(self._backend, block, self._pool, self._messages, self._on_error, self._start_timeout)
        self._pool.attach(self.facts, memory, block, self._ledger, self._messages, deadline)
        if caller_works:
            self._caller = RowRunner(
                mine,
                self.batch.rows(first, len(facts)),
                self._block.clocks[-1],
                first=first,
                origin=self._origin,
                factories=self._factories[first:],
                on_error=self._on_error,
            )
            self._caller.finished = self._ledger.finished[first:]

    # --- what has no column ------------------------------------------------------------------------------------------

    def _extras(self, parts: list[Part]) -> dict[int, bytes]:
        """What has no column, by worker: reset options, and actions that have none or do not fit it."""
        batch = self.batch
        by_value = batch.action_layout.by_value
        if not by_value and not batch.options and not batch.raw_actions:
            return {}
        extras: dict[int, bytes] = {}
        for part, mine, _ in parts:
            start = self._bounds[part][0]
            local = [row - start for row in self._ledger.everyone[mine].tolist()]
            taken = SimpleNamespace(options={}, raw_actions={})
            hand_over(batch, taken, local, start)
            actions = {leaf: {row: batch.actions[leaf][start + row] for row in local} for leaf in by_value}
            extras[part] = pickled(("extras", taken.options, taken.raw_actions, actions))
        return extras

    def _run_caller(self, caller: RowRunner) -> None:
        """Run the pending rows that the caller runs itself."""
        first, batch = caller.first, self.batch
        if self._ledger.is_all_pending and 1 not in caller.finished.tobytes():
            local: Sequence[int] = range(len(caller.envs))
        else:
            local = np.flatnonzero((self._ledger.sent_at[first:] > 0) & ~caller.finished).tolist()
        if batch.options or batch.raw_actions:
            hand_over(batch, caller.batch, local, first)
        for leaf in batch.action_layout.by_value:
            caller.batch.actions[leaf][local] = batch.actions[leaf][first:][local]
        try:
            if local:
                caller.run(local)
        except BaseException as interrupt:
            caller.interrupted(interrupt)
            raise
        if caller.batch.mail:
            batch.mail.update((first + row, mail) for row, mail in caller.batch.mail.items())
            caller.batch.mail.clear()

    # --- calls of envs -----------------------------------------------------------------------------------------------

    def _ask(self, payloads: list[bytes]) -> None:
        """Ask each worker for a call of its envs."""
        for worker in self._workers:
            if self._pool.is_gone(worker):
                raise NotResetError(
                    f"envs {worker.start} to {worker.stop - 1} are gone with their worker; reset() builds them again"
                )
        self._messages.call_requests = []  # as in `send`
        self._handle_unreported_deaths()
        self._ledger.sequence += 1
        self._messages.call_requests, self._messages.call_results = payloads, {}
        for worker, payload in zip(self._workers, payloads, strict=True):
            worker.post(payload)

    def _handle_unreported_deaths(self) -> None:
        """Restart workers, or raise WorkerDied for them, whose death an interrupt kept from being reported."""
        for worker in self._workers:
            if worker.error is not None:
                self._pool.handle_death(worker)

    def _add_own(self, results: dict[int, Any]) -> None:
        """Add the results of the caller's own envs."""
        assert self._caller is not None
        self._messages.call_results.update({self._caller.first + row: value for row, value in results.items()})

    def _answers(self, timeout: float | None) -> dict[int, Any]:
        """Wait for the results of the last call, from all rows."""
        messages, everyone = self._messages, self._ledger.everyone

        def answered() -> bool:
            for worker in self._workers:
                messages.take(worker)
            return len(messages.call_results) == len(everyone)

        def late() -> EnvError:
            worker = self._pool.worker_of(min(set(everyone.tolist()) - messages.call_results.keys()))
            return worker.late(self._pool.at(worker), timeout, "call")

        self._handle_unreported_deaths()
        self._waiter.park(answered, timeout, self._backend.clock(), late)
        messages.call_requests = []
        return messages.call_results


def _close_all(backend: ProcessBackend, workers: list[Worker], blocks: list[SharedMemory], timeout: float) -> list[str]:
    """End the workers and free what they used. Not a method, so that it can run when the engine is gone."""
    complaints = backend.close(workers, timeout)
    backend.sweep()
    for block in blocks:
        block.close_descriptor()
    return complaints
