"""Hostile envs on every engine of Python envs: no call hangs, no error is raw, no other row is wrong, nothing is left.

How many programs were tried is said in the last lines of a run; FUZZ=5 tries five times as many.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.case_server import case_server
from tests.trying import tries

SECONDS = 60.0


@tries(quick=14, many=150, seconds=2.0)
@pytest.mark.parametrize("engine", ["sync", "thread", "asyncio", "process"])
def test_hostile_envs_harm_nobody_else(engine: str, count: int, tried: Counter[str]) -> None:
    failures = []
    with case_server("tests.fuzz.hostile_programs:run") as server:
        for number in range(count):
            answer = server.run(SECONDS, engine, 0, number)
            tried[f"programs with hostile envs on {engine}"] += 1
            if "failed" in answer:
                failures.append(answer["failed"])
            else:
                tried["rows beside hostile envs"] += answer["result"].get("rows", 0)
    assert not failures, f"{len(failures)} of {count} cases fail; the first:\n{failures[0]}"
