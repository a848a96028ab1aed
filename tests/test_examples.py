"""Every file in examples/ runs and prints what its docstring says; so do the cells of the notebook."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vecenv.engines import Process

pytestmark = pytest.mark.timeout(150)
FOLDER = Path(__file__).parents[1] / "examples"
slow = pytest.mark.slow
processes = pytest.mark.skipif(Process.unavailable() is not None, reason=str(Process.unavailable()))


def run(name: str, *arguments: str, seconds: float = 120.0, strict: bool = True) -> str:
    """What an example prints. It must end well, and without a warning unless it is not `strict`."""
    options = ["-W", "error"] if strict else []
    done = subprocess.run(
        [sys.executable, *options, str(FOLDER / name), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "RAY_ADDRESS": "local"},
    )
    assert done.returncode == 0, done.stderr
    assert not strict or done.stderr == ""
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    """What the group of a pattern matches, at least once, as numbers."""
    found = [float(one) for one in re.findall(pattern, text)]
    assert found, text
    return found


@processes
def test_the_replay_of_a_failing_env_reproduces_its_failure() -> None:
    printed = run("failing_env_and_replay.py")
    (failed,) = numbers(r"step (\d+): env \d raised IndexError", printed)
    assert numbers(r"the run went on to step (\d+) with 8 arms", printed) == [failed + 200]
    assert "reproduced: IndexError in step" in printed
    assert printed.strip().endswith("IndexError: tuple index out of range")


def test_stragglers_do_not_hold_up_others() -> None:
    together, asynchronous = re.findall(
        r"fast environments (\d+) steps each, slow ones (\d+)", run("asynchronous_stragglers.py")
    )
    assert together[0] == together[1], "a step of all envs waits for the slowest"
    assert int(asynchronous[0]) > 2 * int(together[0])


def test_a_planner_on_clones_balances_the_pole() -> None:
    at_random, planned = numbers(r"mean (\d+)", run("planning_with_clone.py"))
    assert planned > 4 * at_random


def test_a_controller_tuned_on_many_worlds_is_better_in_new_ones() -> None:
    printed = run("domain_randomisation.py")
    (one,), (many,) = numbers(r"one world (-[\d.]+)", printed), numbers(r"many worlds (-[\d.]+)", printed)
    assert many > 0.7 * one  # returns are negative


def test_ppo_in_one_file_begins_to_learn() -> None:
    pytest.importorskip("torch")
    returns = numbers(r"mean return +([\d.]+)", run("cleanrl_ppo.py", "--iterations", "5", seconds=140))
    assert returns[-1] > 2 * returns[0]


@slow
@pytest.mark.timeout(300)
def test_ppo_in_one_file_learns_to_balance_the_pole() -> None:
    pytest.importorskip("torch")
    returns = numbers(r"mean return +([\d.]+)", run("cleanrl_ppo.py", seconds=280))
    assert max(returns[-5:]) > 200


@slow
@pytest.mark.timeout(300)
def test_stable_baselines3_learns() -> None:
    pytest.importorskip("stable_baselines3")
    printed = run("sb3_ppo.py", seconds=280, strict=False)  # it warns about rollouts that are not divided evenly, ...
    (before,), (after,) = numbers(r"before ([\d.]+)", printed), numbers(r"steps ([\d.]+)$", printed.strip())
    assert after > 4 * before


@slow
@pytest.mark.timeout(300)
def test_rllib_learns() -> None:
    pytest.importorskip("ray")
    returns = numbers(r"mean return ([\d.]+)", run("rllib_ppo.py", seconds=280, strict=False))  # Ray warns and logs
    assert len(returns) == 6
    assert returns[-1] > 2 * returns[0]


def test_every_example_says_what_it_shows_and_is_run_here() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    for path in FOLDER.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(text)) or ""
        assert f"python examples/{path.name}" in about
        assert "Prints" in about
        assert f'run("{path.name}"' in tests


NOTEBOOK = FOLDER / "first_steps.ipynb"
END_OF_CELL = "--- end of cell ---"


def test_the_cells_of_the_notebook_print_what_it_shows(tmp_path: Path) -> None:
    """As one script; the workflow runs them in Jupyter's own kernel, too."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = [f"{''.join(cell['source'])}\nprint({END_OF_CELL!r})\n" for cell in cells]
    script = tmp_path / "cells.py"
    script.write_text("".join(code), encoding="utf-8")
    *printed, rest = run(str(script)).split(f"{END_OF_CELL}\n")
    shown = ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in cells]
    assert (printed, rest) == (shown, "")
    assert all(shown), "a cell without an output"
