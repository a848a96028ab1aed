"""Self-play: one agent of each env as a single-agent vector env; a policy, or a league, plays the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from vecenv._batch.layout import Columns, Layout, map_tree
from vecenv._front.autoreset import plan, rolls
from vecenv._front.infos import as_arrays, objects
from vecenv._front.reset_options import ResetOptions
from vecenv.agents._actions import neutral
from vecenv.agents._league import League, takes_mask
from vecenv.errors import ConfigError, ConfigTypeError, InvalidAction, NotResetError, SpaceError

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
        slots: those that the policy plays, or "rotate".

    Attributes:
        learner: the slot of the learner in each env.
        opponents: with a league, the name of the opponent of each env's episode.
    """

    def __init__(self, agents: MultiAgentVectorEnv, policy: Any, slots: Any = "rotate") -> None:
        if not callable(policy) and not isinstance(policy, League):
            raise ConfigTypeError(f"policy must be a function of observations or a League, got {policy!r:.60}")
        self.agents, self.policy = agents, policy
        self.num_envs = agents.num_envs
        self.single_observation_space = agents.single_observation_space
        self.single_action_space = agents.single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = dict(agents.metadata)
        self.render_mode = agents.render_mode
        self.learner = _learners(agents, slots)
        self._masked = not isinstance(policy, League) and takes_mask(policy)
        self.opponents: list[str] = [""] * self.num_envs
        self._playing: list[Any] = [(policy, self._masked)] * self.num_envs
        """The opponent of each env's episode, and whether it wants masks; a league may drop one that still plays."""
        self._layout = Layout(self.single_action_space)
        self._neutral = [np.asarray(leaf) for leaf in self._layout.flat(neutral(self.single_action_space))]
        self._may_roll = rolls(agents.autoreset_mode)
        count, width = self.num_envs, agents.num_slots
        self._rows = np.arange(count)
        self._obs: Any = None
        """What every agent saw last: [N, A, ...]."""
        self._masks: np.ndarray | None = None
        """Which actions every agent may take, [N, A, actions], if infos say so."""
        self._returns = np.zeros((count, width))
        """Of every agent's episode so far."""
        self._over = np.ones(count, np.bool_)
        """Where the learner's episode has ended and no new one has begun."""

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
        if self._obs is None:
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
            self._report(acting[ended])
            self._over[acting[ended]] = True
            waiting = ~ended & ~self._is_learners_turn(acting)
            if self._may_roll and ended.any():
                self._over[acting[ended]] = False
                turn.infos.update(self._open(acting[ended & step.rolled]))
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
        return map_tree(lambda leaf: leaf[self._rows, self.learner].copy(), self._obs)

    def _is_learners_turn(self, rows: np.ndarray) -> np.ndarray:
        return self.agents._acts[rows, self.learner[rows]]

    def _begin(self, rows: np.ndarray, seed: Any, options: Any) -> dict[int, dict[str, Any]]:
        """Begin episodes of these envs, up to the learner's first turn; infos of the learners by env."""
        if not len(rows):
            return {}
        others = {key: value for key, value in (options or {}).items() if key != "reset_mask"}
        mask = np.isin(self._rows, rows)
        obs, parts = self.agents._reset(seed, {**others, "reset_mask": mask})
        self._obs = map_tree(np.copy, obs) if self._obs is None else self._obs
        map_tree(lambda kept, leaf: kept.__setitem__(rows, leaf[rows]), self._obs, obs)
        self._note_masks(rows, parts, rows)
        infos = {row: picked(parts, row, int(self.learner[row])) for row in rows.tolist()}
        infos.update(self._open(rows))
        return infos

    def _open(self, rows: np.ndarray) -> dict[int, dict[str, Any]]:
        """An episode of these envs has begun: the others move until it is the learner's turn."""
        infos: dict[int, dict[str, Any]] = {}
        self._returns[rows], self._over[rows] = 0.0, False
        if isinstance(self.policy, League):
            for row, name in zip(rows.tolist(), self.policy.sample(len(rows)), strict=True):
                self.opponents[row] = name
                self._playing[row] = self.policy[name], self.policy.takes_mask(name)
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
            again = rows[(step.done | step.terminated[at] | step.truncated[at]) & ~step.rolled]
            if len(again):  # it ended before the learner has acted
                infos.update(self._begin(again, None, None))
        raise SpaceError(
            f"env {int(rows[0])}: after {_OPENINGS} moves of the others it was not once the turn of agent "
            f"{self.agents.agents[int(self.learner[rows[0]])]!r}; let another slot learn"
        )

    def _move(self, rows: np.ndarray, columns: Columns | None) -> tuple[AgentStep, InfoParts]:
        """Step these envs: learners with these actions of all envs, the others as the policy says."""
        acts = self.agents._acts[rows]
        full = [np.broadcast_to(leaf, (*acts.shape, *leaf.shape)).copy() for leaf in self._neutral]
        seats = np.arange(len(rows)), self.learner[rows]
        if columns is not None:
            for leaf, column in zip(full, columns, strict=True):
                leaf[seats] = column[rows]
        others = acts.copy()
        others[seats] = False
        positions, slots = np.nonzero(others)
        for chosen, policy, masked in self._policies(rows[positions]):
            places = positions[chosen], slots[chosen]
            seen = map_tree(lambda leaf, at=places: leaf[rows[at[0]], at[1]], self._obs)
            masks = {} if self._masks is None or not masked else {"mask": self._masks[rows[places[0]], places[1]]}
            try:
                packed = self._layout.pack(policy(seen, **masks), int(np.count_nonzero(chosen)))
            except InvalidAction as error:
                raise InvalidAction(f"the policy of the opponents: {error}") from None
            for leaf, column in zip(full, packed, strict=True):
                leaf[places] = column
        step, parts = self.agents._step(self._layout.nest(full), rows)
        map_tree(lambda kept, leaf: kept.__setitem__(rows, leaf), self._obs, step.obs)
        self._note_masks(rows, parts, ...)
        self._returns[rows] += step.reward
        return step, parts

    def _note_masks(self, rows: np.ndarray, parts: InfoParts, at: Any) -> None:
        """Keep the action masks of these envs, which are `at` these positions of the infos."""
        masks = parts.agents.get("action_mask")
        if masks is None or masks.dtype == object:
            return
        if self._masks is None:
            self._masks = np.zeros((self.num_envs, *masks.shape[1:]), np.bool_)
        self._masks[rows] = masks[at] != 0

    def _policies(self, rows: np.ndarray) -> list[tuple[np.ndarray, Callable[..., Any], bool]]:
        """Which of these moves each policy makes, and whether it wants masks; `rows` has the env of each."""
        if not len(rows):
            return []
        if not isinstance(self.policy, League):
            return [(np.ones(len(rows), np.bool_), self.policy, self._masked)]
        names = np.array([self.opponents[row] for row in rows.tolist()])
        some, first = np.unique(names, return_index=True)
        return [
            (names == name, *self._playing[rows[at]]) for name, at in zip(some.tolist(), first.tolist(), strict=True)
        ]

    def _report(self, rows: np.ndarray) -> None:
        """Tell the league how episodes ended: a learner wins if its return is larger than that of every other."""
        if not isinstance(self.policy, League):
            return
        for row in rows.tolist():
            seat, returns = int(self.learner[row]), self._returns[row]
            best = np.delete(returns, seat).max()
            self.policy.report(self.opponents[row], float(np.sign(returns[seat] - best)))


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


def _learners(agents: MultiAgentVectorEnv, slots: Any) -> np.ndarray:
    """The slot of the learner in each env."""
    count, width = agents.num_envs, agents.num_slots
    if width < 2:
        raise ConfigError("versus needs at least two agents; these envs have one")
    if isinstance(slots, str) and slots == "rotate":
        return np.arange(count) % width
    given = [slots] if isinstance(slots, (str, int, np.integer)) else list(slots)
    numbers = set()
    for slot in given:
        number = agents.agents.index(slot) if slot in agents.agents else slot
        if not isinstance(number, (int, np.integer)) or not 0 <= number < width:
            raise ConfigError(f"slots: {slot!r:.40} is no agent; there are {list(agents.agents)}")
        numbers.add(int(number))
    left = set(range(width)) - numbers
    if len(left) != 1:
        raise ConfigError(
            f"slots={slots!r:.60} leaves {len(left)} agents to the learner, which has one; name all of "
            f"{list(agents.agents)} but one, or pass 'rotate'"
        )
    return np.full(count, left.pop())


def _plain(value: Any) -> Any:
    """A single number as envs return it, anything else as it is."""
    return value.item() if isinstance(value, (np.integer, np.bool_)) else value
