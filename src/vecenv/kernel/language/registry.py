"""Kernels by id: those that users define and those that come with vecenv."""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import registry

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel

SHIPPED = {
    "CartPole-v0": "cartpole",
    "CartPole-v1": "cartpole",
    "MountainCar-v0": "mountain_car",
    "MountainCarContinuous-v0": "mountain_car_continuous",
    "Pendulum-v1": "pendulum",
    "Acrobot-v1": "acrobot",
    "FrozenLake-v1": "frozen_lake",
    "FrozenLake8x8-v1": "frozen_lake",
    "Taxi-v3": "taxi",
    "Taxi-v4": "taxi",
    "CliffWalking-v1": "cliff_walking",
    "CliffWalkingSlippery-v1": "cliff_walking",
    "Blackjack-v1": "blackjack",
    "FourRooms-v0": "four_rooms",
    "Snake-v0": "snake",
    "Breakout-v0": "breakout",
    "2048-v0": "game_2048",
    "ConnectFour-v0": "connect_four",
    "Tetris-v0": "tetris",
    **{
        f"MinAtar/{name}-v{version}": f"minatar_{module}"
        for name, module in (
            ("Asterix", "asterix"),
            ("Breakout", "breakout"),
            ("Freeway", "freeway"),
            ("Seaquest", "seaquest"),
            ("SpaceInvaders", "space_invaders"),
        )
        for version in (0, 1)
    },
    **{f"MiniGrid-Empty-{size}-v0": "minigrid_empty" for size in ("5x5", "6x6", "8x8", "16x16")},
    **{f"MiniGrid-Empty-Random-{size}-v0": "minigrid_empty" for size in ("5x5", "6x6")},
    **{f"MiniGrid-DoorKey-{size}-v0": "minigrid_door_key" for size in ("5x5", "6x6", "8x8", "16x16")},
    **{f"MiniGrid-LavaGapS{size}-v0": "minigrid_lava_gap" for size in (5, 6, 7)},
    "MiniGrid-FourRooms-v0": "minigrid_four_rooms",
}
"""Module in `vecenv.envs` of each id. They are imported when asked for: checking a definition takes milliseconds."""

OF_OTHERS = tuple(id for id in SHIPPED if id.startswith(("MinAtar/", "MiniGrid-")))
"""Those that another package registers too: if it has, the id is that package's, and ours is `vecenv/<id>`."""

GAMES: dict[str, int | None] = {
    "FourRooms-v0": 100,
    "Snake-v0": 1000,
    "Breakout-v0": 10_000,
    "2048-v0": None,
    "ConnectFour-v0": None,
    "Tetris-v0": 10_000,
    **dict.fromkeys(OF_OTHERS),
}
"""Those that Gymnasium does not have, with their time limits."""

WITH_AGENTS = {
    "SimpleSpread-v0": "simple_spread",
    "ConnectFourDuel-v0": "connect_four_duel",
    "Pursuit-v0": "pursuit",
    "Battle-v0": "battle",
}
"""Module in `vecenv.envs` of each id with several agents. They are PettingZoo envs, and not in Gymnasium's registry."""

_WITHOUT_SLASH = {id.replace("/", "-"): id for id in SHIPPED if "/" in id}

_kernels: dict[str, Kernel] = {}

_listeners: list[Callable[[Kernel], None]] = []

_of_classes: weakref.WeakKeyDictionary[type, Kernel] = weakref.WeakKeyDictionary()
"""Not attributes of the classes: a class that is pickled by value would take its kernel along before it is complete."""


def add_kernel(kernel: Kernel) -> None:
    """Make a kernel known; one with the same id is replaced, as when a notebook cell runs again."""
    _kernels[kernel.id] = _of_classes[kernel.definition] = kernel


def when_defined(listener: Callable[[Kernel], None]) -> None:
    """Call `listener` with every kernel that a user defines from now on; `vecenv` registers them with Gymnasium so."""
    _listeners.append(listener)


def announce(kernel: Kernel) -> None:
    """A user has defined this kernel."""
    for listener in _listeners:
        listener(kernel)


def kernel_of(definition: Any) -> Kernel | None:
    """The kernel that a class was made into, None if it was not; that of a parent class does not count."""
    return _of_classes.get(definition) if isinstance(definition, type) else None


def find_kernel(id: str) -> Kernel | None:
    """The kernel of an id, None if there is none. In Gymnasium's registry an id has no second slash."""
    id = _WITHOUT_SLASH.get(id, id)
    module = SHIPPED.get(id) or WITH_AGENTS.get(id)
    if id not in _kernels and module is not None:
        importlib.import_module(f"vecenv.envs.{module}")
    return _kernels.get(id)


def kernel_ids() -> list[str]:
    """Ids of all kernels, those with several agents too."""
    return sorted({*_kernels, *WITH_AGENTS, *(id for id in SHIPPED if id in registry or id in GAMES)})
