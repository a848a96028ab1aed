"""What all trainers share: what was learnt, and checkpoints."""

from __future__ import annotations

import copy
import dataclasses
import sys
from pathlib import Path
from typing import Any

import torch

from vecenv.errors import ConfigError, EnvError, UnsafeFile, VecenvError
from vecenv.trainers._checkpoint import check_sizes, load_tree, save_tree, tensors
from vecenv.trainers._collect import Collector, Envs
from vecenv.trainers._policy import Policy
from vecenv.trainers._progress import Callback


class Trainer:
    """Something that learns.

    Attributes:
        config: settings, a frozen dataclass.
        network: what acts.
        collector: the envs.
        steps: steps of envs so far, all together.
        updates: gradient steps so far.
    """

    Config: type[Any]
    config: Any
    network: Any
    collector: Collector
    generator: torch.Generator
    seed: int
    steps: int
    updates: int

    def learn(self, total_steps: int, callback: Callback | None = None) -> Any:
        """Train until `total_steps` steps of envs have been made since the first call.

        Args:
            total_steps: all together; a loaded trainer that had made some makes the rest.
            callback: called with a `Progress` now and then; returning False stops.

        Returns:
            The trainer itself.
        """
        raise NotImplementedError

    @property
    def policy(self) -> Policy:
        """What was learnt so far; training goes on without changing it."""
        collector = self.collector
        return Policy(copy.deepcopy(self.network), copy.deepcopy(collector.normalize), self.seed, collector.mask)

    def close(self) -> None:
        """Close the envs."""
        self.collector.close()

    def save(self, path: str | Path) -> None:
        """Write a checkpoint: plain data.

        Training that is loaded from it ends with the same weights, bit for bit, as if it had never stopped, if the envs
        can be stored (kernels, engine="compiled"). Other envs begin new episodes.
        """
        save_tree(
            path,
            {
                "algorithm": type(self).__name__,
                "env_id": self.collector.env_id,
                "config": dataclasses.asdict(self.config),
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
        """Go on with a checkpoint.

        Loading runs no code of the file, whoever wrote it. Training on from it steps envs whose states, if they are
        kernels, are taken from the file as they are, and native code trusts them: do that with files of your own.

        Args:
            path: of the file. Reading it runs no code.
            envs: to train on; default: made by the id that training began with.

        Raises:
            UnsafeFile: it is damaged, or no checkpoint.
            ConfigError: it is of another algorithm, of envs that were given as such, or of an id whose module is not
                imported: a checkpoint may come from anyone, so the caller names the envs.
        """
        state = read_checkpoint(path)
        config = cls._config(path, state)
        if envs is None:
            envs = _trusted_id(path, state["env_id"])
            if config.num_envs != len(state["collector"]["episodes"]["totals"]):
                raise UnsafeFile(f"{path} is damaged: its settings and its envs are of different numbers")
        trainer: Any = None
        try:
            trainer = cls(envs, config, state["seed"])  # type: ignore[call-arg]  # every trainer is made so
            trainer._bring_back(state)
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
        """The settings that a checkpoint was trained with; raises what `load` raises."""
        return cls._config(path, read_checkpoint(path))

    @classmethod
    def _config(cls, path: str | Path, state: dict[str, Any]) -> Any:
        if state["algorithm"] != cls.__name__:
            raise ConfigError(
                f"{path} is of {state['algorithm']}, not of {cls.__name__}; use {state['algorithm']}.load"
            )
        try:
            config = cls.Config(**state["config"])
            check_sizes(config, state)
        except Exception as error:
            raise UnsafeFile(
                f"{path} is damaged: its settings cannot be ({error!s:.200}); nothing was loaded"
            ) from error
        return config

    def _bring_back(self, state: dict[str, Any]) -> None:
        """Everything that `save` wrote. If that fails the envs, which may be the caller's, are what they were."""
        before = self.collector.state_dict()
        try:
            self.steps, self.updates = state["steps"], state["updates"]
            self.generator.set_state(tensors(state["generator"]))
            self._load_state(state["own"], self.collector.load_state_dict(state["collector"]))
        except BaseException:
            self.collector.load_state_dict(before)
            raise

    def _state(self) -> dict[str, Any]:
        """Everything else that training goes on with."""
        raise NotImplementedError

    def _load_state(self, state: dict[str, Any], same_envs: bool) -> None:
        """Bring it back; `same_envs` if the envs are what they were."""
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
    """What `Trainer.save` wrote.

    Raises:
        UnsafeFile: it is damaged, or no checkpoint of a trainer.
    """
    state = load_tree(path)
    for name, kind in _PARTS.items():
        if not isinstance(state, dict) or name not in state or not isinstance(state[name], kind):
            raise UnsafeFile(f"{path} is no checkpoint of a trainer, or damaged: {name!r} is missing or wrong")
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
