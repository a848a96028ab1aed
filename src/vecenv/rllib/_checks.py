"""Refuse what would corrupt a run, hang it or be ignored, before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

from vecenv._batch.layout import map_tree
from vecenv._batch.slots import Slots
from vecenv._util.text import text_of
from vecenv.agents import MultiAgentVectorEnv
from vecenv.errors import ConfigError, ConfigTypeError, UnsupportedError
from vecenv.rllib._connectors import BatchToTensor, SampleActions, UnpackObservation
from vecenv.rllib._normalizer import ObservationNormalizer

NOT_NATIVE = "are not supported in mode='native'; use mode='vec'"
NO_NAMES = "mode='vec' needs possible_agents; envs made with slots= do not have them: use mode='native'"
_PROBED_STEPS = 8
"""More buffers than any known ring of observation buffers has."""


def check_batch(config: Any) -> None:
    """Raise ConfigError unless minibatches divide the train batch."""
    batch, minibatch = config.train_batch_size_per_learner or config.train_batch_size, config.minibatch_size
    if not config._validate_config or not isinstance(batch, int) or not isinstance(minibatch, int):
        return
    if minibatch > batch:
        raise ConfigError(
            f"a minibatch of {minibatch} is larger than the train batch of {batch} env steps; make the batch larger "
            "or the minibatch smaller (batch_units='packed' counts the batch in steps of all envs together)"
        )
    if batch % minibatch:
        fitting = max(batch - batch % minibatch, minibatch)
        raise ConfigError(
            f"minibatches of {minibatch} do not divide a train batch of {batch} env steps. Use a train batch of "
            f"{fitting} or {fitting + minibatch}, or another minibatch"
        )


def check_untouched(config: Any, env: Any, mode: str, normalize: bool) -> None:
    """Raise ConfigError if a setting of the user's would be replaced by `configure` or never used."""
    if not config.enable_rl_module_and_learner or not config.enable_env_runner_and_connector_v2:
        raise ConfigError(
            "the config is of RLlib's old API stack, which vecenv does not support; leave out "
            "api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)"
        )
    if "creator" in config.env_config:
        raise ConfigError(
            "this config was configured before: configure a config once, and make a new one for other envs"
        )
    if config.env is not None and config.env is not env and config.env != env:
        raise ConfigError(
            f"the config has environment({config.env!r:.60}), and configure() was given {env!r:.60}: leave out one of "
            "them, or give the same"
        )
    if normalize and mode != "vec" and isinstance(config, IMPALAConfig):
        raise ConfigError(
            "APPO and IMPALA merge the states of runners while they sample, and normalize_observations would count "
            "samples several times; use a wrapper of vecenv.wrappers around the envs, or mode='vec'"
        )
    if normalize and mode == "vec" and config._env_to_module_connector is not None:
        raise ConfigError(
            "normalize_observations would replace env_to_module_connector; add MeanStdFilter to it instead"
        )
    if mode == "vec":
        return
    for factory in (config._env_to_module_connector, config._module_to_env_connector):
        if factory is not None:
            raise foreign_piece(getattr(factory, "__name__", repr(factory)))
    if config._learner_connector is not None:
        raise ConfigError(f"mode={mode!r} has its own learner pipeline; remove learner_connector, or use mode='vec'")
    if config._learner_class is not None:
        raise ConfigError(
            f"mode={mode!r} has its own learner class and would replace {config._learner_class.__name__}; derive "
            "yours from vecenv.rllib.PackedPPOLearner, PackedAPPOLearner or PackedIMPALALearner and set it after "
            "configure()"
        )
    if config.rollout_fragment_length != "auto" and not isinstance(config, IMPALAConfig):
        raise ConfigError(
            f"rollout_fragment_length={config.rollout_fragment_length} would be ignored: a sample is the train batch, "
            "divided by the runners; leave it at 'auto'"
        )


def check_policies(config: Any, mode: str, slots: Slots | None, turns: bool) -> None:
    """Raise ConfigError if the config's policies, or the mode, do not fit the agents of the envs."""
    if slots is None:
        if config.is_multi_agent:
            raise ConfigError("the config has several policies (multi_agent()), and these envs have one agent")
        return
    if mode == "packed_vec":
        raise ConfigError("mode='packed_vec' is for envs with one agent; use mode='native' or 'vec'")
    if mode == "vec" and not slots.named:
        raise UnsupportedError(NO_NAMES)
    if mode == "native" and len(slots.groups) > 1:
        names = [group.name for group in slots.groups]
        raise ConfigError(
            f"mode='native' has one policy for all agents; these envs have the groups {names}: use mode='vec', "
            "or pad=True"
        )
    if mode == "native" and turns:
        raise ConfigError(f"agents that act by turns {NOT_NATIVE}")
    if mode == "native" and episode_callbacks(config):
        raise ConfigError(f"callbacks per episode of several agents {NOT_NATIVE}")
    if mode == "native" and config.model_config.get("use_lstm"):
        raise ConfigError(f"recurrent modules of several agents {NOT_NATIVE}")
    if mode == "native" and config.is_multi_agent:
        raise ConfigError(
            "mode='native' has one policy for all agents; leave multi_agent() out, or use mode='vec' for several"
        )


def check_network(config: Any, observation: Any, action: Any) -> None:
    """Raise ConfigError if RLlib cannot build its default network for these spaces. A network is built and dropped."""
    if config._rl_module_spec is not None:
        return
    spec = config.get_default_rl_module_spec()
    spec.observation_space, spec.action_space, spec.model_config = observation, action, config.model_config
    try:
        with torch.random.fork_rng(devices=[]):  # the seeds of this process stay as they are
            spec.build()
    except Exception as error:
        raise ConfigError(
            f"RLlib cannot build its default network for observations {observation} and actions {action}: "
            f"{text_of(error)}. Set config.rl_module(rl_module_spec=...)"
        ) from error


_PER_EPISODE = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


def episode_callbacks(config: Any) -> list[str]:
    """The callbacks per episode that a config has."""
    classes = config.callbacks_class if isinstance(config.callbacks_class, (list, tuple)) else [config.callbacks_class]
    return [
        name
        for name in _PER_EPISODE
        if any(getattr(one, name, None) is not getattr(RLlibCallback, name) for one in classes)
        or getattr(config, f"callbacks_{name}", None)
    ]


def check_config(config: Any, *, packed: bool) -> None:
    """Raise ConfigError for settings that the packed and the native runner do not support, wherever they were set."""
    mode = "packed_vec" if packed else "native"
    supported, names = (PPOConfig, "PPO") if packed else ((PPOConfig, IMPALAConfig), "PPO, APPO and IMPALA")
    if not isinstance(config, supported):
        raise ConfigTypeError(
            f"mode={mode!r} is for {names}, whose learners take packed rollouts. {type(config).__name__} needs an "
            f"episode per env; use {_mode_for(config)}"
        )
    check_batch(config)
    if packed and (called := episode_callbacks(config)):
        raise ConfigError(
            f"{called[0]} would never be called for the envs in mode='packed_vec', where RLlib sees one env whose "
            "episode never ends; use mode='native' or 'vec'"
        )
    if isinstance(config, IMPALAConfig):
        _check_impala(config)
    if config.batch_mode != "truncate_episodes" and not config.in_evaluation:
        raise ConfigError(
            f"mode={mode!r} samples env steps, not whole episodes: set batch_mode='truncate_episodes', "
            f"not {config.batch_mode!r}"
        )
    if packed and config.evaluation_interval and config.evaluation_duration_unit == "episodes":
        raise ConfigError(
            "evaluation in episodes would never end in mode='packed_vec', where RLlib sees one env that is never done: "
            "set .evaluation(evaluation_duration_unit='timesteps'), or use mode='native'"
        )
    if config._learner_connector is not None or config.add_default_connectors_to_learner_pipeline:
        raise ConfigError(
            f"mode={mode!r} has its own learner pipeline: RLlib's pieces and your learner_connector expect "
            "an episode per env. Leave learner_connector and add_default_connectors_to_learner_pipeline as configure() "
            "set them"
        )


def _mode_for(config: Any) -> str:
    return "mode='native' or 'vec'" if isinstance(config, IMPALAConfig) else "mode='vec'"


def _check_impala(config: Any) -> None:
    if config.num_aggregator_actors_per_learner:
        raise ConfigError(
            f"num_aggregator_actors_per_learner={config.num_aggregator_actors_per_learner} would be of no use in "
            "mode='native': a sample is a few arrays already, with no episodes to aggregate; set 0"
        )
    if (config.num_learners or 0) > 1:  # RLlib gives whole samples to the learners, and some would get none
        check_sample(config)


def check_sample(config: Any) -> None:
    """Raise ConfigError if the train batch of APPO or IMPALA is smaller than a sample, which RLlib does not divide."""
    if not isinstance(config, IMPALAConfig):
        return
    steps, envs = config.get_rollout_fragment_length(), config.num_envs_per_env_runner or 1
    batch = config.total_train_batch_size // (config.num_learners or 1)
    if steps * envs > batch:
        raise ConfigError(
            f"a sample has {steps * envs} env steps ({steps} of each of {envs} envs), and the train batch of a learner "
            f"{batch}: RLlib does not divide samples. Use a train batch of at least {steps * envs}, or "
            "config.env_runners(rollout_fragment_length=) of fewer steps"
        )


def check_module(module: Any, config: Any, *, packed: bool) -> None:
    """Raise an error if a recurrent module does not work with the runner or its batches."""
    if module is None or not module.is_stateful():
        return
    name = type(module).__name__
    if packed:
        raise UnsupportedError(
            f"{name} is recurrent, which needs a state per env, and mode='packed_vec' has one episode for all envs; "
            "use mode='native' or 'vec'"
        )
    length = module.model_config.get("max_seq_len")
    if length is None:
        raise ConfigError(
            f"{name} is recurrent and its model_config has no 'max_seq_len': set "
            "config.rl_module(model_config={'max_seq_len': 20, ...})"
        )
    if config.minibatch_size and config.minibatch_size < length:
        raise ConfigError(
            f"a minibatch of {config.minibatch_size} is smaller than a sequence of max_seq_len={length} steps, and "
            "RLlib's learner would never end: use larger minibatches, or shorter sequences"
        )


def check_pipelines(*pipelines: Any) -> None:
    """Raise ConfigError if a connector piece between envs and module expects an episode per env."""
    ours = (UnpackObservation, ObservationNormalizer, BatchToTensor, SampleActions)
    for pipeline in pipelines:
        for piece in pipeline.connectors:
            if not isinstance(piece, ours):
                raise foreign_piece(type(piece).__name__)


def foreign_piece(name: str) -> ConfigError:
    """The error about a connector piece that would see packed observations."""
    return ConfigError(
        f"the connector piece {name} expects an episode per env. Over packed observations it would see all envs as "
        "one, and a filter would normalise rewards and flags. Use configure(..., normalize_observations=True), a "
        "wrapper of vecenv.wrappers around the envs, or mode='vec'"
    )


def check_vector_env(envs: Any) -> None:
    """Raise ConfigError unless the envs use next-step autoreset, which RLlib relies on and never checks."""
    if not isinstance(envs, VectorEnv):
        raise ConfigTypeError(f"a gymnasium.vector.VectorEnv is needed, got {type(envs).__name__}")
    check_mode(envs)


def check_mode(envs: Any) -> None:
    """Raise ConfigError unless the envs declare next-step autoreset."""
    mode = envs.metadata.get("autoreset_mode")
    if mode is None:
        raise ConfigError(
            f"{type(envs).__name__} does not declare its autoreset mode. RLlib needs next-step mode: if it has that, "
            "set metadata = {'autoreset_mode': AutoresetMode.NEXT_STEP}"
        )
    if AutoresetMode(mode) is not AutoresetMode.NEXT_STEP:
        raise ConfigError(
            f"{type(envs).__name__} is in autoreset mode {AutoresetMode(mode).value!r}. RLlib uses the observation of "
            "a done step as the episode's last one, which would silently corrupt episodes: use next-step mode"
        )


def check_fresh_arrays(envs: VectorEnv | MultiAgentVectorEnv) -> None:
    """Raise ConfigError if observations of consecutive steps share memory. Resets the envs."""
    actions = envs.action_space
    actions.seed(0)
    seen = [envs.reset(seed=0)[0]]
    for _ in range(_PROBED_STEPS):
        leaves: list[tuple[Any, ...]] = []
        obs, *_ = envs.step(actions.sample())
        seen.append(obs)
        map_tree(lambda *arrays: leaves.append(arrays), *seen)  # noqa: B023
        for *before, now in leaves:
            if any(np.may_share_memory(array, now) for array in before if isinstance(now, np.ndarray)):
                raise ConfigError(
                    f"{type(envs).__name__} reuses the memory of its observations. RLlib keeps them until it learns, "
                    "and they would be overwritten: return a new array from every step (vecenv.make: copy=True)"
                )


def check_nothing_added(env_config: Mapping[str, Any]) -> None:
    """Raise ConfigError for what was added to the config's env_config after `configure` had put a creator there."""
    added = {name: value for name, value in env_config.items() if name != "creator"}
    if added:
        raise ConfigError(f"the config got env_config={added!r:.200} after configure(); set it before")
