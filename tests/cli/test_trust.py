"""Runs and checkpoints may be anyone's: no code that they name is imported or called without --trust."""

import json
import sys

import pytest

import vecenv
from tests.cli.cli_envs import Walk
from vecenv.trainers import PPO, PPOConfig
from vecenv.trainers._checkpoint import load_tree, save_tree

ENV = """
from pathlib import Path
Path({marker!r}).touch()
from tests.cli.cli_envs import Walk as Env
def make(render_mode=None):
    return Env(render_mode=render_mode)
"""
PLACES = {
    "a module inside the run": ("runs/nice/evil_walk.py", "runs.nice.evil_walk:Env"),
    "a file inside the run": ("runs/nice/evil_walk.py", "runs/nice/evil_walk.py:Env"),
    "a file beside the run": ("runs/evil_walk.py", "runs/evil_walk.py:Env"),
    "a module of the current directory": ("evil_walk.py", "evil_walk:Env"),
    "a function": ("evil_walk.py", "evil_walk:make"),
}


@pytest.fixture
def marker(tmp_path):
    """What importing the code leaves behind; the import is undone."""
    paths, modules = list(sys.path), set(sys.modules)
    yield tmp_path / "marker"
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if name.startswith("runs") or "evil_walk" in name:
            del sys.modules[name]


@pytest.fixture
def nice_run(tmp_path, marker):
    """Make a run whose config names an env; returns a function of the place of its code, its name and kwargs."""

    def make(place, env, kwargs=None):
        run = tmp_path / "runs" / "nice"
        (run / "checkpoints").mkdir(parents=True)
        (tmp_path / place).write_text(ENV.format(marker=str(marker)))
        checkpoint = run / "checkpoints" / "step-8.npz"

        envs = vecenv.make(Walk, 2, engine="sync", autoreset="same-step")
        trainer = PPO(envs, PPOConfig(num_envs=2, rollout_steps=4, hidden=(4,), minibatch=4))
        trainer.save(checkpoint)
        trainer.close()
        config = {"env": env, "kwargs": kwargs or {}, "algo": "ppo", "engine": "sync", "steps": 16}
        (run / "config.json").write_text(json.dumps(config))
        return checkpoint

    return make


@pytest.mark.parametrize("place", PLACES)
def test_code_that_a_run_names_runs_only_if_it_is_trusted(place, nice_run, marker, inside):
    file, name = PLACES[place]
    nice_run(file, name)
    few = {"eval": ("--episodes", 2), "play": ("--max-steps", 3), "train": ("--steps", 16, "--eval-episodes", 0)}
    for command, options in few.items():
        _, err = inside(command, "runs/nice", *options, code=2)
        assert f"step-8.npz is code that would be imported and run: {name}. Nothing was run." in err
        assert "pass --trust" in err
        assert ("--env" in err) == (command != "train"), "only these have the option"
        assert not marker.exists()
    for command, options in few.items():
        inside(command, "runs/nice", *options, "--trust")
        assert marker.exists()


def test_an_env_that_the_user_names_needs_no_trust_in_the_run(nice_run, marker, inside):
    nice_run("evil_walk.py", "evil_walk:Env")
    inside("eval", "runs/nice", "--episodes", 2, "--env", "tests.cli.cli_envs:Walk")
    inside("play", "runs/nice", "--max-steps", 3, "--env", "tests.cli.cli_envs:Walk")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["evil_walk:Env", "evil_walk:Env-v0"])
def test_a_checkpoint_alone_imports_nothing(name, nice_run, marker, inside, tmp_path):
    save_tree(tmp_path / "lone.npz", {**load_tree(nice_run("evil_walk.py", name)), "env_id": name})
    for command in ("eval", "play"):
        assert f"lone.npz is code that would be imported and run: {name}." in inside(command, "lone.npz", code=2)[1]
    inside("eval", "lone.npz", "--episodes", 2, "--env", "tests.cli.cli_envs:Walk")
    assert not marker.exists()


def test_an_id_in_the_checkpoint_that_the_config_does_not_name_is_not_imported_either(nice_run, marker, inside):
    checkpoint = nice_run("evil_walk.py", "CartPole-v1")
    save_tree(checkpoint, {**load_tree(checkpoint), "env_id": "evil_walk:Env-v0"})
    for command in ("eval", "play", "train"):
        inside(command, "runs/nice", code=1)
        assert not marker.exists()


def test_arguments_that_name_code_need_trust_too(nice_run, marker, inside):
    nice_run("evil_walk.py", "CartPole-v1", {"env_id": ["evil_walk:Env-v0"]})
    assert "is code that would be imported and run: evil_walk:Env-v0." in inside("eval", "runs/nice", code=2)[1]
