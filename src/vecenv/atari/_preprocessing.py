"""What is done to the screens of a game before an agent sees them."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from vecenv._util.checks import positive_int
from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, ConfigTypeError

EpisodicLife = Literal[False, "restart", "continue"]
_NO_LIMIT = 2**30
"""More frames than an episode can have; ale-py counts one beyond its limit, in 32 bits."""


@dataclass(frozen=True)
class Preprocessing:
    """Options of a game. The defaults are those of Gymnasium's `AtariPreprocessing` and `FrameStackObservation(4)`.

    Attributes:
        frame_skip: frames that an action lasts.
        screen_size: width and height of observations, or one number for both.
        grayscale: grey observations, otherwise RGB.
        max_pool: show what is brighter in the last two frames, as sprites flicker.
        noop_max: an episode begins with fewer than this many frames of doing nothing.
        fire_reset: an episode begins with FIRE, in games that have it.
        episodic_life: False; "restart": an episode ends with a life and the next one begins a new game, as in
            Gymnasium; "continue": the next one goes on with the lives that are left, as in SB3. Its first step (FIRE
            with `fire_reset`, else NOOP) is made for you.
        clip_reward: rewards are their signs; `infos["raw_reward"]` has the others.
        frame_stack: how many frames an observation has, along its first axis; None for one without that axis.
        stack_padding: what stands for frames from before an episode: "reset" (its first one) or "zero".
    """

    frame_skip: int = 4
    screen_size: int | tuple[int, int] = 84
    grayscale: bool = True
    max_pool: bool = True
    noop_max: int = 30
    fire_reset: bool = False
    episodic_life: EpisodicLife = False
    clip_reward: bool = False
    frame_stack: int | None = 4
    stack_padding: Literal["reset", "zero"] = "reset"

    def __post_init__(self) -> None:
        positive_int("frame_skip", self.frame_skip)
        for length in self.size:
            positive_int("screen_size", length)
        if self.frame_stack is not None:
            positive_int("frame_stack", self.frame_stack)
        if isinstance(self.noop_max, bool) or not isinstance(self.noop_max, int) or self.noop_max < 0:
            raise ConfigError(f"noop_max must be an int of at least 0, got {self.noop_max!r}")
        for name in ("grayscale", "max_pool", "fire_reset", "clip_reward"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigTypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        for name, allowed in (("episodic_life", (False, "restart", "continue")), ("stack_padding", ("reset", "zero"))):
            value = getattr(self, name)
            if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
                raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")

    @classmethod
    def dqn(cls) -> Preprocessing:
        """As in DQN: rewards are clipped, a lost life ends an episode but not the game, episodes begin with FIRE."""
        return cls(fire_reset=True, episodic_life="continue", clip_reward=True, stack_padding="zero")

    @classmethod
    def parse(cls, given: Any) -> Preprocessing:
        """From what a user gives: True for the defaults, "dqn", a dict of options, or one of these."""
        if given is True:
            return cls()
        if isinstance(given, cls):
            return given
        if given == "dqn":
            return cls.dqn()
        if not isinstance(given, Mapping):
            raise ConfigTypeError(
                f"preprocessing must be True, 'dqn', a dict of options or a vecenv.atari.Preprocessing, got {given!r}"
            )
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known, f"there are {', '.join(known)}")
                raise ConfigTypeError(f"preprocessing has no option {name!r}{hint}")
        return cls(**given)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        size = self.screen_size
        if isinstance(size, int):
            return size, size
        if not isinstance(size, (tuple, list)) or len(size) != 2:
            raise ConfigTypeError(f"screen_size must be an int or (width, height), got {size!r}")
        return size[0], size[1]

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """Shape of one frame."""
        width, height = self.size
        return (height, width) if self.grayscale else (height, width, 3)

    def first_action(self, actions: list[str]) -> int:
        """The action that an episode begins with in a game with these actions: FIRE with `fire_reset`, else NOOP."""
        return actions.index("FIRE") if self.fire_reset and "FIRE" in actions else 0

    def observation_space(self) -> spaces.Box:
        """The space of observations."""
        stack = () if self.frame_stack is None else (self.frame_stack,)
        return spaces.Box(0, 255, (*stack, *self.frame_shape), np.uint8)


class FrameStacks:
    """The last frames of every row, moved along in its observation.

    Args:
        obs: observations of all rows; they are written in place.
        preprocessing: says how many frames an observation has, and what stands for frames from before an episode.
    """

    def __init__(self, obs: np.ndarray, preprocessing: Preprocessing) -> None:
        depth = preprocessing.frame_stack or 1
        self._frames = obs.reshape(len(obs), depth, *preprocessing.frame_shape)
        self._zero = preprocessing.stack_padding == "zero"
        self._newest = [frames[-1] for frames in self._frames]
        stride = self._frames.strides[1]
        starts = [frames.ctypes.data for frames in self._frames]
        self._moves = [(start, start + stride, (depth - 1) * stride) for start in starts]

    def push(self, row: int, frame: np.ndarray) -> None:
        """Add the newest frame; the oldest one is dropped."""
        ctypes.memmove(*self._moves[row])
        self._newest[row][...] = frame

    def push_all(self, frames: np.ndarray) -> None:
        """Add the newest frame of every row.

        All frames are moved at once. The first of each row gets into the last place of the row before, where the newest
        one goes.
        """
        start, second, _ = self._moves[0]
        ctypes.memmove(start, second, self._frames.nbytes - (second - start))
        self._frames[:, -1] = frames

    def begin(self, row: int, frame: np.ndarray) -> None:
        """Begin an episode with its first frame."""
        self._frames[row] = 0 if self._zero else frame
        self._newest[row][...] = frame


def ale_seed(seed: int) -> int:
    """The seed of ALE's own generator: Gymnasium's, without its sign, as ale-py's native envs take none below zero."""
    return int(np.random.SeedSequence(seed).generate_state(2)[1]) & 0x7FFF_FFFF


def frame_limit(max_frames: int | None) -> int:
    """The most frames of an episode, as ale-py takes it."""
    return _NO_LIMIT if max_frames is None else min(positive_int("max_num_frames_per_episode", max_frames), _NO_LIMIT)
