"""Episodes in a file, in the format of Stable-Baselines3's Monitor."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vecenv.errors import ConfigError, MissingExtra

SUFFIX = "monitor.csv"
COLUMNS = ("r", "l", "t")


class ResultsFile:
    r"""One row per episode, byte for byte as SB3's `ResultsWriter` writes it.

    The first line is `#{"t_start": ..., "env_id": ...}`, the second the names of the columns. Every row is on disk when
    `write` returns.

    Args:
        path: `.monitor.csv` is appended unless it ends with `monitor.csv`; a directory gets the file `monitor.csv`.
            Missing directories are made.
        header: what the first line says.
        extra: names of columns after `r` (return), `l` (length), `t` (seconds since `t_start`).
        append: add rows to a file that is there, without writing the two lines again.
    """

    def __init__(
        self, path: str | Path, header: Mapping[str, Any] | None = None, extra: Sequence[str] = (), append: bool = False
    ) -> None:
        self.path = path_of(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "a" if append else "w", newline="\n")  # noqa: SIM115  # open until close()
        self._writer = csv.DictWriter(self._file, (*COLUMNS, *extra))
        if not append:
            self._file.write(f"#{json.dumps(dict(header or {}))}\n")
            self._writer.writeheader()
        self._file.flush()

    def write(self, episode: Mapping[str, Any]) -> None:
        """Add an episode: `r`, `l`, `t` and the extra columns. One that is missing is left empty."""
        self._writer.writerow(dict(episode))
        self._file.flush()

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):  # not if it could not be opened
            self._file.close()


def path_of(path: str | Path) -> Path:
    """Where the results go that are asked for at `path`."""
    text = str(path)
    if text.endswith(SUFFIX):
        return Path(text).resolve()
    if Path(text).is_dir():
        return (Path(text) / SUFFIX).resolve()
    return Path(f"{text}.{SUFFIX}").resolve()


def load_results(directory: str | Path) -> Any:
    """All episodes of the files `*monitor.csv` of a directory, as one pandas.DataFrame in order of time.

    `t` counts from the earliest `t_start`. The column `index` is the row in the episode's own file.

    Raises:
        ConfigError: there is no such file.
    """
    try:
        import pandas  # pyright: ignore[reportMissingImports]  # only here
    except ImportError as error:
        raise MissingExtra("load_results needs pandas: pip install pandas") from error

    paths = sorted(Path(directory).glob(f"*{SUFFIX}"))
    if not paths:
        raise ConfigError(f"no files *{SUFFIX} in {directory}")
    frames, starts = [], []
    for path in paths:
        with open(path) as file:
            starts.append(json.loads(file.readline()[1:])["t_start"])
            frame = pandas.read_csv(file, index_col=None)
        frame["t"] += starts[-1]
        frames.append(frame)
    frames = [frame for frame in frames if not frame.empty]
    if not frames:
        return pandas.DataFrame(columns=pandas.Index(COLUMNS)).reset_index()
    results = pandas.concat(frames).sort_values("t").reset_index()
    results["t"] -= min(starts)
    return results
