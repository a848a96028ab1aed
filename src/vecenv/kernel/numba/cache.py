"""Native code on disk: one file per key, shared by processes, bounded in size.

A file is written aside and renamed, so no process ever reads half of one. Its modification time is the time of its last
use. When the cache grows beyond its bound, the files that were not used for the longest time are deleted. A process
that has loaded code does not need the file any more.

What is loaded runs. So a directory and a file are used only if they belong to this user (or to root) and no other user
can write to them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from vecenv._util.files import new_file, open_file
from vecenv._util.warn import warn_user
from vecenv.errors import ConfigError, UnsafeFile

_MAGIC = b"vecenv kernel 1\n"
_KEY = re.compile(r"[0-9a-f]{64}")
_LOCK = ".lock"
_LONGEST_WAIT = 60.0
"""Seconds that a process waits for another that compiles the same."""
_DEFAULT_SIZE = "512M"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def cache_directory() -> Path | None:
    """Where native code is kept, made if it is missing: `$VECENV_CACHE_DIR`, else the user's cache directory.

    A directory that others can write to is not used, with a warning. None if there is no other either, or if it cannot
    be made: then every process compiles for itself.
    """
    try:
        for directory in _directories():
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            reason = _foreign(directory.stat())
            if reason is None:
                return directory
            _warn_once(directory, reason)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        pass
    return None


def _directories() -> Iterator[Path]:
    chosen, root = os.environ.get("VECENV_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if chosen:
        yield Path(chosen)
    yield (Path(root) if root else Path.home() / ".cache") / "vecenv" / "kernels"


def _foreign(status: os.stat_result) -> str | None:
    """Why somebody else may have written a file or directory, None if only this user and root can have."""
    if not hasattr(os, "geteuid"):  # Windows keeps users apart in another way
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to another user (uid {status.st_uid})"
    if stat.S_IMODE(status.st_mode) & 0o022:
        return f"other users can write to it (mode {stat.S_IMODE(status.st_mode):o})"
    return None


@functools.cache
def _warn_once(directory: Path, reason: str) -> None:
    with contextlib.suppress(Warning):  # warnings as errors must not stop a program that can go on
        warn_user(
            f"the kernel cache {directory} is not used: {reason}, and code that others put there would run here. "
            "Kernels are compiled and kept in a directory of your own, if there is one; to use this one, make it yours "
            "alone (chown, chmod 700), or set VECENV_CACHE_DIR to another"
        )


def cache_size() -> int:
    """Bytes that the cache may hold: `$VECENV_CACHE_SIZE`, else 512 MiB. Raises ConfigError if that is no size."""
    text = os.environ.get("VECENV_CACHE_SIZE") or _DEFAULT_SIZE
    found = re.fullmatch(r"([0-9]+)([KMG]?)", text.strip().upper())
    if found is None:
        raise ConfigError(f"VECENV_CACHE_SIZE is {text!r:.60}; give a number of bytes, or of K, M or G: 512M, 2G")
    return int(found[1]) * _UNITS[found[2]]


def find(key: str) -> tuple[bytes, str] | None:
    """The object file of a key and the symbol in it; None if the cache has none, a damaged one, or somebody else's."""
    directory = cache_directory()
    if directory is None:
        return None
    path = directory / key
    try:
        with open_file(path, links=False) as file:
            if _foreign(os.fstat(file.fileno())) is not None:
                return None
            data = file.read()
    except (OSError, UnsafeFile):
        return None
    magic, digest, rest = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if magic != _MAGIC or hashlib.sha256(rest).digest() != digest:
        return None
    with contextlib.suppress(OSError):  # it may be root's, or gone
        os.utime(path)
    symbol, _, code = rest.partition(b"\n")
    return code, symbol.decode()


def store(key: str, code: bytes, symbol: str) -> None:
    """Add an object file, and delete old ones if there is no room. Raises OSError if the cache cannot be written."""
    directory = cache_directory()
    if directory is None:
        return
    rest = symbol.encode() + b"\n" + code
    with new_file(directory / key, private=True) as file:
        file.write(_MAGIC + hashlib.sha256(rest).digest() + rest)
    _make_room(directory, key)


@contextlib.contextmanager
def locked(key: str) -> Iterator[None]:
    """Wait until no other process compiles the code of this key, so that eight that start at once compile it once.

    Other keys are compiled meanwhile. The lock only saves work: it ends with the process that holds it, and a process
    waits at most a minute. Where there are no locks or no directory, nothing is locked.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, ImportError):
            directory = cache_directory()
            deadline = time.monotonic() + _LONGEST_WAIT
            path = directory and directory / f"{key}{_LOCK}"
            while path and not stack.enter_context(_holding(path)) and time.monotonic() < deadline:
                stack.close()
                time.sleep(0.05)
        yield


@contextlib.contextmanager
def _holding(path: Path) -> Iterator[bool]:
    """Try to hold the lock of a file, which is deleted afterwards; yields whether it is held."""
    import fcntl

    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.stat(path).st_ino == os.fstat(lock).st_ino  # its last holder may have deleted it
        except (BlockingIOError, FileNotFoundError):
            held = False
        try:
            yield held
        finally:
            if held:
                with contextlib.suppress(OSError):
                    path.unlink()  # before it is released
    finally:
        os.close(lock)


def _make_room(directory: Path, newest: str) -> None:
    """Delete what was not used for the longest time until the cache fits its bound, and what dead processes left.

    The newest file stays, however large it is; so does one that is being compiled or was used since it was looked at.
    """
    bound, entries = cache_size(), []
    for path in directory.iterdir():
        with contextlib.suppress(OSError, ImportError):  # another process may delete it; Windows has no such locks
            status = path.lstat()
            if _KEY.fullmatch(path.name):
                entries.append((status.st_mtime_ns, status.st_size, path))
            elif path.name.endswith(_LOCK) and _KEY.match(path.name):
                with _holding(path):
                    pass
    total = sum(size for _, size, _ in entries)
    for used, size, path in sorted(entries):
        if total <= bound:
            return
        if path.name == newest or path.with_name(f"{path.name}{_LOCK}").exists():
            continue
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime_ns == used:
                path.unlink()
                total -= size
