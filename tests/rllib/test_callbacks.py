"""Callbacks per episode: in `native` they are called when RLlib's own runner calls them, and read the same episodes."""

import numpy as np
import pytest
from ray.rllib.callbacks.callbacks import RLlibCallback

from tests.rllib.rllib_helpers import CountingEnv, configured, ppo, runner_of

NAMES = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


class Talkative(CountingEnv):
    """Episodes of different lengths, with infos."""

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        self._length = int(self.np_random.integers(1, 9))
        return obs, {"length": self._length}

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward + float(action), terminated, truncated, {"time": self._time}


class Recorder(RLlibCallback):
    """Writes down every call and what it can read."""

    def __init__(self):
        self.calls = []

    def on_episode_created(self, *, episode, env_index, **kwargs):
        self._write("created", episode, env_index, **kwargs)

    def on_episode_start(self, *, episode, env_index, **kwargs):
        episode.custom_data["steps"] = 0
        self._write("start", episode, env_index, **kwargs)

    def on_episode_step(self, *, episode, env_index, **kwargs):
        episode.custom_data["steps"] += 1
        self._write("step", episode, env_index, **kwargs)

    def on_episode_end(self, *, episode, env_index, prev_episode_chunks, metrics_logger, **kwargs):
        before = [(len(chunk), chunk.get_return(), chunk.is_numpy) for chunk in prev_episode_chunks]
        metrics_logger.log_value("steps_by_callback", episode.custom_data["steps"], reduce="sum")
        self._write("end", episode, env_index, before, metrics_logger=metrics_logger, **kwargs)

    def _write(self, name, episode, env_index, *more, env_runner, metrics_logger, env, rl_module):
        assert env_runner.module is rl_module
        assert env.num_envs == env_runner.num_envs
        assert metrics_logger is env_runner.metrics
        outputs = {key: np.asarray(episode.get_extra_model_outputs(key)) for key in episode.extra_model_outputs}
        self.calls.append(
            (
                (name, env_index, episode.t_started, episode.t, len(episode), episode.get_return(), *more),
                (episode.is_reset, episode.is_terminated, episode.is_truncated, dict(episode.custom_data)),
                np.asarray(episode.get_observations()).tolist() if episode.is_reset else None,
                np.asarray(episode.get_actions()).tolist() if len(episode) else None,
                [dict(info) for info in episode.get_infos()] if episode.is_reset else None,
                outputs,
            )
        )


def calls_of(mode, normalize=False):
    config = configured(
        Talkative, 3, mode, ppo().callbacks(Recorder), train_batch=64, minibatch=64, normalize_observations=normalize
    )
    runner = runner_of(config)
    (recorder,) = runner._callbacks
    return runner, recorder.calls


def test_native_makes_the_calls_of_rllibs_runner_with_equal_episodes():
    native, ours = calls_of("native")
    vec, theirs = calls_of("vec")
    native.module.set_state(vec.module.get_state())
    for _ in range(4):
        for runner in (native, vec):
            runner.sample(num_timesteps=20, explore=False)
    logged = [runner.get_metrics()["steps_by_callback"].peek() for runner in (native, vec)]
    native.stop()
    vec.stop()
    assert [call[0] for call in ours] == [call[0] for call in theirs]
    for our, their in zip(ours, theirs, strict=True):
        assert our[:5] == their[:5]
        assert our[5].keys() == their[5].keys()
        for key, values in their[5].items():
            np.testing.assert_allclose(our[5][key], values, atol=1e-6, err_msg=key)  # matrices of other shapes
    ended = [call[0] for call in ours if call[0][0] == "end"]
    assert len(ended) > 10
    assert any(before for *_, before in ended)  # an episode that spans two samples
    assert logged[0] == logged[1] > 20


def test_calls_per_episode_leave_nothing_behind():
    runner, calls = calls_of("native")
    for _ in range(30):
        runner.sample(num_timesteps=20)
        calls.clear()
    assert len(runner._ongoing_episodes_for_metrics) <= 3
    runner.stop()


def test_observations_of_episodes_are_the_normalised_ones():
    runner, calls = calls_of("native", normalize=True)
    (rollout,) = runner.sample(num_timesteps=60)
    runner.stop()
    steps = [call for call in calls if call[0][:2] == ("step", 0)]
    seen = [call[2][-1] for call in steps]
    np.testing.assert_array_equal(np.float32(seen), rollout.obs[1:, 0][rollout.valid[:, 0]])


def test_functions_are_called_too():
    ended = []
    config = ppo().callbacks(on_episode_end=lambda episode, **kwargs: ended.append(episode.get_return()))
    runner = runner_of(configured(CountingEnv, config=config))
    runner.sample(num_episodes=16)
    runner.stop()
    assert ended == [5.0] * 16


@pytest.mark.parametrize("name", NAMES)
def test_without_callbacks_per_episode_there_are_no_episodes(name):
    runner = runner_of(configured(CountingEnv))
    runner.sample(num_timesteps=8)
    assert runner._ongoing_episodes == [None] * 8
    runner.stop()
    runner = runner_of(configured(CountingEnv, config=ppo().callbacks(**{name: lambda **kwargs: None})))
    runner.sample(num_timesteps=8)
    assert None not in runner._ongoing_episodes
    runner.stop()
