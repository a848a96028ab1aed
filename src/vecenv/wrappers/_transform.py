"""Transforms: small stateful functions over exchanges. Every wrapper, in every face, is one of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space

from vecenv._front.exchange import Exchange
from vecenv.errors import SpaceError


class Transform:
    """Changes actions on their way in and results on their way out. It uses arrays and env ids, but no env or engine.

    The rules that make one work everywhere:

    - `obs` and `final_obs` go through the same function; `final_obs` is the observation of the step that ended an
      episode, `obs` at that position already belongs to the next one (`exchange.began`).
    - State is kept per env id (`exchange.rows`), because an exchange may be of some envs only, in any order.
    - Positions that are not `touched` are shown as they are now; their state does not change.
    - Other code may hold the arrays that come in: write to copies.
    """

    once = False
    """Whether a second one around the first is most likely a mistake: it learns from what was changed already."""

    def bind(self, observation: Space[Any], action: Space[Any], count: int) -> tuple[Space[Any], Space[Any]]:
        """Learn the spaces of a single env and the number of envs; return the spaces that a user sees.

        Raises:
            SpaceError: the transform cannot be applied to these spaces.
        """
        return observation, action

    def actions(self, actions: Any, rows: np.ndarray) -> Any:
        """Batched actions on their way to the envs `rows`."""
        return actions

    def exchange(self, exchange: Exchange) -> None:
        """Change the results of an exchange in place, by assigning its attributes."""

    def columns(self) -> dict[str, np.ndarray]:
        """Arrays that are the whole state of the transform, by name; their first axis is the env id."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The whole state of the transform: plain numbers and copies of arrays."""
        return {name: column.copy() for name, column in self.columns().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring back what `state_dict` returned; raises SpaceError if it does not fit, and then nothing has changed."""
        own = self.columns()
        if state.keys() != own.keys():
            raise SpaceError(f"the state has {list(state)}, needed are {list(own)}")
        given = {name: fitting(state[name], column, name) for name, column in own.items()}
        for name, column in own.items():
            column[...] = given[name]

    def close(self) -> None:
        """Finish files and windows. May be called twice."""


def fitting(values: Any, own: np.ndarray, name: str) -> np.ndarray:
    """A stored column, as an array that can be written to `own`.

    Raises:
        SpaceError: it has another shape, or is not of numbers.
    """
    values = np.asarray(values)
    if values.shape != own.shape:
        count = len(np.atleast_1d(values))
        envs = f"the state is of {count} envs, these are {len(own)} envs: " if count != len(own) else ""
        raise SpaceError(f"{envs}the state's {name} has shape {values.shape}, these envs need {own.shape}")
    if values.dtype.kind not in "fiub":
        raise SpaceError(f"the state's {name} must be numbers, got {values.dtype}")
    return values
