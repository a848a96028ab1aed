"""Our classes are Stable-Baselines3's where that is installed; workers import neither it nor torch."""

import os
import subprocess
import sys

import pytest
import stable_baselines3.common.vec_env as theirs

import vecenv.sb3 as ours
from vecenv.testing import LawEnv

CLASSES = sorted(name for name in theirs.__all__ if name.startswith(("Vec", "Dummy", "Subproc")))
HEAVY = ("stable_baselines3", "torch")


def run(script):
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import sys\n" + script], check=True, timeout=100)


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_a_subclass_of_the_one_with_its_name(name):
    assert issubclass(getattr(ours, name), getattr(theirs, name))
    assert (getattr(theirs, name) in getattr(ours, name).__mro__) == (name in ("VecEnv", "VecEnvWrapper"))


def test_what_sb3_adds_to_its_classes_is_there():
    script = (
        "import stable_baselines3.common.vec_env as theirs\n"
        "theirs.VecEnv.added = lambda self: self.num_envs\n"
        "theirs.VecEnvWrapper.added_to_wrappers = lambda self: self.venv.num_envs\n"
        "import gymnasium, vecenv.sb3\n"
        "venv = vecenv.sb3.DummyVecEnv([lambda: gymnasium.make('CartPole-v1')])\n"
        "assert venv.added() == 1 and vecenv.sb3.VecMonitor(venv).added_to_wrappers() == 1\n"
    )
    run(script)


def test_functions_of_sb3_find_our_wrappers():
    venv = ours.VecMonitor(ours.DummyVecEnv([LawEnv]))
    assert isinstance(venv, theirs.VecEnv)
    assert theirs.unwrap_vec_wrapper(venv, theirs.VecMonitor) is venv
    assert not isinstance(venv, theirs.VecNormalize)


def test_a_vector_env_of_a_user_has_no_images_unless_it_says_so():
    class Own(ours.DummyVecEnv):
        get_images = ours.VecEnv.get_images

    with pytest.raises(NotImplementedError, match="Own has no images"):
        Own([LawEnv]).get_images()


def test_wrapping_keeps_seeds_and_infos():
    venv = ours.DummyVecEnv([LawEnv] * 2)
    venv.reset()
    seeds, infos = venv.seed(3), venv.reset_infos
    wrapped = ours.VecMonitor(venv)
    assert (wrapped._seeds, wrapped.reset_infos) == (seeds, infos) == (venv._seeds, venv.reset_infos)


def test_sb3_is_imported_when_a_vector_env_is_first_used():
    run(f"import vecenv.sb3\nassert not {set(HEAVY)} & set(sys.modules)")
    run("from vecenv.sb3 import Monitor, make_vec_env\nassert 'stable_baselines3' in sys.modules")


def test_without_sb3_all_but_its_buffers_work():
    names = ", ".join(name for name in ours.__all__ if not name.endswith("Buffer"))
    run(
        "sys.modules['stable_baselines3'] = sys.modules['torch'] = None\n"
        f"from vecenv.sb3 import {names}\n"
        "venv = VecNormalize(VecMonitor(make_vec_env('CartPole-v1', 2)))\n"
        "assert venv.reset().shape == (2, 4)\n"
        "assert venv.step([0, 1])[1].shape == (2,)\n"
        "assert from_sb3(venv).num_envs == 2 and unwrap_vec_normalize(venv) is venv\n"
    )


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_workers_import_neither_sb3_nor_torch(start_method):
    class Spy(LawEnv):  # a local class is pickled by value: a worker does not import this module
        def imported(self):
            import os
            import sys

            from vecenv.sb3 import DummyVecEnv  # as a module does that has both an env and a training script

            modules = {base.__module__.partition(".")[0] for base in DummyVecEnv.__mro__}
            return sorted({"stable_baselines3", "torch"} & (modules | set(sys.modules))), os.getpid()

    venv = ours.make_vec_env(
        Spy, 2, vec_env_cls=ours.SubprocVecEnv, vec_env_kwargs={"start_method": start_method, "workers": 2}
    )
    try:
        venv.reset()
        imported, pids = zip(*venv.env_method("imported"), strict=True)
    finally:
        venv.close()
    assert imported == ([], [])
    assert len({os.getpid(), *pids}) == 3


def test_all_names_are_there():
    for name in ours.__all__:
        assert getattr(ours, name) is not None
    assert set(ours.__all__) <= set(dir(ours))
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        ours.Missing


def test_names_are_those_of_sb3():
    assert set(theirs.__all__) <= set(ours.__all__)
    assert ours.StackedDictObservations is ours.StackedObservations
