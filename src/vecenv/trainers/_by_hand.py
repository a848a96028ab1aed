"""PPO's network on the CPU without autograd: for small networks, its bookkeeping takes most of the time.

Matrix products are torch's, on as many threads as it is told to use. The rest is NumPy, whose functions take a third of
the time of torch's for arrays of this size. Gradients are those of autograd up to rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vecenv.trainers._actor_critic import ActorCritic
from vecenv.trainers._device import put
from vecenv.trainers._distributions import FORBIDDEN, Choices, Gaussian
from vecenv.trainers._networks import Numbers, Stacks
from vecenv.trainers._optimizer import Flat

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
        self._head = _Choices(network.head) if isinstance(network.head, Choices) else _Gaussian(network.head, own)

    def act(
        self, obs: Any, mask: np.ndarray | None, generator: torch.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sampled actions, values of the observations and log probabilities of the actions."""
        outputs, value = self._forward(obs)
        return self._head.draw(outputs, mask, generator), value, self._head.log_prob

    def gradient_of(
        self, batch: dict[str, Any], config: Any, clip_range: float, entropy_weight: float
    ) -> tuple[Tensor, dict[str, Any]]:
        """The gradient of PPO's loss, which the next call overwrites, and the parts of the loss.

        Args:
            batch: a minibatch of the rollout, as arrays; "numbers" are advantages, returns, values and log
                probabilities.
            config: settings of PPO.
            clip_range: limit of the change of action probabilities.
            entropy_weight: weight of the entropy bonus.
        """
        head, (advantage, returns, old_value, old_log_prob) = self._head, batch["numbers"].T
        count = len(advantage)
        outputs, value = self._forward(batch["obs"])
        head.judge(outputs, batch.get("mask"), batch["actions"])

        if config.normalize_advantage and count > 1:
            advantage = advantage - np.add.reduce(advantage) / count
            advantage /= math.sqrt(np.dot(advantage, advantage) / (count - 1)) + 1e-8
        log_ratio = head.log_prob - old_log_prob
        ratio = np.exp(log_ratio)
        gain = advantage * ratio
        limited = np.minimum(gain, advantage * np.clip(ratio, 1 - clip_range, 1 + clip_range))
        for_log_prob = np.where(gain <= limited, gain, 0) / -count  # where the limit holds, the loss does not change
        error = value - returns
        square = error * error
        if config.clip_value is not None:
            near = old_value + np.clip(value - old_value, -config.clip_value, config.clip_value) - returns
            error, square = np.where(square >= near * near, error, 0), np.maximum(square, near * near)
        for_value = error * (2 * config.value_weight / count)

        self._actor.backward(head.backward(for_log_prob, -entropy_weight / count), self._hidden.for_outputs[0])
        self._critic.backward(for_value[:, None], self._hidden.for_outputs[1])
        self._hidden.backward()
        norm = math.sqrt(torch.dot(self.gradient, self.gradient)) + 1e-6
        if norm > config.max_grad_norm:
            self.gradient *= config.max_grad_norm / norm
        sums = {"policy": -limited, "value": square, "entropy": head.entropy, "kl": ratio - 1 - log_ratio}
        return self.gradient, {name: np.add.reduce(each) / count for name, each in sums.items()}

    def _forward(self, obs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of the head, and values."""
        if self._numbers and isinstance(obs, np.ndarray) and obs.dtype == np.float32:  # what the encoder does, in short
            features = torch.from_numpy(obs).view(len(obs), -1)
        else:
            features = self._encoder(put(obs, _CPU))
        for_actor, for_critic = self._hidden.forward(features)
        return self._actor.forward(for_actor), self._critic.forward(for_critic)[:, 0]


class _Hidden:
    """`Stacks`. Their derivatives begin with those by the outputs, `for_outputs`, which the caller writes."""

    def __init__(self, stacks: Stacks, gradients: dict[Any, Tensor]) -> None:
        self._weights, self._biases = list(map(Tensor.detach, stacks.weights)), list(map(Tensor.detach, stacks.biases))
        self._for_weights = [gradients[weight] for weight in stacks.weights]
        self._for_biases = [gradients[bias].numpy() for bias in stacks.biases]
        self._count, self._tanh, self._rows = stacks.count, stacks.activation == "tanh", -1

    def forward(self, features: Tensor) -> list[Tensor]:
        """Outputs of each stack; the next call overwrites them."""
        if len(features) != self._rows:
            self._make_room(len(features), features.shape[1])
        self._inputs[0] = features.expand(self._count, *features.shape)
        for layer, (hidden, array) in enumerate(self._hidden):
            torch.baddbmm(self._biases[layer], self._inputs[layer], self._weights[layer], out=hidden)
            np.tanh(array, out=array) if self._tanh else np.maximum(array, 0, out=array)
        return self._outputs

    def backward(self) -> None:
        """Write the gradients of all layers."""
        for layer in reversed(range(len(self._weights))):
            hidden, (derivative, array) = self._hidden[layer][1], self._derivatives[layer]
            array *= 1 - hidden * hidden if self._tanh else hidden > 0
            np.add.reduce(array, 1, out=self._for_biases[layer], keepdims=True)
            torch.bmm(self._inputs[layer].transpose(1, 2), derivative, out=self._for_weights[layer])
            if layer:
                torch.bmm(derivative, self._weights[layer].transpose(1, 2), out=self._derivatives[layer - 1][0])

    def _make_room(self, rows: int, width: int) -> None:
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
        self._for_weight, self._for_bias = gradients[layer.weight], gradients[layer.bias].numpy()
        self._given = self._weight

    def forward(self, given: Tensor) -> np.ndarray:
        self._given = given
        return torch.addmm(self._bias, given, self._weight.t()).numpy()

    def backward(self, derivative: np.ndarray, for_given: Tensor) -> None:
        """Write the gradients, and into `for_given` the derivatives by what was given."""
        tensor = torch.from_numpy(derivative)
        torch.mm(tensor.t(), self._given, out=self._for_weight)
        torch.mm(tensor, self._weight, out=for_given)
        np.add.reduce(derivative, 0, out=self._for_bias)


class _Choices:
    """The head `Choices`: log probabilities and entropies of the last call, and derivatives by the logits."""

    def __init__(self, head: Choices) -> None:
        ends = np.cumsum(head.sizes).tolist()
        self._columns = [slice(end - size, end) for size, end in zip(head.sizes, ends, strict=True)]

    def draw(self, logits: np.ndarray, mask: np.ndarray | None, generator: torch.Generator) -> np.ndarray:
        noise = torch.empty(logits.shape).exponential_(generator=generator).numpy()
        self._weigh(logits, mask)
        # argmax(p / e) with e exponentially distributed is a sample from p.
        picks = [(part[1] / noise[:, own]).argmax(-1) for own, part in zip(self._columns, self._parts, strict=True)]
        actions = np.stack(picks, -1)
        self._pick(actions)
        return actions

    def judge(self, logits: np.ndarray, mask: np.ndarray | None, actions: np.ndarray) -> None:
        self._weigh(logits, mask)
        self._pick(actions)
        self.entropy = -sum(np.einsum("ij,ij->i", log, chance) for log, chance in self._parts)

    def backward(self, for_log_prob: np.ndarray, for_entropy: float) -> np.ndarray:
        derivative = np.empty((len(for_log_prob), self._columns[-1].stop), np.float32)
        for place, (own, (log, chance)) in enumerate(zip(self._columns, self._parts, strict=True)):
            part = np.multiply(chance, -for_log_prob[:, None], out=derivative[:, own])
            part[self._rows, self._actions[:, place]] += for_log_prob
            if for_entropy:
                entropy = -np.einsum("ij,ij->i", log, chance)
                part -= chance * (log + entropy[:, None]) * np.float32(for_entropy)
        return derivative if self._mask is None else derivative * self._mask

    def _weigh(self, logits: np.ndarray, mask: np.ndarray | None) -> None:
        """Note logarithms of the probabilities of all actions, and the probabilities."""
        self._mask, self._parts = mask, []
        if mask is not None:
            logits = np.where(mask, logits, np.float32(FORBIDDEN))
        for own in self._columns:
            log = logits[:, own] - np.maximum.reduce(logits[:, own], -1, keepdims=True)
            chance = np.exp(log)
            total = np.add.reduce(chance, -1, keepdims=True)
            log -= np.log(total)
            chance /= total
            self._parts.append((log, chance))

    def _pick(self, actions: np.ndarray) -> None:
        self._rows, self._actions = np.arange(len(actions)), actions
        self.log_prob = sum(log[self._rows, actions[:, place]] for place, (log, _) in enumerate(self._parts))


class _Gaussian:
    """The head `Gaussian`: log densities and entropies of the last call, and derivatives by the means."""

    def __init__(self, head: Gaussian, gradients: dict[Any, Tensor]) -> None:
        self._log_std, self._for_log_std = head.log_std.detach().numpy(), gradients[head.log_std].numpy()

    def draw(self, mean: np.ndarray, mask: Any, generator: torch.Generator) -> np.ndarray:
        noise = torch.empty(mean.shape).normal_(generator=generator).numpy()
        actions = mean + noise * np.exp(self._log_std)
        self.judge(mean, mask, actions)
        return actions

    def judge(self, mean: np.ndarray, mask: Any, actions: np.ndarray) -> None:
        size, self._precision = len(self._log_std), np.exp(-self._log_std)
        self._distance = (actions - mean) * self._precision
        self._squares = self._distance * self._distance
        width = np.add.reduce(self._log_std) + np.float32(0.5 * size * math.log(2 * math.pi))
        self.log_prob = np.float32(-0.5) * np.add.reduce(self._squares, -1) - width
        self.entropy = np.full(len(mean), width + np.float32(0.5 * size))

    def backward(self, for_log_prob: np.ndarray, for_entropy: float) -> np.ndarray:
        np.dot(for_log_prob, self._squares - 1, out=self._for_log_std)
        self._for_log_std += np.float32(for_entropy * len(for_log_prob))
        return self._distance * self._precision * for_log_prob[:, None]
