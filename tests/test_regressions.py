"""Bugs that were found once, each under its own name."""

import contextlib
import copy
import gc
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
import warnings
from fractions import Fraction

import gymnasium
import numpy as np
import pytest

import vecenv
from vecenv.engines.process.channel import Channel
from vecenv.engines.process.ledger import WorkerLedger
from vecenv.engines.process.shared import MAILS
from vecenv.errors import (
    ConfigError,
    EngineRefused,
    NotResetError,
    PendingError,
    SpaceError,
    UnsupportedError,
    WorkerDied,
    WorkerTimeout,
)
from vecenv.gymnasium import AsyncVectorEnv, SyncVectorEnv
from vecenv.testing import FaultEnv, LawEnv, ObedientEnv
from vecenv.testing._interrupting import Interrupted, call_and_interrupt
from vecenv.testing._obedient_env import SLOW
from vecenv.wrappers import ExtractObservation

FORKED = {"engine": "process", "workers": 2, "context": "fork"}


class Returns(LawEnv):
    """Observes or earns what it is told to, from the first step on."""

    def __init__(self, space=None, obs=None, reward=1.0):
        super().__init__()
        self.observation_space = space or self.observation_space
        self._given, self._reward = obs, reward

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return (obs if self._given is None else self.observation_space.sample()), info

    def step(self, action):
        obs, _, *rest = super().step(action)
        return (obs if self._given is None else self._given), self._reward, *rest


@pytest.mark.parametrize("ids", [None, [0, 1], [0, 1, 2, 3, 4]])
def test_a_transposed_observation_is_refused_in_any_part_of_a_batch(ids):
    space = gymnasium.spaces.Box(-1, 1, (4, 2, 3))
    with vecenv.make(lambda: Returns(space, np.zeros((4, 3, 2), np.float32)), 8, engine="sync") as envs:
        envs.reset(seed=0)
        with pytest.raises(SpaceError, match=r"\(4, 3, 2\)"):
            envs.step(np.ones(8 if ids is None else len(ids), int), ids)


TUPLE = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)))
DICT = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)})


@pytest.mark.parametrize("count", [1, 3, 4, 8])
@pytest.mark.parametrize(
    "wrong",
    [
        {"reward": Fraction(1, 2)},
        {"reward": "1.0"},
        {"space": TUPLE, "obs": np.zeros(2, int)},
        {"space": DICT, "obs": np.zeros(1, [("a", int)])},
    ],
)
def test_what_is_refused_does_not_depend_on_how_many_rows_run_together(count, wrong):
    with vecenv.make(lambda: Returns(**wrong), count, engine="sync") as envs:
        envs.reset(seed=0)
        with pytest.raises(SpaceError):
            envs.step(np.ones(count, int))


@pytest.mark.parametrize(
    "engine",
    [{"engine": "sync"}, {"engine": "thread", "workers": 2}, FORKED, {**FORKED, "workers": 1, "caller_works": True}],
)
def test_a_fixed_order_is_the_same_on_every_engine(engine):
    with vecenv.make(LawEnv, 6, order="fixed", batch_size=2, **engine) as envs:
        envs.reset(seed=0)
        envs.send(np.ones(6, int), [5, 4, 3, 2, 1, 0])
        assert [envs.recv().env_ids.tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
        envs.send(np.ones(2, int), [5, 1])
        envs.send(np.ones(3, int), [4, 0, 2])
        assert [envs.recv(count).env_ids.tolist() for count in (2, 1, 2)] == [[1, 5], [0], [2, 4]]


def test_choosing_an_engine_leaves_the_random_actions_alone():
    def sampled():
        fresh = type("Fresh", (LawEnv,), {"action_space": gymnasium.spaces.Discrete(10**6)})
        fresh.__init__ = lambda self: (LawEnv.__init__(self), setattr(self, "action_space", fresh.action_space))[0]
        with vecenv.make(fresh, 4) as envs:
            return envs.action_space.sample().tolist()

    assert sampled() != sampled()


def test_caller_works_is_not_taken_where_it_means_nothing():
    with pytest.raises(EngineRefused, match="engine='process'"):
        vecenv.make(LawEnv, 4, engine="sync", caller_works=True)
    with pytest.raises(ConfigError, match="only one env"):
        vecenv.make(LawEnv, 1, caller_works=True)


class Answers(LawEnv):
    def answer(self):
        return 42

    def hang(self):
        time.sleep(60)


def test_a_pending_call_is_not_lost_to_a_step():
    envs = AsyncVectorEnv([Answers] * 2, context="fork")
    envs.reset(seed=0)
    envs.call_async("answer")
    for intruder in (lambda: envs.step([0, 0]), envs.reset, lambda: envs.step_async([0, 0]), envs.reset_async):
        with pytest.raises(PendingError, match="pending call to `call`"):
            intruder()
    assert envs.call_wait(timeout=5) == (42, 42)
    envs.close()


def test_a_call_that_failed_is_over():
    envs = AsyncVectorEnv([Answers] * 2, context="fork")
    envs.reset(seed=0)
    envs.call_async("no_such_thing")
    with pytest.raises(AttributeError):
        envs.call_wait()
    assert envs.call("answer") == (42, 42)
    assert envs.step([0, 0])[0][:, 2].tolist() == [1, 1]
    envs.close()


class Slow(LawEnv):
    def step(self, action):
        time.sleep(0.2)
        return super().step(action)


def test_after_ctrl_c_in_step_wait_a_reset_starts_over():
    envs = AsyncVectorEnv([Slow] * 2, context="fork")
    envs.reset(seed=0)
    envs.step_async([0, 0])
    main = threading.main_thread().ident
    interrupt = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        envs.step_wait()
    interrupt.join()
    obs, _ = envs.reset(seed=0)
    assert obs[:, 2].tolist() == [0, 0]
    assert envs.step([0, 0])[0][:, 2].tolist() == [1, 1]
    envs.close()


@pytest.mark.parametrize("vectorizer", [SyncVectorEnv, lambda fns: AsyncVectorEnv(fns, context="fork")])
def test_the_gymnasium_face_does_not_step_an_env_that_failed(vectorizer):
    envs = vectorizer([lambda row=row: LawEnv(row, fail_at=1 if row == 1 else None) for row in range(3)])
    envs.reset(seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Gymnasium's async logs what it raises, and so does ours
        with pytest.raises(ValueError, match="fails at this step"):
            envs.step([0, 0, 0])
    with pytest.raises(NotResetError, match=r"\[1\]"):
        envs.step([0, 0, 0])
    assert envs.reset(seed=0)[0][:, 2].tolist() == [0, 0, 0]
    envs.close()


def test_envs_that_died_are_not_called_behind_the_users_back():
    with vecenv.make(Answers, 4, **FORKED) as envs:
        envs.reset(seed=0)
        envs.engine.processes[1].kill()
        with pytest.raises(WorkerDied):
            envs.step(np.ones(4, int))
        envs.recv()
        with pytest.raises(NotResetError, match="envs 2 to 3"):
            envs.call("answer")
        envs.reset(seed=0)
        assert envs.call("answer") == (42,) * 4


def test_a_hang_that_was_ended_is_told_as_a_hang():
    class Hangs(LawEnv):
        def step(self, action):
            if self._index == 1 and action == 2:
                time.sleep(60)
            return super().step(action)

    fns = [lambda row=row: Hangs(row) for row in range(2)]
    with vecenv.make(fns, engine="process", workers=2, context="fork", timeout=0.3, on_error="restart") as envs:
        envs.reset(seed=0)
        *_, truncated, infos = envs.step([1, 2])
        assert truncated.tolist() == [False, True]
        assert infos["fault"]["kind"][1] == "WorkerTimeout"


def test_successors_are_those_of_what_a_wrapper_made_of_the_observations():
    class Talks(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            {"count": gymnasium.spaces.Box(0, 99, (1,), np.int64), "word": gymnasium.spaces.Text(5)}
        )
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._count = 0
            return {"count": np.array([0]), "word": "a"}, {}

        def step(self, action):
            self._count += 1
            return {"count": np.array([self._count]), "word": "b"}, 1.0, self._count == 3, False, {}

    with ExtractObservation(vecenv.make(Talks, 2, engine="sync", autoreset="same-step"), "count") as envs:
        envs.reset(seed=0)
        seen = []
        for _ in range(3):
            envs.send(np.zeros(2, int))
            seen.append(envs.recv().next_obs[0].tolist())
        assert seen == [[1], [2], [3]]


def test_what_a_dead_worker_sent_is_read_after_a_write_to_it_has_failed():
    """A worker that died after its last message: the front looped for ever, waiting for a mail it did not read."""
    ours, theirs = (Channel(sock, blocking=False) for sock in socket.socketpair())
    theirs.send("its last words")
    theirs.close()
    ours.wake()
    assert not ours.ended
    ours.drain()
    assert ours.ended
    assert pickle.loads(ours.inbox[0]) == "its last words"
    ours.close()


def test_the_flags_of_a_dead_workers_episode_do_not_end_the_next_one():
    """Its successor did not clear them: an env that had just ended was reset again instead of stepped."""
    with vecenv.make(
        FaultEnv.many(2, length=1), engine="process", workers=1, context="fork", autoreset="disabled"
    ) as envs:
        envs.reset(seed=0)
        assert envs.step([0, 0])[2].tolist() == [True, False]
        envs.engine.kill(0)
        with pytest.raises(WorkerDied):
            envs.reset(seed=0)
        envs.reset(seed=0)
        obs, _, terminated, *_ = envs.step([5, 6])
        assert obs[:, 2].tolist() == [1, 1]
        assert terminated.tolist() == [True, False]


def test_a_reset_that_was_interrupted_before_it_was_sent_leaves_no_seeds_behind(monkeypatch):
    """The next episode to begin by itself took the seed of the reset that never was."""
    shown = []
    for interrupted in (False, True):
        with vecenv.make([LawEnv], engine="sync", autoreset="same-step") as envs:
            envs.reset(seed=1)
            if interrupted:
                with monkeypatch.context() as patch:
                    patch.setattr(envs, "_dispatch", _interrupt)
                    with pytest.raises(KeyboardInterrupt):
                        envs.reset(seed=50, options={"anything": 1})
            shown.append([envs.step([0])[0] for _ in range(8)])
    np.testing.assert_array_equal(*shown)


def _interrupt(*args):
    raise KeyboardInterrupt


def test_a_reset_does_not_discard_what_no_error_has_left_behind():
    """After the failure of one env, with nothing else pending, later results could be discarded unseen."""
    with vecenv.make(FaultEnv.many(2, kind="raise"), engine="sync") as envs:
        envs.reset(seed=0)
        with pytest.raises(ValueError, match="boom"):
            envs.step([0], [1])
        envs.send([0], [0])
        with pytest.raises(PendingError):
            envs.reset()
        assert envs.recv().env_ids.tolist() == [0]


def test_a_reset_is_as_patient_as_the_last_call_was():
    """A timeout that had long been waited out made a later reset kill an env that was at work."""
    with vecenv.make(ObedientEnv.many(1), engine="process", workers=1, context="fork") as envs:
        envs.reset(seed=0)
        envs.send([SLOW])
        with pytest.raises(WorkerTimeout):
            envs.recv(timeout=0.0)
        envs.recv()
        with pytest.raises(Interrupted):
            call_and_interrupt(lambda: envs.step([SLOW]), 0.005, [None])
        assert envs.reset()[0][0, 1] == 2  # its second episode, not the first of another env


def test_an_interrupt_while_a_worker_starts_leaves_no_descriptor_open(monkeypatch):
    """The file for its stack stayed open."""
    monkeypatch.setattr(Channel, "send_descriptors", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        vecenv.make(FaultEnv.many(1), engine="process", workers=1, context="fork")
    gc.collect()
    assert "vecenv-trace" not in " ".join(open_files())


def open_files():
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            yield os.readlink(f"/proc/self/fd/{number}")


@pytest.mark.parametrize("engine", ["sync", "thread", "process"])
def test_a_vector_env_says_that_it_cannot_be_pickled(engine):
    options = {} if engine == "sync" else {"workers": 1}
    with vecenv.make(FaultEnv.many(1), engine=engine, **options) as envs:
        for copying in (pickle.dumps, copy.deepcopy):
            with pytest.raises(UnsupportedError, match=f"{engine} engine cannot be pickled or copied"):
                copying(envs)


class Words(gymnasium.Env):
    """Actions have no column; the reward tells which one arrived."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Text(8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(int(action, 36)), False, False, {}


def test_a_row_that_is_asked_for_while_another_begins_gets_its_own_action(monkeypatch):
    asked, fork = WorkerLedger.asked, multiprocessing.get_context("fork")
    looks, second_was_sent = fork.Event(), fork.Event()
    second_was_sent.set()

    def late(ledger):
        looks.set()
        second_was_sent.wait(10)
        return asked(ledger)

    monkeypatch.setattr(WorkerLedger, "asked", late)
    with vecenv.make(Words, 4, engine="process", workers=1, context="fork") as envs:
        envs.reset(seed=0)
        for turn in range(20):
            words = [f"{turn:x}z{row}" for row in range(4)]
            looks.clear()
            second_was_sent.clear()
            envs.send(words[:2], [0, 1])
            assert looks.wait(10)
            envs.send(words[2:], [2, 3])
            second_was_sent.set()
            assert envs.recv(4).reward.tolist() == [int(word, 36) for word in words]


def test_ended_episodes_without_infos_send_no_message():
    """In same-step mode every episode that ended cost a pickle and a message with two empty dicts."""

    class Quiet(LawEnv):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {}

        def step(self, action):
            obs, reward, _, _, _ = super().step(action)
            return obs, reward, True, False, {}

    with vecenv.make(Quiet, 4, autoreset="same-step", **FORKED) as envs:
        envs.reset(seed=0)
        *_, terminated, _, infos = envs.step([0] * 4)
        assert terminated.all()
        assert infos["_final_obs"].all()
        assert infos["final_info"] == {}
        assert not envs.engine._block.worker[:, MAILS].any()
