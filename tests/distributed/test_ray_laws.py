"""The six laws on actors, with every local engine inside."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.sampling import slow
from vecenv._batch.batch import Op
from vecenv.engines import Request, registry
from vecenv.engines.process.launch import pickled_factories
from vecenv.engines.python.envs import Factory
from vecenv.engines.ray.engine import RayEngine
from vecenv.engines.ray.options import build_part
from vecenv.testing import LawEnv, _laws, check_engine
from vecenv.testing._law_kernel import law_kernel_engine

pytestmark = pytest.mark.usefixtures("cluster")


def ray_engine(factories: Sequence[Factory], *, local: str = "sync", **options: Any) -> RayEngine:
    def build(start: int, stop: int) -> Any:
        mine = pickled_factories(factories[start:stop], start)
        count = stop - start
        inside = registry.find(local)(**({} if local == "sync" else {"workers": min(2, count)}))
        return partial(build_part, inside, mine, start, Request(count))

    return RayEngine(build, len(factories), num_cpus=0.5, **options)


def test_the_six_laws_hold() -> None:
    check_engine(partial(ray_engine, workers=2))


@pytest.mark.parametrize("local", ["process", *slow("thread")])
def test_any_local_engine_in_one_actor_gives_the_same_bits(local: str) -> None:
    """Engines take seconds to start, so not every law is tried again."""
    _laws.sameness(partial(ray_engine, workers=1, local=local))


@pytest.mark.parametrize("local", ["thread", *slow("process")])
def test_failures_reach_the_front_from_any_local_engine(local: str) -> None:
    _laws.failure(partial(ray_engine, workers=1, local=local))


def test_the_laws_hold_with_native_code_in_the_actors() -> None:
    def kernel_engine(factories: Sequence[Factory]) -> RayEngine:
        def build(start: int, stop: int) -> Any:
            return partial(_part_of_a_kernel, start, stop)

        return RayEngine(build, len(factories), workers=2, num_cpus=0.5)

    _laws.completeness(kernel_engine)
    _laws.sameness(kernel_engine, infos=False)


def _part_of_a_kernel(start: int, stop: int) -> Any:
    engine = law_kernel_engine([None] * (stop - start))  # type: ignore[list-item]  # they are only counted
    engine.set_attr("index", list(range(start, stop)))
    return engine


def test_an_ordered_engine_returns_rows_in_the_order_they_were_sent() -> None:
    with _laws._opened(partial(ray_engine, workers=2, ordered=True)) as engine:
        _laws._reset(engine)
        for rows in ([3], [0, 4], [1], [2]):
            _laws._write(engine, np.array(rows), Op.STEP)
            engine.send(np.array(rows))
        assert [engine.recv(1, 10.0).item() for _ in range(5)] == [3, 0, 4, 1, 2]


def test_final_observations_of_some_envs_of_an_actor_are_those_of_the_sync_engine() -> None:
    factories = [partial(LawEnv, row) for row in range(4)]
    with (
        vecenv.make(factories, engine="ray", workers=2, autoreset="same-step") as mine,
        vecenv.make(factories, engine="sync", autoreset="same-step") as wanted,
    ):
        for envs in (mine, wanted):
            envs.reset(seed=3)
        ends = 0
        for _ in range(8):
            for envs in (mine, wanted):
                envs.send([1, 1], [1, 3])  # the second env of each actor
            ours, theirs = mine.recv(2), wanted.recv(2)
            place = np.argsort(ours.env_ids)
            assert ours.rolled[place].tolist() == theirs.rolled.tolist()
            if theirs.rolled.any():
                ends += 1
                np.testing.assert_array_equal(ours.final_obs[place][theirs.rolled], theirs.final_obs[theirs.rolled])
        assert ends > 1
