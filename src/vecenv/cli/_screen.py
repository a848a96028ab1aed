"""Output: results on stdout, progress on stderr; plain lines where stderr is not a terminal."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column, Table

_FIRST_LINE, _LINE_EVERY = 2.0, 5.0
"""Seconds before the first plain line of progress, and between the next ones."""
_FOLDED = 10
"""Width that a column needs whose text may be continued in the next line."""
_BLOCKS = "▁▂▃▄▅▆▇█"


class Screen:
    """The output of a command: consoles `out` and `err`. With `json`, stdout gets one JSON document and no more.

    The document is printed at the end, by `print_json`: until then, whatever envs print goes to stderr.
    """

    def __init__(self, json: bool) -> None:
        self.json = json
        self._document: str | None = None
        self.out = Console(highlight=False, soft_wrap=False, emoji=False)
        self.err = Console(stderr=True, highlight=False, emoji=False)

    def note(self, text: str) -> None:
        """Print a remark in one line of stderr."""
        self.err.print(text, style="dim", markup=False, soft_wrap=True)

    def answer(self, data: Any, *what: Any) -> None:
        """Print the result: `data` as JSON, or `what` for people."""
        if self.json:
            self._document = json.dumps(plain(data), indent=1, allow_nan=False)
        else:
            for thing in what:
                self.out.print(thing, markup=False, soft_wrap=isinstance(thing, str))

    def print_json(self) -> None:
        """Print the document, if there is one."""
        if self._document is not None:
            print(self._document)
            self._document = None

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show a spinner for work of unknown duration, such as loading a library."""
        if not self.err.is_terminal:
            yield
            return
        with self.err.status(what):
            yield

    @contextmanager
    def progress(self, label: str, total: float, unit: str) -> Iterator[Bar]:
        """A bar with rate and time left that disappears at the end; plain lines if stderr is not a terminal."""
        if not self.err.is_terminal:
            yield Bar(label, total, unit, self.err, None)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
        with Progress(*columns, console=self.err, transient=True) as live:
            yield Bar(label, total, unit, self.err, live)


class Bar:
    """Progress of one task."""

    def __init__(self, label: str, total: float, unit: str, console: Console, live: Progress | None) -> None:
        self._label, self._total, self._unit, self._console, self._live = label, total, unit, console, live
        self._started = time.perf_counter()
        self._first = 0.0
        self._next_line = self._started + _FIRST_LINE
        self._task = live.add_task(label, total=total, text="") if live is not None else None

    def begin(self, done: float) -> None:
        """Set what was done before; it does not count for the rate."""
        self._first = done

    def update(self, done: float, note: str = "") -> None:
        """Set what is done; `note` is shown after rate and time left."""
        now = time.perf_counter()
        if self._live is None:
            if now < self._next_line:
                return
            self._next_line = now + _LINE_EVERY
        text = self._text(done, now, note)
        if self._live is not None and self._task is not None:
            self._live.update(self._task, completed=done, text=text)
        else:
            self._console.print(f"{self._label}: {text}", markup=False, soft_wrap=True)

    def of(self, done: float, total: float) -> None:
        """Set what is done, and a total that was not known before."""
        self._total = total
        if self._live is not None and self._task is not None:
            self._live.update(self._task, total=total)
        self.update(done)

    def _text(self, done: float, now: float, note: str) -> str:
        rate = (done - self._first) / max(now - self._started, 1e-9)
        left = duration((self._total - done) / rate) if rate > 0 else "?"
        share = f"{100 * done / self._total:3.0f} %" if self._total else ""
        return "  ".join(part for part in (share, f"{short(rate)} {self._unit}/s", f"{left} left", note) if part)


class FoldedTable(Table):
    """A table that cuts no text: where the terminal is too narrow, words are continued in the next line.

    Columns with `no_wrap` keep their lines as long as there is room for them.
    """

    def add_column(self, header: Any = "", *arguments: Any, **options: Any) -> None:
        """Add a column, as `Table` does."""
        super().add_column(header, *arguments, **{"overflow": "fold", **options})

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if sum(self._least(console, options, column) for column in self.columns) > options.max_width:
            for column in self.columns:
                column.no_wrap = False
        yield from super().__rich_console__(console, options)

    @staticmethod
    def _least(console: Console, options: ConsoleOptions, column: Column) -> int:
        """How wide a column must be, with the space before it."""
        wide = options.update(max_width=10_000)
        widest = max(Measurement.get(console, wide, cell).maximum for cell in (column.header, *column.cells))
        return 2 + (widest if column.no_wrap else min(widest, _FOLDED))


def new_table(title: str | None = None, **options: Any) -> Table:
    """A table without columns, in the style of all commands."""
    look: Any = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "title_justify": "left", "title_style": "bold"}
    return FoldedTable(title=title, **look, **options)


def short(number: float) -> str:
    """A number in at most six characters: 1.23M."""
    if not math.isfinite(number):
        return "-"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 0.9995 * size:
            value = number / size
            return f"{value:.{0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2}f}{letter}"
    return f"{number:.0f}" if abs(number) >= 99.5 or number == int(number) else f"{number:.1f}"


def duration(seconds: float) -> str:
    """Seconds as a clock shows them: 0:07, 1:02:03."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def sparkline(values: list[float], width: int = 12) -> str:
    """Numbers as a small curve, spread over `width` characters."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return ""
    places = [finite[round(place * (len(finite) - 1) / (width - 1))] for place in range(width)]
    low, high = min(finite), max(finite)
    return "".join(_BLOCKS[round((value - low) / ((high - low) or 1.0) * (len(_BLOCKS) - 1))] for value in places)


def plain(value: Any) -> Any:
    """The value as JSON can store it; numbers that JSON cannot store become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
