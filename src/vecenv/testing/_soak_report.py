"""The result of a soak: whether anything grew, and its files and plot."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.files import write_file, write_table
from vecenv.errors import MissingExtra
from vecenv.testing._soak_gauges import Gauges

MEMORY_PER_MINUTE, MEMORY_AT_LEAST = 1 << 20, 6 << 20
"""Limits of memory growth, per minute and in total; smaller changes are normal. With a recorder, both the memory with
shared pages counted once and the RSS must grow: a page that a forked worker no longer shares is counted twice."""
COUNTED = ("processes", "descriptors", "threads", "shared")
"""Gauges that must not grow at all."""
FEWEST = 8
"""Number of samples after the warm-up that are needed to detect growth."""
_BLUE, _RED, _GREY, _GREEN, _ORANGE, _PURPLE = "#2b6cb0", "#c53030", "#a0aec0", "#2f855a", "#c05621", "#6b46c1"


@dataclass
class Sample:
    """The gauges `seconds` after the start, and the rows and faults until then."""

    seconds: float
    gauges: Gauges
    rows: int
    rate: float
    """Steps per second since the last sample."""
    faults: dict[str, int]

    def flat(self) -> dict[str, float]:
        """The sample as a row of a table."""
        own = {"seconds": round(self.seconds, 2), "rows": self.rows, "rate": round(self.rate), **asdict(self.gauges)}
        return {**own, "faults": sum(self.faults.values())}


@dataclass
class Report:
    """The state of a soak.

    Attributes:
        settings: the arguments of `soak`.
        warm_up: seconds at the start that do not count.
        failures: what is wrong; empty if nothing is.
    """

    settings: dict[str, Any]
    warm_up: float
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Add to `failures` what grew, and to `notes` if there are too few samples to detect growth."""
        count = len(self._late())
        if count < FEWEST:
            self.notes.append(f"{count} samples after the warm-up are too few to detect growth; run longer")
        self.failures += self.grown()

    def grown(self) -> list[str]:
        """What grew after the warm-up; empty if there are too few samples to detect growth."""
        late = self._late()
        if len(late) < FEWEST:
            return []
        found, quarter = [], len(late) // 4
        for name in COUNTED:
            values = [getattr(sample.gauges, name) for sample in late]
            first, last = np.median(values[:quarter]), np.median(values[-quarter:])
            if last > first:
                found.append(f"{name} grew from {first:g} to {last:g}")
        slope, growth = self.slope("memory")
        if self.settings.get("record"):  # pages that forked workers no longer share count twice: both must grow
            slope, growth = min((slope, growth), self.slope("rss"))
        if slope > MEMORY_PER_MINUTE and growth > MEMORY_AT_LEAST:
            found.append(f"memory grew by {_mib(slope)} MiB per minute, {_mib(growth)} MiB in all")
        return found

    def slope(self, name: str) -> tuple[float, float]:
        """Growth of a gauge after the warm-up, per minute and in total, by the median slope between two samples."""
        late = self._late()
        times = np.array([sample.seconds for sample in late]) / 60
        values = np.array([getattr(sample.gauges, name) for sample in late], float)
        first, second = np.triu_indices(len(late), max(1, len(late) // 4))
        if not len(first):
            return 0.0, 0.0
        slope = float(np.median((values[second] - values[first]) / (times[second] - times[first])))
        return slope, slope * (times[-1] - times[0])

    def summary(self) -> dict[str, Any]:
        """The main figures, for soak.json."""
        if not self.samples:
            return {}
        last, rates = self.samples[-1], [sample.rate for sample in self.samples[1:]] or [0.0]
        minutes = last.seconds / 60
        return {
            "minutes": round(minutes, 2),
            "rows_checked": last.rows,
            "rate_median": round(float(np.median(rates))),
            "faults": last.faults,
            "memory_mib": _mib(last.gauges.memory),
            "memory_mib_per_minute": _mib(self.slope("memory")[0]),
            **{name: getattr(last.gauges, name) for name in COUNTED},
        }

    def write(self, folder: Path) -> list[Path]:
        """Write soak.json, soak.csv and, if Matplotlib is installed, soak.png; return their paths."""
        content = {
            "ok": not self.failures,
            "failures": self.failures,
            "notes": self.notes,
            "summary": self.summary(),
            "settings": self.settings,
            "samples": [sample.flat() for sample in self.samples],
        }
        made = [folder / "soak.json", folder / "soak.csv"]
        write_file(made[0], json.dumps(content, indent=1) + "\n")
        rows = [sample.flat() for sample in self.samples]
        write_table(made[1], [list(rows[0]), *(row.values() for row in rows)] if rows else [[]])
        try:
            if self.samples:
                self._draw(folder / "soak.png")
                made.append(folder / "soak.png")
        except MissingExtra as error:
            self.notes.append(f"no picture: {error}")
        return made

    def lines(self) -> list[str]:
        """The result as lines of text."""
        about = self.summary()
        if not about:
            return ["nothing was measured", *self.failures]
        faults = ", ".join(f"{count} {name}" for name, count in sorted(about["faults"].items())) or "none"
        words = [
            f"{about['minutes']:g} minutes, {about['rows_checked']:,} rows checked, "
            f"{about['rate_median']:,} steps/s (median)",
            f"faults: {faults}",
            f"memory {about['memory_mib']:g} MiB ({about['memory_mib_per_minute']:+g} MiB per minute once warm), "
            + ", ".join(f"{about[name]:,} {'bytes shared' if name == 'shared' else name}" for name in COUNTED),
            *self.notes,
        ]
        return [*words, *(f"FAILED: {failure}" for failure in self.failures)] if self.failures else [*words, "passed"]

    def _gauge(self, name: str) -> np.ndarray:
        return np.array([getattr(sample.gauges, name) for sample in self.samples])

    def _late(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.seconds >= self.warm_up]

    # --- picture -----------------------------------------------------------------------------------------------------

    def _draw(self, path: Path) -> None:
        from vecenv.evaluation._plot import new_figure, save_figure

        figure, panels = new_figure((9.0, 10.0), rows=5)
        minutes = np.array([sample.seconds for sample in self.samples]) / 60
        self._draw_memory(panels[0], minutes)
        self._draw_counts(panels[1], minutes)
        panels[2].plot(minutes, self._gauge("shared") / 1024, color=_BLUE, linewidth=1.8)
        panels[3].plot(minutes[1:], [sample.rate / 1000 for sample in self.samples[1:]], color=_BLUE, linewidth=1.8)
        self._draw_faults(panels[4], minutes)
        labels = ("memory, MiB", "count", "shared KiB", "1,000 steps/s", "faults so far")
        for panel, label in zip(panels, labels, strict=True):
            panel.set_ylabel(label)
        for panel in panels:
            panel.set_ylim(bottom=0)
            panel.axvspan(0, min(self.warm_up / 60, minutes[-1]), color=_GREY, alpha=0.18, linewidth=0)
        panels[0].text(0.004, 0.05, "warm-up", transform=panels[0].transAxes, color="#4a5568", fontsize=8)
        panels[-1].set_xlabel("minutes")
        panels[-1].set_xlim(0, max(minutes[-1], 1e-3))
        about = self.summary()
        verdict = "FAILED: " + "; ".join(self.failures)[:110] if self.failures else "passed"
        figure.suptitle(
            f"{self.settings.get('envs')} envs, engine {self.settings.get('engine')}: {about['rows_checked']:,} rows "
            f"checked, {sum(about['faults'].values())} faults in {about['minutes']:g} minutes\n{verdict}",
            x=0.01, ha="left", fontsize=11, color=_RED if self.failures else "black",
        )  # fmt: skip
        save_figure(figure, path, dpi=110)

    def _draw_memory(self, panel: Any, minutes: np.ndarray) -> None:
        memory, rss = self._gauge("memory") / 2**20, self._gauge("rss") / 2**20
        panel.plot(minutes, rss, color=_GREY, linewidth=1.0, label="RSS, summed over processes")
        panel.plot(minutes, memory, color=_BLUE, linewidth=1.8, label="shared pages counted once")
        late = minutes >= self.warm_up / 60
        if late.sum() > 1:
            slope = self.slope("memory")[0] / 2**20
            middle = np.median(memory[late]) + slope * (minutes[late] - np.median(minutes[late]))
            panel.plot(minutes[late], middle, color=_RED, linestyle="--", linewidth=1.2, label=f"{slope:+.2f} MiB/min")
        panel.legend(frameon=False, fontsize=8, ncols=3, loc="lower right")

    def _draw_counts(self, panel: Any, minutes: np.ndarray) -> None:
        for name, colour in (("descriptors", _GREEN), ("threads", _ORANGE), ("processes", _PURPLE)):
            values = self._gauge(name)
            panel.plot(minutes, values, color=colour, linewidth=1.8, label=f"{name} ({values[-1]})")
        panel.legend(frameon=False, fontsize=8, ncols=3, loc="center right")

    def _draw_faults(self, panel: Any, minutes: np.ndarray) -> None:
        names = sorted(self.samples[-1].faults)
        colours = (_RED, _ORANGE, _PURPLE, _GREEN, _BLUE, _GREY)
        for name, colour in zip(names, colours, strict=False):
            counts = [sample.faults.get(name, 0) for sample in self.samples]
            panel.step(minutes, counts, where="post", color=colour, linewidth=1.6, label=f"{name} ({counts[-1]})")
        if names:
            panel.legend(frameon=False, fontsize=8, ncols=4, loc="upper left")


def _mib(size: float) -> float:
    return round(size / 2**20, 2)
