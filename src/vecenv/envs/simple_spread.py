"""Simple spread: three agents cover three landmarks and avoid each other, with the bits of mpe2's simple_spread_v3."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs._drawing import Canvas, Color
from vecenv.kernel.language.define import kernel

COUNT = 3
DT, DAMPING = 0.1, 0.25
FORCE, MARGIN = 1e2, 1e-3
CONTACT = 0.15 + 0.15
"""The distance of two agents that touch."""
PUSH = 5.0
SIZE = 400
NIGHT: Color = (244, 245, 248)
COLORS: tuple[Color, ...] = ((86, 110, 214), (224, 122, 95), (74, 160, 122))
MARK: Color = (64, 68, 80)


@kernel("SimpleSpread-v0", max_episode_steps=25)
class SimpleSpread:
    """Agents move on a plane. Actions: 0 nothing, 1 left, 2 right, 3 down, 4 up.

    Observation: own velocity and position, positions of the landmarks and of the others relative to the own, and
    zeros where mpe2 has messages. Reward: `1 - local_ratio` times the negative sum of each landmark's distance to the
    nearest agent, which all share, and `local_ratio` times -1 for each agent that is touched.
    """

    agents = COUNT

    class Params:
        local_ratio = 0.5

    bounds: ClassVar = {"local_ratio": (0.0, 1.0)}
    observation_space = spaces.Box(-np.inf, np.inf, (18,), np.float32)
    action_space = spaces.Discrete(5)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = {
        "position": (float, (COUNT, 2)),
        "velocity": (float, (COUNT, 2)),
        "landmark": (float, (COUNT, 2)),
        "force": (float, (COUNT, 2)),
    }

    def reset(s, rng, p):
        for agent in range(COUNT):
            for axis in range(2):
                s.position[agent, axis] = rng.uniform(-1.0, 1.0)
                s.velocity[agent, axis] = 0.0
        for mark in range(COUNT):
            for axis in range(2):
                s.landmark[mark, axis] = rng.uniform(-1.0, 1.0)

    def step(s, actions, reward, done, rng, p):
        for agent in range(COUNT):
            action = actions[agent]
            s.force[agent, 0] = PUSH * (-1.0 if action == 1 else 1.0 if action == 2 else 0.0)
            s.force[agent, 1] = PUSH * (-1.0 if action == 3 else 1.0 if action == 4 else 0.0)
        for agent in range(COUNT):
            for other in range(agent + 1, COUNT):
                _push_apart(s, agent, other)
        for agent in range(COUNT):
            for axis in range(2):
                s.position[agent, axis] += s.velocity[agent, axis] * DT
                s.velocity[agent, axis] = s.velocity[agent, axis] * (1 - DAMPING)
                s.velocity[agent, axis] += s.force[agent, axis] * DT
        shared = 0.0
        for mark in range(COUNT):
            nearest = _distance(s, 0, s.landmark[mark, 0], s.landmark[mark, 1])
            for agent in range(1, COUNT):
                nearest = min(nearest, _distance(s, agent, s.landmark[mark, 0], s.landmark[mark, 1]))
            shared -= nearest
        for agent in range(COUNT):
            own = 0.0
            for other in range(COUNT):
                if other != agent and _distance(s, agent, s.position[other, 0], s.position[other, 1]) < CONTACT:
                    own -= 1.0
            reward[agent] = shared * (1 - p.local_ratio) + own * p.local_ratio

    def observe(s, agent, obs, p):
        for axis in range(2):
            obs[axis] = s.velocity[agent, axis]
            obs[2 + axis] = s.position[agent, axis]
            place = 10
            for other in range(COUNT):
                obs[4 + 2 * other + axis] = s.landmark[other, axis] - s.position[agent, axis]
                if other != agent:
                    obs[place + axis] = s.position[other, axis] - s.position[agent, axis]
                    place += 2

    def render(s, p) -> np.ndarray:
        """Agents as large discs, landmarks as small ones."""
        canvas = Canvas(SIZE, SIZE, NIGHT)
        scale = SIZE / 3.0
        for x, y in np.array(s.landmark):
            canvas.disc(SIZE / 2 - y * scale, SIZE / 2 + x * scale, 0.05 * scale, MARK)
        for agent, (x, y) in enumerate(np.array(s.position)):
            canvas.disc(SIZE / 2 - y * scale, SIZE / 2 + x * scale, 0.15 * scale, COLORS[agent], opacity=0.8)
        return canvas.frame()


def _distance(s, agent, x, y):
    across, up = s.position[agent, 0] - x, s.position[agent, 1] - y
    return math.sqrt(across * across + up * up)


def _push_apart(s, agent, other):
    """Add the force of two agents that touch: mpe2's soft contact."""
    distance = _distance(s, agent, s.position[other, 0], s.position[other, 1])
    depth = -(distance - CONTACT) / MARGIN
    # NumPy's logaddexp(0, depth)
    if depth == 0.0:
        soft = math.log(2.0)
    elif depth < 0.0:
        soft = math.log1p(math.exp(depth))
    else:
        soft = depth + math.log1p(math.exp(-depth))
    penetration = soft * MARGIN
    for axis in range(2):
        force = FORCE * (s.position[agent, axis] - s.position[other, axis]) / distance * penetration
        s.force[agent, axis] = force + s.force[agent, axis]
        s.force[other, axis] = -force + s.force[other, axis]
