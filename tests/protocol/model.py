"""An explicit-state model of the exchange: the real Ledger and WorkerLedger, and every way in which the rest can go.

A state is everything that the ledger knows, what each worker is doing, what the columns hold, and what the front is in
the middle of. The search tries every next thing that can happen in every state: a worker runs, answers, counts or
crashes; the front sends some rows, asks, looks, delivers, buries, is interrupted, loses patience, or fails to start a
worker. Columns hold who wrote them and for which send, by the model's own count, so a stale, torn or misrouted row is
seen by comparing numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vecenv.engines.process.ledger import Ledger, WorkerLedger
from vecenv.engines.process.shared import FINISHED

TORN = (-1, -1)
NOBODY = (0, 0)


class Broken(AssertionError):
    """The protocol broke its word."""


class Seat(NamedTuple):
    """A worker as it really is.

    Attributes:
        generation: how many sat here.
        life: "alive", "dead" (nobody knows yet) or "buried".
        rung: the doorbell was rung since it last looked.
        running: rows whose columns it is writing.
        left: rows it will run after them.
        uncounted: answered rows that it has not counted.
    """

    generation: int
    life: str = "alive"
    rung: bool = False
    running: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    uncounted: int = 0


class State(NamedTuple):
    sequence: int
    sent_at: tuple[int, ...]
    accounts: tuple[tuple[int, int, int], ...]
    """Generation, target and FINISHED of each worker."""
    requests: tuple[int, ...]
    answers: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]
    """Which generation of its worker wrote a row's columns and for which send, or TORN."""
    owed: tuple[int, ...]
    """With which send the user sent rows that nothing was heard of, else 0."""
    seats: tuple[Seat, ...]
    front: tuple[Any, ...] = ("idle",)
    unfinished: tuple[Any, ...] = ()
    """Rows of an interrupted send, and the workers that may not have been told."""
    crashes: int = 0
    troubles: int = 0


class Postponing:
    """Control words that keep the count back: between answer and count there is time to look, or to die."""

    def __init__(self) -> None:
        self.kept = 0

    def __getitem__(self, index: int) -> int:
        return 0

    def __setitem__(self, index: int, value: int) -> None:
        self.kept = value


@dataclass
class Model:
    """Everything that can happen with these workers.

    Args:
        bounds: rows of each worker.
        sends, crashes, troubles: how many of each. Troubles are interrupts, timeouts and starts that fail.
        eager: workers hand rows over one by one.
        restarts: on_error="restart".
    """

    bounds: tuple[tuple[int, int], ...]
    sends: int = 3
    crashes: int = 2
    troubles: int = 2
    eager: bool = False
    restarts: bool = False
    ledger_class: type[Ledger] = Ledger

    def __post_init__(self) -> None:
        self.size = self.bounds[-1][1]
        integers = np.int64
        self._words = [[0] * 4 for _ in self.bounds]
        self._ledger = self.ledger_class(
            self.bounds, self._words, np.zeros(self.size, integers), np.zeros(self.size, integers)
        )

    def first(self) -> State:
        zero = (0,) * self.size
        seats = (Seat(1),) * len(self.bounds)
        nobody = (NOBODY,) * self.size
        return State(0, zero, ((1, 0, 0),) * len(self.bounds), zero, zero, nobody, zero, seats)

    # --- between states and the ledger -------------------------------------------------------------------------------

    def _load(self, state: State) -> Ledger:
        ledger = self._ledger
        ledger.sequence = state.sequence
        ledger.sent_at[:] = state.sent_at
        ledger.count = np.count_nonzero(state.sent_at)
        ledger.requests[:], ledger.answers[:] = state.requests, state.answers
        for account, words, (account.generation, account.target, words[FINISHED]) in zip(
            ledger.accounts, self._words, state.accounts, strict=True
        ):
            pass
        return ledger

    def _store(self, state: State, **changes: Any) -> State:
        ledger = self._ledger
        if ledger.count != np.count_nonzero(ledger.sent_at):
            raise Broken(f"{ledger.count} rows are said to be pending: {ledger.sent_at}")
        accounts = zip(ledger.accounts, self._words, strict=True)
        after = state._replace(
            sequence=ledger.sequence,
            sent_at=tuple(ledger.sent_at.tolist()),
            requests=tuple(ledger.requests.tolist()),
            answers=tuple(ledger.answers.tolist()),
            accounts=tuple((account.generation, account.target, words[FINISHED]) for account, words in accounts),
            **changes,
        )
        if tuple(map(bool, after.sent_at)) != tuple(map(bool, after.owed)):
            raise Broken(f"the user waits for {after.owed}, the ledger for {after.sent_at}")
        return after

    # --- what can happen ---------------------------------------------------------------------------------------------

    def next(self, state: State) -> Iterator[tuple[str, State, bool]]:
        """What can happen, the state after it, and whether it is progress rather than new work or bad luck."""
        for part, seat in enumerate(state.seats):
            if seat.life == "alive":
                yield from self._worker(state, part, seat)
        kind, *content = state.front
        if kind == "idle":
            yield from self._idle(state)
        elif kind == "sharing":
            yield from self._sharing(state, *content)
        elif kind == "waiting":
            yield from self._waiter(state, *content)
        else:
            yield from self._chosen(state, *content)

    def _worker(self, state: State, part: int, seat: Seat) -> Iterator[tuple[str, State, bool]]:
        start, stop = self.bounds[part]
        if state.crashes < self.crashes:
            dead = Seat(seat.generation, "dead")
            yield f"worker {part} dies", self._seat(state._replace(crashes=state.crashes + 1), part, dead), False
            if len(seat.running) > 1:
                half, _ = self._answer(state, part, seat.running[:1])
                yield (
                    f"worker {part} dies answering",
                    self._seat(half._replace(crashes=state.crashes + 1), part, dead),
                    False,
                )
        if seat.uncounted:
            self._load(state)
            self._words[part][FINISHED] += seat.uncounted
            counted = self._store(state)
            yield f"worker {part} counts", self._begin(counted, part, seat._replace(uncounted=0)), True
        elif seat.running:
            after, count = self._answer(state, part, seat.running)
            seat = seat._replace(running=(), uncounted=count)
            yield f"worker {part} answers", self._seat(after, part, seat), True
        elif seat.rung:
            self._load(state)
            worker_ledger = WorkerLedger(
                self._ledger.requests[start:stop], self._ledger.answers[start:stop], Postponing()
            )
            asked = tuple(start + row for row in worker_ledger.asked())
            for row in asked:
                if not state.sent_at[row]:
                    raise Broken(f"worker {part} runs row {row}, which nobody waits for")
            seat = seat._replace(rung=False, left=asked)
            yield f"worker {part} looks", self._begin(state, part, seat), True

    def _begin(self, state: State, part: int, seat: Seat) -> State:
        """The worker begins with the next rows: from now on their columns are torn."""
        take = 1 if self.eager else len(seat.left)
        running, left = seat.left[:take], seat.left[take:]
        columns = tuple(TORN if row in running else column for row, column in enumerate(state.columns))
        return self._seat(state._replace(columns=columns), part, seat._replace(running=running, left=left))

    def _answer(self, state: State, part: int, rows: tuple[int, ...]) -> tuple[State, int]:
        start, stop = self.bounds[part]
        ledger, words = self._load(state), Postponing()
        columns = tuple(
            (state.seats[part].generation, state.owed[row]) if row in rows else column
            for row, column in enumerate(state.columns)
        )
        worker_ledger = WorkerLedger(ledger.requests[start:stop], ledger.answers[start:stop], words)
        worker_ledger.answer([row - start for row in rows], len(rows))
        return self._store(state, columns=columns), words.kept

    def _idle(self, state: State) -> Iterator[tuple[str, State, bool]]:
        free = [row for row, number in enumerate(state.sent_at) if not number]
        if state.sequence < self.sends and free:
            for rows in {tuple(free), *((row,) for row in free)}:
                yield from self._send(state, rows)
        everything = np.count_nonzero(state.sent_at)
        for count in {1, everything} if everything else ():
            whole = count == everything
            yield f"recv {count}", self._recv(state, count, whole), whole

    def _send(self, state: State, rows: tuple[int, ...]) -> Iterator[tuple[str, State, bool]]:
        state = self._share_out_rest(state)
        for part, seat in enumerate(state.seats):  # restart_for
            if seat.life == "buried" and any(row in range(*self.bounds[part]) for row in rows):
                if state.troubles < self.troubles:
                    yield f"send {rows} cannot start worker {part}", self._renew(state, part, starts=False), False
                state = self._renew(state, part)
        ledger = self._load(state)
        parts = [part for part, _, _ in ledger.parts(np.array(rows))]
        ledger.open(np.array(rows))
        owed = tuple(ledger.sequence if row in rows else owes for row, owes in enumerate(state.owed))
        yield f"send {rows}", self._store(state, owed=owed, front=("sharing", rows, tuple(parts))), False

    def _sharing(
        self, state: State, rows: tuple[int, ...], parts: tuple[int, ...]
    ) -> Iterator[tuple[str, State, bool]]:
        if not parts:
            yield "sent", state._replace(front=("idle",)), True
            return
        part, *rest = parts
        asked = self._ask(state, rows, part)
        yield f"worker {part} is asked", self._ring(asked, part)._replace(front=("sharing", rows, tuple(rest))), True
        if state.troubles < self.troubles:
            for label, cut in (("before", state), ("after", asked)):
                stopped = cut._replace(front=("idle",), unfinished=(rows, parts), troubles=state.troubles + 1)
                yield f"interrupt {label} worker {part} is asked", stopped, False

    def _ask(self, state: State, rows: tuple[int, ...], part: int) -> State:
        ledger = self._load(state)
        found = {number: (mine, count) for number, mine, count in ledger.parts(np.array(rows))}
        ledger.ask(part, *found[part])
        return self._store(state)

    def _share_out_rest(self, state: State) -> State:
        if state.unfinished:
            rows, parts = state.unfinished
            for part in parts:
                ledger = self._load(state)
                found = {number: mine for number, mine, _ in ledger.parts(np.array(rows))}
                if not ledger.was_asked(part, found[part]):
                    state = self._ask(state, rows, part)
                state = self._ring(state, part)
        return state._replace(unfinished=())

    def _recv(self, state: State, count: int, whole: bool) -> State:
        state = self._share_out_rest(state)
        for part, seat in enumerate(state.seats):  # finish_recovery
            if seat.life == "buried" and len(self._load(state).pending_of(part)):
                if not self.restarts:
                    return self._give_up(state, part)
                state = self._renew(state, part)
        return state._replace(front=("waiting", count, whole))

    def _waiter(self, state: State, count: int, whole: bool) -> Iterator[tuple[str, State, bool]]:
        ledger = self._load(state)
        if ledger.enough_finished(count)():
            rows = ledger.choose(count)
            if len(rows) != count:
                raise Broken(f"{count} rows should be done, found {rows}")
            yield f"{rows} are done", state._replace(front=("chosen", tuple(rows.tolist()))), True
        else:
            for part, seat in enumerate(state.seats):
                if seat.life == "dead":
                    yield from self._bury(state, part)
        if state.troubles < self.troubles:
            yield "timeout or interrupt", state._replace(front=("idle",), troubles=state.troubles + 1), False

    def _bury(self, state: State, part: int) -> Iterator[tuple[str, State, bool]]:
        if self.restarts:
            yield f"worker {part} is replaced", self._renew(state, part), True
            yield f"worker {part} is given up", self._give_up(state, part), False
            if state.troubles < self.troubles:
                yield f"worker {part} cannot be replaced", self._renew(state, part, starts=False), False
        else:
            yield f"worker {part} is buried", self._give_up(state, part), True

    def _renew(self, state: State, part: int, *, starts: bool = True) -> State:
        self._load(state).renew(part)
        state = self._store(state)
        if starts:
            return self._ring(self._seat(state, part, Seat(state.seats[part].generation + 1)), part)
        failed = state._replace(front=("idle",), troubles=state.troubles + 1)
        return self._seat(failed, part, Seat(state.seats[part].generation, "buried"))

    def _give_up(self, state: State, part: int) -> State:
        self._load(state).give_up(part)
        after = self._heard(state, range(*self.bounds[part]))
        return self._seat(after, part, Seat(state.seats[part].generation, "buried"))

    def _heard(self, state: State, rows: Iterable[int]) -> State:
        """The user got these rows, or heard that they failed."""
        owed = tuple(0 if row in rows else owes for row, owes in enumerate(state.owed))
        columns = tuple(column if owes else NOBODY for column, owes in zip(state.columns, owed, strict=True))
        return self._store(state, owed=owed, columns=columns, front=("idle",))

    def _chosen(self, state: State, rows: tuple[int, ...]) -> Iterator[tuple[str, State, bool]]:
        for row in rows:
            part = next(number for number, edges in enumerate(self.bounds) if row in range(*edges))
            wanted, found = (state.seats[part].generation, state.owed[row]), state.columns[row]
            if found != wanted:
                raise Broken(f"row {row} is delivered {'torn' if found == TORN else 'stale'}: {found}, wanted {wanted}")
        self._load(state).give_back(np.array(rows))
        yield f"{rows} are delivered", self._heard(state, rows), True
        if state.troubles < self.troubles:
            yield "interrupt", state._replace(front=("idle",), troubles=state.troubles + 1), False

    def _seat(self, state: State, part: int, seat: Seat) -> State:
        return state._replace(seats=(*state.seats[:part], seat, *state.seats[part + 1 :]))

    def _ring(self, state: State, part: int) -> State:
        seat = state.seats[part]
        return self._seat(state, part, seat._replace(rung=True)) if seat.life == "alive" else state


@dataclass
class Found:
    """What a search saw."""

    states: int
    transitions: int
    trace: list[str]
    broken: str = ""


def search(model: Model) -> Found:
    """Try everything, nearest first. Stops at the first broken promise, with the shortest way to it."""
    first = model.first()
    came: dict[State, tuple[State, str] | None] = {first: None}
    progress: dict[State, list[State]] = {}
    queue, transitions = deque([first]), 0

    def trace(state: State) -> list[str]:
        steps: list[str] = []
        while (step := came[state]) is not None:
            state, label = step
            steps.append(label)
        return steps[::-1]

    while queue:
        state = queue.popleft()
        ahead = progress[state] = []
        try:
            for label, after, forward in model.next(state):
                transitions += 1
                if forward:
                    ahead.append(after)
                if after not in came:
                    came[after] = state, label
                    queue.append(after)
        except Broken as broken:
            return Found(len(came), transitions, trace(state), str(broken))
        if not ahead and (any(state.owed) or state.front != ("idle",)):
            return Found(len(came), transitions, trace(state), "nothing can happen any more, and rows are owed")
    stuck = _circle(progress)
    if stuck is not None:
        return Found(len(came), transitions, trace(stuck), "workers answer for ever, and nobody gets anywhere")
    return Found(len(came), transitions, [])


def _circle(progress: dict[State, list[State]]) -> State | None:
    """A state from which progress leads back to it; without one, progress comes to an end."""
    degree = dict.fromkeys(progress, 0)
    for ahead in progress.values():
        for after in ahead:
            degree[after] += 1
    ready = [state for state, count in degree.items() if not count]
    seen = 0
    while ready:
        seen += 1
        for after in progress[ready.pop()]:
            degree[after] -= 1
            if not degree[after]:
                ready.append(after)
    return None if seen == len(degree) else next(state for state, count in degree.items() if count)
