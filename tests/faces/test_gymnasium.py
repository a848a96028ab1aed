"""Gymnasium's face: names, order, defaults, errors; and the defects it does not have."""

import inspect
import re
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.spaces import Box, Discrete, Text
from gymnasium.vector import AutoresetMode

import vecenv
import vecenv.gymnasium
from vecenv.gymnasium import AsyncVectorEnv, SyncVectorEnv, make_vec
from vecenv.testing import LawEnv


def cartpole():
    return gymnasium.make("CartPole-v1")


def async_env(fns, **kwargs):
    return AsyncVectorEnv(fns, context="fork", **kwargs)


@pytest.fixture(params=["sync", "async"])
def vectorizer(request):
    return SyncVectorEnv if request.param == "sync" else async_env


@pytest.mark.parametrize("name", ["SyncVectorEnv", "AsyncVectorEnv"])
def test_arguments_have_gymnasiums_names_order_and_defaults(name):
    ours = inspect.signature(getattr(vecenv.gymnasium, name).__init__).parameters
    theirs = inspect.signature(getattr(gymnasium.vector, name).__init__).parameters
    assert [*ours][: len(theirs)] == [*theirs]
    assert all(ours[key].default == theirs[key].default for key in theirs)


def test_make_vec_has_gymnasiums_arguments():
    ours, theirs = inspect.signature(make_vec).parameters, inspect.signature(gymnasium.make_vec).parameters
    assert [*ours] == [*theirs]
    assert all(ours[key].default == theirs[key].default for key in theirs)


@pytest.mark.parametrize("cls", [SyncVectorEnv, AsyncVectorEnv, vecenv.VectorEnv])
def test_the_gymnasium_class_is_a_direct_base(cls):
    assert gymnasium.vector.VectorEnv in cls.__bases__


def test_public_attributes_are_there(vectorizer):
    fns = [cartpole] * 2
    envs = vectorizer(fns, autoreset_mode=AutoresetMode.SAME_STEP)
    assert envs.num_envs == 2
    assert envs.env_fns == fns
    assert envs.observation_mode == "same"
    assert envs.copy is True
    assert envs.autoreset_mode is envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.single_action_space == Discrete(2)
    assert isinstance(envs.observation_space, Box)
    assert envs.render_mode is None
    assert envs.closed is False
    assert envs.spec is None
    assert repr(envs).endswith("VectorEnv(num_envs=2)")
    envs.close()
    assert envs.closed is True


def test_the_metadata_of_the_env_class_is_not_changed(vectorizer):
    class Fresh(LawEnv):
        metadata = {"render_modes": []}

    envs = vectorizer([Fresh])
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert Fresh.metadata == {"render_modes": []}
    envs.close()


def test_sync_has_its_envs_and_async_its_processes():
    assert all(isinstance(env, gymnasium.Env) for env in SyncVectorEnv([cartpole] * 2).envs)
    envs = async_env([cartpole] * 4, workers=2)
    assert [process.is_alive() for process in envs.processes] == [True, True]
    assert envs.observations.shape == (4, 4)
    envs.close()


def test_async_trajectories_equal_gymnasiums_sync():
    actions = np.random.default_rng(0).integers(0, 2, (100, 3))
    ours, theirs = async_env([cartpole] * 3), gymnasium.vector.SyncVectorEnv([cartpole] * 3)
    assert np.array_equal(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])
    for action in actions:
        ours.step_async(action)
        for mine, wanted in zip(ours.step_wait()[:4], theirs.step(action)[:4]):
            assert np.array_equal(mine, wanted)
    ours.close()


def test_async_calls_out_of_order_raise_gymnasiums_errors():
    envs = async_env([cartpole] * 2)
    out_of_order = re.escape("Calling `reset_wait` without any prior call to `reset_async`.")
    with pytest.raises(NoAsyncCallError, match=out_of_order):
        envs.reset_wait()
    with pytest.raises(NoAsyncCallError, match="step_wait") as caught:
        envs.step_wait()
    assert caught.value.name == "step"
    envs.reset_async(seed=0)
    with pytest.raises(AlreadyPendingCallError, match=re.escape("pending call to `reset` to complete")) as caught:
        envs.step_async(np.zeros(2, int))
    assert caught.value.name == "reset"
    envs.reset_wait()
    envs.call_async("has_wrapper_attr", "state")
    with pytest.raises(AlreadyPendingCallError, match="pending call to `call`"):
        envs.set_attr("x", 1)
    assert envs.call_wait() == (True, True)
    with pytest.raises(NoAsyncCallError, match="call_wait"):
        envs.call_wait()
    envs.close()
    for call in (envs.reset, lambda: envs.step(np.zeros(2, int)), lambda: envs.call("render")):
        with pytest.raises(ClosedEnvironmentError):
            call()


class Sleepy(LawEnv):
    def step(self, action):
        time.sleep(0.3 if self._index == 1 else 0)
        return super().step(action)

    def doze(self):
        time.sleep(0.3)
        return self._index


def test_after_a_timeout_the_late_answer_is_the_right_one():
    envs = async_env([lambda: Sleepy(0), lambda: Sleepy(1)])
    envs.reset(seed=0)
    envs.step_async(np.ones(2, int))
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.05)
    assert envs.step_wait()[0][:, 2].tolist() == [1, 1]
    assert envs.step(np.ones(2, int))[0][:, 2].tolist() == [2, 2]
    envs.call_async("doze")
    with pytest.raises(TimeoutError):
        envs.call_wait(timeout=0.05)
    assert envs.call_wait(timeout=5) == (0, 1)
    envs.close()


def test_actions_reach_the_env_as_they_were_given(vectorizer):
    class Asks(LawEnv):
        def step(self, action):
            obs, reward, *rest, _ = super().step(0)
            return obs, reward, *rest, {"got": f"{type(action).__name__} {action}"}

    envs = vectorizer([Asks] * 2)
    envs.reset()
    assert envs.step([1, 2])[4]["got"].tolist() == ["int 1", "int 2"]
    assert envs.step(np.array([1, 2]))[4]["got"].tolist() == ["int64 1", "int64 2"]
    assert envs.step(np.array([1, 2], np.int32))[4]["got"].tolist() == ["int32 1", "int32 2"]
    envs.reset()
    assert envs.step(np.array([7, 2]))[4]["got"].tolist() == ["int64 7", "int64 2"]
    envs.close()


def test_too_few_actions_change_nothing(vectorizer):
    envs = vectorizer([LawEnv] * 3)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="got 2 actions for 3 envs"):
        envs.step(np.ones(2, int))
    assert envs.step(np.ones(3, int))[0][:, 2].tolist() == [1, 1, 1]
    envs.close()


def test_text_observations_do_not_go_stale():
    class Speaks(LawEnv):
        def __init__(self):
            super().__init__()
            self.observation_space = Text(8)
            self.count = 0

        def reset(self, *, seed=None, options=None):
            return "new", {}

        def step(self, action):
            self.count += 1
            return f"n{self.count}", 0.0, False, False, {}

    envs = async_env([Speaks] * 2)
    assert envs.reset()[0] == ("new", "new")
    assert [envs.step(np.zeros(2, int))[0] for _ in range(2)] == [("n1", "n1"), ("n2", "n2")]
    envs.close()


def test_differing_spaces_name_the_class_and_the_env(vectorizer):
    name = "SyncVectorEnv" if vectorizer is SyncVectorEnv else "AsyncVectorEnv"
    expected = (RuntimeError, AssertionError)
    with pytest.raises(expected, match=rf"{name}\(\.\.\., observation_mode='same'\) however .* Env 1 has"):
        vectorizer([cartpole, lambda: gymnasium.make("Acrobot-v1")])


def test_a_custom_worker_is_gymnasiums_own_affair():
    from gymnasium.vector.async_vector_env import _async_worker

    envs = AsyncVectorEnv([cartpole], context="fork", worker=_async_worker)
    assert type(envs) is gymnasium.vector.AsyncVectorEnv
    envs.close(terminate=True)


def test_max_concurrency_is_the_number_of_workers():
    envs = async_env([cartpole] * 4, max_concurrency=3)
    assert len(envs.processes) == 3
    envs.close()
    with pytest.raises(ValueError, match="must be a positive or None, got 0"):
        async_env([cartpole], max_concurrency=0)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_make_vec_makes_ours_and_its_spec_makes_it_again(mode):
    envs = make_vec("CartPole-v1", 2, vectorization_mode=mode, vector_kwargs={"copy": False}, render_mode="rgb_array")
    assert type(envs) is (SyncVectorEnv if mode == "sync" else AsyncVectorEnv)
    again = make_vec(envs.spec)
    assert (type(again), again.num_envs, again.copy, again.render_mode) == (type(envs), 2, False, "rgb_array")
    assert again.spec == envs.spec
    envs.close()
    again.close()


def test_make_vec_leaves_entry_points_to_gymnasium():
    assert type(make_vec("CartPole-v1", 2)).__name__ == "CartPoleVectorEnv"
    with pytest.raises(ValueError, match="vector_entry_point"):
        make_vec("CartPole-v1", 2, vectorization_mode="fast")


def test_gymnasiums_registry_is_a_door_to_make():
    envs = gymnasium.make_vec("vecenv:vecenv/CartPole-v1", num_envs=3, engine="sync")
    assert isinstance(envs, vecenv.VectorEnv)
    assert np.array_equal(envs.reset(seed=0)[0], vecenv.make("CartPole-v1", 3).reset(seed=0)[0])
    pendulum = gymnasium.make_vec("vecenv/Pendulum-v1", num_envs=2, engine="sync", g=1.0, max_episode_steps=3)
    assert pendulum.get_attr("g") == (1.0, 1.0)
    pendulum.reset()
    assert [pendulum.step(np.zeros((2, 1), np.float32))[3][0] for _ in range(3)] == [False, False, True]
    single = gymnasium.make("vecenv/CartPole-v1")
    assert single.spec.max_episode_steps == 500


def test_envs_registered_later_can_be_made_available_too():
    gymnasium.register("Later-v0", LawEnv)
    try:
        assert vecenv.gymnasium.register("Later-v0") == "vecenv/Later-v0"
        assert gymnasium.make_vec("vecenv/Later-v0", num_envs=2, engine="sync").num_envs == 2
    finally:
        del gymnasium.registry["Later-v0"], gymnasium.registry["vecenv/Later-v0"]
