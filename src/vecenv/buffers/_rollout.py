"""A rollout: T steps of all envs, for on-policy algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space

from vecenv._batch.batch import Op
from vecenv._front.step import Step
from vecenv._util.checks import positive_int
from vecenv.buffers._returns import gae
from vecenv.buffers._storage import Storage, as_tensors, check_extras, extra_columns, put
from vecenv.errors import CallOrderError

_IDLE, _RESET = int(Op.IDLE), int(Op.RESET)


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions, one per row of every array.

    Attributes:
        obs, actions, reward, next_obs, terminated, truncated: as in Gymnasium; `next_obs` is never of another episode.
        env_ids: the env of each transition.
        discount: factor of the value of `next_obs`, unless terminated; gamma ** n for n steps.
        index: positions in the buffer.
        weight: importance weights; all ones if sampling is uniform.
        extras: the extra columns.
    """

    obs: Any
    actions: Any
    reward: np.ndarray
    next_obs: Any
    terminated: np.ndarray
    truncated: np.ndarray
    env_ids: np.ndarray
    discount: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    extras: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.reward)

    def torch(self) -> Transitions:
        """The same with torch tensors that share the memory. Needs torch."""
        return Transitions(**{name: as_tensors(value) for name, value in vars(self).items()})


class RolloutBuffer:
    """T exchanges of N envs, as arrays [T, N, ...]. One class for every space; data is copied once.

    Each env has its own position in time, so a batch may be of all envs or of some (`recv`), and `part` gives each of
    several vector envs its own columns, which they may write at the same time. Every exchange takes a row; where it was
    not a transition (the reset of "next-step" mode) `valid` is False. `obs[t]` is the observation to act on at time t.

    A row to which nothing happened (its op is IDLE) repeats what it had. So the observation and the action of a player
    who waits for the others' turns are beside their results, when these come.

    Args:
        observation_space, action_space: of a single env.
        steps: T.
        num_envs: N.
        extras: further columns that `add` takes by name: `{"value": np.float32, "mask": ((4,), np.bool_)}`.

    Attributes:
        reward: float32 [T, N].
        terminated, truncated, valid: bool [T, N].
        began: bool [T + 1, N]: whether the observation is the first of its episode.
        extras: the extra columns, by name.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        steps: int,
        num_envs: int,
        extras: Mapping[str, Any] | None = None,
    ) -> None:
        axes = positive_int("steps", steps), positive_int("num_envs", num_envs)
        self.steps, self.num_envs = axes
        self.first_env = 0
        self._obs, self._actions = Storage(observation_space, (steps + 1, num_envs)), Storage(action_space, axes)
        self.reward = np.zeros(axes, np.float32)
        self.terminated, self.truncated, self.valid = (np.zeros(axes, np.bool_) for _ in range(3))
        self.began = np.zeros((steps + 1, num_envs), np.bool_)
        self.extras = extra_columns(extras or {}, axes)
        self._times = np.zeros(num_envs, np.int64)
        self._everyone = np.arange(num_envs)
        self._idle = np.zeros(num_envs, np.bool_)
        """To which rows nothing happened in their latest exchange."""
        self._finals: list[tuple[np.ndarray, np.ndarray, list[Any]]] = []
        """Times, envs and leaves of the last observations of episodes, where the next `obs` is of a new episode."""

    # --- filling -----------------------------------------------------------------------------------------------------

    def begin(self, obs: Any, began: Any = True) -> None:
        """Start with the observations of a reset; `began` is False where an episode continues."""
        self._begin(obs, began)
        self._idle[:] = False

    def add(self, actions: Any, step: Step, **extras: Any) -> None:
        """Store an exchange: the actions on the current observations, and their results.

        Args:
            actions: one per env of the step, in its order.
            step: results of all envs or of some; `step.env_ids` count from the first env of this part.
            extras: a value for each extra column.

        Raises:
            CallOrderError: an env has no room left; see `room`.
        """
        check_extras(self.extras, extras)
        rows = step.env_ids
        times, rolled = self._times[rows], step.rolled
        if np.count_nonzero(times >= self.steps):
            raise CallOrderError(
                f"the rollout is full: {int((times >= self.steps).sum())} of these envs have made {self.steps} steps; "
                "call restart() first, and do not send envs that have no `room`"
            )
        together = (
            len(rows) == self.num_envs
            and not np.count_nonzero(times != times[0])
            and not np.count_nonzero(rows != self._everyone)
        )
        here: Any = int(times[0]) if together else (times, rows)
        after: Any = here + 1 if together else (times + 1, rows)
        was, repeated = self._idle[rows], []
        if np.count_nonzero(was):
            repeated = self._before(times[was], rows[was])  # a rollout of one step overwrites it
        self._actions.write(here, actions)
        self._obs.write(after, step.obs)
        self.reward[here], self.terminated[here], self.truncated[here] = step.reward, step.terminated, step.truncated
        whole = step.all_valid
        self.valid[here] = True if whole else step.valid
        self.began[after] = rolled if whole else rolled | (step.ops == _RESET)
        for name, column in self.extras.items():
            column[here] = extras[name]
        for column, values in zip(self._repeating(), repeated, strict=False):
            column[times[was], rows[was]] = values
        if whole:
            self._idle[rows] = False
        else:
            self._repeat_obs(times, rows, step.ops == _IDLE)
        if np.count_nonzero(rolled):
            self._keep_finals(step, times, rows, np.flatnonzero(rolled))
        self._times[rows] += 1

    def reset(self, obs: Any, mask: np.ndarray) -> None:
        """Store a partial reset (`options={"reset_mask": mask}`), as used in "disabled" mode: new episodes begin there.

        An episode that had not ended is truncated.

        Args:
            obs: observations of all envs, as returned by the reset.
            mask: which envs were reset.
        """
        rows = np.flatnonzero(mask)
        times = self._times[rows]
        ended = np.flatnonzero((times > 0) & ~self.began[times, rows])
        if len(ended):
            at, last = (times[ended], rows[ended]), (times[ended] - 1, rows[ended])
            self.truncated[last] |= ~self.terminated[last]
            finals = [column[at] for column in self._obs.columns]
            self._finals.append((last[0], last[1] + self.first_env, finals))
        self._obs.write((times, rows), obs, rows)
        self.began[times, rows] = True
        self._idle[rows] = False

    def restart(self) -> None:
        """Make room: the observations after the last step become the first ones."""
        held = self.held() if self._idle.any() else None
        self._begin(*self.latest())
        if held is not None:
            self.hold(held)

    def clear(self) -> None:
        """Forget all steps; the first observations stay."""
        self._times[:] = 0
        first, last = self.first_env, self.first_env + self.num_envs
        self._finals[:] = [entry for entry in self._finals if not first <= entry[1][0] < last]

    def part(self, first: int, count: int) -> RolloutBuffer:
        """A view of the columns of some envs, as a buffer of its own."""
        some = slice(first, first + count)
        own: RolloutBuffer = object.__new__(RolloutBuffer)
        own.steps, own.num_envs, own.first_env = self.steps, count, self.first_env + first
        own._obs, own._actions = self._obs.part((slice(None), some)), self._actions.part((slice(None), some))
        own.reward, own.began, own.valid = self.reward[:, some], self.began[:, some], self.valid[:, some]
        own.terminated, own.truncated = self.terminated[:, some], self.truncated[:, some]
        own.extras = {name: column[:, some] for name, column in self.extras.items()}
        own._times, own._everyone, own._finals = self._times[some], np.arange(count), self._finals
        own._idle = self._idle[some]
        return own

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def obs(self) -> Any:
        """[T + 1, N, ...]: the observations that were acted on, then those to act on next. Not a copy."""
        return self._obs.tree

    @property
    def actions(self) -> Any:
        """[T, N, ...]. Not a copy."""
        return self._actions.tree

    @property
    def room(self) -> np.ndarray:
        """Which envs have room for another step."""
        return self._times < self.steps

    @property
    def full(self) -> bool:
        """Whether no env has room."""
        return not self.room.any()

    def obs_at(self, time: int) -> Any:
        """The observations to act on at one time. Not a copy."""
        return self._obs.nest([column[time] for column in self._obs.columns])

    def latest(self) -> tuple[Any, np.ndarray]:
        """Copies of the observations to act on now, and whether each is the first of its episode."""
        at = self._times, self._everyone
        return self._obs.nest([column[at] for column in self._obs.columns]), self.began[at]

    def held(self) -> dict[str, Any]:
        """What rows to which nothing happened repeat after `begin`: for checkpoints, see `hold`."""
        return {"idle": self._idle.copy(), "columns": self._before(self._times, self._everyone)}

    def hold(self, held: Mapping[str, Any]) -> None:
        """Restore `held` after `begin`."""
        self._idle[:] = held["idle"]
        for column, values in zip(self._repeating(), held["columns"], strict=True):
            column[-1] = values

    def finals(self) -> tuple[np.ndarray, np.ndarray, Any]:
        """Times, envs and last observations of the episodes that ended in a same-step reset."""
        own = [entry for entry in self._finals if self.first_env <= entry[1][0] < self.first_env + self.num_envs]
        if not own:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, self._obs.nest([column[0, :0] for column in self._obs.columns])
        times, envs = (np.concatenate([entry[part] for entry in own]) for part in (0, 1))
        leaves = [np.concatenate([entry[2][leaf] for entry in own]) for leaf in range(len(self._obs.columns))]
        return times, envs - self.first_env, self._obs.nest(leaves)

    def gae(
        self, value: np.ndarray, last_value: np.ndarray, final_value: np.ndarray | None, gamma: float, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Advantages and returns of a full rollout.

        Args:
            value: values of `obs[:T]`.
            last_value: values of `obs[T]`.
            final_value: values of the observations of `finals`, in their order; None if there are none.
            gamma: discount factor.
            lam: lambda of generalized advantage estimation.
        """
        finals = None
        if final_value is not None and len(final_value):
            times, envs, _ = self.finals()
            # Without a same-step reset, the last observation of an episode is that of the next row.
            finals = np.concatenate([value[1:], last_value[None]]).astype(value.dtype)
            finals[times, envs] = final_value
        return gae(self.reward, value, last_value, self.terminated, self.truncated,
                   gamma=gamma, lam=lam, final_value=finals, valid=self.valid)  # fmt: skip

    def transitions(self) -> Transitions:
        """Copies of all transitions so far, ordered by env."""
        times, envs = np.nonzero((np.arange(self.steps)[:, None] < self._times) & self.valid)
        order = np.lexsort((times, envs))
        at = times[order], envs[order]
        next_obs = [column[at[0] + 1, at[1]] for column in self._obs.columns]
        final_times, final_envs, final = self.finals()
        place = np.full((self.steps, self.num_envs), -1)
        place[final_times, final_envs] = np.arange(len(final_times))
        rolled = np.flatnonzero(place[at] >= 0)
        for leaf, column in zip(self._obs.flat(final), next_obs, strict=True):
            put(column, rolled, leaf, place[at][rolled])
        return Transitions(
            obs=self._obs.nest([column[at] for column in self._obs.columns]),
            actions=self._actions.nest([column[at] for column in self._actions.columns]),
            reward=self.reward[at],
            next_obs=self._obs.nest(next_obs),
            terminated=self.terminated[at],
            truncated=self.truncated[at],
            env_ids=at[1],
            discount=np.ones(len(at[0]), np.float32),
            index=at[0],
            weight=np.ones(len(at[0]), np.float32),
            extras={name: column[at] for name, column in self.extras.items()},
        )

    def torch(self) -> dict[str, Any]:
        """Every column as torch tensors that share its memory. Needs torch."""
        names = ("obs", "actions", "reward", "terminated", "truncated", "valid", "began", "extras")
        return {name: as_tensors(getattr(self, name)) for name in names}

    def _begin(self, obs: Any, began: Any) -> None:
        self._obs.write(0, obs)
        self.began[0] = began
        self.clear()

    def _repeating(self) -> list[np.ndarray]:
        """The columns that a row repeats after it was idle: actions, and what is stored beside them."""
        return [*self._actions.columns, *self.extras.values()]

    def _before(self, times: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        """Copies of what these rows had one step before; at time 0, in the last step of the rollout before."""
        return [column[times - 1, rows] for column in self._repeating()]

    def _repeat_obs(self, times: np.ndarray, rows: np.ndarray, idle: np.ndarray) -> None:
        """Let rows that are idle repeat their observation."""
        if np.count_nonzero(idle):
            after, here = (times[idle] + 1, rows[idle]), (times[idle], rows[idle])
            for column in self._obs.columns:
                column[after] = column[here]
        self._idle[rows] = idle

    def _keep_finals(self, step: Step, times: np.ndarray, rows: np.ndarray, rolled: np.ndarray) -> None:
        kept = []
        for column, leaf in zip(self._obs.columns, self._obs.flat(step.next_obs), strict=True):
            kept.append(np.empty((len(rolled), *column.shape[2:]), column.dtype))
            put(kept[-1], slice(None), leaf, rolled)
        self._finals.append((times[rolled], rows[rolled] + self.first_env, kept))
