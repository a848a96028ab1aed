"""APPO, IMPALA and several learners in `native`: the batches are those of RLlib's own pipeline."""

import dataclasses

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core import DEFAULT_MODULE_ID, Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.minibatch_utils import ShardEpisodesIterator

from tests.rllib.rllib_helpers import CountingEnv, OwnVectorEnv, batch_of, configured, learner_of, ppo, runner_of
from tests.rllib.test_same_as_rllib import episodes_of
from tests.sampling import slow
from vecenv._batch.layout import map_tree
from vecenv.errors import ConfigError

ASYNCHRONOUS = {"APPO": APPOConfig, "IMPALA": IMPALAConfig}


def asynchronous(name, *, learners=0):
    config = ASYNCHRONOUS[name]().debugging(seed=0, log_level="ERROR")
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16])).env_runners(rollout_fragment_length=20)
    return config.learners(num_learners=learners).reporting(min_time_s_per_iteration=0)


def configured_asynchronous(name, env, mode="native", num_envs=8, **options):
    options = {"train_batch": 320, "minibatch": None, **options}
    return configured(env, num_envs, mode, asynchronous(name), **options)


@pytest.mark.parametrize("name", ASYNCHRONOUS)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_batches_and_losses_of_appo_and_impala_are_rllibs(name, env):
    configs = [configured_asynchronous(name, env, mode, max_episode_steps=11) for mode in ("native", "vec")]
    runner = runner_of(configs[0])
    native, vec = learners = [learner_of(config, runner) for config in configs]
    native.module.set_state(vec.module.get_state())
    rollouts = [runner.sample()[0] for _ in range(2)]
    runner.stop()
    assert all(160 <= len(rollout) < 168 for rollout in rollouts)  # 20 steps of each env
    ours = batch_of(native, rollouts)
    theirs = batch_of(vec, [episode for rollout in rollouts for episode in episodes_of(rollout)])
    assert theirs.keys() <= ours.keys()
    for column, values in theirs.items():
        assert torch.equal(ours[column].to(values.dtype), values), column
    losses = []
    for learner, batch in zip(learners, (ours, theirs), strict=True):
        batch = {DEFAULT_MODULE_ID: batch}
        outputs = learner.module.forward_train(batch)
        losses.append(learner.compute_losses(fwd_out=outputs, batch=batch)[DEFAULT_MODULE_ID])
        learner.shutdown()
    assert torch.equal(*losses)
    assert torch.isfinite(losses[0])


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_appo_and_impala_train(name):
    algorithm = configured_asynchronous(name, CountingEnv).build_algo()
    results = [algorithm.train() for _ in range(6)]
    algorithm.stop()
    counts = [result["env_runners"]["num_env_steps_sampled"] for result in results]
    assert results[-1]["env_runners"]["num_env_steps_sampled_lifetime"] == sum(counts) >= 6 * 160
    assert results[-1]["env_runners"]["episode_return_mean"] == 5.0
    # The learner runs in a thread: an iteration without a result of it has no loss, or NaN.
    reports = [result.get("learners", {}).get(DEFAULT_MODULE_ID, {}) for result in results]
    losses = [report.get("total_loss", np.nan) for report in reports]
    assert np.isfinite(losses).any()
    assert not np.isinf(losses).any()


def rollout_of(steps=30, envs=7):
    runner = runner_of(configured(OwnVectorEnv, envs))
    (rollout,) = runner.sample(num_timesteps=steps * envs)
    runner.stop()
    return rollout


def test_parts_of_a_rollout_have_all_its_steps_once():
    rollout = rollout_of()
    for at in (0, 1, 29, 30, 100, len(rollout) - 1, len(rollout)):
        parts = rollout[:at], rollout.slice(slice(at, None), len_lookback_buffer=1)
        assert [len(part) for part in parts] == [at, len(rollout) - at]
        joined = np.concatenate([part.obs[:-1].swapaxes(0, 1)[part.valid.T] for part in parts])
        np.testing.assert_array_equal(joined, rollout.obs[:-1].swapaxes(0, 1)[rollout.valid.T])


def test_value_targets_do_not_depend_on_how_a_rollout_is_divided():
    config = configured(OwnVectorEnv, 7)
    runner = runner_of(config)
    (rollout,) = runner.sample(num_timesteps=200)
    learner = learner_of(config, runner)
    runner.stop()
    whole = batch_of(learner, [rollout])
    parts = batch_of(learner, [rollout[:77], rollout[77:]])
    torch.testing.assert_close(parts[Columns.OBS], whole[Columns.OBS], atol=0, rtol=0)
    targets = Postprocessing.VALUE_TARGETS
    torch.testing.assert_close(parts[targets], whole[targets], atol=1e-5, rtol=0)


@pytest.mark.parametrize("learners", [2, 3])
def test_rllib_divides_rollouts_evenly_between_learners(learners):
    rollouts = [rollout_of(30), rollout_of(11), rollout_of(1)]
    total = sum(map(len, rollouts))
    shards = list(ShardEpisodesIterator(rollouts, num_shards=learners, len_lookback_buffer=1))
    sizes = [sum(map(len, shard)) for shard in shards]
    assert sum(sizes) == total
    assert max(sizes) - min(sizes) <= 1
    seen = [part.rewards.T[part.valid.T] for shard in shards for part in shard]
    expected = [rollout.rewards.T[rollout.valid.T] for rollout in rollouts]
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.sort(np.concatenate(expected)))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", slow("native", "packed_vec"))
def test_several_learners_learn_the_same_weights(mode):
    algorithm = configured("CartPole-v1", mode=mode, config=ppo().learners(num_learners=2)).build_algo()
    result = algorithm.train()
    states = algorithm.learner_group.foreach_learner(lambda learner: learner.module.get_state())
    algorithm.stop()
    first, second = (state.get()[DEFAULT_MODULE_ID] for state in states)
    assert result["env_runners"]["num_env_steps_sampled"] >= 2 * 256
    assert result["learners"]["__all_modules__"]["num_env_steps_trained"] >= 2 * 256
    map_tree(np.testing.assert_array_equal, dict(first), dict(second))


def test_a_rollout_of_another_version_is_refused():
    config = configured(OwnVectorEnv, 7)
    runner = runner_of(config)
    (rollout,) = runner.sample(num_timesteps=20)
    runner.stop()
    with pytest.raises(Exception, match="a rollout of version 1 cannot be read by version 2"):
        batch_of(learner_of(config, runner), [dataclasses.replace(rollout, version=1)])


def test_what_appo_and_impala_do_not_work_with():
    with pytest.raises(ConfigError, match=r"mode='packed_vec' is for PPO.*use mode='native' or 'vec'"):
        configured_asynchronous("IMPALA", "CartPole-v1", "packed_vec")
    with pytest.raises(ConfigError, match=r"a sample has 160 env steps \(20 of each of 8 envs\).*at least 160"):
        configured_asynchronous("APPO", "CartPole-v1", train_batch=100)
    with pytest.raises(ConfigError, match="would count samples several times"):
        configured_asynchronous("APPO", "CartPole-v1", normalize_observations=True)
    config = asynchronous("IMPALA", learners=2).training(train_batch_size_per_learner=100)
    with pytest.raises(ConfigError, match="a sample has 160 env steps"):
        configured("CartPole-v1", config=config, train_batch=None, minibatch=None)
    config = asynchronous("IMPALA").learners(num_aggregator_actors_per_learner=1)
    with pytest.raises(ConfigError, match="no episodes to aggregate"):
        configured("CartPole-v1", config=config, train_batch=None, minibatch=None)
