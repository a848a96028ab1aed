"""An env whose steps take a known time."""

import time

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

SECONDS = 0.005


class SlowCartPole(CartPoleEnv):
    def step(self, action):
        time.sleep(SECONDS)
        return super().step(action)


gymnasium.register("SlowCartPole-v0", entry_point=SlowCartPole, max_episode_steps=500)
