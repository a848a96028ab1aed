"""Bounds of parameters: what native code takes for an index, a count or a probability is checked before."""

import math
import re
from typing import ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Discrete

import vecenv
from tests.kernels.defining import imported, refused, written
from tests.kernels.test_envs import TAXI
from vecenv import scenarios
from vecenv.errors import ConfigError, EnvError, SpaceError
from vecenv.kernel import kernel_of
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.registry import SHIPPED, find_kernel

TOLLS = np.array([0.0, 1.0, 2.0])


@vecenv.kernel("Bounded-v0", max_episode_steps=5)
class Bounded:
    """The parameter `road` is an index."""

    observation_space = Discrete(3)
    action_space = Discrete(2)
    state: ClassVar = {"paid": float}

    class Params:
        road = 0
        shares = np.array([0.5, 0.5])
        lives = 1

    bounds: ClassVar = {"road": (0, 2), "shares": (0.0, 1.0), "lives": (1, None)}

    def reset(s, rng, p):
        s.paid = 0.0

    def step(s, action, rng, p):
        s.paid += TOLLS[p.road]
        return -s.paid, False

    def observe(s, obs, p):
        obs[0] = p.road


ROAD = r"parameter 'road' must be in 0 \.\.\. 2, got (3|-1)"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"road": 3}, ROAD),
        ({"road": -1}, ROAD),
        ({"road": np.array([0, 1, 3])}, ROAD),
        ({"shares": [0.5, 1.5]}, r"'shares' must be in 0\.0 \.\.\. 1\.0, got 1\.5"),
        ({"shares": [math.nan, 0.5]}, "'shares' must be in .*got nan"),
        ({"lives": 0}, "'lives' must be at least 1, got 0"),
    ],
)
def test_make_refuses_parameters_outside_their_bounds(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        vecenv.make(Bounded, 3, **kwargs)
    one = {name: value[-1] if name == "road" and np.ndim(value) else value for name, value in kwargs.items()}
    with pytest.raises(ConfigError, match=message):
        vecenv.make_env("Bounded-v0", **one)


LENGTH = r"parameter 'shares' must have shape \(2,\), got \(3,\); .*declare shapes = \{'shares': \(None,\)\}"


@pytest.mark.parametrize("engine", ["compiled", "sync"])
def test_arrays_of_another_length_are_refused_wherever_they_come_from(engine):
    long = [0.1, 0.2, 0.3]
    for kwargs in ({"shares": long}, {"shares": np.full((4, 3), 0.5)}, {"env_kwargs": [{"shares": long}] * 4}):
        with pytest.raises((ConfigError, EnvError), match=LENGTH):
            vecenv.make(Bounded, 4, engine=engine, **kwargs)
    with vecenv.make(Bounded, 4, engine=engine) as envs:
        envs.reset(seed=0)
        with pytest.raises((ConfigError, EnvError), match=LENGTH):
            envs.reset(options={"shares": long})
    with pytest.raises(ConfigError, match=LENGTH):
        vecenv.make_env("Bounded-v0", shares=long)


def test_set_attr_refuses_arrays_of_another_length():
    with vecenv.make(Bounded, 4) as envs, pytest.raises(ConfigError, match=LENGTH):
        envs.set_attr("shares", np.zeros(3))


def test_arrays_may_have_the_sizes_that_shapes_leaves_open():
    for maps in (["SFG"], ["SF", "FG", "FF"]):
        with vecenv.make("FrozenLake-v1", 2, desc=maps) as envs:
            assert envs.single_observation_space.n == len(maps) * len(maps[0])
            with pytest.raises(ConfigError, match=r"'desc' must have shape \(\d, \d\), got \(1, 2\)"):
                envs.set_attr("desc", np.zeros((1, 2), np.uint8))


def test_a_part_of_the_shape_can_be_fixed(tmp_path):
    params = "class Params:\n    prices = np.zeros((1, 2))"
    with imported(written(tmp_path, params, "shapes = {'prices': (None, 2)}")) as module:
        assert KernelEnv(kernel_of(module.Wrong), prices=np.ones((7, 2))).params.prices.shape == (7, 2)
        with pytest.raises(ConfigError, match=r"parameter 'prices' must have shape \(any, 2\), got \(7, 3\)"):
            KernelEnv(kernel_of(module.Wrong), prices=np.ones((7, 3)))


@pytest.mark.parametrize(
    ("shapes", "rule"),
    [
        ("[None]", "shapes must be a dict of parameter: shape"),
        ("{'move': (None,)}", "shapes: Params has no 'move'; did you mean 'moves'"),
        ("{'speed': (None,)}", "shapes: 'speed' is a number; only arrays have a shape"),
        ("{'moves': None}", r"shapes: 'moves' has None.*where any will do: \(None,\)"),
        ("{'moves': (3,)}", r"shapes: 'moves' has \(3,\), and its default the shape \(2,\)"),
        ("{'moves': (None, 2)}", "shapes: 'moves' has"),
    ],
)
def test_shapes_that_cannot_be_are_refused(shapes, rule, tmp_path):
    assert re.search(rule, str(refused(written(tmp_path, f"shapes = {shapes}"))))


def test_parameters_at_their_bounds_are_taken():
    with vecenv.make(Bounded, 3, road=np.array([0, 1, 2]), shares=[0.0, 1.0], lives=2**40) as envs:
        assert envs.reset()[0].tolist() == [0, 1, 2]


def test_nothing_sets_a_parameter_to_a_value_outside_its_bounds():
    with vecenv.make(Bounded, 3, road=1) as envs:
        envs.reset(seed=0)
        with pytest.raises(ConfigError, match=ROAD):
            envs.set_attr("road", 3)
        with pytest.raises(ConfigError, match=ROAD):
            envs.reset(options={"road": 3})
        with pytest.raises(ConfigError, match=ROAD):
            scenarios.VaryScenarios(envs, scenarios.list([{"road": 0}, {"road": 3}]))
        for column in ("P_road", "B_road"):
            state = envs.get_state()
            state.columns[column][1] = 3
            with pytest.raises(ConfigError, match=ROAD):
                envs.set_state(state)
        envs.reset()
        obs, reward, *_ = envs.step(np.zeros(3, int))
        assert obs.tolist() == [1, 1, 1]
        assert reward.tolist() == [-1.0] * 3


def test_options_that_are_refused_for_one_env_change_no_other():
    with vecenv.make(Bounded, 3, road=1) as envs:
        envs.reset(seed=0)
        with pytest.raises(ConfigError, match=ROAD):
            envs.reset(options=[{"road": 2}, {"road": 2}, {"road": 3}])
        assert envs.reset()[0].tolist() == [1, 1, 1]


def test_python_envs_of_a_kernel_refuse_options_outside_their_bounds():
    with vecenv.make(Bounded, 2, engine="sync") as envs, pytest.raises(EnvError, match=ROAD):
        envs.reset(options={"road": 3})


@pytest.mark.parametrize(
    ("bounds", "rule"),
    [
        ("[0, 1]", r"bounds must be a dict of parameter: \(low, high\)"),
        ("{'sped': (0, 1)}", "bounds: Params has no 'sped'; did you mean 'speed'"),
        ("{'speed': 1}", r"bounds: 'speed' has 1; write \(low, high\)"),
        ("{'speed': (0, 'a')}", r"bounds: 'speed' has .*; write \(low, high\)"),
        ("{'speed': (2.0, 3.0)}", r"bounds: parameter 'speed' must be in 2\.0 \.\.\. 3\.0, got 0\.1, its default"),
        ("{'speed': (3.0, 0.0)}", "bounds: parameter 'speed' must be in .*its default"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds, rule, tmp_path):
    assert re.search(rule, str(refused(written(tmp_path, f"bounds = {bounds}"))))


# --- kernels that ship -----------------------------------------------------------------------------------------------


def test_every_probability_of_the_kernels_that_ship_has_bounds():
    for id in SHIPPED:
        found = find_kernel(id)
        for name, field in found.params.items() if found else ():  # Gymnasium has Taxi-v3 or Taxi-v4
            if name.endswith(("probability", "rate")) or name == "slip":
                assert (field.low, field.high) == (0.0, 1.0), (id, name)


@pytest.mark.parametrize("rain", [3, 50, -1])
def test_rain_that_taxi_does_not_know_is_refused(rain):
    with vecenv.make(TAXI, 2) as envs:
        with pytest.raises(ConfigError, match=r"'rain' must be in 0 \.\.\. 2"):
            envs.reset(seed=0, options={"rain": rain})
        envs.reset(seed=0)
        envs.step(np.zeros(2, int))


@pytest.mark.parametrize(
    ("id", "options"),
    [
        ("Acrobot-v1", {"low": 2**62}),
        ("Acrobot-v1", {"high": math.inf}),
        ("CartPole-v1", {"low": math.nan}),
        ("MountainCar-v0", {"low": -1e300}),
        ("MountainCarContinuous-v0", {"high": 1e300}),
        ("Pendulum-v1", {"x_init": -1.0}),
        ("FourRooms-v0", {"slip": 1.5}),
        ("FrozenLake-v1", {"success_rate": -0.5}),
        ("Breakout-v0", {"lives": 0}),
        ("Breakout-v0", {"ball_speed": 1e18}),
        ("Snake-v0", {"start_length": 10**6}),
    ],
)
def test_kernels_that_ship_refuse_what_they_cannot_run(id, options):
    (name,) = options
    with vecenv.make(id, 2) as envs:
        envs.reset(seed=0)
        with pytest.raises(ConfigError, match=f"parameter {name!r} must be"):
            envs.reset(options=options)


@pytest.mark.parametrize("angle", [1e300, -1e300, 1e5, math.inf, math.nan])
def test_acrobot_ends_a_step_from_any_angle(angle):
    with vecenv.make("Acrobot-v1", 2) as envs:
        envs.reset(seed=0)
        envs.state.angle_1[:] = angle
        envs.state.spin_1[:] = 1e6
        envs.step(np.zeros(2, int))
        assert not (np.abs(envs.state.angle_1) > math.pi + 1e-9).any()


def test_frozen_lake_needs_three_rewards():
    for schedule in [(1.0,), (1.0, 0.0), 1.0]:
        with pytest.raises(ConfigError, match="three numbers"):
            vecenv.make("FrozenLake-v1", 2, reward_schedule=schedule)


def test_ranges_of_mujoco_tasks_have_two_numbers():
    pytest.importorskip("mujoco")
    with pytest.raises(ConfigError, match=r"healthy_z_range must have shape \(2,\)"):
        vecenv.make("Hopper-v5", 2, engine="mujoco", healthy_z_range=(0.7,))
    with pytest.raises(ConfigError, match="'reset_noise_scale' must be at least 0"):
        vecenv.make("Hopper-v5", 2, engine="mujoco", reset_noise_scale=-0.1)


def test_a_state_cannot_bring_along_an_index_that_comes_from_the_model():
    pytest.importorskip("mujoco")
    with vecenv.make("Reacher-v5", 2, engine="mujoco") as envs:
        envs.reset(seed=0)
        state = envs.get_state()
        envs.set_state(state)
        state.columns["P_fingertip"][:] = 10**9
        with pytest.raises(SpaceError, match="another fingertip"):
            envs.set_state(state)


def test_bounds_are_part_of_what_a_kernel_is():
    assert kernel_of(Bounded).params["lives"].high is None
