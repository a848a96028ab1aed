"""Several learners per env against a policy, which plays the other agents."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from vecenv._batch.layout import map_tree
from vecenv._batch.slots import Group, Slots
from vecenv._front.autoreset import rolls
from vecenv.agents._opponents import Opponents
from vecenv.errors import UnsupportedError

if TYPE_CHECKING:
    from vecenv.agents._step import AgentStep
    from vecenv.agents._vector_env import InfoParts, MultiAgentVectorEnv


class Team:
    """The learners of envs as the agents of envs, of which `FlatVectorEnv` makes rows.

    The episode of an env is over when it is over for all learners; the next begins in the same step.

    Args:
        agents: envs whose agents have equal spaces and act at once.
        policy: a function of a batch of observations, or a `League`.
        learners: the slots of the learners.

    Raises:
        UnsupportedError: the envs do not begin episodes in the same step.
    """

    def __init__(self, agents: MultiAgentVectorEnv, policy: Any, learners: np.ndarray) -> None:
        if not rolls(agents.autoreset_mode):
            raise UnsupportedError("versus with several learners needs envs made with autoreset='same-step'")
        self.everyone, self.learners = agents, learners
        self.num_envs = agents.num_envs
        group = agents._only("versus")
        names = tuple(group.agents[slot] for slot in learners)
        own = Group(group.name, names, group.observation_space, group.action_space)
        self.slots = Slots((own,), agents.slots.named)
        self.groups = {own.name: names}
        self.metadata, self.render_mode = agents.metadata, agents.render_mode
        self.close, self.render, self.call = agents.close, agents.render, agents.call
        self.get_attr, self.set_attr = agents.get_attr, agents.set_attr
        learns = np.zeros((self.num_envs, agents.num_slots), np.bool_)
        learns[:, learners] = True
        self._others = Opponents(agents, policy, learns)
        self._rows = np.arange(self.num_envs)
        self._valid = np.zeros((self.num_envs, len(learners)), np.bool_)

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """Gymnasium's enum."""
        return self.everyone.autoreset_mode

    @property
    def engine_reason(self) -> str:
        """Why this engine was chosen."""
        return self.everyone.engine_reason

    @property
    def opponents(self) -> list[str]:
        """With a league, the name of the opponent of each env's episode."""
        return self._others.names

    @property
    def _acts(self) -> np.ndarray:
        return self.everyone._acts[:, self.learners]

    def get_state(self) -> Any:
        """Raises UnsupportedError: who plays against the learners is not part of the state of envs."""
        raise UnsupportedError("envs.versus(...) has no get_state: its opponents are not part of the state")

    set_state = get_state

    def _reset(self, seed: Any, options: Any) -> tuple[Any, InfoParts]:
        mask = None if not isinstance(options, Mapping) else options.get("reset_mask")
        rows = self._rows if mask is None else np.flatnonzero(mask)
        obs, parts = self._others.reset(rows, seed, options)
        if not self._acts[rows].all():
            raise UnsupportedError(
                "versus with several learners is for agents that act at once, all from the first step on; let one "
                "agent learn"
            )
        self._valid[rows] = False
        return self._own(obs), self._own_infos(parts)

    def _step(self, actions: Any) -> tuple[AgentStep, InfoParts]:
        others, full = self._others, self._others.blank(self._rows)
        packed = self.everyone._packer._leaves(others.layout, self.slots.groups[0], actions, self.num_envs)
        for leaf, column in zip(full, packed, strict=True):
            leaf[:, self.learners] = column
        step, parts = others.move(self._rows, full)
        lost = ~step.done & ~self.everyone._alive[:, self.learners].any(axis=1)
        others.report(np.flatnonzero(step.done | lost))
        others.draw(np.flatnonzero(step.done))
        own = {name: getattr(step, name)[:, self.learners] for name in ("reward", "terminated", "truncated", "valid")}
        self._valid = own["valid"].copy()
        if lost.any():
            step = self._begin_again(step, parts, lost)
        final = None if step.final_obs is None else self._own(step.final_obs)
        step = dataclasses.replace(step, **own, obs=self._own(step.obs), final_obs=final, acts=self._acts)
        return step, self._own_infos(parts)

    def _begin_again(self, step: AgentStep, parts: InfoParts, lost: np.ndarray) -> AgentStep:
        """Begin new episodes of envs that go on without a learner, in this same step."""
        final = map_tree(np.copy, step.next_obs)
        obs, begun = self._others.reset(np.flatnonzero(lost), None, None)
        for name, values in begun.agents.items():
            if name in parts.agents and isinstance(values, np.ndarray) and name != "final_info":
                parts.agents[name][lost] = values[lost]
        shown = map_tree(lambda new, old: np.where(lost.reshape(-1, *[1] * (old.ndim - 1)), new, old), obs, step.obs)
        done, rolled = step.done | lost, step.rolled | lost
        return dataclasses.replace(step, obs=shown, final_obs=final, done=done, rolled=rolled)

    def _own(self, tree: Any) -> Any:
        return map_tree(lambda leaf: leaf[:, self.learners], tree)

    def _own_infos(self, parts: InfoParts) -> InfoParts:
        """The infos of learners, and of envs."""
        return parts._replace(agents=_chosen(parts.agents, self.learners))


def _chosen(infos: Mapping[str, Any], slots: np.ndarray) -> dict[str, Any]:
    return {key: _chosen(value, slots) if isinstance(value, dict) else value[:, slots] for key, value in infos.items()}
