"""Comparing vector envs with Gymnasium's, bit for bit."""

import functools
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv

IDS = [
    "Ant-v5",
    "HalfCheetah-v4",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v4",
    "Swimmer-v5",
    "Walker2d-v5",
]

POSITIONS = {"exclude_current_positions_from_observation": False}
FORWARD = {"forward_reward_weight": 0.7, "ctrl_cost_weight": 0.3, "reset_noise_scale": 0.05}
STANDING = {**FORWARD, "healthy_reward": 0.3, "terminate_when_unhealthy": False}
HUMANOID = {
    "include_cinert_in_observation": False,
    "include_cvel_in_observation": False,
    "include_qfrc_actuator_in_observation": False,
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "Ant-v5": [
        {**POSITIONS, "include_cfrc_ext_in_observation": False, "main_body": "front_left_leg", "frame_skip": 3},
        {**STANDING, "contact_cost_weight": 0.1, "contact_force_range": (-0.3, 0.6), "healthy_z_range": (0.4, 0.8)},
    ],
    "HalfCheetah-v4": [{**POSITIONS, **FORWARD}],
    "HalfCheetah-v5": [{**POSITIONS, **FORWARD}, {"frame_skip": 2, "ctrl_cost_weight": 0}],
    "Hopper-v5": [
        {**POSITIONS, "healthy_state_range": (-1.0, 1.0), "healthy_angle_range": (-0.1, 0.3)},
        {**STANDING, "healthy_z_range": (0.9, 1.4), "frame_skip": 2},
    ],
    "Humanoid-v5": [
        {**POSITIONS, **HUMANOID},
        {**STANDING, "contact_cost_weight": 0.1, "contact_cost_range": (0.2, 0.9), "healthy_z_range": (1.2, 1.5)},
        {"include_cfrc_ext_in_observation": False, "frame_skip": 2},
    ],
    "HumanoidStandup-v5": [
        {**POSITIONS, **HUMANOID, "uph_cost_weight": 3},
        {"impact_cost_weight": 0.1, "impact_cost_range": (0.2, 0.9), "reset_noise_scale": 0.1, "frame_skip": 2},
        {"include_cfrc_ext_in_observation": False, "ctrl_cost_weight": 0.7},
    ],
    "InvertedDoublePendulum-v5": [{"healthy_reward": 3.0, "reset_noise_scale": 0.2}, {"frame_skip": 2}],
    "InvertedPendulum-v5": [{"reset_noise_scale": 0.1}, {"frame_skip": 3}],
    "Pusher-v5": [
        {"reward_near_weight": 0.1, "reward_dist_weight": 0.2, "reward_control_weight": 0.3, "frame_skip": 2}
    ],
    "Reacher-v5": [{"reward_dist_weight": 0.3, "reward_control_weight": 0.7, "frame_skip": 3}],
    "Swimmer-v4": [{**POSITIONS, **FORWARD}],
    "Swimmer-v5": [{**POSITIONS, **FORWARD}, {"frame_skip": 2}],
    "Walker2d-v5": [
        {**POSITIONS, "healthy_angle_range": (-0.2, 0.3)},
        {**STANDING, "healthy_z_range": (1.1, 1.3), "frame_skip": 2},
    ],
}
"""Sets of options beside the defaults."""


def gymnasiums(id: str, count: int, mode: AutoresetMode, **kwargs: Any) -> SyncVectorEnv:
    make = functools.partial(gymnasium.make, id, disable_env_checker=True, **kwargs)
    return SyncVectorEnv([make] * count, autoreset_mode=mode)


def compare(
    id: str, *, count: int, steps: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP, seed: int = 0, **kwargs: Any
) -> int:
    """Step both with the same actions; the number of episodes that ended. Raises AssertionError at the first bit."""
    ours = vecenv.make(id, count, engine="mujoco", autoreset=mode, **kwargs)
    theirs = gymnasiums(id, count, mode, **kwargs)
    with ours:
        assert ours.single_observation_space == theirs.single_observation_space
        assert ours.single_action_space == theirs.single_action_space
        return play(ours, theirs, steps, seed, mode)


def play(ours: Any, theirs: Any, steps: int, seed: int, mode: AutoresetMode) -> int:
    ended = 0
    same(theirs.reset(seed=seed), ours.reset(seed=seed), "reset")
    theirs.action_space.seed(seed)
    for step in range(steps):
        actions = theirs.action_space.sample()
        wanted = theirs.step(actions)
        same(wanted, ours.step(actions), f"step {step}")
        done = wanted[2] | wanted[3]
        ended += int(done.sum())
        if mode is AutoresetMode.DISABLED and done.any():
            options = {"reset_mask": done}
            same(theirs.reset(options=dict(options)), ours.reset(options=options), f"reset after step {step}")
        if step == steps // 2:
            same(theirs.reset(seed=seed + 100), ours.reset(seed=seed + 100), "second reset")
    theirs.close()
    return ended


def same(wanted: Any, got: Any, where: str) -> None:
    """Assert that both are equal in type, shape and every bit."""
    if isinstance(wanted, dict):
        assert wanted.keys() == got.keys(), (where, wanted.keys() ^ got.keys())
        for key in wanted:
            same(wanted[key], got[key], f"{where}: {key}")
    elif isinstance(wanted, tuple):
        assert len(wanted) == len(got), where
        for place, (first, second) in enumerate(zip(wanted, got, strict=True)):
            same(first, second, f"{where}[{place}]")
    elif wanted.dtype == object:
        assert [value is None for value in wanted] == [value is None for value in got], where
        for first, second in zip(wanted, got, strict=True):
            if first is not None:
                same(first, second, where)
    else:
        assert (wanted.dtype, wanted.shape) == (got.dtype, got.shape), where
        assert wanted.tobytes() == got.tobytes(), (where, wanted, got)
