"""Files of arrays and a header: data only. Written whole or not at all, read without running anything.

A file is an `.npz` without compression: `header.json` (format, version, contents, SHA-256 of the contents and of all
arrays) and `0.npy`, `1.npy`, ...
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from vecenv._util.files import Archive, new_file, open_file, parsed, write_archive
from vecenv.engines.recording.values import KINDS
from vecenv.errors import UnsafeFile

_HEADER = "header.json"
_LARGEST = 1 << 30
"""Bytes of a file. What is larger was not written by us and is not read."""


def write(path: Path, name: str, version: int, contents: Any, arrays: list[np.ndarray]) -> None:
    """Write a new file that only its owner may read.

    Raises:
        FileExistsError: there is one; nothing is ever replaced.
        OSError: it cannot be written; then nothing is there.
    """
    body = json.dumps(contents)
    arrays = [np.ascontiguousarray(array).reshape(array.shape) for array in arrays]
    header = {"format": name, "version": version, "sha256": _digest(body, arrays), "contents": body}
    with new_file(path, replace=False, private=True) as file:
        write_archive(file, header, {str(place): array for place, array in enumerate(arrays)})


def read(path: Path, name: str, version: int) -> tuple[Any, list[np.ndarray]]:
    """What `write` wrote: the contents and the arrays.

    Raises:
        OSError: it cannot be opened.
        UnsafeFile: it is another format or version, is damaged, or holds what ours never do.
    """
    try:
        with open_file(path) as file:
            return _read(file, name, version)
    except UnsafeFile as error:
        raise UnsafeFile(f"{path}: {error}; nothing was loaded") from None
    except OSError:
        raise
    except Exception as error:  # a file can be wrong in any way
        raise UnsafeFile(f"{path} is damaged ({type(error).__name__}: {error!s:.200}); nothing was loaded") from error


def _read(file: IO[bytes], name: str, version: int) -> tuple[Any, list[np.ndarray]]:
    if os.fstat(file.fileno()).st_size > _LARGEST:
        raise UnsafeFile(f"it has more than {_LARGEST:,} bytes, ours never have")
    with Archive(file) as archive:
        entries = [f"{place}.npy" for place in range(len(archive.names) - 1)]
        if sorted(archive.names) != sorted([_HEADER, *entries]):
            raise UnsafeFile(f"its entries are {archive.names!r:.200}, that is not ours")
        header = parsed(archive.read(_HEADER))
        if not isinstance(header, dict) or header.get("format") != name:
            raise UnsafeFile(f"it is no {name}")
        if header.get("version") != version:
            known = f"this vecenv reads version {version}"
            raise UnsafeFile(f"it has version {header.get('version')!r:.20} of the format, {known}; update vecenv")
        arrays = [archive.array(entry, KINDS) for entry in entries]
    body = header["contents"]
    if type(body) is not str or header["sha256"] != _digest(body, arrays):
        raise UnsafeFile("its contents are not those it was written with")
    return json.loads(body), arrays


def _digest(body: str, arrays: list[np.ndarray]) -> str:
    digest = hashlib.sha256(body.encode())
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
