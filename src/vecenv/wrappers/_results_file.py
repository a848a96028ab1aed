"""Episodes in a file, in the format of Stable-Baselines3's Monitor."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import stat
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.descriptors import open_standard_descriptors
from vecenv._util.extras import load_extra
from vecenv._util.files import append, open_text, parsed
from vecenv._util.warn import warn_user
from vecenv.errors import ConfigError, FileInUse, UnsafeFile

SUFFIX = "monitor.csv"
COLUMNS = ("r", "l", "t")
_LONGEST_LINE = 1_000_000
_THIS_PROCESS = "another writer in this process"


class ResultsFile:
    r"""One row per episode, byte for byte as SB3's `ResultsWriter` writes it, except for text like formulas.

    The first line is `#{"t_start": ..., "env_id": ...}`, the second the names of the columns. When `write` returns, the
    row is in the file, whole or not at all. If the disk is full, a warning says so once and `lost` counts the rows that
    could not be written; later rows are written when there is room again.

    Args:
        path: `.monitor.csv` is appended unless it ends with `monitor.csv`; a directory gets the file `monitor.csv`.
            Missing directories are made.
        header: what the first line says.
        extra: names of columns after `r` (return), `l` (length), `t` (seconds since `t_start`).
        append: add rows to an existing file, without writing the two lines again.

    Attributes:
        path: where it is.
        lost: rows that could not be written.

    Raises:
        FileInUse: another process has the file open, or this one does and `append` is False.
    """

    def __init__(
        self, path: str | Path, header: Mapping[str, Any] | None = None, extra: Sequence[str] = (), append: bool = False
    ) -> None:
        self.path = path_of(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.lost = 0
        self._warned = False
        self._pid = os.getpid()
        open_standard_descriptors()
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  # open until close()
        self._lines = _Lines(self._file)
        if self._lines.lasting:
            lock(self._file, self.path, appending=append)
        names = [inert(name) for name in (*COLUMNS, *extra)]
        self._writer = csv.DictWriter(self._lines, names)
        if not append:
            self._lines.begin(f"#{json.dumps(dict(header or {}))}\n{_row(names)}")
            self._try(lambda: self._lines.write(""))

    def write(self, episode: Mapping[str, Any]) -> None:
        """Add an episode: `r`, `l`, `t` and the extra columns. One that is missing is left empty."""
        row = {inert(name): inert(value) for name, value in episode.items()}
        self.lost += not self._try(lambda: self._writer.writerow(row))

    def close(self) -> None:
        """Close the file. May be called twice."""
        if not self._file.closed and self._pid == os.getpid():  # a forked child has a copy of it, and must not unlock
            unlock(self._file)
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_pid") and hasattr(self, "_file"):  # not if it could not be opened
            self.close()

    def _try(self, write: Callable[[], Any]) -> bool:
        """Return whether writing succeeded; warn the first time that it does not."""
        try:
            write()
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn_user(
                    f"{self.path} cannot be written ({error.strerror}): episodes are not recorded until it can, and "
                    "`lost` counts them; make room, or record elsewhere"
                )
            return False
        return True


class _Lines:
    """Writes text to a file without a buffer; see `append`.

    Attributes:
        lasting: whether it is a file rather than a device.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._due = file, b""
        self.lasting = stat.S_ISREG(os.fstat(file.fileno()).st_mode)

    def begin(self, text: str) -> None:
        """Empty the file; `text` is written before the next row, as soon as there is room."""
        if self.lasting:
            self._file.truncate(0)
        self._due = text.encode(errors="backslashreplace")

    def write(self, text: str) -> int:
        append(self._file, self._due + text.encode(errors="backslashreplace"))
        self._due = b""
        return len(text)


def inert(value: Any) -> Any:
    """A cell of a CSV file that no spreadsheet takes for a formula: such text gets a `'` in front."""
    if not isinstance(value, str) and (value is None or isinstance(value, (bool, int, float))):
        return value
    text = str(value)
    if not text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return value
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return value


def lock(file: Any, path: Path, *, appending: bool) -> None:
    """Be the only writer of a file; close it and raise FileInUse if there is another.

    Writers of one process may append to one file, as Stable-Baselines3's do: rows are written whole.
    """
    try:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = _holder(file.fileno())
        if appending and other == _THIS_PROCESS:
            return
        file.close()
        raise FileInUse(
            f"{path} is being written by {other}; close that one first, or give every writer a file of its own"
        ) from None
    except (ImportError, OSError):  # Windows; file systems without locks
        pass


def unlock(file: Any) -> None:
    """Allow other writers. Closing is not enough: forked workers may have copies of the descriptor."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_UN)


def _holder(descriptor: int) -> str:
    """Which process has the lock, if Linux reports it."""
    inode = os.fstat(descriptor).st_ino
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                return _THIS_PROCESS if int(words[4]) == os.getpid() else f"process {words[4]}"
    return "another writer"


def _row(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()


def path_of(path: str | Path) -> Path:
    """The path of the file for results at `path`."""
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
        UnsafeFile: one of them is damaged, or not such a file.
    """
    pandas = load_extra("pandas", "load_results needs pandas: pip install pandas")
    paths = sorted(Path(directory).glob(f"*{SUFFIX}"))
    if not paths:
        raise ConfigError(f"no files *{SUFFIX} in {directory}")
    frames, starts = [], []
    for path in paths:
        frame, start = _read(path, pandas)
        starts.append(start)
        frame["t"] += start
        frames.append(frame)
    frames = [frame for frame in frames if not frame.empty]
    if not frames:
        return pandas.DataFrame(columns=pandas.Index(COLUMNS)).reset_index()
    results = pandas.concat(frames).sort_values("t").reset_index()
    results["t"] -= min(starts)
    return results


def start_of(line: str) -> float:
    """When the episodes of a file began, from its first line.

    Raises:
        UnsafeFile: it is not that of such a file.
    """
    about = parsed(line[1:]) if line.startswith("#") else None
    start = about.get("t_start") if isinstance(about, dict) else None
    if not isinstance(start, (int, float)) or not abs(start) <= sys.float_info.max:  # or no float holds it
        raise UnsafeFile(f'the first line must be #{{"t_start": ...}}, it is {line[:80]!r}')
    return float(start)


def _read(path: Path, pandas: Any) -> tuple[Any, float]:
    """The rows of a file, and its beginning."""
    try:
        with open_text(path, newline="") as file:
            start = start_of(file.readline(_LONGEST_LINE))
            with warnings.catch_warnings():
                for kind in (pandas.errors.ParserWarning, pandas.errors.DtypeWarning):
                    warnings.simplefilter("error", kind)
                frame = pandas.read_csv(file, index_col=False)
        for name in COLUMNS:
            if name not in frame or (len(frame) and frame[name].dtype.kind not in "fi"):
                raise UnsafeFile(f"the column {name!r} must hold numbers")
        if not np.isfinite(frame[list(COLUMNS[1:])].to_numpy(float)).all():
            raise UnsafeFile("lengths and times must be finite numbers")
    except UnsafeFile as error:
        raise UnsafeFile(f"{path} is not in Monitor's format, or damaged: {error}; nothing was loaded") from error
    except OSError:
        raise
    except Exception as error:  # pandas raises many kinds of errors for text that is not a table
        raise UnsafeFile(
            f"{path} is not in Monitor's format, or damaged ({type(error).__name__}: {error!s:.200}); "
            "nothing was loaded"
        ) from error
    return frame, start
