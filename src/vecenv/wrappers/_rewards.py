"""Wrappers of rewards. Rows that are no transitions (the resets of next-step mode) keep their reward of zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.finite import all_finite
from vecenv._front.exchange import Exchange
from vecenv.errors import ConfigError, SpaceError
from vecenv.wrappers._moments import Moments
from vecenv.wrappers._transform import Transform, fitting
from vecenv.wrappers._wrapper import LearningWrapper, Wrapper


class TransformReward(Wrapper):
    """Rewards through a function.

    Args:
        env: the vector env.
        func: of an array of rewards, one per env of the exchange; returns as many.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, func: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(env, RewardFunction(func))
        self.func = func


class VectorizeTransformReward(Wrapper):
    """Rewards through a wrapper of single envs, one after the other: slow.

    Args:
        env: the vector env.
        wrapper: a `gymnasium.RewardWrapper`, built around an env that does nothing.
        kwargs: for the wrapper.
    """

    def __init__(
        self, env: gymnasium.vector.VectorEnv, wrapper: Callable[..., gymnasium.RewardWrapper], **kwargs: Any
    ) -> None:
        self.wrapper = wrapper(gymnasium.Env(), **kwargs)
        function = self.wrapper.reward
        super().__init__(env, RewardFunction(lambda rewards: np.array([function(reward) for reward in rewards])))


class ClipReward(Wrapper):
    """Rewards between two bounds.

    Args:
        env: the vector env.
        min_reward, max_reward: bounds, None for none; at least one of them.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        min_reward: float | np.ndarray | None = None,
        max_reward: float | np.ndarray | None = None,
    ) -> None:
        if min_reward is None and max_reward is None:
            raise ConfigError("both min_reward and max_reward are None; give at least one bound")
        if min_reward is not None and max_reward is not None and np.any(np.greater(min_reward, max_reward)):
            raise ConfigError(f"min_reward must be at most max_reward, got {min_reward} and {max_reward}")
        super().__init__(env, RewardFunction(lambda rewards: np.clip(rewards, min_reward, max_reward)))


class NormalizeReward(LearningWrapper):
    """Rewards divided by the standard deviation of the discounted return so far.

    With every transition, the return of an env is multiplied by gamma and the reward is added; at a step that
    terminates the episode it is the reward alone. It starts at zero with every episode, in every autoreset mode.
    (Gymnasium 1.4 does the same in same-step mode; in next-step mode it carries the return into the next episode.)

    A reward that is not finite is passed on and does not count.

    Args:
        env: the vector env.
        gamma: discount.
        epsilon: added to the variance.
    """

    transform: RewardScale

    def __init__(self, env: gymnasium.vector.VectorEnv, gamma: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__(env, RewardScale(gamma, epsilon))

    @property
    def return_rms(self) -> Moments:
        """The moments of the discounted returns: `mean`, `var`, `count`."""
        return self.transform.moments


def add_rewards(returns: np.ndarray, rows: Any, kept: np.ndarray, reward: np.ndarray, moments: Moments | None) -> None:
    """Discounted returns of `rows` after a step; `moments`, if given, are updated with them.

    A reward that is not finite is left out: the return is what was `kept`, and `moments` are not updated with it.
    """
    if all_finite(reward):
        returns[rows] = kept + reward
        if moments is not None:
            moments.update(returns[rows])
        return
    fit = np.isfinite(reward)
    returns[rows] = kept + np.where(fit, reward, 0.0)
    if moments is not None:
        moments.update(returns[rows][fit])
        moments.skipped += int(np.count_nonzero(~fit))


class RewardFunction(Transform):
    """Rewards through a function."""

    def __init__(self, func: Callable[[np.ndarray], np.ndarray]) -> None:
        self._func = func

    def exchange(self, exchange: Exchange) -> None:
        valid, given = exchange.valid, exchange.reward
        if not valid.any():
            return
        reward = np.asarray(self._func(given.copy()))
        if reward.shape != given.shape:
            raise SpaceError(f"func must return one reward per env, {given.shape}; it returned {reward.shape}")
        exchange.reward = reward if valid.all() else np.where(valid, reward, given)


class RewardScale(Transform):
    """Rewards divided by the standard deviation of discounted returns.

    Attributes:
        learning: whether moments are updated.
        moments: of the discounted returns.
        returns: discounted return of each env's episode so far.
    """

    once = True

    def __init__(self, gamma: float, epsilon: float) -> None:
        if not 0 <= gamma <= 1:
            raise ConfigError(f"gamma must be between 0 and 1, got {gamma}")
        if not epsilon > 0:
            raise ConfigError(f"epsilon must be positive, got {epsilon}")
        self._gamma, self._epsilon = gamma, epsilon
        self.learning = True
        self.moments = Moments(())
        self.returns = np.zeros(0)

    def bind(self, observation: Any, action: Any, count: int) -> tuple[Any, Any]:
        self.returns = np.zeros(count)
        return observation, action

    def exchange(self, exchange: Exchange) -> None:
        rows, reward, terminated, whole = exchange.rows, exchange.reward, exchange.terminated, exchange.all_valid
        if not whole:
            valid = exchange.valid
            rows, reward, terminated = rows[valid], reward[valid], terminated[valid]
        if len(rows):
            kept = self.returns[rows] * self._gamma * ~terminated
            add_rewards(self.returns, rows, kept, reward, self.moments if self.learning else None)
            exchange.reward = exchange.reward / self.moments.deviation(self._epsilon)
        if not whole or np.count_nonzero(exchange.done):
            self.returns[exchange.rows[exchange.began]] = 0

    def state_dict(self) -> dict[str, Any]:
        return {**self.moments.state_dict(), "returns": self.returns.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        returns = fitting(state["returns"], self.returns, "returns")
        if not np.isfinite(returns).all():
            raise SpaceError("the state's returns must be finite numbers, got NaN or infinity")
        self.moments.load_state_dict({name: value for name, value in state.items() if name != "returns"})
        self.returns[...] = returns
