"""skrl's rule for detecting envs, written down here: names of direct base classes. tests/clients has the real skrl."""

from __future__ import annotations

import gymnasium
import pytest

import vecenv
import vecenv.gymnasium
from vecenv.gym import v26


def skrl_detects(env) -> bool:
    bases = [*type(env).__bases__, *type(env.unwrapped).__bases__]
    return any(base.__module__.startswith("gymnasium.") for base in bases)


@pytest.mark.parametrize("engine", ["auto", "sync", "thread", "process", "compiled"])
def test_every_engine_is_detected(engine):
    with vecenv.make("CartPole-v1", 2, engine=engine) as envs:
        assert skrl_detects(envs)


def test_envs_on_a_device_are_detected():
    pytest.importorskip("torch")
    pytest.importorskip("warp")
    with vecenv.make("CartPole-v1", 2, device="cpu") as envs:
        assert skrl_detects(envs)


def test_every_wrapper_is_detected():
    with vecenv.make("CartPole-v1", 2, engine="sync") as envs:
        for name in vecenv.wrappers.__all__:
            kind = getattr(vecenv.wrappers, name)
            if isinstance(kind, type) and issubclass(kind, gymnasium.vector.VectorEnv):
                wrapped = kind.__new__(kind)  # the rule asks for classes and for what is inside
                wrapped.env = envs
                assert skrl_detects(wrapped), name


@pytest.mark.parametrize("kind", [vecenv.gymnasium.SyncVectorEnv, vecenv.gym.SyncVectorEnv, v26.SyncVectorEnv])
def test_faces_of_gymnasium_and_gym_are_detected(kind):
    envs = kind([lambda: gymnasium.make("CartPole-v1")])
    assert skrl_detects(envs)
    envs.close()


def test_envpools_face_is_detected():
    with vecenv.make("CartPole-v1", 2, engine="sync") as envs:
        assert skrl_detects(vecenv.envpool.EnvPool(envs, 0, {}))
