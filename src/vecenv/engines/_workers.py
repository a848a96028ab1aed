"""Worker processes as the front sees them: start, wake, explain, end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle

from vecenv._faults import Fault
from vecenv._rows import Factory
from vecenv.engines._channel import Channel
from vecenv.engines._control import MESSAGES, PARKED, RING, Control, fence
from vecenv.engines._worker import Assignment, main
from vecenv.errors import ConfigError, ConfigTypeError, WorkerDied, WorkerTimeout

_TERMINATE_SECONDS = 0.5


def start_context(context: Any) -> Any:
    """The multiprocessing context for a start method, a context, or None (forkserver where there is one)."""
    if multiprocessing.current_process().daemon:
        raise ConfigError(
            "a daemonic process cannot start workers; use engine='sync' here, or make the parent non-daemonic"
        )
    if context is not None and not isinstance(context, str):
        return context
    methods = multiprocessing.get_all_start_methods()
    if context is None:
        context = "forkserver" if "forkserver" in methods else "spawn"
    if context not in methods:
        raise ConfigError(f"context must be one of {', '.join(map(repr, methods))} or a multiprocessing context, got {context!r}")
    return multiprocessing.get_context(context)


def pickled_factories(factories: Sequence[Factory], first: int) -> bytes:
    """Cloudpickle them all; the error for one that cannot be names it."""
    try:
        return cloudpickle.dumps(list(factories))
    except Exception as error:
        for offset, factory in enumerate(factories):
            try:
                cloudpickle.dumps(factory)
            except Exception as reason:
                raise UnpicklableFactory(
                    f"env_fns[{first + offset}] cannot be sent to a worker: {reason}; build that object inside the "
                    "function, or use engine='sync' or context='fork'"
                ) from reason
        raise UnpicklableFactory(f"the env functions cannot be sent to a worker: {error}") from error


class UnpicklableFactory(ConfigTypeError, pickle.PicklingError):
    """An env factory holds something that cannot be pickled."""


class Worker:
    """One worker process and what the front knows of it.

    Attributes:
        target: value of its DONE word once every row sent to it is done.
        mails_read: messages taken from it, to compare with its MAILS word.
        error: why it is gone, once it is.
    """

    def __init__(self, context: Any, assignment: Assignment, generation: int) -> None:
        self.number = assignment.number
        self.start, self.stop = assignment.bounds[assignment.number]
        self.generation = generation
        self.target = 0
        self.mails_read = 0
        self.error: WorkerDied | None = None
        self.control: Control | None = None
        self._trace = os.memfd_create("vecenv-trace") if hasattr(os, "memfd_create") else os.open(os.devnull, os.O_RDWR)
        ours, theirs = socket.socketpair()
        self.process = context.Process(target=main, args=(theirs, assignment), name=f"vecenv-worker-{self.number}")
        self.process.daemon = True  # or multiprocessing would wait for it at exit before anybody could close it
        with _no_main_module():
            self.process.start()
        theirs.close()
        self.channel = Channel(ours, blocking=False)
        self.channel.send_descriptors([self._trace])
        self.liveness = _liveness(self.process)

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(range(self.start, self.stop))

    def descriptors(self) -> tuple[int, ...]:
        """What a forked sibling inherits of this worker and must close."""
        return (self.channel.fileno(), self._trace, self.liveness)

    def ring(self) -> None:
        """Tell the worker that something was asked of it."""
        assert self.control is not None
        front = self.control.front
        front[RING] += 1
        fence()
        if self.control.worker[PARKED]:
            self.channel.wake()

    def post(self, payload: bytes) -> None:
        """Send a message. The counter goes first, so that a spinning worker reads while we write."""
        assert self.control is not None
        self.control.front[MESSAGES] += 1
        self.control.front[RING] += 1
        self.channel.send_bytes(payload)

    def stack(self) -> str:
        """The Python stack of the worker: what a crash left, or a fresh dump of a living one."""
        before = os.fstat(self._trace).st_size
        if self.process.is_alive() and hasattr(signal, "SIGUSR1"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGUSR1)
            deadline = time.monotonic() + 0.5
            size = -1
            while time.monotonic() < deadline and size != (size := os.fstat(self._trace).st_size):
                time.sleep(0.02)
        else:
            before = 0
        return os.pread(self._trace, 64_000, before).decode(errors="replace")

    def died(self, row: int, action: Any, seed: int | None) -> WorkerDied:
        """The error that explains why the process is gone. `row` is the env it was at."""
        self.process.join(1.0)
        code = self.process.exitcode
        name = signal.Signals(-code).name if code is not None and code < 0 else None
        advice = {
            "SIGKILL": "was it the out-of-memory killer?",
            "SIGSEGV": "native code of the env crashed, see the stack",
            "SIGABRT": "native code of the env aborted, see the stack",
        }.get(name or "", "see what the env printed")
        stack = self.stack()
        how = f"by {name}" if name else f"with exit code {code}"
        error = WorkerDied(
            f"worker {self.number} (pid {self.process.pid}) died {how} while at env {row}; it held envs {self.start} to "
            f"{self.stop - 1}; {advice} reset() starts it again"
            + (f"; last action {action!r:.80}" if action is not None else "")
            + (f"; last seed {seed}" if seed is not None else "")
            + (f"\n{stack}" if stack else ""),
            row=row,
            rows=self.rows,
            phase="step",
            worker=self.number,
            pid=self.process.pid,
            action=action,
            seed=seed,
        )
        error.exitcode, error.signal, error.stack = code, name, stack
        self.error = error
        return error

    def late(self, row: int, seconds: float | None, phase: str, action: Any = None, seed: int | None = None) -> WorkerTimeout:
        """The error for a worker that did not answer in time."""
        stack = self.stack()
        error = WorkerTimeout(
            f"env {row} (worker {self.number}, pid {self.process.pid}) did not answer within {seconds} s in {phase}; "
            "call recv() to wait on, or close()"
            + (f"; last action {action!r:.80}" if action is not None else "")
            + (f"; last seed {seed}" if seed is not None else "")
            + (f"\n{stack}" if stack else ""),
            row=row,
            phase=phase,
            worker=self.number,
            pid=self.process.pid,
            action=action,
            seed=seed,
        )
        error.stack = stack
        return error

    def kill(self, number: int) -> None:
        """Signal the worker and everything it started."""
        pid = self.process.pid
        if pid is None or not self.process.is_alive():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def release(self) -> None:
        """Give every descriptor back. The process must be gone."""
        self.channel.close()
        for descriptor in {self._trace, self.liveness} - {getattr(self.process, "sentinel", None)}:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._trace = self.liveness = -1
        with contextlib.suppress(ValueError):
            self.process.close()


def close_workers(workers: list[Worker], timeout: float) -> None:
    """End all workers: ask, then SIGTERM, then SIGKILL, within `timeout` plus a second in all. Never raises."""
    farewell = pickle.dumps(("close",))
    for worker in workers:
        with contextlib.suppress(Exception):
            if worker.control is not None and not worker.channel.ended and _may_write(worker):
                worker.post(farewell)
            else:
                worker.channel.sock.shutdown(socket.SHUT_RDWR)
    _join(workers, timeout)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for worker in workers:
            with contextlib.suppress(Exception):
                worker.kill(number)
        _join(workers, _TERMINATE_SECONDS)
    for worker in workers:
        with contextlib.suppress(Exception):
            worker.release()
    workers.clear()


def _may_write(worker: Worker) -> bool:
    """Whether a short message can be sent without waiting for the worker to read."""
    return bool(select.select([], [worker.channel.sock], [], 0)[1])


def _join(workers: list[Worker], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    for worker in workers:
        with contextlib.suppress(Exception):
            while worker.process.is_alive() and time.monotonic() < deadline:
                worker.channel.drain()  # a worker that is still talking could otherwise never finish
                worker.process.join(min(0.02, max(0.0, deadline - time.monotonic())))


def _liveness(process: Any) -> int:
    """A descriptor that becomes readable when the process dies, even if children of it live on."""
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            return os.pidfd_open(process.pid)
    return process.sentinel


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Keep multiprocessing from running the user's script again in the child.

    Factories travel by cloudpickle, which carries what a script defines; so a script needs no `__main__` guard.
    """
    main_module = sys.modules.get("__main__")
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        if main_module is not None:
            sys.modules["__main__"] = main_module


def started_by_main_thread(context: Any) -> bool:
    """Whether the process that the kernel takes for the parent outlives this thread."""
    return context.get_start_method() == "forkserver" or threading.current_thread() is threading.main_thread()


def first_message(worker: Worker, deadline: float) -> Any:
    """The next message of a starting worker: its facts, or why it could not build its envs.

    Raises:
        EnvError: an env could not be built, the worker died, or the deadline passed.
    """
    while not worker.channel.inbox:
        left = deadline - time.monotonic()
        if left <= 0:
            raise worker.late(worker.start, None, "make")
        readable, _, _ = select.select([worker.channel.sock, worker.liveness], [], [], min(left, 1.0))
        worker.channel.drain()
        if worker.liveness in readable and not worker.channel.inbox:
            raise worker.died(worker.start, None, None)
    kind, *content = pickle.loads(worker.channel.inbox.popleft())
    if kind == "failed":
        row, fault = content
        assert isinstance(fault, Fault)
        raise fault.to_error(row, worker.number, worker.process.pid)
    return content[0]
