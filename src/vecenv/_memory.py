"""Where columns live: on the heap, or in one anonymous block shared with workers.

The shared block has no name, so nothing can be left behind: it is gone with the last process that maps it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
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
    """Adds up how large a shared block must be for the arrays asked of it; the arrays themselves take no room."""

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
        self._map = mmap.mmap(descriptor, size)
        self._offset = 0

    @classmethod
    def create(cls, size: int) -> SharedMemory:
        """Reserve `size` bytes now, so that a full machine is an error here and not a SIGBUS later."""
        size = max(size, mmap.PAGESIZE)
        descriptor = _anonymous_file()
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:
                os.ftruncate(descriptor, size)
            return cls(descriptor, size)
        except OSError as error:
            os.close(descriptor)
            raise MemoryError(
                f"cannot reserve {size / 2**20:.1f} MiB of shared memory for the batch ({error.strerror}); "
                "use fewer envs, smaller observations, or engine='sync'"
            ) from error

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        array = np.ndarray(shape, dtype, buffer=self._map, offset=self._offset)
        self._offset += _padded(shape, dtype)
        return array

    def close_descriptor(self) -> None:
        """Give the file descriptor back. The mapping lives as long as the arrays cut from it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("vecenv", os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp(prefix="vecenv-")
    os.unlink(path)
    return descriptor


def _padded(shape: tuple[int, ...], dtype: np.dtype) -> int:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return -(-size // _ALIGNMENT) * _ALIGNMENT
