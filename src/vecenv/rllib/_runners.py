"""EnvRunners that return whole batches of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.metrics import (
    CONNECTOR_PIPELINE_TIMER,
    ENV_TO_MODULE_CONNECTOR,
    MODULE_TO_ENV_CONNECTOR,
    RLMODULE_INFERENCE_TIMER,
    WEIGHTS_SEQ_NO,
)
from ray.rllib.utils.numpy import convert_to_numpy
from ray.rllib.utils.spaces.space_utils import clip_action, get_base_struct_from_space, unsquash_action

from vecenv._batch.layout import map_tree
from vecenv._util.episodes import EpisodeLog
from vecenv.agents import FlatVectorEnv
from vecenv.errors import UnsupportedError
from vecenv.rllib._checks import NOT_NATIVE, check_config, check_module, check_pipelines, episode_callbacks
from vecenv.rllib._connectors import SEEN
from vecenv.rllib._episodes import log_episodes
from vecenv.rllib._normalizer import ObservationNormalizer
from vecenv.rllib._rollout import PackedRollout, stack_in_time


class _VectorRunner(SingleAgentEnvRunner):
    """What both runners share: correct counts of steps and episodes, spaces of one env, actions that fit it."""

    packed: bool
    envs: Any
    """The vector env with N envs."""
    episodes: EpisodeLog
    """Episodes counted since the last sample."""
    _chosen = True
    """Whether the module chose the next actions."""

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        check_config(config, packed=self.packed)
        super().__init__(config=config, **kwargs)
        check_pipelines(self._env_to_module, self._module_to_env)
        for piece in self._env_to_module.connectors:  # type: ignore[attr-defined]
            if isinstance(piece, ObservationNormalizer):
                piece.learning = not config.in_evaluation
        check_module(self.module, config, packed=self.packed)

    def sample(self, *, num_timesteps: int | None = None, num_episodes: int | None = None, **kwargs: Any) -> list[Any]:
        """As in RLlib; by default this runner's share of the train batch, in env steps.

        With a `rollout_fragment_length`, which APPO and IMPALA have, that many steps of each env.
        """
        if num_timesteps is None and num_episodes is None and self.config.rollout_fragment_length == "auto":
            num_timesteps = -(-self.config.total_train_batch_size // (self.config.num_env_runners or 1))
        self._chosen = not kwargs.get("random_actions", False)
        amount: Any = {"num_timesteps": num_timesteps, "num_episodes": num_episodes}
        return super().sample(**amount, **kwargs)

    def get_spaces(self) -> dict[str, Any]:
        """Spaces of RLlib's env, and those of one of the N envs for the module."""
        if self.env is None:
            return self.spaces
        envs = self.envs
        return {
            INPUT_ENV_SPACES: (self.env.observation_space, self.env.action_space),
            INPUT_ENV_SINGLE_SPACES: (self.env.single_observation_space, self.env.single_action_space),
            DEFAULT_MODULE_ID: (envs.single_observation_space, envs.single_action_space),
        }

    def _try_env_step(self, actions: Any) -> Any:
        """Step with actions inside the space, according to `normalize_actions` and `clip_actions`."""
        fit = unsquash_action if self.config.normalize_actions else clip_action if self.config.clip_actions else None
        if fit is not None and self._chosen:
            actions = fit(actions, get_base_struct_from_space(self.envs.single_action_space))
        return super()._try_env_step(actions)

    def _log_env_steps(self, metric: Any, num_steps: int) -> None:
        if metric is self._metrics_num_env_steps_sampled:
            num_steps = self.episodes.steps
        super()._log_env_steps(metric=metric, num_steps=num_steps)

    def _increase_sampled_metrics(self, num_steps: int, num_episodes_completed: int) -> int:
        steps, returns, lengths = self.episodes.take()
        log_episodes(self.metrics, returns, lengths)
        return super()._increase_sampled_metrics(steps, len(returns))


class PackedEnvRunner(_VectorRunner):
    """RLlib's runner on a packed env, which counts steps of all N envs. It has one episode that never ends.

    `num_timesteps` of `sample` is handled as in RLlib: sampling ends with the first step at which that many env steps
    have been made, resets not counted.
    """

    packed = True

    def make_env(self) -> None:
        """Make the env as RLlib does."""
        super().make_env()
        packed: Any = self.env.unwrapped  # type: ignore[union-attr]
        self.envs, self.episodes = packed.envs, packed.episodes

    def _sample(self, *, num_timesteps: int | None = None, num_episodes: int | None = None, **kwargs: Any) -> list[Any]:
        if num_timesteps is None:
            raise UnsupportedError(
                "packed_vec cannot sample whole episodes: RLlib sees one env that never ends. Evaluate with "
                "evaluation_duration_unit='timesteps', or use mode='native'"
            )
        (episode,) = super()._sample(num_timesteps=_Until(self, num_timesteps), **kwargs)
        # RLlib keeps the chunks of every episode until it ends, which this one never does.
        self._ongoing_episodes_for_metrics.clear()
        return [PackedRollout.of_episode(episode)]


class _Until(int):
    """A number of timesteps for RLlib's loop, which runs while its own count is smaller.

    RLlib counts a step of N envs as one. This class compares the envs' own count, so that the loop ends correctly.
    """

    def __new__(cls, runner: PackedEnvRunner, wanted: int) -> _Until:
        return super().__new__(cls, wanted)

    def __init__(self, runner: PackedEnvRunner, wanted: int) -> None:
        self._runner = runner

    def __gt__(self, _: object) -> bool:
        return self._runner.episodes.steps < int(self)


class NativeEnvRunner(_VectorRunner):
    """Steps a vector env with N envs and returns one PackedRollout, without Python code per env.

    `sample(num_episodes=...)` resets all envs and stops when that many episodes have ended. Only if there are callbacks
    per episode, every env has an episode object for them.
    """

    packed = False
    _ongoing_episodes: list[Any]
    """One per env; of RLlib's class if there are callbacks per episode, else None."""

    def make_env(self) -> None:
        """Make the env as RLlib does; infos become a list of N dicts only if callbacks per episode can read them."""
        super().make_env()
        self._wrapped = self.env  # keep a reference: it closes the envs when it is garbage-collected
        self.envs = self.env.env  # type: ignore[union-attr]
        base: Any = self.envs.unwrapped
        self._flat: FlatVectorEnv | None = base if isinstance(base, FlatVectorEnv) else None
        self._acted = np.ones(self.num_envs, bool)
        self.episodes = EpisodeLog(self.num_envs if self._flat is None else self._flat.agents.num_envs)
        self._calls_per_episode = episode_callbacks(self.config)
        if self._calls_per_episode and self._flat is not None:
            raise UnsupportedError(f"callbacks per episode of several agents {NOT_NATIVE}")
        if not self._calls_per_episode:
            self.env = self.envs

    def make_module(self) -> None:
        """Make the module as RLlib does, and its initial states."""
        super().make_module()
        self._initial: Any = None
        if self.module is not None and self.module.is_stateful():
            if self._flat is not None:
                raise UnsupportedError(f"recurrent modules of several agents {NOT_NATIVE}")
            one = convert_to_numpy(self.module.get_initial_state())
            self._initial = map_tree(lambda leaf: np.repeat(leaf[None], self.num_envs, axis=0), one)

    def _sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[Any]:
        if self.module is not None:
            self.module.eval()  # type: ignore[attr-defined]
        if force_reset or num_episodes is not None or self._needs_initial_reset:
            self._begin(explore)
        first, steps = self._seen(), []
        while (
            self.episodes.steps < num_timesteps
            if num_timesteps is not None
            else self.episodes.episodes < (num_episodes or 0)
        ):
            step = self._step(explore, random_actions)
            if step is None:  # the envs failed and were built again
                self._begin(explore)
                first, steps = self._seen(), []
            else:
                steps.append(step)
        self._needs_initial_reset = num_episodes is not None
        if self._calls_per_episode and num_timesteps is not None:
            self._cut_episodes()
        if not steps:
            return []
        rollout = _packed(first, steps, self._weights_seq_no, 1 if self._flat is None else self._flat.num_slots)
        self._log_env_steps(metric=self._metrics_num_env_steps_sampled, num_steps=len(rollout))
        self._increase_sampled_metrics(len(rollout), 0)
        return [rollout]

    def _seen(self) -> dict[str, Any]:
        return {"obs": self._last} if self._initial is None else {"obs": self._last, "states": self._states}

    def _begin(self, explore: bool) -> None:
        if self._calls_per_episode:
            self._ongoing_episodes_for_metrics.clear()
            for row in range(self.num_envs):
                self._new_episode(row)
        obs, infos = self._try_env_reset(seed=self._seed if self._needs_initial_reset else None)
        self._acted = infos["acts"] if self._flat is not None else self._acted
        self._needs_initial_reset = False
        self.episodes.begin()
        self._done = np.zeros(self.num_envs, bool)
        self._states = self._initial
        self._observe(obs, explore)
        if self._calls_per_episode:
            for row, seen in enumerate(_rows(self._last)):
                self._ongoing_episodes[row].add_env_reset(observation=seen, infos=infos[row])
            for row in range(self.num_envs):
                self._make_on_episode_callback("on_episode_start", row, self._ongoing_episodes)

    def _observe(self, obs: Any, explore: bool) -> None:
        """Store an observation after the pipeline, and the module's input made from it."""
        self._last = obs
        if self.module is None:
            return
        batch = {Columns.OBS: obs}
        if self._initial is not None:  # like RLlib, the step that resets an env gets the initial state, too
            batch[Columns.STATE_IN] = self._fed = _where(self._done, self._initial, self._states)
        batch = self._run_pipeline(self._env_to_module, batch, explore, ENV_TO_MODULE_CONNECTOR)
        self._last, self._to_module = batch.pop(SEEN, obs), batch

    def _step(self, explore: bool, random_actions: bool) -> dict[str, Any] | None:
        extra: dict[str, Any] = {}
        if random_actions:
            actions = self.env.action_space.sample()  # type: ignore[union-attr]
        else:
            out = self._forward(explore)
            extra = self._run_pipeline(self._module_to_env, out, explore, MODULE_TO_ENV_CONNECTOR)
            actions = extra.pop(Columns.ACTIONS)
            extra.pop(Columns.ACTIONS_FOR_ENV, None)
        results = self._try_env_step(actions)
        if results is ENV_STEP_FAILURE:
            return None
        obs, reward, terminated, truncated, infos = results
        done, valid = terminated | truncated, ~self._done
        if self._flat is None:
            self.episodes.add(reward, done, valid)
        else:
            valid = self._count_agents(self._flat, reward, infos)
        self._done = done
        outputs = dict(extra)
        if self._initial is not None:
            self._states = _where(valid, extra.pop(Columns.STATE_OUT, self._fed), self._initial)
        self._observe(obs, explore)
        if self._calls_per_episode:
            self._add_to_episodes(actions, reward, terminated, truncated, infos, outputs)
        return {
            **self._seen(),
            "actions": actions,
            "rewards": reward,
            "terminated": terminated,
            "truncated": truncated,
            "valid": valid,
            "extra": extra,
        }

    def _add_to_episodes(
        self, actions: Any, reward: Any, terminated: Any, truncated: Any, infos: Any, outputs: dict[str, Any]
    ) -> None:
        """Add a step to every env's episode, or its reset, and make the callbacks in the order of RLlib's runner."""
        episodes, began = self._ongoing_episodes, set()
        observations, chosen = _rows(self._last), _rows(actions)
        of_rows = _rows({**outputs, WEIGHTS_SEQ_NO: [self._weights_seq_no] * len(episodes)})
        for row, episode in enumerate(episodes):
            if not episode.is_reset:
                episode.add_env_reset(observation=observations[row], infos=infos[row])
                began.add(row)
                continue
            episode.add_env_step(
                observation=observations[row],
                action=chosen[row],
                reward=reward[row],
                infos=infos[row],
                terminated=terminated[row],
                truncated=truncated[row],
                extra_model_outputs=of_rows[row],
            )
        for row in range(self.num_envs):
            self._make_on_episode_callback("on_episode_start" if row in began else "on_episode_step", row, episodes)
            if episodes[row].is_done:
                self._make_on_episode_callback("on_episode_end", row, episodes)
                self._ongoing_episodes_for_metrics.pop(episodes[row].id_, None)
                self._new_episode(row)

    def _make_on_episode_callback(self, which: str, idx: int, episodes: Any) -> None:
        if which in self._calls_per_episode:  # RLlib also calls its own, which do nothing
            super()._make_on_episode_callback(which, idx, episodes)

    def _cut_episodes(self) -> None:
        """Begin a new part of every episode, as RLlib does after a sample; `on_episode_end` gets the earlier parts."""
        horizon = self.config.episode_lookback_horizon or 0
        for row, episode in enumerate(self._ongoing_episodes):
            self._ongoing_episodes[row] = episode.cut(len_lookback_buffer=horizon)
            if episode.t:
                self._ongoing_episodes_for_metrics[episode.id_].append(episode.to_numpy())

    def _count_agents(self, flat: FlatVectorEnv, reward: np.ndarray, infos: Any) -> np.ndarray:
        """Count a step of envs with several agents; return which rows are transitions.

        Raises:
            UnsupportedError: agents act by turns, so that the results of an action do not come with the next step.
        """
        valid, acted, self._acted = infos["valid"], self._acted, infos["acts"]
        if (valid != acted).any():
            raise UnsupportedError(f"agents that act by turns {NOT_NATIVE}")
        together = (flat.agents.num_envs, flat.num_slots)
        stepped, over = valid.reshape(together).any(axis=1), ~flat.agents._alive.any(axis=1)
        self.episodes.add(reward.reshape(together).sum(axis=1), stepped & over, stepped)
        return valid

    def _forward(self, explore: bool) -> dict[str, Any]:
        """Like `forward_exploration` and `forward_inference`, which switch all layers to `eval` on every call."""
        module: Any = self.module
        with self.metrics.log_time(RLMODULE_INFERENCE_TIMER), torch.no_grad():
            if explore:
                return module._forward_exploration(self._to_module, t=self._lifetime())
            return module._forward_inference(self._to_module)

    def _run_pipeline(self, pipeline: Any, batch: dict[str, Any], explore: bool, key: str) -> dict[str, Any]:
        with self.metrics.log_time((key, CONNECTOR_PIPELINE_TIMER)):
            return pipeline(
                rl_module=self.module, batch=batch, episodes=[], explore=explore, shared_data=self._shared_data
            )

    def _lifetime(self) -> int:
        """Approximate number of steps of all runners, as RLlib counts them for exploration schedules."""
        runners = self.config.num_env_runners or 1
        return (self.num_env_steps_sampled_lifetime // runners + self.episodes.steps) * runners


def _rows(tree: Any) -> list[Any]:
    """A batched tree as a list with one tree per env."""
    if isinstance(tree, dict):
        columns = [_rows(part) for part in tree.values()]
        return [dict(zip(tree, row, strict=True)) for row in zip(*columns, strict=True)]
    return list(zip(*map(_rows, tree), strict=True)) if isinstance(tree, tuple) else list(tree)


def _where(mask: np.ndarray, ones: Any, others: Any) -> Any:
    """Rows of one tree where the mask is True, and of the other elsewhere."""

    def chosen(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    return map_tree(chosen, ones, others)


def _packed(first: dict[str, Any], steps: list[dict[str, Any]], weights_seq_no: int, agents: int) -> PackedRollout:
    columns = {name: [step[name] for step in steps] for name in steps[0]}
    seen = {name: stack_in_time([one, *columns.pop(name)]) for name, one in first.items()}
    return PackedRollout(
        **seen,
        rewards=np.stack(columns.pop("rewards")).astype(np.float32),
        **{name: stack_in_time(values) for name, values in columns.items()},
        weights_seq_no=weights_seq_no,
        agents=agents,
    )
