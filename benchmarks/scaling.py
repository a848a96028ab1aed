"""What bounds a run on many nodes: a small simulation, fed with what this machine measures and with assumptions.

Each node runs actors that collect fragments; fragments go over the network to one learner, which takes in one after the
other; weights go back to all nodes. Compute times vary from fragment to fragment (log-normal) and some actors are slow.
Three ways of working are compared:

    lockstep      actions and observations of every step travel; each step waits for all actors
    all           fragments; the learner takes one of each actor, then all go on
    first ready   fragments; an actor goes on as soon as the learner has taken its fragment

The last two pay alike: a round trip before every fragment, and new weights after as many fragments as there are actors;
an actor waits for them once, before it begins its first fragment with them. Learning itself takes no time here. Prints
Markdown: the inputs, each measured or assumed, and the tables; writes benchmarks/results/scaling.json.

Run: python benchmarks/scaling.py [--gbits 25] [--weights-mb 10] [--nodes 1 10 100 1000]   (needs 'vecenv[ray]')
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import platform
import time
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import vecenv
from vecenv.distributed import Rollouts

ACTORS, ENVS, STEPS, FRAGMENTS = 8, 1024, 64, 12
"""Actors per node, envs of each, steps of a fragment, fragments of each actor in a simulated run."""
FRAME = 84 * 84
MANY = 4
"""Actors of the measurement that tells what one more of them costs in lockstep."""
COLUMNS = ("obs", "final_obs", "actions", "reward", "terminated", "truncated")
WEIGHTS = np.array([0.1, 0.2, 1.0, 1.0], np.float32)


def measured(meaning: str) -> Any:
    return field(metadata={"source": "measured", "meaning": meaning})


def assumed(meaning: str) -> Any:
    return field(metadata={"source": "assumed", "meaning": meaning})


@dataclass(frozen=True)
class Inputs:
    """Seconds and bytes."""

    step: float = measured("s per env step in an actor, CPU time, compiled CartPole and a product as policy")
    spread: float = measured("standard deviation of the logarithm of fragments' times on the clock")
    round_trip: float = measured("s from asking one actor for a fragment of one step until it is here")
    take: float = measured("s of CPU time of the learner's process per fragment, with a copy of all its columns")
    call: float = measured("s of CPU time of the learner's process per step for each further actor in lockstep")
    step_bytes: float = measured("bytes per env step of a fragment")
    lockstep_bytes: float = measured("bytes per env step in lockstep, actions included")
    expensive_step: float = assumed("s per env step of expensive envs, such as a physics simulation")
    network: float = assumed("bytes/s of the learner's network, each way")
    weights: float = assumed("bytes of the weights; nodes pass them on: n nodes have them after log2(n + 1) transfers")
    slow_share: float = assumed("share of the actors that are slow throughout")
    slow_factor: float = assumed("how many times slower they are")


def policy(obs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (obs @ weights > 0).astype(np.int64)


def measure(turns: int) -> dict[str, float]:
    """The measured inputs."""
    inside, cpu, short = [], [], []
    with Rollouts("CartPole-v1", ENVS, policy, workers=1, num_cpus=0.25, seed=0, autoreset="same-step") as rollouts:
        (fragment,) = rollouts.collect(STEPS, WEIGHTS)
        sizes = {name: getattr(fragment, name).nbytes for name in COLUMNS}
        took = time.process_time()
        for _ in range(turns):
            before = rollouts.load()[0]
            (fragment,) = rollouts.collect(STEPS)
            for name in COLUMNS:
                getattr(fragment, name).copy()
            after = rollouts.load()[0]
            inside.append(after.seconds - before.seconds)
            cpu.append(after.cpu_seconds - before.cpu_seconds)
        took = time.process_time() - took
        for _ in range(turns):
            started = time.perf_counter()
            list(rollouts.collect(1))
            short.append(time.perf_counter() - started)
    return {
        "step": float(np.median(cpu)) / (STEPS * ENVS),
        "spread": float(np.std(np.log(inside))),
        "round_trip": float(np.median(short)),
        "take": took / turns,
        "call": (lockstep_cpu(MANY, turns) - lockstep_cpu(1, turns)) / (MANY - 1),
        "step_bytes": sum(sizes.values()) / (STEPS * ENVS),
        "lockstep_bytes": (sum(sizes.values()) - sizes["final_obs"]) / (STEPS * ENVS),
    }


def lockstep_cpu(workers: int, turns: int) -> float:
    """CPU time of this process for one step of that many actors."""
    options: dict[str, Any] = {"engine": "ray", "workers": workers, "num_cpus": 0.25, "autoreset": "same-step"}
    with vecenv.make("CartPole-v1", workers * ENVS, **options) as envs:
        obs, _ = envs.reset(seed=0)
        actions = policy(obs, WEIGHTS)
        for _ in range(5):
            envs.step(actions)
        started = time.process_time()
        for _ in range(turns):
            envs.step(actions)
        return (time.process_time() - started) / turns


@dataclass(frozen=True)
class Outcome:
    """Env steps per second, and shares of the time that the learner's network and processor, and actors, worked."""

    rate: float
    network: float
    learner: float
    actors: float

    def __str__(self) -> str:
        return f"{self.actors:.0%}, {self.learner:.0%}, {self.network:.0%}"


def lockstep(inputs: Inputs, nodes: int, generator: np.random.Generator) -> Outcome:
    """Every step waits for the slowest actor; one process and its network serve all of them."""
    actors, steps = nodes * ACTORS, 50
    compute = _compute(inputs, actors, steps, generator) / STEPS
    wire, handling = actors * ENVS * inputs.lockstep_bytes / inputs.network, actors * inputs.call
    total = float(np.sum(compute.max(axis=0) + inputs.round_trip + max(wire, handling)))
    shares = steps * wire / total, steps * handling / total, float(compute.mean(axis=0).sum()) / total
    return Outcome(steps * actors * ENVS / total, *shares)


def fragments(inputs: Inputs, nodes: int, generator: np.random.Generator, *, wait_for_all: bool) -> Outcome:
    """Events in order of time: an actor is done; its fragment passes the network, then the learner's processor."""
    actors = nodes * ACTORS
    compute = _compute(inputs, actors, FRAGMENTS, generator)
    sending, fetching = STEPS * ENVS * inputs.step_bytes / inputs.network, _broadcast(inputs, nodes)
    events = [(fetching + inputs.round_trip + compute[actor, 0], actor, 0) for actor in range(actors)]
    heapq.heapify(events)
    wire_free = cpu_free = worked = 0.0
    has, taken = [0] * actors, 0  # which weights each actor has, and fragments that the learner has taken
    going_on: list[tuple[int, int]] = []
    while taken < actors * FRAGMENTS:
        now, actor, number = heapq.heappop(events)
        wire_free = max(wire_free, now) + sending
        picked = max(cpu_free, wire_free)
        cpu_free, taken = picked + inputs.take, taken + 1
        worked += float(compute[actor, number % FRAGMENTS])
        going_on.append((actor, number + 1))
        if wait_for_all and taken % actors:
            continue
        begin = cpu_free if wait_for_all else picked
        for each, following in going_on:
            update = taken // actors
            waits = inputs.round_trip + (fetching if has[each] < update else 0.0)
            has[each] = update
            heapq.heappush(events, (begin + waits + compute[each, following % FRAGMENTS], each, following))
        going_on = []
    shares = taken * sending / cpu_free, taken * inputs.take / cpu_free, worked / actors / cpu_free
    return Outcome(taken * STEPS * ENVS / cpu_free, *shares)


def _broadcast(inputs: Inputs, nodes: int) -> float:
    return inputs.weights / inputs.network * math.ceil(math.log2(nodes + 1))


def _compute(inputs: Inputs, actors: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """[actors, count] seconds of fragments; some actors are slow throughout."""
    times = inputs.step * STEPS * ENVS * np.exp(generator.normal(0, inputs.spread, (actors, count)))
    slow = generator.random(actors) < inputs.slow_share
    return times * np.where(slow, inputs.slow_factor, 1.0)[:, None]


def simulate(inputs: Inputs, nodes: int) -> dict[str, Outcome]:
    """The three ways, with the same actors and times."""
    return {
        "lockstep": lockstep(inputs, nodes, np.random.default_rng(0)),
        "all": fragments(inputs, nodes, np.random.default_rng(0), wait_for_all=True),
        "first ready": fragments(inputs, nodes, np.random.default_rng(0), wait_for_all=False),
    }


def table(head: list[str], rows: list[list[str]]) -> None:
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def derived(inputs: Inputs, most: int) -> list[list[str]]:
    """What follows from the inputs alone."""
    limit, fragment = STEPS * ENVS / inputs.take, STEPS * ENVS
    rows = {
        "most env steps per second that one learner takes in": f"{limit / 1e6:.1f} M",
        "bytes per second at that rate": f"{limit * inputs.step_bytes / 1e9:.2f} GB",
        "their share of the network": f"{limit * inputs.step_bytes / inputs.network:.0%}",
        "84 x 84 frames per second that the network carries": f"{inputs.network / FRAME / 1e6:.2f} M",
        "one fragment of each actor of a node": f"{ACTORS * fragment * inputs.step_bytes / 1e6:.0f} MB",
        "the same with 84 x 84 frames": f"{ACTORS * fragment * FRAME / 1e9:.1f} GB",
        f"weights to {most:,} nodes that pass them on": f"{1e3 * _broadcast(inputs, most):.0f} ms",
        f"weights to {most:,} nodes, one by one": f"{1e3 * inputs.weights * most / inputs.network:,.0f} ms",
    }
    return [list(pair) for pair in rows.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gbits", type=float, default=25.0, help="the learner's network")
    parser.add_argument("--weights-mb", type=float, default=10.0)
    parser.add_argument("--expensive-us", type=float, default=20.0, help="microseconds of a step of expensive envs")
    parser.add_argument("--slow-share", type=float, default=0.02)
    parser.add_argument("--slow-factor", type=float, default=3.0)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--turns", type=int, default=100, help="repetitions of each measurement")
    options = parser.parse_args()
    inputs = Inputs(
        **measure(options.turns),
        expensive_step=options.expensive_us * 1e-6,
        network=options.gbits * 1e9 / 8,
        weights=options.weights_mb * 1e6,
        slow_share=options.slow_share,
        slow_factor=options.slow_factor,
    )
    machine = f"{len(os.sched_getaffinity(0))} processors ({platform.machine()}), load {os.getloadavg()[0]:.1f}"
    print(f"Machine: {machine}. {ACTORS} actors per node, {ENVS:,} envs each, fragments of {STEPS} steps.")
    values = [[each.name, f"{getattr(inputs, each.name):.3g}", *each.metadata.values()] for each in fields(inputs)]
    table(["input", "value", "measured / assumed", "what"], values)
    results: dict[str, Any] = {}
    for kind, case in {"cheap": inputs, "expensive": replace(inputs, step=inputs.expensive_step)}.items():
        results[kind] = {nodes: simulate(case, nodes) for nodes in options.nodes}
        print(f"\n{kind} envs, {case.step:.3g} s per step; M env steps/s; shares: actors, learner, network at work")
        rows = []
        for nodes, ways in results[kind].items():
            rates = [f"{way.rate / 1e6:.2f}" for way in ways.values()]
            rows.append([f"{nodes:,}", *rates, str(ways["all"]), str(ways["first ready"])])
        table(["nodes", "lockstep", "all", "first ready", "all: at work", "first ready: at work"], rows)
    print("\nwhat follows from the inputs")
    table(["", ""], derived(inputs, max(options.nodes)))
    path = Path(__file__).parent / "results" / "scaling.json"
    path.parent.mkdir(exist_ok=True)
    found = {
        kind: {nodes: {way: asdict(outcome) for way, outcome in ways.items()} for nodes, ways in by_nodes.items()}
        for kind, by_nodes in results.items()
    }
    path.write_text(json.dumps({"machine": machine, "inputs": asdict(inputs), "results": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
