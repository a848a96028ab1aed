"""Soft actor-critic (Haarnoja et al. 2018). Read from top to bottom: settings, act, update, store."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from vecenv.buffers import Transitions
from vecenv.trainers._checkpoint import tensors
from vecenv.trainers._off_policy import OffPolicyTrainer
from vecenv.trainers._optimizer import Flat, optimizer_for
from vecenv.trainers._settings import COUNT, FINITE, NOT_NEGATIVE, POSITIVE, SHARE, THREADS, Schedule, Settings
from vecenv.trainers._soft_by_hand import SoftByHand, soft_by_hand
from vecenv.trainers._soft_networks import SoftActor, Squashed, TwinCritic, own_actor


@dataclass(frozen=True)
class SACConfig(Settings):
    """Settings of SAC.

    Attributes:
        num_envs: number of envs, if an id is given.
        capacity: number of transitions in the replay buffer.
        warmup: steps with random actions. The first gradient step follows the first step after them.
        updates_per_step: gradient steps for each step of an env.
        minibatch: transitions per gradient step.
        learning_rate: learning rate of all optimizers; a number or a function of progress (0 to 1).
        gamma: discount factor.
        tau: how fast the target critics follow the critics.
        entropy: weight of the entropy; None: it is learnt.
        target_entropy: entropy at which the learnt weight aims; None: minus the number of actions.
        n_step: number of steps whose rewards are added up.
        priority: exponent of prioritized replay; None samples uniformly.
        beta: how far importance weights correct for priorities.
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
    learning_rate: float | Schedule = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    entropy: float | None = None
    target_entropy: float | None = None
    n_step: int = 1
    priority: float | None = None
    beta: float = 0.4
    hidden: tuple[int, ...] = (256, 256)
    image_features: int = 256
    normalize_obs: bool = False
    normalize_reward: bool = False
    report: int = 1_000
    torch_threads: int | None = None

    fixed: ClassVar = frozenset(
        ("capacity", "priority", "hidden", "image_features", "normalize_obs", "normalize_reward", "entropy")
    )
    ranges: ClassVar = {
        **dict.fromkeys(("num_envs", "capacity", "minibatch", "n_step", "hidden", "image_features", "report"), COUNT),
        **dict.fromkeys(("warmup", "updates_per_step", "learning_rate", "priority"), NOT_NEGATIVE),
        **dict.fromkeys(("gamma", "tau", "beta"), SHARE),
        "entropy": POSITIVE, "target_entropy": FINITE, "torch_threads": THREADS,
    }  # fmt: skip


class SAC(OffPolicyTrainer[SACConfig]):
    """SAC: off-policy learning from a replay buffer, for continuous actions.

    For arguments and further attributes see `Trainer`. `network` is the actor, with two outputs per action: means and
    log standard deviations; the critics are the trainer's.

    Attributes:
        critic, target: the two critics, and their slowly following copies.
    """

    Config = SACConfig
    algorithm = "sac"

    def _build(self) -> None:
        config, own = self.config, self._own["network"]
        space, head = self.collector.observation_space, Squashed(self.collector.action_space)
        if own is None:
            self.network = SoftActor(space, head, config.hidden, config.image_features).to(self.device)
        else:
            self.network = own_actor(own, space, head, self.device)
        self.critic = TwinCritic(space, head.size, config.hidden, config.image_features).to(self.device)
        self.target = copy.deepcopy(self.critic)
        self.flat_actor, self.flat_critic = Flat(self.network.parameters()), Flat(self.critic.parameters())
        self.flat_target = Flat(self.target.parameters())
        first = 0.0 if config.entropy is None else float(np.log(config.entropy))
        self.flat_entropy = Flat([torch.nn.Parameter(torch.full((1,), first, device=self.device))])
        """The logarithm of the entropy weight."""
        self.target_entropy = -float(head.size) if config.target_entropy is None else config.target_entropy
        rate, optimizer = config.at("learning_rate", 0.0), self._own["optimizer"]
        self.actor_optimizer, self.critic_optimizer, self.entropy_optimizer = (
            optimizer_for(flat, rate, 1e-8, own=optimizer)
            for flat in (self.flat_actor, self.flat_critic, self.flat_entropy)
        )
        self._by_hand = soft_by_hand(self.network, self.critic, self.target, self.flat_actor, self.flat_critic)
        """Computes gradients without autograd, if the networks have nothing but plain layers, on the CPU."""
        self._make_buffer(head.drawn_space)

    def _flat_network(self) -> Flat:
        return self.flat_actor

    # --- act ---------------------------------------------------------------------------------------------------------

    def _random(self) -> Tensor:
        shape = self.collector.num_envs, self.network.head.size
        return torch.rand(shape, generator=self.generator, dtype=torch.float32, device="cpu") * 2 - 1

    def _draw(self, obs: Any) -> Tensor:
        return self.acting.draw(obs, self.generator_on(self.act_device))[0]

    # --- update ------------------------------------------------------------------------------------------------------

    def _update(self, drawn: Transitions) -> None:
        """One gradient step of critics, actor and entropy weight."""
        batch, config, generator = self._on_device(drawn), self.config, self.generator_on(self.device)
        for name in _OPTIMIZERS:
            getattr(self, name).learning_rate = config.at("learning_rate", self._progress)
        if not self._join():
            self._by_hand = None  # parameters were frozen
        if self._by_hand is None:
            errors = self._gradient_steps(batch, generator)
        else:
            errors = self._gradient_steps_by_hand(self._by_hand, batch, generator)
        self.flat_target.vector.lerp_(self.flat_critic.vector, config.tau)
        self._update_priorities(drawn, errors.abs().mean(0))
        self.updates += 1

    def _join(self) -> bool:
        """Take over parameters that the user replaced; return whether all of them learn."""
        learning = [getattr(self, name).join() for name in _VECTORS]
        return all(learning)

    def _gradient_steps(self, batch: Transitions, generator: torch.Generator) -> Tensor:
        """Move critics, actor and entropy weight; return the errors of both critics."""
        config = self.config
        actions, log_prob = self.network.draw(batch.obs, generator)
        weight = self.flat_entropy.vector.exp()
        if config.entropy is None:
            self.entropy_optimizer.step(-(log_prob.detach() + self.target_entropy).mean().reshape(1))

        with torch.no_grad():
            next_actions, next_log_prob = self.network.draw(batch.next_obs, generator)
            next_value = torch.minimum(*self.target(batch.next_obs, next_actions)) - weight * next_log_prob
            wanted = batch.reward + batch.discount * next_value
        error = self.critic(batch.obs, batch.actions) - wanted
        squares = error.square()
        critic_loss = 0.5 * (squares if config.priority is None else squares * batch.weight).mean(1).sum()
        self.critic_optimizer.step(self.flat_critic.gradient(critic_loss))

        actor_loss = (weight * log_prob - torch.minimum(*self.critic(batch.obs, actions))).mean()
        self.actor_optimizer.step(self.flat_actor.gradient(actor_loss))
        self._losses = {"actor": actor_loss.detach(), "critic": critic_loss.detach(), "entropy_weight": weight[0]}
        return error.detach()

    def _gradient_steps_by_hand(self, hand: SoftByHand, batch: Transitions, generator: torch.Generator) -> Tensor:
        """The same for networks on the CPU, without autograd."""
        obs, next_obs = self.critic.encoder(batch.obs), self.critic.encoder(batch.next_obs)
        log_prob = hand.draw(obs, generator)
        weight = self.flat_entropy.vector.exp()
        if self.config.entropy is None:
            self.entropy_optimizer.step(-(log_prob + self.target_entropy).mean().reshape(1))

        next_actions, next_log_prob = hand.draw_next(next_obs, generator)
        next_value = torch.minimum(*hand.target(next_obs, next_actions)) - weight * next_log_prob
        wanted: Any = batch.reward + batch.discount * next_value
        weights: Any = None if self.config.priority is None else batch.weight
        gradient, critic_loss, errors = hand.critic_gradient(obs, batch.actions, wanted, weights)
        self.critic_optimizer.step(gradient)

        gradient, actor_loss = hand.actor_gradient(obs, weight, log_prob)
        self.actor_optimizer.step(gradient)
        self._losses = {"actor": actor_loss, "critic": critic_loss, "entropy_weight": weight[0]}
        return errors

    # --- store -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Networks and optimizers too."""
        self._join()
        own = {name: getattr(self, name).vector for name in _VECTORS[1:]}
        optimizers = {name: getattr(self, name).state_dict() for name in _OPTIMIZERS}
        return {**super().state_dict(), **own, **optimizers, "network": self.network.state_dict()}

    def load_state_dict(self, state: dict[str, Any], same_envs: bool) -> None:
        """Restore them."""
        super().load_state_dict(state, same_envs)
        self._join()
        for name in _VECTORS[1:]:
            getattr(self, name).vector.copy_(torch.from_numpy(state[name]))
        for name in _OPTIMIZERS:
            getattr(self, name).load_state_dict(tensors(state[name]))
        self.network.load_state_dict(tensors(state["network"]))


# The actor's own state has what does not learn, too.
_VECTORS = ("flat_actor", "flat_critic", "flat_target", "flat_entropy")
_OPTIMIZERS = ("actor_optimizer", "critic_optimizer", "entropy_optimizer")
