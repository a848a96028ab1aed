"""What is to be run: every episode, with a seed and a parameter set that depend on nothing but what it is."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv._batch.seeding import spawn
from vecenv._util.checks import positive_int
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.scenarios._noise import Noise
from vecenv.scenarios._sets import Scenarios, Values, as_scenarios, listed, sets_of


@dataclass(frozen=True)
class Part:
    """One row of the table before it is split by seeds.

    Attributes:
        group: what the user called the scenarios it is of, "" if nothing.
        name: of the parameter set or distribution.
    """

    group: str
    name: str
    scenarios: Scenarios

    @property
    def key(self) -> int:
        """A number for its name: seeds do not change when other scenarios are added."""
        return zlib.crc32(f"{self.group}\0{self.name}".encode())


@dataclass(frozen=True, eq=False)
class Jobs:
    """All episodes, ordered by scenario, seed and number. Position k of everything is episode k.

    Attributes:
        part: index of its scenario in `parts`.
        seed: the user's.
        episode: its number, 0 ... episodes - 1.
        episode_seed: what its env is reset with.
        sets: its parameter set.
    """

    parts: tuple[Part, ...]
    part: np.ndarray
    seed: np.ndarray
    episode: np.ndarray
    episode_seed: np.ndarray
    sets: list[Values]

    def __len__(self) -> int:
        return len(self.part)


def plan_jobs(episodes: Any, seeds: Any, scenarios: Any) -> Jobs:
    """Check what was asked for and list the episodes."""
    count, listed_seeds, parts = positive_int("episodes", episodes), _parse_seeds(seeds), _parse(scenarios)
    rows = [
        (index, seed, episode, spawn(seed, part.key, episode))
        for index, part in enumerate(parts)
        for seed in listed_seeds
        for episode in range(count)
    ]
    part, seed, episode, episode_seed = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    sets: list[Values] = []
    for index, one in enumerate(parts):
        own = episode_seed[part == index]
        sets += sets_of(one.scenarios.draw(Noise(own, np.zeros_like(own))), len(own))
    return Jobs(tuple(parts), part, seed, episode, episode_seed, sets)


def _parse_seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, (Sequence, np.ndarray, range)) and not isinstance(seeds, str):
        numbers = list(seeds)
        if not numbers:
            raise ConfigError("there are no seeds; pass how many (seeds=3) or which (seeds=[0, 1, 2])")
        if not all(
            isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0 for seed in numbers
        ):
            raise ConfigTypeError(f"seeds must be ints >= 0, got {numbers!r:.80}")
        if len(set(numbers)) != len(numbers):
            raise ConfigError(f"a seed is there twice and would count twice: {numbers!r:.80}")
        return [int(seed) for seed in numbers]
    return list(range(positive_int("seeds", seeds)))


def _parse(scenarios: Any) -> list[Part]:
    if scenarios is None:
        scenarios = listed([{}])
    if not isinstance(scenarios, Mapping):
        return [Part("", name, part) for name, part in as_scenarios(scenarios).parts()]
    if not scenarios:
        raise ConfigError("scenarios is an empty dict; leave it out for the env as it is")
    plain = [name for name, value in scenarios.items() if not isinstance(value, (Scenarios, Mapping, list, tuple))]
    if plain:
        raise ConfigTypeError(
            f"scenarios is a dict of names and scenarios, but {plain[0]!r} is {scenarios[plain[0]]!r:.40}; "
            "for one parameter set write scenarios=[{...}]"
        )
    return [
        Part(str(group), name, part)
        for group, given in scenarios.items()
        for name, part in as_scenarios(given, f"scenarios[{group!r}]").parts()
    ]
