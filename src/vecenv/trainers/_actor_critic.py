"""Networks that act and value: the one of PPO, and those that users pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from gymnasium import Space
from torch import Tensor, nn

from vecenv._batch.layout import map_tree
from vecenv._util.checks import brief
from vecenv.errors import CallOrderError, ConfigError, ConfigTypeError
from vecenv.trainers._device import put
from vecenv.trainers._networks import Encoder, Stacks, example, orthogonal


@runtime_checkable
class Network(Protocol):
    """What `network=` takes: any `torch.nn.Module` whose forward has this form.

    A network with a memory (an LSTM, for example) also has `initial_memory`.
    """

    def forward(self, obs: Any, memory: Any, began: Tensor | None) -> tuple[Tensor, Tensor, Any]:
        """Outputs, values and the next memory for a batch of observations.

        Args:
            obs: tensors [batch, ...] as the envs return them (normalized if the settings say so), nested as the space.
            memory: what the last call returned for these rows; None if the network has none.
            began: bool [batch], where an episode begins: the memory of those rows must not be used. None if the
                network has no memory.

        Returns:
            Outputs [batch, n]: logits of Discrete actions (of MultiDiscrete and MultiBinary, those of each choice one
            after another), means of Box actions, values of the actions for DQN, means and log standard deviations for
            SAC. Values [batch] (DQN and SAC do not use them; they may be None). The memory: a tuple of tensors
            [batch, ...], or None.
        """
        ...


class PolicyNetwork(nn.Module):
    """A network with its distribution of actions, the `head`: what trainers and policies use.

    Subclasses have `forward` as in `Network`.

    Attributes:
        head: draws and judges actions from the outputs.
        recurrent: whether there is a memory.
    """

    head: Any
    recurrent: bool

    def initial_memory(self, count: int, device: torch.device) -> Any:
        """The memory of envs at the start of an episode; None if the network has none."""
        return None

    def sequences(self, obs: Any, memory: Any, began: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and values for observations [T, n, ...] in order of time, flattened to [T * n, ...]."""
        outputs, values = [], []
        for moment in range(len(began)):
            output, value, memory = self(map_tree(lambda leaf, at=moment: leaf[at], obs), memory, began[moment])
            outputs.append(output)
            values.append(value)
        return torch.cat(outputs), torch.cat(values)

    def act(
        self, obs: Any, memory: Any, began: Tensor | None, mask: Tensor | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Any]:
        """Actions and the new memory; without a generator, the most probable actions."""
        outputs, _, memory = self(obs, memory, began)
        if generator is None:
            return self.head.mode(outputs, mask), memory
        return self.head.draw(outputs, mask, generator)[0], memory


class OwnNetwork(PolicyNetwork):
    """A network that a user passed, with the head for the action space."""

    def __init__(self, module: nn.Module, head: Any) -> None:
        super().__init__()
        self.module, self.head = module, head
        self.recurrent = hasattr(module, "initial_memory")

    def forward(self, obs: Any, memory: Any = None, began: Tensor | None = None) -> tuple[Tensor, Tensor, Any]:
        """What the user's network returns.

        It gets copies, which it may change in place, because arrays share memory with tensors; it may keep what it
        returns as its memory, and change that.
        """
        outputs, values, memory = self._call(obs, memory, began)
        return outputs, values, tuple(part.clone() for part in memory) if self.recurrent else None

    def _call(self, obs: Any, memory: Any, began: Tensor | None) -> Any:
        if self.recurrent:
            first = _first_leaf(obs)
            if memory is None:
                memory = self.initial_memory(first.shape[0], first.device)
            if began is None:
                began = torch.zeros(first.shape[0], dtype=torch.bool, device=first.device)
            memory, began = tuple(part.clone() for part in memory), began.clone()
        return self.module(map_tree(torch.clone, obs), memory, began)

    def initial_memory(self, count: int, device: torch.device) -> Any:
        """The memory of envs at the start of an episode, on the device."""
        if not self.recurrent:
            return None
        return tuple(part.to(device) for part in self.module.initial_memory(count))  # type: ignore[operator]  # checked

    def check(self, observation_space: Space[Any], width: int, values: bool, device: torch.device) -> None:
        """Run two observations through the network. Raises ConfigError unless it returns what `Network` says."""
        obs = put(example(observation_space, 2), device)
        try:
            with torch.no_grad():
                found = self._call(obs, self.initial_memory(2, device), torch.ones(2, dtype=torch.bool, device=device))
        except Exception as error:
            raise ConfigError(
                f"network {type(self.module).__name__} failed on two observations of {observation_space} "
                f"({type(error).__name__}: {error!s:.300}); it must have forward(obs, memory, began)"
            ) from error
        if not isinstance(found, tuple) or len(found) != 3:
            raise ConfigError(
                f"network {type(self.module).__name__} must return (outputs, values, memory), got a "
                f"{type(found).__name__}{f' of {len(found)}' if isinstance(found, tuple) else ''}"
            )
        outputs, value, memory = found
        for name, tensor, shape in (("outputs", outputs, (2, width)), *([("values", value, (2,))] if values else [])):
            if not isinstance(tensor, Tensor) or tuple(tensor.shape) != shape:
                got = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
                raise ConfigError(
                    f"network {type(self.module).__name__} must return {name} of shape {shape} for 2 observations, "
                    f"got {got}"
                )
        if self.recurrent:
            shapes = [tuple(part.shape) for part in self.initial_memory(2, device)]
            tensors = isinstance(memory, tuple) and all(isinstance(part, Tensor) for part in memory)
            if not tensors or [tuple(part.shape) for part in memory] != shapes:
                raise ConfigError(
                    f"network {type(self.module).__name__} must return a memory like initial_memory(2): a tuple of "
                    f"tensors of shapes {shapes}, got {brief(memory)}"
                )


NetworkLike = nn.Module | Callable[[Space[Any], int], nn.Module]
"""A network, or a function that makes one from the observation space and the number of outputs."""


def own_network(
    given: NetworkLike, observation_space: Space[Any], head: Any, outputs: int, values: bool, device: torch.device
) -> OwnNetwork:
    """The network that a user passed, checked, on the device.

    Args:
        given: a module, or a function of the observation space and the number of outputs.
        observation_space: of one env.
        head: of the action space.
        outputs: how many the head needs.
        values: whether the network must return values.
        device: where the network is to be.
    """
    module = given
    if callable(given) and not isinstance(given, nn.Module):
        try:
            module = given(observation_space, outputs)
        except TypeError as error:
            raise ConfigTypeError(
                f"network={brief(given)} raised TypeError when it was called with the observation space and the number "
                f"of outputs: {error}"
            ) from error
    if not isinstance(module, nn.Module):
        raise ConfigTypeError(
            "network must be a torch.nn.Module, or a function of the observation space and the number of outputs that "
            f"returns one; got {type(module).__name__}"
        )
    network = OwnNetwork(module, head).to(device)
    network.check(observation_space, outputs, values, device)
    kinds = {str(part.dtype) for part in module.parameters() if part.requires_grad}
    if not kinds:
        raise ConfigError(f"network {type(module).__name__} has no parameters that can learn")
    if len(kinds) > 1:
        raise ConfigError(
            f"the parameters of network {type(module).__name__} that learn must have one dtype, which trainers keep in "
            f"one vector; they have {', '.join(sorted(kinds))}"
        )
    return network


def _first_leaf(tree: Any) -> Tensor:
    while not isinstance(tree, Tensor):
        tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
    return tree


class ActorCritic(PolicyNetwork):
    """Policy and value function, with separate layers over shared features.

    Args:
        observation_space: of one env.
        head: of the action space.
        config: settings of PPO: `hidden`, `activation`, `image_features`, `lstm`.
    """

    def __init__(self, observation_space: Space[Any], head: Any, config: Any) -> None:
        super().__init__()
        self.encoder = Encoder(observation_space, config.image_features)
        self.head = head
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

    def initial_memory(self, count: int, device: torch.device) -> Any:
        """Zeros, if there is an LSTM."""
        return None if self.memory is None else (torch.zeros(count, self.memory.hidden_size, device=device),) * 2

    def sequences(self, obs: Any, memory: Any, began: Tensor) -> tuple[Tensor, Tensor]:
        """As in the base class; only the LSTM goes step by step."""
        length, count = began.shape
        encoded = self.encoder(map_tree(lambda leaf: leaf.flatten(0, 1), obs)).unflatten(0, (length, count))
        features = []
        for moment in range(length):
            feature, memory = self._step_lstm(encoded[moment], memory, began[moment])
            features.append(feature)
        return self._outputs(torch.cat(features))

    def _outputs(self, features: Tensor) -> tuple[Tensor, Tensor]:
        for_actor, for_critic = self.stacks(features).unbind()
        return self.actor(for_actor), self.critic(for_critic).squeeze(-1)

    def _step_lstm(self, features: Tensor, state: Any, began: Tensor | None) -> tuple[Tensor, Any]:
        assert self.memory is not None
        rows = features.shape[0]
        if state is not None and state[0].shape[0] != rows:
            raise CallOrderError(
                f"the memory is of {state[0].shape[0]} rows, there are {rows} observations; call reset() before "
                "acting for other envs, or pass their states to predict()"
            )
        if state is None:
            state = (features.new_zeros(rows, self.memory.hidden_size),) * 2
        if began is not None:
            goes_on = ~began.unsqueeze(-1)
            state = (state[0] * goes_on, state[1] * goes_on)
        state = self.memory(features, state)
        return state[0], state
