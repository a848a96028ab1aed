"""The decorator: from a class of plain functions to a kernel, with every rule that can be checked at once."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.layout import Layout
from vecenv._batch.leaf import Leaf
from vecenv._util.checks import positive_int
from vecenv._util.forks import cached_property
from vecenv._util.garbage import no_garbage_collection
from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, ConfigTypeError, KernelError
from vecenv.kernel.language.agents import NO_LIMIT, SLOT_PARAMS, has_agents, members
from vecenv.kernel.language.declared import (
    check_members,
    per_env,
    read_fields,
    read_methods,
    read_params,
    read_render,
    with_bounds,
    with_shapes,
)
from vecenv.kernel.language.fields import Field, Record
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.mistakes import located
from vecenv.kernel.language.registry import add_kernel, announce
from vecenv.kernel.language.rules import Rules
from vecenv.kernel.language.scope import roles_of
from vecenv.kernel.language.source import FunctionSource, later_names, read_helpers

Class = TypeVar("Class", bound=type)

_SPACES = {"obs": "observation_space", "action": "action_space"}
_SHIPPED = "vecenv.envs."
_FROZEN = "Params are read-only: keep what changes in `state`"


@dataclass(frozen=True, eq=False)
class Kernel:
    """An env as plain functions over one row.

    Attributes:
        id: what `vecenv.make` calls it.
        definition: the user's class.
        max_episode_steps: time limit, None for none.
        kwargs: arguments that this id fixes.
        state: all fields of an env, those of `info` last.
        info: names of the fields that are handed out as infos.
        params: names, types, shapes and bounds of the parameters.
        defaults: their default values.
        methods: source of the methods that are compiled.
        render: the method that draws an env, if there is one.
        shared: names of fields that are not a column of one value per env, but memory of the thread that runs it: what
            they hold is the env's only while it runs. Such envs are run one by one.
        fixed: names of parameters that are computed when envs are made and cannot be set.
    """

    id: str
    definition: type
    max_episode_steps: int | None
    kwargs: Mapping[str, Any]
    state: dict[str, Field]
    info: tuple[str, ...]
    params: dict[str, Field]
    defaults: dict[str, np.ndarray]
    methods: dict[str, FunctionSource]
    render: Callable[..., Any] | None
    shared: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.definition.__name__

    def parameters(self, kwargs: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
        """One value per env of every parameter; one value in all of a shared one.

        Args:
            kwargs: arguments of `make`. A parameter may be given once, or once per env with a first axis of `count`.
            count: number of envs.

        Raises:
            ConfigTypeError: the env has no such argument, or the value has the wrong type.
            ConfigError: a value that the type of the parameter cannot hold, that is not within its bounds, or that has
                another shape.
            KernelError: `configure` does not return a dict.
        """
        given = self._configured({**self.kwargs, **kwargs})
        for name in given:
            if name not in self.params:
                known = ", ".join(self.own_params) or "none"
                hint = did_you_mean(name, self.own_params)
                raise ConfigTypeError(f"{self.id} has no parameter {name!r}{hint} (parameters: {known})")
        return {
            name: per_env(field, given.get(name, self.defaults[name]), count) for name, field in self.params.items()
        }

    @property
    def own_params(self) -> list[str]:
        """Names of the parameters that users know: without those that every kernel with agents has."""
        return [name for name in self.params if name not in SLOT_PARAMS]

    def _configured(self, kwargs: dict[str, Any]) -> Mapping[str, Any]:
        configure = getattr(self.definition, "configure", None)
        if configure is None:
            return kwargs
        of_slots = {name: kwargs.pop(name) for name in SLOT_PARAMS if name in kwargs and name in self.params}
        try:
            inspect.signature(configure).bind(**kwargs)
        except TypeError as error:
            raise ConfigTypeError(f"{self.id}: {error}; it takes {inspect.signature(configure)}") from None
        configured = configure(**kwargs)
        if not isinstance(configured, Mapping):
            rule = f"it must return a dict of values of Params, got {configured!r:.60}"
            raise KernelError(rule, self.name, "configure")
        return {**configured, **of_slots}

    def check_settable(self, name: str) -> None:
        """Raise ConfigError for a parameter that is computed when envs are made."""
        if name in self.fixed:
            raise ConfigError(f"parameter {name!r} of {self.id} is found out when envs are made, and cannot be set")

    def record(self, params: Mapping[str, np.ndarray], row: int = 0) -> Record:
        """The parameters of one env as its methods see them."""
        own = self.row_of(params, row)
        fields = {
            name: Field(name, column.dtype, column.shape[1:], shared=self.params[name].shared)
            for name, column in own.items()
        }
        return Record(fields, {name: column[0] for name, column in own.items()}, frozen=_FROZEN)

    def row_of(self, params: Mapping[str, np.ndarray], row: int) -> dict[str, np.ndarray]:
        """Columns of one row of parameters."""
        return {name: column if self.params[name].shared else column[row : row + 1] for name, column in params.items()}

    @cached_property
    def shared_params(self) -> frozenset[str]:
        """Names of the parameters that have one value for all envs."""
        return frozenset(name for name, field in self.params.items() if field.shared)

    def spaces(self, params: Record) -> tuple[Space[Any], Space[Any]]:
        """Observation and action space of an env with these parameters."""
        return self._space("observation_space", params), self._space("action_space", params)

    def _space(self, name: str, params: Record) -> Space[Any]:
        declared = getattr(members(self.definition), name)
        if isinstance(declared, Space):
            return copy.deepcopy(declared)  # a space has a random stream, and one env's must not be another's
        if not callable(declared):
            rule = f"{name} must be a gymnasium Space or a function of Params, got {declared!r:.60}"
            raise KernelError(rule, self.name)
        try:
            space = declared(params)
        except Exception as error:
            raise located(error, self.name, name) from error
        if not isinstance(space, Space):
            raise KernelError(f"it must return a gymnasium Space, got {space!r:.60}", self.name, name)
        return space

    @property
    def ships(self) -> bool:
        """Whether it comes with vecenv: then tests have checked its rules and compiled it, so that users need not."""
        return self.definition.__module__.startswith(_SHIPPED)

    @cached_property
    def names_checked(self) -> bool:
        """True; raises KernelError at first if a method uses a name that does not exist or cannot be compiled."""
        if not self.ships:
            self.check_names()
        return True

    def check_names(self) -> None:
        """Raise KernelError if a method uses a name that does not exist or cannot be compiled."""
        found = Found()
        for method in self.methods:
            self.rules(method).check_names(found)
        if found.errors:
            self._find_more(found)
        found.raise_all()

    def rules(self, method: str, later: frozenset[str] = frozenset()) -> Rules:
        """What a method is checked by; `later` are names that its module may define later."""
        source = self.methods[method]
        roles = roles_of(method, source)
        return Rules(self.name, source, roles, self.state, self.params, self._leaves, method=method, later=later)

    def check_native(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Raise KernelError for what native code of an env with these parameters would refuse. Nothing is compiled."""
        assert self.names_checked
        if self.ships:
            return
        layouts = [Layout(space) for space in self.spaces(self.record(parameters))]
        shapes = {name: column.shape[1:] for name, column in parameters.items() if column.ndim > 1}
        key = repr(([[(leaf.path, leaf.dtype, leaf.shape) for leaf in layout.leaves] for layout in layouts], shapes))
        if key not in self._checked_native:
            from vecenv.kernel.backend import check_native

            check_native(self, layouts[0], layouts[1], shapes)
            self._checked_native.add(key)

    @cached_property
    def _checked_native(self) -> set[str]:
        """Layouts and shapes for which native code refuses nothing."""
        return set()

    def _find_more(self, found: Found) -> None:
        """Add the mistakes that later stages find beside those that are known."""
        from vecenv.kernel.lower.resolve import find_mistakes

        parameters = self.parameters({}, 1)
        layouts = [Layout(space) for space in self.spaces(self.record(parameters))]
        find_mistakes(self, layouts[0], layouts[1], found)

    @cached_property
    def _leaves(self) -> dict[str, tuple[Leaf, ...]]:
        """Leaves of the spaces, except of those that depend on Params."""
        declared = {role: getattr(members(self.definition), name) for role, name in _SPACES.items()}
        return {role: Layout(space).leaves for role, space in declared.items() if isinstance(space, Space)}

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self  # it never changes

    def __reduce__(self) -> tuple[Any, ...]:
        return _build_known, (self.id, self.definition, self.max_episode_steps, self.kwargs)


def kernel(
    id: str, max_episode_steps: int | None = None, *, kwargs: Mapping[str, Any] | None = None
) -> Callable[[Class], Class]:
    """Make an env of a class of plain functions: `vecenv.make(id)` runs it as native code.

    The class has `observation_space`, `action_space`, `state` (a dict of numbers and fixed-shape arrays:
    `{"x": float, "board": (np.int8, (10, 10))}`) and the functions

        reset(s, rng, p)                writes the state that an episode begins with
        step(s, action, rng, p)         changes the state; returns reward, terminated (and truncated, if you like)
        observe(s, obs, p)              writes the observation

    and may have `Params` (a class of default values), `bounds` (of parameters: `{"slip": (0.0, 1.0)}`; values outside
    are refused), `shapes` (of parameters that may be longer or shorter than their defaults: `{"prices": (None, 5)}`),
    `info` (fields like those of `state`, handed out in infos), `action_mask(s, mask, p)`, `render(s, p)` (plain Python;
    returns an RGB array), `metadata`, and `configure(**kwargs)`, which turns arguments of `make` into values of Params.
    Spaces may be functions of Params.

    Args:
        id: the name for `vecenv.make`, `vecenv.make_env` and, with "vecenv/" before it, Gymnasium.
        max_episode_steps: episodes are truncated after this number of steps.
        kwargs: arguments of `make` that this id fixes.

    Raises:
        KernelError: the definition breaks a rule; it names class, function and line.
    """
    if not isinstance(id, str) or not id:
        rule = f"kernel() needs an id such as 'Walk-v0', got {id!r:.60}; write @vecenv.kernel('Walk-v0')"
        raise ConfigTypeError(rule)
    if max_episode_steps is not None:
        positive_int("max_episode_steps", max_episode_steps)

    def decorate(definition: Class) -> Class:
        announce(_build_known(id, definition, max_episode_steps, kwargs or {}))
        return definition

    return decorate


def _build_known(id: str, definition: type, max_episode_steps: int | None, kwargs: Mapping[str, Any]) -> Kernel:
    """Build a kernel and make it known by its id. Pickle calls this too."""
    with no_garbage_collection():
        built = build(id, definition, max_episode_steps, kwargs)
    add_kernel(built)
    return built


def build(id: str, definition: type, max_episode_steps: int | None, kwargs: Mapping[str, Any]) -> Kernel:
    """Read a class and check it."""
    if not isinstance(definition, type):
        raise KernelError(
            f"@vecenv.kernel is for classes, got {definition!r:.60}; put reset, step and observe into a class and the "
            "decorator on top of it",
            str(getattr(definition, "__name__", id)),
        )
    found, own = Found(), members(definition)
    check_members(own, found)
    state, info = read_fields(own, "state", found), read_fields(own, "info", found)
    for both in sorted(state.keys() & info.keys()):
        rule = f"field {both!r} is both in state and in info; declare it once"
        found.add(KernelError(rule, definition.__name__))
    params, defaults = read_params(own, found)
    methods = read_methods(own, found)
    with found.noting():
        read_render(definition)
    if not found.errors:
        with found.noting():
            params = with_shapes(definition, with_bounds(definition, params, defaults))
    found.raise_all()
    with_agents = has_agents(definition)
    if with_agents:
        defaults["slot_limit"] = np.array(max_episode_steps or NO_LIMIT)
    built = Kernel(
        id=id,
        definition=definition,
        max_episode_steps=max_episode_steps,
        kwargs=dict(kwargs),
        state={**state, **info},
        info=tuple(info),
        params=params,
        defaults=defaults,
        methods=methods,
        render=read_render(definition),
        fixed=frozenset(SLOT_PARAMS) if with_agents else frozenset(),
    )
    if not built.ships:
        check(built)
    return built


def check(built: Kernel) -> None:
    """Raise KernelError unless spaces and methods keep the rules, as far as can be known now.

    If a rule is broken, everything else that can be found out now is looked at too, so that one error names it all.
    """
    _check_spaces(built)
    found = Found()
    rules = {method: built.rules(method, later_names(source)) for method, source in built.methods.items()}
    for method, source in built.methods.items():
        rules[method].check(found)
        read_helpers(source)
    if found.errors:
        for its in rules.values():
            its.check_names(found)
        built._find_more(found)
    found.raise_all()


def _check_spaces(kernel: Kernel) -> None:
    for name, space in zip(_SPACES.values(), kernel.spaces(kernel.record(kernel.parameters({}, 1))), strict=True):
        _check_keys(kernel, name, space)
        for leaf in Layout(space).leaves:
            if leaf.by_value:
                where = f" at {leaf.path!r}" if leaf.path else ""
                raise KernelError(
                    f"{name}{where} is {leaf.space}; native code can hold Box, Discrete, MultiDiscrete, MultiBinary, "
                    "and Dict and Tuple of these",
                    kernel.name,
                )
            if leaf.dtype in (np.float16, np.uint64):
                raise KernelError(
                    f"{name} holds {leaf.dtype}; native code has float32 and float64, int64 and less", kernel.name
                )
        if name == "action_space" and "action_mask" in kernel.methods and not isinstance(space, spaces.Discrete):
            raise KernelError(f"action_mask needs a Discrete action space, this one is {space}", kernel.name)


def _check_keys(kernel: Kernel, name: str, space: Space[Any]) -> None:
    """Parts of a space are known by their keys with dots between them."""
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        return
    children = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
    for key, child in children.items():
        if not str(key) or "." in str(key):
            raise KernelError(f"{name} has the key {key!r}; use a key that is not empty and has no dot", kernel.name)
        _check_keys(kernel, name, child)
