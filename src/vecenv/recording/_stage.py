"""Where the debugger stops: around the env, in front of the call that comes next."""

from __future__ import annotations

import pdb
import traceback
from typing import Any

import gymnasium

from vecenv.engines.recording.recording import Recording

STAGE = __file__
"""What is called from this file is the env."""


class Stage(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hands calls on. Where it stops, `env`, `recording`, and `action` or `how` are in scope.

    Attributes:
        stops: whether the next call begins in the debugger.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], recording: Recording) -> None:
        super().__init__(env)
        self.recording = recording
        self.stops = False

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, with just the arguments that are given."""
        env, recording = self.env, self.recording  # noqa: F841  # for the debugger
        if self._stops_now():
            pdb.set_trace()
        return env.reset(**how)

    def step(self, action: Any) -> Any:
        """Apply an action."""
        env, recording = self.env, self.recording  # noqa: F841  # for the debugger
        if self._stops_now():
            pdb.set_trace()
        return env.step(action)

    def _stops_now(self) -> bool:
        stops, self.stops = self.stops, False
        return stops


def trimmed(error: BaseException, outside: BaseException | None) -> str:
    """The traceback of what an env raised, from the env on.

    Args:
        error: what it raised.
        outside: what was being handled around the replay, which has nothing to do with it.
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
