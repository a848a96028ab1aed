"""What a runner passes to the learner: T steps of N envs, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from vecenv._batch.layout import map_tree
from vecenv._util.forks import cached_property

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
        agents: how many of the N rows are agents of one env; 1: a row is an env.
    """

    obs: Any
    actions: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    extra: dict[str, np.ndarray]
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


class PackedEpisode(SingleAgentEpisode):
    """A packed env's episode that counts environment steps of all N envs."""

    __slots__ = ()

    def env_steps(self) -> int:
        """Environment steps, resets not counted."""
        return PackedRollout.of_episode(self).env_steps()

    def agent_steps(self) -> int:
        """The same: there is one agent."""
        return self.env_steps()


def stack_in_time(trees: list[Any]) -> Any:
    """A list of trees of arrays as one tree of arrays with an additional first axis."""
    return map_tree(lambda *leaves: np.stack(leaves), *trees)
