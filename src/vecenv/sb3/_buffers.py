"""Buffers for Stable-Baselines3's algorithms, over ours. Needs Stable-Baselines3.

    PPO("MlpPolicy", env, rollout_buffer_class=vecenv.sb3.RolloutBuffer)
    SAC("MlpPolicy", env, replay_buffer_class=vecenv.sb3.ReplayBuffer)

One class each, for Dict observations too. They draw the same random numbers and compute in the same order and types,
so that training with them gives the same weights as with Stable-Baselines3's own.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import Any

import numpy as np

try:
    import torch
    from gymnasium import spaces
    from stable_baselines3.common import buffers as theirs
    from stable_baselines3.common.type_aliases import (
        DictReplayBufferSamples,
        DictRolloutBufferSamples,
        ReplayBufferSamples,
        RolloutBufferSamples,
    )
except ImportError as error:
    from vecenv.errors import MissingExtra

    raise MissingExtra(f"{error}; pip install 'vecenv[sb3]'") from None

from vecenv._batch.batch import Op
from vecenv._batch.layout import map_tree
from vecenv._front.step import Step
from vecenv.buffers import ReplayBuffer as OurReplayBuffer
from vecenv.buffers import gae
from vecenv.buffers._storage import Storage
from vecenv.errors import ConfigError


class RolloutBuffer(theirs.RolloutBuffer):
    """Steps for PPO and A2C, in columns that are allocated once; advantages are computed by native code.

    Several agents: `rollout_buffer_kwargs={"valid": venv.valid}`, with `venv = vecenv.sb3.wrap(envs.flat())`. Rows that
    are no transitions, such as those of dead agents, are then left out of the minibatches.

    Args:
        *args, **kwargs: Stable-Baselines3's.
        valid: an array that says which rows of the latest step are transitions, read by every `add`; None: all.
    """

    def __init__(self, *args: Any, valid: np.ndarray | None = None, **kwargs: Any) -> None:
        self._obs: Storage | None = None
        self._valid_now = valid
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        """Remove everything that is stored."""
        self.pos, self.full, self.generator_ready = 0, False, False
        if self._obs is not None:
            return
        axes = (self.buffer_size, self.n_envs)
        self._obs = Storage(self.observation_space, axes)
        self.observations = self._obs.tree
        self.actions = np.zeros((*axes, self.action_dim), self.action_space.dtype)
        for name in ("rewards", "returns", "episode_starts", "values", "log_probs", "advantages"):
            setattr(self, name, np.zeros(axes, np.float32))
        self.valid = np.ones(axes, np.bool_)
        if self._valid_now is not None and self._valid_now.shape != (self.n_envs,):
            raise ConfigError(f"valid has the shape {self._valid_now.shape}, there are {self.n_envs} rows")

    def add(
        self,
        obs: Any,
        action: np.ndarray,
        reward: np.ndarray,
        episode_start: np.ndarray,
        value: torch.Tensor,
        log_prob: torch.Tensor,
    ) -> None:
        """Store one step of all envs."""
        assert self._obs is not None
        self._obs.write(self.pos, obs)
        self.actions[self.pos] = action.reshape(self.n_envs, self.action_dim)
        self.rewards[self.pos], self.episode_starts[self.pos] = reward, episode_start
        self.values[self.pos] = value.detach().cpu().numpy().reshape(-1)
        self.log_probs[self.pos] = log_prob.detach().cpu().numpy().reshape(-1)
        if self._valid_now is not None:
            self.valid[self.pos] = self._valid_now
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: np.ndarray) -> None:
        """Generalized advantage estimation; Stable-Baselines3 put the value of truncated ends into the rewards."""
        ended = np.empty(self.rewards.shape, np.bool_)
        ended[:-1], ended[-1] = self.episode_starts[1:], dones
        last = last_values.detach().cpu().numpy().reshape(-1)
        nowhere = np.zeros_like(ended)
        gae(self.rewards, self.values, last, ended, nowhere, gamma=self.gamma, lam=self.gae_lambda,
            out=(self.advantages, self.returns))  # fmt: skip

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Minibatches of all steps that are transitions, in Stable-Baselines3's order."""
        assert self.full, "the rollout is not complete"
        # Theirs numbers steps env by env, these columns lie step by step.
        places = np.flatnonzero(self.valid.T)
        count = len(places)
        order = places[np.random.permutation(count)]  # theirs, for the same numbers
        order = order % self.buffer_size * self.n_envs + order // self.buffer_size
        for begin in range(0, count, batch_size or count):
            yield self._get_samples(order[begin : begin + (batch_size or count)])

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Any:
        assert self._obs is not None
        leaves = [column.reshape(-1, *column.shape[2:]).take(batch_inds, 0) for column in self._obs.columns]
        columns = (self.values, self.log_probs, self.advantages, self.returns)
        actions = self.actions.reshape(-1, self.action_dim).take(batch_inds, 0).astype(np.float32, copy=False)
        obs = _shaped(self._obs.nest(leaves), self.obs_shape)
        values = [actions, *(column.reshape(-1).take(batch_inds) for column in columns)]
        kind = DictRolloutBufferSamples if isinstance(obs, dict) else RolloutBufferSamples
        tensor = functools.partial(self.to_torch, copy=False)
        return kind(map_tree(tensor, obs), *map(tensor, values))


class ReplayBuffer(theirs.ReplayBuffer):
    """Transitions for SAC, TD3, DQN and the like.

    Args:
        buffer_size, observation_space, action_space, device, n_envs, handle_timeout_termination: Stable-Baselines3's.
        optimize_memory_usage: store each observation once; unlike theirs, also where episodes are truncated.
        n_steps, gamma: sum the discounted rewards of `n_steps` steps, as their NStepReplayBuffer does.
        stack, axis: see `vecenv.buffers.ReplayBuffer`.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: Any = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_steps: int = 1,
        gamma: float = 0.99,
        stack: Any = None,
        axis: int = 0,
    ) -> None:
        theirs.BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        dtype: Any = np.dtype(self._maybe_cast_dtype(action_space.dtype))
        low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        self.ours = OurReplayBuffer(
            observation_space,
            spaces.Box(low, high, (self.action_dim,), dtype.type),
            self.buffer_size * n_envs,
            n_envs,
            n_step=n_steps,
            gamma=gamma,
            stack=1 if optimize_memory_usage and stack is None else stack,
            axis=axis,
        )
        self._ops, self._everyone = np.full(n_envs, Op.ROLL, np.uint8), np.arange(n_envs)

    def add(
        self, obs: Any, next_obs: Any, action: np.ndarray, reward: np.ndarray, done: np.ndarray, infos: Any
    ) -> None:
        """Store one transition of every env."""
        done = np.asarray(done, np.bool_)
        truncated = np.zeros(self.n_envs, np.bool_)
        if self.handle_timeout_termination:
            for env in np.flatnonzero(done).tolist():
                truncated[env] = infos[env].get("TimeLimit.truncated", False)
        step = Step(
            obs=next_obs, reward=np.asarray(reward), terminated=done & ~truncated, truncated=truncated, infos={},
            env_ids=self._everyone, ops=self._ops, episode_return=truncated, episode_length=truncated,
            _successors=next_obs,
        )  # fmt: skip
        self.ours.add(obs, action.reshape(self.n_envs, self.action_dim), step)
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0

    @property
    def dones(self) -> _Dones:  # type: ignore[override]  # theirs is an array
        """Where episodes ended, by slot and env. Assigning to it says that the caller has reset all envs."""
        return _Dones(self.ours)

    def reset(self) -> None:
        """Remove everything that is stored."""
        super().reset()
        self.ours.clear()

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Draw transitions, as Stable-Baselines3 draws them."""
        return theirs.BaseBuffer.sample(self, batch_size, env)

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Any:
        envs = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))  # as above
        if len(self.ours) < self.size() * self.n_envs:
            raise ConfigError("episodes are too short to store each frame once; use optimize_memory_usage=False")
        drawn = self.ours.gather(batch_inds * self.n_envs + envs)
        several = self.ours.n_step > 1
        if several and env is not None:
            raise ConfigError("n_steps > 1 adds up rewards before VecNormalize could scale them; use n_steps=1")
        obs, next_obs = (_shaped(tree, self.obs_shape) for tree in (drawn.obs, drawn.next_obs))
        values = (
            self._normalize_obs(obs, env),
            drawn.actions,
            self._normalize_obs(next_obs, env),
            drawn.terminated.astype(np.float32).reshape(-1, 1),
            self._normalize_reward(drawn.reward.reshape(-1, 1), env),
        )
        if several:
            # Stable-Baselines3 multiplies by these discounts where episodes did not terminate.
            steps = self.ours.look_ahead(drawn.index, self.ours.n_step)[3]
            values += ((self.ours.gamma**steps).astype(np.float32).reshape(-1, 1),)
        kind = DictReplayBufferSamples if isinstance(obs, dict) else ReplayBufferSamples
        tensor = functools.partial(self.to_torch, copy=False)
        return kind(*(map_tree(tensor, value) for value in values))


class _Dones:
    """What Stable-Baselines3 writes to when `learn` is called again: the last transitions end their episodes."""

    def __init__(self, ours: OurReplayBuffer) -> None:
        self._ours = ours

    def __getitem__(self, slot: Any) -> np.ndarray:
        return self._ours._ended.reshape(self._ours.slots, self._ours.lanes)[slot]

    def __setitem__(self, slot: Any, done: bool) -> None:
        self._ours.cut()


def _shaped(tree: Any, shape: Any) -> Any:
    """Observations in the shapes that Stable-Baselines3 has for them: a Discrete one is of shape [1]."""
    if isinstance(tree, dict):
        return {key: _shaped(leaf, shape[key]) for key, leaf in tree.items()}
    return tree.reshape(len(tree), *shape)
