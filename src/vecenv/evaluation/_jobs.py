"""The episodes of an evaluation, each with a seed and a parameter set that depend only on its scenario and number."""

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
    """One scenario of a `group` ("" without one): a row of the table before it is split by seeds."""

    group: str
    name: str
    scenarios: Scenarios

    @property
    def key(self) -> int:
        """A number made from the name, so that seeds do not change when other scenarios are added."""
        return zlib.crc32(f"{self.group}\0{self.name}".encode())


@dataclass(frozen=True, eq=False)
class Jobs:
    """All episodes, ordered by scenario, seed and number. Position k of every list is episode k.

    Attributes:
        part: index of the scenario in `parts`.
        seed: the user's seed.
        episode: number of the episode, 0 ... episodes - 1.
        episode_seed: the seed of the env's reset.
        sets: parameter set of the episode.
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
    """Check the arguments and list the episodes."""
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
            raise ConfigError("seeds is empty; pass a number (seeds=3) or a list (seeds=[0, 1, 2])")
        if not all(
            isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0 for seed in numbers
        ):
            raise ConfigTypeError(f"seeds must be ints >= 0, got {numbers!r:.80}")
        if len(set(numbers)) != len(numbers):
            raise ConfigError(f"a seed occurs twice, so its episodes would count twice: {numbers!r:.80}")
        return [int(seed) for seed in numbers]
    return list(range(positive_int("seeds", seeds)))


def _parse(scenarios: Any) -> list[Part]:
    if scenarios is None:
        scenarios = listed([{}])
    if not isinstance(scenarios, Mapping):
        return [Part("", name, part) for name, part in as_scenarios(scenarios).parts()]
    if not scenarios:
        raise ConfigError("scenarios is an empty dict; leave it out for the unchanged env")
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
