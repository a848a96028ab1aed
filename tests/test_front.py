"""The front: modes, partial exchanges, statistics, call order, what is handed out."""

import subprocess
import sys
import time

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv
from vecenv.errors import EngineRefused, NothingPendingError, PendingError
from vecenv.testing import LawEnv

MODES = {
    "next-step": AutoresetMode.NEXT_STEP,
    "same-step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}
ENGINES = {
    "sync": {"engine": "sync"},
    "thread": {"engine": "thread", "workers": 2},
    "process": {"engine": "process", "workers": 2, "context": "fork"},
    "caller": {"engine": "process", "workers": 1, "context": "fork", "caller_works": True},
}


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def law_envs(engine, count=4, **kwargs):
    return vecenv.make([lambda row=row: LawEnv(row) for row in range(count)], **engine, **kwargs)


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_cartpole_is_bit_equal_to_gymnasium(engine, mode):
    reference = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 5, autoreset_mode=MODES[mode])
    actions = np.random.default_rng(0).integers(0, 2, (300, 5))
    with vecenv.make("CartPole-v1", 5, autoreset=mode, **engine) as envs:
        assert np.array_equal(envs.reset(seed=7)[0], reference.reset(seed=7)[0])
        for action in actions:
            ours, theirs = envs.step(action), reference.step(action)
            for mine, wanted in zip(ours[:4], theirs[:4]):
                assert mine.dtype == wanted.dtype
                assert np.array_equal(mine, wanted)
            assert ours[4].keys() == theirs[4].keys()
            for mine, wanted in zip(ours[4].get("final_obs", []), theirs[4].get("final_obs", [])):
                assert np.array_equal(mine, wanted)
    reference.close()


def test_disabled_mode_with_masked_resets_is_bit_equal_to_gymnasium(engine):
    fns = [lambda row=row: LawEnv(row) for row in range(4)]
    reference = SyncVectorEnv(fns, autoreset_mode=AutoresetMode.DISABLED)
    with vecenv.make(fns, autoreset="disabled", **engine) as envs:
        assert np.array_equal(envs.reset(seed=1)[0], reference.reset(seed=1)[0])
        for _ in range(40):
            ours, theirs = envs.step(np.ones(4, int)), reference.step(np.ones(4, int))
            assert all(np.array_equal(mine, wanted) for mine, wanted in zip(ours[:4], theirs[:4]))
            done = ours[2] | ours[3]
            if done.any():
                options = {"reset_mask": done}
                obs, infos = envs.reset(options=options)
                assert options.keys() == {"reset_mask"}
                wanted, wanted_infos = reference.reset(options={"reset_mask": done})
                assert np.array_equal(obs, wanted)
                assert infos.keys() == wanted_infos.keys()
                assert np.array_equal(infos["began"], wanted_infos["began"])


def test_the_true_successor_is_the_same_in_every_mode(engine):
    """Transitions as a buffer would store them: (obs, action, reward, next_obs, terminated) of valid rows."""

    def transitions(mode):
        stored = [[] for _ in range(3)]
        with law_envs(engine, 3, autoreset=mode) as envs:
            obs, _ = envs.reset(seed=3)
            for _ in range(40):
                envs.send(np.ones(3, int))
                step = envs.recv()
                assert step.env_ids.tolist() == [0, 1, 2]
                next_obs = step.next_obs
                for row in np.flatnonzero(step.valid):
                    successor = (step.reward[row], next_obs[row].tolist(), step.terminated[row])
                    stored[row].append((obs[row].tolist(), *successor))
                obs = step.obs
                if mode == "disabled" and step.done.any():
                    obs, _ = envs.reset(options={"reset_mask": step.done})
        return stored

    runs = [transitions(mode) for mode in MODES]
    for per_env in zip(*runs):
        shortest = min(map(len, per_env))
        assert shortest > 25
        assert per_env[0][:shortest] == per_env[1][:shortest] == per_env[2][:shortest]


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_episode_statistics_are_those_of_gymnasiums_wrapper(engine, mode):
    reference = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        SyncVectorEnv([lambda row=row: LawEnv(row) for row in range(4)], autoreset_mode=MODES["next-step"])
    )
    reference.reset(seed=0)
    expected = []
    for _ in range(60):
        *_, infos = reference.step(np.ones(4, int))
        done = infos.get("_episode", np.zeros(4, bool))
        expected += [(row, infos["episode"]["r"][row], infos["episode"]["l"][row]) for row in np.flatnonzero(done)]
    found = []
    with law_envs(engine, autoreset=mode) as envs:
        envs.reset(seed=0)
        for _ in range(60):
            envs.send(np.ones(4, int))
            step = envs.recv()
            assert np.array_equal(step.episode_return, envs.episode_return)
            found += [(row, step.episode_return[row], step.episode_length[row]) for row in np.flatnonzero(step.done)]
    for row in range(4):
        ours = [entry[1:] for entry in found if entry[0] == row]
        theirs = [entry[1:] for entry in expected if entry[0] == row]
        assert len(theirs) > 5
        assert np.allclose(ours[: len(theirs)], theirs, rtol=1e-6)  # Gymnasium sums in float32 or float64 by version


def test_first_ready_rows_equal_a_lockstep_run_row_by_row(engine):
    actions = np.random.default_rng(1).integers(0, 3, (30, 6))
    with law_envs(engine, 6, autoreset="same-step") as envs:
        envs.reset(seed=2)
        lockstep = np.array([envs.step(action)[0] for action in actions])
    with law_envs(engine, 6, autoreset="same-step", batch_size=2) as envs:
        envs.reset(seed=2)
        taken = np.zeros(6, int)
        seen = np.zeros_like(lockstep)
        envs.send(actions[0])
        while (taken < 30).any():
            step = envs.recv()
            assert len(step.env_ids) <= 2
            seen[taken[step.env_ids], step.env_ids] = step.obs
            taken[step.env_ids] += 1
            going_on = step.env_ids[taken[step.env_ids] < 30]
            if len(going_on):
                envs.send(actions[taken[going_on], going_on], going_on)
    assert np.array_equal(seen, lockstep)


def test_a_partial_step_leaves_the_other_envs_alone(engine):
    with law_envs(engine) as envs:
        before, _ = envs.reset(seed=0)
        obs, reward, *_ = envs.step([1, 1], env_ids=[3, 1])
        assert obs.shape == (2, 5)
        assert obs[:, 0].tolist() == [3, 1]
        assert reward.shape == (2,)
        after, *_ = envs.step(np.ones(4, int))
        assert after[:, 2].tolist() == [1, 2, 1, 2]
        assert np.array_equal(before[[0, 2], :2], after[[0, 2], :2])


def test_seeds_do_not_depend_on_the_number_of_envs_or_workers():
    def first_obs(count, **engine):
        with vecenv.make([lambda row=row: LawEnv(0) for row in range(count)], **engine) as envs:
            return envs.reset(seed=5)[0]

    small, large = first_obs(3, engine="sync"), first_obs(8, engine="sync")
    assert np.array_equal(small, large[:3])
    for workers in (1, 2, 3, 8):
        assert np.array_equal(large, first_obs(8, engine="process", context="fork", workers=workers))
        assert np.array_equal(large, first_obs(8, engine="thread", workers=workers))


def test_spawned_seeds_give_other_streams_that_do_not_overlap():
    with law_envs(ENGINES["sync"], 8, seeding="spawn") as envs:
        first, second = envs.reset(seed=0)[0][:, 3], envs.reset(seed=1)[0][:, 3]
        assert len({*first, *second}) == 16
        assert np.array_equal(envs.reset(seed=0)[0][:, 3], first)


def test_options_go_to_all_envs_or_to_each_its_own(engine):
    class Options(LawEnv):
        def reset(self, *, seed=None, options=None):
            obs, _ = super().reset(seed=seed)
            return obs, {"got": repr(options)}

    with vecenv.make([Options] * 3, **engine) as envs:
        assert envs.reset()[1]["got"].tolist() == ["None"] * 3
        assert envs.reset(options={"a": 1})[1]["got"].tolist() == ["{'a': 1}"] * 3
        assert envs.reset(options=[{"a": 0}, None, {"a": 2}])[1]["got"].tolist() == ["{'a': 0}", "None", "{'a': 2}"]
        mask = np.array([False, True, False])
        assert envs.reset(options={"a": 1, "reset_mask": mask})[1]["got"].tolist() == [None, "{'a': 1}", None]


def test_what_was_handed_out_stays_as_it_was(engine):
    with law_envs(engine) as envs:
        obs, _ = envs.reset(seed=0)
        kept = obs.copy()
        step = envs.step(np.ones(4, int))
        kept_step = [array.copy() for array in step[:4]]
        for _ in range(5):
            envs.step(np.ones(4, int))
        assert np.array_equal(obs, kept)
        assert all(np.array_equal(array, copy) for array, copy in zip(step[:4], kept_step))
        assert all(array.flags.writeable for array in (obs, *step[:4]))


def test_without_copies_observations_are_views(engine):
    with law_envs(engine, copy=False) as envs:
        obs, _ = envs.reset(seed=0)
        envs.step(np.ones(4, int))
        assert obs[:, 2].tolist() == [1, 1, 1, 1]


def test_an_env_may_keep_its_action(engine):
    class Keeper(LawEnv):
        def __init__(self):
            super().__init__()
            self.action_space = gymnasium.spaces.Box(-1, 1, (2,))
            self.actions = []

        def step(self, action):
            self.actions.append(action)
            return super().step(0)

    with vecenv.make([Keeper] * 3, **engine) as envs:
        envs.reset()
        sent = np.random.default_rng(0).uniform(-1, 1, (4, 3, 2)).astype(np.float32)
        for actions in sent:
            envs.step(actions)
        assert np.array_equal(np.array(envs.get_attr("actions")).swapaxes(0, 1)[:3], sent[:3])


def test_attributes_and_methods_reach_every_env(engine):
    with law_envs(engine) as envs:
        envs.reset(seed=4)
        assert envs.call("has_wrapper_attr", "_index") == (True,) * 4
        assert envs.get_attr("_index") == (0, 1, 2, 3)
        envs.set_attr("_index", [9, 8, 7, 6])
        assert envs.get_attr("_index") == (9, 8, 7, 6)
        envs.set_attr("_index", 5)
        assert envs.get_attr("_index") == (5, 5, 5, 5)
        assert envs.np_random_seed == (4, 5, 6, 7)
        assert len(envs.np_random) == 4


def test_frames_come_from_every_env(engine):
    with vecenv.make("CartPole-v1", 2, render_mode="rgb_array", **engine) as envs:
        envs.reset(seed=0)
        frames = envs.render()
        assert len(frames) == 2
        assert all(frame.shape == (400, 600, 3) for frame in frames)


def test_step_while_results_wait_says_what_to_do(engine):
    with law_envs(engine) as envs:
        envs.reset()
        envs.send(np.ones(4, int))
        with pytest.raises(PendingError, match=r"4 envs.*recv\(\)"):
            envs.step(np.ones(4, int))
        assert len(envs.recv().env_ids) == 4
        with pytest.raises(NothingPendingError):
            envs.recv()


def test_stats_name_the_slow_env(engine):
    class Slow(LawEnv):
        def step(self, action):
            if self._index == 2:
                deadline = time.perf_counter() + 0.003
                while time.perf_counter() < deadline:
                    pass
            return super().step(action)

    with vecenv.make([lambda row=row: Slow(row) for row in range(4)], **engine) as envs:
        envs.reset()
        for _ in range(40):
            envs.step(np.ones(4, int))
        stats = envs.stats()
        assert stats.slowest == 2
        assert stats.env_mean[2] > 0.002
        assert stats.env_p99[2] >= 0.002
        assert stats.steps == 41 * 4
        assert stats.exchanges == 41
        assert stats.seconds_in_envs > 0.05
        assert stats.seconds_waiting > 0.05
        assert stats.seconds_copying > 0


def test_auto_keeps_cheap_envs_here_and_sends_expensive_ones_away(monkeypatch):
    class Busy(LawEnv):
        def step(self, action):
            deadline = time.perf_counter() + 0.002
            while time.perf_counter() < deadline:
                pass
            return super().step(action)

    with vecenv.make(LawEnv, 4) as envs:
        assert envs.engine.name == "sync"
        assert "us" in envs.engine_reason
    monkeypatch.setattr("vecenv._make.choose.usable_cpus", lambda: 2)
    with vecenv.make(Busy, 4) as envs:
        assert envs.engine.name == "process"
        assert "2 processes" in envs.engine_reason
    with vecenv.make(Busy, 1) as envs:
        assert envs.engine.name == "sync"
    with vecenv.make(LawEnv, 4096) as envs:
        assert envs.engine.name == "process"
        assert "4096 envs" in envs.engine_reason
    with vecenv.make(LawEnv, 4, workers=2, context="fork") as envs:
        assert envs.engine.name == "process"
        assert "the sync engine has no option workers" in envs.engine_reason


def test_gymnasiums_vector_wrappers_stack_on_ours():
    with vecenv.make("CartPole-v1", 3, engine="sync") as envs:
        wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
        wrapped = gymnasium.wrappers.vector.NormalizeObservation(wrapped)
        wrapped.reset(seed=0)
        for _ in range(50):
            obs, *_ = wrapped.step(wrapped.action_space.sample())
        assert obs.shape == (3, 4)


def test_importing_vecenv_loads_no_optional_part():
    code = "import sys, vecenv; print(sorted({'torch', 'numba', 'ray', 'stable_baselines3', 'jax'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_step_imports_nothing():
    """Python's import swallows errors of some classes, those that a signal handler raises meanwhile too."""
    code = """
import sys, vecenv
from vecenv.testing import LawEnv
envs = vecenv.make([LawEnv] * 2, engine="sync")
envs.reset(seed=0)
before = set(sys.modules)
envs.step([0, 0])
print(sorted(set(sys.modules) - before))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_workers_import_neither_torch_nor_numba():
    class Spy(LawEnv):
        def loaded(self):
            return sorted({"torch", "numba"} & set(__import__("sys").modules))

    for context in ("forkserver", "spawn"):
        with vecenv.make([Spy] * 2, engine="process", context=context, workers=1) as envs:
            assert envs.call("loaded") == ([], [])


def test_no_env_is_built_in_the_calling_process():
    class Where(LawEnv):
        def __init__(self):
            super().__init__()
            self.pid = __import__("os").getpid()

    with vecenv.make([Where] * 3, engine="process", workers=2, context="fork") as envs:
        assert __import__("os").getpid() not in envs.get_attr("pid")


def test_a_timeout_is_not_taken_by_an_engine_that_cannot_keep_it():
    with pytest.raises(
        EngineRefused, match=r"sync engine .* cannot give up .* engine='thread', 'process', 'asyncio' or 'ray'"
    ):
        vecenv.make(LawEnv, 2, engine="sync", timeout=1.0)
    with vecenv.make(LawEnv, 2, timeout=5.0) as envs:
        assert envs.engine.name == "process"
        assert "timeout" in envs.engine_reason


def test_workers_use_no_processor_while_nothing_is_asked_of_them():
    with vecenv.make(LawEnv, 4, engine="process", workers=2, context="fork") as envs:
        envs.reset()
        workers = [psutil.Process(process.pid) for process in envs.engine.processes]
        time.sleep(0.1)  # they spin for a millisecond, then park
        before = [sum(worker.cpu_times()[:2]) for worker in workers]
        time.sleep(2.0)  # the time that is measured
        after = [sum(worker.cpu_times()[:2]) for worker in workers]
        assert all(end - start <= 0.02 for start, end in zip(before, after))
        assert envs.step(np.ones(4, int))[0][:, 2].tolist() == [1, 1, 1, 1]


def test_an_env_spec_is_as_good_as_its_id():
    with vecenv.make(gymnasium.spec("CartPole-v1"), 2, engine="sync") as envs:
        assert envs.spec.id == "CartPole-v1"
        assert np.array_equal(envs.reset(seed=0)[0], vecenv.make("CartPole-v1", 2).reset(seed=0)[0])


class EndsBothWays(LawEnv):
    """Its third step terminates the episode, and truncates it."""

    def reset(self, *, seed=None, options=None):
        self._left = 3
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._left -= 1
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self._left == 0, self._left == 0, info


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_an_episode_that_terminates_and_is_truncated_in_one_step_is_over(engine, mode):
    fns = [lambda row=row: EndsBothWays(row) for row in range(4)]
    reference = SyncVectorEnv(fns, autoreset_mode=MODES[mode])
    with vecenv.make(fns, autoreset=mode, **engine) as envs:
        assert np.array_equal(envs.reset(seed=1)[0], reference.reset(seed=1)[0])
        for _ in range(9):
            ours, theirs = envs.step(np.ones(4, int)), reference.step(np.ones(4, int))
            assert all(np.array_equal(mine, wanted) for mine, wanted in zip(ours[:4], theirs[:4]))


@pytest.mark.parametrize("name", ["sync", "process"])
def test_final_observations_stay_the_users_without_copies_too(name):
    with law_envs(ENGINES[name], 2, autoreset="same-step", copy=False) as envs:
        envs.reset(seed=3)
        kept = []
        for _ in range(60):
            infos = envs.step(np.ones(2, int))[4]
            for row in np.flatnonzero(infos.get("_final_obs", [])):
                kept.append((infos["final_obs"][row], infos["final_obs"][row].copy()))
        assert len(kept) > 2
        for held, copied in kept:
            assert np.array_equal(held, copied)


class ReusesItsInfo(LawEnv):
    """Hands out one dict for ever, and changes it in every call."""

    def __init__(self, row):
        super().__init__(row)
        self._info, self._calls = {"numbers": []}, 0

    def _changed_info(self):
        self._calls += 1
        self._info["numbers"][:] = [self._calls]
        return self._info

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0], self._changed_info()

    def step(self, action):
        return *super().step(action)[:4], self._changed_info()


def test_the_final_info_stays_when_the_env_reuses_its_dict_for_the_reset(engine):
    with vecenv.make([lambda: ReusesItsInfo(0)] * 2, autoreset="same-step", **engine) as envs:
        envs.reset(seed=0)
        ends = 0
        for _ in range(40):
            infos = envs.step(np.ones(2, int))[4]
            for row in np.flatnonzero(infos.get("_final_info", [])):
                (final,), (began,) = infos["final_info"]["numbers"][row], infos["numbers"][row]
                assert began == final + 1
                ends += 1
        assert ends > 2


class KeepsItsActions(gymnasium.Env):
    """Its reward is the number of actions that are still what they were when they came."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Dict(
        {"push": gymnasium.spaces.Box(-1, 1, (2,)), "turn": gymnasium.spaces.Discrete(9)}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._kept = []
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._kept.append((action, action["push"].copy(), int(action["turn"])))
        same = [np.array_equal(held["push"], push) and held["turn"] == turn for held, push, turn in self._kept]
        return np.zeros(1, np.float32), float(sum(same)), False, False, {}


def test_an_env_may_keep_a_nested_action(engine):
    with vecenv.make(KeepsItsActions, 3, **engine) as envs:
        envs.reset(seed=0)
        envs.action_space.seed(0)
        for step in range(1, 6):
            assert envs.step(envs.action_space.sample())[1].tolist() == [step] * 3


def test_final_observations_of_wrapped_envs_are_the_user_s_to_keep():
    envs = vecenv.wrappers.TransformReward(
        vecenv.make("CartPole-v1", 1, autoreset="same-step", copy=False), lambda reward: reward
    )
    envs.reset(seed=0)
    kept = []
    while len(kept) < 3:
        infos = envs.step(np.ones(1, np.int64))[-1]
        if "final_obs" in infos:
            kept.append((infos["final_obs"][0], infos["final_obs"][0].copy()))
    for final, copy in kept:
        np.testing.assert_array_equal(final, copy)
    envs.close()
