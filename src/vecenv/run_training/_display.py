"""The display while training runs: a live table on a terminal, a line per iteration elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from vecenv.run_training._arguments import Arguments
from vecenv.run_training._results import SPLIT, Row, Run

_STOPPING = "stopping after this iteration; Ctrl-C again stops at once"
_SHOW_CURSOR = b"\x1b[?25h\n"
_PLAIN_WIDTH = 110
_HEADINGS = ("sampling", "connectors", "SGD")
"""The names of SPLIT."""


def display(arguments: Arguments) -> Lines | LiveTable:
    """The display for standard output: a terminal or not."""
    console = Console()
    if console.is_terminal:
        return LiveTable(arguments, console)
    return Lines(arguments, Console(width=_PLAIN_WIDTH))


class Lines:
    """A plain line per iteration."""

    def __init__(self, arguments: Arguments, console: Console) -> None:
        self._arguments, self._console = arguments, console

    def __enter__(self) -> Lines:
        self.print(_title(self._arguments))
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def begin(self, run: Run) -> None:
        """Called when a mode starts."""

    def update(self, run: Run) -> None:
        """Called when a row was added."""
        row = run.rows[-1]
        shares = ", ".join(f"{name} {part}" for name, part in zip(_HEADINGS, _parts(row), strict=True))
        self.print(
            f"{run.mode} {row.iteration}/{self._arguments.iterations}: return {_number(row.return_mean)}, "
            f"{row.samples_per_second:,.0f} samples/s, {row.seconds:.2f} s ({shares})"
        )

    def print(self, what: Any) -> None:
        """Print now; text is not wrapped."""
        if isinstance(what, str):
            print(what, file=self._console.file, flush=True)
        else:
            self._console.print(what)

    def stopping(self) -> None:
        """Called by a signal handler after Ctrl-C, so nothing here is buffered."""
        os.write(2, f"{_STOPPING}\n".encode())

    def abandon(self) -> None:
        """Called by a signal handler before the process ends at once."""


class LiveTable:
    """A table that changes in place."""

    def __init__(self, arguments: Arguments, console: Console) -> None:
        self._arguments, self._console = arguments, console
        self._runs: list[Run] = []
        self._caption = ""
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=4)

    def __enter__(self) -> LiveTable:
        self._live.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._caption = ""
        self._live.__exit__(*exception)

    def begin(self, run: Run) -> None:
        self._runs.append(run)
        self._live.refresh()

    def update(self, run: Run) -> None:
        self._live.refresh()

    def print(self, what: Any) -> None:
        """Print above the table, or after it when it has ended."""
        self._console.print(what, soft_wrap=isinstance(what, str), markup=False, highlight=False)

    def stopping(self) -> None:
        """Called after Ctrl-C; the next refresh shows it."""
        self._caption = _STOPPING

    def abandon(self) -> None:
        """Called before the process ends at once: show the cursor again."""
        os.write(1, _SHOW_CURSOR)

    def _table(self) -> Table:
        table = _new_table(_title(self._arguments), ("iter", "", "return", "samples/s", *_HEADINGS))
        table.caption = self._caption or None
        for run in self._runs:
            done, total = len(run.rows), self._arguments.iterations
            bar = ProgressBar(total=total, completed=done, width=6)
            row = run.rows[-1] if run.rows else None
            cells = ["-", *[""] * 4]
            if row is not None:
                cells = [_number(row.return_mean), f"{row.samples_per_second:,.0f}", *_parts(row)]
            table.add_row(run.mode, f"{done}/{total}", bar, *cells)
        return table


def comparison(arguments: Arguments, runs: Sequence[Run]) -> Table:
    """A table of all modes: medians per iteration, without the first."""
    headings = ("samples/s", f"x {runs[0].mode}", *_HEADINGS, "return", "time")
    table = _new_table(f"{_title(arguments)}: median iteration", headings)
    base = runs[0].typical("samples_per_second")
    for run in runs:
        rate, seconds = run.typical("samples_per_second"), run.typical("seconds")
        parts = (run.typical(name) for name in SPLIT)
        table.add_row(
            run.mode,
            f"{rate:,.0f}",
            f"{rate / base:.1f}",
            *(f"{_duration(part)} {part / seconds:.0%}" for part in parts),
            _number(run.last_return),
            f"{run.rows[-1].total_seconds:.0f} s",
        )
    return table


def _new_table(title: str, headings: Sequence[str]) -> Table:
    table = Table(
        title=Text(title),
        title_style="bold",
        title_justify="left",
        caption_style="yellow",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),  # three modes and all columns fit 80 characters
        show_edge=False,
    )
    table.add_column("mode", style="bold", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _parts(row: Row) -> list[str]:
    return [f"{_duration(getattr(row, name))} {getattr(row, name) / row.seconds:.0%}" for name in SPLIT]


def _title(arguments: Arguments) -> str:
    runners = f", {arguments.env_runners} runners" if arguments.env_runners else ""
    return f"PPO on {arguments.env}, {arguments.num_envs:,} envs{runners}, {arguments.batch_steps:,} steps/iteration"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"
