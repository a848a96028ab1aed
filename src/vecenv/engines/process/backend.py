"""The backend around the process engine: how workers are started, waited for and ended.

The engine touches processes, descriptors and clocks only through this, so that tests can give it another backend.
"""

from __future__ import annotations

import dataclasses
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from vecenv._batch.memory import SharedMemory
from vecenv._util.descriptors import open_standard_descriptors
from vecenv.engines.facts import EnvFacts
from vecenv.engines.process.child import Assignment, Attachment
from vecenv.engines.process.handle import Worker, close_workers, cut_off, first_message
from vecenv.engines.process.launch import pickled_factories, start_context
from vecenv.engines.process.sendable import pickled
from vecenv.engines.process.shared import Control, SharedBlock, yield_cpu
from vecenv.errors import WorkerError


class ProcessBackend(Protocol):
    """What the engine asks of its surroundings."""

    def clock(self) -> float:
        """Seconds that only grow; deadlines are of this clock."""
        ...

    def yield_cpu(self) -> object:
        """Let another process have this core."""
        ...

    def pause(self, seconds: float, /) -> None:
        """Wait before a worker is started once more."""
        ...

    def reserve(self, size: int, purpose: Callable[[], str]) -> SharedMemory:
        """The block that is shared with the workers; `purpose` says what it is for, if there is no memory."""
        ...

    def start(self, assignment: Assignment, siblings: Sequence[Worker]) -> Worker:
        """Start a worker and return at once."""
        ...

    def facts(self, worker: Worker, deadline: float) -> list[EnvFacts]:
        """Wait until a worker has built its envs."""
        ...

    def attach(self, worker: Worker, attachment: Attachment, memory: SharedMemory) -> None:
        """Give a worker whose envs are built the shared block."""
        ...

    def attached(self, worker: Worker, deadline: float) -> None:
        """Wait until a worker has mapped the shared block."""
        ...

    def control(self, block: SharedBlock, number: int) -> Control:
        """The control words of a worker."""
        ...

    def watch(self, worker: Worker) -> None:
        """From now on, `poll` watches this worker."""
        ...

    def unwatch(self, worker: Worker) -> None:
        """Stop watching this worker, if it is watched."""
        ...

    def poll(self, workers: Sequence[Worker], seconds: float) -> set[int]:
        """Wait until a worker sends something or dies, or for this long; meanwhile send what could not be sent before.

        Returns the descriptors that are ready: of channels with messages, and of processes that died.
        """
        ...

    def is_gone(self, worker: Worker, ready: set[int]) -> bool:
        """Whether a worker is dead or out of reach, after a `poll` that returned `ready`."""
        ...

    def close(self, workers: list[Worker], timeout: float) -> list[str]:
        """End workers, see `close_workers`."""
        ...

    def release(self, worker: Worker) -> None:
        """Free what a dead worker used."""
        ...

    def sweep(self) -> None:
        """End and free workers that interrupts have left out of every list."""
        ...


class OSProcesses:
    """The real backend: processes of this machine."""

    clock = staticmethod(time.monotonic)
    yield_cpu = staticmethod(yield_cpu)
    pause = staticmethod(time.sleep)
    reserve = staticmethod(SharedMemory.create)

    def __init__(self, context: Any) -> None:
        self._context = start_context(context)
        self._poll = select.poll()
        self._stalled: set[int] = set()
        """Channels with something unsent."""
        self._started: list[Worker] = []
        """All workers that have not been released."""

    def start(self, assignment: Assignment, siblings: Sequence[Worker]) -> Worker:
        open_standard_descriptors()
        first, _ = assignment.bounds[assignment.number]
        if self._context.get_start_method() == "fork":
            foreign = tuple(descriptor for worker in siblings for descriptor in worker.descriptors())
            assignment = dataclasses.replace(assignment, foreign=foreign)
        else:
            factories = pickled_factories(assignment.factories, first)  # type: ignore[arg-type]  # not pickled yet
            assignment = dataclasses.replace(assignment, factories=factories)
        try:
            return Worker(self._context, assignment, self._started)
        except OSError as error:
            raise WorkerError(
                f"worker {assignment.number} could not be started: {error}; close what is not needed, or use fewer "
                "workers",
                row=first,
                rows=tuple(range(*assignment.bounds[assignment.number])),
                phase="make",
                worker=assignment.number,
            ) from error

    def facts(self, worker: Worker, deadline: float) -> list[EnvFacts]:
        return first_message(worker, deadline)

    def attach(self, worker: Worker, attachment: Attachment, memory: SharedMemory) -> None:
        worker.channel.send_descriptors([memory.descriptor])
        worker.channel.send_bytes(pickled(attachment))

    def attached(self, worker: Worker, deadline: float) -> None:
        first_message(worker, deadline)

    def control(self, block: SharedBlock, number: int) -> Control:
        return block.control(number)

    def watch(self, worker: Worker) -> None:
        self._poll.register(worker.channel.fileno(), select.POLLIN)
        self._poll.register(worker.liveness, select.POLLIN)

    def unwatch(self, worker: Worker) -> None:
        for descriptor in (worker.channel.fileno(), worker.liveness):
            try:
                self._poll.unregister(descriptor)
            except (KeyError, ValueError):
                continue
        self._stalled.discard(worker.channel.fileno())

    def poll(self, workers: Sequence[Worker], seconds: float) -> set[int]:
        for worker in workers:
            if (worker.channel.unsent or self._stalled) and worker.error is None:
                self._send_on(worker)
        return {descriptor for descriptor, _ in self._poll.poll(seconds * 1000)}

    def is_gone(self, worker: Worker, ready: set[int]) -> bool:
        return worker.liveness in ready or cut_off(worker)

    def close(self, workers: list[Worker], timeout: float) -> list[str]:
        closed = list(workers)
        complaints = close_workers(workers, timeout)
        self._started = [worker for worker in self._started if worker not in closed]
        return complaints

    def release(self, worker: Worker) -> None:
        worker.release()
        self._started.remove(worker)

    def sweep(self) -> None:
        close_workers(self._started, 0.0)

    def _send_on(self, worker: Worker) -> None:
        """Send what is unsent; `poll` returns when there is room for the rest."""
        descriptor = worker.channel.fileno()
        worker.channel.flush()
        if worker.channel.unsent:
            self._poll.modify(descriptor, select.POLLIN | select.POLLOUT)
            self._stalled.add(descriptor)
        elif descriptor in self._stalled:
            self._poll.modify(descriptor, select.POLLIN)
            self._stalled.discard(descriptor)
