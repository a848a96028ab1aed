"""Pusher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vecenv.kernel.rng import uniform
from vecenv.mujoco._task import Task
from vecenv.mujoco.numerics import norm_2, norm_3
from vecenv.mujoco.tasks._common import add_uniform, body_id, control_cost_32, unbounded


class Pusher(Task, id="Pusher-v5", max_episode_steps=100):
    """Gymnasium's Pusher-v5."""

    model = "pusher_v5.xml"
    frame_skip = 5
    fixed = ("tips_arm", "object", "goal")
    observation_space = unbounded(23)
    state = {"cylinder_x": float, "cylinder_y": float}
    step_info = {"reward_dist": float, "reward_ctrl": np.float32, "reward_near": float}

    class Params:
        reward_near_weight = 0.5
        reward_dist_weight = 1.0
        reward_control_weight = 0.1
        tips_arm, object, goal = 0, 0, 0

    @staticmethod
    def configure(model: Any, **kwargs: Any) -> Mapping[str, Any]:
        return {**kwargs, **{name: body_id(model, name) for name in Pusher.fixed}}

    def reset(s: Any, rng: Any, p: Any) -> None:
        while True:
            s.cylinder_x = uniform(rng, -0.3, 0.0)
            s.cylinder_y = uniform(rng, -0.2, 0.2)
            if norm_2(s.cylinder_x, s.cylinder_y) > 0.17:
                break
        last = len(s.qpos)
        s.qpos[last - 4] = s.cylinder_x
        s.qpos[last - 3] = s.cylinder_y
        s.qpos[last - 2] = 0.0
        s.qpos[last - 1] = 0.0
        add_uniform(s.qvel, rng, 0.005)
        for k in range(len(s.qvel) - 4, len(s.qvel)):
            s.qvel[k] = 0.0

    def reward(s: Any, action: Any, p: Any) -> float:
        s.reward_near = -distance(s.xpos[p.object], s.xpos[p.tips_arm]) * p.reward_near_weight
        s.reward_dist = -distance(s.xpos[p.object], s.xpos[p.goal]) * p.reward_dist_weight
        s.reward_ctrl = -control_cost_32(action, p.reward_control_weight)
        return s.reward_dist + s.reward_ctrl + s.reward_near

    def observe(s: Any, obs: Any, p: Any) -> None:
        for k in range(7):
            obs[k] = s.qpos[k]
            obs[7 + k] = s.qvel[k]
        for k in range(3):
            obs[14 + k] = s.xpos[p.tips_arm, k]
            obs[17 + k] = s.xpos[p.object, k]
            obs[20 + k] = s.xpos[p.goal, k]


def distance(first: Any, second: Any) -> float:
    """Distance between two places."""
    return norm_3(first[0] - second[0], first[1] - second[1], first[2] - second[2])
