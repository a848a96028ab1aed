"""Returns and advantages, computed by native code.

In all functions, transition t starts in the state whose value is `value[t]`; `reward[t]`, `terminated[t]` and
`truncated[t]` are its results, and `last_value` is the value of the state after the last transition. After termination
the value is zero. A truncated episode is bootstrapped from `final_value[t]`, the value of its last observation. Without
`final_value` that observation is the one of row t + 1, as in "next-step" mode; `discounted_returns` has no values of
rows, so it needs `final_value`.

Arrays have the axes [T, ...] (`last_value` without T). All are computed in the dtype of `value`, float32 or float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv._util.checks import positive_int
from vecenv.buffers import _returns_native
from vecenv.errors import ConfigError, SpaceError
from vecenv.kernel.numba.functions import address_of, float32_at, float64_at, native_function, table_of

_table = table_of(f"{_returns_native.WORDS}q")


def gae(
    reward: np.ndarray,
    value: np.ndarray,
    last_value: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    gamma: float,
    lam: float,
    final_value: np.ndarray | None = None,
    valid: np.ndarray | None = None,
    out: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Generalized advantage estimation.

    Args:
        reward, value, last_value, terminated, truncated, final_value: see the module's docstring.
        gamma: discount factor.
        lam: 0 looks one step ahead, 1 to the end of the episode.
        valid: False where a row is not a transition; its advantage is 0, and the row before it in the same episode
            looks past it.
        out: arrays to write to: of the shape and dtype of `value`, contiguous, writable, and none of the inputs.

    Returns:
        Advantages, and returns: advantages plus values.
    """
    return _run("gae", reward, value, last_value, terminated, truncated, final_value=final_value, valid=valid,
                numbers=(gamma, gamma * lam), out=out)  # fmt: skip


def discounted_returns(
    reward: np.ndarray,
    last_value: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    gamma: float,
    final_value: np.ndarray | None = None,
) -> np.ndarray:
    """Discounted sums of rewards to the end of each episode, bootstrapped from `last_value` after the last row.

    Computed in the dtype of `last_value`.

    Raises:
        ConfigError: an episode was truncated and `final_value` was not given, so there is nothing to bootstrap from.
    """
    if final_value is None and np.any(truncated):
        raise ConfigError(
            f"{np.count_nonzero(truncated)} of these rows truncated an episode; pass final_value, the value of the "
            "observation each ended with (zeros ignore what would follow)"
        )
    value = np.broadcast_to(np.asarray(last_value), np.shape(reward))
    return _run("discounted", reward, value, last_value, terminated, truncated, final_value=final_value,
                numbers=(gamma,))[1]  # fmt: skip


def n_step_returns(
    reward: np.ndarray,
    value: np.ndarray,
    last_value: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    gamma: float,
    n: int,
    final_value: np.ndarray | None = None,
) -> np.ndarray:
    """Discounted rewards of n steps plus the value of the state after them; fewer where an episode or the rows end."""
    return _run("n_step", reward, value, last_value, terminated, truncated, final_value=final_value,
                numbers=(gamma,), horizon=positive_int("n", n))[1]  # fmt: skip


def v_trace(
    reward: np.ndarray,
    value: np.ndarray,
    last_value: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    ratio: np.ndarray,
    *,
    gamma: float,
    lam: float = 1.0,
    rho: float = 1.0,
    c: float = 1.0,
    final_value: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """V-trace (Espeholt et al. 2018): values of a target policy from transitions of another policy.

    Args:
        reward, value, last_value, terminated, truncated, final_value: see the module's docstring.
        ratio: probability of each action under the target policy, divided by that under the policy that acted.
        gamma: discount factor.
        lam: multiplies `c`.
        rho, c: upper limits of the ratios.

    Returns:
        Advantages for the policy gradient, and the targets of the values.
    """
    return _run("v_trace", reward, value, last_value, terminated, truncated, final_value=final_value, ratio=ratio,
                numbers=(gamma, lam, rho, c))  # fmt: skip


def _run(
    name: str,
    reward: np.ndarray,
    value: np.ndarray,
    last_value: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    numbers: tuple[float, ...],
    final_value: np.ndarray | None = None,
    valid: np.ndarray | None = None,
    ratio: np.ndarray | None = None,
    horizon: int = 0,
    out: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    value = np.asarray(value)
    dtype = value.dtype if value.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if value.ndim < 1:
        raise SpaceError("returns need a first axis for time; got a single value")
    length, count = len(value), int(np.prod(value.shape[1:], dtype=np.int64))
    advantages, returns = (np.empty(value.shape, dtype), np.empty(value.shape, dtype)) if out is None else out
    reals, zeros = np.zeros(4), np.zeros(count, dtype)
    reals[: len(numbers)] = numbers
    columns = {
        "reward": (reward, dtype), "value": (value, dtype), "last_value": (last_value, dtype),
        "terminated": (terminated, np.bool_), "truncated": (truncated, np.bool_), "final_value": (final_value, dtype),
        "valid": (valid, np.bool_), "ratio": (ratio, dtype),
    }  # fmt: skip
    given: list[Any] = [
        None
        if column is None
        else _column(word, column, kind, value.shape[1:] if word == "last_value" else value.shape)
        for word, (column, kind) in columns.items()
    ]
    if out is not None:
        _check_out(advantages, dtype, value.shape, [returns, *given])
        _check_out(returns, dtype, value.shape, given)
    words = [0 if array is None else address_of(array) for array in [*given, advantages, returns]]
    if length and count:
        _native(name, dtype.char)(
            _table(*words, length, count, min(horizon, length), address_of(reals), address_of(zeros))
        )
    return advantages, returns


def _column(name: str, values: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.ascontiguousarray(values, dtype)
    if array.shape != shape and not (shape == () and array.size == 1):
        raise SpaceError(f"{name} has shape {array.shape}, but the values need {shape}")
    return array


def _check_out(out: Any, dtype: Any, shape: tuple[int, ...], others: list[Any]) -> None:
    """Raise SpaceError unless native code may write to an array of the caller's; it would write anywhere."""
    if not isinstance(out, np.ndarray) or out.dtype != dtype or not out.flags.c_contiguous:
        got = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise SpaceError(f"out must be contiguous arrays of dtype {np.dtype(dtype)}, got {got}")
    if out.shape != shape:
        raise SpaceError(f"out has shape {out.shape}, but the values need {shape}")
    if not out.flags.writeable:
        raise SpaceError("out must be arrays that can be written to, got one that is read-only; pass others")
    if any(other is not None and np.may_share_memory(out, other) for other in others):
        raise SpaceError("out must be two arrays of their own, got one that shares memory with the other or an input")


@functools.cache
def _native(name: str, kind: str) -> Callable[[bytes], None]:
    single = kind == "f"
    types = {"values_at": float32_at if single else float64_at, "number": np.float32 if single else np.float64}
    return native_function(getattr(_returns_native, name), **types, size=np.dtype(kind).itemsize)
