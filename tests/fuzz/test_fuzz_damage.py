"""Damaged files of every kind: an error of ours that names the file, or harmless; nothing else happens, ever.

`FUZZ=20 pytest tests/fuzz` tries twenty times as many.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.fuzzing import ARCHIVE_DAMAGES, DAMAGES
from tests.fuzz.loaders import ARCHIVES, CHECKPOINTS, EVERY, PICKLES, TEXTS
from tests.trying import TIMES

COUNTS = {
    **dict.fromkeys(ARCHIVES, 210),
    **dict.fromkeys(CHECKPOINTS, 105),
    **dict.fromkeys(PICKLES, 400),
    **dict.fromkeys(TEXTS, 250),
}


@pytest.mark.timeout(60 * TIMES)
@pytest.mark.parametrize("name", EVERY)
def test_damaged_files_are_refused_or_harmless(name: str, tmp_path: Path, record_property: object) -> None:
    (tmp_path / "saving").mkdir()
    (tmp_path / "loading").mkdir()
    with EVERY[name](tmp_path / "saving") as loader:
        assert loader.attempt(loader.data, tmp_path / "loading") is None, "the right file is refused"
        count = COUNTS[name] * TIMES
        loader.fuzz(tmp_path / "loading", count, DAMAGES if name in {**PICKLES, **TEXTS} else ARCHIVE_DAMAGES)
        assert loader.attempt(loader.data, tmp_path / "loading") is None, "the right file is refused now"
        assert loader.result["refused"] > count // 5
        print(f"{name}: {count} files, {dict(loader.result)}")
