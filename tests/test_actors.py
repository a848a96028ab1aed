"""What runs in a Ray actor, without Ray: requests, restarted rows, random numbers of policies."""

import functools
import pickle
import threading

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import vecenv
from tests.faults.hostile import KINDS, HostileEnv, plainly
from vecenv._batch.batch import Op
from vecenv._batch.faults import Fault
from vecenv._batch.seeding import NO_SEED
from vecenv.distributed._actor import FragmentActor, Plan
from vecenv.engines.ray.actor import ActorRequest, LastSeen, RowActor, Seen
from vecenv.testing import LawEnv

COUNT = 3


def build_engine():
    return vecenv.make([functools.partial(LawEnv, row) for row in range(COUNT)], engine="sync").engine


BUILD = pickle.dumps(build_engine)


def asked(op, number, seed=NO_SEED):
    seeds = np.full(COUNT, seed)
    return ActorRequest(None, np.full(COUNT, op, np.uint8), seeds, seeds, [np.ones(COUNT, np.int64)], number=number)


def started(*arguments):
    actor = RowActor(BUILD, [], 0, *arguments)
    actor.build()
    return actor


def hostile_engine():
    return vecenv.make([functools.partial(HostileEnv, row, KINDS) for row in range(COUNT)], engine="sync").engine


def lost(actor):
    return LastSeen(Fault.of(RuntimeError("its machine is gone"), "step"), Seen.of(actor._engine.batch))


def test_a_request_that_comes_twice_is_run_once():
    actor = started()
    actor.run(asked(Op.RESET, 1, seed=5))
    first = actor.run(asked(Op.STEP, 2))
    assert actor.run(asked(Op.STEP, 2)) is first
    assert actor.run(asked(Op.STEP, 3)).obs[0][:, 2].tolist() == [2] * COUNT


def test_a_hostile_exception_fails_its_own_row_alone():
    actor = RowActor(pickle.dumps(hostile_engine), [], 0)
    actor.build()
    for number, kind in enumerate(KINDS):
        with plainly(kind):
            actor.run(asked(Op.RESET, 3 * number + 1, seed=5))
            actor.run(asked(Op.STEP, 3 * number + 2))
            answer = pickle.loads(pickle.dumps(actor.run(asked(Op.STEP, 3 * number + 3))))
            assert list(answer.mail) == [1]
            assert answer.mail[1].fault.to_error(1).rows == (1,)
            assert answer.obs[0][::2].tolist() == [[0, 2], [2, 2]]


@pytest.mark.parametrize("op", [Op.ROLL, Op.STEP])
def test_totals_of_the_first_episode_after_a_restart_begin_at_zero(op):
    actor = started()
    actor.run(asked(Op.RESET, 1, seed=5))
    before = actor.run(asked(op, 2))
    other = started(lost(actor))
    report = other.run(asked(op, 3))
    assert report.kept["truncated"].all()
    assert report.kept["episode_length"].tolist() == [1] * COUNT
    assert report.kept["episode_return"].tolist() == before.kept["episode_return"].tolist()
    if op == Op.STEP:
        other.run(asked(Op.RESET, 4))
    step = other.run(asked(op, 5))
    assert step.kept["episode_length"].tolist() == [1] * COUNT
    assert step.kept["episode_return"].tolist() == step.kept["reward"].tolist()


def draws(obs, rng):
    return rng.integers(0, 3, len(obs))


def test_a_policy_draws_other_numbers_in_every_actor_and_after_every_restart():
    plan = Plan(pickle.dumps(draws), False, AutoresetMode.NEXT_STEP, np.arange(2 * COUNT), 7)

    def numbers(first, last_seen=None):
        actor = FragmentActor(BUILD, [], first, last_seen, plan)
        actor.build()
        actions = actor.fragment(20).rollout.actions.tolist()
        actor._engine.batch.restarts[:] += 1
        return actions, lost(actor)

    once, last_seen = numbers(0)
    assert numbers(0)[0] == once
    assert numbers(COUNT)[0] != once
    again, last_seen = numbers(0, last_seen)
    assert again != once
    assert numbers(0, last_seen)[0] not in (once, again)


class Locked(LawEnv):
    """Its infos have a lock in them."""

    def step(self, action):
        *rest, info = super().step(action)
        return *rest, {**info, "lock": threading.Lock()}


def build_locked():
    return vecenv.make([functools.partial(Locked, 0) for _ in range(COUNT)], engine="sync").engine


def test_an_info_that_cannot_be_pickled_is_dropped_with_one_warning_also_where_an_episode_ends():
    actor = RowActor(pickle.dumps(build_locked), [], 0)
    actor.build()
    actor.run(asked(Op.RESET, 1, seed=5))
    answers = [actor.run(asked(Op.ROLL, number)) for number in (2, 3, 4)]
    (text,) = [text for answer in answers for text in answer.dropped]
    assert text.startswith("info['lock'] of env 0 cannot be pickled and was dropped")
    assert [mail.final_info for mail in answers[-1].mail.values()] == [{"ended": 1}] * COUNT
    assert not any("lock" in mail.info for answer in answers for mail in answer.mail.values())
