"""A preprocessed game in Python: what ale-py's native env computes, for all that it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit

from vecenv._util.screens import clip_reward, life_lost, load_frame_maker
from vecenv.atari._preprocessing import FrameStacks, Preprocessing, ale_seed, frame_limit


class AtariGame(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A game with preprocessing, bit for bit what the ale engine makes of the same seeds and actions.

    Args:
        env: ale-py's `AtariEnv`, made with `frameskip=1`.
        preprocessing: options.
        max_frames: frames of an episode after those of its beginning, None for no limit.

    Raises:
        MissingExtra: OpenCV is not installed.
    """

    def __init__(self, env: Any, preprocessing: Preprocessing, max_frames: int | None = None) -> None:
        super().__init__(env)
        self._options = preprocessing
        self._max_frames = frame_limit(max_frames)
        self.observation_space = space = preprocessing.observation_space()
        self._ale = env.ale
        self._first_action = preprocessing.first_action(env.get_action_meanings())
        self._fires = self._first_action > 0
        height, width = self._ale.getScreenDims()
        shape = (height, width) if preprocessing.grayscale else (height, width, 3)
        self._screens = np.zeros((2, *shape), np.uint8)
        self._show = self._ale.getScreenGrayscale if preprocessing.grayscale else self._ale.getScreenRGB
        self._frame = load_frame_maker("preprocessing", preprocessing.size, pools=preprocessing.max_pool)
        self._obs = np.zeros((1, *space.shape), np.uint8)
        self._stack = FrameStacks(self._obs, preprocessing)
        self._noops = _Noops(preprocessing.noop_max)
        self._frames = self._lives = 0
        self._goes_on = False
        """Whether the episode ended with a life and the game has more."""

    @property
    def game(self) -> str:
        """Name of the ROM."""
        return self.unwrapped._game  # type: ignore[attr-defined]  # AtariEnv's

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; of the game that goes on, if the last one ended with a life and no seed is given."""
        if seed is None and self._goes_on:
            frame, *_ = self._act(self._first_action)
            if self._frames < self._max_frames and not self._ale.game_over():
                return self._begin(frame)
        if seed is not None:
            self._seed(seed)
        self._ale.reset_game()
        if self._fires:
            self._ale.act(1)
        for _ in range(self._noops.draw() - self._fires):
            self._ale.act(0)
            if self._ale.game_over():
                self._ale.reset_game()
        self._show(self._screens[0])
        self._screens[1] = 0
        self._frames, self._lives = 0, self._ale.lives()
        return self._begin(self._frame(*self._screens))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply the action for `frame_skip` frames, or until the episode ends."""
        frame, reward, terminated, truncated = self._act(int(action))
        self._stack.push(0, frame)
        seen = clip_reward(reward) if self._options.clip_reward else reward
        return self._obs[0].copy(), seen, terminated, truncated, self._info(reward)

    def _act(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        options, ale = self._options, self._ale
        reward, over, lost = 0, False, False
        for left in range(options.frame_skip, 0, -1):
            reward += ale.act(self.unwrapped._action_set[action])  # type: ignore[attr-defined]  # AtariEnv's
            self._frames += 1
            over = ale.game_over()
            lost = life_lost(self._lives, ale.lives())
            if over or self._frames >= self._max_frames or (lost and options.episodic_life == "restart"):
                break
            if left <= 2:
                self._show(self._screens[left - 1])
        self._lives = ale.lives()
        terminated = over or (lost and options.episodic_life is not False)
        late = self._frames >= self._max_frames
        self._goes_on = terminated and not over and not late and options.episodic_life == "continue"
        return self._frame(*self._screens), float(reward), terminated, late and not terminated

    def _begin(self, frame: np.ndarray) -> tuple[Any, dict[str, Any]]:
        self._goes_on = False
        self._stack.begin(0, frame)
        return self._obs[0].copy(), self._info(0.0)

    def _info(self, reward: float) -> dict[str, Any]:
        info = dict(self.unwrapped._get_info())  # type: ignore[attr-defined]  # AtariEnv's
        return {**info, "raw_reward": reward} if self._options.clip_reward else info

    def _seed(self, seed: int) -> None:
        game: Any = self.unwrapped
        game.seed_game(seed)
        self._ale.setInt("random_seed", ale_seed(seed))
        game.load_game()
        self._noops.seed(ale_seed(seed))


class _Noops:
    """How many frames of doing nothing begin an episode: the numbers that ale-py's native envs draw.

    They are C++'s `std::uniform_int_distribution` of `std::mt19937`, as GCC's library has it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(limit, 1)
        self._words: Any = np.random.MT19937()

    def seed(self, seed: int) -> None:
        self._words._legacy_seeding(seed)

    def draw(self) -> int:
        """A number from 0 to `limit` - 1."""
        reject = 2**32 % self._limit
        while True:
            product = int(self._words.random_raw()) * self._limit
            if product % 2**32 >= reject:
                return product >> 32


@dataclass(frozen=True)
class MakeGame:
    """Builds one game. Picklable."""

    kwargs: Mapping[str, Any]
    preprocessing: Preprocessing
    max_frames: int | None
    max_episode_steps: int | None
    wrappers: tuple[Any, ...] = ()

    def __call__(self) -> gymnasium.Env[Any, Any]:
        import ale_py  # pyright: ignore[reportMissingImports]  # optional; the id was looked up in it

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        game = ale_py.AtariEnv(frameskip=1, **self.kwargs)
        env: gymnasium.Env[Any, Any] = AtariGame(game, self.preprocessing, self.max_frames)
        if self.max_episode_steps is not None:
            env = TimeLimit(env, self.max_episode_steps)
        for wrapper in self.wrappers:
            env = wrapper(env)
        return env
