"""MiniGrid's DoorKey: fetch the key, open the door, walk to the goal."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vecenv.envs._minigrid import (
    ACTIONS,
    GOAL,
    KEY,
    LOCKED_DOOR,
    MARGIN,
    OBSERVATION,
    WALL,
    act,
    begin,
    checked_size,
    draw,
    fields,
    find_empty,
    look,
    place_agent,
)
from vecenv.kernel.language.define import kernel

LARGEST = 16


@kernel("MiniGrid-DoorKey-5x5-v0", kwargs={"size": 5})
@kernel("MiniGrid-DoorKey-6x6-v0", kwargs={"size": 6})
@kernel("MiniGrid-DoorKey-8x8-v0", kwargs={"size": 8})
@kernel("MiniGrid-DoorKey-16x16-v0", kwargs={"size": 16})
class MiniGridDoorKey:
    """Two rooms; the goal is behind a locked door, the key before it.

    Equal to MiniGrid's from the same seed, but for the mission: an observation has no text.

    Actions: 0 turns left, 1 turns right, 2 goes forward, 3 picks up, 4 drops, 5 opens or closes, 6 does nothing.

    Observation: the 7 x 7 cells before the agent, each as object, colour and state, and the direction it looks in.

    Reward: for reaching the goal; from 1 at the first step down to 0.1 at the last.
    """

    class Params:
        size = 8
        max_steps = 640

    observation_space = OBSERVATION
    action_space = ACTIONS
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = fields(LARGEST)

    def configure(size: Any = 8, max_steps=None):
        sizes = checked_size(size, 5, LARGEST)
        return {"size": sizes, "max_steps": 10 * sizes**2 if max_steps is None else max_steps}

    def reset(s, rng, p):
        """A wall with a locked door between the agent, which has the key on its side, and the goal."""
        size = min(max(p.size, 5), LARGEST)
        begin(s, size)
        s.grid[MARGIN + size - 2, MARGIN + size - 2] = GOAL
        wall = rng.integers(2, size - 2)
        s.grid[:, MARGIN + wall] = WALL
        place_agent(s, rng, wall, size)
        s.grid[MARGIN + rng.integers(1, size - 2), MARGIN + wall] = LOCKED_DOOR
        s.grid[find_empty(s, rng, wall, size)] = KEY

    def step(s, action, rng, p):
        return act(s, action, p)

    def observe(s, obs, p):
        look(s, obs)

    def render(s, p) -> np.ndarray:
        """The rooms from above."""
        return draw(s, p.size)
