"""Which engine runs the envs, and why."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import inspect
import threading
import time
from collections.abc import Collection, Mapping
from typing import Any

import gymnasium

from vecenv._batch.faults import ENV_RAISED, Fault
from vecenv._front.action_masks import sample_after
from vecenv._front.stats import CHEAP_SECONDS, LITTLE_SECONDS
from vecenv._util.cpus import usable_cpus
from vecenv._util.text import text_of, type_name
from vecenv.engines import registry
from vecenv.engines.aio.homes import is_awaited
from vecenv.engines.aio.options import Asyncio
from vecenv.engines.options import EngineBuilder, EngineOptions, no_such_option
from vecenv.engines.process.options import Process
from vecenv.engines.python.envs import Factory, build_envs
from vecenv.engines.python.factories import MakeEnv
from vecenv.engines.python.options import Sync
from vecenv.engines.request import Request, Source
from vecenv.errors import ConfigError, EngineRefused, EnvError

_PROBE_SECONDS = 0.02
_CLOSE_SECONDS = 5.0
"""How long the trial env of an `async def close` is waited for."""
_OF_A_TRIAL = (
    "this was a trial of a few steps, which chooses the engine: engine='sync' makes no trial, on_error='restart' "
    "restarts envs that fail"
)
_AWAITED = "step() or reset() of the envs is an async def, which the asyncio engine awaits"


def choose(
    engine: Any, options: Mapping[str, Any], source: Source, request: Request
) -> tuple[EngineBuilder | EngineOptions, str]:
    """The engine to build and why.

    Args:
        engine: "auto", the name of an engine, or an engine object.
        options: options of engines that were given as keywords of `make`.
        source, request: what is to be run.

    Raises:
        UnknownEngine: no engine has this name, or this is no engine object.
        EngineRefused: the engine cannot do this, or none that "auto" chooses can.
        ConfigError: an option has a value that is not valid.
    """
    if isinstance(engine, str) and engine == "auto":
        return _choose(options, source, request)
    asked = find_engine(engine, options)
    refusal = asked.refuses(source, request)
    if refusal is not None:
        raise EngineRefused(refusal)
    return asked, f"engine={asked.name!r} was asked for"


def find_engine(engine: Any, options: Mapping[str, Any]) -> EngineBuilder | EngineOptions:
    """The engine object that a name and options, or an object and options, stand for."""
    if isinstance(engine, (str, type)) or not _is_engine(engine):
        kind = registry.find(engine)
        lacking = kind.lacks(options)
        if lacking is not None:
            raise EngineRefused(lacking)
        return kind(**options)
    fields: Any = dataclasses.fields(engine) if dataclasses.is_dataclass(engine) else ()
    defaults = {each.name: each.default for each in fields}
    asked: Any = engine
    for name, value in options.items():
        if name not in defaults:
            raise EngineRefused(no_such_option(asked.name, name, value))
        if getattr(asked, name) != defaults[name]:
            raise ConfigError(
                f"{name} is given twice: {name}={value!r:.40} and engine={asked!r}; leave one of them out"
            )
    return dataclasses.replace(asked, **options) if options else asked


def _is_engine(engine: Any) -> bool:
    return isinstance(getattr(engine, "name", None), str) and all(
        callable(getattr(engine, method, None)) for method in ("refuses", "build")
    )


def _choose(options: Mapping[str, Any], source: Source, request: Request) -> tuple[EngineOptions, str]:
    """The first engine for native code of this source that does not refuse it, else one for Python envs."""
    able: dict[str, EngineOptions] = {}
    refused: dict[str, str] = {}
    for kind in registry.classes():
        if not kind.automatic:
            continue
        lacking = kind.lacks(options)
        if lacking is not None:
            refused[kind.name] = lacking
            continue
        engine = kind(**options)
        refusal = engine.refuses(source, request)
        if refusal is None:
            able[kind.name] = engine
        else:
            refused[kind.name] = refusal
    natives = [able.get(kind.name) or kind() for kind in registry.classes() if kind.native]
    preferred = {engine.name: why for engine in natives if (why := engine.reason(source)) is not None}
    for name, why in preferred.items():
        if name in able:
            return able[name], why
    able = {name: engine for name, engine in able.items() if not engine.native}
    factory = source.env_fns[0]
    if _makes_awaited(factory):
        return _asyncio(options, source, request), _AWAITED
    if not able:
        raise EngineRefused(_nothing_fits(options, refused, preferred))
    try:
        chosen, reason = _choose_python(able, refused, factory, request)
    except _IsAwaited:
        return _asyncio(options, source, request), _AWAITED
    return chosen, reason + "".join(f" (not the {name} engine: {_without_advice(refused[name])})" for name in preferred)


def _makes_awaited(factory: Factory) -> bool:
    """Whether the envs are known to be awaited before one is built: by their class, or by an `async def` factory."""
    made = factory.source if isinstance(factory, MakeEnv) else factory
    while isinstance(made, functools.partial):
        made = made.func
    return inspect.iscoroutinefunction(made) or (isinstance(made, type) and is_awaited(made))


def _asyncio(options: Mapping[str, Any], source: Source, request: Request) -> EngineOptions:
    """The engine for envs whose calls are awaited."""
    refusal = Asyncio.lacks(options)
    if refusal is None:
        engine = Asyncio(**options)
        refusal = engine.refuses(source, request)
        if refusal is None:
            return engine
    raise EngineRefused(f"{_AWAITED}; {refusal}")


def _without_advice(refusal: str) -> str:
    """Why an engine was not chosen. The advice after the semicolon is for users who asked for that engine."""
    return refusal.partition(";")[0]


def _nothing_fits(options: Mapping[str, Any], refused: Mapping[str, str], preferred: Collection[str]) -> str:
    """The message when "auto" finds no engine."""
    for name, value in options.items():
        able = registry.having(name)
        if not set(able) & set(refused):
            used = registry.words(able)
            return f"engine='auto' chooses no engine with the option {name} (got {value!r:.40}); pass {used}"
    having = [name for name in refused if registry.find(name).lacks(options) is None]
    if not having:
        return f"no engine has all of the options {', '.join(options)}; leave one of them out"
    # An engine for native code that this env does not have is only mentioned if there is no other.
    relevant = [name for name in having if not registry.declares(name, "native") or name in preferred] or having
    reasons = list(dict.fromkeys(refused[name] for name in relevant))
    if len(reasons) > 1:
        return "engine='auto' found no engine for this: " + "; ".join(f"{name}: {refused[name]}" for name in relevant)
    needed = [f"{name}={value!r:.40} needs {registry.words(registry.having(name))}" for name, value in options.items()]
    return ": ".join([*needed, reasons[0]]) if len(having) == 1 else reasons[0]


def _choose_python(
    able: Mapping[str, EngineOptions], refused: Mapping[str, str], factory: Factory, request: Request
) -> tuple[EngineOptions, str]:
    """The engine for Python envs, and why."""
    count = request.num_envs
    if Process.name not in able:
        chosen = able.get(Sync.name) or next(iter(able.values()))
        return chosen, f"the {chosen.name} engine, because {_without_advice(refused[Process.name])}"
    process = able[Process.name]
    if Sync.name not in able:
        return process, f"the {process.name} engine, because {_without_advice(refused[Sync.name])}"
    sync, workers = able[Sync.name], min(usable_cpus(), count)
    if count == 1:
        return sync, "one env: nothing to run side by side"
    if workers == 1:
        return sync, "one processor: other processes would only add waiting"
    try:
        seconds = _time_steps(factory)
    except EnvError as error:
        if request.on_error == "raise":
            raise
        raised = f"{type_name(error.__cause__)}: {text_of(error.__cause__)}"
        return process, f"a trial step failed ({raised}), and on_error='restart': other processes survive what envs do"
    work = f"a step of {count} envs takes {count} x {seconds * 1e6:.0f} us"
    if seconds < CHEAP_SECONDS and seconds * count < LITTLE_SECONDS:
        return sync, f"{work}: less than it takes to hand it to other processes and back"
    return process, f"{work}: worth {workers} processes"


def _time_steps(factory: Factory) -> float:
    """Median seconds of a step of one env, measured for a few milliseconds with random actions that it allows.

    Raises:
        EnvError: the env failed.
        _IsAwaited: its calls are awaited.
    """
    (env,) = build_envs([factory])
    innermost: Any = env
    while isinstance(innermost, gymnasium.Wrapper):
        innermost = innermost.env
    if is_awaited(env) or is_awaited(innermost):  # the asyncio engine refuses wrappers that do not await, by name
        # In a thread, because a loop may be running here; a daemon, so that a close that hangs holds up nothing.
        closing = threading.Thread(target=lambda: asyncio.run(_close_awaited(env)), daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
        raise _IsAwaited
    try:
        answer = env.reset(seed=0)
        actions = copy.deepcopy(env.action_space)  # it may be the class's, and its stream is not ours to move
        actions.seed(0)
        times: list[float] = []
        deadline = time.perf_counter() + _PROBE_SECONDS
        while not times or (time.perf_counter() < deadline and len(times) < 1000):
            action = sample_after(actions, answer)
            started = time.perf_counter()
            answer = env.step(action)
            times.append(time.perf_counter() - started)
            _, _, terminated, truncated, _ = answer
            if terminated or truncated:
                answer = env.reset()
        return sorted(times)[len(times) // 2]
    except ENV_RAISED as error:
        raise _trial_error(error) from error
    finally:
        env.close()


def _trial_error(error: BaseException) -> EnvError:
    """The error for what an env raised in the trial; its traceback begins in the env."""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None:
        BaseException.with_traceback(error, trace.tb_next)
    return Fault.of(error, "step").to_error(0, advice=_OF_A_TRIAL)


async def _close_awaited(env: Any) -> None:
    with contextlib.suppress(Exception):
        closed = env.close()
        if inspect.isawaitable(closed):
            await asyncio.wait_for(closed, _CLOSE_SECONDS)


class _IsAwaited(Exception):
    """The calls of an env are awaited."""
