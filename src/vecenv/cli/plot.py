"""Plot learning curves with 95 % bands.

Runs that differ by nothing but their seeds are one line, with a band over runs.
Other steps, settings or versions of libraries are another line.
The band of a single run is over the episodes of each interval of steps.
Directories with Monitor files of Stable-Baselines3 work too.

Examples:
  vecenv plot runs/CartPole-v1-ppo-1
  vecenv plot runs/CartPole-v1-* --out compare.png
  vecenv plot runs/* --separate --json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from vecenv.cli._options import Flag
from vecenv.cli._screen import Screen, new_table, short
from vecenv.cli._sources import different_runs, read_result, read_run


@dataclass(frozen=True)
class Options:
    """Options of `vecenv plot`."""

    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN ...", help_behavior_hint="")]
    """Directories of runs."""
    out: Path = Path("curves.png")
    """File to write; the suffix chooses the format."""
    separate: Flag = False
    """Draw a line for every run."""
    json: Flag = False
    """Print the points as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Read, plot, and print how each line ends."""
    from vecenv.cli._curves import curve_of, draw_curves, read_episodes
    from vecenv.errors import ConfigError

    if not options.runs:
        raise ConfigError("name at least one run: vecenv plot runs/NAME ...")
    groups: dict[str, list[str]] = {}
    for name in different_runs(options.runs):
        groups.setdefault(name if options.separate else kind_of(name), []).append(name)
    found = {kind: [read_episodes(name) for name in names] for kind, names in groups.items()}
    labels = [episodes[0].label for episodes in found.values()]
    curves = []
    for (kind, episodes), label in zip(found.items(), labels, strict=True):
        names = ", ".join(Path(name).name for name in groups[kind])
        curves.append(curve_of(label if labels.count(label) == 1 else f"{label}: {names}", episodes))
    title = labels[0] if len(set(labels)) == 1 else "learning curves"
    with screen.waiting("drawing"):
        try:
            draw_curves(curves, options.out, title)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{options.out} cannot be written: {error}") from error
    table = new_table()
    for head in ("", "runs", "steps", "last return", "95 %"):
        table.add_column(head, justify="right" if head else "left", no_wrap=bool(head))
    for curve in curves:
        last = next(place for place in reversed(range(len(curve.mean))) if curve.mean[place] == curve.mean[place])
        interval = f"{curve.low[last]:.1f} ... {curve.high[last]:.1f}"
        steps = short((3 * curve.steps[-1] - curve.steps[-2]) / 2)  # points are in the middle of their intervals
        table.add_row(curve.label, str(curve.runs), steps, f"{curve.mean[last]:.1f}", interval)
    data = {"file": options.out, "curves": [asdict(curve) for curve in curves]}
    screen.answer(data, table, f"written to {options.out}")
    return 0


def kind_of(name: str) -> str:
    """What runs that differ only by their seeds have in common."""
    run, config = read_run(Path(name))
    if run is None:
        return name
    same = {key: value for key, value in config.items() if key not in _OF_ONE_RUN}
    return json.dumps([same, _end(read_result(run))], sort_keys=True)


def _end(result: Mapping[str, Any]) -> Any:
    """Where a run was to end, which may be after the steps of config.json; None if it has not ended.

    It is what was asked for: with --until, repetitions of a run end after different numbers of steps.
    """
    asked = None if result.get("stopped") else result.get("asked")
    return result.get("steps") if asked is None else asked


_OF_ONE_RUN = ("seed", "started", "engine_reason")
"""What may differ between runs that are repetitions of each other; every other entry of config.json must be equal."""
