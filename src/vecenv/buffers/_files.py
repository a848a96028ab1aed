"""Files of arrays and a text about them (npz). Reading one runs no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.files import Archive, new_file, parsed
from vecenv.errors import UnsafeFile

_ABOUT, _SUFFIX = "about", ".npy"


def write_arrays(path: str | Path, about: Any, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays, and whatever JSON can say about them. The file appears whole or not at all."""
    with new_file(path) as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]  # names are strings


def read_arrays(path: str | Path, what: str) -> tuple[Any, dict[str, np.ndarray]]:
    """What `write_arrays` wrote.

    Raises:
        UnsafeFile: it is damaged, or no such file; `what` is what it should have been.
        OSError: it cannot be opened.
    """
    try:
        with Archive(path) as archive:
            arrays = {name.removesuffix(_SUFFIX): archive.array(name) for name in archive.names}
            about = arrays.pop(_ABOUT, None)
            if about is None or about.dtype.kind != "U" or about.shape:
                raise UnsafeFile("there is no text about the arrays inside")
            return parsed(str(about)), arrays
    except UnsafeFile as error:
        raise UnsafeFile(f"{path} is no {what} of vecenv, or damaged: {error}; nothing was loaded") from error
