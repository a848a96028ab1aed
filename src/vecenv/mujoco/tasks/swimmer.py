"""Swimmer."""

from __future__ import annotations

from typing import Any

import numpy as np

from vecenv.mujoco._task import Task
from vecenv.mujoco.numerics import norm_2
from vecenv.mujoco.tasks._common import add_uniform, control_cost_32, positions_and_velocities, put


class Swimmer(Task, id="Swimmer-v5", max_episode_steps=1000):
    """Gymnasium's Swimmer-v5."""

    model = "swimmer.xml"
    frame_skip = 4
    info = {"x_position": float, "y_position": float, "distance_from_origin": float}
    step_info = {"x_velocity": float, "y_velocity": float, "reward_forward": float, "reward_ctrl": np.float32}

    class Params:
        forward_reward_weight = 1.0
        ctrl_cost_weight = 1e-4
        reset_noise_scale = 0.1
        exclude_current_positions_from_observation = True

    bounds = {"reset_noise_scale": (0.0, None)}

    def observation_space(model: Any, p: Any) -> Any:
        return positions_and_velocities(model, 2 if p.exclude_current_positions_from_observation else 0)

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_uniform(s.qvel, rng, p.reset_noise_scale)
        s.x_position = s.qpos[0]
        s.y_position = s.qpos[1]
        s.distance_from_origin = norm_2(s.x_position, s.y_position)

    def reward(s: Any, action: Any, p: Any) -> float:
        s.x_velocity = (s.qpos[0] - s.x_position) / p.dt
        s.y_velocity = (s.qpos[1] - s.y_position) / p.dt
        s.x_position = s.qpos[0]
        s.y_position = s.qpos[1]
        s.distance_from_origin = norm_2(s.x_position, s.y_position)
        s.reward_forward = p.forward_reward_weight * s.x_velocity
        cost = control_cost_32(action, p.ctrl_cost_weight)
        s.reward_ctrl = -cost
        return s.reward_forward - cost

    def observe(s: Any, obs: Any, p: Any) -> None:
        at = put(obs, 0, s.qpos, 2 if p.exclude_current_positions_from_observation else 0)
        put(obs, at, s.qvel, 0)


class Swimmer4(Swimmer, id="Swimmer-v4", max_episode_steps=1000):
    """Gymnasium's Swimmer-v4: with other infos."""

    info = {}
    step_info = {
        "reward_fwd": float,
        "reward_ctrl": np.float32,
        "x_position": float,
        "y_position": float,
        "distance_from_origin": float,
        "x_velocity": float,
        "y_velocity": float,
        "forward_reward": float,
    }
    state = {"x_before": float, "y_before": float}

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_uniform(s.qvel, rng, p.reset_noise_scale)
        s.x_before = s.qpos[0]
        s.y_before = s.qpos[1]

    def reward(s: Any, action: Any, p: Any) -> float:
        s.x_position = s.qpos[0]
        s.y_position = s.qpos[1]
        s.x_velocity = (s.x_position - s.x_before) / p.dt
        s.y_velocity = (s.y_position - s.y_before) / p.dt
        s.x_before = s.x_position
        s.y_before = s.y_position
        s.distance_from_origin = norm_2(s.x_position, s.y_position)
        s.reward_fwd = p.forward_reward_weight * s.x_velocity
        s.forward_reward = s.reward_fwd
        cost = control_cost_32(action, p.ctrl_cost_weight)
        s.reward_ctrl = -cost
        return s.reward_fwd - cost
