"""A central value function: it sees the observations of all agents of an env; policies see their own alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from vecenv._batch.layout import map_tree
from vecenv.agents import FlatVectorEnv
from vecenv.errors import ConfigError
from vecenv.trainers._actor_critic import PolicyNetwork
from vecenv.trainers._networks import Encoder, Stacks, orthogonal
from vecenv.wrappers._normalize_observation import Normalize

Seats = Sequence[tuple[Space[Any], int]]
"""Observation space and number of agents of each group."""


class CentralActorCritic(PolicyNetwork):
    """A policy of own observations, and a value function of the observations of everyone in the env.

    The value function also gets the number of the agent whose value it computes: agents may have different rewards.

    Args:
        observation_space: of one agent.
        head: of the action space.
        config: settings of PPO: `hidden`, `activation`, `image_features`.
        seats: of all groups.
        own: the number of this policy's group.
    """

    recurrent = False

    def __init__(self, observation_space: Space[Any], head: Any, config: Any, seats: Seats, own: int) -> None:
        super().__init__()
        self.head = head
        self.encoder = Encoder(observation_space, config.image_features)
        self.stack = Stacks(1, self.encoder.features, config.hidden, config.activation)
        self.actor = orthogonal(nn.Linear(self.stack.features, head.inputs), gain=0.01)
        self.encoders = nn.ModuleList(Encoder(space, config.image_features) for space, _ in seats)
        self.agents = seats[own][1]
        seen = zip(self.encoders, seats, strict=True)
        features = sum(int(encoder.features) * count for encoder, (_, count) in seen)  # type: ignore[call-overload]
        self.central = Stacks(1, features + self.agents, config.hidden, config.activation)
        self.critic = orthogonal(nn.Linear(self.central.features, 1), gain=1.0)

    def forward(self, obs: Any, memory: Any = None, began: Tensor | None = None) -> tuple[Tensor, Any, Any]:
        """Inputs of the head; no values, which `values` computes, and no memory."""
        return self.actor(self.stack(self.encoder(obs))[0]), None, None

    def values(self, everyone: Sequence[Any], agents: Tensor) -> Tensor:
        """Values of agents.

        Args:
            everyone: observations of each group, [batch, slots, ...], nested like its space.
            agents: [batch], the slot within the group whose value is asked for.
        """
        return self._value(self._features(everyone), agents)

    def all_values(self, everyone: Sequence[Any]) -> Tensor:
        """Values [envs * slots] of all agents of the group, from the observations of each group, [envs, slots, ...]."""
        features = self._features(everyone)
        agents = torch.arange(self.agents, device=features.device).repeat(len(features))
        return self._value(features.repeat_interleave(self.agents, 0), agents)

    def _features(self, everyone: Sequence[Any]) -> Tensor:
        found = []
        for encoder, obs in zip(self.encoders, everyone, strict=True):
            rows: Tensor = encoder(map_tree(lambda leaf: leaf.flatten(0, 1), obs))
            found.append(rows.unflatten(0, (-1, len(rows) // _length(obs))).flatten(1))
        return torch.cat(found, -1)

    def _value(self, features: Tensor, agents: Tensor) -> Tensor:
        which = nn.functional.one_hot(agents, self.agents).to(features.dtype)
        return self.critic(self.central(torch.cat([features, which], -1))[0]).squeeze(-1)


def _length(tree: Any) -> int:
    while not isinstance(tree, Tensor):
        tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
    return len(tree)


def seats_of(envs: Any, config: Any, own_network: bool) -> tuple[Seats, int]:
    """What a central value function sees, and the group whose values it computes.

    Raises:
        ConfigError: the envs have one agent, or there is a memory or a network of the user's own.
    """
    if not isinstance(envs, FlatVectorEnv):
        raise ConfigError("central_value=True is for envs with several agents; these have one")
    if own_network or config.lstm:
        what = "network=" if own_network else "lstm="
        raise ConfigError(f"central_value=True has a network of its own without a memory; leave {what} out")
    seats = []
    for group in envs.agents.slots.groups:
        space = group.observation_space
        if config.normalize_obs:
            space, _ = Normalize(1e-8, 10.0).bind(space, group.action_space, 1)
        seats.append((space, len(group)))
    return seats, envs._place
