"""Wrappers that keep past observations: the last few, or one of some steps ago."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.utils import create_zero_array

from vecenv._batch.layout import map_tree
from vecenv._front.exchange import Exchange
from vecenv._util.checks import positive_int
from vecenv.errors import ConfigError, ConfigTypeError, SpaceError
from vecenv.wrappers._observations import check_arrays, map_space, spread
from vecenv.wrappers._stacking import Stacker
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper

Channels = Literal["first", "last"]


class FrameStackObservation(Wrapper):
    """The last observations of every env together, the newest last.

    An observation that ends an episode is stacked on those before it, in every autoreset mode.

    Args:
        env: the vector env.
        stack_size: number of observations.
        padding_type: what fills the stack at the start of an episode: "reset" (its first one), "zero", or an
            observation.
        channels: None puts observations on a new first axis, as Gymnasium does; "first" and "last" concatenate them on
            that axis, as Stable-Baselines3 does; of a Dict, also one of these per key.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        stack_size: int,
        *,
        padding_type: Any = "reset",
        channels: Channels | Mapping[str, Channels] | None = None,
    ) -> None:
        super().__init__(env, FrameStack(stack_size, padding_type, channels))
        self.stack_size = stack_size


class DelayObservation(Wrapper):
    """Observations as they were `delay` steps ago; zeros during the first `delay` steps of an episode.

    Args:
        env: the vector env.
        delay: number of steps.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, delay: int) -> None:
        super().__init__(env, Delay(delay))
        self.delay = delay


# --- transforms ------------------------------------------------------------------------------------------------------


class Remembering(Transform):
    """Keeps the last `depth` observations. Subclasses say on which axis, and what is shown of them."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._stackers: Any = None
        """One per leaf, nested like observations."""
        self._fills: Any = None
        """What fills the stack at the start of an episode, nested alike; None: its first observation."""

    def show(self, stacks: np.ndarray) -> np.ndarray:
        """What a user sees of the stacks of a leaf."""
        return stacks

    def exchange(self, exchange: Exchange) -> None:
        if exchange.final_obs is not None:
            self._exchange_final(exchange, np.flatnonzero(exchange.rolled))
        rows, began, touched = exchange.rows, exchange.began, exchange.touched
        some = None if touched.all() else np.flatnonzero(touched)

        def push(stacker: Stacker, frames: np.ndarray, fill: Any) -> np.ndarray:
            if some is None:
                return self.show(stacker.push(rows, frames, began, fill))
            stacker.push(rows[some], frames[some], began[some], fill)
            return self.show(stacker.current(rows))

        exchange.obs = map_tree(push, self._stackers, exchange.obs, self._fills)

    def state_dict(self) -> dict[str, Any]:
        return {str(index): stacker.frames() for index, stacker in enumerate(self._leaves())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        stackers = {str(index): stacker for index, stacker in enumerate(self._leaves())}
        if state.keys() != stackers.keys() or not all(stackers[key].fits(state[key]) for key in stackers):
            raise SpaceError("the state is of other observations, another number of them, or of envs")
        for key, stacker in stackers.items():
            stacker.restore(state[key])

    def _exchange_final(self, exchange: Exchange, ended: np.ndarray) -> None:
        rows, count = exchange.rows[ended], len(exchange)

        def finals(stacker: Stacker, frames: np.ndarray) -> np.ndarray:
            return spread(self.show(stacker.final(rows, frames[ended])), ended, count)

        exchange.final_obs = map_tree(finals, self._stackers, exchange.final_obs)

    def _leaves(self) -> list[Stacker]:
        leaves: list[Stacker] = []
        map_tree(leaves.append, self._stackers)
        return leaves


class FrameStack(Remembering):
    """The last observations."""

    def __init__(self, depth: int, padding: Any = "reset", channels: Any = None) -> None:
        super().__init__(positive_int("stack_size", depth))
        self._padding, self._channels = padding, channels

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        check_arrays(observation, "FrameStackObservation")
        self._fills = self._filling(observation)
        channels = self._channels
        if isinstance(channels, str) and isinstance(observation, spaces.Dict):
            channels = dict.fromkeys(observation.spaces, channels)
        if not isinstance(channels, Mapping):
            joined, self._stackers = self._stacked(observation, count, channels)
            return joined, action
        if not isinstance(observation, spaces.Dict) or channels.keys() != observation.spaces.keys():
            raise SpaceError(f"channels={dict(channels)} must name every key of a Dict, observations are {observation}")
        parts = {key: self._stacked(child, count, channels[key]) for key, child in observation.spaces.items()}
        self._stackers = {key: stackers for key, (_, stackers) in parts.items()}
        return spaces.Dict({key: joined for key, (joined, _) in parts.items()}), action

    def _stacked(self, space: Space[Any], count: int, channels: Any) -> tuple[Space[Any], Any]:
        """The space of stacks, and a stacker per leaf."""
        if channels not in (None, "first", "last"):
            raise ConfigError(f"channels must be None, 'first' or 'last', got {channels!r}")
        axis = {None: None, "first": 0, "last": -1}[channels]
        joined = self._joined(space, axis)
        return joined, map_space(lambda leaf: _stacker(leaf, count, self._depth, axis), space)

    def _joined(self, space: Space[Any], axis: int | None) -> Space[Any]:
        if axis is None:
            return batch_space(space, self._depth)
        if not isinstance(space, spaces.Box) or not space.shape:
            raise SpaceError(f"only arrays in a Box can be joined on an axis, got {space}; use channels=None")
        repeats = [1] * len(space.shape)
        repeats[axis] = self._depth
        return spaces.Box(np.tile(space.low, repeats), np.tile(space.high, repeats), dtype=space.dtype)  # type: ignore[arg-type]

    def _filling(self, space: Space[Any]) -> Any:
        if isinstance(self._padding, str) and self._padding == "reset":
            return map_space(lambda _: None, space)
        if isinstance(self._padding, str) and self._padding == "zero":
            return create_zero_array(space)
        if not isinstance(self._padding, str) and self._padding in space:
            return self._padding
        raise SpaceError(f"padding_type must be 'reset', 'zero' or an observation in {space}, got {self._padding!r}")


class Delay(Remembering):
    """Old observations."""

    def __init__(self, delay: int) -> None:
        if not isinstance(delay, (int, np.integer)) or isinstance(delay, bool):
            raise ConfigTypeError(f"delay must be an int, got {type(delay).__name__}")
        if delay < 0:
            raise ConfigError(f"delay must not be negative, got {delay}")
        super().__init__(int(delay) + 1)

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        check_arrays(observation, "DelayObservation")
        self._fills = create_zero_array(observation)
        self._stackers = map_space(lambda leaf: _stacker(leaf, count, self._depth), observation)
        return observation, action

    def show(self, stacks: np.ndarray) -> np.ndarray:
        return stacks[:, 0].copy()


def _stacker(leaf: Space[Any], count: int, depth: int, axis: int | None = None) -> Stacker:
    return Stacker(count, depth, tuple(leaf.shape or ()), leaf.dtype, axis)
