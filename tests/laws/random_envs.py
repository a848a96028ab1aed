"""Random envs for random programs: their spaces, rewards, episodes and infos are drawn from a seed.

Infos are of any shape that Gymnasium renders: numbers, arrays, text, objects, nested dicts, keys that come and go. Each
key has values of one type, because Gymnasium takes the dtype of the first env that has the key and loses the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from tests.twins import SPACES, SampleEnv

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.uint16)
LEAVES = tuple(name for name, space in SPACES.items() if not isinstance(space, (spaces.Dict, spaces.Tuple)))


def random_space(rng: np.random.Generator, depth: int = 2) -> Space[Any]:
    """A space of any kind, of dicts and tuples of them up to this depth."""
    choice = rng.random()
    if depth and choice < 0.3:
        parts = [random_space(rng, depth - 1) for _ in range(rng.integers(1, 4))]
        if choice < 0.15:
            return spaces.Tuple(parts)
        return spaces.Dict({f"part {number}": part for number, part in enumerate(parts)})
    if choice < 0.5:
        return SPACES[LEAVES[rng.integers(len(LEAVES))]]
    if choice < 0.7:
        dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
        shape = tuple(rng.integers(0 if rng.random() < 0.1 else 1, 4, rng.integers(0, 4)).tolist())
        return spaces.Box(0, 100, shape, dtype.type)
    if choice < 0.85:
        return spaces.Discrete(int(rng.integers(1, 9)), start=int(rng.integers(-9, 9)))
    return spaces.MultiDiscrete(rng.integers(1, 6, rng.integers(1, 4)))


Value = Callable[[np.random.Generator], Any]
VALUES: tuple[Value, ...] = (
    lambda rng: int(rng.integers(-9, 9)),
    lambda rng: float(rng.normal()),
    lambda rng: bool(rng.integers(2)),
    lambda rng: np.float32(rng.normal()),
    lambda rng: np.int8(rng.integers(-9, 9)),
    lambda rng: np.uint64(rng.integers(9)),
    lambda rng: np.float64(np.nan),
    lambda rng: rng.normal(size=3),
    lambda rng: rng.integers(0, 9, (2, 2)),
    lambda rng: rng.integers(0, 2, 3).astype(np.bool_),
    lambda rng: np.zeros((0, 2), np.float32),
    lambda rng: np.array(rng.normal()),
    lambda rng: "abc"[: rng.integers(4)],
    lambda rng: None,
    lambda rng: [1, 2, 3][: rng.integers(4)],
    lambda rng: (1, "x"),
    lambda rng: {1, 2},
    lambda rng: b"bytes",
    lambda rng: 3 + 4j,
    lambda rng: np.str_("text"),
)


def random_info(rng: np.random.Generator, depth: int = 2) -> Callable[[np.random.Generator], dict[str, Any]]:
    """A kind of info: which keys there are, what each holds, and how often it is there."""
    keys: list[tuple[str, float, Any]] = []
    for number in range(rng.integers(0, 5)):
        name = ["key", "_key", "x y", "final", "episode", "r", "at"][rng.integers(7)] + str(number)
        nested = depth > 0 and rng.random() < 0.25
        value = random_info(rng, depth - 1) if nested else VALUES[rng.integers(len(VALUES))]
        keys.append((name, float(rng.choice([0.2, 0.7, 1.0])), value))
    return lambda chance: {name: value(chance) for name, often, value in keys if chance.random() < often}


class RandomEnv(SampleEnv):
    """An env whose spaces and infos are drawn from a seed; all envs of one seed have the same kind of infos.

    Args:
        drawn: the seed.
    """

    def __init__(self, drawn: int) -> None:
        rng = np.random.default_rng(drawn)
        super().__init__(random_space(rng), random_space(rng), int(rng.integers(1, 6)))
        self._info = random_info(rng)
        self.rewards = (float, int, np.float32, np.float64, np.int64)[rng.integers(5)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        shown = {"option": options["level"]} if options and "level" in options else {}
        return obs, {**self._info(self.np_random), **info, **shown}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, self.rewards(reward), terminated, truncated, {**self._info(self.np_random), **info}

    def doubled(self, value: int) -> int:
        """A method for `call`."""
        return 2 * value + self.episodes
