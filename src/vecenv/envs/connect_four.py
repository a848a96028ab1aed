"""Connect Four: four discs in a line win, against an opponent that looks one move ahead."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.kernel.language.define import kernel

HEIGHT, WIDTH = 6, 7
EMPTY, MINE, THEIRS = 0, 1, 2

CELL = 48
"""Pixels of a cell in a frame."""
BOARD_COLOR: Color = (52, 92, 190)
COLORS: tuple[Color, ...] = ((24, 28, 48), (250, 206, 82), (239, 83, 110))
"""Of a free cell, of own discs and of theirs."""


@kernel("ConnectFour-v0")
class ConnectFour:
    """Drop discs into the seven columns of a board of six rows, in turn with an opponent, who begins half of the games.

    Actions: the column; the action mask forbids full columns.

    The opponent wins if it can, else prevents a win with the next disc if it can, and else plays at random. With
    probability `opponent_error` it plays at random in any case.

    Observation: planes of own discs and of the opponent's. Reward: 1 for a win, -1 for a loss, 0 for a draw, all of
    which end the episode, as a disc in a full column does, with -1.
    """

    class Params:
        opponent_error = 0.0

    observation_space = spaces.Box(0, 1, (2, HEIGHT, WIDTH), np.uint8)
    action_space = spaces.Discrete(WIDTH)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 2}
    state: ClassVar = {"board": (np.int8, (HEIGHT, WIDTH))}

    def reset(s, rng, p):
        s.board[:] = EMPTY
        if rng.integers(2) == 1:
            _drop(s.board, _reply(s.board, rng, p), THEIRS)

    def step(s, action, rng, p):
        """Drop a disc; if that does not end the game, the opponent does so too."""
        if s.board[0, action] != EMPTY:
            return -1.0, True
        _drop(s.board, action, MINE)
        if _wins(s.board, MINE):
            return 1.0, True
        if np.all(s.board != EMPTY):
            return 0.0, True
        _drop(s.board, _reply(s.board, rng, p), THEIRS)
        if _wins(s.board, THEIRS):
            return -1.0, True
        return 0.0, np.all(s.board != EMPTY)

    def observe(s, obs, p):
        obs[0] = s.board == MINE
        obs[1] = s.board == THEIRS

    def action_mask(s, mask, p):
        """Allow columns that are not full."""
        mask[:] = s.board[0] == EMPTY

    def render(s, p) -> np.ndarray:
        """The board; four in a line are marked."""
        canvas = Canvas(HEIGHT * CELL, WIDTH * CELL, BOARD_COLOR)
        line = _line(np.array(s.board))
        for y in range(HEIGHT):
            for x in range(WIDTH):
                _draw_disc(canvas, (y + 0.5) * CELL, (x + 0.5) * CELL, int(s.board[y, x]), (y, x) in line)
        return canvas.frame()


def _drop(board, column, player):
    row = np.count_nonzero(board[:, column] == EMPTY) - 1
    board[row, column] = player


def _reply(board, rng, p):
    """The opponent's column."""
    legal = np.flatnonzero(board[0] == EMPTY)
    if p.opponent_error > 0.0 and rng.random() < p.opponent_error:
        return rng.choice(legal)
    for player in (THEIRS, MINE):
        for column in legal:
            trial = board.copy()
            _drop(trial, column, player)
            if _wins(trial, player):
                return column
    return rng.choice(legal)


def _wins(board, player):
    """Whether four discs of a player are in a line."""
    own = board == player
    down = own[:-3] & own[1:-2] & own[2:-1] & own[3:]
    across = own[:, :-3] & own[:, 1:-2] & own[:, 2:-1] & own[:, 3:]
    falling = own[:-3, :-3] & own[1:-2, 1:-2] & own[2:-1, 2:-1] & own[3:, 3:]
    rising = own[3:, :-3] & own[2:-1, 1:-2] & own[1:-2, 2:-1] & own[:-3, 3:]
    return down.any() or across.any() or falling.any() or rising.any()


def _line(board: np.ndarray) -> set[tuple[int, int]]:
    """The cells of lines of four."""
    found: set[tuple[int, int]] = set()
    for y, x in np.argwhere(board != EMPTY).tolist():
        for down, right in ((1, 0), (0, 1), (1, 1), (1, -1)):
            cells = [(y + step * down, x + step * right) for step in range(4)]
            inside = all(0 <= row < HEIGHT and 0 <= column < WIDTH for row, column in cells)
            if inside and len({int(board[cell]) for cell in cells}) == 1:
                found.update(cells)
    return found


def _draw_disc(canvas: Canvas, y: float, x: float, player: int, marked: bool) -> None:
    color = COLORS[player]
    canvas.disc(y, x, 0.4 * CELL, between(color, COLORS[EMPTY], 0.3))
    if player != EMPTY:
        canvas.disc(y - 1, x, 0.36 * CELL, color)
        canvas.disc(y - 1, x, 0.24 * CELL, (255, 255, 255) if marked else between(color, COLORS[EMPTY], 0.15))
