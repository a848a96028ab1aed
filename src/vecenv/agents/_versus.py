"""Self-play: one agent of each env as a single-agent vector env; a policy, or a league, plays the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from vecenv._batch.layout import Columns, map_tree
from vecenv._front.autoreset import plan, rolls
from vecenv._front.infos import as_arrays, objects
from vecenv._front.reset_options import ResetOptions
from vecenv.agents._flat import FlatVectorEnv
from vecenv.agents._opponents import Opponents
from vecenv.agents._team import Team
from vecenv.errors import ConfigError, NotResetError, SpaceError

if TYPE_CHECKING:
    from vecenv.agents._step import AgentStep
    from vecenv.agents._vector_env import InfoParts, MultiAgentVectorEnv

_OPENINGS = 1000
"""Episodes in a row that may end before the learner has acted."""


class VersusVectorEnv(gymnasium.vector.VectorEnv):
    """One row per env: what the learner of the env sees. Use `MultiAgentVectorEnv.versus` to build one.

    Between two of its turns the others move as often as the rules have it. Its episode ends with its own end, or with
    that of the env; then the env begins a new one. `infos` are those of the learner.

    Args:
        agents: envs whose agents have equal spaces.
        policy: a function of a batch of observations, or a `League`.
        learner: the slot of the learner in each env.
    """

    def __init__(self, agents: MultiAgentVectorEnv, policy: Any, learner: np.ndarray) -> None:
        self.agents, self.policy = agents, policy
        self.num_envs = agents.num_envs
        self.single_observation_space = agents.single_observation_space
        self.single_action_space = agents.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = dict(agents.metadata)
        self.render_mode = agents.render_mode
        self.learner = learner
        self._rows = np.arange(self.num_envs)
        learns = np.zeros((self.num_envs, agents.num_slots), np.bool_)
        learns[self._rows, learner] = True
        self._others = Opponents(agents, policy, learns)
        self._layout = self._others.layout
        self._may_roll = rolls(agents.autoreset_mode)
        self._over = np.ones(self.num_envs, np.bool_)
        """Where the learner's episode has ended and no new one has begun."""

    @property
    def engine_reason(self) -> str:
        """Why this engine was chosen."""
        return self.agents.engine_reason

    @property
    def opponents(self) -> list[str]:
        """With a league, the name of the opponent of each env's episode."""
        return self._others.names

    # --- Gymnasium's calls -------------------------------------------------------------------------------------------

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, of all envs or of those in `options["reset_mask"]`, up to the learner's first turn."""
        mask = ResetOptions.parse(options, self.num_envs).mask
        rows = self._rows if mask is None else np.flatnonzero(mask)
        infos = self._begin(rows, seed, options)
        return self._seen(), as_arrays(sorted(infos.items()), self.num_envs)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step the learners; of an env whose episode has ended, begin the next as the autoreset mode says.

        Raises:
            InvalidAction: before anything is sent.
            NotResetError: there was no reset, or an episode has ended in "disabled" mode.
        """
        if self._others.obs is None:
            raise NotResetError("step() before reset(); call reset() first")
        plan(self.agents.autoreset_mode, self._over)  # raises where episodes have ended and nothing begins new ones
        columns: Columns | None = self._layout.pack(actions, self.num_envs)
        begun = self._begin(np.flatnonzero(self._over), None, None) if self._over.any() else {}
        turn = _Turn(self.num_envs)
        turn.infos.update(begun)
        acting = np.setdiff1d(self._rows, list(begun))
        while len(acting):
            step, parts = self._move(acting, columns)
            columns = None
            ended = turn.note(step, parts, acting, self.learner[acting])
            self._others.report(acting[ended])
            self._over[acting[ended]] = True
            waiting = ~ended & ~self._is_learners_turn(acting)
            if self._may_roll and ended.any():
                self._over[acting[ended]] = False
                rolled = acting[ended & step.rolled]
                self._others.draw(rolled)
                turn.infos.update(self._open(rolled))
                turn.infos.update(self._begin(acting[ended & ~step.rolled], None, None))
            acting = acting[waiting]
        infos = as_arrays(sorted(turn.infos.items()), self.num_envs)
        if self._may_roll and turn.final:
            places = sorted(turn.final)
            mask = np.isin(self._rows, places)
            infos["final_obs"] = objects(places, (turn.final[place] for place in places), self.num_envs)
            infos["final_info"] = as_arrays(((place, turn.final_infos[place]) for place in places), self.num_envs)
            infos["_final_obs"], infos["_final_info"] = mask, mask.copy()
        return self._seen(), turn.reward, turn.terminated, turn.truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Close the envs."""
        self.agents.close()

    def __del__(self) -> None:
        """Nothing: a view that is dropped does not close the envs, as Gymnasium's `__del__` would."""

    def render(self) -> tuple[Any, ...] | None:
        """One frame per env."""
        return self.agents.render()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every env."""
        return self.agents.call(name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Read an attribute of every env."""
        return self.agents.get_attr(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every env."""
        self.agents.set_attr(name, values)

    # --- moves -------------------------------------------------------------------------------------------------------

    def _seen(self) -> Any:
        """What the learners see."""
        return map_tree(lambda leaf: leaf[self._rows, self.learner].copy(), self._others.obs)

    def _is_learners_turn(self, rows: np.ndarray) -> np.ndarray:
        return self.agents._acts[rows, self.learner[rows]]

    def _begin(self, rows: np.ndarray, seed: Any, options: Any) -> dict[int, dict[str, Any]]:
        """Begin episodes of these envs, up to the learner's first turn; infos of the learners by env."""
        if not len(rows):
            return {}
        _, parts = self._others.reset(rows, seed, options)
        infos = {row: picked(parts, row, int(self.learner[row])) for row in rows.tolist()}
        infos.update(self._open(rows))
        return infos

    def _open(self, rows: np.ndarray) -> dict[int, dict[str, Any]]:
        """An episode of these envs has begun: the others move until it is the learner's turn."""
        infos: dict[int, dict[str, Any]] = {}
        self._over[rows] = False
        for _ in range(_OPENINGS):
            rows = rows[~self._is_learners_turn(rows)]
            if not len(rows):
                return infos
            step, parts = self._move(rows, None)
            seats = self.learner[rows]
            infos.update(
                (row, picked(parts, position, int(seats[position]))) for position, row in enumerate(rows.tolist())
            )
            at = np.arange(len(rows)), seats
            ended = step.done | step.terminated[at] | step.truncated[at]  # before the learner has acted
            self._others.draw(rows[ended & step.rolled])
            infos.update(self._begin(rows[ended & ~step.rolled], None, None))
        raise SpaceError(
            f"env {int(rows[0])}: after {_OPENINGS} moves of the others it was not once the turn of agent "
            f"{self.agents.agents[int(self.learner[rows[0]])]!r}; let another slot learn"
        )

    def _move(self, rows: np.ndarray, columns: Columns | None) -> tuple[AgentStep, InfoParts]:
        """Step these envs: learners with these actions of all envs, the others as the policy says."""
        full = self._others.blank(rows)
        for leaf, column in zip(full, columns or (), strict=columns is not None):
            leaf[np.arange(len(rows)), self.learner[rows]] = column[rows]
        return self._others.move(rows, full)


class _Turn:
    """Results of one step of the learners, which may be several steps of the envs."""

    def __init__(self, count: int) -> None:
        self.reward = np.zeros(count)
        self.terminated = np.zeros(count, np.bool_)
        self.truncated = np.zeros(count, np.bool_)
        self.infos: dict[int, dict[str, Any]] = {}
        self.final: dict[int, Any] = {}
        self.final_infos: dict[int, dict[str, Any]] = {}

    def note(self, step: AgentStep, parts: InfoParts, rows: np.ndarray, seats: np.ndarray) -> np.ndarray:
        """Add a step of these envs; where the learner's episode has ended."""
        at = np.arange(len(rows)), seats
        terminated, truncated = step.terminated[at], step.truncated[at]
        truncated = truncated | (step.done & ~terminated)
        self.reward[rows] += step.reward[at]
        self.terminated[rows], self.truncated[rows] = terminated, truncated
        ended = terminated | truncated
        for position, row in enumerate(rows.tolist()):
            seat = int(seats[position])
            self.infos[row] = picked(parts, position, seat)
            if ended[position]:
                self.final[row] = map_tree(lambda leaf, at=(position, seat): _plain(leaf[at]), step.next_obs)
                self.final_infos[row] = picked(parts, position, seat, final=bool(step.rolled[position]))
        return ended


def picked(parts: InfoParts, position: int, seat: int, final: bool = False) -> dict[str, Any]:
    """The infos of one agent and of its env; `final`: of the episode that ended."""
    agents, envs = (part.get("final_info", {}) if final else part for part in parts)
    return {**_entries(envs, (position,)), **_entries(agents, (position, seat))}


def _entries(infos: Mapping[str, Any], place: tuple[int, ...]) -> dict[str, Any]:
    """One entry of each array that has one there."""
    found = {}
    for key, value in infos.items():
        mask = infos.get(f"_{key}")
        if mask is not None and key != "final_info" and mask[place]:
            found[key] = _entries(value, place) if isinstance(value, dict) else _plain(value[place])
    return found


def versus(agents: MultiAgentVectorEnv, policy: Any, slots: Any) -> VersusVectorEnv | FlatVectorEnv:
    """A row per learner; see `MultiAgentVectorEnv.versus`."""
    if agents.num_slots < 2:
        raise ConfigError("versus needs at least two agents; these envs have one")
    if isinstance(slots, str) and slots == "rotate":
        return VersusVectorEnv(agents, policy, np.arange(agents.num_envs) % agents.num_slots)
    learners = _learners(agents, slots)
    if len(learners) == 1:
        return VersusVectorEnv(agents, policy, np.full(agents.num_envs, learners[0]))
    return FlatVectorEnv(Team(agents, policy, learners))  # type: ignore[arg-type]  # it has what rows are made of


def _learners(agents: MultiAgentVectorEnv, slots: Any) -> np.ndarray:
    """The slots that the policy does not play."""
    given = [slots] if isinstance(slots, (str, int, np.integer)) else list(slots)
    numbers = set()
    for slot in given:
        number = agents.agents.index(slot) if slot in agents.agents else slot
        if not isinstance(number, (int, np.integer)) or not 0 <= number < agents.num_slots:
            raise ConfigError(f"slots: {slot!r:.40} is no agent; there are {list(agents.agents)}")
        numbers.add(int(number))
    left = sorted(set(range(agents.num_slots)) - numbers)
    if not left or not numbers:
        raise ConfigError(
            f"slots={slots!r:.60} leaves {len(left)} agents to learn; name those of {list(agents.agents)} that the "
            "policy plays, at least one and not all, or pass 'rotate'"
        )
    return np.array(left)


def _plain(value: Any) -> Any:
    """A single number as envs return it, anything else as it is."""
    return value.item() if isinstance(value, (np.integer, np.bool_)) else value
