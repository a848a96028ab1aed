"""Tetris: turn and place falling pieces so that they fill rows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.kernel.language.define import kernel

HEIGHT, WIDTH, WALL = 20, 10, 4
"""Of the field, and of the walls around it in `board`, so that a piece beside the field is still inside the array."""
STAY, LEFT, RIGHT, TURN, DROP = 0, 1, 2, 3, 4
POINTS = (0.0, 1.0, 3.0, 5.0, 8.0)
"""Reward by the number of rows that a piece completes."""
PIECES = np.array(
    [
        [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]],
    ],
    np.int8,
)
FIELD, FALLING, NEXT = 0, 1, 2
"""Planes of the observation."""
LIMIT = 10_000

CELL = 20
"""Pixels of a cell in a frame."""
NIGHT: Color = (24, 28, 46)
GRID: Color = (34, 39, 62)
COLORS: tuple[Color, ...] = (
    (72, 200, 220),
    (250, 206, 82),
    (178, 112, 230),
    (118, 204, 120),
    (239, 83, 110),
    (82, 122, 230),
    (247, 146, 72),
)


@kernel("Tetris-v0", max_episode_steps=LIMIT)
class Tetris:
    """Seven pieces of four cells fall into a field of 20 x 10, one row per step; complete rows vanish.

    Actions: 0 nothing, 1 left, 2 right, 3 turn counterclockwise, 4 drop to the ground. What there is no room for does
    not happen. Pieces come in random order, each once before one comes again.

    Observation: planes of the cells that are taken, of the falling piece, and, in the upper left corner, of the next.

    Reward: 1, 3, 5 or 8 for one to four rows at once. The episode ends when there is no room for a new piece.
    """

    class Params:
        row_reward = 1.0
        """Factor of the rewards for rows."""
        death_reward = 0.0

    observation_space = spaces.Box(0, 1, (3, HEIGHT, WIDTH), np.uint8)
    action_space = spaces.Discrete(5)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = {
        "board": (np.int8, (HEIGHT + WALL, WIDTH + 2 * WALL)),  # 0 free, else 1 + kind of the piece; walls are 1
        "piece": (np.int8, (4, 4)),
        "kind": int,
        "y": int,
        "x": int,
        "bag": (np.int8, (2 * len(PIECES),)),  # the pieces of this round, and of the next
        "drawn": int,
    }
    info: ClassVar = {"lines": int}

    def reset(s, rng, p):
        s.board[:] = 1
        s.board[:HEIGHT, WALL:-WALL] = 0
        s.bag = np.concatenate((rng.permutation(len(PIECES)), rng.permutation(len(PIECES))))
        s.drawn = 0
        s.lines = 0
        _next_piece(s, rng)

    def step(s, action, rng, p):
        """Move the piece if there is room; then it falls by one row, or stays where it is and the next one comes."""
        if action == LEFT and _fits(s.board, s.piece, s.y, s.x - 1):
            s.x -= 1
        elif action == RIGHT and _fits(s.board, s.piece, s.y, s.x + 1):
            s.x += 1
        elif action == TURN:
            turned = np.rot90(s.piece)
            if _fits(s.board, turned, s.y, s.x):
                s.piece = turned
        elif action == DROP:
            while _fits(s.board, s.piece, s.y + 1, s.x):
                s.y += 1
        if _fits(s.board, s.piece, s.y + 1, s.x):
            s.y += 1
            return 0.0, False
        s.board[s.y : s.y + 4, s.x : s.x + 4] += (s.kind + 1) * s.piece
        cleared = _clear_rows(s.board[:HEIGHT, WALL:-WALL])
        s.lines += cleared
        _next_piece(s, rng)
        reward = p.row_reward * POINTS[cleared]
        if _fits(s.board, s.piece, s.y, s.x):
            return reward, False
        return reward + p.death_reward, True

    def observe(s, obs, p):
        falling = np.zeros_like(s.board)
        falling[s.y : s.y + 4, s.x : s.x + 4] = s.piece
        obs[FIELD] = s.board[:HEIGHT, WALL:-WALL] != 0
        obs[FALLING] = falling[:HEIGHT, WALL:-WALL]
        obs[NEXT, :4, :4] = PIECES[s.bag[s.drawn]]

    def render(s, p) -> np.ndarray:
        """The field, with the next piece and the number of rows beside it."""
        canvas = Canvas(HEIGHT * CELL, (WIDTH + 5) * CELL, NIGHT)
        for y in range(HEIGHT):
            for x in range(WIDTH):
                _draw_cell(canvas, y, x, int(s.board[y, WALL + x]))
        for y, x in np.argwhere(np.array(s.piece)).tolist():
            _draw_cell(canvas, s.y + y, s.x + x - WALL, s.kind + 1)
        following = int(s.bag[s.drawn])
        for y, x in np.argwhere(np.array(PIECES[following])).tolist():
            _draw_cell(canvas, y, WIDTH + 0.5 + x, following + 1)
        canvas.number(5 * CELL, (WIDTH + 1) * CELL, s.lines, 4, (226, 232, 248))
        return canvas.frame()


def _fits(board, piece, y, x):
    return not ((board[y : y + 4, x : x + 4] != 0) & (piece != 0)).any()


def _clear_rows(field):
    """Remove complete rows, let those above fall, and return how many were removed."""
    full = (field != 0).all(axis=1)
    cleared = full.sum()
    if cleared > 0:
        kept = field[~full]
        field[:cleared] = 0
        field[cleared:] = kept
    return cleared


def _next_piece(s, rng):
    """Take a piece from the bag; when all of a round are taken, draw the order of the round after the next."""
    s.kind = s.bag[s.drawn]
    s.piece = PIECES[s.kind]
    s.drawn += 1
    if s.drawn == len(PIECES):
        s.bag[: len(PIECES)] = s.bag[len(PIECES) :]
        s.bag[len(PIECES) :] = rng.permutation(len(PIECES))
        s.drawn = 0
    s.y = 0
    s.x = WALL + WIDTH // 2 - 2


def _draw_cell(canvas: Canvas, y: float, x: float, cell: int) -> None:
    top, left = y * CELL, x * CELL
    if cell == 0:
        canvas.box(top + 1, left + 1, CELL - 1, CELL - 1, GRID)
        return
    color = COLORS[cell - 1]
    canvas.box(top + 1, left + 1, CELL - 1, CELL - 1, between(color, NIGHT, 0.4), radius=3)
    canvas.box(top + 1, left + 1, CELL - 4, CELL - 1, color, radius=3)
