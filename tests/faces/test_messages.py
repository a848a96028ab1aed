"""What people bring from other libraries to `vecenv.make` is answered by a message that says what to do."""

from __future__ import annotations

import sys

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import DummyVecEnv

import vecenv
from vecenv._front.faces import check_mode
from vecenv.errors import ConfigTypeError, NothingPendingError, SpaceError, UnknownEnv


def cart_pole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


class ParallelEnv:
    """As PettingZoo has it."""

    possible_agents = ["left", "right"]

    def reset(self, seed=None, options=None): ...

    def step(self, actions): ...


def test_what_may_be_an_atari_game_says_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    for id in [id for id in gymnasium.registry if id.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, id)
    with pytest.raises(UnknownEnv, match=r"use 'ALE/Pong-v5', which needs ale-py: pip install 'vecenv\[atari\]'"):
        vecenv.make("Pong-v5", 2)


FOREIGN = {
    "vector env": (lambda: gymnasium.vector.SyncVectorEnv([cart_pole]), "vector env already & one env, and num_envs"),
    "SB3": (lambda: DummyVecEnv([cart_pole]), r"VecEnv of Stable-Baselines3 already & vecenv.sb3.wrap\(vecenv.make"),
    "PettingZoo": (ParallelEnv, r"several agents \(PettingZoo\) & pass a function that makes one"),
    "env": (cart_pole, "it is an env, pass a function that makes one"),
}


def says(text: str) -> str:
    return ".*".join(text.split(" & "))


@pytest.mark.parametrize("name", FOREIGN)
def test_envs_of_other_kinds_are_named_with_what_to_do(name):
    make_foreign, expected = FOREIGN[name]
    with pytest.raises(ConfigTypeError, match=says(expected)):
        vecenv.make(make_foreign(), 2)
    with pytest.raises(ConfigTypeError, match=says(expected)):
        vecenv.make([make_foreign()])
    if name not in ("env", "PettingZoo"):
        with pytest.raises(SpaceError, match=says(expected)):
            vecenv.make(make_foreign, 2, engine="sync")


@pytest.mark.parametrize("id", ["CartPole-v1", "Acrobot-v1"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"seed": 1}, r"'seed': seeds are given to reset: envs.reset\(seed"),
        ({"num_threads": 2}, "'num_threads'; did you mean 'workers'"),
        ({"env_type": "gym"}, "'env_type': .*vecenv.envpool.make"),
    ],
    ids=["seed", "num_threads", "env_type"],
)
def test_words_of_others_for_our_arguments_are_named(id, given, expected):
    with pytest.raises(ConfigTypeError, match=expected):
        vecenv.make(id, 2, **given)


@pytest.mark.parametrize("engine", ["sync", "compiled"])
def test_recv_after_reset_says_that_the_observations_were_returned(engine):
    with vecenv.make("CartPole-v1", 2, engine=engine) as envs:
        envs.reset(seed=0)
        with pytest.raises(
            NothingPendingError, match=r"What reset\(\) and step\(\) brought they have returned; call send"
        ):
            envs.recv()


def test_a_game_without_its_namespace_is_found():
    with pytest.raises(UnknownEnv, match="there is no env 'Pong-v5'; did you mean 'ALE/Pong-v5'"):
        vecenv.make("Pong-v5")


@pytest.mark.parametrize("id", ["gymnasium:CartPole-v1", "vecenv:vecenv/CartPole-v1", "gymnasium:MountainCar-v0"])
def test_an_id_may_name_the_module_that_registers_it(id):
    plain = id.partition(":")[2].removeprefix("vecenv/")
    with vecenv.make(id, 2) as named, vecenv.make(plain, 2) as expected:
        assert named.engine.name == expected.engine.name == "compiled"
        assert (named.reset(seed=3)[0] == expected.reset(seed=3)[0]).all()
    assert vecenv.make_env(id).spec.name == vecenv.make_env(plain).spec.name


def test_an_id_of_ale_py_may_name_its_module():
    with vecenv.make("ale_py:ALE/Pong-v5", 1) as envs:
        assert envs.spec.id == "ALE/Pong-v5"


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(UnknownEnv, match="there is no module 'no_such_package'; install"):
        vecenv.make("no_such_package:Some-v0")


@pytest.mark.parametrize("kind", ["gymnasium", "flat", "agents"])
def test_faces_refuse_vector_envs_whose_rows_they_would_misread(kind):
    if kind == "gymnasium":
        envs = gymnasium.vector.SyncVectorEnv([cart_pole], autoreset_mode=AutoresetMode.DISABLED)
    else:
        envs = vecenv.make("SimpleSpread-v0", 2, engine="sync", autoreset="disabled")
        envs = envs.flat() if kind == "flat" else envs
    with pytest.raises(ConfigTypeError, match=r"Some library needs a vector env of .* with one agent per env"):
        check_mode(envs, AutoresetMode.DISABLED, "Some library")
    envs.close()
