"""Failures as data: what went wrong with a row, in a form that crosses processes, and when to try again."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import cloudpickle

from vecenv._batch.seeding import NO_SEED, spawn
from vecenv._util.text import text_of, type_name
from vecenv.errors import EnvError, Phase, RestartLimit, env_error

OnError = Literal["raise", "restart"]
ENV_RAISED = (Exception, SystemExit)
"""What counts as a failure of the env; Ctrl-C does not."""

_TEXT_LIMIT = 64_000
RESTARTS = 3
WINDOW = 1_000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_CARRIED = ("original", "action", "error")
"""What a fault has of the env's own objects. Each is pickled by itself, so that one that fails is left out alone."""
_traceback_of: Any = BaseException.__dict__["__traceback__"].__get__
"""Not `error.__traceback__`: a class can make that anything."""
_ADVICE: dict[Phase, str] = {
    "make": "call that env function alone to see it fail here",
    "reset": "reset() tries again, on_error='restart' builds the env again",
    "step": "reset() begins its next episode, on_error='restart' restarts failed envs automatically",
    "call": "the env is as it was left, and nothing needs a reset",
    "close": "the other envs were closed",
}


@dataclass
class Fault:
    """Why an op on a row failed. It can be made and pickled whatever the environment raised."""

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
    fault_class: str | None = None
    """"retry", "terminal" or "infrastructure", from an engine that classes faults."""
    interrupt: KeyboardInterrupt | None = None
    """Ctrl-C that came while this was made, to be raised later."""

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
        """The fault of an exception. Never raises, whatever the exception does when it is looked at."""
        kind, message, interrupt = type_name(raised), text_of(raised)[:_TEXT_LIMIT], None
        trace = _traceback_of(raised)
        try:
            text = "".join(traceback.format_exception(type(raised), raised, trace))
        except BaseException as failure:  # of the exception, or of one that it came from
            interrupt = failure if type(failure) is KeyboardInterrupt else None
            text = f"{_stack(trace)}{kind}: {message}\n"
        return cls(
            phase=phase,
            kind=kind,
            message=message,
            traceback=text[-_TEXT_LIMIT:],
            original=raised,
            action=action,
            seed=None if seed == NO_SEED else seed,
            error=error,
            elapsed=elapsed,
            interrupt=interrupt,
        )

    def __getstate__(self) -> dict[str, Any]:
        carried = {name: _packed(getattr(self, name)) for name in _CARRIED}
        return {**self.__dict__, **carried, "interrupt": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        carried = {name: _unpacked(state[name]) for name in _CARRIED}
        self.__dict__.update({**state, **carried})

    def to_error(
        self, row: int, worker: int | None = None, pid: int | None = None, advice: str | None = None
    ) -> EnvError:
        """The error to raise where the user is waiting; `advice` ends its message, None: what suits the phase."""
        if self.error is not None:
            self.error.fault_class = self.fault_class
            return self.error
        where = "" if worker is None else f" (worker {worker}, pid {pid})" if pid else f" (thread {worker})"
        context = "" if self.action is None else f"; last action {text_of(self.action, repr):.80}"
        context += "" if self.seed is None else f"; last seed {self.seed}"
        context += "" if self.elapsed is None else f"; after {self.elapsed:.3g} s"
        advice = advice or _ADVICE[self.phase]
        error = env_error(
            self.original,
            f"env {row}{where} raised {self.kind} in {self.phase}: {self.message}{context}; {advice}",
            row=row,
            rows=self.rows,
            phase=self.phase,
            worker=worker,
            pid=pid,
            action=self.action,
            seed=self.seed,
            remote_traceback=self.traceback,
        )
        error.elapsed, error.fault_class = self.elapsed, self.fault_class
        return error

    def as_info(self, row: int, restarts: int, ended: bool) -> dict[str, Any]:
        """The value of `info["fault"]` for a row that was restarted; `ended`: the fault has ended an episode."""
        advice = self.error._advice if self.error is not None else ""
        message = self.message.replace(f"; {advice}", "", 1) if advice else self.message
        info = {"kind": self.kind, "message": message, "phase": self.phase, "env": row, "restarts": restarts}
        info["ended"] = ended
        return info if self.fault_class is None else {**info, "class": self.fault_class}


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
            said = f"env {self.row} failed {len(causes)} times within {WINDOW} of its steps"
            raise restart_limit(self.row, f"{said} and was restarted {RESTARTS} times", causes)
        self.pause(pause_after(len(self.recent)))
        self.recent.append((now, fault))


def pause_after(restarts: int) -> float:
    """Seconds to wait before an env is built again that was built again so often."""
    return min(_FIRST_PAUSE * 2**restarts, _LONGEST_PAUSE)


def restart_limit(row: int, happened: str, causes: Sequence[Fault]) -> RestartLimit:
    """The error when an env is not built again; `causes` are the faults, the latest last."""
    fault = causes[-1]
    error = RestartLimit(
        f"{happened}; last: {fault.kind} in {fault.phase}: {fault.message}. Fix the env, or make it with "
        "on_error='raise' to see the first failure",
        row=row,
        phase=fault.phase,
        remote_traceback=fault.traceback,
    )
    error.causes = tuple(cause.to_error(row) for cause in causes)
    return error


def restart_seed(given_seed: int, row: int, restarts: int) -> int:
    """The seed of a rebuilt env.

    It depends on nothing that happened in between: neither on earlier restarts nor on whether one of them was reset
    before it failed.
    """
    return NO_SEED if given_seed == NO_SEED else spawn(given_seed, row, restarts)


def _stack(trace: Any) -> str:
    """The lines of a traceback above the exception itself."""
    try:
        return "".join(["Traceback (most recent call last):\n", *traceback.format_tb(trace)])
    except BaseException:  # the loader of a module can raise anything when it is asked for its source
        return ""


def _packed(value: Any) -> bytes | None:
    """A pickle of the value; None if it does not survive pickling."""
    if value is None:
        return None
    try:
        packed = cloudpickle.dumps(value)
        pickle.loads(packed)
    except BaseException:  # `__reduce__` and what it names can raise anything
        return None
    return packed


def _unpacked(packed: bytes | None) -> Any:
    """The value; None where it cannot be unpickled. A fault that lacks it still has its text."""
    try:
        return None if packed is None else pickle.loads(packed)
    except ENV_RAISED:
        return None
