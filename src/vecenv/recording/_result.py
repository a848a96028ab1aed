"""The result of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vecenv.engines.recording.recording import Recording
from vecenv.recording._compare import TOLERANCE, Difference, is_fast

Outcome = Literal["clean", "reproduced", "differs", "not reproduced"]

_HINT = (
    "the env does not depend on its seed and its actions alone: look for random or np.random (use self.np_random), the "
    "time, files, or something it keeps from one episode to the next"
)
_HINT_OF_FAST = (
    "it ran with precision='fast', and small differences grow from step to step; with precision='exact' every bit is "
    "compared"
)
_OTHER_ENV = "env= / --env makes another env than was recorded (arguments, wrappers)"


@dataclass(frozen=True)
class Failure:
    """What went wrong in a replay.

    Attributes:
        kind: "raised" (or returned something that cannot be used), "not-finite", "hung" or "died".
        step: number of the step in which it happened; 0 is the reset.
        type: name of the exception's class; the signal or exit code if the process died.
        message: text of the exception.
        traceback: traceback, beginning with the env's own code; the stack if it hung or died.
    """

    kind: Literal["raised", "not-finite", "hung", "died"]
    step: int
    type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        where = "the reset" if self.step == 0 else f"step {self.step}"
        if self.kind == "raised":
            return f"{self.type} in {where}"
        if self.kind == "not-finite":
            return f"{self.message} after {where}"
        return f"hung in {where}" if self.kind == "hung" else f"died in {where} ({self.type})"


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Attributes:
        recording: the recording that was replayed.
        steps: number of steps that were run, without a failing one.
        failure: what went wrong; None if nothing did.
        difference: the first value that was not as recorded; None if there is none.
        given_env: whether the caller passed the env, instead of using the recorded one.
    """

    recording: Recording
    steps: int
    failure: Failure | None
    difference: Difference | None
    given_env: bool = False

    @property
    def outcome(self) -> Outcome:
        """Whether all was as recorded: "clean" if no failure was recorded, "reproduced" if the failure came again."""
        if self.difference is not None:
            return "differs"
        if not self.same_failure:
            return "not reproduced"
        return "clean" if self.failure is None else "reproduced"

    @property
    def reproduced(self) -> bool:
        """Whether every bit was as recorded, and also the failure if there was one."""
        return self.outcome in ("clean", "reproduced")

    @property
    def same_failure(self) -> bool:
        """Whether the recorded failure happened again in the same step, or none if none was recorded."""
        return _same_failure(self.recording, self.failure)

    @property
    def text(self) -> str:
        """What happened, as lines of text; the first line is the outcome."""
        steps = f"{self.steps} step{'s' * (self.steps != 1)}"
        fast = is_fast(self.recording)
        same = f"as recorded, within {100 * TOLERANCE:g} % (precision='fast')" if fast else "every bit as recorded"
        if self.outcome == "clean":
            return f"replayed: {steps}, {same}"
        if self.outcome == "reproduced":
            return "\n".join([f"reproduced: {self._again()}", f"{steps} before it, {same}", *self._reworded()])
        if self.difference is None:
            other = [f"maybe {_OTHER_ENV}"] if self.given_env else []
            return "\n".join([f"not reproduced: {self._now()}", f"{steps} ran, {same}", *other])
        also = "it failed as recorded all the same" if self.same_failure else self._now()
        quiet = self.recording.failure is None and self.failure is None
        hint = (_HINT_OF_FAST if fast else _HINT) + (f"; or {_OTHER_ENV}" if self.given_env else "")
        return "\n".join([f"differs: {self.difference}", *([] if quiet else [also]), hint])

    def _again(self) -> str:
        recorded = self.recording.failure
        if recorded is not None and recorded["kind"] == "not-finite" and self.failure and self.failure.kind == "raised":
            return f"native code went on to {recorded_failure(self.recording)}, Python raises {self.failure}"
        return f"{self.failure}, as recorded"

    def _now(self) -> str:
        recorded = self.recording.failure
        if self.failure is None and recorded is not None and recorded["kind"] == "not-finite":
            return "the env's own numbers are finite; look at the wrappers between it and the check that failed"
        now = "nothing failed" if self.failure is None else f"{self.failure} ({self.failure.message})"
        return f"{now}, the recording has {recorded_failure(self.recording)}"

    def _reworded(self) -> list[str]:
        failure, recorded = self.failure, self.recording.failure
        if failure is None or recorded is None or failure.kind != "raised" or failure.message in recorded["message"]:
            return []
        return [f"it now says: {failure.message:.500}"]


def recorded_failure(recording: Recording) -> str:
    """The recorded failure in a few words."""
    failure = recording.failure
    if failure is None:
        return "no failure"
    where = _where(recording, failure)
    if failure["kind"] in ("hung", "not-finite"):
        return f"{'a hang' if failure['kind'] == 'hung' else 'a number that is not finite'} {where}"
    if failure["kind"] == "died":
        return f"a death {where} ({_death(failure)})"
    return f"{type_of(failure)} {where}"


def type_of(failure: Mapping[str, Any] | None) -> str:
    """Name of the class of a recorded error."""
    return "" if failure is None else str(failure.get("type") or "an error").rpartition(".")[2]


def _same_failure(recording: Recording, failure: Failure | None) -> bool:
    recorded = recording.failure
    if recorded is None or failure is None:
        return recorded is None and failure is None
    if recorded["kind"] == "not-finite" and recording.start["kind"] == "kernel-state" and failure.kind == "raised":
        return True  # native code continues with NaN, perhaps for many steps; Python raises where it is produced
    if failure.step != recording.steps:
        return False
    if recorded["kind"] in ("hung", "not-finite"):
        return failure.kind == recorded["kind"]
    if recorded["kind"] == "died":
        return failure.kind == "died" and failure.type == _death(recorded)
    return failure.kind == "raised" and failure.type == type_of(recorded)


def _death(failure: Mapping[str, Any]) -> str:
    code = failure.get("exitcode")
    return failure.get("signal") or f"exit code {'unknown' if code is None else code}"


def _where(recording: Recording, failure: Mapping[str, Any]) -> str:
    if failure["phase"] not in ("reset", "step"):
        return f"in {failure['phase']}(), which is not part of an episode"
    return f"in step {recording.steps}" if recording.steps else "in the reset"
