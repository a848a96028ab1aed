"""Results of a run: rows, results.csv, results.json."""

from __future__ import annotations

import json
import math
import platform
import statistics
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from vecenv._util.cpus import usable_cpus
from vecenv._util.files import write_file, write_table
from vecenv._util.warn import warn_user
from vecenv.engines.recording.episodes import versions
from vecenv.run_training._arguments import Arguments, Mode

SPLIT = ("sampling_seconds", "connectors_seconds", "sgd_seconds")
Ending = Literal["finished", "interrupted", "failed"]


@dataclass(frozen=True)
class Row:
    """One iteration. Returns are those of episodes that ended in it; None if none ended."""

    iteration: int
    steps: int
    total_steps: int
    episodes: int
    return_mean: float | None
    return_min: float | None
    return_max: float | None
    seconds: float
    total_seconds: float
    samples_per_second: float
    sampling_seconds: float
    connectors_seconds: float
    sgd_seconds: float
    other_seconds: float


@dataclass
class Run:
    """The training of one mode so far."""

    mode: Mode
    rows: list[Row] = field(default_factory=list)
    ending: Ending = "failed"

    def typical(self, name: str) -> float:
        """Median of a numeric column over iterations; without the first, which is slower, if there are others."""
        return statistics.median(getattr(row, name) for row in self.rows[1:] or self.rows)

    @property
    def last_return(self) -> float | None:
        """The newest mean return, None if no episode has ended."""
        return next((row.return_mean for row in reversed(self.rows) if row.return_mean is not None), None)

    def summary(self) -> dict[str, Any]:
        """Totals, the newest and the best return, and medians per iteration without the first, which is slower."""
        if not self.rows:
            return {"iterations": 0}
        return {
            "iterations": len(self.rows),
            "total_steps": self.rows[-1].total_steps,
            "total_seconds": self.rows[-1].total_seconds,
            "last_return": self.last_return,
            "best_return": max((row.return_mean for row in self.rows if row.return_mean is not None), default=None),
            **{name: self.typical(name) for name in ("samples_per_second", "seconds", *SPLIT, "other_seconds")},
        }


def number(value: Any) -> float | None:
    """A float that JSON can store, else None."""
    return None if value is None or not math.isfinite(value) else float(value)


class RunWriter:
    """Writes a run's files to the directory `path`: results.csv after each row, results.json at the end.

    If the disk is full, training goes on: a warning says so once, and the next row writes the missing ones too.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self._path = path
        self._table: list[Any] = [[column.name for column in fields(Row)]]
        self._warned = False
        write_table(path / "results.csv", self._table)

    def add(self, row: Row) -> None:
        """Add a row to results.csv."""
        self._table.append(asdict(row).values())
        try:
            write_table(self._path / "results.csv", self._table)
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn_user(f"{error}; training goes on, and the rows are written as soon as there is room")

    def finish(self, arguments: Arguments, run: Run) -> None:
        """Write results.json."""
        content = {
            "mode": run.mode,
            "ending": run.ending,
            "config": {**asdict(arguments), "mode": run.mode, "out": str(self._path)},
            "versions": {**versions(), **{package: version(package) for package in ("ray", "torch")}},
            "machine": {"platform": platform.platform(), "cpus": usable_cpus()},
            "summary": run.summary(),
            "rows": [asdict(row) for row in run.rows],
        }
        text = json.dumps(content, indent=2, allow_nan=False, default=str)  # paths as text
        write_file(self._path / "results.json", f"{text}\n")
