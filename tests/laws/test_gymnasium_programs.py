"""Random programs of calls on random envs give what Gymnasium's SyncVectorEnv gives, infos included, to the last bit.

How many programs were tried is said in the last lines of a run; FUZZ=5 tries five times as many.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import Any

import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv
from tests.laws.building import ENGINES
from tests.laws.random_envs import RandomEnv
from tests.trying import tries
from vecenv.testing import check_same

MODES = {
    "next-step": AutoresetMode.NEXT_STEP,
    "same-step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}
COSTS = {"sync": 1, "thread": 2, "fork": 4}
"""How much a program costs there."""
Variant = tuple[str, int, int]


def ours(engine: str, variant: Variant) -> Any:
    mode, drawn, count = variant
    options = dict(ENGINES[engine])
    if "workers" in options:
        options["workers"] = min(2, count)
    return vecenv.make([partial(RandomEnv, drawn)] * count, autoreset=mode, **options)


def theirs(variant: Variant) -> Any:
    mode, drawn, count = variant
    return SyncVectorEnv([partial(RandomEnv, drawn)] * count, autoreset_mode=MODES[mode])


@tries(quick=16, many=300, seconds=1.0)
@pytest.mark.parametrize("engine", COSTS)
def test_random_programs_give_what_gymnasium_gives(engine: str, count: int, tried: Counter[str]) -> None:
    programs = max(1, count // COSTS[engine])
    seed = None if programs < 100 else int.from_bytes(os.urandom(4), "little")
    tally = check_same(
        partial(ours, engine),
        theirs,
        variants=[(list(MODES)[drawn % 3], drawn, 1 + drawn % 5) for drawn in range(4 * programs)],
        calls=[("doubled", 3), ("episodes",), ("shortest",)],
        attributes={"shortest": [2, [1, 2, 3, 4, 5]]},
        asynchronous=False,
        options=[None, {"level": 3}, {}],
        examples=programs,
        shrink=False,
        seed=seed,
    )
    tried[f"programs on {engine} and Gymnasium's SyncVectorEnv"] += tally["programs"]
    tried["calls compared with Gymnasium's SyncVectorEnv"] += tally["calls"]
