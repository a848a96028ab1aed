"""How parameter sets reach envs: columns of kernels; constructor arguments and reset options of Python envs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator

from vecenv._front.reset_options import ResetOptions
from vecenv._front.vector_env import VectorEnv
from vecenv._make.source import find_build
from vecenv._util.suggest import did_you_mean
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.engines.python.factories import Renewal
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.params import not_for_an_episode
from vecenv.scenarios._noise import Noise
from vecenv.scenarios._sets import ABSENT, Columns, Scenarios, Values, sets_of


class ParameterWriter(Protocol):
    """Writes parameter sets to the envs of a vector env."""

    def prime(self, rows: np.ndarray, columns: Columns, noise: Noise) -> None:
        """Set the parameters of the next episode of `rows`, whichever op starts it."""
        ...

    def reset_options(self, given: ResetOptions, sets: Sequence[Values]) -> Any:
        """Options for a reset of the vector env: the user's options together with each row's parameter set."""
        ...


def parameter_writer(
    envs: VectorEnv, scenarios: Sequence[Scenarios], source: Any = None, kwargs: Collection[str] | None = None
) -> ParameterWriter:
    """The writer for the parameters of scenarios, after checking that the envs have these parameters.

    Args:
        envs: the vector env, without wrappers.
        scenarios: all scenarios that will be used.
        source: what its envs are made from, if it is not in `envs.spec`.
        kwargs: names of parameters that are constructor arguments; None: those in the constructor's signature.

    Raises:
        ConfigError: the env has no such parameter, or a value is not valid for it.
    """
    names = list(dict.fromkeys(name for one in scenarios for name in one.names))
    if isinstance(envs.engine, CompiledEngine):
        return KernelParameters(envs.engine, scenarios, names)
    return PythonParameters(envs, _constructor_names(source if envs.spec is None else envs.spec, names, kwargs))


class KernelParameters:
    """Writes the parameter columns of a kernel. Parameters that are not in a set keep the values of `make`."""

    def __init__(self, engine: CompiledEngine, scenarios: Sequence[Scenarios], names: Sequence[str]) -> None:
        self._engine, self._names = engine, names
        self._made = {name: column.copy() for name, column in engine.parameters.items()}
        for values in (values for one in scenarios for values in one.extremes()):
            _check_names(engine.kernel, values, engine.kernel.params)
            engine.check_parameters(np.arange(1), {name: np.array([value]) for name, value in values.items()})

    def prime(self, rows: np.ndarray, columns: Columns, noise: Noise) -> None:
        made = {name: self._filled(name, rows, columns.get(name)) for name in dict.fromkeys([*self._names, *columns])}
        if made:
            self._engine.set_parameters(rows, made)

    def _filled(self, name: str, rows: np.ndarray, column: np.ndarray | None) -> np.ndarray:
        if name not in self._made:  # a later stage of a curriculum introduced the name
            _check_names(self._engine.kernel, [name], self._engine.kernel.params)
        if name in self._engine.kernel.shared_params:
            raise not_for_an_episode(name)
        general = self._made[name][rows]
        if column is None:
            return general
        if column.dtype != object:
            return column
        for position, value in enumerate(column):
            if value is not ABSENT:
                general[position] = value
        return general

    def reset_options(self, given: ResetOptions, sets: Sequence[Values]) -> Any:
        return given


class PythonParameters:
    """Passes parameters to Python envs: as reset options, or as constructor arguments of a newly built env.

    A newly built env has a new random generator, so each of its episodes is seeded.
    """

    def __init__(self, envs: VectorEnv, kwargs: frozenset[str]) -> None:
        self._envs, self._kwargs = envs, kwargs

    def prime(self, rows: np.ndarray, columns: Columns, noise: Noise) -> None:
        payloads = [self._payload(values) for values in sets_of(columns, len(rows))]
        self._envs._prime(rows, payloads, noise.seeds() if self._kwargs else None)

    def reset_options(self, given: ResetOptions, sets: Sequence[Values]) -> Any:
        return ResetOptions(given.mask, [self._payload(*both) for both in zip(sets, given.per_env, strict=True)])

    def _payload(self, values: Values, given: Any = None) -> dict[str, Any] | Renewal | None:
        options = {name: value for name, value in values.items() if name not in self._kwargs}
        merged = {**options, **(given or {})} if options or given is not None else None
        if not self._kwargs:
            return merged
        return Renewal({name: value for name, value in values.items() if name in self._kwargs}, merged)


def _constructor_names(source: Any, names: list[str], kwargs: Collection[str] | None) -> frozenset[str]:
    """Which of the names are constructor arguments."""
    kernel, source = _kernel_of(source)
    arguments = _arguments(source)
    if kernel is not None:
        _check_names(kernel, names, [*kernel.params, *arguments])
    if kwargs is not None:
        missing = set(kwargs) - set(names)
        if missing:
            raise ConfigError(f"kwargs names {min(missing)!r}, which no scenario has; they have {', '.join(names)}")
        return frozenset(kwargs)
    for name in names if kernel is None else ():
        hint = did_you_mean(name, arguments, cutoff=0.8)
        if hint and name not in arguments:
            raise ConfigError(
                f"scenario parameter {name!r} is not an argument of this env{hint} (if it is a reset option, say so: "
                "kwargs=[] names the parameters that are constructor arguments)"
            )
    return frozenset(names) & frozenset(arguments)


def _kernel_of(source: Any) -> tuple[Kernel | None, Any]:
    """The kernel that defines the parameters, if any, and what a Python env's constructor arguments are read from."""
    if not isinstance(source, EnvSpec):
        return None, source
    entry = source.entry_point
    if isinstance(entry, functools.partial) and entry.args and isinstance(entry.args[0], Kernel):
        return entry.args[0], None  # the kernel runs in Python: its parameters are reset options
    return find_build(source.id)[0], source


def _arguments(source: Any) -> list[str]:
    """Names of the constructor's arguments."""
    if isinstance(source, (list, tuple)) and source:
        source = source[0]
    if isinstance(source, EnvSpec):
        entry = source.entry_point
        source = load_env_creator(entry) if isinstance(entry, str) else entry
    if source is None or not callable(source):
        return []
    try:
        parameters = inspect.signature(source).parameters.values()
    except (TypeError, ValueError):  # not a Python function
        return []
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in named]


def _check_names(kernel: Kernel, names: Iterable[str] | Mapping[str, Any], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ConfigTypeError(
                f"{kernel.id} has no parameter {name!r}{did_you_mean(name, known)} (parameters: {listed}); is this "
                "a scenario of another env?"
            )
