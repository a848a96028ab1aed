"""A backend without processes: the real front of the process engine, and workers that a seeded scheduler lets run.

A worker is a generator that yields between any two of its operations. Whenever the front touches its backend (a control
word, a ticket, the clock, a channel) the scheduler may let workers run, kill one, break a channel, or interrupt the
front as Ctrl-C would. Time is virtual. Everything follows from the seed.
"""

from __future__ import annotations

import pickle
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv._batch.batch import Mail, Op
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Layout
from vecenv.engines.facts import EnvFacts
from vecenv.engines.process.ledger import WorkerLedger
from vecenv.engines.process.shared import EAGER, FINISHED, MAILS, MESSAGES, PARKED, RINGS, WAITING, Control, SharedBlock
from vecenv.errors import WorkerDied, WorkerError, WorkerTimeout

FACTS = EnvFacts(
    spaces.Box(-(2**62), 2**62, (3,), np.int64), spaces.Box(-(2**62), 2**62, (1,), np.int64), {}, render_mode=None
)
_TICK = 1e-5
_MOST_TURNS = 30_000


class Stuck(BaseException):
    """The front waits for ever. Not an Exception, so that nobody handles it."""


def talks(token: int) -> bool:
    """Whether a row that was sent with this token has an info."""
    return token % 3 == 0


def fails(token: int) -> bool:
    """Whether a row that was sent with this token raises."""
    return token % 13 == 0


class Memory:
    """One block in this process; whoever maps it gets the same arrays."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.descriptor, self.size = -1, 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        self.arrays.append(np.zeros(shape, dtype))
        return self.arrays[-1]

    def again(self) -> Any:
        arrays = iter(self.arrays)
        return SimpleNamespace(array=lambda shape, dtype: next(arrays))

    def close_descriptor(self) -> None:
        pass


class Words:
    """Control words as the front sees them: others may run before each look."""

    def __init__(self, row: np.ndarray, backend: ProcessBackend) -> None:
        self._row, self._backend = memoryview(row), backend

    def __getitem__(self, index: int) -> int:
        self._backend.turn()
        return self._row[index]

    def __setitem__(self, index: int, value: int) -> None:
        self._row[index] = value


class Tickets(np.ndarray):
    """Answers as the front sees them: others may run before each look."""

    backend: ProcessBackend

    def __array_finalize__(self, other: Any) -> None:
        self.backend = getattr(other, "backend", None)

    def __eq__(self, other: Any) -> Any:
        if self.backend is not None:
            self.backend.turn()
        return np.asarray(self) == np.asarray(other)


class ProcessBackend:
    """A backend that a seed decides.

    Attributes:
        calm: nothing bad happens any more.
        deaths, breaks, failures, drops: bad luck that is left: workers that die, channels that break, starts that
            fail, wake-ups that are lost.
        interrupts: the next call of the front that could be interrupted is, after this many; None: never.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calm = False
        self.deaths, self.breaks, self.failures, self.drops = (self.random.randrange(4) for _ in range(4))
        self.interrupts: int | None = None
        self.now = 0.0
        self.turns = 0
        self.alive: list[SimWorker] = []
        self.waiting = 0
        self.generations: dict[int, int] = {}
        self._descriptors = 100
        self._inside = False
        self._bias = self.random.choice([0.05, 0.3, 0.8])

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """The front has touched something: others may run now."""
        self.turns += 1
        if self.turns > _MOST_TURNS:
            raise Stuck(f"nothing came of {self.turns} turns")
        chance = self.random.random
        while chance() < self._bias:
            self.run_one()

    def point(self) -> None:
        """The front has made a call: others may run, and a signal handler may raise."""
        self.turn()
        if self.interrupts is not None:
            self.interrupts -= 1
            if self.interrupts < 0:
                self.interrupts = None
                raise KeyboardInterrupt

    def run_one(self) -> bool:
        """Let one worker do one thing, or let something bad happen. False if no worker can run."""
        able = [worker for worker in self.alive if worker.can_run()]
        if not self.calm and self.alive and self.random.random() < 0.01:
            self._bad_luck(self.random.choice(self.alive))
        if not able:
            return False
        self.random.choice(able).run()
        return True

    def _bad_luck(self, worker: SimWorker) -> None:
        if self.deaths and self.random.random() < 0.7:
            self.deaths -= 1
            worker.die()
        elif self.breaks:
            self.breaks -= 1
            if self.random.random() < 0.5:
                worker.channel.ended = True
            else:
                worker.channel.broken = True

    def unlucky(self, what: str) -> bool:
        """Whether this goes wrong now."""
        left = getattr(self, what)
        if self.calm or not left or self.random.random() < 0.7:
            return False
        setattr(self, what, left - 1)
        return True

    def descriptor(self) -> int:
        self._descriptors += 1
        return self._descriptors

    # --- what the engine asks of it ----------------------------------------------------------------------------------

    def clock(self) -> float:
        self.point()
        self.now += _TICK
        return self.now

    def yield_cpu(self) -> None:
        self.point()
        self.run_one()

    def pause(self, seconds: float) -> None:
        self.point()
        self.now += seconds

    def reserve(self, size: int, purpose: Any) -> Any:
        self.memory = Memory()
        return self.memory

    def control(self, block: SharedBlock, number: int) -> Control:
        return Control(Words(block.parent[number], self), Words(block.worker[number], self))  # type: ignore[arg-type]

    def start(self, assignment: Any, siblings: Sequence[Any]) -> Any:
        self.point()
        rows = tuple(range(*assignment.bounds[assignment.number]))
        if siblings and len(siblings) == len(assignment.bounds) and self.unlucky("failures"):
            raise WorkerError("no more processes", row=rows[0], rows=rows, phase="make")
        worker = SimWorker(self, assignment)
        self.alive.append(worker)
        return worker

    def _hear(self, worker: SimWorker, deadline: float) -> Any:
        while not worker.channel.inbox:
            self.point()
            if not self.run_one():
                self.now += 0.01
            worker.channel.drain()
            if self.now > deadline:
                raise worker.late(worker.start, 0.0, "make")
            if self.is_gone(worker, {worker.liveness} if worker.dead else set()) and not worker.channel.inbox:
                raise worker.died(worker.start, "make", None, None)
        return pickle.loads(worker.channel.inbox.popleft())[1]

    def facts(self, worker: Any, deadline: float) -> list[EnvFacts]:
        self._hear(worker, deadline)
        return [FACTS] * len(worker.rows)

    def attach(self, worker: Any, attachment: Any, memory: Any) -> None:
        self.generations[worker.number] = worker.generation
        worker.attachment = attachment

    def attached(self, worker: Any, deadline: float) -> None:
        self._hear(worker, deadline)

    def watch(self, worker: Any) -> None:
        worker.watched = True

    def unwatch(self, worker: Any) -> None:
        worker.watched = False

    def poll(self, workers: Sequence[Any], seconds: float) -> set[int]:
        self.point()
        until = self.now + seconds
        for worker in workers:
            worker.channel.flush()
        while not (ready := self._ready(workers)) and self.now < until:
            self.turns += 1
            if self.turns > _MOST_TURNS:
                raise Stuck("nobody will ever answer")
            if self.run_one():
                self.now += _TICK
            else:
                self.now = min([until, *(worker.wakes_at for worker in self.alive if worker.wakes_at > self.now)])
        self.point()
        return ready

    def _ready(self, workers: Sequence[Any]) -> set[int]:
        ready = {worker.liveness for worker in workers if worker.watched and worker.dead}
        return ready | {worker.channel.number for worker in workers if worker.watched and worker.channel.speaks()}

    def is_gone(self, worker: Any, ready: set[int]) -> bool:
        if worker.channel.ended or worker.channel.broken:
            worker.die()
        return worker.dead and (worker.liveness in ready or worker.channel.ended or worker.channel.broken)

    def close(self, workers: list[Any], timeout: float) -> list[str]:
        for worker in workers:
            worker.die()
        workers.clear()
        return []

    def release(self, worker: Any) -> None:
        worker.release()

    def sweep(self) -> None:
        pass


class SimChannel:
    """The front's end of a channel."""

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend
        self.number = backend.descriptor()
        self.inbox: deque[bytes] = deque()
        self.wire: deque[bytes] = deque()
        self.woken = False
        self.ended = self.broken = False
        self.failure = None
        self.unsent: list[bytes] = []
        self.sent: deque[bytes] = deque()

    def fileno(self) -> int:
        return self.number

    def speaks(self) -> bool:
        return bool(self.wire) or self.woken or self.ended

    def drain(self) -> None:
        self._backend.point()
        if not self.ended:
            self.inbox += self.wire
            self.wire.clear()
            self.woken = False

    def lose(self, why: str) -> None:
        self.ended = True

    def flush(self) -> None:
        if not self.broken:
            self.sent += self.unsent
        self.unsent = []


class SimWorker:
    """A worker as the front sees it, and the worker itself."""

    def __init__(self, backend: ProcessBackend, assignment: Any) -> None:
        self._backend = backend
        self._bounds = assignment.bounds
        self._on_error = assignment.on_error
        self.number = assignment.number
        self.start, self.stop = assignment.bounds[self.number]
        self.rows = tuple(range(self.start, self.stop))
        self.generation = backend.generations.get(self.number, 0) + 1
        self.mails_read = 0
        self.error: WorkerDied | None = None
        self.given_up = False
        self.hung: Any = None
        self.control: Any = None
        self.current: Any = None
        self.channel = SimChannel(backend)
        self.liveness = backend.descriptor()
        self.process = SimpleNamespace(pid=1000 + self.liveness)
        self.attachment: Any = None
        self.watched = self.dead = False
        self.wakes_at = 0.0
        """Parked until then, or until it is woken."""
        self._needs: Callable[[], Any] | None = None
        """What it is blocked for."""
        self._life = self._live()
        backend.generations[self.number] = self.generation

    # --- as the front sees it ----------------------------------------------------------------------------------------

    def ring(self) -> None:
        self.control.parent[RINGS] += 1
        self._backend.point()
        if self.control.worker[PARKED] and not self._backend.unlucky("drops"):
            self.wakes_at = 0.0

    def post(self, payload: bytes) -> None:
        self._backend.point()
        self.control.parent[MESSAGES] += 1
        self.control.parent[RINGS] += 1
        self.channel.unsent.append(payload)
        if self._backend.random.random() < 0.7:  # else the socket is full
            self.channel.flush()
        self._backend.point()

    def died(self, row: int, phase: Any, action: Any, seed: Any) -> WorkerDied:
        self._backend.point()
        self.die()
        return WorkerDied(f"worker {self.number} died", row=row, rows=self.rows, phase=phase)

    def late(self, row: int, seconds: Any, phase: Any, action: Any = None, seed: Any = None) -> WorkerTimeout:
        return WorkerTimeout(f"worker {self.number} is late", row=row, phase=phase)

    def kill(self, number: int) -> None:
        self.die()

    def release(self) -> None:
        pass

    # --- as it is ----------------------------------------------------------------------------------------------------

    def die(self) -> None:
        self.dead = True
        if self in self._backend.alive:
            self._backend.alive.remove(self)

    def can_run(self) -> bool:
        return self.wakes_at <= self._backend.now and (self._needs is None or self._needs())

    def run(self) -> None:
        try:
            next(self._life)
        except StopIteration:
            self.die()

    def _say(self, *message: Any) -> None:
        self.channel.wire.append(pickle.dumps(message))

    def _live(self) -> Iterator[None]:
        yield
        self._say("ready", None)
        yield from self._block_for(lambda: self.attachment)
        block = SharedBlock.map(
            self._backend.memory.again(),
            Layout(self.attachment.observation),
            Layout(self.attachment.action),
            self._bounds,
        )
        self._lost = dict(self.attachment.lost)
        self._batch = block.batch.rows(self.start, self.stop)
        self._front, self._words = memoryview(block.parent[self.number]), memoryview(block.worker[self.number])
        self._kept = [0] * 4
        self._worker_ledger = WorkerLedger(
            block.requests[self.start : self.stop], block.answers[self.start : self.stop], self._kept
        )
        self._current = block.clocks[self.number].current
        self._read = 0
        self._say("attached", None)
        yield from self._serve()

    def _block_for(self, needs: Callable[[], Any]) -> Iterator[None]:
        self._needs = needs
        yield
        self._needs = None

    def _serve(self) -> Iterator[None]:
        ring = 0
        while True:
            yield from self._wait(ring)
            ring = self._front[RINGS]
            yield
            while self._read < self._front[MESSAGES]:
                yield from self._block_for(lambda: self.channel.sent)
                self._read += 1
                yield from self._answer_call(*pickle.loads(self.channel.sent.popleft()))
            rows = self._worker_ledger.asked()
            yield
            for some in [[row] for row in rows] if self._front[EAGER] else [rows] * bool(rows):
                yield from self._run(some)
                yield from self._publish(some)

    def _wait(self, ring: int) -> Iterator[None]:
        for _ in range(self._backend.random.randrange(4)):
            if self._front[RINGS] != ring:
                return
            yield
        self._words[PARKED] = 1
        yield
        while self._front[RINGS] == ring:
            self.wakes_at = self._backend.now + 1.0
            yield
        self._words[PARKED] = 0

    def _answer_call(self, kind: str, number: int, name: str, *content: Any) -> Iterator[None]:
        for row in range(len(self.rows)):
            self._current[0] = row
            yield
        self._current[0] = -1
        self._say("reply", number, {row: (row, name, self.generation) for row in self.rows})
        self._words[MAILS] += 1

    def _run(self, rows: list[int]) -> Iterator[None]:
        """Each row shows its action: first one half of it, later the other."""
        batch = self._batch
        for row in rows:
            self._current[0] = row
            assert batch.op[row] != Op.IDLE, "a row without an op was asked for"
            token = int(batch.actions[0][row, 0])
            lost = self._lost.pop(row, None)
            shown = -token if lost else token
            batch.obs[0][row, :2] = self.start + row, shown
            yield
            batch.obs[0][row, 2] = shown
            batch.reward[row], batch.truncated[row] = shown, lost is not None
            if lost is not None:
                batch.mail[row] = Mail({"lost": self.generation})
            elif fails(token):
                batch.mail[row] = Mail(fault=Fault("step", "ValueError", str(token), "", None))
            elif talks(token):
                batch.mail[row] = Mail({"token": token})
            yield
        self._current[0] = -1

    def _publish(self, rows: list[int]) -> Iterator[None]:
        mailbox = self._batch.mail
        if mailbox:
            first, requests = self.start, self._worker_ledger.requests
            self._say("mail", {first + row: (int(requests[row]), (letter, [])) for row, letter in mailbox.items()})
            mailbox.clear()
            yield
            self._words[MAILS] += 1
            yield
        self._worker_ledger.answer(rows, len(rows))
        yield
        self._words[FINISHED] += self._kept[FINISHED]
        self._kept[FINISHED] = 0
        yield
        if self._front[WAITING] and not self._backend.unlucky("drops"):
            self.channel.woken = True
