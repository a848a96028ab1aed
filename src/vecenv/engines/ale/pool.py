"""ale-py's native vector environment as it is: all games in one pool of threads, stepped together."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from vecenv.atari._preprocessing import Preprocessing
from vecenv.engines.ale.games import GameSpec, alive, native


class GamePool:
    """The same as `Games`, with less to do for each step; but steps are of all rows, and rows finish together.

    Attributes:
        begun: rows that were given something to do, until `forget`: an action, or a seed if it is a reset.
        results: of these rows, by row.
    """

    together = True

    def __init__(self, specs: Sequence[GameSpec], preprocessing: Preprocessing, threads: int) -> None:
        self._natives = [native(specs[0], preprocessing, len(specs), threads)]
        self._count = len(specs)
        self.actions = [[action.name for action in self._natives[0].get_action_set()]] * len(specs)
        self.begun: dict[int, tuple[str, int]] = {}
        self.results: dict[int, Any] = {}
        self._exchange: dict[str, Any] = {}
        """That the native env was stepped, and what it returned; each in one statement with the call, as in `Games`."""
        alive.add(self)

    def step(self, rows: Sequence[int], actions: Sequence[int]) -> None:
        """Step all rows, in one or several calls, when they are fetched."""
        self._prepare(rows, [("step", action) for action in actions])

    def reset(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin new games when they are fetched; with a seed of -1 random numbers go on as they were."""
        self._prepare(rows, [("reset", seed) for seed in seeds])

    def fetch_all(self, rows: Iterable[int]) -> None:
        """Run what was begun and put the results into `results`."""
        rows = sorted(self.begun)
        if all(row in self.results for row in rows):
            return  # an interrupt came before they were noted
        kinds, numbers = zip(*[self.begun[row] for row in rows], strict=True)
        pool, exchange = self._natives, self._exchange
        if kinds[0] == "reset":
            if "got" not in exchange:
                exchange.update(zip(["got"], map(type(pool[0]).reset, pool, [rows], [list(numbers)]), strict=True))
        else:
            assert len(rows) == self._count
            if "sent" not in exchange:
                ones = [1.0] * self._count
                exchange.update(zip(["sent"], map(type(pool[0]).send, pool, [list(numbers)], [ones]), strict=True))
            if "got" not in exchange:
                exchange.update(zip(["got"], map(type(pool[0]).recv, pool), strict=True))
        *arrays, infos = exchange["got"]
        parts = [[array[row : row + 1] for array in arrays] for row in rows]
        row_infos = [{name: infos[name][row : row + 1] for name in infos if name != "final_obs"} for row in rows]
        self.results.update((row, (*part, info)) for row, part, info in zip(rows, parts, row_infos, strict=True))

    def fetch_some(self) -> None:
        """All rows finish together."""
        self.fetch_all(())

    def forget(self, rows: Iterable[int]) -> None:
        """These results are noted."""
        for row in rows:
            self.begun.pop(row, None)

    def close(self) -> None:
        """End all threads."""
        self._natives = []

    def leak(self) -> None:
        """Never destroy the native env: this is a process that its threads did not come to."""
        for pool in self._natives:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))

    def _prepare(self, rows: Sequence[int], orders: list[tuple[str, int]]) -> None:
        self._exchange = {}  # nothing is under way: rows come and go together
        for row in rows:
            self.results.pop(row, None)
        self.begun.update(zip(rows, orders, strict=True))
