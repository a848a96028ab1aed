"""Objects that threads share give each thread what it would get alone, and never crash.

How many calls were made is said in the last lines of a run; FUZZ=5 makes five times as many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fuzz.case_server import CaseServer, case_server
from tests.fuzz.shared_objects import SECONDS, SHARED
from tests.sampling import quick
from tests.trying import tries

QUICK = ("policy of PPO", "VecNormalize", "replay buffer, sample", "returns and advantages", "make of kernels")


@pytest.fixture(scope="module")
def server() -> Iterator[CaseServer]:
    with case_server("tests.fuzz.shared_objects:run") as server:
        yield server


@tries(quick=5, many=60, seconds=3.0)
@pytest.mark.parametrize("name", quick(SHARED, *QUICK))
def test_threads_that_share_it_get_what_they_would_get_alone(
    name: str, count: int, server: CaseServer, tried: Counter[str]
) -> None:
    heavy = name.startswith(("make", "evaluation", "checkpoints", "first", "loaders", "wrappers"))
    rounds = 2 if "processes" in name else max(2, count // 10) if heavy else count
    answer = server.run(2 * SECONDS, name, rounds)
    assert "failed" not in answer, answer["failed"]
    tried["calls of shared objects from threads"] += answer["result"]["calls"]
