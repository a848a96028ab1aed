"""Plots: of an evaluation, and what all plots share. The only module here that uses Matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vecenv._util.files import new_file
from vecenv.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from vecenv.evaluation._result import Evaluation

_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568")


def draw(evaluation: Evaluation, path: str | Path) -> None:
    """One line per scenario: dots for episodes, a bar for the interval of the interquartile mean."""
    rows = evaluation.summary
    groups = list(dict.fromkeys(row.group for row in rows))
    figure, axes = new_figure((8, 1.4 + 0.45 * len(rows)), grid="x")
    spread = np.random.default_rng(0)
    for place, row in enumerate(rows):
        mine = np.array(evaluation.scenarios) == row.scenario
        mine &= np.array(evaluation.groups) == row.group
        returns = evaluation.returns[mine]
        colour = _COLOURS[groups.index(row.group) % len(_COLOURS)]
        at = place + spread.uniform(-0.22, 0.22, len(returns))
        axes.plot(returns, at, ".", color=colour, alpha=max(0.05, min(0.5, 40 / len(returns))), markersize=4)
        axes.plot([row.iqm_low, row.iqm_high], [place, place], color=colour, linewidth=6, alpha=0.55)
        axes.plot(row.iqm, place, "o", color="white", markeredgecolor=colour, markeredgewidth=1.6, markersize=6)
    axes.set_yticks(range(len(rows)), [evaluation.label(row) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(f"return (circle: interquartile mean, bar: its {100 * evaluation.confidence:g} % interval)")
    axes.set_title(f"{evaluation.env}: {len(evaluation)} episodes", loc="left")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    save_figure(figure, path, dpi=120)


def need_matplotlib() -> None:
    """Raise MissingExtra before the work rather than after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("pictures need Matplotlib: pip install 'vecenv[plot]' or 'vecenv[cli]'")


def check_picture(path: Path) -> None:
    """Raise ConfigError before the work rather than after it, if Matplotlib cannot write such a file."""
    need_matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase

    kind = path.suffix[1:].lower()
    if kind and kind not in FigureCanvasBase.filetypes:
        raise ConfigError(
            f"{path} cannot be drawn: {path.suffix} is not one of {', '.join(sorted(FigureCanvasBase.filetypes))}"
        )


def new_figure(
    size: tuple[float, float], rows: int = 1, columns: int = 1, grid: Literal["both", "x"] = "both"
) -> tuple[Any, Any]:
    """A figure and its plot or array of plots, in vecenv's style. It opens no window and changes no global state."""
    need_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex="col")
    for each in np.atleast_1d(axes):
        each.grid(axis=grid, alpha=0.25)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save_figure(figure: Any, path: str | Path, dpi: int) -> None:
    """Write a figure, in the format that the suffix names; without a suffix it is .png, which is appended."""
    target = Path(path)
    if not target.suffix:
        target = target.with_name(f"{target.name}.png")
    with new_file(target) as file:
        figure.savefig(file, dpi=dpi, format=target.suffix[1:])
