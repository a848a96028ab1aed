"""Learning curves: from the episodes of runs to lines with confidence bands, and their plot."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.files import open_text
from vecenv.cli._sources import read_run
from vecenv.errors import ConfigError
from vecenv.evaluation import bootstrap
from vecenv.evaluation._plot import need_matplotlib, new_figure, save_figure
from vecenv.evaluation._statistics import mean as mean_of
from vecenv.wrappers._results_file import SUFFIX

POINTS, PER_POINT, RESAMPLES = 60, 10, 500
"""Most points of a curve; fewest episodes per point, on average; bootstrap samples at each point."""
COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568", "#0987a0", "#975a16", "#e53e3e",
           "#718096", "#38a169", "#d69e2e")  # fmt: skip


@dataclass(frozen=True)
class RunEpisodes:
    """Episodes of a run in order of time."""

    label: str
    """Env and algorithm."""
    steps: np.ndarray
    """Steps of all envs at the end of each episode."""
    returns: np.ndarray


@dataclass(frozen=True)
class Curve:
    """A line: mean return by steps, and an interval at each point; NaN where no episode ended."""

    label: str
    runs: int
    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read_episodes(run: str | Path) -> RunEpisodes:
    """The episodes of a run's directory, vecenv's or one with Monitor files of Stable-Baselines3."""
    directory = Path(run)
    if not directory.is_dir():
        raise ConfigError(f"there is no run {str(run)!r}; name directories such as runs/CartPole-v1-ppo-1")
    files = sorted(directory.glob(f"*{SUFFIX}"))
    if not files:
        raise ConfigError(f"{run} has no episodes: no file *{SUFFIX}")
    rows = np.concatenate([_read_monitor(file) for file in files])
    rows = rows[np.argsort(rows[:, 2], kind="stable")]
    _, config = read_run(directory)
    label = f"{config['env']} {config['algo']}" if config else directory.name
    return RunEpisodes(label, np.cumsum(rows[:, 1]), rows[:, 0])


def _read_monitor(file: Path) -> np.ndarray:
    """Return, length and time of each episode."""
    try:
        with open_text(file, newline="") as lines:
            next(lines)
            rows = [(float(row["r"]), float(row["l"]), float(row["t"])) for row in csv.DictReader(lines)]
    except (StopIteration, KeyError, ValueError, TypeError, csv.Error) as error:
        raise ConfigError(f"{file} is not in Monitor's format: {error!r:.200}") from error
    found = np.array(rows).reshape(-1, 3)
    if not np.isfinite(found[:, 1:]).all() or (found[:, 1] < 0).any():
        raise ConfigError(f"{file} is damaged: it has lengths or times that are negative, infinite or NaN")
    return found


def curve_of(label: str, runs: Sequence[RunEpisodes]) -> Curve:
    """The line of one run, or of several that differ by their seeds.

    The band is a 95 % bootstrap interval of the mean: over runs if there are several, else over the episodes of each
    interval of steps.
    """
    runs = [
        RunEpisodes(run.label, run.steps[fit], run.returns[fit])
        for run in runs
        if (fit := np.isfinite(run.returns)).any()
    ]
    if not runs:
        raise ConfigError(f"no episode of {label} has ended yet: there is nothing to plot")
    end = min(run.steps[-1] for run in runs)
    points = min(POINTS, max(2, min(len(run.steps) for run in runs) // PER_POINT))
    edges = np.linspace(0, end, points + 1)
    stretches = [np.searchsorted(run.steps, edges, side="right") for run in runs]
    parts = [
        [run.returns[cuts[place] : cuts[place + 1]] for place in range(points)]
        for run, cuts in zip(runs, stretches, strict=True)
    ]
    if len(runs) == 1:
        samples = parts[0]
    else:
        means = np.array([_filled([part.mean() if len(part) else np.nan for part in run]) for run in parts])
        samples = list(means.T)
    mean, low, high = np.full((3, points), np.nan)
    for place, sample in enumerate(samples):
        if len(sample):
            mean[place] = np.mean(sample)
            low[place], high[place] = bootstrap((sample,), mean_of, resamples=RESAMPLES)
    return Curve(label, len(runs), (edges[:-1] + edges[1:]) / 2, mean, low, high)


def _filled(values: Any) -> np.ndarray:
    """Fill gaps, where no episode ended, by linear interpolation."""
    values, places = np.asarray(values), np.arange(len(values))
    known = ~np.isnan(values)
    return np.interp(places, places[known], values[known])


def draw_curves(curves: Sequence[Curve], path: str | Path, title: str) -> None:
    """Write the plot."""
    save_figure(curves_figure(curves, title), path, dpi=130)


def curves_figure(curves: Sequence[Curve], title: str) -> Any:
    """The plot, as matplotlib's figure."""
    need_matplotlib()
    from matplotlib.ticker import EngFormatter

    figure, axes = new_figure((7.0, 4.2))
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        known = ~np.isnan(curve.mean)
        axes.fill_between(curve.steps[known], curve.low[known], curve.high[known], color=colour, alpha=0.2, linewidth=0)
        label = f"{curve.label} ({curve.runs} runs)" if curve.runs > 1 else curve.label
        axes.plot(curve.steps[known], curve.mean[known], color=colour, linewidth=1.8, label=label)
    axes.set_xlabel("steps")
    axes.set_ylabel("return (mean, 95 % interval)")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 50k, 1.5M
    axes.set_title(title, loc="left")
    if len(curves) > 1:
        axes.legend(frameon=False)
    return figure
