"""Recurrent modules in `native`: states, sequences and values are those of RLlib's own pipeline."""

import dataclasses

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core import DEFAULT_MODULE_ID, Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.evaluation.postprocessing import Postprocessing

from tests.rllib.rllib_helpers import CountingEnv, batch_of, configured, learner_of, ppo, runner_of
from vecenv._batch.layout import map_tree
from vecenv.errors import ConfigError, UnsupportedError

LSTM = DefaultModelConfig(fcnet_hiddens=[8], use_lstm=True, lstm_cell_size=6, max_seq_len=4)


def config_of(mode, config=None, *, shared=True, **options):
    model = dataclasses.replace(LSTM, vf_share_layers=shared)
    config = (config or ppo()).rl_module(model_config=model).debugging(seed=0, log_level="ERROR")
    return configured("CartPole-v1", mode=mode, config=config, max_episode_steps=15, **options)


ALGORITHMS = {
    "PPO": (ppo, {}),
    "PPO with a critic of its own": (ppo, {"shared": False}),
    "APPO": (APPOConfig, {"train_batch": 400, "minibatch": None}),
    "IMPALA": (IMPALAConfig, {"train_batch": 400, "minibatch": None}),
}


def in_order(batch, names):
    """Sequences in an order that does not depend on how they were collected."""
    flat = [np.asarray(batch[name], np.float64).reshape(len(batch[Columns.SEQ_LENS]), -1) for name in names]
    order = np.lexsort(np.concatenate(flat, axis=1).T)
    return {name: map_tree(lambda leaf: np.asarray(leaf)[order], batch[name]) for name in batch}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sequences_are_those_of_rllibs_pipeline(algorithm):
    """Without exploration all is given by seeds and weights: the samples and the batches of both modes are equal."""
    make, options = ALGORITHMS[algorithm]
    configs = [config_of(mode, make(), **options) for mode in ("native", "vec")]
    native, vec = runners = [runner_of(config) for config in configs]
    learners = [learner_of(config, runner) for config, runner in zip(configs, runners, strict=True)]
    native.module.set_state(vec.module.get_state())
    learners[0].module.set_state(learners[1].module.get_state())
    ends = 0
    for _ in range(3):  # the later samples begin in the middle of episodes, with their states
        samples = [runner.sample(num_timesteps=100, explore=False) for runner in runners]
        ours, theirs = (batch_of(*pair) for pair in zip(learners, samples, strict=True))
        assert int(ours[Columns.SEQ_LENS].sum()) > 100
        names = [Columns.OBS, Columns.ACTION_DIST_INPUTS, Columns.LOSS_MASK]
        ours, theirs = in_order(ours, names), in_order(theirs, names)
        assert theirs.keys() - ours.keys() <= {Columns.TERMINATEDS, Columns.TRUNCATEDS, Columns.REWARDS}
        assert ours[Columns.OBS].shape[1:] == (4, 4)
        mask = theirs[Columns.LOSS_MASK]
        for name in ours.keys() & theirs.keys() - {Postprocessing.ADVANTAGES, Postprocessing.VALUE_TARGETS}:
            map_tree(np.testing.assert_array_equal, ours[name], theirs[name])
        if make is ppo:
            targets = Postprocessing.VALUE_TARGETS
            np.testing.assert_allclose(ours[targets][mask], theirs[targets][mask], atol=1e-5)
            advantages = theirs[Postprocessing.ADVANTAGES][mask]
            standardised = (advantages - advantages.mean()) / advantages.std()
            np.testing.assert_allclose(ours[Postprocessing.ADVANTAGES][mask], standardised, atol=2e-4)
        ends += int(theirs[Columns.TERMINATEDS].sum())
    for runner in runners:
        runner.stop()
    for learner in learners:
        learner.shutdown()
    assert ends > 5


def test_a_state_begins_anew_with_every_episode():
    runner = runner_of(config_of("native"))
    (rollout,) = runner.sample(num_timesteps=200)
    runner.stop()
    states = rollout.states["h"]
    assert states.shape == (len(rollout.valid) + 1, 8, 1, 6)
    first = np.zeros_like(rollout.valid)
    first[0] = True
    first[1:] = ~rollout.valid[:-1]
    assert (states[:-1][first] == 0).all()
    assert (states[:-1][~first] != 0).any(axis=(1, 2)).all()


def test_random_actions_leave_the_states_alone():
    runner = runner_of(config_of("native"))
    (rollout,) = runner.sample(num_timesteps=100, random_actions=True)
    runner.stop()
    assert not rollout.states["h"].any()


def test_a_part_of_a_rollout_keeps_its_states():
    """Sequences that begin where a rollout is divided get the state of that step."""
    config = config_of("native")
    runner = runner_of(config)
    (rollout,) = runner.sample(num_timesteps=120)
    learner = learner_of(config, runner)
    module = learner.module[DEFAULT_MODULE_ID]
    module.set_state(runner.module.get_state())
    runner.stop()
    for part, steps in ((rollout[:57], 57), (rollout.slice(slice(57, None), len_lookback_buffer=1), len(rollout) - 57)):
        batch = batch_of(learner, [part])
        mask = batch[Columns.LOSS_MASK]
        assert int(mask.sum()) == len(part) == steps
        with torch.no_grad():
            again = module.forward_train(batch)[Columns.ACTION_DIST_INPUTS]
        torch.testing.assert_close(again[mask], batch[Columns.ACTION_DIST_INPUTS][mask], atol=1e-5, rtol=0)


def test_recurrent_modules_train():
    algorithm = config_of("native").build_algo()
    for _ in range(2):
        result = algorithm.train()
    algorithm.stop()
    assert np.isfinite(result["learners"][DEFAULT_MODULE_ID]["total_loss"])


def test_what_recurrent_modules_do_not_work_with():
    with pytest.raises(UnsupportedError, match=r"a state per env.*use mode='native' or 'vec'"):
        runner_of(configured("CartPole-v1", mode="packed_vec").rl_module(model_config=LSTM))
    config = configured(CountingEnv, train_batch=256, minibatch=2)
    with pytest.raises(ConfigError, match="a minibatch of 2 is smaller than a sequence of max_seq_len=4"):
        runner_of(config.rl_module(model_config=LSTM))
