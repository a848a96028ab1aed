"""The MuJoCo engine: the six laws, simulations that go wrong, memory, frames."""

import os
import subprocess
import sys

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import close_at_any_moment
from tests.mujoco.own_tasks import Arm, Explosive, Law
from tests.sampling import slow
from vecenv.engines.native.mujoco import MujocoEngine
from vecenv.errors import ConfigError, EngineRefused
from vecenv.mujoco._kernel import build_task
from vecenv.mujoco._simulator import BAD, what_is_bad
from vecenv.testing import check_engine

PATHS = os.pathsep.join(map(os.path.abspath, sys.path))
"""For other processes; taken before a test goes to a folder of its own."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("threads", [1, 2, *slow(3)])
def test_laws(threads: int) -> None:
    kernel, _ = build_task(Law, {})

    def factory(factories) -> MujocoEngine:
        return MujocoEngine(kernel, len(factories), kwargs={"index": np.arange(len(factories))}, threads=threads)

    check_engine(factory, infos=False, failures=False)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("workers", [1, 2])
def test_envs_that_another_thread_steps_can_be_closed_at_any_moment(workers: int) -> None:
    close_at_any_moment(lambda: vecenv.make(Arm, 200, engine="mujoco", workers=workers))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("engine", ["mujoco", "sync"])
@pytest.mark.parametrize("autoreset", ["next-step", "same-step", "disabled"])
def test_one_simulation_goes_wrong(autoreset: str, engine: str) -> None:
    calm = np.zeros((4, 2), np.float32)
    wild = calm.copy()
    wild[2, 0] = 1.0

    with (
        vecenv.make(Explosive, 4, autoreset=autoreset, engine=engine) as envs,
        vecenv.make(Explosive, 4, autoreset=autoreset, engine=engine) as others,
    ):
        envs.reset(seed=0)
        others.reset(seed=0)
        before = others.step(calm)[0]
        envs.step(calm)
        if engine == "mujoco":
            with pytest.warns(RuntimeWarning, match="env 2 has gone wrong .bad velocity"):
                obs, reward, terminated, truncated, infos = envs.step(wild)
        else:
            obs, reward, terminated, truncated, infos = envs.step(wild)
        wanted = others.step(calm)
        assert truncated.tolist() == [False, False, True, False]
        assert not terminated.any()
        assert np.isfinite(obs).all()
        assert reward.tolist() == [1.0, 1.0, 0.0, 1.0]
        told = infos["final_info"]["diverged"] if autoreset == "same-step" else infos["diverged"]
        assert told["kind"][2] == "velocity"
        assert np.array_equal(told["qpos"][2], before[2, :2])
        assert np.array_equal(told["qvel"][2], before[2, 2:])
        rest = np.array([0, 1, 3])
        assert np.array_equal(obs[rest], wanted[0][rest])
        if autoreset == "disabled":
            envs.reset(options={"reset_mask": truncated})
        for _ in range(5):
            got, wanted = envs.step(calm), others.step(calm)
            assert np.array_equal(got[0][rest], wanted[0][rest])
            assert not got[3].any()
            assert "diverged" not in got[4]


def test_warnings_of_this_mujoco_are_where_they_are_looked_for() -> None:
    """Versions differ in where, but all have these four in a row."""
    import mujoco

    kinds = [f"mjWARN_BAD{name}" for name in ("QPOS", "QVEL", "QACC", "CTRL")]
    numbers = [int(getattr(mujoco.mjtWarning, name)) for name in kinds]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    simulator = build_task(Arm, {})[0].simulator()
    for kind, number in enumerate(numbers):
        simulator.data.warning.number[number] = 1
        assert what_is_bad(simulator.trouble()) == BAD[kind]
        assert simulator.trouble() == 0


def send_and_recv(envs, actions) -> None:
    envs.send(actions)
    envs.recv()


WAYS = {
    "step": lambda envs, actions: envs.step(actions),
    "partial": lambda envs, actions: envs.step(actions[1:], [1, 2, 3]),
    "recv": send_and_recv,
    "rollout": lambda envs, actions: envs.rollout(actions[None]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_warning_that_is_an_error_breaks_nothing(way: str) -> None:
    """pytest makes errors of warnings, and so may users; here of two envs."""
    calm = np.zeros((4, 2), np.float32)
    wild = calm.copy()
    wild[[1, 2], 0] = 1.0
    with vecenv.make(Explosive, 4, autoreset="same-step") as envs:
        envs.reset(seed=0)
        with pytest.raises(RuntimeWarning, match="env 1 has gone wrong"):
            WAYS[way](envs, wild)
        obs, reward, *_, infos = envs.step(calm)
        assert np.isfinite(obs).all()
        assert reward.tolist() == [1.0] * 4
        assert "diverged" not in infos
        envs.reset(seed=1)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_memory_of_many_is_small() -> None:
    """An env is a row of numbers, not a simulation."""
    with vecenv.make("Ant-v5", 2) as few, vecenv.make("Ant-v5", 258) as many:
        assert (many.engine.memory - few.engine.memory) / 256 < 16_000
        assert len(many.engine._simulators) == len(few.engine._simulators)


def test_fork_goes_on() -> None:
    with vecenv.make(Arm, 4, workers=2) as envs:
        envs.reset(seed=0)
        actions = np.zeros((4, 2), np.float32)
        state = envs.get_state()
        wanted = envs.step(actions)[0]
        envs.set_state(state)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, envs.step(actions)[0].tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, wanted.nbytes) == wanted.tobytes()
        os.close(reader)
        os.close(writer)


DRAW = """
import numpy as np, gymnasium, vecenv
with vecenv.make("Hopper-v5", 3, render_mode="rgb_array", width=64, height=48) as envs:
    assert envs.engine.name == "mujoco", envs.engine_reason
    envs.reset(seed=0)
    env = gymnasium.make("Hopper-v5", render_mode="rgb_array", width=64, height=48)
    env.reset(seed=2)
    frames, wanted = envs.render(), env.render()
    assert len(frames) == 3 and frames[2].shape == (48, 64, 3)
    assert np.array_equal(frames[2], wanted), np.abs(frames[2].astype(int) - wanted).max()
    (only,) = envs.render([2])
    assert np.array_equal(only, wanted)
    assert not np.array_equal(frames[0], frames[2])
    begun = wanted.astype(int)
    for action in np.random.default_rng(0).uniform(-1, 1, (20, 3)).astype(np.float32):
        envs.step(np.repeat(action[None], 3, axis=0))
        env.step(action)
    later, (ours,) = env.render().astype(int), envs.render([2])
    moved, apart = np.abs(later - begun).mean(), np.abs(later - ours).mean()
    assert apart < moved / 3, (apart, moved)  # Gymnasium draws where bodies were a MuJoCo step before
    env.close()
print("drawn")
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_frames_are_gymnasiums() -> None:
    """In a process of its own: what draws is chosen before Python starts."""
    probe = "import gymnasium; env = gymnasium.make('Hopper-v5', render_mode='rgb_array'); env.reset(); env.render()"
    environment = {**os.environ, "MUJOCO_GL": "egl", "PYTHONPATH": PATHS}
    if subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True).returncode:
        pytest.skip("MuJoCo cannot draw on this machine")
    done = subprocess.run([sys.executable, "-c", DRAW], env=environment, capture_output=True, text=True)
    assert done.stdout == "drawn\n", done.stderr


def test_refused_drawing() -> None:
    with vecenv.make("Hopper-v5", 2) as envs:
        envs.reset(seed=0)
        with pytest.raises(ConfigError, match="render_mode"):
            envs.render()
        with pytest.raises(ConfigError, match="render_mode"):
            envs.render([0])
    with pytest.raises(EngineRefused, match="window"):
        vecenv.make("Hopper-v5", 2, engine="mujoco", render_mode="human")


WITHOUT = """
import sys
sys.modules["mujoco"] = None  # as if it were not installed
import vecenv
from vecenv.errors import EngineRefused, MissingExtra
from vecenv.mujoco import Task

class Own(Task):
    model = "<mujoco/>"

for env, wanted in (("Hopper-v5", EngineRefused), (Own, MissingExtra)):
    try:
        vecenv.make(env, 2, engine="mujoco")
    except wanted as error:
        assert "pip install 'vecenv[mujoco]'" in str(error), error
    else:
        raise AssertionError(env)
print("refused", vecenv.make("CartPole-v1", 2).engine.name)
"""


def test_without_mujoco() -> None:
    environment = {**os.environ, "PYTHONPATH": PATHS}
    done = subprocess.run([sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True)
    assert done.stdout == "refused compiled\n", done.stderr


def test_import_stays_light() -> None:
    """`import vecenv` and the classes of tasks load no MuJoCo."""
    code = "import sys, vecenv, vecenv.mujoco; print('mujoco' in sys.modules, 'numba' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": PATHS}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "False False\n", done.stderr


OTHER_SIZES = """
import numpy as np, vecenv
from vecenv.errors import ConfigError, KernelError

with vecenv.make("InvertedPendulum-v5", 2, engine="mujoco") as envs:  # the code is on disk now, and loaded
    envs.reset(seed=0)
with vecenv.make("Ant-v5", 2, engine="mujoco") as envs:
    envs.reset(seed=0)
for id, wrong in (
    ("InvertedPendulum-v5", {"xml_file": "inverted_double_pendulum.xml"}),
    ("Ant-v5", {"contact_force_range": (-1.0,)}),
):
    try:
        envs = vecenv.make(id, 64, engine="mujoco", **wrong)
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())
    except (ConfigError, KernelError) as error:
        print(error)
"""


@pytest.mark.timeout(180)
def test_every_model_is_tried_out_before_native_code_runs() -> None:
    """In a process of its own: native code that writes beyond its arrays ends it."""
    environment = {**os.environ, "PYTHONPATH": PATHS}
    done = subprocess.run([sys.executable, "-c", OTHER_SIZES], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2, done.stdout
