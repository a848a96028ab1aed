"""Walker2d."""

# pyright: reportSelfClsParameterName=false
# The first parameter of a task's functions is the state of one env, not an object of the class.
from __future__ import annotations

from typing import Any

import numpy as np

from vecenv.mujoco._task import Task
from vecenv.mujoco.tasks._common import control_cost_32
from vecenv.mujoco.tasks.hopper import Hopper


class Walker2d(Task, id="Walker2d-v5", max_episode_steps=1000):
    """Gymnasium's Walker2d-v5."""

    model = "walker2d_v5.xml"
    frame_skip = 4
    state = {"z_origin": float}
    info = {"x_position": float, "z_distance_from_origin": float}
    step_info = {"x_velocity": float, "reward_forward": float, "reward_ctrl": np.float32, "reward_survive": float}

    class Params:
        forward_reward_weight = 1.0
        ctrl_cost_weight = 1e-3
        healthy_reward = 1.0
        terminate_when_unhealthy = True
        healthy_z_range = (0.8, 2.0)
        healthy_angle_range = (-1.0, 1.0)
        reset_noise_scale = 5e-3
        exclude_current_positions_from_observation = True

    observation_space = Hopper.observation_space
    reset = Hopper.reset
    observe = Hopper.observe

    def reward(s: Any, action: Any, p: Any) -> float:
        before = s.x_position
        s.x_position = s.qpos[0]
        s.z_distance_from_origin = s.qpos[1] - s.z_origin
        s.x_velocity = (s.x_position - before) / p.dt
        s.reward_forward = p.forward_reward_weight * s.x_velocity
        s.reward_survive = p.healthy_reward if is_healthy(s, p) else 0.0
        cost = control_cost_32(action, p.ctrl_cost_weight)
        s.reward_ctrl = -cost
        return s.reward_forward + s.reward_survive - cost

    def terminated(s: Any, p: Any) -> bool:
        return p.terminate_when_unhealthy and not is_healthy(s, p)


def is_healthy(s: Any, p: Any) -> bool:
    """Whether it stands."""
    high_enough = p.healthy_z_range[0] < s.qpos[1] < p.healthy_z_range[1]
    return high_enough and p.healthy_angle_range[0] < s.qpos[2] < p.healthy_angle_range[1]
