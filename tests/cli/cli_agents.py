"""Envs with two agents that `vecenv check` finds faults in."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo.utils import ParallelEnv


class Astray(ParallelEnv):
    """Agent b leaves its space at the third step."""

    metadata = {"name": "astray"}
    render_mode = None
    possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return Box(0.0, 1.0, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.time = list(self.possible_agents), 0
        return self.seen(), {name: {} for name in self.agents}

    def seen(self):
        return {name: np.full(2, 5.0 if name == "b" and self.time == 3 else 0.5, np.float32) for name in self.agents}

    def step(self, actions):
        self.time += 1
        seen, acted = self.seen(), self.agents
        late = self.time == 6
        if late:
            self.agents = []
        flags = dict.fromkeys(acted, False), dict.fromkeys(acted, late)
        return seen, dict.fromkeys(acted, 0.0), *flags, {name: {} for name in acted}


class Forgetful(Astray):
    """Draws from NumPy's global numbers."""

    def seen(self):
        return {name: np.random.random(2).astype(np.float32) for name in self.agents}
