"""The asyncio engine: envs that are awaited, threads that stay an env's own, limits, deadlines, faults."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
import weakref
from functools import partial

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.aio.async_envs import AsyncLawEnv, Gated, Learnable, Ordinary, Talk, Waiting
from tests.faults.faulty import until
from tests.twins import SPACES, SampleEnv, assert_same
from vecenv.engines import Asyncio
from vecenv.engines.aio import deadlines
from vecenv.engines.aio.engine import AsyncioEngine
from vecenv.engines.aio.faults import IN_A_ROW, Restarts, class_of
from vecenv.errors import (
    CallOrderError,
    ClosedError,
    EngineRefused,
    EnvError,
    EnvTimeout,
    NotResetError,
    PendingError,
    RestartLimit,
    SpaceError,
    UnsupportedError,
    WorkerDied,
    WorkerTimeout,
)
from vecenv.testing import check_engine
from vecenv.wrappers import RecordEpisodeStatistics, TransformReward


def waiting(*fails, seconds=0.0, key="", on_error="raise", **options):
    """Envs with these faults each, by step."""
    fns = [partial(Waiting, number, seconds, each, key) for number, each in enumerate(fails)]
    return vecenv.make(fns, engine=Asyncio(**options), on_error=on_error)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr("vecenv._batch.faults._FIRST_PAUSE", 0.001)
    monkeypatch.setattr(Waiting, "made", {})
    monkeypatch.setattr(Waiting, "sent", [])


# --- what it runs -----------------------------------------------------------------------------------------------------


def test_the_six_laws_hold_for_envs_that_are_awaited():
    check_engine(lambda fns: AsyncioEngine([partial(AsyncLawEnv, *fn.args) for fn in fns]))


async def awaited_factory():
    return Talk()


@pytest.mark.parametrize("env", [Talk, partial(Talk), lambda: Talk(), awaited_factory])
@pytest.mark.parametrize("running", [False, True])
def test_auto_chooses_it_for_envs_that_are_awaited(env, running, monkeypatch):
    monkeypatch.setattr("vecenv._make.choose.usable_cpus", lambda: 2)

    def make():
        with vecenv.make(env, 3) as envs:
            envs.reset(seed=0)
            return envs.engine.name, envs.engine_reason

    async def inside_a_loop():
        return make()

    name, reason = asyncio.run(inside_a_loop()) if running else make()
    assert name == "asyncio"
    assert "async def" in reason


def test_auto_closes_the_env_that_it_built_for_a_trial(monkeypatch):
    monkeypatch.setattr("vecenv._make.choose.usable_cpus", lambda: 2)
    made, closed = [], []

    class Noted(Talk):
        def __init__(self):
            super().__init__()
            made.append(self)

        async def close(self):
            closed.append(self)

    with vecenv.make(lambda: Noted(), 2):
        assert len(made) == 3
        assert closed == made[:1]


def test_auto_does_not_wait_for_a_trial_env_that_never_closes(monkeypatch):
    monkeypatch.setattr("vecenv._make.choose.usable_cpus", lambda: 2)
    monkeypatch.setattr("vecenv._make.choose._CLOSE_SECONDS", 0.01)
    made, cancelled = [], threading.Event()

    class Stuck(Talk):
        def __init__(self):
            super().__init__()
            made.append(self)

        async def close(self):
            if self is made[0]:
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()

    with vecenv.make(lambda: Stuck(), 2):
        assert cancelled.wait(10)


def test_auto_names_the_wrapper_that_does_not_await(monkeypatch):
    monkeypatch.setattr("vecenv._make.choose.usable_cpus", lambda: 2)
    with pytest.raises(SpaceError, match="OrderEnforcing calls step"):
        vecenv.make(lambda: gymnasium.wrappers.OrderEnforcing(Talk()), 2)


def test_auto_passes_options_on_for_envs_that_are_awaited():
    with vecenv.make(Talk, 2, step_timeout=5.0) as envs:
        assert envs.engine.name == "asyncio"
    with pytest.raises(EngineRefused, match=r"async def, which the asyncio engine awaits; .*workers"):
        vecenv.make(Talk, 2, workers=2)


def test_the_laws_hold_with_a_limit_and_deadlines():
    def build(fns):
        return AsyncioEngine([partial(AsyncLawEnv, *fn.args) for fn in fns], concurrency=2, step_timeout=20.0)

    check_engine(build)


@pytest.mark.parametrize("space", ["text", "dict-with-objects", "graph", "dict", "discrete"])
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_every_kind_of_space_gives_what_the_sync_engine_gives(space, autoreset):
    env = partial(SampleEnv, SPACES[space], SPACES["text"], 2)

    def run(engine):
        with vecenv.make(env, 3, engine=engine, autoreset=autoreset) as envs:
            envs.action_space.seed(0)
            seen = [envs.reset(seed=1)]
            seen += [envs.step(envs.action_space.sample()) for _ in range(8)]
            return seen, envs.episode_return, envs.episode_length

    assert_same(run("asyncio"), run("sync"))


def test_ordinary_envs_stay_in_the_thread_that_made_them():
    with vecenv.make(Ordinary, 4, engine="asyncio") as envs:
        envs.reset(seed=0)
        for _ in range(3):
            envs.step(np.zeros(4, int))
        assert len(set(envs.call("which"))) == 4
        assert "0 envs in the event loop, 4 on threads" in envs.engine_reason


def test_ordinary_envs_wait_side_by_side():
    meeting = threading.Barrier(20)

    class Meets(Ordinary):
        def step(self, action):
            meeting.wait(60.0)  # raises if the others do not come
            return super().step(action)

    with vecenv.make(Meets, 20, engine="asyncio") as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(20, int))


def test_an_async_function_may_build_an_env_and_an_async_method_may_be_called():
    class Drawn(Waiting):
        metadata = {"render_modes": ["rgb_array"]}
        render_mode = "rgb_array"

        async def render(self):
            await asyncio.sleep(0)
            return np.full((2, 2, 3), self.number, np.uint8)

    async def build():
        asyncio.get_running_loop()
        await asyncio.sleep(0)
        return Drawn(7)

    with vecenv.make(build, 2, engine="asyncio") as envs:
        envs.reset(seed=0)
        assert [frame[0, 0, 0] for frame in envs.render()] == [7, 7]
        envs.set_attr("number", [1, 2])
        assert envs.get_attr("number") == (1, 2)
        with pytest.raises(EnvError, match="env 0 raised AttributeError in call"):
            envs.call("nothing_of_that_name")
        inside = envs.engine.envs
    assert all(env.closed for env in inside)


def test_wrappers_that_do_not_await_are_refused():
    with pytest.raises(SpaceError, match=r"OrderEnforcing calls step\(\) of Waiting and does not await it"):
        vecenv.make(lambda: gymnasium.wrappers.OrderEnforcing(Waiting()), 1, engine="asyncio")


@pytest.mark.parametrize("engine", ["sync", "thread"])
def test_other_engines_say_which_engine_awaits(engine):
    with vecenv.make(Waiting, 1, engine=engine) as envs, pytest.raises(EnvError, match="engine='asyncio' awaits"):
        envs.reset()


def test_an_env_that_cannot_be_built_is_named_and_the_others_are_closed():
    built = []

    def good():
        built.append(Waiting())
        return built[-1]

    def bad():
        raise OSError("no browser")

    with pytest.raises(EnvError, match="env 1 raised OSError in make: no browser"):
        vecenv.make([good, bad, good], engine="asyncio")
    assert all(env.closed for env in built)


def test_building_is_bounded_in_time_and_runs_side_by_side():
    meeting, never = threading.Barrier(16), threading.Event()

    def slow():
        meeting.wait(30.0)  # raises if the others do not come
        return Waiting()

    vecenv.make(slow, 16, engine="asyncio").close()

    with pytest.raises(WorkerTimeout, match=r"env 0 was not built within 0.3 s; start_timeout= gives them longer"):
        vecenv.make(lambda: never.wait(60.0), 2, engine="asyncio", start_timeout=0.3)
    never.set()


# --- limits -----------------------------------------------------------------------------------------------------------


class Counting(Waiting):
    running, most, starts = 0, 0, []

    async def step(self, action):
        Counting.running += 1
        Counting.most = max(Counting.most, Counting.running)
        Counting.starts.append(time.perf_counter())
        try:
            return await super().step(action)
        finally:
            Counting.running -= 1


def test_concurrency_limits_what_runs_at_once():
    Counting.most = 0
    with vecenv.make(
        [partial(Counting, number, 0.01) for number in range(20)], engine="asyncio", concurrency=3
    ) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.zeros(20, int))
    assert Counting.most == 3


def test_rate_limits_what_starts_per_second():
    Counting.starts = []
    with vecenv.make([partial(Counting, number) for number in range(11)], engine="asyncio", rate=50.0) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(11, int))
    assert Counting.starts[-1] - Counting.starts[0] >= 0.19 - 0.05  # of which 50 ms may be made up for


def test_deadlines_count_from_the_start_and_not_from_queueing():
    with waiting(*[{}] * 13, seconds=0.15, concurrency=1, step_timeout=1.5) as envs:
        envs.reset(seed=0)
        envs.step(np.zeros(13, int))  # 1.95 s in all


def test_rows_are_started_after_a_call_that_timed_out():
    """The timer of `rate` was cancelled with that call and never set again, so that queued rows hung."""
    with vecenv.make([partial(Counting, number) for number in range(20)], engine="asyncio", rate=50.0) as envs:
        envs.reset(seed=0)
        envs.timeout, envs.engine._pace.rate = 0.1, 1.0
        with pytest.raises(WorkerTimeout, match=r"env \d+ did not answer within 0.1 s in call"):
            envs.call("_obs")
        envs.timeout, envs.engine._pace.rate = 60.0, 50.0
        envs.step(np.zeros(20, int))


def test_calls_that_timed_out_do_not_use_up_the_rate():
    """Each of them took its turn all the same, and rows waited a second for every `rate` envs."""
    with vecenv.make([partial(Counting, number) for number in range(40)], engine="asyncio", rate=1000.0) as envs:
        envs.reset(seed=0)
        envs.timeout, envs.engine._pace.rate = 0.1, 1.0  # a start per second from now on
        with pytest.raises(WorkerTimeout):
            envs.call("_obs")
        assert until(lambda: not envs.engine._limits._waiting, 10.0)


def test_an_env_may_raise_timeout_error_in_a_call():
    class Late(Waiting):
        async def ask(self):
            raise TimeoutError("the server is down")

    with vecenv.make([Late], engine="asyncio") as envs:
        with pytest.raises(TimeoutError, match="the server is down") as raised:
            envs.call("ask")
        assert not isinstance(raised.value, WorkerTimeout)


def test_late_calls_name_the_timeout_and_the_env():
    class Stuck(Waiting):
        async def ask(self):
            await asyncio.sleep(3600 if self.number == 1 else 0)

    with vecenv.make([partial(Stuck, number) for number in range(3)], engine="asyncio", timeout=1.2) as envs:
        with pytest.raises(WorkerTimeout, match=r"env 1 did not answer within 1.2 s in call"):
            envs.call("ask")
        envs.timeout = 60.0
        assert envs.reset(seed=0)[0].shape == (3, 3)


@pytest.mark.parametrize(
    ("autoreset", "limits"), [("next-step", {}), ("same-step", {}), ("next-step", {"rate": 200.0})]
)
def test_envs_that_fail_at_once_are_built_again_within_the_limits(autoreset, limits):
    building, most, starts = [], [], []

    def build(number):
        building.append(number)
        most.append(len(building))
        starts.append(time.perf_counter())
        time.sleep(0.005)
        building.remove(number)
        return Waiting(number, fails={1: "disconnect"}, key="rebuilt")

    options = Asyncio(concurrency=3, **limits)
    fns = [partial(build, number) for number in range(20)]
    with vecenv.make(fns, engine=options, on_error="restart", autoreset=autoreset) as envs:
        envs.reset(seed=0)
        most.clear()
        starts.clear()
        for _ in range(3):
            envs.step(np.zeros(20, int))
    assert len(most) == 20
    assert max(most) <= 3
    if limits:
        assert max(starts) - min(starts) >= 19 / 200 - 0.05  # of which 50 ms may be made up for


# --- deadlines and faults ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hang", "ignore"])
def test_a_late_env_is_an_error_of_that_env_and_its_reset_goes_on(how):
    with waiting({}, {2: how}, {}, step_timeout=0.5) as envs:
        envs.reset(seed=0)
        envs.step([1, 1, 1])
        late_env = envs.engine.envs[1]
        with pytest.raises(
            EnvTimeout, match=r"env 1 was not done with its step within 0.5 s and was cancelled"
        ) as late:
            envs.step([2, 3, 4])
        assert (late.value.row, late.value.action, late.value.fault_class) == (1, 3, "infrastructure")
        assert isinstance(late.value, TimeoutError)
        assert envs.recv().env_ids.tolist() == [0, 2]
        obs, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
        assert obs[1].tolist() == [1, 0, 2 if how == "ignore" else 1]  # what ignores a cancellation is built again
        envs.step([1, 1, 1])
        envs.engine._loop.soon(late_env.freed.set)
        assert how == "hang" or until(lambda: late_env.closed, 60.0)


def test_a_late_env_is_truncated_marked_and_built_again():
    fns = [partial(Waiting, number, 0.0, fails) for number, fails in enumerate([{}, {2: "hang"}, {}])]
    with vecenv.make(fns, engine="asyncio", step_timeout=0.5, on_error="restart") as envs:
        envs.reset(seed=0)
        envs.step([1, 1, 1])
        obs, reward, terminated, truncated, infos = envs.step([5, 5, 5])
        assert (reward.tolist(), terminated.tolist(), truncated.tolist()) == (
            [5, 0, 5],
            [False] * 3,
            [False, True, False],
        )
        assert obs[1].tolist() == [1, 1, 1]  # the last good observation
        fault = {name: values[1] for name, values in infos["fault"].items()}
        assert (fault["kind"], fault["phase"], fault["class"], fault["restarts"]) == (
            "timeout",
            "step",
            "infrastructure",
            1,
        )
        assert "was cancelled" in fault["message"]
        assert "gives it longer" not in fault["message"]
        assert envs.episode_length.tolist() == [2, 1, 2]
        obs, *_ = envs.step([6, 6, 6])  # an autoreset of env 1
        assert obs.tolist() == [[0, 3, 1], [1, 0, 2], [2, 3, 1]]


@pytest.mark.parametrize("fault", ["disconnect", "hang"])
def test_an_env_that_failed_is_freed_without_a_garbage_collection(fault):
    """Collecting garbage stops everything for long where there are thousands of envs."""
    gc.disable()
    try:
        with waiting({2: fault}, step_timeout=0.5, on_error="restart") as envs:
            envs.reset()
            failed = weakref.ref(envs.engine.envs[0])
            truncated = [envs.step([1])[3].item() for _ in range(4)]
            assert truncated == [False, True, False, False]
            assert until(lambda: failed() is None)
    finally:
        gc.enable()


def test_in_same_step_mode_the_next_episode_of_the_new_env_begins_at_once():
    fns = [partial(Waiting, 0, 0.0, {2: "disconnect"})]
    with vecenv.make(fns, engine="asyncio", on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=0)
        envs.step([1])
        obs, reward, _, truncated, infos = envs.step([1])
        assert (obs[0].tolist(), reward[0], truncated[0]) == ([0, 0, 2], 0.0, True)
        assert infos["final_obs"][0].tolist() == [0, 1, 1]
        assert infos["fault"]["kind"][0] == "ConnectionResetError"


def test_no_step_is_sent_twice():
    fns = [partial(Waiting, 0, 0.0, {2: "disconnect", 4: "raise"}), partial(Waiting, 1, 0.0, {3: "hang"})]
    with vecenv.make(fns, engine="asyncio", on_error="restart", step_timeout=0.5) as envs:
        envs.reset(seed=0)
        for action in range(8):
            envs.step([action, action])
    for env in (0, 1):
        actions = [action for number, _, action in Waiting.sent if number == env]
        assert len(actions) == len(set(actions))


@pytest.mark.parametrize("how", ["exit", "cancel", "raise"])
def test_whatever_an_env_raises_is_its_own_failure(how):
    kind = {"exit": "SystemExit", "cancel": "CancelledError", "raise": "ValueError"}[how]
    with waiting({}, {1: how}) as envs:
        envs.reset(seed=0)
        with pytest.raises(EnvError, match=f"env 1 raised {kind} in step"):
            envs.step([1, 1])
        assert envs.recv().env_ids.tolist() == [0]
        envs.reset(seed=0)


def test_an_ordinary_env_that_hangs_gets_a_new_thread():
    fns = [Ordinary, partial(Ordinary, 2)]
    with vecenv.make(fns, engine="asyncio", step_timeout=1.0, on_error="restart") as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        threads, hung = envs.call("which"), envs.engine.envs[1]
        *_, infos = envs.step([0, 0])
        assert infos["fault"]["kind"][1] == "timeout"
        envs.step([0, 0])
        others = envs.call("which")
        assert threads[0] == others[0]
        assert threads[1] != others[1]
        hung.freed.set()


def test_an_interrupt_while_waits_are_ended_leaves_deadlines_that_work(monkeypatch):
    settle = deadlines._settle

    def interrupted(*args):
        monkeypatch.setattr(deadlines, "_settle", settle)
        raise KeyboardInterrupt

    loop = asyncio.new_event_loop()
    try:
        limits, never = deadlines.Deadlines(loop, 0.01), loop.create_future()
        waits = [loop.create_task(limits.wait(never)) for _ in range(2)]
        monkeypatch.setattr(deadlines, "_settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(waits[0])
        loop.run_until_complete(asyncio.wait_for(asyncio.gather(*waits, limits.wait(never)), 20.0))
    finally:
        loop.close()


def test_a_slow_reset_has_a_deadline_of_its_own():
    with waiting({0: "hang"}, reset_timeout=0.1) as envs, pytest.raises(EnvTimeout, match=r"its reset within 0.1 s"):
        envs.reset()


def test_a_fault_that_is_terminal_is_raised():
    def classify(error, phase):
        return "terminal" if isinstance(error, ValueError) and phase == "step" else None

    fns = [partial(Waiting, 0, 0.0, {1: "disconnect"}), partial(Waiting, 1, 0.0, {2: "raise"})]
    with vecenv.make(fns, engine=Asyncio(classify=classify), on_error="restart") as envs:
        envs.reset(seed=0)
        *_, infos = envs.step([1, 1])
        assert infos["fault"]["class"][0] == "infrastructure"
        with pytest.raises(ValueError, match="on purpose") as raised:
            envs.step([1, 1])
        assert raised.value.fault_class == "terminal"


def test_a_classification_that_fails_is_terminal_and_says_so():
    with vecenv.make(
        [partial(Waiting, 0, 0.0, {1: "raise"})], engine=Asyncio(classify=lambda *_: "whatever"), on_error="restart"
    ) as envs:
        envs.reset(seed=0)
        with pytest.raises(EnvError, match="classify raised ValueError: it returned 'whatever'"):
            envs.step([1])


def test_the_env_is_restarted_three_times_and_infrastructure_is_not_counted():
    from vecenv._batch.faults import Fault

    restarts = Restarts(None)
    own, lost = (restarts.classified(Fault.of(error, "step")) for error in (ValueError(), ConnectionError()))
    assert (class_of(ValueError()), class_of(EOFError()), own.fault_class, lost.fault_class) == (
        "retry", "infrastructure", "retry", "infrastructure")  # fmt: skip
    for _ in range(3):
        restarts.pause(0, own, 1)
    for _ in range(5 * IN_A_ROW):
        restarts.pause(0, lost, 1)
        restarts.good(0)
    with pytest.raises(RestartLimit, match="env 0 failed 4 times within 1000 of its steps"):
        restarts.pause(0, own, 1)
    for _ in range(IN_A_ROW):
        restarts.pause(1, lost, 1)
    with pytest.raises(RestartLimit, match=f"env 1 was lost {IN_A_ROW + 1} times in a row"):
        restarts.pause(1, lost, 1)


# --- never hangs ------------------------------------------------------------------------------------------------------


def test_an_env_that_blocks_the_event_loop_is_shown():
    freed = threading.Event()

    class Blocking(Waiting):
        async def step(self, action):
            freed.wait(60.0)
            return await super().step(action)

    with vecenv.make(Blocking, 2, engine="asyncio") as envs:
        envs.reset(seed=0)
        envs.timeout = 0.3
        with pytest.raises(WorkerTimeout, match=r"freed.wait\(60.0\)"):
            envs.step([0, 0])
        freed.set()
        envs.recv(timeout=60.0)


class HangsInClose(Waiting):
    async def close(self):
        await asyncio.sleep(3600)


def test_close_is_bounded_and_complains():
    envs = vecenv.make([HangsInClose, Waiting], engine="asyncio")
    envs.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="env 0 did not end within 1 s and was left running"):
        envs.close(timeout=1.0)  # it would hang for an hour
    assert envs.engine.envs[1].closed


def test_close_ends_what_runs_and_whoever_waits():
    import threading

    envs = waiting({1: "hang"}, {})
    envs.reset(seed=0)
    errors = []

    def wait():
        try:
            envs.step([0, 0])
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not envs._call_order.pending_count:
        time.sleep(0.01)
    envs.close()
    thread.join(10.0)
    assert len(errors) == 1
    assert not [each.name for each in threading.enumerate() if each.name.startswith("vecenv-asyncio")]


def test_no_task_and_no_thread_is_left():
    import threading

    before = threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            with vecenv.make([Waiting, partial(Waiting, 1)], engine="asyncio") as envs:
                envs.reset(seed=0)
                envs.step([0, 0])
        with vecenv.make(Ordinary, 3, engine="asyncio") as envs:
            envs.reset(seed=0)
    assert until(lambda: threading.active_count() <= before, 60.0)


# --- awaiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["own", "running"])
def test_one_coroutine_per_env(loop):
    async def episode(envs, env_id):
        obs, _ = await envs.reset_one(env_id, seed=env_id)
        total = 0.0
        for action in range(5):
            obs, reward, terminated, _, info = await envs.step_one(env_id, action)
            assert (type(reward), type(terminated), info) == (float, bool, {})
            total += reward
        return obs.tolist(), total

    async def main():
        fns = [partial(Waiting, number, 0.001 * number) for number in range(10)]
        async with vecenv.make(fns, engine="asyncio", loop=loop) as envs:
            return await asyncio.gather(*(episode(envs, env_id) for env_id in range(10)))

    assert asyncio.run(main()) == [([number, 5, 1], 10.0) for number in range(10)]


def test_step_one_returns_what_ends_an_episode():
    async def main():
        async with vecenv.make(Talk, 2, engine="asyncio", autoreset="same-step") as envs:
            first = await envs.reset_one(1)
            await envs.step_one(1, "hi")
            return first, await envs.step_one(1, "bye")

    first, (obs, reward, terminated, truncated, info) = asyncio.run(main())
    assert first == ("hello", {"asked": ["nothing"]})
    assert (obs, reward, terminated, truncated) == ("hello", 1.0, True, False)
    assert info["final_obs"] == "you said bye"
    assert info["final_info"]["tool"] == {"name": "bye"}


def test_a_failure_reaches_the_coroutine_that_waits_for_it():
    async def main():
        async with waiting({1: "raise"}, {}) as envs:
            await asyncio.gather(envs.reset_one(0), envs.reset_one(1))
            failed, good = await asyncio.gather(envs.step_one(0, 1), envs.step_one(1, 1), return_exceptions=True)
            assert isinstance(failed, ValueError)
            assert failed.row == 0
            assert good[0].tolist() == [1, 1, 1]
            await envs.reset_one(0)
            waits = asyncio.ensure_future(envs.step_one(1, 1))
            await asyncio.sleep(0)
            with pytest.raises(PendingError):
                await envs.recv_async()
            with pytest.raises(PendingError):
                await envs.step_one(1, 1)
            await waits

    asyncio.run(main())


@pytest.mark.parametrize("call", ["recv", "send", "send_reset"])
def test_other_calls_are_refused_while_a_coroutine_waits_for_an_env(call):
    async def main():
        async with waiting({}, {}, seconds=0.1) as envs:
            await asyncio.gather(envs.reset_one(0), envs.reset_one(1))
            waits = asyncio.ensure_future(envs.step_one(0, 5))
            await asyncio.sleep(0)
            arguments = {"recv": (), "send": ([1], [1]), "send_reset": ([1],)}[call]
            with pytest.raises(PendingError, match=rf"{call}\(\) while step_one\(\) waits for envs \[0\]"):
                getattr(envs, call)(*arguments)
            assert (await waits)[1] == 5.0
            assert (await envs.step_one(1, 7))[1] == 7.0

    asyncio.run(main())


def test_recv_is_refused_while_a_coroutine_waits_in_recv_async():
    async def main():
        async with gated(1) as envs:
            envs.reset(seed=0)
            envs.send([3])
            waits = asyncio.ensure_future(envs.recv_async())
            await asyncio.sleep(0)
            with pytest.raises(CallOrderError, match="another coroutine waits in recv_async"):
                envs.recv()
            envs.engine.envs[0].may_end.add(3)
            return (await waits).reward.tolist()

    assert asyncio.run(main()) == [3.0]


def gated(count=2):
    return vecenv.make([partial(Gated, number) for number in range(count)], engine="asyncio")


async def cancelled(waits):
    """Begin to await this, and cancel it."""
    task = asyncio.ensure_future(waits)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_env_whose_step_one_was_cancelled_needs_a_reset():
    async def main():
        async with gated() as envs:
            first, second = envs.engine.envs
            await asyncio.gather(envs.reset_one(0), envs.reset_one(1))
            await cancelled(envs.step_one(0, 1))
            with pytest.raises(PendingError, match="env 0 is still running"):
                await envs.step_one(0, 1)
            with pytest.raises(PendingError, match=r"send\(\) while envs \[0\] end a step .* await reset_one\(\)"):
                envs.send([2], [1])
            second.may_end.add(2)
            assert (await envs.step_one(1, 2))[1] == 2.0
            first.may_end.add(1)
            while envs._ones:
                await asyncio.sleep(0.001)
            with pytest.raises(NotResetError, match="need a reset before step_one"):
                await envs.step_one(0, 1)
            assert (await envs.reset_one(0))[0].tolist() == [0, 0, 1]
            await cancelled(envs.step_one(0, 3))
            first.may_end.update([3, 4])
            assert (await envs.reset_one(0))[0].tolist() == [0, 0, 1]
            assert (await envs.step_one(0, 4))[1] == 4.0

    asyncio.run(main())


def test_an_env_needs_a_reset_if_its_step_one_is_cancelled_just_after_the_result_came(monkeypatch):
    """The result was lost, and the env went on as if nothing had happened."""

    async def main():
        async with waiting({}) as envs:
            await envs.reset_one(0)
            task, answer = asyncio.ensure_future(envs.step_one(0, 1)), envs._answer
            monkeypatch.setattr(envs, "_answer", lambda row, result: (answer(row, result), task.cancel()))
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.setattr(envs, "_answer", answer)
            with pytest.raises(NotResetError, match="need a reset before step_one"):
                await envs.step_one(0, 1)
            await envs.reset_one(0)
            await envs.step_one(0, 1)

    asyncio.run(main())


def test_a_reset_is_refused_while_a_coroutine_waits_for_an_env():
    """After a failure it threw away the result that the coroutine waited for, which then waited for ever."""

    class Fails(Gated):
        async def step(self, action):
            if action == 9:
                raise ValueError("on purpose")
            return await super().step(action)

    async def main():
        async with vecenv.make([Fails, Fails], engine="asyncio") as envs:
            await asyncio.gather(envs.reset_one(0), envs.reset_one(1))
            waits = asyncio.ensure_future(envs.step_one(0, 1))
            with pytest.raises(ValueError, match="on purpose"):
                await envs.step_one(1, 9)
            with pytest.raises(PendingError, match=r"reset\(\) while step_one\(\) waits for envs \[0\]"):
                envs.reset()
            envs.engine.envs[0].may_end.add(1)
            assert (await waits)[1] == 1.0
            envs.reset()
            envs.send([1, 9])
            with pytest.raises(ValueError, match="on purpose"):
                await envs.recv_async()
            envs.reset()

    asyncio.run(main())


def test_a_reset_is_refused_while_a_coroutine_waits_in_recv_async():
    class Fails(Gated):
        async def step(self, action):
            if action == 9:
                raise ValueError("on purpose")
            return await super().step(action)

    async def main():
        async with vecenv.make([Fails, Fails], engine="asyncio") as envs:
            envs.reset()
            envs.send([1, 9])
            with pytest.raises(ValueError, match="on purpose"):
                await envs.recv_async(1)
            waits = asyncio.ensure_future(envs.recv_async())
            await asyncio.sleep(0)
            with pytest.raises(CallOrderError, match=r"reset\(\) while another coroutine waits in recv_async"):
                envs.reset()
            envs.engine.envs[0].may_end.add(1)
            assert (await waits).env_ids.tolist() == [0]

    asyncio.run(main())


async def begun(waits):
    task = asyncio.ensure_future(waits)
    await asyncio.sleep(0.01)
    return task


def test_an_event_loop_may_go_on_where_another_was_stopped():
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    with gated() as envs:
        envs.reset(seed=0)
        first.run_until_complete(cancelled(envs.step_one(0, 1)))
        envs.engine.envs[1].may_end.add(2)
        result = second.run_until_complete(asyncio.wait_for(envs.step_one(1, 2), 60.0))
        assert result[1] == 2.0
        first.run_until_complete(asyncio.sleep(0.01))
        first.close()
        second.close()


def test_a_call_takes_over_what_a_step_one_waits_for_in_a_stopped_event_loop():
    """When that loop went on, it took the result of another env and threw it away, and its own step_one hung."""
    loop = asyncio.new_event_loop()
    with gated() as envs:
        envs.reset(seed=0)
        task = loop.run_until_complete(begun(envs.step_one(0, 1)))
        envs.engine.envs[0].may_end.add(1)
        assert envs.recv().env_ids.tolist() == [0]
        envs.send([2], [1])
        with pytest.raises(PendingError, match=r"env 0 was left to recv\(\) while this event loop was stopped"):
            loop.run_until_complete(asyncio.wait_for(task, 60.0))
        envs.engine.envs[1].may_end.add(2)
        loop.run_until_complete(asyncio.sleep(0.05))
        assert envs.recv().env_ids.tolist() == [1]
    loop.close()


def test_a_call_takes_over_what_a_recv_async_waits_for_in_a_stopped_event_loop():
    loop = asyncio.new_event_loop()
    with gated(1) as envs:
        envs.reset(seed=0)
        envs.send([1])
        task = loop.run_until_complete(begun(envs.recv_async()))
        envs.engine.envs[0].may_end.add(1)
        assert envs.recv().env_ids.tolist() == [0]
        envs.send([1])
        with pytest.raises(asyncio.CancelledError, match=r"recv\(\) was called while this event loop was stopped"):
            loop.run_until_complete(asyncio.wait_for(task, 60.0))
        assert envs.recv().env_ids.tolist() == [0]
    loop.close()


def test_two_running_event_loops_are_refused():
    with gated() as envs:
        envs.reset(seed=0)
        thread = threading.Thread(target=lambda: asyncio.run(envs.step_one(0, 1)))
        thread.start()
        assert until(lambda: 0 in envs._ones, 60.0)
        with pytest.raises(CallOrderError, match="coroutines of another event loop"):
            asyncio.run(envs.step_one(1, 1))
        envs.engine.envs[0].may_end.add(1)
        thread.join(60.0)


@pytest.mark.parametrize("until", [0.3, 60.0])
def test_until_is_a_part_of_the_timeout(until):
    with waiting({}, seconds=120.0) as envs:
        envs.reset(seed=0)
        began = time.perf_counter()
        envs.send([0])
        with pytest.raises(WorkerTimeout, match=r"within 0.3 s"):
            envs.recv(1, 1, until=until, timeout=0.3)
        with pytest.raises(WorkerTimeout, match=r"within 0.3 s"):
            asyncio.run(envs.recv_async(1, 1, until=until, timeout=0.3))
        assert time.perf_counter() - began < 30.0


def test_calls_between_two_runs_of_the_loop_are_refused_and_do_not_hang():
    async def make():
        envs = vecenv.make([Waiting], engine="asyncio", loop="running")
        await envs.reset_one(0)
        return envs

    loop = asyncio.new_event_loop()
    envs = loop.run_until_complete(make())
    for call in (lambda: envs.step([0]), envs.reset, lambda: envs.get_attr("steps")):
        with pytest.raises(CallOrderError, match="event loop does not run"):
            call()
    assert loop.run_until_complete(envs.step_one(0, 5))[1] == 5.0
    loop.run_until_complete(envs.close_async())
    loop.close()


def test_close_waits_for_a_step_that_was_given_up_and_then_closes_the_env():
    said = []

    class Cleans(Waiting):
        async def step(self, action):
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.3)
                said.append("session deleted")

        async def close(self):
            said.append("closed")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = vecenv.make(Cleans, 1, engine=Asyncio(step_timeout=0.05))
        envs.reset(seed=0)
        with pytest.raises(EnvTimeout):
            envs.step([0])
        envs.close(timeout=30.0)
    assert said == ["session deleted", "closed"]


@pytest.mark.parametrize("bad_is_async", [False, True])
def test_an_awaited_factory_that_fails_is_reported_before_slow_ones_end(bad_is_async):
    def bad():
        raise ValueError("no key")

    async def bad_async():
        raise ValueError("no key")

    async def never():
        await asyncio.Event().wait()

    with pytest.raises(EnvError, match="no key"):
        vecenv.make([never, bad_async if bad_is_async else bad], engine="asyncio")


def test_what_is_built_beside_a_factory_that_fails_is_closed():
    """Envs that were built after that one had failed were left open."""
    built, failed = [], asyncio.Event()

    class Closes(Waiting):
        async def close(self):
            await asyncio.sleep(0.3)
            await super().close()

    async def early():
        built.append(Closes())
        return built[-1]

    async def late():
        await failed.wait()
        await asyncio.sleep(0.1)
        return await early()

    async def stubborn():
        try:
            await asyncio.sleep(60)
        finally:
            return await early()  # it ignores its cancellation

    async def bad():
        await asyncio.sleep(0.05)
        failed.set()
        raise ValueError("no key")

    with pytest.raises(EnvError, match="no key"):
        vecenv.make([early, late, bad, stubborn], engine="asyncio")
    assert len(built) >= 2
    assert all(env.closed for env in built)


def test_an_ordinary_env_of_an_async_function_runs_on_a_thread_also_when_it_is_built_again():
    made = []

    class Plain(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            if self is made[0]:
                raise ValueError("on purpose")
            return 0, 0.0, False, False, {}

    async def build():
        made.append(Plain())
        return made[-1]

    with vecenv.make(build, 1, engine="asyncio", on_error="restart") as envs:
        envs.reset()
        for _ in range(2):
            envs.step([0])
            assert "0 envs in the event loop, 1 on threads" in envs.engine.summary()
        assert len(made) == 2


def test_closing_in_the_running_loop_says_what_was_left():
    async def main():
        envs = vecenv.make(HangsInClose, 1, engine="asyncio", loop="running")
        await envs.reset_one(0)
        await envs.close_async(0.5)

    with pytest.warns(RuntimeWarning, match="env 0 did not end within 0.5 s and"):
        asyncio.run(main())


def test_envs_that_are_closed_between_two_runs_of_their_loop_are_closed_when_it_runs_on():
    """They were left open, and the warning said that the loop had ended."""

    async def make():
        return vecenv.make([Waiting], engine="asyncio", loop="running")

    loop = asyncio.new_event_loop()
    envs = loop.run_until_complete(make())
    with pytest.warns(RuntimeWarning, match="is stopped, and closes them when it runs on; use `async with`"):
        envs.close()
    loop.run_until_complete(envs.close_async())
    loop.close()
    assert envs.engine.envs[0].closed


def test_envs_whose_event_loop_has_ended_are_reported_when_they_are_closed():
    async def main():
        envs = vecenv.make([Waiting], engine="asyncio", loop="running")
        await envs.reset_one(0)
        return envs

    envs = asyncio.run(main())
    with pytest.raises(WorkerDied, match="event loop that the envs run in has ended"):
        asyncio.run(envs.step_one(0, 1))
    with pytest.warns(RuntimeWarning, match="ended before close"):
        envs.close()
    assert envs.closed


def test_close_lets_what_it_cancelled_end_and_calls_nothing_beside_it():
    said, started = [], threading.Event()

    class Cleans(Waiting):
        async def step(self, action):
            try:
                started.set()
                await asyncio.sleep(600)
            finally:
                await asyncio.sleep(1.5)
                said.append("session deleted")

        async def close(self):
            said.append("closed")

    envs = vecenv.make(Cleans, 1, engine="asyncio")
    envs.reset(seed=0)
    envs.send([0])
    assert started.wait(60.0)
    envs.close(timeout=60.0)
    assert said == ["session deleted", "closed"]


def test_an_env_that_cannot_be_built_is_named_at_once_and_not_the_slow_one():
    def bad():
        raise ValueError("wrong password")

    def slow():
        freed.wait(60.0)
        ended.append(True)
        return Waiting()

    freed, ended = threading.Event(), []
    with pytest.raises(EnvError, match="wrong password"):
        vecenv.make([slow, bad], engine="asyncio")
    assert not ended
    freed.set()


def test_a_reset_that_fails_again_is_a_fault_of_the_reset():
    phases = []

    def classify(error, phase):
        phases.append(phase)
        return "terminal" if len(phases) > 2 else None

    with (
        waiting({0: "hang"}, reset_timeout=0.05, classify=classify, on_error="restart") as envs,
        pytest.raises(EnvTimeout, match="its reset"),
    ):
        envs.reset(seed=0)
    assert phases == ["reset"] * 3


def test_calls_do_not_wait_for_a_step_that_was_given_up():
    with vecenv.make(partial(Ordinary, hangs_at=1), 1, engine=Asyncio(step_timeout=0.1)) as envs:
        envs.reset(seed=0)
        with pytest.raises(EnvTimeout):
            envs.step([0])
        with pytest.raises(EnvError, match="was given up and still runs; reset"):
            envs.get_attr("steps")
        envs.engine.envs[0].freed.set()


def test_steps_may_be_iterated_over():
    async def main():
        fns = [partial(Waiting, number, 0.02 * number) for number in range(4)]
        async with vecenv.make(fns, engine="asyncio", batch_size=1) as envs:
            envs.reset(seed=0)
            envs.send([0, 0, 0, 0])
            counts = dict.fromkeys(range(4), 0)
            async for step in envs:
                for env_id in step.env_ids.tolist():
                    counts[env_id] += 1
                    if counts[env_id] < 3:
                        envs.send([1], [env_id])
            return counts

    assert asyncio.run(main()) == dict.fromkeys(range(4), 3)


@pytest.mark.parametrize("engine", ["asyncio", "sync", "process"])
def test_recv_async_waits_on_every_engine(engine):
    async def main():
        options = {"workers": 2, "context": "fork"} if engine == "process" else {}
        with vecenv.make("CartPole-v1", 4, engine=engine, **options) as envs:
            envs.reset(seed=0)
            envs.send([0, 0, 0, 0])
            step = await envs.recv_async(4)
            return step.env_ids.tolist(), step.age.shape

    assert asyncio.run(main()) == ([0, 1, 2, 3], (4,))


def test_what_would_stop_the_loop_is_refused():
    async def main():
        envs = vecenv.make([Waiting, partial(Waiting, 1)], engine="asyncio", loop="running")
        with pytest.raises(CallOrderError, match=r"reset\(\) would stop the event loop"):
            envs.reset(seed=0)
        assert [(await envs.reset_one(row))[0].shape for row in range(2)] == [(3,), (3,)]
        with pytest.raises(CallOrderError, match=r"step\(\) would stop the event loop"):
            envs.step([0, 0])
        assert [env.steps for env in envs.engine.envs] == [0, 0]  # what was refused did not run
        with pytest.raises(CallOrderError, match="this call would stop the event loop"):
            envs.call("number")
        envs.close()
        await envs.close_async()
        return envs.engine.envs

    assert all(env.closed for env in asyncio.run(main()))
    with pytest.raises(EngineRefused, match="no event loop runs here"):
        vecenv.make(Waiting, 1, engine="asyncio", loop="running")
    with vecenv.make("CartPole-v1", 1, engine="sync") as envs, pytest.raises(UnsupportedError, match="step_one"):
        asyncio.run(envs.step_one(0, 0))


@pytest.mark.parametrize("loop", ["own", "running"])
def test_wrappers_are_awaited_too(loop):
    async def main():
        fns = [partial(Learnable, number) for number in range(3)]
        inner = vecenv.make(fns, engine=Asyncio(loop=loop), autoreset="same-step")
        async with RecordEpisodeStatistics(TransformReward(inner, lambda reward: 10 * reward)) as envs:
            for env_id in range(3):
                obs, info = await envs.reset_one(env_id, seed=env_id)
                assert obs.tolist() == [env_id, 0, 1]
            steps = [[await envs.step_one(env_id, 1) for _ in range(5)] for env_id in range(3)]
            for env_id, results in enumerate(steps):
                assert [reward for _, reward, *_ in results] == [10.0] * 5
                obs, _, terminated, truncated, info = results[-1]
                assert (obs.tolist(), terminated, truncated) == ([env_id, 0, 1], True, False)
                assert info["final_obs"].tolist() == [env_id, 5, 1]
                assert (info["episode"]["r"], info["episode"]["l"]) == (50.0, 5)
            envs.send([0, 1, 1])
            seen = [(await envs.recv_async(1)).reward.tolist(), (await envs.recv_async()).reward.tolist()]
            assert sorted(seen[0] + seen[1]) == [0.0, 10.0, 10.0]
            envs.send([1, 1, 1])
            assert sum([len(step.env_ids) async for step in envs]) == 3

    asyncio.run(main())


def test_recv_async_has_a_timeout_and_loses_nothing():
    async def main():
        async with gated(1) as envs:
            envs.reset(seed=0)
            envs.send([0])
            with pytest.raises(WorkerTimeout, match=r"1 of 1 envs did not answer within 0.05 s"):
                await envs.recv_async(timeout=0.05)
            envs.engine.envs[0].may_end.add(0)
            return (await envs.recv_async()).env_ids.tolist()

    assert asyncio.run(main()) == [0]


def test_nothing_is_left_of_envs_of_which_one_cannot_be_built_in_the_running_loop():
    import threading

    closed = []

    class Closes(Ordinary):
        def close(self):
            super().close()
            closed.append(self)

    def bad():
        raise OSError("no browser")

    async def main():
        before = threading.active_count()
        with pytest.raises(EnvError, match="env 2 raised OSError in make: no browser"):
            vecenv.make([Closes, Closes, bad], engine=Asyncio(loop="running", concurrency=1))
        deadline = time.monotonic() + 60.0
        while (threading.active_count() > before or len(closed) < 2) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert (threading.active_count(), len(closed)) == (before, 2)

    asyncio.run(main())


def test_nothing_is_left_of_envs_whose_spaces_differ():
    import threading

    class Other(Ordinary):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(3)

    before = threading.active_count()
    with pytest.raises(SpaceError):
        vecenv.make([Ordinary, Other], engine="asyncio")
    assert until(lambda: threading.active_count() <= before, 60.0)
