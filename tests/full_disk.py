"""A disk that is full, as far as one process can tell."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def full_disk(size: int) -> Iterator[Callable[[], None]]:
    """Files of this process cannot grow beyond this size; yields a function that ends that.

    Modules that are imported meanwhile are not cached: CPython 3.11 does not notice that its file is cut off.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
