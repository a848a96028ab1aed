"""Run a recorded episode again, up to its failure.

Errors of envs that were made with record="last-episode" name the file. One env
is built in this process and run with the recorded actions; every observation,
reward and flag is compared. Code that the file names is imported only with
--trust; registered envs do not need it. The exit code is 0 if everything came
as recorded, else 1.

Examples:
  vecenv replay recordings/CartPole-v1-env3-4711-0.npz
  vecenv replay recordings/MyEnv-env0-4711-0.npz --trust --pdb
  vecenv replay recordings/MyEnv-env0-4711-0.npz --env my_module:MyEnv
  vecenv replay recordings/CartPole-v1-env3-4711-0.npz --video failure.mp4
"""

from __future__ import annotations

import bdb
import os
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table
from rich.text import Text

from vecenv._util.suggest import did_you_mean
from vecenv.cli._films import FPS, check_film, checked_frame, choose_gl, drawing, open_film
from vecenv.cli._options import Count, Flag, Optional, Pairs, pairs
from vecenv.cli._screen import Screen
from vecenv.cli._sources import find_env
from vecenv.engines.recording.episodes import versions
from vecenv.engines.recording.recording import Recording
from vecenv.errors import ConfigError, UnsafeFile
from vecenv.recording._builds import title_of
from vecenv.recording._replay import PATIENCE, replay
from vecenv.recording._result import Replay, recorded_failure

_COLOURS = {"clean": "green", "reproduced": "green", "differs": "bold red", "not reproduced": "bold red"}


@dataclass(frozen=True)
class Options:
    """Options of `vecenv replay`."""

    file: tyro.conf.Positional[str]
    """The recording that an error message named."""
    pdb: Flag = False
    """Stop in the debugger before the last step, with env, action and recording in scope."""
    steps_before: Count = 1
    """With --pdb: stop this many steps before the end."""
    video: Annotated[Path | None, Optional] = None
    """Video to write, .mp4 or .gif."""
    env: Annotated[str | None, Optional] = None
    """The env: an id, module:Class, file.py:Class. Default: the recording's."""
    kwargs: Pairs = ()
    """Constructor arguments for --env."""
    trust: Flag = False
    """Import and run the code that the file names."""
    patience: float = PATIENCE
    """Seconds after which a step counts as hung again."""
    json: Flag = False
    """Print the result as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Replay, compare, and print the outcome."""
    _check(options)
    if options.trust and os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # as with `python -m`, for code that the recording names
    try:
        recording = Recording.load(_found(options.file))
        if not screen.json:
            screen.out.print(_table(recording))
        _announce(recording, options, screen)
        outcome, video = _replayed(recording, options)
    except (UnsafeFile, OSError) as error:
        raise ConfigError(str(error)) from error
    except bdb.BdbQuit:
        return 0
    _answer(outcome, video, options, screen)
    return 0 if outcome.reproduced else 1


def _check(options: Options) -> None:
    if options.pdb and options.json:
        raise ConfigError("--pdb is interactive; leave --json out")
    if options.steps_before < 1:
        raise ConfigError(f"--steps-before must be at least 1, got {options.steps_before}")
    if options.patience <= 0:
        raise ConfigError(f"--patience must be positive, got {options.patience}")
    if options.kwargs and options.env is None:
        raise ConfigError("--kwargs belong to --env; the recording has its own arguments")
    check_film(options.video, "--video")


def _found(name: str) -> Path:
    path = Path(name)
    if path.is_dir():
        files = sorted(path.glob("*.npz"), key=lambda file: file.stat().st_mtime)
        newest = f"; the newest recording in it is {files[-1]}" if files else " without recordings"
        raise ConfigError(f"{name} is a directory{newest}")
    if not path.exists():
        near = did_you_mean(path.name, (file.name for file in path.parent.iterdir())) if path.parent.is_dir() else ""
        raise ConfigError(f"there is no recording {name!r}{near}")
    return path


def _replayed(recording: Recording, options: Options) -> tuple[Replay, Path | None]:
    """The outcome of the replay, and the path of the video if there is one."""
    how: dict[str, Any] = {"trust": options.trust, "patience": options.patience}
    how["stop_before"] = options.steps_before if options.pdb else None
    if options.env is not None:
        source = find_env(options.env, pairs(options.kwargs, "--kwargs"))
        how["env"], how["env_kwargs"] = source.env, source.kwargs
    if options.video is None:
        return replay(recording, **how), None
    title = title_of(recording.build)
    choose_gl(how.get("env", recording.build.get("id")))
    with closing(_Film(options.video, title, recording.steps)) as film, drawing(title):
        outcome = replay(recording, on_step=film.take, render_mode="rgb_array", **how)
    return outcome, options.video if film.has_frames else None


class _Film:
    """Writes a frame of the env after each step to a file."""

    def __init__(self, path: Path, title: str, steps: int) -> None:
        self._path, self._title, self._steps = path, title, steps
        self._sink: Any = None
        self.has_frames = False

    def take(self, step: int, env: Any) -> None:
        """Add a frame of the env."""
        if self._sink is None:
            self._sink = open_film(self._path, float(env.metadata.get("render_fps") or FPS))
        if step % getattr(self._sink, "every", 1) == 0 or step >= self._steps - 1:
            with drawing(self._title):
                frame = env.render()
            self._sink.write(checked_frame(frame))
            self.has_frames = True

    def close(self) -> None:
        """Write the file."""
        if self._sink is not None:
            self._sink.close()


def _announce(recording: Recording, options: Options, screen: Screen) -> None:
    """Print where the debugger will stop, and a warning if a step may end or hang a process."""
    failure = recording.failure
    if options.pdb:
        screen.note("pdb: env, action and recording are in scope; s enters the env, c continues to the end, q quits")
    if failure is None or failure["kind"] not in ("hung", "died"):
        return
    if options.pdb:
        screen.note(f"careful: {recorded_failure(recording)}; steps after the debugger will do that to this process")
    else:
        bound = f", for {options.patience:g} s at most" if failure["kind"] == "hung" else ""
        screen.note(f"{recorded_failure(recording)}: the step runs in a copy of this process{bound}")
    sys.stderr.flush()


def _table(recording: Recording) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(recording):
        table.add_row(name, Text(value))
    return table


def _facts(recording: Recording) -> list[tuple[str, str]]:
    build, failure = recording.build, recording.failure
    facts = [("env", f"{title_of(build)}, env {recording.row} of {recording.num_envs}, engine {recording.engine}")]
    given = {**build.get("kwargs", {}), **build.get("params", {})}
    if given or build.get("args"):
        listed = [*map(repr, build.get("args", [])), *(f"{name}={value!r}" for name, value in given.items())]
        facts.append(("arguments", ", ".join(listed)[:500]))
    if build.get("wrappers"):
        facts.append(("wrappers", ", ".join(title_of(wrapper) for wrapper in build["wrappers"])))
    facts.append(("episode", f"{recording.steps} step{'s' * (recording.steps != 1)}, {_start(recording)}"))
    if recording.options["kind"] == "value":
        facts.append(("options", repr(recording.options["value"])[:500]))
    if failure is not None:
        facts.append(("failure", recorded_failure(recording)))
        facts += [("message", failure["message"])] if failure["message"] else []
    others = _other_versions(recording)
    if others:
        facts.append(("versions", others))
    facts += [("missing", problem) for problem in recording.problems]
    return facts


def _start(recording: Recording) -> str:
    start = recording.start
    if start["kind"] == "unknown":
        return str(start["why"])
    if start["kind"] == "seed":
        return f"begun with seed {start['seed']}"
    return "begun from a recorded random state" if start["kind"] == "random-state" else "begun in a state of the kernel"


def _other_versions(recording: Recording) -> str:
    """Versions that differ from the recorded ones."""
    now = versions()
    return ", ".join(
        f"{name} {then} (here {now[name]})"
        for name, then in recording.versions.items()
        if name in now and now[name] != then
    )


def _answer(outcome: Replay, video: Path | None, options: Options, screen: Screen) -> None:
    failure, difference = outcome.failure, outcome.difference
    data = {
        "file": options.file,
        "env": title_of(outcome.recording.build),
        "row": outcome.recording.row,
        "engine": outcome.recording.engine,
        "recorded": {"steps": outcome.recording.steps, "failure": outcome.recording.failure},
        "outcome": outcome.outcome,
        "steps": outcome.steps,
        "failure": None if failure is None else asdict(failure),
        "difference": None if difference is None else asdict(difference),
        "text": outcome.text,
        "video": video,
    }
    if screen.json:
        screen.answer(data)
        return
    if failure is not None and failure.traceback:
        screen.answer(None, "", failure.traceback)
    head, *rest = outcome.text.split("\n")
    screen.out.print()
    screen.out.print(Text(head, style=_COLOURS[outcome.outcome]), soft_wrap=True)
    if options.video is not None:
        rest.append("no frame: it failed in the reset" if video is None else f"written to {video}")
    if outcome.outcome == "reproduced" and not options.pdb:
        rest.append(f"debug it: {' '.join(['vecenv replay', options.file, *_repeated(options), '--pdb'])}")
    screen.answer(None, *rest)


def _repeated(options: Options) -> list[str]:
    """The options that define the env."""
    own = [] if options.env is None else ["--env", options.env]
    own += ["--kwargs", *options.kwargs] if options.kwargs else []
    return [*own, *(["--trust"] if options.trust else [])]
