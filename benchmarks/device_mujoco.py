"""How far MuJoCo tasks on a device are from C MuJoCo: `python benchmarks/device_mujoco.py`, a table for docs/gpu.md.

The device computes in floats of 32 bits. Single steps begin from identical states, which C MuJoCo has come to with
random actions; runs begin with the same seed and get the same actions, and differences grow as the dynamics make them.
`--solvers` measures how far PGS and Newton's method are apart in C MuJoCo, in the tasks whose solver is replaced.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import gymnasium
import mujoco
import numpy as np

import vecenv
from vecenv.errors import EngineRefused

TASKS = (
    "InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "Pusher-v5", "Swimmer-v5", "Hopper-v5",
    "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "HumanoidStandup-v5",
)  # fmt: skip
MOMENTS = (1, 10, 100)
REPLACED = ("Humanoid-v5", "HumanoidStandup-v5")
"""Tasks whose model asks for PGS, which mujoco_warp lacks."""


def make_pair(id: str, count: int, **options: Any) -> tuple[Any, Any]:
    """The same envs by C MuJoCo and on the CPU device. Raises EngineRefused."""
    device = vecenv.make(id, count, device="cpu", results="numpy", **options)
    return vecenv.make(id, count, engine="mujoco", **options), device


def copy_state(source: Any, target: Any) -> None:
    """Make the envs of the device what those of C MuJoCo are."""
    theirs, ours = source.engine._columns, target.engine._columns
    own = [f"S_{name}" for name in target.engine.kernel.own]
    for name in ("RNG", "ELAPSED", "DONE", "RETURN", "LENGTH", *own):
        ours[name][...] = theirs[name]


def actions_of(envs: Any, generator: np.random.Generator) -> np.ndarray:
    """Random actions."""
    space = envs.single_action_space
    return generator.uniform(space.low, space.high, (envs.num_envs, *space.shape)).astype(np.float32)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, relative where numbers are larger than 1."""
    return float((np.abs(one - other) / np.maximum(1.0, np.abs(one))).max())


def single_steps(id: str, count: int = 8, steps: int = 50) -> tuple[float, float]:
    """Differences of observations and rewards of single steps from identical states."""
    host, device = make_pair(id, count, autoreset="same-step")
    generator, worst = np.random.default_rng(0), [0.0, 0.0]
    with host, device:
        host.reset(seed=0)
        device.reset(seed=0)
        for _ in range(steps):
            copy_state(host, device)
            actions = actions_of(host, generator)
            obs, reward, *ended, _ = host.step(actions)
            found, gained, *_ = device.step(actions)
            goes_on = ~(ended[0] | ended[1])  # the others have been reset
            if goes_on.any():
                worst[0] = max(worst[0], apart(obs[goes_on], found[goes_on]))
            worst[1] = max(worst[1], apart(reward, gained))
    return worst[0], worst[1]


def runs(id: str, count: int = 4) -> list[float]:
    """Differences of observations after some steps from the same seed, episodes that end included."""
    host, device = make_pair(id, count, autoreset="disabled", max_episode_steps=-1, **_without_end(id))
    generator, found = np.random.default_rng(1), []
    with host, device:
        host.reset(seed=0)
        device.reset(seed=0)
        for step in range(1, MOMENTS[-1] + 1):
            actions = 0.1 * actions_of(host, generator)
            obs, other = host.step(actions)[0], device.step(actions)[0]
            if step in MOMENTS:
                found.append(apart(obs, other))
            for envs in (host, device):
                envs.engine._columns["DONE"][...] = False
                envs._call_order.ready[...] = True
    return found


def solvers(id: str, states: int = 200) -> tuple[float, float]:
    """Differences of observations of single steps by PGS and by Newton's method in C MuJoCo: median and largest."""
    env: Any = gymnasium.make(id).unwrapped
    generator, found = np.random.default_rng(0), []
    model, data, kind = env.model, env.data, mujoco.mjtState.mjSTATE_INTEGRATION
    state, space = np.zeros((2, mujoco.mj_stateSize(model, kind))), env.action_space
    env.reset(seed=0)
    for _ in range(states):
        action = generator.uniform(space.low, space.high).astype(np.float32)
        mujoco.mj_getState(model, data, state[0], kind)
        obs, _, terminated, *_ = env.step(action)
        mujoco.mj_getState(model, data, state[1], kind)
        model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        mujoco.mj_setState(model, data, state[0], kind)
        found.append(apart(obs, env.step(action)[0]))
        model.opt.solver = mujoco.mjtSolver.mjSOL_PGS
        mujoco.mj_setState(model, data, state[1], kind)
        if terminated:
            env.reset()
    return float(np.median(found)), max(found)


def _without_end(id: str) -> dict[str, Any]:
    return {"terminate_when_unhealthy": False} if id in ("Hopper-v5", "Walker2d-v5", "Ant-v5") else {}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", default=list(TASKS))
    parser.add_argument("--solvers", action="store_true", help="compare PGS with Newton's method in C MuJoCo, no more")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.solvers:
        for id in REPLACED:
            print("{}: median {:.1e}, largest {:.1e}".format(id, *solvers(id)))
        return
    print("| task | obs, one step | reward, one step | 1 step | 10 steps | 100 steps |\n|---|---|---|---|---|---|")
    for id in arguments.ids:
        try:
            figures = [*single_steps(id), *runs(id)]
        except EngineRefused as error:
            print(f"| {id} | {error} | | | | |", flush=True)
            continue
        print(f"| {id} | {' | '.join(f'{figure:.1e}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    main()
