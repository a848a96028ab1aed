"""The page of `vecenv report`. Everything that comes from files is escaped: a run may be anyone's."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from vecenv._util.files import open_file
from vecenv.cli._curves import RunEpisodes, curve_of, curves_figure, read_episodes
from vecenv.cli._screen import duration
from vecenv.cli._sources import read_result, read_run
from vecenv.cli.plot import kind_of
from vecenv.errors import ConfigError

PARTS = {"env": "#2b6cb0", "forward": "#2f855a", "buffer": "#d69e2e", "update": "#c05621", "evaluation": "#6b46c1",
         "other": "#a0aec0"}  # fmt: skip
"""Where time goes, and the colours of the bar."""
_LARGEST_FILM = 32 * 2**20


@dataclass(frozen=True)
class RunReport:
    """What a run's directory has for the report; `result` is empty and `film` None if they were not written."""

    path: Path
    config: Mapping[str, Any]
    result: Mapping[str, Any]
    episodes: RunEpisodes
    film: bytes | None


def read_run_report(name: str) -> RunReport:
    """Read a run's files. Raises ConfigError if it is not a run."""
    path = Path(name)
    run, config = read_run(path)
    if run is None:
        raise ConfigError(f"{name!r} is not a run: it has no config.json; name a directory that `vecenv train` wrote")
    film = path / "play.gif"
    gif = None
    if film.is_file() and film.stat().st_size <= _LARGEST_FILM:
        with open_file(film) as file:
            gif = file.read()
    return RunReport(path, config, read_result(run), read_episodes(path), gif)


def page(reports: Sequence[RunReport]) -> str:
    """The whole page."""
    titles = list(dict.fromkeys(report.episodes.label for report in reports))
    title = ", ".join(titles[:3]) + (", ..." if len(titles) > 3 else "")
    shared = _curve(reports) if len(reports) > 1 else ""
    body = "".join(map(_section, reports))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n{shared}{body}</main>\n</body>\n"
        "</html>\n"
    )


def _section(report: RunReport) -> str:
    config, result = report.config, report.result
    facts = {
        "run": str(report.path),
        "algorithm": str(config.get("algo", "")).upper(),
        "seed": config.get("seed"),
        "steps": _count(result.get("steps", config.get("steps"))),
        "episodes": _count(len(report.episodes.returns)),
        "time": _time(result),
        "engine": config.get("engine_reason"),
        "started": config.get("started"),
    }
    film = "<p>No film: <code>vecenv report --film</code> records one.</p>"
    if report.film is not None:
        data = base64.b64encode(report.film).decode()
        film = f'<img class="film" alt="an episode of the agent" src="data:image/gif;base64,{data}">'
    return (
        f"<section>\n<h2>{escape(report.path.name)}</h2>\n{_facts(facts)}\n"
        f'<div class="two"><div><h3>Learning curve</h3>{_curve([report])}</div>'
        f"<div><h3>The agent</h3>{film}</div></div>\n"
        f"<h3>Evaluation</h3>{_evaluation(result)}\n"
        f"<h3>Where the time went</h3>{_time_bar(result)}\n"
        f"<h3>Settings</h3>{_settings(config)}\n</section>\n"
    )


def _curve(reports: Sequence[RunReport]) -> str:
    """The curves as a picture inside the page; runs that differ only by their seeds are one line."""
    groups: dict[str, list[RunEpisodes]] = {}
    for report in reports:
        groups.setdefault(kind_of(str(report.path)), []).append(report.episodes)
    ended = [episodes for episodes in groups.values() if any(len(one.returns) for one in episodes)]
    if not ended:
        return "<p>No episode has ended yet.</p>"
    file = io.BytesIO()
    curves = [curve_of(episodes[0].label, episodes) for episodes in ended]
    curves_figure(curves, "").savefig(file, format="png", dpi=160)
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img class="curve" alt="learning curve" src="data:image/png;base64,{data}">'


def _evaluation(result: Mapping[str, Any]) -> str:
    found = result.get("evaluation")
    if not isinstance(found, dict):
        return "<p>The run was not evaluated at its end.</p>"
    heads = "episodes", "mean return", "95 % interval of the mean", "IQM", "95 % interval of the IQM"
    head = f"<tr>{''.join(f'<th>{name}</th>' for name in heads)}</tr>"
    means = _number(found.get("mean")), _interval(found, "low", "high")
    cells = _count(found.get("episodes")), *means, _number(found.get("iqm")), _interval(found, "iqm_low", "iqm_high")
    return f"<table>{head}<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr></table>"


def _interval(found: Mapping[str, Any], low: str, high: str) -> str:
    """An interval in words; one episode has none, and runs of older versions have none of the IQM."""
    if found.get("episodes") == 1 or found.get(low) is None:
        return "-"
    return f"{_number(found.get(low))} ... {_number(found.get(high))}"


def _time_bar(result: Mapping[str, Any]) -> str:
    """Shares of the seconds of training, as a bar and in words."""
    given = result.get("time")
    shares = {
        name: float(share)
        for name, share in (given.items() if isinstance(given, dict) else ())
        if name in PARTS and isinstance(share, (int, float)) and 0 <= share <= 1
    }
    if not shares:
        return "<p>Not known: the run has not ended.</p>"
    shares["other"] = max(0.0, 1.0 - sum(shares.values()))
    bar = "".join(
        f'<i style="width:{100 * share:.2f}%;background:{PARTS[name]}"></i>' for name, share in shares.items()
    )
    key = "".join(
        f'<li><b style="background:{PARTS[name]}"></b>{name} {100 * share:.0f} %</li>' for name, share in shares.items()
    )
    return f'<div class="bar">{bar}</div><ul class="key">{key}</ul>'


def _settings(config: Mapping[str, Any]) -> str:
    own = config.get("config")
    settings = {**(own if isinstance(own, dict) else {}), "env arguments": config.get("kwargs") or "none",
                "arguments of make": config.get("make") or "none"}  # fmt: skip
    versions = config.get("versions")
    return _facts({**settings, **({"versions": versions} if versions else {})})


def _facts(facts: Mapping[str, Any]) -> str:
    rows = (
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(_words(value))}</dd></div>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<dl>{''.join(rows)}</dl>"


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def _time(result: Mapping[str, Any]) -> str | None:
    seconds, rate = result.get("seconds"), result.get("steps_per_second")
    if not isinstance(seconds, (int, float)) or not isinstance(rate, (int, float)):
        return None
    return f"{duration(seconds)} ({rate:,.0f} steps/s)"


def _count(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else "-"


def _number(number: Any) -> str:
    return f"{number:,.2f}" if isinstance(number, (int, float)) else "-"


_STYLE = """
:root { color-scheme: light; --line: #e2e8f0; --soft: #4a5568; }
body { margin: 0; background: #f7fafc; color: #1a202c; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; margin: 0 0 1rem; } h2 { font-size: 1.3rem; margin: 0 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; color: var(--soft); }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 1.5rem; margin: 1rem 0; }
.two { display: grid; grid-template-columns: 3fr 2fr; gap: 1.5rem; align-items: start; }
@media (max-width: 48rem) { .two { grid-template-columns: 1fr; } }
img { max-width: 100%; height: auto; } .film { border: 1px solid var(--line); border-radius: 6px; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: .25rem 1.5rem; margin: 0; }
dl div { border-bottom: 1px solid var(--line); padding: .25rem 0; overflow-wrap: anywhere; }
dt { font-size: .8rem; color: var(--soft); } dd { margin: 0; }
table { border-collapse: collapse; } th, td { text-align: right; padding: .3rem 1.2rem .3rem 0; }
th { font-weight: 600; border-bottom: 1px solid var(--line); }
.bar { display: flex; height: 1.4rem; border-radius: 6px; overflow: hidden; } .bar i { display: block; }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; margin: .5rem 0 0; }
.key b { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; margin-right: .4rem; }
code { background: #edf2f7; padding: .1rem .3rem; border-radius: 4px; }
"""
