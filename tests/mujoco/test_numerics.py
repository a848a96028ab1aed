"""Sums and norms have NumPy's bits, in Python and in native code."""

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from vecenv.mujoco import numerics

RANDOM = np.random.default_rng(0)


class Sums:
    """Hands out what the functions of `numerics` give for its parameters."""

    observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float64)
    action_space = spaces.Box(-np.inf, np.inf, (17,), np.float32)
    state = {"narrow": float}
    shapes = {"values": (None,), "table": (None, None)}

    class Params:
        values = np.zeros(3)
        table = np.zeros((2, 3))

    def reset(s, rng, p):
        s.narrow = 0.0

    def step(s, action, rng, p):
        s.narrow = numerics.sum_of_squares(action)
        return numerics.times_32(s.narrow, 0.1), False

    def observe(s, obs, p):
        obs[0] = numerics.sum_of(p.values)
        obs[1] = numerics.sum_of_squares(p.values)
        obs[2] = numerics.sum_of_squares_clipped(p.table, -0.5, 0.7)
        obs[3] = numerics.norm_2(p.values[0], p.values[1])
        obs[4] = numerics.norm_3(p.values[0], p.values[1], p.values[2])
        obs[5] = s.narrow


vecenv.kernel("TestSums-v0")(Sums)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("size", [3, 7, 8, 9, 17, 84, 128, 129, 255, 256, 257, 600, 1000])
@pytest.mark.parametrize("engine", ["compiled", "sync"])
def test_bits(size: int, engine: str) -> None:
    values, table = RANDOM.normal(size=(50, size)), RANDOM.normal(size=(50, size, 6))[:, : 1000 // 6]
    actions = RANDOM.normal(size=(50, 17)).astype(np.float32)
    if engine == "sync":
        values, table, actions = values[:3], table[:3], actions[:3]
    with vecenv.make(Sums, len(values), engine=engine, values=values, table=table) as envs:
        envs.reset(seed=0)
        obs, reward, *_ = envs.step(actions)
    for row, (numbers, rows, action) in enumerate(zip(values, table, actions, strict=True)):
        narrow = np.sum(np.square(action))
        wanted = [
            np.sum(numbers),
            np.sum(np.square(numbers)),
            np.sum(np.square(np.clip(rows, -0.5, 0.7))),
            np.linalg.norm(numbers[:2]),
            np.linalg.norm(numbers[:3]),
            float(narrow),
        ]
        assert obs[row].tolist() == [float(number) for number in wanted]
        assert reward[row] == float(0.1 * narrow)


@pytest.mark.parametrize("value", [-3.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, -np.inf])
def test_clip(value: float) -> None:
    assert numerics.clip(value, -1.0, 1.0) == np.clip(value, -1.0, 1.0)


def test_sines_are_the_c_librarys() -> None:
    """Reacher and InvertedDoublePendulum observe NumPy's sines; native code has those of the C library."""
    import math

    angles = RANDOM.uniform(-7.0, 7.0, 20_000)
    assert np.sin(angles).tolist() == [math.sin(angle) for angle in angles]
    assert np.cos(angles).tolist() == [math.cos(angle) for angle in angles]
