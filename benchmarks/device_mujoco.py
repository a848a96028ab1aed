"""How far MuJoCo tasks on a device are from C MuJoCo: a table for docs/gpu.md, and where the differences come from.

    python benchmarks/device_mujoco.py [--why] [--shares] [--seed N] [--tolerance T] [ids]

The device computes in floats of 32 bits. Single steps begin from identical states, which C MuJoCo has come to with
random actions; runs begin with the same seed and get the same actions, and differences grow as the dynamics make them.
`--why` compares C MuJoCo with itself: with envs a little higher, and with another solver. Of the cheetah it also shows
what is left of the difference of one step of physics if C MuJoCo has contacts as deep as the device has them.
`--shares` counts the single steps that are within 1e-4, with five seeds.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import vecenv
from vecenv.errors import EngineRefused

TASKS = (
    "InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "Pusher-v5", "Swimmer-v5", "Hopper-v5",
    "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "HumanoidStandup-v5",
)  # fmt: skip
MOMENTS = (1, 10, 100)
FORCES = {"Humanoid-v5": 78, "HumanoidStandup-v5": 78}
"""Observations, counted from the last, that are forces of contacts and not bounded: they are compared on their own."""
CONTACTS = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "HumanoidStandup-v5")
"""Tasks that touch the floor, whose second or third number is a height."""
HEIGHT = 1e-7
"""Metres: what a float of 32 bits makes of the height of a foot that is computed from joint to joint."""


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
    return float((np.abs(one - other) / np.maximum(1.0, np.abs(one))).max(initial=0.0))


def apart_by_env(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """`apart` of each env."""
    return (np.abs(one - other) / np.maximum(1.0, np.abs(one))).reshape(len(one), -1).max(1, initial=0.0)


def single_steps(
    id: str, seed: int = 0, tolerance: float | None = None, count: int = 8, steps: int = 50
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences of observations, rewards and contact forces (`FORCES`) of single steps from identical states.

    `tolerance` is that of the device's solver, by default the one that `mujoco_warp` makes of the model's. Steps that
    end an episode are left out: their envs have been reset.
    """
    host, device = make_pair(id, count, autoreset="same-step")
    if tolerance is not None:
        device.engine._physics._model.opt.tolerance.fill_(tolerance)
    generator = np.random.default_rng(seed)
    found: list[tuple[np.ndarray, ...]] = []
    with host, device:
        host.reset(seed=seed)
        device.reset(seed=seed)
        forces = host.single_observation_space.shape[0] - FORCES.get(id, 0)
        for _ in range(steps):
            copy_state(host, device)
            actions = actions_of(host, generator)
            obs, reward, *ended, _ = host.step(actions)
            other, gained, *_ = device.step(actions)
            pairs = (obs[:, :forces], other[:, :forces]), (reward, gained), (obs[:, forces:], other[:, forces:])
            goes_on = ~(ended[0] | ended[1])
            found.append(tuple(apart_by_env(*pair)[goes_on] for pair in pairs))
    observed, rewarded, forced = map(np.concatenate, zip(*found, strict=True))
    return observed, rewarded, forced


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


def _without_end(id: str) -> dict[str, Any]:
    return {"terminate_when_unhealthy": False} if id in ("Hopper-v5", "Walker2d-v5", "Ant-v5") else {}


# --- how many --------------------------------------------------------------------------------------------------------

BAR = 1e-4


def print_shares(id: str, seeds: range) -> None:
    """Print which part of single steps is within BAR, and how far C MuJoCo is from itself, as a row of a table."""
    found = [single_steps(id, seed) for seed in seeds]
    observed, rewarded, forces = map(np.concatenate, zip(*found, strict=True))
    cells = [f"{len(observed):,}", _share(observed), _share(rewarded), _share(forces) if id in FORCES else "-"]
    cells += [f"{np.quantile(observed, 0.99):.0e}", f"{observed.max():.0e}"]
    own = np.concatenate([moved(id, seed) for seed in seeds]) if id in CONTACTS else None
    cells.append("-" if own is None else f"{_share(own)}, worst {own.max():.0e}")
    print(f"| {id} | {' | '.join(cells)} |", flush=True)


def _share(column: np.ndarray) -> str:
    """How many are within BAR, in percent; 100 only if all are."""
    outside = int((column > BAR).sum())
    return f"{100 - 100 * outside / len(column):.2f} %" if outside else "all"


def moved(id: str, seed: int) -> np.ndarray:
    """Differences of velocities of C MuJoCo to itself, if envs are up to HEIGHT higher or lower in steps of physics."""
    generator, found = np.random.default_rng(3), []
    for kernel, state, action in states(id, seed):
        one = stepped(kernel.model, kernel.frame_skip, state, action, np.zeros(99))
        other = stepped(kernel.model, kernel.frame_skip, state, action, generator.uniform(-HEIGHT, HEIGHT, 99))
        found.append(apart(one.qvel, other.qvel))
    return np.array(found)


# --- why -------------------------------------------------------------------------------------------------------------


def states(id: str, seed: int = 0, count: int = 8, steps: int = 50) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """The kernel of a task, and states and actions of random play by C MuJoCo."""
    generator = np.random.default_rng(seed)
    with vecenv.make(id, count, engine="mujoco", autoreset="same-step") as host:
        host.reset(seed=seed)
        for _ in range(steps):
            physics, actions = host.engine._columns["S_physics"].copy(), actions_of(host, generator)
            for row in range(count):
                yield host.engine.kernel, physics[row], actions[row]
            host.step(actions)


def stepped(model: Any, frame_skip: int, state: np.ndarray, action: np.ndarray, heights: np.ndarray) -> Any:
    """The data of C MuJoCo after an env's step, in whose steps of physics it is higher by these metres."""
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    data.ctrl[:] = action
    height = 2 if model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE else 1
    for extra in heights[:frame_skip]:
        data.qpos[height] += extra
        mujoco.mj_step(model, data)
        data.qpos[height] -= extra
    mujoco.mj_rnePostConstraint(model, data)
    return data


def print_depths(id: str, seed: int) -> None:
    """Print differences of velocities after one step of physics, before and after C MuJoCo gets the device's depths."""
    import mujoco

    from vecenv.kernel.cpp.host import find_device, warp
    from vecenv.mujoco._warp import mujoco_warp

    find_device("cpu")
    library, wp, found, simulated = mujoco_warp(), warp(), [], None
    for kernel, state, action in states(id, seed):
        model, data = kernel.model, mujoco.MjData(kernel.model)
        state = state.astype(np.float32).astype(np.float64)  # what both can hold
        if simulated is None:
            with wp.ScopedDevice("cpu"):
                simulated = library.put_model(model), library.make_data(model, nworld=1, nconmax=64, njmax=400)
        theirs = simulated[1]
        mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        data.ctrl[:] = action
        for name in ("qpos", "qvel", "ctrl", "qacc_warmstart"):
            getattr(theirs, name).assign(getattr(data, name)[None].astype(np.float32))
        with wp.ScopedDevice("cpu"):
            library.step(*simulated)
        mujoco.mj_step(model, data)
        deeper = copy.copy(model)
        contacts = int(theirs.nacon.numpy()[0])
        for geoms, where, distance in zip(
            theirs.contact.geom.numpy()[:contacts],
            theirs.contact.pos.numpy()[:contacts],
            theirs.contact.dist.numpy()[:contacts],
            strict=True,
        ):
            same = [contact for contact in data.contact if {*contact.geom} == {*geoms}]
            if same:
                nearest = min(same, key=lambda contact: np.abs(contact.pos - where).max())
                deeper.geom_size[max(geoms), 0] -= (distance - nearest.dist) / len(same)
        again = stepped(deeper, 1, state, action, np.zeros(1))
        velocities = theirs.qvel.numpy()[0]
        found.append((apart(data.qvel, velocities), apart(again.qvel, velocities)))
    for place, what in enumerate(("as they are", "with the device's depths in C MuJoCo")):
        column = np.array(found)[:, place]
        shares = ", ".join(f"{np.quantile(column, share):.1e}" for share in (0.5, 0.99, 1.0))
        print(f"{id}, one step of physics, velocities {what}: {shares} (median, 99 %, worst)", flush=True)
    worst = np.array(sorted(found, reverse=True)[:3])
    print(f"{id}, the three worst: {', '.join(f'{one:.1e} -> {other:.1e}' for one, other in worst)}", flush=True)


def print_why(id: str, seed: int) -> None:
    """Print how far C MuJoCo is from itself if envs are a little higher, and if the solver is Newton's."""
    import mujoco

    generator, found = np.random.default_rng(3), {"higher": [], "Newton": []}
    for kernel, state, action in states(id, seed):
        newton = copy.copy(kernel.model)
        newton.opt.solver, newton.opt.iterations = mujoco.mjtSolver.mjSOL_NEWTON, max(100, newton.opt.iterations)
        no_heights, heights = np.zeros(99), generator.uniform(-HEIGHT, HEIGHT, 99)
        one = stepped(kernel.model, kernel.frame_skip, state, action, no_heights)
        others = {
            "higher": stepped(kernel.model, kernel.frame_skip, state, action, heights),
            "Newton": stepped(newton, kernel.frame_skip, state, action, no_heights),
        }
        for name, other in others.items():
            found[name].append((apart(one.qvel, other.qvel), apart(one.cfrc_ext, other.cfrc_ext)))
    for name, figures in found.items():
        for place, what in enumerate(("velocities", "contact forces")):
            column = np.array(figures)[:, place]
            shares = ", ".join(f"{np.quantile(column, share):.1e}" for share in (0.5, 0.99, 1.0))
            print(f"{id}, C MuJoCo, {name}: {what} {shares} (median, 99 %, worst)", flush=True)


def main() -> None:
    """Print the table, or why its numbers are what they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", default=list(TASKS))
    parser.add_argument("--why", action="store_true", help="compare C MuJoCo with itself")
    parser.add_argument("--shares", action="store_true", help="count the single steps that are within 1e-4")
    parser.add_argument("--seed", type=int, default=0, help="of the states of single steps")
    parser.add_argument("--tolerance", type=float, help="of the device's solver, in single steps")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.why:
        for id in given.ids:
            print_why(id, given.seed)
            if id == "HalfCheetah-v5":
                print_depths(id, given.seed)
        return
    if given.shares:
        print("| task | steps | obs | reward | contact forces | obs, 99 % | obs, worst | C MuJoCo moved by 1e-7 m |")
        print("|---|---|---|---|---|---|---|---|")
        for id in given.ids:
            print_shares(id, range(given.seed, given.seed + 5))
        return
    print("| task | obs, one step | reward, one step | 1 step | 10 steps | 100 steps |\n|---|---|---|---|---|---|")
    for id in given.ids:
        try:
            observed, rewarded, forces = (column.max() for column in single_steps(id, given.seed, given.tolerance))
            figures = [rewarded, *runs(id)]
        except EngineRefused as error:
            print(f"| {id} | {error} | | | | |", flush=True)
            continue
        first = f"{observed:.1e}" + (f"; contact forces {forces:.1e}" if id in FORCES else "")
        print(f"| {id} | {first} | {' | '.join(f'{figure:.1e}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    main()
