"""Envs that cannot be made, reset or stepped."""

import gymnasium
import numpy as np


def fail(*args, **kwargs):
    raise OSError("the simulator does not start")


class BrokenReset(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    reset = step = fail


class BrokenStep(BrokenReset):
    def reset(self, **kwargs):
        return np.zeros(2, np.float32), {}


gymnasium.register("Broken-v0", entry_point=fail)
gymnasium.register("BrokenReset-v0", entry_point=BrokenReset)
gymnasium.register("BrokenStep-v0", entry_point=BrokenStep)
