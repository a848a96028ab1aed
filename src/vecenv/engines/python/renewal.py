"""Building an env again with other constructor arguments, as a part of its reset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gymnasium

from vecenv.engines.python.envs import Factory, close_quietly
from vecenv.engines.python.factories import MakeEnv
from vecenv.errors import SpaceError


@dataclass(frozen=True)
class Renewal:
    """In the place of reset options: those, and constructor arguments with which the env is first built again.

    Attributes:
        kwargs: added to the arguments of the env's factory.
        options: what its reset gets.
    """

    kwargs: dict[str, Any]
    options: dict[str, Any] | None = None

    def rebuild(self, factory: Factory, env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
        """Build the env that replaces `env`, and close `env`.

        Raises:
            SpaceError: the new env has other spaces.
        """
        if isinstance(factory, MakeEnv):
            built = replace(factory, kwargs={**factory.kwargs, **self.kwargs})()
        else:
            built = factory(**self.kwargs)
        if (built.observation_space, built.action_space) != (env.observation_space, env.action_space):
            close_quietly(built)
            raise SpaceError(f"with {self.kwargs!r:.200} the env has other spaces than before; all rows share them")
        close_quietly(env)
        return built
