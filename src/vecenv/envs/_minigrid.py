"""What the MiniGrid envs share: the grid, what an agent can do in it and sees of it, and how a frame is drawn."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.errors import ConfigError

VIEW = 7
SIDE = VIEW // 2
MARGIN = VIEW - 1
"""Walls around the grid, so that whatever the agent sees is inside the array."""

TURN_LEFT, TURN_RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, DONE = 0, 1, 2, 3, 4, 5, 6
EMPTY, WALL, OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR, KEY, GOAL, LAVA = 0, 1, 2, 3, 4, 5, 6, 7
CODES = np.array(
    [(1, 0, 0), (2, 5, 0), (4, 4, 0), (4, 4, 1), (4, 4, 2), (5, 4, 0), (8, 1, 0), (9, 0, 0)],
    np.uint8,
)
"""Object, colour and state of each kind of cell, as MiniGrid numbers them. Doors and keys are yellow."""
WAYS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
"""Rows and columns to the cell ahead, when looking right, down, left and up."""

OBSERVATION = Dict({"direction": Discrete(4), "image": Box(0, 255, (VIEW, VIEW, 3), np.uint8)})
ACTIONS = Discrete(7)

CELL = 32
"""Pixels of a cell in a frame."""
NIGHT: Color = (20, 22, 38)
FLOOR: Color = (52, 56, 74)
WALL_COLOR: Color = (112, 122, 146)
GOAL_COLOR: Color = (64, 224, 128)
LAVA_COLOR: Color = (255, 128, 32)
YELLOW: Color = (250, 216, 82)
AGENT_COLOR: Color = (255, 80, 80)


def fields(size: int) -> dict:
    """The state of an env whose grid has at most `size` rows and columns. Its upper left corner is at MARGIN."""
    return {
        "grid": (np.int8, (size + 2 * MARGIN, size + 2 * MARGIN)),
        "place": (int, (2,)),
        "direction": int,
        "has_key": bool,
        "steps": int,
    }


def checked_size(size, smallest: int, largest: int) -> np.ndarray:
    """Numbers of rows of grids, one for all envs or one per env. Raises ConfigError."""
    sizes = np.asarray(size)
    if np.any((sizes < smallest) | (sizes > largest)):
        raise ConfigError(f"size is {size}; it must be {smallest} to {largest}")
    return sizes


def begin(s, size):
    """An empty room with walls around it; the agent is in the corner and looks to the right."""
    s.grid[:] = WALL
    s.grid[MARGIN + 1 : MARGIN + size - 1, MARGIN + 1 : MARGIN + size - 1] = EMPTY
    s.place[:] = (MARGIN + 1, MARGIN + 1)
    s.direction = 0
    s.has_key = False
    s.steps = 0


def find_empty(s, rng, width, height):
    """Row and column of a random empty cell in the first rows and columns, where the agent is not."""
    while True:
        x = MARGIN + rng.integers(0, width)
        y = MARGIN + rng.integers(0, height)
        if s.grid[y, x] == EMPTY and not (s.place[0] == y and s.place[1] == x):
            return y, x


def place_agent(s, rng, width, height):
    """Put the agent on a random empty cell; it looks in a random direction."""
    s.place[:] = -1
    s.place = find_empty(s, rng, width, height)
    s.direction = rng.integers(0, 4)


def act(s, action, p):
    """Carry out an action; return reward, terminated and truncated."""
    s.steps += 1
    ahead = s.place + WAYS[s.direction]
    y, x = ahead
    cell = s.grid[y, x]
    reward = 0.0
    over = False
    if action == TURN_LEFT:
        s.direction = (s.direction - 1) % 4
    elif action == TURN_RIGHT:
        s.direction = (s.direction + 1) % 4
    elif action == FORWARD:
        if cell in (EMPTY, OPEN_DOOR, GOAL, LAVA):
            s.place = ahead
        if cell == GOAL:
            reward = 1 - 0.9 * (s.steps / p.max_steps)
        over = cell in (GOAL, LAVA)
    elif action == PICK_UP and cell == KEY and not s.has_key:
        s.grid[y, x] = EMPTY
        s.has_key = True
    elif action == DROP and cell == EMPTY and s.has_key:
        s.grid[y, x] = KEY
        s.has_key = False
    elif action == TOGGLE:
        if cell == CLOSED_DOOR or (cell == LOCKED_DOOR and s.has_key):
            s.grid[y, x] = OPEN_DOOR
        elif cell == OPEN_DOOR:
            s.grid[y, x] = CLOSED_DOOR
    return reward, over, s.steps >= p.max_steps


def look(s, obs, see_through=False):
    """Write what the agent sees: columns first, the agent in the middle of the last row, looking up."""
    view = window(s)
    seen = np.ones((VIEW, VIEW), bool) if see_through else visible(view)
    for row in range(VIEW):
        for column in range(VIEW):
            if seen[row, column]:
                obs["image"][column, row] = CODES[view[row, column]]
    obs["image"][SIDE, VIEW - 1] = CODES[KEY if s.has_key else EMPTY]
    obs["direction"] = s.direction


def window(s):
    """The cells before the agent, turned so that it looks up."""
    y, x = s.place - SIDE + SIDE * WAYS[s.direction]
    return np.rot90(s.grid[y : y + VIEW, x : x + VIEW], s.direction + 1)


def visible(view):
    """Which cells the agent sees: light spreads from it, sideways and ahead, through cells that are not opaque."""
    seen = np.zeros((VIEW, VIEW), bool)
    seen[VIEW - 1, SIDE] = True
    clear = (view != WALL) & (view != CLOSED_DOOR) & (view != LOCKED_DOOR)
    for row in reversed(range(VIEW)):
        for column in range(VIEW - 1):
            if seen[row, column] and clear[row, column]:
                seen[row, column + 1] = True
                if row > 0:
                    seen[row - 1, column : column + 2] = True
        for column in range(VIEW - 1, 0, -1):
            if seen[row, column] and clear[row, column]:
                seen[row, column - 1] = True
                if row > 0:
                    seen[row - 1, column - 1 : column + 1] = True
    return seen


def draw(s, size: int, see_through: bool = False) -> np.ndarray:
    """The grid from above; the cells that the agent sees are lit."""
    canvas = Canvas(size * CELL, size * CELL, NIGHT)
    lit = _lit_cells(s, see_through)
    for y in range(size):
        for x in range(size):
            cell = int(s.grid[MARGIN + y, MARGIN + x])
            _draw_cell(canvas, y * CELL, x * CELL, cell, bool(lit[MARGIN + y, MARGIN + x]))
    y, x = ((int(place) - MARGIN + 0.5) * CELL for place in s.place)
    _draw_agent(canvas, y, x, int(s.direction))
    if s.has_key:
        _draw_key(canvas, y - 0.5 * CELL, x - 0.5 * CELL)
    return canvas.frame()


def _lit_cells(s, see_through: bool) -> np.ndarray:
    """Which cells of the array the agent sees."""
    lit = np.zeros(s.grid.shape, bool)
    y, x = (int(place) for place in s.place - SIDE + SIDE * WAYS[s.direction])
    seen = np.ones((VIEW, VIEW), bool) if see_through else np.array(visible(window(s)))
    lit[y : y + VIEW, x : x + VIEW] = np.rot90(seen, -(s.direction + 1))
    return lit


def _draw_cell(canvas: Canvas, top: float, left: float, cell: int, lit: bool) -> None:
    shade = 0.0 if lit else 0.4
    if cell == WALL:
        canvas.box(top, left, CELL, CELL, between(WALL_COLOR, NIGHT, 0.35 + shade))
        canvas.box(top + 1, left + 1, CELL - 4, CELL - 2, between(WALL_COLOR, NIGHT, shade), radius=4)
        return
    canvas.box(top, left, CELL, CELL, NIGHT)
    canvas.box(top + 1, left + 1, CELL - 1, CELL - 1, between(FLOOR, NIGHT, shade))
    if cell == GOAL:
        canvas.box(top + 3, left + 3, CELL - 6, CELL - 6, between(GOAL_COLOR, NIGHT, shade), radius=5)
    elif cell == LAVA:
        canvas.box(top, left, CELL, CELL, between(LAVA_COLOR, NIGHT, shade))
        for wave in (8, 16, 24):
            canvas.line(top + wave + 2, left + 5, top + wave - 2, left + 13, 1.2, NIGHT, opacity=0.6)
            canvas.line(top + wave - 2, left + 17, top + wave + 2, left + 27, 1.2, NIGHT, opacity=0.6)
    elif cell == KEY:
        _draw_key(canvas, top, left)
    elif cell in (OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR):
        _draw_door(canvas, top, left, cell)


def _draw_door(canvas: Canvas, top: float, left: float, cell: int) -> None:
    if cell == OPEN_DOOR:
        canvas.box(top, left, CELL, 6, YELLOW, radius=2)
        return
    canvas.box(top + 1, left + 1, CELL - 2, CELL - 2, YELLOW, radius=3)
    canvas.box(top + 4, left + 4, CELL - 8, CELL - 8, between(YELLOW, NIGHT, 0.55 if cell == LOCKED_DOOR else 0.8))
    canvas.disc(top + CELL / 2, left + CELL - 9, 3, YELLOW)


def _draw_key(canvas: Canvas, top: float, left: float) -> None:
    canvas.disc(top + 10, left + 16, 6, YELLOW)
    canvas.disc(top + 10, left + 16, 2.5, NIGHT)
    canvas.box(top + 15, left + 14.5, 12, 3, YELLOW)
    canvas.box(top + 20, left + 11, 2.5, 5, YELLOW)
    canvas.box(top + 24, left + 11, 2.5, 5, YELLOW)


def _draw_agent(canvas: Canvas, y: float, x: float, direction: int) -> None:
    down, right = (float(way) for way in WAYS[direction] * CELL)

    def at(ahead: float, aside: float) -> tuple[float, float]:
        return y + ahead * down + aside * right, x + ahead * right - aside * down

    canvas.polygon([at(0.38, 0), at(-0.3, 0.32), at(-0.3, -0.32)], AGENT_COLOR)
