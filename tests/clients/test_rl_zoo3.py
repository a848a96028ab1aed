"""rl_zoo3's training script on the lines of its page; the oracle is the same run on Stable-Baselines3's own classes."""

from __future__ import annotations

import sys

import pytest
import rl_zoo3.exp_manager
import torch
from rl_zoo3.train import train
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import vecenv.sb3
from tests.clients.pages import block

SETTINGS = "n_envs:4 n_steps:32 batch_size:64 n_epochs:2 normalize:True n_timesteps:512"


def learned(monkeypatch, folder, kind):
    """The weights after a run of rl_zoo3's `train.py`, and the statistics that it saved."""
    arguments = (
        f"train.py --algo ppo --env CartPole-v1 -f {folder} --vec-env {kind} --seed 5 --eval-freq 256 --device cpu"
    )
    monkeypatch.setattr(sys, "argv", [*arguments.split(), "-params", *SETTINGS.split()])
    train()
    run = folder / "ppo" / "CartPole-v1_1"
    envs = rl_zoo3.exp_manager.make_vec_env("CartPole-v1")
    statistics = VecNormalize.load(str(run / "CartPole-v1" / "vecnormalize.pkl"), envs)
    envs.close()
    return PPO.load(run / "CartPole-v1.zip", device="cpu").policy.state_dict(), statistics


@pytest.mark.parametrize("kind", ["dummy", "subproc"])
def test_the_zoo_learns_what_it_learns_on_stable_baselines3s_classes(kind, tmp_path, monkeypatch):
    expected, their_statistics = learned(monkeypatch, tmp_path / "theirs", kind)
    for name in ("DummyVecEnv", "SubprocVecEnv", "VecNormalize", "make_vec_env"):  # to be put back after the test
        monkeypatch.setattr(rl_zoo3.exp_manager, name, getattr(rl_zoo3.exp_manager, name))
    exec(block("others", "rl_zoo3"), {})
    assert rl_zoo3.exp_manager.make_vec_env is vecenv.sb3.make_vec_env
    ours, statistics = learned(monkeypatch, tmp_path / "ours", kind)
    assert len(ours) > 5
    for name, value in expected.items():
        assert torch.equal(ours[name], value), name
    assert (statistics.obs_rms.mean == their_statistics.obs_rms.mean).all()
    assert statistics.obs_rms.count == their_statistics.obs_rms.count > 500
