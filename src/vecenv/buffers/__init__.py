"""Replay and rollout buffers for any space, filled from `Step`, and functions for returns and advantages."""

from vecenv.buffers._replay import ReplayBuffer
from vecenv.buffers._returns import discounted_returns, gae, n_step_returns, v_trace
from vecenv.buffers._rollout import RolloutBuffer, Transitions
from vecenv.buffers._sum_tree import SumTree

__all__ = [
    "ReplayBuffer",
    "RolloutBuffer",
    "SumTree",
    "Transitions",
    "discounted_returns",
    "gae",
    "n_step_returns",
    "v_trace",
]
