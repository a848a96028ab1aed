"""What all trainers share: the learn loop's interface, the policy, and checkpoints."""

from __future__ import annotations

import copy
import dataclasses
import sys
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

from vecenv.errors import ConfigError, EnvError, UnsafeFile, VecenvError
from vecenv.trainers._checkpoint import check_sizes, load_tree, save_tree, tensors
from vecenv.trainers._collect import Collector, Envs
from vecenv.trainers._policy import Policy
from vecenv.trainers._progress import Callback

ConfigT = TypeVar("ConfigT")


class Trainer(Generic[ConfigT]):
    """Base class of the trainers.

    The same seed, settings and engine give the same weights, bit for bit, on the same machine.

    Args:
        envs: an id, or a vector env.
        config: settings; default: `defaults_for(id)`.
        seed: seed of the networks, of actions and minibatches, and of the envs.

    Attributes:
        config: settings, a frozen dataclass.
        network: the network that acts.
        collector: steps the envs.
        steps: steps of all envs together so far.
        updates: gradient steps so far.
    """

    Config: type[ConfigT]
    network: Any
    _presets: ClassVar[dict[str, dict[str, Any]]]
    """Settings for particular env ids, as changes to the defaults."""

    def __init__(self, envs: Envs, config: ConfigT | None = None, seed: int = 0) -> None:
        settings: Any = config or self.defaults_for(envs if isinstance(envs, str) else "")
        self.config: ConfigT = settings
        self.seed = seed
        self.collector = Collector(
            envs,
            settings.num_envs,
            getattr(settings, "groups", 1),
            normalize_obs=settings.normalize_obs,
            normalize_reward=settings.normalize_reward,
            gamma=settings.gamma,
            mask=getattr(settings, "mask", None),
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.steps = self.updates = 0

    @classmethod
    def defaults_for(cls, env_id: str) -> ConfigT:
        """Settings for a known env id, or the defaults."""
        return cls.Config(**cls._presets.get(env_id, {}))

    def learn(self, total_steps: int, callback: Callback | None = None) -> Any:
        """Train until `total_steps` steps of envs have been made since the first call.

        Args:
            total_steps: steps of all envs together; a trainer loaded from a checkpoint makes the remaining ones.
            callback: called with a `Progress` from time to time; returning False stops training.

        Returns:
            The trainer itself.
        """
        raise NotImplementedError

    @property
    def policy(self) -> Policy:
        """A copy of the current policy; further training does not change it."""
        collector = self.collector
        return Policy(copy.deepcopy(self.network), copy.deepcopy(collector.normalize), self.seed, collector.mask)

    def close(self) -> None:
        """Close the envs."""
        self.collector.close()

    def save(self, path: str | Path) -> None:
        """Write a checkpoint of plain data.

        If the state of the envs can be stored (kernels, engine="compiled"), training that continues from the checkpoint
        ends with the same weights, bit for bit, as training that was never stopped. Other envs begin new episodes.
        """
        save_tree(
            path,
            {
                "algorithm": type(self).__name__,
                "env_id": self.collector.env_id,
                "config": dataclasses.asdict(self.config),  # type: ignore[call-overload]  # a dataclass
                "seed": self.seed,
                "steps": self.steps,
                "updates": self.updates,
                "generator": self.generator.get_state(),
                "collector": self.collector.state_dict(),
                "own": self._state(),
            },
        )

    @classmethod
    def load(cls, path: str | Path, envs: Envs | None = None) -> Any:
        """Continue from a checkpoint.

        Loading never runs code from the file. If the envs are kernels, however, their states are taken from the file
        unchecked when training continues, and native code relies on them: continue only from files that you trust.

        Args:
            path: path of the file.
            envs: envs to train on; default: made from the id that training began with.

        Raises:
            UnsafeFile: the file is damaged, or is not a checkpoint.
            ConfigError: the checkpoint is of another algorithm; or it does not name its envs; or the module of its env
                id is not imported. A checkpoint may come from anyone, so the caller has to name such envs.
        """
        state = read_checkpoint(path)
        config = cls._config(path, state)
        if envs is None:
            envs = _trusted_id(path, state["env_id"])
            if config.num_envs != len(state["collector"]["episodes"]["totals"]):
                raise UnsafeFile(f"{path} is damaged: its settings and its envs have different numbers of envs")
        trainer: Any = None
        try:
            trainer = cls(envs, config, state["seed"])
            trainer._restore(state)
        except BaseException as error:
            if trainer is not None and isinstance(envs, str):
                trainer.close()
            if isinstance(error, (EnvError, OSError)) or not isinstance(error, Exception):
                raise
            if isinstance(error, VecenvError):
                raise type(error)(f"{path}: {error}; nothing was loaded") from error
            raise UnsafeFile(
                f"{path} is damaged, or of other envs ({type(error).__name__}: {error!s:.200}); nothing was loaded"
            ) from error
        return trainer

    @classmethod
    def config_of(cls, path: str | Path) -> Any:
        """The settings in a checkpoint; raises the same errors as `load`."""
        return cls._config(path, read_checkpoint(path))

    @classmethod
    def _config(cls, path: str | Path, state: dict[str, Any]) -> Any:
        if state["algorithm"] != cls.__name__:
            raise ConfigError(
                f"{path} is a checkpoint of {state['algorithm']}, not of {cls.__name__}; use {state['algorithm']}.load"
            )
        try:
            config = cls.Config(**state["config"])
            check_sizes(config, state)
        except Exception as error:
            raise UnsafeFile(
                f"{path} is damaged: its settings are not valid ({error!s:.200}); nothing was loaded"
            ) from error
        return config

    def _restore(self, state: dict[str, Any]) -> None:
        """Restore everything that `save` wrote. If that fails, the envs (perhaps the caller's) are left unchanged."""
        before = self.collector.state_dict()
        try:
            self.steps, self.updates = state["steps"], state["updates"]
            self.generator.set_state(tensors(state["generator"]))
            self._load_state(state["own"], self.collector.load_state_dict(state["collector"]))
        except BaseException:
            self.collector.load_state_dict(before)
            raise

    def _state(self) -> dict[str, Any]:
        """The part of the checkpoint that is specific to the algorithm."""
        raise NotImplementedError

    def _load_state(self, state: dict[str, Any], same_envs: bool) -> None:
        """Restore what `_state` returned; `same_envs`: whether the state of the envs was restored too."""
        raise NotImplementedError


_PARTS: dict[str, Any] = {
    "algorithm": str,
    "env_id": (str, type(None)),
    "config": dict,
    "seed": int,
    "steps": int,
    "updates": int,
    "collector": dict,
    "own": dict,
}


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read what `Trainer.save` wrote. Raises UnsafeFile if the file is damaged, or is not a trainer's checkpoint."""
    state = load_tree(path)
    for name, kind in _PARTS.items():
        if not isinstance(state, dict) or name not in state or not isinstance(state[name], kind):
            raise UnsafeFile(f"{path} is not a trainer's checkpoint, or is damaged: {name!r} is missing or wrong")
    if state["algorithm"] not in ("PPO", "SAC"):
        raise UnsafeFile(f"{path} is of {state['algorithm']!r:.80}, which this version of vecenv does not have")
    return state


def _trusted_id(path: str | Path, env_id: str | None) -> str:
    """The id, if making it imports nothing: a checkpoint may come from anyone."""
    if env_id is None:
        raise ConfigError(f"{path} does not say which envs it was trained on; pass them: load(path, envs)")
    module, sign, _ = env_id.partition(":")
    if sign and module not in sys.modules:
        raise ConfigError(
            f"{path} was trained on {env_id!r:.100}, and loading imports nothing; import {module:.60} if you trust it, "
            "or pass the envs: load(path, envs)"
        )
    return env_id
