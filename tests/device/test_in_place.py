"""The tests of kernels once more, with the device engine in place of the compiled one; a few of them in every run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vecenv
from tests.device.in_place import LEFT_OUT, OTHER_FILES, device_in_place
from tests.kernels.native_draws import NativeStream
from tests.kernels.native_kernels import Walk
from vecenv.errors import InvalidAction

ROOT = Path(__file__).parents[2]
ALL = sorted(path.stem for path in (ROOT / "tests" / "kernels").glob("test_*.py"))
FILES = [file for file in ALL if file not in OTHER_FILES]
OF_COLUMNS = (
    "test_native", "test_states", "test_rollout", "test_shared_params", "test_planning", "test_spaces_native",
    "test_envs",
)  # fmt: skip
"""Files whose tests read and write columns from outside: they run with columns in memory of the device, too."""
QUICK_TESTS = {"test_random_programs": "not slow and not gpu"}
"""Which tests of a file are run, if not all: the long ones of random programs would be compiled for an hour."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("file", "columns"), [*((file, "shared") for file in FILES), *((file, "apart") for file in OF_COLUMNS)]
)
def test_the_tests_of_kernels_pass_with_the_device_engine_in_place_of_the_compiled_one(file, columns):
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.device.in_place", "-p", "no:cacheprovider"]
    command += ["-m", QUICK_TESTS.get(file, "not gpu"), f"tests/kernels/{file}.py"]
    environment = {**os.environ, "VECENV_COLUMNS": columns}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1780)
    assert done.returncode == 0, done.stdout[-3000:]
    used = re.search(r"used in place: (\d+)", done.stdout)
    assert used is not None
    assert int(used[1]) > 0, "nothing was run by the device engine"


def test_what_is_left_out_is_there():
    assert OTHER_FILES.keys() <= set(ALL)
    texts = "".join((ROOT / "tests" / "kernels" / f"{file}.py").read_text() for file in FILES)
    assert not [name for name in LEFT_OUT if f"def {name}(" not in texts]


# --- a few of them ---------------------------------------------------------------------------------------------------


def to_the_right(obs):
    return 1 if obs[0] < 0.5 else 0


def far_left(obs, action):
    action[0] = -1 if obs[0] < 0.5 else 0


@pytest.mark.parametrize("columns", ["shared", "apart"])
def test_a_policy_chooses_numbers(columns):
    """Its code reads the number that the policy has just returned."""
    with device_in_place(columns), vecenv.make(Walk, 3) as envs, vecenv.make(Walk, 3) as other:
        envs.reset(seed=0)
        obs, _ = other.reset(seed=0)
        taken = envs.rollout(policy=to_the_right, steps=9)
        for turn in range(9):
            chosen = np.array([to_the_right(row) for row in obs])
            obs, reward, *_ = other.step(chosen)
            assert np.array_equal(taken.actions[turn], chosen)
            assert np.array_equal(taken.obs[turn], obs)
            assert np.array_equal(taken.reward[turn], reward)
        envs.rollout(policy=to_the_right, steps=1)
        assert len(envs.engine._policies) == 1, "its code is held ready"


@pytest.mark.parametrize("columns", ["shared", "apart"])
def test_a_policy_that_leaves_the_space_is_an_invalid_action(columns):
    with device_in_place(columns), vecenv.make(Walk, 3) as envs:
        envs.reset(seed=0)
        with pytest.raises(InvalidAction, match="policy"):
            envs.rollout(policy=far_left, steps=2)


def test_draws_are_numpys():
    generator = np.random.default_rng(5)
    with device_in_place() as place:
        native = NativeStream(generator)
        assert native.call("integers", np.zeros(99, int), -3, 4).tolist() == generator.integers(-3, 4, 99).tolist()
        assert native.is_where(generator)
    assert place.used == 1
