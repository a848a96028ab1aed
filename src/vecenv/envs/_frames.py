"""Frames of kernels that have no `render`, drawn by Gymnasium's env of the same id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import load_env_creator, registry

from vecenv.errors import ConfigError
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.python import metadata_of

_SUITS, _FACES = "CDHS", "JQK"


def frame_metadata(kernel: Kernel) -> dict[str, Any]:
    """The metadata of a kernel, with the render modes in which it can be drawn, by itself or by Gymnasium's env.

    A window shows one env, so "human" is not among the modes of Gymnasium's envs.
    """
    own = metadata_of(kernel)
    ours = kernel.definition.__module__.startswith(f"{__package__}.")
    if kernel.render is not None or not ours or _setter(kernel.id) is None or kernel.id not in registry:
        return own
    theirs = _metadata(kernel.id)
    modes = [mode for mode in theirs.get("render_modes", ()) if mode in ("rgb_array", "ansi")]
    return {**own, **theirs, "render_modes": modes}


def is_drawn_by_gymnasium(kernel: Kernel) -> bool:
    """Whether a kernel has no `render` of its own, but Gymnasium's env of its id can draw it."""
    return kernel.render is None and bool(frame_metadata(kernel)["render_modes"])


class Renderer:
    """Draws states of a kernel by Gymnasium's env of its id.

    Args:
        id: of the kernel.
        render_mode: of Gymnasium's env.

    Raises:
        ConfigError: no env of Gymnasium can draw this kernel.

    Attributes:
        metadata: of Gymnasium's env.
        orientation: where the taxi looks. Gymnasium's env remembers that from one frame to the next, so whoever draws
            several envs sets it before a frame, and keeps what it is after the frame.
    """

    def __init__(self, id: str, render_mode: str) -> None:
        set_state = _setter(id)
        if set_state is None:
            raise ConfigError(f"the kernel {id} defines no render(s, p), so there is nothing to see")
        self._id, self._render_mode, self._set_state = id, render_mode, set_state
        self._envs: dict[tuple[int, ...], Any] = {}
        """By the size of the map, which decides the size of the frame; the others have one env."""
        self.metadata = _metadata(id)
        self.orientation = 0

    def draw(self, params: Mapping[str, np.ndarray], state: Any, action: Any) -> Any:
        """A frame.

        Args:
            params: columns of one row.
            state: fields by attribute.
            action: that led to the state; None if a reset did.
        """
        desc = params["desc"][0] if "desc" in params else np.zeros(())
        env = self._envs.get(desc.shape)
        if env is None:
            env = self._envs[desc.shape] = self._made(desc)
        if desc.ndim:
            env.desc = desc.view("S1")
        env.taxi_orientation = self.orientation
        self._set_state(env, state, action)
        frame = env.render()
        self.orientation = env.taxi_orientation
        return frame

    def _made(self, desc: np.ndarray) -> Any:
        lake = {"desc": ["".join(map(chr, row)) for row in desc]} if desc.ndim else {}
        env = _creator(self._id)(render_mode=self._render_mode, **{**registry[self._id].kwargs, **lake})
        env.reset(seed=0)
        return env

    def close(self) -> None:
        """Close the window, if there is one. Without one, Gymnasium's `close` would only end pygame for all others."""
        if self._render_mode == "human":
            for env in self._envs.values():
                env.close()
        self._envs.clear()


def _metadata(id: str) -> dict[str, Any]:
    """The metadata of Gymnasium's env."""
    return dict(getattr(_creator(id), "metadata", {}))


def _creator(id: str) -> Any:
    """The class of Gymnasium's env."""
    entry_point = registry[id].entry_point
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def _setter(id: str) -> Callable[[Any, Any, Any], None] | None:
    return _SETTERS.get(id.partition("-")[0])


# --- Gymnasium's env in a state of the kernel ------------------------------------------------------------------------
# Types matter: NumPy computes places on the screen in float32 from a float32 alone.


def _array(*fields: str) -> Callable[[Any, Any, Any], None]:
    """For an env whose `state` is an array of these fields."""

    def set_state(env: Any, s: Any, action: Any) -> None:
        env.state = np.array([getattr(s, name) for name in fields])

    return set_state


def _acrobot(env: Any, s: Any, action: Any) -> None:
    state = np.array([s.angle_1, s.angle_2, s.spin_1, s.spin_2])
    env.state = state.astype(np.float32) if s.narrow else state


def _continuous_car(env: Any, s: Any, action: Any) -> None:
    env.state = np.array([s.position, s.velocity], np.float64 if s.wide else np.float32)


def _pendulum(env: Any, s: Any, action: Any) -> None:
    env.state = np.array([s.theta, s.theta_dot])
    env.last_u = None if action is None else np.clip(action, -env.max_torque, env.max_torque)[0]


def _lake(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = s.row * env.desc.shape[1] + s.column, action


def _cliff(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = s.row * env.shape[1] + s.column, action


def _taxi(env: Any, s: Any, action: Any) -> None:
    env.s, env.lastaction = (s.place * 5 + s.passenger) * 4 + s.destination, action


def _blackjack(env: Any, s: Any, action: Any) -> None:
    env.player = [1, s.player_total - 1] if s.player_has_ace else [s.player_total]
    env.dealer, env.dealer_top_card_suit = [s.shown], _SUITS[s.suit]
    env.dealer_top_card_value_str = "A" if s.shown == 1 else _FACES[s.face] if s.shown == 10 else str(s.shown)
    if hasattr(env, "screen"):  # another env of Gymnasium's that was closed may have ended pygame
        import pygame

        pygame.font.init()


_SETTERS: dict[str, Callable[[Any, Any, Any], None]] = {
    "CartPole": _array("x", "x_dot", "theta", "theta_dot"),
    "MountainCar": _array("position", "velocity"),
    "MountainCarContinuous": _continuous_car,
    "Pendulum": _pendulum,
    "Acrobot": _acrobot,
    "FrozenLake": _lake,
    "FrozenLake8x8": _lake,
    "CliffWalking": _cliff,
    "CliffWalkingSlippery": _cliff,
    "Taxi": _taxi,
    "Blackjack": _blackjack,
}
"""By the name in an id: how to put Gymnasium's env into a state of the kernel."""
