"""Ctrl-C, as a terminal sends it: to the whole group of processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

LONG = "--mode vec --num-envs 16 --minibatch 128 --iterations 100000".split()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Two runs, side by side, and their directories: with short iterations, and with iterations of minutes."""
    started = []
    for batch in ("512", "1048576"):
        path = tmp_path_factory.mktemp("interrupt") / "out"
        command = [sys.executable, "-m", "vecenv.run_training", *LONG, "--train-batch", batch, "--out", str(path)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={"XDG_CACHE_HOME": str(Path.home() / ".cache"), **os.environ, "HOME": str(path.parent)},
        )
        started.append((process, path))
    yield started
    for process, _ in started:
        process.kill()
        process.communicate()


def family(process):
    return psutil.Process(process.pid).children(recursive=True)


def interrupt(process):
    os.killpg(process.pid, signal.SIGINT)


def assert_gone(processes):
    assert processes
    _, alive = psutil.wait_procs(processes, timeout=15)
    assert alive == []


@pytest.mark.timeout(120)
def test_the_first_stops_saves_and_leaves_nothing_running(processes):
    process, path = processes[0]
    assert process.stdout.readline().startswith("PPO on CartPole-v1")
    assert process.stdout.readline().startswith("vec 1/")
    children = family(process)
    interrupt(process)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert err == "stopping after this iteration; Ctrl-C again stops at once\n"
    assert out.splitlines()[-1] == f"stopped; results so far: {path}"
    assert_gone(children)
    content = json.loads((path / "vec/results.json").read_text())
    assert content["ending"] == "interrupted"
    lines = (path / "vec/results.csv").read_text().splitlines()
    assert 1 <= len(content["rows"]) == len(lines) - 1 == len(out.splitlines())
    assert (path / "vec/checkpoint/algorithm_state.pkl").exists()
    assert list(path.parent.glob("ray_results/*")) == []  # where RLlib makes directories


@pytest.mark.timeout(120)
def test_the_second_ends_at_once_and_leaves_nothing_running(processes):
    process, path = processes[1]
    while not (path / "vec/results.csv").exists():
        assert process.poll() is None
        time.sleep(0.05)
    children = family(process)
    interrupt(process)
    assert process.stderr.readline().startswith("stopping")
    interrupt(process)
    assert process.wait(timeout=10) == 130
    assert_gone(children)
