"""vecenv's vector envs as SB3's, and SB3's as Gymnasium's."""

import gymnasium
import numpy as np
import pytest
import stable_baselines3.common.vec_env as theirs
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv
import vecenv.sb3 as ours
from tests.sb3.sb3_envs import Anything, same
from vecenv.errors import ConfigError, ConfigTypeError, InvalidAction, UnsupportedError
from vecenv.wrappers import RescaleAction, TransformReward

ENGINES = ["compiled", "sync", "thread", "process"]


def cart_poles(count, engine="compiled", **keywords):
    return vecenv.make("CartPole-v1", count, engine=engine, autoreset="same-step", **keywords)


def assert_same_run(mine, reference, steps=300, seed=7):
    """Both give the same for the same seeds and actions."""
    mine.seed(seed)
    reference.seed(seed)
    np.testing.assert_array_equal(mine.reset(), reference.reset())
    reference.action_space.seed(0)
    ended = 0
    for _ in range(steps):
        actions = np.array([reference.action_space.sample() for _ in range(reference.num_envs)])
        obs, rewards, dones, infos = mine.step(actions)
        their_obs, their_rewards, their_dones, their_infos = reference.step(actions)
        for array, other in ((obs, their_obs), (rewards, their_rewards), (dones, their_dones)):
            np.testing.assert_array_equal(array, other)
            assert array.dtype == other.dtype
            assert array.flags.writeable
        assert type(infos) is list
        for info, other in zip(infos, their_infos, strict=True):
            assert set(info) == set(other)
            assert info["TimeLimit.truncated"] is other["TimeLimit.truncated"]
            if "terminal_observation" in info:
                ended += 1
                np.testing.assert_array_equal(info["terminal_observation"], other["terminal_observation"])
                assert np.asarray(info["terminal_observation"]).dtype == np.asarray(other["terminal_observation"]).dtype
    assert ended


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_as_sb3s_dummy(engine):
    mine = ours.wrap(cart_poles(4, engine))
    assert_same_run(mine, theirs.DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 4))
    mine.close()


def test_truncation_is_distinguished_from_termination():
    mine = ours.wrap(cart_poles(2, max_episode_steps=5))
    assert_same_run(mine, theirs.DummyVecEnv([lambda: gymnasium.make("CartPole-v1", max_episode_steps=5)] * 2), 50)


@pytest.mark.parametrize("engine", ["compiled", "sync"])
def test_infos_and_masks_of_kernels_are_those_of_the_env(engine):
    mine = ours.wrap(vecenv.make("Taxi-v3", 3, engine=engine, autoreset="same-step"))
    reference = theirs.DummyVecEnv([lambda: gymnasium.make("Taxi-v3")] * 3)
    mine.seed(1)
    reference.seed(1)
    mine.reset()
    reference.reset()
    for _ in range(210):
        actions = np.array([np.flatnonzero(info["action_mask"])[0] for info in reference.reset_infos])
        infos, their_infos = mine.step(actions)[3], reference.step(actions)[3]
        for info, other in zip([*infos, *mine.reset_infos], [*their_infos, *reference.reset_infos], strict=True):
            assert set(info) == set(other)
            np.testing.assert_array_equal(info["action_mask"], other["action_mask"])
            assert info["prob"] == other["prob"]


def test_masks_of_kernels_come_with_the_step():
    mine = ours.wrap(vecenv.make("Taxi-v3", 3, autoreset="same-step"))
    mine.reset()
    assert mine.has_attr("action_masks")
    ended = 0
    for _ in range(210):
        masks = mine.env_method("action_masks", indices=[2, 0])
        assert masks[0].dtype == np.bool_
        _, _, dones, infos = mine.step(np.array([mask.argmax() for mask in mine.env_method("action_masks")]))
        latest = [mine.reset_infos[row] if dones[row] else infos[row] for row in range(3)]
        np.testing.assert_array_equal(mine.env_method("action_masks"), [info["action_mask"] for info in latest])
        ended += dones.sum()
    assert ended


def test_attributes_of_kernels():
    mine = ours.wrap(cart_poles(3))
    mine.reset()
    assert mine.get_attr("render_mode") == [None] * 3
    assert mine.has_attr("np_random")
    assert not mine.has_attr("missing")
    with pytest.raises(AttributeError):
        mine.get_attr("missing")
    assert mine.env_is_wrapped(ours.Monitor, indices=0) == [False]


@pytest.mark.slow
def test_kernels_are_drawn():
    mine = ours.wrap(vecenv.make("Snake-v0", 3, autoreset="same-step", render_mode="rgb_array"))
    mine.reset()
    assert len(mine.get_images()) == 3
    assert mine.render().ndim == 3


def test_parameters_of_kernels_are_attributes():
    mine = ours.wrap(vecenv.make("Pendulum-v1", 3, autoreset="same-step"))
    assert mine.get_attr("g") == [10.0, 10.0, 10.0]
    mine.set_attr("g", 9.5, indices=-1)
    assert mine.get_attr("g") == [10.0, 10.0, 9.5]
    assert mine.get_attr("g", indices=2) == [9.5]
    assert mine.has_attr("g")


def test_attributes_of_envs_in_processes():
    mine = ours.wrap(vecenv.make(Anything, 3, engine="process", workers=1, autoreset="same-step"))
    mine.reset()
    assert mine.env_method("double", 2, indices=[1]) == [4]
    mine.set_attr("colour", "red", indices=2)
    assert mine.get_attr("colour", indices=2) == ["red"]
    assert not mine.has_attr("colour")
    mine.close()


def test_wrappers_of_vecenv_stay_in_place():
    envs = TransformReward(cart_poles(2), lambda rewards: rewards * 3)
    mine = ours.wrap(envs)
    mine.reset()
    assert (mine.step(np.zeros(2, np.int64))[1] == 3).all()
    assert ours.unwrap(mine) is envs


def test_infos_keep_their_types_through_wrappers():
    envs = vecenv.make(Anything, 2, engine="sync", autoreset="same-step", env_kwargs={"action": "box"})
    mine = ours.wrap(RescaleAction(envs, -1.0, 1.0))
    reference = theirs.DummyVecEnv([lambda: Anything(action="box")] * 2)
    assert_same_run_of_infos(mine, reference)


def assert_same_run_of_infos(mine, reference):
    mine.seed(0)
    reference.seed(0)
    mine.reset()
    reference.reset()
    for _ in range(40):
        actions = np.zeros((2, 2), np.float32)
        for info, other in zip(mine.step(actions)[3], reference.step(actions)[3], strict=True):
            assert {key: type(value) for key, value in info.items()} == {
                key: type(value) for key, value in other.items()
            }


@pytest.mark.parametrize("mode", ["next-step", "disabled"])
def test_other_autoreset_modes_are_refused_with_advice(mode):
    envs = vecenv.make("CartPole-v1", 2, autoreset=mode)
    with pytest.raises(ConfigError, match="autoreset='same-step'"):
        ours.wrap(envs)


def test_views_that_are_overwritten_are_refused_and_those_of_kernels_are_not():
    with pytest.raises(ConfigError, match="copy=True"):
        ours.wrap(cart_poles(2, "sync", copy=False))
    mine = ours.wrap(cart_poles(2, copy=False))
    first = mine.reset()
    kept = first.copy()
    mine.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(first, kept)


def test_what_is_no_vector_env_is_refused():
    with pytest.raises(ConfigTypeError, match="already"):
        ours.wrap(ours.DummyVecEnv([Anything]))
    with pytest.raises(ConfigTypeError, match=r"vecenv\.make"):
        ours.wrap(gymnasium.make("CartPole-v1"))


def test_bad_actions_are_refused_and_nothing_happens():
    mine = ours.wrap(cart_poles(2))
    mine.reset()
    with pytest.raises(InvalidAction):
        mine.step(np.array([0, 5]))
    assert not mine.waiting
    mine.step(np.array([0, 1]))


# --- the reverse -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("venv_class", [theirs.DummyVecEnv, ours.DummyVecEnv], ids=["theirs", "ours"])
@pytest.mark.parametrize("observation", ["box", "dict", "tuple", "discrete"])
def test_from_sb3_is_as_gymnasium_in_same_step_mode(venv_class, observation):
    factories = [lambda: Anything(observation, "multi_discrete") for _ in range(3)]
    mine = ours.from_sb3(venv_class(factories))
    reference = SyncVectorEnv(factories, autoreset_mode=AutoresetMode.SAME_STEP)
    assert mine.observation_space == reference.observation_space
    assert mine.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    obs, infos = mine.reset(seed=[4, 5, 6], options={"x": 1})
    their_obs, their_infos = reference.reset(seed=[4, 5, 6], options={"x": 1})
    same(obs, their_obs)
    np.testing.assert_array_equal(infos["begin"], their_infos["begin"])
    mine.action_space.seed(0)
    for _ in range(100):
        actions = mine.action_space.sample()
        obs, reward, terminated, truncated, infos = mine.step(actions)
        their_obs, their_reward, their_terminated, their_truncated, their_infos = reference.step(actions)
        same(obs, their_obs)
        np.testing.assert_allclose(reward, their_reward, rtol=1e-6)  # SB3's rewards are float32
        np.testing.assert_array_equal(truncated & ~terminated, their_truncated & ~their_terminated)
        np.testing.assert_array_equal(terminated | truncated, their_terminated | their_truncated)
        if (terminated | truncated).any():
            np.testing.assert_array_equal(infos["_final_obs"], their_infos["_final_obs"])
            same(list(infos["final_obs"]), list(their_infos["final_obs"]))
            np.testing.assert_array_equal(infos["_final_info"], their_infos["_final_info"])
            np.testing.assert_array_equal(infos["begin"], their_infos["begin"])


def test_from_sb3_there_and_back():
    mine = ours.from_sb3(ours.wrap(cart_poles(2)))
    obs, _ = mine.reset(seed=3)
    np.testing.assert_array_equal(obs, cart_poles(2).reset(seed=3)[0])
    assert ours.unwrap(mine.venv) is not mine
    assert isinstance(ours.unwrap(ours.DummyVecEnv([Anything])), ours._wrap.FromSB3)
    with pytest.raises(UnsupportedError, match="reset_mask"):
        mine.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ConfigTypeError):
        ours.from_sb3(gymnasium.make("CartPole-v1"))
    mine.close()


def test_from_sb3_reaches_single_envs():
    mine = ours.from_sb3(ours.DummyVecEnv([Anything, Anything]))
    assert mine.call("double", 3) == (6, 6)
    mine.set_attr("size", [1, 2])
    assert mine.get_attr("size") == (1, 2)
