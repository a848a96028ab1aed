"""MiniGrid's Empty: walk to the goal in the opposite corner of a room."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vecenv.envs._minigrid import (
    ACTIONS,
    GOAL,
    MARGIN,
    OBSERVATION,
    act,
    begin,
    checked_size,
    draw,
    fields,
    look,
    place_agent,
)
from vecenv.errors import ConfigError
from vecenv.kernel.language.define import kernel

LARGEST = 16


@kernel("MiniGrid-Empty-5x5-v0", kwargs={"size": 5})
@kernel("MiniGrid-Empty-Random-5x5-v0", kwargs={"size": 5, "agent_start_pos": None})
@kernel("MiniGrid-Empty-6x6-v0", kwargs={"size": 6})
@kernel("MiniGrid-Empty-Random-6x6-v0", kwargs={"size": 6, "agent_start_pos": None})
@kernel("MiniGrid-Empty-8x8-v0", kwargs={"size": 8})
@kernel("MiniGrid-Empty-16x16-v0", kwargs={"size": 16})
class MiniGridEmpty:
    """An empty room; the goal is in the corner opposite to the start.

    Equal to MiniGrid's from the same seed, but for the mission: an observation has no text.

    Actions: 0 turns left, 1 turns right, 2 goes forward, 3 picks up, 4 drops, 5 opens or closes, 6 does nothing.

    Observation: the 7 x 7 cells before the agent, each as object, colour and state, and the direction it looks in.

    Reward: for reaching the goal; from 1 at the first step down to 0.1 at the last.
    """

    class Params:
        size = 8
        random_start = False
        max_steps = 256

    observation_space = OBSERVATION
    action_space = ACTIONS
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = fields(LARGEST)

    def configure(size: Any = 8, agent_start_pos=(1, 1), max_steps=None):
        if agent_start_pos is not None and tuple(agent_start_pos) != (1, 1):
            raise ConfigError(f"agent_start_pos is {agent_start_pos}; it must be (1, 1), or None for a random place")
        sizes = checked_size(size, 4, LARGEST)
        return {
            "size": sizes,
            "random_start": agent_start_pos is None,
            "max_steps": 4 * sizes**2 if max_steps is None else max_steps,
        }

    def reset(s, rng, p):
        size = min(max(p.size, 4), LARGEST)
        begin(s, size)
        s.grid[MARGIN + size - 2, MARGIN + size - 2] = GOAL
        if p.random_start:
            place_agent(s, rng, size, size)

    def step(s, action, rng, p):
        return act(s, action, p)

    def observe(s, obs, p):
        look(s, obs, see_through=True)

    def render(s, p) -> np.ndarray:
        """The room from above."""
        return draw(s, p.size, see_through=True)
