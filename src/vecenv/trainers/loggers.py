"""Where the curves of a training go. A logger is any object with `write` and `close`."""

from __future__ import annotations

import csv
import io
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from vecenv._util.descriptors import open_standard_descriptors
from vecenv._util.extras import load_extra
from vecenv._util.files import append, open_text, write_file
from vecenv._util.warn import warn_user
from vecenv.errors import ConfigError, MissingExtra


@runtime_checkable
class Logger(Protocol):
    """Takes the curves of a training: `learn(steps, loggers=[TensorBoard("logs"), MyLogger()])`."""

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Take a point of each of these curves; the names are those of Stable-Baselines3 ("rollout/ep_rew_mean")."""
        ...

    def close(self) -> None:
        """Finish. `learn` does not call it: the logger may be used for several trainings."""
        ...


class TensorBoard:
    """Event files for TensorBoard.

    A point is in the file, whole or not at all, when `write` returns. If the disk is full, a warning says so once, and
    later points are written when there is room again. (tensorboardX's own writer waits for ever then.)

    Args:
        directory: where the event file is written; it is created.
    """

    def __init__(self, directory: str | Path) -> None:
        try:
            from tensorboardX.proto import event_pb2  # pyright: ignore[reportMissingImports]  # optional
            from tensorboardX.record_writer import masked_crc32c  # pyright: ignore[reportMissingImports]  # optional
        except ImportError as error:
            raise MissingExtra("TensorBoard events need tensorboardX: pip install 'vecenv[cli]'") from error
        events: Any = event_pb2  # its classes are made at run time
        self._event, self._checksum = events.Event, masked_crc32c
        Path(directory).mkdir(parents=True, exist_ok=True)
        self.path = Path(directory) / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        open_standard_descriptors()
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  # open until close()
        self._due = self._record(self._event(wall_time=time.time(), file_version="brain.Event:2"))
        self._warned = False

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add a point to each of these curves."""
        event = self._event(wall_time=time.time(), step=step)
        for name, value in scalars.items():
            event.summary.value.add(tag=name, simple_value=value)
        try:
            append(self._file, self._due + self._record(event))
            self._due = b""
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn_user(
                    f"{self.path} cannot be written ({error.strerror}): points of TensorBoard's curves are left out "
                    "until it can; make room"
                )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _record(self, event: Any) -> bytes:
        """Length and data, each followed by its checksum."""
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        return b"".join(part + struct.pack("<I", self._checksum(part)) for part in (length, data))


class CSV:
    """A table: a line for each step, a column for each name, empty where a name has no value.

    An existing file is continued. When a new name appears, the file is written again with a column for it.

    Args:
        path: path of the file; its directory is created.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._names: list[str] = ["step"]
        self._warned = False
        if self.path.exists() and self.path.stat().st_size:
            self._continue()
        else:
            write_file(self.path, _line(self._names))
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  # open until close()

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add a line."""
        row = {"step": step, **scalars}
        try:
            self._add_columns([name for name in row if name not in self._names])
            append(self._file, _line([row.get(name, "") for name in self._names]).encode())
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn_user(f"{self.path} cannot be written ({error.strerror}): lines are left out until it can")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _continue(self) -> None:
        """Read the names of an existing file; a line that was cut off, as by a crash, is removed."""
        with open_text(self.path, newline="") as file:
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._names = next(csv.reader(io.StringIO(whole, newline="")), [])
        if "step" not in self._names:
            raise ConfigError(f'{self.path} is no table of CSV: its first line has no "step"; choose another file')
        if whole != text:
            write_file(self.path, whole)

    def _add_columns(self, new: list[str]) -> None:
        if not new:
            return
        with open_text(self.path, newline="") as lines:
            _, *rows = csv.reader(lines)
        names = [*self._names, *new]
        rows = [[*row, *[""] * (len(names) - len(row))] for row in rows]
        write_file(self.path, "".join(map(_line, [names, *rows])))
        self._names = names
        self._file.close()
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  # open until close()


def _line(values: list[Any]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


class WandB:
    """A run of Weights & Biases. Needs `pip install 'vecenv[wandb]'`.

    Args:
        project: name of the project.
        options: further arguments of `wandb.init`: `name`, `config`, `mode="offline"`, `dir`, ...

    Attributes:
        run: wandb's run.
    """

    def __init__(self, project: str, **options: Any) -> None:
        wandb = load_extra("wandb", "WandB needs wandb: pip install 'vecenv[wandb]'")
        self.run: Any = wandb.init(project=project, **options)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add a point to each of these curves."""
        self.run.log(dict(scalars), step=step)

    def close(self) -> None:
        """Finish the run: what is left is sent, or, offline, written."""
        self.run.finish()
