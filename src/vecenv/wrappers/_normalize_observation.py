"""Observations with mean zero and variance one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from vecenv._front.exchange import Exchange
from vecenv.errors import ConfigError, SpaceError
from vecenv.wrappers._moments import Moments
from vecenv.wrappers._observations import spread
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import LearningWrapper


class NormalizeObservation(LearningWrapper):
    """Observations minus their mean so far, divided by their standard deviation so far, as float32.

    Statistics are those of `obs`, in every autoreset mode, and of the envs that were stepped or reset. An observation
    that ends an episode counts if it is `obs`, as in "next-step" mode; `final_obs` are normalized but do not count, as
    in Stable-Baselines3. An observation with NaN or infinity is passed on and does not count: `obs_rms.skipped` is the
    number of these.

    Args:
        env: the vector env.
        epsilon: added to the variance.
        clip: results are at most this far from zero.
        keys: of a Dict, what to normalize; default: all of it.
    """

    transform: Normalize

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        epsilon: float = 1e-8,
        clip: float = math.inf,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(env, Normalize(epsilon, clip, keys))
        self.epsilon = epsilon

    @property
    def obs_rms(self) -> Moments | dict[str, Moments]:
        """The moments of the observations: `mean`, `var`, `count`; of a Dict, a dict of them."""
        moments = self.transform.moments
        return moments[""] if list(moments) == [""] else moments


class Normalize(Transform):
    """Mean zero, variance one.

    Attributes:
        learning: whether statistics change.
        moments: by key of the Dict; a Box has the key "".
    """

    once = True

    def __init__(self, epsilon: float, clip: float = math.inf, keys: Sequence[str] | None = None) -> None:
        if epsilon <= 0:
            raise ConfigError(f"epsilon must be positive, got {epsilon}")
        if clip <= 0:
            raise ConfigError(f"clip must be positive, got {clip}")
        self.learning = True
        self.moments: dict[str, Moments] = {}
        self._epsilon, self._clip, self._keys = epsilon, clip, keys

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        children = {"": observation}
        if isinstance(observation, spaces.Dict):
            children = dict(observation.spaces)
        elif self._keys is not None:
            raise SpaceError(f"keys are for Dict observations, these are {observation}")
        keys = list(children) if self._keys is None else list(self._keys)
        changed = {key: self._changed(key, children) for key in keys}
        self.moments = {key: Moments(space.shape) for key, space in changed.items()}
        if isinstance(observation, spaces.Dict):
            return spaces.Dict({**children, **changed}), action
        return changed[""], action

    def exchange(self, exchange: Exchange) -> None:
        touched = exchange.touched
        everyone = np.count_nonzero(touched) == len(touched)
        if isinstance(exchange.obs, dict):
            parts = {key: self._apply(self.moments[key], exchange.obs[key], touched, everyone) for key in self.moments}
            exchange.obs = {**exchange.obs, **parts}
        else:
            exchange.obs = self._apply(self.moments[""], exchange.obs, touched, everyone)
        if exchange.final_obs is not None:
            self._apply_to_final(exchange, np.flatnonzero(exchange.rolled))

    def normalize(self, obs: Any) -> Any:
        """Normalize observations without updating statistics. They may have any number of leading axes."""
        return self._each(obs, lambda own, part: own.normalize(part, self._epsilon, self._clip))

    def state_dict(self) -> dict[str, Any]:
        return {key: moments.state_dict() for key, moments in self.moments.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.keys() != self.moments.keys():
            raise SpaceError(f"the state has moments of {list(state)}, needed are those of {list(self.moments)}")
        for key, moments in self.moments.items():
            try:
                Moments(moments.shape).load_state_dict(state[key])
            except SpaceError as error:
                raise SpaceError(f"observations{f' at {key!r}' if key else ''}: {error}") from None
        for key, moments in self.moments.items():
            moments.load_state_dict(state[key])

    def _apply(self, moments: Moments, obs: np.ndarray, touched: np.ndarray, everyone: bool) -> np.ndarray:
        if self.learning and everyone:
            return moments.update_and_normalize(obs, self._epsilon, self._clip)
        if self.learning:
            moments.update(obs[touched])
        return moments.normalize(obs, self._epsilon, self._clip)

    def _apply_to_final(self, exchange: Exchange, ended: np.ndarray) -> None:
        """Only where there are any: anything may be elsewhere."""

        def normalized(own: Moments, part: np.ndarray) -> np.ndarray:
            return spread(own.normalize(part[ended], self._epsilon, self._clip), ended, len(exchange))

        exchange.final_obs = self._each(exchange.final_obs, normalized)

    def _each(self, obs: Any, function: Callable[[Moments, np.ndarray], np.ndarray]) -> Any:
        """Apply a function to the moments of every part that is normalized, and to that part."""
        if not isinstance(obs, dict):
            return function(self.moments[""], obs)
        return {**obs, **{key: function(own, obs[key]) for key, own in self.moments.items()}}

    def _changed(self, key: str, children: dict[str, Space[Any]]) -> spaces.Box:
        space = children.get(key)
        if not isinstance(space, spaces.Box):
            where = f" at {key!r}" if key else ""
            raise SpaceError(f"only Box observations can be normalized, got {space}{where}; choose by keys=[...]")
        return spaces.Box(-self._clip, self._clip, space.shape, np.float32)
