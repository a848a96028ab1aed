"""Every error vecenv raises.

VecenvError
├── ConfigError (ValueError)            a wrong argument to make()
│   ├── ConfigTypeError (TypeError)     an argument of the wrong type
│   ├── UnknownEnv                      no such id; did you mean ...
│   ├── UnknownEngine                   no such engine; the ones there are
│   ├── EngineRefused                   the engine cannot run this env, and why
│   ├── FileInUse (FileExistsError)     another writer has this file
│   ├── NoResources                     a Ray cluster has no room for the actors: what is there, what is missing
│   └── MissingExtra                    the `pip install 'vecenv[...]'` line that brings it
├── SpaceError (TypeError, ValueError)  spaces that differ; a value that does not fit its space
│   ├── InvalidAction                   which env, which value, what was expected
│   └── UnknownRow (IndexError)         an env id outside 0 ... num_envs - 1
├── CallOrderError (RuntimeError)
│   ├── ClosedError                     after close()
│   ├── NotResetError                   a step before reset, or of a finished episode in "disabled" mode
│   ├── PendingError                    a call while results of another are still to come
│   └── NothingPendingError             recv() with nothing sent
├── EnvError (RuntimeError)             an env raised: .row, .phase, .remote_traceback, the original as __cause__
│   ├── NotFiniteError (ValueError)     NaN or infinity: .name, .value, .row, .seed, .step
│   └── WorkerError
│       ├── WorkerDied                  .exitcode, .signal, .stack
│       ├── WorkerTimeout (TimeoutError)
│       └── RestartLimit                on_error="restart" gave up; .causes
├── UnsafeFile (ValueError)             a file that would run code, or is damaged
├── KernelError (TypeError)             a kernel breaks a rule: .kernel, .function, .file, .line
└── UnsupportedError (NotImplementedError)  names the engines that can

Messages say what happened, what was given and what to do. Where Gymnasium has an error for the same thing ours is also
an instance of it, so code written for Gymnasium keeps catching it. Gymnasium 1.2 checks arguments with `assert`, 1.4
raises TypeError or ValueError: SpaceError and NotResetError are AssertionErrors too.
"""

from __future__ import annotations

import functools
import pickle
from multiprocessing import TimeoutError as MultiprocessingTimeout
from typing import Any, Literal

import gymnasium.error

Phase = Literal["make", "reset", "step", "call", "close"]
"""What an env was doing when it failed."""


class VecenvError(Exception):
    """Base of all errors raised on purpose by vecenv."""


class ConfigError(VecenvError, ValueError):
    """An argument of `make` that cannot be right."""


class ConfigTypeError(ConfigError, TypeError):
    """An argument of `make` with the wrong type, or a name that `make` does not know."""


class UnknownEnv(ConfigError, gymnasium.error.NameNotFound):
    """No environment is registered under this id."""


class UnknownEngine(ConfigError):
    """No engine has this name."""


class EngineRefused(ConfigError):
    """The named engine cannot run this environment; the message is its reason."""


class FileInUse(ConfigError, FileExistsError):
    """A file that another writer has open; the message names it."""


class NoResources(ConfigError):
    """A Ray cluster has no room for the actors that were asked for; says what it has and what is missing."""


class MissingExtra(ConfigError, ImportError):
    """An optional dependency is not installed; the message is the pip line that brings it."""


class SpaceError(VecenvError, TypeError, ValueError, AssertionError):
    """Spaces that do not agree, or a value that does not fit the space it belongs to."""


class InvalidAction(SpaceError, gymnasium.error.InvalidAction):
    """An action outside its space. Raised before anything is sent."""


class UnknownRow(SpaceError, IndexError):
    """An env id that this vector env does not have."""


class CallOrderError(VecenvError, RuntimeError):
    """A call that is not possible now."""


class ClosedError(CallOrderError, gymnasium.error.ClosedEnvironmentError):
    """The vector env is closed."""


class NotResetError(CallOrderError, gymnasium.error.ResetNeeded, AssertionError):
    """A row must be reset before it can be stepped."""


class PendingError(CallOrderError, gymnasium.error.AlreadyPendingCallError):
    """Results of an earlier call are still to come. `name` is that call."""

    def __init__(self, message: str, name: str = "step") -> None:
        gymnasium.error.AlreadyPendingCallError.__init__(self, message, name)

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.name)


class NothingPendingError(CallOrderError, gymnasium.error.NoAsyncCallError):
    """Nothing was sent that could be received. `name` is the call that is missing."""

    def __init__(self, message: str, name: str = "step") -> None:
        gymnasium.error.NoAsyncCallError.__init__(self, message, name)

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.name)


class RemoteTraceback(Exception):
    """Text of a traceback from another process, shown as the cause of an EnvError."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class EnvError(VecenvError, RuntimeError):
    """An environment raised, or returned something that cannot be used.

    When the environment raised, the error is also an instance of the environment's own exception type
    (`except ValueError` catches what an env raised as ValueError) and the original is its `__cause__`.

    Attributes:
        row: index of the environment.
        rows: indices of all environments that need a reset because of this error; usually just `row`.
        phase: "make", "reset", "step", "call" or "close".
        worker: number of the worker (or thread) that ran it, None in this process.
        pid: process id of that worker.
        action: the action of the failing step, if it was a step.
        seed: the seed of the row's last seeded reset, None if there was none.
        remote_traceback: traceback text from where it was raised.
        elapsed: seconds since the call began in which it failed, None if unknown.
        recording: path of the file that the episode was written to, with `make(record="last-episode")`.
    """

    elapsed: float | None = None
    recording: str | None = None
    _advice = ""
    """The part of the message that says what to do; not for those for whom it has been done."""

    def __init__(
        self,
        message: str,
        *,
        row: int | None = None,
        rows: tuple[int, ...] = (),
        phase: Phase | None = None,
        worker: int | None = None,
        pid: int | None = None,
        action: Any = None,
        seed: int | None = None,
        remote_traceback: str = "",
    ) -> None:
        Exception.__init__(self, message)
        self.message = message
        self.row = row
        self.rows = rows or (() if row is None else (row,))
        self.phase: Phase | None = phase
        self.worker = worker
        self.pid = pid
        self.action = action
        self.seed = seed
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Any:
        fields = dict(self.__dict__)
        original = getattr(type(self), "_original", None)
        if original is not None and not _round_trips(original):
            original = None
        base = next(cls for cls in type(self).__mro__ if "_original" not in cls.__dict__)
        return _rebuild, (base, original, fields)


class NotFiniteError(EnvError, ValueError):
    """NaN or infinity where numbers belong; raised by `make(check_finite=...)` and `vecenv.wrappers.CheckFinite`.

    Attributes:
        name: where: "actions", "obs", "final_obs" or "reward", with the path of a leaf: "obs.camera".
        row: index of the environment.
        rows: the environments that need a reset because of it; none if the wrapper found it.
        value: what it was.
        seed: of the row's last seeded reset, None if there was none.
        step: how many steps its episode had; 0 is its first observation.
        episode: how many episodes the row has begun since it was seeded, None if that was not counted.
        actions: the last of its episode, oldest first, batched like actions of many envs; None if they were not kept.
    """

    def __init__(
        self,
        name: str,
        *,
        row: int,
        value: Any,
        seed: int | None,
        step: int,
        episode: int | None = None,
        actions: Any = None,
        rows: tuple[int, ...] = (),
        phase: Phase | None = None,
        action: Any = None,
        when: str = "",
        fix: str = "",
    ) -> None:
        begun = "never seeded" if seed is None else f"last seed {seed}"
        counted = "" if episode is None else f", episode {episode} since then"
        done = f"; its last actions: {_one_line(actions, 500)}" if actions is not None else ""
        done = f"; its last action: {_one_line(action, 100)}" if action is not None else done
        when = when or f"step {step} of its episode"
        message = f"{name} of env {row} is not finite: {_one_line(value, 200)}; {begun}{counted}, {when}{done}"
        EnvError.__init__(
            self, message + (f"; {fix}" if fix else ""), row=row, rows=rows, phase=phase, action=action, seed=seed
        )
        self.rows = rows
        self.name, self.value, self.episode, self.step, self.actions = name, value, episode, step, actions

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_finite, (dict(self.__dict__),)


def _one_line(value: Any, limit: int) -> str:
    return " ".join(repr(value).split())[:limit]


def _not_finite(fields: dict[str, Any]) -> NotFiniteError:
    error = NotFiniteError.__new__(NotFiniteError, fields["message"])
    error.__dict__.update(fields)
    return error


class WorkerError(EnvError):
    """Something happened to a worker rather than to one environment."""


class WorkerDied(WorkerError):
    """A worker process is gone. `exitcode`, `signal` (its name) and `stack` (Python stack, if it could be saved)."""

    exitcode: int | None = None
    signal: str | None = None
    stack: str = ""


class WorkerTimeout(WorkerError, TimeoutError, MultiprocessingTimeout):
    """An environment did not answer in time. `stack` is where its worker was."""

    stack: str = ""


class RestartLimit(WorkerError):
    """`on_error="restart"` gave up on an environment. `causes` are the errors it was restarted for."""

    causes: tuple[BaseException, ...] = ()


class UnsafeFile(VecenvError, ValueError):
    """A file that would run code if it were loaded as its author wants, or that is damaged. Nothing was changed."""


class KernelError(VecenvError, TypeError):
    """The definition of a kernel breaks a rule.

    Attributes:
        kernel: name of the class.
        function: name of the method or helper, None if it is the class itself.
        file, line: where, None if unknown.
    """

    def __init__(
        self, rule: str, kernel: str = "", function: str | None = None, file: str | None = None, line: int | None = None
    ) -> None:
        self.rule = rule
        self.kernel, self.function, self.file, self.line = kernel, function, file, line
        name = kernel if function is None else f"{kernel}.{function}"
        where = f", line {line} of {file}" if file and line else ""
        # Gymnasium raises an error anew with nothing but its text, so a rule alone is a message.
        super().__init__(f"{name}{where}: {rule}" if kernel else rule)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rule, self.kernel, self.function, self.file, self.line)


class UnsupportedError(VecenvError, NotImplementedError):
    """This engine cannot do that; the message names those that can."""


def name_recording(error: VecenvError, path: str, why_not: str | None, options: str) -> None:
    """Tell an error where the episode is that led to it, and how to run it again (`why_not`: why it cannot be)."""
    command = f"\nreplay it: vecenv replay {path}{options}"
    line = command if why_not is None else f"\nrecorded in {path}, not to replay: {why_not}"
    if isinstance(error, EnvError):
        error.message += line
    else:
        error.args = (f"{error}{line}",)
    error.recording = path  # type: ignore[attr-defined]  # those that come here have it


def env_error(original: BaseException | None, message: str, **fields: Any) -> EnvError:
    """Build the EnvError for an env that raised `original`, an instance of original's type too where Python allows."""
    try:
        error = _env_error_class(type(original))(message, **fields)
    except Exception:  # its type has a constructor or attributes of its own that resist
        error = EnvError(message, **fields)
    error.__cause__ = original
    if original is not None and fields.get("remote_traceback") and original.__traceback__ is None:
        original.__cause__ = RemoteTraceback(fields["remote_traceback"])
    elif original is None and fields.get("remote_traceback"):
        error.__cause__ = RemoteTraceback(fields["remote_traceback"])
    return error


@functools.cache
def _env_error_class(original: type, base: type = EnvError) -> type:
    """EnvError crossed with `original`; plain EnvError if that is not an Exception or has another memory layout."""
    if not issubclass(original, Exception) or issubclass(original, EnvError):
        return base
    try:
        return type(base.__name__, (base, original), {"__module__": base.__module__, "_original": original})
    except Exception:  # it may do anything when it is subclassed
        return base


def _rebuild(base: type[EnvError], original: type | None, fields: dict[str, Any]) -> EnvError:
    cls = base if original is None else _env_error_class(original, base)
    error = cls(fields["message"])
    error.__dict__.update(fields)
    return error


def _round_trips(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return False
    return True
