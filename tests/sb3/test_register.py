"""SB3 knows our classes, whichever is imported first, and we never import SB3 or torch."""

import subprocess
import sys

import pytest

import vecenv.sb3 as ours
from vecenv.sb3._register import CLASSES

CHECK = """
import gymnasium
for name in vecenv.sb3._register.CLASSES:
    assert issubclass(getattr(vecenv.sb3, name), getattr(theirs, name)), name
venv = vecenv.sb3.VecMonitor(vecenv.sb3.DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]))
assert isinstance(venv, theirs.VecEnv) and isinstance(venv, theirs.VecMonitor)
assert theirs.unwrap_vec_wrapper(venv, theirs.VecMonitor) is venv
assert not isinstance(venv, theirs.VecNormalize)
assert not any("Watcher" in type(finder).__name__ for finder in sys.meta_path)
"""


def run(script):
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import sys\n" + script], check=True, timeout=50)


def test_nothing_imports_sb3_or_torch():
    names = ", ".join(name for name in ours.__all__ if not name.endswith("Buffer"))  # those are SB3's classes too
    run(f"from vecenv.sb3 import {names}\nassert not {{'torch', 'stable_baselines3'}} & set(sys.modules)")


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_either_may_be_imported_first(first):
    lines = ["import vecenv.sb3", "import stable_baselines3.common.vec_env as theirs"]
    run("\n".join(lines if first == "ours" else lines[::-1]) + CHECK)


@pytest.mark.slow
def test_an_import_of_sb3_that_fails_may_be_tried_again():
    run(
        "import vecenv.sb3\n"
        "sys.modules['cloudpickle'] = None\n"
        "try:\n    import stable_baselines3.common.vec_env\n"
        "except ImportError:\n    pass\n"
        "else:\n    raise AssertionError\n"
        "for name in [name for name in sys.modules if name.split('.')[0] in ('stable_baselines3', 'cloudpickle')]:\n"
        "    del sys.modules[name]\n"  # SB3 cannot go on from where an import of it failed
        "import stable_baselines3.common.vec_env as theirs" + CHECK
    )


def test_all_names_are_there():
    assert set(CLASSES) <= set(ours.__all__)
    for name in ours.__all__:
        assert getattr(ours, name) is not None
    assert set(ours.__all__) <= set(dir(ours))
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        ours.Missing


def test_names_are_those_of_sb3():
    import stable_baselines3.common.vec_env as theirs

    assert set(theirs.__all__) <= set(ours.__all__)
    assert ours.StackedDictObservations is ours.StackedObservations
