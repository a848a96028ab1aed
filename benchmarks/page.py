"""Measure vecenv next to other libraries and write docs/benchmarks.md with its tables and pictures.

    python benchmarks/page.py                    # measure everything that is installed (five minutes), write the page
    python benchmarks/page.py --only cartpole    # measure some questions again; the figures of others are kept
    python benchmarks/page.py --write            # measure nothing: write the page again

What takes part is what is installed: `pip install 'vecenv[bench,atari,mujoco,rllib,jax]' gymnax torchrl==0.14.*
pufferlib-core==3.0.5` brings everything (pufferlib-core with --no-deps; PufferLib itself has no wheel).

Each question runs in a process of its own. Its contestants take turns and the best turn of each counts. Two figures
are kept: env steps per second, and env steps per second of processor time, of the process and all of its workers, which
other programs on the machine disturb less. Figures are in benchmarks/page.json, each question with the machine and the
day on which it was measured; nothing on the page is typed by hand. A library that is not installed, or fails, is
named on the page.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import vecenv

HERE = Path(__file__).parent
FIGURES, PAGE = HERE / "page.json", HERE.parent / "docs" / "benchmarks.md"
PICTURES = HERE.parent / "docs" / "pictures" / "benchmarks"
TURNS, SECONDS = 3, 0.4
LIMIT, BUDGET = 150, 400
"""Seconds that a question may take, and all of them together by default."""
LIBRARIES = {
    "gymnasium": "gymnasium", "stable-baselines3": "stable_baselines3", "envpool": "envpool",
    "pufferlib-core": "pufferlib", "gymnax": "gymnax", "ray": "ray", "torchrl": "torchrl", "jax": "jax",
    "torch": "torch", "mujoco": "mujoco", "ale-py": "ale_py", "numba": "numba", "numpy": "numpy",
}  # fmt: skip
"""Package and module of what takes part, for the list of versions."""

Running = tuple[Callable[[int], Any], Callable[[], Any]]
"""A function that steps all envs once, given a number that counts up, and one that closes them."""
Builders = dict[str, Callable[[], Running]]

# --- measuring -------------------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """Processor time of this process and of all of its children."""
    import psutil

    total = time.process_time()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system
    return total


def race(builders: Builders, steps: int) -> dict[str, Any]:
    """Of each contestant its best rates, or why it has none. `steps` are the env steps of one exchange."""
    running: dict[str, Running] = {}
    found: dict[str, Any] = {}
    for name, build in builders.items():
        try:
            running[name] = build()
            running[name][0](0)
        except Exception as error:  # of another library: it is named on the page
            found[name] = {"missing": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
            running.pop(name, None)
    for _ in range(TURNS):
        for name, (exchange, _) in running.items():
            exchange(0)
            before, started, exchanges = cpu_seconds(), time.perf_counter(), 0
            while (spent := time.perf_counter() - started) < SECONDS:
                exchange(exchanges)
                exchanges += 1
            used = max(cpu_seconds() - before, 1e-9)
            best = found.setdefault(name, {"rate": 0.0, "cpu": 0.0})
            best["rate"] = max(best["rate"], exchanges * steps / spent)
            best["cpu"] = max(best["cpu"], exchanges * steps / used)
    for _, close in running.values():
        with contextlib.suppress(Exception):
            close()
    return found


# --- CartPole --------------------------------------------------------------------------------------------------------

SIZES = (16, 256, 4096)
PROCESSES = 16
"""Largest number of envs for libraries that start a process for each."""


def cartpole() -> dict[str, Any]:
    """Random actions, by number of envs."""
    from vecenv.cli._contestants import contestants
    from vecenv.cli._sources import EnvSource

    source = EnvSource("CartPole-v1", "CartPole-v1")
    listed, missing = contestants(source)
    left_out = ("vecenv thread", "vecenv device")
    found: dict[str, Any] = {}
    for size in SIZES:
        builders: Builders = {}
        for one in listed:
            alone = one.most < 1 << 20  # a process for each env
            if one.name not in left_out and (not alone or size <= PROCESSES):
                builders[one.name] = lambda build=one.build, size=size: build(source, size)[:2]
        builders["gymnax, jit"] = partial(_gymnax, size)
        if size <= PROCESSES:
            builders["TorchRL SerialEnv"] = partial(_torchrl, size)
        found[str(size)] = race(builders, size)
        found[str(size)] |= {name: {"missing": why} for name, why in missing.items() if not name.startswith("vecenv")}
    return found


def _gymnax(count: int) -> Running:
    import gymnax
    import jax

    env, parameters = gymnax.make("CartPole-v1")
    reset = jax.jit(jax.vmap(env.reset, (0, None)))
    step = jax.jit(jax.vmap(env.step, (0, 0, 0, None)))
    _, state = reset(jax.random.split(jax.random.PRNGKey(0), count), parameters)
    keys = [jax.random.split(jax.random.PRNGKey(number), count) for number in range(8)]
    actions = np.random.default_rng(0).integers(0, 2, (16, count)).astype(np.int32)
    held = [state]

    def exchange(turn: int) -> None:
        obs, held[0], *_ = step(keys[turn % 8], held[0], actions[turn % 16], parameters)
        np.asarray(obs)  # the others return NumPy arrays

    return exchange, lambda: None


def _torchrl(count: int) -> Running:
    from torchrl.envs import GymEnv, SerialEnv

    return _torchrl_stepping(SerialEnv(count, lambda: GymEnv("CartPole-v1")))


def _torchrl_vector() -> Running:
    from torchrl.envs import GymEnv

    return _torchrl_stepping(GymEnv("CartPole-v1", num_envs=16))


def _torchrl_stepping(envs: Any) -> Running:
    root = [envs.reset()]
    actions = [envs.action_spec.rand() for _ in range(16)]

    def exchange(turn: int) -> None:
        root[0]["action"] = actions[turn % 16]
        _, root[0] = envs.step_and_maybe_reset(root[0])

    return exchange, envs.close


# --- rollouts with a policy ------------------------------------------------------------------------------------------

ROWS, LENGTH = 1024, 100


def rollouts() -> dict[str, Any]:
    """Rollouts of a linear policy: 1,024 CartPoles, 100 steps in one call where there is one."""
    builders: Builders = {
        "vecenv, rollout(policy)": _native_rollout,
        "vecenv, step and NumPy": _numpy_rollout,
        "vecenv, xla() in lax.scan": _xla_rollout,
        "gymnax, lax.scan": _gymnax_rollout,
    }
    return race(builders, ROWS * LENGTH)


def _native_rollout() -> Running:
    envs = vecenv.make("CartPole-v1", ROWS, autoreset="same-step")
    envs.reset(seed=0)

    def policy(obs):  # compiled as kernels are
        return 1 if obs[2] + obs[3] > 0 else 0

    return lambda _: envs.rollout(policy=policy, steps=LENGTH), envs.close


def _numpy_rollout() -> Running:
    envs = vecenv.make("CartPole-v1", ROWS, autoreset="same-step")
    obs = [envs.reset(seed=0)[0]]

    def exchange(_: int) -> None:
        for _ in range(LENGTH):
            obs[0] = envs.step((obs[0][:, 2] + obs[0][:, 3] > 0).astype(np.int64))[0]

    return exchange, envs.close


def _xla_rollout() -> Running:
    import jax
    import jax.numpy as jnp

    envs = vecenv.make("CartPole-v1", ROWS, autoreset="same-step")
    first, _ = envs.reset(seed=0)
    handle, _, _, step = envs.xla()

    def body(carry, _):
        handle, obs = carry
        handle, (obs, *_) = step(handle, (obs[:, 2] + obs[:, 3] > 0).astype(jnp.int32))
        return (handle, obs), None

    run = jax.jit(lambda handle, obs: jax.lax.scan(body, (handle, obs), None, length=LENGTH)[0])
    held = [handle, jnp.asarray(first)]

    def exchange(_: int) -> None:
        held[:] = jax.block_until_ready(run(*held))

    return exchange, envs.close


def _gymnax_rollout() -> Running:
    import gymnax
    import jax
    import jax.numpy as jnp

    env, parameters = gymnax.make("CartPole-v1")
    step = jax.vmap(env.step, (0, 0, 0, None))

    def body(carry, key):
        obs, state = carry
        actions = (obs[:, 2] + obs[:, 3] > 0).astype(jnp.int32)
        obs, state, *_ = step(jax.random.split(key, ROWS), state, actions, parameters)
        return (obs, state), None

    run = jax.jit(lambda obs, state, key: jax.lax.scan(body, (obs, state), jax.random.split(key, LENGTH))[0])
    held = list(jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.PRNGKey(0), ROWS), parameters))

    def exchange(turn: int) -> None:
        held[:] = jax.block_until_ready(run(*held, jax.random.PRNGKey(turn)))

    return exchange, lambda: None


# --- which engine ----------------------------------------------------------------------------------------------------

COUNT = 16
STEP_TIMES = (0.0, 1e-5, 1e-4, 1e-3, 4e-3)


class Busy(gymnasium.Env[np.ndarray, int]):
    """A step computes for some seconds."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, seconds: float) -> None:
        self._seconds, self._obs = seconds, np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self._obs, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        deadline = time.thread_time() + self._seconds
        while self._seconds and time.thread_time() < deadline:
            pass
        return self._obs, 1.0, False, False, {}


def engines() -> dict[str, Any]:
    """Sixteen environments whose steps take ever longer."""
    found = {}
    for seconds in STEP_TIMES:
        factory = partial(Busy, seconds)
        builders: Builders = {
            f"vecenv {engine}": partial(_stepping, partial(vecenv.make, factory, COUNT, engine=engine))
            for engine in ("sync", "thread", "process")
        }
        builders["gymnasium async"] = partial(_stepping, partial(gymnasium.vector.AsyncVectorEnv, [factory] * COUNT))
        builders["SB3 Subproc"] = partial(_stepping, partial(_subproc, factory, COUNT))
        found[f"{seconds * 1e6:g}"] = race(builders, COUNT)
    return found


def _subproc(factory: Callable[[], Any], count: int) -> Any:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    return SubprocVecEnv([factory] * count, start_method="fork")  # starts in a fraction of the time; steps are the same


def _stepping(make: Callable[[], Any], actions: np.ndarray | None = None) -> Running:
    envs = make()
    envs.reset()
    chosen = np.zeros((1, COUNT), np.int64) if actions is None else actions
    return lambda turn: envs.step(chosen[turn % len(chosen)]), envs.close


# --- simulators ------------------------------------------------------------------------------------------------------


def mujoco() -> dict[str, Any]:
    """HalfCheetah-v5, 32 at once."""
    actions = np.random.default_rng(0).uniform(-1, 1, (31, 32, 6)).astype(np.float32)
    id, threads = "HalfCheetah-v5", os.cpu_count() or 1

    def pool() -> Any:
        import envpool

        return envpool.make_gymnasium(id, num_envs=32, num_threads=threads)

    makers: dict[str, Callable[[], Any]] = {
        "vecenv mujoco": lambda: vecenv.make(id, 32, engine="mujoco"),
        "vecenv process": lambda: vecenv.make(id, 32, engine="process"),
        "gymnasium sync": lambda: gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(id)] * 32),
        "EnvPool": pool,
    }
    return race({name: partial(_stepping, make, actions) for name, make in makers.items()}, 32)


def atari() -> dict[str, Any]:
    """Pong, 16 at once, grey 84 x 84 frames in stacks of four."""
    from atari import ACTIONS, bare, ours, pooled

    makers: dict[str, Callable[[], Any]] = {
        "vecenv ale": ours,
        "vecenv process": lambda: ours(engine="process"),
        "ale-py AtariVectorEnv": bare,
        "EnvPool": pooled,
    }
    return race({name: partial(_stepping, make, ACTIONS) for name, make in makers.items()}, 16)


# --- behind other libraries ------------------------------------------------------------------------------------------

RLLIB_ENVS, RLLIB_STEPS = 64, 64


def rllib() -> dict[str, Any]:
    """Samples of RLlib's PPO: its own environments, and vecenv's three modes."""
    import logging

    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    modes: Builders = {"RLlib, its own envs": partial(_sampling, None)}
    modes |= {f"vecenv.rllib, {mode}": partial(_sampling, mode) for mode in ("vec", "packed_vec", "native")}
    return race(modes, RLLIB_ENVS * RLLIB_STEPS)


def _sampling(mode: str | None) -> Running:
    from ray.rllib.algorithms.ppo import PPOConfig

    import vecenv.rllib

    steps = RLLIB_ENVS * RLLIB_STEPS
    config = PPOConfig().debugging(seed=0, log_level="ERROR")
    if mode is None:
        config.environment("CartPole-v1").training(train_batch_size_per_learner=steps, minibatch_size=1024)
        config.env_runners(num_env_runners=0, num_envs_per_env_runner=RLLIB_ENVS, rollout_fragment_length=RLLIB_STEPS)
    else:
        vecenv.rllib.configure(config, "CartPole-v1", RLLIB_ENVS, mode=mode, train_batch=steps, minibatch=1024)
    algorithm = config.build_algo()
    return lambda _: algorithm.env_runner.sample(), algorithm.stop


def torchrl() -> dict[str, Any]:
    """Sixteen CartPoles as a TorchRL env: TensorDicts in and out."""
    builders: Builders = {
        "TorchRL SerialEnv": partial(_torchrl, 16),
        "TorchRL GymEnv(num_envs=16)": _torchrl_vector,
        "vecenv.torchrl.env": _our_torchrl,
    }
    return race(builders, 16)


def _our_torchrl() -> Running:
    import vecenv.torchrl

    return _torchrl_stepping(vecenv.torchrl.env("CartPole-v1", 16))


def sb3() -> dict[str, Any]:
    """PPO of Stable-Baselines3 learns, on 64 CartPoles: rollouts and updates."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    import vecenv.sb3

    torch.set_num_threads(1)

    def learning(make: Callable[[], Any]) -> Running:
        envs = make()
        model = PPO("MlpPolicy", envs, n_steps=16, batch_size=1024, n_epochs=2, device="cpu")
        return lambda _: model.learn(64 * 16, reset_num_timesteps=False), envs.close

    factories = [lambda: gymnasium.make("CartPole-v1")] * 64
    makers = {
        "SB3 Dummy": lambda: DummyVecEnv(factories),
        "vecenv.sb3.wrap(compiled)": lambda: vecenv.sb3.wrap(vecenv.make("CartPole-v1", 64, autoreset="same-step")),
    }
    return race({name: partial(learning, make) for name, make in makers.items()}, 64 * 16)


QUESTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    one.__name__: one for one in (cartpole, rollouts, engines, mujoco, atari, sb3, rllib, torchrl)
}

# --- running ---------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the page says about the machine."""
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB",
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in LIBRARIES if _installed(package)},
        "not installed": [package for package in LIBRARIES if not _installed(package)],
    }


def _installed(package: str) -> bool:
    return importlib.util.find_spec(LIBRARIES[package]) is not None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def ask(name: str, limit: float) -> dict[str, Any]:
    """Run one question in a process of its own, for at most `limit` seconds: its results, or why there are none."""
    started = time.perf_counter()
    command = [sys.executable, "-W", "ignore", __file__, "--question", name]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        try:
            out, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the workers of all libraries too
            return {"failed": f"it took more than {limit:.0f} s"}
    print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
    last = out.strip().splitlines()[-1:]
    if process.returncode or not last:
        return {"failed": (errors.strip().splitlines() or ["no output"])[-1][:160]}
    return {"results": json.loads(last[0])}


def circumstances() -> dict[str, Any]:
    """On what machine, on which day and under what load a question is measured; kept with its results."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"machine": machine(), "date": today, "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="*", default=[], choices=QUESTIONS, metavar="NAME", help=f"{', '.join(QUESTIONS)}"
    )
    parser.add_argument("--budget", type=float, default=BUDGET, help=f"seconds for all questions, default {BUDGET}")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for one question, default {LIMIT}")
    parser.add_argument("--write", action="store_true", help="measure nothing")
    parser.add_argument("--question", choices=QUESTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.question:
        warnings.simplefilter("ignore")
        print(json.dumps(QUESTIONS[options.question]()), flush=True)
        os._exit(0)  # some libraries leave threads behind that would wait
    questions = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if not options.write:
        ends = time.monotonic() + options.budget
        for name in options.only or QUESTIONS:
            about = circumstances()
            answer = ask(name, max(1.0, min(options.limit, ends - time.monotonic())))
            if "failed" in answer:
                print(f"{name}: {answer['failed']}")
            questions[name] = about | answer
        FIGURES.write_text(json.dumps(questions, indent=1) + "\n")
    draw(questions)
    PAGE.write_text(page(questions))
    print(f"written: {PAGE.name}, {len(list(PICTURES.iterdir()))} pictures")


# --- the page --------------------------------------------------------------------------------------------------------


def page(questions: dict[str, Any]) -> str:
    """The text of docs/benchmarks.md."""
    return "\n\n".join(map(_wrapped, "\n".join(_lines(questions)).split("\n\n"))) + "\n"


def draw(questions: dict[str, Any]) -> None:
    """Draw the pictures of the page."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    if results := questions.get("cartpole", {}).get("results"):
        _draw_bars(_best_rates(results), PICTURES / "speed.svg")
    if results := questions.get("engines", {}).get("results"):
        _draw_lines(results, list(next(iter(results.values()))), PICTURES / "engines.svg")


def _machine_tables(questions: dict[str, Any]) -> Iterator[str]:
    """One table for all questions, or one for each machine and day on which some were measured."""
    places: dict[str, list[str]] = {}
    for name, one in questions.items():
        places.setdefault(json.dumps([one["machine"], one["date"]]), []).append(name)
    for place, names in places.items():
        about, date = json.loads(place)
        loads = [questions[name]["load"] for name in names]
        yield ""
        yield "| the machine | |\n|---|---|"
        if len(places) > 1:
            yield f"| tables | {', '.join(names)} |"
        yield f"| processors | {about['processors']} x {about['processor']} |"
        yield f"| memory | {about['memory']} |"
        yield f"| system | {about['system']}, Python {about['python']} |"
        loads_words = f"{min(loads):.1f} to {max(loads):.1f} when a table began, the table before it included"
        yield f"| load average | {loads_words} |"
        yield f"| measured on | {date} |"
        yield f"| versions | {', '.join(f'{package} {version}' for package, version in about['versions'].items())} |"
        if about["not installed"]:
            yield f"| not installed | {', '.join(about['not installed'])} |"


def _lines(questions: dict[str, Any]) -> Iterator[str]:
    yield "# Benchmarks"
    yield ""
    yield "Written by `benchmarks/page.py` from the figures in `benchmarks/page.json`; nothing is typed by hand."
    yield ""
    yield "## The machine"
    yield from _machine_tables(questions)
    yield ""
    yield "Figures on other pages come from machines of this kind too, often busy with other work: look at ratios."
    yield ""
    yield f"Contestants of a table take turns, and the best of {TURNS} turns counts. Rates are env"
    yield "steps per second. *Per CPU"
    yield "second* counts the processor time of the process and of all its workers: other programs"
    yield "disturb it less, and it"
    yield "says what a step costs. Your ratios will differ, above all with more processors:"
    yield "`vecenv bench` measures them."
    yield from _cartpole_page(questions.get("cartpole", {}))
    yield from _simple_page(
        questions.get("rollouts", {}), "Whole rollouts", "gymnax, lax.scan",
        "A linear policy and 1,024 CartPoles, 100 steps at a time. vecenv compiles the policy with the kernel, or "
        "steps inside JAX's `lax.scan`; gymnax is written in JAX.",
    )  # fmt: skip
    yield from _engines_page(questions.get("engines", {}))
    yield from _simple_page(
        questions.get("mujoco", {}),
        "MuJoCo",
        "gymnasium sync",
        "32 HalfCheetah-v5, random actions ([MuJoCo](mujoco.md)).",
    )
    yield from _simple_page(
        questions.get("atari", {}), "Atari", "ale-py AtariVectorEnv",
        "16 games of Pong, grey frames of 84 x 84 in stacks of four, frame skip 4 ([Atari](atari.md)).",
    )  # fmt: skip
    yield from _simple_page(
        questions.get("sb3", {}), "Behind Stable-Baselines3", "SB3 Dummy",
        "SB3's PPO learns on 64 CartPoles, rollouts and updates together ([how-to](how_to/sb3.md)).",
    )  # fmt: skip
    yield from _simple_page(
        questions.get("rllib", {}), "Behind RLlib", "RLlib, its own envs",
        f"One `sample()` of RLlib's PPO: {RLLIB_ENVS} CartPoles, {RLLIB_STEPS} steps, the policy included "
        "([the three modes](rllib.md)).",
    )  # fmt: skip
    yield from _simple_page(
        questions.get("torchrl", {}), "Behind TorchRL", "TorchRL SerialEnv",
        "16 CartPoles, TensorDicts in and out ([TorchRL](clients/torchrl.md)).",
    )  # fmt: skip
    yield ""
    yield "## More figures"
    yield ""
    yield "Other programs in `benchmarks/` measure single questions, and the pages that quote them name the program:"
    yield "[devices](gpu.md#speed-on-a-cpu), [several agents](agents.md#speed), [RLlib](rllib.md#figures),"
    yield "[many nodes](scaling.md#what-limits-a-run), [JAX](clients/jax.md), [TorchRL](clients/torchrl.md),"
    yield "[checked kernels](kernels.md#checked-native-code), [the recorder](debugging.md). What trained agents reach"
    yield "is in [Results](results.md)."


def _wrapped(paragraph: str) -> str:
    """Lines of at most 120 characters, except in tables."""
    if paragraph.startswith("|"):
        return paragraph
    return textwrap.fill(" ".join(paragraph.split()), 120, break_long_words=False, break_on_hyphens=False)


def _rate(value: float) -> str:
    """Three digits: 45.5M, 108k, 930."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}" if value < 100 * size else f"{value / size:.0f}{unit}"
    return f"{value:.3g}"


def _failed(question: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield f"This table could not be measured: {question.get('failed', 'it has not been run yet')}."


def _missing(results: dict[str, Any]) -> Iterator[str]:
    missing = {name: one["missing"] for name, one in results.items() if "missing" in one}
    if missing:
        yield ""
        yield "Not measured: " + "; ".join(f"{name} ({why})" for name, why in sorted(missing.items())) + "."


def _simple_page(question: dict[str, Any], title: str, reference: str, words: str) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield words
    if "results" not in question:
        yield from _failed(question)
        return
    results = question["results"]
    rates = {name: one for name, one in results.items() if "rate" in one}
    base = rates.get(reference)
    yield ""
    yield f"| | steps/s | per CPU second | x {reference}, by CPU time |" if base else "| | steps/s | per CPU second | |"
    yield "|---|---|---|---|"
    for name, one in rates.items():
        times = f"{one['cpu'] / base['cpu']:.3g}" if base else ""
        yield f"| {name} | {_rate(one['rate'])} | {_rate(one['cpu'])} | {times} |"
    yield from _missing(results)


def _cartpole_page(question: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield "## CartPole"
    yield ""
    yield "CartPole-v1 with random actions, by number of envs. An environment that costs next to nothing shows what a"
    yield f"library adds. Libraries that start a process for each env are measured with {PROCESSES}."
    if "results" not in question:
        yield from _failed(question)
        return
    results = question["results"]
    best = _best_rates(results)
    yield ""
    first = max(best, key=best.__getitem__)
    yield "![Bars, on a logarithmic axis: env steps per second of processor time, of each library at its best number of"
    yield f"envs. The highest is {first} with {_rate(best[first])}; the table below has all"
    yield "numbers](pictures/benchmarks/speed.svg)"
    yield ""
    yield "| | " + " | ".join(f"{int(size):,} envs | per CPU second" for size in results) + " |"
    yield "|---|" + "---|---|" * len(results)
    for name in best:
        cells = (table.get(name, {}) for table in results.values())
        yield (
            f"| {name} | "
            + " | ".join(f"{_rate(one['rate'])} | {_rate(one['cpu'])}" if "rate" in one else " | " for one in cells)
            + " |"
        )
    yield from _missing(next(iter(results.values())))


def _best_rates(results: dict[str, Any]) -> dict[str, float]:
    """Env steps per second of processor time of each library, at its best number of envs."""
    rates = [(name, one["cpu"]) for table in results.values() for name, one in table.items() if "rate" in one]
    return {name: max(rate for other, rate in rates if other == name) for name, _ in rates}


def _engines_page(question: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Which engine for which environment"
    yield ""
    yield f"{COUNT} environments whose step computes for a given time, from nothing to four"
    yield "milliseconds. Processes pay when"
    yield "a step takes longer than handing it over ([what bounds a run](explanation/what_bounds_a_run.md))."
    if "results" not in question:
        yield from _failed(question)
        return
    results = question["results"]
    names = list(next(iter(results.values())))
    yield ""
    yield "![Lines, steps per second on a logarithmic axis: each engine, against the time that one"
    yield "step takes. The table below"
    yield "has all numbers](pictures/benchmarks/engines.svg)"
    yield ""
    yield "| a step takes | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(names)
    for micros, table in results.items():
        yield (
            f"| {float(micros):g} us | "
            + " | ".join(_rate(table[name]["rate"]) if "rate" in table[name] else "" for name in names)
            + " |"
        )
    yield from _missing(next(iter(results.values())))


def _style() -> Any:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "vecenv", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    return plt


def _draw_bars(best: dict[str, float], path: Path) -> None:
    plt = _style()
    ordered = sorted(best.items(), key=lambda one: one[1])
    figure, axes = plt.subplots(figsize=(7.2, 0.32 * len(ordered) + 0.9), layout="constrained")
    colors = ["#2f6fbb" if name.startswith("vecenv") else "#b9bfcc" for name, _ in ordered]
    bars = axes.barh([name for name, _ in ordered], [value for _, value in ordered], color=colors)
    axes.bar_label(bars, [_rate(value) for _, value in ordered], padding=3)
    axes.set_xscale("log")
    axes.set_xlim(right=3.5 * ordered[-1][1])
    axes.set_xlabel("CartPole-v1: env steps per second of processor time (logarithmic)")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _draw_lines(results: dict[str, Any], names: list[str], path: Path) -> None:
    plt = _style()
    figure, axes = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
    places = range(len(results))
    for name in names:
        values = [table[name].get("rate", float("nan")) for table in results.values()]
        axes.plot(places, values, marker="o", label=name, linestyle="-" if name.startswith("vecenv") else "--")
    axes.set_xticks(list(places), [f"{float(micros):g} us" for micros in results])
    axes.set_yscale("log")
    axes.set_xlabel("one step of one environment")
    axes.set_ylabel(f"steps per second, {COUNT} envs")
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
