"""MiniGrid's LavaGap: walk through the gap in a wall of lava."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vecenv.envs._minigrid import (
    ACTIONS,
    EMPTY,
    GOAL,
    LAVA,
    MARGIN,
    OBSERVATION,
    act,
    begin,
    checked_size,
    draw,
    fields,
    look,
)
from vecenv.kernel.language.define import kernel

LARGEST = 7


@kernel("MiniGrid-LavaGapS5-v0", kwargs={"size": 5})
@kernel("MiniGrid-LavaGapS6-v0", kwargs={"size": 6})
@kernel("MiniGrid-LavaGapS7-v0", kwargs={"size": 7})
class MiniGridLavaGap:
    """A wall of lava with a gap between the agent and the goal; walking into lava ends the episode.

    Equal to MiniGrid's from the same seed, but for the mission: an observation has no text.

    Actions: 0 turns left, 1 turns right, 2 goes forward, 3 picks up, 4 drops, 5 opens or closes, 6 does nothing.

    Observation: the 7 x 7 cells before the agent, each as object, colour and state, and the direction it looks in.

    Reward: for reaching the goal; from 1 at the first step down to 0.1 at the last.
    """

    class Params:
        size = 7
        max_steps = 196

    observation_space = OBSERVATION
    action_space = ACTIONS
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = fields(LARGEST)

    def configure(size: Any = 7, max_steps=None):
        sizes = checked_size(size, 5, LARGEST)
        return {"size": sizes, "max_steps": 4 * sizes**2 if max_steps is None else max_steps}

    def reset(s, rng, p):
        size = min(max(p.size, 5), LARGEST)
        begin(s, size)
        s.grid[MARGIN + size - 2, MARGIN + size - 2] = GOAL
        wall = MARGIN + rng.integers(2, size - 2)
        gap = MARGIN + rng.integers(1, size - 1)
        s.grid[MARGIN + 1 : MARGIN + size - 1, wall] = LAVA
        s.grid[gap, wall] = EMPTY

    def step(s, action, rng, p):
        return act(s, action, p)

    def observe(s, obs, p):
        look(s, obs)

    def render(s, p) -> np.ndarray:
        """The room from above."""
        return draw(s, p.size)
