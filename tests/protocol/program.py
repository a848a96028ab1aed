"""Random programs for the engine in a simulated backend, and what must hold whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.protocol.simulated import ProcessBackend, Stuck, Tickets, fails, talks
from vecenv._batch.batch import Op
from vecenv.engines.process.engine import ProcessEngine
from vecenv.errors import EnvError, NotResetError, WorkerError, WorkerTimeout

SHAPES = ((2, 2), (3, 2), (3, 3), (4, 2))
"""Numbers of rows and of workers."""


class Wrong(AssertionError):
    """The engine broke its word."""


class Program:
    """A user of one engine, who knows what must come back."""

    def __init__(
        self, backend: ProcessBackend, mutate: Callable[[ProcessEngine], None] | None = None, **options: Any
    ) -> None:
        self.backend = backend
        self.random = backend.random
        rows, workers = self.random.choice(SHAPES)
        drawn = {"rows": rows, "workers": workers, "restarts": self.random.random() < 0.5}
        chosen = drawn | {"ordered": self.random.random() < 0.3} | options
        self.restarts = chosen["restarts"]
        self.engine = ProcessEngine(
            [lambda: None] * chosen["rows"],  # type: ignore[list-item,return-value]  # nobody builds them
            workers=chosen["workers"],
            on_error="restart" if self.restarts else "raise",
            ordered=chosen["ordered"],
            start_timeout=5.0,
            backend=self.backend,  # type: ignore[arg-type]
        )
        answers = self.engine._ledger.answers.view(Tickets)
        answers.backend = self.backend
        self.engine._ledger.answers = answers
        if mutate is not None:
            mutate(self.engine)
        self.sent: dict[int, int] = {}
        """Tokens of the rows that are pending."""
        self.tokens = 0

    def run(self, calls: int = 8) -> None:
        """Bad times, then good ones: everything is delivered and works again."""
        try:
            for _ in range(calls):
                self.anything()
            self.backend.calm = True
            self.backend.interrupts = None
            for _ in range(20):
                if not self.sent:
                    break
                self.recv(len(self.sent), None)
            self.expect(not self.sent, f"rows {list(self.sent)} are never delivered")
            for _ in range(2):
                self.good_step()
        except Stuck as stuck:
            raise Wrong(f"the front hangs: {stuck}") from stuck
        self.engine.close()

    def anything(self) -> None:
        free = [row for row in range(len(self.engine.batch)) if row not in self.sent]
        choice = self.random.random()
        if self.random.random() < 0.25:
            self.backend.interrupts = self.random.randrange(40)
        self.backend.turns = 0
        if not self.sent and choice < 0.25:
            self.exchange_all()
        elif free and choice < 0.45:
            self.send(self.random.sample(free, self.random.randint(1, len(free))))
        elif self.sent:
            timeout = self.random.choice([None, None, 0.0, 0.001, 0.5])
            self.recv(self.random.randint(1, len(self.sent)), timeout)
        elif choice < 0.8:
            self.call()
        elif choice < 0.9:
            self.engine.kill(self.random.randrange(len(self.engine.batch)))
        self.backend.interrupts = None

    def expect(self, condition: bool, otherwise: str) -> None:
        if not condition:
            raise Wrong(otherwise)

    # --- calls and what may come of them -----------------------------------------------------------------------------

    def send(self, rows: list[int]) -> None:
        batch, tokens = self.engine.batch, {}
        gone = set(self.engine.gone().tolist())
        for row in rows:
            self.tokens += 1
            tokens[row] = self.tokens
            batch.actions[0][row, 0] = self.tokens
            batch.op[row] = Op.RESET if row in gone else Op.STEP
        try:
            self.engine.send(np.array(rows))
            self.sent.update(tokens)
        except (KeyboardInterrupt, WorkerError) as error:
            pending = set(self.engine.pending().tolist())
            added = pending - self.sent.keys()
            self.expect(added in (set(), set(rows)), f"{rows} were sent in part: {added}")
            self.expect(not added or isinstance(error, KeyboardInterrupt), "a send that failed has sent")
            self.sent.update({row: tokens[row] for row in added})
        self.agree()

    def recv(self, count: int, timeout: float | None) -> None:
        engine = self.engine
        before = dict(self.sent)
        try:
            rows = engine.recv(count, timeout).tolist()
        except KeyboardInterrupt:
            self.agree()
            return
        except WorkerTimeout:
            self.expect(timeout is not None, "time was up though there was no limit")
            self.agree()
            return
        except EnvError as error:
            self.failed(error)
            return
        self.expect(len(set(rows)) == len(rows) == count, f"{count} rows were asked for, {rows} came")
        self.expect(set(rows) <= before.keys(), f"{rows} came, {list(before)} were sent")
        for row in rows:
            self.delivered(row, self.sent.pop(row))
        self.agree()

    def exchange_all(self) -> None:
        """All rows in one call. An error leaves pending what `recv` would have left, or nothing was sent."""
        engine, gone = self.engine, len(self.engine.gone())
        rows = range(len(engine.batch))
        tokens = {row: self.tokens + 1 + row for row in rows}
        self.tokens += len(rows)
        engine.batch.actions[0][:, 0] = list(tokens.values())
        engine.batch.done[:] = gone > 0
        try:
            ended = engine.exchange_all(int(Op.STEP), int(Op.RESET), False)
        except KeyboardInterrupt:
            pending = engine.pending().tolist()
            self.expect(pending in ([], list(rows)), f"an interrupt leaves only {pending} pending")
            self.sent = {row: tokens[row] for row in pending}
            for row in () if pending else rows:
                engine.batch.mail.pop(row, None)  # results that nobody gets
            self.agree()
            return
        except EnvError as error:
            self.sent = tokens if len(engine.pending()) else {row: tokens[row] for row in error.rows}
            self.failed(error)
            return
        lost = int(engine.batch.truncated.sum())
        self.expect(ended == lost, f"{ended} episodes are said to have ended, not {lost}")
        for row in rows:
            self.delivered(row, tokens[row])
        self.agree()

    def delivered(self, row: int, token: int) -> None:
        batch = self.engine.batch
        mail = batch.mail.pop(row, None)
        lost = bool(batch.truncated[row])
        shown = -token if lost else token
        found = [*batch.obs[0][row].tolist(), batch.reward[row]]
        self.expect(found == [row, shown, shown, shown], f"row {row} of token {token} shows {found}")
        self.expect(not lost or self.restarts, f"row {row} was lost and nobody said so")
        info = None if mail is None else mail.info
        if lost:
            part = int(self.engine._ledger.part_of[row])
            wanted: Any = {"lost": self.backend.generations[part]}
        else:
            self.expect(not fails(token), f"row {row} has failed and is delivered")
            wanted = {"token": token} if talks(token) else None
        self.expect(info == wanted, f"row {row} of token {token} says {info}, should say {wanted}")

    def failed(self, error: EnvError) -> None:
        gone = {row for row in error.rows if row in self.sent}
        if not isinstance(error, WorkerError):
            token = self.sent.get(error.rows[0])
            self.expect(token is not None and fails(token), f"row {error.rows} is said to have failed")
            self.expect(error.message.split(": ")[1].split(";")[0] == str(token), f"wrong failure: {error}")
        for row in gone:
            del self.sent[row]
        self.agree()

    def agree(self) -> None:
        pending = self.engine.pending().tolist()
        self.expect(pending == sorted(self.sent), f"{sorted(self.sent)} are owed, the engine knows of {pending}")
        left = self.engine.batch.mail.keys() - self.sent.keys()
        self.expect(not left, f"mail of rows {left} that nobody waits for")

    def call(self) -> None:
        name = f"call{self.random.random()}"
        try:
            results = self.engine.call(name, (), {}, self.random.choice([None, None, 0.5]))
        except (KeyboardInterrupt, NotResetError, WorkerError):
            self.agree()
            return
        for row, (answered, asked, generation) in enumerate(results):
            part = int(self.engine._ledger.part_of[row])
            self.expect((answered, asked) == (row, name), f"row {row} replied {answered, asked} to {name}")
            self.expect(generation <= self.backend.generations[part], "a reply from the future")
        self.agree()

    def good_step(self) -> None:
        """In good times a step of all rows brings them all."""
        rows = list(range(len(self.engine.batch)))
        self.backend.turns = 0
        self.send(rows)
        for _ in range(3 * len(rows)):
            if not self.sent:
                return
            self.recv(len(self.sent), None)
        raise Wrong(f"rows {list(self.sent)} are not delivered in good times")


def run_program(seed: int, mutate: Callable[[ProcessEngine], None] | None = None) -> None:
    """Run the program of a seed in the backend of that seed."""
    backend = ProcessBackend(seed)
    try:
        program = Program(backend, mutate)
    except WorkerError:  # one died before all were there
        if backend.alive:
            raise Wrong("a failed start leaves workers behind") from None
        return
    program.run()
    if backend.alive:
        raise Wrong("close leaves workers behind")
