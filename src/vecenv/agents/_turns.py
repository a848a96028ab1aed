"""The results of each agent of one env after each step, by PettingZoo's two sets of rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from gymnasium import Space, spaces

from vecenv._util.checks import brief
from vecenv.engines.python.calls import BOOLS, as_number
from vecenv.errors import SpaceError

End: TypeAlias = Literal["all", "any"]
"""Whether the episode of a row ends when all agents are done, or when any is."""


class Entry(NamedTuple):
    """Results of one agent.

    Attributes:
        obs: to act on next, or the last of its episode.
        reward: since it last acted.
        terminated, truncated: whether its episode is over.
        info: of the env.
        valid: whether this is a transition: it acted before.
    """

    obs: Any
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Any = None
    valid: bool = False

    @property
    def over(self) -> bool:
        """Whether the agent's episode is over."""
        return self.terminated or self.truncated


@dataclass
class Turn:
    """What a reset or step led to.

    Attributes:
        entries: results by agent, of those that have any.
        acts: agents that must act now.
        alive: agents that live; the episode is over if there are none.
        infos: of no single agent.
        is_cut: whether the episode ended because one agent was done (`end="any"`).
    """

    entries: dict[str, Entry]
    acts: Collection[str]
    alive: Collection[str]
    infos: dict[str, Any] = field(default_factory=dict)
    is_cut: bool = False

    def flags(self) -> tuple[bool, bool]:
        """Whether the episode of the row is over, as terminated and truncated."""
        if self.alive and not self.is_cut:
            return False, False
        entries = self.entries.values()
        terminated = any(entry.terminated for entry in entries)
        return terminated, not terminated or any(entry.truncated for entry in entries)


class Rules(Protocol):
    """How agents take turns."""

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> Turn:
        """Begin an episode."""
        ...

    def step(self, actions: dict[str, Any]) -> Turn:
        """Step with the actions of the agents that must act."""
        ...


def rules_of(env: Any, end: End) -> Rules:
    """The rules of a PettingZoo env."""
    return AECRules(env, end) if is_aec(env) else ParallelRules(env, end)


def is_aec(env: Any) -> bool:
    """Whether the agents of a PettingZoo env act one after the other."""
    return callable(getattr(env, "agent_iter", None)) and callable(getattr(env, "last", None))


def is_multi_agent(env: Any) -> bool:
    """Whether this is a PettingZoo env, or has its methods."""
    kind = type(env)
    has_agents = hasattr(kind, "possible_agents") or hasattr(env, "possible_agents") or hasattr(env, "agents")
    return has_agents and callable(getattr(env, "observation_space", None)) and callable(getattr(env, "step", None))


class ParallelRules:
    """All living agents act at once."""

    def __init__(self, env: Any, end: End) -> None:
        self._env = env
        self._end = end
        self._alive: list[str] = []
        self._known: set[str] = set(getattr(env, "possible_agents", ()))
        self._over: set[str] = set()
        """Agents whose episode is over although the env keeps them in `agents`."""

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> Turn:
        """Begin an episode."""
        result = self._env.reset(seed=seed, options=options)
        if type(result) is not tuple or len(result) != 2:
            raise SpaceError(f"reset() must return (observations, infos), got {brief(result)}")
        obs, infos = result
        self._over = set()
        self._alive = list(self._env.agents)
        if not self._alive:
            raise SpaceError("reset() left no agent in `agents`; an episode needs at least one")
        entries = {name: Entry(_of(obs, name, "observation"), info=_info(infos, name)) for name in self._alive}
        self._known.update(self._alive)
        return Turn(entries, self._alive, self._alive, self._others(infos))

    def step(self, actions: dict[str, Any]) -> Turn:
        """Step with one action per living agent."""
        result = self._env.step(actions)
        if type(result) is not tuple or len(result) != 5:
            raise SpaceError(
                "step() must return (observations, rewards, terminations, truncations, infos), "
                f"got {brief(result) if type(result) is not tuple else f'{len(result)} values'}"
            )
        obs, rewards, terminations, truncations, infos = result
        agents = list(self._env.agents)
        entries: dict[str, Entry] = {}
        for name in self._alive:
            terminated, truncated = _flag(terminations, name, "termination"), _flag(truncations, name, "truncation")
            reward = _of(rewards, name, "reward")
            entries[name] = Entry(
                _of(obs, name, "observation"),
                reward if type(reward) is float else as_number(reward),
                terminated,
                truncated or (not terminated and name not in agents),
                _info(infos, name),
                True,
            )
        self._over &= set(agents)
        alive = []
        for name in agents:
            entry = entries.get(name)
            if entry is not None and entry.over:
                self._over.add(name)
            elif name not in self._over:
                alive.append(name)
                if entry is None:
                    entries[name] = Entry(_of(obs, name, "observation"), info=_info(infos, name))
        self._alive = alive
        self._known.update(alive)
        is_cut = self._end == "any" and any(entry.over for entry in entries.values())
        return Turn(entries, alive, alive, self._others(infos), is_cut)

    def _others(self, infos: Any) -> dict[str, Any]:
        """Infos that belong to no agent."""
        if type(infos) is not dict and not isinstance(infos, Mapping):  # the first is quicker
            raise SpaceError(f"infos must be a dict by agent, got {brief(infos)}")
        return {key: value for key, value in infos.items() if key not in self._known}


class AECRules:
    """One agent acts at a time. It gets its results since it last acted when it is its turn again."""

    def __init__(self, env: Any, end: End) -> None:
        self._env = env
        self._end = end
        self._acted: set[str] = set()

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> Turn:
        """Begin an episode."""
        self._env.reset(seed=seed, options=options)
        self._acted = set()
        if not self._env.agents:
            raise SpaceError("reset() left no agent in `agents`; an episode needs at least one")
        return self._until_one_acts()

    def step(self, actions: dict[str, Any]) -> Turn:
        """Step with the action of the selected agent."""
        env, ((name, action),) = self._env, actions.items()
        env.step(action)
        self._acted.add(name)
        over = self._end == "any" and any(env.terminations[each] or env.truncations[each] for each in env.agents)
        return self._cut() if over else self._until_one_acts()

    def _cut(self) -> Turn:
        """The episode ends here, because an agent is done: every agent gets the results it has not had yet."""
        env = self._env
        entries = {
            name: Entry(
                env.observe(name),
                as_number(env._cumulative_rewards[name]),
                _flag(env.terminations, name, "termination"),
                _flag(env.truncations, name, "truncation"),
                _info(env.infos, name),
                name in self._acted,
            )
            for name in env.agents
        }
        return Turn(entries, (), [name for name, entry in entries.items() if not entry.over], is_cut=True)

    def _until_one_acts(self) -> Turn:
        """Go on to the next living agent. Those before it whose episode is over get their results and leave the env."""
        env, entries = self._env, {}
        while env.agents:
            name = env.agent_selection
            if name in entries:
                raise SpaceError(f"agent {name!r} is over and was selected again after its last step(None)")
            obs, reward, terminated, truncated, info = env.last()
            if type(terminated) not in BOOLS or type(truncated) not in BOOLS:
                raise SpaceError(f"agent {name!r}: flags must be bools, got {terminated!r:.40} and {truncated!r:.40}")
            valid = name in self._acted
            entries[name] = Entry(obs, as_number(reward), bool(terminated), bool(truncated), info or {}, valid)
            if not terminated and not truncated:
                alive = [each for each in env.agents if not (env.terminations[each] or env.truncations[each])]
                return Turn(entries, [name], alive)
            self._acted.discard(name)
            env.step(None)
        return Turn(entries, (), ())


class GymnasiumAgents:
    """A Gymnasium-style env with `num_agents` as a PettingZoo parallel env.

    Its spaces are those of one agent, or Tuples with one space per agent. `reset` and `step` have one observation,
    reward, flag and info per agent; flags and infos may also be single ones for all.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.possible_agents = [f"agent_{index}" for index in range(int(env.num_agents))]
        self.agents: list[str] = []
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self._spaces = {kind: self._per_agent(getattr(env, kind)) for kind in ("observation_space", "action_space")}

    def observation_space(self, agent: str) -> Space[Any]:
        """Of one agent."""
        return self._spaces["observation_space"][agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Of one agent."""
        return self._spaces["action_space"][agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode."""
        obs, infos = self.env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        return self._by_name("observation", obs), self._infos(infos)

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Step; an agent whose episode is over acts with the first action of its space, which the env ignores."""
        given = [
            actions[name] if name in actions else _any_action(self.action_space(name)) for name in self.possible_agents
        ]
        obs, rewards, terminated, truncated, infos = self.env.step(given)
        named = [self._by_name("observation", obs), self._by_name("reward", rewards)]
        named += [self._flags("terminated", terminated), self._flags("truncated", truncated)]
        self.agents = [name for name in self.agents if not (named[2][name] or named[3][name])]
        return (*named, self._infos(infos))  # type: ignore[return-value]  # five of them

    def render(self) -> Any:
        """As the env does."""
        return self.env.render()

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def _per_agent(self, space: Space[Any]) -> dict[str, Space[Any]]:
        count = len(self.possible_agents)
        each = list(space.spaces) if isinstance(space, spaces.Tuple) and len(space.spaces) == count else [space] * count
        return dict(zip(self.possible_agents, each, strict=True))

    def _by_name(self, what: str, values: Any) -> dict[str, Any]:
        names = self.possible_agents
        if not hasattr(values, "__len__") or len(values) != len(names):
            raise SpaceError(f"an env with num_agents = {len(names)} needs one {what} per agent, got {brief(values)}")
        return {name: values[index] for index, name in enumerate(names)}

    def _flags(self, what: str, values: Any) -> dict[str, Any]:
        return dict.fromkeys(self.possible_agents, values) if type(values) in BOOLS else self._by_name(what, values)

    def _infos(self, infos: Any) -> dict[str, Any]:
        """By agent, or infos of the env where it has one dict for all."""
        return dict(infos) if isinstance(infos, Mapping) else self._by_name("info", infos)


def _any_action(space: Space[Any]) -> Any:
    from vecenv.agents._actions import neutral

    return neutral(space)


def _of(values: Any, name: str, what: str) -> Any:
    """What the env returned for an agent."""
    try:
        return values[name]
    except (KeyError, TypeError, IndexError):
        given = sorted(map(str, values)) if isinstance(values, Mapping) else brief(values)
        raise SpaceError(
            f"the env returned no {what} for agent {name!r}, which is in `agents`; it has {given}"
        ) from None


def _flag(values: Any, name: str, what: str) -> bool:
    flag = _of(values, name, what)
    if type(flag) not in BOOLS:
        raise SpaceError(f"agent {name!r}: the {what} must be a bool, got {brief(flag)}")
    return bool(flag)


def _info(infos: Any, name: str) -> Any:
    return infos.get(name) if type(infos) is dict or isinstance(infos, Mapping) else None
