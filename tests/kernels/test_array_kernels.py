"""The kernels of benchmarks/arrays do what the row loops do that were written by hand: as plain NumPy, and compiled."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import vecenv
from tests.kernels import plain
from vecenv.kernel import kernel_of

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
NAMES = ("space_invaders", "game_2048", "tetris", "door_key", "flood_fill", "n_body", "lander", "connect_four")
ENVS, STEPS = 3, 1000


@pytest.mark.timeout(240)  # Numba compiles the loop
@pytest.mark.parametrize("name", NAMES)
def test_row_loop_written_by_hand_has_the_bits_of_the_natural_kernel(name, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    sys.modules.pop("arrays", None)
    definition = plain.definition_of(plain.load(f"arrays.{name}"))
    rows = importlib.import_module(f"arrays.{name}_rows").LOOP.make(ENVS)
    envs = [plain.PlainEnv(definition) for _ in range(ENVS)]
    ((limit, _),) = definition.kernel_ids.values()
    assert rows._limit == (limit or 2**62)
    obs, info = rows.reset(seed=7)
    for row, env in enumerate(envs):
        own_obs, own_info = env.reset(seed=7 + row)
        _compare(name, 0, row, (obs[row], _row(info, row)), (own_obs, own_info))
    drawn = np.random.default_rng(0)
    elapsed, over = [0] * ENVS, [False] * ENVS
    ends = 0
    for step in range(1, STEPS + 1):
        actions = _actions(definition.action_space, drawn, info)
        obs, reward, terminated, truncated, info = rows.step(actions)
        for row, env in enumerate(envs):
            if over[row]:
                own_obs, own_info = env.reset()
                result = (own_obs, 0.0, False, False)
                elapsed[row] = 0
            else:
                *result, own_info = env.step(actions[row])
                elapsed[row] += 1
                result[3] = elapsed[row] >= (limit or 2**62)
            over[row] = result[2] or result[3]
            ends += over[row]
            mine = (obs[row], reward[row], terminated[row], truncated[row], _row(info, row))
            _compare(name, step, row, mine, (*result, own_info))
    print(f"{name}: {ENVS * STEPS} steps, {ends} ends of episodes")
    assert ends > 0


@pytest.mark.timeout(240)  # as above
@pytest.mark.parametrize("name", NAMES)
def test_kernel_in_loops_has_the_bits_of_the_row_loop_written_by_hand(name, monkeypatch):
    compare_compiled_kernel(name, "_loops", monkeypatch)


@pytest.mark.timeout(480)  # as above
@pytest.mark.parametrize("name", NAMES)
def test_natural_kernel_has_the_bits_of_the_row_loop_written_by_hand(name, monkeypatch):
    compare_compiled_kernel(name, "", monkeypatch)


def compare_compiled_kernel(name, form, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    sys.modules.pop("arrays", None)
    count = 64
    module = importlib.import_module(f"arrays.{name}{form}")
    (definition,) = (value for value in vars(module).values() if kernel_of(value) is not None)
    rows = importlib.import_module(f"arrays.{name}_rows").LOOP.make(count)
    envs = vecenv.make(definition, count, engine="compiled", workers=1)
    mine, (own, own_info) = rows.reset(seed=7), envs.reset(seed=7)
    info = mine[1]
    _compare(name, 0, None, mine, (own, own_info))
    drawn = np.random.default_rng(0)
    ends = 0
    for step in range(1, STEPS + 1):
        actions = _actions(definition.action_space, drawn, info, count)
        mine, own = rows.step(actions), envs.step(actions)
        info = mine[-1]
        _compare(name, step, None, mine, own)
        ends += int((own[2] | own[3]).sum())
    envs.close()
    assert ends > 0


def _actions(space, drawn, info, count=ENVS):
    """Random ones; where there is a mask, mostly allowed ones."""
    if not hasattr(space, "n"):
        return drawn.uniform(-1.0, 1.0, (count, *space.shape)).astype(space.dtype)
    actions = drawn.integers(0, space.n, count)
    for row, mask in enumerate(info.get("action_mask", ())):
        if mask.any() and drawn.random() < 0.95:
            actions[row] = drawn.choice(np.flatnonzero(mask))
    return actions


def _row(info, row):
    return {name: values[row] for name, values in info.items()}


def _compare(name, step, row, mine, own):
    *mine, info = mine
    *own, own_info = own
    for given, wanted in zip(mine, own, strict=True):
        assert np.asarray(given).tobytes() == np.asarray(wanted, np.asarray(given).dtype).tobytes(), (
            name,
            step,
            row,
            given,
            wanted,
        )
    for key, value in info.items():
        np.testing.assert_array_equal(value, own_info[key])
