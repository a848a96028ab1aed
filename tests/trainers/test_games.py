"""Atari games that a trainer makes from an id: those of `vecenv train`."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest

import vecenv
from vecenv.cli import _training, train
from vecenv.cli._sources import find_env
from vecenv.errors import SpaceError
from vecenv.presets import make_options_for
from vecenv.trainers import DQN, PPO, DQNConfig, PeriodicEvaluation, PPOConfig

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("ale_py"), reason="needs vecenv[atari]")
PONG = "ALE/Pong-v5"
FEW = {"num_envs": 1, "hidden": (), "image_features": 8, "minibatch": 8}
SMALL = {
    "ppo": (PPO, PPOConfig(**FEW, rollout_steps=8, epochs=1)),
    "dqn": (DQN, DQNConfig(**FEW, capacity=64, warmup=4, stack=4)),
}


def episode(envs):
    """The space, and what a few steps return."""
    obs, _ = envs.reset(seed=7)
    seen = [np.array(obs)]
    for action in (1, 2, 3, 2, 0):
        obs, reward, *_ = envs.step(np.full(envs.num_envs, action))
        seen += [np.array(obs), np.array(reward)]
    return envs.single_observation_space, seen


@pytest.mark.parametrize("algo", SMALL)
def test_a_game_by_its_id_is_the_game_that_the_command_line_trains_on(algo, monkeypatch, tmp_path):
    cls, config = SMALL[algo]
    monkeypatch.setattr(_training, "_settings", lambda *_: config)
    ours = cls(PONG, config, device="cpu")
    theirs = _training.new_job(train.Options(PONG, algo=algo, device="cpu", runs_dir=tmp_path))
    try:
        space, seen = episode(ours.collector.envs[0])
        assert space.shape == (4, 84, 84)
        expected_space, expected = episode(theirs.trainer.collector.envs[0])
        assert space == expected_space
        assert all(map(np.array_equal, seen, expected))
    finally:
        ours.close()
        theirs.close()


def test_raw_frames_of_the_command_line_stay_raw():
    (envs,) = _training._envs(find_env(PONG, {}, False), "auto", PPOConfig(num_envs=1), {})
    with envs:
        assert envs.single_observation_space.shape == (210, 160, 3)


def test_a_vector_env_of_games_stays_as_it_is():
    with vecenv.make(PONG, 1, autoreset="same-step", preprocessing={"frame_stack": 2}) as envs:
        trainer = PPO(envs, SMALL["ppo"][1], device="cpu")
        assert trainer.collector.envs[0] is envs
        assert trainer.collector.observation_space.shape == (2, 84, 84)


def test_a_game_of_a_checkpoint_is_preprocessed(tmp_path):
    trainer = PPO(PONG, SMALL["ppo"][1], device="cpu")
    trainer.save(tmp_path / "pong.npz")
    again = PPO.load(tmp_path / "pong.npz", device="cpu")
    trainer.close()
    again.close()
    assert again.collector.observation_space.shape == (4, 84, 84)


def test_a_policy_that_gets_raw_frames_says_what_it_was_trained_on():
    trainer = PPO(PONG, SMALL["ppo"][1], device="cpu")
    trainer.close()
    for raw in (np.zeros((210, 160, 3), np.uint8), np.zeros((2, 210, 160, 3), np.uint8)):
        with pytest.raises(SpaceError, match=r"have shape \(210, 160, 3\), the policy was trained on \(4, 84, 84\)"):
            trainer.policy(raw)


@pytest.mark.parametrize(("given", "expected"), [({}, "dqn"), ({"preprocessing": True}, True)])
def test_a_periodic_evaluation_sees_the_game_that_the_trainer_sees(given, expected, monkeypatch):
    class Asked(Exception):
        pass

    def evaluate(policy, envs, **options):
        raise Asked(envs, options)

    monkeypatch.setattr("vecenv.trainers._evaluation.evaluate", evaluate)
    trainer = SimpleNamespace(collector=SimpleNamespace(env_id=PONG), policy=None, evaluations={})
    with pytest.raises(Asked) as asked:
        PeriodicEvaluation(1, episodes=3, **given)(SimpleNamespace(trainer=trainer, steps=1, total_steps=1))
    assert asked.value.args == (PONG, {"episodes": 3, "preprocessing": expected})


def test_only_games_have_options_of_their_own():
    assert make_options_for("BreakoutNoFrameskip-v4") == make_options_for(PONG) == {"preprocessing": "dqn"}
    assert make_options_for("CartPole-v1") == make_options_for("Breakout-v0") == {}
