"""Wrappers of actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from gymnasium.wrappers.utils import rescale_box

from vecenv._batch.layout import Layout
from vecenv._batch.seeding import NO_SEED, spread
from vecenv._front.exchange import Exchange
from vecenv.errors import ConfigError, SpaceError
from vecenv.wrappers._observations import Changed, check_box
from vecenv.wrappers._streams import Streams
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class TransformAction(Wrapper):
    """Actions through a function.

    Args:
        env: the vector env.
        func: of batched actions; a partial step passes it those of its envs. Returns actions of `env`.
        action_space: batched space of what it takes; default: made of `single_action_space`.
        single_action_space: default: that of `env`.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        func: Callable[[Any], Any],
        action_space: Space[Any] | None = None,
        single_action_space: Space[Any] | None = None,
    ) -> None:
        def change(space: Space[Any]) -> Changed:
            return space if single_action_space is None else single_action_space, func

        super().__init__(env, ActionFunction(change))
        self.func = func
        if action_space is not None:
            self.action_space = action_space


class VectorizeTransformAction(Wrapper):
    """Actions through a wrapper of single envs, one after the other: slow.

    Args:
        env: the vector env.
        wrapper: a `gymnasium.ActionWrapper`, built around an env that only has an action space.
        kwargs: for the wrapper.
    """

    def __init__(
        self, env: gymnasium.vector.VectorEnv, wrapper: Callable[..., gymnasium.ActionWrapper], **kwargs: Any
    ) -> None:
        single = gymnasium.Env()
        single.action_space = env.single_action_space
        inner = self.wrapper = wrapper(single, **kwargs)
        batched = batch_space(inner.action_space, env.num_envs)

        def change(space: Space[Any]) -> Changed:
            def one_by_one(actions: Any) -> Any:
                changed = [inner.action(action) for action in iterate(batched, actions)]
                return concatenate(space, changed, create_empty_array(space, len(changed)))

            return inner.action_space, one_by_one

        super().__init__(env, ActionFunction(change))


class ClipAction(Wrapper):
    """Actions outside the bounds of the env are moved to the nearest bound.

    Args:
        env: a vector env with a Box of actions.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        def change(space: Space[Any]) -> Changed:
            box = check_box(space, "ClipAction", "actions")
            unbounded = spaces.Box(-np.inf, np.inf, box.shape, box.dtype.type)
            return unbounded, lambda actions: np.clip(np.asarray(actions, box.dtype), box.low, box.high)

        super().__init__(env, ActionFunction(change))


class RescaleAction(Wrapper):
    """Actions between two bounds, stretched to those of the env.

    Args:
        env: a vector env with a Box of actions.
        min_action, max_action: numbers, or arrays of the shape of an action.
    """

    def __init__(
        self, env: gymnasium.vector.VectorEnv, min_action: float | np.ndarray, max_action: float | np.ndarray
    ) -> None:
        def change(space: Space[Any]) -> Changed:
            box = check_box(space, "RescaleAction", "actions")
            low, high = (np.broadcast_to(np.asarray(bound, box.dtype), box.shape) for bound in (min_action, max_action))
            if not np.all(low < high):
                raise ConfigError(f"min_action must be smaller than max_action, got {min_action} and {max_action}")
            if not np.array_equal(np.isinf([low, high]), np.isinf([box.low, box.high])):
                raise ConfigError(f"finite bounds cannot be stretched to infinite ones, those of these actions: {box}")
            scaled, _, backward = rescale_box(box, low, high)
            return scaled, lambda actions: backward(np.asarray(actions, box.dtype))

        super().__init__(env, ActionFunction(change))


class StickyAction(Wrapper):
    """At random, an env repeats its last action instead of taking the new one (Machado et al., 2018, section 5.2).

    Each env has its own stream of random numbers: what happens to it depends on its seed and its own steps, not on
    the other envs. The first action of an episode is always taken.

    Args:
        env: the vector env.
        repeat_action_probability: that a series of repeats begins with a step, in 0 ... 1, without 1.
        repeat_action_duration: length of a series, or its smallest and largest length.
        seed: of the streams, until `reset(seed=...)` starts new ones; default: a random one.
    """

    transform: Stickiness

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        repeat_action_probability: float,
        repeat_action_duration: int | tuple[int, int] = 1,
        seed: int | None = None,
    ) -> None:
        super().__init__(env, Stickiness(repeat_action_probability, repeat_action_duration, seed))

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        exchange = super()._exchange_reset(seed, options)
        self.transform.streams.reseed(np.where(exchange.touched, spread(seed, self.num_envs), NO_SEED))
        return exchange


class ActionFunction(Transform):
    """Actions through a function.

    Args:
        change: given the space of the env's actions, returns that of the user's actions, and a function that makes a
            batch of the former from one of the latter.
    """

    def __init__(self, change: Callable[[Space[Any]], Changed]) -> None:
        self._change = change

    def bind(self, observation: Any, action: Any, count: int) -> tuple[Any, Any]:
        space, self._function = self._change(action)
        return observation, space

    def actions(self, actions: Any, rows: np.ndarray) -> Any:
        return self._function(actions)


class Stickiness(Transform):
    """Repeats of actions. A step that fails before it reaches the env changes no state."""

    def __init__(self, probability: float, duration: int | tuple[int, int], seed: int | None) -> None:
        shortest, longest = (duration, duration) if isinstance(duration, int) else duration
        if not 0 <= probability < 1:
            raise ConfigError(f"repeat_action_probability must be in 0 ... 1, without 1; got {probability}")
        if not 1 <= shortest <= longest:
            raise ConfigError(f"repeat_action_duration must be 1 or more, smallest first; got {duration}")
        self._probability, self._durations = probability, (shortest, longest)
        self._seed = seed

    def bind(self, observation: Any, action: Any, count: int) -> tuple[Any, Any]:
        self._layout = Layout(action)
        if self._layout.by_value:
            raise SpaceError(f"StickyAction needs actions of numbers, these are {action}")
        self.streams = Streams(count, self._seed)
        """A turn is a step."""
        self._remaining = np.zeros(count, np.int64)
        """Repeats left of each env's series; `_next_remaining` has those after the running step."""
        self._next_remaining = np.zeros(count, np.int64)
        self._fresh = np.ones(count, np.bool_)
        """Where an episode has had no action yet."""
        self._last = [np.zeros((count, *leaf.shape), leaf.dtype) for leaf in self._layout.leaves]
        self._sent = [column.copy() for column in self._last]
        return observation, action

    def actions(self, actions: Any, rows: np.ndarray) -> Any:
        columns = self._layout.pack(actions, len(rows))
        begins = ~self._fresh[rows] & (self.streams.look(rows, 0) < self._probability)
        shortest, longest = self._durations
        lengths = shortest + (self.streams.look(rows, 1) * (longest - shortest + 1)).astype(np.int64)
        remaining = np.where(self._remaining[rows] > 0, self._remaining[rows], np.where(begins, lengths, 0))
        repeats = remaining > 0
        chosen = [_chosen(repeats, last[rows], new) for last, new in zip(self._last, columns, strict=True)]
        self._next_remaining[rows] = remaining - repeats
        for column, values in zip(self._sent, chosen, strict=True):
            column[rows] = values
        return self._layout.batched(chosen)

    def exchange(self, exchange: Exchange) -> None:
        rows = exchange.rows[exchange.valid]
        self.streams.advance(rows)
        self._remaining[rows] = self._next_remaining[rows]
        self._fresh[rows] = False
        for last, sent in zip(self._last, self._sent, strict=True):
            last[rows] = sent[rows]
        began = exchange.rows[exchange.began]
        self._remaining[began], self._fresh[began] = 0, True

    def columns(self) -> dict[str, np.ndarray]:
        streams = {"keys": self.streams.keys, "turns": self.streams.turns}
        lasts = {f"last{leaf.path}": last for leaf, last in zip(self._layout.leaves, self._last, strict=True)}
        return {**streams, "remaining": self._remaining, "fresh": self._fresh, **lasts}


def _chosen(mask: np.ndarray, here: np.ndarray, there: np.ndarray) -> np.ndarray:
    return np.where(mask.reshape(mask.shape + (1,) * (here.ndim - 1)), here, there)
