"""PPO on a device: envs, network, rollout and update in one memory. Read from top to bottom: act, collect, update.

The same network, loss and settings as `PPO`, which keeps its rollouts in NumPy's arrays. Here everything is a tensor on
the device of the envs, and nothing is copied to the host while it learns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vecenv._batch.layout import map_tree
from vecenv._front.device import DeviceVectorEnv
from vecenv.errors import ConfigError
from vecenv.trainers._actor_critic import ActorCritic
from vecenv.trainers._optimizer import OPTIMIZERS, Flat
from vecenv.trainers._ppo_config import PPOConfig
from vecenv.trainers.ppo import ppo_loss

_NOT_HERE = ("lstm", "normalize_obs", "normalize_reward", "target_kl")
"""Settings of PPO that need the host, or that this trainer has not."""


class DevicePPO:
    """PPO whose envs are on a device: `DevicePPO(vecenv.make("CartPole-v1", 4096, device="cuda:0"))`.

    Args:
        envs: with autoreset="same-step".
        config: settings of PPO; `num_envs` and `groups` are the envs' own.
        seed: of the network, of actions and minibatches, and of the envs.

    Attributes:
        network: policy and value function, on the device.
        steps: steps of all envs so far.
        episode_return: exponential mean of the returns of episodes that ended, a tensor on the device.
    """

    def __init__(self, envs: DeviceVectorEnv, config: PPOConfig | None = None, seed: int = 0) -> None:
        config = config or PPOConfig()
        if not isinstance(envs, DeviceVectorEnv) or not envs._may_roll:
            raise ConfigError("DevicePPO needs envs of make(..., device=..., autoreset='same-step')")
        for name in _NOT_HERE:
            if getattr(config, name):
                raise ConfigError(f"DevicePPO has no {name}; leave it out, or use PPO")
        self.envs, self.config, self.seed, self.steps = envs, config, seed, 0
        device = envs.device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = ActorCritic(envs.single_observation_space, envs.single_action_space, config).to(device)
        self.flat = Flat(self.network.parameters())
        self.optimizer = OPTIMIZERS[config.optimizer](self.flat, config.learning_rate, eps=1e-5)
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.episode_return = torch.zeros((), device=device)
        self._obs: Any = None
        self._mask: Tensor | None = None

    def learn(self, total_steps: int, callback: Callable[[DevicePPO], object] | None = None) -> DevicePPO:
        """Learn until this many steps were made; the callback is called after each update and stops it with False."""
        if self._obs is None:
            self._obs, infos = self.envs.reset(seed=self.seed)
            self._note_mask(infos)
        while self.steps < total_steps:
            left = 1.0 - self.steps / total_steps if self.config.anneal else 1.0
            self.optimizer.learning_rate = self.config.learning_rate * left
            self._update(self._collect(), self.config.clip_range * left)
            if callback is not None and callback(self) is False:
                break
        return self

    # --- collect -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _collect(self) -> dict[str, Any]:
        """A rollout, as columns [T, N, ...]; values of episodes that were truncated are those of their last moment."""
        rows: list[dict[str, Any]] = []
        for _ in range(self.config.rollout_steps):
            obs, mask = map_tree(torch.clone, self._obs), self._mask
            outputs, value, _ = self.network(obs)
            drawn, log_prob = self.network.head.draw(outputs, mask, self.generator)
            totals = self.envs.episode_return
            self._obs, reward, terminated, truncated, infos = self.envs.step(self.network.head.to_tensor(drawn))
            self._note_mask(infos)
            done = terminated | truncated
            final = self.network(infos["final_obs"])[1]
            self._note_returns(totals + reward, done)
            row = {"obs": obs, "actions": drawn, "value": value, "log_prob": log_prob, "reward": reward.float()}
            row |= {"terminated": terminated.clone(), "done": done, "final": torch.where(done, final, 0.0)}
            rows.append(row if mask is None else {**row, "mask": mask.clone()})
        self.steps += self.config.rollout_steps * self.envs.num_envs
        columns = {name: map_tree(lambda *parts: torch.stack(parts), *(row[name] for row in rows)) for name in rows[0]}
        return self._with_advantages(columns)

    def _with_advantages(self, columns: dict[str, Any]) -> dict[str, Any]:
        config, advantage = self.config, torch.zeros_like(columns["value"])
        after, running = self.network(self._obs)[1], torch.zeros_like(columns["value"][0])
        for moment in reversed(range(config.rollout_steps)):
            done, value = columns["done"][moment], columns["value"][moment]
            following = torch.where(done, columns["final"][moment] * ~columns["terminated"][moment], after)
            error = columns["reward"][moment] + config.gamma * following - value
            running = error + config.gamma * config.lam * torch.where(done, 0.0, running)
            advantage[moment], after = running, value
        return {**columns, "advantage": advantage, "returns": advantage + columns["value"]}

    def _note_mask(self, infos: dict[str, Any]) -> None:
        self._mask = None if self.config.mask is None else infos[self.config.mask].bool()

    def _note_returns(self, totals: Tensor, done: Tensor) -> None:
        count = done.sum()
        mean = (totals.float() * done).sum() / count.clamp(min=1)
        self.episode_return = torch.where(count > 0, 0.9 * self.episode_return + 0.1 * mean, self.episode_return)

    # --- update ------------------------------------------------------------------------------------------------------

    def _update(self, columns: dict[str, Any], clip_range: float) -> None:
        flat = map_tree(lambda leaf: leaf.flatten(0, 1), columns)
        for batch in self._batches(flat):
            outputs, value, _ = self.network(batch["obs"])
            log_prob, entropy = self.network.head.judge(outputs, batch.get("mask"), batch["actions"])
            advantage = batch["advantage"]
            if self.config.normalize_advantage:
                variance, mean = torch.var_mean(advantage)
                advantage = (advantage - mean) / (variance.sqrt() + 1e-8)
            policy_loss, _ = ppo_loss(log_prob, batch["log_prob"], advantage, clip_range)
            value_loss = functional.mse_loss(value, batch["returns"])
            loss = policy_loss + self.config.value_weight * value_loss - self.config.entropy * entropy.mean()
            self.optimizer.step(self.flat.gradient(loss, self.config.max_grad_norm))

    def _batches(self, columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Minibatches, shuffled in every epoch."""
        count = len(columns["value"])
        size = self.config.minibatch or count
        for _ in range(self.config.epochs):
            order = torch.randperm(count, generator=self.generator, device=self.envs.device)
            for some in order.split(size):
                yield map_tree(lambda leaf, some=some: leaf[some], columns)
