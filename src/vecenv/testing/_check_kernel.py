"""Check that a kernel's native code computes what Python computes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from vecenv._front.vector_env import VectorEnv
from vecenv._make.make import make
from vecenv._make.source import find_build, kernel_spec, split_parameters
from vecenv.errors import ConfigTypeError


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
    several = isinstance(rows, list)
    python_envs = [
        functools.partial(
            gymnasium.make,
            kernel_spec(kernel),
            disable_env_checker=True,
            **(rows[row] if several else rows),
        )
        for row in range(num_envs)
    ]
    compiled = functools.partial(make, definition, num_envs, engine="compiled", env_kwargs=kwargs)
    for autoreset in ("next-step", "same-step"):
        with (
            make(python_envs, engine="sync", autoreset=autoreset) as python,
            compiled(precision="exact" if tolerance is None else "fast", autoreset=autoreset) as native,
        ):
            _compare(python, native, steps, seed, tolerance)


def _compare(python: VectorEnv, native: VectorEnv, steps: int, seed: int, tolerance: float | None) -> None:
    _same("reset", python.reset(seed=seed), native.reset(seed=seed), tolerance)
    python.action_space.seed(seed)
    for step in range(steps):
        actions = python.action_space.sample()
        theirs, mine = python.step(actions), native.step(actions)
        if tolerance is not None and not _same_flags(theirs, mine):
            return
        _same(f"step {step}", theirs, mine, tolerance)


def _same_flags(theirs: Any, mine: Any) -> bool:
    return all(np.array_equal(theirs[flag], mine[flag]) for flag in (2, 3))


def _same(where: str, theirs: tuple[Any, ...], mine: tuple[Any, ...], tolerance: float | None) -> None:
    names = ("obs", "infos") if len(theirs) == 2 else ("obs", "reward", "terminated", "truncated", "infos")
    for name, expected, found in zip(names, theirs, mine, strict=True):
        for path, first, second in _pairs(name, expected, found):
            if not _equal(first, second, tolerance):
                raise AssertionError(f"{where}: {path} is {second!r} in native code, {first!r} in Python")


def _pairs(path: str, expected: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """All pairs of leaves of two nested results."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key in expected:
            yield from _pairs(f"{path}[{key!r}]", expected[key], found[key])
    elif (isinstance(expected, tuple) and isinstance(found, tuple) and len(expected) == len(found)) or (
        isinstance(expected, np.ndarray) and isinstance(found, np.ndarray) and expected.dtype == found.dtype == object
    ):
        for index, pair in enumerate(zip(expected, found, strict=True)):
            yield from _pairs(f"{path}[{index}]", *pair)
    elif isinstance(expected, np.ndarray) and isinstance(found, np.ndarray) and expected.shape == found.shape:
        for row in range(len(expected)) if expected.ndim else ():
            yield f"{path}[{row}]", expected[row], found[row]
    else:
        yield path, expected, found


def _equal(first: Any, second: Any, tolerance: float | None) -> bool:
    if first is None or second is None or isinstance(first, dict) or isinstance(second, dict):
        return type(first) is type(second) and first == second
    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if tolerance is None or one.dtype.kind != "f":
        return one.tobytes() == other.tobytes()
    return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True))
