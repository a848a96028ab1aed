"""Wrappers that give observations another form: parts of them, other shapes, types, scales, any function."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from gymnasium.wrappers.utils import rescale_box

from vecenv._batch.layout import Layout
from vecenv._front.exchange import Exchange
from vecenv.errors import SpaceError
from vecenv.wrappers._observations import Changed, ObservationFunction, check_arrays, check_box, flatten_function
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class FilterObservation(Wrapper):
    """Some entries of dicts or tuples.

    Args:
        env: the vector env.
        filter_keys: keys of a Dict, positions in a Tuple.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, filter_keys: Sequence[str | int]) -> None:
        if isinstance(filter_keys, str) or not isinstance(filter_keys, Sequence):
            raise SpaceError(f"filter_keys must be a list of keys, got {type(filter_keys).__name__}")

        def change(space: Space[Any]) -> Changed:
            if not filter_keys:
                raise SpaceError("filter_keys is empty; name what to keep")
            if len(set(filter_keys)) != len(filter_keys):
                raise SpaceError(f"filter_keys has duplicates: {filter_keys}")
            children = [child_of(space, key) for key in filter_keys]
            if isinstance(space, spaces.Tuple):
                return spaces.Tuple(children), lambda obs: tuple(obs[key] for key in filter_keys)
            kept = spaces.Dict(dict(zip(map(str, filter_keys), children, strict=True)))
            return kept, lambda obs: {key: obs[key] for key in kept.spaces}

        super().__init__(env, Selection(change))
        self.filter_keys = filter_keys


class ExtractObservation(Wrapper):
    """One entry of dicts or tuples, as the whole observation.

    Args:
        env: the vector env.
        key: of a Dict, or position in a Tuple.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, key: str | int) -> None:
        super().__init__(env, Selection(lambda space: (child_of(space, key), operator.itemgetter(key))))
        self.key = key


class FlattenObservation(Wrapper):
    """Observations as vectors, as `gymnasium.spaces.flatten` makes them: discrete ones become one-hot.

    Args:
        env: the vector env.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        def change(space: Space[Any]) -> Changed:
            return spaces.flatten_space(space), flatten_function(space)

        super().__init__(env, ObservationFunction("FlattenObservation", change))


class ReshapeObservation(Wrapper):
    """Observations of another shape and the same size.

    Args:
        env: the vector env.
        shape: of a single observation.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, shape: int | tuple[int, ...]) -> None:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)

        def change(space: Space[Any]) -> Changed:
            box = check_box(space, "ReshapeObservation")
            if np.prod(shape) != np.prod(box.shape) or any(size <= 0 for size in shape):
                raise SpaceError(f"observations of shape {box.shape} cannot be given the shape {shape}")
            reshaped = spaces.Box(box.low.reshape(shape), box.high.reshape(shape), shape, box.dtype)  # type: ignore[arg-type]  # a Box's own
            return reshaped, lambda obs: obs.reshape(len(obs), *shape)

        super().__init__(env, ObservationFunction("ReshapeObservation", change))


class RescaleObservation(Wrapper):
    """Observations moved linearly from the bounds of their Box to others.

    Args:
        env: the vector env.
        min_obs, max_obs: new bounds, one for all entries or one for each; infinite exactly where the old ones are.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, min_obs: Any, max_obs: Any) -> None:
        def change(space: Space[Any]) -> Changed:
            try:
                rescaled, forward, _ = rescale_box(check_box(space, "RescaleObservation"), min_obs, max_obs)
            except (AssertionError, ValueError, TypeError) as error:
                raise SpaceError(f"cannot rescale {space} to bounds {min_obs} and {max_obs}: {error}") from error
            return rescaled, forward  # which works on batches as it is

        super().__init__(env, ObservationFunction("RescaleObservation", change))


class DtypeObservation(Wrapper):
    """Observations of another type.

    Args:
        env: the vector env.
        dtype: NumPy's.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, dtype: Any) -> None:
        kind: Any = np.dtype(dtype).type

        def change(space: Space[Any]) -> Changed:
            return _with_dtype(space, kind), lambda obs: obs.astype(kind)

        super().__init__(env, ObservationFunction("DtypeObservation", change))


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
        def change(space: Space[Any]) -> Changed:
            return space if single_observation_space is None else single_observation_space, func

        super().__init__(env, ObservationFunction("TransformObservation", change))
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
        inner = self.wrapper = wrapper(single, **kwargs)

        def change(space: Space[Any]) -> Changed:
            result: Space[Any] = inner.observation_space
            check_arrays(result, "VectorizeTransformObservation")
            layout, batched = Layout(space), functools.cache(lambda count: batch_space(space, count))

            def one_by_one(obs: Any) -> Any:
                count = len(layout.flat(obs)[0])
                rows = [inner.observation(row) for row in iterate(batched(count), obs)]
                return concatenate(result, rows, create_empty_array(result, count))

            return result, one_by_one

        super().__init__(env, ObservationFunction("VectorizeTransformObservation", change))


class Selection(Transform):
    """A part of every observation. Nothing is copied, so leaves may be of any kind.

    Args:
        change: given the space of observations, returns that of the part, and a function that selects it from a batch.
    """

    def __init__(self, change: Callable[[Space[Any]], Changed]) -> None:
        self._change = change

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        space, self._function = self._change(observation)
        return space, action

    def exchange(self, exchange: Exchange) -> None:
        exchange.obs = self._function(exchange.obs)
        if exchange.final_obs is not None:
            exchange.final_obs = self._function(exchange.final_obs)


def child_of(space: Space[Any], key: str | int) -> Space[Any]:
    """The space of an entry."""
    if isinstance(space, spaces.Dict) and key in space.spaces:
        return space.spaces[str(key)]
    if isinstance(space, spaces.Tuple) and isinstance(key, int) and -len(space.spaces) <= key < len(space.spaces):
        return space.spaces[key]
    raise SpaceError(f"observations have no entry {key!r}: {space}")


def _with_dtype(space: Space[Any], dtype: Any) -> Space[Any]:
    """The space of the same observations in another type."""
    if isinstance(space, spaces.Box):
        with np.errstate(over="ignore"):  # bounds beyond the new type become infinite
            return spaces.Box(space.low.astype(dtype), space.high.astype(dtype), space.shape, dtype)
    if isinstance(space, spaces.Discrete):
        return spaces.Box(float(space.start), float(space.start + space.n - 1), (), dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=dtype, start=space.start)
    if isinstance(space, spaces.MultiBinary):
        return spaces.Box(0, 1, space.shape, dtype)
    raise SpaceError(f"DtypeObservation needs observations that are one array, got {space}")
