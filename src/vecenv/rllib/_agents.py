"""Several agents per env for RLlib's own sampling: a VectorMultiAgentEnv on any engine, and a runner that builds it."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.vector.vector_multi_agent_env import VectorMultiAgentEnv

from vecenv._batch.batch import Op
from vecenv._batch.layout import map_tree
from vecenv._batch.slots import Slots
from vecenv._front.infos import rows_of_arrays
from vecenv.agents import MultiAgentVectorEnv
from vecenv.errors import UnsupportedError
from vecenv.rllib._checks import NO_NAMES, check_nothing_added
from vecenv.rllib._observations import floats_of_slots

_ALL, _COMMON = "__all__", "__common__"
Dicts = list[dict[str, Any]]


class _OneEnv(MultiAgentEnv):
    """What RLlib asks a single env for: its agents and their spaces. It cannot be stepped."""

    def __init__(self, slots: Slots) -> None:
        super().__init__()
        self.possible_agents = list(slots.agents)
        self.agents = list(slots.agents)
        self.observation_spaces, self.action_spaces = {}, {}
        for group in slots.groups:
            for name in group.agents:
                self.observation_spaces[name], self.action_spaces[name] = group.observation_space, group.action_space


class AgentVectorEnv(VectorMultiAgentEnv):
    """Envs with several agents as RLlib's vector env: lists of dicts by agent, as its own returns them.

    RLlib's own steps its envs one after another and copies all observations. Here an engine steps them, and dicts have
    views of arrays that are new in every step. An episode ends when no agent lives, also where some agents
    were terminated and others truncated.

    Args:
        envs: made with autoreset="next-step"; their agents have names that do not change.
        floats: whether observations become one array of floats for each agent, for RLlib's default networks.
        filters: whether the config has `conv_filters`, with which pictures of any size stay pictures.
    """

    def __init__(self, envs: MultiAgentVectorEnv, floats: bool = False, filters: bool = False) -> None:
        super().__init__()
        if not envs.slots.named:
            raise UnsupportedError(NO_NAMES)
        self.agents, self.num_envs = envs, envs.num_envs
        self.metadata = {**envs.metadata, "autoreset_mode": "next_step"}
        self.render_mode = envs.render_mode
        slots, self._changes = floats_of_slots(envs.slots, filters) if floats else (envs.slots, None)
        one = _OneEnv(slots)
        self.envs = [one] * envs.num_envs
        observation: Any = one.observation_spaces
        action: Any = one.action_spaces
        self.single_observation_spaces, self.single_action_spaces = observation, action
        self.single_observation_space, self.single_action_space = spaces.Dict(observation), spaces.Dict(action)
        self._places = [
            (name, place, slot - part.start, slot)
            for place, (group, part) in enumerate(zip(envs.slots.groups, envs.slots.parts(), strict=True))
            for slot, name in zip(range(part.start, part.stop), group.agents, strict=True)
        ]
        """Name, group, slot in the group and slot of every agent."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Dicts, Dicts]:
        """Begin new episodes of all envs."""
        obs, parts = self.agents._reset(seed, options)
        shown = self.agents._acts
        return self._observations(obs, shown), self._infos(parts, shown)

    def step(self, actions: Any) -> tuple[Dicts, Dicts, Dicts, Dicts, Dicts]:
        """Step all envs with one dict of actions by agent each; an env whose episode was over is reset."""
        step, parts = self.agents._step(list(actions))
        slots = self.agents.slots
        reward, terminated, truncated = (
            np.concatenate(slots.flat(each), axis=1) for each in (step.reward, step.terminated, step.truncated)
        )
        valid, reset = self.agents._valid, step.ops == int(Op.RESET)
        shown = valid | self.agents._acts
        gains, ends, cuts = (
            self._by_agent(reward, valid),
            self._by_agent(terminated, valid),
            self._by_agent(truncated, valid),
        )
        for row in range(self.num_envs):
            if reset[row]:
                gains[row] = dict.fromkeys(self.agents.agents, 0.0)
                ends[row], cuts[row] = (dict.fromkeys(self.agents.agents, False) for _ in range(2))
            over = bool(step.done[row])
            cut = over and any(cuts[row].values())
            ends[row][_ALL], cuts[row][_ALL] = over and not cut, cut
        return self._observations(step.obs, shown), gains, ends, cuts, self._infos(parts, shown)

    def _observations(self, obs: Any, shown: np.ndarray) -> Dicts:
        found: Dicts = [{} for _ in range(self.num_envs)]
        by_group = self.agents.slots.flat(obs)
        if self._changes is not None:
            by_group = [change(own) for change, own in zip(self._changes, by_group, strict=True)]
        for name, place, inner, slot in self._places:
            own = by_group[place]
            for row in np.flatnonzero(shown[:, slot]).tolist():
                found[row][name] = map_tree(lambda leaf, row=row, inner=inner: leaf[row, inner], own)
        return found

    def _by_agent(self, column: np.ndarray, shown: np.ndarray) -> Dicts:
        values = column.tolist()
        return [
            {name: values[row][slot] for name, _, _, slot in self._places if present[slot]}
            for row, present in enumerate(shown.tolist())
        ]

    def _infos(self, parts: Any, shown: np.ndarray) -> Dicts:
        count, slots = self.num_envs, self.agents.slots
        found: Dicts = [{name: {} for name, _, _, slot in self._places if here[slot]} for here in shown.tolist()]
        of_agents = {key: value for key, value in parts.agents.items() if key != "final_info"}
        for group, part in zip(slots.groups, slots.parts(), strict=True) if of_agents else ():
            own = of_agents if len(slots.groups) == 1 else of_agents.get(group.name, {})
            flat = {key: value.reshape(count * len(group), *value.shape[2:]) for key, value in own.items()
                    if isinstance(value, np.ndarray)}  # fmt: skip
            dicts = rows_of_arrays(flat, count * len(group))
            for row in range(count):
                for inner, name in enumerate(group.agents):
                    if shown[row, part.start + inner]:
                        found[row][name] = dicts[row * len(group) + inner]
        common = {key: value for key, value in parts.envs.items() if key != "final_info"}
        for row, info in enumerate(rows_of_arrays(common, count)) if common else ():
            if info:
                found[row][_COMMON] = info
        return found

    def render(self) -> tuple[Any, ...] | None:
        """One frame per env."""
        return self.agents.render()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env, or read an attribute."""
        return self.agents.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env."""
        return self.agents.get_attr(name)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs."""
        self.agents.close()


class AgentEnvRunner(MultiAgentEnvRunner):
    """RLlib's runner for several agents, whose vector env is an `AgentVectorEnv`: RLlib would build only its own."""

    def make_env(self) -> None:
        """Build the envs that `configure` was given."""
        if self.env is not None:
            self.env.close()
        config: Any = self.config  # RLlib's annotations allow None where `configure` has set a value
        self.num_envs = config.num_envs_per_env_runner
        check_nothing_added(config.env_config)
        creator = config.env_config["creator"]
        self.env = AgentVectorEnv(creator.build_agents(self.num_envs), creator.floats, creator.filters)
        self._needs_initial_reset = True
        make_callback(
            "on_environment_created",
            callbacks_objects=self._callbacks,
            callbacks_functions=config.callbacks_on_environment_created,
            kwargs={"env_runner": self, "metrics_logger": self.metrics, "env": self.env.unwrapped,
                    "env_context": self.config.env_config},
        )  # fmt: skip
