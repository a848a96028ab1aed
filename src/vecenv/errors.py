"""Every error vecenv raises.

VecenvError
├── ConfigError (ValueError)            a wrong argument to make()
│   ├── ConfigTypeError (TypeError)     an argument of the wrong type
│   ├── UnknownEnv                      no such id; did you mean ...
│   ├── UnknownEngine                   no engine has this name; lists those that exist
│   ├── EngineRefused                   the engine cannot run this env, and why
│   ├── FileInUse (FileExistsError)     another process is writing this file
│   ├── NoResources                     a Ray cluster lacks resources for the actors: what it has, what is missing
│   └── MissingExtra                    the `pip install 'vecenv[...]'` line that installs it
├── SpaceError (TypeError, ValueError)  spaces that differ; a value that does not fit its space
│   ├── InvalidAction                   which env, which value, what was expected
│   └── UnknownRow (IndexError)         an env id outside 0 ... num_envs - 1
├── CallOrderError (RuntimeError)
│   ├── ClosedError                     after close()
│   ├── NotResetError                   a step before reset, or of a finished episode in "disabled" mode
│   ├── PendingError                    a call before the results of an earlier one were received
│   └── NothingPendingError             recv() with nothing sent
├── EnvError (RuntimeError)             an env raised: .row, .phase, .remote_traceback, the original as __cause__
│   ├── NotFiniteError (ValueError)     NaN or infinity: .name, .value, .row, .seed, .step
│   ├── EnvTimeout (TimeoutError)       an env was not done by its step_timeout or reset_timeout, and was cancelled
│   ├── KernelFault                     check="bounds" found a mistake: .kernel, .function, .file, .line, .field, .value
│   └── WorkerError
│       ├── WorkerDied                  .exitcode, .signal, .stack
│       ├── WorkerTimeout (TimeoutError)
│       └── RestartLimit                on_error="restart" gave up; .causes
├── UnsafeFile (ValueError)             a file that would run code, or is damaged
├── KernelError (TypeError)             a kernel breaks a rule: .kernel, .function, .file, .line, .errors
└── UnsupportedError (NotImplementedError)  this engine cannot do that; names the engines that can

Messages say what happened, what was given and what to do. Where Gymnasium has an error for the same mistake, ours is
an instance of it, so code written for Gymnasium still catches it. Gymnasium 1.2 checks arguments with `assert`, 1.4
raises TypeError or ValueError: SpaceError and NotResetError are therefore AssertionErrors too.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterable
from multiprocessing import TimeoutError as MultiprocessingTimeout
from typing import Any, Literal

import gymnasium.error

Phase = Literal["make", "reset", "step", "call", "close"]
"""What an env was doing when it failed."""


class VecenvError(Exception):
    """Base class of all errors that vecenv raises on purpose."""


class ConfigError(VecenvError, ValueError):
    """An argument of `make` has a value that it cannot have."""


class ConfigTypeError(ConfigError, TypeError):
    """An argument of `make` has the wrong type, or `make` has no argument of that name."""


class UnknownEnv(ConfigError, gymnasium.error.NameNotFound):
    """No environment is registered under this id."""


class UnknownEngine(ConfigError):
    """No engine has this name."""


class EngineRefused(ConfigError):
    """The named engine cannot run this environment; the message gives the reason."""


class FileInUse(ConfigError, FileExistsError):
    """Another process or writer has this file open; the message names the file."""


class NoResources(ConfigError):
    """A Ray cluster lacks resources for the requested actors; the message says what it has and what is missing."""


class MissingExtra(ConfigError, ImportError):
    """An optional dependency is not installed; the message is the pip line that installs it."""


class SpaceError(VecenvError, TypeError, ValueError, AssertionError):
    """Spaces differ, or a value does not fit its space."""


class InvalidAction(SpaceError, gymnasium.error.InvalidAction):
    """An action is outside its space. Raised before anything is sent."""


class UnknownRow(SpaceError, IndexError):
    """This vector env has no env with that id."""


class CallOrderError(VecenvError, RuntimeError):
    """This call is not possible in the current state."""


class ClosedError(CallOrderError, gymnasium.error.ClosedEnvironmentError):
    """The vector env is closed."""


class NotResetError(CallOrderError, gymnasium.error.ResetNeeded, AssertionError):
    """A row must be reset before it can be stepped."""


class PendingError(CallOrderError, gymnasium.error.AlreadyPendingCallError):
    """The results of an earlier call have not been received yet. `name` is that call."""

    def __init__(self, message: str, name: str = "step") -> None:
        gymnasium.error.AlreadyPendingCallError.__init__(self, message, name)

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.name)


class NothingPendingError(CallOrderError, gymnasium.error.NoAsyncCallError):
    """There is nothing to receive. `name` is the call that would have to come first."""

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
        elapsed: seconds from the start of the failing call to the error, None if unknown.
        recording: path of the file that holds the episode, with `make(record="last-episode")`.
        fault_class: "retry", "terminal" or "infrastructure", from the asyncio engine; else None.
    """

    elapsed: float | None = None
    fault_class: str | None = None
    recording: str | None = None
    _advice = ""
    """The part of the message that says what to do; left out where the engine has already done it."""

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

    def __reduce_ex__(self, protocol: Any) -> Any:  # before that of the env's own exception type
        return self.__reduce__()

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
        name: "actions", "obs", "final_obs" or "reward"; for a leaf of a nested space with its path: "obs.camera".
        row, seed: as in EnvError.
        rows: the environments that need a reset because of it; empty if the wrapper found it.
        value: the value that is not finite.
        step: number of steps in the row's episode; 0 is its first observation.
        episode: number of episodes the row has started since it was seeded, None if not counted.
        actions: the last actions of the episode, oldest first, batched like actions of many envs; None if not kept.
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


class EnvTimeout(EnvError, TimeoutError):
    """An environment was not done with a call by its deadline, which counts from the start of the call.

    The call was cancelled. `elapsed` is the limit, in seconds.
    """


class KernelFault(EnvError):
    """Native code of a kernel did what Python would raise for; found by `make(check="bounds")`.

    Attributes:
        problem: "index", "size", "division", "conversion", "overflow", "power", "key", "full", "empty" or "loop".
        kernel: name of the class.
        function: name of the method or helper.
        file, line: where it happened.
        field: the array, field or expression: "s.board", "p.prices", "obs", "TABLE".
        axis: of the array, for an index.
        value: the index, the number that does not fit, the size of the value, or the number of turns of loops; else 0.
        limit: the size of the axis, or the number of turns that are allowed; else 0.
        row, rows, phase, seed, action: as in EnvError.
    """

    problem: str = ""
    kernel: str = ""
    function: str = ""
    file: str = ""
    line: int = 0
    field: str = ""
    axis: int | None = None
    value: int = 0
    limit: int = 0


class WorkerError(EnvError):
    """A worker failed, rather than one environment."""


class WorkerDied(WorkerError):
    """A worker process died. `exitcode`, `signal` (its name) and `stack` (Python stack, if it could be saved).

    Exit code and signal are None if the system did not say them, because this program ignores SIGCHLD.
    """

    exitcode: int | None = None
    signal: str | None = None
    stack: str = ""


class WorkerTimeout(WorkerError, TimeoutError, MultiprocessingTimeout):
    """An environment did not answer in time. `stack` is the Python stack of its worker at that moment."""

    stack: str = ""


class RestartLimit(WorkerError):
    """`on_error="restart"` stopped restarting an environment. `causes` are the errors it was restarted for."""

    causes: tuple[BaseException, ...] = ()


class UnsafeFile(VecenvError, ValueError):
    """Loading this file would run code, or the file is damaged. Nothing was changed."""


class KernelError(VecenvError, TypeError):
    """The definition of a kernel breaks a rule.

    Attributes:
        kernel: name of the class.
        function: name of the method or helper, None if it is the class itself.
        file, line: where the rule is broken, None if unknown.
        errors: an error for each rule that is broken, ordered by line. The other attributes are those of the first.
    """

    def __init__(
        self, rule: str, kernel: str = "", function: str | None = None, file: str | None = None, line: int | None = None
    ) -> None:
        self.rule = rule
        self.kernel, self.function, self.file, self.line = kernel, function, file, line
        name = kernel if function is None else f"{kernel}.{function}"
        where = f", line {line} of {file}" if file and line else ""
        # Gymnasium raises some errors again with only their text, so the rule alone must be a valid message.
        super().__init__(f"{name}{where}: {rule}" if kernel else rule)

    @property
    def errors(self) -> tuple[KernelError, ...]:
        """An error for each rule that is broken, ordered by line."""
        return self._others or (self,)

    _others: tuple[KernelError, ...] = ()
    compiler_text: str = ""
    """What the compiler says if it fails on code that breaks no rule, for a report of the defect."""

    @staticmethod
    def of(errors: Iterable[KernelError]) -> KernelError:
        """One error for all of these, at least one."""
        each = (one for error in errors for one in error.errors)
        ordered = sorted(each, key=lambda one: (one.file or "", one.line or 0))
        first = ordered[0]
        if len(ordered) == 1:
            return first
        made = KernelError(first.rule, first.kernel, first.function, first.file, first.line)
        made._others = tuple(ordered)
        made.args = ("\n  ".join([f"{first.kernel} breaks {len(ordered)} rules:", *map(str, ordered)]),)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if self._others:
            return KernelError.of, (self._others,)
        return type(self), (self.rule, self.kernel, self.function, self.file, self.line)


class UnsupportedError(VecenvError, NotImplementedError):
    """This engine cannot do that; the message names the engines that can."""


def name_recording(error: VecenvError, path: str, why_not: str | None, options: str) -> None:
    """Add to an error where its episode is recorded and how to replay it, or `why_not`: why it cannot be replayed."""
    command = f"\nreplay it: vecenv replay {path}{options}"
    line = command if why_not is None else f"\nrecorded in {path}, cannot be replayed: {why_not}"
    if isinstance(error, EnvError):
        error.message += line
    else:
        error.args = (f"{error}{line}",)
    error.recording = path  # type: ignore[attr-defined]  # every error that is passed here has the attribute


def env_error(original: BaseException | None, message: str, **fields: Any) -> EnvError:
    """Build the EnvError for an env that raised `original`; where Python allows, an instance of original's type too."""
    trace = RemoteTraceback(fields["remote_traceback"]) if fields.get("remote_traceback") else None
    cause = trace if original is None else original
    if original is not None and trace is not None and _TRACEBACK.__get__(original) is None:
        _CAUSE.__set__(original, trace)
    plain = EnvError(message, **fields)
    _CAUSE.__set__(plain, cause)
    try:
        error = _env_error_class(type(original))(message, **fields)
        error.elapsed = None
        _CAUSE.__set__(error, cause)
        return error if _answers_like(error, plain) else plain
    except BaseException:  # original's type may have a constructor or attributes that do not allow it
        return plain


def _answers_like(error: EnvError, plain: EnvError) -> bool:
    """Whether an error of the env's own type has the values of a plain one. Properties can raise, or return others."""
    hasattr(error, "__notes__")  # asked for when the error is printed, as these are
    names = {*vars(plain), "__context__", "__suppress_context__", "__traceback__"} - {"action"}
    same = all(getattr(error, name) == getattr(plain, name) for name in names)
    return same and error.__cause__ is plain.__cause__ and error.__class__ is type(error)


_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
_CAUSE: Any = BaseException.__dict__["__cause__"]
"""Not by name, as in `original.__cause__`: a class can make that anything."""


@functools.cache
def _env_error_class(original: type, base: type = EnvError) -> type:
    """A subclass of EnvError and `original`; EnvError itself if that is impossible (memory layout, no Exception)."""
    if not issubclass(original, Exception) or issubclass(original, EnvError):
        return base
    try:
        return type(base.__name__, (base, original), {"__module__": base.__module__, "_original": original})
    except Exception:  # __init_subclass__ of the env's type may raise anything
        return base


def _rebuild(base: type[EnvError], original: type | None, fields: dict[str, Any]) -> EnvError:
    cls = base if original is None else _env_error_class(original, base)
    error = cls(fields["message"])
    error.__dict__.update(fields)
    return error


def _round_trips(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except (Exception, SystemExit):
        return False
    return True
