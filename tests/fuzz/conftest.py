"""Counts the files that were tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _count_files(tried: Counter[str]) -> Iterator[None]:
    from tests.fuzz.fuzzing import TRIED

    before = TRIED["files"]
    yield
    if TRIED["files"] > before:
        tried["damaged or hostile files"] += TRIED["files"] - before
