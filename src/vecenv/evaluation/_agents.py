"""Evaluation of several agents per env: the rows that the loop runs, and the policies of the agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from vecenv._batch.batch import Op
from vecenv._batch.layout import Layout, map_tree
from vecenv._batch.slots import Group
from vecenv.agents import MultiAgentVectorEnv
from vecenv.agents._actions import neutral
from vecenv.errors import ConfigError
from vecenv.evaluation._policies import Actor


@dataclass(frozen=True, eq=False)
class RowStep:
    """What the loop reads of a step: as `Step`, with one entry per env.

    An episode is terminated if none of its agents is truncated at its end. Its return is that of all agents together.
    """

    obs: Any
    infos: dict[str, Any]
    env_ids: np.ndarray
    done: np.ndarray
    valid: np.ndarray
    terminated: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray


class AgentRows:
    """Envs with several agents, one row per env, as the evaluation's loop steps them."""

    def __init__(self, envs: MultiAgentVectorEnv) -> None:
        self.agents = envs
        self.num_envs, self.unwrapped = envs.num_envs, envs.rows
        self.single_action_space = envs.rows.single_action_space
        self.single_observation_space: Any = envs.rows.single_observation_space["obs"]  # type: ignore[index]  # a Dict
        self.close, self.reset = envs.close, envs.reset
        self.send, self.send_reset = envs.send, envs.send_reset

    def recv(self) -> RowStep:
        """Wait for some of the envs that were sent."""
        step, slots = self.agents.recv(), self.agents.slots
        cut = np.concatenate(slots.flat(step.truncated), axis=1).any(axis=1)
        return RowStep(
            step.obs, step.infos, step.env_ids, step.done, step.ops != int(Op.RESET), step.done & ~cut,
            step.episode_return, step.episode_length,
        )  # fmt: skip


class AgentActor:
    """Calls the policies of agents for actions: an `Actor` per group, asked for the agents that must act.

    Args:
        policy: one policy, or a dict of policies by group.
        envs: the envs.
        deterministic: as of `Actor`.
    """

    def __init__(self, policy: Any, envs: MultiAgentVectorEnv, deterministic: bool) -> None:
        self._envs = envs
        self._groups = list(zip(envs.slots.groups, policies_of(policy, envs), envs.slots.parts(), strict=True))
        self._actors = [
            Actor(own, _flat(envs.num_envs * len(group), group), deterministic) for group, own, _ in self._groups
        ]
        self._starts = np.ones((envs.num_envs, envs.num_slots), np.bool_)
        """Which agents have not acted in their episode yet."""
        self._masks: list[np.ndarray | None] = [None] * len(self._actors)
        """Which actions are allowed, [N, A, actions] of each group."""

    def masks(self, infos: Any, env_ids: np.ndarray, acting: np.ndarray) -> None:
        """Note the masks in the infos of `env_ids`, for the next `act`."""
        for place, (group, _, part) in enumerate(self._groups):
            own = infos if len(self._groups) == 1 else infos.get(group.name, {})
            width = len(group)
            flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in own.items() if _has_slots(value)}
            acts = (self._envs._acts[env_ids, part] & acting[:, None]).reshape(-1)
            rows = (env_ids[:, None] * width + np.arange(width)).reshape(-1)
            masks = self._actors[place].masks(flat, rows, acts)
            if masks is None:
                continue
            kept = self._masks[place]
            if kept is None:
                kept = self._masks[place] = np.ones((self._envs.num_envs, width, masks.shape[-1]), masks.dtype)
            kept[env_ids] = masks.reshape(len(env_ids), width, -1)

    def act(self, obs: Any, rows: np.ndarray, starts: np.ndarray, masks: None) -> Any:
        """Actions of all agents of the envs `rows`, by group; those of agents that do not act mean nothing."""
        self._starts[rows[starts]] = True
        acts, found = self._envs._acts[rows], []
        for place, (group, _, part) in enumerate(self._groups):
            at = np.nonzero(acts[:, part])
            own = self._envs.slots.flat(obs)[place]
            layout = Layout(group.action_space)
            first = layout.flat(neutral(group.action_space))
            columns = [np.broadcast_to(leaf, (*acts[:, part].shape, *np.shape(leaf))).copy() for leaf in first]
            if len(at[0]):
                began = self._starts[rows, part][at]
                kept = self._masks[place]
                actions = self._actors[place].act(
                    map_tree(lambda leaf, at=at: leaf[at], own), rows[at[0]] * len(group) + at[1], began,
                    None if kept is None else kept[rows][at],
                )  # fmt: skip
                for column, leaf in zip(columns, layout.flat(actions), strict=True):
                    column[at] = leaf
            found.append(layout.nest(columns))
        self._starts[rows] &= ~acts
        return self._envs.slots.nest(found)


def policies_of(policy: Any, envs: MultiAgentVectorEnv) -> list[Any]:
    """One policy per group, in the order of the groups.

    Raises:
        ConfigError: there are several groups, and not a policy for each; or a dict names others.
    """
    if not isinstance(policy, Mapping):
        if len(envs.groups) > 1:
            raise ConfigError(f"these envs have the groups {list(envs.groups)}; pass a dict of policies by group")
        return [policy]
    if set(policy) != set(envs.groups):
        raise ConfigError(f"policy has the groups {sorted(map(str, policy))}, the envs have {list(envs.groups)}")
    return [policy[name] for name in envs.groups]


def _flat(count: int, group: Group) -> Any:
    """What `Actor` reads of its envs."""
    return SimpleNamespace(num_envs=count, single_action_space=group.action_space)


def _has_slots(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim >= 2
