"""Rows 83 to 88: wrong words on the command line. Exit code 2, what was wrong, and nothing is made.

Rows 85 and 86, `--port 70000` and `--host 0.0.0.0` without a token, are about a server. There is none: no command
opens a port, which a test here makes sure of.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from vecenv.cli import COMMANDS, main
from vecenv.testing import soak

WRONG = {
    "83 unknown command": (["trian"], "there is no command 'trian'; did you mean 'train'"),
    "83 nothing like it": (["xyzzy"], f"there is no command 'xyzzy'; commands: {', '.join(COMMANDS)}"),
    "83 an option instead": (["--train"], "there is no command '--train'"),
    "83 no command": ([], "usage: vecenv COMMAND"),
    "83 unknown option": (["list", "--al"], "--al"),
    "84 --envs word": (["train", "CartPole-v1", "--envs", "x"], "--envs"),
    "84 --envs 0": (["train", "CartPole-v1", "--envs", "0"], "--envs must be at least 1, got 0"),
    "84 --envs negative": (["train", "CartPole-v1", "--envs", "-3"], "--envs must be at least 1, got -3"),
    "84 --envs fraction": (["train", "CartPole-v1", "--envs", "2.5"], "--envs"),
    "84 --seed negative": (["train", "CartPole-v1", "--seed", "-1"], "--seed must be at least 0, got -1"),
    "84 --seeds 0": (["eval", "none", "--seeds", "0"], "there is no checkpoint or run 'none'"),
    "84 --sizes 0": (["bench", "--sizes", "0"], "--sizes must be at least 1, got"),
    "84 --sizes word": (["bench", "--sizes", "big"], "--sizes"),
    "84 --episodes 0": (["play", "CartPole-v1", "--episodes", "0"], "--episodes must be at least 1, got 0"),
    "84 --fps 0": (["play", "CartPole-v1", "--fps", "0"], "--fps must be positive, got 0"),
    "84 --fps nan": (["play", "CartPole-v1", "--fps", "nan"], "--fps must be positive, got nan"),
    "84 --set": (["train", "CartPole-v1", "--set", f"hidden={'[' * 5000}"], "--set hidden must be"),
    "85 --port": (["play", "CartPole-v1", "--port", "70000"], "--port"),
    "86 --host": (["play", "CartPole-v1", "--host", "0.0.0.0"], "--host"),
    "87 missing checkpoint": (["eval", "none.npz"], "there is no checkpoint or run 'none.npz'"),
    "87 missing run": (["train", "runs/none"], "there is no checkpoint or run 'runs/none'"),
    "87 missing file of an env": (["check", "none.py:Env"], "there is no file none.py"),
    "87 missing module": (["check", "no_such:Env"], "there is no module 'no_such'"),
    "87 missing curves": (["plot", "none"], "there is no run 'none'"),
    "87 no curves": (["plot"], "RUN|name at least one run"),
    "88 --steps 0": (["train", "CartPole-v1", "--steps", "0"], "--steps must be at least 1, got 0"),
    "88 --max-steps 0": (["play", "CartPole-v1", "--max-steps", "0"], "--max-steps must be at least 1, got 0"),
    "88 --checkpoints 0": (["train", "CartPole-v1", "--checkpoints", "0"], "--checkpoints must be at least 1, got 0"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_83_to_88_wrong_arguments_exit_with_2_and_make_nothing(
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
def test_85_86_no_command_serves_anything(command: str, capsys: Any) -> None:
    assert main([command, "--help"]) == 0
    assert not re.search(r"--(port|host|bind|listen)\b", capsys.readouterr().out)


WRONG_SOAKS = {
    "88 no time": (["--minutes", "0"], "--minutes must be at least 0.05, got 0"),
    "88 negative": (["--minutes", "-1"], "--minutes must be at least"),
    "88 NaN": (["--minutes", "nan"], "--minutes must be at least 0.05, got nan"),
    "88 word": (["--minutes", "long"], "invalid float value: 'long'"),
    "88 nothing": ([], "--minutes"),
    "84 no envs": (["--minutes", "1", "--envs", "0"], "--envs must be at least 1, got 0"),
    "84 half an env": (["--minutes", "1", "--envs", "0.5"], "invalid int value: '0.5'"),
    "84 seed": (["--minutes", "1", "--seed", "-1"], "--seed must be at least 0, got -1"),
    "83 engine": (["--minutes", "1", "--engine", "turbo"], "invalid choice: 'turbo'"),
    "83 option": (["--minutes", "1", "--fast"], "unrecognized arguments: --fast"),
}


@pytest.mark.parametrize("wrong", WRONG_SOAKS)
def test_83_to_88_the_soak_too(wrong: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    arguments, says = WRONG_SOAKS[wrong]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        soak.main(arguments)
    assert end.value.code == 2
    assert says in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
