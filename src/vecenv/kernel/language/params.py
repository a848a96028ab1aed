"""The base class of `Params` whose arrays are shared, and the one copy of such an array that a process has."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, KernelError
from vecenv.kernel.language.fields import Field


class Params:
    """Base class of a kernel's `Params` that says which arrays all envs share, instead of having one copy each.

    Write

        class Params(vecenv.kernel.Params, shared=True):
            prices = np.zeros((10_000, 5))
            fee = 0.001

    `shared=True` is for all arrays, `shared=("prices",)` for some. A number is never shared. A shared array is the same
    for all envs: `set_attr` sets it for all of them at once, and reset options and scenarios cannot set it.
    """

    __shared__: ClassVar[Any] = ()

    def __init_subclass__(cls, *, shared: bool | tuple[str, ...] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if shared is not None:
            cls.__shared__ = shared


def shared_names(kernel: str, declared: type, fields: Mapping[str, Field]) -> frozenset[str]:
    """Names of the arrays that are shared. Raises KernelError for a name that is none."""
    shared = getattr(declared, "__shared__", ())
    if isinstance(shared, bool):
        return frozenset(name for name, field in fields.items() if field.shape) if shared else frozenset()
    if not isinstance(shared, (tuple, list, set, frozenset)):
        raise KernelError(f"Params: shared must be True or a tuple of names, got {shared!r:.60}", kernel)
    for name in shared:
        if name not in fields:
            raise KernelError(f"Params: shared: there is no {name!r:.60}{did_you_mean(str(name), fields)}", kernel)
        if not fields[name].shape:
            raise KernelError(f"Params: {name!r} is a number, and only arrays are shared; leave it out", kernel)
    return frozenset(shared)


_copies: weakref.WeakValueDictionary[tuple[Any, ...], np.ndarray] = weakref.WeakValueDictionary()
"""Shared arrays that are in use, by their content."""


def one_copy(array: np.ndarray) -> np.ndarray:
    """A read-only array with this content, the same one for all callers."""
    array = np.ascontiguousarray(array)
    content: Any = array.reshape(-1).view(np.uint8)  # NumPy's stubs do not say that arrays are buffers
    key = array.dtype.str, array.shape, hashlib.blake2b(content).digest()
    held = _copies.get(key)
    if held is None:
        held = array.copy()
        held.flags.writeable = False
        held = _copies.setdefault(key, held)
    return held


def not_per_env(name: str) -> ConfigError:
    """The error for several values of a shared parameter."""
    return ConfigError(
        f"parameter {name!r} is shared by all envs, so they cannot have different values; give one value for all, or "
        "take shared away from its Params"
    )


def not_for_an_episode(name: str) -> ConfigError:
    """The error for a shared parameter among reset options or in a scenario."""
    return ConfigError(
        f"parameter {name!r} is shared by all envs, so it cannot be set for an episode of one; use set_attr({name!r}, "
        "value), which sets it for all"
    )


def common_value(name: str, values: Any) -> Any:
    """The one value among `values`, one per env. Raises ConfigError if they differ."""
    first = values[0]
    for value in values:
        if value is not first and not _same(value, first):
            raise not_per_env(name)
    return first


def _same(one: Any, other: Any) -> bool:
    try:
        return np.array_equal(np.asarray(one), np.asarray(other))
    except ValueError:  # ragged
        return False
