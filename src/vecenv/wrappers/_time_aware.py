"""Observations with the time since the episode began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from vecenv._front.exchange import Exchange
from vecenv.errors import ConfigError, SpaceError
from vecenv.wrappers._observations import check_arrays, flatten_function, spread, take
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class TimeAwareObservation(Wrapper):
    """Observations with the number of steps since the episode began.

    It is added to a Dict under a key, to a Tuple as the last entry; anything else becomes {"obs": ..., "time": ...}.

    Args:
        env: the vector env.
        flatten: whether to make vectors of the result, as `FlattenObservation` does.
        normalize_time: time from 0 to 1 (float32) instead of the number of steps (int32).
        dict_time_key: the key in a Dict.
        max_timesteps: the longest that episodes can be; default: what the env's spec says.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        flatten: bool = True,
        normalize_time: bool = False,
        *,
        dict_time_key: str = "time",
        max_timesteps: int | None = None,
    ) -> None:
        limit = getattr(env.spec, "max_episode_steps", None) if max_timesteps is None else max_timesteps
        if limit is None:
            raise ConfigError(
                "TimeAwareObservation needs the length of the longest episode, and the env's spec has no "
                "max_episode_steps; pass max_timesteps=..."
            )
        super().__init__(env, Clock(int(limit), flatten, normalize_time, dict_time_key))
        self.max_timesteps = int(limit)


class Clock(Transform):
    """Adds the time."""

    def __init__(self, limit: int, flatten: bool, normalize: bool, key: str) -> None:
        self._limit, self._flatten, self._normalize, self._key = limit, flatten, normalize, key
        self._time = np.zeros(0, np.int64)
        self._finish: Callable[[Any], Any] = lambda obs: obs

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        check_arrays(observation, "TimeAwareObservation")
        self._time = np.zeros(count, np.int64)
        time = spaces.Box(0.0, 1.0) if self._normalize else spaces.Box(0, self._limit, dtype=np.int32)
        if isinstance(observation, spaces.Dict):
            if self._key in observation.spaces:
                raise SpaceError(f"observations already have a key {self._key!r}; choose another dict_time_key")
            space = spaces.Dict({self._key: time, **observation.spaces})
        elif isinstance(observation, spaces.Tuple):
            space = spaces.Tuple((*observation.spaces, time))
        else:
            space = spaces.Dict(obs=observation, time=time)
        if not self._flatten:
            return space, action
        self._finish = flatten_function(space)
        return spaces.flatten_space(space), action

    def exchange(self, exchange: Exchange) -> None:
        rows = exchange.rows
        time = self._time[rows] + exchange.valid
        if exchange.final_obs is not None:
            ended = np.flatnonzero(exchange.rolled)
            final = self._with_time(take(exchange.final_obs, ended), time[ended])
            exchange.final_obs = spread(final, ended, len(exchange))
        time[exchange.began] = 0
        self._time[rows] = time
        exchange.obs = self._with_time(exchange.obs, time)

    def columns(self) -> dict[str, np.ndarray]:
        return {"time": self._time}

    def _with_time(self, obs: Any, time: np.ndarray) -> Any:
        shown = (time / self._limit).astype(np.float32) if self._normalize else time.astype(np.int32)
        if isinstance(obs, dict):
            joined: Any = {self._key: shown[:, None], **obs}
        elif isinstance(obs, tuple):
            joined = (*obs, shown[:, None])
        else:
            joined = {"obs": obs, "time": shown[:, None]}
        return self._finish(joined)
