"""Vector envs for random programs, by the name of the engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import vecenv
from vecenv._front.autoreset import parse_mode
from vecenv._front.vector_env import VectorEnv
from vecenv.testing._law_kernel import law_kernel_engine

ENGINES: dict[str, dict[str, Any]] = {
    "sync": {"engine": "sync"},
    "thread": {"engine": "thread", "workers": 2},
    "thread-ordered": {"engine": "thread", "workers": 2, "order": "fixed"},
    "asyncio": {"engine": "asyncio"},
    "asyncio-ordered": {"engine": "asyncio", "concurrency": 2, "order": "fixed"},
    "fork": {"engine": "process", "workers": 2, "context": "fork"},
    "fork-ordered": {"engine": "process", "workers": 2, "context": "fork", "order": "fixed"},
    "caller": {"engine": "process", "workers": 1, "context": "fork", "caller_works": True},
    "forkserver": {"engine": "process", "workers": 2, "context": "forkserver"},
    "spawn": {"engine": "process", "workers": 2, "context": "spawn"},
}


def python_envs(engine: str) -> Callable[[Any, str], VectorEnv]:
    """What `check_machine` builds with: an engine of Python envs."""
    return lambda factories, mode: vecenv.make(factories, autoreset=mode, **ENGINES[engine])


def native_envs(**options: Any) -> Callable[[Any, str], VectorEnv]:
    """The same in native code."""
    engine = partial(law_kernel_engine, **options)
    return lambda factories, mode: VectorEnv(engine(factories), autoreset=parse_mode(mode))
