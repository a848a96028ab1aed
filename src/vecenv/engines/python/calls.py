"""Calls of Python envs: those that are no ops, and checks of what `step` and `reset` return."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.batch import Batch
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import ENV_RAISED, Fault
from vecenv._util.checks import brief
from vecenv._util.text import text_of, type_name
from vecenv.engines.python.copies import NoCopies
from vecenv.errors import SpaceError

BOOLS = frozenset({bool, np.bool_})
NUMBERS = (float, int, np.floating, np.integer)


class EnvCalls:
    """The envs of a block of rows, and calls of them outside of ops.

    Args:
        envs: one env per row of `batch`.
        batch: the rows, local to this block.
        first: index of the first row in the engine's batch.
        origin: index of that batch's first row among all envs, for names and seeds.
    """

    def __init__(
        self, envs: list[gymnasium.Env[Any, Any]], batch: Batch, clocks: Clocks, first: int = 0, origin: int = 0
    ) -> None:
        self.envs = envs
        self.batch = batch
        self.clocks = clocks
        self.first = first
        self._named = origin + first
        self._current = item_view(clocks.current)
        self._closed = 0
        """How many envs are closed, the first ones."""
        self._complaints: list[str] = []

    def call(
        self, rows: Iterable[int], name: str | Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[int, Any]:
        """Call a method of, or read an attribute from, the envs of `rows`; a Fault stands for a failed call.

        A function in place of the name is called with each env, and its index among all envs, before the arguments.
        """

        def one(env: gymnasium.Env[Any, Any], place: int) -> Any:
            if not isinstance(name, str):
                return name(env, place, *args, **kwargs)
            attribute = env.get_wrapper_attr(name)
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        return {row: self._guarded(row, one, self._named + row) for row in rows}

    def set_attr(self, name: str, values: dict[int, Any]) -> dict[int, Any]:
        """Set an attribute of the envs of some rows; a Fault stands for one that could not be set."""

        def one(env: gymnasium.Env[Any, Any], value: Any) -> None:
            env.set_wrapper_attr(name, value)

        return {row: self._guarded(row, one, value) for row, value in values.items()}

    def close(self, failures: Any = ENV_RAISED) -> list[str]:
        """Close every env, also after one that raises one of these. After Ctrl-C, another call continues with that env.

        Returns what went wrong, each time once, for a warning to the user.
        """
        while self._closed < len(self.envs):
            row = self._closed
            self._current[0] = row
            try:
                with NoCopies():
                    closing: Any = self.envs[row].close()
                if inspect.iscoroutine(closing):
                    closing.close()  # of an env that this engine could not run; Python would warn
            except failures as error:
                self._complaints.append(f"env {self.first + row} raised in close(): {text_of(error, repr):.1000}")
            self._closed = max(self._closed, row + 1)  # a signal handler may have closed more of them
        self._current[0] = -1
        complaints, self._complaints = self._complaints, []
        return complaints

    def _guarded(self, row: int, function: Callable[..., Any], *args: Any) -> Any:
        self._current[0] = row
        try:
            with NoCopies():
                result = function(self.envs[row], *args)
        except ENV_RAISED as error:
            result = Fault.of(error, "call", seed=int(self.batch.last_seed[row]))
        self._current[0] = -1
        return result


def item_view(column: np.ndarray) -> Any:
    """A view of a column whose single items are read and written faster than an array's."""
    return memoryview(column)  # type: ignore[arg-type]  # NumPy's stubs do not say that arrays are buffers


def checked_info(info: Any) -> dict[str, Any]:
    """The info, if it is a dict; a plain copy of another class of dict, whose methods may do anything."""
    if type(info) is dict:
        return info
    if not issubclass(type(info), dict):
        raise SpaceError(f"info must be a dict, got {type_name(info)}")
    return dict(info)


def copied_info(info: dict[str, Any]) -> dict[str, Any]:
    """A copy of an info that its env cannot change, but for values that cannot be copied, such as locks."""
    try:
        return copy.deepcopy(info)
    except ENV_RAISED:
        return {key: _copied(value) for key, value in info.items()}


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except ENV_RAISED:
        return value


def as_number(reward: Any) -> float:
    """The reward, if it is a number or an array of one number."""
    if isinstance(reward, NUMBERS) and not isinstance(reward, np.timedelta64):
        try:
            return float(reward)
        except OverflowError:
            raise SpaceError(f"reward must be a number, got {brief(reward)}, too large for a float") from None
    if isinstance(reward, (np.ndarray, np.bool_)) and np.size(reward) == 1 and np.asarray(reward).dtype.kind in "biuf":
        return float(np.asarray(reward).reshape(()))
    raise SpaceError(f"reward must be a number, got {brief(reward)}")


def wrong_flags(terminated: Any, truncated: Any) -> str:
    """Which of the flags that `step` returned is no bool."""
    name, value = ("terminated", terminated) if type(terminated) not in BOOLS else ("truncated", truncated)
    return f"{name} must be a bool, got {brief(value)}"


def not_awaited(call: str, coroutine: Any) -> str:
    """What is wrong with an env whose call is a coroutine."""
    coroutine.close()
    return f"{call}() is an async def, which this engine does not await; engine='asyncio' awaits it"


def wrong_result(result: Any) -> str:
    """What is wrong with what `step` returned."""
    if inspect.iscoroutine(result):
        return not_awaited("step", result)
    if not issubclass(type(result), tuple):  # not by `isinstance`, which asks the object itself
        return f"step() must return 5 values (obs, reward, terminated, truncated, info), got {type_name(result)}"
    count = tuple.__len__(result)
    hint = "; old Gym API? wrap it, e.g. with shimmy" if count == 4 else ""
    return f"step() returned {count} values, 5 needed (obs, reward, terminated, truncated, info){hint}"
