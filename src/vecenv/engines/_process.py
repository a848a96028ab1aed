"""The process engine: the row loop in worker processes, over slices of one shared block."""

from __future__ import annotations

import contextlib
import pickle
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.util import Finalize
from typing import Any

import numpy as np

from vecenv._batch import Mail, Op, Rows
from vecenv._clocks import Clocks
from vecenv._envs import Factory, build_envs
from vecenv._faults import Fault, OnError, RestartPolicy
from vecenv._memory import SharedMemory
from vecenv._rows import RowRunner
from vecenv._seeding import NO_SEED
from vecenv.engines._control import (
    DONE,
    EAGER,
    MAILS,
    MESSAGES,
    RING,
    SPIN_SECONDS,
    WAITING,
    SharedBlock,
    fence,
    give_way,
    ticket,
)
from vecenv.engines._facts import EnvFacts, agree, check_observation_mode
from vecenv.engines._local import first_fault, hand_over, results_or_raise, split, take_mail, warn_of
from vecenv.engines._sendable import dumps
from vecenv.engines._start import pickled_factories, start_context
from vecenv.engines._worker import Assignment, Attachment
from vecenv.engines._workers import Worker, close_workers, first_message
from vecenv.errors import EnvError, NotResetError, Phase, RestartLimit, SpaceError


class Unsendable(SpaceError, pickle.PicklingError):
    """Reset options, an action or an attribute's value that cannot be pickled. Nothing was sent."""


_LOOK_UP_SECONDS = 1.0
"""A parked front looks up this often, should a wake-up ever be lost."""


class ProcessEngine:
    """K envs per worker process; columns in shared memory; infos, calls and unsized observations by message.

    No env is created in this process, unless `caller_works`. A worker that died is started again by the next RESET of
    its rows, or at once with `on_error="restart"`.

    Args:
        workers: number of processes.
        context: a start method or a multiprocessing context; None is "forkserver" where there is one, else "spawn".
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
        caller_works: the calling process holds a share of the envs too, and steps them instead of waiting.
        start_timeout: seconds that building the envs may take.
        origin: index of the first row among all envs, if these are a part of a larger batch.
    """

    name = "process"

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
    ) -> None:
        check_observation_mode(observation_mode)
        count = len(factories)
        self._factories = list(factories)
        self._context = start_context(context)
        self._on_error: OnError = on_error
        self._ordered = ordered
        self._start_timeout = start_timeout
        self._origin = origin
        self._bounds = split(count, workers + caller_works)
        self._worker_count = workers
        self._policies = [RestartPolicy(start) for start, _ in self._bounds]
        self._sequence = 0
        self._everyone: Rows = np.arange(count)
        self._some_dead = False
        self._pending = np.zeros(count, np.bool_)
        self._pending_count = 0
        self._sent_at = np.zeros(count, np.int64)
        self._sent_ops = np.zeros(count, np.uint8)
        self._warned: set[str] = set()
        self._questions: list[bytes] = []
        self._replies: dict[int, Any] = {}
        self._workers: list[Worker] = []
        self._blocks: list[SharedMemory] = []
        self._caller: RowRunner | None = None
        self._caller_rows: list[int] = []
        self._poll = select.poll()
        self._close = Finalize(self, _close_all, args=(self._workers, self._blocks, 1.0), exitpriority=100)
        try:
            self._start(observation_mode, caller_works)
        except BaseException:
            self.close(0.5)
            raise

    # --- the seam ----------------------------------------------------------------------------------------------------

    def send(self, rows: Rows) -> None:
        if self._some_dead:
            self._revive_for(rows)
        self._sequence += 1
        self._questions = []
        every = self._index(rows)
        self._sent_at[every] = self._sequence
        self._sent_ops[every] = self.batch.op[every]
        parts, extras, pending_count = self._parts(rows), self._extras(rows), self._pending_count + len(rows)
        if self._caller is not None:
            self._caller_rows = [*self._caller_rows, *rows[self._worker_of[rows] == self._worker_count].tolist()]
        self._pending[every] = True
        self._pending_count = pending_count
        try:
            self._share_out(parts, extras)
        except BaseException:  # interrupted half way: the rest is sent all the same
            self._share_out(parts, extras, again=True)
            raise

    def _share_out(self, parts: Iterable[tuple[int, Any, int]], extras: dict[int, bytes], again: bool = False) -> None:
        """Tell each worker of its rows. `again`: those that were told already are only woken."""
        requests = self._block.requests
        for part, mine, count in parts:
            if part == self._worker_count:
                continue
            worker = self._workers[part]
            number = ticket(worker.generation, self._sequence)
            if not again or requests[mine][0] != number:
                if part in extras:
                    worker.post(extras[part])
                requests[mine] = number
                worker.target += count
            worker.ring()

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        if self._caller_rows:
            self._run_caller()
        if self._some_dead:
            self._bury_again()
        everything = count == self._pending_count
        if everything:
            self._wait(self._all_done, timeout)
        else:
            self._wait(self._first_done(count), timeout, eager=not self._ordered)
        self._read_mail()
        if not everything:
            rows = self._oldest_done(count)
        else:
            rows = self._everyone if count == len(self._everyone) else np.flatnonzero(self._pending)
        if self.batch.mail:
            self._raise_fault(rows)
        self._give_back(rows)
        return rows

    def pending(self) -> Rows:
        return np.flatnonzero(self._pending)

    def _raise_fault(self, rows: Rows) -> None:
        found = first_fault(self.batch, rows)
        if found is None:
            return
        row, fault = found
        error = fault.to_error(row, *self._home(row))
        self._give_back(np.array(error.rows))
        take_mail(self.batch, error.rows)
        raise error

    def close(self, timeout: float = 5.0) -> None:
        if self._close.still_active():
            self._close.cancel()
            complaints = _close_all(self._workers, self._blocks, timeout)
            if self._caller is not None:
                complaints += self._caller.close()
            warn_of(complaints)

    # --- abilities ---------------------------------------------------------------------------------------------------

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        self.begin_call(name, args, kwargs)
        return self.finish_call(timeout)

    def begin_call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Start a call of every env."""
        self._ask([self._pickled(("call", self._sequence + 1, name, args, kwargs))] * self._worker_count)
        if self._caller is not None:
            self._tell_own(self._caller.call(range(len(self._caller.envs)), name, args, kwargs))

    def finish_call(self, timeout: float | None = None) -> list[Any]:
        """Wait for the results of `begin_call`."""
        return results_or_raise(self._answers(timeout), self._home)

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        payloads = [
            self._pickled(("set", self._sequence + 1, name, dict(enumerate(values[start:stop]))))
            for start, stop in self._bounds[: self._worker_count]
        ]
        self._ask(payloads)
        if self._caller is not None:
            self._tell_own(self._caller.set_attr(name, dict(enumerate(values[self._caller.first :]))))
        results_or_raise(self._answers(timeout), self._home)

    def kill(self, row: int) -> None:
        part = int(self._worker_of[row])
        if part < self._worker_count:
            self._workers[part].kill(signal.SIGKILL)

    def clocks(self) -> list[tuple[slice, Clocks]]:
        return [(slice(*bounds), clocks) for bounds, clocks in zip(self._bounds, self._block.clocks, strict=True)]

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        return [worker.process for worker in self._workers]

    # --- starting ----------------------------------------------------------------------------------------------------

    def _start(self, observation_mode: Any, caller_works: bool) -> None:
        deadline = time.monotonic() + self._start_timeout
        for number in range(self._worker_count):
            self._workers.append(self._start_worker(number, generation=1))
        facts = [fact for worker in self._workers for fact in first_message(worker, deadline)]
        first = self._bounds[-1][0]
        mine = build_envs(self._factories[first:], first) if caller_works else []
        facts += [EnvFacts.of(env) for env in mine]
        self.facts = agree(facts, observation_mode)
        layouts = self.facts.observation_layout, self.facts.action_layout
        self._memory = SharedMemory.create(
            SharedBlock.size(*layouts, self._bounds),
            f"{len(facts)} envs that observe {self.facts.single_observation_space}",
        )
        self._blocks.append(self._memory)
        self._block = SharedBlock.map(self._memory, *layouts, self._bounds)
        self._block.clear()
        self.batch = self._block.batch
        self._delivered = [column.copy() for column in self.batch.obs] if self._on_error == "restart" else []
        self._worker_of = np.repeat(np.arange(len(self._bounds)), [stop - start for start, stop in self._bounds])
        self._all_parts = [(part, slice(*bounds), bounds[1] - bounds[0]) for part, bounds in enumerate(self._bounds)]
        for worker in self._workers:
            self._attach(worker, deadline, lost={})
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

    def _start_worker(self, number: int, generation: int) -> Worker:
        start, stop = self._bounds[number]
        forked = self._context.get_start_method() == "fork"
        mine = self._factories[start:stop]
        assignment = Assignment(
            number=number,
            bounds=self._bounds,
            factories=mine if forked else pickled_factories(mine, start),
            on_error=self._on_error,
            origin=self._origin,
            foreign=tuple(fd for worker in self._workers for fd in worker.descriptors()) if forked else (),
        )
        return Worker(self._context, assignment, generation)

    def _attach(self, worker: Worker, deadline: float, lost: dict[int, Fault]) -> None:
        """Give a worker whose envs are built the shared block."""
        self._block.front[worker.number, [RING, MESSAGES]] = 0  # the other words are about the front, not the worker
        self._block.worker[worker.number] = 0
        worker.control = self._block.control(worker.number)
        worker.current = self._block.clocks[worker.number].current
        worker.channel.send(
            Attachment(
                size=SharedBlock.size(self.facts.observation_layout, self.facts.action_layout, self._bounds),
                observation=self.facts.single_observation_space,
                action=self.facts.single_action_space,
                lost=lost,
            )
        )
        worker.channel.send_descriptors([self._memory.descriptor])
        first_message(worker, deadline)
        self._poll.register(worker.channel.fileno(), select.POLLIN)
        self._poll.register(worker.liveness, select.POLLIN)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _index(self, rows: Rows) -> Any:
        """All rows as a slice, which is much faster than an array of indices."""
        return slice(None) if len(rows) == len(self._everyone) else rows

    def _parts(self, rows: Rows) -> Iterable[tuple[int, Any, int]]:
        """Of each worker that has any of the rows: its number, an index of its rows, and how many they are."""
        if len(rows) == len(self._everyone):
            return self._all_parts
        parts = self._worker_of[rows]
        chosen = [(int(part), rows[parts == part]) for part in np.unique(parts)]
        return [(part, mine, len(mine)) for part, mine in chosen]

    def _extras(self, rows: Rows) -> dict[int, bytes]:
        """What has no column, by worker: reset options, and actions that have none or do not fit it."""
        batch = self.batch
        by_value = batch.action_layout.by_value
        if not by_value and not batch.options and not batch.given:
            return {}
        extras: dict[int, bytes] = {}
        for part, mine, _ in self._parts(rows):
            if part == self._worker_count:
                continue
            start, local = self._bounds[part][0], [row - self._bounds[part][0] for row in self._everyone[mine].tolist()]
            options: dict[int, Any] = {}
            given: dict[int, Any] = {}
            hand_over(batch.options, options, local, start)
            hand_over(batch.given, given, local, start)
            actions = {leaf: {row: batch.actions[leaf][start + row] for row in local} for leaf in by_value}
            extras[part] = self._pickled(("extras", options, given, actions))
        return extras

    def _run_caller(self) -> None:
        """Step the caller's own share of the rows."""
        assert self._caller is not None
        first, rows = self._caller.first, sorted(row for row in self._caller_rows if self.batch.op[row])
        local = [row - first for row in rows]
        hand_over(self.batch.options, self._caller.batch.options, local, first)
        hand_over(self.batch.given, self._caller.batch.given, local, first)
        for leaf in self.batch.action_layout.by_value:
            self._caller.batch.actions[leaf][local] = self.batch.actions[leaf][rows]
        try:
            if local:
                self._caller.run(local)
        except BaseException as interrupt:
            self._caller.interrupted(interrupt)
            raise
        self.batch.mail.update((first + row, mail) for row, mail in self._caller.batch.mail.items())
        self._caller.batch.mail.clear()
        self._caller_rows = []

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _all_done(self) -> bool:
        for worker in self._workers:  # noqa: SIM110  # a generator would cost more than all the rest
            if worker.control.worker[DONE] != worker.target:  # type: ignore[union-attr]  # set once attached
                return False
        return True

    def _first_done(self, count: int) -> Callable[[], bool]:
        if self._ordered:
            rows = self._in_order(np.flatnonzero(self._pending))[:count]
            return lambda: bool((self._block.answers[rows] == self._block.requests[rows]).all())
        workers, missing = self._workers, count - self._pending_count
        return lambda: sum(worker.control.worker[DONE] - worker.target for worker in workers) >= missing  # type: ignore[union-attr]

    def _wait(self, satisfied: Callable[[], bool], timeout: float | None, *, eager: bool = False) -> None:
        """Return once `satisfied`: spin for a while, then park. Raises if a worker dies or time runs out."""
        if eager:
            self._block.front[:, EAGER] = 1
        clock = time.perf_counter
        started = clock()
        limit = started + (SPIN_SECONDS if timeout is None else min(SPIN_SECONDS, timeout))
        while not satisfied():
            give_way()
            if clock() > limit:
                self._park(satisfied, timeout, started, lambda: self._late(timeout))
                return

    def _park(
        self, satisfied: Callable[[], bool], timeout: float | None, started: float, late: Callable[[], EnvError]
    ) -> None:
        deadline, hung = None if timeout is None else started + timeout, False
        self._block.front[:, WAITING] = 1
        try:
            fence()
            while not satisfied():
                left = _LOOK_UP_SECONDS if deadline is None else min(_LOOK_UP_SECONDS, deadline - time.perf_counter())
                if left <= 0:
                    error = late()
                    if self._on_error == "raise" or error.row is None or self._questions:
                        raise error
                    self._workers[self._worker_of[error.row]].hung = error
                    self.kill(error.row)
                    deadline = time.perf_counter() + self._start_timeout
                    hung = True
                    continue
                ready = {descriptor for descriptor, _ in self._poll.poll(left * 1000)}
                for worker in self._workers:
                    if worker.channel.fileno() in ready:
                        worker.channel.drain()
                    if worker.liveness in ready and not satisfied():
                        self._bury(worker)
                        if hung and timeout is not None:
                            deadline, hung = time.perf_counter() + timeout, False
        finally:
            self._block.front[:, WAITING] = 0

    def _oldest_done(self, count: int) -> Rows:
        """Of the rows that are done, those sent first."""
        done = self._pending & (self._block.answers == self._block.requests)
        return self._in_order(np.flatnonzero(done))[:count]

    def _in_order(self, rows: Rows) -> Rows:
        return rows[np.argsort(self._sent_at[rows], kind="stable")]

    def _give_back(self, rows: Rows) -> None:
        for kept, column in zip(self._delivered, self.batch.obs, strict=False):
            kept[rows] = column[rows]
        every, left = self._index(rows), self._pending_count - len(rows)
        # No call from here on, so that no signal handler can run before the front knows.
        self._pending[every] = False
        self._pending_count = left

    # --- messages ----------------------------------------------------------------------------------------------------

    def _read_mail(self) -> None:
        for worker in self._workers:
            while worker.mails_read < worker.control.worker[MAILS]:  # type: ignore[union-attr]  # set once attached
                worker.channel.drain()
                self._take_messages(worker)

    def _take_messages(self, worker: Worker) -> None:
        inbox = worker.channel.inbox
        while inbox:
            try:
                message = pickle.loads(inbox[0])
            except Exception as error:
                self._take_unreadable(worker, error)
            else:
                self._take_message(*message)
            del inbox[0]  # only now: what an interrupt cut short is done again
            worker.mails_read += 1

    def _take_unreadable(self, worker: Worker, error: Exception) -> None:
        """A message that raises when it is unpickled: whatever it was about has failed."""
        reason = SpaceError(
            f"what worker {worker.number} sent cannot be unpickled here: {type(error).__name__}: {error}"
        )
        if self._questions:
            self._replies.update(dict.fromkeys(worker.rows, Fault.of(reason, "call")))
        for row in worker.rows:
            if self._pending[row]:
                self.batch.mail[row] = Mail(fault=Fault.of(reason, self._phase(row)))

    def _take_message(self, kind: str, *content: Any) -> None:
        if kind == "reply":
            number, results = content
            if number == self._sequence:
                self._replies.update(results)
        elif kind == "dropped":
            (text,) = content
            if text not in self._warned:
                self._warned.add(text)
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        else:
            self._take_mail(*content)

    def _take_mail(self, letters: dict[int, tuple[int, Any, list[Any]]]) -> None:
        for row, (number, mail, objects) in letters.items():
            if number != self._block.requests[row]:
                continue  # an answer to an exchange that was given up
            if mail is not None:
                self.batch.mail[row] = mail
            for leaf, (obs, final) in zip(self.batch.observation_layout.by_value, objects, strict=False):
                self.batch.obs[leaf][row], self.batch.final_obs[leaf][row] = obs, final

    def _ask(self, payloads: list[bytes]) -> None:
        """Send each worker a question."""
        for worker in self._workers:
            if worker.error is not None:
                raise NotResetError(
                    f"envs {worker.start} to {worker.stop - 1} are gone with their worker; reset() builds them again"
                )
        self._sequence += 1
        self._questions, self._replies = payloads, {}
        try:
            for worker, payload in zip(self._workers, payloads, strict=True):
                worker.post(payload)
        except BaseException:  # a worker must not be left with half a message
            for worker in self._workers:
                worker.channel.flush()
            raise

    def _tell_own(self, results: dict[int, Any]) -> None:
        assert self._caller is not None
        self._replies.update({self._caller.first + row: value for row, value in results.items()})

    def _answers(self, timeout: float | None) -> dict[int, Any]:
        """Wait until all rows have answered the last question."""

        def answered() -> bool:
            for worker in self._workers:
                self._take_messages(worker)
            return len(self._replies) == len(self._everyone)

        def late() -> EnvError:
            row = min(set(self._everyone.tolist()) - self._replies.keys())
            worker = self._workers[self._worker_of[row]]
            return worker.late(self._at(worker), timeout, "call")

        self._park(answered, timeout, time.perf_counter(), late)
        self._questions = []
        return self._replies

    def _pickled(self, message: Any) -> bytes:
        try:
            return dumps(message)
        except Exception as error:
            raise Unsendable(
                f"this cannot be sent to a worker: {error}; pass plain data, or use engine='sync'"
            ) from error

    # --- failures ----------------------------------------------------------------------------------------------------

    def _home(self, row: int) -> tuple[int | None, int | None]:
        """Worker and process id of a row, if it is not the caller's own."""
        part = int(self._worker_of[row])
        return (part, self._workers[part].process.pid) if part < self._worker_count else (None, None)

    def _context_of(self, row: int) -> tuple[Any, int | None]:
        """Last action and seed of a row, for error texts."""
        action = self.batch.action_layout.reader([column.copy() for column in self.batch.actions])(row)
        seed = int(self.batch.last_seed[row])
        return action, None if seed == NO_SEED else seed

    def _at(self, worker: Worker) -> int:
        """The row a worker is running, or the first it was asked for."""
        current = int(self._block.clocks[worker.number].current[0])
        if current >= 0:
            return worker.start + current
        mine = np.arange(worker.start, worker.stop)
        open_rows = mine[self._block.answers[mine] != self._block.requests[mine]]
        return int(open_rows[0]) if len(open_rows) else worker.start

    def _late(self, timeout: float | None) -> EnvError:
        worker = next(
            (worker for worker in self._workers if worker.control.worker[DONE] != worker.target),  # type: ignore[union-attr]
            self._workers[0],
        )
        row = self._at(worker)
        return worker.late(row, timeout, self._phase(row), *self._context_of(row))

    def _phase(self, row: int) -> Phase:
        if self._questions:
            return "call"
        return "reset" if self._sent_ops[row] == Op.RESET else "step"

    def _bury(self, worker: Worker) -> None:
        """A worker is dead: start it again or raise WorkerDied, as `on_error` says."""
        self._some_dead = True
        if worker.error is None:
            worker.channel.drain()
            self._take_messages(worker)
            row = self._at(worker)
            worker.error = worker.died(row, self._phase(row), *self._context_of(row))
        for descriptor in (worker.channel.fileno(), worker.liveness):
            with contextlib.suppress(KeyError):
                self._poll.unregister(descriptor)
        if self._on_error == "raise":
            self._give_up(worker)
            raise worker.error
        self._restart(worker, worker.hung or worker.error)
        self._some_dead = any(worker.error is not None for worker in self._workers)

    def _bury_again(self) -> None:
        """Finish what an interrupt cut short: no rows are left with a dead worker."""
        for worker in self._workers:
            lost = worker.error is not None and worker.control.worker[DONE] != worker.target  # type: ignore[union-attr]
            if lost or (worker.error is not None and self._pending[worker.start : worker.stop].any()):
                self._bury(worker)

    def _give_up(self, worker: Worker) -> None:
        """Hand back what a dead worker was asked for; the next RESET of its rows starts it again."""
        mine = np.arange(worker.start, worker.stop)
        self._give_back(mine[self._pending[mine]])
        take_mail(self.batch, worker.rows)
        self._block.answers[mine] = self._block.requests[mine]
        worker.target = worker.control.worker[DONE]  # type: ignore[union-attr]  # it was attached

    def _restart(self, worker: Worker, error: EnvError) -> None:
        """Start a dead worker again as often as the policy allows; its rows report the episode they lost."""
        cause = Fault.of(error, self._phase(worker.start if error.row is None else error.row), error=error)
        mine = np.arange(worker.start, worker.stop)
        fault = cause
        while worker is self._workers[worker.number]:
            try:
                self._policies[worker.number].allow(fault, self._sequence)
                for kept, column in zip(self._delivered, self.batch.obs, strict=True):
                    column[mine] = kept[mine]
                self.batch.restarts[mine] += 1
                self._replace(worker, lost=dict.fromkeys(range(len(mine)), cause))
            except RestartLimit as limit:
                limit.rows = worker.rows
                self._give_up(worker)
                raise
            except EnvError as failure:  # it could not be built again
                fault = Fault.of(failure, "make", error=failure)

    def _revive_for(self, rows: Rows) -> None:
        """Start dead workers again whose rows are asked for."""
        for worker in self._workers:
            if worker.error is not None and bool(np.isin(rows, worker.rows).any()):
                self._replace(worker, lost={})
        self._some_dead = any(worker.error is not None for worker in self._workers)

    def _replace(self, dead: Worker, lost: dict[int, Fault]) -> None:
        """Start a worker anew, with a new generation, and ask it again for what is pending.

        Args:
            lost: why the episodes of its rows ended, to be reported with their next op.
        """
        deadline = time.monotonic() + self._start_timeout
        mine = np.arange(dead.start, dead.stop)
        dead.kill(signal.SIGKILL)
        self._block.answers[mine] = self._block.requests[mine] = 0
        worker = self._start_worker(dead.number, dead.generation + 1)
        try:
            first_message(worker, deadline)
            self._attach(worker, deadline, lost)
        except BaseException:
            close_workers([worker], 0.0)
            dead.generation, dead.target = worker.generation, 0
            dead.control.worker[DONE] = 0  # type: ignore[union-attr]  # it was attached
            raise
        pending = mine[self._pending[mine]]
        number, count, front = ticket(worker.generation, self._sequence), len(pending), self._block.front
        self.batch.op[pending] = self._sent_ops[pending]
        # No call between these lines: an interrupt must not leave a living worker that knows nothing of its rows.
        self._block.requests[pending] = number
        worker.target = count
        front[worker.number, RING] += 1
        self._workers[worker.number] = worker
        try:
            if self._questions:
                worker.post(self._questions[worker.number])
            worker.ring()
        finally:
            dead.release()


def _close_all(workers: list[Worker], blocks: list[SharedMemory], timeout: float) -> list[str]:
    """Everything that must be given back. Not a method, so that it can run when the engine is gone."""
    complaints = close_workers(workers, timeout)
    for block in blocks:
        block.close_descriptor()
    return complaints
