"""A pool of policies to play against: past ones of a learner, and others."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv._util.files import Archive, new_file, parsed, write_archive
from vecenv.errors import ConfigError, ConfigTypeError, UnsafeFile

_VERSION = 1


@dataclass
class Record:
    """How episodes against one policy ended, seen by the learner."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        """How many there were."""
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """Of the learner; a draw is half a win, and a policy that was never met counts as one draw."""
        return (self.wins + 0.5 * self.draws) / self.games if self.games else 0.5


def takes_mask(policy: Callable[..., Any]) -> bool:
    """Whether a policy has a parameter `mask`, for the actions that are allowed."""
    try:
        return "mask" in inspect.signature(policy).parameters
    except (TypeError, ValueError):
        return False


class League:
    """Policies by name, each a function of a batch of observations that returns a batch of actions.

    `sample` prefers those that the learner does not beat yet: the weight of a policy is `(1 - win_rate) ** power`, and
    at least `floor`, so that none is forgotten.

    Args:
        policies: to begin with.
        power: how much harder ones are preferred; 0 samples all alike.
        floor: the least weight.
        limit: how many to keep; when there are more, the one that the learner beats most often is dropped.
        seed: of the sampling.
    """

    def __init__(
        self,
        policies: Mapping[str, Callable[[Any], Any]] | None = None,
        *,
        power: float = 1.0,
        floor: float = 0.05,
        limit: int | None = None,
        seed: int | None = None,
    ) -> None:
        if power < 0 or floor <= 0:
            raise ConfigError(f"power must be >= 0 and floor > 0, got {power} and {floor}")
        if limit is not None and limit < 1:
            raise ConfigError(f"limit must be at least 1, got {limit}")
        self.power, self.floor, self.limit = power, floor, limit
        self.records: dict[str, Record] = {}
        self._policies: dict[str, Callable[[Any], Any]] = {}
        self._masked: dict[str, bool] = {}
        self._rng = np.random.default_rng(seed)
        for name, policy in (policies or {}).items():
            self.add(name, policy)

    def add(self, name: str, policy: Callable[[Any], Any]) -> None:
        """Add a policy. It must not change later: pass a copy of one that is trained further.

        Raises:
            ConfigError: there is one of this name.
        """
        if not isinstance(name, str) or not name:
            raise ConfigTypeError(f"a policy needs a name, got {name!r:.40}")
        if not callable(policy):
            raise ConfigTypeError(f"policy {name!r} must be a function of observations, got {policy!r:.60}")
        if name in self._policies:
            raise ConfigError(f"the league has a policy {name!r} already; give this one another name")
        self._policies[name], self._masked[name], self.records[name] = policy, takes_mask(policy), Record()
        if self.limit is not None and len(self) > self.limit:
            others = [each for each in self._policies if each != name]
            weakest = max(others, key=lambda each: self.records[each].win_rate) if others else name
            del self._policies[weakest], self._masked[weakest], self.records[weakest]

    def sample(self, count: int) -> list[str]:
        """Names of opponents, each drawn by its win rate.

        Raises:
            ConfigError: there is no policy.
        """
        if not self._policies:
            raise ConfigError("the league is empty; add a policy first")
        names = list(self._policies)
        weights = np.array([max(self.floor, (1.0 - self.records[name].win_rate) ** self.power) for name in names])
        return [names[index] for index in self._rng.choice(len(names), count, p=weights / weights.sum())]

    def report(self, name: str, outcome: float) -> None:
        """Count an episode of the learner against a policy: 1 for a win of the learner, 0 for a draw, -1 for a loss."""
        record = self.records.get(name)
        if record is None:
            return  # it was dropped while it played
        if outcome > 0:
            record.wins += 1
        elif outcome < 0:
            record.losses += 1
        else:
            record.draws += 1

    def takes_mask(self, name: str) -> bool:
        """Whether a policy has a parameter `mask`, for the actions that are allowed."""
        return self._masked[name]

    def __getitem__(self, name: str) -> Callable[[Any], Any]:
        return self._policies[name]

    def __contains__(self, name: object) -> bool:
        return name in self._policies

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file of data: records, and the arrays of every policy's `state_dict()`. No code is in it.

        A `functools.partial` stands for the policy inside it.

        Raises:
            ConfigTypeError: a policy has no `state_dict`, as policies of trainers and PyTorch's modules have it.
        """
        arrays: dict[str, np.ndarray] = {}
        policies = []
        for number, (name, policy) in enumerate(self._policies.items()):
            while isinstance(policy, functools.partial):
                policy = policy.func
            if not callable(getattr(policy, "state_dict", None)):
                raise ConfigTypeError(
                    f"policy {name!r} has no state_dict(), so its numbers cannot be saved; use a trainer's policy or a "
                    "torch module, or give the policy a state_dict() that returns arrays by name"
                )
            state: Mapping[str, Any] = policy.state_dict()  # type: ignore[attr-defined]  # checked above
            keys = []
            for place, (key, value) in enumerate(state.items()):
                arrays[f"{number}.{place}"] = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
                keys.append(key)
            record = self.records[name]
            policies.append({"name": name, "keys": keys, "record": [record.wins, record.draws, record.losses]})
        header = {"version": _VERSION, "power": self.power, "floor": self.floor, "limit": self.limit}
        with new_file(path) as file:
            write_archive(file, {**header, "policies": policies}, arrays)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        build: Callable[[str, dict[str, np.ndarray]], Callable[[Any], Any]],
        *,
        seed: int | None = None,
    ) -> League:
        """Read what `save` wrote.

        Args:
            path: of the file.
            build: a function of a policy's name and arrays by name that makes the policy.
            seed: of the sampling.

        Raises:
            UnsafeFile: the file is damaged, or no file of a league.
        """
        name = os.fspath(path)
        try:
            with Archive(name) as archive:
                header = parsed(archive.read("header.json"))
                league = cls(power=header["power"], floor=header["floor"], seed=seed)
                for number, each in enumerate(header["policies"]):
                    arrays = {key: archive.array(f"{number}.{place}.npy") for place, key in enumerate(each["keys"])}
                    league.add(each["name"], build(each["name"], arrays))
                    league.records[each["name"]] = Record(*map(int, each["record"]))
                league.limit = header["limit"]
        except (KeyError, TypeError) as error:
            raise UnsafeFile(f"{name!r} is no file of a league: {type(error).__name__}: {error}") from None
        return league
