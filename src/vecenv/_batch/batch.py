"""The batch: preallocated columns, one row per environment."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.faults import Fault
from vecenv._batch.layout import Columns, Layout
from vecenv._batch.memory import HeapMemory, Memory
from vecenv._batch.seeding import NO_SEED
from vecenv._batch.starts import WORDS

Rows: TypeAlias = np.ndarray
"""Indices of rows, int64."""


class Op(enum.IntEnum):
    """What a row is to do."""

    IDLE = 0
    RESET = 1
    """Begin an episode, with the row's seed and options if there are any."""
    STEP = RESET + 1
    """Apply the action."""
    ROLL = 3
    """Apply the action; if the episode ends, keep the observation in `final_obs` and begin the next episode."""


@dataclass
class Mail:
    """What a row has to say beyond its columns."""

    info: dict[str, Any] = field(default_factory=dict)
    """The info that belongs to `obs`."""
    final_info: dict[str, Any] | None = None
    """The info of the step that ended an episode, when a ROLL began the next one."""
    fault: Fault | None = None
    """Set if the op failed; the columns of the row are then not to be used."""
    cause: Fault | None = None
    """Why the env was built again, where that is recorded; `info["fault"]` tells the user."""


@dataclass
class Batch:
    """Columns of all rows, and two mailboxes.

    The front owns a row until it is sent; then the engine owns it until `recv` returned it.

    Attributes:
        op: what the row is to do; IDLE once it is done.
        seed: seed of the next RESET, -1 for none; used once.
        actions, obs, final_obs: one array per leaf of the layouts.
        reward, terminated, truncated: of the last op; 0 and False after a RESET.
        episode_return, episode_length: totals of the episode that the last op belongs to. They stay visible on the op
            that ended the episode and start anew with the next one.
        last_seed: seed of the row's last seeded RESET, -1 if there was none.
        restarts: how often the row's env was built again after a failure.
        start_kind, start: how the row's episode began, noted before each reset of rows that are recorded; see
            `_batch/starts.py`.
        options: reset options by row; used once.
        raw_actions: actions by row that do not fit the columns and go to the env as they are; used once.
        mail: infos and failures by row, only of rows with something to say.
        info, final_info: infos of engines whose envs all have the same ones, as columns by name.
        step_info: names of those that only steps have, not resets.
        elapsed: steps of the episode that `obs` belongs to, if the engine has step infos.
    """

    observation_layout: Layout
    action_layout: Layout
    op: np.ndarray
    seed: np.ndarray
    actions: Columns
    obs: Columns
    final_obs: Columns
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray
    last_seed: np.ndarray
    restarts: np.ndarray
    start_kind: np.ndarray
    start: np.ndarray
    options: dict[int, Any] = field(default_factory=dict)
    raw_actions: dict[int, Any] = field(default_factory=dict)
    mail: dict[int, Mail] = field(default_factory=dict)
    info: dict[str, np.ndarray] = field(default_factory=dict)
    final_info: dict[str, np.ndarray] = field(default_factory=dict)
    step_info: frozenset[str] = frozenset()
    elapsed: np.ndarray | None = None

    @classmethod
    def allocate(cls, observation: Layout, action: Layout, count: int, memory: Memory | None = None) -> Batch:
        """Reserve the columns of `count` rows and give them their first values."""
        batch = cls.map(observation, action, count, memory or HeapMemory())
        batch.clear()
        return batch

    @classmethod
    def map(cls, observation: Layout, action: Layout, count: int, memory: Memory) -> Batch:
        """Lay the columns out in memory, whatever they hold. By-value leaves are always on the heap."""

        def column(dtype: Any) -> np.ndarray:
            return memory.array((count,), np.dtype(dtype))

        def columns(layout: Layout) -> Columns:
            return [
                np.full(count, None, dtype=object) if leaf.by_value else memory.array((count, *leaf.shape), leaf.dtype)
                for leaf in layout.leaves
            ]

        return cls(
            observation,
            action,
            op=column(np.uint8),
            seed=column(np.int64),
            actions=columns(action),
            obs=columns(observation),
            final_obs=columns(observation),
            reward=column(np.float64),
            terminated=column(np.bool_),
            truncated=column(np.bool_),
            episode_return=column(np.float64),
            episode_length=column(np.int64),
            last_seed=column(np.int64),
            restarts=column(np.int64),
            start_kind=column(np.uint8),
            start=memory.array((count, WORDS), np.dtype(np.uint64)),
        )

    def clear(self) -> None:
        """Give the columns of zeroed memory their first values."""
        self.seed[...] = self.last_seed[...] = NO_SEED

    def __len__(self) -> int:
        return len(self.op)

    def rows(self, start: int, stop: int) -> Batch:
        """The rows start ... stop - 1 as a batch of their own: columns are views, mailboxes are new."""
        part = slice(start, stop)
        return Batch(
            self.observation_layout,
            self.action_layout,
            op=self.op[part],
            seed=self.seed[part],
            actions=[column[part] for column in self.actions],
            obs=[column[part] for column in self.obs],
            final_obs=[column[part] for column in self.final_obs],
            reward=self.reward[part],
            terminated=self.terminated[part],
            truncated=self.truncated[part],
            episode_return=self.episode_return[part],
            episode_length=self.episode_length[part],
            last_seed=self.last_seed[part],
            restarts=self.restarts[part],
            start_kind=self.start_kind[part],
            start=self.start[part],
        )

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
