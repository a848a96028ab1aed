"""ale-py's native vector environment as it is: all games in one pool of threads, stepped together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from vecenv.atari._preprocessing import Preprocessing
from vecenv.engines.ale.games import INFOS, GameSpec, NativeGames, Stepped, make_native


class GamePool(NativeGames):
    """One native env for all rows: it has less to do for each step than `Games`, but steps are of all rows.

    `begun` says whether a row is to be stepped or reset, and has its action or its seed.
    """

    together = True

    def __init__(self, specs: Sequence[GameSpec], preprocessing: Preprocessing, threads: int) -> None:
        super().__init__([make_native(specs[0], preprocessing, len(specs), threads)], len(specs))
        self._count, self._ones = len(specs), [1.0] * len(specs)
        self._exchange: dict[str, Any] = {}
        """That the native env was stepped, and what it returned; each in one statement with the call, as in `Games`."""

    def step(self, rows: Sequence[int], actions: Sequence[int]) -> None:
        """Step all rows, in one or several calls, when they are fetched."""
        self._prepare(rows, zip(repeat("step"), actions))

    def reset(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin new games when they are fetched; with a seed of -1 random numbers go on as they were."""
        self._prepare(rows, zip(repeat("reset"), seeds))

    def fetch_all(self, rows: Iterable[int]) -> None:
        """Run what was begun and put the results into `results`."""
        rows = sorted(self.begun)
        if self.results.keys() >= self.begun.keys():
            return  # an interrupt came before they were noted
        kinds, numbers = zip(*map(self.begun.__getitem__, rows), strict=True)
        pool, exchange = self._natives, self._exchange
        if kinds[0] == "reset":
            if "got" not in exchange:
                exchange.update(zip(["got"], map(type(pool[0]).reset, pool, [rows], [list(numbers)]), strict=True))
        else:
            assert len(rows) == self._count
            if "sent" not in exchange:
                exchange.update(
                    zip(["sent"], map(type(pool[0]).send, pool, [list(numbers)], [self._ones]), strict=True)
                )
            if "got" not in exchange:
                exchange.update(zip(["got"], map(type(pool[0]).recv, pool), strict=True))
        self.results.update(dict.fromkeys(rows))

    def result(self, row: int) -> Sequence[Any]:
        *arrays, infos = self._exchange["got"]
        own = {name: infos[name][row : row + 1] for name in INFOS}
        return *[array[row : row + 1] for array in arrays], own

    def stepped(self, rows: Sequence[int]) -> Stepped:
        if len(rows) < self._count:
            return super().stepped(rows)
        frames, rewards, terminated, truncated, infos = self._exchange["got"]
        return frames[:, 0], rewards, terminated, truncated, {name: infos[name] for name in INFOS}

    def fetch_some(self, seconds: float | None = None) -> bool:
        """All rows finish together, when they are fetched."""
        self.fetch_all(())
        return True

    def _prepare(self, rows: Sequence[int], orders: Iterable[tuple[str, int]]) -> None:
        self._exchange = {}  # nothing is under way: rows come and go together
        if len(rows) == self._count:
            self.results.clear()
        for row in rows if self.results else ():
            self.results.pop(row, None)
        self.begun.update(zip(rows, orders, strict=False))
