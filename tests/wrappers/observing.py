"""Vector envs whose observations are drawn from a space, and what they say when they are stepped together."""

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv
from tests import twins

MODES = {"next-step": AutoresetMode.NEXT_STEP, "same-step": AutoresetMode.SAME_STEP, "disabled": AutoresetMode.DISABLED}


def factories(space, count=3, wrap=lambda env: env):
    return [lambda: wrap(twins.SampleEnv(space, twins.PLAIN, shortest=2)) for _ in range(count)]


def ours(space, mode, count=3, engine="sync", wrap=lambda env: env):
    return twins.make(engine, factories(space, count, wrap), autoreset=mode)


def theirs(space, mode, wrap=lambda env: env):
    return SyncVectorEnv(factories(space, 3, wrap), autoreset_mode=MODES[mode])


def drive(envs, steps=25):
    """All observations, final ones, and where they are: a list of (obs, final_obs, which)."""
    rng = np.random.default_rng(4)
    obs, _ = envs.reset(seed=[11, 12, 13])
    seen = [(obs, None, None)]
    done = np.zeros(3, np.bool_)
    for _ in range(steps):
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and done.any():
            obs, _ = envs.reset(options={"reset_mask": done.copy()})
            seen.append((obs, None, None))
        obs, _, terminated, truncated, infos = envs.step(rng.integers(0, 3, 3))
        done = terminated | truncated
        seen.append((obs, infos.get("final_obs"), infos.get("_final_obs")))
    return seen


def assert_same_observations(seen, wanted):
    assert len(seen) == len(wanted)
    for place, ((obs, finals, ended), (obs_, finals_, ended_)) in enumerate(zip(seen, wanted, strict=True)):
        twins.assert_same(obs, obs_, f"obs {place}")
        assert (ended is None) == (ended_ is None)
        if ended_ is not None:
            np.testing.assert_array_equal(ended, ended_)
            for row in np.flatnonzero(ended_):
                twins.assert_same(finals[row], finals_[row], f"final obs {place} of env {row}")


def cart_poles(engine):
    """Builds of CartPole for `check_transform`."""
    if engine == "compiled":
        return lambda count, mode: vecenv.make("CartPole-v1", count, engine=engine, autoreset=mode)
    return lambda count, mode: twins.make(engine, "CartPole-v1", count, autoreset=mode)
