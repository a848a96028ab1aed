"""HalfCheetah."""

from __future__ import annotations

from typing import Any

import numpy as np

from vecenv.mujoco._task import Task
from vecenv.mujoco.tasks._common import add_normal, add_uniform, control_cost_32, positions_and_velocities, put


class HalfCheetah(Task, id="HalfCheetah-v5", max_episode_steps=1000):
    """Gymnasium's HalfCheetah-v5."""

    model = "half_cheetah.xml"
    frame_skip = 5
    info = {"x_position": float}
    step_info = {"x_velocity": float, "reward_forward": float, "reward_ctrl": np.float32}

    class Params:
        forward_reward_weight = 1.0
        ctrl_cost_weight = 0.1
        reset_noise_scale = 0.1
        exclude_current_positions_from_observation = True

    bounds = {"reset_noise_scale": (0.0, None)}

    def observation_space(model: Any, p: Any) -> Any:
        return positions_and_velocities(model, 1 if p.exclude_current_positions_from_observation else 0)

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_normal(s.qvel, rng, p.reset_noise_scale)
        s.x_position = s.qpos[0]

    def reward(s: Any, action: Any, p: Any) -> float:
        before = s.x_position
        s.x_position = s.qpos[0]
        s.x_velocity = (s.x_position - before) / p.dt
        s.reward_forward = p.forward_reward_weight * s.x_velocity
        cost = control_cost_32(action, p.ctrl_cost_weight)
        s.reward_ctrl = -cost
        return s.reward_forward - cost

    def observe(s: Any, obs: Any, p: Any) -> None:
        at = put(obs, 0, s.qpos, 1 if p.exclude_current_positions_from_observation else 0)
        put(obs, at, s.qvel, 0)


class HalfCheetah4(HalfCheetah, id="HalfCheetah-v4", max_episode_steps=1000):
    """Gymnasium's HalfCheetah-v4: with other infos."""

    info = {}
    step_info = {"x_position": float, "x_velocity": float, "reward_run": float, "reward_ctrl": np.float32}
    state = {"x_before": float}

    def reset(s: Any, rng: Any, p: Any) -> None:
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_normal(s.qvel, rng, p.reset_noise_scale)
        s.x_before = s.qpos[0]

    def reward(s: Any, action: Any, p: Any) -> float:
        s.x_position = s.qpos[0]
        s.x_velocity = (s.x_position - s.x_before) / p.dt
        s.x_before = s.x_position
        s.reward_run = p.forward_reward_weight * s.x_velocity
        cost = control_cost_32(action, p.ctrl_cost_weight)
        s.reward_ctrl = -cost
        return s.reward_run - cost
