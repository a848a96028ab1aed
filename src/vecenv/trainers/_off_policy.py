"""What trainers with a replay buffer share: act, store, and update as often as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor

from vecenv._batch.layout import map_tree
from vecenv.buffers import ReplayBuffer, Transitions
from vecenv.buffers._storage import Storage
from vecenv.errors import ConfigError
from vecenv.trainers._collect import torch_threads
from vecenv.trainers._device import Transfer, host, put
from vecenv.trainers._progress import Clock
from vecenv.trainers._trainer import ConfigT, Trainer


class OffPolicyTrainer(Trainer[ConfigT]):
    """Base class of trainers that learn from a replay buffer.

    Attributes:
        buffer: the replay buffer.
    """

    def _make_buffer(self, drawn_space: Space[Any], stack: int | None = None) -> None:
        config: Any = self.config
        if self.collector.tensor_env is not None:
            raise ConfigError(
                f"{type(self).__name__} keeps transitions on the host; use PPO for envs on a device, or make them with "
                'engine=vecenv.engines.Device(results="numpy")'
            )
        if len(self.collector.envs) > 1:
            raise ConfigError(f"{type(self).__name__} trains on one vector env, got {len(self.collector.envs)}")
        self.collector.at_once = type(self).__name__
        self.buffer = ReplayBuffer(
            self.collector.observation_space, drawn_space, config.capacity, self.collector.num_envs,
            n_step=config.n_step, gamma=config.gamma, alpha=config.priority, stack=stack, seed=self.seed,
        )  # fmt: skip
        self._transfer = Transfer(self.device)
        self._updates_due = 0.0
        """Gradient steps that are due; may have a fraction."""
        self._progress = 0.0
        """Share of the training that is done."""
        self._obs: Any = None

    def _learn(self, total_steps: int, clock: Clock, report: Callable[[], bool]) -> None:
        config: Any = self.config
        reported = self.steps
        self.network.eval()
        with torch_threads(config.torch_threads, config.minibatch * max(config.hidden, default=1) ** 2 // 16):
            if self._obs is None:
                self.buffer.cut()
                # A new seed, so that earlier episodes are not repeated.
                self._obs = map_tree(np.array, self.collector.reset(self.seed + self.steps)[0])
            while self.steps < total_steps:
                self._progress = self.steps / total_steps
                self._step(clock)
                with clock.measure("update"):
                    self._updates()
                if self.steps - reported >= config.report or self.steps >= total_steps:
                    reported = self.steps
                    if not report():
                        break

    def _step(self, clock: Clock) -> None:
        """One step of all envs; with random actions during warmup."""
        config: Any = self.config
        obs, self._obs = self._obs, None  # after an interrupted step, learn() resets the envs
        with clock.measure("forward"), torch.inference_mode():
            drawn = self._random() if self.steps < config.warmup else self._draw(put(obs, self.act_device))
            actions = self.acting.head.to_env(drawn)
        with clock.measure("env"):
            self.collector.send(0, actions)
            step = self.collector.receive(0)
        with clock.measure("buffer"):
            self.buffer.add(obs, host(drawn), step)
            self._obs = map_tree(np.array, step.obs)
        self.steps += self.collector.num_envs
        if self.steps > config.warmup and len(self.buffer):
            self._updates_due += config.updates_per_step * self.collector.num_envs

    def _updates(self) -> None:
        """The gradient steps that are due."""
        config: Any = self.config
        if self._updates_due < 1:
            return
        self.network.train()
        while self._updates_due >= 1:
            self._updates_due -= 1
            self._update(self.buffer.sample(config.minibatch, beta=config.beta))
        self.network.eval()
        self.refresh_acting()

    def _on_device(self, drawn: Transitions) -> Transitions:
        """The sampled transitions as tensors on the device that learns."""
        return Transitions(**self._transfer.put({name: part for name, part in vars(drawn).items() if name != "extras"}),
                           extras={})  # fmt: skip

    def _update_priorities(self, drawn: Transitions, errors: Tensor) -> None:
        """Sample transitions with large errors more often, if the settings say so."""
        config: Any = self.config
        if config.priority is not None:
            self.buffer.update_priorities(drawn.index, host(errors.abs()) + 1e-6)

    def _random(self) -> Tensor:
        """Random actions for all envs."""
        raise NotImplementedError

    def _draw(self, obs: Any) -> Tensor:
        """Actions of the network that acts, with exploration."""
        raise NotImplementedError

    def _update(self, drawn: Transitions) -> None:
        """One gradient step."""
        raise NotImplementedError

    # --- store -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Buffer (its memory, not a copy), observations and what is due."""
        leaves = None if self._obs is None else Storage(self.collector.observation_space, (0,)).flat(self._obs)
        return {"buffer": self.buffer.state_dict(copy=False), "updates_due": self._updates_due, "obs": leaves}

    def load_state_dict(self, state: dict[str, Any], same_envs: bool) -> None:
        """Restore them."""
        self.buffer.load_state_dict(state["buffer"])
        self._updates_due = state["updates_due"]
        if same_envs and state["obs"] is not None:
            self._obs = Storage(self.collector.observation_space, (0,)).nest(state["obs"])
