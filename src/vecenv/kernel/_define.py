"""The decorator: from a class of plain functions to a kernel, with every rule that can be checked at once."""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from gymnasium import Space, spaces

from vecenv._checks import positive_int
from vecenv._layout import Layout
from vecenv._leaf import Leaf
from vecenv.errors import ConfigError, ConfigTypeError, KernelError
from vecenv.kernel._fields import Field, FieldError, Record, declare, field_of
from vecenv.kernel._registry import add_kernel
from vecenv.kernel._rules import Rules
from vecenv.kernel._source import Source, read_source

Class = TypeVar("Class", bound=type)

METHODS: dict[str, tuple[str, ...]] = {
    "reset": ("state", "rng", "params"),
    "step": ("state", "action", "rng", "params"),
    "observe": ("state", "obs", "params"),
    "action_mask": ("state", "mask", "params"),
}
"""What the parameters of each compiled method stand for, in order."""
_SPACES = {"obs": "observation_space", "action": "action_space"}
_NEEDED = ("reset", "step", "observe")
_SIGNATURES = {
    "reset": "reset(s, rng, p)",
    "step": "step(s, action, rng, p)",
    "observe": "observe(s, obs, p)",
    "action_mask": "action_mask(s, mask, p)",
    "render": "render(s, p)",
}
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
        params: names, types and default shapes of the parameters.
        defaults: their default values.
        methods: source of the methods that are compiled.
        render: the method that draws an env, if there is one.
    """

    id: str
    definition: type
    max_episode_steps: int | None
    kwargs: Mapping[str, Any]
    state: dict[str, Field]
    info: tuple[str, ...]
    params: dict[str, Field]
    defaults: dict[str, np.ndarray]
    methods: dict[str, Source]
    render: Callable[..., Any] | None

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.definition.__name__

    def parameters(self, kwargs: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
        """One value per env of every parameter.

        Args:
            kwargs: arguments of `make`. A parameter may be given once, or once per env with a first axis of `count`.
            count: number of envs.

        Raises:
            ConfigTypeError: an argument that the env does not have, or a value that is none for it.
        """
        given = self._configured({**self.kwargs, **kwargs})
        for name in given:
            if name not in self.params:
                near = difflib.get_close_matches(name, self.params, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                known = ", ".join(self.params) or "none"
                raise ConfigTypeError(f"{self.id} has no parameter {name!r}{hint} (parameters: {known})")
        return {
            name: per_env(field, given.get(name, self.defaults[name]), count) for name, field in self.params.items()
        }

    def _configured(self, kwargs: dict[str, Any]) -> Mapping[str, Any]:
        configure = getattr(self.definition, "configure", None)
        if configure is None:
            return kwargs
        try:
            inspect.signature(configure).bind(**kwargs)
        except TypeError as error:
            raise ConfigTypeError(f"{self.id}: {error}; it takes {inspect.signature(configure)}") from None
        return configure(**kwargs)

    def record(self, params: Mapping[str, np.ndarray], row: int = 0) -> Record:
        """The parameters of one env as its methods see them."""
        fields = {name: Field(name, column.dtype, column.shape[1:]) for name, column in params.items()}
        return Record(fields, {name: column[row] for name, column in params.items()}, frozen=_FROZEN)

    def spaces(self, params: Record) -> tuple[Space[Any], Space[Any]]:
        """Observation and action space of an env with these parameters."""
        return self._space("observation_space", params), self._space("action_space", params)

    def _space(self, name: str, params: Record) -> Space[Any]:
        declared = getattr(self.definition, name)
        # A copy: a space has a random stream, and one env's must not be another's.
        return copy.deepcopy(declared) if isinstance(declared, Space) else declared(params)

    @functools.cached_property
    def names_checked(self) -> bool:
        """True, once: raises KernelError if a method uses a name that does not exist or cannot be compiled."""
        for method in self.methods:
            self.rules(method).check_names()
        return True

    def rules(self, method: str) -> Rules:
        """What a method is checked by."""
        source = self.methods[method]
        return Rules(self.name, source, roles_of(method, source), self.state, self.params, self._leaves)

    @functools.cached_property
    def _leaves(self) -> dict[str, tuple[Leaf, ...]]:
        """Leaves of the spaces, except of those that depend on Params."""
        declared = {role: getattr(self.definition, name) for role, name in _SPACES.items()}
        return {role: Layout(space).leaves for role, space in declared.items() if isinstance(space, Space)}

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self  # it never changes

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.id, self.definition, self.max_episode_steps, self.kwargs)


def kernel(
    id: str, max_episode_steps: int | None = None, *, kwargs: Mapping[str, Any] | None = None
) -> Callable[[Class], Class]:
    """Make an env of a class of plain functions: `vecenv.make(id)` runs it as native code.

    The class has `observation_space`, `action_space`, `state` (a dict of numbers and fixed-shape arrays:
    `{"x": float, "board": (np.int8, (10, 10))}`) and the functions

        reset(s, rng, p)                writes the state that an episode begins with
        step(s, action, rng, p)         changes the state; returns reward, terminated (and truncated, if you like)
        observe(s, obs, p)              writes the observation

    and may have `Params` (a class of default values), `info` (fields like those of `state`, handed out in infos),
    `action_mask(s, mask, p)`, `render(s, p)` (plain Python; returns an RGB array), `metadata`, and `configure(**kwargs)`,
    which turns arguments of `make` into values of Params. Spaces may be functions of Params.

    Args:
        id: the name for `vecenv.make`, `vecenv.make_env` and, with "vecenv/" before it, Gymnasium.
        max_episode_steps: episodes are truncated after so many steps.
        kwargs: arguments of `make` that this id fixes.

    Raises:
        KernelError: the definition breaks a rule; it names class, function and line.
    """
    if not isinstance(id, str) or not id:
        raise ConfigTypeError(f"kernel() needs an id such as 'Walk-v0', got {id!r:.60}; write @vecenv.kernel('Walk-v0')")
    if max_episode_steps is not None:
        positive_int("max_episode_steps", max_episode_steps)

    def decorate(definition: Class) -> Class:
        from vecenv._registration import register_kernel

        built = build(id, definition, max_episode_steps, kwargs or {})
        add_kernel(built)
        register_kernel(built)
        definition.__kernel__ = built  # type: ignore[attr-defined]  # so that check_kernel(Walk) finds it
        return definition

    return decorate


def _rebuild(id: str, definition: type, max_episode_steps: int | None, kwargs: Mapping[str, Any]) -> Kernel:
    """What pickle calls."""
    built = build(id, definition, max_episode_steps, kwargs)
    add_kernel(built)
    return built


def build(id: str, definition: type, max_episode_steps: int | None, kwargs: Mapping[str, Any]) -> Kernel:
    """Read a class and check it."""
    name = definition.__name__
    if not isinstance(definition, type):
        raise KernelError(f"@vecenv.kernel is for classes, got {definition!r:.60}", str(name))
    _check_members(definition)
    state, info = _declared(definition, "state"), _declared(definition, "info")
    both = state.keys() & info.keys()
    if both:
        raise KernelError(f"field {min(both)!r} is both in state and in info; declare it once", name)
    params, defaults = _parameters(definition)
    methods = {method: _method(definition, method, roles) for method, roles in METHODS.items() if _has(definition, method)}
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
        render=definition.__dict__.get("render") or getattr(definition, "render", None),
    )
    _check_spaces(built)
    for method in methods:
        built.rules(method).check()
    return built


def roles_of(method: str, source: Source) -> dict[str, str]:
    """What the parameters of a method stand for, by their names."""
    return dict(zip(source.parameters, METHODS[method], strict=True))


def per_env(field: Field, value: Any, count: int) -> np.ndarray:
    """A column of a parameter: the value repeated, or as it is if it has one entry per env."""
    array = np.asarray(value)
    dtype = field.dtype
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise ConfigTypeError(f"parameter {field.name!r} must be {field.dtype}, got {value!r:.60}")
    dimensions = len(field.shape)
    if array.ndim == dimensions + 1 and len(array) == count:
        return np.ascontiguousarray(array.astype(dtype))
    if array.ndim == dimensions:
        return np.ascontiguousarray(np.broadcast_to(array.astype(dtype), (count, *array.shape)))
    raise ConfigError(
        f"parameter {field.name!r} has {dimensions} dimensions, or one more for a value per env ({count} of them); "
        f"got shape {array.shape}"
    )


def _has(definition: type, name: str) -> bool:
    return callable(getattr(definition, name, None))


def _check_members(definition: type) -> None:
    name = definition.__name__
    for needed in ("observation_space", "action_space", "state"):
        if not hasattr(definition, needed):
            raise KernelError(f"there is no {needed}; a kernel declares observation_space, action_space and state", name)
    for method in _NEEDED:
        if not _has(definition, method):
            near = difflib.get_close_matches(method, vars(definition), n=1)
            hint = f" (did you mean it by {near[0]!r}?)" if near else ""
            raise KernelError(f"there is no method {method}; define {_SIGNATURES[method]}{hint}", name)


def _declared(definition: type, kind: str) -> dict[str, Field]:
    declared = getattr(definition, kind, {})
    if not isinstance(declared, Mapping):
        raise KernelError(f"{kind} must be a dict of name: type, got {declared!r:.60}", definition.__name__)
    try:
        return {name: declare(_identifier(name), entry) for name, entry in declared.items()}
    except FieldError as error:
        raise KernelError(f"{kind}: {error}", definition.__name__) from None


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise FieldError(f"{name!r} is not a name for a field; use a plain identifier")
    return name


def _parameters(definition: type) -> tuple[dict[str, Field], dict[str, np.ndarray]]:
    declared = getattr(definition, "Params", None)
    values = {} if declared is None else {k: v for k, v in vars(declared).items() if not k.startswith("_")}
    try:
        fields = {name: field_of(name, value) for name, value in values.items()}
    except FieldError as error:
        raise KernelError(f"Params: {error}", definition.__name__) from None
    return fields, {name: np.array(value, fields[name].dtype) for name, value in values.items()}


def _method(definition: type, method: str, roles: tuple[str, ...]) -> Source:
    function = inspect.getattr_static(definition, method)
    function = getattr(function, "__func__", function)
    try:
        source = read_source(function)
    except (OSError, TypeError, SyntaxError):
        raise KernelError(
            "its source cannot be read; a kernel must be defined by `def` in a file or a notebook, not at the prompt",
            definition.__name__,
            method,
        ) from None
    arguments = source.node.args
    plain = not (arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults)
    if len(source.parameters) != len(roles) or not plain:
        raise KernelError(
            f"it must be defined as {_SIGNATURES[method]}, without self and defaults",
            definition.__name__,
            method,
            source.file,
            source.node.lineno,
        )
    return source


def _check_spaces(kernel: Kernel) -> None:
    for name in ("observation_space", "action_space"):
        declared = getattr(kernel.definition, name)
        if not isinstance(declared, Space) and not callable(declared):
            raise KernelError(f"{name} must be a gymnasium Space or a function of Params, got {declared!r:.60}", kernel.name)
    observation, action = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
    for name, space in (("observation_space", observation), ("action_space", action)):
        for leaf in Layout(space).leaves:
            if leaf.by_value:
                where = f" at {leaf.path!r}" if leaf.path else ""
                raise KernelError(
                    f"{name}{where} is {leaf.space}; native code can hold Box, Discrete, MultiDiscrete, MultiBinary, and "
                    "Dict and Tuple of these",
                    kernel.name,
                )
    if "action_mask" in kernel.methods and not isinstance(action, spaces.Discrete):
        raise KernelError(f"action_mask needs a Discrete action space, this one is {action}", kernel.name)
