"""Files of arrays with a JSON description (npz). Reading one runs no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.files import Archive, new_file, parsed
from vecenv.errors import UnsafeFile

_ABOUT, _SUFFIX = "about", ".npy"


def write_arrays(path: str | Path, about: Any, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays and a JSON description of them. The file appears complete or not at all."""
    with new_file(path) as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]  # names are strings


def read_arrays(path: str | Path, what: str) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the description and the arrays that `write_arrays` wrote.

    Raises:
        UnsafeFile: the file is damaged or of another kind; `what` names the expected kind.
        OSError: it cannot be opened.
    """
    try:
        with Archive(path) as archive:
            arrays = {name.removesuffix(_SUFFIX): archive.array(name) for name in archive.names}
            about = arrays.pop(_ABOUT, None)
            if about is None or about.dtype.kind != "U" or about.shape:
                raise UnsafeFile("it has no description of its arrays")
            return parsed(str(about)), arrays
    except UnsafeFile as error:
        raise UnsafeFile(f"{path} is not a vecenv {what}, or is damaged: {error}; nothing was loaded") from error
