"""PPO's network on the CPU without autograd: for small networks, its bookkeeping takes most of the time.

Matrix products are torch's, on as many threads as it is told to use. Activations are NumPy's, which are faster than
torch's for arrays of this size. Distributions and the loss are native code. Gradients are those of autograd up to
rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vecenv.kernel.numba.functions import address_of, native_function, table_of
from vecenv.trainers import _by_hand_native
from vecenv.trainers._actor_critic import ActorCritic
from vecenv.trainers._device import put
from vecenv.trainers._distributions import Choices
from vecenv.trainers._networks import Numbers, Stacks
from vecenv.trainers._optimizer import Flat

_draw_table, _loss_table = table_of("10q"), table_of("17q")
_CPU = torch.device("cpu")


def by_hand(network: nn.Module, flat: Flat) -> HandWritten | None:
    """The written-out gradient of a network; None for convolutions, memories, networks of users and other devices."""
    if type(network) is not ActorCritic or flat.vector.device != _CPU:
        return None
    plain = network.memory is None and len(network.stacks.weights) and not list(network.encoder.parameters())
    return HandWritten(network, flat) if plain else None


class HandWritten:
    """Acts with an `ActorCritic` of fully connected layers, and computes gradients of PPO's loss."""

    def __init__(self, network: ActorCritic, flat: Flat) -> None:
        self.gradient = torch.zeros_like(flat.vector)
        parts = self.gradient.split([part.numel() for part in flat.parameters])
        own = {part: view.view_as(part) for part, view in zip(flat.parameters, parts, strict=True)}
        self._encoder = network.encoder
        self._numbers = len(network.encoder.parts) == 1 and isinstance(network.encoder.parts[0], Numbers)
        self._hidden = _Hidden(network.stacks, own)
        self._actor, self._critic = _Linear(network.actor, own), _Linear(network.critic, own)
        head, nothing = network.head, np.zeros(0, np.float32)
        self._choices = isinstance(head, Choices)
        self._sizes = np.array(head.sizes if self._choices else [], np.int64)
        self._log_std = nothing if self._choices else head.log_std.detach().numpy()
        self._for_log_std = nothing if self._choices else own[head.log_std].numpy()

    def act(
        self, obs: Any, mask: np.ndarray | None, generator: torch.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sampled actions, values of the observations and log probabilities of the actions."""
        outputs, value = self._forward(obs)
        noise = torch.empty(outputs.shape)
        if self._choices:
            noise.exponential_(generator=generator)
            actions = np.empty((len(outputs), len(self._sizes)), np.int64)
        else:
            noise.normal_(generator=generator)
            actions = np.empty_like(outputs)
        random, log_prob = noise.numpy(), np.empty(len(outputs), np.float32)
        words = self._words(outputs, mask, actions)
        _native("draw_choices" if self._choices else "draw_gaussian")(
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
        outputs, value = self._forward(batch["obs"])
        for_outputs, for_value, parts = np.empty_like(outputs), np.empty_like(value), np.zeros(4)
        clip_value = math.inf if config.clip_value is None else config.clip_value
        settings = np.array((clip_range, config.value_weight, entropy_weight, clip_value, config.normalize_advantage))
        words, written = self._words(outputs, batch.get("mask"), batch["actions"]), (for_outputs, for_value)
        arrays = batch["numbers"], value, *written, self._for_log_std, settings, parts
        _native("choices_loss" if self._choices else "gaussian_loss")(
            _loss_table(*words, 0, 0, *map(address_of, arrays))
        )
        self._actor.backward(for_outputs, self._hidden.for_outputs[0])
        self._critic.backward(for_value, self._hidden.for_outputs[1])
        self._hidden.backward()
        norm = math.sqrt(torch.dot(self.gradient, self.gradient)) + 1e-6
        if norm > config.max_grad_norm:
            self.gradient *= config.max_grad_norm / norm
        return self.gradient, dict(zip(("policy", "value", "entropy", "kl"), parts.tolist(), strict=True))

    def _forward(self, obs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of the head, and values [rows, 1]."""
        if self._numbers and isinstance(obs, np.ndarray) and obs.dtype == np.float32:  # what the encoder does, in short
            features = torch.from_numpy(obs).view(len(obs), -1)
        else:
            features = self._encoder(put(obs, _CPU))
        for_actor, for_critic = self._hidden.forward(features)
        return self._actor.forward(for_actor), self._critic.forward(for_critic)

    def _words(self, outputs: np.ndarray, mask: np.ndarray | None, actions: np.ndarray) -> tuple[int, ...]:
        """The first words of both tables."""
        sizes, rest = (*outputs.shape, len(self._sizes)), map(address_of, (self._sizes, self._log_std))
        return address_of(outputs), 0 if mask is None else address_of(mask), address_of(actions), *sizes, *rest


@functools.cache
def _native(name: str) -> Callable[[bytes], None]:
    return native_function(getattr(_by_hand_native, name))


class _Hidden:
    """`Stacks`. Their derivatives begin with those by the outputs, `for_outputs`, which the caller writes."""

    def __init__(self, stacks: Stacks, gradients: dict[Any, Tensor]) -> None:
        self._weights, self._biases = list(map(Tensor.detach, stacks.weights)), list(map(Tensor.detach, stacks.biases))
        self._for_weights = [gradients[weight] for weight in stacks.weights]
        self._for_biases = [gradients[bias] for bias in stacks.biases]
        self._count, self._tanh, self._rows = stacks.count, stacks.activation == "tanh", -1

    def forward(self, features: Tensor) -> list[Tensor]:
        """Outputs of each stack; the next call overwrites them."""
        if features.shape[0] != self._rows:
            self._make_room(features.shape[0])
        self._inputs[0] = features.expand(self._count, *features.shape)
        for layer, (hidden, array) in enumerate(self._hidden):
            torch.baddbmm(self._biases[layer], self._inputs[layer], self._weights[layer], out=hidden)
            np.tanh(array, out=array) if self._tanh else np.maximum(array, 0, out=array)
        return self._outputs

    def backward(self) -> None:
        """Write the gradients of all layers."""
        for layer in reversed(range(len(self._weights))):
            hidden, (derivative, array) = self._hidden[layer][1], self._derivatives[layer]
            if self._tanh:
                hidden *= hidden
                array *= np.subtract(1, hidden, out=hidden)
            else:
                array *= hidden > 0
            torch.sum(derivative, 1, keepdim=True, out=self._for_biases[layer])
            torch.bmm(self._inputs[layer].transpose(1, 2), derivative, out=self._for_weights[layer])
            if layer:
                torch.bmm(derivative, self._weights[layer].transpose(1, 2), out=self._derivatives[layer - 1][0])

    def _make_room(self, rows: int) -> None:
        """Memory for this many rows: tensors, and the same as arrays."""
        self._rows = rows
        sizes = [bias.shape[-1] for bias in self._biases]

        def room() -> list[tuple[Tensor, np.ndarray]]:
            made = [torch.empty(self._count, rows, size) for size in sizes]
            return [(tensor, tensor.numpy()) for tensor in made]

        self._hidden, self._derivatives = room(), room()
        self._inputs = [torch.empty(0), *(tensor for tensor, _ in self._hidden[:-1])]
        self._outputs = list(self._hidden[-1][0].unbind())
        self.for_outputs = list(self._derivatives[-1][0].unbind())


class _Linear:
    """A linear layer."""

    def __init__(self, layer: nn.Linear, gradients: dict[Any, Tensor]) -> None:
        self._weight, self._bias = layer.weight.detach(), layer.bias.detach()
        self._for_weight, self._for_bias = gradients[layer.weight], gradients[layer.bias]
        self._turned, self._given = self._weight.t(), self._weight

    def forward(self, given: Tensor) -> np.ndarray:
        self._given = given
        return torch.addmm(self._bias, given, self._turned).numpy()

    def backward(self, derivative: np.ndarray, for_given: Tensor) -> None:
        """Write the gradients, and into `for_given` the derivatives by what was given."""
        tensor = torch.from_numpy(derivative)
        torch.mm(tensor.t(), self._given, out=self._for_weight)
        torch.mm(tensor, self._weight, out=for_given)
        torch.sum(tensor, 0, out=self._for_bias)
