"""Made-up envs with several agents, whose every event follows from the seed: agents die, join, differ and raise.

Observations and rewards depend on who did what and when, so that a row or an agent that is mixed up, lost or doubled
shows.
"""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from pettingzoo.utils import AECEnv, ParallelEnv

KINDS: list[tuple[Any, Any]] = [
    (Box(-np.inf, np.inf, (3,), np.float64), Discrete(5)),
    (Box(-np.inf, np.inf, (2,), np.float32), Box(-1, 1, (2,), np.float32)),
    (Dict({"here": Box(-np.inf, np.inf, (2,), np.float64), "count": Discrete(1000)}), MultiDiscrete([3, 4])),
]


SIZES: list[tuple[Any, Any]] = [
    (Box(-np.inf, np.inf, (3,), np.float64), Discrete(5)),
    (Box(-np.inf, np.inf, (2,), np.float32), Discrete(3)),
    (Box(-np.inf, np.inf, (4,), np.float64), Discrete(2)),
]
"""Spaces that can be padded to one."""


def spaces_of(name: str, several: bool | str) -> tuple[Any, Any]:
    """The spaces of an agent; `several` is "sizes" for those that can be padded."""
    kinds = SIZES if several == "sizes" else KINDS
    return kinds[zlib.crc32(name.encode()) % len(kinds)] if several else KINDS[0]


def seen(space: Any, *numbers: int) -> Any:
    """An observation that follows from the numbers."""
    code = zlib.crc32(repr(numbers).encode())
    if isinstance(space, Dict):
        return {key: seen(child, *numbers, position) for position, (key, child) in enumerate(space.spaces.items())}
    if isinstance(space, Discrete):
        return code % int(space.n)
    return (np.arange(np.prod(space.shape)) + code % 1000).astype(space.dtype).reshape(space.shape)


def sum_of(action: Any) -> float:
    """A number that tells actions apart."""
    return float(np.sum(np.asarray(action, np.float64) * (1 + np.arange(np.size(action)))))


class _MadeUp:
    """What both kinds have in common.

    Args:
        seed: of what happens, with the episode's own.
        count: possible agents.
        several: whether agents have unequal spaces; "sizes": such that can be padded.
        known: whether the env has `possible_agents`.
        wild: how often agents die, join and raise.
        fixed: whether all agents are there from the beginning, and leave with a flag.
        padded: the length of observations, which end with zeros; None: that of their space.
    """

    fixed = False

    def __init__(
        self,
        seed: int,
        count: int,
        several: bool | str,
        known: bool = True,
        wild: float = 1.0,
        padded: int | None = None,
    ) -> None:
        self.names = [f"agent_{index}" if self.fixed else f"{'ab'[index % 2]}_{index}" for index in range(count)]
        self.padded = padded
        if known:
            self.possible_agents = list(self.names)
        self.several, self.wild = several, wild
        self.program = seed
        self.rng = np.random.default_rng(seed)
        self.time = self.episode = 0
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return spaces_of(agent, self.several)[0]

    def action_space(self, agent: str) -> Any:
        return spaces_of(agent, self.several)[1]

    def observed(self, agent: str) -> Any:
        found = seen(self.observation_space(agent), self.program, self.episode, self.time, self.names.index(agent))
        return found if self.padded is None else np.pad(found.astype(np.float64), (0, self.padded - len(found)))

    def begin(self, seed: int | None) -> None:
        if seed is not None:
            self.rng = np.random.default_rng([self.program, seed])
        self.episode, self.time = int(self.rng.integers(1 << 30)), 0
        if self.chance(0.02) and seed is not None:
            raise RuntimeError("made up: reset")
        start = [name for name in self.names if self.rng.random() < 0.7 or self.fixed]
        self.agents = start or [self.names[0]]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability * self.wild)

    def info(self, agent: str) -> dict[str, Any]:
        if self.rng.random() < 0.7:
            return {}
        return {"time": self.time, "place": np.arange(2) + self.names.index(agent)}

    def close(self) -> None:
        pass


class MadeUpParallel(_MadeUp, ParallelEnv):
    """All living agents act at once."""

    metadata = {"name": "made_up"}
    render_mode = None

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.begin(seed)
        return {name: self.observed(name) for name in self.agents}, {name: self.info(name) for name in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        assert sorted(actions) == sorted(self.agents), "exactly the living agents act"
        for name, action in actions.items():
            assert self.action_space(name).contains(action), (name, action)
        self.time += 1
        if self.chance(0.02):
            raise RuntimeError("made up: step")
        acted = list(self.agents)
        terminated = {name: self.chance(0.08) for name in acted}
        truncated = {name: self.chance(0.04) for name in acted}
        vanish = [name for name in acted if self.chance(0.01)]
        rewards = {name: sum_of(actions[name]) + self.rng.integers(100) for name in acted}
        joined = [name for name in self.names if name not in acted and self.chance(0.15)]
        if self.fixed:
            joined, vanish = [], []
        self.agents = [name for name in acted if not (terminated[name] or truncated[name] or name in vanish)]
        if self.agents:
            self.agents += joined
        shown = [*acted, *(name for name in self.agents if name not in acted)]
        obs = {name: self.observed(name) for name in shown}
        return obs, rewards, terminated, truncated, {name: self.info(name) for name in shown}


class FixedParallel(MadeUpParallel):
    """All agents are there from the beginning, and leave with a flag."""

    fixed = True


class MadeUpSwarm(gymnasium.Env[Any, Any]):
    """The same as a Gymnasium env with `num_agents`."""

    observation_space, action_space = KINDS[0]

    def __init__(self, *arguments: Any) -> None:
        self.inner = FixedParallel(*arguments)
        self.num_agents = len(self.inner.names)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        obs, infos = self.inner.reset(seed)
        return list(obs.values()), list(infos.values())

    def step(self, actions: Any) -> Any:
        living, nothing = list(self.inner.agents), np.full(3, np.nan)
        results = self.inner.step({name: actions[self.inner.names.index(name)] for name in living})
        blanks = (nothing, np.nan, True, False, {"dead": True})
        return tuple(
            [result.get(name, blank) for name in self.inner.names]
            for result, blank in zip(results, blanks, strict=True)
        )


class MadeUpAEC(_MadeUp, AECEnv):
    """One agent acts after the other, in an order that changes; what one does gives rewards to others."""

    metadata = {"name": "made_up_aec"}
    render_mode = None

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.begin(seed)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {name: self.info(name) for name in self.agents}
        self.agent_selection = self.agents[int(self.rng.integers(len(self.agents)))]

    def observe(self, agent: str) -> Any:
        return self.observed(agent)

    def step(self, action: Any) -> None:
        name = self.agent_selection
        if self.terminations[name] or self.truncations[name]:
            self._was_dead_step(action)
            return
        assert self.action_space(name).contains(action), (name, action)
        self.time += 1
        if self.chance(0.01):
            raise RuntimeError("made up: step")
        self._cumulative_rewards[name] = 0.0
        for other in self.agents:
            self.rewards[other] = float(self.rng.integers(50)) + (sum_of(action) if other == name else 0.0)
            if self.chance(0.04):
                self.terminations[other] = True
            elif self.chance(0.02):
                self.truncations[other] = True
            self.infos[other] = self.info(other)
        for newcomer in self.names:
            if newcomer not in self.agents and self.chance(0.03):
                self.agents.append(newcomer)
                self.terminations[newcomer] = self.truncations[newcomer] = False
                self.rewards[newcomer] = self._cumulative_rewards[newcomer] = 0.0
                self.infos[newcomer] = {}
        self._accumulate_rewards()
        living = [each for each in self.agents if not (self.terminations[each] or self.truncations[each])]
        self.agent_selection = living[int(self.rng.integers(len(living)))] if living else self.agents[0]
        self._skip_agent_selection = None
        self._deads_step_first()
