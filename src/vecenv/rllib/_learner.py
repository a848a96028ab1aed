"""Batches of PPO, APPO and IMPALA from packed rollouts."""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from vecenv._batch.layout import map_tree
from vecenv.errors import UnsupportedError
from vecenv.rllib._rollout import VERSION, EpisodeRows, PackedRollout, Sequences


class _PackedLearner(TorchLearner):
    """A learner whose pipeline is one piece, which makes a batch of packed rollouts."""

    def build(self) -> None:
        """Build as RLlib does, with vecenv's piece last."""
        super().build()
        self._learner_connector.append(self._piece())  # type: ignore[union-attr]

    def _piece(self) -> ConnectorV2:
        return PackedEpisodes(device=self._device)

    def _make_batch_if_necessary(self, training_data: Any) -> Any:
        batch = super()._make_batch_if_necessary(training_data)
        if training_data.episodes is not None:
            own = batch[DEFAULT_MODULE_ID]
            # RLlib counts the rows that it adds to episodes, too.
            batch.count = len(own) if Columns.SEQ_LENS not in own else int(own[Columns.SEQ_LENS].sum())
        return batch


class PackedPPOLearner(_PackedLearner, PPOTorchLearner):
    """PPO on packed rollouts: `PackedAdvantages` is its whole learner pipeline."""

    def _piece(self) -> ConnectorV2:
        config: Any = self.config
        return PackedAdvantages(gamma=config.gamma, lambda_=config.lambda_, device=self._device)


class PackedIMPALALearner(_PackedLearner, IMPALATorchLearner):
    """IMPALA on packed rollouts: `PackedEpisodes` is its whole learner pipeline."""


class PackedAPPOLearner(_PackedLearner, APPOTorchLearner):
    """APPO on packed rollouts: `PackedEpisodes` is its whole learner pipeline."""


class PackedEpisodes(ConnectorV2):
    """RLlib's batch of episodes, which APPO, IMPALA and recurrent modules need: see `EpisodeRows` and `Sequences`."""

    def __init__(self, *, device: Any = None) -> None:
        super().__init__()
        self._device = device

    def __call__(
        self, *, rl_module: Any, episodes: list[Any], shared_data: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Build the batch."""
        module = rl_module[DEFAULT_MODULE_ID].unwrapped()
        columns: dict[str, list[Any]] = defaultdict(list)
        for rollout in episodes:
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
        if module.is_stateful() and shared_data is not None:
            shared_data[f"_zero_padded_for_mid={DEFAULT_MODULE_ID}"] = True
        return {DEFAULT_MODULE_ID: batch}

    def _columns(self, module: Any, rollout: PackedRollout) -> dict[str, Any]:
        rows = EpisodeRows.of(rollout)
        columns = self._episode_columns(rollout, rows)
        return self._sequences(module, rollout, rows, columns) if module.is_stateful() else columns

    def _episode_columns(self, rollout: PackedRollout, rows: EpisodeRows) -> dict[str, Any]:
        step, env = rows.step, rows.env
        terminated = rollout.terminated[step, env] & rows.real
        columns = {
            Columns.OBS: map_tree(lambda leaf: leaf[rows.time, env], rollout.obs),
            Columns.ACTIONS: map_tree(lambda leaf: leaf[step, env], rollout.actions),
            Columns.REWARDS: np.where(rows.real, rollout.rewards[step, env], np.float32(0)),
            Columns.TERMINATEDS: terminated,
            # An episode that goes on after the sample is cut off there.
            Columns.TRUNCATEDS: rows.ends & (rollout.truncated[step, env] | ~terminated),
            Columns.LOSS_MASK: rows.real,
            WEIGHTS_SEQ_NO: np.full(len(step), rollout.weights_seq_no),
            **{name: column[step, env] for name, column in rollout.extra.items()},
        }
        return {name: map_tree(self._tensor, column) for name, column in columns.items()}

    def _sequences(
        self, module: Any, rollout: PackedRollout, rows: EpisodeRows, columns: dict[str, Any]
    ) -> dict[str, Any]:
        sequences = Sequences.of(rows, module.model_config["max_seq_len"])
        begins = np.flatnonzero(sequences.at % sequences.length == 0)
        time, env = rows.time[begins], rows.env[begins]
        return {
            **{name: sequences.padded(column) for name, column in columns.items()},
            Columns.STATE_IN: map_tree(lambda leaf: self._tensor(leaf[time, env]), rollout.states),
            Columns.SEQ_LENS: self._tensor(sequences.lengths),
        }

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        """A tensor that shares the array's memory where possible; float64 becomes float32."""
        with warnings.catch_warnings():  # arrays from the object store are read-only; nothing here writes to them
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
        return tensor.float() if tensor.dtype == torch.float64 else tensor


class PackedAdvantages(PackedEpisodes):
    """PPO's batch: all transitions, with advantages and value targets; for recurrent modules in sequences.

    Values are bootstrapped where an episode was truncated or the rollout ends, and not where it terminated. Steps that
    only reset an env are left out. Advantages are standardised over the remaining steps.
    """

    def __init__(self, *, gamma: float, lambda_: float, device: Any = None) -> None:
        super().__init__(device=device)
        self._gamma, self._lambda = gamma, lambda_

    def __call__(self, **kwargs: Any) -> dict[str, Any]:
        """Build the batch."""
        batch = super().__call__(**kwargs)
        own = batch[DEFAULT_MODULE_ID]
        advantages = own[Postprocessing.ADVANTAGES]
        counted = advantages[own[Columns.LOSS_MASK]] if Columns.LOSS_MASK in own else advantages
        spread = torch.clamp(counted.std(correction=0), min=1e-4)
        own[Postprocessing.ADVANTAGES] = (advantages - counted.mean()) / spread
        return batch

    def _columns(self, module: Any, rollout: PackedRollout) -> dict[str, Any]:
        if module.is_stateful():
            return self._recurrent_columns(module, rollout)
        valid = self._tensor(rollout.valid)
        obs = map_tree(self._tensor, rollout.obs)
        values = _values(module, obs, steps=len(valid) + 1)
        advantages = self._advantages(rollout, values)
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

    def _recurrent_columns(self, module: Any, rollout: PackedRollout) -> dict[str, Any]:
        rows = EpisodeRows.of(rollout)
        columns = self._sequences(module, rollout, rows, self._episode_columns(rollout, rows))
        sequences = Sequences.of(rows, module.model_config["max_seq_len"])
        with torch.no_grad():
            of_rows = module.compute_values(columns).float().flatten()[sequences.at]
        # An added row has the place of a step that only resets its env, or the one after the last: all places differ.
        values = of_rows.new_zeros(len(rollout.valid) + 1, rollout.valid.shape[1])
        values[rows.time, rows.env] = of_rows
        truncated = rollout.truncated.copy()
        truncated[rows.step[rows.ends], rows.env[rows.ends]] = True  # values of later steps are not known
        rollout = replace(rollout, truncated=truncated)
        advantages = self._advantages(rollout, values)[rows.step, rows.env] * self._tensor(rows.real)
        return {
            **columns,
            Postprocessing.ADVANTAGES: sequences.padded(advantages),
            Postprocessing.VALUE_TARGETS: sequences.padded(advantages + of_rows),
        }

    def _advantages(self, rollout: PackedRollout, values: torch.Tensor) -> torch.Tensor:
        return _advantages(
            self._tensor(rollout.rewards),
            values,
            self._tensor(rollout.terminated),
            self._tensor(rollout.truncated),
            self._gamma,
            self._lambda,
        )


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
