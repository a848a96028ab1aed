"""Thousands of slow envs: steps of 1 to 60 seconds, log-normal, some of which fail. How much of the time do they run?

`python benchmarks/slow_envs.py --seconds 600` takes about eleven minutes per contestant. Each has a process of its own,
so that "memory" is that contestant's, with its child processes. "work" is the time that envs spent in steps that were
delivered or are running, out of the time that all of them could have. `--only verifiers` needs `pip install verifiers`
(0.4), and is not run without being asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import queue
import resource
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import numpy as np
import psutil
from gymnasium import spaces

import vecenv

SHORTEST, LONGEST, MEDIAN, SIGMA = 1.0, 60.0, 6.0, 1.0
DEADLINE = 65.0
_clock = time.perf_counter


@dataclass
class Account:
    """What envs did, kept by the envs themselves.

    `calls` has by env the action of every step that was begun, `began` when the last one began: deadlines count from
    there, and not from `send`, after which ten thousand steps are begun one after the other.
    """

    work: float = 0.0
    running: dict[int, tuple[float, float]] = field(default_factory=dict)
    calls: dict[int, list[int]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)

    def begin(self, number: int, seconds: float, action: int) -> None:
        self.began[number] = _clock()
        self.running[number] = self.began[number], seconds
        self.calls.setdefault(number, []).append(action)

    def end(self, number: int) -> None:
        self.work += self.running.pop(number, (0.0, 0.0))[1]

    def total(self) -> float:
        now = _clock()
        return self.work + sum(min(seconds, now - began) for began, seconds in list(self.running.values()))


ACCOUNT = Account()


class Slow(gymnasium.Env):
    """Waits. Observes when its step was ready, when it began, and how long it took."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Discrete(2**31)

    def __init__(self, number: int, faults: float = 0.0) -> None:
        self.number, self.faults = number, faults
        self.rng = np.random.default_rng([number, len(ACCOUNT.calls.get(number, ()))])

    def plan(self, action: int) -> tuple[float, str]:
        seconds = float(np.clip(self.rng.lognormal(np.log(MEDIAN), SIGMA), SHORTEST, LONGEST))
        what = str(self.rng.choice(["raise", "hang", "disconnect"])) if self.rng.random() < self.faults else ""
        ACCOUNT.begin(self.number, DEADLINE if what == "hang" else seconds, action)
        return seconds, what

    def result(self, began: float, seconds: float) -> Any:
        ACCOUNT.end(self.number)
        return np.array([_clock(), began, seconds]), 0.0, False, False, {}

    async def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3), {}

    async def step(self, action: Any) -> Any:
        began = _clock()
        seconds, what = self.plan(int(action))
        try:
            await asyncio.sleep(3600.0 if what == "hang" else seconds)
        except asyncio.CancelledError:
            ACCOUNT.end(self.number)
            raise
        if what:
            ACCOUNT.end(self.number)
            raise RuntimeError("on purpose") if what == "raise" else ConnectionResetError("on purpose")
        return self.result(began, seconds)


class Blocking(Slow):
    """The same with ordinary methods."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3), {}

    def step(self, action: Any) -> Any:
        began = _clock()
        seconds, _ = self.plan(int(action))
        time.sleep(seconds)
        return self.result(began, seconds)


@dataclass
class Report:
    name: str
    envs: int
    seconds: float
    steps: int
    work: float
    latencies: list[float]
    lost: int = 0
    doubled: int = 0
    late: int = 0
    faults: int = 0
    cpu: float = 0.0
    of_children: float = 0.0
    """Bytes of memory of child processes; what they share is counted once."""

    def line(self) -> str:
        p50, p99 = (1e3 * np.percentile(self.latencies, share) if self.latencies else np.nan for share in (50, 99))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + self.of_children / 2**20
        return (
            f"| {self.name} | {self.envs:,} | {self.seconds:.0f} s | {self.steps:,} | {self.work:.1%} | {p50:.1f} ms | "
            f"{p99:.1f} ms | {memory:,.0f} MB | {self.cpu / self.seconds:.0%} | {self.faults:,} | "
            f"{self.lost}/{self.doubled}/{self.late} |"
        )


def run_asyncio(count: int, duration: float, faults: float) -> Report:
    """vecenv: the first that are ready, in batches."""
    ACCOUNT.__init__()
    fns = [partial(Slow, number, faults) for number in range(count)]
    options = vecenv.engines.Asyncio(step_timeout=DEADLINE, classify=lambda error, phase: "infrastructure")
    envs = vecenv.make(fns, engine=options, on_error="restart", check_finite="off")
    gc.set_threshold(10 * count)  # see docs/slow_envs.md
    envs.reset()
    sent, got = np.ones(count, np.int64), np.zeros(count, np.int64)
    latencies: list[float] = []
    failed = late = 0
    resets = np.zeros(count, np.bool_)
    started, cpu_started = _clock(), time.process_time()
    envs.send(sent)
    while (now := _clock()) - started < duration:
        step = envs.recv(1, until=0.004)
        now = _clock()
        rows = step.env_ids
        got[rows] += 1
        is_fault = np.zeros(len(rows), np.bool_)
        if "_fault" in step.infos:
            is_fault = step.infos["_fault"]
            failed += int(is_fault.sum())
            late += sum(now - ACCOUNT.began[row] > DEADLINE + 0.1 for row in rows[is_fault].tolist())
        good = ~is_fault & ~resets[rows]
        latencies += (now - step.obs[good, 0]).tolist()
        resets[rows] = is_fault
        sent[rows] += 1
        envs.send(sent[rows], rows)
    work, cpu = ACCOUNT.total() / (count * (_clock() - started)), time.process_time() - cpu_started
    now = _clock()
    late += sum(now - began > DEADLINE + 0.1 for began, _ in list(ACCOUNT.running.values()))  # not delivered at all
    pending = envs.engine.pending()
    expected = got.copy()
    expected[pending] += 1
    lost = int((sent != expected).sum())
    doubled = sum(len(calls) - len(set(calls)) for calls in ACCOUNT.calls.values())
    steps = int(got.sum())
    envs.close(timeout=30.0)
    name = "vecenv, asyncio" + (f", {faults:.0%} faults" if faults else "")
    return Report(name, count, duration, steps, work, latencies, lost, doubled, late, failed, cpu)


def run_threads(count: int, duration: float, threads: int = 32) -> Report:
    """A pool of threads that runs one blocking step of any env at a time, as rollout workers of trainers do."""
    ACCOUNT.__init__()
    envs = [Blocking(number) for number in range(count)]
    ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stopping = threading.Event()

    def step(env: Blocking, action: int) -> None:
        if not stopping.is_set():
            ready.put((env, action, env.step(action)))

    latencies: list[float] = []
    with ThreadPoolExecutor(threads) as pool:
        started = _clock()
        for env in envs:
            pool.submit(step, env, 1)
        while (left := duration - (_clock() - started)) > 0:
            try:
                env, action, (obs, *_) = ready.get(timeout=left)
            except queue.Empty:
                break
            latencies.append(_clock() - obs[0])
            pool.submit(step, env, action + 1)
        work = ACCOUNT.total() / (count * (_clock() - started))
        stopping.set()
    return Report(f"pool of {threads} threads", count, duration, len(latencies), work, latencies)


def run_gymnasium(most: int, duration: float) -> Report:
    """Gymnasium's AsyncVectorEnv: a process per env, every step waits for the slowest. As many envs as start."""
    envs, count = _as_many_as_start(most)
    seconds, steps, started = 0.0, 0, _clock()
    while _clock() - started < duration:
        obs, *_ = envs.step(np.ones(count, np.int64))
        seconds += float(obs[:, 2].sum())
        steps += count
    elapsed = _clock() - started
    children = sum(child.memory_full_info().pss for child in psutil.Process().children())
    envs.close(terminate=True)
    work = seconds / (count * elapsed)
    return Report("Gymnasium AsyncVectorEnv", count, elapsed, steps, work, [], of_children=children)


_CONFIG = {"config": SimpleNamespace(taskset=SimpleNamespace(id="steps"))}


def run_verifiers(count: int, duration: float, workers: int = 2) -> Report:
    """verifiers' pool of environment servers: its broker, workers, client and protocol, with a step as the rollout."""
    return asyncio.run(_ask_verifiers(count, duration, workers))


async def _ask_verifiers(count: int, duration: float, workers: int) -> Report:
    from verifiers.v1.serve import client, pool
    from verifiers.v1.serve.types import RunResponse

    broker = pool.EnvServerPool(_CONFIG, workers, "tcp://127.0.0.1:*", log_setup=_serve_steps, elastic=False)
    serving = asyncio.create_task(broker.run())
    asking = client.EnvClient(broker.address)
    request = _step_request()
    await asyncio.gather(*(asking._request(request(number=-1), RunResponse) for _ in range(workers)))  # they have begun
    latencies: list[float] = []
    since: dict[int, float] = {}
    seconds = 0.0

    async def drive(number: int) -> None:
        nonlocal seconds
        while True:
            since[number] = _clock()
            answer = await asking._request(request(number=number), RunResponse)
            latencies.append(_clock() - answer.head["ready"])
            seconds += answer.head["seconds"]

    started = _clock()
    driving = [asyncio.create_task(drive(number)) for number in range(count)]
    await asyncio.sleep(duration)
    now = _clock()
    seconds += sum(min(now - began, LONGEST) for began in since.values())
    children = sum(child.memory_full_info().pss for child in psutil.Process().children(recursive=True))
    for task in (*driving, serving):
        task.cancel()
    await asyncio.gather(*driving, serving, return_exceptions=True)
    work = seconds / (count * (now - started))
    return Report("verifiers' pool", count, duration, len(latencies), work, latencies, of_children=children)


def _step_request() -> Any:
    from verifiers.v1.serve.types import BaseRequest

    class StepRequest(BaseRequest):
        method: ClassVar[str] = "run"
        number: int

    return StepRequest


def _serve_steps() -> None:
    """In a worker of verifiers: what it runs is a step of one of our envs. The rest is theirs."""
    from verifiers.v1.serve import pool
    from verifiers.v1.serve import server as theirs
    from verifiers.v1.serve.types import RunResponse

    request, envs = _step_request(), dict[int, Slow]()

    class Server(theirs.EnvServer):
        async def _run(self, req: Any, client_id: bytes, request_id: bytes) -> Any:
            if req.number < 0:
                return RunResponse(head={})
            obs, *_ = await envs.setdefault(req.number, Slow(req.number)).step(0)
            return RunResponse(head={"ready": float(obs[0]), "seconds": float(obs[2])})

    class Environment(SimpleNamespace):
        """What a server asks of its environment when it starts."""

        @classmethod
        def task_type(cls) -> Any:
            return SimpleNamespace(data_type=lambda: SimpleNamespace(model_fields={}))

        @contextlib.asynccontextmanager
        async def serving(self) -> AsyncIterator[None]:
            yield

    theirs.load_environment = lambda config: Environment(taskset=Environment())
    theirs.RunRequest = request
    pool.EnvServer = Server


def _as_many_as_start(count: int) -> tuple[gymnasium.vector.AsyncVectorEnv, int]:
    """So many envs, or half as many as long as they do not start."""
    while True:
        fns = [partial(Blocking, number) for number in range(count)]
        try:
            envs = gymnasium.vector.AsyncVectorEnv(fns, shared_memory=False)
            envs.reset()
            return envs, count
        except (OSError, EOFError, MemoryError) as error:
            print(f"{count} processes of Gymnasium do not start: {error!r}", file=sys.stderr)
            count //= 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--processes", type=int, default=1024, help="envs of Gymnasium, one process each, at most")
    parser.add_argument("--only", choices=["asyncio", "faults", "threads", "gymnasium", "verifiers"], action="append")
    parser.add_argument("--here", action="store_true", help="run the contestants in this process, and print no head")
    chosen = parser.parse_args()
    contestants = {
        "asyncio": lambda: run_asyncio(chosen.envs, chosen.seconds, 0.0),
        "faults": lambda: run_asyncio(chosen.envs, chosen.seconds, 0.05),
        "threads": lambda: run_threads(chosen.envs, chosen.seconds),
        "gymnasium": lambda: run_gymnasium(chosen.processes, chosen.seconds),
        "verifiers": lambda: run_verifiers(chosen.envs, chosen.seconds),
    }
    names = chosen.only or [name for name in contestants if name != "verifiers"]
    if chosen.here:
        for name in names:
            print(contestants[name]().line(), flush=True)
        return
    print(
        "| who | envs | for | steps | work | ready to delivered p50 | p99 | memory | CPU | faults | lost/doubled/late |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    sizes = [f"--{option}={getattr(chosen, option)}" for option in ("envs", "seconds", "processes")]
    for name in names:
        subprocess.run([sys.executable, __file__, "--here", *sizes, f"--only={name}"], check=True)


if __name__ == "__main__":
    main()
