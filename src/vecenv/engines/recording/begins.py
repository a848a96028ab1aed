"""Which rows began an episode with an exchange, and how: for Python envs, kernels, and either in Ray's actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv._batch.batch import Batch, Rows
from vecenv._batch.random_state import WORDS
from vecenv._batch.starts import SEEDED, STREAM, UNKNOWN, WATCHED
from vecenv.engines import SupportsStarts, SupportsStates

_NO_WORDS = (
    "its np_random is no NumPy generator with PCG64, so it cannot be said where its random stream was; reset it with a "
    "seed to record it"
)
_GONE = "whatever ran it was gone before it could say where its random stream was; reset it with a seed to record it"
_NOT_BEGUN = f"it was not reset yet, or {_GONE}"


class Begins:
    """Finds out how episodes began. The start of an episode takes about `row_bytes`."""

    row_bytes: int

    def expect(self, rows: Rows) -> None:
        """Forget what these rows noted before: some of them are about to be reset."""

    def take(self, rows: Rows) -> tuple[Rows | bytes | None, Any]:
        """Those of the rows, which were just received, that began an episode; and how they did. See `Received`."""
        raise NotImplementedError

    def peek(self, row: int) -> Any:
        """How the row's next episode began, if it did and was not received; else None."""
        return None

    def start(self, starts: Any, position: int) -> tuple[dict[str, Any], bool]:
        """The entry of a recording for a start that `take` or `peek` returned, and whether that reset had options."""
        raise NotImplementedError


class PythonBegins(Begins):
    """Python envs note the seed or the place of their stream in columns of the batch."""

    row_bytes = 100

    def __init__(self, batch: Batch) -> None:
        self._kinds, self._words = batch.start_kind, batch.start
        self._kinds[...] = WATCHED
        self._quiet = self._kinds.tobytes()

    def expect(self, rows: Rows) -> None:
        if self._kinds.tobytes() != self._quiet:
            self._kinds[rows] = WATCHED

    def take(self, rows: Rows) -> tuple[Rows | bytes | None, Any]:
        kinds = self._kinds
        noted = kinds.tobytes()
        if noted == self._quiet:
            return None, None
        if len(rows) == len(kinds):
            kinds.fill(WATCHED)
            return noted, self._words.copy()
        began = rows[kinds[rows] > WATCHED]
        kinds[began] = WATCHED
        return began, self._words.take(began, 0)

    def take_all(self, noted: bytes) -> bytes | None:
        """What all rows noted, given their kinds: the words of all; None if no row began an episode."""
        if noted == self._quiet:
            return None
        self._kinds.fill(WATCHED)
        return self._words.tobytes()

    def peek(self, row: int) -> Any:
        return self._words[row : row + 1].copy() if self._kinds[row] > WATCHED else None

    def start(self, starts: Any, position: int) -> tuple[dict[str, Any], bool]:
        return noted_start(starts[position])


class KernelBegins(Begins):
    """The state of a kernel after its reset is where its episode begins."""

    def __init__(self, engine: SupportsStates) -> None:
        self._engine = engine
        state = engine.states_of(np.zeros(1, np.int64))
        self._names = tuple(state)
        self.row_bytes = sum(column.nbytes for column in state.values() if column.strides[0])  # 0: all rows share it

    def take(self, rows: Rows) -> tuple[Rows | None, Any]:
        began = self._engine.just_begun(rows)
        return (began, tuple(self._engine.states_of(began).values())) if len(began) else (None, None)

    def start(self, starts: Any, position: int) -> tuple[dict[str, Any], bool]:
        columns = {name: np.array(column[position]) for name, column in zip(self._names, starts, strict=True)}
        return {"kind": "kernel-state", "columns": columns}, True


class ReportedBegins(Begins):
    """The engine reports how episodes began, for actors on other machines."""

    row_bytes = 1000

    def __init__(self, engine: SupportsStarts) -> None:
        self._begun: dict[int, Any] = engine.watch()

    def expect(self, rows: Rows) -> None:
        for row in rows.tolist() if self._begun else ():
            self._begun.pop(row, None)

    def take(self, rows: Rows) -> tuple[Rows | None, Any]:
        began = [row for row in rows.tolist() if row in self._begun] if self._begun else []
        return (np.array(began), [self._begun.pop(row) for row in began]) if began else (None, None)

    def peek(self, row: int) -> Any:
        return [self._begun[row]] if row in self._begun else None

    def start(self, starts: Any, position: int) -> tuple[dict[str, Any], bool]:
        start = starts[position]
        return ({"kind": "kernel-state", "columns": start}, True) if isinstance(start, dict) else noted_start(start)


def noted_start(words: Sequence[int] | np.ndarray) -> tuple[dict[str, Any], bool]:
    """The entry of a recording for the words that a Python env noted, and whether its reset had options."""
    had_options, kind = bool(words[WORDS]), words[WORDS + 1]
    if kind == SEEDED:
        return {"kind": "seed", "seed": int(words[0])}, had_options
    if kind == STREAM:
        return {"kind": "random-state", "words": np.array(words[:WORDS], np.uint64)}, had_options
    return {"kind": "unknown", "why": _NO_WORDS if kind == UNKNOWN else _GONE}, had_options


def not_noted(seed: int | None) -> dict[str, Any]:
    """The start of an episode that was not noted: its seed if there was one."""
    return {"kind": "unknown", "why": _NOT_BEGUN} if seed is None else {"kind": "seed", "seed": seed}


def begins_of(engine: Any) -> Begins:
    """What finds out how episodes of this engine begin. It has no decorators."""
    if isinstance(engine, SupportsStarts):
        return ReportedBegins(engine)
    return KernelBegins(engine) if isinstance(engine, SupportsStates) else PythonBegins(engine.batch)
