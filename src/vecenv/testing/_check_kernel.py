"""Check that a kernel's native code computes what Python computes, and that what it returns is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from vecenv._front.vector_env import VectorEnv
from vecenv._make.make import make
from vecenv._make.source import find_build, kernel_spec, split_parameters
from vecenv.agents._vector_env import MultiAgentVectorEnv
from vecenv.errors import ConfigTypeError, EnvError
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Field
from vecenv.testing._difference import difference
from vecenv.testing._laws import law
from vecenv.testing._lines import Lines, shortened


@dataclass(frozen=True)
class KernelReport:
    """What `check_kernel` has tried, and what it has not.

    Attributes:
        steps: steps of all envs together, in Python and in native code each.
        episodes: episodes that ended.
        drawn: parameters that were drawn at random within their declared bounds.
        fixed: parameters that kept their values, because they have no bounds or were given.
        missed: statements that never ran, as "file.py:12" or "file.py:12-14". Nothing is known of them.
    """

    steps: int
    episodes: int
    drawn: tuple[str, ...]
    fixed: tuple[str, ...]
    missed: tuple[str, ...]

    def __str__(self) -> str:
        tried = f"{self.steps} steps, {self.episodes} episodes: Python and native code have the same bits"
        drawn = f"; Params within their bounds: {', '.join(self.drawn)}" if self.drawn else ""
        fixed = f"; Params that kept their values: {', '.join(self.fixed)}" if self.fixed else ""
        missed = f"; never run: {', '.join(map(shortened, self.missed))}" if self.missed else "; every line ran"
        return tried + drawn + fixed + missed


def check_kernel(
    definition: Any,
    *,
    num_envs: int = 8,
    steps: int = 300,
    seed: int = 0,
    tolerance: float | None = None,
    **kwargs: Any,
) -> KernelReport:
    """Compare a kernel's native code with its run in plain Python, over random episodes and both autoreset modes.

    Observations must be in their space. A third run has parameters that are drawn at random within their `bounds`,
    other ones in each env.

    Args:
        definition: the class, or an id.
        num_envs: number of envs.
        steps: steps of each env.
        seed: seed of the first env, of the actions and of the parameters.
        tolerance: None compares bits. A number allows an absolute or relative difference of that size, for
            `precision="fast"`, and stops at the first flag that differs, because an episode may then end a step
            earlier.
        **kwargs: parameters of the kernel; they keep these values.

    Returns:
        What was tried, and which lines never ran.

    Raises:
        AssertionError: names the first step, env and value that differs, or the observation that is not in its space.
        KernelError: the kernel says something that the language does not have.
    """
    kernel, _ = find_build(definition)
    if kernel is None:
        raise ConfigTypeError(f"{definition!r:.60} is not a kernel; pass its class or its id")
    lines, tried = Lines(kernel), _Tried(0, 0)
    drawn = drawn_parameters(kernel, kwargs, num_envs, np.random.default_rng(seed))
    runs: list[tuple[Any, Mapping[str, Any]]] = [("next-step", {}), ("same-step", {})]
    runs += [("next-step", drawn)] if drawn else []
    for autoreset, parameters in runs:
        given = {**kwargs, **parameters}
        with (
            make(
                definition,
                num_envs,
                engine="compiled",
                env_kwargs=given,
                precision="exact" if tolerance is None else "fast",
                autoreset=autoreset,
            ) as native,
            make(_python_envs(kernel, given, num_envs), engine="sync", autoreset=autoreset) as reference,
        ):
            try:
                tried += _compare(_rows(reference), _rows(native), steps, seed, tolerance, lines)
            except (AssertionError, EnvError) as error:
                if not parameters:
                    raise
                shown = ", ".join(f"{name}={value!r:.200}" for name, value in parameters.items())
                raise AssertionError(f"with parameters within their bounds, {shown}: {error}") from error
    fixed = tuple(name for name in kernel.params if name not in drawn)
    return KernelReport(tried.steps * num_envs, tried.episodes, tuple(drawn), fixed, lines.missed())


def _rows(envs: Any) -> VectorEnv:
    """The vector env of rows, also of envs with several agents."""
    return envs.rows if isinstance(envs, MultiAgentVectorEnv) else envs


@dataclass(frozen=True)
class _Tried:
    steps: int
    episodes: int

    def __add__(self, other: _Tried) -> _Tried:
        return _Tried(self.steps + other.steps, self.episodes + other.episodes)


def _python_envs(kernel: Kernel, kwargs: dict[str, Any], count: int) -> list[Any]:
    rows = split_parameters(kernel, kwargs, count)
    rows = rows if isinstance(rows, list) else [rows] * count
    python = functools.partial(gymnasium.make, kernel_spec(kernel), disable_env_checker=True)
    return [functools.partial(python, **row) for row in rows]


def drawn_parameters(
    kernel: Kernel, kwargs: Mapping[str, Any], count: int, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Values within the bounds of the parameters that have some and are not given: the lowest, the highest, others.

    There is one value per env, but one for all if envs share the parameter or spaces depend on parameters. A kernel
    with `configure` has none: its arguments are not its parameters.
    """
    if getattr(kernel.definition, "configure", None) is not None:
        return {}
    spaces = (kernel.definition.observation_space, kernel.definition.action_space)  # type: ignore[attr-defined]
    rows = 1 if any(map(callable, spaces)) else count
    names = [name for name in kernel.params if name not in {*kwargs, *kernel.kwargs, *kernel.fixed}]
    drawn = {name: _within(kernel.params[name], kernel.defaults[name], rows, generator) for name in names}
    found = {name: values for name, values in drawn.items() if values is not None}
    one = [name for name in found if rows != count or kernel.params[name].shared]
    return {**found, **{name: found[name][-1] for name in one}}


def _within(field: Field, default: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray | None:
    """Values within the bounds of a parameter; where there is only one bound, up to as far beyond the default."""
    low, high = field.low, field.high
    if (low is None and high is None) or field.dtype.kind == "b":
        return None
    low = float(np.min(default)) - max(1.0, abs(high - float(np.min(default)))) if low is None else low  # type: ignore[operator]
    high = float(np.max(default)) + max(1.0, abs(float(np.max(default)) - low)) if high is None else high
    shape = (count, *default.shape)
    if field.dtype.kind == "f":
        values = generator.uniform(low, high, shape)
    else:
        values = generator.integers(int(np.ceil(low)), int(np.floor(high)), shape, endpoint=True)
    ends = [low, high] if count > 1 else []
    for row, end in enumerate(ends):
        values[row] = end if field.dtype.kind == "f" else (int(np.ceil(end)), int(np.floor(end)))[row]
    return np.clip(values.astype(field.dtype), low, high).astype(field.dtype)


def _compare(
    python: VectorEnv, native: VectorEnv, steps: int, seed: int, tolerance: float | None, lines: Lines | None = None
) -> _Tried:
    watched = nullcontext if lines is None else lines.watched
    with watched():
        first = python.reset(seed=seed)
    _same("reset", first, native.reset(seed=seed), tolerance)
    _inside("reset", python, first[0])
    python.action_space.seed(seed)
    episodes = 0
    for step in range(steps):
        actions = python.action_space.sample()
        with watched():
            theirs = python.step(actions)
        mine = native.step(actions)
        if tolerance is not None and not np.array_equal(theirs[2:4], mine[2:4]):
            return _Tried(step, episodes)
        _same(f"step {step}", theirs, mine, tolerance)
        _inside(f"step {step}", python, theirs[0])
        episodes += int(np.sum(theirs[2] | theirs[3]))
    return _Tried(steps, episodes)


def _same(where: str, theirs: tuple[Any, ...], mine: tuple[Any, ...], tolerance: float | None) -> None:
    names = ("obs", "infos") if len(theirs) == 2 else ("obs", "reward", "terminated", "truncated", "infos")
    for name, expected, found in zip(names, theirs, mine, strict=True):
        path, python, native = difference(expected, found, name, tolerance, ordered=False) or ("", "", "")
        law("sameness", not path, f"Python and native code differ in {where}: {path}: Python {python}, native {native}")


def _inside(where: str, envs: VectorEnv, obs: Any) -> None:
    """Observations are in their space; NaN is in none."""
    if envs.observation_space.contains(obs):
        return
    space = envs.single_observation_space
    for row, one in enumerate(gymnasium.vector.utils.iterate(envs.observation_space, obs)):
        wrong = _outside(space, one, "obs")
        if wrong is not None:
            raise AssertionError(f"{where} of env {row}: {wrong}")


def _outside(space: gymnasium.Space[Any], value: Any, path: str) -> str | None:
    """Which part of an observation is not in its space, and why."""
    if isinstance(space, (gymnasium.spaces.Dict, gymnasium.spaces.Tuple)):
        parts = space.spaces.items() if isinstance(space, gymnasium.spaces.Dict) else enumerate(space.spaces)
        return next((w for key, part in parts if (w := _outside(part, value[key], f"{path}[{key!r}]"))), None)
    box, array = space if isinstance(space, gymnasium.spaces.Box) else None, np.asarray(value)
    if space.contains(value if box is None else array):  # Box warns of numbers that are no arrays, which shape () gives
        return None
    if box is not None and array.shape == box.shape:
        wrong = np.argwhere(~((array >= box.low) & (array <= box.high)))
        if len(wrong):
            place = tuple(wrong[0].tolist())
            shown = f"[{', '.join(map(str, place))}]" if place else ""
            low, high = box.low[place], box.high[place]
            return f"{path}{shown} is {array[place]}, outside of {low} ... {high}"
    return f"{path} is {value!r:.100}, which is not in {space!s:.100}"
