"""Building envs, each where its calls will run."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium

from vecenv._util.text import type_name
from vecenv.engines.aio.homes import Home, LoopHome, ThreadHome, is_awaited
from vecenv.engines.python.copies import NoCopies
from vecenv.engines.python.envs import Factory, close_quietly
from vecenv.errors import Phase, SpaceError

Built: TypeAlias = tuple[gymnasium.Env[Any, Any], Home]
"""An env, and where it runs."""


class Raised(Exception):
    """What an env raised, in a wrapping: its exception may be one of the event loop's own, such as CancelledError.

    Attributes:
        error: the exception.
        phase: what the env was doing, if that differs from what the caller was doing.
    """

    def __init__(self, error: BaseException, phase: Phase | None = None) -> None:
        self.error = error
        self.phase: Phase | None = phase


async def build_env(loop: asyncio.AbstractEventLoop, factory: Factory, row: int) -> Built:
    """Build an env: an `async def` factory is awaited, others are called on a thread, which an ordinary env keeps.

    Raises:
        Raised: what the factory raised, or a SpaceError about what it returned.
    """
    name = f"vecenv-env-{row}"
    home: Home = LoopHome(loop) if inspect.iscoroutinefunction(factory) else ThreadHome(loop, name)
    work = home.start(factory)
    try:
        env, error = await asyncio.shield(work)
        if error is None and inspect.isawaitable(env):  # a function that is no `async def` and calls one
            home.leave()
            home = LoopHome(loop)
            work = home.start(lambda: env)
            env, error = await asyncio.shield(work)
    except asyncio.CancelledError:
        if home.in_loop:
            work.cancel()
        work.add_done_callback(lambda work: _close_late(work, home))
        raise
    error = error or check_env(row, env)
    if error is not None:
        home.leave()
        raise Raised(error)
    if home.in_loop != is_awaited(env):
        home.leave()
        home = ThreadHome(loop, name) if home.in_loop else LoopHome(loop)
    return env, home


def build_envs(
    loop: asyncio.AbstractEventLoop, factories: Sequence[Factory], at_once: int, rate: float | None, seconds: float
) -> dict[int, Any]:
    """Build many envs on threads, while the caller waits; the event loop is not needed for it.

    Each thread builds one env after another, until it has built an ordinary one, which it belongs to from then on.

    Args:
        loop: where envs that are awaited will run.
        factories: one per row.
        at_once: the number of threads that build.
        rate: how many envs may be begun per second; None for no limit.
        seconds: that this may take.

    Returns:
        By row a `Built`, an exception, or a coroutine that is to be awaited. Rows are missing that were late.
    """
    found: dict[int, Any] = {}
    rows, complete, stopping = deque(range(len(factories))), threading.Event(), threading.Event()
    turns, started = itertools.count(), time.monotonic()

    def serve(home: ThreadHome) -> None:
        while not stopping.is_set():
            try:
                row = rows.popleft()
            except IndexError:
                break
            if rate is not None and stopping.wait(max(0.0, started + next(turns) / rate - time.monotonic())):
                break
            built = _build_here(loop, factories[row], row, home)
            if stopping.is_set():
                if type(built) is tuple and built[1] is home:
                    home.start_outside(functools.partial(close_quietly, built[0]))
                break
            found[row] = built
            if len(found) == len(factories) or isinstance(built, BaseException):  # the others are not needed then
                complete.set()
            if type(built) is tuple and built[1] is home:
                begin()
                return
        home.leave()

    def begin() -> None:
        if rows:
            home = ThreadHome(loop, "vecenv-env")
            home.start_outside(functools.partial(serve, home))

    for _ in range(min(at_once, len(factories))):
        begin()
    try:
        complete.wait(seconds)
    finally:
        stopping.set()
    built = dict(found)
    found.clear()  # the functions above are a cycle, and would hold envs that are replaced until garbage is collected
    return built


def _build_here(loop: asyncio.AbstractEventLoop, factory: Factory, row: int, home: ThreadHome) -> Any:
    """Build an env on the thread that calls this, which is that of `home`."""
    try:
        with NoCopies():
            env: Any = factory()
        if inspect.isawaitable(env):
            return env
        error = check_env(row, env)
    except BaseException as raised:  # anything that an env raises is its own failure
        return raised
    if error is not None:
        return error
    return env, LoopHome(loop) if is_awaited(env) else home


def check_env(row: int, env: Any) -> SpaceError | None:
    """What is wrong with what a factory returned."""
    if not isinstance(env, gymnasium.Env):
        return SpaceError(f"env_fns[{row}]() returned {type_name(env)}, need a gymnasium.Env")
    if is_awaited(env) or not is_awaited(env.unwrapped):
        return None
    return SpaceError(
        f"env {row}: {type_name(env)} calls step() of {type_name(env.unwrapped)} and does not await it; pass a "
        "function that makes the env without wrappers of Gymnasium (gymnasium.make adds some)"
    )


def close_env(env: Any) -> Any:
    """Close an env that is replaced. What it raises is ignored."""
    return env.close() if is_awaited(env) else close_quietly(env)


def _close_late(work: asyncio.Future[Any], home: Home) -> None:
    """Close an env whose `make` has failed meanwhile, once it is built."""
    env = None if work.cancelled() else work.result()[0]
    home.leave(functools.partial(close_env, env) if isinstance(env, gymnasium.Env) else None)
