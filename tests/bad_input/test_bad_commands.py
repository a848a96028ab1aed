"""Wrong words on the command line: exit code 2, a message that says what was wrong, and nothing is made."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from vecenv.cli import COMMANDS, main
from vecenv.testing import soak

WRONG = {
    "unknown command": (["trian"], "there is no command 'trian'; did you mean 'train'"),
    "nothing like it": (["xyzzy"], f"there is no command 'xyzzy'; commands: {', '.join(COMMANDS)}"),
    "an option instead": (["--train"], "there is no command '--train'"),
    "no command": ([], "usage: vecenv COMMAND"),
    "unknown option": (["list", "--al"], "--al"),
    "--envs word": (["train", "CartPole-v1", "--envs", "x"], "--envs"),
    "--envs 0": (["train", "CartPole-v1", "--envs", "0"], "--envs must be at least 1, got 0"),
    "--envs negative": (["train", "CartPole-v1", "--envs", "-3"], "--envs must be at least 1, got -3"),
    "--envs fraction": (["train", "CartPole-v1", "--envs", "2.5"], "--envs"),
    "--seed negative": (["train", "CartPole-v1", "--seed", "-1"], "Error parsing --seed: -1 is not a seed"),
    "--seeds 0": (["eval", "none", "--seeds", "0"], "there is no checkpoint or run 'none'"),
    "--sizes 0": (["bench", "--sizes", "0"], "--sizes must be at least 1, got"),
    "--sizes word": (["bench", "--sizes", "big"], "--sizes"),
    "--episodes 0": (["play", "CartPole-v1", "--episodes", "0"], "--episodes must be at least 1, got 0"),
    "--fps 0": (["play", "CartPole-v1", "--fps", "0"], "--fps must be positive, got 0"),
    "--fps nan": (["play", "CartPole-v1", "--fps", "nan"], "Error parsing --fps: nan is not a number"),
    "--set": (["train", "CartPole-v1", "--set", f"hidden={'[' * 5000}"], "--set hidden must be"),
    "--port": (["play", "CartPole-v1", "--port", "70000"], "--port"),
    "--host": (["play", "CartPole-v1", "--host", "0.0.0.0"], "--host"),
    "missing checkpoint": (["eval", "none.npz"], "there is no checkpoint or run 'none.npz'"),
    "missing run": (["train", "runs/none"], "there is no checkpoint or run 'runs/none'"),
    "missing file of an env": (["check", "none.py:Env"], "there is no file none.py"),
    "missing module": (["check", "no_such:Env"], "there is no module 'no_such'"),
    "missing curves": (["plot", "none"], "there is no run 'none'"),
    "no curves": (["plot"], "RUN|name at least one run"),
    "--steps 0": (["train", "CartPole-v1", "--steps", "0"], "--steps must be at least 1, got 0"),
    "--max-steps 0": (["play", "CartPole-v1", "--max-steps", "0"], "--max-steps must be at least 1, got 0"),
    "--checkpoints 0": (["train", "CartPole-v1", "--checkpoints", "0"], "--checkpoints must be at least 1, got 0"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_exit_with_2_and_make_nothing(
    wrong: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    arguments, says = WRONG[wrong]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert re.search(says, err.replace("\n", " ")), err
    assert "Traceback" not in err
    assert out == ""
    assert os.listdir(tmp_path) == []
    assert len(err.splitlines()) == 1 or "usage" in err or "full helptext" in err, err


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_serves_anything(command: str, capsys: Any) -> None:
    assert main([command, "--help"]) == 0
    assert not re.search(r"--(port|host|bind|listen)\b", capsys.readouterr().out)


WRONG_SOAKS = {
    "no time": (["--minutes", "0"], "--minutes must be at least 0.05, got 0"),
    "negative": (["--minutes", "-1"], "--minutes must be at least"),
    "NaN": (["--minutes", "nan"], "--minutes must be at least 0.05, got nan"),
    "word": (["--minutes", "long"], "invalid float value: 'long'"),
    "nothing": ([], "--minutes"),
    "no envs": (["--minutes", "1", "--envs", "0"], "--envs must be at least 1, got 0"),
    "half an env": (["--minutes", "1", "--envs", "0.5"], "invalid int value: '0.5'"),
    "seed": (["--minutes", "1", "--seed", "-1"], "--seed must be at least 0, got -1"),
    "engine": (["--minutes", "1", "--engine", "turbo"], "invalid choice: 'turbo'"),
    "option": (["--minutes", "1", "--fast"], "unrecognized arguments: --fast"),
}


@pytest.mark.parametrize("wrong", WRONG_SOAKS)
def test_the_soak_too(wrong: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    arguments, says = WRONG_SOAKS[wrong]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        soak.main(arguments)
    assert end.value.code == 2
    assert says in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
