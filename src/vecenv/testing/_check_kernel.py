"""Check that a kernel's native code computes what Python computes."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np

from vecenv._front.vector_env import VectorEnv
from vecenv._make.make import make
from vecenv._make.source import find_build, kernel_spec, split_parameters
from vecenv.errors import ConfigTypeError
from vecenv.testing._difference import difference
from vecenv.testing._laws import law


def check_kernel(
    definition: Any,
    *,
    num_envs: int = 8,
    steps: int = 300,
    seed: int = 0,
    tolerance: float | None = None,
    **kwargs: Any,
) -> None:
    """Compare a kernel's native code with its run in plain Python, over random episodes and both autoreset modes.

    Args:
        definition: the class, or an id.
        num_envs: number of envs.
        steps: steps of each env.
        seed: seed of the first env, and of the actions.
        tolerance: None compares bits. A number allows an absolute or relative difference of that size, for
            `precision="fast"`, and stops at the first flag that differs, because an episode may then end a step
            earlier.
        **kwargs: parameters of the kernel.

    Raises:
        AssertionError: names the first step, env and value that differs.
    """
    kernel, _ = find_build(definition)
    if kernel is None:
        raise ConfigTypeError(f"{definition!r:.60} is not a kernel; pass its class or its id")
    rows = split_parameters(kernel, kwargs, num_envs)
    rows = rows if isinstance(rows, list) else [rows] * num_envs
    python = functools.partial(gymnasium.make, kernel_spec(kernel), disable_env_checker=True)
    python_envs = [functools.partial(python, **row) for row in rows]
    compiled = functools.partial(make, definition, num_envs, engine="compiled", env_kwargs=kwargs)
    for autoreset in ("next-step", "same-step"):
        with (
            make(python_envs, engine="sync", autoreset=autoreset) as reference,
            compiled(precision="exact" if tolerance is None else "fast", autoreset=autoreset) as native,
        ):
            _compare(reference, native, steps, seed, tolerance)


def _compare(python: VectorEnv, native: VectorEnv, steps: int, seed: int, tolerance: float | None) -> None:
    _same("reset", python.reset(seed=seed), native.reset(seed=seed), tolerance)
    python.action_space.seed(seed)
    for step in range(steps):
        actions = python.action_space.sample()
        theirs, mine = python.step(actions), native.step(actions)
        if tolerance is not None and not np.array_equal(theirs[2:4], mine[2:4]):
            return
        _same(f"step {step}", theirs, mine, tolerance)


def _same(where: str, theirs: tuple[Any, ...], mine: tuple[Any, ...], tolerance: float | None) -> None:
    names = ("obs", "infos") if len(theirs) == 2 else ("obs", "reward", "terminated", "truncated", "infos")
    for name, expected, found in zip(names, theirs, mine, strict=True):
        path, python, native = difference(expected, found, name, tolerance, ordered=False) or ("", "", "")
        law("sameness", not path, f"Python and native code differ in {where}: {path}: Python {python}, native {native}")
