"""An env with several agents as an env of one row: everything that has an axis of slots is in its observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import iterate

from vecenv._batch.layout import Layout
from vecenv._batch.own import own_info
from vecenv._batch.slots import FLAGS, SlotSpace
from vecenv._util.text import type_name
from vecenv.agents._groups import SlotOptions, Spaces, cropper, find_slots, padder
from vecenv.agents._turns import Entry, GymnasiumAgents, Turn, is_multi_agent, rules_of
from vecenv.errors import ConfigError, ConfigTypeError, SpaceError

SLOT_INFOS = "slot_infos"
"""The key of a row's info that has those of its agents."""
_ACTS, _VALID, _ALIVE, _TERMINATED, _TRUNCATED = range(len(FLAGS))


class SlotInfos:
    """Infos of a row's agents, and which agent is in which slot. Not a dict: it travels as it is.

    Attributes:
        by_slot: infos that are not empty.
        names: of the agent in each slot; None if that has not changed.
    """

    def __init__(self, by_slot: dict[int, dict[str, Any]], names: tuple[str, ...] | None) -> None:
        self.by_slot = by_slot
        self.names = names

    def __repr__(self) -> str:
        return f"SlotInfos({self.by_slot!r}, {self.names!r})"


def slotted(
    env: Any,
    *,
    agents: bool | None = None,
    end: str = "all",
    slots: int | Mapping[str, int] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    pad: bool = False,
) -> Any:
    """A PettingZoo env as an env of one row; any other env as it is.

    Args:
        agents: True: the env must have several agents, and a Gymnasium env has them by its `num_agents`.
        end, slots, groups, pad: see `vecenv.make`.
    """
    if agents and isinstance(env, gymnasium.Env) and not isinstance(env, SlotEnv):
        if not hasattr(env.unwrapped, "num_agents"):
            raise ConfigTypeError(
                f"agents=True, but {type_name(env.unwrapped)} has no num_agents; a Gymnasium env with several agents "
                "says how many"
            )
        env = GymnasiumAgents(env)
    if is_multi_agent(env) and not isinstance(env, gymnasium.Env):
        return SlotEnv(env, SlotOptions(end, slots, groups, pad))
    if agents and not isinstance(env, SlotEnv):
        raise ConfigTypeError(f"agents=True needs a PettingZoo env or an env with num_agents, got {type_name(env)}")
    return env


class SlotEnv(gymnasium.Env[Any, Any]):
    """A PettingZoo env as an env of one row.

    Its reward is the sum of the rewards of its agents, and its flags say that the episode of the row is over. The rest
    is in the observation, see `SlotSpace`.

    Args:
        env: a PettingZoo parallel or AEC env, which this env owns.
        options: of `make`.
    """

    def __init__(self, env: Any, options: SlotOptions) -> None:
        self.env = env
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self._options = options
        self._rules = rules_of(env, options.end)
        self._own: dict[str, Spaces] = {}
        """The spaces of every agent that was seen."""
        self.slots = slots = find_slots(self._first_agents(), self._spaces_of, options)
        self.observation_space = SlotSpace(slots)
        self.action_space = slots.action_space()
        self._parts, self._count = slots.parts(), len(slots)
        self._group_of = [place for place, group in enumerate(slots.groups) for _ in group.agents]
        self._layouts = [Layout(group.observation_space) for group in slots.groups]
        counts = [len(group) for group in slots.groups]
        self._columns = [
            [np.zeros((count, *leaf.shape), leaf.dtype) for leaf in layout.leaves]
            for layout, count in zip(self._layouts, counts, strict=True)
        ]
        self._writers = [layout.writer(columns) for layout, columns in zip(self._layouts, self._columns, strict=True)]
        self._action_spaces = slots.flat(self.action_space)
        self._slot_of: dict[str, int] = {name: slot for slot, name in enumerate(slots.agents)} if slots.named else {}
        """The slot of each agent."""
        self._names: tuple[str, ...] | None = None
        """Of the agent in each slot, as it was last reported; only where agents take any slot."""
        self._leaving: list[str] = []
        """Agents whose slot is free from the next step on."""
        self._acts: list[tuple[str, int]] = []
        """Who must act, and its slot."""
        self._pads: dict[str, Callable[[Any], Any] | None] = {}
        self._crops: dict[str, Callable[[Any], Any] | None] = {}

    # --- Gymnasium's calls -------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        turn = self._rules.reset(seed, options)
        if not self.slots.named:
            self._slot_of, self._leaving, self._names = {}, [], None
        obs, _, infos = self._results(turn)
        return obs, infos

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step with the actions of all slots; those of slots that do not act are ignored."""
        turn = self._rules.step(self._actions(action))
        terminated, truncated = turn.flags()
        if turn.is_cut:
            for name in turn.alive:
                entry = turn.entries.pop(name)
                if entry.valid:  # an agent that has not acted yet has no transition
                    turn.entries[name] = entry._replace(truncated=True)
            turn.alive = turn.acts = ()
        obs, reward, infos = self._results(turn)
        return obs, reward, terminated, truncated, infos

    def render(self) -> Any:
        """As the env does."""
        return self.env.render()

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether this env, or the one inside, has the attribute."""
        return hasattr(self.env, name) or hasattr(self, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute of the env inside, or of this one."""
        return getattr(self.env, name) if hasattr(self.env, name) else getattr(self, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the env inside."""
        if not force and not hasattr(self.env, name):
            return False
        setattr(self.env, name, value)
        return True

    # --- who is there ------------------------------------------------------------------------------------------------

    def _first_agents(self) -> list[str]:
        """The possible agents; of an env that does not know them, those of its first episode."""
        possible = getattr(self.env, "possible_agents", None)
        if possible:
            return list(possible)
        if self._options.slots is None:
            raise ConfigError(
                f"{type_name(self.env)} has no possible_agents, so it does not say how many agents there may be; pass "
                "slots=, the largest number that live at once"
            )
        self.env.reset()
        return list(self.env.agents)

    def _spaces_of(self, name: str) -> Spaces:
        if name not in self._own:
            self._own[name] = self.env.observation_space(name), self.env.action_space(name)
        return self._own[name]

    def _slot(self, name: str) -> int:
        """The slot of an agent; one that joins takes the first free one of its group."""
        slot = self._slot_of.get(name)
        if slot is not None:
            return slot
        if self.slots.named:
            raise SpaceError(
                f"agent {name!r} is in `agents`, but not in possible_agents {list(self.slots.agents)}; pass slots=, "
                "the largest number of agents that live at once"
            )
        place = self._place_of(name)
        taken = set(self._slot_of.values())
        part = self._parts[place]
        free = next((slot for slot in range(part.start, part.stop) if slot not in taken), None)
        if free is None:
            count, group = part.stop - part.start, self.slots.groups[place].name
            raise SpaceError(
                f"agent {name!r} joins, but all {count} slots of group {group!r} are taken; pass a larger slots= (an "
                "agent that has just died keeps its slot for one step, to report its last transition)"
            )
        self._slot_of[name] = free
        return free

    def _place_of(self, name: str) -> int:
        """The group of an agent that joins: the one it is listed in, or the first with its spaces."""
        groups, spaces = self.slots.groups, self._spaces_of(name)
        if self._options.pad:
            return 0
        for place, group in enumerate(groups):
            listed = (self._options.groups or {}).get(group.name, ())
            if name in listed:
                return place
        for place, group in enumerate(groups):
            if (group.observation_space, group.action_space) == spaces:
                return place
        raise SpaceError(
            f"agent {name!r} has observations {spaces[0]} and actions {spaces[1]}, which no group has; make the env "
            "with an agent of that kind in its first episode, or with possible_agents"
        )

    # --- actions -----------------------------------------------------------------------------------------------------

    def _actions(self, action: Any) -> dict[str, Any]:
        """The actions of the agents that must act, by name."""
        single = len(self.slots.groups) == 1
        batches = [action] if single else [action[group.name] for group in self.slots.groups]
        lists = [
            batch if type(batch) is np.ndarray else list(iterate(space, batch))
            for batch, space in zip(batches, self._action_spaces, strict=True)
        ]
        actions = {}
        for name, slot in self._acts:
            place = self._group_of[slot]
            chosen = lists[place][slot - self._parts[place].start]
            if self._options.pad:
                chosen = self._cropped(name, chosen)
            actions[name] = chosen
        return actions

    def _cropped(self, name: str, action: Any) -> Any:
        if name not in self._crops:
            self._crops[name] = cropper(self._spaces_of(name)[1], self.slots.groups[0].action_space)
        crop = self._crops[name]
        return action if crop is None else crop(action)

    # --- results -----------------------------------------------------------------------------------------------------

    def _results(self, turn: Turn) -> tuple[Any, float, dict[str, Any]]:
        """The observation of the row, the sum of rewards, and infos."""
        count, named = self._count, self.slots.named
        for name in self._leaving:
            del self._slot_of[name]
        alive = [self._slot(name) for name in turn.alive]
        flags = np.zeros((len(FLAGS), count), np.int8)
        rewards = np.zeros(count)
        if len(turn.entries) < count:
            for columns in self._columns:
                for column in columns:
                    column[...] = 0
        infos: dict[int, dict[str, Any]] = {}
        for name, entry in turn.entries.items():
            slot = self._slot(name)
            self._write(name, slot, entry)
            rewards[slot] = entry.reward
            flags[_VALID, slot] = entry.valid
            flags[_TERMINATED, slot] = entry.terminated
            flags[_TRUNCATED, slot] = entry.truncated
            if entry.info:
                infos[slot] = own_info(entry.info)
        flags[_ALIVE, alive] = 1
        self._acts = [(name, self._slot(name)) for name in turn.acts]
        flags[_ACTS, [slot for _, slot in self._acts]] = 1
        self._leaving = [] if named else [name for name, entry in turn.entries.items() if entry.over]
        parts = [
            layout.nest([column.copy() for column in columns])
            for layout, columns in zip(self._layouts, self._columns, strict=True)
        ]
        obs = {"flags": flags, "obs": self.slots.nest(parts), "reward": rewards}
        return obs, float(sum(rewards.tolist())), self._infos(infos, turn)

    def _write(self, name: str, slot: int, entry: Entry) -> None:
        """Store what an agent sees."""
        place, obs = self._group_of[slot], entry.obs
        try:
            if self._options.pad:
                if name not in self._pads:
                    self._pads[name] = padder(self._spaces_of(name)[0], self.slots.groups[0].observation_space)
                pad = self._pads[name]
                obs = obs if pad is None else pad(obs)
            self._writers[place](slot - self._parts[place].start, obs)
        except SpaceError as error:
            raise SpaceError(f"agent {name!r}: {error}") from None

    def _infos(self, infos: dict[int, dict[str, Any]], turn: Turn) -> dict[str, Any]:
        names = None
        if not self.slots.named:
            listed = list(self.slots.agents)
            for name, slot in self._slot_of.items():
                listed[slot] = name
            names = tuple(listed)
            names, self._names = (None if names == self._names else names), names
        if not infos and names is None:
            return turn.infos
        return {**turn.infos, SLOT_INFOS: SlotInfos(infos, names)}
