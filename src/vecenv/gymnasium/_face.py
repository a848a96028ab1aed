"""What both of Gymnasium's vector envs do, and ours otherwise does not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vecenv._batch.batch import Rows
from vecenv._batch.layout import SpaceMismatch
from vecenv._front.vector_env import VectorEnv
from vecenv.errors import EnvError, WorkerTimeout


class GymnasiumFace(VectorEnv):
    """The front as Gymnasium's users know it: lenient, and one env's error takes the others' results along."""

    _lenient = True

    def _receive(self, count: int, timeout: float | None) -> Rows:
        """If envs fail, report each, give up the results of the others and raise the last error."""
        try:
            return super()._receive(count, timeout)
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
        """Say that an env failed, beyond raising."""


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Let an error about differing spaces begin with the class the user wrote."""
    try:
        yield
    except SpaceMismatch as error:
        raise SpaceMismatch(str(error).replace("VectorEnv(", f"{name}(", 1)) from None
