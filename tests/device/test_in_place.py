"""The tests of kernels once more, with C++ in place of Numba's: arrays, language, draws, random programs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "file",
    [
        "test_arrays", "test_language", "test_native_draws", "test_random_programs", "test_array_kernels",
        "test_drawn_arrays", "test_spaces_native", "test_natural_games", "test_small",
    ],
)  # fmt: skip
def test_the_tests_of_kernels_pass_with_cpp_in_place_of_numba(file):
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.device.in_place", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, f"tests/kernels/{file}.py"], cwd=ROOT, capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stdout[-3000:]
