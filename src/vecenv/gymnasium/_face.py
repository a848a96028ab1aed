"""Behaviour of both of Gymnasium's vector envs that differs from vecenv's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from vecenv._batch.batch import Rows
from vecenv._batch.layout import SpaceMismatch
from vecenv._front.vector_env import VectorEnv
from vecenv.errors import EnvError, WorkerTimeout


class GymnasiumFace(VectorEnv):
    """VectorEnv with Gymnasium's behaviour: fewer checks, and an env's error discards the results of the other envs."""

    _lenient = True

    def render(self) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]  # Gymnasium's
        """One frame per env; as in Gymnasium, None where an env has no render mode."""
        return self.call("render")

    def _receive(self, count: int, timeout: float | None, most: int | None = None, until: float | None = None) -> Rows:
        """If envs fail, report each failure, discard the results of the others and raise the last error."""
        try:
            return super()._receive(count, timeout, most, until)
        except WorkerTimeout:
            raise
        except EnvError as error:
            last = error
            self._report(error)
        while self._call_order.pending_count:
            try:
                super()._receive(self._call_order.pending_count, timeout)
            except EnvError as error:
                last = error
                self._report(error)
        self._batch.mail.clear()
        self._call_order.broken = False
        raise last

    def _report(self, error: EnvError) -> None:
        """Report that an env failed, in addition to raising."""


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Make an error about differing spaces begin with the name of the user's class."""
    try:
        yield
    except SpaceMismatch as error:
        raise SpaceMismatch(str(error).replace("VectorEnv(", f"{name}(", 1)) from None
