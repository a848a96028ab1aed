"""Worker processes as the parent sees them: waking them, explaining their errors, ending them."""

from __future__ import annotations

import _thread
import contextlib
import os
import pickle
import queue
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from vecenv._batch.faults import Fault
from vecenv._batch.memory import out_of_memory_kills
from vecenv._util.signals import WRITE_STACK, handles, signal_name
from vecenv.engines.process.channel import Channel, wait
from vecenv.engines.process.child import Assignment, main
from vecenv.engines.process.launch import start
from vecenv.engines.process.reaper import REAPER
from vecenv.engines.process.shared import CLOSING, MESSAGES, PARKED, RINGS, Control, fence
from vecenv.errors import EnvError, Phase, WorkerDied, WorkerTimeout

_TERMINATE_SECONDS = 0.5
_DYING_SECONDS = 1.0
_LOOK_UP_SECONDS = 0.1
_UNKNOWN_CODE = 255
"""Exit code of a process whose own is lost; also multiprocessing's."""
_STACK_SECONDS = 1.0
"""A worker that shows no stack in this time, on a busy machine, will not."""
_LATE = "recv() waits on, reset() kills its worker and starts it again"
_DIED = "reset() starts it again"


class Worker:
    """One worker process, as the parent sees it.

    Args:
        started: list that the worker is added to before its process is started, so that an interrupt cannot lose it.

    Attributes:
        mails_read: messages taken from it, to compare with its MAILS word.
        error: why it is gone, once it is.
        given_up: its rows were given back, and a reset of them starts it again.
        hung: why we killed it, if we did because it was late.
        unreachable: we killed it because no message could be sent to it or read from it.
        status_lost: it has ended, and how it did is not known.
    """

    def __init__(self, context: Any, assignment: Assignment, started: list[Worker]) -> None:
        self.number = assignment.number
        self.start, self.stop = assignment.bounds[assignment.number]
        self.mails_read = 0
        self.error: WorkerDied | None = None
        self.given_up = False
        self.hung: EnvError | None = None
        self.check_open: Callable[[], None] = lambda: None
        """Raises ClosedError when the workers are being closed, so that no call waits for this one."""
        self.unreachable = False
        self.status_lost = False
        self.control: Control | None = None
        self.current: Any = None
        """One word: the row it is at, counted from its first, or -1."""
        self._open: list[int] = []
        """Descriptors that are this worker's own: of its stack, and of its liveness."""
        self.liveness = -1
        self._mark = REAPER.new_mark()
        assignment = replace(assignment, mark=self._mark)
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, blocking=False)
        self.process = context.Process(target=main, args=(theirs, assignment), name=f"vecenv-worker-{self.number}")
        self.process.daemon = True  # or multiprocessing would wait for it at exit before anybody could close it
        started.append(self)
        try:
            if hasattr(os, "memfd_create"):
                _open(self._open, os.memfd_create, "vecenv-trace")
            else:
                _open(self._open, partial(os.open, flags=os.O_RDWR), os.devnull)
            start(self.process, context)
            self.channel.send_descriptors(self._open)
            self.liveness = self._liveness()
        except BaseException:  # an interrupt: a process that has started ends with the socket
            close_workers([self], 0.0)
            started.remove(self)
            raise
        finally:
            theirs.close()
        self._asked_at = time.monotonic()
        """When it was last asked for something: first to build its envs."""
        self._memory_kills = out_of_memory_kills()
        REAPER.watch(self.process.pid)

    def _liveness(self) -> int:
        """A descriptor that becomes readable when the process dies, even if children of it live on."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                _open(self._open, os.pidfd_open, self.process.pid)
                return self._open[-1]
        return self.process.sentinel

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(range(self.start, self.stop))

    def descriptors(self) -> tuple[int, ...]:
        """What a forked sibling inherits of this worker and must close."""
        return (self.channel.fileno(), self.liveness, *self._open)

    def ring(self) -> None:
        """Wake the worker: it was asked for something."""
        assert self.control is not None
        parent = self.control.parent
        self._asked_at = time.monotonic()
        parent[RINGS] += 1
        fence()
        if self.control.worker[PARKED]:
            self.channel.wake()

    def post(self, payload: bytes) -> None:
        """Send a message. The counter goes first, so that a spinning worker reads while we write."""
        assert self.control is not None
        parent, framed = self.control.parent, self.channel.frame(payload)
        self._asked_at = time.monotonic()
        # No call between these lines: a signal handler must not separate the counter from the message.
        parent[MESSAGES] += 1
        parent[RINGS] += 1
        self.channel.unsent += framed
        self.channel.flush()

    def stack(self) -> str:
        """The Python stack of the worker: what a crash left, or a fresh dump of a living one."""
        trace = self._open[0]
        before = os.fstat(trace).st_size
        if _is_alive(self):
            if not WRITE_STACK or not handles(self.process.pid, WRITE_STACK):
                return ""  # it is not that far yet, or its env took the handler away: the signal would kill it
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, WRITE_STACK)
            deadline = time.monotonic() + _STACK_SECONDS
            size = before
            while time.monotonic() < deadline and (size == before or size != os.fstat(trace).st_size):
                size = os.fstat(trace).st_size
                time.sleep(0.02)
        else:
            before = 0
        return os.pread(trace, 64_000, before).decode(errors="replace")

    def died(self, row: int, phase: Phase, action: Any, seed: int | None) -> WorkerDied:
        """The error that explains why the process is gone. `row` is the env it was at."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # or children would keep its descriptors open
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join(1.0)
        elapsed = time.monotonic() - self._asked_at
        code = None if self.status_lost else self.process.exitcode
        name = signal_name(-code) if code is not None and code < 0 else None
        stack = self.stack()
        how = f"by {name}" if name else "with an unknown exit code" if code is None else f"with exit code {code}"
        error = WorkerDied(
            f"worker {self.number} (pid {self.process.pid}) died {how} while at env {row}, {elapsed:.3g} s into its "
            f"{phase}; it held envs {self.start} to {self.stop - 1}; {self._why(name, code)}; {_DIED}"
            + _context(action, seed, stack),
            row=row,
            rows=self.rows,
            phase=phase,
            worker=self.number,
            pid=self.process.pid,
            action=action,
            seed=seed,
        )
        error.exitcode, error.signal, error.stack, error.elapsed = code, name, stack, elapsed
        error._advice = _DIED
        return error

    def _why(self, name: str | None, code: int | None) -> str:
        """What is known or likely about a death by this signal, or with this exit code, in words."""
        if self.unreachable:
            return f"it was killed because it could not be reached ({self.channel.failure or 'broken pipe'})"
        if code is None:
            return "the system did not say why: SIGCHLD is ignored here, or other code waits for all child processes"
        if name == "SIGKILL":
            kills = out_of_memory_kills()
            if kills is None or self._memory_kills is None:
                return "was it the out-of-memory killer?"
            if kills > self._memory_kills:
                return (
                    "the kernel's out-of-memory killer has struck meanwhile: use fewer envs or workers, or smaller ones"
                )
            return "the kernel's out-of-memory killer did not kill it; another process did"
        return {
            "SIGSEGV": "native code of the env crashed, see the stack",
            "SIGABRT": "native code of the env aborted, see the stack",
            "SIGBUS": "native code of the env touched memory that is not there, see the stack",
            None: "the env or a library of it ended the process, see what it printed",
        }.get(name, "see what the env printed")

    def late(
        self, row: int, seconds: float | None, phase: Phase, action: Any = None, seed: int | None = None
    ) -> WorkerTimeout:
        """The error for a worker that did not answer in time."""
        elapsed = time.monotonic() - self._asked_at
        stopped = _is_stopped(self.process.pid)
        stack = "" if stopped else self.stack()
        advice = "start_timeout= gives it more time" if phase == "make" else _LATE
        if stopped:
            advice = f"`kill -CONT {self.process.pid}` lets it go on; {advice}"
        error = WorkerTimeout(
            f"env {row} (worker {self.number}, pid {self.process.pid}) did not answer within {seconds} s in {phase}; "
            + ("its process is stopped; " if stopped else "")
            + advice
            + _context(action, seed, stack),
            row=row,
            phase=phase,
            worker=self.number,
            pid=self.process.pid,
            action=action,
            seed=seed,
        )
        error.stack, error.elapsed, error._advice = stack, elapsed, advice
        return error

    def kill(self, number: int) -> None:
        """Signal the worker and everything it started."""
        pid = self.process.pid
        if pid is None or not _is_alive(self):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def release(self) -> None:
        """Give every descriptor back. The process must be gone. May be called again, after an interrupt."""
        self.channel.close()
        self.liveness = -1
        _close(self._open)
        with contextlib.suppress(ValueError):
            REAPER.forget(self.process.pid, self._mark, ended_well=self.process.exitcode == 0)
        with contextlib.suppress(ValueError):
            self.process.close()


def close_workers(workers: list[Worker], timeout: float) -> list[str]:
    """End all workers: ask, then SIGTERM, then SIGKILL, within `timeout` plus a second in all. Never raises.

    After Ctrl-C it may be called again with the same list, and does what is left to do.

    Returns what went wrong in the envs' own `close`, for a warning.
    """
    close_message = pickle.dumps(("close",))
    for worker in workers:
        if worker.control is None or not _post(worker, close_message):
            with contextlib.suppress(Exception):
                worker.channel.sock.shutdown(socket.SHUT_RDWR)
    _join(workers, timeout)
    complaints = [complaint for worker in workers for complaint in _complaints(worker, timeout)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for worker in workers:
            with contextlib.suppress(Exception):
                worker.kill(number)
        _join(workers, _TERMINATE_SECONDS)
    _release_all(list(workers))
    workers.clear()
    return complaints


def _release_all(workers: list[Worker]) -> None:
    """Give back what the workers used, in a thread: no signal handler raises there, as it would in multiprocessing.

    That closes pipes which it has already forgotten, so that an interrupt in between would leave them open for ever.
    """
    done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def release() -> None:
        for worker in workers:
            with contextlib.suppress(Exception):
                worker.release()
        done.put(None)

    try:
        _thread.start_new_thread(release, ())  # an interrupt in `Thread.start` would keep that thread from ending
    except RuntimeError:  # the interpreter is ending
        release()
    done.get()


def _complaints(worker: Worker, timeout: float) -> list[str]:
    """Errors of a worker while it closed its envs, and the env whose close() does not return."""
    with contextlib.suppress(Exception):
        worker.channel.drain()
        messages = [pickle.loads(message) for message in worker.channel.inbox]
        complaints = [complaint for kind, *content in messages if kind == "closed" for complaint in content[0]]
        at = -1 if worker.control is None or not worker.control.worker[CLOSING] else int(worker.current[0])
        if at >= 0 and _is_alive(worker):  # not if all are closed, and it is the process that takes long to end
            complaints.append(
                f"env {worker.start + at} did not close within {timeout} s; its worker {worker.number} was killed"
            )
        return complaints
    return []


def _post(worker: Worker, message: bytes) -> bool:
    """Send a short message, if that is possible without waiting for the worker to read."""
    with contextlib.suppress(Exception):  # a BufferError, if a signal handler closes in the middle of a message
        if not worker.channel.broken and wait([], [worker.channel.fileno()], 0.0):
            worker.post(message)
            return True
    return False


def _join(workers: list[Worker], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    alive = workers
    while alive := [worker for worker in alive if _is_alive(worker)]:
        for worker in alive:
            with contextlib.suppress(Exception):  # as in `_post`
                worker.channel.drain()  # a worker that is still talking could otherwise never finish
                worker.channel.flush()
        left = deadline - time.monotonic()
        if left <= 0:
            return
        alive[0].process.join(min(0.02, left))


def _is_alive(worker: Worker) -> bool:
    """Whether the process has not ended, for sure."""
    try:
        if not worker.process.is_alive():
            return False
    except ValueError:  # it is closed
        return False
    handle: Any = worker.process._popen  # type: ignore[attr-defined]  # there is no public way
    if handle is None:  # another thread closed it just now
        return False
    if handle.method == "forkserver" or worker.liveness < 0 or not wait([worker.liveness], [], 0.0):
        return True
    if handle.poll() is None:
        # SIGCHLD is ignored, others waited for it, or Ctrl-C came between the system's answer and the note of it.
        worker.status_lost = True
        handle.returncode = _UNKNOWN_CODE
    return False


def _open(descriptors: list[int], opening: Callable[[Any], int], what: Any) -> None:
    """Open a descriptor and list it. In one C call: an interrupt in between would leave it open for ever."""
    descriptors.extend(map(opening, (what,)))


def _close(descriptors: list[int]) -> None:
    """Close what is listed. In one C call: after an interrupt in between, another's descriptor would be closed."""
    while descriptors:
        with contextlib.suppress(IndexError, OSError):  # there are no more, or one is closed already
            any(map(os.close, iter(descriptors.pop, None)))


def _context(action: Any, seed: int | None, stack: str) -> str:
    """The end of an error's text: what led to it, and where the worker was."""
    return (
        ("" if action is None else f"; last action {action!r:.80}")
        + ("" if seed is None else f"; last seed {seed}")
        + (f"\n{stack}" if stack else "")
    )


def _is_stopped(pid: int) -> bool:
    """Whether the process was stopped by a signal; it could not even show its stack."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except OSError:
        return False


def cut_off(worker: Worker) -> bool:
    """Whether a worker can no longer be talked to. It is dying; one that is not after a second is killed."""
    if not worker.channel.ended and not worker.channel.broken:
        return False
    if not wait([worker.liveness], [], _DYING_SECONDS):
        worker.unreachable = True
        worker.kill(signal.SIGKILL)
    return True


def first_message(worker: Worker, deadline: float) -> Any:
    """The next message of a starting worker: its facts, or why it could not build its envs.

    Raises:
        EnvError: an env could not be built, the worker died, or the deadline passed.
        SpaceError: a factory returned something else than a new env.
        ClosedError: another thread or a signal handler closes the workers.
    """
    started = time.monotonic()
    while not worker.channel.inbox:
        worker.check_open()
        left = deadline - time.monotonic()
        if left <= 0:
            raise worker.late(worker.start, round(time.monotonic() - started, 1), "make")
        channel = worker.channel
        readable = wait(
            [channel.fileno(), worker.liveness],
            [channel.fileno()] if channel.unsent else [],
            min(left, _LOOK_UP_SECONDS),
        )
        channel.flush()
        channel.drain()
        if (worker.liveness in readable or cut_off(worker)) and not worker.channel.inbox:
            raise worker.died(worker.start, "make", None, None)
    kind, *content = pickle.loads(worker.channel.inbox.popleft())
    if kind == "refused":
        raise content[0]
    if kind == "failed":
        row, fault = content
        assert isinstance(fault, Fault)
        fault.elapsed = time.monotonic() - started
        raise fault.to_error(row, worker.number, worker.process.pid)
    return content[0]
