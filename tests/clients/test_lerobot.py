"""LeRobot's rollouts on vecenv's classes in the place of Gymnasium's; the oracle is Gymnasium's own."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from lerobot.envs.configs import EnvConfig
from lerobot.envs.factory import make_env
from lerobot.scripts.lerobot_eval import rollout

import vecenv.gymnasium
from tests.clients.pages import block


class Reach(gymnasium.Env):
    """A point that is to reach the origin, with the observations of LeRobot's envs."""

    metadata = {"render_modes": ["rgb_array"]}
    observation_space = spaces.Dict({"agent_pos": spaces.Box(-9.0, 9.0, (2,), np.float64)})
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    _max_episode_steps = 12

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._time = self.np_random.uniform(-2, 2, 2), 0
        return {"agent_pos": self._place.copy()}, {"is_success": False}

    def step(self, action):
        self._place, self._time = self._place + 0.3 * action, self._time + 1
        near = bool(np.abs(self._place).max() < 0.5)
        obs = {"agent_pos": self._place.copy()}
        return obs, -float(np.abs(self._place).sum()), near, self._time >= self._max_episode_steps, {"is_success": near}


gymnasium.register("gym_reach/Reach-v0", entry_point=Reach)


@EnvConfig.register_subclass("reach")
@dataclass
class ReachConfig(EnvConfig):
    task: str | None = "Reach-v0"

    @property
    def gym_kwargs(self):
        return {}


class Policy(torch.nn.Module):
    """Goes towards the origin."""

    def reset(self):
        pass

    def select_action(self, observation):
        return -observation["observation.state"].clamp(-1, 1)


def rolled_out():
    envs = make_env(ReachConfig(), n_envs=4)["reach"][0]
    unchanged = [lambda value: value] * 4
    result = rollout(envs, Policy(), *unchanged, seeds=[1, 2, 3, 4], return_observations=True)
    envs.close()
    return type(envs), result


def test_rollouts_are_equal_to_those_on_gymnasiums_class(monkeypatch):
    _, expected = rolled_out()
    for name in ("SyncVectorEnv", "AsyncVectorEnv"):  # to be put back after the test
        monkeypatch.setattr(gymnasium.vector, name, getattr(gymnasium.vector, name))
    exec(block("others", "vecenv.gymnasium"), {})
    kind, result = rolled_out()
    assert kind is vecenv.gymnasium.SyncVectorEnv
    assert expected["done"].any()
    for place in ("action", "reward", "success", "done"):
        assert torch.equal(result[place], expected[place]), place
    assert torch.equal(result["observation"]["observation.state"], expected["observation"]["observation.state"])
