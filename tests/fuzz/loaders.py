"""Every loader of files that there is, each with a right file and something to load into.

Results of evaluations are written and never read; scenarios have no files; policies are checkpoints.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

import vecenv
from tests.fuzz.fuzzing import Loader
from tests.twins import SampleEnv
from vecenv.buffers import ReplayBuffer
from vecenv.sb3 import DummyVecEnv, VecNormalize
from vecenv.trainers import PPO, SAC, PPOConfig, SACConfig

BOX = spaces.Box(-1.0, 1.0, (3,), np.float64)
PARTS = spaces.Dict({"cam": spaces.Box(0, 255, (2, 2), np.uint8), "pos": BOX})
SMALL_PPO = PPOConfig(num_envs=2, rollout_steps=4, hidden=(4,), minibatch=4, normalize_obs=True, normalize_reward=True)
SMALL_SAC = SACConfig(num_envs=2, capacity=16, warmup=4, hidden=(4,), minibatch=4)


@contextlib.contextmanager
def normalizer(folder: Path, format: Any, space: Any = BOX) -> Iterator[Loader]:
    fns = [lambda: SampleEnv(space, spaces.Discrete(3))] * 2
    saved, venv = VecNormalize(DummyVecEnv(fns)), DummyVecEnv(fns)
    saved.reset()
    for _ in range(5):
        saved.step([0, 1])
    saved.save(folder / "saved", format=format)

    def load(path: Path) -> bytes:
        loaded = VecNormalize.load(path, venv)
        rms = loaded.obs_rms if isinstance(loaded.obs_rms, dict) else {"": loaded.obs_rms}
        numbers = [loaded.ret_rms, *(rms[key] for key in sorted(rms))]
        return pickle.dumps([(np.array(each.mean), np.array(each.var), float(each.count)) for each in numbers])

    yield Loader((folder / "saved").read_bytes(), load, lambda: len(vars(venv)))
    saved.close()
    venv.close()


@contextlib.contextmanager
def replay(folder: Path, **options: Any) -> Iterator[Loader]:
    def filled(seed: int) -> ReplayBuffer:
        buffer = ReplayBuffer(BOX, spaces.Discrete(3), 8, 2, seed=seed, **options)
        with vecenv.make(lambda: SampleEnv(BOX, spaces.Discrete(3)), 2, engine="sync") as envs:
            obs, _ = envs.reset(seed=seed)
            for _ in range(6):
                envs.send([0, 1])
                step = envs.recv()
                buffer.add(obs, np.array([0, 1]), step)
                obs = step.obs
        return buffer

    filled(0).save(folder / "saved")
    mine = filled(1)

    def load(path: Path) -> bytes:
        mine.load(path)
        loaded = pickle.dumps(mine.state_dict())
        if len(mine):
            mine.sample(16)  # what was accepted can be used
        return loaded

    yield Loader((folder / "saved").read_bytes(), load, lambda: pickle.dumps(mine.state_dict()))


@contextlib.contextmanager
def recording(folder: Path) -> Iterator[Loader]:
    options = {"record": "last-episode", "record_folder": folder / "failures"}
    with vecenv.make("CartPole-v1", 2, engine="sync", **options) as envs:
        envs.reset(seed=0)
        for _ in range(6):
            envs.step([0, 1])
        envs.recording(1).save(folder / "saved.npz")

    def load(path: Path) -> str:
        loaded = vecenv.Recording.load(path)
        return f"{loaded} {loaded.why_not_replayable}"  # what was accepted can be looked at

    yield Loader((folder / "saved.npz").read_bytes(), load, lambda: None)


@contextlib.contextmanager
def checkpoint(folder: Path, cls: Any, env_id: str, config: Any, own_envs: bool) -> Iterator[Loader]:
    trainer = cls(env_id, config)
    trainer.learn(8)
    trainer.save(folder / "saved")
    trainer.close()
    envs = vecenv.make(env_id, 2, autoreset="same-step", engine="compiled")
    envs.reset(seed=3)

    def state() -> bytes:
        return pickle.dumps([column.tobytes() for column in envs.get_state().columns.values()])

    def load(path: Path) -> None:
        if own_envs:
            cls.load(path).close()
        else:
            cls.load(path, envs)

    yield Loader((folder / "saved").read_bytes(), load, state)
    envs.close()


@contextlib.contextmanager
def run_config(folder: Path) -> Iterator[Loader]:
    from vecenv.cli._sources import Checkpoint, env_of, read_run

    text = (
        '{"env": "CartPole-v1", "kwargs": {"gravity": 9.8}, "algo": "ppo", "seed": 0, "steps": 100, "engine": "auto",'
        ' "config": {"num_envs": 2, "hidden": [4, 4], "learning_rate": 0.001}}'
    )

    def load(path: Path) -> None:
        run, config = read_run(path.parent)
        env_of(Checkpoint(path, run, config), None, {}, trust=False)

    yield Loader(text.encode(), load, lambda: None, "config.json")


MONITOR = b'#{"t_start": 1700000000.5, "env_id": "CartPole-v1"}\r\nr,l,t\r\n' + b"".join(
    f"{number * 1.5},{number},{number / 10}\r\n".encode() for number in range(1, 20)
)


@contextlib.contextmanager
def monitor(folder: Path, reader: str) -> Iterator[Loader]:
    def load(path: Path) -> None:
        if reader == "load_results":
            from vecenv.wrappers import load_results

            load_results(path.parent)
        elif reader == "curves":
            from vecenv.cli._curves import curve_of, read_episodes

            episodes = read_episodes(path.parent)
            if len(episodes.steps):
                curve_of("run", [episodes])
        else:
            from vecenv.cli._run_files import _start_of

            _start_of(path)

    yield Loader(MONITOR, load, lambda: None, "monitor.csv")


Make = Callable[[Path], contextlib.AbstractContextManager[Loader]]
ARCHIVES: dict[str, Make] = {
    "VecNormalize": lambda folder: normalizer(folder, "vecenv"),
    "VecNormalize of a Dict": lambda folder: normalizer(folder, "vecenv", PARTS),
    "replay": replay,
    "replay with priorities": lambda folder: replay(folder, alpha=0.6),
    "replay of frames": lambda folder: replay(folder, stack=1, n_step=2),
    "recording": recording,
}
CHECKPOINTS: dict[str, Make] = {
    "PPO": lambda folder: checkpoint(folder, PPO, "CartPole-v1", SMALL_PPO, False),
    "PPO with envs of its own": lambda folder: checkpoint(folder, PPO, "CartPole-v1", SMALL_PPO, True),
    "SAC": lambda folder: checkpoint(folder, SAC, "Pendulum-v1", SMALL_SAC, False),
}
PICKLES: dict[str, Make] = {
    "VecNormalize of SB3": lambda folder: normalizer(folder, "sb3"),
    "VecNormalize of SB3, Dict": lambda folder: normalizer(folder, "sb3", PARTS),
}
TEXTS: dict[str, Make] = {
    "config.json": run_config,
    "monitor.csv": lambda folder: monitor(folder, "load_results"),
    "monitor.csv for curves": lambda folder: monitor(folder, "curves"),
    "monitor.csv of a run that goes on": lambda folder: monitor(folder, "goes on"),
}
EVERY = {**ARCHIVES, **CHECKPOINTS, **PICKLES, **TEXTS}
