"""Observations reach RLlib's default networks in the form that these take, or are refused before Ray starts."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import vecenv
from tests.rllib.rllib_helpers import CountingEnv, OwnVectorEnv, configured, ppo
from vecenv.errors import ConfigError
from vecenv.rllib._observations import as_floats, needs_floats, with_floats

MODES = ["vec", "packed_vec", "native"]


class Shown(OwnVectorEnv):
    """Any space, with samples of it as observations; a vector env of the user's."""

    def __init__(self, space, num_envs=3):
        super().__init__(num_envs)
        self.single_observation_space = space
        self.observation_space = gymnasium.vector.utils.batch_space(space, num_envs)
        self.observation_space.seed(0)

    def _seen(self):
        self.shown = self.observation_space.sample()
        return self.shown


def box(*shape, high=255, dtype=np.uint8):
    return spaces.Box(0, high, shape, dtype)


@pytest.mark.parametrize(
    ("space", "filters", "expected"),
    [
        (box(4, 84, 84), False, lambda obs: obs.transpose(0, 2, 3, 1) / 255),
        (box(84, 84, 3), False, lambda obs: obs / 255),
        (box(84, 84), False, lambda obs: obs[..., None] / 255),
        (box(128), False, lambda obs: obs / 255),
        (box(3, 10, 10, high=1, dtype=np.float32), False, lambda obs: obs.transpose(0, 2, 3, 1)),
        (box(10, 10, 4, high=1, dtype=bool), False, lambda obs: obs),
        (box(4, 4, high=17), False, lambda obs: obs.reshape(3, 16)),
        (box(3, 20, 10, high=1), False, lambda obs: obs.reshape(3, 600)),
        (box(3, 20, 10, high=1), True, lambda obs: obs.transpose(0, 2, 3, 1)),
        (box(210, 160, 3), True, lambda obs: obs / 255),
        (box(high=9, dtype=np.int32), False, lambda obs: obs[:, None]),
    ],
)
def test_pictures_have_their_channels_last_and_bytes_become_fractions(space, filters, expected):
    envs = Shown(space)
    floats = with_floats(envs, filters)
    assert needs_floats(space, filters)
    obs, _ = floats.reset(seed=0)
    np.testing.assert_array_equal(obs, expected(envs.shown).astype(np.float32))
    assert obs.dtype == np.float32
    assert floats.single_observation_space == as_floats(space, filters)
    assert floats.observation_space.shape == obs.shape


@pytest.mark.parametrize("space", [box(5, high=1, dtype=np.float32), box(84, 84, 4, high=1, dtype=np.float32)])
def test_what_the_networks_take_is_not_changed(space):
    assert not needs_floats(space, False)


def test_the_frames_of_atari_games_are_the_channels():
    pytest.importorskip("ale_py")
    options = {"preprocessing": "dqn", "engine": "sync"}
    config = configured("ALE/Pong-v5", 2, **options)
    envs = config.env_config["creator"].build(2)
    plain = vecenv.make("ALE/Pong-v5", 2, seeding="spawn", **options)
    assert envs.single_observation_space.shape == (84, 84, 4)
    seen, raw = envs.reset(seed=3)[0], plain.reset(seed=3)[0]
    np.testing.assert_array_equal(seen, np.moveaxis(raw, 1, -1) / np.float32(255))
    assert 0 < seen.max() <= 1
    envs.close()
    plain.close()


@pytest.mark.parametrize("env", ["2048-v0", "Tetris-v0", "FourRooms-v0", "ConnectFour-v0", "Snake-v0", "Breakout-v0"])
def test_every_picture_of_ours_has_a_network(env):
    space = configured(env, 2, engine="sync").env_config["creator"].build(2).single_observation_space
    assert len(space.shape) == (3 if env in ("Snake-v0", "Breakout-v0") else 1)


@pytest.mark.parametrize("mode", MODES)
def test_a_picture_without_filters_is_refused(mode):
    class Large(CountingEnv):
        observation_space = box(210, 160, 3)

        def reset(self, **kwargs):
            super().reset(**kwargs)
            return np.zeros((210, 160, 3), np.uint8), {}

        def step(self, action):
            return np.zeros((210, 160, 3), np.uint8), *super().step(action)[1:]

    with pytest.raises(ConfigError, match=r"no filters for observations of shape \(210, 160, 3\).*preprocessing=True"):
        configured(Large, mode=mode)
    model = DefaultModelConfig(conv_filters=[[4, 8, 8], [8, 4, 4]])
    config = configured(Large, mode=mode, config=ppo().rl_module(model_config=model))
    assert config.env_config["creator"].build(1).single_observation_space.shape == (210, 160, 3)


@pytest.mark.parametrize("mode", MODES)
def test_actions_without_a_distribution_are_refused(mode):
    class Switches(CountingEnv):
        action_space = spaces.MultiBinary(3)

    with pytest.raises(ConfigError, match=r"cannot build its default network for .* actions MultiBinary\(3\)"):
        configured(Switches, mode=mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_ppo_trains_on_frames_of_a_game(mode):
    pytest.importorskip("ale_py")
    model = DefaultModelConfig(conv_filters=[[4, 8, 8], [8, 4, 4]])
    config = configured(
        "ALE/Pong-v5", 2, mode, ppo().rl_module(model_config=model), train_batch=32, minibatch=16, preprocessing="dqn"
    )
    algorithm = config.build_algo()
    result = algorithm.train()
    first = next(algorithm.get_module().parameters())
    algorithm.stop()
    assert np.isfinite(result["learners"][DEFAULT_MODULE_ID]["total_loss"])
    assert first.shape == (4, 4, 8, 8)  # four frames in
