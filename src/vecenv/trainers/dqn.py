"""Deep Q-networks (Mnih et al. 2015) with the usual improvements as settings. Read from top to bottom: act, update."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor, nn
from torch.nn import functional

from vecenv.buffers import Transitions
from vecenv.errors import ConfigError, SpaceError
from vecenv.trainers._actor_critic import PolicyNetwork, own_network
from vecenv.trainers._checkpoint import tensors
from vecenv.trainers._distributions import Choices
from vecenv.trainers._networks import Encoder, Stacks, orthogonal
from vecenv.trainers._off_policy import OffPolicyTrainer
from vecenv.trainers._optimizer import Flat, optimizer_for
from vecenv.trainers._settings import COUNT, LIMIT, NOT_NEGATIVE, SHARE, THREADS, Schedule, Settings


@dataclass(frozen=True)
class DQNConfig(Settings):
    """Settings of DQN.

    Attributes:
        num_envs: number of envs, if an id is given.
        capacity: number of transitions in the replay buffer.
        warmup: steps with random actions. The first gradient step follows the first step after them.
        updates_per_step: gradient steps for each step of an env.
        minibatch: transitions per gradient step.
        learning_rate: learning rate; a number or a function of progress (0 to 1).
        gamma: discount factor.
        exploration: probability of a random action; a number or a function of progress. The default falls from 1 to
            `final_exploration` during the first `exploration_share` of training.
        exploration_share, final_exploration: see `exploration`.
        target_every: gradient steps between updates of the target network.
        tau: how far the target network moves towards the network at each of these updates.
        double: whether the network chooses the next action that the target network values (van Hasselt et al. 2016).
        dueling: whether to estimate state values and advantages separately (Wang et al. 2016).
        n_step: number of steps whose rewards are added up.
        priority: exponent of prioritized replay (Schaul et al. 2016); None samples uniformly.
        beta: how far importance weights correct for priorities.
        max_grad_norm: gradients are scaled down to this norm.
        hidden: sizes of the layers.
        activation: "tanh" or "relu".
        image_features: number of features that the convolutions compute from an image.
        stack: number of frames in an observation, to store each frame once; None: observations are no stacks.
        normalize_obs, normalize_reward: whether to normalize by running statistics; transitions are stored normalized.
        report: steps between calls of the callback.
        torch_threads: number of torch threads; None decides by the size of the network.
    """

    num_envs: int = 4
    capacity: int = 100_000
    warmup: int = 1_000
    updates_per_step: float = 0.25
    minibatch: int = 128
    learning_rate: float | Schedule = 5e-4
    gamma: float = 0.99
    exploration: float | Schedule | None = None
    exploration_share: float = 0.2
    final_exploration: float = 0.05
    target_every: int = 250
    tau: float = 1.0
    double: bool = True
    dueling: bool = False
    n_step: int = 1
    priority: float | None = None
    beta: float = 0.4
    max_grad_norm: float = 10.0
    hidden: tuple[int, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "relu"
    image_features: int = 512
    stack: int | None = None
    normalize_obs: bool = False
    normalize_reward: bool = False
    report: int = 1_000
    torch_threads: int | None = None

    fixed: ClassVar = frozenset(
        ("capacity", "priority", "stack", "dueling", "hidden", "activation", "image_features", "normalize_obs",
         "normalize_reward")
    )  # fmt: skip
    ranges: ClassVar = {
        **dict.fromkeys(("num_envs", "capacity", "minibatch", "n_step", "hidden", "image_features"), COUNT),
        **dict.fromkeys(("report", "target_every", "stack"), COUNT),
        **dict.fromkeys(("warmup", "updates_per_step", "learning_rate", "priority"), NOT_NEGATIVE),
        **dict.fromkeys(("gamma", "tau", "beta", "exploration", "exploration_share", "final_exploration"), SHARE),
        "max_grad_norm": LIMIT, "torch_threads": THREADS,
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stack is not None and self.normalize_obs:
            raise ConfigError("stack stores frames once, normalize_obs changes each observation; use one of them")

    def exploration_at(self, progress: float) -> float:
        """Probability of a random action at this progress (0 to 1)."""
        if self.exploration is not None:
            return self.at("exploration", progress)
        done = min(progress / self.exploration_share, 1.0) if self.exploration_share else 1.0
        return 1.0 + done * (self.final_exploration - 1.0)


class QHead(Choices):
    """Takes the action of the highest value."""

    def __init__(self, space: Space[Any]) -> None:
        if not isinstance(space, spaces.Discrete):
            raise SpaceError(f"DQN needs a Discrete action space, got {space}; use PPO, or SAC for Box")
        super().__init__(space)

    def draw(self, logits: Tensor, mask: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """As `mode`: values are no probabilities to sample from."""
        return self.mode(logits, mask), logits.new_zeros(len(logits))


class QNetwork(PolicyNetwork):
    """Values of all actions."""

    recurrent = False

    def __init__(self, observation_space: Space[Any], head: QHead, config: DQNConfig) -> None:
        super().__init__()
        self.head = head
        self.encoder = Encoder(observation_space, config.image_features)
        self.stacks = Stacks(2 if config.dueling else 1, self.encoder.features, config.hidden, config.activation)
        self.advantage = orthogonal(nn.Linear(self.stacks.features, head.inputs), gain=1.0)
        self.value = orthogonal(nn.Linear(self.stacks.features, 1), gain=1.0) if config.dueling else None

    def forward(self, obs: Any, memory: Any = None, began: Tensor | None = None) -> tuple[Tensor, None, None]:
        """Values [batch, actions]."""
        hidden = self.stacks(self.encoder(obs))
        values = self.advantage(hidden[0])
        if self.value is not None:
            values = values - values.mean(-1, keepdim=True) + self.value(hidden[1])
        return values, None, None


class DQN(OffPolicyTrainer[DQNConfig]):
    """DQN: off-policy learning from a replay buffer, for Discrete actions.

    For arguments and further attributes see `Trainer`. `network` has one output per action: its value.

    Attributes:
        target: the copy of the network that values next observations.
    """

    Config = DQNConfig
    algorithm = "dqn"

    def _build(self) -> None:
        config, own = self.config, self._own["network"]
        space, head = self.collector.observation_space, QHead(self.collector.action_space)
        if own is None:
            self.network = QNetwork(space, head, config).to(self.device)
        else:
            self.network = own_network(own, space, head, head.inputs, False, self.device)
            if self.network.recurrent:
                raise ConfigError("DQN has no memory: its network must not have initial_memory; use PPO")
        self.target = copy.deepcopy(self.network).eval()  # no dropout, and the running statistics of BatchNorm
        self.flat, self.flat_target = Flat(self.network.parameters()), Flat(self.target.parameters())
        rate = config.at("learning_rate", 0.0)
        self.optimizer = optimizer_for(self.flat, rate, 1e-8, own=self._own["optimizer"])
        self._make_buffer(head.drawn_space, config.stack)
        self._explorer = np.random.default_rng(self.seed)

    def _flat_network(self) -> Flat:
        return self.flat

    # --- act ---------------------------------------------------------------------------------------------------------

    def _random(self) -> Tensor:
        return torch.from_numpy(self._explorer.integers(0, self.network.head.inputs, (self.collector.num_envs, 1)))

    def _draw(self, obs: Any) -> Tensor:
        exploring = self._explorer.random((self.collector.num_envs, 1)) < self.config.exploration_at(self._progress)
        if exploring.all():
            return self._random()
        chosen = self.acting.head.mode(self.acting(obs)[0], None)
        if not exploring.any():
            return chosen
        return torch.where(torch.from_numpy(exploring).to(chosen.device), self._random().to(chosen.device), chosen)

    # --- update ------------------------------------------------------------------------------------------------------

    def _update(self, drawn: Transitions) -> None:
        """One gradient step."""
        batch, config = self._on_device(drawn), self.config
        self.flat.join()
        self.flat_target.join()
        self.optimizer.learning_rate = config.at("learning_rate", self._progress)
        with torch.no_grad():
            after = self.target(batch.next_obs)[0]
            best = (self.network(batch.next_obs)[0] if config.double else after).argmax(-1, keepdim=True)
            wanted = batch.reward + batch.discount * after.gather(-1, best).squeeze(-1)
        value = self.network(batch.obs)[0].gather(-1, batch.actions).squeeze(-1)
        losses = functional.smooth_l1_loss(value, wanted, reduction="none")
        loss = (losses if config.priority is None else losses * batch.weight).mean()
        self.optimizer.step(self.flat.gradient(loss, config.max_grad_norm))
        self.updates += 1
        if self.updates % config.target_every == 0:
            self.flat_target.vector.lerp_(self.flat.vector, config.tau)
            for own, learnt in zip(self.target.buffers(), self.network.buffers(), strict=True):
                own.copy_(learnt)
        self._update_priorities(drawn, (value - wanted).detach())
        self._losses = {"value": loss.detach(), "mean_value": value.detach().mean()}

    # --- store -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Networks and optimizer too."""
        return {
            **super().state_dict(),
            "network": self.network.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "explorer": self._explorer.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any], same_envs: bool) -> None:
        """Restore them."""
        super().load_state_dict(state, same_envs)
        self.network.load_state_dict(tensors(state["network"]))
        self.target.load_state_dict(tensors(state["target"]))
        self.optimizer.load_state_dict(tensors(state["optimizer"]))
        self._explorer.bit_generator.state = state["explorer"]
