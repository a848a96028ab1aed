"""Building environments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from vecenv._batch.faults import ENV_RAISED, Fault
from vecenv._util.foreign import advice_about
from vecenv._util.text import type_name
from vecenv.engines.python.copies import NoCopies
from vecenv.errors import SpaceError

Factory = Callable[[], gymnasium.Env[Any, Any]]


def build_envs(
    factories: Sequence[Factory], first: int = 0, failures: tuple[type[BaseException], ...] = ENV_RAISED
) -> list[gymnasium.Env[Any, Any]]:
    """Call every factory. If one fails, those already built are closed and its EnvError is raised.

    Args:
        first: index of the first env.
        failures: what counts as a failure of an env.
    """
    envs: dict[int, gymnasium.Env[Any, Any]] = {}
    try:
        for row, factory in enumerate(factories, first):
            try:
                with NoCopies():
                    env = factory()
            except failures as error:
                raise Fault.of(error, "make").to_error(row) from error
            if not isinstance(env, gymnasium.Env):
                raise SpaceError(f"env_fns[{row}]() returned {type_name(env)}, need a gymnasium.Env{advice_about(env)}")
            if id(env) in envs:
                twin = first + list(envs).index(id(env))
                raise SpaceError(f"env_fns[{twin}] and [{row}] returned the same object; build a new env in each call")
            envs[id(env)] = env
    except BaseException:
        for env in envs.values():
            close_quietly(env)
        raise
    return list(envs.values())


def close_quietly(env: gymnasium.Env[Any, Any]) -> None:
    """Close an env that is being thrown away."""
    with contextlib.suppress(*ENV_RAISED), NoCopies():  # another error is on its way to the user
        env.close()
