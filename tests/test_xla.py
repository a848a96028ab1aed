"""Vector envs inside JAX's compiled programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("which", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.timeout(300)
def test_programs_of_jax_work_in_a_process_of_their_own(which: str) -> None:
    """Where JAX has been used, a fork is a warning."""
    path = Path(__file__).with_name("jax_programs.py")
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", which, path], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    assert "skipped" not in run.stdout
