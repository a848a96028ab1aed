"""SAC's networks on the CPU without autograd: layers of `_layers.py`, and derivatives of the losses written out."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vecenv.trainers._device import CPU
from vecenv.trainers._layers import Gradients, Hidden, Linear, gradients_of
from vecenv.trainers._optimizer import Flat
from vecenv.trainers._soft_networks import SoftActor, TwinCritic


def soft_by_hand(
    actor: nn.Module, critic: TwinCritic, target: TwinCritic, flat_actor: Flat, flat_critic: Flat
) -> SoftByHand | None:
    """Written-out gradients of SAC's networks; None for convolutions, actors of users and other devices."""
    if type(actor) is not SoftActor or flat_actor.vector.device != CPU or not len(actor.stack.weights):
        return None
    if list(critic.encoder.parameters()) or flat_actor.vector.dtype != torch.float32:
        return None
    return SoftByHand(actor, critic, target, flat_actor, flat_critic)


class SoftByHand:
    """Computes what an update of SAC needs. Gradients are those of autograd up to rounding; each call overwrites them.

    An update calls `draw`, `draw_next`, `target`, `critic_gradient` and `actor_gradient`, in this order.
    """

    def __init__(
        self, actor: SoftActor, critic: TwinCritic, target: TwinCritic, flat_actor: Flat, flat_critic: Flat
    ) -> None:
        self._for_actor, own = gradients_of(flat_actor)
        self._hidden, self._outputs = Hidden(actor.stack, own), Linear(actor.outputs, own)
        self._next_hidden, self._next_outputs = Hidden(actor.stack, own), Linear(actor.outputs, own)
        self._for_critic, own = gradients_of(flat_critic)
        self._critic, self._target = _Twin(critic, own), _Twin(target, {})

    def draw(self, features: Tensor, generator: torch.Generator) -> Tensor:
        """Sample the actions that `actor_gradient` is about; return their log densities."""
        self._given = self._outputs.forward(self._hidden.forward(features)[0])
        self._actions, log_prob, self._noise, self._std = _drawn(self._given, generator)
        return log_prob

    def draw_next(self, features: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Actions for the observations after those, and their log densities."""
        return _drawn(self._next_outputs.forward(self._next_hidden.forward(features)[0]), generator)[:2]

    def target(self, features: Tensor, actions: Tensor) -> Tensor:
        """Both values of the target critics, [2, rows]."""
        return self._target.forward(features, actions)

    def critic_gradient(
        self, features: Tensor, actions: Tensor, wanted: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient of the critics' loss, the loss, and the errors [2, rows].

        Args:
            features, actions: of the minibatch.
            wanted: the values that both critics should have.
            weight: of each transition; None: all are one.
        """
        error = self._critic.forward(features, actions) - wanted
        weighted = error if weight is None else error * weight
        self._critic.backward(weighted / len(wanted))
        return self._for_critic, 0.5 * (weighted * error).mean(1).sum(), error

    def actor_gradient(self, features: Tensor, weight: Tensor, log_prob: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of the actor's loss, and the loss, for the actions of `draw` and the weight of the entropy."""
        actions, rows = self._actions, len(log_prob)
        first, second = self._critic.forward(features, actions)
        value, tied = torch.minimum(first, second), 0.5 * (first == second)
        for_values = torch.stack([(first < second) + tied, (second < first) + tied]) / -rows
        for_actions = self._critic.backward_to_actions(for_values)
        share = weight / rows
        for_raw = for_actions * (1 - actions * actions) + 2 * share * actions
        for_log_std = for_raw * self._noise * self._std - share
        log_std = self._given[:, actions.shape[1] :]
        for_log_std *= (log_std >= -20) & (log_std <= 2)
        self._outputs.backward(torch.cat([for_raw, for_log_std], 1), self._hidden.for_outputs[0])
        self._hidden.backward()
        return self._for_actor, (weight * log_prob - value).mean()


class _Twin:
    """`TwinCritic`, of features and actions."""

    def __init__(self, critic: TwinCritic, gradients: Gradients) -> None:
        self._hidden = Hidden(critic.stacks, gradients)
        self._weights, self._bias = critic.weight.detach().squeeze(-1), critic.bias.detach().squeeze(-1)
        self._gradients = [gradients.get(part) for part in (critic.weight, critic.bias)]
        self._features = critic.encoder.features

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        self._last = self._hidden.forward(torch.cat([features, actions], 1))
        both = zip(self._last, self._weights, strict=True)
        return torch.stack([torch.mv(hidden, weight) for hidden, weight in both]) + self._bias

    def backward(self, derivative: Tensor) -> None:
        """Write the gradients, for derivatives [2, rows] by the values."""
        for_weight: Any
        for_weight, for_bias = self._gradients
        for stack, own in enumerate(derivative):
            torch.mv(self._last[stack].t(), own, out=for_weight[stack, :, 0])
        torch.sum(derivative, 1, out=for_bias.view(2))  # type: ignore[union-attr]  # of critics that learn
        self._spread(derivative)
        self._hidden.backward()

    def backward_to_actions(self, derivative: Tensor) -> Tensor:
        """Derivatives by the actions, for derivatives [2, rows] by the values."""
        self._spread(derivative)
        return self._hidden.backward_to_features(self._features)

    def _spread(self, derivative: Tensor) -> None:
        for own, weight, out in zip(derivative, self._weights, self._hidden.for_outputs, strict=True):
            torch.outer(own, weight, out=out)


def _drawn(outputs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Actions, log densities, noise and standard deviations; see `Actor.draw`."""
    mean, log_std = outputs.chunk(2, -1)
    log_std = log_std.clamp(-20, 2)
    std, noise = log_std.exp(), torch.empty_like(mean).normal_(generator=generator)
    raw = mean + noise * std
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    squash = 2 * (math.log(2) - raw - functional.softplus(-2 * raw))
    return raw.tanh(), (density - squash).sum(-1), noise, std
