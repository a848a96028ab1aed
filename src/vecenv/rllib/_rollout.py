"""What a runner passes to the learner: T steps of N envs, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from vecenv._batch.layout import map_tree
from vecenv._util.forks import cached_property

_Slice = slice
VERSION = 2
"""Version of PackedRollout's fields. A learner refuses another one: driver and actors may run different releases."""


@dataclass(frozen=True, eq=False)
class PackedRollout:
    """T steps of N envs in next-step autoreset mode.

    RLlib treats it as an episode: `env_steps` are true environment steps, `len` those of all agents.

    Attributes:
        obs: tree of [T + 1, N, ...]; the last one is the first of the next rollout.
        actions: tree of [T, N, ...], as the policy chose them (before unsquashing or clipping).
        rewards: [T, N] float32.
        terminated, truncated: [T, N] bool.
        valid: [T, N] bool; False where a step only reset an env, whose action was ignored.
        extra: other outputs of the policy, for example "action_logp": [T, N, ...] each.
        states: tree of [T + 1, N, ...], the state of a recurrent module that belongs to each observation, or None.
        weights_seq_no: number of the weights that chose the actions.
        agents: how many of the N rows are agents of one env; 1: a row is an env.
    """

    obs: Any
    actions: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    extra: dict[str, np.ndarray]
    states: Any = None
    weights_seq_no: int = 0
    agents: int = 1
    version: int = VERSION

    @cached_property
    def _steps(self) -> int:
        return int(np.count_nonzero(self.valid))

    def __len__(self) -> int:
        return self._steps

    def env_steps(self) -> int:
        """Environment steps, resets not counted."""
        if self.agents == 1:
            return self._steps
        return int(np.count_nonzero(self.valid.reshape(len(self.valid), -1, self.agents).any(axis=2)))

    def agent_steps(self) -> int:
        """Steps of all agents."""
        return self._steps

    def __getitem__(self, steps: _Slice) -> PackedRollout:
        return self.slice(steps)

    def slice(self, steps: _Slice, len_lookback_buffer: int | None = None) -> PackedRollout:
        """Some of the env steps, counted env by env, as RLlib divides episodes between learners.

        Steps of a chosen env outside of the slice stay, and are not valid: advantages are computed from all of them.
        """
        start, stop, _ = steps.indices(len(self))
        number = np.cumsum(self.valid.T).reshape(self.valid.T.shape).T
        valid = self.valid & (start < number) & (number <= stop)
        whole = valid.any(axis=0).reshape(-1, self.agents).any(axis=1)  # agents of an env stay together
        envs = np.flatnonzero(np.repeat(whole, self.agents))

        def chosen(tree: Any) -> Any:
            return map_tree(lambda leaf: leaf[:, envs], tree)

        return replace(
            self,
            obs=chosen(self.obs),
            actions=chosen(self.actions),
            rewards=chosen(self.rewards),
            terminated=chosen(self.terminated),
            truncated=chosen(self.truncated),
            valid=valid[:, envs],
            extra=chosen(self.extra),
            states=None if self.states is None else chosen(self.states),
        )

    @classmethod
    def of_episode(cls, episode: SingleAgentEpisode) -> PackedRollout:
        """Convert a packed env's episode, as RLlib recorded it."""
        steps = len(episode)
        seen = episode.get_observations(slice(0, steps + 1))
        flags = {name: np.asarray(seen[name], bool) for name in ("terminated", "truncated")}
        extra = {
            name: np.asarray(episode.get_extra_model_outputs(name, slice(0, steps)))
            for name in episode.extra_model_outputs
            if name != "weights_seq_no"
        }
        return cls(
            obs=seen["obs"],
            actions=episode.get_actions(slice(0, steps)),
            rewards=np.asarray(seen["reward"][1:], np.float32),
            terminated=flags["terminated"][1:],
            truncated=flags["truncated"][1:],
            valid=~(flags["terminated"] | flags["truncated"])[:-1],
            extra=extra,
        )


@dataclass(frozen=True, eq=False)
class EpisodeRows:
    """Where the rows of RLlib's batch are in a rollout: episode after episode, env by env.

    RLlib adds a row with the last observation to every episode, or part of one, for the value that follows it.

    Attributes:
        time, env: [rows], indices of observations.
        real: [rows] bool, False for the added rows.
        within: [rows], the number of the row in its episode.
        lengths: [episodes], rows of each.
    """

    time: np.ndarray
    env: np.ndarray
    real: np.ndarray
    within: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rollout: PackedRollout) -> EpisodeRows:
        """The rows of a rollout."""
        valid = np.pad(rollout.valid.T, ((0, 0), (1, 1)))
        env, start = np.nonzero(valid[:, 1:-1] & ~valid[:, :-2])
        _, last = np.nonzero(valid[:, 1:-1] & ~valid[:, 2:])
        lengths = last - start + 2
        within = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
        return cls(
            time=np.repeat(start, lengths) + within,
            env=np.repeat(env, lengths),
            real=within < np.repeat(lengths - 1, lengths),
            within=within,
            lengths=lengths,
        )

    @property
    def step(self) -> np.ndarray:
        """[rows], indices of steps: an added row repeats the action of the row before it."""
        return self.time - ~self.real

    @property
    def ends(self) -> np.ndarray:
        """[rows] bool: the last real row of its episode."""
        return np.append(self.real[:-1] & ~self.real[1:], False)


@dataclass(frozen=True, eq=False)
class Sequences:
    """Rows as sequences [B, L] of recurrent modules: an episode is cut every L rows, its last part padded with zeros.

    Attributes:
        at: [rows], the row's place in the flattened sequences.
        lengths: [B], rows of each sequence.
        length: L.
    """

    at: np.ndarray
    lengths: np.ndarray
    length: int

    @classmethod
    def of(cls, rows: EpisodeRows, length: int) -> Sequences:
        """The sequences of some rows."""
        parts = -(-rows.lengths // length)
        first = np.repeat(parts.cumsum() - parts, rows.lengths)
        at = first * length + rows.within
        return cls(at, np.bincount(at // length, minlength=parts.sum()), length)

    def padded(self, rows: Any) -> Any:
        """A tree of [rows, ...] as [B, L, ...]; arrays or tensors."""
        return map_tree(self._padded, rows)

    def _padded(self, rows: Any) -> Any:
        shape = (len(self.lengths) * self.length, *rows.shape[1:])
        flat = np.zeros(shape, rows.dtype) if isinstance(rows, np.ndarray) else rows.new_zeros(shape)
        flat[self.at] = rows
        return flat.reshape(-1, self.length, *rows.shape[1:])


def stack_in_time(trees: list[Any]) -> Any:
    """A list of trees of arrays as one tree of arrays with an additional first axis."""
    return map_tree(lambda *leaves: np.stack(leaves), *trees)
