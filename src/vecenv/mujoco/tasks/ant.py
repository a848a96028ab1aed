"""Ant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vecenv.mujoco._task import Task
from vecenv.mujoco.numerics import norm_2, sum_of_squares_clipped
from vecenv.mujoco.tasks._common import add_normal, add_uniform, body_id, control_cost_32, put, put_bodies, unbounded


class Ant(Task, id="Ant-v5", max_episode_steps=1000):
    """Gymnasium's Ant-v5."""

    model = "ant.xml"
    frame_skip = 5
    fixed = ("main_body",)
    state = {"body_x": float, "body_y": float}
    info = {"x_position": float, "y_position": float, "distance_from_origin": float}
    step_info = {
        "x_velocity": float,
        "y_velocity": float,
        "reward_forward": float,
        "reward_ctrl": np.float32,
        "reward_contact": float,
        "reward_survive": float,
    }

    class Params:
        forward_reward_weight = 1.0
        ctrl_cost_weight = 0.5
        contact_cost_weight = 5e-4
        healthy_reward = 1.0
        main_body = 1
        terminate_when_unhealthy = True
        healthy_z_range = (0.2, 1.0)
        contact_force_range = (-1.0, 1.0)
        reset_noise_scale = 0.1
        exclude_current_positions_from_observation = True
        include_cfrc_ext_in_observation = True

    bounds = {"reset_noise_scale": (0.0, None)}

    @staticmethod
    def configure(model: Any, main_body: Any = 1, **kwargs: Any) -> Mapping[str, Any]:
        return {"main_body": body_id(model, main_body), **kwargs}

    def observation_space(model: Any, p: Any) -> Any:
        size = model.nq + model.nv - (2 if p.exclude_current_positions_from_observation else 0)
        return unbounded(size + (6 * (model.nbody - 1) if p.include_cfrc_ext_in_observation else 0))

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_normal(s.qvel, rng, p.reset_noise_scale)

    def begin(s: Any, p: Any) -> None:
        s.body_x = s.xpos[p.main_body, 0]
        s.body_y = s.xpos[p.main_body, 1]
        note_position(s)

    def reward(s: Any, action: Any, p: Any) -> float:
        x, y = s.xpos[p.main_body, 0], s.xpos[p.main_body, 1]
        s.x_velocity = (x - s.body_x) / p.dt
        s.y_velocity = (y - s.body_y) / p.dt
        s.body_x = x
        s.body_y = y
        note_position(s)
        s.reward_forward = s.x_velocity * p.forward_reward_weight
        s.reward_survive = p.healthy_reward if is_healthy(s, p) else 0.0
        control = control_cost_32(action, p.ctrl_cost_weight)
        low, high = p.contact_force_range[0], p.contact_force_range[1]
        contact = p.contact_cost_weight * sum_of_squares_clipped(s.cfrc_ext, low, high)
        s.reward_ctrl = -control
        s.reward_contact = -contact
        return s.reward_forward + s.reward_survive - (control + contact)

    def terminated(s: Any, p: Any) -> bool:
        return p.terminate_when_unhealthy and not is_healthy(s, p)

    def observe(s: Any, obs: Any, p: Any) -> None:
        at = put(obs, 0, s.qpos, 2 if p.exclude_current_positions_from_observation else 0)
        at = put(obs, at, s.qvel, 0)
        if p.include_cfrc_ext_in_observation:
            put_bodies(obs, at, s.cfrc_ext, p.contact_force_range[0], p.contact_force_range[1])


def is_healthy(s: Any, p: Any) -> bool:
    """Whether the ant is neither flat on the ground nor in the air."""
    return p.healthy_z_range[0] <= s.qpos[2] <= p.healthy_z_range[1]


def note_position(s: Any) -> None:
    """Store the position for infos."""
    s.x_position = s.qpos[0]
    s.y_position = s.qpos[1]
    s.distance_from_origin = norm_2(s.qpos[0], s.qpos[1])
