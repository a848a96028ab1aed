"""What one exchange with the environments returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._front.exchange import Exchange
from vecenv._front.transitions import ResultColumns


@dataclass(frozen=True, eq=False)
class Step(ResultColumns):
    """Results of some or all envs. Position k of every array belongs to env `env_ids[k]`.

    Unpacks like Gymnasium's step: `obs, reward, terminated, truncated, infos = envs.recv()`.

    Attributes:
        obs: batched observations to act on next.
        reward: float64.
        terminated, truncated: bool.
        infos: Gymnasium's dict of arrays, over these envs.
        env_ids: which envs these are.
        ops: what each row did.
        episode_return, episode_length: totals of the episode each row's transition belongs to, complete where it ended.
    """

    obs: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]
    env_ids: np.ndarray
    ops: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray
    final_obs: Any = None
    """Batched observations that ended an episode, meaningful where `rolled`; None if nowhere."""
    age: Any = None
    """Seconds from the `send` of each env to the `recv` that returned it; None in what is not from `recv`."""
    _successors: Any = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.obs, self.reward, self.terminated, self.truncated, self.infos))

    @property
    def next_obs(self) -> Any:
        """The true successor observation of each transition: `final_obs` where an episode rolled, else `obs`."""
        return super().next_obs if self._successors is None else self._successors

    @classmethod
    def of_exchange(cls, exchange: Exchange) -> Step:
        """What transforms made of an exchange."""
        nothing = np.zeros(len(exchange))
        return cls(
            obs=exchange.obs,
            reward=exchange.reward,
            terminated=exchange.terminated,
            truncated=exchange.truncated,
            infos=exchange.as_gymnasium(),
            env_ids=exchange.rows,
            ops=exchange.ops,
            episode_return=nothing if exchange.episode_return is None else exchange.episode_return,
            episode_length=nothing if exchange.episode_length is None else exchange.episode_length,
            final_obs=exchange.final_obs,
            age=exchange.age,
            _successors=exchange.successors,
        )
