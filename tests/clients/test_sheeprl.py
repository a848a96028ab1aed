"""SheepRL's PPO on vecenv's classes in the place of Gymnasium's; the oracle is the same run on Gymnasium's own."""

from __future__ import annotations

import subprocess
import sys

import torch

from tests.clients.pages import block

SCRIPT = "from sheeprl.cli import run\nrun()\n"
SETTINGS = (
    *("exp=ppo", "seed=1", "env.num_envs=2", "env.sync_env=True", "env.capture_video=False"),
    *("algo.total_steps=256", "algo.rollout_steps=32", "algo.update_epochs=2", "algo.run_test=False"),
    *("metric.log_level=0", "fabric.accelerator=cpu", "checkpoint.save_last=True", "model_manager.disabled=True"),
)


def learned(whose, folder):
    """The weights after four updates of PPO on CartPole."""
    script = folder / f"{whose}.py"
    script.write_text((block("others", "vecenv.gymnasium") if whose == "ours" else "") + SCRIPT)
    settings = (*SETTINGS, f"root_dir={folder / whose}", "run_name=run")
    command = [sys.executable, "-W", "ignore", script, *settings]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (checkpoint,) = (folder / whose).rglob("ckpt_256_0.ckpt")
    return torch.load(checkpoint, weights_only=False)["agent"]


def test_ppo_learns_the_weights_that_it_learns_on_gymnasiums_classes(tmp_path):
    ours, theirs = (learned(whose, tmp_path) for whose in ("ours", "theirs"))
    assert ours.keys() == theirs.keys()
    assert len(ours) > 10
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name
