"""What `rollout` and `get_state` return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch.batch import Batch
from vecenv._batch.layout import Columns
from vecenv._front.transitions import ResultColumns
from vecenv._util.forks import cached_property
from vecenv.errors import ConfigError, InvalidAction


@dataclass(frozen=True, eq=False)
class Rollout(ResultColumns):
    """T steps of N envs. Every array has the axes [T, N, ...].

    Attributes:
        obs: observations after each step.
        actions: what was applied.
        reward: float64.
        terminated, truncated: bool.
        infos: columns of the kernel's infos.
        final_obs: observations that ended an episode, meaningful where `rolled`; None in "next-step" mode.
        final_infos: those of the steps that ended an episode, where `rolled`; empty if nowhere.
    """

    obs: Any
    actions: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_obs: Any
    infos: dict[str, np.ndarray]
    final_infos: dict[str, np.ndarray]
    _ended_before: np.ndarray = field(repr=False)
    _ops_of: tuple[int, int] = field(repr=False)

    @cached_property
    def ops(self) -> np.ndarray:
        """What each row did."""
        before = np.concatenate([self._ended_before[None], self.done[:-1]])
        alive, ended = self._ops_of
        return np.where(before, np.uint8(ended), np.uint8(alive))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that some envs consist of. Plain arrays, so that it can be pickled or saved.

    Attributes:
        columns: by name; the first axis is the env.
        ready: which of the envs were reset.
    """

    columns: dict[str, np.ndarray]
    ready: np.ndarray

    def __len__(self) -> int:
        return len(self.ready)

    def __repr__(self) -> str:
        fields = {name[2:]: column for name, column in self.columns.items() if name.startswith("S_")}
        shown = ", ".join(f"{name}={column!r:.60}" for name, column in fields.items())
        return f"Snapshot of {len(self)} env{'s' * (len(self) != 1)}({shown})"


def pack_time(batch: Batch, actions: Any, steps: int | None) -> tuple[Columns, int]:
    """Check T batches of actions as one batch of T x N; columns [T, N, ...] of our own, and T."""
    if steps is not None:
        raise ConfigError("steps is for policy=; the number of steps is the first axis of actions")
    layout, count = batch.action_layout, len(batch)
    try:
        first = np.asanyarray(actions) if len(layout.leaves) == 1 else actions  # `pack` looks at masked ones
    except Exception:  # it is ragged, or refuses to become an array
        first = None
    if not isinstance(first, np.ndarray):
        raise InvalidAction(
            "rollout takes actions of plain spaces as one array [T, N, ...]; use step() for Dict and Tuple"
        )
    if first.ndim < 2 or first.shape[1] != count or not len(first):
        raise InvalidAction(f"actions have shape {first.shape}, want (T, {count}, ...) with T >= 1")
    length = len(first)
    columns = layout.pack(first.reshape(length * count, *first.shape[2:]), length * count)
    return [np.ascontiguousarray(column).reshape(length, count, *column.shape[1:]) for column in columns], length


def rollout_of(batch: Batch, out: Mapping[str, np.ndarray], ended: np.ndarray, ops: tuple[int, int]) -> Rollout:
    """What users get of the columns by slot (`out`) that `SupportsRollout.rollout` returned.

    `ended` says where the op before the rollout ended an episode; `ops` are those of rows whose
    episode goes on, and of rows whose episode ended.
    """
    layout = batch.observation_layout
    leaves = range(len(layout.leaves))
    final = [out[f"F_{leaf}"] for leaf in leaves] if "F_0" in out else None
    return Rollout(
        obs=layout.batched([out[f"O_{leaf}"] for leaf in leaves]),
        actions=batch.action_layout.batched([out[f"A_{leaf}"] for leaf in range(len(batch.actions))]),
        reward=out["REWARD"],
        terminated=out["TERMINATED"],
        truncated=out["TRUNCATED"],
        final_obs=None if final is None else layout.batched(final),
        infos={name: out[_slot("O", name, out)] for name in batch.info},
        final_infos={name: out[_slot("F", name, out)] for name in batch.info} if final is not None else {},
        _ended_before=ended,
        _ops_of=ops,
    )


def _slot(prefix: str, name: str, out: Mapping[str, np.ndarray]) -> str:
    return f"{prefix}M" if f"{prefix}I_{name}" not in out else f"{prefix}I_{name}"
