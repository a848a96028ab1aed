"""A trained policy: a function from observations to actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from vecenv._batch.layout import map_tree
from vecenv.wrappers._normalize_observation import Normalize


class Policy:
    """Actions for batches of observations as the envs return them: normalization is included. Can be pickled.

    A recurrent network keeps one state per row of the batch; `reset` clears it. Threads may share a policy; with a
    recurrent network each keeps its own state and calls `predict`.

    Args:
        network: has `act(obs, state, began, mask, generator)` and `head.to_env(actions)`; see PPO and SAC.
        normalize: normalization of observations, or None.
        seed: seed of sampled actions.
        mask_name: name of the info that held action masks in training; None: no masks.

    Attributes:
        mask_name: as given; `evaluate` and `vecenv play` mask actions by that info.
    """

    def __init__(
        self, network: nn.Module, normalize: Normalize | None, seed: int = 0, mask_name: str | None = None
    ) -> None:
        self._network, self._normalize, self.mask_name = network.eval(), normalize, mask_name
        self._seed, self._generator = seed, torch.Generator().manual_seed(seed)
        self._state: Any = None
        self._began: np.ndarray | None = None

    @property
    def recurrent(self) -> bool:
        """Whether the policy has a state, so that `reset` must be called when episodes begin."""
        return bool(getattr(self._network, "recurrent", False))

    def reset(self, began: np.ndarray | None = None) -> None:
        """Clear the state of all rows, or of those where a new episode began."""
        if began is None:
            self._state, self._began = None, None
        else:
            self._began = np.asarray(began, np.bool_)

    def __call__(self, obs: Any, deterministic: bool = True, mask: np.ndarray | None = None) -> np.ndarray:
        """Actions for a batch of observations.

        Args:
            obs: batched and nested like the space.
            deterministic: whether to return the most probable actions; False samples them.
            mask: which actions are allowed, [batch, actions].
        """
        actions, self._state = self.predict(obs, self._state, self._began, deterministic, mask)
        self._began = None
        return actions

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
        action_masks: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Any]:
        """Actions and new states, for callers that keep the states themselves. The policy's own state is not used.

        Args:
            obs: batched and nested like the space.
            state: states of these rows, as the last call returned them; None at the beginning.
            episode_start: which rows begin an episode with `obs`.
            deterministic: whether to return the most probable actions; False samples them.
            action_masks: which actions are allowed, [batch, actions].
        """
        if self._normalize is not None:
            obs = self._normalize.normalize(obs)
        with torch.inference_mode():
            actions, state = self._network.act(  # type: ignore[operator]  # the networks of PPO and SAC have `act`
                map_tree(torch.as_tensor, obs),
                state,
                None if episode_start is None else torch.as_tensor(np.asarray(episode_start, np.bool_)),
                None if action_masks is None else torch.as_tensor(_masks(action_masks)),
                None if deterministic else self._generator,
            )
            return self._network.head.to_env(actions), state  # type: ignore[union-attr,operator]  # as above

    def __getstate__(self) -> dict[str, Any]:
        kept = {"network": self._network, "normalize": self._normalize, "seed": self._seed}
        return {**kept, "mask_name": self.mask_name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)


def _masks(given: Any) -> np.ndarray:
    """Masks as booleans, from numbers of any dtype or from one object per row."""
    given = np.asarray(given)
    return np.asarray(np.stack(given.tolist()) if given.dtype == object else given, np.bool_)
