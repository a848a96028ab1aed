"""Speed of wrappers and of the Stable-Baselines3 face next to Stable-Baselines3's own.

Everything that is compared is measured in one run, interleaved. Prints tables and writes
benchmarks/results/wrappers.json.

Run: python benchmarks/wrappers.py [--quick] [--only NAME ...]     (needs pip install 'vecenv[bench]')
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common import vec_env as theirs

import vecenv
from racing import Contestant, Question, answer, race
from vecenv import sb3 as ours


class Nothing(gymnasium.Env[np.ndarray, Any]):
    """An env that costs nothing and returns the same array again and again."""

    def __init__(self, shape: tuple[int, ...] = (4,), dtype: Any = np.float32) -> None:
        high = 255 if dtype == np.uint8 else 1.0
        self.observation_space = spaces.Box(0 if dtype == np.uint8 else -1.0, high, shape, dtype)
        self.action_space = spaces.Discrete(2)
        self._obs = np.ones(shape, dtype)
        self._info: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self._obs, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self._obs, 1.0, False, False, {}


class Fixed:
    """A VecEnv of a library that always returns the same: what is left is the wrapper around it."""

    def __new__(cls, library: Any, count: int, shape: tuple[int, ...], dtype: Any) -> Any:
        envs = library.DummyVecEnv(_makers(count, shape, dtype))
        rewards, dones = np.ones(count, np.float32), np.zeros(count, np.bool_)
        infos: list[dict[str, Any]] = [{} for _ in range(count)]
        obs = np.ones((count, *shape), dtype)
        envs.step_async = lambda actions: None
        envs.step_wait = lambda: (obs, rewards, dones, infos)
        return envs


def _makers(count: int, shape: tuple[int, ...], dtype: Any) -> list[Callable[[], Nothing]]:
    return [lambda: Nothing(shape, dtype) for _ in range(count)]


def wrapped(
    name: str, library: Any, count: int, shape: tuple[int, ...], dtype: Any, wrap: Callable[..., Any]
) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs = wrap(library, Fixed(library, count, shape, dtype))
        envs.reset()
        actions = np.zeros(count, int)
        return lambda turn: envs.step(actions), lambda: None

    return Contestant(name, build)


def against(
    count: int, shape: tuple[int, ...], dtype: Any, wrap: Callable[..., Any]
) -> Callable[..., dict[str, float]]:
    contestants = [
        wrapped("sb3", theirs, count, shape, dtype, wrap),
        wrapped("vecenv", ours, count, shape, dtype, wrap),
    ]
    return lambda turns, seconds: race(contestants, count, turns, seconds)


def stack(library: Any, envs: Any) -> Any:
    return library.VecFrameStack(envs, 4, channels_order="last")


def stack_and_transpose(library: Any, envs: Any) -> Any:
    return library.VecTransposeImage(stack(library, envs))


def normalize(library: Any, envs: Any) -> Any:
    return library.VecNormalize(envs)


def overhead(kind: str, count: int) -> Callable[..., dict[str, float]]:
    def contestant(name: str, library: Any) -> Contestant:
        def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
            envs = getattr(library, kind)([Nothing] * count)
            envs.reset()
            actions = np.zeros(count, int)
            return lambda turn: envs.step(actions), envs.close

        return Contestant(name, build)

    contestants = [contestant("sb3", theirs), contestant("vecenv", ours)]
    return lambda turns, seconds: race(contestants, count, turns, seconds)


def learning(turns: int, seconds: float) -> dict[str, float]:
    """Steps per second of PPO on 64 CartPoles, best of a few runs, interleaved."""

    def cartpole() -> Any:
        return gymnasium.make("CartPole-v1")

    builds = {
        "sb3 dummy": lambda: theirs.VecMonitor(theirs.DummyVecEnv([cartpole] * 64)),
        "vecenv dummy": lambda: ours.VecMonitor(ours.DummyVecEnv([cartpole] * 64)),
        "vecenv compiled": lambda: ours.VecMonitor(ours.wrap(vecenv.make("CartPole-v1", 64, autoreset="same-step"))),
    }
    best = dict.fromkeys(builds, 0.0)
    for _ in range(max(2, turns // 3)):
        for name, build in builds.items():
            model = PPO("MlpPolicy", build(), n_steps=128, batch_size=2048, n_epochs=4, device="cpu", seed=0)
            started = time.perf_counter()
            model.learn(4 * 64 * 128)
            best[name] = max(best[name], 4 * 64 * 128 / (time.perf_counter() - started))
            model.env.close()
    return best


if __name__ == "__main__":
    frame = ((84, 84, 1), np.uint8)
    answer(
        __doc__,
        {
            "stack8": Question("frame stack, 8 envs of 84x84x1", "sb3", against(8, *frame, stack)),
            "stack64": Question("frame stack, 64 envs of 84x84x1", "sb3", against(64, *frame, stack)),
            "transpose8": Question("stack and transpose, 8 envs", "sb3", against(8, *frame, stack_and_transpose)),
            "normalize8": Question("normalise, 8 envs of 17", "sb3", against(8, (17,), np.float64, normalize)),
            "normalize64": Question("normalise, 64 envs of 376", "sb3", against(64, (376,), np.float64, normalize)),
            "dummy64": Question("DummyVecEnv, 64 envs that do nothing", "sb3", overhead("DummyVecEnv", 64)),
            "subproc64": Question("SubprocVecEnv, 64 envs that do nothing", "sb3", overhead("SubprocVecEnv", 64)),
            "ppo": Question("PPO on 64 CartPole-v1", "sb3 dummy", learning),
        },
        Path(__file__).parent / "results" / "wrappers.json",
    )
