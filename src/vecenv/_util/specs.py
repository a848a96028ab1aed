"""Looking up ids in Gymnasium's registry."""

from __future__ import annotations

import gymnasium
from gymnasium.envs.registration import EnvSpec

from vecenv.errors import UnknownEnv


def find_spec(env: str | EnvSpec) -> EnvSpec:
    """Gymnasium's spec for an id, with its own "did you mean" if there is none."""
    if isinstance(env, EnvSpec):
        return env
    try:
        return gymnasium.spec(env)
    except gymnasium.error.UnregisteredEnv as error:
        raise UnknownEnv(f"{error} Import the package that registers it first, or pass a function.") from error
    except gymnasium.error.Error as error:
        raise UnknownEnv(str(error)) from error
