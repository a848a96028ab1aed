"""What `rollout` and `get_state` of envs on a device return, and rollouts as CUDA graphs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv._batch.layout import map_tree

if TYPE_CHECKING:
    from vecenv._front.device import DeviceVectorEnv


@dataclass(frozen=True, eq=False)
class TensorRollout:
    """T steps of N envs, tensors [T, N, ...] on the device.

    Attributes:
        obs: observations that were acted on.
        actions: what the policy chose.
        reward, terminated, truncated: results of the actions.
        final_obs: observations that ended an episode, meaningful where one ended; None unless autoreset is "same-step".
        next_obs: [N, ...], the observations to act on next.
    """

    obs: Any
    actions: Any
    reward: Any
    terminated: Any
    truncated: Any
    final_obs: Any
    next_obs: Any


@dataclass(frozen=True, eq=False)
class DeviceState:
    """Everything that some envs consist of, on the device.

    Attributes:
        columns: tensors by name; the first axis is the env.
        ready: which of the envs were reset.
        shared: parameters that all envs share, by name, on the host.
    """

    columns: dict[str, Any]
    ready: np.ndarray
    shared: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.ready)


class RolloutGraphs:
    """Rollouts with one policy as CUDA graphs. A graph writes to the same memory at every replay, its results included.

    Args:
        envs: on a CUDA device.
    """

    def __init__(self, envs: DeviceVectorEnv) -> None:
        self._envs = envs
        self._policy: Any = None
        self._captured: dict[tuple[int, int], tuple[Any, TensorRollout]] = {}
        """Graphs and their results by the number of steps and the layer of the ring that they begin at."""
        self._tried: set[int] = set()
        """Numbers of steps that have been run once, which compiles and allocates what no graph can."""

    def rollout(self, policy: Any, steps: int) -> TensorRollout:
        """As `DeviceVectorEnv.rollout`; the results are copies."""
        envs, torch = self._envs, self._envs._torch
        if policy is not self._policy:
            self._policy, self._captured, self._tried = policy, {}, set()
        if steps not in self._tried:
            self._tried.add(steps)
            return envs._take_steps(None, policy, steps)
        envs.engine.to_device()  # which no graph may do
        memory, first = envs._memory, envs._memory.layer
        if (steps, first) not in self._captured:
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):  # nothing runs yet
                    results = envs._take_steps(None, policy, steps)
            finally:
                memory.layer = first
            self._captured[steps, first] = graph, results
        graph, results = self._captured[steps, first]
        graph.replay()
        memory.layer = (first + steps) % memory.layers
        envs.engine.mark_host_old()
        parts = {each.name: getattr(results, each.name) for each in dataclasses.fields(results)}
        return TensorRollout(
            **{
                name: None if part is None else map_tree(lambda leaf: leaf.clone(), part)
                for name, part in parts.items()
            }
        )
