"""Envs for the command line, good and bad ones."""

import multiprocessing
import random
import threading

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

import vecenv


class Walk(gymnasium.Env):
    """Go right. Correct, and draws itself."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = Box(-10, 10, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, length=5, render_mode=None):
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.time = self.np_random.uniform(-0.5, 0.5), 0
        return self._obs(), {}

    def step(self, action):
        self.x, self.time = self.x + (1 if action else -1), self.time + 1
        done = abs(self.x) > self.length
        return self._obs(), float(self.x > self.length), bool(done), self.time >= 50, {}

    def _obs(self):
        return np.array([self.x], np.float32)

    def render(self):
        frame = np.zeros((20, 40, 3), np.uint8)
        frame[:, int(np.clip(20 + 3 * self.x, 0, 39))] = 255
        return frame


class GlobalRandom(Walk):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = random.random() + np.random.random()
        return self._obs(), {}


class Nan(Walk):
    def step(self, action):
        obs, *rest = super().step(action)
        return (obs * np.nan if self.time == 3 else obs), *rest


class OneArray(Walk):
    def _obs(self):
        self.array = getattr(self, "array", np.zeros(1, np.float32))
        self.array[0] = self.x
        return self.array


class WrongShape(Walk):
    def _obs(self):
        return np.zeros(3, np.float32)


class NoSpaces(Walk):
    observation_space = None


class Broken(Walk):
    def __init__(self, **kwargs):
        raise RuntimeError("no licence")


class Raises(Walk):
    def step(self, action):
        raise ZeroDivisionError("the physics exploded")


class Unseen(Walk):
    def __init__(self):
        super().__init__()


NUMBER = 3


@vecenv.kernel("CliSlide-v0", max_episode_steps=30)
class Slide:
    """A kernel that a user has written."""

    observation_space, action_space = Box(-100, 100, (1,), np.float32), Discrete(2)
    state = {"x": float}

    class Params:
        speed = 0.1

    def reset(s, rng, p):
        s.x = 0.0

    def step(s, action, rng, p):
        s.x += p.speed if action == 1 else -p.speed
        return s.x, False

    def observe(s, obs, p):
        obs[0] = s.x


class Fragile(Walk):
    """Once it has been stepped 200 times, in any of its envs, every episode fails at its second step; or just once."""

    steps, once = 0, False

    def step(self, action):
        type(self).steps += 1
        if type(self).steps == 200 if self.once else type(self).steps >= 200 and self.time == 1:
            raise ZeroDivisionError("the physics exploded")
        return super().step(action)


class NoReward(Walk):
    """Its return never rises."""

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        return obs, 0.0, terminated, truncated, info


class Faulty(Walk):
    """Five faults, one after another, and random numbers of its own."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.time == 2:
            obs = obs * np.nan
        if self.time == 3:
            obs = np.zeros(3, np.float32)
        reward = np.inf if self.time == 4 else random.random()
        return obs, reward, 0 if self.time == 5 else terminated, truncated, [] if self.time == 6 else info


class Wordy(Walk):
    """Its rewards are text."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, f"{reward} points", *rest


class Huge(Walk):
    """Its rewards are ints that no float can hold."""

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, 10**400, *rest


class Bytes(Walk):
    """Its rewards are bytes that look like a number."""

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, b"1.5", *rest


class Careless(OneArray):
    """Changes arrays that it has returned and got, depends on where it runs, and has four habits Gymnasium warns of."""

    action_space = Box(0, 2, (1,), np.float32)

    def seed(self, seed=None):
        """A method of older envs."""

    def reset(self, *, seed=7, options=None, return_info=True):
        _, info = super().reset(seed=seed)
        self.x += 0.1 * (threading.current_thread() is not threading.main_thread())
        self.x += 0.1 * (multiprocessing.parent_process() is not None)
        return self._obs(), info

    def step(self, action):
        right = bool(action[0] > 1)
        action[:] = 0
        return super().step(right)


class Outside(Walk):
    """Its observations have three faults at once."""

    def _obs(self):
        return np.array([np.nan, 50, 3], np.float32)


class Boom(Walk):
    """Raises in engines only, whose third env has this seed. Its name is that of a character of rich's (`:Boom:`)."""

    def reset(self, *, seed=None, options=None):
        if seed == 2:
            raise ZeroDivisionError("the physics exploded")
        return super().reset(seed=seed)


class NoEnv:
    """Not derived from gymnasium.Env."""


class Late(Walk):
    """Fails in the fourth step of every episode from when `fails` is set; with `once`, a single time."""

    fails, once = False, False

    def step(self, action):
        if type(self).fails and self.time == 3:
            type(self).fails = not self.once
            raise ZeroDivisionError("too late")
        return super().step(action)


class Quits(Walk):
    def step(self, action):
        raise SystemExit(0)


class Masked(Walk):
    """Its infos say which actions are allowed; it fails at the others."""

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        return obs, self._mask()

    def step(self, action):
        assert self.mask[action], "masked action"
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, self._mask()

    def _mask(self):
        self.mask = np.array([True, True])
        self.mask[self.time % 3 :: 2] = self.time % 3 == 2
        return {"action_mask": self.mask}


class Prints(Walk):
    def step(self, action):
        print("step")
        return super().step(action)


class Bare(gymnasium.Env):
    """Has no constructor."""

    observation_space = Box(-10, 10, (1,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, True, False, {}


class OldReset(Bare):
    """Returns an observation alone, as Gym before 0.26."""

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32)


gymnasium.register("CliWalk-v0", entry_point="tests.cli.cli_envs:Walk")


class ThreeActions(gymnasium.Wrapper):
    """CartPole that may also be left alone."""

    def __init__(self, render_mode=None):
        super().__init__(gymnasium.make("CartPole-v1", render_mode=render_mode))
        self.action_space = Discrete(3)

    def step(self, action):
        return self.env.step(min(action, 1))
