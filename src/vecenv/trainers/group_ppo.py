"""PPO for groups of agents: a policy of its own for each group. One PPO per group learns; the envs step together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from vecenv._batch.batch import Op
from vecenv._front.infos import ended_by_fault
from vecenv._make.make import make
from vecenv.agents import FlatVectorEnv, MultiAgentVectorEnv
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.trainers._checkpoint import tensors
from vecenv.trainers._collect import Envs, check_autoreset, restore_envs, state_of, torch_threads
from vecenv.trainers._policy import Policy
from vecenv.trainers._ppo_config import PPOConfig
from vecenv.trainers._progress import Clock, Episodes
from vecenv.trainers._trainer import Trainer
from vecenv.trainers.ppo import PPO


class GroupCollector:
    """Steps envs whose agents have groups, and counts the episodes of the envs.

    Args:
        envs: an id, or envs with several agents.
        num_envs: with an id, the number of envs.
    """

    tensor_env = None

    def __init__(self, envs: Any, num_envs: int) -> None:
        self.env_id = envs if isinstance(envs, str) else None
        if isinstance(envs, str):
            envs = make(envs, num_envs, autoreset="same-step", copy=False)
        several = list(envs) if isinstance(envs, (list, tuple)) else [envs]
        if len(several) != 1 or not isinstance(several[0], MultiAgentVectorEnv):
            raise ConfigTypeError("GroupPPO takes one vector env with several agents; for any other envs there is PPO")
        check_autoreset(several)
        self.envs: list[Any] = several
        self.agents: MultiAgentVectorEnv = several[0]
        self.num_agents = self.agents.num_slots
        self.num_envs = self.agents.num_envs * self.num_agents
        self.episodes = Episodes(self.agents.num_envs)

    @property
    def engine_reason(self) -> str:
        """Why the engine of the envs was chosen."""
        return self.agents.engine_reason

    def count(self, step: Any) -> None:
        """Count the results of a step: the return of an episode is that of all agents together."""
        reward = np.concatenate(self.agents.slots.flat(step.reward), axis=1).sum(axis=1)
        self.episodes.add(reward, step.done, step.ops != int(Op.RESET), faulty=ended_by_fault(step.infos))

    def state_dict(self) -> dict[str, Any]:
        """Statistics, and the state of the envs where the engine can return it (kernels)."""
        return {"episodes": self.episodes.state_dict(), "envs": [state_of(self.agents)]}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Restore `state_dict`; return whether the envs' state was restored too."""
        stored = len(state["episodes"]["totals"])
        if stored != self.agents.num_envs:
            raise ConfigError(f"the checkpoint is of {stored} envs, these are {self.agents.num_envs}; pass {stored}")
        self.episodes.load_state_dict(state["episodes"])
        return restore_envs(self.envs, state["envs"])

    def close(self) -> None:
        """Close the envs."""
        self.agents.close()


class GroupPPO(Trainer[PPOConfig]):
    """PPO with an independent policy for each group of agents.

    For arguments and attributes see `Trainer`. Agents of a group share its policy; `make(groups={...})` makes groups of
    your own. With `PPOConfig(central_value=True)` every value function sees the observations of all groups.
    `network` is a function of the observation space and the number of outputs, or a dict of networks by group;
    `policy` is a dict of policies by group. Steps are those of all agents together.

    Attributes:
        members: the PPO of each group.
    """

    Config = PPOConfig
    algorithm = "ppo"

    def _collector_of(self, envs: Envs) -> Any:
        return GroupCollector(envs, self.config.num_envs)

    def _build(self) -> None:
        agents, networks = self.collector.agents, self._own["network"]
        if isinstance(networks, nn.Module) and len(agents.groups) > 1:
            raise ConfigTypeError("network= of several groups is a function that makes one, or a dict by group")
        if isinstance(networks, Mapping) and set(networks) != set(agents.groups):
            raise ConfigError(f"network has the groups {sorted(networks)}, the envs have {list(agents.groups)}")
        self.members: dict[str, PPO] = {}
        for place, name in enumerate(agents.groups):
            self.members[name] = PPO(
                FlatVectorEnv(agents, name), self.config, self.seed + place,
                network=networks[name] if isinstance(networks, Mapping) else networks,
                optimizer=self._own["optimizer"], device=self.device, act_device=self.act_device,
            )  # fmt: skip
        for member in self.members.values():
            member.team = list(self.members.values())
        self.network = {name: member.network for name, member in self.members.items()}
        self._began = False

    def _act_on(self, device: torch.device) -> None:
        """Every member acts where it was made to."""
        self._measure = False
        self.acting = {name: member.acting for name, member in self.members.items()}

    def refresh_acting(self) -> None:
        """Act with the weights that were learnt."""
        for member in self.members.values():
            member.refresh_acting()

    @property
    def policy(self) -> dict[str, Policy]:  # type: ignore[override]  # one per group
        """Copies of the current policies by group, as `evaluate` takes them."""
        return {name: member.policy for name, member in self.members.items()}

    def _learn(self, total_steps: int, clock: Clock, report: Callable[[], bool]) -> None:
        with torch_threads(self.config.torch_threads, 0):
            if not self._began:
                self._begin(self.seed + self.steps)  # a new seed, so that earlier episodes are not repeated
            while self.steps < total_steps:
                progress = self.steps / total_steps
                self._collect(clock)
                with clock.measure("update"):
                    self._update(progress)
                if not report():
                    break

    def _begin(self, seed: int) -> None:
        self.collector.episodes.begin()
        began = self.collector.agents._reset(seed, None)
        for member in self.members.values():
            member.begin_with(member.collector.envs[0]._began(*began))
        self._began = True

    def _collect(self, clock: Clock) -> None:
        """Fill the buffers of all groups."""
        members, agents = list(self.members.values()), self.collector.agents
        for member in members:
            member._check_parameters()
            member.acting.eval()
            if member.buffer.full:
                member.buffer.restart()
        self._began = False  # after an interrupted rollout, learn() resets the envs
        for moment in range(self.config.rollout_steps):
            acted = [member._act(0, moment, clock) for member in members]
            with clock.measure("env"):
                actions = [member.collector.envs[0]._with_slots(member.collector.sent) for member in members]
                result = agents._step(agents.slots.nest(actions))
                self.collector.count(result[0])
                steps = [member.collector.stepped(0, member.collector.envs[0]._stepped(*result)) for member in members]
            with clock.measure("buffer"):
                for member, step, columns in zip(members, steps, acted, strict=True):
                    member.buffer.add(step=step, **columns)
            if self.config.central_value:
                for member in members:
                    member.value_central_finals(moment, steps)
        self._began = True
        self.steps += self.config.rollout_steps * self.collector.num_envs

    def _update(self, progress: float) -> None:
        self._losses = {}
        for name, member in self.members.items():
            member._update([], progress)
            member.refresh_acting()
            self._losses |= {f"{name}/{loss}": value for loss, value in member._losses.items()}
        self.updates = sum(member.updates for member in self.members.values())

    # --- store -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What each group's PPO has, and whether the envs have begun."""
        return {
            "started": self._began,
            "groups": {
                name: {
                    "own": {**member.state_dict(), "started": self._began},
                    "updates": member.updates,
                    "collector": member.collector.state_dict(),
                    "generators": {kind: each.get_state() for kind, each in member._generators.items()},
                }
                for name, member in self.members.items()
            },
        }

    def load_state_dict(self, state: dict[str, Any], same_envs: bool) -> None:
        """Restore them."""
        for name, member in self.members.items():
            stored = state["groups"][name]
            member.updates = stored["updates"]
            member.collector.load_state_dict(stored["collector"])
            member.load_state_dict(stored["own"], same_envs)
            for kind, own in stored["generators"].items():
                if kind in ("cpu", self.device.type):
                    member.generator_on(torch.device(kind)).set_state(tensors(own))
        self._began = bool(same_envs and state["started"])
