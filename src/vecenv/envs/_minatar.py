"""What the five MinAtar games share: the board, actions that stick, and how a frame is drawn."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from vecenv.envs._drawing import Canvas, Color, between

SIZE = 10
STAY, LEFT, UP, RIGHT, DOWN, FIRE = 0, 1, 2, 3, 4, 5
ACTIONS = 6

CELL = 32
"""Pixels of a cell in a frame."""
NIGHT: Color = (18, 20, 34)
FLOOR: tuple[Color, Color] = ((30, 33, 52), (27, 30, 48))


def planes(count: int) -> Box:
    """The observation space: what is where, one plane per kind of thing."""
    return Box(0.0, 1.0, (SIZE, SIZE, count), np.bool_)  # type: ignore[arg-type]  # Box takes it


def actions(minimal: tuple[int, ...], p) -> Discrete:
    """The action space: all six actions, or those that have an effect in the game."""
    return Discrete(len(minimal) if p.use_minimal_action_set else ACTIONS)


def stick(s, action, rng, p):
    """The action that is carried out: with some probability that of the step before."""
    if p.sticky_action_prob > 0.0 and rng.random() < p.sticky_action_prob:
        action = s.last_action
    s.last_action = action
    return action


def draw(seen: np.ndarray, looks: tuple[tuple[Color, float], ...]) -> np.ndarray:
    """A frame of an observation; every plane has a colour and a size, as a share of the cell. Later planes cover."""
    canvas = Canvas(SIZE * CELL, SIZE * CELL, NIGHT)
    for y in range(SIZE):
        for x in range(SIZE):
            canvas.box(y * CELL, x * CELL, CELL, CELL, FLOOR[(y + x) % 2])
    for plane, (color, size) in enumerate(looks):
        for y, x in np.argwhere(seen[:, :, plane]).tolist():
            edge, side = (1.0 - size) / 2 * CELL, size * CELL
            radius = 0.25 * side
            canvas.box(y * CELL + edge, x * CELL + edge, side, side, between(color, NIGHT, 0.35), radius=radius)
            canvas.box(y * CELL + edge, x * CELL + edge, side - 3, side, color, radius=radius)
    return canvas.frame()
