"""Draw kernels that have no `render`, by Gymnasium's env of the same id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from vecenv.errors import ConfigError

_CARDS = {1: "A", 10: "K"}


class Renderer:
    """Draws the state of a kernel with these parameters. Raises ConfigError if no env of Gymnasium can draw it."""

    def __init__(self, id: str, params: Mapping[str, np.ndarray], render_mode: str) -> None:
        set_state = _SETTERS.get(id.partition("-")[0])
        if set_state is None:
            raise ConfigError(f"the kernel {id} defines no render(s, p), so there is nothing to see")
        self._set_state = set_state
        lake: dict[str, Any] = {}
        if "desc" in params:
            lake["desc"] = ["".join(map(chr, row)) for row in params["desc"][0]]
        self.env: Any = gymnasium.make(id, render_mode=render_mode, **lake).unwrapped
        self.metadata = self.env.metadata
        self.env.reset(seed=0)

    def draw(self, state: Any, action: Any) -> Any:
        """A frame of a state and the action that led to it (None after a reset)."""
        self._set_state(self.env, state, action)
        return self.env.render()

    def close(self) -> None:
        """Close Gymnasium's env."""
        self.env.close()


def _array(*fields: str) -> Callable[[Any, Any, Any], None]:
    """For an env whose `state` is an array of these fields."""

    def set_state(env: Any, s: Any, action: Any) -> None:
        env.state = np.array([getattr(s, name) for name in fields])

    return set_state


def _pendulum(env: Any, s: Any, action: Any) -> None:
    env.state = np.array([s.theta, s.theta_dot])
    env.last_u = None if action is None else float(np.clip(action, -env.max_torque, env.max_torque)[0])


def _lake(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = s.row * env.ncol + s.column, action


def _cliff(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = s.row * env.shape[1] + s.column, action


def _taxi(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = (s.place * 5 + s.passenger) * 4 + s.destination, action


def _blackjack(env: Any, s: Any, action: Any) -> None:
    """The suit is always spades, and a ten is a king: the kernel knows only the totals."""
    env.player = [1, s.player_total - 1] if s.player_has_ace else [s.player_total]
    env.dealer, env.dealer_top_card_suit = [s.shown], "S"
    env.dealer_top_card_value_str = _CARDS.get(s.shown, str(s.shown))


_SETTERS: dict[str, Callable[[Any, Any, Any], None]] = {
    "CartPole": _array("x", "x_dot", "theta", "theta_dot"),
    "MountainCar": _array("position", "velocity"),
    "MountainCarContinuous": _array("position", "velocity"),
    "Pendulum": _pendulum,
    "Acrobot": _array("angle_1", "angle_2", "spin_1", "spin_2"),
    "FrozenLake": _lake,
    "FrozenLake8x8": _lake,
    "CliffWalking": _cliff,
    "CliffWalkingSlippery": _cliff,
    "Taxi": _taxi,
    "Blackjack": _blackjack,
}
"""By the name in an id: how to put Gymnasium's env into a state of the kernel."""
