"""Every space that a kernel may have: native code reads and writes it as Python does."""

import numpy as np
import pytest

import vecenv
from tests.kernels.defining import imported, written
from tests.sampling import quick
from vecenv.errors import InvalidAction
from vecenv.kernel import kernel_of
from vecenv.kernel.language.python import KernelEnv
from vecenv.testing import check_kernel
from vecenv.testing._check_kernel import _outside

OBSERVATIONS = {
    "int8": ("Box(-100, 100, (2, 3), np.int8)", "obs[1, 2] = s.n % 100"),
    "uint8": ("Box(0, 255, (2,), np.uint8)", "obs[0] = s.n % 256"),
    "bool": ("Box(0, 1, (2,), np.bool_)", "obs[1] = s.n % 2 == 0"),
    "float64 number": ("Box(-np.inf, np.inf, (), np.float64)", "obs[0] = s.x"),
    "float32": ("Box(-np.inf, np.inf, (3,), np.float32)", "obs[:] = s.x\n    obs[1:] = 0.1"),
    "Discrete": ("Discrete(7, start=-2)", "obs[0] = s.n % 7 - 2"),
    "MultiDiscrete": ("MultiDiscrete([3, 5], start=[1, -1])", "obs[0] = 1 + s.n % 3\n    obs[1] = s.n % 5 - 1"),
    "MultiBinary": ("MultiBinary((2, 2))", "obs[s.n % 2, 1] = 1"),
    "Dict": (
        'Dict({"a": Discrete(4), "b": Dict({"c": Box(0, 1, (2,)), "d": Box(-2, 2, (), np.float64)}), '
        '"e": Tuple([MultiBinary(3), Discrete(3, start=1)])})',
        'obs["a"] = s.n % 4\n    obs["b"]["c"][0] = s.x\n    obs["b"]["d"] = s.x * 2\n    obs["e"][0][1] = 1\n'
        '    obs["e"][1] = 1 + s.n % 3',
    ),
}
ACTIONS = {
    "Discrete": ("Discrete(3, start=-1)", "action"),
    "Box": ("Box(-1.0, 1.0, (2,), np.float32)", "action[0] * action[1] * 1.1"),
    "Box number": ("Box(-1.0, 1.0, (), np.float64)", "action * 1.1"),
    "uint8": ("Box(0, 255, (2, 2), np.uint8)", "action[0, 1] * action[1, 0] - 7"),
    "MultiDiscrete": ("MultiDiscrete([3, 4], start=[-1, 2])", "action[0] * 10 + action[1]"),
    "MultiBinary": ("MultiBinary((84, 84))", "action[83, 5] + action[0, 0] * 2"),
    "Dict": (
        'Dict({"go": Discrete(2), "by": Tuple([Box(-1, 1, (2,)), Discrete(3, start=4)])})',
        'action["go"] * 1.5 + action["by"][0][1] * 1.1 + action["by"][1]',
    ),
}
STATE = 'state = {"x": float, "n": int}'
RESET = "def reset(s, rng, p):\n    s.x, s.n = rng.random(), s.n + 1"


def with_observation(name, path):
    space, body = OBSERVATIONS[name]
    return written(
        path,
        f"observation_space = {space}",
        STATE,
        RESET,
        "def step(s, action, rng, p):\n    s.n += 1\n    s.x = rng.random()\n    return s.x, s.n % 5 == 0",
        f"def observe(s, obs, p):\n    {body}",
        "info = {}",
    )


def with_action(name, path):
    space, value = ACTIONS[name]
    return written(
        path,
        "observation_space = Box(-np.inf, np.inf, (2,), np.float64)",
        f"action_space = {space}",
        STATE,
        RESET,
        f"def step(s, action, rng, p):\n    s.x += {value}\n    return s.x, rng.random() < 0.1",
        "def observe(s, obs, p):\n    obs[0] = s.x",
        "info = {}",
    )


SPACES = [
    *((with_observation, name) for name in OBSERVATIONS),
    *((with_action, name) for name in ACTIONS),
]


@pytest.mark.parametrize(("write", "name"), SPACES)
def test_kernels_of_every_space_break_no_rule_of_native_code(write, name, tmp_path):
    """Nothing is compiled: an env in Python refuses what native code would."""
    with imported(write(name, tmp_path)) as module:
        env = KernelEnv(kernel_of(module.Wrong))
        env.reset(seed=0)
        for _ in range(20):
            observed = env.step(env.action_space.sample())[0]
            assert _outside(env.observation_space, observed, "obs") is None


@pytest.mark.parametrize("name", quick(OBSERVATIONS, "int8", "Dict"))
def test_observations(name, tmp_path):
    with imported(with_observation(name, tmp_path)) as module:
        check_kernel(module.Wrong, num_envs=3, steps=40)


@pytest.mark.parametrize("name", quick(ACTIONS, "Box", "Dict"))
def test_actions(name, tmp_path):
    with imported(with_action(name, tmp_path)) as module:
        check_kernel(module.Wrong, num_envs=3, steps=40)


def test_every_component_of_a_wrong_action_is_seen(tmp_path):
    file = written(
        tmp_path,
        "action_space = MultiDiscrete([3, 4, 2], start=[-1, 2, 0])",
        STATE,
        RESET,
        "def step(s, action, rng, p):\n    s.x += action[0]\n    return s.x, False",
        "def observe(s, obs, p):\n    obs[0] = s.x",
        "info = {}",
    )
    with imported(file) as module, vecenv.make(module.Wrong, 1030, engine="compiled") as envs:
        envs.reset(seed=0)
        before = envs.get_state()
        for component, (low, high) in enumerate([(-1, 1), (2, 5), (0, 1)]):
            for wrong in (low - 1, high + 1):
                actions = np.tile(np.array([0, 3, 1]), (1030, 1))
                actions[1029, component] = wrong
                with pytest.raises(InvalidAction, match="env 1029"):
                    envs.step(actions)
            for right in (low, high):
                actions = np.tile(np.array([0, 3, 1]), (1030, 1))
                actions[1029, component] = right
                envs.step(actions)
        envs.set_state(before)
