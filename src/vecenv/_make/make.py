"""`make`: from an id or a function to a running vector env."""

from __future__ import annotations

import copy as copying
import inspect
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from vecenv._batch.faults import Fault, OnError
from vecenv._batch.finite import Policies, Policy
from vecenv._batch.seeding import Seeding
from vecenv._front.autoreset import parse_mode
from vecenv._front.stats import CHEAP_SECONDS, LITTLE_SECONDS
from vecenv._front.vector_env import Order, VectorEnv
from vecenv._make.builds import compiled_kwargs, find_build, refuses_compiled, split_parameters, time_limit
from vecenv._make.tasks import make_task_envs, refuses_task, task_kernel, task_reason, task_source
from vecenv._util.checks import patience, positive_int, positive_seconds
from vecenv._util.cpus import usable_cpus
from vecenv._util.suggest import did_you_mean
from vecenv.atari._ids import are_games, register_games
from vecenv.engines.facts import check_observation_mode
from vecenv.engines.process.launch import check_context
from vecenv.engines.python.build import build_engine
from vecenv.engines.python.envs import Factory, build_envs
from vecenv.engines.python.factories import Wrapper, factories
from vecenv.errors import ConfigError, ConfigTypeError, EngineRefused, UnknownEngine
from vecenv.kernel.language.define import Kernel
from vecenv.mujoco._registry import find_task

EngineName = Literal["auto", "compiled", "mujoco", "ale", "sync", "thread", "process", "ray"]
LocalEngine = Literal["auto", "compiled", "sync", "thread", "process"]
ENGINES = ("compiled", "mujoco", "ale", "sync", "thread", "process", "ray")
_PROBE_SECONDS = 0.02
_ELSEWHERE = {
    "autoreset_mode": "autoreset",
    "n_envs": "num_envs",
    "num_workers": "workers",
    "start_method": "context",
    "vectorization_mode": "engine",
}
"""What Gymnasium, SB3 and others call our arguments."""


def make(
    env: Any,
    num_envs: int = 1,
    *,
    engine: EngineName = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    autoreset: str | AutoresetMode = "next-step",
    copy: bool = True,
    context: Any = None,
    seeding: Seeding = "gymnasium",
    on_error: OnError = "raise",
    check_finite: Policy | Mapping[str, Policy] | None = None,
    timeout: float | None = None,
    start_timeout: float = 60.0,
    order: Order = "first-ready",
    observation_mode: Any = "same",
    caller_works: bool = False,
    precision: Literal["exact", "fast"] = "exact",
    env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    wrappers: Sequence[Wrapper] | None = None,
    preprocessing: Any = None,
    ray_address: str | None = None,
    num_cpus: float = 1.0,
    local_engine: LocalEngine = "auto",
    record: Literal["last-episode"] | None = None,
    record_folder: str | os.PathLike[str] = "recordings",
    record_limit: int = 256 * 2**20,
    **kwargs: Any,
) -> VectorEnv:
    """Make `num_envs` environments and run them as one.

    Args:
        env: an id of a kernel or a Gymnasium env, the class of a kernel or of a MuJoCo task, an EnvSpec, a callable
            that makes an env, or a list of such callables (one per env).
        num_envs: how many; left out with a list.
        engine: "compiled" (for kernels), "mujoco" (for MuJoCo tasks), "ale" (for preprocessed Atari games), "sync",
            "thread", "process", "ray" (actors, on any number of machines), or "auto": the fastest on this machine that
            is faithful, see `engine_reason`.
        workers: threads, processes or actors; default: the processors this process may use, at most one per env.
        batch_size: how many envs `recv` waits for by default; fewer than `num_envs` means whoever is ready first.
        autoreset: "next-step", "same-step" or "disabled", or Gymnasium's AutoresetMode.
        copy: False hands out views of the batch that the next step overwrites; those of kernels stay as they are during
            the next three steps.
        context: start method of processes ("fork", "forkserver", "spawn") or a multiprocessing context.
        seeding: how `reset(seed=int)` spreads over envs: "gymnasium" (seed, seed + 1, ...) or "spawn" (never
            overlapping).
        on_error: "raise", or "restart": build a failed env again and report its episode as truncated.
        check_finite: what to do about NaN and infinity: "error" (a NotFiniteError; that env needs a reset), "truncate"
            (end its episode, with `info["fault"]`, and go on), "warn" (once per env) or "off"; for observations and
            rewards alike, or {"obs": ..., "reward": ...}. Default: rewards warn, observations are not looked at.
        timeout: seconds that a step, reset or call may take; None waits for ever. Not for the sync engine.
        start_timeout: seconds that building the envs in processes may take.
        order: "first-ready", or "fixed": `recv` returns envs in the order of their sends, those of one send by id.
        observation_mode: "same", "different" or Gymnasium's pair (batched space, single space).
        caller_works: process engine: the caller holds a share of the envs too and steps them instead of waiting.
        precision: kernels: "exact" (bit-equal to Python) or "fast" (several envs per instruction; sin, exp and the like
            within a few units in the last place).
        env_kwargs: constructor arguments of the envs, one dict for all or one per env.
        wrappers: single-env wrappers, applied to every env in this order.
        preprocessing: Atari games: True, "dqn", a dict of options or a `vecenv.atari.Preprocessing`.
        ray_address: Ray engine: a running cluster ("auto" or host:port); default: the one this process is connected to,
            or a new one on this machine that lives until the last user closes.
        num_cpus: Ray engine: processors that each actor reserves; a fraction is fine.
        local_engine: Ray engine: the engine inside each actor; "auto" is "compiled" for kernels, else "sync".
        record: "last-episode" keeps what is needed to run the current episode of each env again: how it began, and the
            actions since. When an env raises, returns something invalid, hangs, dies, or is not finite where
            check_finite is "error" or "truncate", a file of data is written, and the error names it (`.recording`; with
            on_error="restart" it is `info["fault"]["recording"]`). `vecenv replay FILE` runs it again;
            `envs.recording(row)` has the same on demand. What is changed from outside (`set_attr`, `call`, writing to
            `envs.state`) is not recorded, nor are the steps of `rollout`. Not for the ale engine.
        record_folder: where those files go. At most 100 of a vector env are kept, readable by their owner alone.
        record_limit: bytes to keep in memory. When there is more, the oldest steps are forgotten, and episodes that are
            longer are marked as not complete: they cannot be replayed.
        **kwargs: more constructor arguments, for all envs. A kernel's parameter may be an array of one value per env.

    Raises:
        ConfigError: an argument cannot be right. Nothing was started.
        EnvError: an env could not be built; it says which and why.
    """
    everything = dict(locals())
    num_envs = positive_int("num_envs", num_envs)
    _check_choice("seeding", seeding, ("gymnasium", "spawn"))
    _check_choice("on_error", on_error, ("raise", "restart"))
    _check_choice("order", order, ("first-ready", "fixed"))
    _check_choice("precision", precision, ("exact", "fast"))
    finite = Policies.parse(check_finite)
    mode = parse_mode(autoreset)
    check_observation_mode(observation_mode)
    timeout = None if timeout is None else patience(positive_seconds("timeout", timeout))
    start_timeout = positive_seconds("start_timeout", start_timeout)
    check_context(context)
    _check_for_ray(engine, ray_address=ray_address, num_cpus=num_cpus, local_engine=local_engine)
    register_games(env)
    if preprocessing is not None or engine == "ale" or are_games(env, engine):
        from vecenv.atari._make import make_games

        _check_no_misspelling(everything.pop("kwargs"), ())
        return make_games(**{**everything, "num_envs": num_envs, "env_kwargs": _merge(env_kwargs, kwargs)})
    recording = check_recording(record, record_folder, record_limit)
    source = resolve(env, num_envs, env_kwargs, wrappers, kwargs)
    kernel, env_fns, env_kwargs = source.kernel, source.env_fns, source.env_kwargs
    count = len(env_fns)
    check_batch_size(batch_size, count)
    workers = count_workers(workers, count, caller_works)
    asked = {"wrappers": wrappers, "observation_mode": observation_mode, "timeout": timeout}
    asked["caller_works"] = caller_works
    native = Native(
        kernel,
        refuses_compiled(kernel, env_kwargs, **asked),
        source.task,
        refuses_task(source.task, source.task_kernel, env_kwargs, **asked),
    )
    name, reason = _choose(engine, env_fns, workers, timeout, caller_works, native)
    front: dict[str, Any] = {"autoreset": mode, "batch_size": batch_size, "copy": copy, "seeding": seeding}
    front |= {"engine_reason": reason, "check_finite": finite}
    if name == "compiled":
        assert kernel is not None
        envs = _make_compiled(kernel, count, env_kwargs, precision, workers, front)
        return _finished(envs, source, recording)
    if name == "ray":
        from vecenv._make.ray_parts import make_ray

        envs = make_ray(
            kernel,
            env_fns,
            env_kwargs,
            front={**front, "timeout": timeout},
            workers=workers,
            local_engine=local_engine,
            wrappers=wrappers,
            precision=precision,
            num_cpus=num_cpus,
            observation_mode=observation_mode,
            on_error=on_error,
            ordered=order == "fixed",
            start_timeout=start_timeout,
            ray_address=ray_address,
        )
        return _finished(envs, source, recording)
    if name == "mujoco" and precision == "exact":
        envs = make_task_envs(source.task_kernel, count, env_kwargs, workers, front)
        return _finished(envs, source, recording)
    if precision != "exact":
        raise EngineRefused(f"precision={precision!r} is for the compiled engine, this is {name!r}: {reason}")
    built = build_engine(
        name,
        env_fns,
        workers=workers,
        context=context,
        observation_mode=observation_mode,
        on_error=on_error,
        ordered=order == "fixed",
        caller_works=caller_works,
        start_timeout=start_timeout,
    )
    return _finished(VectorEnv(built, timeout=timeout, **front), source, recording)


def _finished(envs: VectorEnv, source: Source, recording: tuple[Path, int] | None) -> VectorEnv:
    """What `make` returns: it knows its spec, and has a recorder if one is asked for."""
    envs.spec = source.spec
    if recording is not None:
        from vecenv.recording._attach import attach

        attach(envs, source.env_fns, *recording)
    return envs


def _make_compiled(
    kernel: Kernel, count: int, env_kwargs: Any, precision: Any, threads: int, front: dict[str, Any]
) -> VectorEnv:
    from vecenv._front.compiled_env import CompiledVectorEnv
    from vecenv.engines.native.compiled import CompiledEngine

    ours, theirs = compiled_kwargs(kernel, env_kwargs)
    engine = CompiledEngine(
        kernel,
        count,
        kwargs=ours,
        precision=precision,
        threads=threads,
        render_mode=theirs.get("render_mode"),
        max_episode_steps=time_limit(kernel, theirs),
    )
    return CompiledVectorEnv(engine, **front)


@dataclass(frozen=True)
class Source:
    """What a user passed to `make`, found out.

    Attributes:
        kernel: of the env, None if it has none.
        task: the MuJoCo task of the env, None if it has none.
        task_kernel: the kernel of that task, with the model that is asked for.
        env_fns: one Python factory per row.
        env_kwargs: their arguments.
        spec: Gymnasium's.
    """

    kernel: Kernel | None
    task: Any
    task_kernel: Kernel | None
    env_fns: list[Factory]
    env_kwargs: Any
    spec: EnvSpec | None


def resolve(env: Any, num_envs: int, env_kwargs: Any, wrappers: Any, kwargs: dict[str, Any]) -> Source:
    """Find the builds of what a user passes to `make`."""
    num_envs = positive_int("num_envs", num_envs)
    task = find_task(env)
    kernel, env = find_build(env) if task is None else (None, task_source(task, env))
    _check_no_misspelling(kwargs, kernel.params if kernel else ())
    if kwargs:
        env_kwargs = _merge(env_kwargs, kwargs)
    of_task = None if task is None else task_kernel(task, env_kwargs)
    native = kernel or of_task
    each = env_kwargs if native is None else split_parameters(native, env_kwargs, num_envs)
    env_fns, spec = factories(env, num_envs, each, wrappers)
    return Source(kernel, task, of_task, env_fns, env_kwargs, spec)


def refuses(engine: str, timeout: float | None = None, caller_works: bool = False) -> str | None:
    """Why this engine cannot do what is asked, None if it can."""
    if caller_works and engine != "process":
        return f"the {engine} engine has no share of work to give to the caller; use engine='process'"
    if engine == "sync" and timeout is not None:
        return (
            "the sync engine steps envs in the calling thread and cannot give up on one that hangs; "
            "use engine='process', or leave timeout out"
        )
    if engine == "process" and not hasattr(socket, "send_fds"):
        return "the process engine needs Unix sockets, which this platform does not have; use engine='thread' or 'sync'"
    return None


@dataclass(frozen=True)
class Native:
    """The native builds of an env, and why each cannot be used."""

    kernel: Kernel | None
    not_compiled: str | None
    task: Any
    not_task: str | None


def _choose(
    engine: str,
    env_fns: list[Factory],
    workers: int,
    timeout: float | None,
    caller_works: bool,
    native: Native,
) -> tuple[str, str]:
    """The engine's name and why."""
    if engine != "auto":
        if engine not in ENGINES:
            hint = did_you_mean(engine, ENGINES)
            known = ", ".join(map(repr, ENGINES))
            raise UnknownEngine(f"engine must be 'auto' or one of {known}, got {engine!r}{hint}")
        if engine in ("compiled", "mujoco"):
            reason = native.not_compiled if engine == "compiled" else native.not_task
        else:
            reason = refuses(engine, timeout, caller_works)
        if reason is not None:
            raise EngineRefused(reason)
        return engine, f"engine={engine!r} was asked for"
    if native.kernel is not None and native.not_compiled is None:
        return "compiled", f"{native.kernel.id} has a kernel: native code, bit-equal to the Python env"
    if native.task is not None and native.not_task is None:
        return "mujoco", task_reason(native.task)
    name, reason = _choose_python(env_fns, workers, timeout, caller_works)
    if native.kernel is not None:
        reason = f"{reason} (its kernel is not used: {native.not_compiled})"
    if native.task is not None:
        reason = f"{reason} (its MuJoCo task is not used: {native.not_task})"
    return name, reason


def _choose_python(env_fns: list[Factory], workers: int, timeout: float | None, caller_works: bool) -> tuple[str, str]:
    """The engine for Python envs, and why."""
    unfit = refuses("process")
    if unfit is not None:
        return "sync" if timeout is None else "thread", unfit
    if timeout is not None:
        return "process", "a timeout was asked for, and only another process can be ended when it hangs"
    if caller_works:
        return "process", "the caller is to work too"
    if len(env_fns) == 1:
        return "sync", "one env: nothing to run side by side"
    if workers == 1:
        return "sync", "one processor: other processes would only add waiting"
    seconds = _time_steps(env_fns[0])
    work = f"a step of {len(env_fns)} envs takes {len(env_fns)} x {seconds * 1e6:.0f} us"
    if seconds < CHEAP_SECONDS and seconds * len(env_fns) < LITTLE_SECONDS:
        return "sync", f"{work}: less than it takes to hand it to other processes and back"
    return "process", f"{work}: worth {workers} processes"


def _time_steps(factory: Factory) -> float:
    """Median seconds of a step of one env, measured for a few milliseconds with random actions."""
    (env,) = build_envs([factory])
    try:
        env.reset(seed=0)
        actions = copying.deepcopy(env.action_space)  # it may be the class's, and its stream is not ours to move
        actions.seed(0)
        times: list[float] = []
        deadline = time.perf_counter() + _PROBE_SECONDS
        while not times or (time.perf_counter() < deadline and len(times) < 1000):
            action = actions.sample()
            started = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            times.append(time.perf_counter() - started)
            if terminated or truncated:
                env.reset()
        return sorted(times)[len(times) // 2]
    except Exception as error:
        raise Fault.of(error, "step").to_error(0) from error
    finally:
        env.close()


def check_batch_size(batch_size: Any, count: int) -> None:
    """Raise unless so many of `count` envs can be received."""
    if batch_size is not None and not 1 <= positive_int("batch_size", batch_size) <= count:
        raise ConfigError(f"batch_size must be in 1 ... num_envs = {count}, got {batch_size}")


def check_recording(record: Any, folder: Any, limit: Any) -> tuple[Path, int] | None:
    """Where to write recordings and how many bytes to keep; None if nothing is to be recorded."""
    if not isinstance(folder, (str, os.PathLike)):
        raise ConfigTypeError(f"record_folder must be a path, got {type(folder).__name__} {folder!r:.40}")
    limit = positive_int("record_limit", limit)
    if record is None:
        return None
    if not isinstance(record, str) or record != "last-episode":
        raise ConfigError(f"record must be 'last-episode' or None, got {record!r:.40}")
    path = Path(os.fsdecode(folder)).absolute()
    there = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):  # it is made when something is written
        raise ConfigError(f"record_folder {str(path)!r}: {there} is no folder that can be written to; give another one")
    return path, limit


def count_workers(workers: Any, count: int, caller_works: bool = False) -> int:
    """How many workers share `count` envs."""
    if caller_works and count < 2:
        raise ConfigError("caller_works shares envs between the caller and workers, and there is only one env")
    most = count - caller_works
    if workers is None:
        return min(max(1, usable_cpus() - caller_works), most)
    number = positive_int("workers", workers)
    if number > most:
        raise ConfigError(f"workers must be in 1 ... {most} (one env each at least), got {workers}")
    return number


def _check_for_ray(engine: str, **given: Any) -> None:
    """Refuse what is for actors where there are none."""
    for name, value in given.items() if engine != "ray" else ():
        if value != inspect.signature(make).parameters[name].default:
            raise ConfigError(f"{name}={value!r} is for engine='ray', this is engine={engine!r}")


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _merge(env_kwargs: Any, kwargs: dict[str, Any]) -> Any:
    """Add `kwargs` to every mapping; what is none is left for `factories` to refuse."""
    if env_kwargs is None:
        return kwargs
    if isinstance(env_kwargs, Mapping):
        return {**env_kwargs, **kwargs}
    if isinstance(env_kwargs, (list, tuple)):
        return [_merge(entry, kwargs) for entry in env_kwargs]
    return env_kwargs


def _check_no_misspelling(kwargs: dict[str, Any], parameters: Iterable[str]) -> None:
    """An unknown keyword goes to the env, unless it looks like one of ours or is what others call it."""
    ours = [name for name in inspect.signature(make).parameters if name != "kwargs"]
    for name in kwargs.keys() - set(parameters):
        hint = did_you_mean(_ELSEWHERE.get(name, name), ours, cutoff=0.8)
        if hint:
            raise ConfigTypeError(f"unknown argument {name!r}{hint} (if it is the env's, pass it in env_kwargs)")
