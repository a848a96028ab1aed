"""Checkpoints, evaluation, normalised observations, failing envs, and every kind of env."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import vecenv.rllib
from tests.aio.async_envs import Learnable
from tests.rllib.rllib_helpers import (
    GRID,
    CountingEnv,
    GridEnv,
    ManyActions,
    OwnVectorEnv,
    Picture,
    configured,
    packed,
    ppo,
    runner_of,
)
from tests.sampling import product, slow
from vecenv.rllib import ObservationNormalizer

PACKED = ["packed_vec", "native"]


def weights(algorithm):
    return algorithm.learner_group._learner.module[DEFAULT_MODULE_ID].state_dict()


@pytest.mark.parametrize("mode", PACKED)
def test_a_checkpoint_goes_on(mode, tmp_path):
    algorithm = configured("CartPole-v1", mode=mode, normalize_observations=True).build_algo()
    first = algorithm.train()
    algorithm.save_to_path(tmp_path / "checkpoint")
    again = Algorithm.from_checkpoint(tmp_path / "checkpoint")
    for name, value in weights(algorithm).items():
        assert torch.equal(value, weights(again)[name])
    states = [one.env_runner._env_to_module.connectors[0].get_state() for one in (algorithm, again)]
    np.testing.assert_array_equal(states[0]["seen"][""]["mean"], states[1]["seen"][""]["mean"])
    assert states[1]["seen"][""]["count"] > 256
    before = first["env_runners"]["num_env_steps_sampled_lifetime"]
    result = again.train()["env_runners"]
    assert result["num_env_steps_sampled_lifetime"] == before + result["num_env_steps_sampled"]
    algorithm.stop()
    again.stop()


@pytest.mark.parametrize("mode", ["native", *slow("vec", "packed_vec")])
def test_a_checkpoint_goes_on_in_another_process(mode, tmp_path):
    algorithm = configured("CartPole-v1", mode=mode, max_episode_steps=7).build_algo()
    algorithm.train()
    result = algorithm.train()
    algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.stop()
    script = (
        "import sys, ray; from ray.rllib.algorithms.ppo import PPO; ray.init(address='local', num_cpus=1)\n"
        "result = PPO.from_checkpoint(sys.argv[1]).train()\n"
        "runners = result['env_runners']\n"
        "print('went on:', runners['num_env_steps_sampled_lifetime'], runners['episode_len_max'])"
    )
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "went on: " in done.stdout, done.stderr
    lifetime, longest = done.stdout.partition("went on: ")[2].split()
    assert float(lifetime) >= result["env_runners"]["num_env_steps_sampled_lifetime"] + 256
    assert float(longest) <= 7


@pytest.mark.parametrize("mode", PACKED)
def test_the_same_seed_learns_the_same(mode):
    learned = []
    for _ in range(2):
        torch.manual_seed(0)
        algorithm = configured("CartPole-v1", mode=mode).build_algo()
        algorithm.train()
        learned.append({name: value.clone() for name, value in weights(algorithm).items()})
        algorithm.stop()
    for name, value in learned[0].items():
        assert torch.equal(value, learned[1][name])


def test_evaluation_in_episodes_with_native():
    config = ppo().evaluation(evaluation_interval=1, evaluation_duration=20, evaluation_num_env_runners=0)
    algorithm = configured(CountingEnv, mode="native", config=config).build_algo()
    result = algorithm.train()["evaluation"]["env_runners"]
    algorithm.stop()
    # Eight envs end together: 24 is the first number of episodes that is enough.
    assert result["num_episodes"] == 24
    assert result["episode_return_mean"] == 5.0


@pytest.mark.parametrize("mode", ["native", *slow("packed_vec")])
def test_evaluation_actors_count_true_steps(mode):
    config = ppo().evaluation(evaluation_interval=1, evaluation_duration=100, evaluation_duration_unit="timesteps")
    config.evaluation(evaluation_num_env_runners=1)
    algorithm = configured(CountingEnv, mode=mode, config=config).build_algo()
    result = algorithm.train()["evaluation"]["env_runners"]
    algorithm.stop()
    assert result["num_env_steps_sampled"] == 104


@pytest.mark.parametrize("evaluation_runners", [None, 0, *slow(1)])
@pytest.mark.parametrize("mode", PACKED)
def test_evaluation_sees_what_training_has_learned_to_see(mode, evaluation_runners):
    """And changes nothing of it, whoever evaluates."""
    config = ppo()
    if evaluation_runners is not None:
        config.evaluation(evaluation_interval=100, evaluation_num_env_runners=evaluation_runners)
    config.evaluation(evaluation_duration=64, evaluation_duration_unit="timesteps")
    algorithm = configured("Pendulum-v1", mode=mode, config=config, normalize_observations=True).build_algo()
    algorithm.train()
    before = algorithm.env_runner._env_to_module.get_state()
    algorithm.evaluate()
    group = algorithm.eval_env_runner_group or algorithm.env_runner_group
    (seen, *_) = group.foreach_env_runner(
        lambda runner: runner._env_to_module.get_state(), local_env_runner=not evaluation_runners
    )
    states = [state["ObservationNormalizer"]["seen"][""] for state in (before, seen)]
    after = algorithm.env_runner._env_to_module.get_state()["ObservationNormalizer"]["seen"][""]
    assert algorithm.env_runner._env_to_module.connectors[0].learning
    algorithm.stop()
    assert states[0]["count"] > 256
    for state in (states[1], after):
        np.testing.assert_array_equal(state["mean"], states[0]["mean"])
        assert state["count"] == states[0]["count"]


def test_evaluation_in_steps_with_packed_vec():
    config = ppo().evaluation(
        evaluation_interval=1,
        evaluation_duration=100,
        evaluation_duration_unit="timesteps",
        evaluation_num_env_runners=0,
    )
    algorithm = configured(CountingEnv, mode="packed_vec", config=config).build_algo()
    result = algorithm.train()["evaluation"]["env_runners"]
    algorithm.stop()
    assert result["num_env_steps_sampled"] == 104
    assert result["episode_return_mean"] == 5.0


def test_statistics_have_the_shape_of_one_observation_and_are_those_of_all():
    space = GridEnv.observation_space
    normalizer, rng = ObservationNormalizer(space, epsilon=1e-12), np.random.default_rng(0)
    seen = []
    for _ in range(5):
        obs = {"place": rng.normal(3.0, 2.0, (7, 2)), "picture": rng.integers(0, 9, (7, 4, 4, 1), dtype=np.uint8)}
        seen.append(obs["place"])
        out = normalizer(rl_module=None, batch={"obs": obs}, episodes=[])["obs"]
        assert out["picture"] is obs["picture"]
    state = normalizer.get_state()["seen"]["place"]
    everything = np.concatenate(seen)
    np.testing.assert_allclose(state["mean"], everything.mean(0), rtol=1e-4)
    np.testing.assert_allclose(state["var"], everything.var(0), rtol=1e-4)
    expected = (seen[-1] - state["mean"]) / np.sqrt(state["var"])
    np.testing.assert_allclose(out["place"], expected, rtol=1e-5, atol=1e-6)


def test_merged_statistics_count_every_sample_once():
    space = OwnVectorEnv(2).single_observation_space
    here, *others = (ObservationNormalizer(space) for _ in range(3))
    rng, everything = np.random.default_rng(1), []
    for _ in range(3):
        for count, other in zip((5, 11), others, strict=True):
            everything.append(rng.normal(size=(count, 3)).astype(np.float32))
            other(rl_module=None, batch={"obs": everything[-1]}, episodes=[])
        merged = here.merge_states([other.get_state() for other in others])
        for one in (here, *others):
            one.set_state(merged)
    state = here.get_state()["seen"][""]
    assert state["count"] == pytest.approx(48, abs=1e-3)
    np.testing.assert_allclose(state["mean"], np.concatenate(everything).mean(0), atol=1e-5)
    np.testing.assert_allclose(state["var"], np.concatenate(everything).var(0), rtol=1e-4)


@pytest.mark.parametrize("mode", ["native", *slow("packed_vec")])
def test_runners_share_their_statistics(mode):
    algorithm = configured("CartPole-v1", mode=mode, env_runners=2, normalize_observations=True).build_algo()
    for _ in range(2):
        algorithm.train()
    states = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: (runner._env_to_module.get_state(), len(runner._env_to_module.connectors))
    )
    algorithm.stop()
    counts = {one["count"] for state, _ in states for one in _find(state, "seen")}
    assert len(states) == 3
    assert len(counts) == 1
    assert 512 < counts.pop() < 800


def _find(state, name):
    for key, value in state.items():
        if key == name:
            yield from value.values()
        elif isinstance(value, dict):
            yield from _find(value, name)


class BreaksOnce(OwnVectorEnv):
    """Fails in its thirtieth step, once in a lifetime of the class."""

    broken = False

    def step(self, actions):
        self._steps = getattr(self, "_steps", 0) + 1
        if self._steps == 30 and not BreaksOnce.broken:
            BreaksOnce.broken = True
            raise RuntimeError("a cable came loose")
        return super().step(actions)


@pytest.mark.parametrize("mode", PACKED)
def test_envs_that_fail_are_built_again_if_asked(mode):
    BreaksOnce.broken = False
    config = configured(BreaksOnce, mode=mode).fault_tolerance(restart_failed_sub_environments=True)
    runner = runner_of(config)
    counts = [sum(map(len, packed(runner.sample(num_timesteps=160)))) for _ in range(3)]
    assert BreaksOnce.broken
    assert all(160 <= count < 168 for count in counts)
    runner.stop()


KINDS = {
    "compiled": ("CartPole-v1", {"engine": "compiled"}),
    "process": ("CartPole-v1", {"engine": "process", "workers": 2}),
    "asyncio": (Learnable, {"engine": "asyncio"}),
    "mujoco": ("InvertedPendulum-v5", {}),
    "own": (OwnVectorEnv, {}),
    "function": (CountingEnv, {"env_kwargs": {"length": 3}}),
    "continuous": ("Pendulum-v1", {}),
    "one-hot": ("Taxi-v3", {}),
}


@product(together=1, mode=["vec", *PACKED], kind=KINDS)
def test_every_kind_of_env_trains(mode, kind):
    env, options = KINDS[kind]
    algorithm = configured(env, mode=mode, **options).build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert 256 <= result["env_runners"]["num_env_steps_sampled"] < 264
    assert np.isfinite(result["learners"][DEFAULT_MODULE_ID]["total_loss"])


def test_a_module_of_ones_own_over_dicts_and_pictures_trains_in_all_modes():
    losses = []
    for mode in ("vec", *PACKED):
        algorithm = configured(GridEnv, mode=mode, config=ppo().rl_module(rl_module_spec=GRID)).build_algo()
        losses.append(algorithm.train()["learners"][DEFAULT_MODULE_ID]["total_loss"])
        algorithm.stop()
    assert np.isfinite(losses).all()
    assert losses[1] == losses[2]


def learns_from_pictures(mode):
    config = ppo().rl_module(model_config=DefaultModelConfig(conv_filters=[[4, 4, 2], [8, 4, 2]]))
    return configured(Picture, mode=mode, config=config)


CONFIGURED = {
    "pictures": learns_from_pictures,
    "many actions": lambda mode: configured(ManyActions, mode=mode),
    "remote learner": lambda mode: configured("CartPole-v1", mode=mode, config=ppo().learners(num_learners=1)),
    "list of envs": lambda mode: configured([CountingEnv] * 8, mode=mode, batch_size=8),
    "fast kernel": lambda mode: configured("CartPole-v1", mode=mode, precision="fast", engine="compiled"),
}


@product(together=1, mode=["vec", *PACKED], what=CONFIGURED)
def test_whatever_make_takes_trains(mode, what):
    algorithm = CONFIGURED[what](mode).build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert np.isfinite(result["learners"][DEFAULT_MODULE_ID]["total_loss"])


@pytest.mark.parametrize("mode", PACKED)
def test_random_actions_are_not_rescaled(mode):
    runner = runner_of(configured("Pendulum-v1", mode=mode))
    (rollout,) = packed(runner.sample(num_timesteps=400, random_actions=True))
    runner.stop()
    assert (np.abs(rollout.actions) < 1.9).mean() > 0.9


@pytest.mark.parametrize("mode", PACKED)
def test_observations_that_are_not_a_number_are_passed_on(mode):
    config = ppo().rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16], head_fcnet_hiddens=[]))
    runner = runner_of(configured(NotANumber, mode=mode, config=config))
    (rollout,) = packed(runner.sample(num_timesteps=100, random_actions=True))
    runner.stop()
    assert np.isnan(rollout.obs[1:]).any()


class NotANumber(OwnVectorEnv):
    def _seen(self):
        obs = super()._seen()
        obs[:, 2] = np.nan
        return obs


def test_registered_by_hand():
    name = vecenv.rllib.register("CartPole-v1", "vec", max_episode_steps=9)
    config = ppo().environment(name)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=4, gym_env_vectorize_mode="vector_entry_point")
    runner = runner_of(config)
    runner.sample(num_timesteps=100)
    assert runner.get_metrics()["episode_len_max"].peek() <= 9
    runner.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("mode", ["vec", *PACKED])
def test_cartpole_is_learned_within_200k_steps(mode, seed):
    config = ppo(gamma=0.98, lambda_=0.8, vf_clip_param=1e6, use_kl_loss=False, grad_clip=0.5, entropy_coeff=0.0)
    config.training(num_epochs=10, lr=1e-3, vf_loss_coeff=0.5).debugging(seed=seed)
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
    algorithm = configured("CartPole-v1", 32, mode, config, train_batch=1024, minibatch=256).build_algo()
    best, steps, recent = 0.0, 0, []
    while best < 300 and steps < 198_000:
        result = algorithm.train()["env_runners"]
        steps = result["num_env_steps_sampled_lifetime"]
        if result["num_episodes"]:
            recent.append((result["num_episodes"], result["episode_return_mean"]))
        while sum(count for count, _ in recent[1:]) >= 100:  # the mean is over the last hundred episodes or so
            recent.pop(0)
        episodes = sum(count for count, _ in recent)
        if episodes >= 100:
            best = max(best, sum(count * mean for count, mean in recent) / episodes)
    algorithm.stop()
    print(f"{mode} seed {seed}: mean return {best:.0f} after {steps:,.0f} steps")
    assert best >= 300
    assert steps <= 200_000
