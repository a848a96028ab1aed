"""The event loop that envs run in: one in a thread of ours, or one that is running already."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Literal

from vecenv.engines.python.copies import end_copies_of_this_thread
from vecenv.errors import CallOrderError

LoopChoice = Literal["own", "running"]


class EnvLoop:
    """An event loop.

    Args:
        choice: "own": a new loop in a thread of ours. "running": the loop that runs in this thread.

    Attributes:
        loop: the event loop.
        is_own: whether it is a new one.
    """

    def __init__(self, choice: LoopChoice) -> None:
        self.is_own = choice == "own"
        self._thread: threading.Thread | None = None
        if self.is_own:
            self.loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._serve, name="vecenv-asyncio", daemon=True)
            self._thread.start()
            self.ident = self._thread.ident
        else:
            self.loop = asyncio.get_running_loop()
            self.ident = threading.get_ident()

    def _serve(self) -> None:
        end_copies_of_this_thread()
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self.loop.is_closed() and (self._thread is None or self._thread.is_alive())

    @property
    def is_here(self) -> bool:
        """Whether the loop runs in this thread: then nothing must wait for the loop."""
        return threading.get_ident() == self.ident and self.loop.is_running()

    @property
    def is_stopped(self) -> bool:
        """Whether it is a loop of the user's that does not run now, and may run on."""
        return not self.is_own and not self.loop.is_closed() and not self.loop.is_running()

    def check_may_wait(self, call: str) -> None:
        """Raise if this thread would wait for itself, or for a loop of the user's that does not run."""
        if self.is_stopped:
            raise CallOrderError(f"{call} waits for envs whose event loop does not run; {_INSTEAD}")
        if self.is_here:
            raise CallOrderError(f"{call} would stop the event loop that the envs run in; {_INSTEAD}")

    def soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in the loop."""
        if self.is_here:
            self.loop.call_soon(function, *args)
        else:
            self.loop.call_soon_threadsafe(function, *args)

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine in the loop; its result may be waited for."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stack(self) -> str:
        """What the loop's thread is doing: the stack of env code that blocks it, or of the loop that waits."""
        frame = sys._current_frames().get(self.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""

    def stop(self, seconds: float) -> bool:
        """End the thread and the loop, if they are ours; False if it did not end in time."""
        if self._thread is None:
            return True
        with contextlib.suppress(RuntimeError):  # it is closed
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if not self.loop.is_closed():
            self.loop.close()
        return True


_INSTEAD = "use await envs.recv_async() or await envs.step_one(), or make the envs with engine='asyncio', loop='own'"
