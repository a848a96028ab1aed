"""The networks of SAC: an actor with squashed actions, and two critics.

Their layers begin as `nn.Linear` does, as in Stable-Baselines3 and CleanRL; PPO's are orthogonal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn
from torch.nn import functional

from vecenv._batch.layout import map_tree
from vecenv.errors import ConfigError, SpaceError
from vecenv.trainers._actor_critic import NetworkLike, PolicyNetwork, own_network
from vecenv.trainers._device import host
from vecenv.trainers._networks import Encoder, Stacks


class Squashed:
    """Actions between -1 and 1, and their conversion to the envs' action space."""

    def __init__(self, space: Space[Any]) -> None:
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise SpaceError(f"SAC needs a float Box action space, got {space}; use PPO")
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise SpaceError(f"SAC needs finite bounds for all actions, got {space}; use RescaleAction or ClipAction")
        self.size = int(np.prod(space.shape))
        self.drawn_space = spaces.Box(-1, 1, (self.size,), np.float32)
        self._low, self._high, self._dtype = space.low, space.high, space.dtype

    def to_env(self, actions: Tensor) -> np.ndarray:
        """The actions in the form of the envs' action space."""
        numbers = host(actions).reshape(-1, *self._low.shape)
        return (self._low + (numbers + 1) * 0.5 * (self._high - self._low)).astype(self._dtype, copy=False)

    def to_tensor(self, actions: Tensor) -> Tensor:
        """The same as `to_env`, on the device of the actions."""
        low, high = (torch.as_tensor(bound, device=actions.device) for bound in (self._low, self._high))
        return low + (actions.reshape(-1, *self._low.shape).to(low.dtype) + 1) * 0.5 * (high - low)


class Actor(PolicyNetwork):
    """Normal distributions from the outputs of a network; actions are the tanh of their samples.

    `forward` returns means and log standard deviations, one after another.
    """

    recurrent = False

    def parts(self, obs: Any) -> tuple[Tensor, Tensor]:
        """Means and log standard deviations."""
        mean, log_std = self(obs)[0].chunk(2, -1)
        return mean, log_std.clamp(-20, 2)

    def draw(self, obs: Any, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sample actions between -1 and 1, and their log densities."""
        mean, log_std = self.parts(obs)
        noise = torch.empty_like(mean).normal_(generator=generator)
        raw = mean + noise * log_std.exp()
        density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        # log(1 - tanh(x)^2), in a form that is exact far from zero too
        squash = 2 * (math.log(2) - raw - functional.softplus(-2 * raw))
        return raw.tanh(), (density - squash).sum(-1)

    def act(
        self, obs: Any, memory: Any, began: Tensor | None, mask: Tensor | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """Actions; without a generator, the most probable ones."""
        return (self.parts(obs)[0].tanh() if generator is None else self.draw(obs, generator)[0]), None


class SoftActor(Actor):
    """The trainer's own actor."""

    def __init__(self, observation: Space[Any], head: Squashed, hidden: tuple[int, ...], images: int) -> None:
        super().__init__()
        self.head = head
        self.encoder = Encoder(observation, images)
        self.stack = Stacks(1, self.encoder.features, hidden, "relu").like_linear()
        self.outputs = nn.Linear(self.stack.features, 2 * head.size)

    def forward(self, obs: Any, memory: Any = None, began: Tensor | None = None) -> tuple[Tensor, None, None]:
        """Means and log standard deviations, one after another."""
        return self.outputs(self.stack(self.encoder(obs))[0]), None, None


class OwnActor(Actor):
    """An actor that a user passed."""

    def __init__(self, module: nn.Module, head: Squashed) -> None:
        super().__init__()
        self.module, self.head = module, head

    def forward(self, obs: Any, memory: Any = None, began: Tensor | None = None) -> Any:
        """What the user's network returns, for a copy of the observations."""
        return self.module(map_tree(torch.clone, obs), None, None)


def own_actor(given: NetworkLike, observation: Space[Any], head: Squashed, device: torch.device) -> OwnActor:
    """The actor that a user passed, checked, on the device."""
    checked = own_network(given, observation, head, 2 * head.size, False, device)
    if checked.recurrent:
        raise ConfigError("SAC has no memory: its network must not have initial_memory; use PPO")
    return OwnActor(checked.module, head)


class TwinCritic(nn.Module):
    """Two estimates of the value of an action."""

    def __init__(self, observation: Space[Any], actions: int, hidden: tuple[int, ...], images: int) -> None:
        super().__init__()
        self.encoder = Encoder(observation, images)
        self.stacks = Stacks(2, self.encoder.features + actions, hidden, "relu").like_linear()
        bound = 1 / math.sqrt(self.stacks.features)
        self.weight = nn.Parameter(torch.empty(2, self.stacks.features, 1).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(2, 1, 1).uniform_(-bound, bound))

    def forward(self, obs: Any, actions: Tensor) -> Tensor:
        """Both estimates, [2, batch]."""
        features = torch.cat([self.encoder(obs), actions], -1)
        # Not torch.baddbmm: for a single output it takes ten times as long.
        both = zip(self.stacks(features).unbind(), self.weight.squeeze(-1).unbind(), strict=True)
        return torch.stack([torch.mv(hidden, weight) for hidden, weight in both]) + self.bias.squeeze(-1)
