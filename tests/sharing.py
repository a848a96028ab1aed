"""Envs that all write into one array, and return it in some form."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

MEMORY = bytearray(32)
BUFFER = np.zeros((2, 4))
OUTSIDE = np.frombuffer(MEMORY)
PARTS: dict[str, Any] = {}
INFO: dict[str, Any] = {}
INDEX = np.zeros((), np.int64)
REWARD = np.zeros(())
DEEP: dict[str, Any] = {}

BOX, ONE = spaces.Box(-np.inf, np.inf, (4,), np.float64), spaces.Box(-np.inf, np.inf, (), np.float64)
TWO = spaces.Dict(first=BOX, second=spaces.Box(-np.inf, np.inf, (2, 4), np.float64))


def one_dict() -> dict[str, Any]:
    """The same dict every time, with new arrays in it."""
    PARTS.update(first=BUFFER[0].copy(), second=BUFFER.copy())
    return PARTS


WHOLE = spaces.Box(-np.inf, np.inf, (2, 4), np.float64)
FORMS: dict[str, tuple[Any, Any]] = {
    "array": (WHOLE, lambda: BUFFER),
    "view": (WHOLE, lambda: BUFFER[:]),
    "row": (BOX, lambda: BUFFER[0]),
    "outside": (BOX, lambda: np.frombuffer(MEMORY)),
    "number": (ONE, lambda: BUFFER[0, 0:1].reshape(())),
    "index": (spaces.Discrete(99), lambda: INDEX),
    "list": (BOX, lambda: [BUFFER[0, place : place + 1].reshape(()) for place in range(4)]),
    "dict": (TWO, lambda: {"first": BUFFER[0], "second": BUFFER}),
    "one dict": (TWO, one_dict),
    "ordered": (TWO, lambda: OrderedDict(first=BUFFER[0], second=BUFFER)),
    "nested": (spaces.Dict(deep=TWO), lambda: {"deep": one_dict()}),
    "tuple": (spaces.Tuple((WHOLE, BOX)), lambda: (BUFFER, BUFFER[1])),
    "sequence": (spaces.Sequence(BOX), lambda: (BUFFER[0], BUFFER[1])),
}
"""By name: the space, and what an env returns once `BUFFER` and `MEMORY` are written."""


class SharingEnv(gymnasium.Env[Any, Any]):
    """Observes [index, episode, step, last action] in arrays that all envs of the process share.

    Episodes of env i have 2 + i steps. Its infos are in dicts and an array that are shared too; so are the rewards of
    envs that observe an index.
    """

    action_space = spaces.Discrete(9)

    def __init__(self, index: int, form: str) -> None:
        self.observation_space, self._form = FORMS[form]
        self._shares_rewards = form == "index"
        self._state = np.array([index, 0, 0, 0], np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        self._state[1:] = self._state[1] + 1, 0, -1
        return self._observe()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        self._state[2:] = self._state[2] + 1, action
        obs, info = self._observe()
        REWARD[...] = self._state.sum()
        reward = REWARD if self._shares_rewards else float(REWARD)
        return obs, reward, bool(self._state[2] >= 2 + self._state[0]), False, info

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        BUFFER[:] = self._state
        OUTSIDE[:] = self._state
        INDEX[...] = self._state[0]
        DEEP.update(state=BUFFER[0])
        INFO.update(index=int(self._state[0]), state=BUFFER[0], deep=DEEP)
        return self._form(), INFO
