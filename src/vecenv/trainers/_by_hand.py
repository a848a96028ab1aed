"""PPO's network on the CPU without autograd, whose bookkeeping takes most of the time of small networks.

Layers are those of `_layers.py`; distributions and the loss are native code. Gradients are those of autograd up to
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vecenv.kernel.numba.functions import address_of, native, table_of
from vecenv.trainers import _by_hand_native
from vecenv.trainers._actor_critic import ActorCritic
from vecenv.trainers._device import CPU, put
from vecenv.trainers._distributions import Choices
from vecenv.trainers._few import Few
from vecenv.trainers._layers import Hidden, Linear, gradients_of
from vecenv.trainers._networks import Numbers
from vecenv.trainers._optimizer import Flat

_draw_table, _loss_table = table_of("10q"), table_of("17q5d")


def by_hand(network: nn.Module, flat: Flat) -> HandWritten | None:
    """The written-out gradient of a network; None for others: with
    convolutions, a memory, a central value function or no layers between, of users, or on other devices."""
    if type(network) is not ActorCritic or flat.vector.device != CPU or flat.vector.dtype != torch.float32:
        return None
    plain = network.memory is None and len(network.stacks.weights) and not list(network.encoder.parameters())
    return HandWritten(network, flat) if plain else None


class HandWritten:
    """Acts with an `ActorCritic` of fully connected layers, and computes gradients of PPO's loss."""

    def __init__(self, network: ActorCritic, flat: Flat) -> None:
        self.gradient, own = gradients_of(flat)
        self._encoder = network.encoder
        self._numbers = len(network.encoder.parts) == 1 and isinstance(network.encoder.parts[0], Numbers)
        self._hidden, self._few = Hidden(network.stacks, own), Few(network)
        self._actor, self._critic = Linear(network.actor, own), Linear(network.critic, own)
        head, nothing = network.head, torch.zeros(0, dtype=torch.float32, device=CPU)
        self._choices = isinstance(head, Choices)
        self._sizes = np.array(head.sizes if self._choices else [], np.int64)
        self._log_std = nothing if self._choices else head.log_std.detach()
        self._for_log_std = nothing if self._choices else own[head.log_std]
        self._make_room(0)
        # Tensors, whose addresses are asked for at each call: sending a network to another process moves its memory.

    def act(
        self, obs: Any, mask: np.ndarray | None, generator: torch.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sampled actions, values of the observations and log probabilities of the actions."""
        features = self._features(obs)
        few = self._few.fits(len(features))
        outputs, value = self._few.forward(features.numpy()) if few else self._forward(features)
        noise = torch.empty(outputs.shape, dtype=torch.float32, device=CPU)  # whatever torch's defaults are
        if self._choices:
            noise.exponential_(generator=generator)
            actions = np.empty((len(outputs), len(self._sizes)), np.int64)
        else:
            noise.normal_(generator=generator)
            actions = np.empty_like(outputs)
        random, log_prob = noise.numpy(), np.empty(len(outputs), np.float32)
        words = self._words(address_of(outputs), outputs.shape, mask, actions)
        native(_by_hand_native.draw_choices if self._choices else _by_hand_native.draw_gaussian)(
            _draw_table(*words, address_of(random), address_of(log_prob))
        )
        return actions, value[:, 0], log_prob

    def gradient_of(
        self, batch: dict[str, Any], config: Any, clip_range: float, entropy_weight: float
    ) -> tuple[Tensor, dict[str, float]]:
        """The gradient of PPO's loss, which the next call overwrites, and the parts of the loss.

        Args:
            batch: a minibatch of the rollout, as contiguous arrays; "numbers" are advantages, returns, values and log
                probabilities.
            config: settings of PPO.
            clip_range: limit of the change of action probabilities.
            entropy_weight: weight of the entropy bonus.
        """
        features, mask = self._features(batch["obs"]), batch.get("mask")
        if features.shape[0] != self._room[0].shape[0]:
            self._make_room(features.shape[0])
        for_actor, for_critic = self._hidden.forward(features)
        outputs, value, for_outputs, for_value = self._room
        self._actor.forward(for_actor, outputs)
        self._critic.forward(for_critic, value)
        clip_value = math.inf if config.clip_value is None else config.clip_value
        settings = clip_range, config.value_weight, entropy_weight, clip_value, config.normalize_advantage
        parts, precision = np.zeros(4), np.empty(self._actor.size)
        words = self._words(outputs.data_ptr(), outputs.shape, mask, batch["actions"])
        written = [tensor.data_ptr() for tensor in (value, for_outputs, for_value, self._for_log_std)]
        addresses = address_of(batch["numbers"]), *written, address_of(parts), address_of(precision)
        native(_by_hand_native.choices_loss if self._choices else _by_hand_native.gaussian_loss)(
            _loss_table(*words, 0, 0, *addresses, *settings)
        )
        self._actor.backward(for_outputs, self._hidden.for_outputs[0])
        self._critic.backward(for_value, self._hidden.for_outputs[1])
        self._hidden.backward()
        norm = math.sqrt(torch.dot(self.gradient, self.gradient).item()) + 1e-6
        if norm > config.max_grad_norm:
            self.gradient *= config.max_grad_norm / norm
        return self.gradient, dict(zip(("policy", "value", "entropy", "kl"), parts.tolist(), strict=True))

    def _features(self, obs: Any) -> Tensor:
        if self._numbers and isinstance(obs, np.ndarray) and obs.dtype == np.float32:  # what the encoder does, in short
            return torch.from_numpy(obs if obs.ndim == 2 else obs.reshape(len(obs), -1))
        return self._encoder(put(obs, CPU))

    def _forward(self, features: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of the head, and values [rows, 1]."""
        for_actor, for_critic = self._hidden.forward(features)
        return self._actor.forward(for_actor).numpy(), self._critic.forward(for_critic).numpy()

    def _make_room(self, rows: int) -> None:
        """Memory for outputs and values of this many rows, and for the derivatives by them."""
        widths = self._actor.size, self._critic.size
        self._room = [torch.empty((rows, width), dtype=torch.float32, device=CPU) for width in (*widths, *widths)]

    def _words(
        self, outputs: int, shape: Sequence[int], mask: np.ndarray | None, actions: np.ndarray
    ) -> tuple[int, ...]:
        """The first words of both tables, of outputs at an address."""
        sizes, rest = (*shape, len(self._sizes)), (address_of(self._sizes), self._log_std.data_ptr())
        return outputs, 0 if mask is None else address_of(mask), address_of(actions), *sizes, *rest
