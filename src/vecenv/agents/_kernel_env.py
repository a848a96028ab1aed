"""A kernel with several agents as a PettingZoo parallel env in plain Python."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space
from pettingzoo.utils.env import ParallelEnv

from vecenv._batch.slots import FLAGS, SLOT_MASK, SlotSpace
from vecenv.agents._actions import ActionPacker

_ACTS, _VALID, _ALIVE, _TERMINATED, _TRUNCATED = range(len(FLAGS))
_FIRST = np.zeros(1, np.int64)


class KernelParallelEnv(ParallelEnv[str, Any, Any]):
    """The class that was written, run by Python: breakpoints work. Native code gives the same bits.

    All living agents pass an action; where `infos[agent]["acts"]` is False it is not the agent's turn, and its action
    is ignored.

    Args:
        env: the env of one row.
        name: the id of the kernel.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        assert isinstance(env.observation_space, SlotSpace)
        self.env = env
        self.metadata = {**env.metadata, "name": name, "is_parallelizable": True}
        self.render_mode = env.render_mode
        self._slots = env.observation_space.slots
        self.possible_agents = list(self._slots.agents)
        self.agents: list[str] = []
        # One object per agent, always the same: its random stream is the user's to seed.
        self._spaces = {
            name: (_copy(group.observation_space), _copy(group.action_space))
            for group in self._slots.groups
            for name in group.agents
        }
        self._packer = ActionPacker(self._slots)
        self._places = [
            (name, place, inner)
            for place, group in enumerate(self._slots.groups)
            for inner, name in enumerate(group.agents)
        ]
        """Name, group and slot in the group of every agent."""

    def observation_space(self, agent: str) -> Space[Any]:
        """Of one agent."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> Space[Any]:
        """Of one agent."""
        return self._spaces[agent][1]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._seen(obs, self.agents), self._infos(obs, info, self.agents)

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Step with one action per living agent.

        Raises:
            InvalidAction: an action is missing, is not in its space, or is one of a dead or unknown agent.
        """
        acting = np.array([[name in self.agents for name in self.possible_agents]])
        packed = self._packer.pack([actions], _FIRST, acting, [self.possible_agents])
        full = self._slots.nest([part[0] for part in self._slots.flat(packed)])
        obs, _, _, truncated, info = self.env.step(full)
        acted, flags = self.agents, obs["flags"]
        slots = {name: self.possible_agents.index(name) for name in acted}
        terminations = {name: bool(flags[_TERMINATED, slot]) for name, slot in slots.items()}
        cut = flags[_TRUNCATED] | (flags[_ALIVE] & bool(truncated))
        truncations = {name: bool(cut[slot]) for name, slot in slots.items()}
        rewards = {name: float(obs["reward"][slot]) for name, slot in slots.items()}
        self.agents = [name for name in acted if not (terminations[name] or truncations[name])]
        return self._seen(obs, acted), rewards, terminations, truncations, self._infos(obs, info, acted)

    def render(self) -> Any:
        """Draw the env as it is now."""
        return self.env.render()

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def _seen(self, obs: Any, names: list[str]) -> dict[str, Any]:
        shown = self._slots.flat(obs["obs"])
        return {name: shown[place][inner].copy() for name, place, inner in self._places if name in names}

    def _infos(self, obs: Any, info: dict[str, Any], names: list[str]) -> dict[str, Any]:
        masks = info.get(SLOT_MASK)
        own = {key: value for key, value in info.items() if key != SLOT_MASK}
        infos = {}
        for name in names:
            slot = self.possible_agents.index(name)
            infos[name] = {**own, "acts": bool(obs["flags"][_ACTS, slot])}
            if masks is not None:
                infos[name]["action_mask"] = masks[slot, : self._spaces[name][1].n].copy()  # type: ignore[attr-defined]
        return infos


def _copy(space: Space[Any]) -> Space[Any]:
    import copy

    return copy.deepcopy(space)
