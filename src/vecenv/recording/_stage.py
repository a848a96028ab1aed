"""The wrapper in which the debugger stops, right before a call of the env."""

from __future__ import annotations

import asyncio
import inspect
import pdb
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium

from vecenv.engines.recording.recording import Recording

STAGE = __file__
"""Functions that are called from this file belong to the env."""


class Stage(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Calls the env; stops in the debugger with `env`, `recording`, and `action` or `how` in scope.

    Attributes:
        stops: whether to stop before the next call.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], recording: Recording) -> None:
        super().__init__(env)
        self.recording = recording
        self.stops = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """Runs the coroutines of an env that is awaited."""

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. Arguments that are not given are not passed on."""
        env, recording = self.env, self.recording  # noqa: F841  # for the debugger
        if self._stops_now():
            pdb.set_trace()
        return self._awaited(env.reset(**how))

    def step(self, action: Any) -> Any:
        env, recording = self.env, self.recording  # noqa: F841  # for the debugger
        if self._stops_now():
            pdb.set_trace()
        return self._awaited(env.step(action))

    def close(self) -> None:
        self._awaited(self.env.close())
        if self._loop is not None:
            self._loop.close()

    def _awaited(self, result: Any) -> Any:
        """What a call returns; if it is a coroutine, what that returns."""
        if not inspect.iscoroutine(result):
            return result
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        if asyncio._get_running_loop() is None:
            return self._loop.run_until_complete(result)
        with ThreadPoolExecutor(1) as elsewhere:  # in a notebook a loop runs here, and a thread runs one loop at a time
            return elsewhere.submit(self._loop.run_until_complete, result).result()

    def _stops_now(self) -> bool:
        stops, self.stops = self.stops, False
        return stops


def trimmed(error: BaseException, outside: BaseException | None) -> str:
    """The traceback of an env's exception, without the frames of the replay.

    Args:
        error: the exception.
        outside: an exception that was being handled when the replay began; it is left out too.
    """
    inner: BaseException | None = error
    while outside is not None and inner is not None and inner is not outside:
        if inner.__context__ is outside:
            inner.__context__ = None
        inner = inner.__context__
    summary = traceback.TracebackException.from_exception(error)
    places = [place for place, frame in enumerate(summary.stack) if frame.filename == STAGE]
    if places:
        summary.stack = traceback.StackSummary.from_list(list(summary.stack)[places[0] + 1 :])
    return "".join(summary.format()).strip()
