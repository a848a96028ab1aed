"""Failures as data: what went wrong with a row, in a form that crosses processes, and when to try again."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import cloudpickle

from vecenv._batch.seeding import NO_SEED, spawn
from vecenv.errors import EnvError, Phase, RestartLimit, env_error

OnError = Literal["raise", "restart"]

_TEXT_LIMIT = 64_000
RESTARTS = 3
WINDOW = 1_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_ADVICE: dict[Phase, str] = {
    "make": "call that env function alone to see it fail here",
    "reset": "reset() tries again, on_error='restart' builds the env again",
    "step": "reset() begins its next episode, on_error='restart' restarts failed envs automatically",
    "call": "the env is as it was left, and nothing needs a reset",
    "close": "the other envs were closed",
}


@dataclass
class Fault:
    """Why an op on a row failed. Picklable whatever the environment raised."""

    phase: Phase
    kind: str
    message: str
    traceback: str
    original: BaseException | None
    action: Any = None
    seed: int | None = None
    rows: tuple[int, ...] = ()
    """All rows that failed with it, if there are several."""
    elapsed: float | None = None
    """Seconds since the exchange began in which it failed."""
    error: EnvError | None = None
    """A ready-made error, for faults that are not an exception of one env."""
    start: tuple[int, ...] | None = None
    """Words of the start of the episode (see `_batch/starts.py`), if it was to begin with the op that failed."""
    another: bool = False
    """Whether another row failed, and this one was lost because both had the same worker."""

    @classmethod
    def of(
        cls,
        raised: BaseException,
        phase: Phase,
        action: Any = None,
        seed: int = NO_SEED,
        error: EnvError | None = None,
        elapsed: float | None = None,
    ) -> Fault:
        text = "".join(traceback.format_exception(type(raised), raised, raised.__traceback__))
        return cls(
            phase=phase,
            kind=type(raised).__name__,
            message=_text(raised)[:_TEXT_LIMIT],
            traceback=text[-_TEXT_LIMIT:],
            original=raised,
            action=action,
            seed=None if seed == NO_SEED else seed,
            error=error,
            elapsed=elapsed,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["original"] = _portable(self.original)
        state["action"] = _portable(self.action)
        return state

    def to_error(self, row: int, worker: int | None = None, pid: int | None = None) -> EnvError:
        """The error to raise where the user is waiting."""
        if self.error is not None:
            return self.error
        where = "" if worker is None else f" (worker {worker}, pid {pid})" if pid else f" (thread {worker})"
        context = "" if self.action is None else f"; last action {self.action!r:.80}"
        context += "" if self.seed is None else f"; last seed {self.seed}"
        context += "" if self.elapsed is None else f"; after {self.elapsed:.3g} s"
        error = env_error(
            self.original,
            f"env {row}{where} raised {self.kind} in {self.phase}: {self.message}{context}; {_ADVICE[self.phase]}",
            row=row,
            rows=self.rows,
            phase=self.phase,
            worker=worker,
            pid=pid,
            action=self.action,
            seed=self.seed,
            remote_traceback=self.traceback,
        )
        error.elapsed = self.elapsed
        return error

    def as_info(self, row: int, restarts: int) -> dict[str, Any]:
        """The value of `info["fault"]` for a row that was restarted."""
        advice = self.error._advice if self.error is not None else ""
        message = self.message.replace(f"; {advice}", "", 1) if advice else self.message
        return {"kind": self.kind, "message": message, "phase": self.phase, "env": row, "restarts": restarts}


@dataclass
class RestartPolicy:
    """How often one env may be rebuilt: RESTARTS times in WINDOW of its steps, with growing pauses."""

    row: int
    recent: list[tuple[int, Fault]] = field(default_factory=list)
    pause: Callable[[float], None] = time.sleep

    def allow(self, fault: Fault, now: int) -> None:
        """Count a restart and pause; raise RestartLimit if there were too many. `now` counts the env's ops."""
        self.recent = [(step, cause) for step, cause in self.recent if now - step < WINDOW]
        if len(self.recent) >= RESTARTS:
            causes = [cause for _, cause in self.recent] + [fault]
            error = RestartLimit(
                f"env {self.row} failed {len(causes)} times within {WINDOW} of its steps and was restarted {RESTARTS} "
                f"times; last: {fault.kind} in {fault.phase}: {fault.message}. Fix the env, or make it with "
                "on_error='raise' to see the first failure",
                row=self.row,
                phase=fault.phase,
                remote_traceback=fault.traceback,
            )
            error.causes = tuple(cause.to_error(self.row) for cause in causes)
            raise error
        self.pause(min(_FIRST_PAUSE * 2 ** len(self.recent), _LONGEST_PAUSE))
        self.recent.append((now, fault))


def restart_seed(seed: int, row: int, restarts: int) -> int:
    """The seed of a rebuilt env: a function of the row's last seed, the row and its number of restarts alone."""
    return NO_SEED if seed == NO_SEED else spawn(seed, row, restarts)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"<str() of the exception raised {type(failure).__name__}>"


def _portable(value: Any) -> Any:
    """The value if it survives pickling, else None."""
    try:
        pickle.loads(cloudpickle.dumps(value))
    except Exception:
        return None
    return value
