"""Several agents per env: simple_spread by vecenv, SuperSuit and JaxMARL, in turn in one run.

Needs mpe2, and for the others supersuit, and jaxmarl; what is not installed is left out. Each figure is the best of
several rounds; rounds of all are interleaved. Steps are those of envs, each of which steps three agents.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import vecenv

ENVS, MANY = 64, 4096
Runner = Callable[[int], None]


def _vecenv(env: Any, count: int, **options: Any) -> tuple[Runner, Callable[[], None]]:
    envs: Any = vecenv.make(env, count, autoreset="same-step", **options)
    envs.reset(seed=0)
    actions = [envs.sample_actions() for _ in range(8)]

    def run(steps: int) -> None:
        for number in range(steps):
            envs.step(actions[number % 8])

    return run, envs.close


def _rollout(count: int) -> tuple[Runner, Callable[[], None]]:
    envs: Any = vecenv.make("SimpleSpread-v0", count, autoreset="same-step")
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(5, size=(50, count, 3))

    def run(steps: int) -> None:
        for _ in range(steps // 50):
            envs.rollout(actions)

    return run, envs.close


def _plain(count: int) -> tuple[Runner, Callable[[], None]]:
    """mpe2's envs alone, one after another: what no vector env of Python envs can be faster than in one process."""
    from mpe2 import simple_spread_v3

    envs = [simple_spread_v3.parallel_env() for _ in range(count)]
    for number, env in enumerate(envs):
        env.reset(seed=number)
    drawn = np.random.default_rng(0).integers(5, size=(8, 3))
    actions = [dict(zip(envs[0].possible_agents, each, strict=True)) for each in drawn]

    def run(steps: int) -> None:
        for number in range(steps):
            for env in envs:
                env.step(actions[number % 8])
                if not env.agents:
                    env.reset()

    return run, lambda: None


def _supersuit(count: int, processes: int) -> tuple[Runner, Callable[[], None]]:
    import supersuit
    from mpe2 import simple_spread_v3

    one = supersuit.pettingzoo_env_to_vec_env_v1(simple_spread_v3.parallel_env())
    envs = supersuit.concat_vec_envs_v1(one, count, num_cpus=processes, base_class="gymnasium")
    envs.reset(seed=0)
    actions = [np.random.default_rng(number).integers(5, size=3 * count) for number in range(8)]

    def run(steps: int) -> None:
        for number in range(steps):
            envs.step(actions[number % 8])

    return run, envs.close


def _jaxmarl(count: int) -> tuple[Runner, Callable[[], None]]:
    import jax
    from jaxmarl import make

    env = make("MPE_simple_spread_v3")
    keys = jax.random.split(jax.random.PRNGKey(0), count)
    _, state = jax.vmap(env.reset)(keys)
    drawn = jax.random.randint(jax.random.PRNGKey(1), (50, len(env.agents), count), 0, 5)

    @jax.jit
    def many(state: Any, key: Any) -> Any:
        def one(carried: Any, moves: Any) -> Any:
            state, key = carried
            key, own = jax.random.split(key)
            actions = dict(zip(env.agents, moves, strict=True))
            obs, state, reward, done, _ = jax.vmap(env.step)(jax.random.split(own, count), state, actions)
            return (state, key), (obs, reward, done)

        (state, key), results = jax.lax.scan(one, (state, key), drawn)
        return state, key, results

    carried = [state, jax.random.PRNGKey(2)]

    def run(steps: int) -> None:
        for _ in range(steps // 50):
            carried[0], carried[1], results = many(*carried)
            jax.block_until_ready(results)

    run(50)
    return run, lambda: None


def _compare(runners: dict[str, tuple[Runner, Callable[[], None]]], envs: int, steps: int, rounds: int) -> None:
    """Print the best of several rounds, and how many times as fast each is as the last, by wall and by CPU time."""
    best_wall, best_cpu = dict.fromkeys(runners, np.inf), dict.fromkeys(runners, np.inf)
    for _ in range(rounds):
        for name, (run, _) in runners.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run(steps)
            best_wall[name] = min(best_wall[name], time.perf_counter() - wall)
            best_cpu[name] = min(best_cpu[name], time.process_time() - cpu)
    last = list(runners)[-1]
    for name, (_, close) in runners.items():
        close()
        speed, cpu = envs * steps / best_wall[name], 1e6 * best_cpu[name] / (envs * steps)
        ratios = f"{best_wall[last] / best_wall[name]:7.2f}x wall {best_cpu[last] / best_cpu[name]:7.2f}x CPU"
        print(f"{name:36s} {speed:12,.0f} env steps/s {cpu:9.2f} us CPU here per step {ratios} of {last}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    suits = importlib.util.find_spec("supersuit") is not None
    name = "pettingzoo:mpe2.simple_spread_v3"
    print(f"{ENVS} envs of mpe2's simple_spread")
    small: dict[str, Any] = {"mpe2 alone": _plain(ENVS), "vecenv sync": _vecenv(name, ENVS, engine="sync")}
    if suits:
        small["SuperSuit, this process"] = _supersuit(ENVS, 0)
    _compare(small, ENVS, 10, arguments.rounds)
    apart: dict[str, Any] = {"vecenv, native code": _vecenv("SimpleSpread-v0", ENVS)}
    apart["vecenv process"] = _vecenv(name, ENVS, engine="process", workers=arguments.processes)
    if suits:
        apart["SuperSuit, processes"] = _supersuit(ENVS, arguments.processes)
    _compare(apart, ENVS, 10, arguments.rounds)
    print(f"{MANY} envs of simple_spread as native code")
    many: dict[str, Any] = {"vecenv step": _vecenv("SimpleSpread-v0", MANY, engine="compiled")}
    many["vecenv rollout"] = _rollout(MANY)
    if importlib.util.find_spec("jaxmarl") is not None:
        many["JaxMARL, jit and scan"] = _jaxmarl(MANY)
    _compare(many, MANY, 50, arguments.rounds)


if __name__ == "__main__":
    main()
