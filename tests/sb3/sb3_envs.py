"""Envs of every space that SB3 knows, whose every number depends on seeds and actions."""

import copy
from collections import OrderedDict

import gymnasium
import numpy as np
from gymnasium import spaces

ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "multi_discrete": spaces.MultiDiscrete([3, 4]),
    "multi_binary": spaces.MultiBinary(3),
}
OBSERVATIONS = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "image": spaces.Box(0, 255, (8, 6, 3), np.uint8),
    "discrete": spaces.Discrete(5),
    "multi_discrete": spaces.MultiDiscrete([3, 4]),
    "multi_binary": spaces.MultiBinary(4),
    "dict": spaces.Dict({"b": spaces.Box(-1, 1, (2,), np.float64), "a": spaces.Discrete(3)}),
    "tuple": spaces.Tuple((spaces.Box(-1, 1, (2, 2), np.float32), spaces.MultiBinary(2))),
}


class Anything(gymnasium.Env):
    """Observes random values of a space and ends, or is cut off, at random."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(self, observation="box", action="discrete", render_mode=None):
        self.observation_space = _own(OBSERVATIONS[observation])
        self.action_space = _own(ACTIONS[action])
        self.render_mode = render_mode
        self.given = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {"begin": self.np_random.random(), "options": options}

    def step(self, action):
        self.steps += 1
        self.given = np.asarray(action).tolist()
        terminated, truncated = bool(self.np_random.random() < 0.1), bool(self.np_random.random() < 0.1)
        reward = float(self.np_random.normal() + np.sum(action))
        info = {"steps": self.steps, "given": np.array(self.given)} if self.steps % 2 else {}
        return self.observation_space.sample(), reward, terminated, truncated, info

    def render(self):
        return np.full((4, 5, 3), self.steps, np.uint8)

    def double(self, number):
        return 2 * number


class Masked(gymnasium.Env):
    """Only the action whose number is the step's, modulo four, is allowed; another is an error."""

    observation_space = spaces.Box(0, 1, (4,), np.float32)
    action_space = spaces.Discrete(4)

    def __init__(self):
        self.steps = self.asked = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = int(self.np_random.integers(4))
        return np.zeros(4, np.float32), {}

    def step(self, action):
        assert self.action_masks()[action], "the mask forbids it"
        self.steps += 1
        return np.full(4, self.steps / 100, np.float32), 1.0, self.steps % 11 == 0, False, {}

    def skip(self):
        self.steps += 1

    def action_masks(self):
        assert self.steps % 11 or not self.steps, "asked at the end of an episode"
        self.asked += 1
        mask = np.zeros(4, bool)
        mask[self.steps % 4] = True
        return mask


class SameArray(gymnasium.Env):
    """Observes the number of its steps, always in the same array."""

    observation_space = spaces.Box(0, 100, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.obs = np.zeros(2, np.float32)
        self.info = {"nested": {"steps": 0}}

    def reset(self, *, seed=None):  # no options, as in SB3's own tests
        super().reset(seed=seed)
        self.obs[:] = 0
        return self.obs, self.info

    def step(self, action):
        self.obs += 1
        self.info["nested"]["steps"] = int(self.obs[0])
        return self.obs, 1, bool(self.obs[0] == 3), False, self.info


class Goal(gymnasium.Env):
    """Reach a number by adding and subtracting, with the interface of HER."""

    def __init__(self):
        number = spaces.Box(-10, 10, (1,), np.float32)
        self.observation_space = spaces.Dict({"observation": number, "achieved_goal": number, "desired_goal": number})
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal, self.steps = np.zeros(1, np.float32), np.full(1, 3, np.float32), 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        self.place = np.clip(self.place + (1 if action else -1), -10, 10).astype(np.float32)
        reward = float(self.compute_reward(self.place, self.goal, {}))
        return self._observe(), reward, reward == 0, self.steps >= 20, {"is_success": reward == 0}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.abs(achieved_goal - desired_goal) > 0.5).astype(np.float32).reshape(-1).squeeze()

    def _observe(self):
        return {"observation": self.place, "achieved_goal": self.place, "desired_goal": self.goal}


def _own(space):
    return copy.deepcopy(space)


def same(a, b):
    """Equal in types, dtypes, order and values."""
    assert type(a) is type(b) or {type(a), type(b)} == {dict, OrderedDict}, (a, b)
    if isinstance(a, dict):
        assert set(a) == set(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b
