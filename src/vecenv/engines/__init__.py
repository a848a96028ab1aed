"""Engines: they move rows of a batch forward. The protocols here are the seam between them and the front.

The options of vecenv's own engines are `Sync`, `Thread`, `Process`, `Compiled`, `Mujoco`, `Ale` and `Ray`:
`vecenv.make(env, 8, engine=vecenv.engines.Process(workers=4))`. `EngineBuilder`, `Source`, `Request` and the building
blocks (`Batch`, `Op`, `Mail`, `Fault`, `Layout`, `BatchFacts`, `EnvFacts`, `RowRunner`, ...) are for an engine of your
own, see docs/engines.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from vecenv._batch.batch import Batch, Mail, Op, Rows
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Layout
from vecenv.engines import registry
from vecenv.engines.facts import BatchFacts, EnvFacts, merge_facts

if TYPE_CHECKING:
    from vecenv.engines.ale.options import Ale
    from vecenv.engines.native.options import Compiled, Mujoco
    from vecenv.engines.options import EngineBuilder
    from vecenv.engines.process.options import Process
    from vecenv.engines.python.envs import build_envs
    from vecenv.engines.python.options import Sync, Thread
    from vecenv.engines.python.runner import RowRunner
    from vecenv.engines.ray.options import Ray
    from vecenv.engines.request import Request, Source

__all__ = [
    "Ale",
    "Batch",
    "BatchFacts",
    "Clocks",
    "Compiled",
    "Engine",
    "EngineBuilder",
    "EnvFacts",
    "Fault",
    "Layout",
    "Mail",
    "Mujoco",
    "Op",
    "Process",
    "Ray",
    "Request",
    "RowRunner",
    "Rows",
    "Source",
    "SupportsCall",
    "SupportsClocks",
    "SupportsEnd",
    "SupportsGone",
    "SupportsKill",
    "SupportsPending",
    "SupportsStates",
    "SupportsSummary",
    "Sync",
    "Thread",
    "build_envs",
    "merge_facts",
]
_LATE = {
    "EngineBuilder": "options",
    "Request": "request",
    "RowRunner": "python.runner",
    "Source": "request",
    "build_envs": "python.envs",
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
        """Block until `count` of the sent rows are done and return them.

        Raises:
            EnvError: an env failed.
            WorkerTimeout: `timeout` seconds passed; nothing is lost, `recv` may be called again.
        """
        ...

    def pending(self) -> Rows:
        """Rows that were sent and not received, ascending; also right after an interrupt in any other call."""
        ...

    def close(self, timeout: float = 5.0) -> None:
        """Close the envs and free everything. Idempotent, bounded by `timeout`, never raises."""
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
class SupportsGone(Protocol):
    """An engine whose envs are lost when the process or actor that runs them dies."""

    def gone(self) -> Rows:
        """Rows whose envs are lost until a RESET builds them again, ascending."""
        ...


@runtime_checkable
class SupportsStates(Protocol):
    """An engine whose rows are columns of numbers, so that the whole state of an env can be read."""

    def just_begun(self, rows: Rows) -> Rows:
        """Those of the rows whose last op began an episode, ascending."""
        ...

    def states_of(self, rows: Rows) -> dict[str, np.ndarray]:
        """Copies of the state, random stream, parameters and steps so far of these rows."""
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
