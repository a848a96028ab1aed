"""Files mutated from real ones: every loader ends soon with an error of ours, or with what a right file gives.

Each kind of file is loaded in a process of its own, with limited memory, where everything that a loader imports, runs,
writes or connects to is seen. How many files were tried is said in the last lines of a run; FUZZ=5 tries five times as
many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fuzz.case_server import CaseServer, case_server
from tests.fuzz.loaders import EVERY
from tests.sampling import quick
from tests.trying import tries

QUICK = ("VecNormalize", "VecNormalize of SB3", "recording", "config.json")


@pytest.fixture(scope="module")
def server() -> Iterator[CaseServer]:
    with case_server("tests.fuzz.file_cases:run") as server:
        yield server


@tries(quick=50, many=600, seconds=0.5)
@pytest.mark.parametrize("name", quick(EVERY, *QUICK))
def test_mutated_files_are_refused_or_harmless(name: str, count: int, server: CaseServer, tried: Counter[str]) -> None:
    answer = server.run(30 + 0.4 * count, name, 1, count)
    assert "failed" not in answer, answer["failed"]
    tried["mutated files in processes of their own"] += answer["result"]["files"]
    tried["of them refused"] += answer["result"].get("refused", 0)
