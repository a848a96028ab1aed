"""What is around the engine works with it: recordings, replays, explanations, statistics, faces."""

from __future__ import annotations

import asyncio
from functools import partial

import numpy as np
import pytest

import vecenv
from tests.aio.async_envs import AsyncLawEnv, Learnable, Waiting
from vecenv.engines import Asyncio
from vecenv.errors import EnvError
from vecenv.testing._law_env import LawEnv
from vecenv.wrappers import RecordEpisodeStatistics


class Fails(AsyncLawEnv):
    async def step(self, action):
        result = await super().step(action)
        if result[0][2] == 3:
            raise ValueError("in the third step")
        return result


def test_a_failed_episode_is_recorded_and_replayed(tmp_path):
    with vecenv.make(Fails, 2, engine="asyncio", record="last-episode", record_folder=tmp_path) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step([1, 2])
        with pytest.raises(EnvError) as failed:
            envs.step([1, 2])
    replayed = vecenv.replay(failed.value.recording, trust=True)
    assert replayed.reproduced
    assert (replayed.failure.kind, replayed.failure.message) == ("raised", "in the third step")


def test_a_restarted_env_is_recorded_and_a_hang_is_replayed_as_one(tmp_path):
    fns = [partial(Waiting, 0, 0.0, {2: "hang"}, "recorded")]
    with vecenv.make(
        fns, engine="asyncio", step_timeout=0.5, on_error="restart", record="last-episode", record_folder=tmp_path
    ) as envs:
        envs.reset(seed=0)
        envs.step([1])
        *_, infos = envs.step([2])
        path = infos["fault"]["recording"][0]
    Waiting.made.clear()
    replayed = vecenv.replay(path, env=partial(Waiting, 0, 0.0, {2: "hang"}), patience=0.5)
    assert replayed.failure.kind == "hung"


def test_the_recording_of_a_running_episode_is_that_of_the_sync_engine(tmp_path):
    def record(engine, env):
        with vecenv.make(env, 2, engine=engine, record="last-episode", record_folder=tmp_path) as envs:
            envs.reset(seed=0)
            for _ in range(2):
                envs.step([1, 2])
            return envs.recording(1)

    ours, theirs = record("asyncio", AsyncLawEnv), record("sync", LawEnv)
    assert ours.start == theirs.start
    assert [column.tolist() for column in ours.actions] == [column.tolist() for column in theirs.actions]
    assert vecenv.replay(ours, trust=True).reproduced


def test_time_is_explained():
    with vecenv.make([partial(Waiting, number, 0.01) for number in range(4)], engine="asyncio") as envs:
        envs.reset(seed=0)
        for _ in range(5):
            envs.step([0, 0, 0, 0])
        stats, explained = envs.stats(), envs.explain(show=lambda text: None)
    assert stats.steps == 24
    assert (stats.env_p50 >= 0.01).all()
    assert "engine 'asyncio'" in str(explained)


def test_it_is_a_vec_env_of_stable_baselines():
    from vecenv.sb3 import wrap

    envs = wrap(vecenv.make(Learnable, 2, engine="asyncio", autoreset="same-step"))
    assert envs.reset()[:, 1].tolist() == [0, 0]
    for _ in range(5):
        obs, rewards, dones, infos = envs.step(np.ones(2, int))
    assert (obs[:, 1].tolist(), rewards.tolist(), dones.tolist()) == ([0, 0], [1, 1], [True, True])
    assert [info["terminal_observation"][1] for info in infos] == [5, 5]
    envs.close()


@pytest.mark.slow
def test_stable_baselines_trains_with_it():
    sb3 = pytest.importorskip("stable_baselines3")
    from vecenv.sb3 import wrap

    envs = wrap(vecenv.make(Learnable, 4, engine="asyncio", autoreset="same-step"))
    model = sb3.PPO("MlpPolicy", envs, n_steps=8, batch_size=16, n_epochs=1, device="cpu").learn(64)
    assert model.num_timesteps >= 64
    envs.close()


def test_statistics_and_evaluation_count_its_episodes():
    with vecenv.wrappers.RecordEpisodeStatistics(vecenv.make(Learnable, 3, engine="asyncio")) as envs:
        envs.reset(seed=0)
        for _ in range(5):
            *_, infos = envs.step(np.ones(3, int))
        assert infos["episode"]["l"].tolist() == [5, 5, 5]
        assert infos["episode"]["r"].tolist() == [5.0, 5.0, 5.0]


class Late(Learnable):
    """The third step of the first env never ends; that of the env that is built in its place does."""

    def __init__(self, key):
        super().__init__()
        self.fails = {3: "hang"}
        self.made[key] = self.generation = self.made.get(key, 0) + 1


def test_an_episode_that_a_fault_ended_is_no_low_return(monkeypatch):
    monkeypatch.setattr(Waiting, "made", {})
    with vecenv.make(partial(Late, "a"), engine=Asyncio(step_timeout=0.5), on_error="restart") as envs:
        counted = RecordEpisodeStatistics(envs)
        counted.reset(seed=0)
        infos = [counted.step([1])[4] for _ in range(9)]
        faulty = next(info for info in infos if "fault" in info)
        assert faulty["episode"]["r"].tolist() == [2.0]  # beside its fault
        assert (counted.episode_count, counted.skipped, list(counted.return_queue)) == (2, 1, [5.0])


class FailsOnce(Learnable):
    """Its second reset raises."""

    def __init__(self, key):
        super().__init__()
        self.key = key

    async def reset(self, *, seed=None, options=None):
        self.made[self.key] = self.made.get(self.key, 0) + 1
        if self.made[self.key] == 2:
            raise ValueError("the next episode cannot begin")
        return await super().reset(seed=seed, options=options)


def test_a_sound_episode_before_a_reset_that_failed_counts(monkeypatch):
    monkeypatch.setattr(Waiting, "made", {})
    options = {"engine": "asyncio", "on_error": "restart", "autoreset": "same-step"}
    with vecenv.make(partial(FailsOnce, "c"), **options) as envs:
        counted = RecordEpisodeStatistics(envs)
        counted.reset(seed=0)
        infos = [counted.step([1])[4] for _ in range(5)]
        assert infos[-1]["fault"]["phase"].tolist() == ["reset"]
        assert (counted.skipped, list(counted.return_queue)) == (0, [5.0])
    envs = vecenv.sb3.wrap(vecenv.make(partial(FailsOnce, "d"), **options))
    envs.reset()
    *_, (_, _, dones, infos) = [envs.step(np.array([1])) for _ in range(5)]
    assert dones[0]
    assert "fault" not in infos[0]
    envs.close()


def test_the_sb3_face_shows_the_fault_in_the_info_that_ends_the_episode(monkeypatch):
    monkeypatch.setattr(Waiting, "made", {})
    options = {"engine": Asyncio(step_timeout=0.5), "on_error": "restart", "autoreset": "same-step"}
    envs = vecenv.sb3.wrap(vecenv.make(partial(Late, "b"), **options))
    envs.reset()
    results = [envs.step(np.array([1])) for _ in range(8)]
    ended = [infos[0].get("fault", {}).get("kind") for _, _, dones, infos in results if dones[0]]
    assert ended == ["timeout", None]
    envs.close()


def test_an_awaited_env_is_replayed_where_an_event_loop_runs(tmp_path):
    with vecenv.make(Fails, 1, engine="asyncio", record="last-episode", record_folder=tmp_path) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step([1])
        with pytest.raises(EnvError) as failed:
            envs.step([1])

    async def in_a_notebook():
        return vecenv.replay(failed.value.recording, trust=True)

    assert asyncio.run(in_a_notebook()).reproduced
