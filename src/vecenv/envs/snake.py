"""Snake: eat, grow, and do not bite yourself."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import integers

SIZE = 10
CELLS = SIZE * SIZE
LONGEST_START = SIZE // 2
"""The longest snake that fits straight on the board with its head on any of the four cells in the middle."""
LIMIT = 1000

UP, RIGHT, DOWN, LEFT = 0, 1, 2, 3
DOWN_OF = (-1, 0, 1, 0)
RIGHT_OF = (0, 1, 0, -1)
"""One cell ahead, by direction."""
HEAD, BODY, FOOD = 0, 1, 2
"""Planes of the observation."""
NOWHERE = -1

CELL = 32
BORDER = 16
"""Pixels of a cell, and of the frame around the board."""
NIGHT: Color = (24, 30, 44)
MEADOW: tuple[Color, Color] = ((44, 56, 74), (40, 51, 68))
HEAD_COLOR: Color = (126, 232, 122)
TAIL_COLOR: Color = (30, 132, 140)
DEAD_COLOR: Color = (150, 150, 158)
FOOD_COLOR: Color = (242, 84, 84)


@kernel("Snake-v0", max_episode_steps=LIMIT)
class Snake:
    """A snake on a board of 10 x 10 cells with one piece of food, which lies on a free cell chosen at random.

    Actions: 0 up, 1 right, 2 down, 3 left. The snake cannot turn back onto its own neck: the action mask forbids such
    an action, and if it is taken anyway the snake goes straight on.

    Observation: planes of the head, the body and the food. A cell of the body is brighter the later the snake leaves
    it: 1 at the head, 1 / length at the tail.

    Reward: 1 for food, -1 for running into a wall or into itself, which ends the episode, as filling the board does.
    The end of the tail is not an obstacle: it moves on.
    """

    class Params:
        food_reward = 1.0
        death_reward = -1.0
        step_reward = 0.0
        start_length = 3
        """Initial length."""
        wrap = False
        """Whether a snake that leaves the board on one side enters on the opposite side."""

    bounds: ClassVar = {"start_length": (2, LONGEST_START)}

    observation_space = spaces.Box(0.0, 1.0, (3, SIZE, SIZE), np.float32)
    action_space = spaces.Discrete(4)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = {
        "body": (np.int16, (CELLS,)),  # a ring of cells, y * SIZE + x; the snake is in `length` places from `tail` on
        "tail": int,
        "taken": (np.int8, (SIZE, SIZE)),
        "direction": int,
        "food": int,
        "alive": bool,
    }
    info: ClassVar = {"length": int}

    def reset(s, rng, p):
        """Lay a straight snake into the middle."""
        s.taken[:, :] = 0
        s.tail = 0
        s.length = 0
        s.alive = True
        s.direction = integers(rng, 0, 4)
        y = integers(rng, LONGEST_START - 1, LONGEST_START + 1)
        x = integers(rng, LONGEST_START - 1, LONGEST_START + 1)
        for behind in range(p.start_length - 1, -1, -1):
            _grow(s, y - behind * DOWN_OF[s.direction], x - behind * RIGHT_OF[s.direction])
        _place_food(s, rng)

    def step(s, action, rng, p):
        """Turn, and move one cell."""
        if action != (s.direction + 2) % 4:
            s.direction = action
        head = _cell(s, s.length - 1)
        y = head // SIZE + DOWN_OF[s.direction]
        x = head % SIZE + RIGHT_OF[s.direction]
        if p.wrap:
            y = y % SIZE
            x = x % SIZE
        if _is_deadly(s, y, x):
            s.alive = False
            return p.step_reward + p.death_reward, True
        if y * SIZE + x != s.food:
            _leave_tail(s)
            _grow(s, y, x)
            return p.step_reward, False
        _grow(s, y, x)
        _place_food(s, rng)
        return p.step_reward + p.food_reward, s.food == NOWHERE

    def observe(s, obs, p):
        for place in range(s.length):
            cell = _cell(s, place)
            obs[BODY, cell // SIZE, cell % SIZE] = (place + 1) / s.length
        head = _cell(s, s.length - 1)
        obs[HEAD, head // SIZE, head % SIZE] = 1.0
        if s.food != NOWHERE:
            obs[FOOD, s.food // SIZE, s.food % SIZE] = 1.0

    def action_mask(s, mask, p):
        """Forbid the action that turns back."""
        mask[:] = 1
        mask[(s.direction + 2) % 4] = 0

    def render(s, p) -> np.ndarray:
        """The board from above."""
        canvas = Canvas(SIZE * CELL + 2 * BORDER, SIZE * CELL + 2 * BORDER, NIGHT)
        canvas.box(BORDER - 4, BORDER - 4, SIZE * CELL + 8, SIZE * CELL + 8, (70, 86, 108), radius=8)
        for cell in range(CELLS):
            y, x = divmod(cell, SIZE)
            canvas.box(BORDER + y * CELL, BORDER + x * CELL, CELL, CELL, MEADOW[(y + x) % 2])
        if s.food != NOWHERE:
            _draw_food(canvas, *middle_of(s.food))
        _draw_snake(canvas, s)
        return canvas.frame()


def _cell(s, place):
    """A cell of the snake; place 0 is the end of the tail."""
    return s.body[(s.tail + place) % CELLS]


def _grow(s, y, x):
    """Put the head on a cell."""
    s.body[(s.tail + s.length) % CELLS] = y * SIZE + x
    s.taken[y, x] = 1
    s.length += 1


def _leave_tail(s):
    tail = _cell(s, 0)
    s.taken[tail // SIZE, tail % SIZE] = 0
    s.tail = (s.tail + 1) % CELLS
    s.length -= 1


def _is_deadly(s, y, x):
    if y < 0 or y >= SIZE or x < 0 or x >= SIZE:
        return True
    return s.taken[y, x] != 0 and y * SIZE + x != _cell(s, 0)


def _place_food(s, rng):
    """Choose one of the free cells; NOWHERE if there are none."""
    s.food = NOWHERE
    if s.length == CELLS:
        return
    skip = integers(rng, 0, CELLS - s.length)
    for cell in range(CELLS):
        if s.taken[cell // SIZE, cell % SIZE] == 0:
            if skip == 0:
                s.food = cell
                return
            skip -= 1


def middle_of(cell: int) -> tuple[float, float]:
    """Where the middle of a cell is in a frame, y first."""
    return BORDER + (cell // SIZE + 0.5) * CELL, BORDER + (cell % SIZE + 0.5) * CELL


def _draw_food(canvas: Canvas, y: float, x: float) -> None:
    canvas.glow(y, x, CELL, FOOD_COLOR, opacity=0.45)
    canvas.disc(y + 1, x - 3, 8, FOOD_COLOR)
    canvas.disc(y + 1, x + 3, 8, FOOD_COLOR)
    canvas.line(y - 6, x, y - 11, x + 2, 1.2, (120, 82, 60))
    canvas.line(y - 10, x + 4, y - 11, x + 8, 2.2, (126, 200, 96))
    canvas.disc(y - 2, x - 6, 2, (255, 196, 188))


def _draw_snake(canvas: Canvas, s: Any) -> None:
    cells = [_cell(s, place) for place in range(s.length)]
    for shade in (True, False):
        for place in range(s.length - 1):
            share = place / (s.length - 1)
            color = NIGHT if shade else between(TAIL_COLOR, HEAD_COLOR if s.alive else DEAD_COLOR, share)
            radius = CELL * (0.24 + 0.14 * min(1.0, (place + 1) / 4))
            _draw_link(canvas, cells[place], cells[place + 1], radius + 1.5 * shade, color)
    _draw_head(canvas, *middle_of(cells[-1]), s.direction, s.alive)


def _draw_link(canvas: Canvas, cell: int, following: int, radius: float, color: Color) -> None:
    y, x = middle_of(cell)
    to_y, to_x = middle_of(following)
    if abs(to_y - y) + abs(to_x - x) > CELL:  # over the edge of a board that wraps
        canvas.disc(y, x, radius, color)
        canvas.disc(to_y, to_x, radius, color)
    else:
        canvas.line(y, x, to_y, to_x, radius, color)


def _draw_head(canvas: Canvas, y: float, x: float, direction: int, alive: bool) -> None:
    down, right = DOWN_OF[direction], RIGHT_OF[direction]
    color = HEAD_COLOR if alive else DEAD_COLOR
    canvas.line(y, x, y + 3 * down, x + 3 * right, 0.43 * CELL, NIGHT)
    canvas.line(y, x, y + 3 * down, x + 3 * right, 0.4 * CELL, color)
    if alive:
        canvas.line(y + 15 * down, x + 15 * right, y + 18 * down, x + 18 * right, 1.2, FOOD_COLOR)
    for side in (-6, 6):
        eye_y, eye_x = y + 6 * down + side * right, x + 6 * right + side * down
        canvas.disc(eye_y, eye_x, 4, (255, 255, 255))
        if alive:
            canvas.disc(eye_y + 1.5 * down, eye_x + 1.5 * right, 2, NIGHT)
        else:
            canvas.line(eye_y - 2, eye_x - 2, eye_y + 2, eye_x + 2, 0.8, NIGHT)
            canvas.line(eye_y - 2, eye_x + 2, eye_y + 2, eye_x - 2, 0.8, NIGHT)
