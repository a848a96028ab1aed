"""What bounds a run on many nodes: a small simulation, fed with what this machine measures.

Each node runs actors that collect fragments; fragments go over the network to one learner, which takes in one after the
other; weights go back to all nodes. Compute times vary from fragment to fragment (log-normal) and some nodes are slow.
Three ways of working are compared:

    lockstep   actions and observations of every step travel
    all        fragments; the learner waits for one of each actor, then sends new weights
    first      fragments; an actor that is done goes on at once with the newest weights there are

Measured here: seconds per env step in an actor, bytes per env step, seconds per fragment at the learner, the round trip
of an actor, and how much fragments' times vary. Assumed: the network and the size of the weights (options).

Run: python benchmarks/scaling.py [--gbits 25] [--weights-mb 10] [--nodes 1 10 100 1000]   (needs 'vecenv[bench,ray]')
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from vecenv.distributed import Rollouts

ACTORS, ENVS, STEPS, FRAGMENTS = 8, 1024, 64, 12
"""Actors per node, envs of each, steps of a fragment, fragments of each actor in a simulated run."""


@dataclass(frozen=True)
class Inputs:
    """Seconds and bytes. The first six are measured, the others assumed."""

    step: float
    step_bytes: float
    lockstep_bytes: float
    land: float
    round_trip: float
    spread: float
    network: float
    weights: float
    slow_share: float = 0.02
    slow_factor: float = 3.0


def policy(obs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (obs @ weights > 0).astype(np.int64)


def measure(network: float, weights: float) -> Inputs:
    """Time fragments of one actor of compiled CartPoles."""
    first = np.array([0.1, 0.2, 1.0, 1.0], np.float32)
    with Rollouts("CartPole-v1", ENVS, policy, workers=1, seed=0, autoreset="same-step") as rollouts:
        inside, outside = [], []
        for _ in range(60):
            before, started = rollouts.load()[0].seconds, time.perf_counter()
            (fragment,) = rollouts.collect(STEPS, first)
            outside.append(time.perf_counter() - started)
            inside.append(rollouts.load()[0].seconds - before)
        short = []
        for _ in range(60):
            started = time.perf_counter()
            list(rollouts.collect(1))
            short.append(time.perf_counter() - started)
        arrays = (fragment.obs, fragment.final_obs, fragment.actions, fragment.reward)
        flags = fragment.terminated.nbytes + fragment.truncated.nbytes
        started = time.perf_counter()
        for _ in range(20):
            for array in arrays:
                array.copy()
        land = (time.perf_counter() - started) / 20
    taken = np.array(inside[10:])
    per_step = STEPS * ENVS
    return Inputs(
        step=float(np.median(taken)) / per_step,
        step_bytes=(sum(array.nbytes for array in arrays) + flags) / per_step,
        lockstep_bytes=(fragment.obs.nbytes + fragment.actions.nbytes + fragment.reward.nbytes + flags) / per_step,
        land=land + float(np.median(short)) / 2,
        round_trip=float(np.median(short)),
        spread=float(np.std(np.log(taken))),
        network=network,
        weights=weights,
    )


@dataclass(frozen=True)
class Outcome:
    """Env steps per second, and shares of the time that the learner's network and processor were at work."""

    rate: float
    network: float
    learner: float
    actors: float


def lockstep(inputs: Inputs, nodes: int, generator: np.random.Generator) -> Outcome:
    """Every step waits for the slowest actor, and all bytes pass the learner's network."""
    actors = nodes * ACTORS
    steps = 50
    compute = _compute(inputs, actors, steps, generator) / STEPS
    each = compute.max(axis=0)
    wire = actors * ENVS * inputs.lockstep_bytes / inputs.network
    handling = actors * inputs.round_trip / 4  # one call and one answer per actor, in one process
    total = float(np.sum(each + inputs.round_trip + wire + handling))
    shares = steps * wire / total, steps * handling / total, float(compute.mean(axis=0).sum()) / total
    return Outcome(steps * actors * ENVS / total, *shares)


def fragments(inputs: Inputs, nodes: int, generator: np.random.Generator, *, wait_for_all: bool) -> Outcome:
    """Events in order of time: an actor is done; its fragment passes the network, then the learner's processor."""
    actors = nodes * ACTORS
    compute = _compute(inputs, actors, FRAGMENTS, generator)
    size = STEPS * ENVS * inputs.step_bytes
    broadcast = inputs.weights / inputs.network * max(1, math.ceil(math.log2(nodes + 1)))  # nodes pass them on
    events = [(broadcast + compute[actor, 0], actor, 0) for actor in range(actors)]
    heapq.heapify(events)
    wire_free = cpu_free = wire_busy = cpu_busy = 0.0
    landed, budget = 0, actors * FRAGMENTS
    waiting: list[tuple[int, int]] = []
    while events and landed < budget:
        now, actor, number = heapq.heappop(events)
        wire_free = max(wire_free, now) + size / inputs.network
        cpu_free = max(cpu_free, wire_free) + inputs.land
        wire_busy, cpu_busy, landed = wire_busy + size / inputs.network, cpu_busy + inputs.land, landed + 1
        following = number + 1
        if wait_for_all:
            waiting.append((actor, following))
            if len(waiting) == actors:
                for each, upcoming in waiting:
                    if upcoming < FRAGMENTS:
                        heapq.heappush(events, (cpu_free + broadcast + compute[each, upcoming], each, upcoming))
                waiting = []
        else:
            # An actor may have two fragments on the way: it waits for the learner only beyond that.
            ready = max(now, wire_free - actors * size / inputs.network) + inputs.round_trip
            heapq.heappush(events, (ready + compute[actor, following % FRAGMENTS], actor, following))
    shares = wire_busy / cpu_free, cpu_busy / cpu_free, float(compute.mean()) * landed / actors / cpu_free
    return Outcome(landed * STEPS * ENVS / cpu_free, *shares)


def _compute(inputs: Inputs, actors: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """[actors, count] seconds of fragments; some actors are slow throughout."""
    times = inputs.step * STEPS * ENVS * np.exp(generator.normal(0, inputs.spread, (actors, count)))
    slow = generator.random(actors) < inputs.slow_share
    return times * np.where(slow, inputs.slow_factor, 1.0)[:, None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gbits", type=float, default=25.0, help="the learner's network")
    parser.add_argument("--weights-mb", type=float, default=10.0)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--step-us", type=float, help="microseconds of an env step, instead of the measured ones")
    options = parser.parse_args()
    inputs = measure(options.gbits * 1e9 / 8, options.weights_mb * 1e6)
    if options.step_us:
        inputs = Inputs(**{**asdict(inputs), "step": options.step_us * 1e-6})
    console = Console(width=120)
    for name, value in asdict(inputs).items():
        console.print(f"{name:>15} {value:.4g}")
    table = Table(title=f"{ACTORS} actors per node, {ENVS} envs each, fragments of {STEPS} steps")
    for column in ("nodes", "way", "M steps/s", "network busy", "learner busy", "actors busy"):
        table.add_column(column, justify="right")
    results = {}
    for nodes in options.nodes:
        ways = {
            "lockstep": lockstep(inputs, nodes, np.random.default_rng(0)),
            "all": fragments(inputs, nodes, np.random.default_rng(0), wait_for_all=True),
            "first": fragments(inputs, nodes, np.random.default_rng(0), wait_for_all=False),
        }
        results[nodes] = {way: asdict(outcome) for way, outcome in ways.items()}
        for way, outcome in ways.items():
            shares = (f"{share:.0%}" for share in (outcome.network, outcome.learner, outcome.actors))
            table.add_row(str(nodes), way, f"{outcome.rate / 1e6:,.1f}", *shares)
    console.print(table)
    path = Path(__file__).parent / "results" / "scaling.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"inputs": asdict(inputs), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
