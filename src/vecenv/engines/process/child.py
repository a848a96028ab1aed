"""What runs in a worker process of the process engine. Imports nothing heavy."""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from typing import Any

import gymnasium

from vecenv._batch.batch import Mail
from vecenv._batch.faults import Fault, OnError
from vecenv._batch.layout import Layout
from vecenv._batch.memory import SharedMemory
from vecenv._util.descriptors import open_standard_descriptors
from vecenv._util.forks import only_here
from vecenv._util.signals import WRITE_STACK
from vecenv.engines.facts import EnvFacts
from vecenv.engines.process.channel import Channel
from vecenv.engines.process.ledger import WorkerLedger
from vecenv.engines.process.reaper import MARK
from vecenv.engines.process.sendable import dumps, is_plain, sendable, sendable_mail
from vecenv.engines.process.shared import (
    CLOSING,
    EAGER,
    MAILS,
    MESSAGES,
    PARKED,
    RINGS,
    WAITING,
    WORKER_SPIN_SECONDS,
    SharedBlock,
    fence,
    spin,
)
from vecenv.engines.python.copies import NoCopies, end_copies_of_this_thread
from vecenv.engines.python.envs import Factory, build_envs
from vecenv.engines.python.runner import RowRunner
from vecenv.errors import EnvError, SpaceError

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
"""Loaded by the fork server already."""
_PARKED_MILLISECONDS = 1000
"""A parked worker looks up this often, should a wake-up ever be lost."""


@dataclass(frozen=True)
class Assignment:
    """What a worker is given when it starts.

    Attributes:
        factories: the env factories themselves (fork), or their cloudpickle.
        foreign: descriptors inherited by fork that belong to the parent or to other workers.
        mark: by which the reaper finds processes that the envs started.
    """

    number: int
    bounds: list[tuple[int, int]]
    factories: Sequence[Factory] | bytes
    on_error: OnError
    origin: int = 0
    foreign: tuple[int, ...] = ()
    mark: str = ""

    def env_fns(self) -> Sequence[Factory]:
        """The env factories themselves."""
        return pickle.loads(self.factories) if isinstance(self.factories, bytes) else self.factories


@dataclass(frozen=True)
class Attachment:
    """The second message to a worker, once spaces are known: the block, and why its rows were lost, if they were."""

    size: int
    observation: Any
    action: Any
    lost: dict[int, Fault]


def main(sock: socket.socket, assignment: Assignment) -> None:
    """Build the envs, report their spaces, attach to the shared block and serve until the parent says close."""
    end_copies_of_this_thread()
    open_standard_descriptors()
    _leave_the_terminal(assignment)
    channel = Channel(sock, blocking=True)
    (trace,) = channel.receive_descriptors(1)
    faulthandler.enable(file=trace, all_threads=True)
    if WRITE_STACK:
        faulthandler.register(WRITE_STACK, file=trace, all_threads=False, chain=False)
    try:
        envs = _build(channel, assignment)
        if envs is not None:
            _attach(channel, assignment, envs).serve()
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass  # the parent is gone
    except BaseException as error:  # not caused by an env: the parent reads it from the trace
        os.write(trace, Fault.of(error, "step").traceback.encode(errors="backslashreplace"))
        sys.exit(1)
    finally:
        channel.close()


def _leave_the_terminal(assignment: Assignment) -> None:
    """Let Ctrl-C reach the parent alone, and let the worker die with the parent, even inside a hung env."""
    # A process group of its own, but no session: Linux schedules sessions apart, and then sched_yield has no effect.
    os.setpgid(0, 0)
    os.environ[MARK] = assignment.mark
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # envs may have children
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held back since the process was spawned
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork inherits the handlers of the parent
    signal.set_wakeup_fd(-1)
    for descriptor in (*assignment.foreign, *_fork_server_lifeline()):
        try:
            os.close(descriptor)
        except OSError:
            continue
    parent = multiprocessing.parent_process()
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None:
        threading.Thread(target=_exit_with_parent, args=(parent,), name="vecenv-lifeline", daemon=True).start()


def _fork_server_lifeline() -> tuple[int, ...]:
    """What keeps the fork server alive: only the parent may hold it, or a hung worker would outlive it."""
    server: Any = forkserver._forkserver  # there is no public way
    if server._forkserver_alive_fd is None or server._forkserver_pid is not None:
        return ()
    descriptor, server._forkserver_alive_fd = server._forkserver_alive_fd, None
    return (descriptor,)


def _exit_with_parent(parent: Any) -> None:
    """Exit as soon as the parent is gone. The kernel's signal alone is not enough under a fork server."""
    if WRITE_STACK:
        signal.pthread_sigmask(signal.SIG_BLOCK, {WRITE_STACK})  # which is for the thread that runs the envs
    parent.join()
    os._exit(1)


def _build(channel: Channel, assignment: Assignment) -> list[gymnasium.Env[Any, Any]] | None:
    first, _ = assignment.bounds[assignment.number]
    try:
        with NoCopies():
            envs = build_envs(assignment.env_fns(), first, (BaseException,))  # Ctrl-C does not reach a worker
            ready = dumps(("ready", [EnvFacts.of(env) for env in envs]))
        channel.send_bytes(ready)
        return envs
    except EnvError as error:
        row = first if error.row is None else error.row
        fault = Fault.of(error if error.__cause__ is None else error.__cause__, "make")
    except SpaceError as error:  # no env raised it: what a factory returned is wrong
        channel.send(("refused", error))
        return None
    except BaseException as error:
        row, fault = first, Fault.of(error, "make")
    channel.send_bytes(dumps(("failed", row, fault)))
    return None


def _attach(channel: Channel, assignment: Assignment, envs: list[gymnasium.Env[Any, Any]]) -> Server:
    (descriptor,) = channel.receive_descriptors(1)
    attachment: Attachment = pickle.loads(channel.receive_bytes())
    memory = SharedMemory(descriptor, attachment.size)
    memory.close_descriptor()
    block = SharedBlock.map(memory, Layout(attachment.observation), Layout(attachment.action), assignment.bounds)
    return Server(channel, block, assignment, attachment, envs)


class Server:
    """Runs the rows that the parent asks for, and answers its calls."""

    def __init__(
        self,
        channel: Channel,
        block: SharedBlock,
        assignment: Assignment,
        attachment: Attachment,
        envs: list[gymnasium.Env[Any, Any]],
    ) -> None:
        start, stop = assignment.bounds[assignment.number]
        self._channel = channel
        self._control = block.control(assignment.number)
        self._ledger = WorkerLedger(block.requests[start:stop], block.answers[start:stop], self._control.worker)
        self._batch = block.batch.rows(start, stop)
        self._runner = RowRunner(
            envs,
            self._batch,
            block.clocks[assignment.number],
            first=start,
            origin=assignment.origin,
            factories=assignment.env_fns(),
            on_error=assignment.on_error,
            lost=attachment.lost,
            watched=True,
            here=only_here(),
        )
        self._everyone = self._ledger.everyone
        self._messages_read = 0
        self._waited = 0.0
        """How long the worker was parked last. After a long wait the next one does not begin with spinning."""
        self._unsendable: set[str] = set()
        self._open = True

    def serve(self) -> None:
        """Run rows and answer calls until the parent says close or is gone."""
        ring = 0
        self._channel.send(("attached", None))
        try:
            while self._open:
                self._wait(ring)
                ring = self._control.parent[RINGS]
                rows = self._ledger.asked()
                # Only now: what a row needs beyond its columns was posted before it was asked for. A row that is asked
                # for meanwhile rings again.
                while self._messages_read < self._control.parent[MESSAGES] and self._open:
                    self._handle(self._channel.receive_bytes())
                if rows and self._open:
                    self._run(rows)
        finally:
            self._close_envs()

    def _close_envs(self) -> None:
        self._control.worker[CLOSING] = 1
        complaints = self._runner.close(BaseException)
        if complaints:
            self._channel.send(("closed", complaints))

    def _wait(self, ring: int) -> None:
        """Return when the doorbell was rung since `ring`: spin for a while, then park."""
        parent, worker = self._control.parent, self._control.worker
        started = time.perf_counter()
        if self._waited < WORKER_SPIN_SECONDS and spin(parent, RINGS, ring, WORKER_SPIN_SECONDS):
            return
        worker[PARKED] = 1
        fence()
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        while parent[RINGS] == ring and self._open:
            if poll.poll(_PARKED_MILLISECONDS):
                message = self._channel.consume_wake()
                if message is not None:
                    self._handle(message)
        worker[PARKED] = 0
        self._waited = time.perf_counter() - started

    def _run(self, rows: list[int]) -> None:
        if self._control.parent[EAGER]:
            for row in rows:
                self._runner.run_whatever_happens([row])
                self._publish([row], slice(row, row + 1))
        else:
            self._runner.run_whatever_happens(rows)
            self._publish(rows, ... if rows is self._everyone else rows)

    def _publish(self, rows: list[int], index: Any) -> None:
        """Hand rows back: first their mail, then the answers, then the wake-up."""
        if self._batch.mail or self._batch.observation_layout.by_value:
            mail = self._collect_mail(rows)
            if mail:
                self._send_mail(mail)
        self._ledger.answer(index, len(rows))
        fence()
        if self._control.parent[WAITING]:
            self._channel.wake()

    def _collect_mail(self, rows: list[int]) -> dict[int, tuple[Mail | None, list[Any]]]:
        """Per row its mail and the values of leaves that have no column of their own."""
        mailbox, by_value = self._batch.mail, self._batch.observation_layout.by_value
        if by_value:
            return {row: (mailbox.pop(row, None), self._objects(row)) for row in rows}
        found: dict[int, tuple[Mail | None, list[Any]]] = {row: (mailbox[row], []) for row in rows if row in mailbox}
        mailbox.clear()
        return found

    def _objects(self, row: int) -> list[Any]:
        leaves = self._batch.observation_layout.by_value
        return [(self._batch.obs[leaf][row], self._batch.final_obs[leaf][row]) for leaf in leaves]

    def _send_mail(self, mail: dict[int, tuple[Mail | None, list[Any]]]) -> None:
        try:
            payload = self._pickled_mail(mail)
        except BaseException:  # objects of an env's own can raise anything
            mail = {row: self._sendable_mail(row, *content) for row, content in mail.items()}
            try:
                payload = self._pickled_mail(mail)
            except BaseException as error:  # they were pickled a moment ago
                payload = self._pickled_mail(dict.fromkeys(mail, (Mail(fault=Fault.of(error, "step")), [])))
        self._send_payload(payload)

    def _pickled_mail(self, mail: dict[int, tuple[Mail | None, list[Any]]]) -> bytes:
        """Of all rows. What may raise when it is unpickled is pickled by itself, so that it fails its row alone."""
        first, tickets = self._runner.first, self._ledger.requests
        parts = {
            first + row: (int(tickets[row]), content if is_plain(*content) else dumps(content))
            for row, content in mail.items()
        }
        return dumps(("mail", parts))

    def _send_payload(self, payload: bytes) -> None:
        self._channel.send_bytes(payload)
        self._control.worker[MAILS] += 1

    def _sendable_mail(self, row: int, mail: Mail | None, objects: list[Any]) -> tuple[Mail | None, list[Any]]:
        mail, objects, dropped = sendable_mail(mail, self._runner.first + row, self._unsendable, objects)
        for text in dropped:
            self._send_payload(dumps(("dropped", text)))
        return mail, objects

    def _handle(self, payload: bytes) -> None:
        self._messages_read += 1
        kind, *content = pickle.loads(payload)
        if kind == "close":
            self._open = False
        elif kind == "extras":
            options, raw_actions, actions = content
            self._batch.options.update(options)
            self._batch.raw_actions.update(raw_actions)
            for leaf, values in actions.items():
                for row, value in values.items():
                    self._batch.actions[leaf][row] = value
        else:
            self._answer_call(kind, *content)

    def _answer_call(self, kind: str, ticket: int, name: str, *content: Any) -> None:
        try:
            results = self._ask_envs(kind, name, *content)
        except BaseException as error:  # an env raised KeyboardInterrupt itself: Ctrl-C does not reach a worker
            at = max(0, int(self._runner.clocks.current[0]))
            results = {**dict.fromkeys(self._everyone), at: Fault.of(error, "call")}
        results = {self._runner.first + row: sendable(value) for row, value in results.items()}
        try:
            payload = dumps(("reply", ticket, results))
        except BaseException as error:  # they were pickled a moment ago
            payload = dumps(("reply", ticket, dict.fromkeys(results, Fault.of(error, "call"))))
        self._send_payload(payload)

    def _ask_envs(self, kind: str, name: str, *content: Any) -> dict[int, Any]:
        if kind == "call":
            args, kwargs = content
            return self._runner.call(self._everyone, name, args, kwargs)
        (values,) = content
        return self._runner.set_attr(name, values)
