"""What faces share: infos as one dict per env, spaces given by hand, and the autoreset mode that a library needs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space
from gymnasium.vector import AutoresetMode

from vecenv._batch.layout import SpaceMismatch
from vecenv._front.autoreset import mode_of, name_of_mode
from vecenv._front.step import Step
from vecenv._front.vector_env import VectorEnv
from vecenv._util.checks import brief
from vecenv._util.foreign import advice_about
from vecenv.errors import ConfigError, ConfigTypeError


def transition_dicts(
    step: Step, infos: list[dict[str, Any]], final_infos: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One dict per env about the transition: its info of that step, also where the next episode has begun.

    Where an episode ended it also has "terminal_observation", the observation that ended it, and "TimeLimit.truncated",
    whether it was truncated rather than terminated. The info of the next episode's reset is then left out.

    Args:
        step: of all envs, with the infos that `VectorEnv._recv_dicts` gave for it.
        infos: each env's info; this list is changed and returned.
        final_infos: each env's final info.
    """
    for row in np.flatnonzero(step.rolled).tolist():
        infos[row] = {
            **final_infos[row],
            "terminal_observation": step.infos["final_obs"][row],
            "TimeLimit.truncated": bool(step.truncated[row] and not step.terminated[row]),
        }
    return infos


def check_given_spaces(envs: VectorEnv, observation_space: Space[Any] | None, action_space: Space[Any] | None) -> None:
    """Raise SpaceMismatch, and close the envs, if a space that was given is not the one that each of them has."""
    pairs = (
        ("observation_space", observation_space, envs.single_observation_space),
        ("action_space", action_space, envs.single_action_space),
    )
    for name, given, actual in pairs:
        if given is not None and given != actual:
            envs.close()
            raise SpaceMismatch(f"{name}={given} was given, but the envs have {actual}; leave it out to use theirs")


def check_mode(envs: Any, mode: AutoresetMode, library: str) -> None:
    """Raise unless `envs` is a vector env of vecenv with this autoreset mode, which `library` needs.

    Raises:
        ConfigTypeError: it is something else, or the rows are agents, of which some may be dead.
        ConfigError: it has another mode.
    """
    if not isinstance(getattr(envs, "unwrapped", None), VectorEnv):
        advice = "" if isinstance(envs, gymnasium.vector.VectorEnv) else advice_about(envs)
        raise ConfigTypeError(
            f"{library} needs a vector env of vecenv.make with one agent per env, got {brief(envs)}{advice}"
        )
    given = mode_of(envs)
    if given is not mode:
        wanted = name_of_mode(mode)
        raise ConfigError(
            f"{library} needs envs with autoreset={wanted!r}, these have {name_of_mode(given)!r}: its results would be "
            f"wrong without a word; pass vecenv.make(..., autoreset={wanted!r})"
        )
