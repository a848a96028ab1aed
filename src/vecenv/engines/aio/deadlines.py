"""Waiting for calls that may take so long and no longer."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections import OrderedDict
from typing import Any


class Deadlines:
    """Ends waits that take too long, with one timer for all of them. Used in the event loop only.

    All waits may take the same time, so they end in the order in which they began. `asyncio.wait`, or a timer for each,
    would make several times as many objects, and the loop keeps a timer that was cancelled until its time has come.
    The garbage collector looks at all objects, and everything stops meanwhile.

    Args:
        loop: the event loop.
        seconds: that a wait may take.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.seconds = seconds
        self._loop = loop
        self._waits: OrderedDict[asyncio.Future[None], float] = OrderedDict()
        """When each wait ends at the latest, by the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._context = contextvars.Context()
        """Of functions of ours that the event loop calls. They use no variables of it; one for all is less to keep."""

    async def wait(self, work: asyncio.Future[Any]) -> None:
        """Return when `work` is done or the time is up."""
        over = self._loop.create_future()
        work.add_done_callback(functools.partial(_settle, over), context=self._context)
        self._waits[over] = self._loop.time() + self.seconds
        if self._timer is None:
            self._set_timer()
        try:
            await over
        finally:
            self._waits.pop(over, None)

    def _set_timer(self) -> None:
        """Look again when the first wait ends, if there is one."""
        first = next(iter(self._waits.values()), None)
        self._timer = None if first is None else self._loop.call_at(first, self._end_due, context=self._context)

    def _end_due(self) -> None:
        """End the waits whose time is up."""
        try:
            now = self._loop.time()
            while self._waits:
                over, deadline = next(iter(self._waits.items()))
                if deadline > now:
                    break
                _settle(over)
                del self._waits[over]
        finally:  # after Ctrl-C in here, too
            self._set_timer()


def _settle(over: asyncio.Future[None], *_: Any) -> None:
    if not over.done():
        over.set_result(None)
