"""The loop over the rows of an exchange: steps each env. It is compiled per layout and mode, see `row_loop`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from vecenv._batch.faults import ENV_RAISED
from vecenv._batch.own import ALONE, ATOMS, own, own_info
from vecenv._util.specialise import specialise
from vecenv.engines.python.calls import as_number, wrong_result
from vecenv.engines.python.copies import end_copy
from vecenv.errors import SpaceError

if TYPE_CHECKING:
    from vecenv.engines.python.runner import RowRunner

_NUMBERS = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32})
"""Usual types of rewards. Those of another type are looked at with more care."""
_are_atoms = ATOMS.issuperset
clock = time.perf_counter_ns


class Lost(Exception):
    """The row's env was rebuilt because its worker died; its op reports that."""


def _step_rows(
    runner: RowRunner,
    turns: Iterable[tuple[int, Any, Any, slice]],
    times: list[int],
    *,
    stored: bool,
    watched: bool,
    timed: bool,
    copies_end: bool,
) -> None:
    """Step or reset each row. Rewards are stored; observations too, or they are kept; flags and infos are put aside.

    Whatever stands in this loop costs several times what it costs alone, because an env that runs in between takes it
    out of the processor's caches. So a reset is a step here, see `_begin_instead`, and `row_loop` leaves out what
    cannot happen.

    Args:
        runner: whose rows they are.
        turns: a row, its env, the action, and the place of its observation.
        times: gets the clock's reading before each row.
        stored: observations are stored at once, in `runner._flat`.
        watched: others look which env is running.
        timed: whether `times` is wanted.
        copies_end: an env may fork, and then the copy of this process is ended.
    """
    rewards, flat, current, here = runner._rewards, runner._flat, runner._current, runner._here
    usual, keep_obs = runner._usual, runner._obs.append
    for row, env, action, place in turns:
        if watched:
            current[0] = row
        if timed:
            times.append(clock())
        try:
            result = env.step(action)
            if copies_end and not here[0]:
                end_copy()
            try:
                obs, reward, terminated, truncated, info = result
            except Exception:
                raise SpaceError(wrong_result(result)) from None
            if stored:
                if type(obs) is ndarray:
                    try:
                        flat[place] = obs  # type: ignore[index]  # takes nothing but this dtype and shape
                    except Exception:
                        runner._write_obs(row, obs)
                else:
                    runner._write_obs(row, obs)
            else:
                # What another env may write into is copied before that env runs; see `_batch/own.py`.
                result = None  # or it would hold what we count the references of
                if type(obs) is not usual:
                    held = getrefcount(obs) > ALONE
                    obs = own(obs, held)
                elif usual is ndarray and (obs.base is not None or getrefcount(obs) > ALONE):
                    obs = own(obs)
            if type(reward) in _NUMBERS:
                try:
                    rewards[row] = reward
                except (TypeError, ValueError):  # too large
                    rewards[row] = as_number(reward)
            else:
                rewards[row] = as_number(reward)
            if terminated is not False or truncated is not False or type(info) is not dict or info:
                result = None
                if type(info) is dict and (
                    getrefcount(info) > ALONE or (info and not _are_atoms(map(type, info.values())))
                ):
                    info = own_info(info)
                runner._unusual.append((row, None if stored else obs, terminated, truncated, info))
            if not stored:
                keep_obs(obs)
        except Lost:
            runner._failed(row, runner._lost[row], rebuilt=True)
        except ENV_RAISED as error:
            if copies_end and not here[0]:
                end_copy(error)
            runner._restore_obs(row)
            runner._failed(row, runner._fault(row, error, action))


@functools.cache
def row_loop(stored: bool, watched: bool, timed: bool, copies_end: bool, /) -> Callable[..., None]:
    """`_step_rows` with these flags. The first call with them takes milliseconds, later ones nothing."""
    return specialise(_step_rows, stored=stored, watched=watched, timed=timed, copies_end=copies_end)
