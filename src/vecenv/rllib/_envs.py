"""From the user's env to the vector env that RLlib builds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from vecenv._batch.slots import Slots
from vecenv._make.make import make
from vecenv._util.checks import brief
from vecenv.agents import MultiAgentVectorEnv
from vecenv.engines import Asyncio, Sync, registry
from vecenv.errors import ConfigError
from vecenv.rllib._checks import check_fresh_arrays, check_mode, check_nothing_added, check_vector_env
from vecenv.rllib._observations import with_floats
from vecenv.rllib._of_tune import of_tune
from vecenv.rllib._packed_env import PackedVectorEnv


@dataclass(frozen=True)
class EnvCreator:
    """Builds RLlib's env, in this process or an actor.

    Attributes:
        env: what `vecenv.make` takes, or a function or class with a parameter `num_envs` that returns a VectorEnv.
        packed: number of envs that are packed into one; None for a plain vector env.
        floats: whether observations become one array of floats, for RLlib's default networks.
        filters: whether the config has `conv_filters`, with which pictures of any size stay pictures.
        agents: rows of each env: several agents that share a policy are a row each.
        options: arguments of `vecenv.make`, or of the function.
    """

    env: Any
    packed: int | None = None
    floats: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    agents: int = 1
    filters: bool = False

    def __call__(self, context: Mapping[str, Any]) -> VectorEnv:
        """Build the envs for one runner."""
        if "num_envs" not in context:
            raise ConfigError(
                "this env is a vector env: set .env_runners(gym_env_vectorize_mode='vector_entry_point'), as "
                "vecenv.rllib.configure does"
            )
        count = context["num_envs"] // self.agents
        env_config = {name: value for name, value in context.items() if name != "num_envs"}
        self = replace(self, env=of_tune(self.env, env_config))
        if self.packed is None:
            return self.build(count)
        if count != 1:
            raise ConfigError(
                f"in mode='packed_vec' RLlib sees one env: num_envs_per_env_runner must be 1, not {count}. Set the "
                "number of packed envs by num_envs of vecenv.rllib.configure"
            )
        return PackedVectorEnv(self.build(self.packed))

    def build(self, count: int) -> VectorEnv:
        """A checked vector env of `count` envs."""
        if makes_vector_envs(self.env):
            envs = self.env(num_envs=count, **self.options)
            check_vector_env(envs)
            if envs.num_envs != count:
                raise ConfigError(f"{self.env!r} was asked for {count} envs and made {envs.num_envs}")
        else:
            envs = self._made(count)
            if isinstance(envs, MultiAgentVectorEnv):
                if len(envs.slots) != self.agents:
                    raise ConfigError(f"{brief(self.env)} has several agents: use configure(config, env, num_envs)")
                envs = envs.flat()
            check_vector_env(envs)
        return with_floats(envs, self.filters) if self.floats else envs

    def build_agents(self, count: int) -> MultiAgentVectorEnv:
        """A checked vector env of `count` envs with several agents."""
        envs = self._made(count)
        assert isinstance(envs, MultiAgentVectorEnv)
        check_mode(envs)
        return envs

    def _made(self, count: int) -> Any:
        return make(self.env, count, **{"seeding": "spawn", **self.options})


ENV_ID = "vecenv.rllib:vecenv/RLlib-v0"
"""The env id of configs. Gymnasium imports the module before the colon, so every process knows the id; the creator is
in `env_config`, and so in checkpoints."""


def create_envs(num_envs: int, creator: EnvCreator, **env_config: Any) -> VectorEnv:
    """The entry point of ENV_ID."""
    check_nothing_added(env_config)
    return creator({"num_envs": num_envs})


def register_env_id() -> None:
    """Register ENV_ID with Gymnasium."""
    gymnasium.register(ENV_ID.partition(":")[2], vector_entry_point=create_envs)  # type: ignore[arg-type]


def makes_vector_envs(env: Any) -> bool:
    """Whether this is a function or a class that returns a VectorEnv of `num_envs`."""
    if isinstance(env, type) and issubclass(env, VectorEnv):
        return True
    if not callable(env) or isinstance(env, str):
        return False
    try:
        return "num_envs" in inspect.signature(env).parameters
    except (TypeError, ValueError):
        return False


_ELSEWHERE = {"engine", "timeout", "batch_size", "on_error", *registry.option_defaults()}
"""Options about where envs run; spaces do not depend on them."""


@dataclass(frozen=True)
class Probe:
    """What is known of envs before Ray starts.

    Attributes:
        observation, action: spaces of one env; of one agent; of none where agents have several groups.
        slots: groups of agents and their spaces; None of envs with one agent.
        turns: whether agents act by turns, as far as the first steps show.
    """

    observation: Any
    action: Any
    slots: Slots | None = None
    turns: bool = False


def probe(creator: EnvCreator, num_envs: int) -> Probe:
    """Look at some envs, which are built and checked, so that mistakes show before Ray starts."""
    options, count = dict(creator.options), min(num_envs, 2)
    if not makes_vector_envs(creator.env):
        asked = options.get("engine")
        awaits = asked == Asyncio.name or isinstance(asked, Asyncio)  # no other engine can reset an async def env
        options = {name: value for name, value in options.items() if name not in _ELSEWHERE}
        options["engine"] = Asyncio() if awaits else Sync()
        if any(isinstance(value, (list, tuple, np.ndarray)) for value in (creator.env, *options.values())):
            count = num_envs  # an option has one value per env
    several = EnvCreator(creator.env, options=options)
    envs: Any = several.build(count) if makes_vector_envs(creator.env) else several._made(count)
    try:
        if not isinstance(envs, MultiAgentVectorEnv):
            check_vector_env(envs)
            check_fresh_arrays(envs)
            return Probe(envs.single_observation_space, envs.single_action_space)
        check_mode(envs)
        if len(envs.slots.groups) > 1:
            envs.reset(seed=0)  # not stepped: random actions may be illegal moves
            return Probe(None, None, envs.slots)
        check_fresh_arrays(envs)
        turns = bool((envs.acts != envs.alive).any())
        return Probe(envs.single_observation_space, envs.single_action_space, envs.slots, turns)
    finally:
        envs.close()
