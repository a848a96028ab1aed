"""Pursuit: agents on a grid catch evaders, which takes two of them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color
from vecenv.kernel.language.define import kernel

SIZE = 16
COUNT, EVADERS = 8, 12
SIGHT = 3
VIEW = 2 * SIGHT + 1
DOWN_OF = (0, 0, 0, -1, 1)
RIGHT_OF = (0, -1, 1, 0, 0)
"""Where a move leads: stay, left, right, up, down."""
WALL, FRIENDS, PREY = 0, 1, 2
"""Planes of the observation."""
CELL = 24
FIELD: tuple[Color, Color] = ((232, 236, 226), (226, 231, 219))
HUNTER: Color = (196, 78, 82)
EVADER: Color = (60, 110, 180)


@kernel("Pursuit-v0", max_episode_steps=300)
class Pursuit:
    """Eight pursuers and twelve evaders on a grid of 16 x 16 cells. Evaders move at random.

    Actions: 0 stay, 1 left, 2 right, 3 up, 4 down. An evader is caught when at least `catchers` pursuers are on its
    cell or next to it; each of these gets `catch_reward`. A pursuer next to an evader gets `touch_reward`. The episode
    ends when all evaders are caught.

    Observation: 7 x 7 cells around the pursuer: the world's edge, other pursuers, evaders.
    """

    agents = COUNT

    class Params:
        catchers = 2
        catch_reward = 5.0
        touch_reward = 0.01
        step_reward = -0.1

    bounds: ClassVar = {"catchers": (1, COUNT)}
    observation_space = spaces.Box(0.0, float(max(COUNT, EVADERS)), (3, VIEW, VIEW), np.float32)
    action_space = spaces.Discrete(5)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 8}
    state: ClassVar = {
        "hunter": (np.int16, (COUNT, 2)),
        "prey": (np.int16, (EVADERS, 2)),
        "caught": (bool, EVADERS),
    }
    info: ClassVar = {"left": int}

    def reset(s, rng, p):
        for agent in range(COUNT):
            s.hunter[agent, 0] = rng.integers(SIZE)
            s.hunter[agent, 1] = rng.integers(SIZE)
        for prey in range(EVADERS):
            s.prey[prey, 0] = rng.integers(SIZE)
            s.prey[prey, 1] = rng.integers(SIZE)
        s.caught[:] = False
        s.left = EVADERS

    def step(s, actions, reward, done, rng, p):
        for agent in range(COUNT):
            _move(s.hunter[agent], actions[agent])
            reward[agent] = p.step_reward
        for prey in range(EVADERS):
            if not s.caught[prey]:
                _move(s.prey[prey], rng.integers(5))
        for prey in range(EVADERS):
            if s.caught[prey]:
                continue
            near = 0
            for agent in range(COUNT):
                if _touches(s, agent, prey):
                    near += 1
                    reward[agent] += p.touch_reward
            if near >= p.catchers:
                s.caught[prey] = True
                s.left -= 1
                for agent in range(COUNT):
                    if _touches(s, agent, prey):
                        reward[agent] += p.catch_reward
        if s.left == 0:
            done[:] = True

    def observe(s, agent, obs, p):
        top, left = s.hunter[agent, 0] - SIGHT, s.hunter[agent, 1] - SIGHT
        for y in range(VIEW):
            for x in range(VIEW):
                if not (0 <= top + y < SIZE and 0 <= left + x < SIZE):
                    obs[WALL, y, x] = 1.0
        for other in range(COUNT):
            y, x = s.hunter[other, 0] - top, s.hunter[other, 1] - left
            if other != agent and 0 <= y < VIEW and 0 <= x < VIEW:
                obs[FRIENDS, y, x] += 1.0
        for prey in range(EVADERS):
            y, x = s.prey[prey, 0] - top, s.prey[prey, 1] - left
            if not s.caught[prey] and 0 <= y < VIEW and 0 <= x < VIEW:
                obs[PREY, y, x] += 1.0

    def render(s, p) -> np.ndarray:
        """Pursuers in red, evaders in blue."""
        canvas = Canvas(SIZE * CELL, SIZE * CELL, FIELD[0])
        for y in range(SIZE):
            for x in range(y % 2, SIZE, 2):
                canvas.box(y * CELL, x * CELL, CELL, CELL, FIELD[1])
        for prey in range(EVADERS):
            if not s.caught[prey]:
                canvas.disc((s.prey[prey, 0] + 0.5) * CELL, (s.prey[prey, 1] + 0.5) * CELL, 0.28 * CELL, EVADER)
        for agent in range(COUNT):
            y, x = s.hunter[agent, 0] * CELL, s.hunter[agent, 1] * CELL
            canvas.box(y + 4, x + 4, CELL - 8, CELL - 8, HUNTER, radius=4, opacity=0.8)
        return canvas.frame()


def _move(place, action):
    """Move one cell, unless that leaves the world."""
    y, x = place[0] + DOWN_OF[action], place[1] + RIGHT_OF[action]
    if 0 <= y < SIZE and 0 <= x < SIZE:
        place[0] = y
        place[1] = x


def _touches(s, agent, prey):
    """Whether a pursuer is on the cell of an evader, or next to it."""
    return abs(s.hunter[agent, 0] - s.prey[prey, 0]) + abs(s.hunter[agent, 1] - s.prey[prey, 1]) <= 1
