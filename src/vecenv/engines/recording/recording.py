"""One episode of one env, as data: what is needed to run it again, and what came back, to compare with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.random_state import WORDS
from vecenv.engines.recording import archive
from vecenv.engines.recording.values import pack, unpack
from vecenv.errors import UnsafeFile

Column: TypeAlias = np.ndarray | tuple[Any, ...] | None
"""One leaf over time: an array [T, ...]; a tuple of values if the leaf has no fixed size; None if those are no data."""

_NAME, _VERSION = "vecenv.Recording", 1
_BUILDS = ("id", "reference", "kernel", "unknown")
_STARTS = ("seed", "random-state", "kernel-state", "unknown")
_OPTIONS = ("none", "value", "unknown")
_FAILURES = ("raised", "invalid", "not-finite", "hung", "died")


@dataclass(frozen=True, eq=False)
class Recording:
    """One episode of one env. Plain data: nothing in it runs when it is made, saved or loaded.

    What is a dict with a "kind" has these other keys:

    - `build`: "id": id, entry_point, kwargs, max_episode_steps, order_enforce, disable_env_checker; "reference": where
      ("module:qualname"), args, kwargs; "kernel": id, where, params, max_episode_steps, precision; "unknown": repr,
      why. All but the last also have wrappers (a list of such dicts, of kind "reference" or "unknown"), and "file"
      where the module is `__main__`.
    - `start`: "seed": seed; "random-state": words (uint64 [6]); "kernel-state": columns (of the env alone
      after its reset: S_field, P_parameter, RNG, ELAPSED, the steps before; not 0 if it began in the middle of things);
      "unknown": why.
    - `options` of the reset: "none"; "value": value, and build_kwargs where the options asked for another build;
      "unknown": why.
    - `failure`: "raised", "invalid", "not-finite", "hung" or "died": phase ("reset" or "step"), step (how many actions
      the episode had then), type, message, traceback, signal, exitcode, stack (the last four may be None).

    Attributes:
        row: index of the env.
        num_envs: how many there were.
        engine: name of the engine.
        autoreset: "next-step", "same-step" or "disabled".
        versions: of vecenv, gymnasium, numpy and python.
        build: how to make the env again.
        start: where its random stream, or its state, was before the reset.
        options: of that reset.
        action_paths, obs_paths: names of the leaves of the spaces; "" if the space is one leaf.
        actions: one column per leaf, [T, ...]. With a failure in a step, the last one is the action of that step.
        given: actions that do not fit the columns, by step; they take the place of the columns' rows.
        obs: one column per leaf, [R + 1, ...], R being the steps whose results came back: of the reset (or, if not
            `complete`, before the first action), then after each step. No rows at all if the reset did not come back.
        digested: by leaf, whether `obs` has a digest of each row (uint64, see `digest_rows`) instead of the row.
        reward, terminated, truncated: of the steps whose results came back, [R]; R is T, or T - 1 if the last failed.
        steps: T: how many actions it holds, that of a failing step included.
        complete: False if the episode was longer than the recorder keeps: this is its end, which cannot be replayed.
        failure: None if nothing went wrong.
        problems: what could not be written as data, in words.
    """

    row: int
    num_envs: int
    engine: str
    autoreset: str
    versions: Mapping[str, str]
    build: Mapping[str, Any]
    start: Mapping[str, Any]
    options: Mapping[str, Any]
    action_paths: tuple[str, ...]
    obs_paths: tuple[str, ...]
    actions: tuple[Column, ...]
    obs: tuple[Column, ...]
    digested: tuple[bool, ...]
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    steps: int
    complete: bool = True
    given: Mapping[int, Any] = field(default_factory=dict)
    failure: Mapping[str, Any] | None = None
    problems: tuple[str, ...] = ()

    @property
    def why_not_replayable(self) -> str | None:
        """Why it cannot be run again, None if it can (its env may still have to be given)."""
        if not self.complete:
            return "the episode was longer than the recorder keeps (record_limit), and only its end is here"
        for part in (self.start, self.options):
            if part["kind"] == "unknown":
                return str(part["why"])
        if any(column is None for column in self.actions):
            return "; ".join(self.problems) or "its actions could not be written as data"
        return None

    @property
    def replay_options(self) -> str:
        """What `vecenv replay` needs besides the file: trust in the user's own code, or what makes the env."""
        wrappers = self.build.get("wrappers", [])
        if any(part["kind"] == "unknown" for part in (self.build, *wrappers)):
            return " --env module:function"
        where = self.build.get("entry_point") or self.build.get("where") or "vecenv."
        return "" if self.build["kind"] != "reference" and where.startswith("vecenv.") and not wrappers else " --trust"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file that only its owner may read; it appears whole or not at all. Returns its path.

        Raises:
            FileExistsError: there is a file of that name, which is left alone.
            OSError: it cannot be written.
        """
        arrays: list[np.ndarray] = []
        contents = {entry.name: pack(_plain(getattr(self, entry.name)), arrays, entry.name) for entry in fields(self)}
        archive.write(Path(path), _NAME, _VERSION, contents, arrays)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a file. Nothing that it names is imported or run.

        Raises:
            FileNotFoundError: there is none.
            UnsafeFile: it is no recording, of another version, damaged, or made to do harm.
        """
        contents, arrays = archive.read(Path(path), _NAME, _VERSION)
        try:
            known = {entry.name for entry in fields(cls)}
            if not isinstance(contents, dict) or contents.keys() != known:
                raise ValueError("it has other fields than a recording")
            recording = cls(**{name: unpack(value, arrays) for name, value in contents.items()})
            _check(recording)
        except Exception as error:  # a file can be wrong in any way
            reason = f"{type(error).__name__}: {error!s:.200}"
            raise UnsafeFile(f"{path} is no recording, or damaged ({reason}); nothing was loaded") from error
        return recording


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


# --- what a file must be to be taken for a recording ------------------------------------------------------------------


def _check(recording: Recording) -> None:
    """Raise ValueError or KeyError unless everything fits together."""
    _check_types(recording)
    _check_kinds(recording)
    steps, returned = recording.steps, len(recording.reward)
    began = returned + 1
    if not steps and _count(recording.obs, 1) == 0:
        began = 0  # its reset failed, or is under way
    _demand(returned in (steps, steps - 1) and returned >= 0, f"{steps} actions and {returned} rewards")
    for name, dtype in (("reward", np.float64), ("terminated", np.bool_), ("truncated", np.bool_)):
        array = getattr(recording, name)
        _demand(array.dtype == dtype and array.shape == (returned,), f"{name} of {array.dtype} {array.shape}")
    _demand(len(recording.actions) == len(recording.action_paths), "leaves of actions")
    _demand(len(recording.obs) == len(recording.obs_paths) == len(recording.digested), "leaves of observations")
    _demand(all(0 <= step < steps for step in recording.given), "steps of given actions")
    for columns, length in ((recording.actions, steps), (recording.obs, began)):
        for column in columns:
            _demand(column is None or len(column) == length, f"a column of another length than {length}")
    for column, digested in zip(recording.obs, recording.digested, strict=True):
        plain = isinstance(column, np.ndarray) and column.dtype == np.uint64 and column.ndim == 1
        _demand(not digested or plain, "digests of observations")


def _check_types(recording: Recording) -> None:
    for name, kind in _TYPES.items():
        value = getattr(recording, name)
        _demand(type(value) in kind, f"{name} is a {type(value).__name__}")
    texts = (*recording.action_paths, *recording.obs_paths, *recording.problems, *recording.versions.values())
    _demand(all(type(text) is str for text in (*texts, *recording.versions)), "names that are no text")
    _demand(all(type(step) is int for step in recording.given), "steps that are no numbers")
    _demand(all(type(flag) is bool for flag in recording.digested), "flags that are no bools")
    _demand(0 <= recording.row < recording.num_envs, f"env {recording.row} of {recording.num_envs}")
    for column in (*recording.actions, *recording.obs):
        wanted = column is None or type(column) is tuple or (isinstance(column, np.ndarray) and column.ndim > 0)
        _demand(wanted, "an entry that is not a column")


_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("row", "num_envs", "steps"), (int,)),
    **dict.fromkeys(("engine", "autoreset"), (str,)),
    **dict.fromkeys(("versions", "build", "start", "options", "given"), (dict,)),
    **dict.fromkeys(("action_paths", "obs_paths", "actions", "obs", "digested", "problems"), (tuple,)),
    **dict.fromkeys(("reward", "terminated", "truncated"), (np.ndarray,)),
    "complete": (bool,),
    "failure": (dict, type(None)),
}


def _check_kinds(recording: Recording) -> None:
    build, start, options, failure = recording.build, recording.start, recording.options, recording.failure
    _check_reference(build, _BUILDS)
    for wrapper in build.get("wrappers", []):
        _check_reference(wrapper, ("reference", "unknown"))
    _demand(start["kind"] in _STARTS, f"start of kind {start['kind']!r:.60}")
    if start["kind"] == "seed":
        _demand(type(start["seed"]) is int and start["seed"] >= 0, "a seed that is not a number")
    if start["kind"] == "random-state":
        words = start["words"]
        _demand(isinstance(words, np.ndarray) and words.dtype == np.uint64 and words.shape == (WORDS,), "words")
    if start["kind"] == "kernel-state":
        columns = start["columns"]
        _demand(type(columns) is dict and all(type(name) is str for name in columns), "a state")
        _demand(all(isinstance(column, np.ndarray) for column in columns.values()), "a state that is no arrays")
    _demand(options["kind"] in _OPTIONS, f"options of kind {options['kind']!r:.60}")
    _demand(options["kind"] != "value" or "value" in options, "options without a value")
    for part in (start, options):
        _demand(part["kind"] != "unknown" or type(part["why"]) is str, "no reason")
    if failure is not None:
        _demand(failure["kind"] in _FAILURES, f"failure of kind {failure['kind']!r:.60}")
        _demand(type(failure["phase"]) is str and type(failure["message"]) is str, "a failure without words")


def _check_reference(part: Any, kinds: tuple[str, ...]) -> None:
    _demand(type(part) is dict and part["kind"] in kinds, "how the env was built")
    kind = str(part["kind"])
    texts = {"id": ("id",), "reference": ("where",), "kernel": (), "unknown": ("repr", "why")}[kind]
    _demand(all(type(part[name]) is str for name in texts), f"{kind} without a name")
    for name in ("id", "where", "entry_point", "file"):
        _demand(type(part.get(name)) in (str, type(None)), f"{name} is no text")
    for name, wanted in (("kwargs", dict), ("params", dict), ("args", list), ("wrappers", list)):
        _demand(type(part.get(name, wanted())) is wanted, f"{name} is no {wanted.__name__}")
    named = (*part.get("kwargs", {}), *part.get("params", {}))
    _demand(all(type(name) is str for name in named), "arguments whose names are no text")


def _count(columns: tuple[Column, ...], otherwise: int) -> int:
    return next((len(column) for column in columns if column is not None), otherwise)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"wrong: {what}")
