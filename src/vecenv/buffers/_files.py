"""Files of arrays and a text about them (npz). Reading one runs no code."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from vecenv.errors import UnsafeFile


def write_arrays(path: str | Path, about: Any, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays, and whatever JSON can say about them. The file appears whole or not at all."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]  # names are strings
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_arrays(path: str | Path, what: str) -> tuple[Any, dict[str, np.ndarray]]:
    """What `write_arrays` wrote.

    Raises:
        UnsafeFile: it is damaged, or no such file; `what` is what it should have been.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            return about, {name: arrays[name] for name in arrays.files if name != "about"}
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise UnsafeFile(f"{path} is no {what} of vecenv, or damaged: {error}") from error
