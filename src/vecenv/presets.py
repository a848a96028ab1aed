"""Settings of trainers by env id, as `vecenv train ID` and `PPO.defaults_for(ID)` use them. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vecenv.atari._ids import GAME_IDS

__all__ = ["Preset", "find_preset", "make_options_for", "presets_for"]


@dataclass(frozen=True)
class Preset:
    """Settings for an env, as changes to a trainer's defaults.

    Attributes:
        steps: how many steps `vecenv train` makes by default.
        settings: settings by name.
    """

    steps: int
    settings: Mapping[str, Any]


def find_preset(algorithm: str, env_id: str) -> Preset | None:
    """The preset of an algorithm ("ppo", "sac", "dqn") for an env, None if there is none."""
    return presets_for(env_id).get(algorithm)


def presets_for(env_id: str) -> Mapping[str, Preset]:
    """The presets for an env, by algorithm; the one to prefer comes first."""
    if env_id not in PRESETS and GAME_IDS.match(env_id):
        return ATARI
    return PRESETS.get(env_id, {})


def make_options_for(env_id: str) -> dict[str, Any]:
    """Arguments of `vecenv.make` that the presets for an env are made for: `preprocessing="dqn"` for Atari games.

    Trainers and `vecenv train` make their envs with these, unless the user says otherwise.
    """
    return {"preprocessing": "dqn"} if GAME_IDS.match(env_id) else {}


def _ppo(steps: int, num_envs: int, rollout_steps: int, **settings: Any) -> dict[str, Preset]:
    return {"ppo": Preset(steps, {"num_envs": num_envs, "rollout_steps": rollout_steps, **settings})}


# --- classic control and toy text ------------------------------------------------------------------------------------

_CARTPOLE = _ppo(100_000, 32, 32, epochs=8, minibatch=512, learning_rate=2e-3, anneal=True, gamma=0.98, lam=0.9)
# Without layers between, as for Taxi-v3 below.
_CLIFF = _ppo(300_000, 32, 64, minibatch=512, learning_rate=2e-2, anneal=True, entropy=0.01, normalize_reward=True,
              hidden=())  # fmt: skip
_LAKE: dict[str, Any] = {
    "minibatch": 1024, "learning_rate": 3e-3, "anneal": True, "entropy": 0.01, "gamma": 0.995,
}  # fmt: skip
_CLASSIC: dict[str, dict[str, Preset]] = {
    "CartPole-v0": _CARTPOLE,
    "CartPole-v1": _CARTPOLE,
    "Acrobot-v1": _ppo(400_000, 16, 256, minibatch=256, learning_rate=1e-3, lam=0.94, normalize_obs=True),
    "MountainCar-v0": _ppo(500_000, 16, 64, minibatch=256, learning_rate=1e-3, anneal=True, lam=0.98,
                           normalize_obs=True, normalize_reward=True),
    # The goal is found by chance with actions that are mostly at their bounds: a large standard deviation at the start.
    "MountainCarContinuous-v0": _ppo(300_000, 16, 256, epochs=10, minibatch=512, learning_rate=1e-3, anneal=True,
                                     normalize_obs=True, normalize_reward=True, log_std=1.0),
    "Pendulum-v1": {
        "sac": Preset(12_000, {
            "num_envs": 4, "capacity": 100_000, "warmup": 400, "updates_per_step": 0.5, "minibatch": 128,
            "learning_rate": 2e-3, "hidden": (64, 64), "gamma": 0.98, "tau": 0.01}),
        **_ppo(600_000, 16, 256, epochs=10, minibatch=512, learning_rate=1e-3, gamma=0.9, normalize_obs=True,
               normalize_reward=True)},
    # Without layers between, each of the 500 states has weights of its own: learning about one changes no other.
    "Taxi-v3": _ppo(250_000, 32, 64, minibatch=512, learning_rate=2e-2, anneal=True, entropy=0.005, gamma=0.98, lam=0.9,
                    normalize_reward=True, mask="action_mask", hidden=()),
    "FrozenLake-v1": _ppo(300_000, 32, 64, **_LAKE),
    "FrozenLake8x8-v1": _ppo(800_000, 64, 64, **_LAKE),
    "CliffWalking-v1": _CLIFF,
    "CliffWalkingSlippery-v1": _CLIFF,
    "Blackjack-v1": _ppo(300_000, 64, 16, minibatch=1024, learning_rate=1e-3, anneal=True, entropy=0.01, gamma=1.0),
}  # fmt: skip

# --- games and grids -------------------------------------------------------------------------------------------------

_GRID: dict[str, Any] = {
    "minibatch": 1024,
    "learning_rate": 1e-3,
    "anneal": True,
    "entropy": 0.01,
    "image_features": 128,
}
_MINIGRID = _ppo(500_000, 32, 128, **{**_GRID, "learning_rate": 5e-4})
_MINATAR = _ppo(5_000_000, 64, 128, **{**_GRID, "minibatch": 2048})
_GAMES = {
    "Snake-v0": _ppo(2_000_000, 64, 64, **_GRID, mask="action_mask", gamma=0.98),
    "FourRooms-v0": _ppo(1_000_000, 64, 64, **_GRID),
    "ConnectFour-v0": _ppo(1_000_000, 64, 64, **_GRID, mask="action_mask"),
    "2048-v0": _ppo(3_000_000, 64, 128, **{**_GRID, "hidden": (256, 256)}, mask="action_mask", normalize_obs=True,
                    normalize_reward=True),
    "Tetris-v0": _ppo(5_000_000, 64, 128, **_GRID),
    "Breakout-v0": _ppo(10_000_000, 32, 128, minibatch=1024, learning_rate=5e-4, anneal=True, entropy=0.01,
                        clip_range=0.1),
    **{f"MinAtar/{game}-v{version}": _MINATAR for version in (0, 1)
       for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")},
    **{f"MiniGrid-DoorKey-{size}x{size}-v0": _MINIGRID for size in (5, 6, 8, 16)},
    **{f"MiniGrid-Empty-{size}x{size}-v0": _MINIGRID for size in (5, 6, 8, 16)},
    **{f"MiniGrid-Empty-Random-{size}x{size}-v0": _MINIGRID for size in (5, 6)},
    **{f"MiniGrid-LavaGapS{size}-v0": _MINIGRID for size in (5, 6, 7)},
    "MiniGrid-FourRooms-v0": _MINIGRID,
}  # fmt: skip

# --- several agents: a shared policy, or self-play by turns; steps are those of all agents ---------------------------

_AGENTS = {
    "SimpleSpread-v0": _ppo(3_000_000, 128, 25, minibatch=2400, epochs=10, learning_rate=1e-3, anneal=True,
                            entropy=0.01, lam=0.95, hidden=(64, 64)),
    "Pursuit-v0": _ppo(2_000_000, 32, 64, **{**_GRID, "minibatch": 2048}),
    "Battle-v0": _ppo(5_000_000, 16, 64, **{**_GRID, "minibatch": 4096}),
    "ConnectFourDuel-v0": _ppo(2_000_000, 128, 64, **{**_GRID, "minibatch": 2048}, epochs=3, lam=0.9,
                               mask="action_mask"),
}  # fmt: skip

# --- MuJoCo and Box2D ------------------------------------------------------------------------------------------------
# docs/results.md says which were run here, and how PPO's were chosen: 2,048 steps between updates and ten epochs of
# minibatches of 64, as in CleanRL's ppo_continuous_action.py; a smaller standard deviation at the start and a smaller
# weight of the value loss, as in Tianshou's mujoco_ppo.py; 64 envs. SAC: the settings of RL Baselines3 Zoo, which are
# the defaults after 10,000 random steps.

_MUJOCO_PPO: dict[str, Any] = {
    "epochs": 10, "minibatch": 64, "learning_rate": 3e-4, "anneal": True, "value_weight": 0.25, "log_std": -0.5,
    "normalize_obs": True, "normalize_reward": True,
}  # fmt: skip
_MUJOCO_SAC = {"sac": Preset(1_000_000, {"num_envs": 1, "warmup": 10_000})}
_MUJOCO = {
    id: {**_ppo(1_000_000, 64, 32, **_MUJOCO_PPO), **_MUJOCO_SAC}
    for id in ("Ant-v5", "HalfCheetah-v4", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "HumanoidStandup-v5",
               "InvertedDoublePendulum-v5", "InvertedPendulum-v5", "Pusher-v5", "Reacher-v5", "Swimmer-v4",
               "Swimmer-v5", "Walker2d-v5")
}  # fmt: skip
# A standard deviation of 1 at the start and longer rollouts: chosen by one run on Hopper-v5, see docs/results.md.
for _id in ("Hopper-v5", "Walker2d-v5"):
    _MUJOCO[_id] = {**_ppo(1_000_000, 16, 128, **{**_MUJOCO_PPO, "log_std": 0.0}), **_MUJOCO_SAC}
# Speed pays off late in Swimmer: a high discount factor, as in RL Baselines3 Zoo.
for _id in ("Swimmer-v4", "Swimmer-v5"):
    _MUJOCO[_id] = {**_ppo(1_000_000, 64, 32, **_MUJOCO_PPO, gamma=0.9999), **_MUJOCO_SAC}
_BOX2D = {
    "LunarLander-v3": _ppo(1_000_000, 16, 1024, epochs=4, minibatch=64, learning_rate=3e-4, gamma=0.999, lam=0.98,
                           entropy=0.01),  # RL Baselines3 Zoo
}  # fmt: skip

PRESETS: dict[str, dict[str, Preset]] = {**_CLASSIC, **_GAMES, **_AGENTS, **_MUJOCO, **_BOX2D}
"""By env id, then by algorithm."""

ATARI: dict[str, Preset] = {
    **_ppo(10_000_000, 8, 128, minibatch=256, learning_rate=2.5e-4, anneal=True, clip_range=0.1, entropy=0.01,
           hidden=()),
    "dqn": Preset(10_000_000, {
        "num_envs": 1, "capacity": 1_000_000, "warmup": 80_000, "minibatch": 32, "learning_rate": 1e-4,
        "target_every": 250, "exploration_share": 0.1, "final_exploration": 0.01, "hidden": (), "stack": 4}),
}  # fmt: skip
"""For every Atari game, with its `make_options_for`: the settings of CleanRL's ppo_atari.py and dqn_atari.py."""
