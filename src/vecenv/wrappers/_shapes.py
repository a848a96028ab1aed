"""Wrappers that give observations another form: parts of them, other shapes, types, scales, any function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from vecenv._front.exchange import Exchange
from vecenv.errors import SpaceError
from vecenv.wrappers._flatten import flatten_function
from vecenv.wrappers._observations import ObservationFunction, check_arrays, check_box, count_of
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class FilterObservation(Wrapper):
    """Some entries of dicts or tuples.

    Args:
        env: the vector env.
        filter_keys: keys of a Dict, positions in a Tuple.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, filter_keys: Sequence[str | int]) -> None:
        super().__init__(env, Filter(filter_keys))
        self.filter_keys = filter_keys


class ExtractObservation(Wrapper):
    """One entry of dicts or tuples, as the whole observation.

    Args:
        env: the vector env.
        key: of a Dict, or position in a Tuple.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, key: str | int) -> None:
        super().__init__(env, Extract(key))
        self.key = key


class FlattenObservation(Wrapper):
    """Observations as vectors, as `gymnasium.spaces.flatten` makes them: discrete ones become one-hot.

    Args:
        env: the vector env.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        super().__init__(env, Flatten())


class ReshapeObservation(Wrapper):
    """Observations of another shape and the same size.

    Args:
        env: the vector env.
        shape: of a single observation.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, shape: int | tuple[int, ...]) -> None:
        super().__init__(env, Reshape(shape))


class RescaleObservation(Wrapper):
    """Observations moved linearly from the bounds of their Box to others.

    Args:
        env: the vector env.
        min_obs, max_obs: new bounds, one for all entries or one for each; infinite exactly where the old ones are.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, min_obs: Any, max_obs: Any) -> None:
        super().__init__(env, Rescale(min_obs, max_obs))


class DtypeObservation(Wrapper):
    """Observations of another type.

    Args:
        env: the vector env.
        dtype: NumPy's.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, dtype: Any) -> None:
        super().__init__(env, Dtype(dtype))


class TransformObservation(Wrapper):
    """Observations through a function.

    Args:
        env: the vector env.
        func: of a batch of observations of any number of envs; returns a new batch. It is also called for those that
            end episodes, in "same-step" mode.
        observation_space: of its batches; default: of `single_observation_space`.
        single_observation_space: of one observation; default: unchanged.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        func: Callable[[Any], Any],
        observation_space: Space[Any] | None = None,
        single_observation_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(env, AnyFunction(func, single_observation_space))
        self.func = func
        if observation_space is not None:
            self.observation_space = observation_space
        if self.observation_space != batch_space(self.single_observation_space, self.num_envs):
            gymnasium.logger.warn(
                f"the batch space {self.observation_space} is not that of {self.num_envs} single observations in "
                f"{self.single_observation_space}; give TransformObservation both spaces"
            )


class VectorizeTransformObservation(Wrapper):
    """Observations through a wrapper of single envs, one after the other: slow.

    Args:
        env: the vector env.
        wrapper: a `gymnasium.ObservationWrapper` without memory, built around an env that only has a space.
        kwargs: for the wrapper.
    """

    def __init__(
        self, env: gymnasium.vector.VectorEnv, wrapper: Callable[..., gymnasium.ObservationWrapper], **kwargs: Any
    ) -> None:
        single = gymnasium.Env()
        single.observation_space = env.single_observation_space
        self.wrapper = wrapper(single, **kwargs)
        super().__init__(env, OneByOne(self.wrapper.observation, self.wrapper.observation_space))


# --- transforms ------------------------------------------------------------------------------------------------------


class Filter(Transform):
    """Some entries. Nothing is copied, so leaves may be of any kind."""

    def __init__(self, keys: Sequence[str | int]) -> None:
        if isinstance(keys, str) or not isinstance(keys, Sequence):
            raise SpaceError(f"filter_keys must be a list of keys, got {type(keys).__name__}")
        self._keys = list(keys)

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        if not self._keys:
            raise SpaceError("filter_keys is empty; name what to keep")
        if len(set(self._keys)) != len(self._keys):
            raise SpaceError(f"filter_keys has duplicates: {self._keys}")
        children = [child_of(observation, key) for key in self._keys]
        if isinstance(observation, spaces.Tuple):
            return spaces.Tuple(children), action
        space = spaces.Dict(dict(zip(map(str, self._keys), children, strict=True)))
        self._keys = list(space.spaces)  # also the order of the entries in observations
        return space, action

    def exchange(self, exchange: Exchange) -> None:
        exchange.obs = self._chosen(exchange.obs)
        if exchange.final_obs is not None:
            exchange.final_obs = self._chosen(exchange.final_obs)

    def _chosen(self, obs: Any) -> Any:
        if isinstance(obs, tuple):
            return tuple(obs[int(key)] for key in self._keys)
        return {key: obs[key] for key in self._keys}


class Extract(Transform):
    """One entry."""

    def __init__(self, key: str | int) -> None:
        self._key = key

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        return child_of(observation, self._key), action

    def exchange(self, exchange: Exchange) -> None:
        exchange.obs = exchange.obs[self._key]
        if exchange.final_obs is not None:
            exchange.final_obs = exchange.final_obs[self._key]


class Flatten(ObservationFunction):
    """Vectors."""

    def space(self, space: Space[Any]) -> Space[Any]:
        self._function = flatten_function(space)
        return spaces.flatten_space(space)

    def function(self, obs: Any) -> Any:
        return self._function(obs)


class Reshape(ObservationFunction):
    """Another shape."""

    def __init__(self, shape: int | tuple[int, ...]) -> None:
        self._shape = (shape,) if isinstance(shape, int) else tuple(shape)

    def space(self, space: Space[Any]) -> Space[Any]:
        box = check_box(space, self)
        if np.prod(self._shape) != np.prod(box.shape) or any(size <= 0 for size in self._shape):
            raise SpaceError(f"observations of shape {box.shape} cannot be given the shape {self._shape}")
        low, high = box.low.reshape(self._shape), box.high.reshape(self._shape)
        return spaces.Box(low, high, self._shape, box.dtype)  # type: ignore[arg-type]  # a Box's own

    def function(self, obs: Any) -> Any:
        return obs.reshape(len(obs), *self._shape)


class Rescale(ObservationFunction):
    """Other bounds. The function is Gymnasium's, which works on batches as it is."""

    def __init__(self, low: Any, high: Any) -> None:
        self._low, self._high = low, high

    def space(self, space: Space[Any]) -> Space[Any]:
        from gymnasium.wrappers.utils import rescale_box

        try:
            scaled, self._function, _ = rescale_box(check_box(space, self), self._low, self._high)
        except (AssertionError, ValueError, TypeError) as error:
            raise SpaceError(f"cannot rescale {space} to bounds {self._low} and {self._high}: {error}") from error
        return scaled

    def function(self, obs: Any) -> Any:
        return self._function(obs)


class Dtype(ObservationFunction):
    """Another type."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)

    def space(self, space: Space[Any]) -> Space[Any]:
        dtype: Any = self._dtype.type
        if isinstance(space, spaces.Box):
            with np.errstate(over="ignore"):  # bounds beyond the new type become infinite
                return spaces.Box(space.low.astype(dtype), space.high.astype(dtype), space.shape, dtype)
        if isinstance(space, spaces.Discrete):
            return spaces.Box(float(space.start), float(space.start + space.n - 1), (), dtype)
        if isinstance(space, spaces.MultiDiscrete):
            return spaces.MultiDiscrete(space.nvec, dtype=dtype, start=space.start)
        if isinstance(space, spaces.MultiBinary):
            return spaces.Box(0, 1, space.shape, dtype)
        raise SpaceError(f"Dtype needs observations that are one array, got {space}")

    def function(self, obs: Any) -> Any:
        return obs.astype(self._dtype)


class AnyFunction(ObservationFunction):
    """A function from the user."""

    def __init__(self, function: Callable[[Any], Any], space: Space[Any] | None) -> None:
        self._function, self._result = function, space

    def space(self, space: Space[Any]) -> Space[Any]:
        return space if self._result is None else self._result

    def function(self, obs: Any) -> Any:
        return self._function(obs)


class OneByOne(ObservationFunction):
    """A function of single observations."""

    def __init__(self, function: Callable[[Any], Any], space: Space[Any]) -> None:
        self._function, self._result = function, space

    def space(self, space: Space[Any]) -> Space[Any]:
        check_arrays(self._result, self)
        self._batched = functools.cache(lambda count: batch_space(space, count))
        return self._result

    def function(self, obs: Any) -> Any:
        count = count_of(obs)
        rows = [self._function(row) for row in iterate(self._batched(count), obs)]
        return concatenate(self._result, rows, create_empty_array(self._result, count))


def child_of(space: Space[Any], key: str | int) -> Space[Any]:
    """The space of an entry."""
    if isinstance(space, spaces.Dict) and key in space.spaces:
        return space.spaces[str(key)]
    if isinstance(space, spaces.Tuple) and isinstance(key, int) and -len(space.spaces) <= key < len(space.spaces):
        return space.spaces[key]
    raise SpaceError(f"observations have no entry {key!r}: {space}")
