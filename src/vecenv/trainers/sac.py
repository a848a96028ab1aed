"""Soft actor-critic (Haarnoja et al. 2018). Read from top to bottom: settings, act, update, store."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vecenv._batch.layout import map_tree
from vecenv.buffers import ReplayBuffer, Transitions
from vecenv.buffers._storage import Storage
from vecenv.errors import ConfigError
from vecenv.trainers._checkpoint import tensors
from vecenv.trainers._collect import Envs, torch_threads
from vecenv.trainers._optimizer import Adam, Flat
from vecenv.trainers._progress import Callback, Clock
from vecenv.trainers._soft_networks import SoftActor, TwinCritic
from vecenv.trainers._trainer import Trainer


@dataclass(frozen=True)
class SACConfig:
    """Settings of SAC.

    Attributes:
        num_envs: number of envs, if an id is given.
        capacity: number of transitions in the replay buffer.
        warmup: steps of random actions before learning begins.
        updates_per_step: gradient steps for each step of an env.
        minibatch: transitions per gradient step.
        learning_rate: learning rate of all optimizers.
        gamma: discount factor.
        tau: how fast the target critics follow the critics.
        entropy: weight of the entropy; None: it is learnt.
        target_entropy: entropy at which the learnt weight aims; None: minus the number of actions.
        n_step: number of steps whose rewards are added up.
        priority: exponent of prioritized replay; None samples uniformly.
        hidden: sizes of the layers.
        image_features: number of features that the convolutions compute from an image.
        normalize_obs, normalize_reward: whether to normalize by running statistics; transitions are stored normalized.
        report: steps between calls of the callback.
        torch_threads: number of torch threads; None decides by the size of the networks.
    """

    num_envs: int = 1
    capacity: int = 1_000_000
    warmup: int = 1_000
    updates_per_step: float = 1.0
    minibatch: int = 256
    learning_rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    entropy: float | None = None
    target_entropy: float | None = None
    n_step: int = 1
    priority: float | None = None
    hidden: tuple[int, ...] = (256, 256)
    image_features: int = 256
    normalize_obs: bool = False
    normalize_reward: bool = False
    report: int = 1_000
    torch_threads: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for name in ("num_envs", "capacity", "minibatch", "n_step", "report"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"num_envs": 4, "capacity": 100_000, "warmup": 400, "updates_per_step": 0.5, "minibatch": 128,
                    "learning_rate": 2e-3, "hidden": (64, 64), "gamma": 0.98, "tau": 0.01},
    "MountainCarContinuous-v0": {"num_envs": 4, "capacity": 100_000, "updates_per_step": 0.5, "tau": 0.01},
}  # fmt: skip
"""Settings for particular envs, as changes to the defaults."""


class SAC(Trainer[SACConfig]):
    """SAC: off-policy learning from a replay buffer, for continuous actions.

    For further attributes see `Trainer`.

    Args:
        envs: an id, or a vector env.
        config: settings; default: `SAC.defaults_for(id)`.
        seed: seed of the networks, of actions and minibatches, and of the envs.

    Attributes:
        critic, target: the two critics, and their slowly following copies.
        buffer: the replay buffer.
    """

    Config = SACConfig
    _presets = PRESETS

    def __init__(self, envs: Envs, config: SACConfig | None = None, seed: int = 0) -> None:
        super().__init__(envs, config, seed)
        config, collector = self.config, self.collector
        if len(collector.envs) > 1:
            raise ConfigError(f"SAC trains on one vector env, got {len(collector.envs)}")
        spaces = collector.observation_space, collector.action_space
        with torch.random.fork_rng(devices=[]), torch_threads(1, 0):  # same weights on any number of processors
            torch.manual_seed(seed)
            self.network = SoftActor(*spaces, config.hidden, config.image_features)
            size = self.network.head.size
            self.critic = TwinCritic(spaces[0], size, config.hidden, config.image_features)
        self.target = copy.deepcopy(self.critic)
        self.flat_actor, self.flat_critic = Flat(self.network.parameters()), Flat(self.critic.parameters())
        self.flat_target = Flat(self.target.parameters())
        first = 0.0 if config.entropy is None else float(np.log(config.entropy))
        self.flat_entropy = Flat([torch.nn.Parameter(torch.full((1,), first))])
        """The logarithm of the entropy weight."""
        self.target_entropy = -float(size) if config.target_entropy is None else config.target_entropy
        self.actor_optimizer = Adam(self.flat_actor, config.learning_rate, eps=1e-8)
        self.critic_optimizer = Adam(self.flat_critic, config.learning_rate, eps=1e-8)
        self.entropy_optimizer = Adam(self.flat_entropy, config.learning_rate, eps=1e-8)
        self.buffer = ReplayBuffer(
            spaces[0], self.network.head.drawn_space, config.capacity, collector.num_envs, n_step=config.n_step,
            gamma=config.gamma, alpha=config.priority, seed=seed,
        )  # fmt: skip
        self._updates_due = 0.0
        """Gradient steps that are due; may have a fraction."""
        self._obs: Any = None
        self._losses: dict[str, Tensor] = {}

    def learn(self, total_steps: int, callback: Callback | None = None) -> SAC:
        """See `Trainer.learn`; the callback is called every `config.report` steps."""
        clock, steps_before, config = Clock(), self.steps, self.config
        reported = self.steps
        with torch_threads(config.torch_threads, config.minibatch * max(config.hidden, default=1) ** 2 // 16):
            if self._obs is None:
                self.buffer.cut()
                # A new seed, so that earlier episodes are not repeated.
                self._obs = map_tree(np.array, self.collector.reset(self.seed + self.steps)[0])
            while self.steps < total_steps:
                self._step(clock)
                with clock.measure("update"):
                    while self._updates_due >= 1:
                        self._update(self.buffer.sample(config.minibatch))
                        self._updates_due -= 1
                if callback is None or (self.steps - reported < config.report and self.steps < total_steps):
                    continue
                reported = self.steps
                losses = {name: float(loss) for name, loss in self._losses.items()}
                if callback(clock.progress(self, steps_before, total_steps, losses)) is False:
                    break
        return self

    # --- act ---------------------------------------------------------------------------------------------------------

    def _step(self, clock: Clock) -> None:
        """One step of all envs; with random actions during warmup."""
        count, size = self.collector.num_envs, self.network.head.size
        obs, self._obs = self._obs, None  # after an interrupted step, learn() resets the envs
        with clock.measure("forward"), torch.inference_mode():
            if self.steps < self.config.warmup:
                drawn = torch.rand(count, size, generator=self.generator) * 2 - 1
            else:
                drawn, _ = self.network.draw(map_tree(torch.from_numpy, obs), self.generator)
            actions = self.network.head.to_env(drawn)
        with clock.measure("env"):
            self.collector.send(0, actions)
            step = self.collector.receive(0)
        with clock.measure("buffer"):
            self.buffer.add(obs, drawn.numpy(), step)
            self._obs = map_tree(np.array, step.obs)
        self.steps += count
        if self.steps >= self.config.warmup and len(self.buffer):
            self._updates_due += self.config.updates_per_step * count

    # --- update ------------------------------------------------------------------------------------------------------

    def _update(self, drawn: Transitions) -> None:
        """One gradient step of critics, actor and entropy weight."""
        batch, config = drawn.torch(), self.config
        actions, log_prob = self.network.draw(batch.obs, self.generator)
        weight = self.flat_entropy.vector.exp()
        if config.entropy is None:
            self.entropy_optimizer.step(-(log_prob.detach() + self.target_entropy).mean().reshape(1))

        with torch.no_grad():
            next_actions, next_log_prob = self.network.draw(batch.next_obs, self.generator)
            next_value = self.target(batch.next_obs, next_actions).amin(0) - weight * next_log_prob
            wanted = batch.reward + batch.discount * next_value
        error = self.critic(batch.obs, batch.actions) - wanted
        squares = error.square()
        critic_loss = 0.5 * (squares if config.priority is None else squares * batch.weight).mean(1).sum()
        self.critic_optimizer.step(self.flat_critic.gradient(critic_loss))

        actor_loss = (weight * log_prob - self.critic(batch.obs, actions).amin(0)).mean()
        self.actor_optimizer.step(self.flat_actor.gradient(actor_loss))
        self.flat_target.vector.lerp_(self.flat_critic.vector, config.tau)

        if config.priority is not None:
            self.buffer.update_priorities(drawn.index, error.detach().abs().mean(0).numpy() + 1e-6)
        self.updates += 1
        self._losses = {"actor": actor_loss.detach(), "critic": critic_loss.detach(), "entropy_weight": weight}

    # --- store -------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        own = {name: getattr(self, name).vector for name in _VECTORS}
        optimizers = {name: getattr(self, name).state_dict() for name in _OPTIMIZERS}
        leaves = None if self._obs is None else Storage(self.collector.observation_space, (0,)).flat(self._obs)
        return {
            **own,
            **optimizers,
            "buffer": self.buffer.state_dict(),
            "updates_due": self._updates_due,
            "obs": leaves,
        }

    def _load_state(self, state: dict[str, Any], same_envs: bool) -> None:
        for name in _VECTORS:
            getattr(self, name).vector.copy_(torch.from_numpy(state[name]))
        for name in _OPTIMIZERS:
            getattr(self, name).load_state_dict(tensors(state[name]))
        self.buffer.load_state_dict(state["buffer"])
        self._updates_due = state["updates_due"]
        if same_envs and state["obs"] is not None:
            self._obs = Storage(self.collector.observation_space, (0,)).nest(state["obs"])


_VECTORS = ("flat_actor", "flat_critic", "flat_target", "flat_entropy")
_OPTIMIZERS = ("actor_optimizer", "critic_optimizer", "entropy_optimizer")
