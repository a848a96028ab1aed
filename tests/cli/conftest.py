"""The real command, in a directory of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass
class Command:
    """Runs `python -m vecenv` in `directory`, with the envs of cli_envs.py at hand."""

    directory: Path

    @property
    def environment(self):
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        return {**os.environ, "PYTHONPATH": paths, "COLUMNS": "100", "NO_COLOR": "1"}

    @property
    def line(self):
        return [sys.executable, "-W", "error::ResourceWarning", "-m", "vecenv"]

    def __call__(self, *arguments, code=0, traceback=False):
        done = subprocess.run(
            [*self.line, *map(str, arguments)], cwd=self.directory, env=self.environment,
            capture_output=True, text=True, timeout=55,
        )  # fmt: skip
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert traceback or "Traceback" not in done.stderr
        return done


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


@pytest.fixture
def inside(tmp_path, monkeypatch, capsys):
    """The same in this process, which has loaded everything: quicker. Returns exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments, code=0):
        from vecenv.cli import main

        got = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert got == code, f"exit {got}\n{out}\n{err}"
        return out, err

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A run of PPO on CartPole, and what its command printed."""
    command = Command(tmp_path_factory.mktemp("trained"))
    done = command("train", "CartPole-v1", "--steps", 8192, "--name", "one", "--eval-episodes", 10, "--json")
    return command.directory / "runs" / "one", done


@pytest.fixture
def one_thread():
    """Small networks; on a busy machine threads of torch wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
