"""InvertedPendulum and InvertedDoublePendulum."""

from __future__ import annotations

import math
from typing import Any

from vecenv.mujoco._task import Task
from vecenv.mujoco.numerics import clip
from vecenv.mujoco.tasks._common import add_normal, add_uniform, put, put_clipped, unbounded


class InvertedPendulum(Task, id="InvertedPendulum-v5", max_episode_steps=1000):
    """Gymnasium's InvertedPendulum-v5."""

    model = "inverted_pendulum.xml"
    frame_skip = 2
    observation_space = unbounded(4)
    step_info = {"reward_survive": int}

    class Params:
        reset_noise_scale = 0.01

    bounds = {"reset_noise_scale": (0.0, None)}

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_uniform(s.qvel, rng, p.reset_noise_scale)

    def reward(s: Any, action: Any, p: Any) -> float:
        s.reward_survive = 0 if abs(s.qpos[1]) > 0.2 else 1
        return s.reward_survive

    def terminated(s: Any, p: Any) -> bool:
        return abs(s.qpos[1]) > 0.2

    def observe(s: Any, obs: Any, p: Any) -> None:
        put(obs, put(obs, 0, s.qpos, 0), s.qvel, 0)


class InvertedDoublePendulum(Task, id="InvertedDoublePendulum-v5", max_episode_steps=1000):
    """Gymnasium's InvertedDoublePendulum-v5."""

    model = "inverted_double_pendulum.xml"
    frame_skip = 5
    observation_space = unbounded(9)
    step_info = {"reward_survive": float, "distance_penalty": float, "velocity_penalty": float}

    class Params:
        healthy_reward = 10.0
        reset_noise_scale = 0.1

    bounds = {"reset_noise_scale": (0.0, None)}

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_normal(s.qvel, rng, p.reset_noise_scale)

    def reward(s: Any, action: Any, p: Any) -> float:
        x, y = s.site_xpos[0, 0], s.site_xpos[0, 2]
        distance = 0.01 * x**2 + (y - 2) ** 2
        velocity = 1e-3 * s.qvel[1] ** 2 + 5e-3 * s.qvel[2] ** 2
        s.reward_survive = 0.0 if y <= 1 else p.healthy_reward
        s.distance_penalty = -distance
        s.velocity_penalty = -velocity
        return s.reward_survive - distance - velocity

    def terminated(s: Any, p: Any) -> bool:
        return s.site_xpos[0, 2] <= 1

    def observe(s: Any, obs: Any, p: Any) -> None:
        obs[0] = s.qpos[0]
        links = len(s.qpos) - 1
        for k in range(links):
            obs[1 + k] = math.sin(s.qpos[1 + k])
            obs[1 + links + k] = math.cos(s.qpos[1 + k])
        at = put_clipped(obs, 1 + 2 * links, s.qvel, 10.0)
        obs[at] = clip(s.qfrc_constraint[0], -10.0, 10.0)
