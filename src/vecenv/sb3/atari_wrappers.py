"""The usual preprocessing of Atari games, as wrappers of single envs."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from vecenv._util.screens import clip_reward, life_lost, load_opencv, load_resize
from vecenv.errors import SpaceError

_Env = gymnasium.Env[Any, Any]
_Wrapper = gymnasium.Wrapper[Any, Any, Any, Any]
_Reset = tuple[Any, dict[str, Any]]
_Step = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
_NOOP = 0


class StickyActionEnv(_Wrapper):
    """With some probability the last action is repeated (Machado et al., arXiv:1709.06009).

    Args:
        env: to be wrapped; its action 0 is "NOOP".
        action_repeat_probability: of repeating.
    """

    def __init__(self, env: _Env, action_repeat_probability: float) -> None:
        super().__init__(env)
        self.action_repeat_probability = action_repeat_probability
        self._sticky_action = _NOOP
        _check_meaning(env, _NOOP, "NOOP")

    def reset(self, **kwargs: Any) -> _Reset:
        self._sticky_action = _NOOP
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> _Step:
        if self.np_random.random() >= self.action_repeat_probability:
            self._sticky_action = action
        return self.env.step(self._sticky_action)


class NoopResetEnv(_Wrapper):
    """Episodes begin with 1 to `noop_max` steps of doing nothing, drawn from the env's generator.

    Args:
        env: to be wrapped; its action 0 is "NOOP".
        noop_max: the most steps.

    Attributes:
        override_num_noops: instead of drawing, this many.
    """

    def __init__(self, env: _Env, noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max
        self.override_num_noops: int | None = None
        self.noop_action = _NOOP
        _check_meaning(env, _NOOP, "NOOP")

    def reset(self, **kwargs: Any) -> _Reset:
        obs, info = self.env.reset(**kwargs)
        noops = self.override_num_noops
        if noops is None:
            noops = int(self.unwrapped.np_random.integers(1, self.noop_max + 1))
        for _ in range(noops):
            obs, _, terminated, truncated, info = self.env.step(self.noop_action)
            if terminated or truncated:
                obs, info = self.env.reset(**kwargs)
        return obs, info


class FireResetEnv(_Wrapper):
    """Episodes begin with actions 1 ("FIRE") and 2, for games that wait for it."""

    def __init__(self, env: _Env) -> None:
        super().__init__(env)
        _check_meaning(env, 1, "FIRE")
        assert len(_meanings(env)) >= 3, f"FireResetEnv needs at least 3 actions, the env has {_meanings(env)}"

    def reset(self, **kwargs: Any) -> _Reset:
        self.env.reset(**kwargs)
        obs: Any = None
        for action in (1, 2):
            obs, _, terminated, truncated, _ = self.env.step(action)
            if terminated or truncated:
                self.env.reset(**kwargs)
        return obs, {}


class EpisodicLifeEnv(_Wrapper):
    """The loss of a life ends an episode, but only the end of the game makes `reset` begin a new game."""

    def __init__(self, env: _Env) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def step(self, action: Any) -> _Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = self._count()
        terminated = terminated or life_lost(self.lives, lives)
        self.lives = lives
        return obs, reward, terminated, truncated, info

    def reset(self, **kwargs: Any) -> _Reset:
        if self.was_real_done:
            obs, info = self.env.reset(**kwargs)
        else:
            obs, _, terminated, truncated, info = self.env.step(_NOOP)  # the game continues where the life was lost
            if terminated or truncated:
                obs, info = self.env.reset(**kwargs)
        self.lives = self._count()
        return obs, info

    def _count(self) -> int:
        game: Any = self.env.unwrapped
        return game.ale.lives()


class MaxAndSkipEnv(_Wrapper):
    """An action lasts for `skip` frames; the observation is the maximum of the last two of them.

    Args:
        env: to be wrapped.
        skip: how many frames.
    """

    def __init__(self, env: _Env, skip: int = 4) -> None:
        super().__init__(env)
        shape, dtype = env.observation_space.shape, env.observation_space.dtype
        if shape is None or dtype is None:
            raise SpaceError(f"MaxAndSkipEnv needs images, the env observes {env.observation_space}")
        self._obs_buffer = np.zeros((2, *shape), dtype)
        self._skip = skip

    def step(self, action: Any) -> _Step:
        total = 0.0
        terminated = truncated = False
        info: dict[str, Any] = {}
        for frame in range(self._skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            if frame >= self._skip - 2:
                self._obs_buffer[frame - self._skip] = obs
            total += float(reward)
            if terminated or truncated:
                break
        return self._obs_buffer.max(axis=0), total, terminated, truncated, info


class ClipRewardEnv(gymnasium.RewardWrapper[Any, Any]):
    """Rewards are their signs: -1, 0 or 1."""

    def reward(self, reward: SupportsFloat) -> float:
        return clip_reward(float(reward))


class WarpFrame(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Frames in grey, of another size: [height, width, 1].

    Args:
        env: to be wrapped; it observes RGB images.
        width: of the frames.
        height: of the frames.

    Raises:
        MissingExtra: OpenCV is not installed.
    """

    def __init__(self, env: _Env, width: int = 84, height: int = 84) -> None:
        super().__init__(env)
        self.width = width
        self.height = height
        self._cv2 = load_opencv("WarpFrame")
        self._cv2.ocl.setUseOpenCL(False)  # as in SB3: no faster for small frames, and it would use the GPU
        self._resize = load_resize("WarpFrame")
        assert isinstance(env.observation_space, spaces.Box), f"Expected Box space, got {env.observation_space}"
        dtype: Any = env.observation_space.dtype
        self.observation_space = spaces.Box(low=0, high=255, shape=(height, width, 1), dtype=dtype)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """The frame in grey and in the new size."""
        grey = self._cv2.cvtColor(observation, self._cv2.COLOR_RGB2GRAY)
        return self._resize(grey, (self.width, self.height))[:, :, None]


class AtariWrapper(_Wrapper):
    """All of the above, in the usual order. For games without frame skip of their own ("...NoFrameskip-v4").

    Args:
        env: the game.
        noop_max: the most steps of doing nothing at the beginning; 0 for none.
        frame_skip: frames per action; 1 for no skipping.
        screen_size: width and height of observations.
        terminal_on_life_loss: the loss of a life ends an episode.
        clip_reward: rewards are signs.
        action_repeat_probability: of repeating the last action.
    """

    def __init__(
        self,
        env: _Env,
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int = 84,
        terminal_on_life_loss: bool = True,
        clip_reward: bool = True,
        action_repeat_probability: float = 0.0,
    ) -> None:
        if action_repeat_probability > 0.0:
            env = StickyActionEnv(env, action_repeat_probability)
        if noop_max > 0:
            env = NoopResetEnv(env, noop_max=noop_max)
        if frame_skip > 1:
            env = MaxAndSkipEnv(env, skip=frame_skip)
        if terminal_on_life_loss:
            env = EpisodicLifeEnv(env)
        if "FIRE" in _meanings(env):
            env = FireResetEnv(env)
        env = WarpFrame(env, width=screen_size, height=screen_size)
        if clip_reward:
            env = ClipRewardEnv(env)
        super().__init__(env)


def _meanings(env: _Env) -> list[str]:
    game: Any = env.unwrapped
    return game.get_action_meanings()


def _check_meaning(env: _Env, action: int, meaning: str) -> None:
    assert _meanings(env)[action] == meaning, f"action {action} must be {meaning!r}, the env has {_meanings(env)}"
