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


def whole_step(of: Transport, results: Callable[[int, float], T]) -> Callable[[Transport, Any], T]:
    """The public call `step` of all rows, as a function of the front and the actions.

    After Ctrl-C, rows that the engine does not have as pending need a reset, as results may have been lost.

    Args:
        of: the front, of an engine that supports `exchange_all`.
        results: called after the exchange with the number of episodes that ended and the time; returns what `step`
            returns.
    """
    order, mode, done, rotate = of._call_order, of.autoreset_mode, of._batch.done, not of.copy
    alive, over, may_not_end = of._alive_op, of._over_op, of._may_not_end
    enter, everyone, warnings, clock = order.enter, order.all_rows, of._warnings, time.perf_counter
    exchange_all: Callable[[int, int, bool], int] = of._decorated.exchange_all  # type: ignore[attr-defined]  # passed on
    measures_waiting = not registry.declares(of.engine, "native")  # native engines measure their time themselves
    column: Any = None
    array, dtype, shape = None, None, ()  # `array` stays None if actions must be packed: no type is None
    are_actions: Callable[[], bool] | None = None
    if of._batch.action_layout.is_array:
        column = of._batch.actions[0]
        are_actions = None if of.engine.checks_actions else of._batch.action_layout.checker(of._batch.actions)
        if of.engine.checks_actions or are_actions is not None:
            array, dtype, shape = np.ndarray, column.dtype, column.shape

    def step(front: Transport, actions: Any) -> T:
        started = clock() if measures_waiting else 0.0
        enter("step")  # no call between this line and `try`: a signal handler could raise after it
        try:
            if not order.all_ready:
                order.check_can_step(None, "step")
            if type(actions) is array and actions.dtype == dtype and actions.shape == shape:
                column[...] = actions
                if are_actions is not None and not are_actions():
                    front._pack(actions)  # raises, naming the env
            else:
                front._pack(actions)
            if may_not_end:
                plan(mode, done)
            front._undelivered = everyone
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
            if measures_waiting:
                front._seconds_waiting += now - started
            made = results(ended, now)
            front._undelivered = None
        except BaseException as error:
            if front._undelivered is not None:  # rows that did not run may be pending now
                order.pending_call = "step"
                front._sent_at[:] = started or clock()
                front._timed_out_after = None  # of an exchange before this one
            front._resync(error)
            raise
        finally:
            order.inside, order.vacant = None, True
        if warnings:
            front._warn()
        return made

    return step
