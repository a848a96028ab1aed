"""`vecenv.envpool` has EnvPool's words; the oracle is Gymnasium's SyncVectorEnv in its next-step mode."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import vecenv
from vecenv._util.extras import load_client
from vecenv.errors import ConfigError, MissingExtra, UnsupportedError


def cart_poles(count):
    return gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * count)


@pytest.mark.parametrize("engine", ["sync", "compiled"])
def test_steps_are_those_of_gymnasium_with_env_id_and_elapsed_step(engine):
    ours = vecenv.envpool.make("CartPole-v1", "gymnasium", num_envs=3, seed=5, engine=engine)
    theirs, elapsed = cart_poles(3), np.zeros(3, int)
    obs, info = ours.reset()
    assert np.array_equal(obs, theirs.reset(seed=5)[0])
    assert info["elapsed_step"].tolist() == [0, 0, 0]
    done = np.zeros(3, bool)
    for step in range(60):
        actions = np.array([0, 1, step % 2])
        (obs, reward, terminated, truncated, info), expected = ours.step(actions), theirs.step(actions)
        elapsed = np.where(done, 0, elapsed + 1)
        assert all(map(np.array_equal, (obs, reward, terminated, truncated), expected[:4]))
        assert reward.dtype == np.float32
        assert info["env_id"].tolist() == [0, 1, 2]
        assert info["elapsed_step"].tolist() == elapsed.tolist()
        done = terminated | truncated
    assert elapsed.max() > 1
    ours.close()


def test_some_envs_are_stepped_and_reset_in_the_order_that_is_asked_for():
    ours = vecenv.envpool.make_gym("CartPole-v1", num_envs=4, seed=[7, 8, 9, 10], engine="sync")
    expected, _ = cart_poles(4).reset(seed=7)
    assert len(ours) == 4
    assert ours.all_env_ids.tolist() == [0, 1, 2, 3]
    assert np.array_equal(ours.reset()[0], expected)
    obs, _, _, _, info = ours.step(np.array([1, 0]), np.array([3, 1]))
    assert info["env_id"].tolist() == [3, 1]
    assert obs[0][1] > expected[3][1]
    assert obs[1][1] < expected[1][1]
    obs, info = ours.reset(np.array([3]), seed=7)
    assert info["env_id"].tolist() == [3]
    ours.close()


def test_the_async_loop_of_envpools_documentation_runs():
    ours = vecenv.envpool.make("CartPole-v1", "gym", num_envs=6, batch_size=3, num_threads=2, engine="process", seed=2)
    assert ours.is_async
    ours.async_reset()
    seen = np.zeros(6, int)
    for _ in range(20):
        obs, _, terminated, truncated, info = ours.recv()
        assert obs.shape == (3, 4)
        assert info["elapsed_step"].tolist() == seen[info["env_id"]].tolist()
        seen[info["env_id"]] += 1
        if (terminated | truncated).any():
            break
        ours.send(np.ones(3, int), info["env_id"])
    assert seen.sum() > 12
    with pytest.raises(UnsupportedError, match=r"use async_reset\(\)"):
        ours.reset()
    ours.close()


def test_atari_games_have_envpools_ids_and_options():
    ours = vecenv.envpool.make("Pong-v5", "gym", num_envs=2, stack_num=2, img_height=42, img_width=40)
    assert ours.spec.id == "ALE/Pong-v5"
    assert ours.reset()[0].shape == (2, 2, 42, 40)
    ours.close()


@pytest.mark.parametrize("id", ["ale_py:ALE/Pong-v5", "ale_py:Pong-v5"])
def test_a_game_may_name_its_module(id):
    ours = vecenv.envpool.make(id, "gym", num_envs=2, stack_num=2)
    assert ours.spec.id == "ALE/Pong-v5"
    assert ours.single_observation_space.shape == (2, 84, 84)
    ours.close()


def test_what_has_no_meaning_here_is_refused():
    with pytest.raises(ConfigError, match="env_type must be 'gym', 'gymnasium' or 'dm', got 'gym3'"):
        vecenv.envpool.make("CartPole-v1", "gym3")
    with pytest.raises(ConfigError, match="max_num_players=2: envs here have one player"):
        vecenv.envpool.make("CartPole-v1", "gym", max_num_players=2)


def test_what_brings_a_missing_library_is_named():
    with pytest.raises(MissingExtra, match="pip install dm-env"):
        vecenv.envpool.make_dm("CartPole-v1", num_envs=2, engine="sync")
    for name, package in (("tianshou", "tianshou"), ("rsl_rl", "rsl-rl-lib"), ("skrl", "skrl"), ("torchrl", "torchrl")):
        with pytest.raises(MissingExtra, match=f"pip install '{package}=="):
            getattr(vecenv, name)


def test_another_version_of_a_library_is_an_error_that_names_both():
    with pytest.raises(
        MissingExtra, match=rf"vecenv knows numpy 0\.\*, and {np.__version__} is installed: pip install 'numpy==0"
    ):
        load_client("numpy", "numpy", "0.")


def test_the_version_is_checked_before_the_import_and_what_the_import_misses_is_named(tmp_path, monkeypatch):
    (tmp_path / "some_client.py").write_text("import no_such_torch")
    (tmp_path / "some_client-2.1.dist-info").mkdir()
    (tmp_path / "some_client-2.1.dist-info" / "METADATA").write_text("Name: some-client\nVersion: 2.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        MissingExtra, match=r"knows some-client 3\.\*, and 2\.1 is installed: pip install 'some-client==3"
    ):
        load_client("some_client", "some-client", "3.")
    with pytest.raises(
        MissingExtra, match=r"2\.1 cannot be imported \(No module named 'no_such_torch'\): pip install 'x'"
    ):
        load_client("some_client", "some-client", "2.", install="x")
