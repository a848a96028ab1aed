"""PPO's batch from packed rollouts."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from vecenv._batch.layout import map_tree
from vecenv.errors import UnsupportedError
from vecenv.rllib._rollout import VERSION, PackedRollout


class PackedPPOLearner(PPOTorchLearner):
    """PPO on packed rollouts: `PackedAdvantages` is its whole learner pipeline."""

    def build(self) -> None:
        """Build as PPO does, with vecenv's piece last."""
        super().build()
        config: Any = self.config
        self._learner_connector.append(  # type: ignore[union-attr]
            PackedAdvantages(gamma=config.gamma, lambda_=config.lambda_, device=self._device)
        )

    def _make_batch_if_necessary(self, training_data: Any) -> Any:
        batch = super()._make_batch_if_necessary(training_data)
        if training_data.episodes is not None:
            batch.count = len(batch[DEFAULT_MODULE_ID])  # RLlib counted a step of N envs as one
        return batch


class PackedAdvantages(ConnectorV2):
    """One flat batch of all transitions, with advantages and value targets.

    Values are bootstrapped where an episode was truncated or the rollout ends, and not where it terminated. Steps that
    only reset an env are left out. Advantages are standardised over the remaining steps.
    """

    def __init__(self, *, gamma: float, lambda_: float, device: Any = None) -> None:
        super().__init__()
        self._gamma, self._lambda, self._device = gamma, lambda_, device

    def __call__(self, *, rl_module: Any, episodes: list[Any], **kwargs: Any) -> dict[str, Any]:
        """Build the batch."""
        module = rl_module[DEFAULT_MODULE_ID]
        columns: dict[str, list[Any]] = defaultdict(list)
        for episode in episodes:
            rollout = episode if isinstance(episode, PackedRollout) else PackedRollout.of_episode(episode)
            if rollout.version != VERSION:
                raise UnsupportedError(
                    f"a rollout of version {rollout.version} cannot be read by version {VERSION}; "
                    "install the same vecenv on all machines"
                )
            for name, column in self._columns(module, rollout).items():
                columns[name].append(column)
        batch = {
            name: map_tree(lambda *parts: parts[0] if len(parts) == 1 else torch.cat(parts), *parts)
            for name, parts in columns.items()
        }
        advantages = batch[Postprocessing.ADVANTAGES]
        spread = torch.clamp(advantages.std(correction=0), min=1e-4)
        batch[Postprocessing.ADVANTAGES] = (advantages - advantages.mean()) / spread
        return {DEFAULT_MODULE_ID: batch}

    def _columns(self, module: Any, rollout: PackedRollout) -> dict[str, Any]:
        valid = self._tensor(rollout.valid)
        obs = map_tree(self._tensor, rollout.obs)
        values = _values(module, obs, steps=len(valid) + 1)
        advantages = _advantages(
            self._tensor(rollout.rewards),
            values,
            self._tensor(rollout.terminated),
            self._tensor(rollout.truncated),
            self._gamma,
            self._lambda,
        )
        columns = {
            Columns.OBS: map_tree(lambda leaf: leaf[:-1], obs),
            Columns.ACTIONS: map_tree(self._tensor, rollout.actions),
            Postprocessing.ADVANTAGES: advantages,
            Postprocessing.VALUE_TARGETS: advantages + values[:-1],
            **{name: self._tensor(column) for name, column in rollout.extra.items()},
        }
        # Ordered by env, as RLlib orders episodes: it does not shuffle before the first epoch, and a minibatch of all
        # envs at the same time would contain only early steps.
        chosen = valid.T
        return {name: map_tree(lambda leaf: leaf.transpose(0, 1)[chosen], column) for name, column in columns.items()}

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        """A tensor that shares the array's memory where possible; float64 becomes float32."""
        with warnings.catch_warnings():  # arrays from the object store are read-only; nothing here writes to them
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
        return tensor.float() if tensor.dtype == torch.float64 else tensor


def _values(module: Any, obs: Any, steps: int) -> torch.Tensor:
    """Values of observations [T + 1, N, ...]."""
    with torch.no_grad():
        flat = map_tree(lambda leaf: leaf.flatten(0, 1), obs)
        return module.compute_values({Columns.OBS: flat}).float().reshape(steps, -1)


def _advantages(
    rewards: torch.Tensor,
    values: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor,
    gamma: float,
    lambda_: float,
) -> torch.Tensor:
    """Generalised advantage estimation of [T, N], given values [T + 1, N] of the true successors."""
    alive = (~terminated).float()
    goes_on = alive * (~truncated).float() * (gamma * lambda_)
    deltas = rewards + gamma * alive * values[1:] - values[:-1]
    advantages = torch.empty_like(deltas)
    last = torch.zeros_like(deltas[0])
    for step in range(len(deltas) - 1, -1, -1):
        last = deltas[step] + goes_on[step] * last
        advantages[step] = last
    return advantages
