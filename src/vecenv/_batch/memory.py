"""Where columns are: on the heap, or in one anonymous block shared with workers.

The shared block has no name, so nothing can be left behind: it is gone with the last process that maps it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

_ALIGNMENT = 128
"""Columns start on their own pair of cache lines (x86 prefetches lines in pairs)."""


class Memory(Protocol):
    """Hands out zeroed arrays."""

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray: ...


class HeapMemory:
    """Ordinary NumPy arrays."""

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return np.zeros(shape, dtype)


class MeasuringMemory:
    """Adds up how large a shared block must be for the arrays that are asked for; these arrays take no memory."""

    def __init__(self) -> None:
        self.size = 0

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        self.size += _padded(shape, dtype)
        return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, (0,) * len(shape))


class SharedMemory:
    """Cuts arrays from one shared mapping, in the order they are asked for.

    Two processes that ask for the same arrays in the same order get the same arrays.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size = size
        self._map = mmap.mmap(descriptor, size)
        self._offset = 0

    @classmethod
    def create(cls, size: int, purpose: Callable[[], str] = lambda: "the batch") -> SharedMemory:
        """Reserve `size` bytes now: a full machine is a MemoryError that names `purpose`, and not a SIGBUS later."""
        size = max(size, mmap.PAGESIZE)
        free = free_memory()
        if free is not None and size > free:  # asking the kernel instead would wake its out-of-memory killer
            raise MemoryError(
                f"{purpose()} need {size / 2**20:.1f} MiB of shared memory, {free / 2**20:.1f} MiB are free; "
                "use fewer envs or smaller observations"
            )
        descriptor = _anonymous_file()
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.ftruncate(descriptor, size)
            os.lseek(descriptor, 0, os.SEEK_END)  # an env that writes into every open file writes behind the batch
            return cls(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            raise MemoryError(
                f"cannot reserve {size / 2**20:.1f} MiB of shared memory for {purpose()} ({error.strerror}); "
                "use fewer envs, smaller observations, or engine='sync'"
            ) from error

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        array = np.ndarray(shape, dtype, buffer=self._map, offset=self._offset)
        self._offset += _padded(shape, dtype)
        return array

    def close_descriptor(self) -> None:
        """Give the file descriptor back. The mapping stays as long as the arrays cut from it."""
        descriptor, self.descriptor = self.descriptor, -1  # first: after an interrupt it is not closed again
        if descriptor >= 0:
            os.close(descriptor)


def free_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that are free for this machine and this container; None if unknown."""
    second = _allowance(cgroup, "memory.max", "memory.current")
    first = _allowance(cgroup / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
    return min((amount for amount in (_available(meminfo), second, first) if amount is not None), default=None)


def out_of_memory_kills(cgroup: Path = Path("/sys/fs/cgroup"), vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """How often the kernel killed a process for want of memory, in this container or on this machine; None: unknown."""
    for file in (cgroup / "memory.events", cgroup / "memory" / "memory.oom_control", vmstat):
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(dict(line.split() for line in file.read_text().splitlines())["oom_kill"])
    return None


def _available(meminfo: Path) -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _allowance(cgroup: Path, limit: str, used: str) -> int | None:
    """What a cgroup still grants. Cached files count as used there, but they give way."""
    try:
        allowed, taken = int((cgroup / limit).read_text()), int((cgroup / used).read_text())
        amounts = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such file, or "max"
        return None
    cached = sum(int(amounts.get(name, 0)) for name in ("active_file", "inactive_file"))
    return max(0, allowed - taken + cached)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("vecenv", os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp(prefix="vecenv-")
    os.unlink(path)
    return descriptor


def _padded(shape: tuple[int, ...], dtype: np.dtype) -> int:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return -(-size // _ALIGNMENT) * _ALIGNMENT
