"""Connector pieces between envs and module that work on whole batches, without an episode per env."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.utils.torch_utils import convert_to_torch_tensor

from vecenv._batch.layout import map_tree

SEEN = "seen"
"""Column of the filtered observations as arrays, for learning."""


class UnpackObservation(ConnectorV2):
    """Takes the observations of the N envs out of a packed env's latest observation."""

    def __call__(self, *, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> dict[str, Any]:
        """Put the observations into the batch."""
        batch[Columns.OBS] = episodes[0].get_observations(-1)["obs"]
        return batch


class BatchToTensor(ConnectorV2):
    """Converts arrays to tensors on the module's device; float64 becomes float32. `keep` keeps the arrays as well.

    With states of a recurrent module, observations get an axis of time of length one.
    """

    def __init__(self, device: Any = None, keep: bool = False) -> None:
        super().__init__()
        self._device, self._keep = device, keep

    def __call__(self, *, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Convert the observations and states."""
        if self._keep:
            batch[SEEN] = batch[Columns.OBS]
        batch[Columns.OBS] = convert_to_torch_tensor(batch[Columns.OBS], device=self._device)
        if Columns.STATE_IN in batch:
            batch[Columns.OBS] = map_tree(lambda leaf: leaf.unsqueeze(1), batch[Columns.OBS])
            batch[Columns.STATE_IN] = convert_to_torch_tensor(batch[Columns.STATE_IN], device=self._device)
        return batch


class SampleActions(ConnectorV2):
    """Actions of all envs from the module's output, as arrays; if `packed`, with a first axis of length one."""

    def __init__(self, packed: bool = False) -> None:
        super().__init__()
        self._packed = packed

    def __call__(
        self, *, rl_module: Any, batch: dict[str, Any], explore: bool | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Sample, or take the most probable actions when not exploring, unless the module chose actions itself."""
        if Columns.STATE_OUT in batch:
            states = {Columns.STATE_OUT: batch.pop(Columns.STATE_OUT)}
            batch = states | map_tree(lambda leaf: leaf.squeeze(1), batch)  # one step: no axis of time
        with torch.no_grad():
            if Columns.ACTIONS not in batch:
                _sample(rl_module, batch, bool(explore))
        return {name: map_tree(self._array, value) for name, value in batch.items()}

    def _array(self, tensor: Any) -> Any:
        array = tensor.detach().cpu().numpy() if isinstance(tensor, torch.Tensor) else tensor
        return array[None] if self._packed else array


def sample_categorical(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of TorchCategorical, bit for bit, and their log probabilities, without its checks."""
    log_probabilities = logits - logits.logsumexp(dim=-1, keepdim=True)
    actions = torch.multinomial(torch.softmax(log_probabilities, dim=-1), 1, True)
    return actions.squeeze(-1), log_probabilities.gather(-1, actions).squeeze(-1)


def _sample(module: Any, batch: dict[str, Any], explore: bool) -> None:
    of = module.get_exploration_action_dist_cls if explore else module.get_inference_action_dist_cls
    kind, inputs = of(), batch[Columns.ACTION_DIST_INPUTS]
    if kind is TorchCategorical and explore and Columns.ACTION_LOGP not in batch:
        batch[Columns.ACTIONS], batch[Columns.ACTION_LOGP] = sample_categorical(inputs)
        return
    distribution = kind.from_logits(inputs)
    if not explore:
        distribution = distribution.to_deterministic()
    batch[Columns.ACTIONS] = distribution.sample()
    batch.setdefault(Columns.ACTION_LOGP, distribution.logp(batch[Columns.ACTIONS]))
