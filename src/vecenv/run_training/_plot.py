"""A plot that compares the modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vecenv.evaluation._plot import new_figure, save_figure
from vecenv.run_training._arguments import Arguments
from vecenv.run_training._results import Run

_COLORS = {"vec": "tab:orange", "packed_vec": "tab:blue", "native": "tab:green"}
_MARKERS = {"vec": "o", "packed_vec": "^", "native": "s"}


def plot(arguments: Arguments, runs: Sequence[Run], path: Path) -> None:
    """Plot samples per second and return against wall time, and return against env steps; a line per mode."""
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, (speed, learning, sample_use) = new_figure((15, 4.5), columns=3)
    for below, run in enumerate(runs):  # modes may learn the same: lines drawn first are wider, so that all are seen
        times = [row.total_seconds for row in run.rows]
        style: Any = {"color": _COLORS[run.mode], "marker": _MARKERS[run.mode], "markersize": 4, "linewidth": 1.6}
        rate = f"{run.mode}: {run.typical('samples_per_second'):,.0f} samples/s"
        speed.plot(times, [row.samples_per_second for row in run.rows], label=rate, **style)
        returns = [math.nan if row.return_mean is None else row.return_mean for row in run.rows]
        learning.plot(times, returns, **style)
        wider = 2.2 * (len(runs) - 1 - below)
        sample_use.plot(
            [row.total_steps for row in run.rows],
            returns,
            **{**style, "linewidth": 1.6 + wider, "markersize": 4 + 2 * wider},
        )
    speed.set(title="Speed", ylabel="samples per second", yscale="log")
    learning.set(title="Return over time", ylabel="mean return of the iteration's episodes")
    sample_use.set(title="Return over env steps", xlabel="env steps", xscale="log")
    for axes in (speed, learning):
        axes.set(xlabel="wall time (s)", xscale="log")
    for axis in (speed.xaxis, speed.yaxis, learning.xaxis, sample_use.xaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axis.set_minor_formatter(NullFormatter())
    figure.suptitle(
        f"PPO on {arguments.env}: {arguments.num_envs:,} environments, {arguments.batch_steps:,} steps per iteration"
    )
    figure.legend(loc="outside lower center", ncols=len(runs), frameon=False)  # below the axes: never over the data
    save_figure(figure, path, dpi=150)
