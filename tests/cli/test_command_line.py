"""The door: help, wrong arguments, exit codes, laziness."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vecenv.cli import COMMANDS

HEAVY = ("torch", "matplotlib", "numba", "PIL", "tensorboardX", "pandas", "stable_baselines3", "envpool")


HIDE = """
import sys


class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, *arguments):
        return None if name.partition(".")[0] == "{missing}" else self.finder.find_spec(name, *arguments)


sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
"""Python without a package that is installed."""


def test_overview_names_every_command(inside):
    out, _ = inside("--help")
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", out, re.MULTILINE)
    assert inside(code=2)[1] == out


def test_every_command_has_its_own_file():
    files = {file.stem for file in (Path(__file__).parents[2] / "src/vecenv/cli").glob("[a-z]*.py")}
    assert files == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_describes_every_option(inside, name):
    out, _ = inside(name, "--help")
    assert f"  vecenv {name} " in out or f"  vecenv {name}\n" in out
    assert "Examples:" in out
    assert "--json" in out
    for line in out.splitlines():
        if re.match(r"│ --", line):
            assert re.search(r"  +\w", line) or len(line) < 110


def test_help_loads_nothing_heavy():
    script = f"""
import sys
from vecenv.cli import main
for name in {list(COMMANDS)}:
    assert main([name, "--help"]) == 0
loaded = [name for name in {HEAVY} if name in sys.modules]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


def test_module_and_script_are_the_same(command):
    assert command("--version").stdout.startswith("vecenv ")
    script = Path(sys.executable).with_name("vecenv")
    if script.exists():  # it is installed
        done = subprocess.run([script, "--help"], env=command.environment, capture_output=True, text=True, timeout=50)
        assert done.stdout == command("--help").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["trian", "CartPole-v1"], "did you mean 'train'"),
        (["list", "--al"], "Perhaps you meant"),
        (["train"], "ENV"),
        (["train", "CartPol-v1"], "did you mean 'CartPole-v1'"),
        (["train", "CartPole-v1", "--steps", "many"], "--steps"),
        (["train", "CartPole-v1", "--steps", "0"], "--steps must be at least 1"),
        (["train", "CartPole-v1", "--set", "learning_rat=1"], "did you mean 'learning_rate'"),
        (["train", "CartPole-v1", "--set", "learning_rate=fast"], "learning_rate must be a number"),
        (["train", "CartPole-v1", "--set", "optimizer=sgd"], "optimizer must be"),
        (["train", "CartPole-v1", "--set", "activation=selu"], "activation must be one of"),
        (["train", "CartPole-v1", "--set", "epochs"], "NAME=VALUE"),
        (["train", "CartPole-v1", "--kwargs", "colour=red"], "colour"),
        (["train", "runs/none"], "there is no checkpoint or run 'runs/none'"),
        (["eval", "runs/none"], "there is no checkpoint or run"),
        (["eval", "nothing.npz"], "there is no checkpoint or run"),
        (["train", "./none.py:Env"], "there is no file ./none.py"),
        (["play", "/none.py:Env"], "there is no file /none.py"),
        (["play", "Nothing-v7"], "there is no env 'Nothing-v7'"),
        (["play", "CartPole-v1", "--out", "a.txt"], ".gif"),
        (["check", "tests.cli.cli_envs:Wlak"], "did you mean 'Walk'"),
        (["check", "tests.cli.cli_envs:NUMBER"], "is an int; name an env class"),
        (["check", "tests.cli.cli_envs:"], "names nothing in tests.cli.cli_envs; write tests.cli.cli_envs:Class"),
        (["train", "cartpole"], "there is no env 'cartpole'; did you mean 'CartPole-v1'?"),
        (["train", "CartPole"], "did you mean 'CartPole-v1'?"),
        (["train", "Hopper-v9"], "did you mean 'Hopper-v5'?"),
        (["list", "CartPole-v2"], "no env has 'CartPole-v2' in its name; did you mean 'CartPole-v1'?"),
        (["check", "no_such_module:Env"], "there is no module 'no_such_module'"),
        (["check", "none.py:Env"], "there is no file none.py"),
        (["bench", "--sizes", "0"], "--sizes"),
        (["bench", "--only", "nobody"], "matches no contestant"),
        (["plot", "nothing"], "there is no run 'nothing'"),
        (["list", "xyzzy"], "no env has 'xyzzy'"),
    ],
)
def test_mistakes_are_told_in_words_and_exit_with_2(inside, arguments, told):
    out, err = inside(*arguments, code=2)
    assert told in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--csv", "none/x.csv"], "there is no directory none"),
        (["--plot", "none/x.png"], "there is no directory none"),
        (["--plot", "x.xyz"], "x.xyz cannot be drawn: .xyz is not one of"),
    ],
)
def test_files_that_cannot_be_written_are_told_before_the_work(inside, trained, monkeypatch, options, told):
    monkeypatch.setattr("vecenv.evaluation.evaluate", None)
    assert told in inside("eval", trained[0], *options, code=2)[1]


def test_what_the_system_refuses_is_one_line(inside, tmp_path):
    (tmp_path / "file").write_text("")
    out, err = inside("train", "CartPole-v1", "--runs-dir", tmp_path / "file" / "runs", code=1)
    assert len(err.splitlines()) == 1
    assert "file" in err
    assert out == ""


def test_other_files_among_the_checkpoints_are_passed_over(inside, trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "copy")
    (tmp_path / "copy" / "checkpoints" / "step-final.npz").write_bytes(b"")
    assert "step-8192.npz" in inside("eval", tmp_path / "copy", "--episodes", 2, "--json")[0]


def test_a_damaged_checkpoint_is_a_failure_without_a_traceback(inside, tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK no")
    _, err = inside("eval", "bad.npz", code=1)
    assert "damaged" in err


def test_an_env_that_raises_is_told_with_its_own_traceback(command):
    err = command(
        "train", "tests.cli.cli_envs:Raises", "--engine", "sync", "--steps", 100, code=1, traceback=True
    ).stderr
    assert "the physics exploded" in err
    assert "cli_envs.py" in err
    assert "vecenv/cli" not in err


@pytest.mark.parametrize(
    ("missing", "arguments", "told"),
    [
        ("tyro", ["list"], "vecenv[cli]"),
        ("torch", ["train", "CartPole-v1"], "vecenv[torch]"),
        ("tensorboardX", ["train", "CartPole-v1"], "vecenv[cli]"),
        ("matplotlib", ["bench", "--quick", "--sizes", "1", "--only", "compiled"], "vecenv[cli]"),
        ("pygame", ["play", "CartPole-v1", "--max-steps", "1"], "vecenv[render]"),
        ("PIL", ["play", "Snake-v0", "--max-steps", "1"], "vecenv[cli]"),
    ],
)
def test_what_is_not_installed_is_named_with_its_pip_line(command, missing, arguments, told):
    script = HIDE.format(missing=missing) + f"from vecenv.cli import main; sys.exit(main({arguments}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=command.directory, env=command.environment, capture_output=True, text=True,
        timeout=50,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error(command):
    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" list --all | head -n 1', "x", *command.line],
        cwd=command.directory, env=command.environment, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
