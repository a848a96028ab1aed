"""What all trainers share: the learn loop's interface, the policy, and checkpoints."""

from __future__ import annotations

import contextlib
import copy
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch

from vecenv._util.checks import brief, positive_int
from vecenv._util.specs import PETTINGZOO, imports_code
from vecenv._util.warn import warn_user
from vecenv.errors import ConfigError, ConfigTypeError, EnvError, UnsafeFile, UnsupportedError, VecenvError
from vecenv.presets import find_preset
from vecenv.trainers._actor_critic import NetworkLike
from vecenv.trainers._arguments import check_arguments, check_call, checked_seed, explained
from vecenv.trainers._checkpoint import check_sizes, load_tree, save_tree, tensors
from vecenv.trainers._collect import Collector, Envs, tensor_env_of, torch_threads
from vecenv.trainers._device import CPU, ActingCopy, copy_to, faster_of, find_device, generator_for, host, put
from vecenv.trainers._evaluation import PeriodicEvaluation
from vecenv.trainers._networks import example
from vecenv.trainers._optimizer import Flat, OptimizerClass
from vecenv.trainers._policy import Policy
from vecenv.trainers._progress import Callbacks, Clock, callbacks_of
from vecenv.trainers._settings import Settings
from vecenv.trainers.loggers import Logger

ConfigT = TypeVar("ConfigT", bound=Settings)
TrainerT = TypeVar("TrainerT", bound="Trainer[Any]")


class Trainer(Generic[ConfigT]):
    """Base class of the trainers.

    The same seed, settings, engine and devices give the same weights, bit for bit, on the same machine.

    A trainer of your own is a subclass of one of these: `save` and `load` work for it under its own name. If it keeps
    more than its base class, it overrides `state_dict` and `load_state_dict`.

    Args:
        envs: an id, or a vector env. Games of an id are preprocessed as by `vecenv train` (`preprocessing="dqn"`); pass
            `vecenv.make("ALE/Pong-v5", 8)` for raw frames.
        config: settings; default: `defaults_for(id)`.
        seed: seed of the networks, of actions and minibatches, and of the envs.
        network: a network of your own, see `vecenv.trainers.Network`; None: the trainer's.
        optimizer: a class of torch's optimizers, or a function that makes one: `optimizer(parameters, lr=...)`; None:
            the trainer's.
        device: where to learn: "auto" (CUDA if there is a GPU, else the CPU), "cpu", "cuda", "cuda:1", "mps".
        act_device: where to act; "auto" measures where it is faster. Only "cpu" or the same as `device`.

    Attributes:
        config: settings, a frozen dataclass.
        network: the network that learns.
        acting: the network that acts: the same one, or a copy on another device.
        collector: steps the envs.
        steps: steps of all envs together so far.
        updates: gradient steps so far.
        evaluations: steps and mean return of the evaluations so far, by name; see `PeriodicEvaluation`.
        diverged: whether a loss of the last `learn` was NaN.
    """

    Config: type[ConfigT]
    algorithm: ClassVar[str]
    """Name of the algorithm in `vecenv train --algo` and in the presets."""
    network: Any
    acting: Any

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Raise ConfigError for arguments that `__init__` does not have, such as those of other libraries."""
        check_call(cls, arguments, named)
        return super().__new__(cls)

    def __init__(
        self,
        envs: Envs,
        config: ConfigT | None = None,
        seed: int = 0,
        *,
        network: NetworkLike | None = None,
        optimizer: OptimizerClass | None = None,
        device: str | torch.device = "auto",
        act_device: str | torch.device = "auto",
    ) -> None:
        check_arguments(type(self), envs, config, seed, optimizer)
        seed = checked_seed(seed)
        tensor_env = tensor_env_of(envs)
        if tensor_env is not None:
            device, act_device = _device_of(tensor_env, device, act_device), tensor_env.device
        self.device = find_device(device)
        self.act_device = CPU if act_device == "auto" else find_device(act_device)
        self._measure = act_device == "auto" and self.device.type not in ("cpu", "meta")
        if self.act_device not in (CPU, self.device):
            raise ConfigError(f"act_device must be 'cpu' or the device ({self.device}), got {act_device}")
        settings: Any = config or self.defaults_for(envs if isinstance(envs, str) else "")
        self.config: ConfigT = settings
        self.seed = seed
        self._own = {"network": network, "optimizer": optimizer}
        self.collector = self._collector_of(envs)
        self.generator = generator_for(CPU, seed)
        self._generators = {"cpu": self.generator}
        self.steps = self.updates = 0
        self.evaluations: dict[str, list[tuple[int, float]]] = {}
        self.diverged = False
        self._losses: dict[str, Any] = {}
        self._loggers: Sequence[Logger] = ()
        try:
            with torch.random.fork_rng(devices=[]), torch_threads(1, 0):  # same weights on any number of processors
                torch.manual_seed(seed)
                self._build()
                self._torch_state: torch.Tensor | None = torch.get_rng_state()
            self._act_on(self.act_device)
        except BaseException:
            if isinstance(envs, str):
                self.collector.close()
            raise

    def __reduce__(self) -> Any:
        """Raise UnsupportedError: parts of a trainer share memory, which copies of them would not."""
        name = type(self).__name__
        raise UnsupportedError(
            f"a {name} cannot be copied or pickled; save(path), and {name}.load(path, envs) makes a second one; "
            "trainer.policy can be copied and pickled"
        )

    @classmethod
    def defaults_for(cls, env_id: str) -> ConfigT:
        """Settings for a known env id, or the defaults."""
        preset = find_preset(cls.algorithm, env_id)
        return cls.Config(**(preset.settings if preset else {}))

    @explained
    def learn(
        self: TrainerT, total_steps: int, callback: Callbacks = None, *, loggers: Logger | Sequence[Logger] = ()
    ) -> TrainerT:
        """Train until `total_steps` steps of envs have been made since the first call.

        Args:
            total_steps: steps of all envs together; a trainer loaded from a checkpoint makes the remaining ones.
            callback: one function or several, called with a `Progress` from time to time; training stops when one of
                them returns False.
            loggers: where the curves go: `TensorBoard`, `CSV`, `WandB`, or your own `Logger`. They stay open.

        Returns:
            The trainer itself.
        """
        total_steps = positive_int("total_steps", total_steps)
        callbacks = callbacks_of(callback)
        given: Any = loggers
        self._loggers = list(given) if isinstance(given, (list, tuple)) else [given]
        for logger in self._loggers:
            if isinstance(logger, type) or not isinstance(logger, Logger):
                raise ConfigTypeError(
                    f"a logger must be an object with write(step, scalars) and close(), got {brief(logger)}"
                )
        evaluations = [callback for callback in callbacks if isinstance(callback, PeriodicEvaluation)]
        if len({each.name for each in evaluations}) < len(evaluations):
            raise ConfigError('evaluations need names of their own: PeriodicEvaluation(every, envs, name="test")')
        for evaluation in evaluations:
            evaluation.check(self)
        clock, steps_before, self.diverged = Clock(), self.steps, False

        def report() -> bool:
            """Tell callbacks and loggers; return whether to go on."""
            losses = {name: float(host(loss)) for name, loss in self._losses.items()}
            self._warn_of_losses(losses)
            progress = clock.progress(self, steps_before, total_steps, losses)
            self.log(progress.scalars)
            answers = [callback(progress) for callback in callbacks]  # all are called
            return not any(isinstance(answer, (bool, np.bool_)) and not answer for answer in answers)

        try:
            if self._measure:
                self._measure_acting()
            with self._own_random_numbers():
                self._learn(total_steps, clock, report)
        finally:
            self._loggers = ()
        return self

    def _warn_of_losses(self, losses: Mapping[str, float]) -> None:
        """Say once if the network does not learn any more."""
        wrong = [name for name, loss in losses.items() if math.isnan(loss)]
        if wrong and not self.diverged:
            self.diverged = True
            warn_user(
                f"losses are NaN after {self.steps:,} steps ({', '.join(wrong)}), and so are weights, which do not "
                "recover. Look for NaN and very large numbers in observations and rewards (envs made with "
                "check_finite='error' stop at them), or learn with a smaller learning_rate from an earlier checkpoint"
            )

    @contextlib.contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        """Within the block, torch's random numbers on the CPU, which a user's network may draw, are the trainer's."""
        if self._own["network"] is None or self._torch_state is None:  # or it is called by a callback of itself
            yield
            return
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._torch_state)
            self._torch_state = None
            try:
                yield
            finally:
                self._torch_state = torch.get_rng_state()

    def log(self, scalars: Mapping[str, float]) -> None:
        """Write scalars at the current step to the loggers of `learn`; NaN is left out. For callbacks."""
        known = {name: float(value) for name, value in scalars.items() if value == value}
        for logger in self._loggers:
            logger.write(self.steps, known)

    def _collector_of(self, envs: Envs) -> Any:
        """What steps the envs."""
        settings: Any = self.config
        return Collector(
            envs,
            settings.num_envs,
            getattr(settings, "groups", 1),
            normalize_obs=settings.normalize_obs,
            normalize_reward=settings.normalize_reward,
            gamma=settings.gamma,
            mask=getattr(settings, "mask", None),
        )

    def _build(self) -> None:
        """Make networks, optimizers and buffer; the random numbers of torch are those of the seed."""
        raise NotImplementedError

    def _learn(self, total_steps: int, clock: Clock, report: Callable[[], bool]) -> None:
        """Train. Call `report` after updates, and stop when it returns False."""
        raise NotImplementedError

    def generator_on(self, device: torch.device) -> torch.Generator:
        """The trainer's random numbers for tensors on a device; on the CPU it is `generator`."""
        name = "cpu" if device.type == "meta" else device.type
        if name not in self._generators:
            self._generators[name] = generator_for(device, self.seed)
        return self._generators[name]

    def _act_on(self, device: torch.device) -> None:
        """Act on this device from now on."""
        self.act_device = device
        self._copy = None if device == self.device else ActingCopy(self.network, self._flat_network(), device)
        self.acting = self.network if self._copy is None else self._copy.network
        self.refresh_acting()

    def refresh_acting(self) -> None:
        """Act with the weights that were learnt; called after every update."""
        if self._copy is not None:
            self._copy.refresh()

    def _flat_network(self) -> Flat:
        """The parameters of the network that acts."""
        raise NotImplementedError

    def _measure_acting(self) -> None:
        """Find out whether the CPU or the device acts faster."""
        self._measure = False
        obs = example(self.collector.observation_space, self.collector.num_envs)
        networks = {device: copy_to(self.network, device) for device in (CPU, self.device)}

        def act(device: torch.device) -> None:
            with torch.inference_mode():
                host(networks[device].act(put(obs, device), None, None, None, None)[0])

        self._act_on(faster_of([CPU, self.device], act))

    @property
    def policy(self) -> Policy:
        """A copy of the current policy; further training does not change it."""
        collector, one = self.collector, self.collector.envs[0]
        network, normalize = copy_to(self.acting, self.act_device), copy.deepcopy(collector.normalize)
        of_envs = one.single_observation_space, one.single_action_space
        return Policy(network, normalize, self.seed, collector.mask, *of_envs)

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
                "config": self.config.as_data(),
                "functions": self.config.functions,
                "made_with": {name: _name_of(own) for name, own in self._own.items() if own is not None},
                "seed": self.seed,
                "steps": self.steps,
                "updates": self.updates,
                "generators": {name: generator.get_state() for name, generator in self._generators.items()},
                "torch_state": torch.get_rng_state() if self._torch_state is None else self._torch_state,
                "collector": self.collector.state_dict(),
                "evaluations": self.evaluations,
                "own": self.state_dict(),
            },
        )

    @classmethod
    def load(
        cls: type[TrainerT], path: str | Path, envs: Envs | None = None, *, config: Any = None, **options: Any
    ) -> TrainerT:
        """Continue from a checkpoint.

        Loading never runs code from the file. If the envs are kernels, however, their states are taken from the file
        unchecked when training continues, and native code relies on them: continue only from files that you trust.

        Args:
            path: path of the file.
            envs: envs to train on; default: made from the id that training began with.
            config: settings; default: those in the file. Needed if some of them are functions.
            options: further arguments of the trainer: `device`, `act_device`, and the `network` and `optimizer` that it
                was made with.

        Raises:
            UnsafeFile: the file is damaged, or is not a checkpoint.
            ConfigError: the checkpoint is of another algorithm; or it does not name its envs; or the module of its env
                id is not imported; or it was made with a network, an optimizer or functions that must be passed again.
                A checkpoint may come from anyone, so the caller has to name such envs.
        """
        state, given = read_checkpoint(path), config
        config = cls._config(path, state, given)
        for name, made_with in state["made_with"].items():
            if options.get(name) is None:
                raise ConfigError(
                    f"{path} was trained with {name!s:.40} {made_with!r:.80}, which files do not store; pass it again: "
                    f"{cls.__name__}.load(path, {name!s:.40}=...)"
                )
        for name in ("network", "optimizer"):
            own, made_with = options.get(name), state["made_with"].get(name)
            if own is not None and (made_with is None or (name == "optimizer" and _name_of(own) != made_with)):
                usual = f"the trainer's own {name}" if made_with is None else f"{name} {made_with!r:.80}"
                raise ConfigError(f"{path} was trained with {usual}, whose state does not fit {_name_of(own)!r:.80}")
        if given is not None:
            given.check_fixed(state["config"], ["num_envs"] if envs is None else [])
        if envs is None:
            envs = _trusted_id(path, state["env_id"])
            rows = len(state["collector"]["episodes"]["totals"])  # several of an env with several agents
            if not rows or rows % config.num_envs:
                raise UnsafeFile(f"{path} is damaged: its settings and its envs have different numbers of envs")
        trainer: Any = None
        try:
            trainer = cls(envs, config, state["seed"], **options)
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
    def _config(cls, path: str | Path, state: dict[str, Any], given: Any = None) -> Any:
        if state["algorithm"] != cls.__name__:
            raise ConfigError(
                f"{path} is a checkpoint of {state['algorithm']}, not of {cls.__name__}; use {state['algorithm']}.load"
            )
        if given is not None:
            check_arguments(cls, "", given, 0, None)
            return given
        if state["functions"]:
            raise ConfigError(
                f"{path} was trained with functions as {', '.join(map(str, state['functions']))!s:.80}, which files do "
                f"not store; pass the settings again: {cls.__name__}.load(path, config={cls.Config.__name__}(...))"
            )
        try:
            config = cls.Config(**state["config"])
            check_sizes(config, state, own_network="network" in state["made_with"])
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
            self.evaluations = {
                str(name): [(int(steps), float(mean)) for steps, mean in points]
                for name, points in state["evaluations"].items()
            }
            same_envs = self.collector.load_state_dict(state["collector"])
            self.load_state_dict(state["own"], same_envs)
            for name, own in state["generators"].items():
                if name in ("cpu", self.device.type):  # else it was trained on a device that is not used now
                    self.generator_on(torch.device(name)).set_state(tensors(own))
            self._torch_state = tensors(state["torch_state"])
            self.refresh_acting()
        except BaseException:
            self.collector.load_state_dict(before)
            raise

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has of this algorithm: dicts, lists, tensors, arrays and plain values.

        A subclass that keeps more returns `{**super().state_dict(), "more": ...}`.
        """
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any], same_envs: bool) -> None:
        """Restore what `state_dict` returned; tensors come back as arrays, tuples as lists.

        Args:
            state: what `state_dict` returned.
            same_envs: whether the envs continue where they were; if not, they are reset before the next step.
        """
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
    "functions": list,
    "made_with": dict,
    "evaluations": dict,
    "generators": dict,
    "torch_state": np.ndarray,
}


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read what `Trainer.save` wrote. Raises UnsafeFile if the file is damaged, or is not a trainer's checkpoint."""
    state = load_tree(path)
    for name, kind in _PARTS.items():
        if not isinstance(state, dict) or name not in state or not isinstance(state[name], kind):
            raise UnsafeFile(f"{path} is not a trainer's checkpoint, or is damaged: {name!r} is missing or wrong")
    return state


def _trusted_id(path: str | Path, env_id: str | None) -> str:
    """The id, if making it imports nothing: a checkpoint may come from anyone."""
    if env_id is None:
        raise ConfigError(f"{path} does not say which envs it was trained on; pass them: load(path, envs)")
    module, _, _ = env_id.partition(":")
    if imports_code(env_id) and (env_id.startswith(PETTINGZOO) or module not in sys.modules):
        raise ConfigError(
            f"{path} was trained on {env_id!r:.100}, and loading imports nothing; import {module:.60} if you trust it, "
            "or pass the envs: load(path, envs)"
        )
    return env_id


def _device_of(env: Any, device: Any, act_device: Any) -> torch.device:
    """The device of envs that are on one; the trainer's must be the same."""
    for name, given in (("device", device), ("act_device", act_device)):
        if given != "auto" and find_device(given) != env.device:
            raise ConfigError(f"the envs are on {env.device}, so {name} must be that too, or 'auto'; got {given}")
    return env.device


def _name_of(own: Any) -> str:
    """The name of a class, a function or an object's class."""
    return str(getattr(own, "__name__", None) or getattr(getattr(own, "func", None), "__name__", type(own).__name__))
