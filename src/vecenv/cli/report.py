"""Write a report of runs: one HTML file with everything in it.

Learning curve, evaluation, settings, where the time went, and the film, if the
run has one (`vecenv train --gif`, `vecenv play`, or --film). The file needs no
other file and no network, so it can be sent to anybody.

Examples:
  vecenv report runs/CartPole-v1-ppo-1
  vecenv report runs/CartPole-v1-ppo-1 --film --out cartpole.html
  vecenv report runs/Pendulum-v1-* --out seeds.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from vecenv.cli._options import Flag, Optional
from vecenv.cli._screen import Screen
from vecenv.cli._sources import different_runs
from vecenv.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Options of `vecenv report`."""

    runs: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="RUN ...", help_behavior_hint="")]
    """Directories of runs."""
    out: Annotated[Path | None, Optional] = None
    """File to write. Default: report.html in the run, or in this directory for several runs."""
    film: Flag = False
    """Record an episode of each run that has no play.gif yet."""
    trust: Flag = False
    """With --film: import and run the code that a run names as its env."""
    json: Flag = False
    """Print where the report is as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Read the runs, write the file."""
    from vecenv._util.files import write_file
    from vecenv.cli._report_html import page, read_run_report

    if not options.runs:
        raise ConfigError("name at least one run: vecenv report runs/NAME ...")
    runs = different_runs(options.runs)
    missing = next((name for name in runs if not Path(name).is_dir()), None)
    if missing is not None:
        raise ConfigError(f"there is no run {missing!r}; name directories such as runs/CartPole-v1-ppo-1")
    out = options.out or (Path(runs[0]) if len(runs) == 1 else Path()) / "report.html"
    if out.suffix not in (".html", ".htm") or not out.parent.is_dir():
        raise ConfigError(f"--out must be a file .html in a directory that exists, got {out}")
    reports = [read_run_report(name) for name in runs]
    if options.film:
        for report in reports:
            if report.film is None:
                _record(report.path, options.trust, screen)
        reports = [read_run_report(name) for name in runs]
    with screen.waiting("drawing"):
        write_file(out, page(reports))
    screen.answer({"file": str(out), "runs": runs}, f"written to {out}")
    return 0


def _record(path: Path, trust: bool, screen: Screen) -> None:
    """Record an episode of a run's newest checkpoint, as play.gif."""
    from vecenv.cli._frames import GifFile
    from vecenv.cli._playing import play
    from vecenv.cli._sources import acting, env_of, find_checkpoint, load_policy

    checkpoint = find_checkpoint(str(path))
    with screen.waiting("loading torch"):
        source = env_of(checkpoint, None, {}, trust)
        policy = load_policy(checkpoint, source, trust)
    with screen.progress("recording", 1, "episodes") as bar, acting(policy) as actor:
        play(source, actor, lambda fps: GifFile(path / "play.gif", fps), progress=bar)
