"""Drive vector envs through everything that can happen to them, and compare what two of them said."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import vecenv
from tests import twins

ENGINES = ("compiled", "sync", "process")
MODES = ("next-step", "same-step", "disabled")
WAYS = ("step", "partial", "send")
CASES = [
    *(("compiled", mode, way) for mode in MODES for way in WAYS),
    *(("sync", mode, "partial") for mode in MODES),
    *(("process", mode, way) for mode, way in zip(MODES, WAYS, strict=True)),
]
"""Every mode in every way, every engine in every mode."""
in_every_case = pytest.mark.parametrize(("engine", "mode", "way"), CASES)


def make(engine, env, num_envs=3, **kwargs):
    if engine == "compiled":
        return vecenv.make(env, num_envs, engine="compiled", **kwargs)
    return twins.make(engine, env, num_envs, **kwargs)


def some_actions(space, rng, count):
    """Actions, of a Box also some outside."""
    if isinstance(space, spaces.Box):
        return rng.uniform(-3, 3, (count, *space.shape)).astype(space.dtype)
    return rng.integers(0, space.n, count)


def drive(envs, way="step", steps=60, seed=5, actions=some_actions, space=None):
    """Every result of a reset and of many steps: all envs, some envs, or sent and received.

    Ended episodes of "disabled" mode are reset, and now and then a running one is, by a mask.
    """
    rng = np.random.default_rng(seed)
    space = space or envs.single_action_space
    disabled = envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    results = [envs.reset(seed=seed)]
    done = np.zeros(envs.num_envs, np.bool_)
    for step in range(steps):
        mask = done.copy() if disabled else np.zeros_like(done)
        if step % 23 == 22:
            mask[step % envs.num_envs] = True
        if mask.any():
            options = {"reset_mask": mask.copy()}
            results.append(envs.reset(options=options))
            assert set(options) == {"reset_mask"}
            done &= ~mask
        ids = np.arange(envs.num_envs)
        if way == "partial":
            ids = np.sort(rng.permutation(envs.num_envs)[: 1 + step % envs.num_envs])
        chosen = actions(space, rng, len(ids))
        if way == "send":
            envs.send(chosen)
            result = tuple(envs.recv())
        else:
            result = envs.step(chosen) if way == "step" else envs.step(chosen, ids)
        results.append(result)
        done[ids] = result[2] | result[3]
    return results


def assert_same(results, expected, rtol=1e-6):
    assert len(results) == len(expected)
    for place, (one, other) in enumerate(zip(results, expected, strict=True)):
        assert len(one) == len(other)
        for values, wanted in zip(one[:-1], other[:-1], strict=True):
            np.testing.assert_allclose(values, wanted, rtol=rtol, atol=1e-7, err_msg=f"result {place}")
        finals, wanted = one[-1].get("final_obs"), other[-1].get("final_obs")
        assert (finals is None) == (wanted is None)
        for final, want in zip(finals if finals is not None else (), wanted if wanted is not None else (), strict=True):
            assert (final is None) == (want is None)
            if final is not None:
                np.testing.assert_allclose(final, want, rtol=rtol)
