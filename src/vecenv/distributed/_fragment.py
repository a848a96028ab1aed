"""What an actor collected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch.layout import map_tree
from vecenv._front.rollout import Rollout


@dataclass(frozen=True, eq=False, kw_only=True)
class Fragment(Rollout):
    """T steps of the N envs of one actor, see `Rollout`. Arrays are read-only views of Ray's object store.

    Attributes:
        first_obs: [N, ...] observations that the first actions were chosen from.
        env_ids: [N] which envs these are.
        worker: number of the actor.
        update: how many different weights had been sent when it was collected.
        faults: of envs that were built again: a dict each, with `step`, `env`, `kind`, `message`, `phase`, `restarts`.
            At that step the env's episode is truncated, with reward 0 and the observation that was seen last.
    """

    first_obs: Any
    env_ids: np.ndarray
    worker: int
    update: int
    faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def acted_on(self) -> Any:
        """[T, N, ...] what the actions were chosen from: `first_obs`, then `obs` but the last. A copy."""
        return map_tree(lambda first, obs: np.concatenate([first[None], obs[:-1]]), self.first_obs, self.obs)
