"""Mean return of a policy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv.sb3._chains import is_vecenv_wrapped
from vecenv.sb3.base_vec_env import counterpart, is_vec_env
from vecenv.sb3.dummy_vec_env import DummyVecEnv
from vecenv.sb3.monitor import Monitor
from vecenv.sb3.vec_monitor import VecMonitor


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: Callable[[dict[str, Any], dict[str, Any]], None] | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Run a policy for some episodes; return the mean and the standard deviation of their returns.

    Every env runs a number of episodes that is fixed beforehand, so that short ones do not weigh more. Inside a Monitor
    or VecMonitor returns and lengths are those of whole episodes as the monitor saw them, whatever wrappers do to them.

    Args:
        model: anything with `predict(obs, state=, episode_start=, deterministic=)`.
        env: a VecEnv, ours or Stable-Baselines3's, or a single env.
        n_eval_episodes: how many.
        deterministic: passed on to `predict`.
        render: whether to render every step.
        callback: called after each step for each env that still has episodes to run, with locals() and globals().
        reward_threshold: the mean must be greater.
        return_episode_rewards: return all returns and lengths instead.
        warn: whether to warn if there is no monitor.

    Raises:
        AssertionError: the mean is not greater than `reward_threshold`.
    """
    # Callbacks read these variables by name: they are Stable-Baselines3's.
    if not is_vec_env(env):
        env = DummyVecEnv([lambda single=env: single])
    is_monitor_wrapped = is_vecenv_wrapped(env, counterpart(VecMonitor)) or env.env_is_wrapped(Monitor)[0]
    if not is_monitor_wrapped and warn:
        warnings.warn(
            "Evaluation environment is not wrapped with a ``Monitor`` wrapper. This may result in reporting modified "
            "episode lengths and rewards, if other wrappers happen to modify these. "
            "Consider wrapping environment first with ``Monitor`` wrapper.",
            UserWarning,
            stacklevel=2,
        )
    n_envs = env.num_envs
    episode_rewards: list[float] = []
    episode_lengths: list[int] = []
    episode_counts = np.zeros(n_envs, dtype=int)
    episode_count_targets = np.array([(n_eval_episodes + i) // n_envs for i in range(n_envs)], dtype=int)
    current_rewards = np.zeros(n_envs)
    current_lengths = np.zeros(n_envs, dtype=int)
    observations = env.reset()
    states = None
    episode_starts = np.ones(n_envs, dtype=bool)
    while (episode_counts < episode_count_targets).any():
        actions, states = model.predict(
            observations, state=states, episode_start=episode_starts, deterministic=deterministic
        )
        new_observations, rewards, dones, infos = env.step(actions)
        current_rewards += rewards
        current_lengths += 1
        for i in np.flatnonzero(episode_counts < episode_count_targets).tolist():
            reward, done, info = rewards[i], dones[i], infos[i]  # callbacks read them
            episode_starts[i] = done
            if callback is not None:
                callback(locals(), globals())
            if not done:
                continue
            if not is_monitor_wrapped:
                episode_rewards.append(float(current_rewards[i]))
                episode_lengths.append(int(current_lengths[i]))
                episode_counts[i] += 1
            elif "episode" in info:  # for the monitor the loss of a life does not end an episode
                episode_rewards.append(info["episode"]["r"])
                episode_lengths.append(info["episode"]["l"])
                episode_counts[i] += 1
            current_rewards[i] = 0
            current_lengths[i] = 0
        observations = new_observations
        if render:
            env.render()
    mean_reward, std_reward = np.mean(episode_rewards), np.std(episode_rewards)
    if reward_threshold is not None:
        assert mean_reward > reward_threshold, (
            f"Mean reward below threshold: {mean_reward:.2f} < {reward_threshold:.2f}"
        )
    if return_episode_rewards:
        return episode_rewards, episode_lengths
    return mean_reward, std_reward  # type: ignore[return-value]  # NumPy's floats
