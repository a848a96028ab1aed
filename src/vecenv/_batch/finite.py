"""NaN and infinity in what envs return: the policies, and how they are found in a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from vecenv._batch.batch import Batch, Rows
from vecenv._batch.seeding import NO_SEED
from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, NotFiniteError

Policy = Literal["error", "truncate", "warn", "off"]
POLICIES: tuple[Policy, ...] = ("error", "truncate", "warn", "off")


def all_finite(array: np.ndarray) -> bool:
    """Whether there is neither NaN nor infinity in an array of floats."""
    return 0 not in np.isfinite(array).tobytes()  # several times faster than all()


def unfit_rows(column: Any, infinity: bool = True) -> np.ndarray | None:
    """Which rows of a leaf have NaN, or infinity if it counts: a bool array, or None if no row has.

    `column` is an array, rows along the first axis, or a sequence of values without a fixed size, one for each row.
    Only floats and complex numbers are looked at.
    """
    if not isinstance(column, np.ndarray) or column.dtype.kind == "O":
        unfit = np.array([not _is_finite(value, infinity) for value in column], np.bool_)
        return unfit if unfit.any() else None
    if column.dtype.kind not in "fc" or all_finite(column):
        return None
    unfit = ~np.isfinite(column) if infinity else np.isnan(column)
    return np.asarray(unfit.reshape(len(column), -1).any(axis=1))


@dataclass(frozen=True)
class Policies:
    """What to do about observations and about rewards."""

    obs: Policy = "off"
    reward: Policy = "warn"

    @classmethod
    def parse(cls, given: Any) -> Policies:
        """Read what `make(check_finite=...)` takes."""
        if isinstance(given, cls):
            return given
        if given is None:
            return cls()
        if isinstance(given, str):
            return cls(_policy(given), _policy(given))
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"check_finite must be one of {', '.join(map(repr, POLICIES))}, or a mapping of 'obs' and 'reward' to "
                f"these, got {given!r:.60}"
            )
        for name in given.keys() - {"obs", "reward"}:
            raise ConfigError(f"check_finite has the key {name!r:.40}; there are 'obs' and 'reward'")
        policies: dict[str, Policy] = {name: _policy(policy) for name, policy in given.items()}
        return cls(**policies)


def _policy(name: Any) -> Policy:
    if name not in POLICIES:
        hint = did_you_mean(name, POLICIES)
        raise ConfigError(f"check_finite must be one of {', '.join(map(repr, POLICIES))}, got {name!r:.40}{hint}")
    return cast("Policy", name)


@dataclass(frozen=True, eq=False)
class Finding:
    """Something that is not finite.

    Attributes:
        row: of the env.
        name: "reward", or "actions", "obs" or "final_obs" with the path of the leaf.
        value: what it is.
        policy: what to do about it.
        first: it is in the first observation of an episode.
        when: at which step, if not that of the episode.
    """

    row: int
    name: str
    value: Any
    policy: Policy
    first: bool = False
    when: str = ""


class Finder:
    """Finds NaN and infinity in batched values, and describes them.

    Args:
        last_seed, episode_length: a number per env, read when something is described.
        infinity: whether infinity counts.
    """

    def __init__(self, last_seed: np.ndarray, episode_length: np.ndarray, infinity: bool = True) -> None:
        self._last_seed, self._episode_length, self._infinity = last_seed, episode_length, infinity
        self._known: set[tuple[int, str]] = set()

    def in_column(
        self, name: str, column: Any, rows: Rows, policy: Policy = "error", where: Any = None, first: Any = None
    ) -> list[Finding]:
        """What is not finite in a leaf that has, as in `unfit_rows`, one value for each of `rows`.

        `where` says which values are looked at (None: all), `first` which begin an episode (None: none).
        """
        unfit = unfit_rows(column, self._infinity)
        if unfit is None:
            return []
        if where is not None:
            unfit &= where
        return [
            Finding(int(rows[place]), name, _plain(column[place]), policy, first is not None and bool(first[place]))
            for place in np.flatnonzero(unfit).tolist()
        ]

    def is_new(self, finding: Finding) -> bool:
        """Whether this is the first call about this leaf of this env: warnings come once."""
        known = (finding.row, finding.name) in self._known
        self._known.add((finding.row, finding.name))
        return not known

    def error(self, finding: Finding, **about: Any) -> NotFiniteError:
        """The error for it; `about` has further arguments of NotFiniteError."""
        seed = int(self._last_seed[finding.row])
        return NotFiniteError(
            finding.name,
            row=finding.row,
            value=finding.value,
            seed=None if seed == NO_SEED else seed,
            step=0 if finding.first else int(self._episode_length[finding.row]),
            when=finding.when,
            **about,
        )


class BatchFinder(Finder):
    """Looks at the results in a batch. Integers are never looked at.

    Args:
        batch: with the results.
        policies: what to look at.
        rolls: steps begin the next episode themselves: the autoreset mode is "same-step".
    """

    def __init__(self, batch: Batch, policies: Policies, rolls: bool) -> None:
        super().__init__(batch.last_seed, batch.episode_length)
        self._batch, self._policies, self._rolls = batch, policies, rolls
        self._count = len(batch)
        layout, looks = batch.observation_layout, policies.obs != "off"
        self.floats = [k for k, leaf in enumerate(layout.leaves) if looks and leaf.dtype.kind == "f"]
        self._by_value = list(layout.by_value) if looks else []
        self._paths = [f".{leaf.path}" if leaf.path else "" for leaf in layout.leaves]
        self._looks_at_obs = bool(self.floats or self._by_value)
        self._looks_at_reward = policies.reward != "off"
        self.on = self._looks_at_obs or self._looks_at_reward

    def suspects(self, rows: Rows) -> bool:
        """Whether anything of these rows is not finite: the hot path."""
        batch = self._batch
        where: Any = ... if len(rows) == self._count else rows
        if self._looks_at_reward and not all_finite(batch.reward if len(rows) == self._count else batch.reward[rows]):
            return True
        if not self._looks_at_obs:
            return False
        if not self._are_finite(batch.obs, where):
            return True
        if not self._rolls:
            return False
        ended = rows[batch.terminated[where] | batch.truncated[where]]
        return len(ended) > 0 and not self._are_finite(batch.final_obs, ended)

    def findings(self, rows: Rows) -> list[Finding]:
        """All that is not finite, row by row; what ended an episode comes before what began the next."""
        batch, found = self._batch, []
        ended = batch.terminated[rows] | batch.truncated[rows]
        if self._rolls and ended.any():
            found += self._in_obs("final_obs", batch.final_obs, rows[ended], None)
        if self._looks_at_reward:
            found += self.in_column("reward", batch.reward[rows], rows, self._policies.reward)
        first = ended if self._rolls else np.zeros(len(rows), np.bool_)
        found += self._in_obs("obs", batch.obs, rows, first | (~ended & (batch.episode_length[rows] == 0)))
        return sorted(found, key=lambda finding: finding.row)

    def in_rollout(self, out: Mapping[str, np.ndarray], rolled: np.ndarray) -> Iterator[Finding]:
        """What is not finite in columns [T, N, ...] of a rollout, named as by the compiled engine; once per env."""
        columns: list[tuple[str, str, Policy]] = []
        if self._looks_at_reward:
            columns.append(("reward", "REWARD", self._policies.reward))
        for k in self.floats:
            columns.append((f"final_obs{self._paths[k]}", f"F_{k}", self._policies.obs))
            columns.append((f"obs{self._paths[k]}", f"O_{k}", self._policies.obs))
        for name, slot, policy in columns:
            column = out.get(slot)
            unfit = None if column is None else unfit_rows(column.reshape(-1, *column.shape[2:]))
            if column is None or unfit is None:
                continue
            unfit = unfit.reshape(column.shape[:2])
            if slot.startswith("F_"):  # anything may be where no episode ended
                unfit &= rolled
            for row in np.flatnonzero(unfit.any(axis=0)).tolist():
                step = int(unfit[:, row].argmax())
                yield Finding(row, name, _plain(column[step, row]), policy, when=f"step {step} of the rollout")

    def error_of_row(self, finding: Finding, fix: str, rows: tuple[int, ...] = ()) -> NotFiniteError:
        """The error for it, with the row's last action; `rows` need a reset, by default its own."""
        batch = self._batch
        read = batch.action_layout.reader([column.copy() for column in batch.actions])
        return self.error(
            finding,
            phase="reset" if finding.first else "step",
            action=None if finding.first or finding.when else read(finding.row),
            rows=rows or (finding.row,),
            fix=fix,
        )

    def _are_finite(self, columns: list[np.ndarray], where: Any) -> bool:
        for leaf in self.floats:
            if not all_finite(columns[leaf][where]):
                return False
        return all(_is_finite(value) for leaf in self._by_value for value in columns[leaf][where])

    def _in_obs(self, name: str, columns: list[np.ndarray], rows: Rows, first: np.ndarray | None) -> Iterator[Finding]:
        for leaf in sorted(self.floats + self._by_value):
            column, policy = columns[leaf][rows], self._policies.obs
            yield from self.in_column(name + self._paths[leaf], column, rows, policy, first=first)


def _plain(value: Any) -> Any:
    """A number as Python's, an array as a copy, anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    return np.array(value) if isinstance(value, np.ndarray) else value


def _is_finite(value: Any, infinity: bool = True) -> bool:
    """Whether there is no NaN, nor infinity if it counts, in a value without a fixed size."""
    if isinstance(value, Mapping):
        return all(_is_finite(item, infinity) for item in value.values())
    if isinstance(value, (tuple, list)):
        return all(_is_finite(item, infinity) for item in value)
    if isinstance(value, (float, np.floating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return all_finite(np.asarray(value)) if infinity else not np.isnan(value).any()
    return True
