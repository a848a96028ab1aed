"""Steps, episodes, schedules: true numbers in every mode, merged exactly across runners, and nothing that grows."""

import numpy as np
import psutil
import pytest

from tests.rllib.rllib_helpers import CountingEnv, OwnVectorEnv, configured, packed, ppo, runner_of
from tests.sampling import slow
from vecenv._util.episodes import EpisodeLog
from vecenv.rllib._episodes import ExactMean, log_episodes

PACKED = ["packed_vec", "native"]


class RecordedVectorEnv(OwnVectorEnv):
    """Keeps what its episodes were, by its own count."""

    ended: list

    def reset(self, **kwargs):
        self.ended, self._sum, self._long = [], np.zeros(self.num_envs), np.zeros(self.num_envs, int)
        return super().reset(**kwargs)

    def step(self, actions):
        began = ~self._done
        results = super().step(actions)
        self._sum += np.where(began, results[1], 0)
        self._long += began
        for env in np.flatnonzero(results[2] | results[3]):
            self.ended.append((self._sum[env], self._long[env]))
            self._sum[env] = self._long[env] = 0
        return results


@pytest.mark.parametrize("mode", PACKED)
def test_metrics_are_those_of_exactly_the_episodes_that_ended(mode):
    runner = runner_of(configured(RecordedVectorEnv, mode=mode))
    for _ in range(3):
        before = len(runner.envs.ended) if hasattr(runner.envs, "ended") else 0
        (rollout,) = packed(runner.sample(num_timesteps=300))
        metrics = runner.get_metrics()
        returns, lengths = np.array(runner.envs.ended[before:]).T
        assert metrics["num_env_steps_sampled"].peek() == len(rollout) == rollout.valid.sum()
        assert 300 <= len(rollout) < 308
        assert metrics["num_episodes"].peek() == len(returns) == (rollout.terminated | rollout.truncated).sum()
        assert metrics["episode_return_mean"].peek() == pytest.approx(returns.mean(), rel=1e-12)
        assert metrics["episode_len_mean"].peek() == pytest.approx(lengths.mean(), rel=1e-12)
        for name, values in (("return", returns), ("len", lengths)):
            assert metrics[f"episode_{name}_min"].peek() == values.min()
            assert metrics[f"episode_{name}_max"].peek() == values.max()
    runner.stop()


@pytest.mark.parametrize("mode", ["vec", *PACKED])
def test_all_modes_take_the_same_number_of_steps(mode):
    """8 envs, 5 steps and a reset: 256 steps are there after 38 steps of all, of which 6 were resets."""
    algorithm = configured(CountingEnv, mode=mode).build_algo()
    results = [algorithm.train() for _ in range(2)]
    algorithm.stop()
    counts = [result["env_runners"]["num_env_steps_sampled"] for result in results]
    # The first 38 steps of all envs have 6 resets, the next 39 have 7.
    assert counts == [8 * 32, 8 * 32]
    assert results[-1]["env_runners"]["num_env_steps_sampled_lifetime"] == sum(counts)
    assert results[-1]["env_runners"]["episode_return_mean"] == 5.0
    if mode != "vec":  # RLlib's own is too long: its learner adds a step to chunks that its metrics count later
        assert results[-1]["env_runners"]["episode_len_mean"] == 5.0


@pytest.mark.parametrize("mode", ["vec", *PACKED])
def test_a_schedule_goes_by_true_steps(mode):
    config = ppo()
    config.training(lr=[[0, 1.0], [1000, 0.0]])
    algorithm = configured(CountingEnv, mode=mode, config=config).build_algo()
    for _ in range(2):
        result = algorithm.train()
    rate = result["learners"]["default_policy"]["default_optimizer_learning_rate"]
    algorithm.stop()
    assert rate == pytest.approx(1.0 - 512 / 1000, abs=1e-6)


@pytest.mark.parametrize("mode", PACKED)
def test_a_batch_that_the_envs_do_not_divide(mode):
    """With 48 envs both modes stop at the first step of all that has 256 steps."""
    runner = runner_of(configured(CountingEnv, 48, mode=mode))
    rollouts = [packed(runner.sample())[0] for _ in range(3)]
    runner.stop()
    assert [len(rollout) for rollout in rollouts] == [288, 288, 288]


def test_episodes_that_a_reset_cut_off_count_for_no_return():
    runner = runner_of(configured(CountingEnv, mode="native"))
    runner.sample(num_timesteps=8 * 3)
    runner.sample(num_episodes=8)
    metrics = runner.get_metrics()
    runner.stop()
    assert metrics["episode_len_max"].peek() == 5.0


@pytest.mark.parametrize("mode", PACKED)
def test_shares_of_runners_that_do_not_divide_the_batch_are_rounded_up(mode):
    runner = runner_of(configured(CountingEnv, 1, mode=mode, env_runners=3), worker_index=1)
    (rollout,) = packed(runner.sample())
    runner.stop()
    assert len(rollout) == 86


@pytest.mark.parametrize("mode", ["packed_vec", *slow("native")])
def test_actors_merge_their_episodes_exactly(mode):
    """Runners with different numbers of episodes: the mean is over episodes, not over runners."""
    algorithm = configured(lengths_by_runner, mode=mode, env_runners=2, train_batch=512).build_algo()
    result = algorithm.train()["env_runners"]
    algorithm.stop()
    # Of 2 x 256 steps (8 envs each): episodes of 2 steps on one runner, of 16 on the other.
    assert {result["episode_len_min"], result["episode_len_max"]} == {2.0, 16.0}
    short, long = 256 // 2, 256 // 16
    assert result["num_episodes"] == short + long
    assert result["episode_len_mean"] == pytest.approx((short * 2 + long * 16) / (short + long))
    assert result["num_env_steps_sampled"] == 512


class _Lengths(OwnVectorEnv):
    def reset(self, *, seed=None, options=None):
        self._length = 2 if seed is None or seed % 2 else 16
        return super().reset(seed=seed)

    def step(self, actions):
        reset = self._done
        self._time = np.where(reset, 0, self._time + 1)
        self._done = ~reset & (self._time >= self._length)
        return self._seen(), np.ones(self.num_envs), self._done, np.zeros(self.num_envs, bool), {}


def lengths_by_runner(num_envs):
    return _Lengths(num_envs)


def test_the_log_counts_only_transitions():
    log = EpisodeLog(2)
    log.add(np.array([1.0, 2.0]), np.array([True, False]), np.array([True, True]))
    log.add(np.array([9.0, 3.0]), np.array([False, True]), np.array([False, True]))
    assert (log.steps, log.episodes) == (3, 2)
    steps, returns, lengths = log.take()
    assert (steps, returns.tolist(), lengths.tolist()) == (3, [1.0, 5.0], [1, 2])
    assert log.take()[0] == 0


def test_no_episode_means_no_number():
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

    from vecenv.rllib._episodes import STATS

    metrics = MetricsLogger(stats_cls_lookup=STATS, root=False)
    log_episodes(metrics, np.empty(0), np.empty(0))
    assert np.isnan(metrics.peek("episode_return_mean"))


def test_an_exact_mean_survives_a_checkpoint():
    mean = ExactMean(is_root=False, is_leaf=True)
    mean.push((6.0, 3))
    again = ExactMean.from_state(mean.get_state())
    again.push((4.0, 1))
    assert again.peek() == 2.5
    assert len(again) == 4


def wide(num_envs):
    return OwnVectorEnv(num_envs, width=2100)


@pytest.mark.parametrize("mode", PACKED)
def test_hundreds_of_samples_leave_nothing_behind(mode):
    runner = runner_of(configured(wide, 32, mode=mode))

    def sample(times):
        for _ in range(times):
            runner.sample(num_timesteps=32 * 4)
            runner.get_metrics()
        return psutil.Process().memory_info().rss

    before = sample(30)
    grown = sample(300) - before
    assert not runner._ongoing_episodes_for_metrics
    # A sample is a megabyte, and RLlib's dict would keep them all.
    assert grown < 30 * 2**20
    runner.stop()


@pytest.mark.parametrize("mode", ["native", *slow("packed_vec")])
def test_runners_begin_in_different_states(mode):
    algorithm = configured("CartPole-v1", mode=mode, env_runners=2).build_algo()
    group = algorithm.env_runner_group
    sampled = group.foreach_env_runner(lambda runner: runner.sample(num_timesteps=8), local_env_runner=False)
    first = np.concatenate([packed(samples)[0].obs[0] for samples in sampled])
    algorithm.stop()
    assert len(np.unique(first, axis=0)) == 16
