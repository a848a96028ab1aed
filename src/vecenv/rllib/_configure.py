"""`configure` and `register`: set everything that a mode needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from gymnasium import Space, spaces
from ray.rllib.algorithms import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.tune.registry import register_env

from vecenv._batch.slots import Slots
from vecenv._util.checks import positive_int
from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.rllib._agents import AgentEnvRunner
from vecenv.rllib._checks import check_batch, check_config, check_network, check_policies, check_sample, check_untouched
from vecenv.rllib._connectors import BatchToTensor, SampleActions, UnpackObservation
from vecenv.rllib._envs import ENV_ID, EnvCreator, probe
from vecenv.rllib._episodes import STATS
from vecenv.rllib._learner import PackedAPPOLearner, PackedIMPALALearner, PackedPPOLearner
from vecenv.rllib._normalizer import ObservationNormalizer, copy_statistics_to_evaluation, resume_statistics
from vecenv.rllib._observations import as_floats, floats_of_slots, needs_floats
from vecenv.rllib._of_tune import of_tune
from vecenv.rllib._runners import NativeEnvRunner, PackedEnvRunner

Mode = Literal["vec", "packed_vec", "native"]
MODES: tuple[str, ...] = get_args(Mode)
Config = TypeVar("Config", bound=AlgorithmConfig)


def register(
    id: str,
    mode: Mode = "vec",
    *,
    env: Any = None,
    num_envs: int | None = None,
    floats: bool = False,
    **options: Any,
) -> str:
    """Register envs with RLlib and return the name for `config.environment(...)`.

    For configs written by hand, in mode "vec"; `configure` sets all that a mode needs, and its checkpoints need no
    name.

    Args:
        id: id of a Gymnasium env or a kernel, or a name of Tune's `register_env`; or any name, if `env` is given.
        mode: "vec", or "packed_vec" for a config that has the rest of that mode. "native" is a runner, not an env.
        env: what `configure` takes. Tune's envs and classes with `__init__(self, config)` get the `env_config`.
        num_envs: number of envs that are packed into one; only for packed_vec, elsewhere RLlib's config sets it.
        floats: whether to return observations as one array of floats.
        **options: arguments of `vecenv.make`, or of that function.
    """
    _check_mode(mode)
    if mode == "native":
        raise ConfigError("native is a runner, which a name of an env cannot set; use configure(config, env, num_envs)")
    if (num_envs is None) is (mode == "packed_vec"):
        raise ConfigError(
            "packed_vec needs num_envs, the number of envs that are packed into one"
            if num_envs is None
            else f"num_envs is for packed_vec; with {mode} set config.env_runners(num_envs_per_env_runner=...)"
        )
    name = f"vecenv/{id}/{mode}"
    creator = EnvCreator(id if env is None else env, num_envs, floats, options)
    register_env(name, creator)
    return name


def configure(
    config: Config,
    env: Any,
    num_envs: int,
    *,
    mode: Mode = "native",
    train_batch: int | None = None,
    minibatch: int | None = None,
    batch_units: Literal["steps", "packed"] = "steps",
    batch_check: bool = True,
    env_runners: int | None = None,
    normalize_observations: bool = False,
    **options: Any,
) -> Config:
    """Set everything that a mode needs on an RLlib config, and check it before Ray starts anything.

    Call it last: it also checks earlier settings. Some are checked again when the runners are built.

    Args:
        config: for example PPOConfig(). It is changed and returned. "packed_vec" needs PPO; "native" PPO, APPO or
            IMPALA.
        env: what `vecenv.make` takes; a function or class with a parameter `num_envs` that returns a VectorEnv; a name
            of Tune's `register_env`; or a class with `__init__(self, config)`. The last two get the config's
            `env_config`. With several agents, "native" has one policy that all share; "vec" has RLlib's multi-agent
            episodes, and a policy for each group unless the config says otherwise by `multi_agent()`.
        num_envs: number of envs of each runner.
        mode: "vec", "packed_vec" or "native".
        train_batch: env steps per iteration, and per learner if there are several; default: the config's. APPO and
            IMPALA join whole samples, of `rollout_fragment_length` steps of each env, until a batch is full.
        minibatch: rows per gradient step; default: the config's. It must divide the batch, which RLlib's own defaults
            (128 and 4000) do not.
        batch_units: "steps", or "packed": `train_batch` counts steps of all envs together and is multiplied by
            `num_envs`.
        batch_check: False turns off RLlib's own check of the config (minibatch <= train batch, and all others).
        env_runners: number of actors; 0 samples in this process. Default: the config's, if it is another than that of
            RLlib's defaults (2 of PPO), else 0.
        normalize_observations: scale to mean zero and variance one, with one statistic for all envs and runners.
        **options: arguments of `vecenv.make`, or of that function.

    Raises:
        ConfigError: something would corrupt the run, hang it, or be ignored.
    """
    _check_mode(mode)
    if not isinstance(config, AlgorithmConfig):
        raise ConfigTypeError(f"config must be an RLlib config, for example PPOConfig(), got {type(config).__name__}")
    num_envs = positive_int("num_envs", num_envs)
    if batch_units not in ("steps", "packed"):
        raise ConfigError(f"batch_units must be 'steps' or 'packed', got {batch_units!r}")
    check_untouched(config, env, mode, normalize_observations)
    env = of_tune(env, config.env_config)
    env_runners = _number_of_runners(config, env_runners)
    found = probe(EnvCreator(env, options=options), num_envs)
    check_policies(config, mode, found.slots, found.turns)
    batch = {}
    if train_batch is not None:
        units = num_envs if batch_units == "packed" else 1
        batch["train_batch_size_per_learner"] = positive_int("train_batch", train_batch) * units
    if minibatch is not None:
        batch["minibatch_size"] = positive_int("minibatch", minibatch)
    filters = bool(config.model_config.get("conv_filters"))
    if found.slots is not None and mode == "vec":
        floats = config._rl_module_spec is None and not _has_spaces(config.policies)
        creator = EnvCreator(env, floats=floats, options=options, filters=filters)
        _configure_agents(config, creator, num_envs, found.slots, env_runners, normalize_observations)
        return config.training(**batch).experimental(_validate_config=batch_check)
    observation, action = found.observation, found.action
    agents = 1 if found.slots is None else len(found.slots)
    floats = config._rl_module_spec is None and needs_floats(observation, filters)
    if floats:
        observation = as_floats(observation, filters)
    if normalize_observations:
        ObservationNormalizer(observation)  # raises without float arrays
    check_network(config, observation, action)
    packed = mode == "packed_vec"
    creator = EnvCreator(env, num_envs if packed else None, floats, options, agents, filters)

    config.environment(ENV_ID, env_config={"creator": creator}, normalize_actions=_normalizes(config, action))
    config.env_runners(
        num_env_runners=env_runners,
        num_envs_per_env_runner=1 if packed else num_envs * agents,
        gym_env_vectorize_mode="vector_entry_point",
    )
    config.training(**batch).experimental(_validate_config=batch_check)
    if mode == "vec":
        if normalize_observations:
            config.env_runners(env_to_module_connector=_mean_std_filter)  # type: ignore[arg-type]
        if hasattr(config, "minibatch_size"):
            check_batch(config)
        return config
    pieces = _Pieces(packed, normalize_observations)
    config.env_runners(
        env_runner_cls=PackedEnvRunner if packed else NativeEnvRunner,
        env_to_module_connector=pieces.env_to_module,  # type: ignore[arg-type]
        module_to_env_connector=pieces.module_to_env,
        add_default_connectors_to_env_to_module_pipeline=False,
        add_default_connectors_to_module_to_env_pipeline=False,
    )
    config.learners(learner_class=_learner_class(config), add_default_connectors_to_learner_pipeline=False)
    config.reporting(custom_stats_cls_lookup=STATS)
    config.callbacks(
        on_evaluate_start=[*_listed(config.callbacks_on_evaluate_start), copy_statistics_to_evaluation],
        on_evaluate_end=[*_listed(config.callbacks_on_evaluate_end), resume_statistics],
    )
    check_config(config, packed=packed)
    if train_batch is not None:
        check_sample(config)
    return config


def _learner_class(config: AlgorithmConfig) -> type:
    if isinstance(config, APPOConfig):
        return PackedAPPOLearner
    return PackedIMPALALearner if isinstance(config, IMPALAConfig) else PackedPPOLearner


def _configure_agents(
    config: Any, creator: EnvCreator, num_envs: int, slots: Slots, env_runners: int, normalize: bool
) -> None:
    """RLlib's own sampling of several agents. Without policies of the user's, each group has one of its name."""
    shown = floats_of_slots(slots, creator.filters)[0] if creator.floats else slots
    for group in shown.groups:
        if normalize:
            ObservationNormalizer(group.observation_space)  # raises without float arrays
        if creator.floats:
            check_network(config, group.observation_space, group.action_space)
    config.environment(ENV_ID, env_config={"creator": creator}, disable_env_checking=True)
    config.env_runners(
        env_runner_cls=AgentEnvRunner,
        num_env_runners=env_runners,
        num_envs_per_env_runner=num_envs,
    )
    if normalize:
        config.env_runners(env_to_module_connector=_mean_std_filter_of_agents)
    if not config.is_multi_agent:
        policies = {group.name for group in slots.groups}
        config.multi_agent(policies=policies, policy_mapping_fn=_GroupOf({g.name: g.agents for g in slots.groups}))


def _has_spaces(policies: Any) -> bool:
    """Whether a policy of `multi_agent(policies=...)` has an observation space of its own."""
    specs = policies.values() if isinstance(policies, dict) else ()
    return any(getattr(spec, "observation_space", None) is not None for spec in specs)


class _GroupOf:
    """RLlib's `policy_mapping_fn`: the group of an agent."""

    def __init__(self, groups: dict[str, tuple[str, ...]]) -> None:
        self._group = {name: group for group, names in groups.items() for name in names}

    def __call__(self, agent_id: str, episode: Any = None, **kwargs: Any) -> str:
        return self._group[agent_id]


@dataclass(frozen=True)
class _Pieces:
    """Builds the connector pieces between envs and module. RLlib calls these methods in every runner."""

    packed: bool
    normalize: bool

    def env_to_module(self, env: Any, spaces: Any, device: Any) -> list[ConnectorV2]:
        # Pieces with a state come first: RLlib merges the k-th state that is not empty with the k-th piece.
        pieces: list[ConnectorV2] = []
        if self.normalize:
            pieces.append(ObservationNormalizer(self._observation_space(env, spaces)))
        if self.packed:
            pieces.append(UnpackObservation())
        return [*pieces, BatchToTensor(device, keep=not self.packed)]

    def module_to_env(self, env: Any, spaces: Any) -> list[ConnectorV2]:
        return [SampleActions(self.packed)]

    def _observation_space(self, env: Any, spaces: Any) -> Space[Any]:
        if env is None:
            return spaces[DEFAULT_MODULE_ID][0]
        return (env.unwrapped.envs if self.packed else env).single_observation_space


def _mean_std_filter(env: Any, spaces: Any, device: Any) -> ConnectorV2:
    """RLlib's own filter, for `vec`."""
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    return MeanStdFilter()


def _mean_std_filter_of_agents(env: Any, spaces: Any, device: Any) -> ConnectorV2:
    """RLlib's own filter, for several agents in `vec`: each agent has its own statistics."""
    from ray.rllib.connectors.env_to_module import MeanStdFilter

    return MeanStdFilter(multi_agent=True)


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        hint = did_you_mean(mode, MODES)
        raise ConfigError(f"mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}{hint}")


def _number_of_runners(config: AlgorithmConfig, given: Any) -> int:
    if given is None:
        return 0 if config.num_env_runners == type(config)().num_env_runners else config.num_env_runners or 0
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ConfigError(f"env_runners must be an int >= 0, got {given!r}")
    return given


def _listed(callbacks: Any) -> list[Any]:
    return [] if callbacks is None else callbacks if isinstance(callbacks, list) else [callbacks]


def _normalizes(config: AlgorithmConfig, action: Space[Any]) -> bool:
    """Whether RLlib should rescale actions. Not for Discrete, where there is nothing to do and it copies N per step."""
    return bool(config.normalize_actions) and not isinstance(action, (spaces.Discrete, spaces.MultiDiscrete))
