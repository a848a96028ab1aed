"""What all forms of results have in common: which rows are transitions, and their successor observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from vecenv._batch.batch import Op
from vecenv._batch.layout import map_tree

_IDLE, _RESET, _ROLL = int(Op.IDLE), int(Op.RESET), int(Op.ROLL)


class ResultColumns:
    """Rows of one exchange, or with a leading axis of time of more: observations, flags and what they did (`ops`)."""

    obs: Any
    final_obs: Any
    terminated: np.ndarray
    truncated: np.ndarray
    ops: Any

    @property
    def done(self) -> np.ndarray:
        """Where an episode ended."""
        return self.terminated | self.truncated

    @property
    def rolled(self) -> np.ndarray:
        """Where an episode ended and the next one began in this same exchange."""
        return (self.ops == _ROLL) & self.done

    @property
    def valid(self) -> np.ndarray:
        """Where the row is a transition. False for the reset rows of "next-step" mode, whose action was ignored."""
        return self.ops > _RESET

    @property
    def all_valid(self) -> bool:
        """Whether every row is a transition: a fifth of the time that `valid` takes."""
        ops = self.ops.tobytes()
        return _RESET not in ops and _IDLE not in ops

    @property
    def next_obs(self) -> Any:
        """The true successor observation of each transition: `final_obs` where an episode rolled, else `obs`."""
        if self.final_obs is None:
            return self.obs
        rolled = self.rolled

        def chosen(final: np.ndarray, leaf: np.ndarray) -> np.ndarray:
            return np.where(rolled.reshape(rolled.shape + (1,) * (leaf.ndim - rolled.ndim)), final, leaf)

        return map_tree(chosen, self.final_obs, self.obs)
