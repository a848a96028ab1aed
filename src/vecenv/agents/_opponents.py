"""Who plays the slots that do not learn: a policy, or a league that sends one for each episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv._batch.layout import Columns, Layout, map_tree
from vecenv.agents._actions import neutral
from vecenv.agents._league import League, takes_mask
from vecenv.errors import ConfigTypeError, InvalidAction

if TYPE_CHECKING:
    from vecenv.agents._step import AgentStep
    from vecenv.agents._vector_env import InfoParts, MultiAgentVectorEnv


class Opponents:
    """Moves all agents but the learners, and tells a league how episodes ended.

    Args:
        agents: envs whose agents have equal spaces.
        policy: a function of a batch of observations, or a `League`.
        learns: [N, A] bool, the slots of learners.

    Attributes:
        names: with a league, the name of the opponent of each env's episode.
        obs: what every agent saw last, [N, A, ...]; None before the first episode.
        layout: of the actions of one agent.
    """

    def __init__(self, agents: MultiAgentVectorEnv, policy: Any, learns: np.ndarray) -> None:
        if not callable(policy) and not isinstance(policy, League):
            raise ConfigTypeError(f"policy must be a function of observations or a League, got {policy!r:.60}")
        self.agents, self.policy = agents, policy
        self.names: list[str] = [""] * agents.num_envs
        self.obs: Any = None
        self.layout = Layout(agents.single_action_space)
        self._learns = learns
        self._masked = not isinstance(policy, League) and takes_mask(policy)
        self._playing: list[Any] = [(policy, self._masked)] * agents.num_envs
        """The opponent of each env's episode, and whether it wants masks; a league may drop one that still plays."""
        self._neutral = [np.asarray(leaf) for leaf in self.layout.flat(neutral(agents.single_action_space))]
        self._masks: np.ndarray | None = None
        """Which actions every agent may take, [N, A, actions], if infos say so."""
        self._returns = np.zeros(learns.shape)
        """Of every agent's episode so far."""

    def reset(self, rows: np.ndarray, seed: Any, options: Any) -> tuple[Any, InfoParts]:
        """Reset these envs, and choose who plays; what the reset of the envs returned, with the axes of all."""
        others = {key: value for key, value in (options or {}).items() if key != "reset_mask"}
        mask = np.isin(np.arange(self.agents.num_envs), rows)
        obs, parts = self.agents._reset(seed, {**others, "reset_mask": mask})
        self.obs = map_tree(np.copy, obs) if self.obs is None else self.obs
        map_tree(lambda kept, leaf: kept.__setitem__(rows, leaf[rows]), self.obs, obs)
        self._note_masks(rows, parts, rows)
        self.draw(rows)
        return obs, parts

    def draw(self, rows: np.ndarray) -> None:
        """Episodes of these envs begin: returns are zero, and a league sends an opponent."""
        self._returns[rows] = 0.0
        if isinstance(self.policy, League) and len(rows):
            for row, name in zip(rows.tolist(), self.policy.sample(len(rows)), strict=True):
                self.names[row] = name
                self._playing[row] = self.policy[name], self.policy.takes_mask(name)

    def blank(self, rows: np.ndarray) -> Columns:
        """Actions of all agents of these envs that do nothing in particular, to write those of learners into."""
        return [np.broadcast_to(leaf, (len(rows), self.agents.num_slots, *leaf.shape)).copy() for leaf in self._neutral]

    def move(self, rows: np.ndarray, full: Columns) -> tuple[AgentStep, InfoParts]:
        """Step these envs: learners with these actions, the others as the policy says."""
        positions, slots = np.nonzero(self.agents._acts[rows] & ~self._learns[rows])
        for chosen, policy, masked in self._policies(rows[positions]):
            places = positions[chosen], slots[chosen]
            seen = map_tree(lambda leaf, at=places: leaf[rows[at[0]], at[1]], self.obs)
            masks = {} if self._masks is None or not masked else {"mask": self._masks[rows[places[0]], places[1]]}
            try:
                packed = self.layout.pack(policy(seen, **masks), int(np.count_nonzero(chosen)))
            except InvalidAction as error:
                raise InvalidAction(f"the policy of the opponents: {error}") from None
            for leaf, column in zip(full, packed, strict=True):
                leaf[places] = column
        step, parts = self.agents._step(self.layout.nest(full), rows)
        map_tree(lambda kept, leaf: kept.__setitem__(rows, leaf), self.obs, step.obs)
        self._note_masks(rows, parts, ...)
        self._returns[rows] += step.reward
        return step, parts

    def report(self, rows: np.ndarray) -> None:
        """Tell the league how episodes ended.

        A learner wins if its return is larger than that of every other agent, a team if its mean return is larger than
        that of the others.
        """
        if not isinstance(self.policy, League):
            return
        for row in rows.tolist():
            own, others = (self._returns[row][which] for which in (self._learns[row], ~self._learns[row]))
            margin = own[0] - others.max() if len(own) == 1 else own.mean() - others.mean()
            self.policy.report(self.names[row], float(np.sign(margin)))

    def _note_masks(self, rows: np.ndarray, parts: InfoParts, at: Any) -> None:
        """Keep the action masks of these envs, which are `at` these positions of the infos."""
        masks = parts.agents.get("action_mask")
        if masks is None or masks.dtype == object:
            return
        if self._masks is None:
            self._masks = np.zeros((self.agents.num_envs, *masks.shape[1:]), np.bool_)
        self._masks[rows] = masks[at] != 0

    def _policies(self, rows: np.ndarray) -> list[tuple[np.ndarray, Callable[..., Any], bool]]:
        """Which of these moves each policy makes, and whether it wants masks; `rows` has the env of each."""
        if not len(rows):
            return []
        if not isinstance(self.policy, League):
            return [(np.ones(len(rows), np.bool_), self.policy, self._masked)]
        names = np.array([self.names[row] for row in rows.tolist()])
        some, first = np.unique(names, return_index=True)
        return [
            (names == name, *self._playing[rows[at]]) for name, at in zip(some.tolist(), first.tolist(), strict=True)
        ]
