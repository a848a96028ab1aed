"""The results of one exchange with the envs as plain arrays: what transforms read and change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch.batch import Op
from vecenv._batch.layout import map_tree, stack_trees
from vecenv._front.infos import objects
from vecenv._front.transitions import ResultColumns

_IDLE, _RESET = int(Op.IDLE), int(Op.RESET)


@dataclass
class Exchange(ResultColumns):
    """Results of a reset or a step, of all envs or of some. Position k of every array belongs to env `rows[k]`.

    Attributes:
        rows: env ids.
        obs: batched observations, nested like the space. What a transform puts here is handed out, so it must be an
            array that is not written to later.
        final_obs: batched observations that ended an episode, meaningful where `rolled`; None if nowhere.
        reward: float64.
        terminated, truncated: bool.
        ops: what each env did; IDLE for those that a partial reset left alone.
        infos: Gymnasium's dict of arrays, without "final_obs"; "final_info" is in it where episodes rolled.
        episode_return, episode_length: totals of the episodes, complete where they ended; None around envs that are not
            vecenv's.
        age: seconds since each env was sent; None after a step of all.
    """

    rows: np.ndarray
    obs: Any
    final_obs: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ops: np.ndarray
    infos: dict[str, Any] = field(default_factory=dict)
    episode_return: np.ndarray | None = None
    episode_length: np.ndarray | None = None
    age: np.ndarray | None = None
    by_value: tuple[Any, Any] | None = None
    """`obs` as it came from the envs, and the successor observations that belong to it. Only for spaces with parts that
    have no fixed size, which `next_obs` cannot choose by array."""
    read_final: tuple[Any, Callable[[int], Any]] | None = None
    """`final_obs` as it came from the envs, and how to read one env of it: what has no fixed size is no tree."""

    @property
    def began(self) -> np.ndarray:
        """Where `obs` is the first of an episode."""
        return (self.ops == _RESET) | self.rolled

    @property
    def touched(self) -> np.ndarray:
        """Where anything happened. A transform shows the others as they are now and changes nothing about them."""
        return self.ops != _IDLE

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of_reset(cls, obs: Any, infos: dict[str, Any], mask: np.ndarray | None, count: int) -> Exchange:
        """After a reset of the envs in `mask` (None: all)."""
        ops = np.full(count, _RESET, np.uint8) if mask is None else np.where(mask, np.uint8(_RESET), np.uint8(_IDLE))
        no = np.zeros(count, np.bool_)
        return cls(np.arange(count), obs, None, np.zeros(count), no, no.copy(), ops, infos)

    @classmethod
    def of_step(
        cls, results: tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]], rows: np.ndarray, ops: Any
    ) -> Exchange:
        """After a step, from Gymnasium's five; their infos may have "final_obs". `ops`: one for all, or one per env."""
        obs, reward, terminated, truncated, infos = results
        infos = dict(infos)
        final, rolled = infos.pop("final_obs", None), infos.pop("_final_obs", None)
        final_obs = None if final is None or rolled is None else stack_trees(obs, final, rolled)
        ops = np.broadcast_to(np.asarray(ops, np.uint8), (len(rows),))
        return cls(rows, obs, final_obs, reward, terminated, truncated, ops, infos)

    @property
    def next_obs(self) -> Any:
        """The true successor observation of each transition: `final_obs` where an episode rolled, else `obs`."""
        return super().next_obs if self.successors is None else self.successors

    @property
    def successors(self) -> Any:
        """Successor observations that cannot be made of `obs` and `final_obs`; None if they can."""
        return self.by_value[1] if self.by_value is not None and self.by_value[0] is self.obs else None

    def as_gymnasium(self) -> dict[str, Any]:
        """The infos with "final_obs", as Gymnasium lays them out."""
        if self.final_obs is None:
            return self.infos
        rolled = self.rolled
        positions = np.flatnonzero(rolled).tolist()
        if self.read_final is not None and self.read_final[0] is self.final_obs:
            values = objects(positions, map(self.read_final[1], positions), len(self.rows))
            return {**self.infos, "final_obs": values, "_final_obs": rolled}
        finals = (map_tree(lambda leaf, at=position: _plain(leaf[at]), self.final_obs) for position in positions)
        return {**self.infos, "final_obs": objects(positions, finals, len(self.rows)), "_final_obs": rolled}


def _plain(value: Any) -> Any:
    """A single integer as envs return it, anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value
