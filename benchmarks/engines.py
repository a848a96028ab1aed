"""Speed of the engines next to a bare loop, Gymnasium and Stable-Baselines3.

Everything is measured in one run: the contestants of a table take turns, several times, and the best turn of each
counts, because machines are noisy. Ratios are what matters. Prints tables and writes benchmarks/results/engines.json.

Run: python benchmarks/engines.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import vecenv
from racing import Contestant, Question, answer, race

# --- contestants -----------------------------------------------------------------------------------------------------


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


def acrobot() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("Acrobot-v1")


class Frames(gymnasium.Env[np.ndarray, int]):
    """84x84x4 frames, new ones at every step, that cost next to nothing."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
        self.action_space = spaces.Discrete(4)
        self._frames = np.random.default_rng(0).integers(0, 256, (8, 84, 84, 4), np.uint8)
        self._step = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self._frames[0], {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._step += 1
        return self._frames[self._step % 8], 1.0, False, False, {}


class Waiting(gymnasium.Env[np.ndarray, int]):
    """A step takes `seconds`, computing (busy) or waiting for something outside."""

    def __init__(self, seconds: float, busy: bool) -> None:
        self.observation_space = spaces.Box(-1, 1, (4,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._seconds, self._busy = seconds, busy
        self._obs = np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self._obs, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._busy:
            deadline = time.perf_counter() + self._seconds
            while time.perf_counter() < deadline:
                pass
        else:
            time.sleep(self._seconds)
        return self._obs, 1.0, False, False, {}


def actions(choices: int, count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, choices, (997, count))


def bare_loop(factory: Callable[[], Any], count: int, choices: int = 2) -> Contestant:
    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs, plan, done = [factory() for _ in range(count)], actions(choices, count), [False] * count
        for row, env in enumerate(envs):
            env.reset(seed=row)

        def exchange(turn: int) -> None:
            chosen = plan[turn % len(plan)]
            for row, env in enumerate(envs):
                if done[row]:
                    env.reset()
                    done[row] = False
                else:
                    _, _, terminated, truncated, _ = env.step(chosen[row])
                    done[row] = terminated or truncated

        return exchange, lambda: None

    return Contestant("bare loop", build)


def vector(name: str, make: Callable[[], Any], count: int, choices: int = 2) -> Contestant:
    """Anything with reset, step and close."""

    def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
        envs, plan = make(), actions(choices, count)
        envs.reset()
        return lambda turn: envs.step(plan[turn % len(plan)]), envs.close

    return Contestant(name, build)


def ours(name: str, factory: Any, count: int, choices: int = 2, **options: Any) -> Contestant:
    return vector(name, lambda: vecenv.make(factory, count, **options), count, choices)


def gymnasium_async(factory: Any, count: int, choices: int = 2) -> Contestant:
    return vector("gymnasium async", lambda: gymnasium.vector.AsyncVectorEnv([factory] * count), count, choices)


def sb3_subproc(factory: Any, count: int, choices: int = 2) -> Contestant:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    return vector("sb3 subproc", lambda: SubprocVecEnv([factory] * count), count, choices)


# --- the questions ---------------------------------------------------------------------------------------------------


def cheap_envs(count: int, turns: int, seconds: float) -> dict[str, float]:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return race(
        [
            bare_loop(cartpole, count),
            ours("vecenv sync", cartpole, count, engine="sync"),
            ours("vecenv process, 2 workers", cartpole, count, engine="process", workers=2),
            ours("vecenv caller works, 1 worker", cartpole, count, engine="process", workers=1, caller_works=True),
            vector("gymnasium sync", lambda: gymnasium.vector.SyncVectorEnv([cartpole] * count), count),
            gymnasium_async(cartpole, count),
            vector("sb3 dummy", lambda: DummyVecEnv([cartpole] * count), count),
            sb3_subproc(cartpole, count),
        ],
        count,
        turns,
        seconds,
    )


def frames(turns: int, seconds: float) -> dict[str, float]:
    return race(
        [
            ours("vecenv process, 2 workers", Frames, 8, 4, engine="process", workers=2),
            ours("vecenv process, no copies", Frames, 8, 4, engine="process", workers=2, copy=False),
            ours("vecenv sync", Frames, 8, 4, engine="sync"),
            gymnasium_async(Frames, 8, 4),
            sb3_subproc(Frames, 8, 4),
        ],
        8,
        turns,
        seconds,
    )


def slow_envs(busy: bool, turns: int, seconds: float) -> dict[str, float]:
    factory = _Slow(0.001, busy)
    return race(
        [
            ours("vecenv sync", factory, 8, engine="sync"),
            ours("vecenv process, 2 workers", factory, 8, engine="process", workers=2),
            ours("vecenv thread, 2 workers", factory, 8, engine="thread", workers=2),
        ],
        8,
        turns,
        seconds,
    )


def cpu_beside_envs(count: int, turns: int, seconds: float) -> dict[str, float]:
    """Processor time of an exchange of CartPoles, in us: other programs disturb it less than time of day.

    The front and the workers of the process engine are listed apart; a worker's is per row, next to the bare loop's.
    """
    bare, sync = bare_loop(cartpole, count).build(), ours("", cartpole, count, engine="sync").build()
    envs, plan = vecenv.make(cartpole, count, engine="process", workers=2), actions(2, count)
    envs.reset(seed=0)
    pids = [process.pid for process in envs.engine.processes]
    best: dict[str, float] = {}

    def note(name: str, spent: float, exchanges: int) -> None:
        best[name] = min(best.get(name, math.inf), spent / exchanges * 1e6)

    for _ in range(turns):
        for name, (exchange, _) in (("bare loop", bare), ("vecenv sync", sync)):
            note(name, *_cpu_seconds(exchange, seconds, time.process_time))
        before = sum(map(_cpu_of, pids))
        spent, exchanges = _cpu_seconds(lambda turn: envs.step(plan[turn % len(plan)]), seconds, time.perf_counter)
        note("vecenv process, front", spent, exchanges)
        note("vecenv process, workers", sum(map(_cpu_of, pids)) - before, exchanges)
    for close in (bare[1], sync[1], envs.close):
        close()
    best["x bare loop, sync"] = best["vecenv sync"] / best["bare loop"]
    best["x bare loop, workers"] = best["vecenv process, workers"] / best["bare loop"]
    return best


def _cpu_seconds(exchange: Callable[[int], Any], seconds: float, clock: Callable[[], float]) -> tuple[float, int]:
    """Processor time of this process, and exchanges made, in so many seconds of `clock`."""
    exchanges, started, cpu = 0, clock(), time.process_time()
    while clock() - started < seconds:
        for turn in range(exchanges, exchanges + 20):
            exchange(turn)
        exchanges += 20
    return time.process_time() - cpu, exchanges


def _cpu_of(pid: int) -> float:
    """Processor time of another process so far, in seconds."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) * 1e-9


def one_env_per_worker(turns: int, seconds: float) -> dict[str, float]:
    return race(
        [
            ours("vecenv process, 4 workers", cartpole, 4, engine="process", workers=4),
            gymnasium_async(cartpole, 4),
            sb3_subproc(cartpole, 4),
        ],
        4,
        turns,
        seconds,
    )


class Computing(gymnasium.Env[np.ndarray, int]):
    """A step computes in NumPy, which releases the GIL, for about 0.2 ms."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = spaces.Discrete(2)
        self._numbers = np.random.default_rng(0).random(100_000)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.array([np.sqrt(self._numbers).sum()]), 1.0, False, False, {}


def threads(factory: Any, count: int, turns: int, seconds: float) -> dict[str, float]:
    """How the thread engine scales; Python code does only without the GIL."""
    return race(
        [
            ours("vecenv sync", factory, count, engine="sync"),
            *(ours(f"vecenv thread, {n} workers", factory, count, engine="thread", workers=n) for n in (1, 2, 4)),
        ],
        count,
        turns,
        seconds,
    )


class _Slow:
    def __init__(self, seconds: float, busy: bool) -> None:
        self.seconds, self.busy = seconds, busy

    def __call__(self) -> Waiting:
        return Waiting(self.seconds, self.busy)


def straggler(turns: int, seconds: float) -> dict[str, float]:
    """Steps per second of seven envs that take 1 ms, without and with an eighth that takes 50 ms; recv(4)."""

    def seven(slow: bool) -> Contestant:
        def build() -> tuple[Callable[[int], Any], Callable[[], None]]:
            fns = [_Slow(0.001, False)] * 7 + [_Slow(0.05, False)] * slow
            envs = vecenv.make(fns, engine="process", workers=len(fns), batch_size=4)
            envs.reset()
            envs.send(np.zeros(len(fns), int))
            got = [0]

            def exchange(_: int) -> None:
                step = envs.recv(4)
                got[0] += int((step.env_ids < 7).sum())
                envs.send(np.zeros(4, int), step.env_ids)

            counters["with a straggler" if slow else "without"] = got
            return exchange, envs.close

        return Contestant("with a straggler" if slow else "without", build)

    counters: dict[str, list[int]] = {}
    running = {contestant.name: contestant.build() for contestant in (seven(False), seven(True))}
    best = dict.fromkeys(running, 0.0)
    for _ in range(turns):
        for name, (exchange, _) in running.items():
            before, started, turn = counters[name][0], time.perf_counter(), 0
            while (spent := time.perf_counter() - started) < seconds:
                exchange(turn)
                turn += 1
            best[name] = max(best[name], (counters[name][0] - before) / spent)
    for _, close in running.values():
        close()
    return best


_START = """
import sys, time, gymnasium, numpy, psutil, vecenv
def cartpole(): return gymnasium.make("CartPole-v1")
started = time.perf_counter()
envs = vecenv.make(cartpole, 64, engine="process", workers=2, context=sys.argv[1])
seconds = time.perf_counter() - started
envs.reset(seed=0)
envs.step(numpy.zeros(64, int))
pss = [psutil.Process(process.pid).memory_full_info().pss / 2**20 for process in envs.engine.processes]
print(seconds, max(pss))
envs.close()
"""


_MAKE = """
import sys, time, gymnasium, vecenv
def cartpole(): return gymnasium.make("CartPole-v1")
if "ahead" in sys.argv[1]:
    vecenv.engines.start_fork_server()
    time.sleep(3.0)
for _ in range(3):
    started = time.perf_counter()
    if sys.argv[1].startswith("vecenv"):
        envs = vecenv.make(cartpole, 4, engine="process", workers=4)
    else:
        envs = gymnasium.vector.AsyncVectorEnv([cartpole] * 4)
    print(time.perf_counter() - started)
    envs.reset()
    envs.close()
"""


def make_four_workers(turns: int) -> dict[str, float]:
    """Seconds that `make` takes with four workers, in programs of their own: the first, and the best of two later.

    The first of all programs only compiles modules to bytecode: a fork server imports them.
    """
    found: dict[str, float] = {}
    names = ("vecenv", "vecenv, server started ahead", "gymnasium async")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for name in (names[0], *names * min(turns, 3)):
            output = subprocess.check_output([sys.executable, "-c", _MAKE, name], text=True, env=environment)
            first, *later = map(float, output.split())
            for which, seconds in (("first", first), ("later", min(later))):
                key = f"{name}, {which} (s)"
                found[key] = min(found.get(key, math.inf), seconds)
    return found


def start_and_memory() -> dict[str, float]:
    """Seconds to start two workers in a fresh program, and proportional memory of a worker that holds 32 CartPoles."""
    found: dict[str, float] = {}
    for context in ("fork", "forkserver", "spawn"):
        runs = [subprocess.check_output([sys.executable, "-c", _START, context], text=True).split() for _ in range(3)]
        found[f"start, {context} (s)"] = min(float(seconds) for seconds, _ in runs)
        found[f"memory per worker, {context} (MB PSS)"] = max(float(pss) for _, pss in runs)
    return found


if __name__ == "__main__":
    answer(
        __doc__,
        {
            "cartpole64": Question("64 CartPole-v1", "bare loop", lambda *turns: cheap_envs(64, *turns)),
            "cartpole8": Question("8 CartPole-v1", "bare loop", lambda *turns: cheap_envs(8, *turns)),
            "frames": Question("8 envs of 84x84x4 frames", "gymnasium async", frames),
            "busy": Question("8 envs, 1 ms of computing", "vecenv sync", lambda *turns: slow_envs(True, *turns)),
            "waiting": Question("8 envs, 1 ms of waiting", "vecenv sync", lambda *turns: slow_envs(False, *turns)),
            "straggler": Question("seven envs of 1 ms, recv(4)", "without", straggler),
            "cpu64": Question("CPU us per exchange, 64 CartPole-v1", None, lambda *turns: cpu_beside_envs(64, *turns)),
            "cpu8": Question("CPU us per exchange, 8 CartPole-v1", None, lambda *turns: cpu_beside_envs(8, *turns)),
            "one_each": Question("4 CartPole-v1, a worker each", "gymnasium async", one_env_per_worker),
            "threads": Question(
                "16 envs that compute in NumPy", "vecenv sync", lambda *turns: threads(Computing, 16, *turns)
            ),
            "python_threads": Question("64 CartPole-v1", "vecenv sync", lambda *turns: threads(cartpole, 64, *turns)),
            "slower_python_threads": Question(
                "64 Acrobot-v1", "vecenv sync", lambda *turns: threads(acrobot, 64, *turns)
            ),
            "make": Question("make, 4 workers", None, lambda turns, _: make_four_workers(turns)),
            "start": Question("two workers, 64 CartPole-v1", None, lambda *turns: start_and_memory()),
        },
        Path(__file__).parent / "results" / "engines.json",
    )
