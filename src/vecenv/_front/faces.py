"""What the faces of older libraries share: infos as one dict per env, and spaces given by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space

from vecenv._batch.layout import SpaceMismatch
from vecenv._front.step import Step
from vecenv._front.vector_env import VectorEnv


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
