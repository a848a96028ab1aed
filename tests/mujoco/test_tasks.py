"""Tasks of one's own: native code, Python and plain Gymnasium agree; parameters of the model per env."""

import inspect
import pickle
import sys
import warnings
from pathlib import Path
from types import ModuleType

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv
from tests.mujoco.comparing import play
from tests.mujoco.own_tasks import ARM, Arm, GymnasiumArm
from tests.mujoco.wrong_tasks import Early, Missing, Overwrites, OverwritesLater, Twice
from vecenv.errors import ConfigError, ConfigTypeError, EngineRefused, KernelError
from vecenv.mujoco import Task
from vecenv.mujoco._kernel import _found

MODES = list(AutoresetMode)
RANDOM = np.random.default_rng(0)
MASS = np.array([[0.0, 0.3, 0.5], [0.0, 0.9, 0.4], [0.0, 2.0, 0.1]])
FRICTION = RANDOM.uniform(0.1, 1.0, (3, 3, 3))
GRAVITY = np.array([[0.0, 0.0, -9.81], [0.0, 0.0, -1.6], [1.0, 0.0, -3.0]])


@pytest.fixture
def file(tmp_path) -> str:
    path = tmp_path / "arm.xml"
    path.write_text(ARM)
    return str(path)


def limited(file: str, row: dict) -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(GymnasiumArm(file, **row), 40)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("engine", ["mujoco", "sync"])
@pytest.mark.parametrize("mode", MODES)
def test_same_as_gymnasium(file, mode, engine) -> None:
    theirs = SyncVectorEnv([lambda: limited(file, {"noise": 0.2})] * 3, autoreset_mode=mode)
    with vecenv.make(Arm, 3, autoreset=mode, noise=0.2, engine=engine) as ours:
        assert play(ours, theirs, 120, 0, mode) > 6


@pytest.mark.timeout(180)
@pytest.mark.parametrize("engine", ["mujoco", "sync"])
def test_every_env_has_its_own_model(file, engine) -> None:
    each = {"body_mass": MASS, "geom_friction": FRICTION, "gravity": GRAVITY, "cost": np.array([0.0, 0.1, 0.2])}
    rows = [{name: values[row] for name, values in each.items()} for row in range(3)]
    theirs = SyncVectorEnv([lambda row=row: limited(file, row) for row in rows])
    with vecenv.make("TestArm-v0", 3, engine=engine, **each) as ours:
        play(ours, theirs, 120, 0, AutoresetMode.NEXT_STEP)


def test_models_change_with_the_next_episode() -> None:
    """`set_attr` and reset options, as for the parameters of kernels."""
    actions = np.zeros((2, 2), np.float32)
    with vecenv.make(Arm, 2) as envs, vecenv.make(Arm, 2, body_mass=MASS[2]) as heavy:
        light = envs.reset(seed=0)[0], envs.step(actions)[0]
        envs.set_attr("body_mass", [MASS[2], MASS[2]])
        assert not np.array_equal(envs.step(actions)[0], light[1])
        assert np.array_equal(envs.reset(seed=0)[0], heavy.reset(seed=0)[0])
        assert np.array_equal(envs.step(actions)[0], heavy.step(actions)[0])
        envs.set_attr("body_mass", [own_mass(), own_mass()])
        envs.reset(seed=0, options={"body_mass": MASS[2]})
        heavy.reset(seed=0)
        assert np.array_equal(envs.step(actions)[0], heavy.step(actions)[0])
        envs.reset(seed=0)
        assert np.array_equal(envs.step(actions)[0], light[1])


def own_mass() -> np.ndarray:
    import mujoco

    return mujoco.MjModel.from_xml_string(ARM).body_mass.copy()


def test_python_env() -> None:
    """Breakpoints: the task as a Gymnasium env."""
    env = vecenv.make_env("TestArm-v0", noise=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that observations have no bounds
        check_env(env.unwrapped, skip_render_check=True)
    _, info = env.reset(seed=0)
    assert info.keys() == {"height"}
    assert env.unwrapped.model.nq == 2
    assert env.step(env.action_space.sample())[4].keys() == {"height", "effort"}
    env.close()


def test_state_goes_out_and_in() -> None:
    with vecenv.make(Arm, 4, autoreset="same-step") as envs:
        envs.action_space.seed(0)
        envs.reset(seed=0)
        for _ in range(5):
            envs.step(envs.action_space.sample())
        before = pickle.loads(pickle.dumps(envs.get_state()))
        copy = pickle.loads(pickle.dumps(envs))
        actions = [envs.action_space.sample() for _ in range(50)]
        seen = [envs.step(action) for action in actions]
        envs.set_state(before)
        again = [envs.step(action) for action in actions]
        copied = [copy.step(action) for action in actions]
        for first, second, third in zip(seen, again, copied, strict=True):
            assert first[0].tobytes() == second[0].tobytes() == third[0].tobytes()
            assert first[1].tobytes() == second[1].tobytes() == third[1].tobytes()
        copy.close()
        envs.clone(0, [1, 2, 3])
        envs.action_space.seed(1)
        row = envs.action_space.sample()[:1]
        for _ in range(10):
            obs = envs.step(np.repeat(row, 4, axis=0))[0]
            assert (obs == obs[0]).all()


def test_rollout_is_steps() -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (60, 3, 2)).astype(np.float32)
    with vecenv.make(Arm, 3, autoreset="same-step") as one, vecenv.make(Arm, 3, autoreset="same-step") as other:
        one.reset(seed=0)
        other.reset(seed=0)
        rollout = one.rollout(actions)
        for step in range(60):
            obs, reward, terminated, truncated, _ = other.step(actions[step])
            assert np.array_equal(rollout.obs[step], obs)
            assert np.array_equal(rollout.reward[step], reward)
            assert np.array_equal(rollout.terminated[step] | rollout.truncated[step], terminated | truncated)


def test_attributes_are_read_from_copies() -> None:
    with vecenv.make(Arm, 2, noise=np.array([0.1, 0.3])) as envs:
        envs.reset(seed=0)
        assert envs.get_attr("noise") == (0.1, 0.3)
        first, second = envs.get_attr("data")
        assert np.array_equal(first.qpos, envs.state.physics[0, 1:3])
        assert not np.array_equal(first.qpos, second.qpos)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "error", "told"),
    [
        ({"xml_file": "no_such.xml"}, ConfigError, "no_such.xml"),
        ({"xml_file": "<mujoco><worldbody><bod/></worldbody></mujoco>"}, ConfigError, "cannot compile the model"),
        ({"xml_file": "<mujoco"}, ConfigError, "cannot compile the model"),
        ({"frame_skip": 0}, ConfigError, "frame_skip"),
        ({"nois": 0.1}, ConfigTypeError, "noise"),
        ({"dt": 0.1}, ConfigError, "frame_skip"),
        ({"precision": "fast"}, EngineRefused, "compiled"),
        ({"timeout": 1.0, "engine": "mujoco"}, EngineRefused, "process"),
        ({"env_kwargs": [{"frame_skip": 1}, {"frame_skip": 2}]}, ConfigError, "frame_skip"),
    ],
)
def test_wrong_arguments(kwargs, error, told) -> None:
    with pytest.raises(error, match=told):
        vecenv.make(Arm, 2, **kwargs)


def test_wrong_tasks() -> None:
    for task, told in (
        (Early, "control runs before"),
        (Missing, "model"),
        (Twice, "'qpos' is declared twice"),
        (Overwrites, "'failed' is declared twice"),
        (OverwritesLater, "'diverged' is declared twice"),
    ):
        with pytest.raises(KernelError, match=told):
            vecenv.make(task, 2)
    with pytest.raises(ConfigTypeError, match="pass the class"):
        Arm()
    with pytest.raises(ConfigTypeError, match="the id of a task"):

        class Wrong(Task, id=3):  # type: ignore[arg-type]
            pass


def test_no_task() -> None:
    with pytest.raises(EngineRefused, match="no MuJoCo task"):
        vecenv.make("CartPole-v1", 2, engine="mujoco")


def test_what_follows_from_the_model_cannot_be_set() -> None:
    """Native code does not check indices."""
    with vecenv.make("Ant-v5", 2) as envs:
        for name, value in (("main_body", 10**8), ("dt", 1e9), ("timestep", 1e9)):
            with pytest.raises(ConfigError, match=f"{name}.*cannot be set"):
                envs.set_attr(name, [value] * 2)
            with pytest.raises(ConfigError, match=f"{name}.*cannot be set"):
                envs.reset(options={name: value})
        envs.reset(seed=0)
    for id, name in (("Pusher-v5", "goal"), ("Reacher-v5", "target")):
        with pytest.raises(ConfigTypeError, match=name):
            vecenv.make(id, 2, engine="mujoco", **{name: 3})
    for body, error in ((1.5, ConfigTypeError), (None, ConfigTypeError), (99, ConfigError), ([1, 99], ConfigError)):
        with pytest.raises(error, match="body"):
            vecenv.make("Ant-v5", 2, engine="mujoco", main_body=body)


def test_main_body_may_differ_per_env() -> None:
    bodies = np.array([1, 2])
    theirs = SyncVectorEnv([lambda body=body: gymnasium.make("Ant-v5", main_body=body) for body in bodies.tolist()])
    with vecenv.make("Ant-v5", 2, engine="mujoco", main_body=bodies) as ours:
        play(ours, theirs, 20, 0, AutoresetMode.NEXT_STEP)


def test_a_task_without_a_file_finds_its_model_where_it_is(tmp_path, monkeypatch) -> None:
    """As in a notebook; the tests of this folder run in one of their own."""
    (tmp_path / "arm.xml").write_text(ARM)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    task = type("Typed", (Arm,), {"__module__": "__main__", "model": "arm.xml"})
    with pytest.raises(OSError):
        inspect.getsourcefile(task)
    assert Path(_found("arm.xml", task)).read_text() == ARM
