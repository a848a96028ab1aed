"""Which agents share an axis: groups of agents with equal spaces, or one padded group."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.layout import Layout
from vecenv._batch.slots import Group, Slots
from vecenv._util.checks import positive_int
from vecenv.errors import ConfigError, ConfigTypeError, SpaceError

ONE_GROUP = "agents"
"""The name of the group if there is only one."""


@dataclass(frozen=True)
class SlotOptions:
    """What `make` was asked for about agents; see there.

    Attributes:
        end: "all" or "any".
        slots: how many slots there are, per group if there are several; None: one per possible agent.
        groups: names of agents by group; None: agents with equal spaces.
        pad: whether agents with unequal spaces become one group.
    """

    end: Any = "all"
    slots: int | Mapping[str, int] | None = None
    groups: Mapping[str, Sequence[str]] | None = None
    pad: bool = False

    def __post_init__(self) -> None:
        if self.end not in ("all", "any"):
            raise ConfigError(f"end must be 'all' or 'any', got {self.end!r:.40}")
        if not isinstance(self.pad, bool):
            raise ConfigTypeError(f"pad must be True or False, got {self.pad!r:.40}")
        if self.pad and self.groups is not None:
            raise ConfigError("pad=True makes one group of all agents; leave groups out")
        if isinstance(self.slots, Mapping):
            for name, count in self.slots.items():
                positive_int(f"slots[{name!r}]", count)
        elif self.slots is not None:
            positive_int("slots", self.slots)
        if self.groups is not None:
            _check_groups(self.groups)


def _check_groups(groups: Any) -> None:
    if not isinstance(groups, Mapping) or not groups:
        raise ConfigTypeError(f"groups must be a dict of agents' names by group, got {groups!r:.60}")
    seen: dict[str, str] = {}
    for group, names in groups.items():
        if not isinstance(group, str) or isinstance(names, str) or not isinstance(names, Sequence) or not names:
            raise ConfigTypeError(f"groups[{group!r}] must be a list of agents' names, got {names!r:.60}")
        for name in names:
            if name in seen:
                raise ConfigError(f"agent {name!r} is in the groups {seen[name]!r} and {group!r}; name it once")
            seen[name] = group


Spaces = tuple[Space[Any], Space[Any]]
"""Observation and action space of one agent."""


def find_slots(agents: Sequence[str], spaces_of: Callable[[str], Spaces], options: SlotOptions) -> Slots:
    """The slots of an env.

    Args:
        agents: the possible ones, or those that live after a reset.
        spaces_of: a function of an agent's name.
        options: of `make`.

    Raises:
        SpaceError: agents of one group have unequal spaces, or spaces without a fixed size.
        ConfigError: the options name agents or groups that do not exist.
    """
    known = {name: spaces_of(name) for name in agents}
    for name, (observation, action) in known.items():
        for kind, space in (("observation", observation), ("action", action)):
            if Layout(space).by_value:
                raise SpaceError(
                    f"the {kind} space of agent {name!r} has no fixed size ({space}); slots need Box, Discrete, "
                    "MultiDiscrete, MultiBinary, and Dict or Tuple of these"
                )
    if options.pad:
        members = {ONE_GROUP: list(known)}
    elif options.groups is not None:
        members = _named_groups(known, options.groups)
    else:
        members = _equal_groups(known)
    built = []
    for group, names in members.items():
        observation, action = padded_spaces(known) if options.pad else known[names[0]]
        built.append(Group(group, tuple(names), observation, action))
    return Slots(tuple(built)) if options.slots is None else _with_counts(built, options.slots)


def _equal_groups(known: Mapping[str, Spaces]) -> dict[str, list[str]]:
    """Agents with equal spaces, named by what their names have in common."""
    equal: list[tuple[Spaces, list[str]]] = []
    for name, each in known.items():
        for spaces_of_group, names in equal:
            if spaces_of_group == each:
                names.append(name)
                break
        else:
            equal.append((each, [name]))
    if len(equal) == 1:
        return {ONE_GROUP: equal[0][1]}
    stems = ["+".join(dict.fromkeys(re.sub(r"_?\d+$", "", str(name)) for name in names)) for _, names in equal]
    unique = len(set(stems)) == len(stems) and all(stems)
    return {stem if unique else str(names[0]): names for stem, (_, names) in zip(stems, equal, strict=True)}


def _named_groups(known: Mapping[str, Spaces], groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    listed = [name for names in groups.values() for name in names]
    for name in listed:
        if name not in known:
            raise ConfigError(f"groups names the agent {name!r}; the env has {sorted(map(str, known))}")
    for name in known:
        if name not in listed:
            raise ConfigError(f"groups leaves out the agent {name!r}; name every agent once")
    for group, names in groups.items():
        for name in names:
            if known[name] != known[names[0]]:
                raise SpaceError(
                    f"group {group!r} has agents with unequal spaces: {names[0]!r} has {_words(known[names[0]])}, "
                    f"{name!r} has {_words(known[name])}; put them into groups of their own, or use pad=True"
                )
    return {group: list(names) for group, names in groups.items()}


def _words(each: Spaces) -> str:
    return f"observations {each[0]} and actions {each[1]}"


def _with_counts(groups: Sequence[Group], slots: int | Mapping[str, int]) -> Slots:
    """As many slots as declared, which any agent of the group takes."""
    if not isinstance(slots, Mapping):
        if len(groups) > 1:
            names = [group.name for group in groups]
            raise ConfigError(f"slots={slots}, but there are the groups {names}; pass slots={{group: count}}")
        slots = {groups[0].name: slots}
    if set(slots) != {group.name for group in groups}:
        raise ConfigError(f"slots has the groups {sorted(slots)}, the env has {[group.name for group in groups]}")
    counted = []
    for group in groups:
        names = tuple(f"{group.name}[{index}]" for index in range(slots[group.name]))
        counted.append(Group(group.name, names, group.observation_space, group.action_space))
    return Slots(tuple(counted), named=False)


# --- one group of unequal agents -------------------------------------------------------------------------------------


def padded_spaces(known: Mapping[str, Spaces]) -> Spaces:
    """The smallest spaces that hold those of all agents. Raises SpaceError for spaces that cannot be padded."""
    return _padded("observation", {name: each[0] for name, each in known.items()}), _padded(
        "action", {name: each[1] for name, each in known.items()}
    )


def _padded(kind: str, each: Mapping[str, Space[Any]]) -> Space[Any]:
    first_name, first = next(iter(each.items()))
    if all(space == first for space in each.values()):
        return first
    for name, space in each.items():
        if _form(space) is None or _form(space) != _form(first):
            raise SpaceError(
                f"pad=True cannot make one {kind} space of {first} (agent {first_name!r}) and {space} (agent "
                f"{name!r}); it pads Box spaces with as many axes, and Discrete spaces that start at 0"
            )
    if isinstance(first, spaces.Discrete):
        discrete: list[Any] = list(each.values())
        return spaces.Discrete(max(int(space.n) for space in discrete))
    boxes_of: list[Any] = list(each.values())
    shape = tuple(np.max([space.shape for space in boxes_of], axis=0).tolist())
    dtype = np.result_type(*[space.dtype for space in boxes_of])
    lows = [_grown(space.low, shape, dtype) for space in boxes_of]
    highs = [_grown(space.high, shape, dtype) for space in boxes_of]
    return spaces.Box(np.min(lows, axis=0), np.max(highs, axis=0), shape, dtype.type)


def _form(space: Space[Any]) -> tuple[str, int] | None:
    """What spaces have in common that can be padded to one; None of one that cannot be padded."""
    if isinstance(space, spaces.Discrete):
        return ("discrete", 0) if space.start == 0 else None
    return ("box", len(space.shape)) if isinstance(space, spaces.Box) else None


def _grown(values: np.ndarray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros of this shape with the values in their first corner."""
    grown = np.zeros(shape, dtype)
    grown[tuple(map(slice, values.shape))] = values
    return grown


def padder(own: Space[Any], group: Space[Any]) -> Callable[[Any], Any] | None:
    """A function that pads an observation of one agent, None if there is nothing to pad."""
    if own == group or not isinstance(group, spaces.Box):
        return None
    shape, own_shape = group.shape, own.shape

    def pad(obs: Any) -> Any:
        array = np.asarray(obs)
        if array.shape != own_shape:
            raise SpaceError(f"observation has shape {array.shape}, its space {own} has {own_shape}")
        return _grown(array, shape, array.dtype)

    return pad


def cropper(own: Space[Any], group: Space[Any]) -> Callable[[Any], Any] | None:
    """A function that makes an action of a padded space one of the agent's own, None if there is nothing to do.

    A Discrete action that the agent does not have becomes 0.
    """
    if own == group:
        return None
    if isinstance(own, spaces.Discrete):
        limit = own.n
        return lambda action: action if action < limit else np.int64(0)
    assert isinstance(own, spaces.Box)
    corner, dtype = tuple(map(slice, own.shape)), own.dtype
    return lambda action: action[corner].astype(dtype)
