"""Objects that threads of a server may share, and calls of them: the same answers as without other threads.

Every entry of `SHARED` makes an object and lists calls of it that do not change it, or functions that anybody may call.
The calls run one after the other first; then several threads make all of them at once, each in its own order.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

import vecenv
from tests.fuzz.loaders import BOX, CHECKPOINTS, EVERY, PARTS
from tests.twins import PLAIN, SampleEnv
from vecenv import wrappers
from vecenv.buffers import ReplayBuffer, RolloutBuffer, SumTree, discounted_returns, gae, n_step_returns, v_trace
from vecenv.sb3 import DummyVecEnv, VecNormalize
from vecenv.testing import FaultEnv
from vecenv.testing._difference import difference
from vecenv.trainers import PPO, SAC, PPOConfig, SACConfig

Calls = list[Callable[[], Any]]
SHARED: dict[str, Callable[[], contextlib.AbstractContextManager[Calls]]] = {}
THREADS = 4
SECONDS = 60.0


def shared(name: str, function: Any = None) -> Any:
    """Add an entry."""

    def add(function: Callable[..., Iterator[Calls]]) -> Any:
        SHARED[name] = contextlib.contextmanager(function)
        return function

    return add if function is None else add(function)


def run(name: str, rounds: int) -> dict[str, int]:
    """Make the calls of an entry alone, then from several threads; they give the same."""
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-5)
    with SHARED[name]() as calls:
        alone = [call() for call in calls]
        made = side_by_side(calls, alone, rounds)
    return {"calls": made}


def side_by_side(calls: Calls, alone: list[Any], rounds: int) -> int:
    """Make the calls in several threads, and compare; the number of calls."""
    start, problems, made = threading.Barrier(THREADS), [], itertools.count()

    def work(number: int) -> None:
        order = np.random.default_rng(number)
        try:
            start.wait(SECONDS)
            for _ in range(rounds):
                for place in order.permutation(len(calls)).tolist():
                    found = difference(calls[place](), alone[place], f"call {place}")
                    next(made)
                    if found is not None:
                        raise AssertionError(f"{found[0]}: {found[1]} instead of {found[2]}")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), "threads hang"
    if problems:
        raise problems[0]
    return next(made)


def batches(shape: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    """Batches of very different sizes."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, *shape)).astype(dtype) for size in (1, 2, 7, 64, 1000)]


# --- policies and normalization --------------------------------------------------------------------------------------

PPO_CONFIG = PPOConfig(num_envs=4, rollout_steps=8, minibatch=16, hidden=(16,), normalize_obs=True)


@shared("policy of PPO")
def _ppo() -> Iterator[Calls]:
    policy = PPO("CartPole-v1", PPO_CONFIG, seed=0).learn(32).policy
    yield [
        *(partial(policy, batch) for batch in batches((4,))),
        *(partial(policy.predict, batch) for batch in batches((4,))),
    ]


@shared("policy of SAC")
def _sac() -> Iterator[Calls]:
    config = SACConfig(num_envs=2, capacity=64, warmup=8, hidden=(16,), minibatch=8)
    policy = SAC("Pendulum-v1", config, seed=0).learn(32).policy
    yield [partial(policy, batch) for batch in batches((3,))]


@shared("recurrent policy, states kept by the callers")
def _recurrent() -> Iterator[Calls]:
    config = PPOConfig(num_envs=4, rollout_steps=8, minibatch=16, hidden=(16,), lstm=8)
    policy = PPO("CartPole-v1", config, seed=0).learn(32).policy

    def three(batch: np.ndarray) -> Any:
        state, actions = None, []
        for _ in range(3):
            action, state = policy.predict(batch, state)
            actions.append(action)
        return actions

    yield [partial(three, batch) for batch in batches((4,))]


@shared("VecNormalize")
def _normalize() -> Iterator[Calls]:
    venv = VecNormalize(DummyVecEnv([lambda: SampleEnv(BOX, PLAIN)] * 4))
    venv.seed(0)
    venv.reset()
    for _ in range(5):
        venv.step([0] * 4)
    venv.training = False
    given = batches((3,), np.float64)
    yield [
        *(partial(venv.normalize_obs, batch) for batch in given),
        *(partial(venv.unnormalize_obs, batch) for batch in given),
        *(partial(venv.normalize_reward, batch[:, 0]) for batch in given),
        *(partial(venv.unnormalize_reward, batch[:, 0]) for batch in given),
    ]
    venv.close()


@shared("VecNormalize of a Dict")
def _normalize_dict() -> Iterator[Calls]:
    venv = VecNormalize(DummyVecEnv([lambda: SampleEnv(PARTS, PLAIN)] * 2), norm_obs_keys=["pos"])
    venv.seed(0)
    venv.reset()
    venv.step([0, 1])
    venv.training = False
    given = [{"cam": np.zeros((len(batch), 2, 2), np.uint8), "pos": batch} for batch in batches((3,), np.float64)]
    yield [partial(venv.normalize_obs, batch) for batch in given]
    venv.close()


# --- buffers ---------------------------------------------------------------------------------------------------------


def filled(**options: Any) -> ReplayBuffer:
    """A buffer whose every transition says which one it is."""
    buffer = ReplayBuffer(
        spaces.Box(-np.inf, np.inf, (5,), np.float64), spaces.Discrete(1000), 64, 4, seed=0, **options
    )
    with vecenv.make(FaultEnv.many(4, length=9), engine="sync", autoreset="same-step") as envs:
        obs, _ = envs.reset(seed=0)
        for number in range(60):
            actions = 4 * number + np.arange(4)
            envs.send(actions)
            step = envs.recv()
            buffer.add(obs, actions, step)
            obs = step.obs
    return buffer


@shared("replay buffer, gather")
def _gather() -> Iterator[Calls]:
    buffer = filled(n_step=3)
    rng = np.random.default_rng(1)
    places = np.sort(buffer.sample(100).index)
    yield [partial(_fields, buffer.gather, rng.choice(places, size)) for size in (1, 5, 64, 500)]


def _fields(function: Callable[..., Any], *arguments: Any) -> Any:
    return {name: value for name, value in vars(function(*arguments)).items() if not callable(value)}


@shared("replay buffer, sample")
def _sample() -> Iterator[Calls]:
    buffer = filled()
    yield [partial(whole_transitions, buffer, count) for count in (1, 8, 200)]


@shared("replay buffer with priorities, sample")
def _priorities() -> Iterator[Calls]:
    buffer = filled(alpha=0.6)
    yield [partial(whole_transitions, buffer, count) for count in (1, 8, 200)]


def whole_transitions(buffer: ReplayBuffer, count: int) -> bool:
    """Whether what was drawn are transitions as they were stored: observation, action and reward of one step."""
    drawn = buffer.sample(count)
    obs, actions, after = np.asarray(drawn.obs), np.asarray(drawn.actions), np.asarray(drawn.next_obs)
    same = (obs[:, 0] == after[:, 0]) & (obs[:, 2] + 1 == after[:, 2]) & (after[:, 3] == actions)
    return bool(np.all(same)) and bool(np.all(drawn.reward == 1000 * obs[:, 0] + after[:, 2])) and len(obs) == count


@shared("sum tree")
def _tree() -> Iterator[Calls]:
    tree = SumTree(1000)
    tree.update(np.arange(1000), np.arange(1000.0))
    yield [
        *(partial(tree.search, np.linspace(0, 0.999, size) * tree.total) for size in (1, 10, 5000)),
        lambda: tree[np.arange(0, 1000, 7)],
    ]


@shared("returns and advantages")
def _returns() -> Iterator[Calls]:
    rng = np.random.default_rng(0)
    calls: Calls = []
    for steps, count in ((1, 1), (5, 3), (128, 8), (1000, 2)):
        reward, value, ratio = (rng.normal(size=(steps, count)).astype(np.float32) for _ in range(3))
        over, cut = (rng.random((steps, count)) < 0.1 for _ in range(2))
        bounds = {"gamma": 0.9, "lam": 0.8}
        calls += [
            partial(gae, reward, value, value[0], over, cut, **bounds),
            partial(discounted_returns, reward, value[0], over, cut, gamma=0.9, final_value=value),
            partial(n_step_returns, reward, value, value[0], over, cut, gamma=0.9, n=3),
            partial(v_trace, reward, value, value[0], over, cut, ratio, gamma=0.9),
        ]
    yield calls


@shared("rollout buffer")
def _rollout() -> Iterator[Calls]:
    with vecenv.make("CartPole-v1", 4, engine="sync", autoreset="same-step") as envs:
        obs, _ = envs.reset(seed=0)
        buffer = RolloutBuffer(envs.single_observation_space, envs.single_action_space, 32, 4)
        buffer.begin(obs)
        while not buffer.full:
            envs.send(np.zeros(4, np.int64))
            buffer.add(np.zeros(4, np.int64), envs.recv())
    values = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    yield [
        lambda: buffer.gae(values, values[0], None, gamma=0.9, lam=0.8),
        lambda: _fields(buffer.transitions),
        lambda: [buffer.obs, buffer.actions, buffer.finals()],
    ]


# --- evaluation, making, compiling -----------------------------------------------------------------------------------


@shared("evaluation")
def _evaluation() -> Iterator[Calls]:
    policy = PPO("CartPole-v1", PPO_CONFIG, seed=0).learn(32).policy

    def evaluated(seed: int) -> Any:
        found = vecenv.evaluate(policy, "CartPole-v1", episodes=4, num_envs=2, seeds=[seed])
        return [str(found), found.returns, found.lengths]

    yield [partial(evaluated, seed) for seed in range(3)]


@shared("scenarios")
def _scenarios() -> Iterator[Calls]:
    drawn = vecenv.scenarios.uniform(gravity=(5.0, 15.0))
    listed = vecenv.scenarios.grid(gravity=[5.0, 9.8], length=[0.5, 1.0])
    yield [lambda: (str(drawn), drawn.extremes(), drawn.names), lambda: (str(listed), listed.extremes())]


def played(seed: int, wrap: Callable[[Any], Any], env: Any, count: int, **options: Any) -> Any:
    """A vector env of one's own: what a short program of calls gives."""
    with wrap(vecenv.make(env, count, **options)) as envs:
        envs.action_space.seed(seed)
        seen = [envs.reset(seed=seed)]
        for _ in range(12):
            seen.append(envs.step(envs.action_space.sample()))
    return seen


def _plain(envs: Any) -> Any:
    return envs


@shared("make of Python envs")
def _make_python() -> Iterator[Calls]:
    yield [
        partial(played, seed, _plain, lambda: SampleEnv(space, PLAIN), 3, engine=engine)
        for seed, (engine, space) in enumerate(itertools.product(["sync", "thread"], [BOX, PARTS]))
    ]


@shared("make of worker processes")
def _make_processes() -> Iterator[Calls]:
    yield [
        partial(played, seed, _plain, partial(SampleEnv, BOX, PLAIN), 2, engine="process", workers=2, context=context)
        for seed, context in enumerate(["fork", "forkserver"])
    ]


@shared("make of kernels")
def _make_kernels() -> Iterator[Calls]:
    ids = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "MountainCar-v0"]
    yield [partial(played, seed, _plain, name, 3, engine="compiled") for seed, name in enumerate(ids)]


@shared("wrappers of kernels")
def _wrapped() -> Iterator[Calls]:
    kinds: list[Callable[[Any], Any]] = [
        lambda envs: wrappers.NormalizeObservation(envs),
        lambda envs: wrappers.NormalizeReward(envs),
        lambda envs: wrappers.FrameStackObservation(envs, 3),
        lambda envs: wrappers.RescaleObservation(envs, -1.0, 1.0),
        lambda envs: wrappers.TimeAwareObservation(envs),
        lambda envs: wrappers.StickyAction(envs, 0.3),
        lambda envs: wrappers.RecordEpisodeStatistics(envs),
        lambda envs: wrappers.DelayObservation(envs, 2),
        lambda envs: wrappers.CheckFinite(envs),
    ]
    yield [partial(_without_times, kind, seed) for seed, kind in enumerate(kinds)]


def _without_times(kind: Callable[[Any], Any], seed: int) -> Any:
    """What is seen, but for how long an episode took."""
    name = "MountainCarContinuous-v0" if seed == 3 else "CartPole-v1"
    seen = played(seed, kind, name, 4, engine="compiled")
    return [part for result in seen for part in result[:-1]]


class _Camera(gymnasium.Env):
    observation_space, action_space = spaces.Box(0, 255, (24, 24, 3), np.uint8), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.integers(0, 255, (24, 24, 3), np.uint8), {}

    def step(self, action: Any) -> Any:
        return self.np_random.integers(0, 255, (24, 24, 3), np.uint8), 0.0, False, False, {}


@shared("wrappers of pictures")
def _pictures() -> Iterator[Calls]:
    kinds: list[Callable[[Any], Any]] = [
        lambda envs: wrappers.GrayscaleObservation(envs),
        lambda envs: wrappers.ResizeObservation(envs, (12, 12)),
        lambda envs: wrappers.TransposeImage(envs),
        lambda envs: wrappers.FrameStackObservation(wrappers.GrayscaleObservation(envs), 4),
    ]
    yield [partial(played, seed, kind, _Camera, 3, engine="sync") for seed, kind in enumerate(kinds)]


@shared("first compilation of a kernel")
def _compile() -> Iterator[Calls]:
    """A new one for each call, in an empty cache: threads compile at once."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VECENV_CACHE_DIR"] = folder
        yield [partial(_compiled, number % 2) for number in range(2)]


def _compiled(number: int) -> Any:
    from tests.fuzz.new_kernels import new_kernel

    return played(number, _plain, new_kernel(number), 3, engine="compiled", workers=1)


# --- files -----------------------------------------------------------------------------------------------------------


@shared("loaders")
def _loaders() -> Iterator[Calls]:
    chosen = {name: make for name, make in EVERY.items() if name not in CHECKPOINTS and "replay" not in name}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        calls: Calls = []
        for number, make in enumerate(chosen.values()):
            (Path(folder) / str(number) / "saving").mkdir(parents=True)
            (Path(folder) / str(number) / "loading").mkdir()
            loader = stack.enter_context(make(Path(folder) / str(number) / "saving"))
            path = Path(folder) / str(number) / "loading" / loader.name
            path.write_bytes(loader.data)
            calls.append(partial(_loaded, loader, path))
        yield calls


def _loaded(loader: Any, path: Path) -> str:
    return type(loader.load(path)).__name__


@shared("checkpoints with envs of their own")
def _checkpoints() -> Iterator[Calls]:
    with tempfile.TemporaryDirectory() as folder:
        path, batch = Path(folder) / "file", batches((4,))[3]
        PPO("CartPole-v1", PPO_CONFIG, seed=0).learn(32).save(path)

        def loaded() -> Any:
            with contextlib.closing(PPO.load(path)) as trainer:
                return trainer.policy(batch)

        yield [loaded, loaded]
