"""Run a recorded episode again: one env, in this process, compared with the recording."""

from __future__ import annotations

import bdb
import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.batch import Op
from vecenv._batch.random_state import set_words
from vecenv._util.checks import positive_int, positive_seconds
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.sync import SyncEngine
from vecenv.engines.recording.recording import Recording
from vecenv.errors import ConfigError, ConfigTypeError, EnvError
from vecenv.recording._builds import Parts, factory_of, parts_of
from vecenv.recording._compare import Comparison
from vecenv.recording._forked import Ending, run_forked
from vecenv.recording._result import Failure, Replay, type_of
from vecenv.recording._stage import Stage, trimmed

OnStep = Callable[[int, gymnasium.Env[Any, Any]], None]

PATIENCE = 10.0
_ONLY_ROW = np.arange(1)


def replay(
    file: str | os.PathLike[str] | Recording,
    env: Any = None,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    trust: bool = False,
    on_step: OnStep | None = None,
    render_mode: str | None = None,
    stop_before: int | None = None,
    patience: float = PATIENCE,
) -> Replay:
    """Run a recorded episode again, in this process, and compare every bit with the recording.

    Observations, rewards and flags are compared after each step. The run continues after a difference and ends with the
    recording, or with a failure. A kernel runs as plain Python, which a debugger can enter. If the recorded episode
    ended because a worker hung or died, its last step first runs in a forked copy of this process.

    Args:
        file: a path, or a Recording.
        env: what makes the env, wrappers included: anything that `vecenv.make` takes for one env. Default: what the
            recording names.
        env_kwargs: constructor arguments for `env`.
        trust: whether code that the file names may be imported and run. Ids that are registered need no trust.
        on_step: called with 0 and the env after the reset, with k and the env after the k-th step.
        render_mode: render mode of the env, so that `on_step` can call `env.render()`.
        stop_before: stop in pdb before one of the last steps: 1 stops before the last recorded step, 2 before the one
            before it. `env`, `action` and `recording` are in scope, and the next line is `env.step(action)`.
        patience: seconds after which a step counts as hung, if it hung in the recording.

    Raises:
        UnsafeFile: the file is damaged, or names code and is not trusted.
        ConfigError: the recording cannot be replayed, or the env is not the recorded one.
        EnvError: the env could not be made.
        OSError: the file cannot be read.
        BdbQuit: the user left the debugger with `q`.
    """
    recording = file if isinstance(file, Recording) else Recording.load(_path(file))
    reason = recording.why_not_replayable
    if reason is not None:
        raise ConfigError(f"this recording cannot be replayed: {reason}")
    stop_before = None if stop_before is None else positive_int("stop_before", stop_before)
    patience = positive_seconds("patience", patience)
    if env_kwargs and env is None:
        raise ConfigError("env_kwargs are for env=; the recording has its own")
    parts = parts_of(recording.build, trust) if env is None else Parts(env, env_kwargs or {})
    run = _Run(recording, factory_of(recording, parts, render_mode))
    try:
        outcome = run.to_the_end(on_step, stop_before, patience)
        return replace(outcome, given_env=env is not None)
    finally:
        run.close()


class _Run:
    """One env, and the recording that it is compared with."""

    def __init__(self, recording: Recording, factory: Factory) -> None:
        self._recording = recording
        self._outside = sys.exc_info()[1]
        try:
            self._engine = SyncEngine([lambda: Stage(factory(), recording)])
        except EnvError as error:
            if isinstance(error.__cause__, ConfigError):
                raise error.__cause__ from None
            raise
        try:
            self._stage: Any = self._engine.envs[0]
            self._comparison = Comparison(recording, self._engine.batch)
        except BaseException:
            self._engine.close()
            raise

    def close(self) -> None:
        self._engine.close()

    def to_the_end(self, on_step: OnStep | None, stop_before: int | None, patience: float) -> Replay:
        recording, batch = self._recording, self._engine.batch
        last = recording.steps
        stop_at = None if stop_before is None else max(0, last + 1 - stop_before)
        difference = failure = None
        done = -1
        for step in range(last + 1):
            self._stage.stops = step == stop_at
            failure = self._fatal(step, patience) if step == last and stop_at is None else None
            failure = failure or self._advance_or_fail(step)
            if failure is not None:
                break
            done = step
            difference = difference or self._comparison.first_difference(step)
            if on_step is not None:
                on_step(step, self._stage.env)
            if step == last and _kind_of(recording) == "not-finite":
                failure = self._not_finite(step)
                done = step if failure is None else step - 1
            if batch.terminated[0] or batch.truncated[0]:
                break
        return Replay(recording, max(done, 0), failure, difference)

    def _fatal(self, step: int, patience: float) -> Failure | None:
        """Run the step that killed or hung a worker in a forked process; None if it returns there."""
        if _kind_of(self._recording) not in ("hung", "died"):
            return None
        ending = run_forked(functools.partial(self._advance, step), patience)
        return None if ending.kind == "returned" else _failure_of(ending, step, patience)

    def _advance_or_fail(self, step: int) -> Failure | None:
        try:
            self._advance(step)
        except EnvError as error:
            cause = error.__cause__ or error
            if isinstance(cause, bdb.BdbQuit):  # the user has left the debugger
                raise cause from None
            return Failure("raised", step, type(cause).__name__, _text(cause), trimmed(cause, self._outside))
        except KeyboardInterrupt as error:
            if step != self._recording.steps or type_of(self._recording.failure) != "KeyboardInterrupt":
                raise
            return Failure("raised", step, "KeyboardInterrupt", "", trimmed(error, self._outside))
        return None

    def _not_finite(self, step: int) -> Failure | None:
        found = self._comparison.not_finite()
        return None if found is None else Failure("not-finite", step, "NotFiniteError", found)

    def _advance(self, step: int) -> None:
        """Reset (0), or take the step with this number."""
        batch = self._engine.batch
        if step == 0:
            self._set_start()
            batch.op[0] = Op.RESET
        else:
            self._set_action(step - 1)
            batch.op[0] = Op.STEP
        self._engine.send(_ONLY_ROW)
        self._engine.recv(1)

    def _set_start(self) -> None:
        recording, batch = self._recording, self._engine.batch
        if recording.start["kind"] == "seed":
            batch.seed[0] = recording.start["seed"]
        elif recording.start["kind"] == "random-state":
            try:
                set_words(self._stage.unwrapped.np_random, recording.start["words"])
            except (ValueError, AttributeError) as error:
                raise ConfigError(f"the random state of the recording cannot be set: {error}") from error
        if recording.options["kind"] == "value" and recording.options["value"] is not None:
            batch.options[0] = recording.options["value"]

    def _set_action(self, place: int) -> None:
        recording, batch = self._recording, self._engine.batch
        for column, recorded in zip(batch.actions, recording.actions, strict=True):
            assert recorded is not None  # otherwise the recording is not replayable
            column[0] = recorded[place]
        if place in recording.given:
            batch.raw_actions[0] = recording.given[place]


def _failure_of(ending: Ending, step: int, patience: float) -> Failure:
    if ending.kind == "hung":
        return Failure("hung", step, "", f"it did not return within {patience:g} s", ending.stack)
    death = ending.signal or f"exit code {'unknown' if ending.exitcode is None else ending.exitcode}"
    return Failure("died", step, death, f"it ended the process: {death}", ending.stack)


def _kind_of(recording: Recording) -> str | None:
    return None if recording.failure is None else recording.failure["kind"]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _path(file: Any) -> Any:
    if not isinstance(file, (str, os.PathLike)):
        raise ConfigTypeError(f"replay takes the path of a recording or a Recording, got {type(file).__name__}")
    return file
