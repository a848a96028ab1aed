"""The actor whose rows answer one by one, without Ray: it is a class with a coroutine."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from functools import partial
from typing import Any

import cloudpickle
import numpy as np

from tests.aio.async_envs import AsyncLawEnv, Waiting
from vecenv._batch.batch import Op
from vecenv._batch.faults import Fault
from vecenv.engines.aio.engine import AsyncioEngine
from vecenv.engines.python.sync import SyncEngine
from vecenv.engines.ray.actor import ActorRequest, Built, LastSeen, Seen
from vecenv.engines.ray.concurrent_actor import ConcurrentRowActor
from vecenv.testing import LawEnv


def actor(fns: Any, last_seen: LastSeen | None = None, **options: Any) -> ConcurrentRowActor:
    made = ConcurrentRowActor(cloudpickle.dumps(partial(AsyncioEngine, fns, **options)), [], 10, last_seen)
    assert isinstance(made.build(), Built)
    return made


def request(row: int, op: Op, number: int, action: int = 1, seed: int = -1) -> ActorRequest:
    only, seeds = np.array([row]), np.array([seed])
    return ActorRequest(only, np.array([op], np.uint8), seeds, seeds, [np.array([action])], number=number)


def run(made: ConcurrentRowActor, main: Any) -> Any:
    try:
        return asyncio.run(main(made))
    finally:
        made.close()


def test_rows_answer_as_they_finish_and_what_is_sent_twice_runs_once() -> None:
    async def main(made: ConcurrentRowActor) -> Any:
        await asyncio.gather(*(made.run(request(row, Op.RESET, 1)) for row in range(3)))
        slow = asyncio.ensure_future(made.run(request(0, Op.STEP, 2)))
        quick = [await made.run(request(1, Op.STEP, number, action=number)) for number in (2, 3)]
        assert not slow.done()
        again = await asyncio.gather(slow, made.run(request(0, Op.STEP, 2)), made.run(request(1, Op.STEP, 3)))
        return [answer.obs[0][0].tolist() for answer in [*quick, *again]]

    seen = run(actor([partial(Waiting, 0, 0.5), partial(Waiting, 1), partial(Waiting, 2)]), main)
    assert [[number, steps] for number, steps, _ in seen] == [[1, 1], [1, 2], [0, 1], [0, 1], [1, 2]]


def test_the_bits_are_those_of_the_sync_engine() -> None:
    async def main(made: ConcurrentRowActor) -> Any:
        answers = [await made.run(request(0, Op.RESET, 1, seed=5))]
        answers += [await made.run(request(0, Op.ROLL, number)) for number in range(2, 10)]
        return [(answer.obs[0][0].tolist(), answer.kept["reward"][0], len(answer.ended)) for answer in answers]

    engine = SyncEngine([partial(LawEnv, 0)])
    batch, wanted = engine.batch, []
    for number in range(1, 10):
        batch.op[0], batch.seed[0], batch.actions[0][0] = (Op.RESET, 5, 1) if number == 1 else (Op.ROLL, -1, 1)
        engine.send(np.array([0]))
        engine.recv(1)
        ended = int(batch.terminated[0] or batch.truncated[0])
        wanted.append((batch.obs[0][0].tolist(), batch.reward[0], ended))
    assert run(actor([partial(AsyncLawEnv, 0)]), main) == wanted


def test_a_failure_is_that_of_its_row_counted_among_all() -> None:
    async def main(made: ConcurrentRowActor) -> Any:
        await asyncio.gather(*(made.run(request(row, Op.RESET, 1)) for row in range(2)))
        return await asyncio.gather(*(made.run(request(row, Op.STEP, 2)) for row in range(2)))

    good, bad = run(actor([Waiting, partial(Waiting, 1, 0.0, {1: "hang"}, "actor")], step_timeout=0.2), main)
    assert good.mail == {}
    error = bad.mail[1].fault.to_error(11)
    assert (type(error).__name__, error.row, error.fault_class) == ("EnvTimeout", 11, "infrastructure")


def test_a_restarted_actor_reports_the_lost_episodes_row_by_row() -> None:
    before = SyncEngine([partial(LawEnv, 0), partial(LawEnv, 1)])
    before.batch.op[:] = Op.RESET
    before.send(np.arange(2))
    before.recv(2)
    lost = LastSeen(Fault.of(RuntimeError("the machine is gone"), "step"), Seen.of(before.batch))

    async def main(made: ConcurrentRowActor) -> Any:
        stepped = await made.run(request(0, Op.STEP, 2))
        rolled = await made.run(request(1, Op.ROLL, 2))
        again = await made.run(request(0, Op.RESET, 3))
        return stepped, rolled, again

    stepped, rolled, again = run(actor([partial(AsyncLawEnv, row) for row in range(2)], lost), main)
    assert (stepped.kept["truncated"].tolist(), stepped.kept["done"].tolist()) == ([True], [True])
    assert stepped.mail[0].info["fault"]["message"] == "the machine is gone"
    assert (rolled.kept["truncated"].tolist(), rolled.ended.tolist()) == ([True], [0])
    assert rolled.obs[0][0][2] == 0
    assert again.kept["done"].tolist() == [False]


def test_a_request_that_comes_while_the_last_answer_is_given_is_not_forgotten() -> None:
    """Requests come from another thread, at any moment, as Ray's do."""
    made, loop, chance = (
        actor([partial(AsyncLawEnv, row) for row in range(2)]),
        asyncio.new_event_loop(),
        random.Random(0),
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def begin(row: int, op: Op, number: int) -> Any:
        return asyncio.run_coroutine_threadsafe(made.run(request(row, op, number)), loop)

    try:
        for number in range(1, 100):
            op = Op.RESET if number == 1 else Op.ROLL
            first = begin(0, op, number)
            moment = time.perf_counter() + 0.0015 * chance.random()
            while time.perf_counter() < moment:
                pass
            second = begin(1, op, number)
            assert len(first.result(20.0).obs) == len(second.result(20.0).obs) == 1
    finally:
        made.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
