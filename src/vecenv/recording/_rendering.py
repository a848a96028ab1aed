"""Pictures of kernels that cannot draw: Gymnasium's env of the same id, made to look like them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from vecenv.errors import ConfigError

_FACES = {1: "A", 10: "K"}


class Painter:
    """Draws the state of a kernel.

    Args:
        id: of the kernel.
        params: its parameters by name; the map of a lake is one.
        render_mode: of Gymnasium's env.

    Raises:
        ConfigError: there is nothing that could draw it.
    """

    def __init__(self, id: str, params: Mapping[str, np.ndarray], render_mode: str) -> None:
        pose = _POSES.get(id.partition("-")[0])
        if pose is None:
            raise ConfigError(f"the kernel {id} defines no render(s, p), so there is nothing to see")
        self._pose = pose
        lake: dict[str, Any] = (
            {"desc": ["".join(map(chr, row)) for row in params["desc"][0]]} if "desc" in params else {}
        )
        self.env: Any = gymnasium.make(id, render_mode=render_mode, **lake).unwrapped
        self.metadata = self.env.metadata
        self.env.reset(seed=0)

    def draw(self, state: Any, action: Any) -> Any:
        """A frame of a state, and of the action that led to it (None after a reset)."""
        self._pose(self.env, state, action)
        return self.env.render()

    def close(self) -> None:
        """Free what drawing needs."""
        self.env.close()


def _cart_pole(env: Any, s: Any, action: Any) -> None:
    env.state = np.array([s.x, s.x_dot, s.theta, s.theta_dot])


def _mountain_car(env: Any, s: Any, action: Any) -> None:
    env.state = np.array([s.position, s.velocity])


def _pendulum(env: Any, s: Any, action: Any) -> None:
    env.state = np.array([s.theta, s.theta_dot])
    env.last_u = None if action is None else float(np.clip(action, -env.max_torque, env.max_torque)[0])


def _acrobot(env: Any, s: Any, action: Any) -> None:
    env.state = np.array([s.angle_1, s.angle_2, s.spin_1, s.spin_2])


def _lake(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = s.row * env.ncol + s.column, action


def _cliff(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = s.row * env.shape[1] + s.column, action


def _taxi(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = (s.place * 5 + s.passenger) * 4 + s.destination, action


def _blackjack(env: Any, s: Any, action: Any) -> None:
    """Totals as they are; a suit and a face, which the kernel does not know, are spades and a king."""
    env.player = [1, s.player_total - 1] if s.player_has_ace else [s.player_total]
    env.dealer, env.dealer_top_card_suit = [s.shown], "S"
    env.dealer_top_card_value_str = _FACES.get(s.shown, str(s.shown))


_POSES: dict[str, Callable[[Any, Any, Any], None]] = {
    "CartPole": _cart_pole,
    "MountainCar": _mountain_car,
    "MountainCarContinuous": _mountain_car,
    "Pendulum": _pendulum,
    "Acrobot": _acrobot,
    "FrozenLake": _lake,
    "FrozenLake8x8": _lake,
    "CliffWalking": _cliff,
    "CliffWalkingSlippery": _cliff,
    "Taxi": _taxi,
    "Blackjack": _blackjack,
}
"""By the name in an id: how to put Gymnasium's env into a state."""
