"""What one exchange with environments of several agents returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv._batch.layout import map_tree


@dataclass(frozen=True, eq=False)
class AgentStep:
    """Results of some or all envs. Position k of every array belongs to env `env_ids[k]`.

    Unpacks like Gymnasium's step: `obs, reward, terminated, truncated, infos = envs.step(actions)`. Arrays have the
    axes [envs, slots, ...]. If agents have unequal spaces, there is a dict of such arrays by group in the place of
    each.

    Attributes:
        obs: to act on next; of an agent whose episode is over, its last observation. Zeros of slots that neither act
            nor have a transition.
        reward: float64, since the agent last acted.
        terminated, truncated: bool, whose episode ended. Each agent's end is reported once.
        infos: Gymnasium's dict of arrays with an axis of slots, in a dict by group where there are several. "fault" and
            the env's own keys have no such axis.
        acts: bool, who must act now.
        valid: bool, which entries are transitions: the agent has acted, and `reward`, the flags and `next_obs` are what
            that led to.
        done: bool [envs], where the episode of the env is over.
        env_ids: which envs these are.
        ops: what each env did.
        episode_return, episode_length: [envs], totals of the episode: the return of all agents together.
        final_obs: of the episodes that ended, meaningful where `rolled`; None if nowhere.
        rolled: bool [envs], where an episode ended and the next began in this same exchange.
        age: float64 [envs], seconds since each env was sent; None after a step of all.
    """

    obs: Any
    reward: Any
    terminated: Any
    truncated: Any
    infos: dict[str, Any]
    acts: Any
    valid: Any
    done: np.ndarray
    env_ids: np.ndarray
    ops: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray
    final_obs: Any
    rolled: np.ndarray
    age: np.ndarray | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.obs, self.reward, self.terminated, self.truncated, self.infos))

    @property
    def next_obs(self) -> Any:
        """The true successor observation of each transition: `final_obs` where an episode rolled, else `obs`."""
        if self.final_obs is None:
            return self.obs

        def chosen(final: np.ndarray, leaf: np.ndarray) -> np.ndarray:
            return np.where(self.rolled.reshape(-1, *[1] * (leaf.ndim - 1)), final, leaf)

        return map_tree(chosen, self.final_obs, self.obs)
