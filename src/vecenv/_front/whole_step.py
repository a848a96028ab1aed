"""A step of all rows in one call of the engine, in as few operations as possible.

Native code steps 64 envs in one to four microseconds. Calling methods of the front and looking up its attributes would
take as long, so what never changes is looked up once, here. The functions take the front as an argument: if they kept
it, a vector env that is left open would not be closed at once when its last reference goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from vecenv._front.autoreset import plan
from vecenv.engines import registry
from vecenv.errors import EnvError

if TYPE_CHECKING:
    from vecenv._front.transport import Transport

T = TypeVar("T")


def whole_step(front: Transport, results: Callable[[int, float], T]) -> Callable[[Transport, Any], T]:
    """The public call `step` of all rows, as a function of the front and the actions.

    Args:
        front: of an engine that supports `exchange_all`.
        results: makes what the call returns of what is in the batch then, from the number of episodes that ended and
            the time at which the exchange had ended.
    """
    order, mode, done, rotate = front._call_order, front.autoreset_mode, front._batch.done, not front.copy
    alive, over, may_not_end = front._alive_op, front._over_op, front._may_not_end
    enter, everyone, warnings, clock = order.enter, order.all_rows, front._warnings, time.perf_counter
    exchange_all: Callable[[int, int, bool], int] = front._decorated.exchange_all  # type: ignore[attr-defined]  # passed on
    column, layout = front._batch.actions[0], front._batch.action_layout
    is_plain = front.engine.checks_actions and layout.leaves[0].path == ""
    array, dtype, shape = np.ndarray if is_plain else None, column.dtype, column.shape
    waits = not registry.declares(front.engine, "native")  # native engines measure their time themselves

    def step(front: Transport, actions: Any) -> T:
        enter("step")
        try:
            if not order.all_ready:
                order.check_can_step(None, "step")
            if may_not_end:
                plan(mode, done)
            if type(actions) is array and actions.dtype == dtype and actions.shape == shape:
                column[...] = actions
            else:
                front._pack(actions)
            front._undelivered = everyone
            started = clock() if waits else 0.0
            try:
                ended = exchange_all(alive, over, rotate)
            except EnvError as error:
                front._hand_over_others(error)
                raise
            if ended < 0:
                front._undelivered = None
                front._pack(actions)  # raises, naming the env
            front._exchanges += 1
            front._last_exchange = now = clock()
            if not front._first_exchange:
                front._first_exchange = now
            if waits:
                front._seconds_waiting += now - started
            made = results(ended, now)
            front._undelivered = None
        except BaseException as error:
            front._resync(error)
            raise
        finally:
            order.inside = None
        if warnings:
            front._warn()
        return made

    return step
