"""The workers of the process engine: how they are started, and what happens when they die."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv._batch.batch import Batch, Rows
from vecenv._batch.faults import Fault, OnError, RestartPolicy
from vecenv._batch.memory import SharedMemory
from vecenv._batch.seeding import NO_SEED
from vecenv.engines.facts import BatchFacts, EnvFacts
from vecenv.engines.process.backend import ProcessBackend
from vecenv.engines.process.child import Assignment, Attachment
from vecenv.engines.process.handle import Worker
from vecenv.engines.process.ledger import Ledger
from vecenv.engines.process.messages import MessageReader
from vecenv.engines.process.shared import MESSAGES, RINGS, SharedBlock
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.local import check_resets
from vecenv.errors import ClosedError, EnvError, RestartLimit


class WorkerPool:
    """All workers of an engine. First `start`, then `attach`.

    Args:
        bounds: first row and end of each worker, and of the caller's own rows if it has any.
        start_timeout: seconds that building the envs may take.

    Attributes:
        needs_recovery: some worker is dead and not replaced, or an interrupt cut a send short.
        closing: no worker is started any more, and no call waits for one.
    """

    def __init__(
        self,
        backend: ProcessBackend,
        factories: Sequence[Factory],
        bounds: list[tuple[int, int]],
        *,
        on_error: OnError,
        origin: int,
        start_timeout: float,
    ) -> None:
        self.workers: list[Worker] = []
        self.needs_recovery = False
        self.closing = False
        self._backend = backend
        self._factories = factories
        self._bounds = bounds
        self._on_error: OnError = on_error
        self._origin = origin
        self._start_timeout = start_timeout
        self._policies = [RestartPolicy(start, pause=backend.pause) for start, _ in bounds]
        self._delivered: list[np.ndarray] = []
        """The observations delivered last. A restart shows these: what a dead worker left may be half written."""

    # --- starting ----------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """By when workers that are started now must be ready."""
        return self._backend.clock() + self._start_timeout

    def start(self, count: int, deadline: float) -> list[EnvFacts]:
        """Start the workers; returns what their envs are."""
        for number in range(count):
            self.workers.append(self._start(number))
        return [fact for worker in self.workers for fact in self._backend.facts(worker, deadline)]

    def attach(
        self,
        facts: BatchFacts,
        memory: SharedMemory,
        block: SharedBlock,
        ledger: Ledger,
        messages: MessageReader,
        deadline: float,
    ) -> None:
        """Give every worker the shared block."""
        self._facts, self._memory, self._block, self._ledger, self._messages = facts, memory, block, ledger, messages
        self._batch: Batch = block.batch
        if self._on_error == "restart":
            self._delivered = [column.copy() for column in self._batch.obs]
        for worker in self.workers:
            self._attach(worker, lost={})
        for worker in self.workers:
            self._attached(worker, deadline)

    def check_open(self) -> None:
        """Raise ClosedError if the workers are being closed, by another thread or a signal handler."""
        if self.closing:
            raise ClosedError("close() was called meanwhile")

    def _start(self, number: int) -> Worker:
        self.check_open()
        start, stop = self._bounds[number]
        assignment = Assignment(
            number=number,
            bounds=self._bounds,
            factories=self._factories[start:stop],
            on_error=self._on_error,
            origin=self._origin,
        )
        worker = self._backend.start(assignment, self.workers)
        worker.check_open = self.check_open
        return worker

    def _attach(self, worker: Worker, lost: dict[int, Fault]) -> None:
        """Give a worker whose envs are built the shared block."""
        self._block.parent[worker.number, [RINGS, MESSAGES]] = 0  # the other words are about the parent
        self._block.worker[worker.number] = 0
        worker.control = self._backend.control(self._block, worker.number)
        worker.current = self._block.clocks[worker.number].current
        attachment = Attachment(
            size=self._memory.size,
            observation=self._facts.single_observation_space,
            action=self._facts.single_action_space,
            lost=lost,
        )
        self._backend.attach(worker, attachment, self._memory)

    def _attached(self, worker: Worker, deadline: float) -> None:
        """Wait until a worker has mapped the shared block; from then on it is watched."""
        self._backend.attached(worker, deadline)
        self._backend.watch(worker)

    # --- which worker has which row ----------------------------------------------------------------------------------

    def worker_of(self, row: int) -> Worker:
        """The worker of a row that is not the caller's own."""
        return self.workers[self._ledger.part_of[row]]

    def home(self, row: int) -> tuple[int | None, int | None]:
        """Worker and process id of a row, if it is not the caller's own."""
        part = int(self._ledger.part_of[row])
        return (part, self.workers[part].process.pid) if part < len(self.workers) else (None, None)

    def at(self, worker: Worker) -> int:
        """The row a worker is running, or the first it was asked for."""
        current = int(worker.current[0])
        return worker.start + current if current >= 0 else self._ledger.open_row(worker.number)

    def late(self, timeout: float | None) -> EnvError:
        """The error for a worker that does not answer in time."""
        worker = self.workers[self._ledger.first_unanswered() or 0]
        row = self.at(worker)
        return worker.late(row, timeout, self._messages.phase(row), *self._context_of(row))

    def _context_of(self, row: int) -> tuple[Any, int | None]:
        """Last action and seed of a row, for error texts."""
        action = self._batch.action_layout.reader([column.copy() for column in self._batch.actions])(row)
        seed = int(self._batch.last_seed[row])
        return action, None if seed == NO_SEED else seed

    # --- deaths ------------------------------------------------------------------------------------------------------

    def kill(self, row: int) -> None:
        """Kill the worker of a row, unless that is the caller's own."""
        part = int(self._ledger.part_of[row])
        if part < len(self.workers):
            self.workers[part].kill(signal.SIGKILL)

    def delivered(self, rows: Rows) -> None:
        """The user is about to get these rows."""
        for kept, column in zip(self._delivered, self._batch.obs, strict=False):
            kept[rows] = column[rows]

    def handle_death(self, worker: Worker) -> None:
        """A worker is dead: start it again or raise WorkerDied, as `on_error` says."""
        self.needs_recovery = True
        if worker.error is None:
            worker.channel.drain()
            self._messages.take(worker)
            row = self.at(worker)
            worker.error = worker.died(row, self._messages.phase(row), *self._context_of(row))
        self._backend.unwatch(worker)
        if self._on_error == "raise":
            self._give_up(worker)
            raise worker.error
        self._restart(worker, worker.hung or worker.error)
        self.refresh()

    def finish_recovery(self) -> None:
        """Finish what an interrupt cut short: no rows are left with a dead worker."""
        for worker in self.workers:
            if worker.error is not None:
                self._backend.unwatch(worker)
                if len(self._ledger.pending_of(worker.number)):
                    self.handle_death(worker)

    def restart_for(self, rows: Rows) -> None:
        """Restart dead workers whose rows are asked for. `finish_recovery` restarts the others."""
        for worker in self.workers:
            mine = rows[np.isin(rows, worker.rows)] if self.is_gone(worker) else rows[:0]
            if len(mine):
                check_resets(self._batch, mine)
                self._replace(worker, lost={})
        self.refresh()

    def gone(self) -> Rows:
        """The rows of workers that are dead and are not started again before a reset."""
        gone = [worker.rows for worker in self.workers if self.is_gone(worker)]
        return np.array([row for rows in gone for row in rows], np.int64)

    def is_gone(self, worker: Worker) -> bool:
        """Whether a worker is dead and is not started again before a reset."""
        return worker.given_up or (worker.error is not None and self._on_error == "raise")

    def refresh(self) -> None:
        """Find out anew whether any worker is dead and not replaced."""
        self.needs_recovery = any(worker.error is not None for worker in self.workers)

    def _give_up(self, worker: Worker) -> None:
        """Give back the rows that a dead worker was asked for; the next RESET of its rows starts it again."""
        self._batch.discard_mail(self._ledger.pending_of(worker.number).tolist())
        self._ledger.give_up(worker.number)
        worker.given_up = True

    def _restart(self, worker: Worker, error: EnvError) -> None:
        """Start a dead worker again as often as the policy allows; its rows report the episode they lost."""
        cause = Fault.of(error, self._messages.phase(worker.start if error.row is None else error.row), error=error)
        mine, fault = np.arange(worker.start, worker.stop), cause
        self._batch.discard_mail(self._ledger.pending_of(worker.number).tolist())
        while worker is self.workers[worker.number]:
            try:
                self._policies[worker.number].allow(fault, self._ledger.sequence)
                for kept, column in zip(self._delivered, self._batch.obs, strict=True):
                    column[mine] = kept[mine]
                self._batch.restarts[mine] += 1
                self._replace(worker, lost=dict.fromkeys(range(len(mine)), cause))
            except RestartLimit as limit:
                limit.rows = worker.rows
                self._give_up(worker)
                raise
            except EnvError as failure:  # it could not be built again
                fault = Fault.of(failure, "make", error=failure)

    def _replace(self, dead: Worker, lost: dict[int, Fault]) -> None:
        """Start a worker anew, and ask it again for what is pending.

        `lost` is why the episodes of its rows ended, to be reported with their next op.
        """
        deadline = self.deadline()
        self._backend.unwatch(dead)  # an interrupt may have kept `handle_death` from it
        dead.kill(signal.SIGKILL)
        self._ledger.renew(dead.number)
        worker = self._start(dead.number)
        try:
            self._backend.facts(worker, deadline)
            self._attach(worker, lost)
            self._attached(worker, deadline)
            if self._messages.call_requests:
                worker.post(self._messages.call_requests[worker.number])
            worker.ring()
            self.workers[worker.number] = worker
        except BaseException:
            self._backend.unwatch(worker)
            self._backend.close([worker], 0.0)
            raise
        self._backend.release(dead)
