"""`vecenv train`: what a run leaves behind, going on, Ctrl-C."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest

from vecenv.trainers import PPO
from vecenv.wrappers import load_results


def test_a_run_has_all_its_files(trained):
    run, done = trained
    result = json.loads(done.stdout)
    assert result["steps"] >= 8192
    assert result["evaluation"]["episodes"] == 10
    assert result == json.loads((run / "result.json").read_text())
    config = json.loads((run / "config.json").read_text())
    assert (config["env"], config["algo"], config["seed"], config["steps"]) == ("CartPole-v1", "ppo", 0, 8192)
    assert config["config"]["num_envs"] == 32
    assert "kernel" in config["engine_reason"]
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    saved = sorted(int(file.stem.partition("-")[2]) for file in (run / "checkpoints").iterdir())
    assert len(saved) == 4
    assert saved[-1] == result["steps"]


def test_the_monitor_file_is_one_of_stable_baselines3(trained):
    run, done = trained
    from stable_baselines3.common.monitor import load_results as theirs

    ours, reference = load_results(run), theirs(str(run))
    assert ours.equals(reference)
    assert len(ours) == json.loads(done.stdout)["episodes"]
    assert (ours["r"] == ours["l"]).all()  # CartPole pays one a step
    assert 0 < ours["l"].sum() <= json.loads(done.stdout)["steps"]


def test_tensorboard_events_hold_the_curves(trained):
    run, done = trained
    scalars = read_events(next(run.glob("events.out.tfevents.*")))
    assert scalars["rollout/ep_rew_mean"][-1][0] == json.loads(done.stdout)["steps"]
    assert scalars["eval/mean_reward"][0][1] == pytest.approx(json.loads(done.stdout)["evaluation"]["mean"])
    assert {"train/policy", "train/value", "time/fps", "rollout/ep_len_mean"} <= set(scalars)


def read_events(path):
    """Points of each curve: records of [length, crc, event, crc]."""
    from tensorboardX.proto.event_pb2 import Event

    content, place, found = path.read_bytes(), 0, {}
    while place < len(content):
        size = int.from_bytes(content[place : place + 8], "little")
        event = Event.FromString(content[place + 12 : place + 12 + size])
        place += 12 + size + 4
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_the_checkpoint_is_what_the_library_trains(trained):
    run, _ = trained
    (last,) = (run / "checkpoints").glob("step-8192.npz")
    trainer = PPO("CartPole-v1", seed=0).learn(8192)
    loaded = PPO.load(last)
    obs = np.random.default_rng(0).uniform(-1, 1, (64, 4)).astype(np.float32)
    for one, other in zip(trainer.network.parameters(), loaded.network.parameters()):
        assert one.equal(other)
    assert np.array_equal(trainer.policy(obs), loaded.policy(obs))
    trainer.close()
    loaded.close()


@pytest.fixture
def slow_training(command):
    """A training that would take minutes, once it has made its first steps."""
    process = subprocess.Popen(
        [*command.line, "train", "CartPole-v1", "--steps", "50000000", "--name", "long", "--json"],
        cwd=command.directory, env=command.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    monitor = command.directory / "runs" / "long" / "monitor.csv"
    deadline = time.monotonic() + 40
    while not monitor.exists() or len(monitor.read_bytes()) < 1000:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_stops_saves_and_can_be_gone_on_from(slow_training, command, number, code):
    slow_training.send_signal(number)
    out, err = slow_training.communicate(timeout=40)
    assert slow_training.returncode == code, err
    assert "Traceback" not in err
    assert "stopping and saving" in err
    result = json.loads(out)
    assert result["stopped"]
    run = command.directory / "runs" / "long"
    assert (run / "checkpoints" / f"step-{result['steps']}.npz").is_file()
    assert (run / "curve.png").is_file()
    if number == signal.SIGINT:
        steps = result["steps"] + 2048
        again = command("train", "runs/long", "--steps", steps, "--eval-episodes", 0, "--json")
        assert json.loads(again.stdout)["steps"] >= steps
        assert len(load_results(run)) == json.loads(again.stdout)["episodes"]


def test_going_on_gives_the_weights_of_an_unbroken_run(inside, tmp_path):
    usual = ("--eval-episodes", 0, "--set", "anneal=False")
    inside("train", "CartPole-v1", "--steps", 4096, "--name", "whole", *usual)
    inside("train", "CartPole-v1", "--steps", 2048, "--name", "parts", *usual)
    line, _ = inside("train", "runs/parts", "--steps", 4096, "--eval-episodes", 0)
    assert "CartPole-v1 PPO: 2,048 steps in" in line
    assert "4,096 in all" in line
    whole, parts = (PPO.load(tmp_path / f"runs/{name}/checkpoints/step-4096.npz") for name in ("whole", "parts"))
    for one, other in zip(whole.network.parameters(), parts.network.parameters()):
        assert one.equal(other)
    columns = [load_results(tmp_path / "runs" / name)[["r", "l"]] for name in ("whole", "parts")]
    assert columns[0].equals(columns[1])
    whole.close()
    parts.close()


def test_a_file_can_be_trained_on_by_any_path(inside, tmp_path):
    (tmp_path / "own_env.py").write_text("from tests.cli.cli_envs import Walk\n\n\nclass Own(Walk):\n    pass\n")
    for path in ("./own_env.py", tmp_path / "own_env.py"):
        inside("train", f"{path}:Own", "--steps", 64, "--envs", 2, "--set", "rollout_steps=32", "--eval-episodes", 0)


def test_going_on_needs_more_steps_and_takes_no_other_settings(inside):
    inside("train", "CartPole-v1", "--steps", 1024, "--name", "a", "--eval-episodes", 0)
    assert "already" in inside("train", "runs/a", code=2)[1]
    assert "--seed" in inside("train", "runs/a", "--steps", 2048, "--seed", 3, code=2)[1]


def test_episodes_that_a_killed_run_will_make_again_are_not_counted_twice(inside, tmp_path):
    few = ("--eval-episodes", 0)
    inside("train", "CartPole-v1", "--steps", 2048, "--name", "killed", *few)
    before = load_results(tmp_path / "runs" / "killed")
    with (tmp_path / "runs" / "killed" / "monitor.csv").open("a") as file:
        file.write("999.0,999,9.0\n777.0,7")  # after the last checkpoint
    out, _ = inside("train", "runs/killed", "--steps", 4096, *few, "--json")
    after = load_results(tmp_path / "runs" / "killed")
    assert after["r"].max() < 777
    assert len(after) == json.loads(out)["episodes"]
    assert after["r"][: len(before)].equals(before["r"])
    lines = (tmp_path / "runs/killed/monitor.csv").read_bytes().splitlines(keepends=True)
    (tmp_path / "runs/killed/monitor.csv").write_bytes(b"".join(lines[:9]) + lines[9][:5])
    inside("train", "runs/killed", "--steps", 5000, *few)
    assert load_results(tmp_path / "runs" / "killed")["r"][:7].equals(before["r"][:7])
    assert "newer" in inside("train", "runs/killed/checkpoints/step-2048.npz", "--steps", 5000, code=2)[1]


def test_names_are_not_taken_twice(inside, tmp_path):
    few = ("--steps", 1024, "--eval-episodes", 0)
    inside("train", "CartPole-v1", *few)
    inside("train", "CartPole-v1", *few)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["CartPole-v1-ppo-1", "CartPole-v1-ppo-2"]
    err = inside("train", "CartPole-v1", *few, "--name", "CartPole-v1-ppo-1", code=2)[1]
    assert "exists; choose another --name, or --overwrite it, or continue it: vecenv train runs/CartPole" in err
    for file in (tmp_path / "runs/CartPole-v1-ppo-1/checkpoints").iterdir():
        file.unlink()
    err = inside("train", "CartPole-v1", *few, "--name", "CartPole-v1-ppo-1", code=2)[1]
    assert err.endswith("exists; choose another --name, or --overwrite it\n"), "there is nothing to continue from"
    inside("train", "CartPole-v1", *few, "--name", "CartPole-v1-ppo-1", "--overwrite")
    (tmp_path / "runs" / "precious").mkdir()
    (tmp_path / "runs" / "precious" / "thesis.txt").write_text("...")
    assert "not a run" in inside("train", "CartPole-v1", *few, "--name", "precious", "--overwrite", code=2)[1]
    assert (tmp_path / "runs" / "precious" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("tests.cli.cli_envs:Walk", ("--engine", "process", "--envs", 4, "--kwargs", "length=3", "--gif")),
        ("tests.cli.cli_envs:Slide", ("--set", "lstm=8", "groups=2", "num_envs=4", "rollout_steps=16")),
        ("CartPole-v1", ("--algo", "a2c", "--engine", "sync")),
        ("Pendulum-v1", ("--algo", "sac", "--set", "warmup=100", "hidden=[16,16]", "capacity=1e4")),
    ],
)
def test_envs_algorithms_and_engines_train_evaluate_and_go_on(inside, tmp_path, env, options):
    steps = 600
    out, _ = inside("train", env, *options, "--steps", steps, "--name", "x", "--eval-episodes", 3, "--json")
    result = json.loads(out)
    assert result["evaluation"]["episodes"] == 3
    assert ("gif" in result["files"]) == ("--gif" in options)
    trust = ("--trust",) if ":" in env else ()
    inside("train", "runs/x", "--steps", 2 * result["steps"], "--eval-episodes", 0, *trust)
    out, _ = inside("eval", "runs/x", "--episodes", 5, "--json", *trust)
    assert len(json.loads(out)["episodes"]) == 5


def test_an_env_that_cannot_be_drawn_costs_the_gif_and_nothing_else(inside, tmp_path):
    few = ("--steps", 256, "--name", "unseen", "--eval-episodes", 2)
    out, err = inside("train", "tests.cli.cli_envs:Unseen", *few, "--gif", "--json", code=1)
    assert "there is no gif" in err
    assert set(json.loads(out)["files"]) == {"checkpoint", "curve"}


def test_training_stops_when_it_is_good_enough(inside):
    out, _ = inside("train", "CartPole-v1", "--until", 25, "--steps", 1_000_000, "--eval-episodes", 0, "--json")
    result = json.loads(out)
    assert result["return"] >= 25
    assert result["steps"] < 100_000
    assert not result["stopped"]


def test_one_line_says_what_happened(inside):
    out, err = inside("train", "CartPole-v1", "--steps", 2048, "--eval-episodes", 5, "--name", "line")
    (line,) = out.splitlines()
    for part in ("CartPole-v1 PPO: 2,048 steps in", "steps/s", "return", "over 5 new episodes", "runs/line: curve.png"):
        assert part in line
    assert "native code" in err
