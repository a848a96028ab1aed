"""The directory of a run: config.json, monitor.csv, TensorBoard events, checkpoints, curve.png, result.json."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import time
from pathlib import Path
from typing import Any

from vecenv._util.files import open_file, open_text, write_file
from vecenv.cli._screen import plain
from vecenv.cli._sources import CHECKPOINTS, SUFFIX
from vecenv.errors import ConfigError
from vecenv.trainers.loggers import TensorBoard
from vecenv.wrappers._results_file import ResultsFile, start_of

_EVENTS = 200
"""Approximate number of points of a run in TensorBoard."""


class RunFiles:
    """Files of a run, written while it runs.

    Args:
        path: the directory, which must exist.
        config: content of config.json.
        episodes: number of episodes at the checkpoint from which the run continues, None for a new run. Episodes after
            the checkpoint, of a run that was killed, are removed: they are run again.
    """

    def __init__(self, path: Path, config: dict[str, Any], episodes: int | None = None) -> None:
        self.path = path
        (path / CHECKPOINTS).mkdir(exist_ok=True)
        monitor = path / "monitor.csv"
        going_on = episodes is not None and monitor.exists()
        self._started = _start_of(monitor) if going_on else time.time()
        if episodes is None:
            self.write_json("config.json", config)
        elif going_on:
            with open_file(monitor) as file:
                lines = file.read().splitlines(keepends=True)
            if lines and not lines[-1].endswith(b"\n"):  # cut off: what follows would be glued to it
                lines.pop()
            write_file(monitor, b"".join(lines[: 2 + episodes]))
        header = {"t_start": self._started, "env_id": config["env"]}
        self._episodes = ResultsFile(monitor, header, append=going_on)
        self._events = TensorBoard(path)
        self._next_event = 0

    def note(self, progress: Any) -> None:
        """Write a trainer's progress: every episode, and from time to time the rest."""
        now = round(time.time() - self._started, 6)
        for returned, length in zip(progress.returns.tolist(), progress.lengths.tolist(), strict=True):
            self._episodes.write({"r": round(returned, 6), "l": length, "t": now})
        if progress.steps >= self._next_event:
            self._next_event = progress.steps + progress.total_steps // _EVENTS
            self.scalars(progress.steps, progress.scalars)

    def scalars(self, step: int, scalars: dict[str, float]) -> None:
        """Write points of TensorBoard's curves; NaN is left out."""
        self._events.write(step, {name: value for name, value in scalars.items() if value == value})

    def save(self, trainer: Any) -> Path:
        path = self.path / CHECKPOINTS / f"step-{trainer.steps}{SUFFIX}"
        trainer.save(path)
        return path

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file of the run."""
        write_file(self.path / name, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")

    def close(self) -> None:
        self._episodes.close()
        self._events.close()


def new_run(directory: Path, name: str | None, usual: str, overwrite: bool) -> Path:
    """Create the directory of a new run: `name`, or `usual` with the first free number."""
    if name is not None and (name in ("", ".", "..") or Path(name).name != name):
        raise ConfigError(f"--name must be the name of a folder, got {name!r}; --runs-dir sets its location")
    directory.mkdir(parents=True, exist_ok=True)
    if name is None:
        numbers = itertools.count(1)
        while True:
            path = directory / f"{usual}-{next(numbers)}"
            with contextlib.suppress(FileExistsError):  # another run may create it at the same moment
                path.mkdir()
                return path
    path = directory / name
    if path.exists() and any(path.iterdir()):
        if not overwrite:
            go_on = f", or continue it: vecenv train {path}" if any((path / CHECKPOINTS).glob(f"*{SUFFIX}")) else ""
            raise ConfigError(f"{path} exists; choose another --name, or --overwrite it{go_on}")
        if not (path / "config.json").is_file():
            raise ConfigError(f"{path} is not a run (no config.json), so it is not overwritten; choose another --name")
        shutil.rmtree(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _start_of(monitor: Path) -> float:
    try:
        with open_text(monitor) as file:
            return start_of(file.readline(100_000))
    except ValueError as error:
        raise ConfigError(f"{monitor} is not in Monitor's format: {error}") from error
