"""FourRooms: find the goal in a house; the agent sees only the part in front of it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import integers, random

ROOM = 5
SIZE = 2 * ROOM + 3
MIDDLE = ROOM + 1
"""Row and column of the inner walls."""
ACROSS = 2 * ROOM
"""Floor cells in a row of two rooms."""
VIEW = 7
SIDE = VIEW // 2
LIMIT = 100

LEFT, RIGHT, FORWARD = 0, 1, 2
FLOOR, WALL, GOAL = 0, 1, 2
"""Planes of the observation."""
DOWN_OF = (0, 1, 0, -1)
RIGHT_OF = (1, 0, -1, 0)
"""One cell ahead, when looking right, down, left and up."""

CELL = 24
"""Pixels of a cell in a frame."""
GOAL_COLOR: Color = (64, 224, 160)
AGENT_COLOR: Color = (255, 112, 88)
NIGHT: Color = (20, 22, 38)
WALL_COLOR: Color = (112, 122, 166)
ROOM_COLORS: tuple[Color, ...] = ((214, 196, 160), (168, 196, 190), (200, 176, 200), (178, 190, 222))
DOOR_COLOR: Color = (214, 164, 112)


@kernel("FourRooms-v0", max_episode_steps=LIMIT)
class FourRooms:
    """Four rooms with a door in each wall between two of them; doors, goal and agent are placed anew in every episode.

    Actions: 0 turns left, 1 turns right, 2 goes forward, unless there is a wall.

    Observation: the 7 x 7 cells in front of the agent, which is in the middle of the last row and looks up: planes of
    floor, walls and the goal. Cells behind a wall are 0 in all planes.

    Reward: for reaching the goal, which ends the episode; it decreases with the number of steps.
    """

    class Params:
        goal_reward = 1.0
        fade = 0.9
        """Share of `goal_reward` that is lost after 100 steps."""
        step_penalty = 0.0
        slip = 0.0
        """Probability that a step forward fails."""
        see_through = False
        """Whether the agent sees through walls."""

    bounds: ClassVar = {"fade": (0.0, 1.0), "slip": (0.0, 1.0)}

    observation_space = spaces.Box(0, 1, (3, VIEW, VIEW), np.uint8)
    action_space = spaces.Discrete(3)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 8}
    state: ClassVar = {
        "walls": (np.int8, (SIZE, SIZE)),
        "y": int,
        "x": int,
        "direction": int,
        "goal_y": int,
        "goal_x": int,
        "steps": int,
    }
    info: ClassVar = {"bumps": int}

    def reset(s, rng, p):
        """Build the house; put agent and goal on different cells."""
        _build_house(s, rng)
        here = integers(rng, 0, ACROSS * ACROSS)
        there = integers(rng, 0, ACROSS * ACROSS - 1)
        if there >= here:
            there += 1
        s.y = _beside_walls(here // ACROSS)
        s.x = _beside_walls(here % ACROSS)
        s.goal_y = _beside_walls(there // ACROSS)
        s.goal_x = _beside_walls(there % ACROSS)
        s.direction = integers(rng, 0, 4)
        s.steps = 0
        s.bumps = 0

    def step(s, action, rng, p):
        """Turn or go."""
        s.steps += 1
        if action == LEFT:
            s.direction = (s.direction + 3) % 4
        elif action == RIGHT:
            s.direction = (s.direction + 1) % 4
        elif p.slip <= 0.0 or random(rng) >= p.slip:
            _go_forward(s)
        found = s.y == s.goal_y and s.x == s.goal_x
        reward = -p.step_penalty
        if found:
            reward += p.goal_reward * max(0.0, 1.0 - p.fade * s.steps / LIMIT)
        return reward, found

    def observe(s, obs, p):
        """Write the cells from near to far: whether a cell is visible depends on nearer ones."""
        for ahead in range(VIEW):
            _look(s, obs, p, ahead, 0)
            for aside in range(1, SIDE + 1):
                _look(s, obs, p, ahead, -aside)
                _look(s, obs, p, ahead, aside)

    def render(s, p) -> np.ndarray:
        """The house from above; the cells that the agent sees are lit."""
        canvas = Canvas(SIZE * CELL, SIZE * CELL, NIGHT)
        lit = _lit_cells(s, p)
        for y in range(SIZE):
            for x in range(SIZE):
                _draw_cell(canvas, s, y, x, shade=0.0 if lit[y, x] else 0.45)
        _draw_goal(canvas, (s.goal_y + 0.5) * CELL, (s.goal_x + 0.5) * CELL)
        _draw_agent(canvas, (s.y + 0.5) * CELL, (s.x + 0.5) * CELL, s.direction)
        return canvas.frame()


def _build_house(s, rng):
    s.walls[:, :] = 0
    for wall in range(0, SIZE, MIDDLE):
        s.walls[wall, :] = 1
        s.walls[:, wall] = 1
    for room in range(2):
        first = 1 + room * MIDDLE
        s.walls[MIDDLE, integers(rng, first, first + ROOM)] = 0
        s.walls[integers(rng, first, first + ROOM), MIDDLE] = 0


def _beside_walls(number):
    """Row or column of a floor cell, given its number among floor cells."""
    return 1 + number + number // ROOM


def _go_forward(s):
    y = s.y + DOWN_OF[s.direction]
    x = s.x + RIGHT_OF[s.direction]
    if s.walls[y, x] != 0:
        s.bumps += 1
    else:
        s.y = y
        s.x = x


def _look(s, obs, p, ahead, aside):
    """Write the content of a cell, `aside` to the right, if it is in the house and visible."""
    y, x = _place(s, ahead, aside)
    if y < 0 or y >= SIZE or x < 0 or x >= SIZE:
        return
    if not p.see_through and not _in_sight(obs, ahead, aside):
        return
    row = VIEW - 1 - ahead
    column = SIDE + aside
    if s.walls[y, x] != 0:
        obs[WALL, row, column] = 1
    else:
        obs[FLOOR, row, column] = 1
    if y == s.goal_y and x == s.goal_x:
        obs[GOAL, row, column] = 1


def _place(s, ahead, aside):
    """Row and column in the house of a cell in the agent's view."""
    right = (s.direction + 1) % 4
    y = s.y + ahead * DOWN_OF[s.direction] + aside * DOWN_OF[right]
    x = s.x + ahead * RIGHT_OF[s.direction] + aside * RIGHT_OF[right]
    return y, x


def _in_sight(obs, ahead, aside):
    """Whether a cell is visible: one of the two nearer cells on the way must be visible floor."""
    inner = aside
    if aside > 0:
        inner = aside - 1
    elif aside < 0:
        inner = aside + 1
    if ahead == 0:
        return aside == 0 or _is_open(obs, 0, inner)
    if ahead > abs(aside):
        return _is_open(obs, ahead - 1, aside) or _is_open(obs, ahead - 1, inner)
    if ahead < abs(aside):
        return _is_open(obs, ahead, inner) or _is_open(obs, ahead - 1, inner)
    return _is_open(obs, ahead - 1, inner)


def _is_open(obs, ahead, aside):
    return obs[FLOOR, VIEW - 1 - ahead, SIDE + aside] == 1


def _lit_cells(s: Any, p: Any) -> np.ndarray:
    """Which cells of the house the agent sees."""
    seen = np.zeros((3, VIEW, VIEW), np.uint8)
    FourRooms.observe(s, seen, p)
    lit = np.zeros((SIZE, SIZE), bool)
    for row, column in np.argwhere(seen.any(axis=0)).tolist():
        lit[_place(s, VIEW - 1 - row, column - SIDE)] = True
    return lit


def _draw_cell(canvas: Canvas, s: Any, y: int, x: int, shade: float) -> None:
    top, left = y * CELL, x * CELL
    if s.walls[y, x]:
        canvas.box(top, left, CELL, CELL, between(WALL_COLOR, NIGHT, 0.45 + shade))
        canvas.box(top + 1, left + 1, CELL - 2, CELL - 2, between(WALL_COLOR, NIGHT, 0.25 + shade), radius=4)
        canvas.box(top + 1, left + 1, CELL - 6, CELL - 2, between(WALL_COLOR, NIGHT, shade), radius=4)
        return
    is_door = MIDDLE in (y, x)
    color = DOOR_COLOR if is_door else ROOM_COLORS[2 * (y > MIDDLE) + (x > MIDDLE)]
    canvas.box(top, left, CELL, CELL, between(color, NIGHT, 0.12 + shade))
    canvas.box(top + 1, left + 1, CELL - 2, CELL - 2, between(color, NIGHT, shade + 0.04 * ((y + x) % 2)), radius=2)


def _draw_goal(canvas: Canvas, y: float, x: float) -> None:
    canvas.glow(y, x, 1.1 * CELL, GOAL_COLOR, opacity=0.7)
    tip, wide = 0.42 * CELL, 0.34 * CELL
    dark, bright = between(GOAL_COLOR, NIGHT, 0.35), between(GOAL_COLOR, (255, 255, 255), 0.6)
    canvas.polygon([(y - tip, x), (y, x + wide), (y + tip, x), (y, x - wide)], GOAL_COLOR)
    canvas.polygon([(y + 3, x - wide + 3), (y + 3, x + wide - 3), (y + tip, x)], dark)
    canvas.polygon([(y - tip, x), (y - 3, x + 0.3 * wide), (y - 3, x - 0.7 * wide)], bright)


def _draw_agent(canvas: Canvas, y: float, x: float, direction: int) -> None:
    down, right = DOWN_OF[direction] * CELL, RIGHT_OF[direction] * CELL

    def at(ahead: float, aside: float) -> tuple[float, float]:
        return y + ahead * down + aside * right, x + ahead * right - aside * down

    canvas.disc(y + 2, x, 0.42 * CELL, NIGHT, opacity=0.35)
    canvas.polygon([at(0.55, 0), at(0.1, 0.38), at(0.1, -0.38)], AGENT_COLOR)
    canvas.disc(y, x, 0.4 * CELL, AGENT_COLOR)
    for aside in (-0.17, 0.17):
        canvas.disc(*at(0.12, aside), 0.12 * CELL, (255, 255, 255))
        canvas.disc(*at(0.17, aside), 0.06 * CELL, NIGHT)
