"""What all trainers share: what was learnt, and checkpoints."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import torch

from vecenv.errors import ConfigError
from vecenv.trainers._checkpoint import load_tree, save_tree, tensors
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

        Args:
            path: of the file. Reading it runs no code.
            envs: to train on; default: made by the id that training began with.

        Raises:
            UnsafeFile: it is damaged, or no checkpoint.
            ConfigError: it is of another algorithm, or of envs that were given as such.
        """
        state = load_tree(path)
        if state["algorithm"] != cls.__name__:
            raise ConfigError(
                f"{path} is of {state['algorithm']}, not of {cls.__name__}; use {state['algorithm']}.load"
            )
        if envs is None and state["env_id"] is None:
            raise ConfigError(f"{path} does not say which envs it was trained on; pass them: load(path, envs)")
        trainer = cls(envs if envs is not None else state["env_id"], cls.Config(**state["config"]), state["seed"])  # type: ignore[call-arg]  # every trainer is made so
        trainer.steps, trainer.updates = state["steps"], state["updates"]
        trainer.generator.set_state(tensors(state["generator"]))
        trainer._load_state(state["own"], trainer.collector.load_state_dict(state["collector"]))
        return trainer

    def _state(self) -> dict[str, Any]:
        """Everything else that training goes on with."""
        raise NotImplementedError

    def _load_state(self, state: dict[str, Any], same_envs: bool) -> None:
        """Bring it back; `same_envs` if the envs are what they were."""
        raise NotImplementedError
