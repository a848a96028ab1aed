"""The fragment that an actor collected."""

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
        first_obs: [N, ...] the observations that the first actions were chosen from.
        env_ids: [N] ids of the envs.
        worker: number of the actor.
        update: number of different weights that had been sent when it was collected.
        faults: one dict per env that was built again, with `step` and the entries of `info["fault"]`. At that step the
            env's episode is truncated, with reward 0 and its last observation.
    """

    first_obs: Any
    env_ids: np.ndarray
    worker: int
    update: int
    faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def acted_on(self) -> Any:
        """[T, N, ...] observations that were acted on: `first_obs`, then `obs` without the last. A copy."""
        return map_tree(lambda first, obs: np.concatenate([first[None], obs[:-1]]), self.first_obs, self.obs)
