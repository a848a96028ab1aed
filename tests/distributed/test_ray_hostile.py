"""Hostile envs on actors: no call hangs, no error is raw, no other row is wrong. See tests/fuzz/hostile_programs.py."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.hostile_programs import run
from tests.trying import TIMES

pytestmark = pytest.mark.usefixtures("cluster", "no_pauses")
CASES = 12 * TIMES


@pytest.mark.slow
@pytest.mark.timeout(60 + 60 * CASES)
def test_hostile_envs_on_actors_harm_nobody_else(tried: Counter[str]) -> None:
    for number in range(CASES):
        tried["rows beside hostile envs"] += run("ray", 0, number).get("rows", 0)
        tried["programs with hostile envs on ray"] += 1
