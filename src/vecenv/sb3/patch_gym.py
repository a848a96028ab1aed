"""Envs and spaces of OpenAI Gym, made Gymnasium's by shimmy."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import gymnasium


def _patch_env(env: Any) -> gymnasium.Env[Any, Any]:
    """The env itself if it is Gymnasium's; one of OpenAI Gym, wrapped by shimmy, with a warning.

    Raises:
        ValueError: it is neither.
        ImportError: it is OpenAI Gym's, and shimmy is missing.
    """
    if isinstance(env, gymnasium.Env):
        return env
    shimmy = _shimmy_for(env, "Env", "environment")
    warnings.warn(
        "You provided an OpenAI Gym environment; it is wrapped in shimmy's compatibility layer, which could "
        "potentially cause issues. We strongly recommend transitioning to Gymnasium environments.",
        stacklevel=3,
    )
    if "seed" in inspect.signature(env.unwrapped.reset).parameters:
        return shimmy.GymV26CompatibilityV0(env=env)
    return shimmy.GymV21CompatibilityV0(env=env)


def _convert_space(space: Any) -> gymnasium.Space[Any]:
    """As `_patch_env`, for a space."""
    if isinstance(space, gymnasium.Space):
        return space
    shimmy = _shimmy_for(space, "Space", "space")
    warnings.warn("You provided a space of OpenAI Gym; we recommend transitioning to Gymnasium.", stacklevel=3)
    return shimmy.openai_gym_compatibility._convert_space(space)


def _shimmy_for(thing: Any, class_name: str, kind: str) -> Any:
    """The module that converts things of OpenAI Gym, if this is one."""
    gym = sys.modules.get("gym")  # a program that has an env of Gym has imported it
    if gym is None or not isinstance(thing, getattr(gym, class_name)):
        raise ValueError(
            f"The {kind} is of type {type(thing)}, not a Gymnasium {kind}. In this case, we expect OpenAI Gym to be "
            f"installed and the {kind} to be an OpenAI Gym {kind}."
        )
    try:
        import shimmy  # type: ignore[import-not-found]  # optional
    except ImportError as error:
        raise ImportError(
            f"Missing shimmy installation. You provided an OpenAI Gym {kind}; `pip install 'shimmy>=2.0'` brings it."
        ) from error
    return shimmy
