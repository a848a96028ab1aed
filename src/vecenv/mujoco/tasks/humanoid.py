"""Humanoid and HumanoidStandup."""

from __future__ import annotations

import math
from typing import Any

from vecenv.mujoco._task import Task
from vecenv.mujoco.numerics import clip, norm_2, sum_of, sum_of_squares
from vecenv.mujoco.tasks._common import add_uniform, put, put_bodies, unbounded


class _Body(Task):
    """What both tasks share: the body, how an episode begins, and the observation."""

    frame_skip = 5
    state = {"z_origin": float}

    class Params:
        exclude_current_positions_from_observation = True
        include_cinert_in_observation = True
        include_cvel_in_observation = True
        include_qfrc_actuator_in_observation = True
        include_cfrc_ext_in_observation = True

    def observation_space(model: Any, p: Any) -> Any:
        size = model.nq + model.nv - (2 if p.exclude_current_positions_from_observation else 0)
        size += 10 * (model.nbody - 1) if p.include_cinert_in_observation else 0
        size += 6 * (model.nbody - 1) if p.include_cvel_in_observation else 0
        size += model.nv - 6 if p.include_qfrc_actuator_in_observation else 0
        return unbounded(size + (6 * (model.nbody - 1) if p.include_cfrc_ext_in_observation else 0))

    def reset(s: Any, rng: Any, p: Any) -> None:
        s.z_origin = s.qpos[2]
        add_uniform(s.qpos, rng, p.reset_noise_scale)
        add_uniform(s.qvel, rng, p.reset_noise_scale)

    def observe(s: Any, obs: Any, p: Any) -> None:
        at = put(obs, 0, s.qpos, 2 if p.exclude_current_positions_from_observation else 0)
        at = put(obs, at, s.qvel, 0)
        if p.include_cinert_in_observation:
            at = put_bodies(obs, at, s.cinert, -math.inf, math.inf)
        if p.include_cvel_in_observation:
            at = put_bodies(obs, at, s.cvel, -math.inf, math.inf)
        if p.include_qfrc_actuator_in_observation:
            at = put(obs, at, s.qfrc_actuator, 6)
        if p.include_cfrc_ext_in_observation:
            at = put_bodies(obs, at, s.cfrc_ext, -math.inf, math.inf)


def _tendons(model: Any) -> dict[str, Any]:
    shape = (float, (model.ntendon,))
    return {"x_position": float, "y_position": float, "tendon_length": shape, "tendon_velocity": shape}


class Humanoid(_Body, id="Humanoid-v5", max_episode_steps=1000):
    """Gymnasium's Humanoid-v5."""

    model = "humanoid.xml"
    model_params = ("body_mass",)
    state = {"centre_x": float, "centre_y": float, "z_origin": float}
    step_info = {
        "x_velocity": float,
        "y_velocity": float,
        "reward_survive": float,
        "reward_forward": float,
        "reward_ctrl": float,
        "reward_contact": float,
    }

    class Params(_Body.Params):
        forward_reward_weight = 1.25
        ctrl_cost_weight = 0.1
        contact_cost_weight = 5e-7
        contact_cost_range = (-math.inf, 10.0)
        healthy_reward = 5.0
        terminate_when_unhealthy = True
        healthy_z_range = (1.0, 2.0)
        reset_noise_scale = 1e-2

    bounds = {"reset_noise_scale": (0.0, None)}

    def info(model: Any) -> dict[str, Any]:
        return {**_tendons(model), "distance_from_origin": float}

    def begin(s: Any, p: Any) -> None:
        s.centre_x = centre(s, p, 0)
        s.centre_y = centre(s, p, 1)
        note_position(s)
        s.distance_from_origin = norm_2(s.qpos[0], s.qpos[1])

    def reward(s: Any, action: Any, p: Any) -> float:
        x, y = centre(s, p, 0), centre(s, p, 1)
        s.x_velocity = (x - s.centre_x) / p.dt
        s.y_velocity = (y - s.centre_y) / p.dt
        s.centre_x = x
        s.centre_y = y
        note_position(s)
        s.distance_from_origin = norm_2(s.qpos[0], s.qpos[1])
        s.reward_forward = p.forward_reward_weight * s.x_velocity
        s.reward_survive = p.healthy_reward if is_healthy(s, p) else 0.0
        control = p.ctrl_cost_weight * sum_of_squares(s.ctrl)
        contact = p.contact_cost_weight * sum_of_squares(s.cfrc_ext)
        contact = clip(contact, p.contact_cost_range[0], p.contact_cost_range[1])
        s.reward_ctrl = -control
        s.reward_contact = -contact
        return s.reward_forward + s.reward_survive - (control + contact)

    def terminated(s: Any, p: Any) -> bool:
        return p.terminate_when_unhealthy and not is_healthy(s, p)


class HumanoidStandup(_Body, id="HumanoidStandup-v5", max_episode_steps=1000):
    """Gymnasium's HumanoidStandup-v5."""

    model = "humanoidstandup.xml"
    step_info = {"reward_linup": float, "reward_quadctrl": float, "reward_impact": float}

    class Params(_Body.Params):
        uph_cost_weight = 1.0  # Gymnasium accepts it and does not use it
        ctrl_cost_weight = 0.1
        impact_cost_weight = 0.5e-6
        impact_cost_range = (-math.inf, 10.0)
        reset_noise_scale = 1e-2

    bounds = {"reset_noise_scale": (0.0, None)}

    def info(model: Any) -> dict[str, Any]:
        return {**_tendons(model), "z_distance_from_origin": float}

    def begin(s: Any, p: Any) -> None:
        note_position(s)
        s.z_distance_from_origin = s.qpos[2] - s.z_origin

    def reward(s: Any, action: Any, p: Any) -> float:
        note_position(s)
        s.z_distance_from_origin = s.qpos[2] - s.z_origin
        s.reward_linup = (s.qpos[2] - 0) / p.timestep
        control = p.ctrl_cost_weight * sum_of_squares(s.ctrl)
        impact = p.impact_cost_weight * sum_of_squares(s.cfrc_ext)
        impact = clip(impact, p.impact_cost_range[0], p.impact_cost_range[1])
        s.reward_quadctrl = -control
        s.reward_impact = -impact
        return s.reward_linup - control - impact + 1


def is_healthy(s: Any, p: Any) -> bool:
    """Whether the humanoid stands."""
    return p.healthy_z_range[0] < s.qpos[2] < p.healthy_z_range[1]


def centre(s: Any, p: Any, axis: int) -> float:
    """The centre of mass along an axis."""
    weighted = 0.0
    for body in range(len(p.body_mass)):
        weighted += p.body_mass[body] * s.xipos[body, axis]
    return weighted / sum_of(p.body_mass)


def note_position(s: Any) -> None:
    """Store the position for infos."""
    s.x_position = s.qpos[0]
    s.y_position = s.qpos[1]
    s.tendon_length[:] = s.ten_length
    s.tendon_velocity[:] = s.ten_velocity
