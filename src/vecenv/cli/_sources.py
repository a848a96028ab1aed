"""Find the envs and checkpoints that users name on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.spaces import Dict

from vecenv._batch.faults import ENV_RAISED
from vecenv._batch.slots import Group, Slots, SlotSpace
from vecenv._make.make import make
from vecenv._make.source import NAMESPACE, find_build, resolve
from vecenv._util.files import open_text, parsed
from vecenv._util.specs import PETTINGZOO, find_spec, imports_code
from vecenv._util.suggest import did_you_mean, nearest
from vecenv.agents._sources import find_pettingzoo
from vecenv.atari._ids import GAME_IDS, find_game, load_ale
from vecenv.cli._agents import MASK
from vecenv.engines import Asyncio, Process, Request, Sync, Thread, registry
from vecenv.errors import ConfigError, InvalidAction, MissingExtra, SpaceError, UnknownEnv
from vecenv.kernel.language.registry import find_kernel, kernel_ids, kernel_of
from vecenv.presets import make_options_for
from vecenv.recording._builds import names_of_code

CHECKPOINTS, SUFFIX = "checkpoints", ".npz"
_CONFIG = {"env": str, "algo": str, "kwargs": dict, "engine": str, "steps": int}
"""Required entries of config.json."""


@dataclass(frozen=True)
class EnvSource:
    """An env named on the command line.

    Attributes:
        name: what the user wrote.
        env: what `vecenv.make` takes.
        kwargs: constructor arguments.
        options: further arguments of `make` that belong to the env: `preprocessing` of Atari games.
    """

    name: str
    env: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str | None:
        """The id, if the env is made from nothing but an id; else None."""
        return self.env if isinstance(self.env, str) and not self.kwargs and not self.options else None

    @property
    def imports(self) -> bool:
        """Whether the name names code: module:Class, file.py:Class."""
        return _imports(self.name)

    @property
    def title(self) -> str:
        """The name for headings and file names."""
        return self.name.rpartition(":")[2].replace("/", "-")

    def refusal(self, engine: str) -> str | None:
        """Why the engine of this name cannot run the env, None if it can."""
        kind = registry.find(engine)
        return kind.unavailable() or kind().refuses(self._resolved(), Request(1))

    def factory(self) -> Callable[[], Any]:
        """Builds one Python env, as the engines build it: with several agents, an env of one row."""
        return self._resolved().env_fns[0]

    def _resolved(self) -> Any:
        return resolve(self.env, 1, dict(self.kwargs) or None, None, {}, self.options.get("preprocessing"))

    def groups(self) -> tuple[str, ...]:
        """Names of the groups of agents; none if the env has one agent. Builds one env to find out."""
        return tuple(group.name for group in self._groups())

    def shows_masks(self) -> bool:
        """Whether the observations of all agents have a part that says which actions are allowed. Builds one env."""
        if not isinstance(self.env, str):
            return False
        spaces = [group.observation_space for group in self._groups()]
        return bool(spaces) and all(isinstance(space, Dict) and MASK in space.spaces for space in spaces)

    def _groups(self) -> tuple[Group, ...]:
        kernel, _ = find_build(self.env)
        if kernel is not None or not self.env.startswith(PETTINGZOO):
            space = None if kernel is None else kernel.spaces(kernel.record(kernel.parameters({}, 1)))[0]
        else:
            with closing(self.factory()()) as env:
                space = env.observation_space
        return space.slots.groups if isinstance(space, SlotSpace) else ()

    def make(self, num_envs: int, **options: Any) -> Any:
        """The vector env of `vecenv.make`."""
        env_kwargs = {**self.kwargs, **options.pop("env_kwargs", {})}
        return make(self.env, num_envs, env_kwargs=env_kwargs, **{**self.options, **options})

    def evaluate(self, policy: Any, **options: Any) -> Any:
        """The result of `vecenv.evaluate` in this env."""
        from vecenv.evaluation import evaluate

        return evaluate(policy, self.env, env_kwargs=self.kwargs or None, **{**self.options, **options})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint named on the command line, and the config of its run.

    Attributes:
        path: path of the file.
        run: the run's directory, None if the file is not in one.
        config: content of the run's config.json, empty if there is none.
    """

    path: Path
    run: Path | None
    config: dict[str, Any]


def find_env(name: str, kwargs: Mapping[str, Any] | None = None, preprocessing: Any = None) -> EnvSource:
    """The env of an id, `module:Id-v0`, `module:Class`, `path/file.py:Class` or `pettingzoo:module`.

    Raises:
        ConfigError: there is no such env; the message names similar ones, or, for a file, what is in it.
    """
    kwargs, options = dict(kwargs or {}), {"preprocessing": preprocessing} if preprocessing not in (None, False) else {}
    module, _, attribute = name.partition(":")
    if name.endswith(".py"):
        raise ConfigError(f"name an env of the file: {', '.join(envs_in(name))}")
    if name.startswith(PETTINGZOO):
        find_pettingzoo(name)
        return EnvSource(name, name, kwargs, options)
    if _imports(name):
        return EnvSource(name, _imported(name, module, attribute), kwargs, options)
    if GAME_IDS.match(name):
        find_game(name)
        return EnvSource(name, name, kwargs, options)
    kernel, _ = find_build(name)
    if kernel is None:
        try:
            find_spec(name)
        except (UnknownEnv, gymnasium.error.Error) as error:
            hint = suggested(name, "see `vecenv list`, or name a class: module:Class")
            raise UnknownEnv(f"there is no env {name!r}{hint}") from error
    return EnvSource(name, name, kwargs, options)


def usual_screens(name: str, kwargs: Mapping[str, Any]) -> Any:
    """The preprocessing of an env's presets; None if it has none, or if the user chose what the env shows."""
    return None if "obs_type" in kwargs else make_options_for(name).get("preprocessing")


def suggested(name: str, otherwise: str = "") -> str:
    """`; did you mean 'an id'?` with an id that can be made here, to be appended to a message; else `; otherwise`.

    An id with the same name counts as nearest, whatever its namespace and version: ALE/Pong-v5 for pong or Pong-v5.
    """
    ids = working_ids()
    same = [id for id in ids if _bare(id) == _bare(name)]
    if same:
        return f"; did you mean {max(same, key=lambda id: (_version(id), '/' not in id))!r}?"
    near = nearest(name, ids)
    if near is None:
        by_name = {_bare(id): id for id in ids}
        near = by_name.get(nearest(_bare(name), by_name) or "")
    return f"; did you mean {near!r}?" if near is not None else f"; {otherwise}" if otherwise else ""


def _bare(id: str) -> str:
    """The name in an id, in small letters, without namespace and version."""
    return _VERSION.sub("", id.rpartition("/")[2]).lower()


def _version(id: str) -> int:
    found = _VERSION.search(id)
    return int(found[1]) if found else 0


_VERSION = re.compile(r"-v(\d+)$")


def working_ids() -> list[str]:
    """Ids of envs that can be made here: kernels, and those of Gymnasium's registry whose packages are installed."""
    with suppress(MissingExtra):
        load_ale("")  # registers its games
    kernels = set(kernel_ids())
    return [*kernels, *(id for id in gymnasium.registry if id not in kernels and missing_for(id) is None)]


NEEDS = {
    "box2d": ("Box2D", "gymnasium[box2d]"),
    "mujoco": ("mujoco", "vecenv[mujoco]"),
    "phys2d": ("jax", "gymnasium[jax]"),
    "tabular": ("jax", "gymnasium[jax]"),
}
"""Families of Gymnasium's that need more than Gymnasium: the module and the package."""


def family_of(spec: Any) -> str:
    """The package of an env's class; of Gymnasium's, the family."""
    point = spec.entry_point if isinstance(spec.entry_point, str) else getattr(spec.entry_point, "__module__", "")
    parts = point.partition(":")[0].split(".")
    return ".".join(parts[:3]) if parts[0] == "gymnasium" else parts[0]


def missing_for(id: str) -> str | None:
    """Why an env of Gymnasium's registry cannot be made, None if it can."""
    spec = gymnasium.registry[id]
    family = family_of(spec)
    module, package = NEEDS.get(family.rpartition(".")[2], (None, None))
    if id.startswith(f"{NAMESPACE}/") or spec.entry_point is None:
        return "for vector envs only"
    if family == "gymnasium.envs":  # entries that only raise an error about their removal
        return "retired; use a newer version"
    if family == "gymnasium.envs.mujoco" and id.endswith(("-v2", "-v3")):
        return "needs mujoco-py, which is no longer maintained; use v5"
    if module is not None and importlib.util.find_spec(module) is None:
        return f"needs {module}: pip install '{package}'"
    return None


def envs_in(file: str) -> list[str]:
    """The names of the envs in a file, as file.py:Name. Imports it, as the full name would."""
    import inspect

    module = _module(file, file)
    names = [
        f"{file}:{name}"
        for name, found in vars(module).items()
        if kernel_of(found) is not None
        or (inspect.isclass(found) and issubclass(found, gymnasium.Env) and found.__module__ == module.__name__)
    ]
    if not names:
        raise ConfigError(
            f"{file} has no env class and no kernel; name a function of it that makes an env: {file}:make_env"
        )
    return names


def _imported(name: str, module: str, attribute: str) -> Any:
    """The object named by `module:attribute`, or the spec of an id that the module registers: module:Id-v0."""
    found: Any = _module(module, name)
    holder = found
    for part in attribute.split("."):
        holder, found = found, getattr(found, part, None)
        if found is None:
            if find_kernel(attribute) is not None:
                return attribute
            if attribute in gymnasium.registry:  # importing the module registered it
                return gymnasium.spec(attribute)
            registered = [id for id in gymnasium.registry if id.partition("-v")[0] == attribute.partition("-v")[0]]
            hint = did_you_mean(part, [*dir(holder), *registered])
            if not attribute:
                raise ConfigError(f"{name!r} names nothing in {module}; write {module}:Class or {module}:Id-v0")
            raise ConfigError(f"{module!r} has no {attribute!r}{hint}")
    if kernel_of(found) is None and not callable(found):
        kind = type(found).__name__
        article = "an" if kind[0].lower() in "aeiou" else "a"
        raise ConfigError(f"{name} is {article} {kind}; name an env class, a kernel or a function that makes one")
    return found


def _module(module: str, name: str) -> Any:
    """Import a module or a file."""
    path = Path(module)
    if path.suffix == ".py":
        if not path.is_file():
            raise ConfigError(f"there is no file {module} (in {Path.cwd()})")
        sys.path.insert(0, str(path.parent.resolve()))
        module = path.stem
    elif os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # as with `python -m`
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(f"{module!r} cannot be imported: {error}") from error
        raise ConfigError(f"there is no module {module!r} (looked in {os.getcwd()} too), as in {name!r}") from error
    except ENV_RAISED as error:
        raise ConfigError(f"{module!r} cannot be imported: {type(error).__name__}: {error}") from error


def space_words(space: gymnasium.Space[Any]) -> str:
    """A short description of a space: Box 4 float32."""
    if isinstance(space, SlotSpace):
        return _group_words(space.slots, "observation_space")
    if isinstance(space, gymnasium.spaces.Box):
        return f"Box {'x'.join(map(str, space.shape)) or 'scalar'} {space.dtype}"
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"Discrete {space.n}"
    if isinstance(space, gymnasium.spaces.Tuple):
        return f"({', '.join(map(space_words, space.spaces))})"
    if isinstance(space, gymnasium.spaces.Dict):
        return f"{{{', '.join(f'{name}: {space_words(part)}' for name, part in space.spaces.items())}}}"
    return " ".join(str(space).split())


def action_words(env: gymnasium.Env[Any, Any]) -> str:
    """A short description of an env's actions; of several agents, by group."""
    space = env.observation_space
    return _group_words(space.slots, "action_space") if isinstance(space, SlotSpace) else space_words(env.action_space)


def _group_words(slots: Slots, kind: str) -> str:
    """The spaces of agents: 3 x Box 18 float32, or one such entry per group."""
    words = [f"{len(group)} x {space_words(getattr(group, kind))}" for group in slots.groups]
    named = [f"{group.name}: {each}" for group, each in zip(slots.groups, words, strict=True)]
    return ", ".join(named if len(words) > 1 else words)


def looks_like_path(name: str) -> bool:
    """Whether the name is a checkpoint or a run rather than an env such as path/file.py:Class."""
    if name.partition(":")[0].endswith(".py"):
        return False
    return Path(name).exists() or name.endswith(SUFFIX) or name.startswith(("./", "../", "/", "runs/"))


def find_checkpoint(name: str) -> Checkpoint:
    """A checkpoint by its path, or the newest of a run's directory. Raises a ConfigError that names similar ones."""
    path = Path(name)
    if not path.exists():
        parent = path.parent
        near = did_you_mean(path.name, (one.name for one in parent.iterdir())) if parent.is_dir() else ""
        raise ConfigError(f"there is no checkpoint or run {name!r}{near}")
    if path.is_dir():
        inside = path if path.name == CHECKPOINTS else path / CHECKPOINTS
        numbered = [file for file in inside.glob(f"step-*{SUFFIX}") if file.stem.partition("-")[2].isdecimal()]
        files = sorted(numbered, key=lambda file: int(file.stem.partition("-")[2]))
        if not files:
            raise ConfigError(f"the run {name!r} has no checkpoints ({inside}/step-N{SUFFIX})")
        path = files[-1]
    run = path.parent.parent if path.parent.name == CHECKPOINTS else path.parent
    return Checkpoint(path, *read_run(run))


def read_run(run: Path) -> tuple[Path | None, dict[str, Any]]:
    """A run's directory and its config; (None, {}) if it is not a run."""
    file = run / "config.json"
    if not file.is_file():
        return None, {}
    try:
        with open_text(file) as text:
            found = parsed(text.read())
    except ValueError as error:
        raise ConfigError(f"{file} is damaged: {error}") from error
    for name, kind in _CONFIG.items():
        given = found.get(name) if isinstance(found, dict) else None
        if not isinstance(given, kind) or isinstance(given, bool):
            raise ConfigError(f"{file} is damaged: {name!r} must be {kind.__name__}, it has {given!r:.80}")
    return run, found


def read_result(run: Path) -> Mapping[str, Any]:
    """What a run's result.json says; empty if the run has not ended. Raises ConfigError if the file is damaged."""
    file = run / "result.json"
    if not file.is_file():
        return {}
    try:
        with open_text(file) as text:
            found = parsed(text.read())
    except ValueError as error:
        raise ConfigError(f"{file} is damaged: {error}") from error
    return found if isinstance(found, dict) else {}


def different_runs(names: Iterable[str]) -> list[str]:
    """The names without those of directories that were named before."""
    found: dict[Path, str] = {}
    for name in names:
        found.setdefault(Path(name).resolve(), name)
    return list(found.values())


@contextmanager
def fitting(env: str | None, path: str | Path) -> Iterator[None]:
    """Within the block, spaces of the env named by --env that are not those of training are wrong arguments."""
    try:
        yield
    except (SpaceError, InvalidAction) as error:
        if env is None:
            raise
        raise ConfigError(f"--env {env} does not fit {path}: {error}") from error


ENV_INSTEAD = "; or name the env yourself: --env"
"""What commands that have --env add to the advice about code that is not trusted."""


def env_of(
    checkpoint: Checkpoint, env: str | None, kwargs: Mapping[str, Any], trust: bool, instead: str = ""
) -> EnvSource:
    """The env that a checkpoint was trained on, or the env named by --env; `instead` is added to the advice.

    Raises:
        ConfigError: the files do not say which env, there is no such env, or they name code and are not trusted.
    """
    if env is not None:
        return find_env(env, kwargs, _preprocessing(checkpoint, env, kwargs))
    name = _trained_on(checkpoint)
    if name is None:
        raise ConfigError(f"{checkpoint.path} does not say which env it was trained on{instead}")
    code = _code_of(checkpoint)
    if code and not trust:
        raise ConfigError(
            f"the env of {checkpoint.path} is code that would be imported and run: {' and '.join(code)!s:.300}. "
            f"Nothing was run. If you trust its author, pass --trust{instead}"
        )
    try:
        kwargs = {**checkpoint.config.get("kwargs", {}), **kwargs}
        return find_env(name, kwargs, _preprocessing(checkpoint, name, kwargs))
    except ConfigError as error:
        raise type(error)(f"the env of {checkpoint.path}: {error}{instead}") from error


def _preprocessing(checkpoint: Checkpoint, name: str, kwargs: Mapping[str, Any]) -> Any:
    """What the run was trained with; the usual if there is only a checkpoint."""
    if checkpoint.run is None:
        return usual_screens(name, kwargs)
    made_with = checkpoint.config.get("make", {})
    return made_with.get("preprocessing") if isinstance(made_with, dict) else None


def runs_python(engine: Any) -> bool:
    """Whether this is the name of an engine on this machine that runs any env in Python."""
    return engine in (Sync.name, Thread.name, Process.name, Asyncio.name)


def load_trainer(
    checkpoint: Checkpoint, make_envs: Callable[[Any], Any], device: str = "auto", *, own_envs: bool = False
) -> Any:
    """The trainer of a checkpoint, of whichever algorithm.

    `make_envs` is called if it has no plain id of its envs, or for envs that are to be made otherwise (`own_envs`).
    """
    from vecenv import trainers

    stored = _stored(checkpoint)
    known = {cls.__name__: cls for cls in (trainers.PPO, trainers.GroupPPO, trainers.SAC, trainers.DQN)}
    cls: Any = known.get(stored["algorithm"])
    if cls is None:
        raise ConfigError(
            f"{checkpoint.path} is of {stored['algorithm']!r:.80}, no trainer of vecenv; load it in Python: "
            f"{stored['algorithm']!s:.80}.load(path)"
        )
    if stored["env_id"] is not None and not _imports(stored["env_id"]) and not own_envs:
        return cls.load(checkpoint.path, device=device)
    return cls.load(checkpoint.path, make_envs(cls.config_of(checkpoint.path)), device=device)


@contextmanager
def acting(policy: Any) -> Iterator[Any]:
    """The policy for `evaluate` and `play`, with a number of torch threads that suits its size."""
    from vecenv.trainers._collect import torch_threads

    networks = [own._network for own in (policy.values() if isinstance(policy, dict) else [policy])]
    with torch_threads(None, sum(part.numel() for network in networks for part in network.parameters())):
        yield policy


def load_policy(checkpoint: Checkpoint, source: EnvSource, trust: bool, device: str = "cpu") -> Any:
    """The policy of a checkpoint, loaded with envs as in training; with envs of `source` if it names none to trust."""

    def make_envs(config: Any) -> Any:
        known = _trained_on(checkpoint) is not None and (trust or not _code_of(checkpoint))
        asked = checkpoint.config.get("engine")
        engine = {"engine": asked} if known and runs_python(asked) else {}
        envs = (env_of(checkpoint, None, {}, trust) if known else source).make(config.num_envs, **engine)
        return envs.versus(len) if checkpoint.config.get("self_play") else envs  # rows as in training

    trainer = load_trainer(checkpoint, make_envs, "cpu")
    trainer.close()
    policy = trainer.policy
    if device == "cpu":
        return policy
    return {name: own.to(device) for name, own in policy.items()} if isinstance(policy, dict) else policy.to(device)


def _trained_on(checkpoint: Checkpoint) -> str | None:
    """The name of the env that a checkpoint was trained on, if its files say it."""
    return checkpoint.config.get("env") or _stored(checkpoint)["env_id"]


def _code_of(checkpoint: Checkpoint) -> list[str]:
    """What the files of a checkpoint name that would be imported or called to make its env: they may be anyone's."""
    name = _trained_on(checkpoint) or ""
    return [*([name] if _imports(name) else []), *names_of_code(checkpoint.config.get("kwargs", {}))]


def _imports(name: str) -> bool:
    """Whether finding the env of this name imports something: module:Class, module:Id-v0, file.py:Class, file.py."""
    return name.endswith(".py") or (imports_code(name) and not name.startswith(f"{NAMESPACE}:"))


def _stored(checkpoint: Checkpoint) -> dict[str, Any]:
    from vecenv.trainers._trainer import read_checkpoint

    return read_checkpoint(checkpoint.path)
