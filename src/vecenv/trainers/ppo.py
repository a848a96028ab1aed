"""Proximal policy optimization (Schulman et al. 2017). Read from top to bottom: act, collect, update, store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vecenv._batch.layout import map_tree
from vecenv._front.exchange import Exchange
from vecenv._front.step import Step
from vecenv.agents import FlatVectorEnv
from vecenv.buffers import RolloutBuffer
from vecenv.buffers._storage import Storage
from vecenv.errors import ConfigError
from vecenv.trainers._actor_critic import ActorCritic, own_network
from vecenv.trainers._by_hand import by_hand
from vecenv.trainers._central import CentralActorCritic, seats_of
from vecenv.trainers._checkpoint import tensors
from vecenv.trainers._collect import torch_threads
from vecenv.trainers._device import Transfer, host, put
from vecenv.trainers._device_rollout import DeviceRollout
from vecenv.trainers._distributions import head_of
from vecenv.trainers._optimizer import Flat, optimizer_for
from vecenv.trainers._ppo_config import PPOConfig
from vecenv.trainers._progress import Clock
from vecenv.trainers._trainer import Trainer


class PPO(Trainer[PPOConfig]):
    """PPO: on-policy learning; each rollout is used for a few epochs.

    For arguments and attributes see `Trainer`; `envs` may also be several vector envs that step in turn.
    """

    Config = PPOConfig
    algorithm = "ppo"

    def _build(self) -> None:
        config, collector, own = self.config, self.collector, self._own["network"]
        head = head_of(collector.action_space, config.log_std)
        collector.mask_width = head.inputs
        self.team: list[PPO] = [self]
        """All groups of agents, if each has a policy of its own; see `GroupPPO`."""
        if config.central_value:
            seats, group = seats_of(collector.envs[0], config, own is not None)
            self.network = CentralActorCritic(collector.observation_space, head, config, seats, group).to(self.device)
        elif own is None:
            self.network = ActorCritic(collector.observation_space, head, config).to(self.device)
        else:
            self.network = own_network(own, collector.observation_space, head, head.inputs, True, self.device)
        collector.at_once = "a network with a memory (lstm)" if self.network.recurrent else None
        collector.at_once = "a central value function" if config.central_value else collector.at_once
        self.flat = Flat(self.network.parameters())
        rate = config.at("learning_rate", 0.0)
        self.optimizer = optimizer_for(self.flat, rate, 1e-5, config.optimizer, self._own["optimizer"])
        self._by_hand = by_hand(self.network, self.flat)
        """Computes gradients without autograd, if the network has nothing but plain layers, on the CPU."""
        self._began = False
        self._transfer = Transfer(self.device)
        self._on_device: DeviceRollout | None = None
        if collector.tensor_env is not None:
            if self.network.recurrent:
                raise ConfigError("networks with a memory (lstm) are not supported for envs on a device")
            self._on_device = DeviceRollout(collector.tensor_env, config.rollout_steps, config.mask)
        masked = ((head.inputs,), np.bool_)
        extras = {"value": np.float32, "log_prob": np.float32, **({"mask": masked} if config.mask else {})}
        steps = config.rollout_steps if self._on_device is None else 1
        self.buffer = RolloutBuffer(collector.observation_space, head.drawn_space, steps, collector.num_envs, extras)
        self._parts = [self.buffer.part(*part) for part in collector.parts]
        self._memory: list[Any] = [None] * len(self._parts)
        self._final_value = np.zeros((config.rollout_steps, collector.num_envs), np.float32)
        """Values of last observations of episodes; with an LSTM they need its state at that moment, and a central value
        function needs what the others saw."""

    def _flat_network(self) -> Flat:
        return self.flat

    def _learn(self, total_steps: int, clock: Clock, report: Callable[[], bool]) -> None:
        rows = self.config.minibatch or self.config.rollout_steps * self.collector.num_envs
        with torch_threads(self.config.torch_threads, self._numbers_at_once(rows)):
            if not self._began:
                self._begin(self.seed + self.steps)  # a new seed, so that earlier episodes are not repeated
            while self.steps < total_steps:
                progress = self.steps / total_steps
                memory = self._collect(clock)
                with clock.measure("update"):
                    self._update(memory, progress)
                    self.refresh_acting()
                if not report():
                    break

    # --- collect -----------------------------------------------------------------------------------------------------

    def _begin(self, seed: int) -> None:
        if self._on_device is not None:
            self._on_device.begin(seed)
            self._began = True
            return
        for part, obs in zip(self._parts, self.collector.reset(seed), strict=True):
            part.begin(obs)
        self._forget()

    def begin_with(self, exchange: Exchange) -> None:
        """Begin with the results of a reset that the caller made."""
        self.buffer.begin(self.collector.begun(0, exchange))
        self._forget()

    def _forget(self) -> None:
        initial, device = self.acting.initial_memory, self.act_device
        self._memory, self._began = [initial(count, device) for _, count in self.collector.parts], True

    def _collect(self, clock: Clock) -> list[Any]:
        """Fill the buffer, the groups in turn; return the networks' memories at the start of the rollout."""
        self._check_parameters()
        self.acting.eval()
        if self._on_device is not None:
            self._began = False
            self._on_device.collect(self.acting, self.generator_on(self.device), clock)
            self._on_device.note(self.collector.episodes)
            self._began = True
            self.steps += self.config.rollout_steps * self.collector.num_envs
            return []
        if self.buffer.full:
            with clock.measure("buffer"):
                self.buffer.restart()
        memory, self._began = list(self._memory), False  # after an interrupted rollout, learn() resets the envs
        with torch_threads(self.config.torch_threads, self._numbers_at_once(self.collector.num_envs)):
            self._run(clock)
        self._began = True
        self.steps += self.config.rollout_steps * self.collector.num_envs
        return memory

    def _check_parameters(self) -> None:
        """Take over parameters that the user replaced; with frozen ones, gradients are autograd's from now on."""
        if not self.flat.join():
            self._by_hand = None

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
                if self.config.central_value:
                    self.value_central_finals(moment, [step])
                if moment + 1 < self.config.rollout_steps:
                    acted[group] = self._act(group, moment + 1, clock)

    def _act(self, group: int, moment: int, clock: Clock) -> dict[str, np.ndarray]:
        """Choose actions for a group and send them; return the columns that the buffer stores about them."""
        part, mask = self._parts[group], self.collector.masks.get(group)
        with clock.measure("forward"):
            if self._by_hand is not None:
                drawn, value, log_prob = self._by_hand.act(part.obs_at(moment), mask, self.generator)
            else:
                drawn, value, log_prob = self._draw(group, moment, mask)
            actions = self.acting.head.to_env(drawn)
        with clock.measure("env"):
            self.collector.send(group, actions)
        columns = {"actions": drawn, "value": value, "log_prob": log_prob}
        return columns if mask is None else {**columns, "mask": mask}

    def _draw(self, group: int, moment: int, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sampled actions, values of the observations and log probabilities of the actions."""
        part, network, device = self._parts[group], self.acting, self.act_device
        with torch.inference_mode():
            obs = put(part.obs_at(moment), device)
            began = put(part.began[moment], device) if network.recurrent else None
            outputs, value, self._memory[group] = network(obs, self._memory[group], began)
            if self.config.central_value:
                value = network.all_values(self._everyone([member.buffer.obs_at(moment) for member in self.team]))
            allowed = None if mask is None else put(mask, device)
            drawn, log_prob = network.head.draw(outputs, allowed, self.generator_on(device))
            return host(drawn), host(value), host(log_prob)

    def _value_finals(self, group: int, moment: int, step: Step) -> None:
        """Compute values of last observations of episodes, with the LSTM state of that episode."""
        rows = np.flatnonzero(step.truncated & step.rolled)
        if len(rows):
            begin, _ = self.collector.parts[group]
            with torch.inference_mode():
                final = put(map_tree(lambda leaf: leaf[rows], step.next_obs), self.act_device)
                memory = tuple(part[rows] for part in self._memory[group])
                self._final_value[moment, begin + rows] = host(self.acting(final, memory)[1])

    def value_central_finals(self, moment: int, steps: Sequence[Step]) -> None:
        """Compute central values of last observations of truncated episodes; `steps` are those of the whole team."""
        own = steps[self.team.index(self)]
        rows = np.flatnonzero(own.truncated & own.rolled)
        if not len(rows):
            return
        seen = []
        for member, step in zip(self.team, steps, strict=True):
            # Where the next episode of an env has begun, an agent that had died before is still as it was.
            slots = member.collector.num_agents
            over = np.repeat(member.collector.envs[0].rolled, slots) & ~step.rolled

            def chosen(after: np.ndarray, before: np.ndarray, over: np.ndarray = over) -> np.ndarray:
                return np.where(over.reshape(-1, *[1] * (after.ndim - 1)), before, after)

            seen.append(map_tree(chosen, step.next_obs, member.buffer.obs_at(moment)))
        with torch.inference_mode():
            values = host(self.acting.all_values(self._everyone(seen)))
        self._final_value[moment, rows] = values[rows]

    def _everyone(self, seen: Sequence[Any]) -> list[Any]:
        """Observations [envs * slots, ...] of each of the team, as tensors [envs, slots, ...] where it acts."""
        found = []
        for member, obs in zip(self.team, seen, strict=True):
            slots = member.collector.num_agents
            found.append(map_tree(lambda leaf, slots=slots: leaf.unflatten(0, (-1, slots)), put(obs, self.act_device)))
        return found

    def _advantages(self) -> tuple[np.ndarray, np.ndarray]:
        """Advantages and returns of the rollout; a truncated episode is bootstrapped from its last observation."""
        buffer = self.buffer
        times, envs, finals = buffer.finals()
        with torch.inference_mode():
            memory = None
            if self.acting.recurrent:
                memory = tuple(torch.cat(parts) for parts in zip(*self._memory, strict=True))
            began = put(buffer.began[-1], self.act_device)
            central = self.config.central_value
            if central:
                everyone = self._everyone([member.buffer.obs_at(buffer.steps) for member in self.team])
                last_value = host(self.acting.all_values(everyone))
            else:
                last = put(buffer.obs_at(buffer.steps), self.act_device)
                last_value = host(self.acting(last, memory, began)[1])
            final_value = self._final_value[times, envs]
            if len(times) and not self.acting.recurrent and not central:
                final_value = host(self.acting(put(finals, self.act_device))[1])
        return buffer.gae(buffer.extras["value"], last_value, final_value, self.config.gamma, self.config.lam)

    # --- update ------------------------------------------------------------------------------------------------------

    def _update(self, memory: list[Any], progress: float) -> None:
        """Learn from the rollout for several epochs. `progress` is the share of training that is done."""
        config, left = self.config, 1.0 - progress if self.config.anneal else 1.0
        self.optimizer.learning_rate = config.at("learning_rate", progress) * left
        clip_range, entropy = config.at("clip_range", progress) * left, config.at("entropy", progress)
        columns = self._columns(memory)
        length, count = columns["advantage"].shape
        self.network.train()
        if self.network.recurrent:
            batches = self._sequences(columns, max(1, (config.minibatch or length * count) // length))
        else:
            flat = map_tree(lambda leaf: leaf.flatten(0, 1), columns)
            if self._by_hand is not None:
                numbers = [flat.pop(name) for name in ("advantage", "returns", "value", "log_prob")]
                flat = map_tree(host, {**flat, "numbers": torch.stack(numbers, -1)})
            batches = self._rows(flat, config.minibatch or length * count)
        for batch in batches:
            self._losses = self._gradient_step(batch, clip_range, entropy)
            if config.target_kl is not None and float(host(self._losses["kl"])) > 1.5 * config.target_kl:
                break

    def _columns(self, memory: list[Any]) -> dict[str, Any]:
        """What the update needs of the rollout, as tensors [T, N, ...] on the device."""
        if self._on_device is not None:
            return self._on_device.columns(self.acting, self.config.gamma, self.config.lam)
        advantages, returns = self._advantages()
        columns = {
            "obs": map_tree(lambda leaf: leaf[:-1], self.buffer.obs),
            "actions": self.buffer.actions,
            **self.buffer.extras,
            "advantage": advantages,
            "returns": returns,
        }
        if self.network.recurrent:
            columns["began"] = self.buffer.began[:-1]
            columns["memory"] = tuple(torch.cat(parts) for parts in zip(*memory, strict=True))
        return self._transfer.put(columns)

    def _rows(self, columns: dict[str, Any], size: int) -> Any:
        """Minibatches of transitions, shuffled in every epoch."""
        valid = self.buffer.valid if self._on_device is None else np.ones(len(columns["actions"]), np.bool_)
        kept = torch.from_numpy(np.flatnonzero(valid))
        seen = self._seen_by_all() if self.config.central_value else None
        for _ in range(self.config.epochs):
            order = put(kept[torch.randperm(len(kept), generator=self.generator)], self.device)
            shuffled = map_tree(lambda leaf, order=order: take(leaf, order), columns)
            for begin in range(0, len(order), size):
                rows = slice(begin, begin + size)
                batch = {name: _some(leaf, rows) for name, leaf in shuffled.items()}
                if seen is not None:
                    agents, at = self.collector.num_agents, order[rows]
                    of_envs = at // agents
                    batch["everyone"] = [
                        map_tree(lambda leaf, of_envs=of_envs: leaf.index_select(0, of_envs), obs) for obs in seen
                    ]
                    batch["agents"] = at % agents
                yield batch

    def _seen_by_all(self) -> list[Any]:
        """What each of the team saw in the rollout, as tensors [T * envs, slots, ...] on the device."""
        found = []
        for member in self.team:
            slots, seen = member.collector.num_agents, put(member.buffer.obs, self.device)
            found.append(map_tree(lambda leaf, slots=slots: leaf[:-1].flatten(0, 1).unflatten(0, (-1, slots)), seen))
        return found

    def _sequences(self, columns: dict[str, Any], size: int) -> Any:
        """Minibatches of whole sequences of some envs, shuffled in every epoch; "kept" are the transitions in them."""
        memory, valid = columns.pop("memory"), torch.from_numpy(self.buffer.valid)
        for _ in range(self.config.epochs):
            order = torch.randperm(valid.shape[1], generator=self.generator)
            for envs in order.split(size):
                kept = put(torch.nonzero(valid[:, envs].flatten()).squeeze(-1), self.device)
                envs = put(envs, self.device)
                some = map_tree(lambda leaf, envs=envs: leaf.index_select(1, envs), columns)
                yield {**some, "kept": kept, "memory": tuple(part.index_select(0, envs) for part in memory)}

    def _gradient_step(self, batch: dict[str, Any], clip_range: float, entropy_weight: float) -> dict[str, Any]:
        """One gradient step."""
        config = self.config
        if self._by_hand is not None:
            gradient, losses = self._by_hand.gradient_of(batch, config, clip_range, entropy_weight)
            self.optimizer.step(gradient)
            self.updates += 1
            return losses
        if self.network.recurrent:
            outputs, value = self.network.sequences(batch.pop("obs"), batch.pop("memory"), batch.pop("began"))
            kept = batch.pop("kept")
            batch = {name: column.flatten(0, 1).index_select(0, kept) for name, column in batch.items()}
            outputs, value = outputs.index_select(0, kept), value.index_select(0, kept)
        else:
            outputs, value, _ = self.network(batch["obs"])
        if config.central_value:
            value = self.network.values(batch["everyone"], batch["agents"])
        log_prob, entropy = self.network.head.judge(outputs, batch.get("mask"), batch["actions"])
        advantage = batch["advantage"]
        if config.normalize_advantage and len(advantage) > 1:
            variance, mean = torch.var_mean(advantage)
            advantage = (advantage - mean) / (variance.sqrt() + 1e-8)
        policy_loss, kl = ppo_loss(log_prob, batch["log_prob"], advantage, clip_range)
        value_loss = clipped_value_loss(value, batch["value"], batch["returns"], config.clip_value)
        entropy = entropy.mean()
        loss = policy_loss + config.value_weight * value_loss
        if entropy_weight:
            loss = loss - entropy_weight * entropy
        self.optimizer.step(self.flat.gradient(loss, config.max_grad_norm))
        self.updates += 1
        losses = {"policy": policy_loss, "value": value_loss, "entropy": entropy, "kl": kl}
        return {name: part.detach() for name, part in losses.items()}

    def _numbers_at_once(self, rows: int) -> int:
        """About how much there is to compute for this many observations: decides whether a second thread is faster."""
        return rows * max((part.numel() for part in self.network.parameters()), default=0) // 16

    # --- store -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Network, optimizer, and where the envs are."""
        obs, began = self.buffer.latest()
        leaves = Storage(self.collector.observation_space, (0,)).flat(obs)
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "obs": leaves,
            "began": began,
            "memory": self._memory,
            "started": self._began,
            "turns": self._turns(),
        }

    def _turns(self) -> dict[str, Any] | None:
        """Which agents wait for the others' turns, and what they did; None if none does."""
        env = self.collector.envs[0]
        waits = isinstance(env, FlatVectorEnv) and env.waits.any()
        return {"waits": env.waits, **self.buffer.held()} if waits else None

    def load_state_dict(self, state: dict[str, Any], same_envs: bool) -> None:
        """Restore them."""
        self.network.load_state_dict(tensors(state["network"]))
        self.optimizer.load_state_dict(tensors(state["optimizer"]))
        if same_envs and state["started"] and self._on_device is None:
            self.buffer.begin(Storage(self.collector.observation_space, (0,)).nest(state["obs"]), state["began"])
            turns = state.get("turns")
            if turns is not None:
                self.collector.envs[0].waits = np.array(turns["waits"])
                self.buffer.hold(turns)
            stored, device = tensors(state["memory"]), self.act_device
            self._memory = [memory and tuple(part.to(device) for part in memory) for memory in stored]
            self._began = True


def _some(column: Any, rows: slice) -> Any:
    """Some rows of a column: an array, a tensor, or a tree of them."""
    return map_tree(lambda leaf: leaf[rows], column) if isinstance(column, (dict, tuple)) else column[rows]


def take(leaf: Any, rows: Tensor) -> Any:
    """Some rows of a tensor, or of an array."""
    return leaf.index_select(0, rows) if isinstance(leaf, Tensor) else leaf.take(rows.numpy(), 0)


def ppo_loss(log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip_range: float) -> tuple[Tensor, Tensor]:
    """The clipped objective, as a loss, and an estimate of the KL divergence from the policy that acted."""
    log_ratio = log_prob - old_log_prob
    ratio = log_ratio.exp()
    loss = -torch.min(advantage * ratio, advantage * ratio.clamp(1 - clip_range, 1 + clip_range)).mean()
    return loss, (ratio.detach() - 1 - log_ratio.detach()).mean()


def clipped_value_loss(value: Tensor, old_value: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """Squared error of the values; with `clip`, of the larger error of the value and the value near its old one."""
    if clip is None:
        return functional.mse_loss(value, returns)
    near = old_value + (value - old_value).clamp(-clip, clip)
    return torch.max((value - returns).square(), (near - returns).square()).mean()
