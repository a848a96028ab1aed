"""The batch: preallocated columns, one row per environment."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.columns import COLUMNS, RowColumns
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Columns, Layout
from vecenv._batch.memory import HeapMemory, Memory

Rows: TypeAlias = np.ndarray
"""Indices of rows, int64."""


class Op(enum.IntEnum):
    """What a row is to do."""

    IDLE = 0
    """Nothing: the row was left alone."""
    RESET = 1
    """Begin an episode, with the row's seed and options if there are any."""
    STEP = 2
    """Apply the action."""
    ROLL = 3
    """Apply the action; if the episode ends, keep the observation in `final_obs` and begin the next episode."""


@dataclass
class Mail:
    """What a row has beyond its columns: infos, and why its op failed."""

    info: dict[str, Any] = field(default_factory=dict)
    """The info that belongs to `obs`."""
    final_info: dict[str, Any] | None = None
    """The info of the step that ended an episode, when a ROLL began the next one."""
    fault: Fault | None = None
    """Set if the op failed; the columns of the row are then not to be used."""
    cause: Fault | None = None
    """Why the env was built again, if episodes are recorded. Users read the same in `info["fault"]`."""


@dataclass(kw_only=True)
class Batch(RowColumns):
    """Columns of all rows, and mailboxes for what has no column.

    The front owns a row until it is sent; then the engine owns it until `recv` returned it.

    Attributes:
        actions, obs, final_obs: one array per leaf of the layouts.
        options: reset options by row; used once.
        raw_actions: actions by row that do not fit the columns and go to the env as they are; used once.
        mail: infos and failures by row, only of rows that have one.
        info, final_info: infos of engines whose envs all have the same ones, as columns by name.
        step_info: names of those that only steps have, not resets.
        elapsed: steps of the episode that `obs` belongs to, if the engine has step infos.
    """

    observation_layout: Layout
    action_layout: Layout
    actions: Columns
    obs: Columns
    final_obs: Columns
    options: dict[int, Any] = field(default_factory=dict)
    raw_actions: dict[int, Any] = field(default_factory=dict)
    mail: dict[int, Mail] = field(default_factory=dict)
    info: dict[str, np.ndarray] = field(default_factory=dict)
    final_info: dict[str, np.ndarray] = field(default_factory=dict)
    step_info: frozenset[str] = frozenset()
    elapsed: np.ndarray | None = None

    @classmethod
    def allocate(cls, observation: Layout, action: Layout, count: int) -> Batch:
        """Reserve the columns of `count` rows on the heap and give them their first values."""
        batch = cls.map(observation, action, count, HeapMemory())
        batch.clear()
        return batch

    @classmethod
    def map(cls, observation: Layout, action: Layout, count: int, memory: Memory) -> Batch:
        """Lay the columns out in memory, whatever they hold. By-value leaves are always on the heap."""

        def leaves(layout: Layout) -> Columns:
            return [
                np.full(count, None, dtype=object) if leaf.by_value else memory.array((count, *leaf.shape), leaf.dtype)
                for leaf in layout.leaves
            ]

        actions = leaves(action)
        columns: dict[str, Any] = {
            name: memory.array((count, *column.shape), np.dtype(column.dtype)) for name, column in COLUMNS.items()
        }
        return cls(
            observation_layout=observation,
            action_layout=action,
            actions=actions,
            obs=leaves(observation),
            final_obs=leaves(observation),
            **columns,
        )

    def clear(self) -> None:
        """Give the columns of zeroed memory their first values."""
        for name, column in COLUMNS.items():
            if column.initial:
                getattr(self, name)[...] = column.initial

    def __len__(self) -> int:
        return len(self.op)

    def rows(self, start: int, stop: int) -> Batch:
        """The rows start ... stop - 1 as a batch of their own: columns are views, mailboxes are new."""
        part = slice(start, stop)
        return Batch(
            observation_layout=self.observation_layout,
            action_layout=self.action_layout,
            actions=[column[part] for column in self.actions],
            obs=[column[part] for column in self.obs],
            final_obs=[column[part] for column in self.final_obs],
            **{name: getattr(self, name)[part] for name in COLUMNS},
        )

    def set_ops(self, alive: int, over: int) -> None:
        """Let every row have the op `alive`, or `over` if its episode is over."""
        done = self.done.tobytes()
        if over == alive or 1 not in done:
            self.op.fill(alive)
        else:  # bytes are several times faster than a mask of NumPy's
            memoryview(self.op)[:] = done.translate(bytes((alive, over)).ljust(256))  # type: ignore[arg-type]  # a buffer

    def count_ended(self) -> int:
        """How many rows ended an episode by their latest op."""
        if 1 in self.truncated.tobytes():
            return int(np.count_nonzero(self.terminated | self.truncated))
        return self.terminated.tobytes().count(1)

    def rewards_are_finite(self) -> bool:
        """Whether no reward of any row is NaN or infinite; False if that is unknown."""
        return isfinite(sum(self.reward.tolist()))

    def discard_mail(self, rows: Iterable[int]) -> None:
        """Throw away the mail of these rows."""
        for row in rows:
            self.mail.pop(row, None)

    def infos_of_steps(self, rows: Rows | None) -> tuple[frozenset[str], np.ndarray | None]:
        """Names of the infos that only steps have, and which of `rows` (None: all) have just made one."""
        if self.elapsed is None:
            return self.step_info, None
        return self.step_info, (self.elapsed if rows is None else self.elapsed[rows]) > 0

    def infos_of(self, row: int) -> dict[str, np.ndarray]:
        """The columns of infos that a row has."""
        if self.elapsed is None or self.elapsed[row] > 0:
            return self.info
        return {name: column for name, column in self.info.items() if name not in self.step_info}

    def take(self, columns: Columns, rows: Rows | None, copy: bool) -> Columns:
        """The given columns for `rows` (None: all). Copies, unless `copy` is False and all rows are taken."""
        if rows is not None:
            return [column[rows] for column in columns]
        return [column.copy() for column in columns] if copy else columns
