"""Small configs, envs and modules for the tests of RLlib's modes."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

import vecenv.rllib
from vecenv.rllib import PackedRollout


def ppo(**training):
    return (
        PPOConfig()
        .training(num_epochs=1, lr=1e-3, **training)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16]))
        .debugging(seed=0, log_level="ERROR")
    )


def configured(env, num_envs=8, mode="native", config=None, *, train_batch=256, minibatch=64, **options):
    return vecenv.rllib.configure(
        config or ppo(), env, num_envs, mode=mode, train_batch=train_batch, minibatch=minibatch, **options
    )


def runner_of(config, worker_index=0):
    """The runner alone, as an actor would hold it."""
    config = config.copy(copy_frozen=False)
    return (config.env_runner_cls or SingleAgentEnvRunner)(config=config, worker_index=worker_index)


def packed(samples):
    """Samples of either mode as rollouts."""
    return [s if isinstance(s, PackedRollout) else PackedRollout.of_episode(s) for s in samples]


class GridEnv(gym.Env):
    """Dict observations with a small picture; ends or is cut off at random times."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-9.0, 9.0, (2,), np.float64), "picture": spaces.Box(0, 255, (4, 4, 1), np.uint8)}
    )
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._seen(), {}

    def step(self, action):
        self._time += 1
        terminated = bool(self.np_random.random() < 0.15)
        truncated = not terminated and self._time >= 9
        return self._seen(), float(action) + self.np_random.random(), terminated, truncated, {}

    def _seen(self):
        return {
            "place": self.np_random.normal(size=2) * [1.0, 5.0] + [0.0, 3.0],
            "picture": self.np_random.integers(0, 256, (4, 4, 1), dtype=np.uint8),
        }


class GridModule(TorchRLModule, ValueFunctionAPI):
    def setup(self):
        self.policy, self.value = torch.nn.Linear(18, 3), torch.nn.Linear(18, 1)

    def _features(self, batch):
        obs = batch[Columns.OBS]
        return torch.cat([obs["place"].float(), obs["picture"].float().flatten(1) / 255.0], 1)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.policy(self._features(batch))}

    def compute_values(self, batch, embeddings=None):
        return self.value(self._features(batch)).squeeze(-1)

    def get_train_action_dist_cls(self):
        return TorchCategorical

    get_exploration_action_dist_cls = get_inference_action_dist_cls = get_train_action_dist_cls


GRID = RLModuleSpec(module_class=GridModule)


class CountingEnv(gym.Env):
    """Episodes of a given length; the observation counts."""

    observation_space = spaces.Box(0, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=5):
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._time += 1
        return np.full(1, self._time, np.float32), 1.0, self._time >= self._length, False, {}


class Picture(CountingEnv):
    """Pictures of bytes."""

    observation_space = spaces.Box(0, 255, (16, 16, 1), np.uint8)

    def reset(self, **kwargs):
        super().reset(**kwargs)
        return np.full((16, 16, 1), 9, np.uint8), {}

    def step(self, action):
        obs, *rest = super().step(action)
        return np.full((16, 16, 1), obs[0], np.uint8), *rest


class ManyActions(CountingEnv):
    """An action of each kind."""

    action_space = spaces.Dict(
        {"choices": spaces.MultiDiscrete([2, 3]), "force": spaces.Box(-2.0, 2.0, (2,), np.float32)}
    )

    def step(self, action):
        assert self.action_space.contains({**action, "choices": np.asarray(action["choices"], np.int64)}), action
        return super().step(1)


class OwnVectorEnv(gym.vector.VectorEnv):
    """A user's own vector env, with episodes of different lengths."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs=1, reuse=False, width=3):
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._reuse, self._buffer = reuse, np.zeros((num_envs, width), np.float32)

    def reset(self, *, seed=None, options=None):
        self._rng = np.random.default_rng(seed)
        self._time = np.zeros(self.num_envs, int)
        self._done = np.zeros(self.num_envs, bool)
        return self._seen(), {}

    def step(self, actions):
        reset = self._done
        self._time = np.where(reset, 0, self._time + 1)
        terminated = ~reset & (self._rng.random(self.num_envs) < 0.1)
        truncated = ~reset & ~terminated & (self._time >= 7)
        self._done = terminated | truncated
        return self._seen(), np.where(reset, 0.0, 1.0 + actions), terminated, truncated, {}

    def _seen(self):
        noise = self._rng.random((self.num_envs, self._buffer.shape[1] - 2))
        obs = np.column_stack([self._time, np.arange(self.num_envs), noise]).astype(np.float32)
        if not self._reuse:
            return obs
        self._buffer[:] = obs
        return self._buffer


class SameStepVectorEnv(OwnVectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}


class SilentVectorEnv(OwnVectorEnv):
    metadata = {}


def learner_of(config, runner):
    """A learner alone, with its pipeline."""
    config = config.copy(copy_frozen=False)
    return config.build_learner(spaces=runner.get_spaces())


def batch_of(learner, samples):
    """What a learner's pipeline makes of samples."""
    pipeline = learner._learner_connector
    return pipeline(rl_module=learner.module, batch={}, episodes=samples, shared_data={})[DEFAULT_MODULE_ID]
