"""Engines: they move rows of a batch forward. The protocols here are the seam between them and the front.

The options of vecenv's own engines are `Sync`, `Thread`, `Process`, `Asyncio`, `Compiled`, `Device`, `Mujoco`, `Ale`
and `Ray`:
`vecenv.make(env, 8, engine=vecenv.engines.Process(workers=4))`. `EngineBuilder`, `Source`, `Request` and the building
blocks (`Batch`, `Op`, `Mail`, `Fault`, `Layout`, `BatchFacts`, `EnvFacts`, `RowRunner`, ...) are for an engine of your
own, see docs/engines.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from vecenv._batch.batch import Batch, Mail, Op, Rows
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Columns, Layout
from vecenv.engines import registry
from vecenv.engines.facts import BatchFacts, EnvFacts, merge_facts
from vecenv.errors import VecenvError

if TYPE_CHECKING:
    from vecenv.engines.aio.options import Asyncio
    from vecenv.engines.ale.options import Ale
    from vecenv.engines.device.options import Device
    from vecenv.engines.native.options import Compiled, Mujoco
    from vecenv.engines.options import EngineBuilder
    from vecenv.engines.pending import PendingRows
    from vecenv.engines.process.launch import start_fork_server
    from vecenv.engines.process.options import Process
    from vecenv.engines.python.envs import build_envs
    from vecenv.engines.python.options import Sync, Thread
    from vecenv.engines.python.runner import RowRunner
    from vecenv.engines.ray.options import Ray
    from vecenv.engines.request import Request, Source

__all__ = [
    "Ale",
    "Asyncio",
    "Batch",
    "BatchFacts",
    "Clocks",
    "Compiled",
    "Device",
    "Engine",
    "EngineBuilder",
    "EnvFacts",
    "Fault",
    "Layout",
    "Mail",
    "Mujoco",
    "Op",
    "PendingRows",
    "Process",
    "Ray",
    "Request",
    "RowRunner",
    "Rows",
    "Source",
    "SupportsCall",
    "SupportsClocks",
    "SupportsDraw",
    "SupportsExchange",
    "SupportsGather",
    "SupportsGatherAsync",
    "SupportsGone",
    "SupportsKill",
    "SupportsRecording",
    "SupportsRollout",
    "SupportsStarts",
    "SupportsStates",
    "SupportsSummary",
    "SupportsWake",
    "SupportsWarnings",
    "Sync",
    "Thread",
    "build_envs",
    "merge_facts",
    "start_fork_server",
]
_LATE = {
    "EngineBuilder": "options",
    "PendingRows": "pending",
    "Request": "request",
    "RowRunner": "python.runner",
    "Source": "request",
    "build_envs": "python.envs",
    "start_fork_server": "process.launch",
}
"""Modules of names that are loaded when they are first used, because they import this one."""


def __getattr__(name: str) -> Any:
    """Load what imports this module when it is first used."""
    if name in _LATE:
        return getattr(importlib.import_module(f"vecenv.engines.{_LATE[name]}"), name)
    if name.lower() in registry.names() and name.istitle():
        return registry.find(name.lower())
    raise AttributeError(f"module 'vecenv.engines' has no attribute {name!r}")


class Engine(Protocol):
    """Runs the ops of rows: what stands between the front (the vector env) and the envs.

    Six laws hold for every engine; `vecenv.testing.check_engine` tests them:

    1. Ownership. The front owns a row until `send`; the engine owns it until `recv` returned it.
    2. Exactness. `recv(n)` returns n distinct sent rows; when it returns all pending rows they are ascending.
    3. Completeness. On return every column of the row is written, `final_obs` if and only if a ROLL ended an episode,
       and `op` is what it was when the row was sent. `done` says whether the row's episode is over: False after a RESET
       and after a ROLL, which begins the next episode; `terminated or truncated` after a STEP.
    4. Seeds. `seed[row] >= 0` is used by the next RESET and becomes -1.
    5. Failure. A row's exception leaves `recv` as an EnvError; that row is then the front's again and must be reset,
       the other rows stay pending. No call hangs, nothing leaks.
    6. Sameness. The same ops, seeds and actions give the same bits as the sync engine.
    """

    name: str
    batch: Batch
    facts: BatchFacts

    def send(self, rows: Rows) -> None:
        """Start `batch.op[row]` on each row."""
        ...

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        """Block until `count` of the sent rows are finished and return them.

        Raises:
            EnvError: an env failed.
            WorkerTimeout: `timeout` seconds passed; nothing is lost, `recv` may be called again.
        """
        ...

    def pending(self) -> Rows:
        """Rows that were sent and not received, ascending; also right after an interrupt in any other call."""
        ...

    def close(self, timeout: float = 5.0) -> None:
        """Close the envs and free everything. Idempotent, bounded by `timeout`, never raises.

        After Ctrl-C, another `close` does the rest. No other thread is inside the engine, unless it did not leave in
        time: then nothing is freed that it may be using.
        """
        ...


@runtime_checkable
class SupportsCall(Protocol):
    """An engine whose rows are Python envs that can be reached."""

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        """Call a method of every env, or read an attribute; raises EnvError if one fails."""
        ...

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        """Set an attribute of every env; raises EnvError if one fails."""
        ...


@runtime_checkable
class SupportsClocks(Protocol):
    """An engine that measures how long its envs take."""

    def clocks(self) -> list[tuple[slice, Clocks]]:
        """The clocks of each part of the rows."""
        ...


@runtime_checkable
class SupportsGather(Protocol):
    """An engine that can wait for rows without receiving them. The rows of native engines need no waiting."""

    def gather(self, count: int, seconds: float, timeout: float | None = None) -> int:
        """Wait until `count` of the sent rows are finished, or until `seconds` have passed.

        Args:
            timeout: after which a late env is what it is in `recv`: an error, or built again. Engines whose `recv`
                never times out ignore it.

        Returns:
            How many rows `recv` can return without waiting; they may be more than `count`.

        Raises:
            EnvError: a worker died or is late, as in `recv`.
        """
        ...


@runtime_checkable
class SupportsGatherAsync(Protocol):
    """An engine that can be waited for in an event loop."""

    async def gather_async(self, count: int, seconds: float | None = None) -> int:
        """As `gather`; None waits for ever."""
        ...


@runtime_checkable
class SupportsGone(Protocol):
    """An engine whose envs are lost when the process or actor that runs them dies."""

    def gone(self) -> Rows:
        """Rows whose envs are lost until a RESET builds them again, ascending."""
        ...


@runtime_checkable
class SupportsExchange(Protocol):
    """An engine that can run all rows in one call, instead of `send` and `recv`. No row may be pending.

    Attributes:
        rewards_are_finite: whether no reward of the last `exchange_all` is NaN or infinite; False if that is unknown.
    """

    rewards_are_finite: bool

    @property
    def checks_actions(self) -> bool:
        """Whether `exchange_all` checks actions that have the dtype and shape of their column."""
        ...

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Run every row: the op `alive` where an episode goes on, the op `over` where it is over.

        It cannot time out. If `envs.timeout` is set and the engine waits for threads or processes (`SupportsWake`), the
        front calls `send` and `recv` instead.

        Args:
            alive, over: ops.
            rotate: observations go to the next of a ring of buffers, and `batch.obs` is that one.

        Returns:
            How many rows ended an episode; -1 if an action is not in its space and nothing was run.

        Raises:
            EnvError: an env failed, as in `recv`; all other rows are now pending.
        """
        ...


@runtime_checkable
class SupportsStates(Protocol):
    """An engine whose rows are columns of numbers: everything that an env consists of can be read and written."""

    @property
    def state(self) -> SimpleNamespace:
        """The fields of all rows by name, as views."""
        ...

    def just_begun(self, rows: Rows) -> Rows:
        """Those of the rows whose last op began an episode, ascending."""
        ...

    def states_of(self, rows: Rows) -> dict[str, np.ndarray]:
        """Copies of the state, random stream, parameters and steps so far of these rows."""
        ...

    def get_rows(self, rows: Rows) -> dict[str, np.ndarray]:
        """Copies of all columns that these rows consist of, results included."""
        ...

    def set_rows(self, rows: Rows, columns: Mapping[str, np.ndarray]) -> None:
        """Write what `get_rows` read; a single row is written to all of `rows`."""
        ...

    def with_streams(self, columns: Mapping[str, np.ndarray], words: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of `get_rows` in which the random streams are those of `words`, one per row."""
        ...

    def factory(self) -> Callable[[], Engine]:
        """What makes another engine like this one, picklable; states are not part of it."""
        ...


@runtime_checkable
class SupportsStarts(Protocol):
    """An engine whose columns do not say how episodes began: it reports that apart, for recordings."""

    def watch(self) -> dict[int, Any]:
        """From now on, put how episodes began into the returned dict, by row.

        Returns:
            Entries are words of `_batch/starts.py`, or the state of a kernel by field. Readers remove them.
        """
        ...


@runtime_checkable
class SupportsRollout(Protocol):
    """An engine that can run many steps of all rows in one call."""

    def rollout(
        self,
        actions: Columns | None,
        steps: int,
        alive: int,
        over: int,
        policy: Callable[..., Any] | None,
        streams: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Run all rows `steps` times.

        Args:
            actions: columns with a leading axis of time, None with a policy.
            steps: number of steps.
            alive, over: ops, as in `exchange_all`.
            policy: chooses the actions from the observations.
            streams: words [rows, 6] of the random stream of each row's policy (`_batch/random_state.py`), None if the
                policy does not draw. They are moved on.

        Returns:
            Columns [steps, rows, ...] by the names of slots.
        """
        ...


@runtime_checkable
class SupportsDraw(Protocol):
    """An engine that can draw some of its rows."""

    def draw(self, rows: Rows) -> list[Any]:
        """A frame of each of these rows."""
        ...


@runtime_checkable
class SupportsWarnings(Protocol):
    """An engine with something to say that is no error.

    Attributes:
        warnings: texts. At the end of a call the front makes warnings of them and empties this very list. Then nothing
            is pending: a warning filter may raise them as errors.
    """

    warnings: list[str]


@runtime_checkable
class SupportsRecording(Protocol):
    """An engine that records the current episode of every row."""

    def recording(self, row: int) -> Any:
        """The `vecenv.Recording` of a row; raises UnknownRow."""
        ...

    def failed(self, error: VecenvError) -> None:
        """Write the episode of the env that this error names, and put the path of the file into the error."""
        ...


@runtime_checkable
class SupportsKill(Protocol):
    """An engine that can end an env that does not answer."""

    def kill(self, row: int) -> None:
        """Kill whatever runs this row; its pending rows then fail, and a RESET starts it again."""
        ...


@runtime_checkable
class SupportsSummary(Protocol):
    """An engine that can say where its rows run."""

    def summary(self) -> str:
        """Where the rows run, for `VectorEnv.engine_reason`."""
        ...


@runtime_checkable
class SupportsWake(Protocol):
    """An engine whose `recv` and calls wait for others, in such a way that another thread can end the waiting."""

    def wake(self) -> None:
        """Let threads that wait, now or later, raise ClosedError. Only `close` comes after it."""
        ...
