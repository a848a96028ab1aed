"""What would corrupt a run, hang it or be ignored is refused, before Ray starts anything where that is possible."""

import gymnasium
import numpy as np
import pytest
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import register_env

import vecenv.rllib
from tests.rllib.rllib_helpers import (
    GRID,
    CountingEnv,
    OwnVectorEnv,
    Picture,
    SameStepVectorEnv,
    SilentVectorEnv,
    configured,
    ppo,
    runner_of,
)
from vecenv.errors import ConfigError, UnknownEnv, UnsupportedError

PACKED = ["packed_vec", "native"]
MODES = ["vec", *PACKED]


def reusing(num_envs):
    return OwnVectorEnv(num_envs, reuse=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("env", "says"),
    [
        (SameStepVectorEnv, "is in autoreset mode 'SameStep'"),
        (SilentVectorEnv, "does not declare its autoreset mode"),
        (reusing, "reuses the memory of its observations"),
        (lambda num_envs: OwnVectorEnv(num_envs + 1), "was asked for 2 envs and made 3"),
        (lambda num_envs: CountingEnv(), "a gymnasium.vector.VectorEnv is needed, got CountingEnv"),
    ],
)
def test_a_vector_env_that_rllib_would_misread(mode, env, says):
    with pytest.raises(ConfigError, match=says):
        configured(env, mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_an_env_of_ours_in_another_autoreset_mode(mode):
    with pytest.raises(ConfigError, match="silently corrupt episodes: use next-step mode"):
        configured("CartPole-v1", mode=mode, autoreset="same-step")


@pytest.mark.parametrize("mode", MODES)
def test_a_ring_of_buffers_is_reuse_too(mode):
    with pytest.raises(ConfigError, match="reuses the memory of"):
        configured("CartPole-v1", mode=mode, copy=False)


@pytest.mark.parametrize("mode", MODES)
def test_minibatches_divide_the_batch(mode):
    with pytest.raises(ConfigError, match=r"do not divide a train batch of 1000 .*Use a train batch of 960 or"):
        configured("CartPole-v1", mode=mode, train_batch=1000, minibatch=64)
    with pytest.raises(ConfigError, match="a minibatch of 512 is larger than the train batch of 256"):
        configured("CartPole-v1", mode=mode, train_batch=256, minibatch=512)


@pytest.mark.parametrize("mode", MODES)
def test_the_check_of_the_batch_can_be_turned_off(mode):
    config = configured("CartPole-v1", mode=mode, train_batch=256, minibatch=512, batch_check=False)
    algorithm = config.build_algo()
    result = algorithm.train()
    algorithm.stop()
    assert result["env_runners"]["num_env_steps_sampled"] >= 256


def test_a_batch_in_packed_units():
    config = configured("CartPole-v1", 8, train_batch=32, minibatch=64, batch_units="packed")
    assert config.train_batch_size_per_learner == 256


def test_evaluation_in_episodes_would_hang_packed_vec():
    config = ppo().evaluation(evaluation_interval=1)
    with pytest.raises(ConfigError, match=r"would never end.*evaluation_duration_unit='timesteps'"):
        configured("CartPole-v1", mode="packed_vec", config=config)


def test_evaluation_in_episodes_set_later_is_refused_too():
    config = configured("CartPole-v1", mode="packed_vec").evaluation(evaluation_interval=1)
    with pytest.raises(ConfigError, match="would never end"):
        config.build_algo()


def test_packed_vec_does_not_hang_when_asked_for_episodes():
    runner = runner_of(configured("CartPole-v1", mode="packed_vec"))
    with pytest.raises(UnsupportedError, match="cannot sample whole episodes"):
        runner.sample(num_episodes=1)
    runner.stop()


@pytest.mark.parametrize("mode", PACKED)
def test_a_stateful_filter_over_packed_observations(mode):
    config = ppo().env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    with pytest.raises(ConfigError, match=r"would normalise rewards and flags.*normalize_observations=True"):
        configured("CartPole-v1", mode=mode, config=config)


@pytest.mark.parametrize("mode", PACKED)
def test_a_filter_that_is_set_later_is_refused_too(mode):
    config = configured("CartPole-v1", mode=mode)
    config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    with pytest.raises(ConfigError, match="MeanStdFilter expects an episode per env"):
        runner_of(config)


@pytest.mark.parametrize("mode", PACKED)
def test_pieces_of_another_learner_pipeline(mode):
    config = ppo().training(learner_connector=lambda observations, actions: [])
    with pytest.raises(ConfigError, match="own learner pipeline"):
        configured("CartPole-v1", mode=mode, config=config)
    config = configured("CartPole-v1", mode=mode).training(add_default_connectors_to_learner_pipeline=True)
    with pytest.raises(ConfigError, match="as configure\\(\\) set them"):
        runner_of(config)


@pytest.mark.parametrize("mode", PACKED)
def test_other_settings_that_packed_rollouts_do_not_fit(mode):
    with pytest.raises(ConfigError, match=r"is for PPO.*DQNConfig needs an episode per env; use mode='vec'"):
        vecenv.rllib.configure(DQNConfig(), "CartPole-v1", 8, mode=mode)
    with pytest.raises(ConfigError, match="not whole episodes"):
        configured("CartPole-v1", mode=mode, config=ppo().env_runners(batch_mode="complete_episodes"))


def test_callbacks_per_episode_have_no_episodes_in_packed_vec():
    with pytest.raises(ConfigError, match=r"on_episode_end would never be called .*use mode='native'"):
        configured("CartPole-v1", mode="packed_vec", config=ppo().callbacks(on_episode_end=print))


@pytest.mark.parametrize("mode", PACKED)
def test_what_would_be_ignored(mode):
    with pytest.raises(ConfigError, match="would replace PPOTorchLearner"):
        configured("CartPole-v1", mode=mode, config=ppo().learners(learner_class=PPOTorchLearner))
    with pytest.raises(ConfigError, match="rollout_fragment_length=7 would be ignored"):
        configured("CartPole-v1", mode=mode, config=ppo().env_runners(rollout_fragment_length=7))


def test_what_would_be_replaced():
    config = ppo().environment(env_config={"gravity": 3.0})
    with pytest.raises(ConfigError, match="keyword arguments of configure"):
        configured("CartPole-v1", config=config)
    with pytest.raises(ConfigError, match="configure a config once"):
        configured("CartPole-v1", mode="vec", config=configured("CartPole-v1"))
    with pytest.raises(ConfigError, match=r"got env_config={'gravity': 3.0} after configure\(\); set it before"):
        runner_of(configured("CartPole-v1").environment(env_config={"gravity": 3.0}))
    config = ppo().env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    with pytest.raises(ConfigError, match="would replace env_to_module_connector"):
        configured("CartPole-v1", mode="vec", config=config, normalize_observations=True)


def test_nothing_to_normalise():
    config = ppo().rl_module(rl_module_spec=GRID)
    with pytest.raises(ConfigError, match="nothing to normalise"):
        configured(Picture, config=config, normalize_observations=True)


def test_plain_mistakes():
    with pytest.raises(ConfigError, match="did you mean 'packed_vec'"):
        configured("CartPole-v1", mode="packed-vec")
    with pytest.raises(UnknownEnv, match="Did you mean: `CartPole`"):
        configured("CartPol-v1")
    with pytest.raises(ConfigError, match="for example PPOConfig"):
        vecenv.rllib.configure({}, "CartPole-v1", 8)
    with pytest.raises(ConfigError, match="num_envs must be"):
        configured("CartPole-v1", 0)
    with pytest.raises(ConfigError, match="env_runners must be an int >= 0"):
        configured("CartPole-v1", env_runners=-1)
    with pytest.raises(ConfigError, match="batch_units"):
        configured("CartPole-v1", batch_units="rows")
    with pytest.raises(ConfigError, match="packed_vec needs num_envs"):
        vecenv.rllib.register("CartPole-v1", "packed_vec")
    with pytest.raises(ConfigError, match="num_envs is for packed_vec"):
        vecenv.rllib.register("CartPole-v1", "vec", num_envs=8)
    with pytest.raises(ConfigError, match="native is a runner, which a name of an env cannot set"):
        vecenv.rllib.register("CartPole-v1", "native")


def test_the_wrong_way_to_make_it_vectorised():
    name = vecenv.rllib.register("CartPole-v1")
    assert name == "vecenv/CartPole-v1/vec"
    config = ppo().environment(name).env_runners(num_env_runners=0, num_envs_per_env_runner=2)
    with pytest.raises(ConfigError, match="gym_env_vectorize_mode='vector_entry_point'"):
        runner_of(config)
    name = vecenv.rllib.register("CartPole-v1", "packed_vec", num_envs=4)
    config = ppo().environment(name)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=2, gym_env_vectorize_mode="vector_entry_point")
    with pytest.raises(ConfigError, match="num_envs_per_env_runner must be 1, not 2"):
        runner_of(config)


class Configured(gymnasium.Env):
    """As RLlib's examples write envs: made from a config."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.high = config["high"]
        self.observation_space = gymnasium.spaces.Box(-self.high, self.high, (1,))

    def reset(self, *, seed=None, options=None):
        return np.full(1, self.high, np.float32), {}

    def step(self, action):
        return np.full(1, self.high, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["class", "name"])
def test_classes_with_a_config_and_names_of_tune_get_the_env_config(kind, mode):
    register_env("configured", lambda config: Configured(config))
    env = Configured if kind == "class" else "configured"
    config = configured(env, 3, mode, ppo().environment(env, env_config={"high": 7.0}))
    envs = config.env_config["creator"].build(3)
    assert envs.single_observation_space.high == 7.0
    assert envs.reset(seed=0)[0].tolist() == [[7.0]] * 3
    envs.close()


def test_registered_envs_get_the_env_config_or_refuse_it():
    register_env("configured", lambda config: Configured(config))
    wanted = {"num_envs_per_env_runner": 2, "num_env_runners": 0, "gym_env_vectorize_mode": "vector_entry_point"}
    for name in (vecenv.rllib.register("any", env=Configured), vecenv.rllib.register("configured")):
        runner = runner_of(ppo().environment(name, env_config={"high": 3.0}).env_runners(**wanted))
        assert runner.env.single_observation_space.high == 3.0
        runner.stop()
    name = vecenv.rllib.register("gymnasium:CartPole-v1")
    with pytest.raises(ConfigError, match="which str 'gymnasium:CartPole-v1' does not take"):
        runner_of(ppo().environment(name, env_config={"high": 3.0}).env_runners(**wanted))


def test_an_environment_that_was_set_is_not_replaced_in_silence():
    with pytest.raises(
        ConfigError, match=r"has environment\('Acrobot-v1'\), and configure\(\) was given 'CartPole-v1'"
    ):
        configured("CartPole-v1", config=ppo().environment("Acrobot-v1"))
    configured("CartPole-v1", config=ppo().environment("CartPole-v1"))
    with pytest.raises(ConfigError, match="configure a config once"):
        configured("CartPole-v1", config=configured("CartPole-v1"))


def test_the_number_of_runners_that_was_set_is_kept():
    assert configured("CartPole-v1", config=ppo().env_runners(num_env_runners=3)).num_env_runners == 3
    assert configured("CartPole-v1").num_env_runners == 0
    config = ppo().env_runners(num_env_runners=3)
    assert configured("CartPole-v1", config=config, env_runners=1).num_env_runners == 1


def test_the_reason_of_a_refusal_is_named():
    old = ppo().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    with pytest.raises(ConfigError, match="old API stack"):
        configured("CartPole-v1", config=old)
    with pytest.raises(ConfigError, match="several policies"):
        configured("CartPole-v1", config=ppo().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *_: "a"))
    register_env("several", lambda config: Several())
    for env in (Several, "several"):
        with pytest.raises(ConfigError, match="is a multi-agent env"):
            configured(env)


class Several(MultiAgentEnv):
    pass


@pytest.mark.parametrize("mode", MODES)
def test_an_id_may_name_its_module(mode):
    config = configured("gymnasium:CartPole-v1", mode=mode)
    envs = config.env_config["creator"].build(2)
    assert envs.unwrapped.spec.id == "CartPole-v1"
    envs.close()
