"""MiniGrid's FourRooms: find the goal in one of four rooms."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vecenv.envs._minigrid import (
    ACTIONS,
    EMPTY,
    GOAL,
    MARGIN,
    OBSERVATION,
    WALL,
    act,
    begin,
    draw,
    fields,
    find_empty,
    look,
    place_agent,
)
from vecenv.kernel.language.define import kernel

SIZE = 19
ROOM = SIZE // 2


@kernel("MiniGrid-FourRooms-v0")
class MiniGridFourRooms:
    """Four rooms with a gap in each of the walls between them; agent and goal are anywhere.

    Equal to MiniGrid's from the same seed, but for the mission: an observation has no text.

    Actions: 0 turns left, 1 turns right, 2 goes forward, 3 picks up, 4 drops, 5 opens or closes, 6 does nothing.

    Observation: the 7 x 7 cells before the agent, each as object, colour and state, and the direction it looks in.

    Reward: for reaching the goal; from 1 at the first step down to 0.1 at the last.
    """

    class Params:
        max_steps = 100

    observation_space = OBSERVATION
    action_space = ACTIONS
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = fields(SIZE)

    def reset(s, rng, p):
        """Two walls that cross, with a gap in each of their four arms; then the agent, then the goal."""
        begin(s, SIZE)
        middle = MARGIN + ROOM
        s.grid[middle, :] = WALL
        s.grid[:, middle] = WALL
        s.grid[MARGIN + rng.integers(1, ROOM), middle] = EMPTY
        s.grid[middle, MARGIN + rng.integers(1, ROOM)] = EMPTY
        s.grid[middle, MARGIN + rng.integers(ROOM + 1, 2 * ROOM)] = EMPTY
        s.grid[MARGIN + rng.integers(ROOM + 1, 2 * ROOM), middle] = EMPTY
        place_agent(s, rng, SIZE, SIZE)
        s.grid[find_empty(s, rng, SIZE, SIZE)] = GOAL

    def step(s, action, rng, p):
        return act(s, action, p)

    def observe(s, obs, p):
        look(s, obs)

    def render(s, p) -> np.ndarray:
        """The rooms from above."""
        return draw(s, SIZE)
