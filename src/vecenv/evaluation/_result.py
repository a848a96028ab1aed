"""The result of an evaluation: a table of statistics, and every episode."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.extras import load_extra
from vecenv._util.files import write_file, write_table
from vecenv.errors import ConfigError
from vecenv.evaluation._jobs import Jobs
from vecenv.evaluation._loop import Outcomes
from vecenv.evaluation._statistics import bootstrap, difference, interquartile_mean, mean
from vecenv.wrappers._results_file import inert


@dataclass(frozen=True)
class Row:
    """Statistics of the returns of some episodes.

    Attributes:
        group: the user's name of the group of scenarios, "" without one.
        scenario: name of the parameter set or distribution.
        seed: None for all seeds together.
        episodes: number of episodes.
        mean, std, median, iqm: statistics of the returns; iqm is the mean of the middle half.
        mean_low, mean_high, iqm_low, iqm_high: bootstrap confidence intervals.
        length: mean length.
        shortest, longest: smallest and largest length.
        terminated: share of episodes that terminated rather than being truncated.
    """

    group: str
    scenario: str
    seed: int | None
    episodes: int
    mean: float
    mean_low: float
    mean_high: float
    std: float
    median: float
    iqm: float
    iqm_low: float
    iqm_high: float
    length: float
    shortest: int
    longest: int
    terminated: float


@dataclass(frozen=True)
class Gap:
    """How much lower returns are in scenarios that the policy was not trained in.

    Attributes:
        train, test: mean returns.
        difference: train - test.
        low, high: bootstrap confidence interval of the difference.
    """

    train: float
    test: float
    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        train, test, difference, low, high = map(_number, (self.train, self.test, self.difference, self.low, self.high))
        return f"{difference} ({low} ... {high}): train {train}, test {test}"


class Evaluation:
    """Returns and lengths of all episodes, and their statistics.

    Attributes:
        env: name of the env.
        returns, lengths, terminated: one entry per episode.
        scenarios, groups: names of each episode's scenario and of its group.
        seeds, episode_seeds: the user's seed of each episode, and the seed of its env's reset.
        parameters: each episode's parameter set.
        confidence: confidence level of the intervals.
        cut: number of episodes that a time limit of the evaluation ended: the caller's, or that of envs without one.

    Statistics include only finite returns; `not_finite` counts the others.
    """

    def __init__(
        self, env: str, jobs: Jobs, outcomes: Outcomes, confidence: float, resamples: int, limit: int | None = None
    ) -> None:
        self.env, self.confidence, self._resamples = env, confidence, resamples
        self._parts = [(part.group, part.name) for part in jobs.parts]
        self._part = jobs.part
        self.groups, self.scenarios = ([self._parts[part][which] for part in jobs.part] for which in (0, 1))
        self.seeds, self.episode_seeds, self.parameters = jobs.seed, jobs.episode_seed, jobs.sets
        self.returns, self.lengths, self.terminated = outcomes.returns, outcomes.lengths, outcomes.terminated
        self._limit = limit
        self.cut = 0 if limit is None else int(np.count_nonzero(~self.terminated & (self.lengths >= limit)))
        self.table = self._rows()

    def __len__(self) -> int:
        return len(self.returns)

    @property
    def summary(self) -> list[Row]:
        """The rows of the table that combine all seeds: one per scenario."""
        return [row for row in self.table if row.seed is None]

    @property
    def mean(self) -> float:
        """Mean return of all episodes with a finite return."""
        return float(mean(_finite(self.returns)))

    @property
    def not_finite(self) -> int:
        """Number of episodes whose return is NaN or infinite."""
        return int(np.count_nonzero(~np.isfinite(self.returns)))

    def gap(self, train: str = "train", test: str = "test") -> Gap:
        """The generalisation gap between two groups of scenarios, `scenarios={"train": ..., "test": ...}`."""
        first, second = (_finite(self.returns[self._of_group(group)]) for group in (train, test))
        low, high = bootstrap((first, second), difference, confidence=self.confidence, resamples=self._resamples)
        return Gap(float(mean(first)), float(mean(second)), float(difference(first, second)), low, high)

    def to_csv(self, path: str | Path) -> None:
        """Write the table; an empty seed means all seeds."""
        _write_csv(path, [field.name for field in fields(Row)], (asdict(row).values() for row in self.table))

    def episodes_to_csv(self, path: str | Path) -> None:
        """Write one line per episode; parameters that are not in an episode's set are empty."""
        names = list(dict.fromkeys(name for values in self.parameters for name in values))
        rows = (
            [*episode.values(), *(values.get(name) for name in names)]
            for episode, values in zip(self._episodes(), self.parameters, strict=True)
        )
        _write_csv(path, [*next(iter(self._episodes())), *names], rows)

    def to_json(self, path: str | Path | None = None) -> str:
        """The whole result as JSON text, also written to `path` if given. NaN and infinity become null."""
        content = {
            "env": self.env,
            "confidence": self.confidence,
            "cut": self.cut,
            "table": [asdict(row) for row in self.table],
            "gap": asdict(self.gap()) if self._has_gap else None,
            "episodes": [
                {**episode, "parameters": values}
                for episode, values in zip(self._episodes(), self.parameters, strict=True)
            ],
        }
        text = json.dumps(_plain(content), indent=1, allow_nan=False)
        if path is not None:
            write_file(path, text + "\n")
        return text

    def plot(self, path: str | Path) -> None:
        """Plot each scenario's interquartile mean with its interval, over the returns of all episodes."""
        from vecenv.evaluation._plot import draw

        draw(self, path)

    def __str__(self) -> str:
        lines = [self._heads(), *(self._cells(row) for row in self.table)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]) for first, *others in lines]
        texts.insert(1, "-" * len(texts[0]))
        gap = self._gap_line()
        return "\n".join([self._title(), *(text.rstrip() for text in texts), *([gap] if gap else [])])

    def __rich_console__(self, console: Any, options: Any) -> Any:
        """The table for a terminal; where that is too narrow for it, a block of lines for each row."""
        load_extra("rich", "tables in colour need rich: pip install 'vecenv[cli]'")
        from rich import box
        from rich.measure import Measurement
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title=self._title(), caption=self._gap_line())
        for at, head in enumerate(self._heads()):
            table.add_column(head, justify="left" if at == 0 else "right", no_wrap=at > 0, min_width=len(head))
        for row in self.table:
            table.add_row(*self._cells(row), style="bold" if row.seed is None else None)
        if Measurement.get(console, options.update(max_width=10_000), table).maximum <= options.max_width:
            yield table
            return
        yield self._title()
        for row in self.table:
            block = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
            block.add_column(no_wrap=True)
            block.add_column(overflow="fold")
            for head, cell in zip(self._heads(), self._cells(row), strict=True):
                block.add_row(head, cell)
            yield ""
            yield block
        if self._has_gap:
            yield ""
            yield self._gap_line()

    def _title(self) -> str:
        left_out = f" ({self.not_finite} with a return that is not finite, left out of all statistics)"
        cut = f"; {self.cut} of them did not end and were cut after {self._limit} steps"
        episodes = f"{len(self)} episode{'s' * (len(self) != 1)}"
        return f"{self.env}, {episodes}{left_out if self.not_finite else ''}{cut if self.cut else ''}"

    def _gap_line(self) -> str | None:
        return f"generalisation gap: {self.gap()}" if self._has_gap else None

    def _heads(self) -> tuple[str, ...]:
        percent = f"{100 * self.confidence:g} %"
        return "scenario", "seed", "n", "mean", f"mean {percent}", "median", "IQM", f"IQM {percent}", "length"

    def _cells(self, row: Row) -> tuple[str, ...]:
        return (
            self.label(row),
            "all" if row.seed is None else str(row.seed),
            str(row.episodes),
            _number(row.mean),
            _interval(row.episodes, row.mean_low, row.mean_high),
            _number(row.median),
            _number(row.iqm),
            _interval(row.episodes, row.iqm_low, row.iqm_high),
            f"{row.length:.1f}",
        )

    @staticmethod
    def label(row: Row) -> str:
        """Group and scenario of a row as one name."""
        return f"{row.group}: {row.scenario}" if row.group and row.group != row.scenario else row.scenario

    @property
    def _has_gap(self) -> bool:
        return {"train", "test"} <= set(self.groups)

    def _of_group(self, group: str) -> np.ndarray:
        known = dict.fromkeys(self.groups)
        if group not in known:
            named = ", ".join(repr(name) for name in known if name) or "none"
            raise ConfigError(
                f"there is no group of scenarios {group!r} (groups: {named}); name them: "
                "evaluate(..., scenarios={'train': ..., 'test': ...})"
            )
        return np.array(self.groups) == group

    def _rows(self) -> list[Row]:
        rows = []
        for index, (group, name) in enumerate(self._parts):
            mine = self._part == index
            seeds = list(dict.fromkeys(self.seeds[mine].tolist()))
            rows += [self._row(group, name, seed, mine & (self.seeds == seed)) for seed in seeds if len(seeds) > 1]
            rows.append(self._row(group, name, None, mine))
        return rows

    def _row(self, group: str, scenario: str, seed: int | None, which: np.ndarray) -> Row:
        returns, lengths = _finite(self.returns[which]), self.lengths[which]
        sure = {"confidence": self.confidence, "resamples": self._resamples}
        return Row(
            group,
            scenario,
            seed,
            int(np.count_nonzero(which)),
            float(mean(returns)),
            *bootstrap((returns,), mean, **sure),
            float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
            float(np.median(returns)),
            float(interquartile_mean(returns)),
            *bootstrap((returns,), interquartile_mean, **sure),
            float(lengths.mean()),
            int(lengths.min()),
            int(lengths.max()),
            float(self.terminated[which].mean()),
        )

    def _episodes(self) -> list[dict[str, Any]]:
        columns = {
            "group": self.groups,
            "scenario": self.scenarios,
            "seed": self.seeds.tolist(),
            "episode_seed": self.episode_seeds.tolist(),
            "return": self.returns.tolist(),
            "length": self.lengths.tolist(),
            "terminated": self.terminated.tolist(),
        }
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _write_csv(path: str | Path, heads: Sequence[str], rows: Any) -> None:
    write_table(path, (map(inert, row) for row in (heads, *rows)))


def _finite(returns: np.ndarray) -> np.ndarray:
    """The finite returns; a single NaN if there are none, so that all statistics are NaN."""
    finite = returns[np.isfinite(returns)]
    return finite if len(finite) else np.full(1, np.nan)


def _number(value: float) -> str:
    """The number with about five digits, at most two of them after the point."""
    return f"{value:.{0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2}f}"


def _interval(episodes: int, low: float, high: float) -> str:
    """The interval; a single episode has none."""
    return f"{_number(low)} ... {_number(high)}" if episodes > 1 else "-"


def _plain(value: Any) -> Any:
    """The value as JSON can store it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else repr(value)
