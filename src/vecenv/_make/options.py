"""The arguments of `make`: which are options of engines, which are the env's, and the checks of all others."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vecenv._batch.finite import Policies
from vecenv._front.autoreset import parse_mode
from vecenv._util.checks import brief, patience, positive_int, positive_seconds
from vecenv._util.suggest import nearest
from vecenv.agents._sources import NO_SLOTS
from vecenv.engines import registry
from vecenv.engines.facts import check_observation_mode
from vecenv.engines.options import check_choice
from vecenv.engines.python.factories import check_wrappers
from vecenv.engines.request import Request
from vecenv.errors import ConfigError, ConfigTypeError

_ELSEWHERE = {
    "autoreset_mode": "autoreset",
    "n_envs": "num_envs",
    "num_workers": "workers",
    "start_method": "context",
    "num_threads": "workers",
    "vectorization_mode": "engine",
}
"""What Gymnasium, SB3 and others call our arguments."""
_NOT_HERE = {
    "env_type": "results are Gymnasium's; vecenv.envpool.make has env_type= and EnvPool's other words",
    "seed": "seeds are given to reset: envs.reset(seed=...)",
}
"""Arguments of others that `make` has no word for, and what to do."""


def keyword_names() -> list[str]:
    """Every keyword of `make` that is not a constructor argument of the env."""
    of_requests = [field.name for field in dataclasses.fields(Request)]
    return ["env", "engine", "env_kwargs", "preprocessing", *NO_SLOTS, *of_requests, *registry.option_defaults()]


def split_options(kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of engines, without those that have their default, and constructor arguments of the env."""
    defaults = registry.option_defaults()
    options = {name: value for name, value in kwargs.items() if name in defaults and not _same(value, defaults[name])}
    return options, {name: value for name, value in kwargs.items() if name not in defaults}


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


def check_names(kwargs: Iterable[str], parameters: Iterable[str] = ()) -> None:
    """Raise for a constructor argument that looks like a keyword of `make`, or is what others call one.

    Args:
        kwargs: names of constructor arguments.
        parameters: names that the env is known to have.
    """
    ours = keyword_names()
    for name in set(kwargs) - set(parameters):
        if name in _NOT_HERE:
            raise ConfigTypeError(
                f"unknown argument {name!r}: {_NOT_HERE[name]} (if it is the env's, pass it in env_kwargs)"
            )
        near = _ELSEWHERE.get(name) or nearest(name, ours, cutoff=0.8)
        if near is not None:
            raise ConfigTypeError(
                f"unknown argument {name!r}; did you mean {near!r}? (if it is the env's, pass it in env_kwargs)"
            )


def check_request(given: Request) -> Request:
    """Check what concerns every engine, given the arguments of `make`. Raises a ConfigError that names the argument."""
    check_choice("seeding", given.seeding, ("gymnasium", "spawn"))
    check_choice("on_error", given.on_error, ("raise", "restart"))
    check_observation_mode(given.observation_mode)
    if given.batch_size is not None:
        positive_int("batch_size", given.batch_size)
    return dataclasses.replace(
        given,
        num_envs=positive_int("num_envs", given.num_envs),
        autoreset=parse_mode(given.autoreset),
        timeout=None if given.timeout is None else patience(positive_seconds("timeout", given.timeout)),
        check_finite=Policies.parse(given.check_finite),
        wrappers=check_wrappers(given.wrappers),
        record_folder=_check_folder(given.record, given.record_folder),
        record_limit=_check_limit(given.record, given.record_limit),
    )


def _check_limit(record: Any, limit: Any) -> int:
    """Bytes of recordings to keep in memory."""
    if record is None and not _same(limit, Request.record_limit):
        raise ConfigError(f"record_limit={limit!r:.40} is for record='last-episode', which was not given")
    return positive_int("record_limit", limit)


def of_rows(request: Request, count: int) -> Request:
    """The request for as many envs as there are. Raises ConfigError if `batch_size` is larger."""
    if request.batch_size is not None and request.batch_size > count:
        raise ConfigError(f"batch_size must be in 1 ... num_envs = {count}, got {request.batch_size}")
    return dataclasses.replace(request, num_envs=count)


def _check_folder(record: Any, folder: Any) -> Path:
    """Where recordings are written. The folder is made when the first one is."""
    if not isinstance(folder, (str, os.PathLike)):
        raise ConfigTypeError(f"record_folder must be a path, got {brief(folder)}")
    path = Path(os.fsdecode(folder)).absolute()
    if record is None:
        if not _same(folder, Request.record_folder) and not _same(folder, str(Request.record_folder)):
            raise ConfigError(f"record_folder={str(folder)!r} is for record='last-episode', which was not given")
        return path
    if not isinstance(record, str) or record != "last-episode":
        raise ConfigError(f"record must be 'last-episode' or None, got {record!r:.40}")
    there = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"record_folder {str(path)!r}: {there} is no folder that can be written to; give another one")
    return path
