"""What is learned from is what RLlib's own per-episode pipeline would learn from."""

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID, Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.evaluation.postprocessing import Postprocessing

from tests.rllib.rllib_helpers import GRID, GridEnv, configured, packed, ppo, runner_of
from vecenv._batch.layout import map_tree
from vecenv.rllib._connectors import sample_categorical

CASES = {
    "discrete": {"env": "CartPole-v1", "max_episode_steps": 15},
    "continuous": {"env": "Pendulum-v1", "max_episode_steps": 11},
    "dict and picture": {"env": GridEnv, "module": GRID},
    "one-hot": {"env": "FrozenLake-v1"},
}


def config_of(case, mode, **more):
    case = dict(CASES[case])
    config = ppo()
    if "module" in case:
        config.rl_module(rl_module_spec=case.pop("module"))
    return configured(case.pop("env"), mode=mode, config=config, **case, **more)


def equal(one, other):
    map_tree(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_packed_vec_and_native_sample_the_same_bits(case, normalize):
    sampled = {}
    for mode in ("packed_vec", "native"):
        runner = runner_of(config_of(case, mode, normalize_observations=normalize))
        torch.manual_seed(3)
        sampled[mode] = [packed(runner.sample(num_timesteps=100)) for _ in range(4)]
        runner.stop()
    ended = 0
    for theirs, ours in zip(sampled["packed_vec"], sampled["native"], strict=True):
        ((theirs,), (ours,)) = theirs, ours
        for name in ("obs", "actions", "rewards", "terminated", "truncated", "valid"):
            equal(getattr(theirs, name), getattr(ours, name))
        assert theirs.extra.keys() == ours.extra.keys() >= {Columns.ACTION_LOGP, Columns.ACTION_DIST_INPUTS}
        equal(theirs.extra, ours.extra)
        assert 100 <= len(ours) < 108
        ended += int((ours.terminated | ours.truncated).sum())
    assert ended > 10


def episodes_of(rollout):
    """The same data as RLlib would have it: one episode, or a part of one, per env."""
    steps, count = rollout.valid.shape
    done = rollout.terminated | rollout.truncated
    for env in range(count):
        start = 0
        while start < steps:
            if not rollout.valid[start, env]:
                start += 1
                continue
            end = start + 1
            while end < steps and not done[end - 1, env]:
                end += 1
            part = slice(start, end)
            yield SingleAgentEpisode(
                observations=[map_tree(lambda leaf, t=t: leaf[t, env], rollout.obs) for t in range(start, end + 1)],
                actions=list(rollout.actions[part, env]),
                rewards=list(rollout.rewards[part, env]),
                terminated=bool(rollout.terminated[end - 1, env]),
                truncated=bool(rollout.truncated[end - 1, env]),
                extra_model_outputs={name: list(column[part, env]) for name, column in rollout.extra.items()},
                len_lookback_buffer=0,
            ).to_numpy()
            start = end


def rows_of(batch, mask):
    """Rows in an order that does not depend on how they were collected."""
    obs = [np.asarray(leaf[mask]).reshape(int(mask.sum()), -1) for leaf in _leaves(batch[Columns.OBS])]
    key = np.concatenate([*obs, np.asarray(batch[Columns.ACTION_LOGP][mask])[:, None]], 1).astype(np.float64)
    order = np.lexsort(key.T)
    return key[order], {name: np.asarray(batch[name][mask])[order] for name in batch if name != Columns.OBS}


def _leaves(tree):
    found = []
    map_tree(found.append, tree)
    return found


def learner_of(algorithm):
    return algorithm.learner_group._learner


@pytest.mark.parametrize("case", ["discrete", "continuous", "dict and picture"])
def test_value_targets_and_advantages_are_rllibs(case):
    native, vec = (config_of(case, mode).build_algo() for mode in ("native", "vec"))
    learner_of(vec).module.set_state(learner_of(native).module.get_state())
    terminated = truncated = rows = 0
    for _ in range(3):
        (rollout,) = native.env_runner.sample(num_timesteps=512)
        theirs = learner_of(vec)._learner_connector(
            rl_module=learner_of(vec).module, batch={}, episodes=list(episodes_of(rollout)), shared_data={}
        )[DEFAULT_MODULE_ID]
        ours = learner_of(native)._learner_connector(
            rl_module=learner_of(native).module, batch={}, episodes=[rollout], shared_data={}
        )[DEFAULT_MODULE_ID]
        mask = theirs[Columns.LOSS_MASK].bool()
        everything = torch.ones(len(ours[Columns.ACTION_LOGP]), dtype=torch.bool)
        their_key, theirs = rows_of(theirs, mask)
        our_key, ours = rows_of(ours, everything)
        np.testing.assert_array_equal(our_key, their_key)
        np.testing.assert_array_equal(ours[Columns.ACTIONS], theirs[Columns.ACTIONS])
        targets = theirs[Postprocessing.VALUE_TARGETS]
        scale = max(1.0, np.abs(targets).max())
        np.testing.assert_allclose(ours[Postprocessing.VALUE_TARGETS], targets, atol=4e-6 * scale, rtol=0)
        # RLlib standardises with rows that it masks out later; over the rows that count it is the same line.
        advantages = theirs[Postprocessing.ADVANTAGES]
        standardised = (advantages - advantages.mean()) / advantages.std()
        np.testing.assert_allclose(ours[Postprocessing.ADVANTAGES], standardised, atol=2e-4)
        terminated += int(rollout.terminated.sum())
        truncated += int(rollout.truncated.sum())
        rows += len(rollout)
    native.stop()
    vec.stop()
    assert rows > 1500
    assert truncated > 20
    assert terminated > 20 or case == "continuous"


def transitions(samples):
    """Every transition of some samples, as a sorted list."""
    found = []
    for sample in samples:
        for episode in [sample] if isinstance(sample, SingleAgentEpisode) else episodes_of(sample):
            obs, rewards = episode.get_observations(), episode.get_rewards()
            for step in range(len(episode)):
                last = step == len(episode) - 1
                flags = (episode.is_terminated and last, episode.is_truncated and last)
                action = np.ravel(episode.get_actions(step)).tolist()
                found.append((*obs[step], *action, float(np.float32(rewards[step])), *obs[step + 1], *flags))
    return sorted(tuple(map(float, row)) for row in found)


@pytest.mark.parametrize("case", ["discrete", "continuous"])
def test_native_sees_the_transitions_that_rllibs_own_runner_sees(case):
    """Without exploration all is given by seeds and weights."""
    native, vec = (runner_of(config_of(case, mode)) for mode in ("native", "vec"))
    native.module.set_state(vec.module.get_state())
    for _ in range(3):
        ours, theirs = (runner.sample(num_timesteps=200, explore=False) for runner in (native, vec))
        assert transitions(ours) == transitions(theirs)
    native.stop()
    vec.stop()


def test_actions_are_sampled_as_rllib_samples_them():
    logits = torch.randn(257, 5, generator=torch.Generator().manual_seed(0)) * 3
    torch.manual_seed(7)
    theirs = TorchCategorical.from_logits(logits)
    expected = theirs.sample()
    torch.manual_seed(7)
    actions, log_probabilities = sample_categorical(logits)
    assert torch.equal(actions, expected)
    assert torch.equal(log_probabilities, theirs.logp(expected))


def test_rows_are_ordered_env_by_env_as_rllib_orders_episodes():
    """It does not shuffle before the first epoch: a minibatch of early steps only would be learned from first."""
    algorithm = config_of("discrete", "native").build_algo()
    (rollout,) = algorithm.env_runner.sample(num_timesteps=256)
    learner = learner_of(algorithm)
    batch = learner._learner_connector(rl_module=learner.module, batch={}, episodes=[rollout], shared_data={})
    algorithm.stop()
    expected = np.concatenate([rollout.obs[:-1, env][rollout.valid[:, env]] for env in range(8)])
    np.testing.assert_array_equal(batch[DEFAULT_MODULE_ID][Columns.OBS], expected)
