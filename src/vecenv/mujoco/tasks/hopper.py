"""Hopper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vecenv.mujoco._task import Task
from vecenv.mujoco.tasks._common import add_uniform, control_cost_32, positions_and_velocities, put, put_clipped


class Hopper(Task, id="Hopper-v5", max_episode_steps=1000):
    """Gymnasium's Hopper-v5."""

    model = "hopper.xml"
    frame_skip = 4
    state = {"z_origin": float}
    info = {"x_position": float, "z_distance_from_origin": float}
    step_info = {"x_velocity": float, "reward_forward": float, "reward_ctrl": np.float32, "reward_survive": float}

    class Params:
        forward_reward_weight = 1.0
        ctrl_cost_weight = 1e-3
        healthy_reward = 1.0
        terminate_when_unhealthy = True
        healthy_state_range = (-100.0, 100.0)
        healthy_z_range = (0.7, math.inf)
        healthy_angle_range = (-0.2, 0.2)
        reset_noise_scale = 5e-3
        exclude_current_positions_from_observation = True

    bounds = {"reset_noise_scale": (0.0, None)}

    def observation_space(model: Any, p: Any) -> Any:
        return positions_and_velocities(model, 1 if p.exclude_current_positions_from_observation else 0)

    def reset(s: Any, rng: Any, p: Any) -> None:
        s.z_origin = s.qpos[1]
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_uniform(s.qvel, rng, p.reset_noise_scale)
        s.x_position = s.qpos[0]
        s.z_distance_from_origin = s.qpos[1] - s.z_origin

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

    def observe(s: Any, obs: Any, p: Any) -> None:
        at = put(obs, 0, s.qpos, 1 if p.exclude_current_positions_from_observation else 0)
        put_clipped(obs, at, s.qvel, 10.0)


def is_healthy(s: Any, p: Any) -> bool:
    """Whether the hopper stands."""
    for k in range(2, len(s.qpos)):
        if not p.healthy_state_range[0] < s.qpos[k] < p.healthy_state_range[1]:
            return False
    for k in range(len(s.qvel)):
        if not p.healthy_state_range[0] < s.qvel[k] < p.healthy_state_range[1]:
            return False
    high_enough = p.healthy_z_range[0] < s.qpos[1] < p.healthy_z_range[1]
    return high_enough and p.healthy_angle_range[0] < s.qpos[2] < p.healthy_angle_range[1]
