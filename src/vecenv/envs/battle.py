"""Battle: two armies of sixteen on a grid; who is hit too often dies."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color, between
from vecenv.kernel.language.define import kernel

SIZE = 20
ARMY = 16
COUNT = 2 * ARMY
HEALTH = 3
SIGHT = 4
VIEW = 2 * SIGHT + 1
DOWN_OF = (0, 0, 0, -1, 1)
RIGHT_OF = (0, -1, 1, 0, 0)
"""Left, right, up and down are 1 to 4."""
NOBODY = -1
WALL, FRIENDS, FOES = 0, 1, 2
"""Planes of the observation."""
CELL = 20
FIELD: Color = (236, 232, 222)
COLORS: tuple[Color, Color] = ((196, 78, 82), (60, 110, 180))


@kernel("Battle-v0", max_episode_steps=200)
class Battle:
    """Two armies of sixteen, one on each side of a grid of 20 x 20 cells.

    Actions: 0 stay; 1 to 4 move left, right, up, down; 5 to 8 hit the cell there. Agents act one after the other in an
    order that is drawn in every step. Three hits kill. An agent that dies gets `death_reward` and leaves; when an army
    is gone, the episode of the others ends too.

    Observation: 9 x 9 cells around the agent: the world's edge, health of friends and health of foes, from 0 to 1.
    """

    agents = COUNT

    class Params:
        hit_reward = 0.2
        kill_reward = 1.0
        death_reward = -1.0
        step_reward = -0.005

    observation_space = spaces.Box(0.0, 1.0, (3, VIEW, VIEW), np.float32)
    action_space = spaces.Discrete(9)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 8}
    state: ClassVar = {
        "board": (np.int8, (SIZE, SIZE)),
        "place": (np.int16, (COUNT, 2)),
        "health": (np.int8, COUNT),
        "order": (np.int64, COUNT),
    }

    def reset(s, rng, p):
        s.board[:] = NOBODY
        s.health[:] = HEALTH
        for agent in range(COUNT):
            s.order[agent] = agent
            half = 0 if agent < ARMY else 11
            y, x = rng.integers(SIZE), half + rng.integers(9)
            while s.board[y, x] != NOBODY:
                y, x = rng.integers(SIZE), half + rng.integers(9)
            s.board[y, x] = agent
            s.place[agent, 0] = y
            s.place[agent, 1] = x

    def step(s, actions, reward, done, rng, p):
        rng.shuffle(s.order)
        for turn in range(COUNT):
            agent = s.order[turn]
            if done[agent]:
                continue
            action = actions[agent]
            reward[agent] += p.step_reward
            if action == 0:
                continue
            move = action if action < 5 else action - 4
            y, x = s.place[agent, 0] + DOWN_OF[move], s.place[agent, 1] + RIGHT_OF[move]
            if not (0 <= y < SIZE and 0 <= x < SIZE):
                continue
            other = s.board[y, x]
            if action < 5 and other == NOBODY:
                s.board[s.place[agent, 0], s.place[agent, 1]] = NOBODY
                s.board[y, x] = agent
                s.place[agent, 0] = y
                s.place[agent, 1] = x
            elif action >= 5 and other != NOBODY and _army(other) != _army(agent):
                s.health[other] -= 1
                reward[agent] += p.hit_reward
                if s.health[other] == 0:
                    reward[agent] += p.kill_reward
                    reward[other] += p.death_reward
                    done[other] = True
                    s.board[y, x] = NOBODY
        if np.all(s.health[:ARMY] == 0) or np.all(s.health[ARMY:] == 0):
            done[:] = True

    def observe(s, agent, obs, p):
        top, left = s.place[agent, 0] - SIGHT, s.place[agent, 1] - SIGHT
        for y in range(VIEW):
            for x in range(VIEW):
                if not (0 <= top + y < SIZE and 0 <= left + x < SIZE):
                    obs[WALL, y, x] = 1.0
                    continue
                other = s.board[top + y, left + x]
                if other != NOBODY:
                    plane = FRIENDS if _army(other) == _army(agent) else FOES
                    obs[plane, y, x] = s.health[other] / HEALTH

    def render(s, p) -> np.ndarray:
        """The armies; who is hit becomes paler."""
        canvas = Canvas(SIZE * CELL, SIZE * CELL, FIELD)
        for agent in range(COUNT):
            if s.health[agent] > 0:
                color = between(FIELD, COLORS[0 if agent < ARMY else 1], 0.25 + 0.25 * int(s.health[agent]))
                y, x = (s.place[agent, 0] + 0.5) * CELL, (s.place[agent, 1] + 0.5) * CELL
                canvas.disc(y, x, 0.42 * CELL, color)
        return canvas.frame()


def _army(agent):
    return 0 if agent < ARMY else 1
