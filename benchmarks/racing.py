"""What the benchmarks share: contestants take turns, the best turn of each counts, and a table is printed.

Machines are noisy, so everything that is compared is measured in one run, interleaved. Ratios are what matters.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

TURNS, SECONDS = 10, 0.4


@dataclass(frozen=True)
class Contestant:
    """`build` returns a function that makes one exchange with all envs, and one that closes them."""

    name: str
    build: Callable[[], tuple[Callable[[int], Any], Callable[[], None]]]


def race(
    contestants: list[Contestant],
    count: int,
    turns: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    together: int = 1,
) -> dict[str, float]:
    """Steps per second of each, best of `turns` interleaved turns.

    Contestants that run in one thread can be measured by `time.process_time`, which other programs disturb less. It is
    slow itself: then `together` exchanges are made before it is read again.
    """
    running = {contestant.name: contestant.build() for contestant in contestants}
    best = dict.fromkeys(running, 0.0)
    for _ in range(turns):
        for name, (exchange, _) in running.items():
            exchange(0)
            started, exchanges = clock(), 0
            while (spent := clock() - started) < seconds:
                for turn in range(exchanges, exchanges + together):
                    exchange(turn)
                exchanges += together
            best[name] = max(best[name], exchanges * count / spent)
    for _, close in running.values():
        close()
    return best


@dataclass(frozen=True)
class Question:
    """A table: its title, the contestant that the others are compared with (None: plain figures), and how to fill it.

    `run` gets the number of turns and the seconds of each.
    """

    title: str
    reference: str | None
    run: Callable[[int, float], dict[str, float]]


def report(console: Console, title: str, results: dict[str, float], reference: str | None) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    table.add_column("steps/s" if reference else "", justify="right")
    if reference:
        table.add_column(f"x {reference}", justify="right")
    for name, value in results.items():
        row = [name, f"{value:,.0f}" if reference else f"{value:.2f}"]
        table.add_row(*row, *([f"{value / results[reference]:.2f}"] if reference else []))
    console.print(table)


def answer(description: str | None, questions: dict[str, Question], results: Path) -> None:
    """The command line of a benchmark: run the questions, print tables, write the figures to a file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter turns")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", choices=questions, help=f"some of: {', '.join(questions)}"
    )
    options = parser.parse_args()
    turns, seconds = (3, 0.2) if options.quick else (TURNS, SECONDS)
    console, found = Console(), {}
    for name, question in questions.items():
        if options.only and name not in options.only:
            continue
        found[name] = question.run(turns, seconds)
        report(console, question.title, found[name], question.reference)
    about = {"python": platform.python_version(), "cpus": os.cpu_count(), "gymnasium": gymnasium.__version__}
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps({"machine": about, "results": found}, indent=2) + "\n")
    console.print(f"written to {results.relative_to(Path.cwd()) if results.is_relative_to(Path.cwd()) else results}")
