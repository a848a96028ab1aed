"""Where the calls of an env run: as coroutines in the event loop, or on a thread that is the env's own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from vecenv.engines.python.copies import NoCopies, end_copies_of_this_thread, end_copy, forks

Outcome: TypeAlias = tuple[Any, BaseException | None]
"""What a call returned, and what it raised."""


def is_awaited(env: Any) -> bool:
    """Whether an env's calls are coroutines: its `step` or its `reset` is an `async def`."""
    return any(inspect.iscoroutinefunction(getattr(env, name, None)) for name in ("step", "reset"))


class Home:
    """Runs the calls of one env, one at a time.

    Attributes:
        work: the call that runs, or ran last.
    """

    in_loop = True
    """Whether calls run in the event loop."""
    work: asyncio.Future[Outcome] | None = None

    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> asyncio.Future[Outcome]:
        """Begin a call. The future never raises; if it is cancelled, the call may go on, see `is_busy`."""
        raise NotImplementedError

    @property
    def is_busy(self) -> bool:
        """Whether a call that was given up is still running."""
        raise NotImplementedError

    def leave(self, function: Callable[..., Any] | None = None) -> None:
        """Nothing else is called here, but `function` if it is given, once the running call has ended."""
        raise NotImplementedError


class LoopHome(Home):
    """Calls are coroutines of the event loop; what is no coroutine runs in it and must not block."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> asyncio.Future[Outcome]:
        self.work = self._loop.create_task(_outcome(function, args, kwargs))
        return self.work

    @property
    def is_busy(self) -> bool:
        return self.work is not None and not self.work.done()

    def leave(self, function: Callable[..., Any] | None = None) -> None:
        if function is None:
            return
        if self.work is None or not self.is_busy:
            self.start(function)
        else:
            self.work.add_done_callback(lambda work: self.start(function))


class ThreadHome(Home):
    """Calls run on a thread of their own, where the env was built: a browser's driver must stay in it."""

    in_loop = False

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running = 0
        """Calls that were begun and have not ended."""
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> asyncio.Future[Outcome]:
        self.work = self._loop.create_future()
        self._running += 1
        self._calls.put((functools.partial(self._settle_soon, self.work), function, args, kwargs))
        return self.work

    def start_outside(self, function: Callable[..., Any]) -> concurrent.futures.Future[Outcome]:
        """Begin a call whose outcome a thread may wait for, also the loop's own."""
        work: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
        self._calls.put((work.set_result, function, (), {}))
        return work

    @property
    def is_busy(self) -> bool:
        return self._running > 0

    def leave(self, function: Callable[..., Any] | None = None) -> None:
        if function is not None:
            self.start(function)
        self._calls.put(None)

    def _serve(self) -> None:
        end_copies_of_this_thread()
        while (call := self._calls.get()) is not None:
            settle, function, args, kwargs = call
            try:
                with NoCopies():
                    outcome: Outcome = function(*args, **kwargs), None
            except BaseException as error:  # anything that an env raises is its own failure
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop is closed
                settle(outcome)
            del call, settle, outcome  # what they hold may be large, and the thread may wait for long

    def _settle_soon(self, work: asyncio.Future[Outcome], outcome: Outcome) -> None:
        self._loop.call_soon_threadsafe(self._settle, work, outcome)

    def _settle(self, work: asyncio.Future[Outcome], outcome: Outcome) -> None:
        self._running -= 1
        if not work.done():
            work.set_result(outcome)


async def _outcome(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    before = forks[0]
    try:
        result = function(*args, **kwargs)
        outcome: Outcome = (await result if inspect.isawaitable(result) else result), None
    except BaseException as error:  # SystemExit would end the loop; after a cancellation the outcome is not used
        if forks[0] != before:
            end_copy(error)
        # No variable keeps it: the traceback refers to this frame, so that would be a cycle, which holds the env too
        # until garbage is collected. With thousands of envs that is a pause in which no deadline is noticed.
        return None, error
    if forks[0] != before:
        end_copy()
    return outcome
