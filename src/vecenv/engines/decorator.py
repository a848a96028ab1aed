"""Engines around engines: what checks or records rows on their way, without the front or the engine knowing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv._batch.batch import Rows
from vecenv._batch.layout import Columns
from vecenv.engines import Engine, SupportsWarnings


class Decorator:
    """An engine that passes everything on to another engine. Subclasses override what they check or record.

    Besides the seam it passes on the abilities (`Engine`, `Supports...`) that decorators change: stepping all rows in
    one call, states, rollouts, and which envs are gone. The front asks the innermost engine which abilities there are,
    and uses those that no decorator changes (`call`, `clocks`, `kill` ...) without the decorators.

    Attributes:
        inner: the engine that is decorated.
        warnings: texts that the front turns into warnings at the end of a call.
    """

    def __init__(self, engine: Engine) -> None:
        self.inner: Any = engine
        self.name, self.batch, self.facts = engine.name, engine.batch, engine.facts
        self.warnings: list[str] = engine.warnings if isinstance(engine, SupportsWarnings) else []

    def send(self, rows: Rows) -> None:
        self.inner.send(rows)

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        return self.inner.recv(count, timeout)

    def pending(self) -> Rows:
        return self.inner.pending()

    def close(self, timeout: float = 5.0) -> None:
        self.inner.close(timeout)

    def discard(self) -> None:
        """Throw away results that are held here: the front discards all that is pending."""
        if isinstance(self.inner, Decorator):
            self.inner.discard()

    def held(self) -> int:
        """How many rows are held here: received from the engine, and still pending for the front."""
        return self.inner.held() if isinstance(self.inner, Decorator) else 0

    def gone(self) -> Rows:
        return self.inner.gone()

    @property
    def rewards_are_finite(self) -> bool:
        return self.inner.rewards_are_finite

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        return self.inner.exchange_all(alive, over, rotate)

    def set_rows(self, rows: Rows, columns: dict[str, np.ndarray]) -> None:
        self.inner.set_rows(rows, columns)

    def rollout(
        self,
        actions: Columns | None,
        steps: int,
        alive: int,
        over: int,
        policy: Callable[..., Any] | None,
        streams: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        return self.inner.rollout(actions, steps, alive, over, policy, streams)

    def redecorator(self) -> Callable[[Engine], Engine] | None:
        """What decorates the engine of a copy of the vector env in the same way, picklable; None: copies go without."""
        return None


def undecorated(engine: Engine) -> Any:
    """The engine inside all decorators."""
    while isinstance(engine, Decorator):
        engine = engine.inner
    return engine


def decorations(engine: Engine) -> list[Callable[[Engine], Engine]]:
    """What decorates the engine of a copy, to be called from the first to the last."""
    found: list[Callable[[Engine], Engine]] = []
    while isinstance(engine, Decorator):
        again = engine.redecorator()
        found[:0] = [] if again is None else [again]
        engine = engine.inner
    return found
