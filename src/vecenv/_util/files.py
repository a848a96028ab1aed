"""Files that are written whole or not at all, and read without trust.

Files that are read may be damaged or hostile: no code is run, memory and time are bounded by the size of the file, and
only regular files are read, since a pipe may never end.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import os
import secrets
import stat
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from vecenv.errors import UnsafeFile

_DEEPEST = 100
"""The most nested levels of JSON that are read; vecenv's files have about ten."""
_NUMBERS_AND_TEXT = "biufU"
"""Kinds of NumPy's dtypes in vecenv's files."""
_TEMPORARY = ".vecenv-part"
"""Suffix of a file that is being written. Its writer holds a lock on it, which ends with the writer's process."""
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags that Windows does not have: opening a pipe returns at once, opening a terminal does not take it over."""


def write_file(path: str | os.PathLike[str], data: bytes | str) -> None:
    """Write a whole file, text as UTF-8; see `new_file`."""
    with new_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_table(path: str | os.PathLike[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file; see `new_file`."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    write_file(path, text.getvalue())


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], *, replace: bool = True, private: bool = False) -> Iterator[IO[bytes]]:
    """A binary file that appears under its name, synced to disk, when the block ends without an error.

    Until then the bytes are in a temporary file in the same folder, which is removed on failure. Temporary files of
    writers that were killed are removed too, from the whole folder. A symbolic link to a file that is replaced is
    followed, and a device or pipe is written directly, unless the file is private.

    Args:
        path: of the file, which may exist. Its folder exists.
        replace: whether an existing file is replaced; the new one gets at most its permissions.
        private: only the owner may read the file.

    Raises:
        FileExistsError: there is such a file and `replace` is False.
        OSError: the file cannot be written. The error names `path`, and an existing file is unchanged.
    """
    follow = replace and not private
    target = Path(os.path.realpath(path) if follow else path)
    try:
        if follow and os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as file:
                yield file
            return
        mode = 0o600 if private else stat.S_IMODE(target.stat().st_mode) if target.is_file() else 0o666
        with _temporary_file(target, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # Windows renames no open file
            _publish(Path(file.name), target, replace)  # under the lock: else it looks like a leftover
    except OSError as error:
        if error.errno is None and os.fspath(path) not in str(error):  # Pillow's errors, for example
            raise OSError(f"{os.fspath(path)} could not be written: {error}") from error
        if error.errno is not None and (error.filename is None or str(error.filename).endswith(_TEMPORARY)):
            error.filename = os.fspath(path)
        raise


@contextlib.contextmanager
def _temporary_file(target: Path, mode: int) -> Iterator[IO[bytes]]:
    """A new file beside `target`, locked, which is removed at the end unless it was renamed."""
    _remove_leftovers(target.parent)
    while True:
        temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}{_TEMPORARY}")
        try:
            with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                with contextlib.suppress(ImportError, OSError):  # Windows; file systems without locks
                    if not _lock(file.fileno()) or not temporary.exists():
                        continue  # in this moment another writer has taken it for a leftover
                yield file
                return
        finally:
            temporary.unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that were killed."""
    with contextlib.suppress(ImportError, OSError):
        for name in os.listdir(folder):
            if name.endswith(_TEMPORARY):
                with contextlib.suppress(OSError):  # it is gone, or belongs to another user
                    descriptor = os.open(folder / name, os.O_RDONLY | _NO_LINKS | _NO_WAITING)
                    try:
                        if _lock(descriptor):
                            os.unlink(folder / name)
                    finally:
                        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a temporary file; False if its writer, or a process that removes it, holds the lock."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _publish(temporary: Path, target: Path, replace: bool) -> None:
    """Give a complete file its name."""
    if replace:
        os.replace(temporary, target)
    else:
        try:
            os.link(temporary, target)
        except OSError:
            if os.path.lexists(target):
                raise FileExistsError(f"{target} exists and is not replaced; choose another name") from None
            os.replace(temporary, target)  # a file system without hard links
    with contextlib.suppress(OSError):  # Windows opens no folders; some file systems do not sync them
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def append(file: Any, data: bytes) -> None:
    """Add data to a file without a buffer: all of it, or nothing and OSError is raised."""
    start, left = file.seek(0, os.SEEK_END), memoryview(data)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError:
        with contextlib.suppress(OSError):
            file.truncate(start)
        raise


def open_file(path: str | os.PathLike[str], *, links: bool = True) -> IO[bytes]:
    """Open a regular file for reading.

    Args:
        path: of the file.
        links: whether the path may be a symbolic link.

    Raises:
        UnsafeFile: it is a pipe or a device, which may have no end.
        OSError: it cannot be opened.
    """
    extra = _NO_WAITING if links else _NO_WAITING | _NO_LINKS
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | extra))  # noqa: SIM115  # the caller's
    mode = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(mode):
        file.close()
        raise UnsafeFile(f"it is a {'pipe' if stat.S_ISFIFO(mode) else 'device'}; only regular files are read")
    return file


def open_text(path: str | os.PathLike[str], newline: str | None = None) -> IO[str]:
    """The same for text in UTF-8."""
    return io.TextIOWrapper(open_file(path), "utf-8", newline=newline)


def write_archive(file: IO[bytes], header: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Write what `Archive` reads: `header.json`, and an entry `name.npy` per array."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=array.nbytes > 1 << 31) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


class Archive:
    """A zip archive of JSON texts and arrays, as NumPy's `savez` writes it: without compression.

    Args:
        path: of the file, or an open one.

    Raises:
        UnsafeFile: it is not such an archive, or its directory lists more bytes than it has.
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | Path | IO[bytes]) -> None:
        self._file = open_file(path) if isinstance(path, (str, Path)) else path
        try:
            self._size = self._file.seek(0, os.SEEK_END)
            self._archive = _opened(self._file)
            self._entries = {entry.filename: entry for entry in self._archive.infolist()}
            self._check()
        except BaseException:
            self._file.close()
            raise

    @property
    def names(self) -> list[str]:
        """Names of the entries."""
        return list(self._entries)

    def read(self, name: str) -> bytes:
        """An entry as it is. Raises UnsafeFile if it is missing or damaged."""
        try:
            with self._archive.open(self._entry(name)) as stream:
                return stream.read()
        except UnsafeFile:
            raise
        except Exception as error:  # a damaged file can raise any error
            raise UnsafeFile(f"{name} inside is damaged ({type(error).__name__}: {error!s:.200})") from error

    def array(self, name: str, kinds: str = _NUMBERS_AND_TEXT) -> np.ndarray:
        """The array of an entry. Raises UnsafeFile if it is missing, damaged, too large, or of another dtype."""
        entry = self._entry(name)
        try:
            with self._archive.open(entry) as stream:
                _check_header(stream, entry, self._size, kinds)
            with self._archive.open(entry) as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
                stream.read(1)  # the checksum is checked at the end of the entry
                return array
        except UnsafeFile:
            raise
        except Exception as error:  # as above
            raise UnsafeFile(f"{name} inside is damaged ({type(error).__name__}: {error!s:.200})") from error

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exception: object) -> None:
        self._archive.close()
        self._file.close()

    def _entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self._entries:
            raise UnsafeFile(f"there is no {name} inside")
        return self._entries[name]

    def _check(self) -> None:
        entries = self._archive.infolist()
        if len(self._entries) != len(entries):
            raise UnsafeFile("the archive has several entries of one name")
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise UnsafeFile("the archive is compressed or encrypted, vecenv's never are")
        if sum(entry.file_size for entry in entries) > self._size:
            raise UnsafeFile(f"the archive lists more bytes than the {self._size} that it has")


def parsed(text: str | bytes) -> Any:
    """The value of JSON text. Raises UnsafeFile if it is not JSON, is nested too deeply, or has a key twice."""
    try:
        found = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:  # RecursionError: brackets within brackets
        raise UnsafeFile(f"the text is not JSON that vecenv writes ({type(error).__name__}: {error!s:.200})") from error
    if _deeper(found, _DEEPEST):
        raise UnsafeFile(f"the JSON is nested more than {_DEEPEST} levels deep")
    return found


def _opened(file: IO[bytes]) -> zipfile.ZipFile:
    file.seek(0)
    start = file.read(4)
    file.seek(0)
    if start[:2] != b"PK":
        kind = (
            "empty" if not start else "a pickle" if start[:1] == b"\x80" else f"no archive (it begins with {start!r})"
        )
        raise UnsafeFile(f"the file is {kind}; an archive of plain data is needed")
    try:
        return zipfile.ZipFile(file)
    except Exception as error:
        raise UnsafeFile(f"the archive is damaged or cut off ({type(error).__name__}: {error!s:.200})") from error


def _check_header(stream: IO[bytes], entry: zipfile.ZipInfo, size: int, kinds: str) -> None:
    """Raise UnsafeFile unless an array is of a plain dtype and as large as its entry, before any memory is taken."""
    major = np.lib.format.read_magic(stream)[0]
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise UnsafeFile(f"{entry.filename} inside holds Python objects, which would run code when they are loaded")
    if dtype.kind not in kinds or not dtype.isnative or not dtype.itemsize:
        raise UnsafeFile(f"{entry.filename} inside has the dtype {dtype!s:.60}; vecenv's files hold plain numbers")
    rows = math.prod(itertools.takewhile(bool, shape))  # an array without elements can still have 10**12 empty rows
    if math.prod(shape) * dtype.itemsize != entry.file_size - stream.tell() or rows > size:
        raise UnsafeFile(f"{entry.filename} inside says {shape!s:.200} {dtype}, which is not the size it has")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inside)
