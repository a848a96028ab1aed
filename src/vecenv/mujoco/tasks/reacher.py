"""Reacher."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vecenv.kernel.rng import uniform
from vecenv.mujoco._task import Task
from vecenv.mujoco.numerics import norm_2, norm_3
from vecenv.mujoco.tasks._common import add_uniform, body_id, control_cost_32, put, unbounded


class Reacher(Task, id="Reacher-v5", max_episode_steps=50):
    """Gymnasium's Reacher-v5."""

    model = "reacher.xml"
    frame_skip = 2
    fixed = ("fingertip", "target")
    observation_space = unbounded(10)
    state = {"goal_x": float, "goal_y": float}
    step_info = {"reward_dist": float, "reward_ctrl": np.float32}

    class Params:
        reward_dist_weight = 1.0
        reward_control_weight = 1.0
        fingertip, target = 0, 0

    @staticmethod
    def configure(model: Any, **kwargs: Any) -> Mapping[str, Any]:
        return {**kwargs, **{name: body_id(model, name) for name in Reacher.fixed}}

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, 0.1)
        while True:
            s.goal_x = uniform(rng, -0.2, 0.2)
            s.goal_y = uniform(rng, -0.2, 0.2)
            if norm_2(s.goal_x, s.goal_y) < 0.2:
                break
        s.qpos[len(s.qpos) - 2] = s.goal_x
        s.qpos[len(s.qpos) - 1] = s.goal_y
        add_uniform(s.qvel, rng, 0.005)
        s.qvel[len(s.qvel) - 2] = 0.0
        s.qvel[len(s.qvel) - 1] = 0.0

    def reward(s: Any, action: Any, p: Any) -> float:
        distance = norm_3(apart(s, p, 0), apart(s, p, 1), apart(s, p, 2))
        s.reward_dist = -distance * p.reward_dist_weight
        s.reward_ctrl = -control_cost_32(action, p.reward_control_weight)
        return s.reward_dist + s.reward_ctrl

    def observe(s: Any, obs: Any, p: Any) -> None:
        for k in range(2):
            obs[k] = math.cos(s.qpos[k])
            obs[2 + k] = math.sin(s.qpos[k])
        at = put(obs, 4, s.qpos, 2)
        for k in range(2):
            obs[at + k] = s.qvel[k]
            obs[at + 2 + k] = apart(s, p, k)


def apart(s: Any, p: Any, axis: int) -> float:
    """Distance from the target to the fingertip along an axis."""
    return s.xpos[p.fingertip, axis] - s.xpos[p.target, axis]
