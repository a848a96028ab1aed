"""Which actions envs allow, as their infos say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from vecenv.errors import ConfigError


def action_masks(infos: Mapping[str, Any], name: str, env_ids: np.ndarray, acting: np.ndarray) -> np.ndarray:
    """The masks of a batch, [batch, actions], in the dtype the envs gave them.

    Args:
        infos: Gymnasium's dict of arrays.
        name: of the info that holds them.
        env_ids: of the batch, for errors.
        acting: where an action is to be chosen; elsewhere there may be no mask.

    Raises:
        ConfigError: there is no such info, one of the envs gave no mask, or a mask allows nothing.
    """
    found = infos.get(name)
    if found is None:
        raise ConfigError(f"the envs' infos have no {name!r} to mask actions with; they have {list(infos)}")
    given = infos.get(f"_{name}", np.ones(len(found), np.bool_))
    _refuse(env_ids[acting & ~given], f"gave no {name!r}", "every info of a reset and a step must have it")
    if found.dtype == object:
        values = [np.asarray(found[position]) for position in np.flatnonzero(given)]
        found = np.ones((len(given), *values[0].shape), values[0].dtype)
        found[given] = values
    masks = found.reshape(len(given), -1)
    check_allowed(masks, name, env_ids, acting)
    return masks


def sample_after(space: Any, answer: Any) -> Any:
    """A random action after this answer of an env's reset or step, of those that its info "action_mask" allows."""
    info = answer[-1] if isinstance(answer, tuple) and answer else None
    return sample_allowed(space, info["action_mask"] if isinstance(info, Mapping) and "action_mask" in info else None)


def sample_allowed(space: Any, mask: Any) -> Any:
    """A random action, of those that a mask allows if it is one of a Discrete space."""
    mask = np.asarray(mask)
    if isinstance(space, Discrete) and mask.shape == (space.n,) and mask.dtype.kind in "bui" and mask.any():
        return space.sample((mask != 0).astype(np.int8))
    return space.sample()


def check_allowed(masks: np.ndarray, name: str, env_ids: np.ndarray, acting: np.ndarray) -> None:
    """Raise ConfigError if a mask of an env that is to act allows nothing."""
    _refuse(env_ids[acting & ~masks.any(1)], f"gave a {name!r} that allows no action", "one must be allowed")


def _refuse(env_ids: np.ndarray, what: str, advice: str) -> None:
    if len(env_ids):
        raise ConfigError(f"env {env_ids[0]} {what} ({len(env_ids)} envs at this step); {advice} while masks are used")
