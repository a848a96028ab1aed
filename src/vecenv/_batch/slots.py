"""Slots: the places of the agents in one env, and the spaces of a row that has them.

A row with several agents is an ordinary row. Its observation carries everything that has an axis of slots: what each
agent sees, its reward and its flags. So engines, autoreset, faults and recordings handle it like any other row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space

FLAGS = ("acts", "valid", "alive", "terminated", "truncated")
"""The rows of the leaf "flags": who must act now, which entries are transitions, who lives, whose episode ended."""
SLOT_MASK = "slot_mask"
"""The info of a kernel's row that has the action masks of its agents: [slots, actions]."""


@dataclass(frozen=True)
class Group:
    """Agents with equal spaces.

    Attributes:
        agents: one name per slot; names of slots where agents take any slot that is free.
        observation_space, action_space: of one agent.
    """

    name: str
    agents: tuple[str, ...]
    observation_space: Space[Any]
    action_space: Space[Any]

    def __len__(self) -> int:
        return len(self.agents)


@dataclass(frozen=True)
class Slots:
    """All slots of a row: those of the first group, then those of the next.

    Attributes:
        groups: at least one.
        named: whether each slot belongs to one agent. Otherwise agents take the first free slot of their group.
    """

    groups: tuple[Group, ...]
    named: bool = True

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    @property
    def agents(self) -> tuple[str, ...]:
        """The agent of each slot."""
        return tuple(agent for group in self.groups for agent in group.agents)

    def parts(self) -> list[slice]:
        """The slots of each group."""
        found, start = [], 0
        for group in self.groups:
            found.append(slice(start, start + len(group)))
            start += len(group)
        return found

    def nest(self, per_group: Sequence[Any]) -> Any:
        """One value per group as users see it: the value itself of a single group, else a dict by group."""
        if len(self.groups) == 1:
            return per_group[0]
        return {group.name: value for group, value in zip(self.groups, per_group, strict=True)}

    def split(self, column: np.ndarray) -> Any:
        """An array [rows, slots] as users see it."""
        return self.nest([column[:, part] for part in self.parts()])

    def flat(self, by_group: Any) -> list[Any]:
        """The reverse of `nest`."""
        return [by_group] if len(self.groups) == 1 else [by_group[group.name] for group in self.groups]

    def action_space(self) -> Space[Any]:
        """The actions of all slots of a row."""
        batched = [batch_space(group.action_space, len(group)) for group in self.groups]
        return batched[0] if len(batched) == 1 else spaces.Dict(self.nest(batched))


class SlotSpace(spaces.Dict):
    """The observation space of a row with slots; `slots` says what they are.

    Its parts are "obs" (what agents see: an axis of slots before each leaf, by group where there are several),
    "reward" [slots] and "flags" [FLAGS, slots].
    """

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        batched = [batch_space(group.observation_space, len(group)) for group in slots.groups]
        super().__init__(
            {
                "flags": spaces.MultiBinary((len(FLAGS), len(slots))),
                "obs": batched[0] if len(batched) == 1 else spaces.Dict(slots.nest(batched)),
                "reward": spaces.Box(-np.inf, np.inf, (len(slots),), np.float64),
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSpace) and self.slots == other.slots

    __hash__ = None  # type: ignore[assignment]  # as of Gymnasium's spaces
