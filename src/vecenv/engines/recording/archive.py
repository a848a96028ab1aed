"""Files of arrays and a header: data only. Written whole or not at all, read without running anything.

A file is an `.npz` without compression: `header.json` (format, version, contents, SHA-256 of the contents and of all
arrays) and `0.npy`, `1.npy`, ...
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.files import new_file, write_archive
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
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, _LARGEST))  # as many bytes are taken as are asked for
    if size > _LARGEST:
        raise UnsafeFile(f"{path} has more than {_LARGEST:,} bytes, ours never have; nothing was loaded")
    try:
        return _read(data, name, version)
    except UnsafeFile as error:
        raise UnsafeFile(f"{path}: {error}; nothing was loaded") from None
    except Exception as error:  # a file can be wrong in any way
        raise UnsafeFile(f"{path} is damaged ({type(error).__name__}: {error!s:.200}); nothing was loaded") from error


def _read(data: bytes, name: str, version: int) -> tuple[Any, list[np.ndarray]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise UnsafeFile("the archive is compressed, ours never are")
        if sum(entry.file_size for entry in entries) > len(data):
            raise UnsafeFile("the entries of the archive are larger than the file")
        if sorted(entry.filename for entry in entries) != sorted([_HEADER, *_names(len(entries) - 1)]):
            raise UnsafeFile(f"its entries are {[entry.filename for entry in entries]!r:.200}, that is not ours")
        header = json.loads(archive.read(_HEADER))
        if not isinstance(header, dict) or header.get("format") != name:
            raise UnsafeFile(f"it is no {name}")
        if header.get("version") != version:
            known = f"this vecenv reads version {version}"
            raise UnsafeFile(f"it has version {header.get('version')!r:.20} of the format, {known}; update vecenv")
        arrays = [_array(archive.read(entry)) for entry in _names(len(entries) - 1)]
    body = header["contents"]
    if type(body) is not str or header["sha256"] != _digest(body, arrays):
        raise UnsafeFile("its contents are not those it was written with")
    return json.loads(body), arrays


def _names(count: int) -> list[str]:
    return [f"{place}.npy" for place in range(count)]


def _array(data: bytes) -> np.ndarray:
    """One array. Its header is believed only if it agrees with the bytes that are there."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise UnsafeFile("an array has a header that ours never have")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in KINDS or fortran:
        raise UnsafeFile(f"an array has the dtype {dtype!s:.60}, ours are plain numbers")
    count = 1
    for length in shape:
        count *= length
    rest = data[file.tell() :]
    if any(length < 0 for length in shape) or count * dtype.itemsize != len(rest):
        raise UnsafeFile(f"an array of shape {shape} and dtype {dtype} has {len(rest)} bytes")
    return np.frombuffer(rest, dtype).reshape(shape).copy()


def _digest(body: str, arrays: list[np.ndarray]) -> str:
    digest = hashlib.sha256(body.encode())
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
