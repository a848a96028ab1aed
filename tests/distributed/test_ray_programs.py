"""Random programs of calls on actors: compared with the model, and with the sync engine.

Without interrupts: Ray has its own handlers and threads for signals (see test_ray_interrupts.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import vecenv
from vecenv.testing import FaultEnv, check_machine, check_same

pytestmark = pytest.mark.usefixtures("cluster", "no_pauses")
MODES = ("next-step", "same-step", "disabled")


def on_actors(factories: Any, mode: str) -> vecenv.VectorEnv:
    return vecenv.make(factories, engine="ray", workers=2, num_cpus=0.5, autoreset=mode)


@pytest.mark.timeout(300)
def test_every_answer_of_actors_is_the_one_of_the_model() -> None:
    tally = check_machine(on_actors, interrupts=False, examples=4, steps=25, bound=40.0, seed=11, shrink=False)
    assert tally["rows"] > 10


def test_actors_answer_as_the_sync_engine_does() -> None:
    def build(engine: str, variant: tuple[str, str]) -> Any:
        mode, kind = variant
        options = {} if engine == "sync" else {"workers": 2, "num_cpus": 0.5}
        envs = FaultEnv.many(4, kind=kind, at=3, length=4, talks=True)
        return vecenv.make(envs, engine=engine, autoreset=mode, **options)

    check_same(
        partial(build, "sync"),
        partial(build, "ray"),
        variants=[(mode, kind) for mode in MODES for kind in ("raise", "obs-shape", "none")],
        calls=[("poke", 2), ("nothing",)],
        attributes={"length": [3, 5]},
        examples=3,
        seed=1,
        shrink=False,
    )
