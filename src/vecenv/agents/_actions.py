"""Actions of agents: checked before anything is sent, and brought into the form that rows take."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.layout import Columns, Layout
from vecenv._batch.slots import Group, Slots
from vecenv._util.checks import brief
from vecenv.errors import InvalidAction


def neutral(space: Space[Any]) -> Any:
    """An action of the space: the first of a discrete one, zeros of a Box. Agents that do not act get it."""
    if isinstance(space, spaces.Dict):
        return {key: neutral(child) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(neutral(child) for child in space.spaces)
    if isinstance(space, spaces.Discrete):
        return np.int64(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return np.array(space.start, space.dtype)
    return np.zeros(space.shape or (), space.dtype)


class ActionPacker:
    """Turns what users pass as actions into actions of rows.

    Args:
        slots: of a row.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._layouts = [Layout(group.action_space) for group in slots.groups]
        self._neutral = [
            [np.asarray(leaf) for leaf in layout.flat(neutral(group.action_space))]
            for layout, group in zip(self._layouts, slots.groups, strict=True)
        ]

    def pack(self, actions: Any, rows: np.ndarray, acts: np.ndarray, names: Sequence[Sequence[str]]) -> Any:
        """Actions as rows take them.

        Args:
            actions: an array [rows, slots, ...] of the group, or a dict of them by group; or a list of one dict by
                agent per row.
            rows: which rows they are for.
            acts: [rows, slots]: who must act. The actions of others are ignored.
            names: of the agents of each row, by slot; those of the slots themselves where no agent is.

        Raises:
            InvalidAction: naming env and agent, what was given and what was expected.
        """
        if isinstance(actions, (list, tuple)) and any(isinstance(each, Mapping) for each in actions):
            packed = self._from_dicts(actions, rows, acts, names)
        else:
            parts = self._by_group(actions)
            packed = [
                self._from_arrays(place, part, rows, acts[:, slots], [each[slots] for each in names])
                for place, (part, slots) in enumerate(zip(parts, self._slots.parts(), strict=True))
            ]
        return self._slots.nest([layout.nest(columns) for layout, columns in zip(self._layouts, packed, strict=True)])

    def _by_group(self, actions: Any) -> list[Any]:
        """One batch of actions per group."""
        groups = self._slots.groups
        known = [group.name for group in groups]
        if isinstance(actions, Mapping) and set(actions) == set(known):
            return [actions[name] for name in known]
        if len(groups) == 1 and not (isinstance(actions, Mapping) and isinstance(self._layouts[0].space, spaces.Box)):
            return [actions]
        got = sorted(map(str, actions)) if isinstance(actions, Mapping) else brief(actions)
        raise InvalidAction(
            f"actions must be a dict of arrays by group with the keys {known}, or a list of one dict by agent per env; "
            f"got {got}; nothing was sent"
        )

    def _from_arrays(
        self, place: int, actions: Any, rows: np.ndarray, acts: np.ndarray, names: Sequence[Sequence[str]]
    ) -> Columns:
        """Leaves [rows, slots, ...] of one group's actions."""
        layout, group, count = self._layouts[place], self._slots.groups[place], len(rows)
        leaves = self._leaves(layout, group, actions, count)
        idle = None if acts.all() else ~acts
        columns = []
        for leaf, neutral_leaf in zip(leaves, self._neutral[place], strict=True):
            if idle is not None:
                leaf = leaf.astype(np.result_type(leaf, neutral_leaf)) if leaf.dtype.kind == "b" else leaf.copy()
                leaf[idle] = neutral_leaf
            columns.append(leaf.reshape(count * len(group), *leaf.shape[2:]))
        try:
            packed = layout.pack(layout.nest(columns), count * len(group))
        except InvalidAction as error:
            wrong = self._first_wrong(layout, columns)
            if wrong is None:
                raise InvalidAction(f"actions of group {group.name!r}: {error}") from None
            row, slot = divmod(wrong[0], len(group))
            raise _wrong_action(int(rows[row]), names[row][slot], group, wrong[1]) from None
        return [column.reshape(count, len(group), *column.shape[1:]) for column in packed]

    def _leaves(self, layout: Layout, group: Group, actions: Any, count: int) -> list[np.ndarray]:
        """Arrays with an axis of rows and one of slots, whose numbers are not checked yet."""
        wanted = [(count, len(group), *leaf.shape) for leaf in layout.leaves]
        try:
            leaves = [np.asarray(leaf) for leaf in layout.flat(actions)]
        except Exception as error:
            raise InvalidAction(
                f"actions of group {group.name!r} must be arrays of shape {wanted} nested like {group.action_space}, "
                f"got {brief(actions)} ({error}); nothing was sent"
            ) from None
        for leaf, shape in zip(leaves, wanted, strict=True):
            if leaf.shape != shape:
                raise InvalidAction(
                    f"actions of group {group.name!r} have shape {leaf.shape}, {group.action_space} for {count} envs "
                    f"with {len(group)} slots needs {shape}; nothing was sent"
                )
        return leaves

    def _first_wrong(self, layout: Layout, columns: Columns) -> tuple[int, InvalidAction] | None:
        """The first action that is not of its space, and why."""
        for index in range(len(columns[0])):
            try:
                layout.pack(layout.nest([column[index : index + 1] for column in columns]), 1)
            except InvalidAction as error:
                return index, error
        return None

    # --- dicts by agent ----------------------------------------------------------------------------------------------

    def _from_dicts(
        self, actions: Sequence[Any], rows: np.ndarray, acts: np.ndarray, names: Sequence[Sequence[str]]
    ) -> list[Columns]:
        count, slots = len(rows), self._slots
        if len(actions) != count:
            raise InvalidAction(f"got {len(actions)} dicts of actions for {count} envs; pass one dict per env")
        packed = [
            [np.broadcast_to(leaf, (count, len(group), *leaf.shape)).copy() for leaf in leaves]
            for leaves, group in zip(self._neutral, slots.groups, strict=True)
        ]
        for position, given in enumerate(actions):
            self._check_names(given, int(rows[position]), acts[position], names[position])
        for place, part in enumerate(slots.parts()):
            at = np.nonzero(acts[:, part])
            places = zip(at[0].tolist(), at[1].tolist(), strict=True)
            agents: list[str] = [names[int(position)][int(part.start + slot)] for position, slot in places]
            if not agents:
                continue
            given = [actions[position][name] for position, name in zip(at[0].tolist(), agents, strict=True)]
            for column, values in zip(packed[place], self._packed(place, given, rows[at[0]], agents), strict=True):
                column[at] = values
        return packed

    def _check_names(self, given: Any, row: int, acts: np.ndarray, names: Sequence[str]) -> None:
        """Raise unless there is one action for each agent that must act, and none for others."""
        wanted = [names[slot] for slot in np.flatnonzero(acts).tolist()]
        if not isinstance(given, Mapping):
            raise InvalidAction(f"env {row}: actions must be a dict by agent, got {brief(given)}; nothing was sent")
        for name in given:
            if name not in names:
                raise InvalidAction(f"env {row} has no agent {name!r}; it has {sorted(names)}; nothing was sent")
            if name not in wanted:
                raise InvalidAction(
                    f"env {row}: agent {name!r} does not act now (it is dead, or it is not its turn), but has an "
                    f"action; pass actions for {wanted}; nothing was sent"
                )
        missing = [name for name in wanted if name not in given]
        if missing:
            raise InvalidAction(
                f"env {row}: no action for agent {missing[0]!r}; pass actions for {wanted}; nothing was sent"
            )

    def _packed(self, place: int, given: list[Any], rows: np.ndarray, agents: Sequence[str]) -> Columns:
        """Leaves of the actions of some agents of a group."""
        layout, group = self._layouts[place], self._slots.groups[place]
        kinds = {(type(action), getattr(action, "dtype", None)) for action in given}
        if len(kinds) == 1:  # an array of several kinds could hide that one of them is wrong
            with contextlib.suppress(InvalidAction):  # which agent's it is, is found below
                return layout.pack(given, len(given))
        single = []
        for action, row, name in zip(given, rows.tolist(), agents, strict=True):
            try:
                single.append(layout.pack([action], 1))
            except InvalidAction as error:
                raise _wrong_action(row, name, group, error) from None
        return [np.concatenate(leaves) for leaves in zip(*single, strict=True)]


def _wrong_action(row: int, name: str, group: Group, error: InvalidAction) -> InvalidAction:
    why = str(error).removeprefix("env 0: ")
    return InvalidAction(f"env {row}, agent {name!r} of group {group.name!r}: {why}")
