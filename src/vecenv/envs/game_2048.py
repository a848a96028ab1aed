"""2048: slide tiles on a board; equal tiles merge."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.kernel.language.define import kernel

SIZE = 4
LEFT, UP, RIGHT, DOWN = 0, 1, 2, 3
HIGHEST = 17
"""No tile is larger than 2 to the power of 17."""

CELL, GAP = 80, 10
"""Pixels of a tile, and between two of them."""
FRAME: Color = (40, 44, 66)
EMPTY: Color = (58, 62, 88)
COLORS: tuple[Color, ...] = ((232, 226, 210), (250, 186, 82), (239, 83, 110), (132, 126, 230), (72, 178, 214))
"""From which the colour of a tile is mixed; every second tile has one of them."""


@kernel("2048-v0")
class Game2048:
    """A board of 4 x 4 cells, on which all tiles slide in one direction; two equal ones that meet become one.

    Actions: 0 left, 1 up, 2 right, 3 down. An action that moves nothing changes nothing; the action mask forbids it.
    After every other action a tile of 2 appears on a random free cell, or with probability 0.1 a tile of 4.

    Observation: the exponents of the tiles, 0 for a free cell, 1 for a tile of 2, 2 for one of 4.

    Reward: the sum of the tiles that were made by merging. The episode ends when no action moves anything.
    """

    class Params:
        four_probability = 0.1
        illegal_reward = 0.0
        """Reward for an action that moves nothing."""

    bounds: ClassVar = {"four_probability": (0.0, 1.0)}
    observation_space = spaces.Box(0, HIGHEST, (SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(4)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 4}
    state: ClassVar = {"board": (np.int8, (SIZE, SIZE))}
    info: ClassVar = {"score": int, "highest": int}

    def reset(s, rng, p):
        """Two tiles."""
        s.board[:] = 0
        s.score = 0
        _add_tile(s, rng, p)
        _add_tile(s, rng, p)
        s.highest = 2 ** s.board.max()

    def step(s, action, rng, p):
        """Turn the board so that tiles slide to the left, and back."""
        turned = np.rot90(s.board, action)
        moved, points = _slide(turned)
        if np.array_equal(moved, turned):
            return p.illegal_reward, False
        s.board = np.rot90(moved, -action)
        s.score += points
        _add_tile(s, rng, p)
        s.highest = 2 ** s.board.max()
        return float(points), _is_stuck(s.board)

    def observe(s, obs, p):
        obs[:] = s.board

    def action_mask(s, mask, p):
        """Allow the actions that move something."""
        for action in range(4):
            turned = np.rot90(s.board, action)
            moved, _ = _slide(turned)
            mask[action] = not np.array_equal(moved, turned)

    def render(s, p) -> np.ndarray:
        """The board, with the score below it."""
        side = SIZE * CELL + (SIZE + 1) * GAP
        canvas = Canvas(side + 40, side, FRAME)
        for y in range(SIZE):
            for x in range(SIZE):
                _draw_tile(canvas, GAP + y * (CELL + GAP), GAP + x * (CELL + GAP), int(s.board[y, x]))
        canvas.number(side + 6, GAP, s.score, 4, COLORS[0])
        return canvas.frame()


def _add_tile(s, rng, p):
    cell = rng.choice(np.flatnonzero(s.board == 0))
    s.board[cell // SIZE, cell % SIZE] = 2 if rng.random() < p.four_probability else 1


def _slide(board):
    """The board after all tiles went left, and the sum of the tiles that were merged."""
    result = np.zeros_like(board)
    points = 0
    for y, row in enumerate(board):
        x = 0
        last = 0
        for tile in row[row != 0]:
            if tile == last:
                result[y, x - 1] = tile + 1
                points += 2 ** (tile + 1)
                last = 0
            else:
                result[y, x] = tile
                x += 1
                last = tile
    return result, points


def _is_stuck(board):
    return not ((board == 0).any() or (board[1:] == board[:-1]).any() or (board[:, 1:] == board[:, :-1]).any())


def _draw_tile(canvas: Canvas, top: float, left: float, exponent: int) -> None:
    if exponent == 0:
        canvas.box(top, left, CELL, CELL, EMPTY, radius=8)
        return
    place = min((exponent - 1) / 3, len(COLORS) - 1.001)
    color = between(COLORS[int(place)], COLORS[int(place) + 1], place - int(place))
    canvas.box(top, left, CELL, CELL, between(color, FRAME, 0.35), radius=8)
    canvas.box(top, left, CELL - 4, CELL, color, radius=8)
    digits = len(str(2**exponent))
    dot = 7.0 if digits < 3 else 20 / digits
    width = (4 * digits - 1) * dot
    canvas.number(top + (CELL - 5 * dot) / 2 - 2, left + (CELL - width) / 2, 2**exponent, dot, FRAME)
