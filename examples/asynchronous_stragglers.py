"""Slow environments do not hold up the others.

    python examples/asynchronous_stragglers.py

Sixteen environments wait for something outside: fourteen take 1 ms per step, two take 50 ms. `step` waits for the
slowest. `send` and `recv` act on whichever environments are ready. Prints how many steps each kind made in a second.
"""

import time

import gymnasium
import numpy as np

import vecenv

SLOW = (3, 11)
SECONDS = 1.0


class Remote(gymnasium.Env):
    """A service that takes its time."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, delay):
        self.delay = delay

    def reset(self, *, seed=None, options=None):
        """Connect."""
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        """Ask, and wait for the answer."""
        time.sleep(self.delay)
        return self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32), 1.0, False, False, {}


def policy(obs):
    """Anything that maps a batch of observations to actions."""
    return (obs[:, 0] > 0).astype(np.int64)


def all_together(envs):
    """Steps of each environment if every step waits for all of them."""
    obs, _ = envs.reset(seed=0)
    counts, end = np.zeros(envs.num_envs, int), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        obs, *_ = envs.step(policy(obs))
        counts += 1
    return counts


def as_they_finish(envs):
    """Steps of each environment if those that are ready are stepped at once."""
    obs, _ = envs.reset(seed=0)
    counts, end = np.zeros(envs.num_envs, int), time.perf_counter() + SECONDS
    envs.send(policy(obs))
    while time.perf_counter() < end:
        step = envs.recv(min_envs=1, max_envs=8)  # from one to eight environments, those that wait longest first
        counts[step.env_ids] += 1
        envs.send(policy(step.obs), step.env_ids)
    envs.recv(envs.num_envs)  # those that still run
    return counts


def main():
    """Compare the two ways."""
    delays = [0.05 if env in SLOW else 0.001 for env in range(16)]
    # A thread per environment: these wait, they do not compute.
    envs = vecenv.make([lambda delay=delay: Remote(delay) for delay in delays], engine="thread", workers=16)
    slow = np.isin(np.arange(16), SLOW)
    for name, run in {"step": all_together, "send and recv": as_they_finish}.items():
        steps = run(envs)
        print(f"{name:>14}: fast environments {steps[~slow].mean():.0f} steps each, slow ones {steps[slow].mean():.0f}")
    envs.close()


if __name__ == "__main__":
    main()
