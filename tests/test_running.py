"""The test suite itself: one test that hangs or crashes never takes the others with it, however pytest was started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import ctypes, os, signal, time
import pytest

def test_crashes():
    os._exit(3)

@pytest.mark.timeout(1)
def test_hangs():
    time.sleep(600)

@pytest.mark.timeout(1)
def test_hangs_in_native_code():
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)  # it keeps the GIL, so that no signal handler can run

def test_ctrl_c_is_an_exception():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)

@pytest.mark.parametrize("number", range(20))
def test_passes(number):
    pass

@pytest.mark.parametrize("number", range(20, 40))
def test_without_ray(number):
    assert "WITH_RAY" not in os.environ
"""
WITH_RAY = """
import os
import pytest

@pytest.mark.parametrize("number", range(9))
def test_with_ray(number):
    os.environ["WITH_RAY"] = "1"
    assert number != 4 or os._exit(3)
"""


@pytest.mark.parametrize("ignored", [[], [signal.SIGINT, signal.SIGHUP]], ids=["in a terminal", "in the background"])
def test_a_test_that_hangs_or_crashes_leaves_the_others_alone(ignored: list[signal.Signals], tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text(TESTS)
    (tmp_path / "rllib").mkdir()
    (tmp_path / "rllib" / "test_ray.py").write_text(WITH_RAY)
    (tmp_path / "long_tests.txt").write_text("")
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text().replace("+ 20", "+ 2"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "3", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=55,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored],
    )
    failed = {line.split("::")[1].split(" ")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == {"test_crashes", "test_hangs", "test_hangs_in_native_code", "test_with_ray[4]"}, done.stdout
    assert "4 failed, 49 passed" in done.stdout
    assert "in test_hangs_in_native_code" in done.stderr, "its stack is printed"
