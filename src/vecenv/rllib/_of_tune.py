"""Envs as RLlib's users name them: names of Tune's `register_env`, and classes that take a config."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import ENV_CREATOR, _global_registry

from vecenv._util.checks import brief
from vecenv.errors import ConfigError

_CONFIGS = ("config", "env_config", "env_context", "context")
"""What classes call the config that RLlib makes them with."""


@dataclass(frozen=True)
class FromConfig:
    """Makes one env as RLlib does: from a config.

    Attributes:
        create: a function of Tune's `register_env`, or a class.
        env_config: what the config has in `environment(env_config=...)`.
    """

    create: Callable[[Any], Any]
    env_config: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **kwargs: Any) -> gymnasium.Env[Any, Any]:
        return self.create(EnvContext({**self.env_config, **kwargs}, worker_index=0))


def of_tune(env: Any, env_config: Mapping[str, Any]) -> Any:
    """What `vecenv.make` takes, from a name of Tune's or a class with `__init__(self, config)`; others unchanged.

    Raises:
        ConfigError: there is an env_config, and the env takes none; or the env has several agents.
    """
    create = _creator(env)
    if create is None:
        if env_config:
            raise ConfigError(
                f"the config has env_config={dict(env_config)!r:.200}, which {brief(env)} does not take: pass "
                "constructor arguments as keyword arguments of configure() or register() instead"
            )
        if isinstance(env, type) and issubclass(env, MultiAgentEnv):
            raise _several_agents(env)
        return env
    made = FromConfig(create, dict(env_config))
    one = made()
    if isinstance(one, MultiAgentEnv):
        raise _several_agents(env)
    if hasattr(one, "close"):
        one.close()
    return made


def _creator(env: Any) -> Callable[[Any], Any] | None:
    if isinstance(env, str):
        return _global_registry.get(ENV_CREATOR, env) if _global_registry.contains(ENV_CREATOR, env) else None
    if not isinstance(env, type) or not issubclass(env, gymnasium.Env):
        return None
    try:
        names = list(inspect.signature(env).parameters)
    except (TypeError, ValueError):
        return None
    return env if names and names[0] in _CONFIGS else None


def _several_agents(env: Any) -> ConfigError:
    return ConfigError(
        f"{brief(env)} is a multi-agent env of RLlib's; vecenv takes those of PettingZoo: pass one, or use RLlib's own "
        "runners"
    )
