"""The envs of a trainer: one or several groups, normalized, with statistics of their episodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from vecenv._front.action_masks import action_masks, check_allowed
from vecenv._front.exchange import Exchange
from vecenv._front.infos import ended_by_fault
from vecenv._front.rollout import Snapshot
from vecenv._front.step import Step
from vecenv._front.vector_env import VectorEnv
from vecenv._make.make import make
from vecenv._util.cpus import usable_cpus
from vecenv.agents import FlatVectorEnv, MultiAgentVectorEnv
from vecenv.errors import ConfigError, EnvError, NothingPendingError, UnsupportedError
from vecenv.presets import make_options_for
from vecenv.trainers._policy import given_masks, masks_in
from vecenv.trainers._progress import Episodes
from vecenv.wrappers import Transform, Wrapper
from vecenv.wrappers._normalize_observation import Normalize
from vecenv.wrappers._rewards import RewardScale

_MANY = 1 << 21
"""From about this much work on, a second torch thread is faster."""
Envs = str | gymnasium.vector.VectorEnv | MultiAgentVectorEnv | Sequence[gymnasium.vector.VectorEnv]


class Collector:
    """Steps groups of envs and returns `Step`s, whose env ids count within their group.

    Args:
        envs: an id, whose envs are made with `vecenv.presets.make_options_for`; a vector env, or one with several
            agents, which share the policy: a row per agent; or several vector envs, which are stepped in turn: while
            one group steps, the policy acts for another. That is faster with engines that run in other processes
            ("process").
        num_envs, groups: with an id, the number of envs and the number of groups they are split into.
        normalize_obs, normalize_reward: whether to normalize by running statistics.
        gamma: discount factor of the returns; rewards are divided by their standard deviation.
        clip: limit of normalized observations and rewards.
        mask: name of the info, or of the part of Dict observations, that holds action masks; None: no masks.
    """

    def __init__(
        self,
        envs: Envs,
        num_envs: int,
        groups: int,
        *,
        normalize_obs: bool = False,
        normalize_reward: bool = False,
        gamma: float = 0.99,
        clip: float = 10.0,
        mask: str | None = None,
    ) -> None:
        self.env_id = envs if isinstance(envs, str) else None
        self.tensor_env = tensor_env_of(envs)
        """The vector env, if its results are tensors on a device."""
        if self.tensor_env is not None and (normalize_obs or normalize_reward):
            raise ConfigError(
                "normalize_obs and normalize_reward compute statistics on the host; envs on a device need observations "
                "and rewards of a good size by themselves, or a network that normalizes (torch.nn.LayerNorm)"
            )
        if isinstance(envs, str):
            if num_envs % groups:
                raise ConfigError(f"{num_envs} envs cannot be split into {groups} equal groups")
            options = {"autoreset": "same-step", "copy": False, **make_options_for(envs)}
            several = [make(envs, num_envs // groups, **options) for _ in range(groups)]
        elif isinstance(envs, (gymnasium.vector.VectorEnv, MultiAgentVectorEnv)):
            several = [envs]
        else:
            several = list(envs)
        flat = [_flat(env) if isinstance(env, MultiAgentVectorEnv) else env for env in several]
        if len(flat) > 1 and any(isinstance(env, FlatVectorEnv) for env in flat):
            raise ConfigError("envs with several agents are stepped as one group; pass one vector env, and groups=1")
        known = (VectorEnv, Wrapper, FlatVectorEnv)
        self.envs: list[Any] = [env if isinstance(env, known) else Wrapper(env, Transform()) for env in flat]
        check_autoreset(self.envs)
        counts = [env.num_envs for env in self.envs]
        self.parts = [(sum(counts[:place]), count) for place, count in enumerate(counts)]
        self.num_envs = sum(counts)
        for env in self.envs[1:]:
            _check_alike(self.envs[0], env)
        self.num_agents = self.envs[0].num_slots if isinstance(self.envs[0], FlatVectorEnv) else 1
        """Rows of each env: how many agents it has."""
        self.observation_space = self.envs[0].single_observation_space
        self.action_space = self.envs[0].single_action_space
        self.normalize = Normalize(1e-8, clip, _numbers_of(self.observation_space)) if normalize_obs else None
        self.scale = RewardScale(gamma, 1e-8) if normalize_reward else None
        if mask is not None and isinstance(self.action_space, gymnasium.spaces.Box):
            raise ConfigError(f"mask={mask!r} is for actions that are choices, these are {self.action_space}")
        self._clip, self.mask, self.masks = clip, mask, {}
        self.mask_width: int | None = None
        """How many entries a mask must have; None: any number."""
        self.at_once: str | None = "this trainer"
        """What needs the results of an action in the next step, so that agents may not act by turns; None: nothing."""
        self.sent: Any = None
        """The actions of a single group, until its step is finished."""
        for transform in (self.normalize, self.scale):
            if transform is not None:
                self.observation_space, _ = transform.bind(self.observation_space, self.action_space, self.num_envs)
        self.episodes = Episodes(self.num_envs)

    def reset(self, seed: int | None) -> list[Any]:
        """Reset all groups, discarding steps that are still pending; return their observations."""
        first = []
        self.episodes.begin()
        for number, (env, (begin, _)) in enumerate(zip(self.envs, self.parts, strict=True)):
            own_seed = None if seed is None else seed + begin
            _drop_pending(env)
            first.append(self.begun(number, env._exchange_reset(own_seed, None)))
        return first

    def begun(self, group: int, exchange: Exchange) -> Any:
        """Take what a reset of a group returned; return its observations."""
        begin, _ = self.parts[group]
        self._note_masks(group, exchange, begin)
        self._transform(exchange, begin)
        return exchange.obs

    def send(self, group: int, actions: Any) -> None:
        """Start a step of a group."""
        if len(self.envs) == 1:
            self.sent = actions
        else:
            self.envs[group].send(actions)

    def receive(self, group: int) -> Step:
        """Finish the step of a group. Env ids count within the group."""
        env, (_, count) = self.envs[group], self.parts[group]
        exchange = env._exchange_step(self.sent, None) if len(self.envs) == 1 else env._exchange_recv(count, None)
        return self.stepped(group, exchange)

    def stepped(self, group: int, exchange: Exchange) -> Step:
        """Take what a step of a group returned."""
        own, (begin, _) = exchange.rows, self.parts[group]
        if self.at_once is not None and isinstance(self.envs[group], FlatVectorEnv):
            self.envs[group].check_at_once(self.at_once)
        rows, faulty = own + begin if begin else own, ended_by_fault(exchange.infos)
        valid = True if exchange.all_valid else exchange.valid
        self.episodes.add(exchange.reward, exchange.done, valid, rows, faulty)
        self._note_masks(group, exchange, begin)
        self._transform(exchange, begin)
        return Step(
            obs=exchange.obs, reward=exchange.reward, terminated=exchange.terminated, truncated=exchange.truncated,
            infos=exchange.infos, env_ids=own, ops=exchange.ops, episode_return=exchange.reward,
            episode_length=own, final_obs=exchange.final_obs, _successors=exchange.successors,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Statistics, masks and the state of the envs, where the engine can return it (kernels)."""
        return {
            "normalize": self.normalize and self.normalize.state_dict(),
            "scale": self.scale and self.scale.state_dict(),
            "episodes": self.episodes.state_dict(),
            "masks": [self.masks.get(group) for group in range(len(self.envs))],
            "envs": [None if self.tensor_env is not None else state_of(env) for env in self.envs],
        }

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Restore `state_dict`; return whether the envs' state was restored too. If not, they must be reset.

        Raises:
            ConfigError: the state is of another number of envs.
        """
        stored = len(state["episodes"]["totals"])
        if stored != self.num_envs:
            raise ConfigError(f"the checkpoint is of {stored} envs, these are {self.num_envs}; pass {stored}")
        for transform, own in ((self.normalize, state["normalize"]), (self.scale, state["scale"])):
            if transform is not None:
                transform.load_state_dict(own)
        self.episodes.load_state_dict(state["episodes"])
        self.masks = {group: mask for group, mask in enumerate(state["masks"]) if mask is not None}
        return restore_envs(self.envs, state["envs"])

    @property
    def engine_reason(self) -> str:
        """Why the engine of the envs was chosen."""
        return self.envs[0].unwrapped.engine_reason

    def close(self) -> None:
        """Close the envs."""
        for env in self.envs:
            env.close()

    def _transform(self, exchange: Exchange, begin: int) -> None:
        if self.normalize is None and self.scale is None:
            return
        own = exchange.rows
        if begin:
            exchange.rows = own + begin
        if self.normalize is not None:
            self.normalize.exchange(exchange)
        if self.scale is not None:
            self.scale.exchange(exchange)
            exchange.reward = exchange.reward.clip(-self._clip, self._clip)
        exchange.rows = own

    def _note_masks(self, group: int, exchange: Exchange, begin: int) -> None:
        if self.mask is None:
            return
        acting = ~exchange.done | exchange.rolled  # the other rows are reset by the next step
        if isinstance(exchange.obs, dict) and self.mask in exchange.obs:
            if isinstance(self.envs[group], FlatVectorEnv):
                acting = acting & exchange.infos["acts"]
            check_allowed(given_masks(exchange.obs, self.mask), self.mask, exchange.rows + begin, acting)
            masks = masks_in(exchange.obs, self.mask)
        else:
            masks = action_masks(exchange.infos, self.mask, exchange.rows + begin, acting)
        if self.mask_width is not None and masks.shape[1] != self.mask_width:
            raise ConfigError(
                f"masks {self.mask!r} of the envs have {masks.shape[1]} entries, the action space "
                f"{self.action_space} needs {self.mask_width}: one for each choice"
            )
        self.masks[group] = np.ascontiguousarray(masks, np.bool_)


@contextlib.contextmanager
def torch_threads(count: int | None, numbers: int) -> Iterator[None]:
    """Run torch on `count` threads; by default one, unless there is much to compute at once.

    Envs on other threads or processes run while torch waits and the other way round, so both may use all processors.
    The cost of more threads is waking them for matrices that one thread multiplies faster.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count or (usable_cpus() if numbers >= _MANY else 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tensor_env_of(envs: Any) -> Any:
    """The vector env, if it says that its results are torch tensors: it has a `device` of torch's; else None.

    Raises:
        ConfigError: it does not restart episodes by itself in the same step.
    """
    several = list(envs) if isinstance(envs, (list, tuple)) else [envs]
    found = [env for env in several if isinstance(getattr(env, "device", None), torch.device)]
    if not found:
        return None
    if len(several) > 1:
        raise ConfigError(f"there can be one vector env on a device, got {len(several)}; make one with more envs")
    if found[0].metadata.get("autoreset_mode", AutoresetMode.SAME_STEP) != AutoresetMode.SAME_STEP:
        raise ConfigError('envs on a device must be made with autoreset="same-step" to be trained on')
    return found[0]


def _numbers_of(space: gymnasium.Space[Any]) -> list[str] | None:
    """The parts of a Dict that can be normalized: numbers, but neither choices nor images; None: it is a Box."""
    if isinstance(space, gymnasium.spaces.Box):
        return None
    if not isinstance(space, gymnasium.spaces.Dict):
        raise ConfigError(
            f"normalize_obs is for observations that are numbers: a Box, or the Boxes of a Dict; got {space}"
        )
    boxes = {key: part for key, part in space.spaces.items() if isinstance(part, gymnasium.spaces.Box)}
    found = [key for key, part in boxes.items() if part.dtype != np.uint8 or len(part.shape) != 3]
    if not found:
        raise ConfigError(
            f"normalize_obs has nothing to normalize in {space}: only Boxes of numbers directly in the Dict are "
            "normalized, not those in nested Dicts"
        )
    return found


def _check_alike(envs: Any, others: Any) -> None:
    """Raise ConfigError unless two groups have the same spaces."""
    for name in ("single_observation_space", "single_action_space"):
        first, second = getattr(envs, name), getattr(others, name)
        if first != second:
            raise ConfigError(f"all groups must have the same spaces, got {first} and {second}")


def _flat(envs: MultiAgentVectorEnv) -> FlatVectorEnv:
    if len(envs.groups) > 1:
        raise ConfigError(
            f"these envs have the groups {list(envs.groups)}, which need a policy each: use vecenv.trainers.GroupPPO, "
            "or make the envs with pad=True for one policy"
        )
    return envs.flat()


def _drop_pending(env: Any) -> None:
    """Wait for the pending steps of an interrupted rollout, and discard their results."""
    if isinstance(env.unwrapped, VectorEnv):
        with contextlib.suppress(NothingPendingError, EnvError):  # the reset that follows clears an env's error
            while True:
                env.unwrapped.recv()


def check_autoreset(envs: Sequence[Any]) -> None:
    """Raise ConfigError if envs do not begin new episodes by themselves."""
    if any(env.autoreset_mode == AutoresetMode.DISABLED for env in envs):
        raise ConfigError('trainers need envs with autoreset; make them with autoreset="same-step", not "disabled"')


def state_of(env: Any) -> dict[str, Any] | None:
    """The state of a vector env and its wrappers, as data; None if the engine cannot return it."""
    try:
        snapshot = _base(env).get_state()
    except (UnsupportedError, AttributeError):
        return None
    wrappers = env.state_dict() if isinstance(env, Wrapper) else {}
    return {"snapshot": {"columns": snapshot.columns, "ready": snapshot.ready}, "wrappers": wrappers}


def restore_envs(envs: Sequence[Any], states: Sequence[Any]) -> bool:
    """Restore what `state_of` returned of each; return whether all were restored."""
    if any(own is None for own in states) or len(states) != len(envs):
        return False
    try:
        for env, own in zip(envs, states, strict=True):
            _base(env).set_state(Snapshot(**own["snapshot"]))
            if isinstance(env, Wrapper):
                env.load_state_dict(own["wrappers"])
    except (UnsupportedError, AttributeError):
        return False
    return True


def _base(env: Any) -> Any:
    return env if isinstance(env, MultiAgentVectorEnv) else env.unwrapped
