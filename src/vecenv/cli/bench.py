"""Measure steps per second on this machine.

Measures every engine with several numbers of envs, next to other libraries that
are installed. Actions are random, and resets are included. Contestants take
turns and the best turn of each counts, because the speed of machines varies.

Examples:
  vecenv bench
  vecenv bench Pendulum-v1 --sizes 1 64 1024
  vecenv bench my_module:MyEnv --sizes 8 --only vecenv
  vecenv bench --quick --json
  vecenv bench CartPole-v1 --device cuda --sizes 4096 65536
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.table import Table

from vecenv._util.cpus import usable_cpus
from vecenv._util.files import write_file
from vecenv.cli._contestants import contestants, measure, on_device
from vecenv.cli._curves import COLOURS
from vecenv.cli._options import Count, Flag, Optional, Pairs, Screens, pairs, screens
from vecenv.cli._screen import Screen, new_table, plain, short
from vecenv.cli._sources import find_env
from vecenv.engines.recording.episodes import versions
from vecenv.errors import ConfigError
from vecenv.evaluation._plot import need_matplotlib, new_figure, save_figure

REFERENCE = "gymnasium sync"
TURNS, SECONDS = 3, 0.3
QUICK = (1, 0.05)


@dataclass(frozen=True)
class Options:
    """Options of `vecenv bench`."""

    env: tyro.conf.Positional[str] = "CartPole-v1"
    """An id, module:Class or file.py:Class."""
    sizes: tuple[Count, ...] = (16, 256, 4096)
    """Numbers of envs."""
    only: Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="")] = ()
    """Only contestants whose name contains one of these."""
    device: Annotated[str | None, Optional] = None
    """Measure the device engine ("cuda", "cuda:1" or "cpu") with tensors that stay there, in both precisions."""
    quick: Flag = False
    """Fewer and shorter turns: approximate results."""
    out: Annotated[Path | None, Optional] = None
    """Directory for bench.json and bench.png. Default: runs/bench-ENV."""
    kwargs: Pairs = ()
    """Constructor arguments of the env."""
    preprocessing: Screens = None
    """Atari games: dqn, True (Gymnasium's), or options such as "{'frame_stack': 2}". Default: raw frames."""
    json: Flag = False
    """Print the results as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Measure, print a table, write JSON and a plot."""
    need_matplotlib()
    sizes = sorted(set(options.sizes))
    if not sizes or sizes[0] < 1:
        raise ConfigError(f"--sizes must be at least 1, got {options.sizes}")
    source = find_env(options.env, pairs(options.kwargs, "--kwargs"), screens(options.preprocessing))
    found, missing = contestants(source) if options.device is None else on_device(options.device)
    if options.only:
        names = [one.name for one in found]
        found = [one for one in found if any(word.lower() in one.name.lower() for word in options.only)]
        if not found:
            raise ConfigError(f"--only {' '.join(options.only)} matches no contestant; there are {', '.join(names)}")
        missing = {}
    turns, seconds = QUICK if options.quick else (TURNS, SECONDS)
    rates: dict[str, dict[int, float]] = {one.name: {} for one in found}
    total = sum(count <= one.most for one in found for count in sizes) * (turns + 1)
    with screen.progress(f"bench {source.title}", total, "turns") as bar:
        done = itertools.count(1)
        for count in sizes:
            _race(source, found, count, turns, seconds, rates, missing, lambda note: bar.update(next(done), note))
    data = {
        "env": source.name,
        "machine": _machine(),
        "sizes": sizes,
        "steps_per_second": rates,
        "missing": missing,
        "turns": turns,
        "seconds": seconds,
    }
    directory = options.out or Path("runs") / f"bench-{source.title}"
    directory.mkdir(parents=True, exist_ok=True)
    write_file(directory / "bench.json", json.dumps(plain(data), indent=1) + "\n")
    with screen.waiting("drawing"):
        _draw(rates, directory / "bench.png", source.title)
    absent = [f"left out: {', '.join(f'{name} ({reason})' for name, reason in missing.items())}"] if missing else []
    screen.answer(data, _table(rates, sizes, source.title), *absent, f"written to {directory}: bench.json, bench.png")
    return 0


def _race(
    source: Any,
    found: list[Any],
    count: int,
    turns: int,
    seconds: float,
    rates: dict[str, dict[int, float]],
    missing: dict[str, str],
    tick: Callable[[str], None],
) -> None:
    """Measure all contestants with one number of envs; `tick` is called after each turn."""
    running: dict[str, Any] = {}
    try:
        for one in found:
            if count > one.most:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    running[one.name] = one.build(source, count)
            except Exception as error:  # another library may not support this env: that is a result
                if one.name.startswith("vecenv"):
                    raise
                missing[one.name] = f"{type(error).__name__}: {error!s:.60}"
            tick(f"{count} envs, {one.name}")
        for _ in range(turns):
            for name, (exchange, _, wait) in running.items():
                rates[name][count] = max(rates[name].get(count, 0.0), measure(exchange, seconds, wait) * count)
                tick(f"{count} envs, {name}")
    finally:
        for _, close, _ in running.values():
            close()


def _table(rates: dict[str, dict[int, float]], sizes: list[int], title: str) -> Table:
    table = new_table(f"{title}: steps/s, and times {REFERENCE}")
    table.add_column("", no_wrap=True)
    for count in sizes:
        table.add_column(f"{count:,} envs", justify="right", no_wrap=True)
        table.add_column("x", justify="right", no_wrap=True, style="dim")
    for name, by_size in rates.items():
        cells = []
        for count in sizes:
            rate, usual = by_size.get(count), rates.get(REFERENCE, {}).get(count)
            cells += ["-" if rate is None else short(rate), _times(rate / usual) if rate and usual else ""]
        table.add_row(name, *cells, style="bold" if name.startswith("vecenv") else None)
    return table


def _times(ratio: float) -> str:
    return f"{ratio:,.{0 if ratio >= 100 else 1}f}"


def _draw(rates: dict[str, dict[int, float]], path: Path, title: str) -> None:
    figure, axes = new_figure((7.5, 4.2))
    drawn = {name: by_size for name, by_size in rates.items() if by_size}
    for number, (name, by_size) in enumerate(drawn.items()):
        ours = name.startswith("vecenv")
        style = {"color": COLOURS[number % len(COLOURS)], "linestyle": "-" if ours else "--", "marker": "o"}
        sizes = np.array(sorted(by_size))
        axes.plot(sizes, [by_size[count] for count in sizes], label=name, linewidth=1.6, markersize=4, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({count for by_size in drawn.values() for count in by_size})
    axes.set_xticks(ticks, [f"{count:,}" for count in ticks])
    axes.set_xlabel("envs")
    axes.set_ylabel("steps per second")
    axes.yaxis.set_major_formatter(lambda value, _: short(value))
    axes.set_title(f"{title}, random actions", loc="left")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    save_figure(figure, path, dpi=130)


def _machine() -> dict[str, Any]:
    return {
        "cpus": usable_cpus(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        **versions(),
    }


def _processor() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
