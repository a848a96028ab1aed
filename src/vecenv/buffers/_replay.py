"""A replay buffer: the last transitions, to sample from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space

from vecenv._batch.layout import map_tree
from vecenv._front.step import Step
from vecenv._util.checks import positive_int
from vecenv.buffers._files import read_arrays, write_arrays
from vecenv.buffers._frames import Frames, Pairs
from vecenv.buffers._replay_native import look_ahead
from vecenv.buffers._rollout import Transitions
from vecenv.buffers._storage import Storage, check_extras, extra_columns, put
from vecenv.buffers._sum_tree import SumTree, native, own_places
from vecenv.errors import CallOrderError, ConfigError, UnsafeFile
from vecenv.kernel.numba.functions import address_of, table_of

_look_ahead_table = table_of("14q")


class ReplayBuffer:
    """The last transitions of `num_envs` envs. One class for every space; variants are arguments.

    Each env has its own lane, a ring of `capacity // num_envs` transitions. Exchanges that are not transitions (the
    resets of "next-step" mode) are not stored.

    Args:
        observation_space, action_space: of a single env.
        capacity: number of transitions of all envs together.
        num_envs: number of lanes.
        n_step: number of steps whose rewards `sample` adds up, never beyond the end of an episode.
        gamma: discount factor of those rewards.
        alpha: sample in proportion to priority ** alpha (Schaul et al. 2016); None samples uniformly.
        stack: store each frame once: the number of frames in an observation (1 if it is not a stack), or these numbers
            by path of a Dict's leaf. None stores each observation and its successor.
        axis: axis of an observation along which frames are stacked.
        extras: further columns that `add` takes by name: `{"log_prob": np.float32}`.
        seed: seed of the sampling.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        capacity: int,
        num_envs: int = 1,
        *,
        n_step: int = 1,
        gamma: float = 0.99,
        alpha: float | None = None,
        stack: int | Mapping[str, int] | None = None,
        axis: int = 0,
        extras: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self.lanes = self.num_envs = positive_int("num_envs", num_envs)
        self.slots = positive_int("capacity", capacity) // num_envs
        if not self.slots:
            raise ConfigError(f"a capacity of {capacity} is less than one transition for each of {num_envs} envs")
        self.first_lane = 0
        self.n_step, self.gamma, self.alpha = positive_int("n_step", n_step), gamma, alpha
        size = self.slots * self.lanes
        of = observation_space, self.slots, num_envs
        self._obs: Pairs | Frames = Pairs(*of) if stack is None else Frames(*of, stack, axis)
        self._actions = Storage(action_space, (size,))
        self._reward = np.zeros(size, np.float32)
        self._terminated, self._truncated, self._ended = (np.zeros(size, np.bool_) for _ in range(3))
        self._extras = extra_columns(extras or {}, (size,))
        self._head, self._stored = np.zeros(self.lanes, np.int64), np.zeros(self.lanes, np.int64)
        self._fresh = np.ones(self.lanes, np.bool_)
        """Lanes whose next transition does not continue the episode of their last one."""
        self._tree = None if alpha is None else SumTree(size)
        self._highest = np.ones(1)
        self._generator = np.random.default_rng(seed)
        self._everyone = np.arange(self.lanes)

    def __len__(self) -> int:
        return int(self._stored.sum())

    @property
    def capacity(self) -> int:
        """Number of transitions that fit."""
        return self.slots * self.lanes

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(array.nbytes for array in self._arrays().values())

    # --- filling -----------------------------------------------------------------------------------------------------

    def add(self, obs: Any, actions: Any, step: Step, **extras: Any) -> None:
        """Store the transitions of one exchange.

        Args:
            obs: the observations that were acted on, one per env of the step, in its order.
            actions: the actions, in the same order.
            step: results of all envs or of some; `step.env_ids` count from the first env of this part.
            extras: a value for each extra column.
        """
        check_extras(self._extras, extras)
        valid, lanes = step.valid, step.env_ids
        rows = None if valid.all() else valid
        if rows is not None:
            lanes = lanes[rows]
        if not len(lanes):
            return
        slots = self._head[lanes]
        index = self._place(slots, lanes)
        everyone = len(lanes) == self.lanes and self.first_lane == 0 and (slots == slots[0]).all()
        if everyone and np.array_equal(lanes, self._everyone) and self.lanes == self.num_envs:
            index = slice(int(slots[0]) * self.lanes, (int(slots[0]) + 1) * self.lanes)  # type: ignore[assignment]
        self._obs.write(index, lanes + self.first_lane, rows, obs, step.next_obs, self._fresh[lanes])
        self._actions.write(index, actions, rows)
        ended = step.terminated | step.truncated
        put(self._reward, index, step.reward, rows)
        put(self._terminated, index, step.terminated, rows)
        put(self._truncated, index, step.truncated, rows)
        put(self._ended, index, ended, rows)
        for name, values in extras.items():
            put(self._extras[name], index, values, rows)
        self._fresh[lanes] = ended if rows is None else ended[rows]
        self._head[lanes] = (slots + 1) % self.slots
        self._stored[lanes] = np.minimum(self._stored[lanes] + 1, self.slots)
        if self._tree is not None:
            self._tree.update(self._place(slots, lanes), self._highest[0])
        if isinstance(self._obs, Frames):
            self._drop_overwritten(lanes)

    def cut(self, env_ids: Any = None) -> None:
        """Declare that envs were reset by hand: their next transition does not continue the stored episode."""
        lanes = self._everyone if env_ids is None else np.asarray(env_ids)
        lanes = lanes[self._stored[lanes] > 0]
        self._ended[self._place((self._head[lanes] - 1) % self.slots, lanes)] = True
        self._fresh[lanes] = True

    def clear(self) -> None:
        """Remove all transitions."""
        self._head[:], self._stored[:], self._fresh[:] = 0, 0, True
        if self._tree is not None:
            self._tree.nodes[:] = 0

    def part(self, first: int, count: int) -> ReplayBuffer:
        """A view of some lanes as a buffer to add to; several vector envs can write to their parts at the same time."""
        own: ReplayBuffer = object.__new__(ReplayBuffer)
        own.__dict__.update(self.__dict__)
        some = slice(first, first + count)
        own.num_envs, own.first_lane, own._everyone = count, self.first_lane + first, np.arange(count)
        own._head, own._stored, own._fresh = self._head[some], self._stored[some], self._fresh[some]
        return own

    # --- drawing -----------------------------------------------------------------------------------------------------

    def sample(self, count: int, *, replace: bool = True, beta: float = 0.4) -> Transitions:
        """Sample transitions.

        Args:
            count: how many.
            replace: False samples no transition twice; only for uniform sampling.
            beta: how far importance weights correct for priorities, from 0 to 1.
        """
        index = self._draw(count, replace)
        return self.gather(index, self._weights(index, beta))

    def sample_sequences(self, count: int, length: int, *, beta: float = 0.4) -> Transitions:
        """Sample runs of `length` transitions, each within one episode; arrays have the axes [count, length, ...].

        With priorities, a run is sampled and weighted by the priority of its first transition; `beta` as in `sample`.

        Raises:
            CallOrderError: too few episodes are that long.
        """
        found: list[np.ndarray] = []
        for _ in range(200):
            index = self._draw(count, True)
            found.append(index[self.look_ahead(index, length)[3] == length])
            if sum(map(len, found)) >= count:
                break
        else:
            raise CallOrderError(f"found too few runs of {length} transitions within an episode; ask for shorter ones")
        starts = np.concatenate(found)[:count]
        index = (starts[:, None] + self.lanes * np.arange(length)) % self.capacity
        weight = self._weights(starts, beta).repeat(length)
        flat = self._rows(index.reshape(-1), index.reshape(-1), weight=weight)
        shaped = {
            name: map_tree(lambda array: array.reshape(count, length, *array.shape[1:]), value)
            for name, value in vars(flat).items()
        }
        return Transitions(**shaped)

    def gather(self, index: np.ndarray, weight: np.ndarray | None = None) -> Transitions:
        """The transitions at these indices, n steps long."""
        if self.n_step == 1:
            return self._rows(index, index, weight=weight)
        reward, discount, last, _ = self.look_ahead(index, self.n_step)
        return self._rows(index, last, reward, discount, weight)

    def update_priorities(self, index: np.ndarray, priority: np.ndarray) -> None:
        """Set the priorities of sampled transitions, by their `index`; they must be positive and finite.

        Transitions that have been overwritten since keep a priority of zero.
        """
        if self._tree is None or self.alpha is None:
            raise CallOrderError("this buffer samples uniformly; create it with alpha=0.6, for example")
        priority = np.asarray(priority, np.float64)
        if not ((priority > 0) & np.isfinite(priority)).all():
            raise ConfigError("priorities must be positive and finite; add a small number such as 1e-6 to the errors")
        index = own_places(index, self.capacity)
        weights = np.where(self._tree[index] > 0, priority**self.alpha, 0.0)
        self._highest[0] = max(self._highest[0], weights.max(initial=0.0))
        self._tree.update(index, weights)

    def _check_whole(self) -> None:
        if self.num_envs != self.lanes:
            raise CallOrderError("a part of a replay buffer can only be added to; sample from the whole buffer")

    def _draw(self, count: int, replace: bool) -> np.ndarray:
        self._check_whole()
        total = len(self)
        if not total or (not replace and count > total):
            raise CallOrderError(f"cannot sample {count} transitions from {total}; add() more first")
        if self._tree is not None:
            if not replace:
                raise ConfigError("replace=False needs uniform sampling; this buffer has priorities")
            share = self._tree.total / count
            return self._tree.search((np.arange(count) + self._generator.random(count)) * share)
        drawn = self._generator.integers(0, total, count) if replace else self._generator.choice(total, count, False)
        stored = self._stored
        if total == self.capacity or ((stored == stored[0]).all() and (self._head == stored).all()):
            return drawn
        ends = np.cumsum(stored)
        lanes = np.searchsorted(ends, drawn, side="right")
        ages = ends[lanes] - drawn  # 1 is the newest
        return self._place((self._head[lanes] - ages) % self.slots, lanes)

    def _weights(self, index: np.ndarray, beta: float) -> np.ndarray:
        if self._tree is None:
            return np.ones(len(index), np.float32)
        chances = self._tree[index] / self._tree.total
        weights = (len(self) * chances) ** -beta
        return (weights / weights.max()).astype(np.float32)

    def look_ahead(self, index: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, discounts, last indices and numbers of steps of runs of at most `horizon` steps."""
        self._check_whole()
        index = own_places(index, self.capacity)
        count = len(index)
        reward, discount = np.empty(count, np.float32), np.empty(count, np.float32)
        last, steps = np.empty(count, np.int64), np.empty(count, np.int64)
        newest, gamma = (self._head - 1) % self.slots, np.array([self.gamma])
        arrays = [index, self._reward, self._terminated, self._ended, newest, gamma, reward, discount, last, steps]
        at = [address_of(array) for array in arrays]
        native(look_ahead)(_look_ahead_table(at[0], count, *at[1:5], self.slots, self.lanes, horizon, *at[5:]))
        return reward, discount, last, steps

    def _rows(
        self,
        index: np.ndarray,
        last: np.ndarray,
        reward: np.ndarray | None = None,
        discount: np.ndarray | None = None,
        weight: np.ndarray | None = None,
    ) -> Transitions:
        obs, next_obs = self._obs.read(index, last)
        terminated = self._terminated.take(last)
        if discount is None:
            discount = np.where(terminated, np.float32(0), np.float32(self.gamma))
        return Transitions(
            obs=obs,
            actions=self._actions.read(index),
            reward=self._reward.take(index) if reward is None else reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=self._truncated.take(last),
            env_ids=index % self.lanes,
            discount=discount,
            index=index,
            weight=np.ones(len(index), np.float32) if weight is None else weight,
            extras={name: column.take(index, 0) for name, column in self._extras.items()},
        )

    # --- keeping -----------------------------------------------------------------------------------------------------

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The whole state, as arrays and plain values. Rows that were never written are left out.

        Args:
            copy: False: the arrays share the buffer's memory, to be written to a file before anything else is stored.
        """
        for storage in (self._obs.storage, self._actions):
            storage.check_plain("storing a buffer")
        own = self._arrays()
        rows = self._rows_in_use(own)
        arrays = {name: array[: rows.get(name)] for name, array in own.items()}
        if copy:
            arrays = {name: array.copy() for name, array in arrays.items()}
        return {"arrays": arrays, "layout": self._layout(), "generator": self._generator.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, in a buffer made with the same arguments.

        Raises:
            ConfigError: the state is of a buffer with other arguments.
            UnsafeFile: the state is damaged. In both cases nothing has changed.
        """
        own = self._arrays()
        if state["layout"] != self._layout():
            raise ConfigError(
                f"the stored buffer was made with {state['layout']!r:.500}, this one with {self._layout()}; use the "
                "same arguments"
            )
        shorter = self._rows_in_use(own).keys()
        for name, array in own.items():
            given, shape = state["arrays"].get(name), array.shape
            if given is not None and given.ndim and name in shorter and len(given) < len(array):
                shape = (len(given), *shape[1:])
            if given is None or given.shape != shape or given.dtype != array.dtype:
                raise UnsafeFile(f"the stored buffer is damaged: {name} is missing or not {array.shape} {array.dtype}")
        self._check_places(state["arrays"])
        for name, rows in self._rows_in_use(state["arrays"]).items():
            if len(state["arrays"][name]) < rows:
                raise UnsafeFile(f"the stored buffer is damaged: {name} has fewer than {rows} rows")
        generator = np.random.default_rng()
        try:
            generator.bit_generator.state = state["generator"]
        except Exception as error:  # NumPy checks the random state, and may raise anything
            raise UnsafeFile(f"the stored buffer is damaged: {error!r} in the random state") from error
        for name, array in own.items():
            array[: len(state["arrays"][name])] = state["arrays"][name]
        self._generator = generator

    def save(self, path: str | Path) -> None:
        """Write the whole state to a file of plain arrays (npz); loading it runs no code."""
        state = self.state_dict(copy=False)
        write_arrays(path, {"layout": state["layout"], "generator": state["generator"]}, state["arrays"])

    def load(self, path: str | Path) -> None:
        """Read what `save` wrote, into a buffer made with the same arguments.

        Raises:
            UnsafeFile: the file is damaged, or is not a replay buffer.
        """
        about, arrays = read_arrays(path, "replay buffer")
        if not isinstance(about, dict) or not about.keys() >= {"layout", "generator"}:
            raise UnsafeFile(f"{path} is not a vecenv replay buffer; pass a file that ReplayBuffer.save wrote")
        try:
            self.load_state_dict({**about, "arrays": arrays})
        except (ConfigError, UnsafeFile) as error:
            raise type(error)(f"{path}: {error}; nothing was loaded") from error

    def _check_places(self, arrays: dict[str, np.ndarray]) -> None:
        """Raise UnsafeFile unless counters and indices are in range: native code relies on it."""
        head, stored, highest = arrays["head"], arrays["stored"], arrays["highest"]
        if head.min() < 0 or head.max() >= self.slots or stored.min() < 0 or stored.max() > self.slots:
            raise UnsafeFile(f"the stored buffer is damaged: its positions are not in [0, {self.slots})")
        fine = np.isfinite(highest).all() and highest.min() > 0
        if self._tree is not None:
            fine = fine and self._tree.could_be(arrays["tree"]) and (arrays["tree"][1] > 0) == (stored.sum() > 0)
        if not fine:
            raise UnsafeFile("the stored buffer is damaged: its priorities are not a valid sum tree")

    def _rows_in_use(self, arrays: dict[str, np.ndarray]) -> dict[str, int]:
        """By name, how many rows of these arrays may have been written. Other arrays are needed whole."""
        head, stored = arrays["head"], arrays["stored"]
        slots = int(head.max()) if (head >= stored).all() else self.slots  # else a lane has begun again from its start
        columns = [f"action{leaf}" for leaf in range(len(self._actions.columns))]
        columns += [*(f"extra_{name}" for name in self._extras), "reward", "terminated", "truncated", "ended"]
        return {**self._obs.rows(slots * self.lanes, arrays), **dict.fromkeys(columns, slots * self.lanes)}

    def _arrays(self) -> dict[str, np.ndarray]:
        own = {
            **{f"action{leaf}": column for leaf, column in enumerate(self._actions.columns)},
            **{f"extra_{name}": column for name, column in self._extras.items()},
            "reward": self._reward, "terminated": self._terminated, "truncated": self._truncated, "ended": self._ended,
            "head": self._head, "stored": self._stored, "fresh": self._fresh, "highest": self._highest,
        }  # fmt: skip
        tree = {} if self._tree is None else {"tree": self._tree.nodes}
        return {**self._obs.arrays(), **own, **tree}

    def _layout(self) -> dict[str, list[Any]]:
        return {name: [list(array.shape), array.dtype.str] for name, array in self._arrays().items()}

    def _place(self, slots: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        return slots * self.lanes + lanes + self.first_lane

    def _drop_overwritten(self, lanes: np.ndarray) -> None:
        """Drop the oldest transitions whose frames were overwritten."""
        while len(lanes):
            index = self._place((self._head[lanes] - self._stored[lanes]) % self.slots, lanes)
            lost = self._obs.lost(index, lanes + self.first_lane) & (self._stored[lanes] > 0)
            lanes, index = lanes[lost], index[lost]
            self._stored[lanes] -= 1
            if self._tree is not None and len(lanes):
                self._tree.update(index, 0.0)
