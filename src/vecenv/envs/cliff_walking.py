"""CliffWalking: walk along a cliff to the goal. Bit-equal to Gymnasium's."""

from __future__ import annotations

from typing import ClassVar

from gymnasium.spaces import Discrete

from vecenv.envs._numpy import sample_of_three
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import random

UP, RIGHT, DOWN, LEFT = 0, 1, 2, 3
ROWS, COLUMNS = 4, 12
THIRD = 1 / 3


@kernel("CliffWalking-v1")
@kernel("CliffWalkingSlippery-v1", kwargs={"is_slippery": True})
class CliffWalking:
    """The place of the player; the cliff is the last row without its ends."""

    observation_space = Discrete(ROWS * COLUMNS)
    action_space = Discrete(4)
    state: ClassVar = {"row": int, "column": int}
    info: ClassVar = {"prob": float}

    class Params:
        """Slippery: only one step in three goes in the chosen direction."""

        is_slippery = False

    def configure(is_slippery=False):
        return {"is_slippery": is_slippery}

    def reset(s, rng, p):
        """At the lower left. Gymnasium samples from a list of start places that has one entry."""
        random(rng)
        s.row = ROWS - 1
        s.column = 0
        s.prob = 1.0

    def step(s, action, rng, p):
        """Walk up (0), right (1), down (2) or left (3), or slip to a side of it; the cliff leads back to the start."""
        if p.is_slippery:
            turn = sample_of_three(rng, THIRD, THIRD, THIRD) - 1
            s.prob = THIRD
        else:
            random(rng)
            turn = 0
            s.prob = 1.0
        way = (action + turn) % 4
        if way == UP:
            s.row = max(s.row - 1, 0)
        elif way == RIGHT:
            s.column = min(s.column + 1, COLUMNS - 1)
        elif way == DOWN:
            s.row = min(s.row + 1, ROWS - 1)
        else:
            s.column = max(s.column - 1, 0)
        if s.row == ROWS - 1 and 0 < s.column < COLUMNS - 1:
            s.column = 0
            return -100.0, False
        return -1.0, s.row == ROWS - 1 and s.column == COLUMNS - 1

    def observe(s, obs, p):
        """The number of the place."""
        obs[0] = s.row * COLUMNS + s.column
