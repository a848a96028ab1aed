"""What runs in a Ray actor: a local engine over a part of the rows."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vecenv._batch.batch import Batch, Mail, Op, Rows
from vecenv._batch.columns import TRAVELLING
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Columns
from vecenv._batch.starts import UNWATCHED, WATCHED
from vecenv._util.cpus import usable_cpus
from vecenv.engines import Engine, SupportsCall, SupportsStates
from vecenv.engines.facts import EnvFacts
from vecenv.engines.pending import PendingRows
from vecenv.engines.process.sendable import picklable, sendable, sendable_mail
from vecenv.engines.python.copies import end_copies_of_this_thread
from vecenv.engines.python.restarts import end_episode, report_restart, seed_restart
from vecenv.errors import EnvError, EnvTimeout, SpaceError, WorkerError

Build = Callable[[], Engine]
"""Builds the engine of an actor."""


@dataclass(frozen=True)
class Place:
    """Where an actor runs: its process, its machine, Ray's id of that, and the processors it may use there."""

    pid: int
    node: str
    node_id: str
    processors: int


@dataclass(frozen=True)
class Seen:
    """The columns of some rows as the front received them last."""

    kept: dict[str, np.ndarray]
    obs: Columns

    @classmethod
    def of(cls, batch: Batch, rows: slice = slice(None)) -> Seen:
        kept = {name: getattr(batch, name)[rows].copy() for name in TRAVELLING}
        return cls(kept, [column[rows].copy() for column in batch.obs])


@dataclass(frozen=True)
class Built:
    """What the envs of an actor are, and empty columns of the infos that all of them have."""

    facts: list[EnvFacts]
    info: dict[str, np.ndarray]
    seen: Seen | None = None
    """Their columns, if they were reset already."""


@dataclass(frozen=True)
class LastSeen:
    """The columns of a lost actor's rows as they were received last, and why it is lost."""

    fault: Fault
    seen: Seen


@dataclass
class ActorRequest:
    """Ops of some rows, counted from the actor's first; None means all of them."""

    rows: Rows | None
    op: np.ndarray
    seed: np.ndarray
    given_seed: np.ndarray
    actions: Columns
    options: dict[int, Any] = field(default_factory=dict)
    raw_actions: dict[int, Any] = field(default_factory=dict)
    watched: bool = False
    """Whether the answer is to say how episodes began."""
    number: int = 0
    """Number of the request. One that may have been sent before an interrupt is sent again; the actor runs it once."""


@dataclass
class Answer:
    """What became of a request: the columns of its rows, in its order.

    Attributes:
        ended: positions where a ROLL ended an episode, so that `final_obs` and `final_info` are written.
        mail: by row, counted from the actor's first.
        dropped: what to warn of.
        seconds, cpu_seconds: time that the engine took, on the clock and on the processor.
        begun: how episodes began, by row: words of `_batch/starts.py`, or the state of a kernel.
    """

    kept: dict[str, np.ndarray]
    obs: Columns
    info: dict[str, np.ndarray]
    ended: np.ndarray
    final_obs: Columns
    final_info: dict[str, np.ndarray]
    mail: dict[int, Mail]
    dropped: list[str]
    seconds: float
    cpu_seconds: float
    begun: dict[int, Any]


class RowActor:
    """Holds an engine over rows `first`, `first + 1`, ... of a larger batch and runs what it is asked to.

    Args:
        build: a pickled function that builds the engine.
        path: where the driver finds modules; searched last.
        first: index of its first row among all.
        last_seen: columns of its rows, if they were in an actor before that was lost.
    """

    def __init__(self, build: bytes, path: list[str], first: int, last_seen: LastSeen | None = None) -> None:
        end_copies_of_this_thread()
        sys.path += [place for place in path if place not in sys.path]
        self._build = build
        self._first = first
        self._last_seen = last_seen
        self._engine: Any = None
        self._dropped: set[Any] = set()
        self._answered: tuple[int, Answer] | None = None
        """The latest request, by number, and its answer."""

    def hello(self) -> Place:
        """Answers as soon as the actor is placed."""
        import ray  # we are inside it

        node_id = ray.get_runtime_context().get_node_id()
        return Place(os.getpid(), socket.gethostname(), node_id, usable_cpus())

    def build(self) -> Built | tuple[int, Fault] | SpaceError:
        """Build the envs: what they are; or the index of the one that failed, and why."""
        try:
            self._engine = engine = self._start()
        except EnvError as error:
            return self._first + (error.row or 0), as_fault(error, self._first)
        except SpaceError as error:
            return SpaceError(f"{error} (counted from env {self._first})") if self._first else error
        except BaseException as error:  # it cannot be unpickled here, or a kernel cannot be compiled
            return self._first, Fault.of(error, "make")
        if self._last_seen is not None:
            self._engine = self._restarted(engine, self._last_seen)
        batch, facts = engine.batch, engine.facts
        envs = getattr(engine, "envs", None)
        same = EnvFacts(facts.single_observation_space, facts.single_action_space, facts.metadata, facts.render_mode)
        return Built(
            [same] * len(batch) if envs is None else [EnvFacts.of(env) for env in envs],
            {name: column[:0] for name, column in batch.info.items()},
        )

    def _restarted(self, engine: Engine, last_seen: LastSeen) -> RestartedEngine:
        return RestartedEngine(engine, last_seen, self._first)

    def run(self, request: ActorRequest) -> Answer:
        """Run the ops of some rows. The same request sent twice is run once."""
        if self._answered is None or self._answered[0] != request.number:
            self._answered = request.number, self._run(request)
        return self._answered[1]

    def _run(self, request: ActorRequest) -> Answer:
        started, cpu_started = time.perf_counter(), time.process_time()
        rows = self._send(request)
        faults = self._receive(rows)
        return self._answer(request, rows, faults, time.perf_counter() - started, time.process_time() - cpu_started)

    def _send(self, request: ActorRequest) -> Rows:
        """Write the columns of a request and send its rows, which are returned."""
        batch: Batch = self._engine.batch
        rows = np.arange(len(batch)) if request.rows is None else request.rows
        where: Any = slice(None) if request.rows is None else rows
        batch.op[where], batch.seed[where], batch.given_seed[where] = request.op, request.seed, request.given_seed
        for column, values in zip(batch.actions, request.actions, strict=True):
            column[where] = values
        batch.options.update(request.options)
        batch.raw_actions.update(request.raw_actions)
        batch.start_kind[where] = WATCHED if request.watched else UNWATCHED
        self._engine.send(rows)
        return rows

    def _answer(
        self, request: ActorRequest, rows: Rows, faults: dict[int, Fault], seconds: float, cpu_seconds: float
    ) -> Answer:
        """What became of a request whose rows were received, or have failed with `faults`."""
        batch: Batch = self._engine.batch
        where: Any = slice(None) if request.rows is None else rows
        rolled = (request.op == Op.ROLL) & (batch.terminated[where] | batch.truncated[where])
        ended = np.flatnonzero(rolled)
        mail = {row: batch.mail.pop(row) for row in rows.tolist() if row in batch.mail}
        mail.update((row, Mail(fault=fault)) for row, fault in faults.items())
        dropped = self._make_sendable(mail)
        return Answer(
            kept={name: getattr(batch, name)[where] for name in TRAVELLING},
            obs=[column[where] for column in batch.obs],
            info={name: column[where] for name, column in batch.info.items()},
            ended=ended,
            final_obs=[column[rows[ended]] for column in batch.final_obs],
            final_info={name: column[rows[ended]] for name, column in batch.final_info.items()},
            mail=mail,
            dropped=dropped,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            begun=self._begun(rows[request.op != Op.STEP]) if request.watched else {},
        )

    def call(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
        """Results of a call by row, counted from the actor's first; a Fault stands for a failed one."""
        return self._asked(lambda engine: engine.call(name, args, kwargs))

    def set_attr(self, name: str, values: list[Any]) -> dict[int, Any]:
        """Set an attribute of every env; a Fault stands for one that could not be set."""
        return self._asked(lambda engine: engine.set_attr(name, values) or [None] * len(values))

    def close(self) -> list[str]:
        """Close the envs. Returns what went wrong, for the user to be warned of."""
        if self._engine is None:
            return []
        with warnings.catch_warnings(record=True) as complaints:
            warnings.simplefilter("always")
            self._engine.close()
        where = f" (counted from env {self._first})" if self._first else ""
        return [f"{complaint.message}{where}" for complaint in complaints]

    def _start(self) -> Engine:
        build: Build = pickle.loads(self._build)
        return build()

    def _asked(self, ask: Callable[[SupportsCall], list[Any]]) -> dict[int, Any]:
        try:
            return {row: sendable(value) for row, value in enumerate(ask(self._engine))}
        except EnvError as error:
            return {error.row or 0: as_fault(error, self._first)}
        except BaseException as error:  # an env raised KeyboardInterrupt itself: Ctrl-C does not reach an actor
            return {0: Fault.of(error, "call")}

    def _receive(self, rows: Rows) -> dict[int, Fault]:
        """Wait for all rows; why some of them failed."""
        faults: dict[int, Fault] = {}
        left = set(rows.tolist())
        strange = 0
        while left:
            try:
                left.difference_update(self._engine.recv(len(left)).tolist())
            except EnvError as error:
                failed = left.intersection(error.rows)
                if not failed:
                    raise
                faults.update(dict.fromkeys(failed, as_fault(error, self._first)))
                left -= failed
            except BaseException as error:  # as in `_asked`; the next `recv` says which row it was
                strange += 1
                if strange > len(rows):
                    return {**faults, **dict.fromkeys(left, Fault.of(error, "step"))}
        return faults

    def _begun(self, rows: Rows) -> dict[int, Any]:
        """How the episodes of these rows began, if they did."""
        batch, engine = self._engine.batch, getattr(self._engine, "engine", self._engine)
        if isinstance(engine, SupportsStates):
            began = engine.just_begun(rows)
            states = engine.states_of(began)
            return {
                row: {name: np.array(column[place]) for name, column in states.items()}
                for place, row in enumerate(began.tolist())
            }
        return {row: batch.start[row].copy() for row in rows.tolist() if batch.start_kind[row] > WATCHED}

    def _make_sendable(self, mail: dict[int, Mail]) -> list[str]:
        """Remove from the infos what cannot be pickled; returns a warning for each key, once."""
        if not mail or picklable(mail):
            return []
        warnings: list[str] = []
        for row in mail:
            sent, _, texts = sendable_mail(mail[row], self._first + row, self._dropped, [])
            mail[row] = sent or Mail()
            warnings += texts
        return warnings


def as_fault(error: EnvError, first: int) -> Fault:
    """An error of an actor's engine as data, with rows counted among all envs."""
    rows = tuple(first + row for row in error.rows)
    if isinstance(error, (WorkerError, EnvTimeout)):
        error.row, error.rows = None if error.row is None else first + error.row, rows
        error.message += f" (counted from env {first})" if first else ""
        return replace(Fault.of(error, error.phase or "step", error=error), fault_class=error.fault_class)
    fault = Fault.of(error if error.__cause__ is None else error.__cause__, error.phase or "step", error.action)
    trace = error.remote_traceback or fault.traceback
    rows = rows if len(rows) > 1 else ()
    return replace(fault, seed=error.seed, traceback=trace, rows=rows, fault_class=error.fault_class)


class RestartedEngine:
    """An engine in place of one that was lost with its actor: the first op of each row reports the lost episode.

    A STEP or ROLL comes back truncated, with reward 0 and the observation that was seen last; a RESET begins an
    episode. `info["fault"]` says why. `RowRunner` does the same for the rows of a process that died.
    """

    def __init__(self, engine: Engine, last_seen: LastSeen, first: int) -> None:
        self.name, self.batch, self.facts = engine.name, engine.batch, engine.facts
        self.engine: Any = engine
        self._first = first
        self._lost = dict.fromkeys(range(len(self.batch)), last_seen.fault)
        self._reporting: dict[int, tuple[int, Fault, float, int]] = {}
        """Rows of this exchange that were lost: op, why, return and length of the episode."""
        self._pending = PendingRows(len(self.batch))
        self._last_obs = last_seen.seen.obs
        for name, column in last_seen.seen.kept.items():
            getattr(self.batch, name)[...] = column
        for column, seen in zip(self.batch.obs, last_seen.seen.obs, strict=True):
            column[...] = seen

    def send(self, rows: Rows) -> None:
        for row in rows.tolist() if self._lost else ():
            if row in self._lost:
                self._begin(row, self._lost.pop(row))
        self._pending.open(rows)
        inner = rows[self.batch.op[rows] != Op.IDLE]
        if len(inner):
            self.engine.send(inner)

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        inner = self.engine.pending()
        try:
            if len(inner):
                self.engine.recv(len(inner), timeout)
        except EnvError as error:
            self._pending.give_back(np.intersect1d(error.rows, self._pending.rows()))
            raise
        rows = self._pending.rows()
        for row in self._reporting.keys() & set(rows.tolist()):
            self._report(row, *self._reporting[row])
        self._reporting = {}
        self._pending.give_back(rows)
        return rows

    def pending(self) -> Rows:
        return self._pending.rows()

    def call(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        return self.engine.call(name, args, kwargs, timeout)

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        self.engine.set_attr(name, values, timeout)

    def close(self, timeout: float = 5.0) -> None:
        self.engine.close(timeout)

    def _begin(self, row: int, fault: Fault) -> None:
        batch, op = self.batch, int(self.batch.op[row])
        going_on = not (batch.terminated[row] or batch.truncated[row])  # else the totals are of the episode before
        total, length = float(batch.episode_return[row]), int(batch.episode_length[row])
        self._reporting[row] = op, fault, total * going_on, length * going_on
        seed_restart(batch, row, self._first + row)
        batch.op[row] = Op.IDLE if op == Op.STEP else Op.RESET

    def _report(self, row: int, op: int, fault: Fault, total: float, length: int) -> None:
        batch = self.batch
        batch.op[row] = op
        mail = batch.mail.get(row) or Mail()
        another = fault.error is not None and fault.error.row not in (None, self._first + row)
        report_restart(batch, row, self._first + row, replace(fault, another=another), mail.info)
        end_episode(batch, row, self._last_obs)
        if op == Op.ROLL:
            batch.episode_return[row], batch.episode_length[row] = total, length
