"""What the members of a kernel's class declare, read once and checked: fields, parameters, methods."""

from __future__ import annotations

import dataclasses
import inspect
import numbers
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from vecenv._util.suggest import did_you_mean, nearest
from vecenv.errors import ConfigError, ConfigTypeError, KernelError
from vecenv.kernel.language.fields import Field, FieldError, declare, field_of
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.params import not_per_env, one_copy, shared_names
from vecenv.kernel.language.rules import signature
from vecenv.kernel.language.scope import METHODS
from vecenv.kernel.language.source import FunctionSource, read_source

_NEEDED = ("reset", "step", "observe")
_PARAMS = "Params is a class of default values; write class Params: speed = 0.1"


def check_members(definition: type, found: Found) -> None:
    """Note every member that a kernel needs and the class does not have."""
    name = definition.__name__
    for needed in ("observation_space", "action_space", "state"):
        if not hasattr(definition, needed):
            rule = f"there is no {needed}; a kernel declares observation_space, action_space and state"
            found.add(KernelError(rule, name))
    for method in _NEEDED:
        if not hasattr(definition, method):
            near = nearest(method, vars(definition))
            hint = f", or rename {near!r}" if near else ""
            found.add(KernelError(f"there is no method {method}; define {signature(method)}{hint}", name))
        elif getattr(definition, method) is None:
            found.add(KernelError(f"{method} is None; define {signature(method)}", name))
    metadata = getattr(definition, "metadata", {})
    if not isinstance(metadata, Mapping):
        found.add(KernelError(f"metadata must be a dict, got {metadata!r:.60}", name))


def read_fields(definition: type, kind: str, found: Found) -> dict[str, Field]:
    """The fields of `state` or `info`; mistakes are noted."""
    declared = getattr(definition, kind, {})
    if not isinstance(declared, Mapping):
        rule = f"{kind} must be a dict of name: type, got {declared!r:.60}"
        found.add(KernelError(rule, definition.__name__))
        return {}
    fields: dict[str, Field] = {}
    for name, entry in declared.items():
        try:
            fields[name] = declare(_identifier(name), entry)
        except FieldError as error:
            found.add(KernelError(f"{kind}: {error}", definition.__name__))
    return fields


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise FieldError(f"{name!r} is not a name for a field; use a plain identifier")
    return name


def read_params(definition: type, found: Found) -> tuple[dict[str, Field], dict[str, np.ndarray]]:
    """The fields of `Params`, those that it inherits first, and their default values; mistakes are noted."""
    declared = getattr(definition, "Params", None)
    if declared is None and hasattr(definition, "params"):
        found.add(KernelError(f"params is not read; {_PARAMS}", definition.__name__))
    if declared is None:
        return {}, {}
    if not isinstance(declared, type):
        found.add(KernelError(f"{_PARAMS}; got {declared!r:.60}", definition.__name__))
        return {}, {}
    values: dict[str, Any] = {}
    annotated: list[str] = []
    for cls in reversed(declared.__mro__[:-1]):
        values |= {name: value for name, value in vars(cls).items() if not name.startswith("_")}
        annotated += [name for name in inspect.get_annotations(cls) if not name.startswith("_")]
    for bare in annotated:
        if bare not in values:
            rule = f"Params: {bare!r} has no default; write {bare} = 0.0, or what it is"
            found.add(KernelError(rule, definition.__name__))
    fields: dict[str, Field] = {}
    for name, value in values.items():
        try:
            fields[name] = field_of(name, value)
        except FieldError as error:
            found.add(KernelError(f"Params: {error}", definition.__name__))
    with found.noting():
        for name in shared_names(definition.__name__, declared, fields):
            fields[name] = dataclasses.replace(fields[name], shared=True)
    return fields, {name: np.array(values[name], field.dtype) for name, field in fields.items()}


def with_bounds(definition: type, params: dict[str, Field], defaults: Mapping[str, np.ndarray]) -> dict[str, Field]:
    """The parameters with what `bounds` declares of them: `{"slip": (0.0, 1.0), "lives": (1, None)}`."""
    declared, kernel = getattr(definition, "bounds", {}), definition.__name__
    if not isinstance(declared, Mapping):
        raise KernelError(f"bounds must be a dict of parameter: (low, high), got {declared!r:.60}", kernel)
    bounded = dict(params)
    for name, pair in declared.items():
        if name not in params:
            raise KernelError(f"bounds: Params has no {name!r}{did_you_mean(name, params)}", kernel)
        if not _is_pair(pair):
            rule = f"bounds: {name!r} has {pair!r:.60}; write (low, high), with None where there is no bound"
            raise KernelError(rule, kernel)
        bounded[name] = dataclasses.replace(params[name], low=pair[0], high=pair[1])
        try:
            check_bounds(bounded[name], defaults[name])
        except ConfigError as error:
            raise KernelError(f"bounds: {error}, its default", kernel) from None
    return bounded


def with_shapes(definition: type, params: dict[str, Field]) -> dict[str, Field]:
    """The parameters with what `shapes` declares of them: `{"prices": (None, 5)}`, None for an axis of any size."""
    declared, kernel = getattr(definition, "shapes", {}), definition.__name__
    if not isinstance(declared, Mapping):
        raise KernelError(f"shapes must be a dict of parameter: shape, got {declared!r:.60}", kernel)
    shaped = dict(params)
    for name, shape in declared.items():
        if name not in params:
            raise KernelError(f"shapes: Params has no {name!r}{did_you_mean(name, params)}", kernel)
        default = params[name].shape
        plain = isinstance(shape, tuple) and len(shape) == len(default) > 0
        if not plain or any(size not in (None, own) for size, own in zip(shape, default, strict=True)):
            if not default:
                raise KernelError(f"shapes: {name!r} is a number; only arrays have a shape", kernel)
            raise KernelError(
                f"shapes: {name!r} has {shape!r:.60}, and its default the shape {default}; write these sizes with None "
                f"where any will do: {_any_size(default)}",
                kernel,
            )
        free = frozenset(axis for axis, size in enumerate(shape) if size is None)
        shaped[name] = dataclasses.replace(params[name], free=free)
    return shaped


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, tuple) or len(pair) != 2:
        return False
    return all(bound is None or isinstance(bound, numbers.Real) for bound in pair)


def read_methods(definition: type, found: Found) -> dict[str, FunctionSource]:
    """The source of the methods that are compiled; mistakes are noted."""
    methods: dict[str, FunctionSource] = {}
    for method in METHODS:
        if getattr(definition, method, None) is not None:
            with found.noting():
                methods[method] = _read_method(definition, method)
    return methods


def _read_method(definition: type, method: str) -> FunctionSource:
    name, function = definition.__name__, inspect.getattr_static(definition, method)
    function = getattr(function, "__func__", function)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise KernelError("it is async, but a kernel waits for nothing; define it by a plain `def`", name, method)
    if not isinstance(function, FunctionType):
        what = "is wrapped by a decorator" if hasattr(function, "__wrapped__") else f"is {function!r:.60}"
        raise KernelError(
            f"it {what}, which native code would not run; define it by a plain `def`: {signature(method)}", name, method
        )
    try:
        source = read_source(function)
    except (OSError, TypeError, SyntaxError):
        raise KernelError(
            "its source cannot be read; a kernel must be defined by `def` in a file or a notebook, not at the prompt",
            name,
            method,
        ) from None
    if len(source.parameters) != len(METHODS[method]) or not source.is_plain or source.node.args.defaults:
        rule = f"it must be defined as {signature(method)}, without self and defaults"
        raise KernelError(rule, name, method, source.file, source.node.lineno)
    return source


def read_render(definition: type) -> Callable[..., Any] | None:
    """The function that draws an env, if there is one."""
    render = getattr(definition, "render", None)
    if render is not None and not callable(render):
        raise KernelError(f"render is {render!r:.60}; define render(s, p), or leave it out", definition.__name__)
    return render


def per_env(field: Field, value: Any, count: int) -> np.ndarray:
    """A column of a parameter: the value repeated, or as it is if it has one entry per env.

    That of a shared parameter has one row, which is read-only: every env has this one.

    Raises:
        ConfigTypeError: it is no number, or a float for an int.
        ConfigError: it does not fit the type, the bounds or the shape of the parameter, or it is shared and has one
            entry per env.
    """
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.asarray(None)
    dtype, dimensions = field.dtype, len(field.shape)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise ConfigTypeError(f"parameter {field.name!r} must be {dtype}, got {value!r:.60}")
    with np.errstate(over="ignore"):
        column = array.astype(dtype)
    same = np.isfinite(array) == np.isfinite(column) if dtype.kind == "f" else array == column
    if not np.all(same):
        wrong = array[~same].flat[0].item()
        raise ConfigError(f"parameter {field.name!r} is {dtype}, which cannot hold {wrong!r}")
    check_bounds(field, column)
    if field.shared:
        return _shared_column(field, column, count)
    if array.ndim == dimensions + 1 and len(array) == count:
        _check_shape(field, array.shape[1:])
        return np.ascontiguousarray(column)
    if array.ndim == dimensions:
        _check_shape(field, array.shape)
        return np.ascontiguousarray(np.broadcast_to(column, (count, *array.shape)))
    raise ConfigError(
        f"parameter {field.name!r} has {dimensions} dimensions, or one more for a value per env ({count} of them); "
        f"got shape {array.shape}"
    )


def _shared_column(field: Field, column: np.ndarray, count: int) -> np.ndarray:
    dimensions = len(field.shape)
    if column.ndim == dimensions + 1 and len(column) == 1:
        column = column[0]  # the column of another env
    if column.ndim == dimensions + 1 and len(column) == count:
        raise not_per_env(field.name)
    if column.ndim != dimensions:
        raise ConfigError(f"parameter {field.name!r} has {dimensions} dimensions, got shape {column.shape}")
    _check_shape(field, column.shape)
    return one_copy(column[None])


def _check_shape(field: Field, shape: tuple[int, ...]) -> None:
    if field.fits(shape):
        return
    if field.free:
        sizes = ", ".join("any" if size is None else str(size) for size in field.sizes)
        raise ConfigError(f"parameter {field.name!r} must have shape ({sizes}), got {shape}")
    raise ConfigError(
        f"parameter {field.name!r} must have shape {field.shape}, got {shape}; if the kernel works with any size, "
        f"declare shapes = {{{field.name!r}: {_any_size(shape)}}} in it"
    )


def _any_size(shape: tuple[int, ...]) -> str:
    return repr((None,) * len(shape))


def check_bounds(field: Field, values: np.ndarray) -> None:
    """Raise ConfigError if a value is not within the bounds of its parameter; NaN never is."""
    low, high = field.low, field.high
    if low is None and high is None:
        return
    fits = (values >= (-np.inf if low is None else low)) & (values <= (np.inf if high is None else high))
    if fits.all():
        return
    wrong = values[~fits].flat[0].item()
    allowed = f"at least {low}" if high is None else f"at most {high}" if low is None else f"in {low} ... {high}"
    raise ConfigError(f"parameter {field.name!r} must be {allowed}, got {wrong!r}")
