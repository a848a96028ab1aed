"""Calls of native code: what it returns about interrupts and wrong actions is raised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vecenv.kernel.lower.columns import INTERRUPTED, interrupted


class WrongAction(Exception):
    """A policy chose an action that is not in the action space."""

    def __init__(self, step: int) -> None:
        self.step = step


def or_interrupt(call: Callable[[int], int]) -> Callable[[int], int]:
    """The call, which raises KeyboardInterrupt if a loop was interrupted."""

    def checked(orders: int) -> int:
        ended = call(orders)
        if ended == INTERRUPTED:
            raise interrupted()
        return ended

    return checked


def or_raise(call: Callable[[int], int]) -> Callable[[int], int]:
    """The same of a call with a policy, which also raises WrongAction."""
    call = or_interrupt(call)

    def checked(orders: int) -> int:
        ended = call(orders)
        if ended < 0:
            raise WrongAction(-1 - ended)
        return ended

    return checked


def task_of(call: Callable[[int], int], orders: np.ndarray, table: np.ndarray) -> Callable[[int, int], int]:
    """A function that runs the rows from a start to a stop, with the table of its thread."""
    mine = orders.copy()
    mine[0], mine[7] = table.ctypes.data, 0
    address = mine.ctypes.data

    def task(start: int, stop: int) -> int:
        mine[2:4] = start, stop
        return call(address)

    return task
