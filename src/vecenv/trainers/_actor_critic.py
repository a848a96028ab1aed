"""The network of PPO."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space
from torch import Tensor, nn

from vecenv._batch.layout import map_tree
from vecenv.errors import CallOrderError
from vecenv.trainers._distributions import head_of
from vecenv.trainers._networks import Encoder, Stacks, orthogonal
from vecenv.trainers._ppo_config import PPOConfig


class ActorCritic(nn.Module):
    """Policy (its `head` is the distribution) and value function, with separate layers over shared features."""

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], config: PPOConfig) -> None:
        super().__init__()
        self.encoder = Encoder(observation_space, config.image_features)
        self.head = head_of(action_space, config.log_std)
        self.recurrent = config.lstm > 0
        self.memory = nn.LSTMCell(self.encoder.features, config.lstm) if self.recurrent else None
        features = config.lstm or self.encoder.features
        self.stacks = Stacks(2, features, config.hidden, config.activation)
        self.actor = orthogonal(nn.Linear(self.stacks.features, self.head.inputs), gain=0.01)
        self.critic = orthogonal(nn.Linear(self.stacks.features, 1), gain=1.0)

    def forward(self, obs: Any, state: Any = None, began: Tensor | None = None) -> tuple[Tensor, Tensor, Any]:
        """Inputs of the head, values, and the LSTM state after these observations.

        `state` is the LSTM state before them (None: zeros); it is set to zero where an episode `began`.
        """
        features = self.encoder(obs)
        if self.memory is not None:
            features, state = self._step_lstm(features, state, began)
        return *self._outputs(features), state

    def sequences(self, obs: Any, state: Any, began: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs of the head and values for observations [T, n, ...] in order of time, flattened to [T * n, ...]."""
        length, count = began.shape
        encoded = self.encoder(map_tree(lambda leaf: leaf.flatten(0, 1), obs)).unflatten(0, (length, count))
        features = []
        for moment in range(length):
            feature, state = self._step_lstm(encoded[moment], state, began[moment])
            features.append(feature)
        return self._outputs(torch.cat(features))

    def act(
        self, obs: Any, state: Any, began: Tensor | None, mask: Tensor | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """Actions and the new LSTM state; without a generator, the most probable actions."""
        outputs, _, state = self(obs, state, began)
        if generator is None:
            return self.head.mode(outputs, mask), state
        return self.head.draw(outputs, mask, generator)[0], state

    def _outputs(self, features: Tensor) -> tuple[Tensor, Tensor]:
        for_actor, for_critic = self.stacks(features).unbind()
        return self.actor(for_actor), self.critic(for_critic).squeeze(-1)

    def _step_lstm(self, features: Tensor, state: Any, began: Tensor | None) -> tuple[Tensor, Any]:
        assert self.memory is not None
        if state is not None and len(state[0]) != len(features):
            raise CallOrderError(
                f"the memory is of {len(state[0])} rows, there are {len(features)} observations; call reset() before "
                "acting for other envs, or pass their states to predict()"
            )
        if state is None:
            state = (features.new_zeros(len(features), self.memory.hidden_size),) * 2
        if began is not None:
            goes_on = ~began.unsqueeze(-1)
            state = (state[0] * goes_on, state[1] * goes_on)
        state = self.memory(features, state)
        return state[0], state
