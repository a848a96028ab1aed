"""Proximal policy optimization (Schulman et al. 2017). Read from top to bottom: act, collect, update, store."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vecenv._batch.layout import map_tree
from vecenv._front.step import Step
from vecenv.buffers import RolloutBuffer
from vecenv.buffers._storage import Storage
from vecenv.trainers._actor_critic import ActorCritic
from vecenv.trainers._checkpoint import tensors
from vecenv.trainers._collect import Envs, torch_threads
from vecenv.trainers._optimizer import OPTIMIZERS, Flat
from vecenv.trainers._ppo_config import PRESETS, PPOConfig
from vecenv.trainers._progress import Callback, Clock
from vecenv.trainers._trainer import Trainer


class PPO(Trainer[PPOConfig]):
    """PPO: on-policy learning; each rollout is used for a few epochs.

    For attributes see `Trainer`.

    Args:
        envs: an id, a vector env, or several vector envs that step in turn.
        config: settings; default: `PPO.defaults_for(id)`.
        seed: seed of the network, of actions and minibatches, and of the envs.
    """

    Config = PPOConfig
    _presets = PRESETS

    def __init__(self, envs: Envs, config: PPOConfig | None = None, seed: int = 0) -> None:
        super().__init__(envs, config, seed)
        config, collector = self.config, self.collector
        with torch.random.fork_rng(devices=[]), torch_threads(1, 0):  # same weights on any number of processors
            torch.manual_seed(seed)
            self.network = ActorCritic(collector.observation_space, collector.action_space, config)
        self.flat = Flat(self.network.parameters())
        self.optimizer = OPTIMIZERS[config.optimizer](self.flat, config.learning_rate, eps=1e-5)
        self._losses: dict[str, float] = {}
        self._began = False
        masked = ((self.network.head.inputs,), np.bool_)
        extras = {"value": np.float32, "log_prob": np.float32, **({"mask": masked} if config.mask else {})}
        drawn_space = self.network.head.drawn_space
        self.buffer = RolloutBuffer(
            collector.observation_space, drawn_space, config.rollout_steps, collector.num_envs, extras
        )
        self._parts = [self.buffer.part(*part) for part in collector.parts]
        self._memory: list[Any] = [None] * len(self._parts)
        self._final_value = np.zeros((config.rollout_steps, collector.num_envs), np.float32)
        """Values of last observations of episodes; with an LSTM they need its state at that moment."""

    def learn(self, total_steps: int, callback: Callback | None = None) -> PPO:
        """See `Trainer.learn`; the callback is called after every update."""
        clock, steps_before = Clock(), self.steps
        rows = self.config.minibatch or self.config.rollout_steps * self.collector.num_envs
        with torch_threads(self.config.torch_threads, self._numbers_at_once(rows)):
            if not self._began:
                self._begin(self.seed + self.steps)  # a new seed, so that earlier episodes are not repeated
            while self.steps < total_steps:
                left = 1.0 - self.steps / total_steps if self.config.anneal else 1.0
                memory = self._collect(clock)
                with clock.measure("update"):
                    self._update(memory, left)
                progress = clock.progress(self, steps_before, total_steps, self._losses)
                if callback is not None and callback(progress) is False:
                    break
        return self

    # --- collect -----------------------------------------------------------------------------------------------------

    def _begin(self, seed: int) -> None:
        for part, obs in zip(self._parts, self.collector.reset(seed), strict=True):
            part.begin(obs)
        self._memory, self._began = [self._zero_state(count) for _, count in self.collector.parts], True

    def _zero_state(self, count: int) -> Any:
        """The LSTM state of envs at the start of an episode."""
        return (torch.zeros(count, self.config.lstm),) * 2 if self.network.recurrent else None

    def _collect(self, clock: Clock) -> list[Any]:
        """Fill the buffer, the groups in turn; return the LSTM states at the start of the rollout."""
        if self.buffer.full:
            with clock.measure("buffer"):
                self.buffer.restart()
        memory, self._began = list(self._memory), False  # after an interrupted rollout, learn() resets the envs
        with torch_threads(self.config.torch_threads, self._numbers_at_once(self.collector.num_envs)):
            self._run(clock)
        self._began = True
        self.steps += self.config.rollout_steps * self.collector.num_envs
        return memory

    def _run(self, clock: Clock) -> None:
        acted = [self._act(group, 0, clock) for group in range(len(self._parts))]
        for moment in range(self.config.rollout_steps):
            for group, part in enumerate(self._parts):
                with clock.measure("env"):
                    step = self.collector.receive(group)
                with clock.measure("buffer"):
                    part.add(step=step, **acted[group])
                if self.network.recurrent:
                    self._value_finals(group, moment, step)
                if moment + 1 < self.config.rollout_steps:
                    acted[group] = self._act(group, moment + 1, clock)

    def _act(self, group: int, moment: int, clock: Clock) -> dict[str, np.ndarray]:
        """Choose actions for a group and send them; return the columns that the buffer stores about them."""
        part, head, mask = self._parts[group], self.network.head, self.collector.masks.get(group)
        with clock.measure("forward"), torch.inference_mode():
            obs = map_tree(torch.from_numpy, part.obs_at(moment))
            began = torch.from_numpy(part.began[moment]) if self.network.recurrent else None
            outputs, value, self._memory[group] = self.network(obs, self._memory[group], began)
            drawn, log_prob = head.draw(outputs, None if mask is None else torch.from_numpy(mask), self.generator)
            actions = head.to_env(drawn)
        with clock.measure("env"):
            self.collector.send(group, actions)
        columns = {"actions": drawn.numpy(), "value": value.numpy(), "log_prob": log_prob.numpy()}
        return columns if mask is None else {**columns, "mask": mask}

    def _value_finals(self, group: int, moment: int, step: Step) -> None:
        """Compute values of last observations of episodes, with the LSTM state of that episode."""
        rows = np.flatnonzero(step.truncated & step.rolled)
        if len(rows):
            begin, _ = self.collector.parts[group]
            with torch.inference_mode():
                final = map_tree(lambda leaf: torch.from_numpy(leaf[rows]), step.next_obs)
                memory = tuple(part[rows] for part in self._memory[group])
                self._final_value[moment, begin + rows] = self.network(final, memory)[1].numpy()

    def _advantages(self) -> tuple[np.ndarray, np.ndarray]:
        """Advantages and returns of the rollout; a truncated episode is bootstrapped from its last observation."""
        buffer = self.buffer
        times, envs, finals = buffer.finals()
        with torch.inference_mode():
            memory = None
            if self.network.recurrent:
                memory = tuple(torch.cat(parts) for parts in zip(*self._memory, strict=True))
            began = torch.from_numpy(buffer.began[-1])
            last = map_tree(torch.from_numpy, buffer.obs_at(buffer.steps))
            last_value = self.network(last, memory, began)[1].numpy()
            final_value = self._final_value[times, envs]
            if len(times) and not self.network.recurrent:
                final_value = self.network(map_tree(torch.from_numpy, finals))[1].numpy()
        return buffer.gae(buffer.extras["value"], last_value, final_value, self.config.gamma, self.config.lam)

    # --- update ------------------------------------------------------------------------------------------------------

    def _update(self, memory: list[Any], left: float) -> None:
        """Learn from the rollout for several epochs. `left` is the remaining share of training."""
        config = self.config
        self.optimizer.learning_rate = config.learning_rate * left
        advantages, returns = self._advantages()
        length, count = advantages.shape
        columns = {
            "obs": map_tree(lambda leaf: torch.from_numpy(leaf[:-1]), self.buffer.obs),
            "actions": torch.from_numpy(self.buffer.actions),
            **{name: torch.from_numpy(column) for name, column in self.buffer.extras.items()},
            "advantage": torch.from_numpy(advantages),
            "returns": torch.from_numpy(returns),
            "valid": torch.from_numpy(self.buffer.valid),
        }
        if self.network.recurrent:
            columns["began"] = torch.from_numpy(self.buffer.began[:-1])
            columns["memory"] = tuple(torch.cat(parts) for parts in zip(*memory, strict=True))
            batches = self._sequences(columns, max(1, (config.minibatch or length * count) // length))
        else:
            batches = self._rows(map_tree(lambda leaf: leaf.flatten(0, 1), columns), config.minibatch or length * count)
        losses: dict[str, Tensor] = {}
        for batch in batches:
            losses = self._gradient_step(batch, config.clip_range * left)
            if config.target_kl is not None and losses["kl"] > 1.5 * config.target_kl:
                break
        self._losses = {name: float(loss.detach()) for name, loss in losses.items()}

    def _rows(self, columns: dict[str, Any], size: int) -> Any:
        """Minibatches of transitions, shuffled in every epoch."""
        kept = torch.nonzero(columns.pop("valid")).squeeze(-1)
        for _ in range(self.config.epochs):
            order = kept[torch.randperm(len(kept), generator=self.generator)]
            shuffled = map_tree(lambda leaf, order=order: leaf.index_select(0, order), columns)
            for begin in range(0, len(order), size):
                yield map_tree(lambda leaf, begin=begin: leaf[begin : begin + size], shuffled)

    def _sequences(self, columns: dict[str, Any], size: int) -> Any:
        """Minibatches of whole sequences of some envs, shuffled in every epoch."""
        memory = columns.pop("memory")
        count = columns["valid"].shape[1]
        for _ in range(self.config.epochs):
            order = torch.randperm(count, generator=self.generator)
            for envs in order.split(size):
                some = map_tree(lambda leaf, envs=envs: leaf.index_select(1, envs), columns)
                yield {**some, "memory": tuple(part[envs] for part in memory)}

    def _gradient_step(self, batch: dict[str, Any], clip_range: float) -> dict[str, Tensor]:
        """One gradient step."""
        config = self.config
        if self.network.recurrent:
            outputs, value = self.network.sequences(batch.pop("obs"), batch.pop("memory"), batch["began"])
            valid = batch["valid"].flatten()
            batch = {name: column.flatten(0, 1)[valid] for name, column in batch.items()}
            outputs, value = outputs[valid], value[valid]
        else:
            outputs, value, _ = self.network(batch["obs"])
        log_prob, entropy = self.network.head.judge(outputs, batch.get("mask"), batch["actions"])
        advantage = batch["advantage"]
        if config.normalize_advantage and len(advantage) > 1:
            variance, mean = torch.var_mean(advantage)
            advantage = (advantage - mean) / (variance.sqrt() + 1e-8)
        policy_loss, kl = ppo_loss(log_prob, batch["log_prob"], advantage, clip_range)
        value_loss = functional.mse_loss(value, batch["returns"])
        entropy = entropy.mean()
        loss = policy_loss + config.value_weight * value_loss
        if config.entropy:
            loss = loss - config.entropy * entropy
        self.optimizer.step(self.flat.gradient(loss, config.max_grad_norm))
        self.updates += 1
        return {"policy": policy_loss, "value": value_loss, "entropy": entropy, "kl": kl}

    def _numbers_at_once(self, rows: int) -> int:
        """About how much there is to compute for this many observations: decides whether a second thread is faster."""
        return rows * max((part.numel() for part in self.network.parameters()), default=0) // 16

    # --- store -------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        obs, began = self.buffer.latest()
        leaves = Storage(self.collector.observation_space, (0,)).flat(obs)
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "obs": leaves,
            "began": began,
            "memory": self._memory,
            "started": self._began,
        }

    def _load_state(self, state: dict[str, Any], same_envs: bool) -> None:
        self.network.load_state_dict(tensors(state["network"]))
        self.optimizer.load_state_dict(tensors(state["optimizer"]))
        if same_envs and state["started"]:
            self.buffer.begin(Storage(self.collector.observation_space, (0,)).nest(state["obs"]), state["began"])
            self._memory = [memory and tuple(memory) for memory in tensors(state["memory"])]
            self._began = True


def ppo_loss(log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip_range: float) -> tuple[Tensor, Tensor]:
    """The clipped objective, as a loss, and an estimate of the KL divergence from the policy that acted."""
    log_ratio = log_prob - old_log_prob
    ratio = log_ratio.exp()
    loss = -torch.min(advantage * ratio, advantage * ratio.clamp(1 - clip_range, 1 + clip_range)).mean()
    return loss, (ratio.detach() - 1 - log_ratio.detach()).mean()
