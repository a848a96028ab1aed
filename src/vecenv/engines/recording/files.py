"""The files that one vector env writes: where, how many, and what if that fails."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import warnings
from pathlib import Path

from vecenv.engines.recording.describe import name_of
from vecenv.engines.recording.recording import Recording

MOST_FILES = 100
"""Of one vector env; the oldest of its own go first."""


class Folder:
    """Writes recordings into a folder, which is made when the first one is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: collections.deque[Path] = collections.deque()
        self._numbers = itertools.count()
        self._warned = False

    def write(self, recording: Recording) -> str | None:
        """The path of a new file; None, after a warning, if there cannot be one. Never raises an Exception."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            path = self._save(recording)
            self._written.append(path)
            while len(self._written) > MOST_FILES:
                self._written.popleft().unlink(missing_ok=True)
            return str(path)
        except Exception as error:
            self.complain(error)
            return None

    def complain(self, error: Exception) -> None:
        """Say, once, that there is no recording. A warning that is an error must not hide the env's own failure."""
        if not self._warned:
            self._warned = True
            with contextlib.suppress(Warning):
                warnings.warn(
                    f"a failure could not be recorded in {self.path}: {type(error).__name__}: {error}; further ones "
                    "are not warned of",
                    RuntimeWarning,
                    stacklevel=5,
                )

    def _save(self, recording: Recording) -> Path:
        start = f"{name_of(recording.build)}-env{recording.row}-{os.getpid()}"
        for number in self._numbers:
            with contextlib.suppress(FileExistsError):  # another vector env of this process
                return recording.save(self.path / f"{start}-{number}.npz")
        raise AssertionError
